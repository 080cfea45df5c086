// SPDX-License-Identifier: BSD-2-Clause
/*
 * Takes the engine out of processes. Every process that has our public memory mapped has the
 * engine: the one that was attached to, and those that it has forked.
 *
 * In each of them the host sets `leaving` and attaches to all threads. What has to be done to a
 * thread depends on where it has stopped:
 *
 *	in the program's system call	the call is called off and will be done again, by the
 *					program itself
 *	elsewhere in the engine		nothing: it comes to attach_check() by itself and parks
 *	in the cache, or native		it is sent to engine_release() on memory that it maps for
 *					that, and parks
 *
 * A parked thread has stored the program's registers (struct engine_parked). When all have parked,
 * one of them restores the handlers of the process; then all get their registers and masks, the
 * engine is unmapped, and they are let go.
 *
 * 1. No thread runs the program's own code before the handlers are the program's own again.
 * 2. Memory is unmapped when no thread is in it and no other process shares it.
 * 3. The thread that unmaps is killed if its tracer dies meanwhile: its registers are not its own.
 *    So the tracer is a process of its own (apart.h).
 * 4. A process that cannot be given back goes on in the engine: `leaving` is cleared.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "inject/apart.h"
#include "inject/attach.h"
#include "inject/image.h"
#include "inject/inject_parts.h"
#include "inject/threads.h"

enum {
	MASK_SIZE = 8,
	CODE_64 = 0x33, /* the code segment of 64-bit programs */
	FLAG_TRAP = 0x100,
	FLAGS_INITIAL = 0x202,
	SYSCALL_STOP = SIGTRAP | 0x80,
};

static const uint64_t patience = 20000000000;
static const uint64_t share_patience = 2000000000; /* how long we wait for a vfork to end */
static const long scan_pause = 5000000;

/* A process that has the engine. */
struct guest {
	pid_t pid;
	uint64_t address; /* of the engine */
	uint64_t boot_address;
	struct engine_boot boot;
	struct inject_places places;
	uint64_t session;
};

static void folder_close(DIR **folder)
{
	if (*folder)
		closedir(*folder);
}

/* --- Threads ----------------------------------------------------------------------------- */

static bool is_within(uint64_t at, uint64_t start, uint64_t end)
{
	return at >= start && at < end;
}

/*
 * Whether the thread is in a system call of the program that was not begun, or will be restarted.
 */
static bool is_in_call(const struct guest *guest, const struct user_regs_struct *registers)
{
	const struct engine_places *places = &guest->boot.places;

	return is_within(registers->rip, places->call_start, places->call_insn + 1) ||
	       (registers->rip == places->call_done && task_is_interrupted(registers));
}

/* The program's rax is the first word of the engine's thread structure, to which gs points. */
static int call_off(struct threads *threads, struct task *task)
{
	const struct guest *guest = threads->context;
	struct user_regs_struct registers = task->remote.registers;
	bool interrupted = task_is_interrupted(&registers);
	uint64_t number = interrupted ? task_again_number(&registers) : registers.rax;
	int err = 0;

	if (interrupted || registers.rip == guest->boot.places.call_insn)
		err = remote_write(threads->pid, registers.gs_base, &number, sizeof(number));
	/* A mask that the call has set for its duration is not in force any more. */
	ptrace(PTRACE_GETSIGMASK, task->tid, (void *)MASK_SIZE, &task->remote.mask);
	ptrace(PTRACE_SETSIGMASK, task->tid, (void *)MASK_SIZE, &task->remote.mask);
	registers.rax = (unsigned long long)ENGINE_CALL_OFF;
	registers.rip = guest->boot.places.call_done;
	registers.orig_rax = ~0ull;
	err = err ? err : remote_registers_set(&task->remote, &registers);
	if (!err)
		task_resume(threads, task, 0);
	return err;
}

static int area_map(struct task *task)
{
	if (task->area)
		return 0;
	return inject_call(&task->remote, "map memory", SYS_mmap,
			   (uint64_t[6]){ 0, ENGINE_PARKED_SIZE, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~0ull },
			   &task->area);
}

static int task_send(struct threads *threads, struct task *task)
{
	const struct guest *guest = threads->context;
	uint64_t at;
	struct user_regs_struct registers;
	int err = remote_init_running(&task->remote);

	if (err)
		return err;
	task_settle(&task->remote.registers);
	registers = task->remote.registers;
	err = area_map(task);
	at = task->area + ENGINE_PARKED_SIZE - sizeof(task->parked);
	task->parked = (struct engine_parked){ .registers = inject_registers(&registers),
					       .mask = task->remote.mask };
	err = err ? err : remote_write(threads->pid, at, &task->parked, sizeof(task->parked));
	registers.rip = guest->boot.places.release;
	registers.rdi = at;
	registers.rsp = (at & ~15ull) - 8;
	registers.rbp = 0;
	registers.eflags = FLAGS_INITIAL;
	err = err ? err : remote_registers_set(&task->remote, &registers);
	if (!err)
		task_resume(threads, task, 0);
	return err;
}

