// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads of Java and their trees.
 *
 * A platform thread is a kernel thread, and its memory is that of the hooks, so that compiled-in
 * hooks of native code go on in the same tree. A virtual thread has memory of its own. While it is
 * mounted, the clock and the page of its carrier are its own: what the carrier used before belongs
 * to others, and what is used from the unmount on, too. calls/reuse.h has the rules, also for
 * events that are missing, late, or told by another kernel thread.
 */
#include "java/agent.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct java_pauses java_pauses;

static struct hooks_thread nobody = { .java = UINT64_MAX };
static struct hooks_thread **table;

/* Virtual threads that have memory, by `next`. */
static pthread_mutex_t virtual_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hooks_thread *virtual_threads;
/* What the calling kernel thread carries; turns change under the lock. */
static __thread struct reuse_entry carried __attribute__((tls_model("initial-exec")));

struct hooks_thread **java_table(void)
{
	void *memory;

	if (table)
		return table;
	memory = mmap(NULL, JAVA_TABLE_SIZE * sizeof(*table), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	table = memory;
	for (int i = 0; i < JAVA_TABLE_SIZE; i++)
		table[i] = &nobody;
	return table;
}

static struct hooks_thread **entry_of(uint64_t number)
{
	return &table[number & (JAVA_TABLE_SIZE - 1)];
}

static struct hooks_thread *install(struct hooks_thread *thread, uint64_t number)
{
	__atomic_store_n(&thread->java, number, __ATOMIC_RELAXED);
	__atomic_store_n(entry_of(number), thread, __ATOMIC_RELEASE);
	return thread;
}

/* Removes the thread from the table. */
static void remove_entry(struct hooks_thread *thread)
{
	struct hooks_thread *expected = thread;

	if (thread->java)
		__atomic_compare_exchange_n(entry_of(thread->java), &expected, &nobody, 0,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->java, 0, __ATOMIC_RELAXED);
}

/* --- Platform threads ------------------------------------------------------------------------ */

static void pauses_begin(struct hooks_thread *thread)
{
	thread->paused = __atomic_load_n(&java_pauses.ns, __ATOMIC_RELAXED);
	thread->pauses = __atomic_load_n(&java_pauses.count, __ATOMIC_RELAXED);
}

static struct hooks_thread *platform_begin(uint64_t number)
{
	struct hooks_thread *thread = hooks_self;

	/* Hooks that were called before there was a Java machine have another clock. */
	if (thread && thread->slot->clock != CALL_CLOCK_NS) {
		hooks_self_end();
		java_thread_renew();
		thread = NULL;
	}
	if (!thread) {
		thread = hooks_thread_start(0);
		if (!thread)
			return NULL;
		pauses_begin(thread);
	}
	return install(thread, number);
}

void java_thread_end(void)
{
	if (hooks_self)
		remove_entry(hooks_self);
	hooks_self_end();
}

void java_thread_renew(void)
{
	if (hooks_phase == PHASE_OVER)
		hooks_phase = PHASE_NEW;
}

void java_thread_name(struct hooks_thread *thread, const char *name)
{
	char text[CALL_THREAD_NAME];

	snprintf(text, sizeof(text), "%s", name);
	memcpy(thread->slot->name, text, sizeof(text));
}

/* The virtual thread that the calling kernel thread runs; NULL: none. */
static struct hooks_thread *mounted_here(void)
{
	char *turn = (char *)reuse_current(&carried);

	return turn ? (struct hooks_thread *)(turn - offsetof(struct hooks_thread, turn)) : NULL;
}

struct hooks_thread *java_thread_current(void)
{
	struct hooks_thread *mounted = mounted_here();

	return mounted ? mounted : hooks_self;
}

/* --- Virtual threads ------------------------------------------------------------------------- */

static struct hooks_thread *virtual_find(uint64_t number)
{
	struct hooks_thread *thread;

	pthread_mutex_lock(&virtual_lock);
	thread = virtual_threads;
	while (thread && thread->java != number)
		thread = thread->next;
	pthread_mutex_unlock(&virtual_lock);
	return thread;
}

/* The carrier needs a page and a clock even if no method of its own was ever seen. */
static struct hooks_thread *carrier_get(void)
{
	return hooks_self ? hooks_self : hooks_thread_start(0);
}

/* Restarts its clock: the time before belongs to another thread. */
static void clock_renew(struct hooks_thread *thread)
{
	uint32_t lock = 0;

	thread->last = hooks_time(thread, &lock);
	thread->page_lock = lock;
	hooks_units_on(thread, thread->last, lock); /* asks the clock */
}

typedef struct reuse_turn turn_function(struct reuse_entry *entry, struct reuse_thread *thread);

/*
 * A notice about a thread: if another one runs from now on, who ran until now is charged. A notice
 * that changes nothing leaves the change to the next event of who runs.
 */
static void turn_change(turn_function *change, struct hooks_thread *thread)
{
	struct hooks_thread *before = mounted_here(), *carrier = hooks_self;
	struct reuse_turn turn;

	pthread_mutex_lock(&virtual_lock);
	turn = change(&carried, &thread->turn);
	pthread_mutex_unlock(&virtual_lock);
	if (before != mounted_here()) {
		if (before && before->timed)
			java_charge(before);
		if (!before && carrier && carrier->timed)
			hooks_charge(carrier);
		if (before && carrier)
			clock_renew(carrier);
	}
	if (!turn.over)
		return;
	thread = (void *)((char *)turn.over - offsetof(struct hooks_thread, turn));
	thread->timed = 0; /* charged already */
	hooks_thread_end(thread);
}

/* From now on the carrier runs it. */
static void adopt(struct hooks_thread *thread)
{
	struct hooks_thread *carrier = carrier_get();

	turn_change(reuse_start, thread);
	if (!carrier || mounted_here() != thread)
		return;
	thread->page = carrier->page;
	thread->cpu = carrier->cpu;
	thread->since = carrier->since;
	clock_renew(thread);
}

static struct hooks_thread *virtual_begin(uint64_t number)
{
	struct hooks_thread *thread = virtual_find(number);

