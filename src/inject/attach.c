// SPDX-License-Identifier: BSD-2-Clause
/*
 * The way into a process that runs. All threads are stopped (threads.c). System calls of the first
 * one map the engine as in a new program (install.c), and beside it a stack for each thread with
 * the thread's registers and signal mask (struct engine_start). Then all are sent to
 * engine_attach() and let go. There the engine asks the kernel for that part of a thread's state
 * which only the thread itself can read, such as its alternate signal stack.
 *
 * 1. Until all threads are stopped and everything is in place, only the thread that maps has its
 *    registers changed.
 * 2. That thread is killed if its tracer dies in this millisecond or two, because its registers are
 *    not the program's. So the tracer is a process of its own (apart.h), which finishes the work if
 *    we are killed; the engine then finds that there is no host.
 * 3. A restartable sequence that a thread was in is aborted, as the kernel does when it takes the
 *    processor away.
 */
#include "inject/attach.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "inject/apart.h"
#include "inject/inject_parts.h"
#include "inject/threads.h"

enum {
	FLAGS_INITIAL = 0x202,
	CODE_64 = 0x33, /* the code segment of 64-bit programs */
};

/* As the kernel has it (linux/rseq.h). */
struct rseq_sequence {
	uint32_t version, flags;
	uint64_t start, length, abort;
};
enum { RSEQ_SEQUENCE_OFFSET = 8 };

/* --- Whether ----------------------------------------------------------------------------- */

static char state_of(pid_t pid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/status", (int)pid);
	AUTO(close_file) FILE *file = fopen(path, "re");
	char line[256], state = 0;

	while (file && !state && fgets(line, sizeof(line), file))
		sscanf(line, "State:\t%c", &state);
	return state;
}

static bool has_engine(pid_t pid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/maps", (int)pid);
	AUTO(close_file) FILE *file = fopen(path, "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "/memfd:assay "))
			return true;
	return false;
}

static int state_check(pid_t pid)
{
	switch (state_of(pid)) {
	case 0:
		return err_set(-ESRCH, "there is no process %d", (int)pid);
	case 'Z':
	case 'X':
		return err_set(-ESRCH,
			       "process %d has ended, or its first thread has; the engine "
			       "needs it",
			       (int)pid);
	case 'T':
		return err_set(-EBUSY, "process %d is stopped; continue it first (kill -CONT %d)",
			       (int)pid, (int)pid);
	default:
		return 0;
	}
}

static int process_check(const struct inject *inject, pid_t pid)
{
	struct remote remote = { .tid = pid };
	int tracer, err = state_check(pid);

	if (err)
		return err;
	if ((pid_t)task_status(pid, pid, "Tgid", 10) != pid)
		return err_set(-EINVAL, "%d is a thread of process %d; attach to that", (int)pid,
			       (int)task_status(pid, pid, "Tgid", 10));
	if (pid == getpid() || pid == inject_host(inject))
		return err_set(-EINVAL, "cannot attach to this process itself");
	tracer = (int)task_status(pid, pid, "TracerPid", 10);
	if (tracer)
		return err_set(-EBUSY, "process %d traces process %d already; end that first",
			       tracer, (int)pid);
	if (!task_status(pid, pid, "VmSize", 10))
		return err_set(-EINVAL, "process %d is a thread of the kernel", (int)pid);
	if (has_engine(pid))
		return err_set(-EBUSY, "process %d has an engine already, of another assay trace",
			       (int)pid);
	if (task_status(pid, pid, "Seccomp", 10) == 1)
		return err_set(-EPERM,
			       "process %d may do hardly any system call (seccomp's strict "
			       "mode), which the engine needs",
			       (int)pid);
	err = inject_filters_check(inject, &remote);
	return err ? err : inject_room_check(inject, &remote);
}

/* --- Registers --------------------------------------------------------------------------- */

static int task_stopped(struct threads *threads, struct task *task, int status)
{
	int err = remote_registers_get(&task->remote);

	if (err)
		return err;
	if (task->remote.registers.cs != CODE_64)
		return err_set(-ENOEXEC, "thread %d of process %d does not run 64-bit code",
			       (int)task->tid, (int)threads->pid);
	if (task_has_signal(threads->pid, task->tid))
		task_resume(threads, task, 0);
	else
		task->done = true;
	return 0;
}

static void rseq_get(const struct task *task, struct engine_start *start)
{
	struct __ptrace_rseq_configuration rseq = {};

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, task->tid, sizeof(rseq), &rseq) !=
	    (long)sizeof(rseq))
		return;
	start->rseq = rseq.rseq_abi_pointer;
	start->rseq_size = rseq.rseq_abi_size;
	start->rseq_signature = rseq.signature;
}

static void rseq_abort(pid_t pid, struct engine_start *start)
{
	struct rseq_sequence sequence;
	uint64_t at = 0;

	if (!start->rseq || remote_read(pid, start->rseq + RSEQ_SEQUENCE_OFFSET, &at, sizeof(at)) ||
	    !at || remote_read(pid, at, &sequence, sizeof(sequence)))
		return;
	if (start->registers.rip - sequence.start < sequence.length)
		start->registers.rip = sequence.abort;
}

