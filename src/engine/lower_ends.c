// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ends of segments: what tools do there, as machine code.
 *
 *	in	the list of a segment, and what is known of registers and flags at its end
 *	out	machine code in front of the exit
 *	owner	the build of translate.c, in which it appends
 *
 * Most lists there are one operation: a counter that grows, a byte that is set, a word that goes
 * into a ring. These have sequences of their own, which are as short as they can be. Other lists
 * are put as they are at instructions (lower.c).
 */
#include "engine/lower.h"

#include "engine/stream.h"
#include "engine/translations.h"

/* --- Usual operations at ends of segments ------------------------------------------------ */

/* Whether the helper has to make room for itself: rcx goes to its slot, and comes back. */
static bool is_spilled(const struct segment_end *end)
{
	return end->target != TARGET_IN_RDX && end->scratch == SCRATCH_NONE;
}

static unsigned end_register(const struct segment_end *end)
{
	return end->scratch == SCRATCH_NONE ? RCX : end->scratch;
}

static void rcx_free(struct build *build, const struct segment_end *end)
{
	if (!is_spilled(end))
		return;
	put_thread_move(build, 0x89, RCX, THREAD_SPILL0);
	put_state(build, end->target, STATE_WHOLE | STATE_RCX);
}

static unsigned where_told(uint64_t target, unsigned direct)
{
	return target == TARGET_IN_RDX ? STATE_SPILLED | STATE_FORWARD : direct;
}

static void segment_told(struct build *build, const struct segment_end *end)
{
	put_state(build, end->target,
		  STATE_WHOLE | lower_all_told(build) |
			  where_told(end->target, is_spilled(end) ? STATE_RCX : 0));
}

static void rcx_back(struct build *build, const struct segment_end *end)
{
	if (!is_spilled(end))
		return;
	put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_state(build, end->target, STATE_WHOLE | lower_all_told(build));
}

/* What was just put depends on the number of the segment. */
static void segment_note(const struct build *build, enum translation_word_kind kind)
{
	if (translator_runs)
		translator_word(build, build->at - 4, kind);
}

/* Adds 1 to the counter. */
static void put_count(struct build *build, const struct segment_end *end, uint32_t counter)
{
	static const uint8_t increment[] = { 0x65, 0x48, 0xff, 0x04, 0x25 }; /* incq %gs:... */
	static const uint8_t next[] = { 0x48, 0x8d, 0x49, 0x01 }; /* lea 1(%rcx), %rcx */

	if (end->flags_dead) {
		put_bytes(build, increment, sizeof(increment));
		put32(build, counter);
		segment_note(build, TRANSLATION_COUNTER);
		build->told++;
		put_state(build, end->target, STATE_WHOLE | lower_all_told(build));
		return;
	}
	rcx_free(build, end);
	put_thread_move(build, 0x8b, RCX, counter);
	segment_note(build, TRANSLATION_COUNTER);
	put_bytes(build, next, sizeof(next));
	put_thread_move(build, 0x89, RCX, counter);
	segment_note(build, TRANSLATION_COUNTER);
	build->told++;
	segment_told(build, end);
	rcx_back(build, end);
}

/* Sets the byte to 1. */
static void put_mark(struct build *build, const struct segment_end *end, uint32_t byte)
{
	static const uint8_t store[] = { 0x65, 0xc6, 0x04, 0x25 }; /* movb $1, %gs:... */

	put_bytes(build, store, sizeof(store));
	put32(build, byte);
	segment_note(build, TRANSLATION_SEGMENT);
	put8(build, 1);
	build->told++;
	put_state(build, end->target,
		  STATE_WHOLE | lower_all_told(build) | where_told(end->target, 0));
}

/*
 * A chunk ends where the low 16 bits of the next place are 0. A short branch, whose displacement
 * comes last.
 */
static void put_is_full(struct build *build, const struct segment_end *end)
{
	static const uint8_t with_rcx[] = { 0x0f, 0xb7, 0xc9, 0xe3,
					    0 }; /* movzwl %cx, %ecx; jrcxz */
	unsigned reg = end->scratch;
	const uint8_t with_flags[] = { 0x66, (uint8_t)(0x40 | (reg >= 8 ? 5 : 0)),
				       0x85, (uint8_t)(0xc0 | (reg & 7) * 9),
				       0x74, 0 }; /* testw %reg, %reg; jz */

	if (reg == SCRATCH_NONE)
		put_bytes(build, with_rcx, sizeof(with_rcx));
	else
		put_bytes(build, with_flags, sizeof(with_flags));
}

