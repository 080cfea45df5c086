/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory as a run sees it. Loads read the interrupted context's memory with helpers that cannot
 * fault, through windows that are read once; stores go to an overlay, a small hash table of aligned
 * words, and nothing else is written. What the host cannot know is appended to the log.
 * run.bpf.h says what must hold.
 */
#pragma once

#include "capture/kernel/run_state.bpf.h"
#include "isa/uop_eval.h"

static __always_inline int is_ram(__u64 address)
{
	__u64 physical = address - direct_map;

	for (int i = 0; i < RUN_RAM_RANGES; i++)
		if (physical - ram[i].start < ram[i].size)
			return physical >= FIRST_MEGABYTE;
	return 0;
}

/*
 * If the symbol table lacks the variables although the direct map is randomised, the fixed address
 * is wrong. That shows because a task, which is in RAM, does not lie there.
 */
static __always_inline void memory_find(void)
{
	__u64 base = DIRECT_MAP_FIXED, pages = PAGE_MAP_FIXED;

	if (direct_map)
		return;
	if (direct_map_variable)
		bpf_probe_read_kernel(&base, 8, (void *)direct_map_variable);
	if (page_map_variable)
		bpf_probe_read_kernel(&pages, 8, (void *)page_map_variable);
	direct_map = base;
	page_map = pages;
	if (is_ram(bpf_get_current_task()))
		return;
	direct_map = NOWHERE;
	page_map = NOWHERE;
}

/*
 * Whether the kernel's address is one of plain RAM. Stacks lie among device mappings, each between
 * two empty pages.
 */
static __always_inline int kernel_readable(const struct run *run, __u64 address)
{
	return address - image_start < image_end - image_start ||
	       address - modules_start < modules_end - modules_start ||
	       address - run->stack_start < THREAD_SIZE || address - run->rsp_page < PAGE ||
	       (address - page_map < PAGE_MAP_SIZE && page_map != NOWHERE) || is_ram(address);
}

static __always_inline long run_read(const struct run *run, __u64 address, void *ret, __u32 size)
{
	if (!run->in_kernel || address < USER_END)
		return run->user_hidden ? -1 : bpf_probe_read_user(ret, size, (void *)address);
	if (!kernel_readable(run, address) || !kernel_readable(run, address + size - 1))
		return -1;
	return bpf_probe_read_kernel(ret, size, (void *)address);
}

static __always_inline struct window *window_at(struct run *run, __u64 address)
{
	__u64 start = address & ~(WINDOW_SIZE - 1ull);
	__u32 at = (start / WINDOW_SIZE ^ start >> 12) & (WINDOWS - 1);
	struct window *window = &run->windows[at];

	if (window->serial == run->serial && window->start == start)
		return window;
	window->serial = run->serial;
	window->start = start;
	window->missing = run_read(run, start, window->data, WINDOW_SIZE) != 0;
	return window;
}

/* size is up to 8. */
static __always_inline long run_peek(struct run *run, __u64 address, __u64 *ret, __u32 size)
{
	__u32 offset = address & (WINDOW_SIZE - 1);
	struct window *window;

	if (offset + size > WINDOW_SIZE)
		return run_read(run, address, ret, size);
	window = window_at(run, address);
	if (window->missing)
		return -1;
	*ret = *(__u64 *)(window->data + offset) & ~0ull >> (64 - size * 8);
	return 0;
}

static __always_inline void log_word(struct run *run, __u64 word, __u32 missing)
{
	__u32 at = run->log_count & (RUN_LOG_MAX - 1);

	run->log[at] = word;
	if (at % 64 == 0)
		run->missing[at / 64] = 0;
	if (missing)
		run->missing[at / 64] |= 1ull << (at & 63);
	run->log_count++;
}

/* A word may lie in one of four slots. */
struct overlay_slots {
	__u32 at[4];
	__u64 stored; /* bit of run->stored */
};

static __always_inline struct overlay_slots overlay_slots(__u64 address)
{
	__u64 hash = (address >> 3) * 0x9e3779b97f4a7c15ull;
	__u32 first = (__u32)(hash >> 55) & (OVERLAY_WORDS - 1);
	__u32 second = (__u32)(hash >> 40) & (OVERLAY_WORDS - 1);

	return (struct overlay_slots){ { first, first ^ 1, second, second ^ 1 },
				       1ull << (hash >> 34 & 63) };
}

static __always_inline struct overlay_word *overlay_find(struct run *run, __u64 address)
{
	struct overlay_slots slots = overlay_slots(address);

	if (!(run->stored & slots.stored))
		return 0;
	for (int i = 0; i < 4; i++) {
		struct overlay_word *word = &run->overlay[slots.at[i] & (OVERLAY_WORDS - 1)];

		if (word->serial == run->serial && word->address == address)
			return word;
	}
	return 0;
}

static __always_inline struct overlay_word *overlay_at(struct run *run, __u64 address)
{
	struct overlay_slots slots = overlay_slots(address);
	struct overlay_word *word = overlay_find(run, address);

	if (word)
		return word;
	for (int i = 0; i < 4; i++) {
		word = &run->overlay[slots.at[i] & (OVERLAY_WORDS - 1)];
		if (word->serial == run->serial)
			continue;
		run->stored |= slots.stored;
		word->serial = run->serial;
		word->address = address;
		word->data = 0;
		word->present = 0;
		word->unknown = 0;
		return word;
	}
	return 0;
}

