// SPDX-License-Identifier: BSD-2-Clause
/* Threads of the program as the engine sees them, and the lock that they share. */
#include <linux/futex.h>
#include <linux/mman.h>

#include "engine/engine.h"
#include "engine/stream.h"
#include "engine/sys.h"

uint32_t engine_lock_word; /* 0 free, 1 taken, 2 taken and waited for */

enum {
	PATIENCE_MS = 100, /* until it is asked whether the lock's owner is alive */
	LOOK_MICROSECONDS = 200,
	TARGETS_FEW = 64, /* a thread that has more gets memory for all at once */
	DISPLACEMENTS_FEW = 32,
};

static struct thread *newest;

static uint64_t
	/* gs of who holds the lock: its thread, or something of the program's in a handler */
	owner;

static uint64_t gs_base(void)
{
	uint64_t base;

	__asm__ volatile("rdgsbase %0" : "=r"(base));
	return base;
}

static char *decimal_put(char *at, uint32_t value)
{
	char text[12];
	int count = 0;

	do
		text[count++] = (char)('0' + value % 10);
	while (value /= 10);
	while (count)
		*at++ = text[--count];
	return at;
}

/* There is a /proc, and it is of our own pid namespace: it has the numbers that we have. */
static bool proc_is_ours(void)
{
	char text[12], own[12];
	long size = sys_3(readlink, "/proc/self", text, sizeof(text));
	long length = decimal_put(own, (uint32_t)sys_0(getpid)) - own;
	bool same = size == length;

	for (long i = 0; same && i < length; i++)
		same = text[i] == own[i];
	return same;
}

/*
 * Whether the thread is dead or a zombie, by /proc/TID/stat; if that cannot be read, it is taken
 * for alive.
 */
static bool tid_is_dead(uint32_t tid)
{
	char name[32] = "/proc/", text[64], *at = decimal_put(name + 6, tid);
	long file, size;

	*at++ = '/';
	for (const char *rest = "stat"; *rest; rest++)
		*at++ = *rest;
	if (!proc_is_ours())
		return false;
	file = sys_3(open, name, 02000000 /* O_CLOEXEC */, 0);
	if (sys_failed(file))
		return file == -2; /* ENOENT */
	size = sys_3(read, file, text, sizeof(text) - 1);
	sys_1(close, file);
	for (long i = size - 1; i > 2; i--)
		if (text[i - 2] == ')')
			return text[i] == 'Z' || text[i] == 'X';
	return false;
}

/*
 * A process that shares our memory but is another one (CLONE_VM) can be killed while it holds the
 * lock. Whatever it was doing, it has not published: a fragment is entered when it is done, and the
 * list of regions is read once more.
 */
static bool owner_is_dead(void)
{
	uint64_t who = __atomic_load_n(&owner, __ATOMIC_ACQUIRE);

	for (const struct thread *thread = newest; thread; thread = thread->older)
		if ((uint64_t)thread == who)
			return tid_is_dead(thread->tid);
	return false;
}

void engine_pause(uint32_t microseconds)
{
	struct {
		long seconds, microseconds;
	} moment = { 0, microseconds };

	sys_6(select, 0, 0, 0, 0, &moment, 0);
}

uint32_t engine_wait(uint32_t *word, uint32_t value, int operation, uint32_t milliseconds)
{
	const struct {
		long seconds, nanoseconds;
	} patience = { 0, milliseconds * 1000000l };

	if (engine_boot.starts_size) {
		engine_pause(LOOK_MICROSECONDS);
		return LOOK_MICROSECONDS;
	}
	if (sys_4(futex, word, operation, value, &patience) != -110 /* ETIMEDOUT */)
		return 0;
	return milliseconds * 1000;
}

void engine_lock(void)
{
	uint32_t state = 0, waited = 0;

	if (__atomic_compare_exchange_n(&engine_lock_word, &state, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED)) {
		owner = gs_base();
		fault_point(ENGINE_FAIL_LOCK);
		return;
	}
	while (__atomic_exchange_n(&engine_lock_word, 2, __ATOMIC_ACQUIRE)) {
		waited += engine_wait(&engine_lock_word, 2, FUTEX_WAIT_PRIVATE, PATIENCE_MS);
		if (waited < PATIENCE_MS * 1000)
			continue;
		waited = 0;
		if (owner_is_dead()) {
			regions_change(0, UINT64_MAX, true);
			break;
		}
	}
	owner = gs_base();
}

