// SPDX-License-Identifier: BSD-2-Clause
/*
 * Times the code that is marked (wire/mark_times.h).
 *
 * A visit begins at the mark's first instruction. It ends with the return of a routine, with a jump
 * out of the marked ranges or back to their beginning, and where the host says that a range ends.
 * Visits that have not ended lie in frames. Inline code handles the usual case; the functions here
 * handle the others.
 *
 * Invariants
 * 1. A frame's stack pointer is that at the beginning of its visit. A routine ends only where the
 *    stack pointer is the same. Other ranges may have changed it: the innermost visit ends.
 * 2. Frames below a new one on the same stack (whose stack pointer is not above) are gone: control
 *    left them by longjmp or an exception. They are counted, and have no time.
 * 3. A frame behind the innermost one that has a time is the one that ended last.
 */
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"
#include "engine/tools/marks.h"

enum {
	STACK_REACH = 64 << 20, /* bytes between a frame and what is on the same stack */
	RANGES_MAX = 16, /* of an instruction; what is beyond is not timed, and the host sees it */
	ENDS = 1 << 12, /* instructions at which visits of single instructions end */
	CALIBRATION = 101, /* odd */
	CALLED_JUMP = 2, /* an indirect jump: the value is its target */
	CALLED_END_HERE = 3, /* an end that has a condition */
	TICKS_MAX = 0x7fffffff, /* of inline code */
	OPS_KEPT = 12, /* of a list: for the tools that come later */
};

/* Where a single instruction that is timed ends: the one behind it. */
static struct end {
	uint64_t pc; /* 0: free */
	uint32_t timer;
} ends[ENDS];

static bool is_awake; /* something is timed, as of the last change of marks */

static uint32_t place(void)
{
	return (uint32_t)engine_tools_counters_at(engine_boot.tools, ENGINE_TOOL_MARK_TIMES,
						  STREAM_SEGMENTS_MAX);
}

static struct mark_times_memory *memory_of(struct thread *thread)
{
	return (struct mark_times_memory *)(stream_counts(thread) + place());
}

static struct mark_times_frame *frames_of(struct mark_times_memory *memory)
{
	return (struct mark_times_frame *)((uint8_t *)memory + MARK_TIMES_FRAMES);
}

static struct mark_timing *timing_of(struct mark_times_memory *memory, unsigned timer)
{
	return (struct mark_timing *)((uint8_t *)memory + MARK_TIMES_TIMERS) + timer;
}

static const struct mark_timer *timer_of(unsigned timer)
{
	return (const struct mark_timer *)marks_table(marks_area()->timers) + timer;
}

static uint64_t ticks_now(void)
{
	return __builtin_ia32_rdtsc();
}

/* --- Visits ------------------------------------------------------------------------------ */

static bool is_gone(const struct mark_times_frame *frame, uint64_t sp, unsigned timer)
{
	if (frame->sp == sp)
		return frame->timer == timer;
	return frame->sp < sp && sp - frame->sp <= STACK_REACH;
}

static void gone_drop(struct mark_times_memory *memory, uint64_t sp, unsigned timer)
{
	struct mark_times_frame *frame = (struct mark_times_frame *)memory->top;

	for (; frame > frames_of(memory) && is_gone(frame, sp, timer); frame--)
		timing_of(memory, frame->timer)->abandoned++;
	memory->top = (uint64_t)frame;
}

static void begin(struct thread *thread, unsigned timer)
{
	struct mark_times_memory *memory = memory_of(thread);
	struct mark_times_frame *frame;
	uint64_t sp = thread->regs[RSP];

	gone_drop(memory, sp, timer);
	if (memory->top >= memory->deepest) {
		timing_of(memory, timer)->too_deep++;
		return;
	}
	frame = (struct mark_times_frame *)memory->top + 1;
	*frame = (struct mark_times_frame){ .sp = sp, .timer = timer };
	memory->top = (uint64_t)frame;
	frame->start = ticks_now();
}

static void begin_undo(struct thread *thread, unsigned timer)
{
	struct mark_times_memory *memory = memory_of(thread);
	const struct mark_times_frame *top = (struct mark_times_frame *)memory->top;

	if (top > frames_of(memory) && top->timer == timer && top->sp == thread->regs[RSP])
		memory->top -= MARK_TIMES_FRAME;
}