	if (!thread) {
		thread = hooks_thread_create(0);
		if (!thread)
			return NULL;
		thread->alone = true;
		pauses_begin(thread);
		__atomic_store_n(&thread->slot->state, CALL_SLOT_LIVE, __ATOMIC_RELEASE);
		__atomic_store_n(&thread->java, number, __ATOMIC_RELAXED);
		pthread_mutex_lock(&virtual_lock);
		thread->next = virtual_threads;
		virtual_threads = thread;
		pthread_mutex_unlock(&virtual_lock);
	}
	if (mounted_here() != thread)
		adopt(thread);
	return install(thread, number);
}

void java_virtual_mount(uint64_t number)
{
	struct hooks_thread *thread = virtual_find(number);

	if (thread && mounted_here() != thread)
		adopt(thread);
}

/*
 * The virtual thread is charged for what it used; from now on the carrier is charged, until the
 * next mount. A thread whose end was told by another kernel thread has no number any more.
 */
void java_virtual_unmount(uint64_t number)
{
	struct hooks_thread *thread = mounted_here();

	if (thread && (thread->java == number || thread->turn.terminated))
		turn_change(reuse_stop, thread);
}

void java_virtual_end(uint64_t number)
{
	struct hooks_thread *thread = virtual_find(number);
	struct hooks_thread **link = &virtual_threads;

	if (!thread)
		return;
	pthread_mutex_lock(&virtual_lock);
	while (*link && *link != thread)
		link = &(*link)->next;
	if (*link)
		*link = thread->next;
	pthread_mutex_unlock(&virtual_lock);
	remove_entry(thread);
	turn_change(reuse_end, thread);
}

struct hooks_thread *java_thread_begin(uint64_t number, bool is_virtual)
{
	if (!hooks_area || !table)
		return NULL;
	return is_virtual ? virtual_begin(number) : platform_begin(number);
}

/* --- Events ----------------------------------------------------------------------------------- */

/* ns of pauses within the interval, which become those of a node below the thread itself. */
static uint64_t pauses_take(struct hooks_thread *thread, uint64_t interval)
{
	uint64_t paused = __atomic_load_n(&java_pauses.ns, __ATOMIC_ACQUIRE) - thread->paused;
	uint64_t count = __atomic_load_n(&java_pauses.count, __ATOMIC_RELAXED) - thread->pauses;
	struct call_node *node;

	if (!paused)
		return 0;
	thread->paused += paused;
	thread->pauses += count;
	paused = paused < interval ? paused : interval;
	node = call_tree_find(&thread->tree, CALL_ROOT, CALL_JAVA_GC);
	node->calls += count;
	node->amounts[CALL_JAVA_TIME].elapsed += paused;
	return paused;
}

void java_charge(struct hooks_thread *thread)
{
	uint32_t lock = 0;
	uint64_t now = hooks_time(thread, &lock);
	uint64_t interval = now - thread->last;
	uint64_t elapsed = interval - pauses_take(thread, interval);
	struct call_amount *amount = &call_tree_current(&thread->tree)->amounts[CALL_JAVA_TIME];

	if (lock != thread->page_lock)
		interval = hooks_units_on(thread, now, lock);
	thread->last = now;
	amount->elapsed += elapsed;
	amount->base += interval < elapsed ? interval : elapsed;
}

/* Frames of Java have no stack pointer: those of native hooks are always below them. */
void java_enter(struct hooks_thread *thread, uint32_t routine)
{
	struct call_frame *top = thread->tree.top;

	call_tree_enter(&thread->tree, routine, 0);
	if (thread->tree.top > top)
		thread->tree.top->sp = UINT64_MAX;
}

void java_leave(struct hooks_thread *thread, uint32_t routine)
{
	call_tree_leave(&thread->tree, routine, 0);
}

void java_caught(struct hooks_thread *thread, uint32_t routine)
{
	call_tree_unwind(&thread->tree, routine);
}
