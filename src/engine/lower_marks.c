// SPDX-License-Identifier: BSD-2-Clause
/*
 * Machine code for the operations of marks (tool.h): timers, and data.
 *
 * A timer has a fast way, and a slow one that calls the tool, as trees of calls do:
 *
 *	begin	a frame behind the innermost one, if that is further out on the stack
 *	end	the innermost frame is this timer's, and has this stack pointer if it must: its time
 *		is in it, and the frame is gone; then the sum, the bucket and the threshold follow,
 *		each by one instruction, so that each can be taken back
 *
 * Data. An access to a page without marks is one test. No flag is changed for it, if the processor
 * can rotate without: the byte of the page in the filter goes to rcx, and jrcxz looks at it.
 *
 *		lea	operand, %rcx
 *		rorx	$12, %rcx, %rcx
 *		movzwl	%cx, %ecx
 *		movzbl	%gs:filter(%rcx), %ecx
 *		jrcxz	1f
 *		jmp	2f
 *	1:	the range that this instruction touched last: within it, its cell grows by 1
 *		otherwise the tool is called
 *	2:
 */
#include "engine/lower.h"

#include "engine/stream.h"
#include "wire/mark_data.h"
#include "wire/mark_times.h"

enum {
	FRAME_SP = 0,
	FRAME_START = 8,
	FRAME_TICKS = 16,
	FRAME_TIMER = 24,
	TICKS_LONG = 0x7fffffff, /* longer ones are for the tool */
	CELL_READS = 16,
	CELL_WRITES = 24,
	CELL_BOTH = 32,
	BMI2 = 1 << 8, /* cpuid 7, ebx */
};

_Static_assert(offsetof(struct mark_times_frame, start) == FRAME_START, "known here");
_Static_assert(offsetof(struct mark_times_frame, ticks) == FRAME_TICKS, "known here");
_Static_assert(offsetof(struct mark_times_frame, timer) == FRAME_TIMER, "known here");
_Static_assert(offsetof(struct mark_data_cell, reads) == CELL_READS, "known here");
_Static_assert(offsetof(struct mark_data_cell, writes) == CELL_WRITES, "known here");
_Static_assert(offsetof(struct mark_data_cell, both) == CELL_BOTH, "known here");

static void units_change(struct lowering *lowering, int by)
{
	lowering->place->happened->units += (unsigned)by;
	lower_here(lowering);
}

/* --- Timers ------------------------------------------------------------------------------ */

static void timer_call(struct lowering *lowering, const struct inline_op *op, unsigned which)
{
	const struct inline_op call = { INLINE_CALL, ENGINE_TOOL_MARK_TIMES, 0, 0,
					(int32_t)(which << TIMER_CALLED_SHIFT | inline_timer(op)) };

	lower_call(lowering, &call);
}

static unsigned memory_at(const struct inline_op *op, size_t offset)
{
	return THREAD_COUNTS + (uint32_t)op->value + (unsigned)offset;
}

static unsigned timing_at(const struct inline_op *op, size_t offset)
{
	return memory_at(op, MARK_TIMES_TIMERS + inline_timer(op) * MARK_TIMING + offset);
}

void lower_timer_begin(struct lowering *lowering, const struct inline_op *op)
{
	struct build *build = lowering->build;
	unsigned frame = lowering->scratch, top = memory_at(op, 0);
	struct ways ways = {};

	put_thread_move(build, 0x8b, frame, top);
	put_thread_move(build, 0x3b, frame,
			memory_at(op, offsetof(struct mark_times_memory, deepest)));
	put_slow_if(build, &ways, JUMP_NOT_BELOW);
	put_with(build, 0x39, RSP, frame, FRAME_SP, true); /* cmp %rsp, sp */
	put_slow_if(build, &ways, JUMP_NOT_ABOVE);
	put_with(build, 0x89, RSP, frame, MARK_TIMES_FRAME + FRAME_SP, true);
	put_with(build, 0xc7, 0, frame, MARK_TIMES_FRAME + FRAME_TICKS, true); /* movq $0 */
	put32(build, 0);
	put_with(build, 0xc7, 0, frame, MARK_TIMES_FRAME + FRAME_TIMER, false); /* movl */
	put32(build, inline_timer(op));
	put_now(build);
	put_with(build, 0x89, RAX, frame, MARK_TIMES_FRAME + FRAME_START, true);
	put_add(build, frame, frame, MARK_TIMES_FRAME);
	put_thread_move(build, 0x89, frame, top);
	units_change(lowering, 1);
	put_slow(build, &ways);
	units_change(lowering, -1);
	timer_call(lowering, op, TIMER_BEGIN);
	put_over(build, &ways);
}

