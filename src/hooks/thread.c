// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads of a program that build their own trees of calls: their slots, their clocks, their ends.
 * A thread that ends gives its memory to the next one: a Java thread may look at it at any time to
 * find out whether it is its own (java/AssayCalls.java), so it is never unmapped.
 */
#include "hooks/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct hooks_thread *hooks_self __attribute__((tls_model("initial-exec")));
__thread enum hooks_phase hooks_phase __attribute__((tls_model("initial-exec")));

struct call_area *hooks_area;

static const struct perf_event_mmap_page no_page;
enum { EVENT_NAME = 16 }; /* bytes of a name by the kernel */

static pthread_key_t key;
static bool in_java;
static pthread_mutex_t unused_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hooks_thread *unused;

static struct call_slot *slot_at(uint32_t number)
{
	return (struct call_slot *)((char *)hooks_area + CALL_AREA_SLOTS +
				    number * hooks_area->slot_bytes);
}

bool hooks_host_is_gone(void)
{
	return kill((pid_t)hooks_area->host_pid, 0) && errno == ESRCH;
}

/* Returns a free slot, or NULL; *ret_soon: whether there is one that the host will free soon. */
static struct call_slot *slot_look(bool *ret_soon)
{
	*ret_soon = false;
	for (uint32_t i = 0; i < hooks_area->slot_count; i++) {
		struct call_slot *slot = slot_at(i);
		uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);
		uint32_t expected = CALL_SLOT_FREE;

		if (state == CALL_SLOT_FREE &&
		    __atomic_compare_exchange_n(&slot->state, &expected, CALL_SLOT_TAKEN, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return slot;
		*ret_soon |= state == CALL_SLOT_ENDED;
	}
	return NULL;
}

/*
 * Threads may start and end faster than the host takes their trees. A new one then waits for a
 * slot, so that none is lost.
 */
static struct call_slot *slot_take(void)
{
	const struct timespec moment = { .tv_nsec = 200000 };
	int error = errno; /* the program's */
	struct call_slot *slot;
	bool soon;

	while (!(slot = slot_look(&soon)) && soon && !hooks_host_is_gone())
		syscall(SYS_nanosleep, &moment, NULL);
	errno = error;
	if (!slot)
		__atomic_add_fetch(&hooks_area->refused, 1, __ATOMIC_RELAXED);
	return slot;
}

static size_t thread_bytes(void)
{
	return sizeof(struct hooks_thread) +
	       (hooks_area->depth_limit + 2) * sizeof(struct call_frame);
}

/* The lock may be held for ever in the child of a fork. */
static struct hooks_thread *unused_take(void)
{
	struct hooks_thread *thread;

	if (pthread_mutex_trylock(&unused_lock))
		return NULL;
	thread = unused;
	if (thread)
		unused = thread->next;
	pthread_mutex_unlock(&unused_lock);
	return thread;
}

static struct hooks_thread *memory_take(void)
{
	struct hooks_thread *thread;
	void *memory;

