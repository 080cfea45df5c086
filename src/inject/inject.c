// SPDX-License-Identifier: BSD-2-Clause
/*
 * The way in. The process is stopped at PTRACE_EVENT_EXEC, when the kernel has mapped the program and its interpreter and has
 * not run an instruction of them. In its name memory is mapped:
 *
 *	address		the image: engine and decoder, pages protected as their segments say
 *	boot		struct engine_boot, a page
 *	(a page)	not accessible: below it a stack that grows too far ends
 *	stack		of the first thread
 *	shared		aligned to STREAM_CHUNK, as is the whole: the mailbox and, if the tool records, its slots: the same memory as the host's
 *
 * The image is written from outside, then protected; then the thread goes on at engine_entry and the tracer lets go.
 *
 * The address is chosen at random once for all processes, so that all of it lies between 0x7e80'0000'0000 and
 * 0x7eff'0000'0000: below where the kernel puts libraries and stacks, so that the addresses that a program sees are its usual
 * ones; and in the part of the address space that the sanitizers (address, memory, thread) leave to programs. If it is taken,
 * the kernel chooses. Where the user has turned randomisation off, the address is always the same.
 *
 * 1. No memory of the program is written.
 * 2. Either everything is in place, or the program goes on as if nothing had been tried.
 * 3. While the registers are not the program's, the death of the host kills the process (EXITKILL): the alternative
 *    would be a program that goes on with somebody else's registers. At all other times it survives.
 */
#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/mem.h"
#include "inject/image.h"
#include "inject/inject_parts.h"
#include "inject/remote.h"
#include "wire/stream.h"

enum { FLAGS_INITIAL = 0x202 };

static const uint64_t address_low = 0x7e8000000000;
static const uint64_t address_range = 0x007f00000000;
static const long held_options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

/* Offsets from the start of what is mapped. */
struct layout {
	uint64_t boot;
	uint64_t guard;
	uint64_t stack;
	uint64_t shared;
	uint64_t size;
};

struct inject {
	struct image *image;
	struct layout layout;
	uint64_t address;
	enum engine_tool tool;
	unsigned flags;
	uint64_t cache_bytes;
	uint64_t session;
	unsigned filters; /* seccomp filters that we have ourselves */
	int memory; /* of the shared memory */
	sigset_t mask;
	struct engine_shared *shared;
	uint64_t shared_size;
};

/* Columns: tool, bytes of a slot beside its ring for each run. */
#define RECORDING_TOOLS(X)                                                                         \
	X(COUNT, sizeof(wire_u64))                                                                 \
	X(BLOCKS, 0)                                                                               \
	X(PATHS, 0)                                                                                \
	X(COVERAGE, sizeof(wire_u8))

/* 0: the tool records nothing. */
static uint64_t slot_bytes(enum engine_tool tool)
{
	switch (tool) {
#define X(name, bytes)                                                                             \
	case ENGINE_TOOL_##name:                                                                   \
		return STREAM_COUNTS_OFFSET + (uint64_t)STREAM_RUNS_MAX * (bytes);
		RECORDING_TOOLS(X)
#undef X
	default:
		return 0;
	}
}

/* Rings end where the low bits of an address are 0: inline code looks at nothing else. */
static uint64_t round_up(uint64_t value)
{
	return (value + STREAM_CHUNK - 1) & ~(uint64_t)(STREAM_CHUNK - 1);
}

static struct layout layout_make(const struct image *image, uint64_t shared_size)
{
	struct layout layout = { .boot = image->size };

	layout.shared = round_up(layout.boot + 2 * IMAGE_PAGE + ENGINE_STACK_SIZE);
	layout.stack = layout.shared - ENGINE_STACK_SIZE;
	layout.guard = layout.stack - IMAGE_PAGE;
	layout.size = layout.shared + shared_size;
	return layout;
}