/*
 * The visit that ends: of a routine, the one with this stack pointer; of a range, the innermost one
 * that is not of a caller further out. Its frame goes behind the innermost one.
 */
static struct mark_times_frame *end_find(struct mark_times_memory *memory, uint64_t sp,
					 unsigned timer)
{
	struct mark_times_frame *top = (struct mark_times_frame *)memory->top, *frame = top, found;
	bool exact = timer_of(timer)->flags & MARK_TIMER_EXACT;

	while (frame > frames_of(memory) && (frame->timer != timer || (exact && frame->sp != sp)))
		frame--;
	if (frame == frames_of(memory))
		return NULL;
	found = *frame;
	for (; frame < top; frame++)
		*frame = frame[1];
	*top = found;
	memory->top -= MARK_TIMES_FRAME;
	return top;
}

static void timing_change(struct mark_timing *timing, unsigned timer, uint64_t ticks, uint64_t by)
{
	uint64_t slower = timer_of(timer)->slower;

	timing->sum += ticks * by;
	timing->buckets[mark_times_bucket(ticks)] += by;
	if (slower && ticks >= slower)
		timing->slower += by;
}

static bool raises(unsigned timer)
{
	return timer_of(timer)->flags & MARK_TIMER_EVENT;
}

/* pc: where it ends, of a timer that raises events. */
static void end(struct thread *thread, unsigned timer, uint64_t pc)
{
	uint64_t now = ticks_now();
	struct mark_times_memory *memory = memory_of(thread);
	struct mark_timing *timing = timing_of(memory, timer);
	struct mark_times_frame *frame = end_find(memory, thread->regs[RSP], timer);

	if (!frame) {
		((struct mark_times_frame *)memory->top)[1].ticks = 0; /* nothing ended */
		return;
	}
	frame->ticks = now > frame->start ? now - frame->start : 1;
	timing_change(timing, timer, frame->ticks, 1);
	timing->most = frame->ticks > timing->most ? frame->ticks : timing->most;
	timing->least = ~frame->ticks > timing->least ? ~frame->ticks : timing->least;
	if (raises(timer) && frame->ticks >= timer_of(timer)->slower)
		mark_event_raise(thread, &(struct mark_event){ .mark = timer_of(timer)->mark,
							       .pc = pc,
							       .ticks = frame->ticks });
}

static void end_undo(struct thread *thread, unsigned timer)
{
	struct mark_times_memory *memory = memory_of(thread);
	struct mark_times_frame *frame = (struct mark_times_frame *)memory->top + 1;

	if (frame->timer != timer || !frame->ticks)
		return;
	timing_change(timing_of(memory, timer), timer, frame->ticks, (uint64_t)-1);
	frame->ticks = 0;
	memory->top += MARK_TIMES_FRAME;
}

/* An indirect jump leaves the range that it is in: there may be others of the same mark. */
static bool is_within(unsigned timer, uint64_t target)
{
	const struct mark_module *module;
	bool within;

	engine_lock();
	module = mark_module_of(target);
	within = module && mark_is_within(module, target, mark_word(MARK_USE_TIME, timer, 0));
	engine_unlock();
	return within;
}

static void called(struct thread *thread, uint32_t number, const uint64_t *values)
{
	unsigned timer = number & ((1u << TIMER_CALLED_SHIFT) - 1);

	switch (number >> TIMER_CALLED_SHIFT) {
	case TIMER_BEGIN:
		begin(thread, timer);
		break;
	case CALLED_JUMP:
		if (!is_within(timer, values[0]))
			end(thread, timer, raises(timer) ? values[1] : 0);
		break;
	default:
		end(thread, timer, raises(timer) ? values[0] : 0);
	}
}

static void taken_back(struct thread *thread, uint32_t number, const uint64_t *values)
{
	unsigned timer = number & ((1u << TIMER_CALLED_SHIFT) - 1);

	if (number >> TIMER_CALLED_SHIFT == TIMER_BEGIN)
		begin_undo(thread, timer);
	else
		end_undo(thread, timer);
}

/* --- Places ------------------------------------------------------------------------------ */

/*
 * Whether there is room for the operations. Without room a visit is not timed; the host sees that
 * it has no time.
 */
static bool has_room(const struct insert *insert)
{
	return insert_has_room(insert, 4 + OPS_KEPT);
}