	thread = unused_take();
	if (thread && !madvise(thread, thread_bytes(), MADV_DONTNEED)) /* zeroes again */
		return thread;
	memory = mmap(NULL, thread_bytes(), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return memory == MAP_FAILED ? NULL : memory;
}

static void memory_give(struct hooks_thread *thread)
{
	if (pthread_mutex_trylock(&unused_lock))
		return; /* its memory is leaked, because a hook must not wait for the lock */
	thread->next = unused;
	unused = thread;
	pthread_mutex_unlock(&unused_lock);
}

uint64_t hooks_cpu_clock(void)
{
	struct timespec now = { 0 };

	syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Opens a perf event that counts nothing, for its page, whose lock word changes at each context
 * switch.
 */
void hooks_page_open(struct hooks_thread *thread)
{
	struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE,
					 .size = sizeof(event),
					 .config = PERF_COUNT_SW_DUMMY,
					 .exclude_kernel = 1,
					 .exclude_hv = 1 };
	int fd = (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	void *page = MAP_FAILED;

	if (fd >= 0) {
		page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
		close(fd); /* the page keeps the event */
	}
	if (page == MAP_FAILED) {
		__atomic_add_fetch(&hooks_area->wall_only, 1, __ATOMIC_RELAXED);
		return;
	}
	thread->page = page;
	thread->page_lock = thread->page->lock;
	thread->cpu = hooks_cpu_clock();
	thread->since = hooks_now(thread);
}

static void page_close(struct hooks_thread *thread)
{
	if (thread->page != &no_page && !thread->alone)
		munmap((void *)thread->page, (size_t)sysconf(_SC_PAGESIZE));
	thread->page = &no_page;
}

void hooks_tree_reset(struct hooks_thread *thread)
{
	struct call_tree_options options = { .metrics = in_java ? CALL_JAVA_METRICS
								: hooks_area->timed,
					     .limit = hooks_area->node_limit,
					     .depth_limit = hooks_area->depth_limit,
					     .prune_permille = hooks_area->prune_permille,
					     .rule = CALL_STACK_BOUND };

	thread->tree.frames[1].at = NULL; /* the frame of an earlier call */
	thread->now = (struct call_amount){ 0 };
	thread->tree.weighs_itself = in_java; /* the Java side only moves the top */
	call_tree_init(&thread->tree, &options);
}

struct hooks_thread *hooks_thread_create(uint32_t parent)
{
	struct call_slot *slot = slot_take();
	struct hooks_thread *thread = slot ? memory_take() : NULL;
	struct call_tasks *tasks;

	if (!thread) {
		if (slot)
			__atomic_store_n(&slot->state, CALL_SLOT_FREE, __ATOMIC_RELEASE);
		return NULL;
	}
	slot->clock = in_java ? CALL_CLOCK_NS : CALL_CLOCK_TICKS;
	slot->pid = (uint32_t)getpid();
	slot->tid = (uint32_t)syscall(SYS_gettid);
	slot->parent = parent;
	slot->ended = 0;
	memset(slot->name, 0, sizeof(slot->name));
	prctl(PR_GET_NAME, slot->name);
	thread->slot = slot;
	thread->timed = hooks_area->timed;
	thread->events = hooks_area->event_bytes && !in_java;
	slot->overhead = in_java ? hooks_area->java_overhead : hooks_area->overhead;
	slot->number = __atomic_add_fetch(&hooks_area->thread_count, 1, __ATOMIC_RELAXED);
	tasks = (struct call_tasks *)((char *)slot + hooks_area->tasks_at);
	tasks->count = tasks->refused = 0;
	slot->written = slot->taken = slot->dropped = 0;
	slot->events = thread->events;
	thread->units_per_ms = in_java ? 1000000 : hooks_area->ticks_per_ms;
	thread->page = &no_page;
	thread->tree.head = &slot->head;
	thread->tree.nodes = (char *)slot + CALL_SLOT_NODES;
	thread->tree.frames = (struct call_frame *)(thread + 1);
	hooks_tree_reset(thread);
	slot->started = thread->last = hooks_now(thread);
	return thread;
}

static struct hooks_thread *thread_start(uint32_t parent)
{
	struct hooks_thread *thread = hooks_thread_create(parent);

	if (!thread) {
		hooks_phase = PHASE_OVER;
		return NULL;
	}
	if (thread->timed)
		hooks_page_open(thread);
	pthread_setspecific(key, thread);
	thread->last = hooks_now(thread);
	__atomic_store_n(&thread->slot->state, CALL_SLOT_LIVE, __ATOMIC_RELEASE);
	hooks_phase = PHASE_RUNNING;
	hooks_self = thread;
	return thread;
}

/* Nothing that is called here may be where the program cancels the thread. */
struct hooks_thread *hooks_thread_start(uint32_t parent)
{
	struct hooks_thread *thread;
	int before;

	if (!hooks_area || hooks_phase != PHASE_NEW)
		return NULL;
	hooks_phase = PHASE_STARTING; /* what is called here may be instrumented itself */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	thread = thread_start(parent);
	pthread_setcancelstate(before, NULL);
	return thread;
}

void hooks_thread_end(struct hooks_thread *thread)
{
	if (thread->timed)
		hooks_charge(thread);
	if (thread->slot->clock != CALL_CLOCK_NS) /* Java has names of its own */
		prctl(PR_GET_NAME, thread->slot->name);
	if (thread->events) {
		hooks_event_write(thread, CALL_MAJOR_THREAD, CALL_MINOR_NAME, 0, 0,
				  thread->slot->name, EVENT_NAME);
		hooks_event_write(thread, CALL_MAJOR_THREAD, CALL_MINOR_END, thread->slot->tid,
				  thread->slot->started, NULL, 0);
	}
	call_tree_end(&thread->tree);
	page_close(thread);
	thread->slot->ended = hooks_now(thread);
	__atomic_store_n(&thread->slot->state, CALL_SLOT_ENDED, __ATOMIC_RELEASE);
	memory_give(thread);
}

static void self_end(void *argument)
{
	struct hooks_thread *thread = argument;

	if (thread != hooks_self)
		return;
	hooks_self = NULL;
	hooks_phase = PHASE_OVER;
	__atomic_store_n(&thread->java, 0, __ATOMIC_RELAXED);
	hooks_thread_end(thread);
}

void hooks_self_end(void)
{
	if (hooks_self)
		self_end(hooks_self);
}

/*
 * As much as the CPU clock went on since it was last asked, without what was counted meanwhile.
 * That may be more than the clock says where a virtual machine's processor was taken away: no clock
 * in the machine shows that, and it stays where it happened.
 */
__attribute__((noinline)) uint64_t hooks_units_on(struct hooks_thread *thread, uint64_t now,
						  uint32_t lock)
{
	uint64_t cpu = hooks_cpu_clock();
	uint64_t ran = thread->last - thread->since;
	uint64_t interval = now - thread->last;
	uint64_t units =
		(uint64_t)((unsigned __int128)(cpu - thread->cpu) * thread->units_per_ms / 1000000);

	units = units > ran ? units - ran : 0;
	thread->page_lock = lock;
	thread->cpu = cpu;
	thread->since = now;
	return units < interval ? units : interval;
}

static bool area_fits(const struct call_area *found, uint64_t bytes)
{
	return found->magic == CALL_AREA_MAGIC && found->version == CALL_AREA_VERSION &&
	       found->slot_bytes &&
	       found->slot_count <= (bytes - CALL_AREA_SLOTS) / found->slot_bytes;
}

bool hooks_area_open(const char *path)
{
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	off_t bytes = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
	void *mapped = MAP_FAILED;

	if (bytes > CALL_AREA_SLOTS)
		mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (mapped == MAP_FAILED)
		return false;
	if (!area_fits(mapped, (uint64_t)bytes) || pthread_key_create(&key, self_end)) {
		munmap(mapped, (size_t)bytes);
		return false;
	}
	hooks_area = mapped;
	return true;
}

void hooks_java_begin(void)
{
	in_java = true;
}