/* With privileges of its own a tracer would be obeyed where its user would not. */
static int privileges_drop(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

	if (!getauxval(AT_SECURE))
		return 0;
	if (setresgid(getgid(), getgid(), getgid()) || setresuid(getuid(), getuid(), getuid()) ||
	    syscall(SYS_capset, &header, none) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
		return err_set(-errno, "cannot give up the privileges of this binary: %s",
			       strerror(errno));
	return 0;
}

static void area_init(struct engine_shared *shared, uint64_t bytes)
{
	struct stream_area *area = (void *)((char *)shared + STREAM_AREA);

	area->version = STREAM_VERSION;
	area->slot_count = STREAM_SLOT_COUNT;
	area->slot_bytes = bytes;
	area->large = STREAM_LARGE_MAX;
}

/* A limit of the size of files (RLIMIT_FSIZE) holds for memory, too: it is lifted meanwhile. */
static int memory_resize(int memory, uint64_t size)
{
	struct rlimit old, lifted;
	int err;

	if (getrlimit(RLIMIT_FSIZE, &old))
		return -errno;
	lifted = (struct rlimit){ size, old.rlim_max < size ? size : old.rlim_max };
	if (old.rlim_cur < size && setrlimit(RLIMIT_FSIZE, &lifted))
		return -EFBIG;
	err = ftruncate(memory, (off_t)size) ? -errno : 0;
	setrlimit(RLIMIT_FSIZE, &old);
	return err;
}

/* However large, it costs what is written to. */
static int shared_create(struct inject *inject)
{
	uint64_t bytes = slot_bytes(inject->tool);
	int err;

	inject->shared_size = bytes ? STREAM_SLOTS + STREAM_SLOT_COUNT * bytes : ENGINE_SHARED_SIZE;
	inject->memory = memfd_create("assay", MFD_CLOEXEC);
	err = inject->memory < 0 ? -errno : memory_resize(inject->memory, inject->shared_size);
	if (err == -EFBIG)
		return err_set(
			err,
			"cannot create shared memory: the limit of file sizes holds for it, too; "
			"lift it with 'ulimit -f unlimited'");
	if (err)
		return err_set(err, "cannot create shared memory: %s", strerror(-err));
	inject->shared = mmap(NULL, inject->shared_size, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_NORESERVE, inject->memory, 0);
	if (inject->shared == MAP_FAILED) {
		inject->shared = NULL;
		return err_set(-errno, "cannot map shared memory: %s", strerror(errno));
	}
	if (bytes)
		area_init(inject->shared, bytes);
	return 0;
}

static int numbers_choose(struct inject *inject)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_set(-errno, "no random numbers: %s", strerror(errno));
	inject->session = random[0];
	inject->address = address_low;
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE))
		inject->address += random[1] %
				   ((address_range - inject->layout.size) / STREAM_CHUNK) *
				   STREAM_CHUNK;
	return 0;
}

int inject_create(enum engine_tool tool, unsigned flags, struct inject **ret)
{
	AUTO(inject_destroy_auto) struct inject *inject = mem_zalloc(sizeof(*inject));
	struct program_user user = {};
	int err = privileges_drop();

	*inject = (struct inject){ .tool = tool, .flags = flags, .memory = -1 };
	sigprocmask(SIG_SETMASK, NULL, &inject->mask);
	err = err ? err : program_user_get(getpid(), &user);
	err = err ? err : shared_create(inject);
	err = err ? err : image_create_own(&inject->image);
	if (err)
		return err;
	inject->filters = user.filters;
	inject->layout = layout_make(inject->image, inject->shared_size);
	err = numbers_choose(inject);
	if (err)
		return err;
	image_place(inject->image, inject->address);
	*ret = take_ptr(inject);
	return 0;
}

void inject_destroy(struct inject *inject)
{
	if (!inject)
		return;
	if (inject->shared)
		munmap(inject->shared, inject->shared_size);
	close_fd(&inject->memory);
	image_destroy(inject->image);
	free(inject);
}

void inject_cache_limit(struct inject *inject, uint64_t bytes)
{
	inject->cache_bytes = bytes;
}

struct engine_shared *inject_shared(const struct inject *inject)
{
	return inject->shared;
}

uint64_t inject_shared_size(const struct inject *inject)
{
	return inject->shared_size;
}

uint64_t inject_session(const struct inject *inject)
{
	return inject->session;
}

uint64_t inject_address(const struct inject *inject)
{
	return inject->address;
}

struct inject_places inject_places(const struct inject *inject)
{
	return (struct inject_places){
		.attach = inject->image->attach,
		.code_size = inject->image->size,
		.boot = inject->layout.boot,
		.shared = inject->layout.shared,
		.size = inject->layout.size,
	};
}

int inject_memory(const struct inject *inject)
{
	return inject->memory;
}

const sigset_t *inject_mask(const struct inject *inject)
{
	return &inject->mask;
}

/* A system call that must not fail, in a process; what: for the message. */
int inject_call(struct remote *remote, const char *what, long number, const uint64_t arguments[6],
		uint64_t *ret)
{
	int64_t result = 0;
	int err = remote_call(remote, number, arguments, &result);

	if (err)
		return err;
	if (result < 0 && result > -4096)
		return err_set((int)result, "process %d cannot %s: %s", (int)remote->tid, what,
			       strerror((int)-result));
	if (ret)
		*ret = (uint64_t)result;
	return 0;
}

