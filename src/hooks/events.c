// SPDX-License-Identifier: BSD-2-Clause
/* Events as records, in the ring of a thread's slot. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hooks/thread.h"

/* Reads the clocks anew, so that a wait for the host is not charged to the program. */
static void clocks_look(struct hooks_thread *thread)
{
	if (!thread->timed)
		return;
	thread->last = hooks_time(thread, &thread->page_lock);
	thread->cpu = hooks_cpu_clock();
	thread->since = thread->last;
}

static bool ring_wait(struct hooks_thread *thread, uint64_t size)
{
	const struct timespec moment = { .tv_nsec = 100000 };
	struct call_slot *slot = thread->slot;
	bool waited = false;
	int error = errno; /* the program's */

	while (slot->written + size - __atomic_load_n(&slot->taken, __ATOMIC_ACQUIRE) >
	       hooks_area->event_bytes) {
		if (hooks_host_is_gone()) {
			errno = error;
			return false;
		}
		syscall(SYS_nanosleep, &moment, NULL);
		waited = true;
	}
	if (waited)
		clocks_look(thread);
	errno = error;
	return true;
}

static void ring_put(const struct call_slot *slot, uint64_t at, const void *bytes, size_t size)
{
	char *ring = (char *)slot + hooks_area->slot_bytes - hooks_area->event_bytes;
	uint64_t place = at & (hooks_area->event_bytes - 1);
	size_t first = size < hooks_area->event_bytes - place ? size
							      : hooks_area->event_bytes - place;

	memcpy(ring + place, bytes, first);
	memcpy(ring, (const char *)bytes + first, size - first);
}

__attribute__((noinline)) void hooks_event_write(struct hooks_thread *thread, enum call_major major,
						 enum call_minor minor, uint64_t routine,
						 uint64_t sp, const void *payload, uint32_t size)
{
	struct call_slot *slot = thread->slot;
	uint32_t amounts = thread->timed ? sizeof(thread->now) : 0;
	const struct call_event event = { .size = (uint32_t)sizeof(event) + amounts + size,
					  .major = (uint16_t)major,
					  .minor = minor,
					  .thread = slot->number,
					  .routine = routine,
					  .sp = sp };
	uint64_t at = slot->written;

	if (!ring_wait(thread, event.size)) {
		slot->dropped++;
		return;
	}
	ring_put(slot, at, &event, sizeof(event));
	ring_put(slot, at + sizeof(event), &thread->now, amounts);
	ring_put(slot, at + sizeof(event) + amounts, payload, size);
	__atomic_store_n(&slot->written, at + event.size, __ATOMIC_RELEASE);
}
