// SPDX-License-Identifier: BSD-2-Clause
/*
 * Requests to the host: wire/engine.h has the protocol. A host that is gone is noticed, and the
 * program goes on alone.
 */
#include <asm/errno.h>
#include <asm/poll.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/uio.h>

#include "engine/engine.h"
#include "engine/sys.h"
#include "engine/translations.h"
#include "wire/stream.h"

enum {
	PATIENCE_MS = 50,
	SLOT_TRIES = 5000, /* once in a millisecond; slots that are never free again are given up */
};

/* As the kernel has them; its headers for user space leave them to libc. */
enum {
	LOCAL = 1, /* AF_UNIX */
	DATAGRAM = 2 | 02000000, /* SOCK_DGRAM | SOCK_CLOEXEC */
	SOCKETS = 1, /* SOL_SOCKET */
	RIGHTS = 1, /* SCM_RIGHTS */
	RECEIVE_NOW = 0x40 | 0x40000000, /* MSG_DONTWAIT | MSG_CMSG_CLOEXEC */
};

static bool filtered; /* the program has a filter, which may not know the calls that a fork needs */

static struct engine_shared *shared(void)
{
	return (struct engine_shared *)engine_boot.shared;
}

/* Whether the process is a zombie; if that cannot be read, it is taken for running. */
static bool is_zombie(uint64_t pid)
{
	struct pollfd end = { .events = POLLIN };
	long fd = sys_2(pidfd_open, pid, 0), ended;

	if (sys_failed(fd))
		return false;
	end.fd = (int)fd;
	ended = sys_3(poll, &end, 1, 0);
	sys_1(close, fd);
	return ended == 1;
}

/*
 * A process that has ended has no memory, also while it is a zombie; any other has, but nothing at
 * address 0. The answer may also be that we may not look (yama does not allow it to a child).
 */
static bool pid_exists(uint64_t pid)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { NULL, 1 };
	long result = sys_6(process_vm_readv, pid, &here, 1, &there, 1, 0);

	if (result == -ESRCH || result == -EFAULT)
		return result == -EFAULT;
	return sys_2(kill, pid, 0) != -ESRCH && !is_zombie(pid);
}

/*
 * Uses the robust mutex, which the kernel marks when its owner ends, because the host's pid means
 * nothing in another pid namespace.
 */
bool host_exists(void)
{
	uint64_t at = engine_boot.shared + stream_public_at(engine_boot.shared_size) + STREAM_HOST;
	uint32_t word = engine_boot.shared ? __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE) : 0;

	return word ? !(word & FUTEX_OWNER_DIED) : pid_exists(engine_boot.host_pid);
}

bool host_takes(void)
{
	uint64_t taker = __atomic_load_n(&engine_boot_place->taker, __ATOMIC_RELAXED);

	return taker ? pid_exists(taker) : host_exists();
}

bool host_alive(void)
{
	return !__atomic_load_n(&shared()->closed, __ATOMIC_ACQUIRE) && host_exists();
}

void host_left(enum engine_leave reason, int change)
{
	if (engine_boot.shared)
		__atomic_add_fetch(&shared()->left[reason], (uint32_t)change, __ATOMIC_RELAXED);
}

