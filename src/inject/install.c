// SPDX-License-Identifier: BSD-2-Clause
/*
 * Puts the engine into a process that is stopped at PTRACE_EVENT_EXEC, or where a thread of it was
 * stopped (attach.c). Memory is mapped by system calls that its thread is made to execute:
 *
 *	address		the image: engine and decoder, pages protected as their segments say
 *	boot		struct engine_boot, a page
 *	(a page)	not accessible: below it a stack that grows too far ends
 *	stack		of the first thread
 *	shared		aligned to STREAM_CHUNK, as is the whole: the mailbox and, if a tool
 *			records, its slots. The host has made it for this process alone; in its
 *			midst lies a part that is the same for all, and that they cannot write
 *
 * Those pages of the image that are never written come from a file in memory that all processes
 * share and that is sealed against writing; the other pages are written from outside. Then the
 * thread goes on at engine_entry, and the tracer detaches.
 *
 * 1. No memory of the program is written.
 * 2. Either everything is in place, or the program goes on as if nothing had been tried.
 * 3. While the registers are not the program's, the death of the host kills the process (EXITKILL):
 *    the alternative would be a program that goes on with the registers of another. At all other
 *    times it survives.
 *
 *	in	a process that has just executed a program, stopped
 *	out	the same process, about to run in the engine, and its shared memory
 *	owner	the command that follows processes (src/inject/follow.c); the memory is freed at its
 *		end
 */
#include "inject/inject_private.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/array.h"
#include "base/err.h"
#include "inject/threads.h"

enum { FLAGS_INITIAL = 0x202, SOCKETS = 2 };

static const uint64_t room_at_first = 160 << 20; /* arenas of the program and its libraries */

/* The files that are passed to a process while the engine is put into it. */
enum passed { PASSED_OWN, PASSED_PUBLIC, PASSED_CODE, PASSED_END };

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
 * A message with files, as the kernel has to find it in the process; it is written to where the
 * stack will be. The host's copy is only there to be measured and filled in.
 */
struct parcel {
	int pair[SOCKETS];
	char byte;
	struct iovec area;
	struct msghdr message;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(PASSED_END * sizeof(int))];
};

static struct msghdr parcel_message(struct parcel *parcel, uint64_t at, size_t files)
{
	uint64_t start = at ? at : (uint64_t)parcel;

	parcel->area = (struct iovec){ (void *)(start + offsetof(struct parcel, byte)), 1 };
	return (struct msghdr){
		.msg_iov = (void *)(start + offsetof(struct parcel, area)),
		.msg_iovlen = 1,
		.msg_control = (void *)(start + offsetof(struct parcel, control)),
		.msg_controllen = CMSG_SPACE(files * sizeof(int)),
	};
}

/*
 * Sends our files through a socket of the process's. We may duplicate its descriptor (pidfd_getfd)
 * because we trace it; it could not duplicate one of ours.
 */