/* The bits of the bytes in a mask of bytes. */
static __always_inline __u64 bytes_spread(__u32 bytes)
{
	/* Bits 0 and 7 together would carry in the product. */
	__u64 bits = ((bytes & 0x7f) * 0x0002040810204081ull) & 0x0101010101010101ull;

	bits |= (__u64)(bytes & 0x80) << 49;
	return bits * 0xff;
}

/* Bytes [first, first + size) of a word, as a mask of bytes; size up to 8. */
static __always_inline __u32 bytes_of(__u32 first, __u32 size)
{
	return ((1u << size) - 1) << first & 0xff;
}

enum { LAID_UNKNOWN = 1, LAID_PARTLY = 2 };

/*
 * Lays a word of the overlay over its bytes of value; shift: where the word begins in value, in
 * bytes.
 */
static __always_inline __u32 overlay_lay(struct run *run, __u64 address, __u32 bytes, __s32 shift,
					 __u64 *value)
{
	struct overlay_word *word = overlay_find(run, address);
	__u64 mask, data;
	__u32 laid = 0;

	if (!word)
		return LAID_PARTLY;
	mask = bytes_spread(word->present & bytes);
	data = word->data & mask;
	if (shift >= 0) {
		mask <<= shift * 8 & 63;
		data <<= shift * 8 & 63;
	} else {
		mask >>= -shift * 8 & 63;
		data >>= -shift * 8 & 63;
	}
	*value = (*value & ~mask) | data;
	if (word->present & bytes & word->unknown)
		laid |= LAID_UNKNOWN;
	if (bytes & ~word->present)
		laid |= LAID_PARTLY;
	return laid;
}

/*
 * The interrupted code must not see what our interrupt has added to the preemption count, and its
 * handler to the task's count of RCU. It may read single bytes of the words.
 */
static __always_inline __u64 ours_subtract(const struct run *run, __u64 address, __u32 size,
					   __u64 value)
{
	__u64 mask = ~0ull >> (64 - size * 8);

	if (address - run->preempt_count < sizeof(__u32))
		return (value - (preempt_ours >> (address - run->preempt_count) * 8)) & mask;
	if (address - run->rcu_depth < sizeof(__u32))
		return (value - (rcu_ours >> (address - run->rcu_depth) * 8)) & mask;
	return value;
}

static __always_inline int run_load(struct run *run, __u64 address, __u32 size, __u64 *ret)
{
	__u32 first = address & 7, laid;
	__u64 value = 0;
	long missing;

	if (size > 8 || !size)
		return UOP_LOAD_UNKNOWN;
	missing = run_peek(run, address, &value, size);
	if (missing)
		value = 0;
	if (run->in_kernel && !missing)
		value = ours_subtract(run, address, size, value);
	log_word(run, value, missing != 0);
	laid = overlay_lay(run, address & ~7ull, bytes_of(first, size), -(__s32)first, &value);
	if (first + size > 8)
		laid |= overlay_lay(run, (address & ~7ull) + 8, bytes_of(0, first + size - 8),
				    8 - (__s32)first, &value);
	*ret = value;
	if (missing && laid & LAID_PARTLY)
		return UOP_LOAD_MISSING;
	return laid & LAID_UNKNOWN ? UOP_LOAD_UNKNOWN : 0;
}

static __always_inline int overlay_put(struct run *run, __u64 address, __u32 bytes, __u64 data,
				       __u32 unknown)
{
	struct overlay_word *word = overlay_at(run, address);
	__u64 mask = bytes_spread(bytes);

	if (!word)
		return UOP_END_OVERLAY_FULL;
	word->present |= bytes;
	word->unknown = unknown ? word->unknown | bytes : word->unknown & ~bytes;
	word->data = (word->data & ~mask) | (data & mask);
	return 0;
}

static __always_inline int run_store(struct run *run, __u64 address, __u32 size, __u64 value,
				     __u32 unknown)
{
	__u32 first = address & 7;
	int end;

	if (size > 8 || !size)
		return UOP_END_BAD_BLOCK;
	if (run_flags & RUN_OVERWRITTEN) {
		__u64 before = 0;
		long missing = run_peek(run, address, &before, size);

		log_word(run, missing ? 0 : before, missing != 0);
	}
	end = overlay_put(run, address & ~7ull, bytes_of(first, size), value << first * 8, unknown);
	if (end || first + size <= 8)
		return end;
	return overlay_put(run, (address & ~7ull) + 8, bytes_of(0, first + size - 8),
			   value >> (8 - first) * 8, unknown);
}

static __always_inline int run_poison(struct run *run, __u64 address, __u32 size)
{
	__u64 word = address & ~7ull;
	__u32 left = size & 127, first = address & 7;

	for (int i = 0; i < OVERLAY_POISON_WORDS && left; i++) {
		__u32 part = left < 8 - first ? left : 8 - first;

		if (overlay_put(run, word, bytes_of(first, part & 15), 0, 1))
			return UOP_END_OVERLAY_FULL;
		left -= part;
		first = 0;
		word += 8;
	}
	return 0;
}