/* The interval is in rax from here on. */
static void interval_put(struct lowering *lowering, const struct inline_op *op, struct ways *ways)
{
	struct build *build = lowering->build;
	unsigned frame = lowering->scratch;

	put_now(build);
	put_thread_move(build, 0x8b, frame, memory_at(op, 0));
	if (op->size) {
		put_with(build, 0x39, RSP, frame, FRAME_SP, true); /* cmp %rsp, sp */
		put_slow_if(build, ways, JUMP_DIFFERENT);
	}
	put_with(build, 0x81, 7, frame, FRAME_TIMER, false); /* cmpl $timer, timer */
	put32(build, inline_timer(op));
	put_slow_if(build, ways, JUMP_DIFFERENT);
	put_with(build, 0x2b, RAX, frame, FRAME_START, true); /* sub start, %rax */
	put8(build, 0x48); /* cmp $TICKS_LONG, %rax */
	put8(build, 0x3d);
	put32(build, TICKS_LONG);
	put_slow_if(build, ways, JUMP_ABOVE);
}

/* If rax or rdx is above what is there, it goes there: cmp, jbe over the store, mov. */
static void most_put(struct build *build, unsigned reg, unsigned offset)
{
	enum { STORE_BYTES = 9 };

	put_thread_move(build, 0x3b, reg, offset);
	put8(build, 0x76);
	put8(build, STORE_BYTES);
	put_thread_move(build, 0x89, reg, offset);
}

/* Frames that are no more keep their time, to be taken back. */
static void frame_end_put(struct lowering *lowering, const struct inline_op *op)
{
	struct build *build = lowering->build;
	unsigned frame = lowering->scratch;

	put_with(build, 0x89, RAX, frame, FRAME_TICKS, true);
	most_put(build, RAX, timing_at(op, offsetof(struct mark_timing, most)));
	put_reg_reg(build, 0x89, RAX, RDX);
	put8(build, 0x48); /* not %rdx */
	put8(build, 0xf7);
	put8(build, 0xd2);
	most_put(build, RDX, timing_at(op, offsetof(struct mark_timing, least)));
	put_add(build, RDX, frame, -MARK_TIMES_FRAME);
	put_thread_move(build, 0x89, RDX, memory_at(op, 0));
	units_change(lowering, 1);
	put_thread_move(build, 0x01, RAX, timing_at(op, offsetof(struct mark_timing, sum)));
	units_change(lowering, 1);
}

/* As mark_times_bucket(). */
static void bucket_put(struct lowering *lowering, const struct inline_op *op)
{
	static const uint8_t find[] = {
		0x89, 0xc1, /* mov %eax, %ecx */
		0x83, 0xc9, MARK_TIMES_PARTS, /* or $32, %ecx */
		0x0f, 0xbd, 0xc9, /* bsr %ecx, %ecx */
		0x83, 0xe9, MARK_TIMES_PARTS_BITS, /* sub $5, %ecx */
		0x89, 0xc2, /* mov %eax, %edx */
		0xd3, 0xea, /* shr %cl, %edx */
		0xc1, 0xe1, MARK_TIMES_PARTS_BITS, /* shl $5, %ecx */
		0x01, 0xca, /* add %ecx, %edx */
	};
	static const uint8_t count[] = { 0x65, 0x48, 0xff, 0x04, 0xd5 }; /* incq %gs:...(,%rdx,8) */
	struct build *build = lowering->build;

	put_bytes(build, find, sizeof(find));
	put_bytes(build, count, sizeof(count));
	put32(build, timing_at(op, offsetof(struct mark_timing, buckets)));
	units_change(lowering, 1);
}

static void threshold_put(struct lowering *lowering, const struct inline_op *op, int32_t slower)
{
	static const uint8_t count[] = { 0x65, 0x48, 0xff, 0x04, 0x25 }; /* incq %gs:... */
	struct build *build = lowering->build;

	if (slower) {
		put8(build, 0x48); /* cmp $slower, %rax */
		put8(build, 0x3d);
		put32(build, (uint32_t)slower);
		put8(build, 0x72); /* jb */
		put8(build, sizeof(count) + 4);
		put_bytes(build, count, sizeof(count));
		put32(build, timing_at(op, offsetof(struct mark_timing, slower)));
	}
	units_change(lowering, 1);
}

/* Four units, of which those that follow put nothing. */
void lower_timer_end(struct lowering *lowering, const struct inline_op *op)
{
	enum { UNITS = 4 };
	struct ways ways = {};

	interval_put(lowering, op, &ways);
	frame_end_put(lowering, op);
	bucket_put(lowering, op);
	threshold_put(lowering, op, op[UNITS - 1].value);
	put_slow(lowering->build, &ways);
	units_change(lowering, -UNITS);
	timer_call(lowering, op, TIMER_END);
	put_over(lowering->build, &ways);
}

/* --- Data -------------------------------------------------------------------------------- */

static bool has_bmi2(void)
{
	static int known;
	uint32_t a = 7, b, c = 0, d;

	if (!known) {
		__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
		known = b & BMI2 ? 2 : 1;
	}
	return known == 2;
}