/* False in 32-bit code and while the program single-steps itself; both are over soon. */
static bool is_usual(const struct user_regs_struct *registers)
{
	return registers->cs == CODE_64 && !(registers->eflags & FLAG_TRAP);
}

static int task_interrupted(struct threads *threads, struct task *task)
{
	const struct guest *guest = threads->context;
	const struct user_regs_struct *registers = &task->remote.registers;
	const struct engine_places *places = &guest->boot.places;
	struct remote now = { .tid = task->tid };
	int err = remote_registers_get(&now);

	if (err)
		return err;
	/*
	 * The thread is on its way to park: the registers and the mask from its first stop must be
	 * kept.
	 */
	if (task->remote.blocked) {
		task_resume(threads, task, 0);
		return 0;
	}
	task->remote.registers = now.registers;
	if (task_has_signal(threads->pid, task->tid) || !is_usual(registers))
		task_resume(threads, task, 0);
	else if (is_in_call(guest, registers))
		return call_off(threads, task);
	else if (is_within(registers->rip, guest->address,
			   guest->address + guest->places.code_size) &&
		 !is_within(registers->rip, places->resume_start, places->resume_end))
		task_resume(threads, task, 0);
	else
		return task_send(threads, task);
	return 0;
}

/*
 * The thread could not leave where it was stopped, because the program's registers are not complete
 * there. It goes on for a moment.
 */
static int task_return(struct threads *threads, struct task *task)
{
	int err = remote_registers_set(&task->remote, &task->remote.registers);

	ptrace(PTRACE_SETSIGMASK, task->tid, (void *)MASK_SIZE, &task->remote.mask);
	task->remote.blocked = false;
	if (!err)
		task_resume(threads, task, 0);
	return err;
}

/*
 * The thread is at the entry of the system call by which it says that it has parked; only at the
 * exit can registers be set.
 */
static int task_parked(struct threads *threads, struct task *task,
		       const struct user_regs_struct *registers)
{
	int status = 0, err;

	task->parked_at = registers->rsi;
	err = remote_read(threads->pid, task->parked_at, &task->parked, sizeof(task->parked));
	if (err)
		return err;
	do {
		if (ptrace(PTRACE_SYSCALL, task->tid, NULL, NULL) ||
		    remote_look(task->tid, true, &status) != REMOTE_STOPPED)
			return err_set(-ESRCH, "process %d has ended", (int)threads->pid);
		remote_see(task->tid);
	} while (status >> 16 || WSTOPSIG(status) != SYSCALL_STOP);
	if (task->parked.again)
		return task_return(threads, task);
	task->done = true;
	return 0;
}

static int task_stopped(struct threads *threads, struct task *task, int status)
{
	const struct guest *guest = threads->context;
	struct remote now = { .tid = task->tid };
	int err;

	if (status >> 16)
		return task_interrupted(threads, task);
	err = remote_registers_get(&now);
	if (err)
		return err;
	if (now.registers.orig_rax == ~0ull && now.registers.rdi == guest->session)
		return task_parked(threads, task, &now.registers);
	/* The stop at the end of a call takes the place of the one that was asked for. */
	if (is_in_call(guest, &now.registers))
		return task_interrupted(threads, task);
	task_resume(threads, task, 0);
	return 0;
}

/* --- Leaving ----------------------------------------------------------------------------- */

static struct user_regs_struct registers_make(const struct user_regs_struct *now,
					      const struct engine_registers *from)
{
	struct user_regs_struct to = *now; /* segments, and the base of fs */
	const wire_u64 *general = from->general;

	to.rax = general[0];
	to.rcx = general[1];
	to.rdx = general[2];
	to.rbx = general[3];
	to.rsp = general[4];
	to.rbp = general[5];
	to.rsi = general[6];
	to.rdi = general[7];
	to.r8 = general[8];
	to.r9 = general[9];
	to.r10 = general[10];
	to.r11 = general[11];
	to.r12 = general[12];
	to.r13 = general[13];
	to.r14 = general[14];
	to.r15 = general[15];
	to.rip = from->rip;
	to.eflags = from->rflags;
	to.gs_base = from->gs_base;
	to.orig_rax = ~0ull;
	return to;
}

