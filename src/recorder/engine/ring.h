/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring of a slot (wire/stream.h), as its consumer sees it. What the producer writes may be
 * anything.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/stream.h"

struct ring {
	struct stream_slot *slot;
	const char *bytes;
	uint32_t size; /* of the ring, bytes */
	uint64_t taken; /* our own count; the one in the slot is only read by the producer */
	uint64_t position; /* of the producer when we last looked */
	bool broken; /* it was where it cannot be: nothing is taken any more */
};

void ring_init(struct ring *ring, struct stream_slot *slot);
/*
 * Looks where the producer is. unit: it moves by multiples of this. hold: of what is there, so much
 * is left: it may still be taken back. final: it has ended, perhaps in the middle of a step.
 */
void ring_look(struct ring *ring, unsigned unit, unsigned hold, bool final);
/*
 * Copies the first bytes of those that were there at the last look, without taking them; false:
 * there are fewer.
 */
bool ring_peek(const struct ring *ring, void *ret, size_t size);
/*
 * Copies up to size bytes of what was there at the last look. Returns how many. The producer may
 * then use their place.
 */
size_t ring_take(struct ring *ring, void *ret, size_t size);
/* Wakes the producer if it waits. */
void ring_release(struct ring *ring);
