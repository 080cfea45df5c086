// SPDX-License-Identifier: BSD-2-Clause
#include "base/memories.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"

enum { CROWD_NS = 2000000 }; /* how long bells_wait() sleeps where it cannot wait for all bells */

static const uint64_t linger = NS_PER_S; /* how long memory is kept after its process has ended */
static const uint64_t look_every = NS_PER_S / 10;

struct memories {
	pthread_mutex_t mutex;
	ARRAY(struct memory *) items; /* by number */
	uint32_t number;
	bool reader;
	uint64_t looked; /* when */
};

struct memories *memories_create(void)
{
	struct memories *memories = mem_zalloc(sizeof(*memories));

	pthread_mutex_init(&memories->mutex, NULL);
	return memories;
}

static void memory_free(struct memory *memory)
{
	munmap(memory->bytes, memory->size);
	close_fd(&memory->file);
	free(memory);
}

void memories_destroy(struct memories *memories)
{
	if (!memories)
		return;
	array_each(&memories->items, item)
		memory_free(*item);
	array_deinit(&memories->items);
	pthread_mutex_destroy(&memories->mutex);
	free(memories);
}

void memories_reader_expect(struct memories *memories)
{
	memories->reader = true;
}

struct memory *memories_add(struct memories *memories, void *bytes, uint64_t size, pid_t pid,
			    uint64_t inode)
{
	struct memory *memory = mem_zalloc(sizeof(*memory));

	pthread_mutex_lock(&memories->mutex);
	*memory = (struct memory){ .bytes = bytes,
				   .size = size,
				   .number = ++memories->number,
				   .pid = pid,
				   .inode = inode,
				   .file = -1,
				   .read = !memories->reader };
	*array_push(&memories->items) = memory;
	pthread_mutex_unlock(&memories->mutex);
	return memory;
}

struct memory *memories_after(struct memories *memories, uint32_t number)
{
	struct memory *found;
	size_t low = 0, high;

	pthread_mutex_lock(&memories->mutex);
	high = memories->items.count;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (memories->items.items[middle]->number > number)
			high = middle;
		else
			low = middle + 1;
	}
	found = low < memories->items.count ? memories->items.items[low] : NULL;
	pthread_mutex_unlock(&memories->mutex);
	return found;
}

size_t memories_count(struct memories *memories)
{
	return memories->items.count;
}

bool pid_is_alive(pid_t pid)
{
	struct pollfd poller = { .events = POLLIN };
	bool alive;

	if (pid <= 0)
		return false;
	poller.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (poller.fd < 0)
		return errno != ESRCH && errno != EINVAL;
	alive = poll(&poller, 1, 0) == 0;
	close(poller.fd);
	return alive;
}

static void end_look(struct memory *memory, uint64_t now)
{
	if (!memory->ended && memory->pid && !pid_is_alive(memory->pid))
		__atomic_store_n(&memory->ended, true, __ATOMIC_RELEASE);
	if (memory->ended && !memory->ended_at)
		memory->ended_at = now;
}

static bool is_needed(const struct memory *memory, uint64_t now)
{
	return !memory->ended || now - memory->ended_at < linger ||
	       !__atomic_load_n(&memory->read, __ATOMIC_ACQUIRE);
}

void memories_collect(struct memories *memories,
		      void (*gone)(void *ctx, const struct memory *memory), void *ctx)
{
	uint64_t now = clock_monotonic();
	size_t kept = 0;

	if (now - memories->looked < look_every)
		return;
	memories->looked = now;
	pthread_mutex_lock(&memories->mutex);
	for (size_t i = 0; i < memories->items.count; i++) {
		struct memory *memory = memories->items.items[i];

		end_look(memory, now);
		if (is_needed(memory, now)) {
			memories->items.items[kept++] = memory;
			continue;
		}
		gone(ctx, memory);
		memory_free(memory);
	}
	memories->items.count = kept;
	pthread_mutex_unlock(&memories->mutex);
}

/* --- Bells ------------------------------------------------------------------------------------ */

void bells_add(struct bells *bells, uint32_t *word, uint32_t value)
{
	if (bells->count < BELLS_MAX) {
		bells->words[bells->count] = word;
		bells->values[bells->count] = value;
	}
	bells->count++;
}

static struct timespec from_now(uint64_t ns)
{
	uint64_t at = clock_monotonic() + ns;

	return (struct timespec){ .tv_sec = (time_t)(at / NS_PER_S),
				  .tv_nsec = (long)(at % NS_PER_S) };
}

/* As linux/futex.h has it since 5.16. */
struct waiter {
	uint64_t value, address;
	uint32_t flags, reserved;
};
enum { WAITER_32_BITS = 2, SYS_FUTEX_WAITV = 449 };

void bells_wait(const struct bells *bells, const struct timespec *timeout)
{
	struct waiter waiters[BELLS_MAX];
	size_t count = bells->count < BELLS_MAX ? bells->count : BELLS_MAX;
	uint64_t ns = timeout ? (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec
			      : UINT64_MAX;
	struct timespec end;

	if (bells->count > BELLS_MAX && ns > CROWD_NS)
		ns = CROWD_NS;
	for (size_t i = 0; i < count; i++)
		waiters[i] = (struct waiter){ .value = bells->values[i],
					      .address = (uint64_t)bells->words[i],
					      .flags = WAITER_32_BITS };
	end = from_now(ns == UINT64_MAX ? 0 : ns);
	if (syscall(SYS_FUTEX_WAITV, waiters, count, 0, ns == UINT64_MAX ? NULL : &end,
		    CLOCK_MONOTONIC) >= 0 ||
	    (errno != ENOSYS && errno != EPERM))
		return;
	end = (struct timespec){ .tv_nsec = (long)(ns < CROWD_NS ? ns : CROWD_NS) };
	nanosleep(&end, NULL);
}

void bell_ring(uint32_t *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