static int task_restore(struct task *task)
{
	int err = remote_registers_get(&task->remote);

	if (err)
		return err;
	task->remote.registers = registers_make(&task->remote.registers, &task->parked.registers);
	task->remote.mask = task->parked.mask;
	err = remote_registers_set(&task->remote, &task->remote.registers);
	if (!err)
		ptrace(PTRACE_SETSIGMASK, task->tid, (void *)MASK_SIZE, &task->remote.mask);
	return err;
}

/* The last thread restores the signal handlers of the process and parks again. */
static int handlers_restore(struct threads *threads, struct task *last)
{
	const uint32_t finish = 1;
	uint64_t end = clock_monotonic() + patience;
	int err = remote_write(threads->pid,
			       last->parked_at + offsetof(struct engine_parked, finish), &finish,
			       sizeof(finish));

	last->done = false;
	task_resume(threads, last, 0);
	while (!err && !last->done && clock_monotonic() < end) {
		int status = 0;

		if (remote_look(last->tid, true, &status) != REMOTE_STOPPED)
			return err_set(-ESRCH, "process %d has ended", (int)threads->pid);
		remote_see(last->tid);
		if (status >> 16 == 0 && WSTOPSIG(status) == SYSCALL_STOP)
			err = task_stopped(threads, last, status);
		else
			task_resume(threads, last, 0);
	}
	return err;
}

static void unmap(struct remote *remote, uint64_t start, uint64_t size)
{
	int64_t ignored;

	remote_call(remote, SYS_munmap, (uint64_t[6]){ start, size }, &ignored);
}

static int engine_unmap(const struct guest *guest, struct threads *threads, struct remote *remote)
{
	AUTO(free_ptr) struct engine_mappings *mappings = mem_zalloc(sizeof(*mappings));
	int err = remote_read(guest->pid, guest->boot.places.mappings, mappings, sizeof(*mappings));

	if (err)
		return err;
	for (size_t i = 0; i < mappings->count && i < ENGINE_MAPPINGS; i++)
		unmap(remote, mappings->items[i].start, mappings->items[i].size);
	array_each(&threads->tasks, task)
		if (task->area)
			unmap(remote, task->area, ENGINE_PARKED_SIZE);
	unmap(remote, guest->address, guest->places.size);
	return 0;
}

/* Whether another process has the same memory. */
static bool is_shared(const struct guest *guest)
{
	AUTO(folder_close) DIR *folder = opendir("/proc");
	struct dirent *entry;
	pid_t pid;

	while (folder && (entry = readdir(folder))) {
		pid = (pid_t)strtoul(entry->d_name, NULL, 10);
		if (pid > 0 && pid != guest->pid &&
		    !syscall(SYS_kcmp, guest->pid, pid, KCMP_VM, 0, 0))
			return true;
	}
	return false;
}

static int threads_leave(struct guest *guest, struct threads *threads)
{
	struct task *last = &threads->tasks.items[threads->tasks.count - 1];
	int err = handlers_restore(threads, last);

	array_each(&threads->tasks, task)
		err = err ? err : task_restore(task);
	if (err || is_shared(guest))
		return err;
	ptrace(PTRACE_SETOPTIONS, last->tid, NULL, TASK_OPTIONS | PTRACE_O_EXITKILL);
	err = remote_init_running(&last->remote);
	err = err ? err : engine_unmap(guest, threads, &last->remote);
	err = err ? err : task_restore(last);
	ptrace(PTRACE_SETOPTIONS, last->tid, NULL, TASK_OPTIONS);
	return err;
}

/*
 * Writes `leaving` and our pid: threads that have parked check that we are alive, since only we can
 * release them.
 */
static int leaving_set(struct guest *guest, uint64_t leaving)
{
	uint64_t taker = (uint64_t)getpid();
	int err = remote_write(guest->pid,
			       guest->boot_address + offsetof(struct engine_boot, taker), &taker,
			       sizeof(taker));

	return err ? err
		   : remote_write(guest->pid,
				  guest->boot_address + offsetof(struct engine_boot, leaving),
				  &leaving, sizeof(leaving));
}

/* Reads engine_boot, which the engine completes as soon as it runs. */
static int boot_read(struct guest *guest)
{
	const struct timespec moment = { .tv_nsec = scan_pause };
	uint64_t end = clock_monotonic() + patience;
	int err;

	do {
		err = remote_read(guest->pid, guest->boot_address, &guest->boot,
				  sizeof(guest->boot));
		if (!err && guest->boot.session != guest->session)
			err = err_set(-ESRCH, "process %d is none of ours", (int)guest->pid);
		if (err || guest->boot.places.release)
			return err;
		nanosleep(&moment, NULL);
	} while (clock_monotonic() < end);
	return err_set(-ETIMEDOUT, "the engine in process %d does not begin", (int)guest->pid);
}