/* The place is known when it is called. */
static void raising_end_put(struct insert *insert, unsigned timer, uint64_t pc)
{
	inline_const(insert, INLINE_A, pc);
	inline_call(insert, ENGINE_TOOL_MARK_TIMES,
		    (uint32_t)CALLED_END_HERE << TIMER_CALLED_SHIFT | timer, 1);
}

static void end_put(struct insert *insert, unsigned timer, uint64_t pc)
{
	const struct mark_timer *how = timer_of(timer);

	if (!has_room(insert))
		return;
	if (raises(timer))
		raising_end_put(insert, timer, pc);
	else
		inline_timer_end(insert, place(), timer, how->flags & MARK_TIMER_EXACT,
				 how->slower <= TICKS_MAX ? (int32_t)how->slower : 0);
}

static void end_if_taken_put(struct insert *insert, unsigned timer, unsigned condition, uint64_t pc)
{
	if (!has_room(insert))
		return;
	inline_taken(insert, condition);
	if (raises(timer))
		raising_end_put(insert, timer, pc);
	else
		inline_call(insert, ENGINE_TOOL_MARK_TIMES,
			    (uint32_t)CALLED_END_HERE << TIMER_CALLED_SHIFT | timer, 0);
}

static struct end *end_at(uint64_t pc, uint32_t timer)
{
	for (unsigned i = 0; i < ENDS; i++) {
		struct end *item = &ends[(pc + i) % ENDS];

		if (!item->pc || (item->pc == pc && item->timer == timer))
			return item;
	}
	return NULL;
}

/* Visits of a single instruction end at the one behind it. */
static void single_note(uint64_t behind, uint32_t timer)
{
	struct end *item = end_at(behind, timer);

	if (item)
		*item = (struct end){ behind, timer };
}

static void ends_put(struct insert *insert, const struct point *point)
{
	for (unsigned i = 0; i < ENDS && ends[(point->pc + i) % ENDS].pc; i++)
		if (ends[(point->pc + i) % ENDS].pc == point->pc)
			end_put(insert, ends[(point->pc + i) % ENDS].timer, point->pc);
}

/* The target of a direct jump; 0: it is not one. */
static uint64_t jump_target(const struct point *point)
{
	const ZydisDecodedInstruction *insn = point->insn;

	if ((insn->meta.category != ZYDIS_CATEGORY_COND_BR &&
	     insn->meta.category != ZYDIS_CATEGORY_UNCOND_BR) ||
	    !insn->raw.imm[0].is_relative)
		return 0;
	return point->pc + insn->length + (uint64_t)insn->raw.imm[0].value.s;
}

/* Whether it is a jump by flags, whose condition is in its opcode. */
static bool has_condition(const ZydisDecodedInstruction *insn)
{
	return (insn->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && insn->opcode >> 4 == 7) ||
	       (insn->opcode_map == ZYDIS_OPCODE_MAP_0F && insn->opcode >> 4 == 8);
}

/* Whether the target is the beginning of a visit, or outside of the range. */
static bool leads_out(const struct mark_module *module, uint32_t word, uint64_t target)
{
	const struct mark_range *ranges[RANGES_MAX];
	unsigned count;

	if (!mark_is_within(module, target, word))
		return true;
	count = mark_ranges_at(module, target, ranges, RANGES_MAX);
	for (unsigned i = 0; i < count; i++)
		if (ranges[i]->mark == (word | 1))
			return true;
	return false;
}

static void jump_put(struct insert *insert, const struct point *point,
		     const struct mark_module *module, uint32_t word)
{
	uint64_t target = jump_target(point);
	unsigned timer = mark_word_number(word);

	if (point->insn->meta.category == ZYDIS_CATEGORY_RET)
		end_put(insert, timer, point->pc);
	else if (!target || !leads_out(module, word & ~1u, target))
		return;
	else if (point->insn->meta.category == ZYDIS_CATEGORY_UNCOND_BR)
		end_put(insert, timer, point->pc);
	else if (has_condition(point->insn))
		end_if_taken_put(insert, timer, point->insn->opcode & 15, point->pc);
}

