// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads the ring of one thread, or the catalog of one process, out of shared memory. A producer's
 * position follows from two words that it does not write at once. They are read in the order
 * passed, next: whatever the producer does in between, the position is one that it had meanwhile,
 * or the two words are seen not to fit.
 *
 *	in	a slot in shared memory
 *	out	the words that were appended since the last look
 *	owner	engine_source.c, one for each slot that is in use
 *
 * 1. Each shared word is read once per look.
 * 2. taken <= position <= taken + size, or the ring is broken.
 */
#include "recorder/engine/ring.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void ring_init(struct ring *ring, struct stream_slot *slot)
{
	uint32_t size = __atomic_load_n(&slot->ring, __ATOMIC_RELAXED);

	*ring = (struct ring){ .slot = slot,
			       .bytes = (const char *)slot + STREAM_RING_OFFSET,
			       .size = size };
	ring->broken = size != STREAM_RING && size != STREAM_RING_LARGE;
}

/*
 * A producer that ended between the two words: whole chunks are certain, and next says if it had
 * gone on to the ring's start.
 */
static uint64_t position_guess(const struct ring *ring, uint64_t passed, uint64_t next,
			       uint64_t start)
{
	bool wraps = passed % ring->size == ring->size - STREAM_CHUNK;

	return wraps && next == start ? passed + STREAM_CHUNK : passed;
}

void ring_look(struct ring *ring, unsigned unit, unsigned hold, bool final)
{
	uint64_t start = __atomic_load_n(&ring->slot->start, __ATOMIC_ACQUIRE);
	uint64_t passed = __atomic_load_n(&ring->slot->passed, __ATOMIC_ACQUIRE);
	uint64_t next = __atomic_load_n(&ring->slot->next, __ATOMIC_ACQUIRE);
	uint64_t beyond, position;

	if (ring->broken)
		return;
	beyond = next - (start + passed % ring->size);
	position = passed + beyond;
	if (beyond > STREAM_CHUNK && !final)
		return;
	if (beyond > STREAM_CHUNK)
		position = position_guess(ring, passed, next, start);
	if (position == ring->taken)
		return;
	position -= hold;
	ring->broken = position < ring->taken || position - ring->taken > ring->size ||
		       passed % STREAM_CHUNK || position % unit;
	if (!ring->broken)
		ring->position = position;
}

bool ring_peek(const struct ring *ring, void *ret, size_t size)
{
	size_t place, most;

	if (ring->broken || ring->position - ring->taken < size)
		return false;
	place = ring->taken % ring->size;
	most = ring->size - place;
	most = size < most ? size : most;
	memcpy(ret, ring->bytes + place, most);
	memcpy((char *)ret + most, ring->bytes, size - most);
	return true;
}

void ring_release(struct ring *ring)
{
	/* The producer says that it waits before it looks at taken for the last time. */
	if (__atomic_load_n(&ring->slot->waiting, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(&ring->slot->waiting, 0, __ATOMIC_SEQ_CST)) {
		__atomic_fetch_add(&ring->slot->wake, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &ring->slot->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
}

size_t ring_take(struct ring *ring, void *ret, size_t size)
{
	uint64_t left = ring->position - ring->taken;
	size_t place, most;

	if (ring->broken)
		return 0;
	place = ring->taken % ring->size;
	most = ring->size - place;
	size = size < left ? size : (size_t)left;
	most = size < most ? size : most;
	memcpy(ret, ring->bytes + place, most);
	memcpy((char *)ret + most, ring->bytes, size - most);
	ring->taken += size;
	__atomic_store_n(&ring->slot->taken, ring->taken, __ATOMIC_SEQ_CST);
	/*
	 * A waiting producer goes on only when half of the ring is free, so that it can run for a
	 * while. That point is always reached: all that a look has found is taken before the next
	 * look.
	 */
	if (ring->position - ring->taken <= ring->size / 2)
		ring_release(ring);
	return size;
}