bool lower_touch_wants_flags(void)
{
	return !has_bmi2();
}

static unsigned data_at(size_t offset)
{
	return THREAD_COUNTS + (unsigned)offset +
	       (unsigned)engine_tools_counters_at(engine_boot.tools, ENGINE_TOOL_MARK_DATA,
						  STREAM_SEGMENTS_MAX);
}

/* Operations before this one may have used registers of the operand, which are in their slots. */
static void operand_registers_back(struct lowering *lowering)
{
	for (unsigned reg = 0; reg < 16; reg++)
		if (lowering->saved >> reg & 1)
			put_thread_move(lowering->build, 0x8b, reg, THREAD_SAVED + 8 * reg);
}

static void filter_put(struct lowering *lowering, const struct inline_op *op)
{
	static const uint8_t rotate[] = {
		0xc4, 0xe3, 0xfb, 0xf0, 0xc9, 12
	}; /* rorx $12, %rcx, %rcx */
	static const uint8_t shift[] = { 0x48, 0xc1, 0xe9, 12 }; /* shr $12, %rcx */
	static const uint8_t look[] = { 0x0f, 0xb7, 0xc9, /* movzwl %cx, %ecx */
					0x65, 0x0f, 0xb6, 0x89 }; /* movzbl %gs:...(%rcx), %ecx */
	static const uint8_t test[] = { 0xe3, 5, 0xe9 }; /* jrcxz over the jump; jmp */
	struct build *build = lowering->build;
	unsigned to = op->from & 0x80 ? lowering->registers[INLINE_A] : RCX;

	lower_address(lowering, to, op->from & 1);
	if (to != RCX)
		put_reg_reg(build, 0x89, to, RCX);
	if (has_bmi2())
		put_bytes(build, rotate, sizeof(rotate));
	else
		put_bytes(build, shift, sizeof(shift));
	put_bytes(build, look, sizeof(look));
	put32(build, data_at(MARK_DATA_FILTER));
	put_bytes(build, test, sizeof(test));
	lowering->jumps[lowering->jump_count++] = build->at;
	put32(build, 0);
}

/* Within what the instruction touched last: one counter grows. */
static void aside_put(struct lowering *lowering, const struct inline_op *op, unsigned reg,
		      struct ways *ways)
{
	struct build *build = lowering->build;
	unsigned aside = data_at(MARK_DATA_ASIDES +
				 (size_t)(op->value & (MARK_DATA_SITES - 1)) * MARK_DATA_ASIDE);
	bool read = op->value & TOUCH_READ, write = op->value & TOUCH_WRITE;

	put_thread_move(build, 0x2b, reg, aside); /* sub start, reg */
	put_thread_move(build, 0x3b, reg, aside + 8); /* cmp limit, reg */
	put_slow_if(build, ways, JUMP_NOT_BELOW);
	put_thread_move(build, 0x8b, reg, aside + 16);
	put_with(build, 0xff, 0, reg,
		 read && write ? CELL_BOTH
		 : read	       ? CELL_READS
			       : CELL_WRITES,
		 true); /* incq */
	units_change(lowering, 1);
}

static void found_put(struct lowering *lowering, const struct inline_op *op)
{
	const struct inline_op call = { INLINE_CALL, op->to, 0, 0, op->value };
	struct build *build = lowering->build;
	unsigned saved = lowering->saved, reg;
	bool flags_saved = lowering->flags_saved, flags_free = lowering->flags_free;
	struct ways ways = {};

	if (!flags_free)
		lower_flags_save(lowering);
	lowering->flags_free = true;
	reg = op->from & 0x80 ? lowering->registers[INLINE_A]
			      : lower_register_take(lowering, 1u << RCX | 1u << RAX |
								      1u << lowering->scratch);
	lower_address(lowering, reg, op->from & 1);
	put_thread_move(build, 0x89, reg, THREAD_ARGUMENTS);
	if (op->size) {
		aside_put(lowering, op, reg, &ways);
		if (!flags_saved)
			lower_flags_restore(lowering);
		for (unsigned i = 0; i < 16; i++)
			if ((lowering->saved & ~saved) >> i & 1 && i != RAX)
				put_thread_move(build, 0x8b, i, THREAD_SAVED + 8 * i);
		put_slow(build, &ways);
		units_change(lowering, -1);
	}
	lower_call(lowering, &call);
	if (op->size)
		put_over(build, &ways);
	lowering->saved = saved;
	lowering->flags_saved = flags_saved;
	lowering->flags_free = flags_free;
}

/* An operand that is larger than others is always looked at. */
void lower_touch(struct lowering *lowering, const struct inline_op *op)
{
	if (lowering->touched)
		operand_registers_back(lowering);
	lowering->touched = true;
	if (op->size) {
		filter_put(lowering, op);
		operand_registers_back(lowering);
	}
	found_put(lowering, op);
}