static void before(struct insert *insert, const struct point *point)
{
	const struct mark_module *module = is_awake ? mark_module_of(point->pc) : NULL;
	const struct mark_range *ranges[RANGES_MAX];
	unsigned count;

	ends_put(insert, point);
	if (!module)
		return;
	count = mark_ranges_at(module, point->pc, ranges, RANGES_MAX);
	for (unsigned i = 0; i < count; i++)
		if (mark_word_use(ranges[i]->mark) == MARK_USE_TIME_END)
			end_put(insert, mark_word_number(ranges[i]->mark), point->pc);
	for (unsigned i = 0; i < count; i++) {
		unsigned timer = mark_word_number(ranges[i]->mark);

		if (mark_word_use(ranges[i]->mark) != MARK_USE_TIME)
			continue;
		if (ranges[i]->mark & 1) {
			if (!has_room(insert))
				continue;
			mark_only_counting(insert);
			inline_timer_begin(insert, place(), timer);
		} else if (ranges[i]->end - ranges[i]->start == 1 &&
			   point->insn->meta.category != ZYDIS_CATEGORY_RET) {
			single_note(point->pc + point->insn->length, timer);
		}
	}
	for (unsigned i = 0; i < count; i++)
		if (mark_word_use(ranges[i]->mark) == MARK_USE_TIME && !(ranges[i]->mark & 1))
			jump_put(insert, point, module, ranges[i]->mark);
}

/* Tail calls by pointer; switches stay in the range, and do not call. */
static void branch(struct insert *insert, const struct point *point)
{
	const struct mark_module *module = is_awake ? mark_module_of(point->pc) : NULL;
	const struct mark_range *ranges[RANGES_MAX];
	unsigned count = module ? mark_ranges_at(module, point->pc, ranges, RANGES_MAX) : 0;

	for (unsigned i = 0; i < count; i++) {
		uint32_t size = ranges[i]->end - ranges[i]->start;

		if (mark_word_use(ranges[i]->mark) != MARK_USE_TIME || ranges[i]->mark & 1 ||
		    !has_room(insert))
			continue;
		inline_target(insert, INLINE_A);
		inline_const(insert, INLINE_B,
			     -(module->start + ranges[i]->start - module->offset));
		inline_sum(insert, INLINE_B, INLINE_A);
		inline_only_if(insert, INLINE_B, INLINE_NOT_BELOW, (int32_t)size);
		inline_const(insert, INLINE_B, point->pc);
		inline_call(insert, ENGINE_TOOL_MARK_TIMES,
			    (uint32_t)CALLED_JUMP << TIMER_CALLED_SHIFT |
				    mark_word_number(ranges[i]->mark),
			    2);
	}
}

/* --- Threads ----------------------------------------------------------------------------- */

/* What lies between the time stamps of a visit that does nothing, with the same stores. */
static uint64_t calibrate(struct mark_times_memory *memory)
{
	volatile struct mark_times_frame *frame = frames_of(memory) + 1;
	volatile struct mark_times_memory *head = memory;
	uint64_t samples[CALIBRATION];

	for (int i = 0; i < CALIBRATION; i++) {
		uint64_t sample;
		int at = i;

		frame->start = ticks_now();
		head->top = (uint64_t)frame;
		sample = ticks_now();
		sample -= frame->start;
		for (; at > 0 && samples[at - 1] > sample; at--)
			samples[at] = samples[at - 1];
		samples[at] = sample;
	}
	return samples[CALIBRATION / 2];
}

static void thread_start(struct thread *thread)
{
	struct mark_times_memory *memory = memory_of(thread);
	struct mark_times_frame *frames = frames_of(memory);

	memory->overhead = calibrate(memory);
	frames[0] = (struct mark_times_frame){ .sp = UINT64_MAX, .timer = UINT32_MAX };
	frames[1] = (struct mark_times_frame){};
	memory->top = (uint64_t)frames;
	memory->deepest = (uint64_t)(frames + MARK_TIMES_DEPTH);
	__atomic_store_n(&memory->ready, 1, __ATOMIC_RELEASE);
}

/* The time for translating code belongs to no visit. */
static void paused(struct thread *thread, uint64_t ticks)
{
	struct mark_times_memory *memory = memory_of(thread);

	for (struct mark_times_frame *frame = (struct mark_times_frame *)memory->top;
	     frame > frames_of(memory); frame--)
		frame->start += ticks;
}

/* Code whose ranges have changed is translated anew whatever it is that they are for. */
static void renew(void)
{
	is_awake = mark_tool_is_needed(ENGINE_TOOL_MARK_TIMES);
}

const struct tool tool_mark_times = {
	.before = before,
	.branch = branch,
	.called = called,
	.taken_back = taken_back,
	.thread_start = thread_start,
	.forked = thread_start,
	.renew = renew,
	.paused = paused,
};