/*
 * Appends the word to the thread's ring; where a chunk is full, calls the engine with the program's
 * registers saved.
 */
static void put_append(struct build *build, const struct segment_end *end, uint32_t word)
{
	unsigned reg = end_register(end), low = reg & 7;
	const uint8_t store[] = { (uint8_t)(0x40 | (reg >= 8)), 0xc7,
				  (uint8_t)low }; /* movl $segment, (%reg) */
	const uint8_t next[] = { (uint8_t)(0x48 | (reg >= 8 ? 5 : 0)), 0x8d,
				 (uint8_t)(0x40 | low * 9), 0x04 }; /* lea 4(%reg), %reg */

	rcx_free(build, end);
	put_thread_move(build, 0x8b, reg, THREAD_STREAM);
	put_bytes(build, store, sizeof(store));
	put32(build, word);
	segment_note(build, TRANSLATION_SEGMENT);
	put_bytes(build, next, sizeof(next));
	put_thread_move(build, 0x89, reg, THREAD_STREAM);
	build->told++;
	segment_told(build, end);
	put_is_full(build, end);
	build->rest_from = build->at;
	build->rest_back = build->at;
	build->rest = *end;
	build->rest_told = build->told;
	rcx_back(build, end);
}

void put_rest(struct build *build)
{
	const struct segment_end *end = &build->rest;
	unsigned reg = end_register(end);
	const uint8_t address[] = { (uint8_t)(0x48 | (reg >= 8 ? 4 : 0)), 0x8d,
				    (uint8_t)(0x05 | (reg & 7) << 3) }; /* lea back(%rip), %reg */

	if (!build->rest_from)
		return;
	build->told = build->rest_told;
	fix8(build, build->rest_from - 1, (uint64_t)(build->at - build->rest_from));
	segment_told(build, end);
	put_bytes(build, address, sizeof(address));
	put32(build, (uint64_t)(build->rest_back - (build->at + 4)));
	put_thread_move(build, 0x89, reg, THREAD_NEXT);
	if (end->scratch == SCRATCH_NONE)
		put_thread_move(build, 0x8b, RCX, THREAD_SPILL0);
	put_jump_thread(build, THREAD_ON_CALL);
	build->rest_from = NULL;
	build->told = 0;
}

/* --- Ends of segments -------------------------------------------------------------------- */

static bool end_is_usual(const struct inline_op *op)
{
	return op->kind == INLINE_APPEND || op->kind == INLINE_MARK ||
	       (op->kind == INLINE_COUNT && inline_amount(op) == 1);
}

static void end_usual_put(struct build *build, const struct segment_end *end,
			  const struct inline_op *op)
{
	if (op->kind == INLINE_APPEND)
		put_append(build, end, (uint32_t)op->value);
	else if (op->kind == INLINE_MARK)
		put_mark(build, end, THREAD_COUNTS + (uint32_t)op->value);
	else
		put_count(build, end, THREAD_COUNTS + (uint32_t)op->value);
}

/* Operations that are not a unit of their own go together with others up to the end of theirs. */
static unsigned end_unusual_put(struct build *build, const struct segment_end *end,
				const struct inline_op *ops)
{
	struct {
		struct inserted head;
		struct inline_op ops[INSERT_OPS_MAX];
	} list = { .head = { .flags_dead = end->flags_dead, .point = POINT_SEGMENT_END } };
	const struct place place = { end->target, STATE_WHOLE | where_told(end->target, 0), NULL };

	translator_refuse();
	do
		list.ops[list.head.count] = ops[list.head.count];
	while (!inline_is_end(&ops[list.head.count++]));
	inserted_put(build, &list.head, &place);
	return list.head.count;
}

void segment_end_put(struct build *build, const struct segment_end *end)
{
	struct insert insert;

	tools_segment_list(&insert, end->segment);
	build->units = inline_units(insert.ops, insert.count);
	build->told = 0;
	for (unsigned i = 0; i < insert.count;) {
		if (!end_is_usual(&insert.ops[i])) {
			i += end_unusual_put(build, end, &insert.ops[i]);
			continue;
		}
		end_usual_put(build, end, &insert.ops[i++]);
	}
	build->told = 0;
}