static int guest_release(struct guest *guest, uint64_t leaving)
{
	struct threads threads = { .pid = guest->pid, .request = PTRACE_SYSCALL, .context = guest };
	int err = boot_read(guest);

	err = err ? err : leaving_set(guest, leaving);
	if (err)
		return err;
	err = threads_collect(&threads, task_stopped);
	if (!err)
		err = threads_leave(guest, &threads);
	else if (err != -ESRCH)
		leaving_set(guest, 0);
	threads_deinit(&threads);
	return err;
}

/* --- Processes --------------------------------------------------------------------------- */

bool inject_mapping_find(pid_t pid, const char *name, uint64_t inode, struct inject_mapping *ret)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/maps", (int)pid);
	AUTO(free_ptr) char *wanted = mem_printf("/memfd:%s ", name);
	AUTO(close_file) FILE *file = fopen(path, "re");
	char line[512];
	unsigned long start, end, offset, number;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx %*s %lx %*x:%*x %lu", &start, &end, &offset, &number) !=
			    4 ||
		    offset || (inode && number != inode) || !strstr(line, wanted))
			continue;
		*ret = (struct inject_mapping){ start, end, number };
		return true;
	}
	return false;
}

/* Finds the public memory, with this inode or with any (0), among a process's mappings. */
static bool public_find(pid_t pid, uint64_t inode, struct inject_mapping *ret)
{
	return inject_mapping_find(pid, "assay", inode, ret);
}

/* The address of the shared memory, which follows from the size of its public part. */
static uint64_t shared_of(const struct inject_mapping *mapping)
{
	uint64_t size = mapping->end - mapping->start;
	bool records = size > stream_public_size(STREAM_ALONE_SIZE);

	return mapping->start - stream_public_at(records ? STREAM_SLOTS : STREAM_ALONE_SIZE);
}

struct guests {
	struct guest *items;
	size_t count;
	size_t capacity;
};

static int guests_find(const struct inject *inject, struct guests *guests)
{
	AUTO(folder_close) DIR *folder = opendir("/proc");
	const struct inject_places places = inject_places(inject);
	struct inject_mapping mapping;
	struct dirent *entry;
	struct stat memory;
	uint64_t shared;

	guests->count = 0;
	if (!folder || fstat(inject_public_file(inject), &memory))
		return err_set(-errno, "cannot look for processes: %s", strerror(errno));
	while ((entry = readdir(folder))) {
		pid_t pid = (pid_t)strtoul(entry->d_name, NULL, 10);

		if (pid <= 0 || pid == getpid() || pid == inject_host(inject) ||
		    !public_find(pid, memory.st_ino, &mapping))
			continue;
		shared = shared_of(&mapping);
		*array_push(guests) = (struct guest){
			.pid = pid,
			.address = shared - places.shared,
			.boot_address = shared - places.shared + places.boot,
			.places = places,
			.session = inject_session(inject),
		};
	}
	return 0;
}

/*
 * Whether the process still runs in its parent's memory (vfork); the parent waits for that to end.
 */
static bool is_borrower(const struct guest *guest)
{
	pid_t parent = (pid_t)task_status(guest->pid, guest->pid, "PPid", 10);

	return parent > 0 && !syscall(SYS_kcmp, guest->pid, parent, KCMP_VM, 0, 0);
}

/* Whether the process has ended or executes another program. */
static bool has_gone(const struct inject *inject, const struct guest *guest)
{
	struct inject_mapping mapping;
	struct stat memory;

	return !fstat(inject_public_file(inject), &memory) &&
	       !public_find(guest->pid, memory.st_ino, &mapping);
}

/*
 * One round. Children of vfork are left out at first, because they soon leave their parent's
 * memory; `late` takes them as well.
 */
static int guests_release(const struct inject *inject, struct guests *guests, bool late)
{
	int err = guests_find(inject, guests), first = 0;

	for (size_t i = 0; i < guests->count && !err; i++) {
		int failed;

		if (!late && is_borrower(&guests->items[i]))
			continue;
		failed = guest_release(&guests->items[i], late ? 2 : 1);
		if (failed && failed != -ESRCH && failed != -EAGAIN &&
		    !has_gone(inject, &guests->items[i]) && !first)
			first = failed;
	}
	return err ? err : first;
}

/*
 * Notes the memory that threads have parked on, which is unmapped together with the engine's own.
 * All threads are parked, so that no other thread writes the list.
 */