bool engine_locked(const struct thread *thread)
{
	return __atomic_load_n(&engine_lock_word, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&owner, __ATOMIC_ACQUIRE) == (uint64_t)thread;
}

void engine_unlock(void)
{
	fault_point(ENGINE_FAIL_UNLOCK);
	owner = 0;
	if (__atomic_exchange_n(&engine_lock_word, 0, __ATOMIC_RELEASE) == 2)
		sys_3(futex, &engine_lock_word, FUTEX_WAKE_PRIVATE, 1);
}

/* A thread that has ended, and that the kernel has forgotten: its stack is not used any more. */
static struct thread *thread_reuse(void)
{
	for (struct thread *thread = newest; thread; thread = thread->older)
		if (thread->state == THREAD_GONE ||
		    (thread_is_dead(thread) && sys_2(tkill, thread->tid, 0) == -3)) /* ESRCH */
			return thread;
	return NULL;
}

/*
 * Everything but its place in the list: a handler of another thread's signal may be walking along
 * that.
 */
static void thread_reset(struct thread *thread)
{
	uint8_t *memory = (uint8_t *)thread;
	struct thread fresh = {
		.stack = (uint64_t)(memory + THREAD_ENGINE_STACK + ENGINE_STACK_SIZE),
		.on_exit = (uint64_t)engine_exit,
		.on_miss = (uint64_t)engine_miss,
		.on_call = (uint64_t)engine_call,
		.on_tool = (uint64_t)engine_tool,
		.self = (uint64_t)thread,
		.fs_engine = (uint64_t)thread->canary,
		.signal_stack = thread->signal_stack,
		.handlers = thread->handlers,
	};
	const uint8_t *from = (const uint8_t *)&fresh;

	for (size_t i = 0; i < sizeof(fresh); i++)
		if (i - offsetof(struct thread, older) >= sizeof(fresh.older))
			((volatile uint8_t *)memory)[i] = from[i];
}

static struct thread *thread_new(void)
{
	struct thread *thread = memory_map(stream_thread_bytes());

	if (!thread)
		return NULL;
	thread_targets_clear(thread);
	thread_reset(thread);
	thread->older = newest;
	__atomic_store_n(&newest, thread, __ATOMIC_RELEASE);
	return thread;
}

struct thread *thread_create(void)
{
	struct thread *thread = thread_reuse();

	if (!thread)
		return thread_new();
	thread_targets_clear(thread);
	thread_reset(thread);
	return thread;
}

struct thread *thread_next(const struct thread *thread)
{
	struct thread *next = thread ? thread->older : newest;

	while (next && thread_is_dead(next))
		next = next->older;
	return next;
}

bool threads_native(void)
{
	for (const struct thread *thread = newest; thread; thread = thread->older)
		if (thread_is_outside(thread))
			return true;
	return false;
}

/* --- Targets of indirect branches -------------------------------------------------------- */

static uint64_t *table(struct thread *thread, size_t offset)
{
	return (uint64_t *)((uint8_t *)thread + offset);
}

#define TAG_GUARD 1ull /* of no target: see targets_guard() */

static size_t index_first(uint64_t pc)
{
	return pc & 0xffff;
}

static size_t index_second(uint64_t pc)
{
	return (pc + 729 * (pc >> 16 & 0xff)) & 0xffff;
}

/*
 * Moves a target from the first table, where another one takes its place, to the second. Not the
 * first few times: they cost less than the page faults of a short program that would look there.
 */
static void target_displace(struct thread *thread, uint64_t pc, uint64_t place)
{
	if (++thread->displacements < DISPLACEMENTS_FEW)
		return;
	table(thread, THREAD_PLACES2)[index_second(pc)] = place;
	table(thread, THREAD_TAGS2)[index_second(pc)] = ~pc;
	thread->displaced = 1;
}