static void memory_unmap(struct remote *remote, uint64_t size, uint64_t address)
{
	int64_t ignored;

	remote_call(remote, SYS_munmap, (uint64_t[6]){ address, size }, &ignored);
}

static int memory_map(struct remote *remote, uint64_t size, uint64_t wanted, uint64_t *ret)
{
	uint64_t flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t protection = PROT_READ | PROT_WRITE;
	uint64_t place;
	uint64_t arguments[] = { wanted, size, protection, flags | MAP_FIXED_NOREPLACE, ~0ull, 0 };
	int err = inject_call(remote, "map memory", SYS_mmap, arguments, ret);

	if (err != -EEXIST)
		return err;
	arguments[0] = 0;
	arguments[1] = size + STREAM_CHUNK;
	arguments[3] = flags;
	err = inject_call(remote, "map memory", SYS_mmap, arguments, &place);
	if (err)
		return err;
	*ret = round_up(place);
	if (*ret > place)
		memory_unmap(remote, *ret - place, place);
	if (place + STREAM_CHUNK > *ret)
		memory_unmap(remote, place + STREAM_CHUNK - *ret, *ret + size);
	return 0;
}

/*
 * A message with one file, as the kernel has to find it in the process; it is written to where the stack will be. The host's
 * copy is only there to be measured and filled in.
 */
struct parcel {
	int pair[2];
	char byte;
	struct iovec area;
	struct msghdr message;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

static struct msghdr parcel_message(struct parcel *parcel, uint64_t at)
{
	uint64_t start = at ? at : (uint64_t)parcel;

	parcel->area = (struct iovec){ (void *)(start + offsetof(struct parcel, byte)), 1 };
	return (struct msghdr){
		.msg_iov = (void *)(start + offsetof(struct parcel, area)),
		.msg_iovlen = 1,
		.msg_control = (void *)(start + offsetof(struct parcel, control)),
		.msg_controllen = sizeof(parcel->control),
	};
}

/* Sends our shared memory into a socket of the process's: we may take one out of it, as it may not one of ours. */
static int parcel_send(const struct inject *inject, pid_t pid, int socket)
{
	AUTO(close_fd) int process = (int)syscall(SYS_pidfd_open, pid, 0);
	AUTO(close_fd) int copy = (int)syscall(SYS_pidfd_getfd, process, socket, 0);
	struct parcel parcel = {};
	struct msghdr message = parcel_message(&parcel, 0);
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);