static struct engine_start start_make(pid_t pid, struct task *task)
{
	struct engine_start start = { .mask = task->remote.mask };

	start.registers = inject_registers(&task->remote.registers);
	rseq_get(task, &start);
	rseq_abort(pid, &start);
	return start;
}

/* --- Taking ------------------------------------------------------------------------------ */

/* What is needed to send the threads into the engine. */
struct entrance {
	uint64_t address; /* of the engine */
	uint64_t starts; /* for each thread ENGINE_START_SIZE bytes */
	struct inject_places places;
};

static uint64_t start_place(const struct entrance *entrance, size_t index)
{
	return entrance->starts + (index + 1) * ENGINE_START_SIZE - sizeof(struct engine_start);
}

static int starts_write(struct threads *threads, const struct entrance *entrance)
{
	struct engine_boot boot;
	uint64_t at = entrance->address + entrance->places.boot;
	int err = remote_read(threads->pid, at, &boot, sizeof(boot));

	boot.starts = entrance->starts;
	boot.starts_size = threads->tasks.count * ENGINE_START_SIZE;
	err = err ? err : remote_write(threads->pid, at, &boot, sizeof(boot));
	for (size_t i = 0; i < threads->tasks.count && !err; i++) {
		struct engine_start start = start_make(threads->pid, &threads->tasks.items[i]);

		err = remote_write(threads->pid, start_place(entrance, i), &start, sizeof(start));
	}
	return err;
}

static int starts_map(struct remote *remote, size_t count, uint64_t *ret)
{
	return inject_call(remote, "map memory", SYS_mmap,
			   (uint64_t[6]){ 0, count * ENGINE_START_SIZE, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~0ull },
			   ret);
}

/*
 * Maps the engine and the stacks by system calls of one thread, whose registers are its own again
 * afterwards.
 */
static int entrance_make(struct inject *inject, struct threads *threads, struct remote *remote,
			 struct entrance *ret)
{
	int err = inject_install(inject, remote, &ret->address);

	if (err)
		return err;
	ret->places = inject_places(inject);
	err = starts_map(remote, threads->tasks.count, &ret->starts);
	err = err ? err : starts_write(threads, ret);
	if (err)
		inject_remove(inject, remote, ret->address);
	return err;
}

static void tasks_send(struct threads *threads, const struct entrance *entrance)
{
	for (size_t i = 0; i < threads->tasks.count; i++) {
		struct remote *remote = &threads->tasks.items[i].remote;
		struct user_regs_struct registers = remote->registers;

		registers.rip = entrance->address + entrance->places.attach;
		registers.rdi = entrance->address + entrance->places.boot;
		registers.rsi = start_place(entrance, i);
		registers.rsp = (registers.rsi & ~15ull) - 8; /* as after a call */
		registers.rbp = 0;
		registers.eflags = FLAGS_INITIAL;
		registers.orig_rax = ~0ull;
		remote_registers_set(remote, &registers);
	}
}

static int signals_block(struct threads *threads)
{
	int err = 0;

	array_each(&threads->tasks, task)
		err = err ? err : remote_init_running(&task->remote);
	return err;
}

static void tasks_restore(struct threads *threads)
{
	array_each(&threads->tasks, task) {
		if (task->remote.blocked)
			remote_abandon(&task->remote);
	}
}

static struct task *leader_of(struct threads *threads)
{
	array_each(&threads->tasks, task)
		if (task->tid == threads->pid)
			return task;
	return NULL;
}

static int threads_take(struct inject *inject, struct threads *threads)
{
	struct entrance entrance = {};
	struct task *leader = leader_of(threads);
	int err = leader ? signals_block(threads)
			 : err_set(-ESRCH, "the first thread of process %d has ended",
				   (int)threads->pid);

	if (err)
		return err;
	array_each(&threads->tasks, task)
		task_settle(&task->remote.registers);
	ptrace(PTRACE_SETOPTIONS, leader->tid, NULL, TASK_OPTIONS | PTRACE_O_EXITKILL);
	err = entrance_make(inject, threads, &leader->remote, &entrance);
	if (!err)
		tasks_send(threads, &entrance);
	ptrace(PTRACE_SETOPTIONS, leader->tid, NULL, TASK_OPTIONS);
	return err;
}

static int process_take(struct inject *inject, pid_t pid)
{
	struct threads threads = { .pid = pid, .request = PTRACE_CONT };
	int err = process_check(inject, pid);

	if (err)
		return err;
	err = threads_collect(&threads, task_stopped);
	err = err ? err : threads_take(inject, &threads);
	if (err)
		tasks_restore(&threads);
	threads_deinit(&threads);
	return err;
}

struct taking {
	struct inject *inject;
	pid_t pid;
};

static int taking_run(void *ctx)
{
	const struct taking *taking = ctx;

	return process_take(taking->inject, taking->pid);
}

int attach_take(struct inject *inject, pid_t pid)
{
	struct taking taking = { inject, pid };
	struct memory *memory;
	int err = inject_memory_make(inject, pid, &memory);

	if (err)
		return err;
	err = apart_run(taking_run, &taking);
	if (err)
		__atomic_store_n(&memory->ended, true, __ATOMIC_RELEASE);
	return err;
}