static int parcel_send(pid_t pid, int socket, const int *files, size_t count)
{
	AUTO(close_fd) int process = (int)syscall(SYS_pidfd_open, pid, 0);
	AUTO(close_fd) int copy = (int)syscall(SYS_pidfd_getfd, process, socket, 0);
	struct parcel parcel = {};
	struct msghdr message = parcel_message(&parcel, 0, count);
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);

	if (copy < 0)
		return err_set(-errno, "cannot reach into process %d: %s", (int)pid,
			       strerror(errno));
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(control), files, count * sizeof(int));
	if (sendmsg(copy, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return err_set(-errno, "cannot send shared memory to process %d: %s", (int)pid,
			       strerror(errno));
	return 0;
}

static int parcel_receive(struct remote *remote, uint64_t at, int socket, int ret[PASSED_END],
			  size_t *ret_count)
{
	struct parcel parcel = {};
	struct msghdr message = parcel_message(&parcel, at, PASSED_END);
	const struct cmsghdr *control = (const struct cmsghdr *)parcel.control;
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
	if (err)
		return err;
	/* Fewer have arrived if the process may not have that many open. */
	*ret_count = 0;
	while (*ret_count < PASSED_END &&
	       control->cmsg_len >= CMSG_LEN((*ret_count + 1) * sizeof(int)))
		++*ret_count;
	memcpy(ret, parcel.control + CMSG_LEN(0), *ret_count * sizeof(int));
	return *ret_count == PASSED_END
		       ? 0
		       : err_set(-EMFILE, "process %d cannot receive shared memory: %s",
				 (int)remote->tid, strerror(EMFILE));
}

/* Usually the descriptors are consecutive, and one close_range() closes them. */
static int files_close(struct remote *remote, const int *files, size_t count)
{
	bool row = count > 1;
	int64_t result;
	int err = 0;

	for (size_t i = 1; i < count; i++)
		row = row && files[i] == files[i - 1] + 1;
	if (row &&
	    !remote_call(remote, SYS_close_range,
			 (uint64_t[6]){ (uint64_t)files[0], (uint64_t)files[count - 1] },
			 &result) &&
	    !result)
		return 0;
	for (size_t i = 0; i < count; i++) {
		int failed = inject_call(remote, "close a file", SYS_close,
					 (uint64_t[6]){ (uint64_t)files[i] }, NULL);

		err = err ? err : failed;
	}
	return err;
}

/*
 * The descriptors that the process has for a moment: a pair of sockets, and the files that came
 * through them. In this way it needs neither permission to open the files nor a view of our pid
 * namespace.
 */
struct passage {
	int files[SOCKETS + PASSED_END];
	size_t count; /* that are open */
};

static int files_pass(struct remote *remote, const struct inject *inject, uint64_t at,
		      struct passage *passage)
{
	const int files[] = { [PASSED_OWN] = inject->memory,
			      [PASSED_PUBLIC] = inject->public,
			      [PASSED_CODE] = inject->code };
	size_t received = 0;
	int err = inject_call(remote, "open a pair of sockets", SYS_socketpair,
			      (uint64_t[6]){ AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, at }, NULL);

	err = err ? err
		  : remote_read(remote->tid, at, passage->files, SOCKETS * sizeof(*passage->files));
	if (err)
		return err;
	passage->count = SOCKETS;
	err = parcel_send(remote->tid, passage->files[1], files, PASSED_END);
	err = err ? err
		  : parcel_receive(remote, at, passage->files[0], passage->files + SOCKETS,
				   &received);
	passage->count += received;
	return err;
}

static int piece_map(struct remote *remote, int fd, uint64_t at, uint64_t size, uint64_t protection,
		     uint64_t offset)
{
	if (!size)
		return 0;
	return inject_call(remote, "map the memory it is to share with us", SYS_mmap,
			   (uint64_t[6]){ at, size, protection,
					  MAP_SHARED | MAP_FIXED | MAP_NORESERVE, (uint64_t)fd,
					  offset },
			   NULL);
}

static int shared_map(struct remote *remote, const struct inject *inject, const int *files,
		      uint64_t shared)
{
	uint64_t at = stream_public_at(inject->shared_size);
	uint64_t size = stream_public_size(inject->shared_size), behind = at + size;
	uint64_t protection = PROT_READ | PROT_WRITE;
	int err = piece_map(remote, files[PASSED_OWN], shared, at, protection, 0);

	err = err ? err
		  : piece_map(remote, files[PASSED_OWN], shared + behind,
			      inject->shared_size - behind, protection, behind);
	return err ? err : piece_map(remote, files[PASSED_PUBLIC], shared + at, size, PROT_READ, 0);
}

static int pages_protect(struct remote *remote, uint64_t address, uint64_t size,
			 uint64_t protection)
{
	if (protection == (PROT_READ | PROT_WRITE))
		return 0;
	return inject_call(remote, "protect memory", SYS_mprotect,
			   (uint64_t[6]){ address, size, protection }, NULL);
}

/* A stretch of pages with the same protection. */
static size_t stretch_end(const struct image *image, size_t first)
{
	size_t end = first + 1;

	while (end < image->size / IMAGE_PAGE && image->protection[end] == image->protection[first])
		end++;
	return end;
}

static int image_protect(struct remote *remote, const struct image *image, bool from_file)
{
	size_t end;
	int err = 0;

	for (size_t at = 0; at < image->size / IMAGE_PAGE && !err; at = end) {
		end = stretch_end(image, at);
		if (!from_file || image->protection[at] != PROT_READ)
			err = pages_protect(remote, image->address + at * IMAGE_PAGE,
					    (end - at) * IMAGE_PAGE, image->protection[at]);
	}
	return err;
}

/*
 * Maps the pages that are never written from the file, read-only. Execution is enabled by
 * mprotect() afterwards, as for memory without a file, so that a process which forbids that is
 * found here.
 */
static int image_map(struct remote *remote, const struct image *image, int file)
{
	size_t pages = image->size / IMAGE_PAGE, end;
	int err = 0;

	for (size_t at = 0; at < pages && !err; at = end) {
		for (end = at; end < pages && !(image->protection[end] & PROT_WRITE); end++)
			;
		if (end > at)
			err = inject_call(remote, "map the engine", SYS_mmap,
					  (uint64_t[6]){ image->address + at * IMAGE_PAGE,
							 (end - at) * IMAGE_PAGE, PROT_READ,
							 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
							 (uint64_t)file, at * IMAGE_PAGE },
					  NULL);
		else
			end++;
	}
	return err;
}

/*
 * The memory is fresh, so pages of zeros, which are most of the writable ones, need not be written.
 */
static int image_write(struct remote *remote, const struct image *image, bool from_file)
{
	size_t pages = image->size / IMAGE_PAGE, end;
	int err = 0;

	for (size_t at = 0; at < pages && !err; at = end) {
		for (end = at; end < pages && !image->empty[end] &&
			       (!from_file || image->protection[end] & PROT_WRITE);
		     end++)
			;
		if (end > at)
			err = remote_write(remote->tid, image->address + at * IMAGE_PAGE,
					   image->bytes + at * IMAGE_PAGE, (end - at) * IMAGE_PAGE);
		else
			end++;
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
		.host_pid = (uint64_t)inject->host,
		.tools = inject->tools,
		.flags = inject->flags,
		.cache_bytes = inject->cache_bytes,
		.fails = inject->fails,
		.session = inject->session,
		.registers = inject_registers(&remote->registers),
		.shared_size = inject->shared_size,
		.exchange = (uint64_t)inject->exchange,
	};

	return remote_write(remote->tid, address + inject->layout.boot, &boot, sizeof(boot));
}

static int pieces_map(struct remote *remote, const struct inject *inject, const int *files,
		      bool from_file)
{
	const struct image *image = inject->image;
	int err = shared_map(remote, inject, files, image->address + inject->layout.shared);

	return err || !from_file ? err : image_map(remote, image, files[PASSED_CODE]);
}

static int engine_install(struct remote *remote, struct inject *inject, uint64_t address)
{
	bool from_file = address == inject->address;
	struct passage passage = {};
	int closed, err;

	if (address != inject->image->address)
		image_place(inject->image, address);
	err = files_pass(remote, inject, address + inject->layout.stack, &passage);
	err = err ? err : pieces_map(remote, inject, passage.files + SOCKETS, from_file);
	closed = files_close(remote, passage.files, passage.count);
	err = err ? err : closed;
	err = err ? err : image_write(remote, inject->image, from_file);
	err = err ? err : boot_write(remote, inject, address);
	err = err ? err : image_protect(remote, inject->image, from_file);
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

static int limit_check(struct remote *remote, int resource, const char *count, const char *what,
		       uint64_t needed)
{
	struct rlimit limit;
	uint64_t used;

	if (prlimit(remote->tid, (enum __rlimit_resource)resource, NULL, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY)
		return 0;
	used = task_status(remote->tid, remote->tid, count, 10) << 10;
	if (limit.rlim_cur >= used + needed)
		return 0;
	remote->obstacle = PROGRAM_LIMITED;
	return err_set(-ENOMEM,
		       "process %d may have %lu MB of %s, and the engine with this tool needs %lu "
		       "MB besides the program's own; raise the limit, or use --tool none",
		       (int)remote->tid, (unsigned long)(limit.rlim_cur >> 20), what,
		       (unsigned long)(needed >> 20));
}

/* Checks that the engine, and the memory it needs at first, fit into the limits of the process. */
int inject_room_check(const struct inject *inject, struct remote *remote)
{
	uint64_t needed = inject->layout.size + room_at_first;
	int err = limit_check(remote, RLIMIT_AS, "VmSize", "address space (ulimit -v)", needed);

	return err ? err : limit_check(remote, RLIMIT_DATA, "VmData", "data (ulimit -d)", needed);
}

int inject_take_stopped(struct inject *inject, struct remote *remote)
{
	struct memory *memory;
	int err = inject_memory_make(inject, remote->tid, &memory);

	if (err)
		return err;
	ptrace(PTRACE_SETOPTIONS, remote->tid, NULL, inject_held_options | PTRACE_O_EXITKILL);
	err = inject_filters_check(inject, remote);
	err = err ? err : inject_room_check(inject, remote);
	err = err ? err : process_take(remote, inject);
	if (err)
		__atomic_store_n(&memory->ended, true, __ATOMIC_RELEASE);
	return err;
}

int inject_fork(struct inject *inject, pid_t pid, int socket)
{
	struct memory *memory;
	int err = inject_memory_make(inject, pid, &memory);

	if (err)
		return err;
	err = parcel_send(pid, socket, &inject->memory, 1);
	if (err)
		__atomic_store_n(&memory->ended, true, __ATOMIC_RELEASE);
	return err;
}

int inject_take(struct inject *inject, pid_t pid, enum program_obstacle *ret_obstacle)
{
	struct remote remote = { .tid = pid, .obstacle = PROGRAM_OTHER };
	sigset_t children, before;
	int err;

	/* Each stop on the way would send SIGCHLD; while it is blocked they become one. */
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, &before);
	err = inject_take_stopped(inject, &remote);
	if (err) {
		remote_abandon(&remote);
		*ret_obstacle = remote.obstacle;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}