static int areas_note(const struct guest *guest, const struct threads *threads)
{
	AUTO(free_ptr) struct engine_mappings *mappings = mem_zalloc(sizeof(*mappings));
	int err = remote_read(guest->pid, guest->boot.places.mappings, mappings, sizeof(*mappings));

	if (err)
		return err;
	array_each(&threads->tasks, task)
		if (task->area && mappings->count < ENGINE_MAPPINGS)
			mappings->items[mappings->count++] =
				(struct engine_mapping){ task->area, ENGINE_PARKED_SIZE };
	return remote_write(guest->pid, guest->boot.places.mappings, mappings, sizeof(*mappings));
}

/* All threads park and are released again, as those of a process that cannot be given back. */
static int guest_poke(struct guest *guest)
{
	struct threads threads = { .pid = guest->pid, .request = PTRACE_SYSCALL, .context = guest };
	int err = boot_read(guest);

	err = err ? err : leaving_set(guest, 1);
	if (err)
		return err;
	err = threads_collect(&threads, task_stopped);
	err = err ? err : areas_note(guest, &threads);
	if (err != -ESRCH)
		leaving_set(guest, 0);
	threads_deinit(&threads);
	return err;
}

struct poking {
	struct inject *inject;
	pid_t pid;
};

static int poking_run(void *ctx)
{
	const struct poking *poking = ctx;
	struct guests guests = {};
	int err = guests_find(poking->inject, &guests), done = -ESRCH;

	for (size_t i = 0; i < guests.count && !err; i++)
		if (guests.items[i].pid == poking->pid && !is_borrower(&guests.items[i]))
			done = guest_poke(&guests.items[i]);
	array_deinit(&guests);
	return err ? err : done;
}

int attach_poke(struct inject *inject, pid_t pid)
{
	struct poking poking = { inject, pid };

	return apart_run(poking_run, &poking);
}

static int guests_give_back(void *ctx)
{
	struct inject *inject = ctx;
	const struct timespec moment = { .tv_nsec = scan_pause };
	struct guests guests = {};
	uint64_t start = clock_monotonic();
	bool late;
	int err;

	do {
		late = clock_monotonic() - start > share_patience;
		err = guests_release(inject, &guests, late);
		if (!err && guests.count)
			nanosleep(&moment, NULL);
	} while (!err && guests.count && !late);
	array_deinit(&guests);
	return err;
}

int attach_give_back(struct inject *inject)
{
	int err = apart_run(guests_give_back, inject);

	inject_close(inject);
	return err;
}

/* --- A process whose host is gone ----------------------------------------------------------- */

static int boot_check(struct guest *guest, uint64_t inode)
{
	struct inject_mapping found;
	pid_t host;
	int err = remote_read(guest->pid, guest->boot_address, &guest->boot, sizeof(guest->boot));

	if (err)
		return err;
	if (guest->boot.version != ENGINE_BOOT_VERSION || guest->boot.image_start != guest->address)
		return err_set(-EPROTO,
			       "the engine in process %d is of another version of assay; release "
			       "it with that one",
			       (int)guest->pid);
	host = (pid_t)guest->boot.host_pid;
	if (host > 0 && public_find(host, inode, &found))
		return err_set(-EBUSY,
			       "process %d is traced by process %d, which is alive; interrupt that "
			       "(kill -INT %d)",
			       (int)guest->pid, (int)host, (int)host);
	guest->session = guest->boot.session;
	return 0;
}

struct releasing {
	const struct inject *inject;
	pid_t pid;
};

static int releasing_run(void *ctx)
{
	const struct releasing *releasing = ctx;
	const struct inject *inject = releasing->inject;
	pid_t pid = releasing->pid;
	struct guest guest = { .pid = pid, .places = inject_places(inject) };
	struct inject_mapping mapping;
	int err;

	if (kill(pid, 0) && errno == ESRCH)
		return err_set(-ESRCH, "there is no process %d", (int)pid);
	if (!public_find(pid, 0, &mapping))
		return err_set(-ESRCH,
			       "process %d has no engine that could be released, or belongs to "
			       "another user",
			       (int)pid);
	guest.address = shared_of(&mapping) - guest.places.shared;
	guest.boot_address = guest.address + guest.places.boot;
	err = boot_check(&guest, mapping.inode);
	if (err)
		return err;
	guest.places.size = guest.boot.image_size;
	return guest_release(&guest, 1);
}

int attach_release(const struct inject *inject, pid_t pid)
{
	struct releasing releasing = { inject, pid };

	return apart_run(releasing_run, &releasing);
}