	if (copy < 0)
		return err_set(-errno, "cannot reach into process %d: %s", (int)pid,
			       strerror(errno));
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(control), &inject->memory, sizeof(int));
	if (sendmsg(copy, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return err_set(-errno, "cannot send shared memory to process %d: %s", (int)pid,
			       strerror(errno));
	return 0;
}

static int parcel_receive(struct remote *remote, uint64_t at, int socket, int *ret)
{
	struct parcel parcel = {};
	struct msghdr message = parcel_message(&parcel, at);
	int err;

	parcel.message = message;
	err = remote_write(remote->tid, at, &parcel, sizeof(parcel));
	if (!err)
		err = inject_call(remote, "receive shared memory", SYS_recvmsg,
				  (uint64_t[6]){ (uint64_t)socket,
						 at + offsetof(struct parcel, message),
						 MSG_CMSG_CLOEXEC | MSG_DONTWAIT },
				  NULL);
	err = err ? err : remote_read(remote->tid, at, &parcel, sizeof(parcel));
	if (!err)
		memcpy(ret, parcel.control + CMSG_LEN(0), sizeof(int));
	return err;
}

static int file_close(struct remote *remote, int fd)
{
	return inject_call(remote, "close a file", SYS_close, (uint64_t[6]){ (uint64_t)fd }, NULL);
}

/* The process gets a descriptor of our shared memory. It need not be allowed to do so by itself, nor see our pid. */
static int shared_pass(struct remote *remote, const struct inject *inject, uint64_t at, int *ret)
{
	int pair[2] = { -1, -1 }, fd = -1, err, closed;

	err = inject_call(remote, "open a pair of sockets", SYS_socketpair,
			  (uint64_t[6]){ AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, at }, NULL);
	err = err ? err : remote_read(remote->tid, at, pair, sizeof(pair));
	if (err)
		return err;
	err = parcel_send(inject, remote->tid, pair[1]);
	err = err ? err : parcel_receive(remote, at, pair[0], &fd);
	closed = file_close(remote, pair[0]);
	closed = closed ? closed : file_close(remote, pair[1]);
	if (err || closed)
		return err ? err : closed;
	*ret = fd;
	return 0;
}

static int shared_map(struct remote *remote, const struct inject *inject, uint64_t address)
{
	int fd = -1, closed;
	int err = shared_pass(remote, inject, address + inject->layout.stack, &fd);

	if (err)
		return err;
	err = inject_call(remote, "map the memory it is to share with us", SYS_mmap,
			  (uint64_t[6]){ address + inject->layout.shared, inject->shared_size,
					 PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, (uint64_t)fd, 0 },
			  NULL);
	closed = file_close(remote, fd);
	return err ? err : closed;
}

static int pages_protect(struct remote *remote, uint64_t address, uint64_t size,
			 uint64_t protection)
{
	if (protection == (PROT_READ | PROT_WRITE))
		return 0;
	return inject_call(remote, "protect memory", SYS_mprotect,
			   (uint64_t[6]){ address, size, protection }, NULL);
}

static int image_protect(struct remote *remote, const struct image *image)
{
	size_t pages = image->size / IMAGE_PAGE, first = 0;
	int err = 0;

	for (size_t i = 1; i <= pages && !err; i++) {
		if (i < pages && image->protection[i] == image->protection[first])
			continue;
		err = pages_protect(remote, image->address + first * IMAGE_PAGE,
				    (i - first) * IMAGE_PAGE, image->protection[first]);
		first = i;
	}
	return err;
}

struct engine_registers inject_registers(const struct user_regs_struct *from)
{
	return (struct engine_registers){
		.general = { from->rax, from->rcx, from->rdx, from->rbx, from->rsp, from->rbp,
			     from->rsi, from->rdi, from->r8, from->r9, from->r10, from->r11,
			     from->r12, from->r13, from->r14, from->r15 },
		.rip = from->rip,
		.rflags = from->eflags,
		.fs_base = from->fs_base,
		.gs_base = from->gs_base,
	};
}

static int boot_write(struct remote *remote, const struct inject *inject, uint64_t address)
{
	const struct engine_boot boot = {
		.version = ENGINE_BOOT_VERSION,
		.image_start = address,
		.image_size = inject->layout.size,
		.stack_start = address + inject->layout.stack,
		.shared = address + inject->layout.shared,
		.host_pid = (uint64_t)getpid(),
		.tool = inject->tool,
		.flags = inject->flags,
		.cache_bytes = inject->cache_bytes,
		.session = inject->session,
		.registers = inject_registers(&remote->registers),
		.shared_size = inject->shared_size,
	};

	return remote_write(remote->tid, address + inject->layout.boot, &boot, sizeof(boot));
}

static int engine_install(struct remote *remote, struct inject *inject, uint64_t address)
{
	int err;

	if (address != inject->image->address)
		image_place(inject->image, address);
	err = shared_map(remote, inject, address);
	err = err ? err
		  : remote_write(remote->tid, address, inject->image->bytes, inject->image->size);
	err = err ? err : boot_write(remote, inject, address);
	err = err ? err : image_protect(remote, inject->image);
	return err ? err
		   : pages_protect(remote, address + inject->layout.guard, IMAGE_PAGE, PROT_NONE);
}

static int engine_go(struct remote *remote, const struct inject *inject, uint64_t address)
{
	struct user_regs_struct registers = remote->registers;

	registers.rip = address + inject->image->entry;
	registers.rdi = address + inject->layout.boot;
	registers.rsp = address + inject->layout.shared; /* right above the stack */
	registers.eflags = FLAGS_INITIAL;
	registers.orig_rax = ~0ull;
	return remote_release(remote, &registers);
}

int inject_install(struct inject *inject, struct remote *remote, uint64_t *ret_address)
{
	uint64_t address = 0;
	int err = memory_map(remote, inject->layout.size, inject->address, &address);

	if (err)
		return err;
	err = engine_install(remote, inject, address);
	if (err)
		inject_remove(inject, remote, address);
	else
		*ret_address = address;
	return err;
}

void inject_remove(const struct inject *inject, struct remote *remote, uint64_t address)
{
	memory_unmap(remote, inject->layout.size, address);
}

static int process_take(struct remote *remote, struct inject *inject)
{
	uint64_t address = 0;
	int err = remote_init(remote);

	err = err ? err : inject_install(inject, remote, &address);
	if (err)
		return err;
	err = engine_go(remote, inject, address);
	if (err)
		inject_remove(inject, remote, address);
	return err;
}

int inject_filters_check(const struct inject *inject, struct remote *remote)
{
	struct program_user user;
	int err = program_user_get(remote->tid, &user);

	if (!err && user.filters > inject->filters) {
		remote->obstacle = PROGRAM_FILTERED;
		err = err_set(-EPERM, "process %d filters its system calls", (int)remote->tid);
	}
	return err;
}

/* On failure the thread is still stopped. */
static int take(struct inject *inject, struct remote *remote)
{
	int err;

	ptrace(PTRACE_SETOPTIONS, remote->tid, NULL, held_options | PTRACE_O_EXITKILL);
	err = inject_filters_check(inject, remote);
	return err ? err : process_take(remote, inject);
}

int inject_take(struct inject *inject, pid_t pid, enum program_obstacle *ret_obstacle)
{
	struct remote remote = { .tid = pid, .obstacle = PROGRAM_OTHER };
	int err = take(inject, &remote);

	if (err) {
		remote_abandon(&remote);
		*ret_obstacle = remote.obstacle;
	}
	return err;
}

/* In the child. Nothing was changed since the fork that would have to be put back. */
static void child_run(char *const *argv, int go, int failure)
{
	char byte;
	int err;

	if (read(go, &byte, 1) != 1)
		_exit(127); /* the parent gave up */
	execvp(argv[0], argv);
	err = errno;
	if (write(failure, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

static int child_start(char *const *argv, pid_t *ret_pid, int *ret_go, int *ret_failure)
{
	int go[2], failure[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) || pipe2(failure, O_CLOEXEC))
		return err_set(-errno, "cannot start %s: %s", argv[0], strerror(errno));
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		child_run(argv, go[0], failure[1]);
	}
	close(go[0]);
	close(failure[1]);
	if (signal(SIGCHLD, SIG_DFL) ==
	    SIG_ERR) /* ignored, the child's end would be lost; the child itself keeps it */
		return err_set(-errno, "cannot watch %s: %s", argv[0], strerror(errno));
	*ret_go = go[1];
	*ret_failure = failure[0];
	if (pid < 0)
		return err_set(-errno, "cannot start %s: %s", argv[0], strerror(errno));
	*ret_pid = pid;
	return 0;
}

/* Whether it has come to the exec; if not, it has ended, and that is left for whoever waits for it. */
static bool child_await_exec(pid_t pid)
{
	int status = 0;

	while (remote_look(pid, true, &status) == REMOTE_STOPPED) {
		remote_see(pid);
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return true;
		remote_resume(pid, status);
	}
	return false;
}

static int child_release(struct inject *inject, pid_t pid, const char *name, int go, int failure)
{
	struct remote remote = { .tid = pid };
	int reason = 0;

	if (ptrace(PTRACE_SEIZE, pid, NULL, held_options | PTRACE_O_EXITKILL))
		return err_set(-errno, "cannot attach to '%s': %s", name, strerror(errno));
	if (write(go, "", 1) != 1)
		return err_set(-EPIPE, "'%s' ended before it was started", name);
	if (child_await_exec(pid))
		return take(inject, &remote);
	if (read(failure, &reason, sizeof(reason)) != sizeof(reason))
		return 0; /* a signal was faster */
	return err_set(-reason, "cannot run '%s': %s", name, strerror(reason));
}

/* What cannot be taken is not started either. */
static int command_check(const char *name)
{
	AUTO(free_ptr) char *path = NULL;
	struct program_user user;
	enum program_obstacle obstacle;
	int err = program_find(name, &path);

	err = err ? err : program_user_get(getpid(), &user);
	if (err)
		return err;
	obstacle = program_check(path, "", &user);
	if (obstacle)
		return err_set(-EPERM, "cannot run '%s' in the engine, which leaves alone %s", name,
			       program_obstacle_text(obstacle));
	return 0;
}

/* After the fork, so that the child is not concerned, and before it can do anything by which somebody sees that it runs. */
void inject_signals_block(void)
{
	sigset_t set;

	sigemptyset(&set);
#define X(number) sigaddset(&set, number);
	INJECT_SIGNALS(X)
#undef X
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int inject_start(struct inject *inject, char *const *argv, pid_t *ret)
{
	AUTO(close_fd) int go = -1, failure = -1;
	pid_t pid = -1;
	int status, err = command_check(argv[0]);

	err = err ? err : child_start(argv, &pid, &go, &failure);
	if (err)
		return err;
	inject_signals_block();
	err = child_release(inject, pid, argv[0], go, failure);
	if (err) {
		sigprocmask(SIG_SETMASK, &inject->mask, NULL);
		kill(pid, SIGKILL);
		remote_look(pid, true, &status);
		remote_see(pid);
		return err;
	}
	*ret = pid;
	return 0;
}
