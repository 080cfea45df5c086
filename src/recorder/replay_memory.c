// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory as a replayed run sees it. What the run read in the kernel is taken from its log, in the
 * order of the loads; what the run itself has stored since lies over that in an overlay of words of
 * eight bytes, because the log holds what memory held before the run.
 */
#include "isa/uop_eval.h"
#include "recorder/replay_private.h"

uint64_t replay_log_take(struct replay *replay, bool *ret_missing)
{
	size_t at = replay->log_at;

	*ret_missing = true;
	if (at >= replay->run->log_count) {
		replay->broken = true;
		return 0;
	}
	replay->log_at++;
	*ret_missing = run_is_missing(replay->run, (uint32_t)at);
	return replay->run->log[at];
}

static uint64_t stored_bit(uint64_t address)
{
	return 1ull << (address >> 3 & 63);
}

static struct overlay_word *overlay_find(struct replay *replay, uint64_t address)
{
	if (!(replay->stored & stored_bit(address)))
		return NULL;
	for (size_t i = replay->overlay_count; i > 0; i--)
		if (replay->overlay[i - 1].address == address)
			return &replay->overlay[i - 1];
	return NULL;
}

/* The bits of so many bytes from the lowest on; 1 to 8. */
static uint64_t bytes_mask(unsigned size)
{
	return ~0ull >> (64 - size * 8);
}

/* The bits of the bytes in a set of bytes. */
static uint64_t bytes_spread(unsigned bytes)
{
	/* Bits 0 and 7 together would carry in the product. */
	uint64_t bits = ((bytes & 0x7f) * 0x0002040810204081ull) & 0x0101010101010101ull;

	bits |= (uint64_t)(bytes & 0x80) << 49;
	return bits * 0xff;
}

/* Lays what the run has stored over a value that lies within one word. */
static void overlay_lay(struct replay *replay, uint64_t address, unsigned size, uint64_t *value,
			bool *partly, bool *unknown)
{
	const struct overlay_word *word = overlay_find(replay, address & ~7ull);
	unsigned at = address & 7, wanted = (1u << size) - 1, present;
	uint64_t mask;

	if (!word) {
		*partly = true;
		return;
	}
	present = word->present >> at & wanted;
	mask = bytes_spread(present);
	*value = (*value & ~mask) | (word->data >> at * 8 & mask);
	*partly |= present != wanted;
	*unknown |= (word->unknown >> at & present) != 0;
}

static enum run_unread unread_of(const struct replay *replay, uint64_t address)
{
	if (!(replay->run->flags & RUN_IN_KERNEL))
		return RUN_UNREAD_ABSENT;
	return address >> 63 ? RUN_UNREAD_NOT_RAM : RUN_UNREAD_ABSENT_IN_KERNEL;
}

int replay_load(struct replay *replay, uint64_t address, unsigned size, wire_u64 *ret)
{
	bool missing, partly = false, unknown = false;
	uint64_t value = replay_log_take(replay, &missing), high;
	unsigned first = 8 - (address & 7);

	if (size <= first) {
		overlay_lay(replay, address, size, &value, &partly, &unknown);
	} else {
		high = value >> first * 8;
		overlay_lay(replay, address, first, &value, &partly, &unknown);
		overlay_lay(replay, address + first, size - first, &high, &partly, &unknown);
		value = (value & bytes_mask(first)) | high << first * 8;
	}
	*ret = value;
	if (missing && partly) {
		replay->unread[unread_of(replay, address)]++;
		return UOP_LOAD_MISSING;
	}
	return unknown ? UOP_LOAD_UNKNOWN : 0;
}

static struct overlay_word *overlay_at(struct replay *replay, uint64_t address)
{
	struct overlay_word *word = overlay_find(replay, address);

	if (word)
		return word;
	if (replay->overlay_count == OVERLAY_MAX) {
		replay->broken = true;
		return NULL;
	}
	word = &replay->overlay[replay->overlay_count++];
	*word = (struct overlay_word){ .address = address };
	replay->stored |= stored_bit(address);
	return word;
}

/* Stores bytes within one word. */
static void overlay_put(struct replay *replay, uint64_t address, unsigned size, uint64_t value,
			bool unknown)
{
	struct overlay_word *word = overlay_at(replay, address & ~7ull);
	unsigned at = address & 7, bytes = ((1u << size) - 1) << at;
	uint64_t mask = bytes_mask(size) << at * 8;

	if (!word)
		return;
	word->present |= bytes;
	word->unknown = unknown ? word->unknown | bytes : word->unknown & ~bytes;
	word->data = (word->data & ~mask) | (value << at * 8 & mask);
}

int replay_store(struct replay *replay, uint64_t address, unsigned size, uint64_t value,
		 bool unknown)
{
	unsigned first = 8 - (address & 7);

	if (replay->run->flags & RUN_OVERWRITTEN) {
		wire_u64 before = 0;

		/* What is overwritten is not needed to go on. */
		if (!replay_load(replay, address, size, &before))
			fact(replay, SELECTION_OVERWRITTEN, before, size);
	}
	if (size <= first) {
		overlay_put(replay, address, size, value, unknown);
	} else {
		overlay_put(replay, address, first, value, unknown);
		overlay_put(replay, address + first, size - first, value >> first * 8, unknown);
	}
	return 0;
}

int replay_poison(struct replay *replay, uint64_t address, unsigned size)
{
	while (size) {
		unsigned part = 8 - (address & 7);

		part = part < size ? part : size;
		overlay_put(replay, address, part, 0, true);
		address += part;
		size -= part;
	}
	return 0;
}