static struct engine_request *slot_take(void)
{
	for (size_t i = 0; i < ENGINE_REQUESTS; i++) {
		uint32_t state = ENGINE_SLOT_FREE;
		struct engine_request *slot = &shared()->requests[i];

		if (__atomic_compare_exchange_n(&slot->state, &state, ENGINE_SLOT_TAKEN, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return slot;
	}
	return NULL;
}

static int answer_wait(struct engine_request *slot)
{
	uint32_t asked = ENGINE_SLOT_ASKED;
	int answer;

	while (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != ENGINE_SLOT_ANSWERED) {
		if (!host_alive() || attach_is_leaving()) {
			/*
			 * While threads leave the engine, no host serves requests: the slot becomes
			 * free again.
			 */
			__atomic_compare_exchange_n(&slot->state, &asked, ENGINE_SLOT_FREE, false,
						    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
			return -1;
		}
		engine_wait(&slot->state, ENGINE_SLOT_ASKED, FUTEX_WAIT, PATIENCE_MS);
	}
	answer = slot->answer;
	__atomic_store_n(&slot->state, ENGINE_SLOT_FREE, __ATOMIC_RELEASE);
	return answer;
}

void host_count(enum engine_count count)
{
	if (engine_boot.shared)
		__atomic_add_fetch(&shared()->counts[count], 1, __ATOMIC_RELAXED);
}

static void bell_ring(void)
{
	__atomic_add_fetch(&shared()->bell, 1, __ATOMIC_RELEASE);
	sys_3(futex, &shared()->bell, FUTEX_WAKE, 1);
}

/*
 * More processes may ask at once than there are slots: children make their requests in their
 * parent's memory.
 */
static struct engine_request *slot_wait(void)
{
	struct engine_request *slot = slot_take();
	uint32_t nothing = 0;

	for (int i = 0; !slot && i < SLOT_TRIES && host_alive() && !attach_is_leaving(); i++) {
		bell_ring();
		engine_wait(&nothing, 0, FUTEX_WAIT, 1);
		slot = slot_take();
	}
	return slot;
}

static struct engine_request *ask(const struct engine_request *request)
{
	struct engine_request *slot;

	if (!engine_boot.shared || !host_alive() || attach_is_leaving())
		return NULL;
	slot = slot_wait();
	if (!slot)
		return NULL;
	slot->kind = request->kind;
	slot->directory = request->directory;
	slot->path = request->path;
	slot->boot = (uint64_t)engine_boot_place;
	slot->pid = (uint32_t)sys_0(getpid);
	slot->tid = (uint32_t)sys_0(gettid);
	__atomic_store_n(&slot->state, ENGINE_SLOT_ASKED, __ATOMIC_RELEASE);
	bell_ring();
	return slot;
}

int host_ask(const struct engine_request *request)
{
	struct engine_request *slot = ask(request);

	return slot ? answer_wait(slot) : -1;
}

/* --- Forks -------------------------------------------------------------------------------- */

/* The file that the host has sent into the other end of the socket. */
static long file_receive(int socket)
{
	struct {
		uint64_t length;
		int level, type, file, padding;
	} control = {};
	char byte;
	struct iovec piece = { &byte, 1 };
	struct {
		uint64_t name, name_length, pieces, piece_count, control, control_length, flags;
	} message = { .pieces = (uint64_t)&piece,
		      .piece_count = 1,
		      .control = (uint64_t)&control,
		      .control_length = sizeof(control) };

	if (sys_failed(sys_3(recvmsg, socket, &message, RECEIVE_NOW)) || control.level != SOCKETS ||
	    control.type != RIGHTS)
		return -1;
	return control.file;
}

/* Maps the file around the public memory. False: the kernel refuses. */
static bool memory_replace(long file)
{
	uint64_t at = stream_public_at(engine_boot.shared_size);
	uint64_t behind = at + stream_public_size(engine_boot.shared_size);
	int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
	long first, second = 0;

	if (sys_failed(file))
		return false;
	first = sys_6(mmap, engine_boot.shared, at, protection, flags, file, 0);
	if (behind < engine_boot.shared_size)
		second = sys_6(mmap, engine_boot.shared + behind, engine_boot.shared_size - behind,
			       protection, flags, file, behind);
	sys_1(close, file);
	return !sys_failed(first) && !sys_failed(second);
}

static bool memory_get(void)
{
	struct engine_request request = { .kind = ENGINE_REQUEST_FORK };
	int pair[2];
	bool replaced;

	if (filtered || sys_failed(sys_4(socketpair, LOCAL, DATAGRAM, 0, pair)))
		return false;
	request.directory = pair[1];
	replaced = !host_ask(&request) && memory_replace(file_receive(pair[0]));
	sys_1(close, pair[0]);
	sys_1(close, pair[1]);
	return replaced;
}

/* Replaces the shared memory, except for the public part, by private memory that no host reads. */
static void memory_alone(void)
{
	uint64_t at = stream_public_at(engine_boot.shared_size);
	uint64_t behind = at + stream_public_size(engine_boot.shared_size);

	memory_map_at(engine_boot.shared, at);
	if (behind < engine_boot.shared_size)
		memory_map_at(engine_boot.shared + behind, engine_boot.shared_size - behind);
	shared()->closed = 1;
}

void host_filtered(void)
{
	filtered = true;
}

bool host_is_filtered(void)
{
	return filtered;
}

void host_forked(void)
{
	if (!engine_boot.shared)
		return;
	if (!memory_get())
		memory_alone();
	translations_forked();
	memory_hide(engine_boot.shared, engine_boot.shared_size);
}

int host_ask_module(const struct region *region, const char *path)
{
	enum { PATH_BYTES = 4096 };
	static struct {
		struct stream_module head;
		char path[PATH_BYTES];
	} ask;
	struct engine_request request = { .kind = ENGINE_REQUEST_MODULE, .path = (uint64_t)&ask };
	size_t length = 0;

	for (; path[length] && length < PATH_BYTES - 1; length++)
		ask.path[length] = path[length];
	ask.path[length] = 0;
	ask.head = (struct stream_module){
		.record = { sizeof(ask), STREAM_RECORD_MODULE },
		.start = region->start,
		.end = region->end,
		.offset = region->offset,
		.inode = region->inode,
		.device_major = region->device_major,
		.device_minor = region->device_minor,
	};
	return host_ask(&request);
}