void thread_target_add(struct thread *thread, const struct fragment *fragment)
{
	uint64_t pc = fragment->pc;
	uint64_t *tag = &table(thread, THREAD_TAGS)[index_first(pc)];
	uint64_t *place = &table(thread, THREAD_PLACES)[index_first(pc)];

	if (thread->targets++ == TARGETS_FEW)
		sys_3(madvise, table(thread, THREAD_TAGS), THREAD_TAGS2 - THREAD_TAGS,
		      MADV_POPULATE_WRITE);
	if (*tag && *tag != TAG_GUARD && *tag != ~pc)
		target_displace(thread, ~*tag, *place);
	*place = (uint64_t)fragment->indirect;
	*tag = ~pc;
}

/*
 * An empty tag is that of the last address, to which a program may jump by mistake: where that
 * would be, another one stands.
 */
static void targets_guard(struct thread *thread)
{
	uint64_t *first = &table(thread, THREAD_TAGS)[index_first(UINT64_MAX)];
	uint64_t *second = &table(thread, THREAD_TAGS2)[index_second(UINT64_MAX)];

	if (!*first)
		__atomic_store_n(first, TAG_GUARD, __ATOMIC_RELEASE);
	if (!*second)
		__atomic_store_n(second, TAG_GUARD, __ATOMIC_RELEASE);
}

/* The thread may be in the cache and about to use the place: that stays. */
void thread_target_forget(struct thread *thread, uint64_t pc)
{
	uint64_t *first = &table(thread, THREAD_TAGS)[index_first(pc)];
	uint64_t *second = &table(thread, THREAD_TAGS2)[index_second(pc)];

	if (*first == ~pc)
		__atomic_store_n(first, 0, __ATOMIC_RELEASE);
	if (*second == ~pc)
		__atomic_store_n(second, 0, __ATOMIC_RELEASE);
	targets_guard(thread);
}

/* Tags only, for the same reason. Pages that are given back read as 0. */
void thread_targets_clear(struct thread *thread)
{
	thread->targets = 0;
	thread->displaced = thread->displacements = 0;
	sys_3(madvise, table(thread, THREAD_TAGS), THREAD_PLACES - THREAD_TAGS, MADV_DONTNEED);
	sys_3(madvise, table(thread, THREAD_TAGS2), THREAD_PLACES2 - THREAD_TAGS2, MADV_DONTNEED);
	targets_guard(thread);
}

/*
 * Populates the tables of tags, so that lookups cause no page faults; places are read only if their
 * tag was found. Kernels before 5.14 cannot do it.
 */
void thread_targets_open(struct thread *thread)
{
	enum { POPULATE_READ = 22 };

	sys_3(madvise, table(thread, THREAD_TAGS), THREAD_PLACES - THREAD_TAGS, POPULATE_READ);
	sys_3(madvise, table(thread, THREAD_TAGS2), THREAD_PLACES2 - THREAD_TAGS2, POPULATE_READ);
}

/* --- Who is who -------------------------------------------------------------------------- */

struct thread *thread_find(void)
{
	uint32_t tid;
	struct thread *gs;

	__asm__ volatile("rdgsbase %0" : "=r"(gs));
	for (struct thread *thread = newest; thread; thread = thread->older)
		if (thread == gs)
			return thread;
	tid = (uint32_t)sys_0(gettid);
	for (struct thread *thread = newest; thread; thread = thread->older)
		if (thread->tid == tid && !thread_is_dead(thread))
			return thread;
	return NULL;
}

struct sighand *thread_any_handlers(void)
{
	for (struct thread *thread = newest; thread; thread = thread->older)
		if (!thread_is_dead(thread) && thread->sighand)
			return thread->sighand;
	return NULL;
}

bool thread_is_alone(const struct thread *thread)
{
	long pid = sys_0(getpid);

	for (const struct thread *other = newest; other; other = other->older)
		if (other != thread && !thread_is_dead(other) &&
		    sys_3(tgkill, pid, other->tid, 0) != -3) /* ESRCH */
			return false;
	return true;
}

void threads_only(struct thread *thread)
{
	for (struct thread *other = newest; other; other = other->older)
		if (other != thread) {
			thread_become(other, THREAD_GONE);
			if (stream_wanted())
				stream_forget(other);
		}
}
