// SPDX-License-Identifier: BSD-2-Clause
// Serves: V1.
/*
 * The host walker on rows and stacks written by hand: every kind of row, and every reason to end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unwind/unwind.h"

/* A stack of eight words at 0x7000 and two modules. */
enum { STACK = 0x7000, MODULE = 0x10000, BARE = 0x20000, WORDS = 8, DEPTH = 8 };

static const struct unwind_row walk_rows[] = {
	{ 0x000, UNWIND_SP, 0, 0, 1 },	   { 0x100, UNWIND_SP, 0, -2, 3 },
	{ 0x180, UNWIND_SP, 3, -2, 1 },	   { 0x200, UNWIND_BP, 0, -2, 2 },
	{ 0x300, UNWIND_PLT, 0, 0, 11 },   { 0x400, UNWIND_DRAP, 0, -1, 0 },
	{ 0x500, UNWIND_REG, 0, 10, 0 },   { 0x600, UNWIND_DEREF, 0, 0, 17 },
	{ 0x700, UNWIND_SIGNAL, 0, 0, 0 }, { 0x800, UNWIND_HARD, 0, 0, 0 },
	{ 0x900, UNWIND_END, 0, 0, 0 },	   { 0xa00, UNWIND_NONE, 0, 0, 0 },
	{ 0xb00, UNWIND_SP, 0, 0, 0 },	   { 0xc00, UNWIND_REG, 2, 3, 2 },
	{ 0xd00, UNWIND_SP, 2, 0, 2 },	   { 0xe00, UNWIND_SP, UNWIND_RBX_LOST, 0, 1 },
	{ 0xf00, UNWIND_REG, 0, 0x23, 2 },
};

struct walk {
	uint64_t frames[DEPTH];
	size_t count;
	enum stack_end end;
};

static struct walk walk_from(struct unwind_registers registers, const uint64_t *stack, size_t words,
			     size_t max)
{
	static const struct unwind_area areas[] = {
		{ MODULE, MODULE + 0x1000, MODULE, walk_rows,
		  sizeof(walk_rows) / sizeof(walk_rows[0]) },
		{ BARE, BARE + 0x1000, BARE, NULL, 0 },
	};
	struct unwind_memory memory = { STACK, (const uint8_t *)stack, words * 8 };
	struct walk walk;

	walk.count = unwind_walk(areas, 2, &registers, &memory, walk.frames, max, &walk.end);
	return walk;
}

#define WALK_RBX(ip, sp, bp, rbx, ...)                                                             \
	walk_from((struct unwind_registers){ ip, sp, bp, rbx },                                    \
		  (const uint64_t[WORDS]){ __VA_ARGS__ }, WORDS, DEPTH)
#define WALK(ip, sp, bp, ...) WALK_RBX(ip, sp, bp, 0, __VA_ARGS__)

static void walk_expect(struct walk walk, enum stack_end end, size_t count, const uint64_t *frames)
{
	assert_int_equal(walk.end, end);
	assert_int_equal(walk.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(walk.frames[i], frames[i]);
}

#define EXPECT_WALK(walk, end, ...)                                                                \
	walk_expect(walk, STACK_END_##end,                                                         \
		    sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t),                  \
		    (const uint64_t[]){ __VA_ARGS__ })

#define LEAF(address) ((address) | UNWIND_EXACT)

static void walks_follow_each_kind(void **state)
{
	/* The return address is looked up one byte before itself: 0x901 is in the row of 0x900. */
	EXPECT_WALK(WALK(MODULE, STACK, 0, MODULE + 0x901), COMPLETE, LEAF(MODULE), MODULE + 0x901);
	EXPECT_WALK(WALK(MODULE, STACK, 0, MODULE + 0x900), HARD_RULE, LEAF(MODULE),
		    MODULE + 0x900);
	EXPECT_WALK(WALK(MODULE + 0x100, STACK, 1, 0, STACK + 8, MODULE + 0x210, 5, MODULE + 0x910),
		    BAD_CFA, LEAF(MODULE + 0x100), MODULE + 0x210);
	EXPECT_WALK(WALK(MODULE + 0x100, STACK, 1, 0, STACK + 32, MODULE + 0x210, 0, 5,
			 MODULE + 0x910),
		    COMPLETE, LEAF(MODULE + 0x100), MODULE + 0x210, MODULE + 0x910);
	EXPECT_WALK(WALK(MODULE + 0x30a, STACK, 0, MODULE + 0x910, 5), COMPLETE,
		    LEAF(MODULE + 0x30a), MODULE + 0x910);
	EXPECT_WALK(WALK(MODULE + 0x30b, STACK, 0, 5, MODULE + 0x910), COMPLETE,
		    LEAF(MODULE + 0x30b), MODULE + 0x910);
	EXPECT_WALK(WALK(MODULE + 0x400, STACK, STACK + 16, 0, STACK + 40, 0, 0, MODULE + 0xa10),
		    COMPLETE, LEAF(MODULE + 0x400), MODULE + 0xa10);
	EXPECT_WALK(WALK(MODULE + 0x600, STACK, 0, 0, 0, STACK + 24, MODULE + 0x910), COMPLETE,
		    LEAF(MODULE + 0x600), MODULE + 0x910);
	EXPECT_WALK(WALK(MODULE + 0x500, STACK, 0), HARD_RULE, LEAF(MODULE + 0x500));
	EXPECT_WALK(WALK(MODULE + 0x800, STACK, 0), HARD_RULE, LEAF(MODULE + 0x800));
}

static void walks_find_a_cfa_in_rbx(void **state)
{
	/* In the register itself, in the innermost frame and in the next. */
	EXPECT_WALK(WALK_RBX(MODULE + 0xc00, STACK, 0, STACK + 8, 0, 0, MODULE + 0x910), COMPLETE,
		    LEAF(MODULE + 0xc00), MODULE + 0x910);
	EXPECT_WALK(WALK_RBX(MODULE, STACK, 0, STACK + 16, MODULE + 0xc10, 0, 0, MODULE + 0x910),
		    COMPLETE, LEAF(MODULE), MODULE + 0xc10, MODULE + 0x910);
	/* Saved by a frame further in, and then by the one that counts from it. */
	EXPECT_WALK(WALK_RBX(MODULE + 0xd00, STACK, 0, 1, STACK + 24, MODULE + 0xc10, 0, STACK + 40,
			     MODULE + 0xc10, 0, MODULE + 0x910),
		    COMPLETE, LEAF(MODULE + 0xd00), MODULE + 0xc10, MODULE + 0xc10, MODULE + 0x910);
	/* bp saved beside it. */
	EXPECT_WALK(WALK_RBX(MODULE + 0xf00, STACK, 1, STACK + 8, 0, STACK + 32, MODULE + 0x210, 0,
			     0, MODULE + 0x910),
		    COMPLETE, LEAF(MODULE + 0xf00), MODULE + 0x210, MODULE + 0x910);
	/* Not known any more after rules that no row can say, and after code without rules. */
	EXPECT_WALK(WALK_RBX(MODULE + 0xe00, STACK, 0, STACK + 16, MODULE + 0xc10, 0, 0,
			     MODULE + 0x910),
		    HARD_RULE, LEAF(MODULE + 0xe00), MODULE + 0xc10);
	EXPECT_WALK(WALK_RBX(BARE + 1, STACK, STACK, STACK + 24, 0, MODULE + 0xc10, 0, 0,
			     MODULE + 0x910),
		    HARD_RULE, LEAF(BARE + 1), MODULE + 0xc10);
}

/* An epilogue that has popped registers still has rules that say where they were saved. */
static void walks_start_in_epilogues(void **state)
{
	EXPECT_WALK(WALK(MODULE + 0x180, STACK, STACK + 16, MODULE + 0x210, 0, 0, MODULE + 0x910),
		    COMPLETE, LEAF(MODULE + 0x180), MODULE + 0x210, MODULE + 0x910);
	EXPECT_WALK(WALK_RBX(MODULE + 0x180, STACK, 0, STACK + 16, MODULE + 0xc10, 0, 0,
			     MODULE + 0x910),
		    COMPLETE, LEAF(MODULE + 0x180), MODULE + 0xc10, MODULE + 0x910);
	/* A frame further out has not popped anything. */
	EXPECT_WALK(WALK(MODULE, STACK, 0, MODULE + 0x190, MODULE + 0x210), DUMP_SHORT,
		    LEAF(MODULE), MODULE + 0x190, MODULE + 0x210);
}

static void walks_go_by_frame_pointer_without_rows(void **state)
{
	EXPECT_WALK(WALK(BARE + 1, STACK, STACK, STACK + 24, BARE + 2, 0, 0, BARE + 3), COMPLETE,
		    LEAF(BARE + 1), BARE + 2, BARE + 3);
	EXPECT_WALK(WALK(MODULE + 0xa00, STACK, STACK, 1, 0), COMPLETE, LEAF(MODULE + 0xa00));
	EXPECT_WALK(WALK(BARE + 1, STACK + 8, STACK, 0, BARE + 2), FRAME_POINTER, LEAF(BARE + 1));
	EXPECT_WALK(WALK(BARE + 1, STACK, STACK + 4, 0, BARE + 2), FRAME_POINTER, LEAF(BARE + 1));
	EXPECT_WALK(WALK(BARE + 1, STACK, STACK + 56, 0), DUMP_SHORT, LEAF(BARE + 1));
}

static void walks_go_through_signal_frames(void **state)
{
	uint64_t stack[32] = { MODULE + 0x701 };
	uint64_t context = 1; /* the word after the return address */

	stack[context + UCONTEXT_RIP / 8] =
		MODULE + 0x100; /* exact: the row before it is another */
	stack[context + UCONTEXT_RSP / 8] = STACK + 8 * 26;
	stack[context + UCONTEXT_RBP / 8] = 77;
	stack[context + UCONTEXT_RBX / 8] = STACK + 8 * 27;
	stack[26 + 2] = MODULE + 0x910;
	EXPECT_WALK(walk_from((struct unwind_registers){ MODULE, STACK, 0 }, stack, 32, DEPTH),
		    COMPLETE, LEAF(MODULE), LEAF(MODULE + 0x701), LEAF(MODULE + 0x100),
		    MODULE + 0x910);
	EXPECT_WALK(walk_from((struct unwind_registers){ MODULE, STACK, 0 }, stack, 16, DEPTH),
		    DUMP_SHORT, LEAF(MODULE), LEAF(MODULE + 0x701));
	/* What was interrupted counts from its rbx. */
	stack[context + UCONTEXT_RIP / 8] = MODULE + 0xc00;
	EXPECT_WALK(walk_from((struct unwind_registers){ MODULE, STACK, 0 }, stack, 32, DEPTH),
		    COMPLETE, LEAF(MODULE), LEAF(MODULE + 0x701), LEAF(MODULE + 0xc00),
		    MODULE + 0x910);
	/* A call through a null pointer that a handler caught: the root is not reached. */
	stack[context + UCONTEXT_RIP / 8] = 0;
	EXPECT_WALK(walk_from((struct unwind_registers){ MODULE, STACK, 0 }, stack, 32, DEPTH),
		    NO_MAPPING, LEAF(MODULE), LEAF(MODULE + 0x701), LEAF(0));
}

static void walks_say_why_they_end(void **state)
{
	static const uint64_t loop[WORDS] = { MODULE + 1, MODULE + 2, MODULE + 3, MODULE + 4 };

	EXPECT_WALK(WALK(0x1234, STACK, 0), NO_MAPPING, LEAF(0x1234));
	EXPECT_WALK(WALK(MODULE, STACK, 0, 0x1234), NO_MAPPING, LEAF(MODULE));
	EXPECT_WALK(WALK(MODULE, STACK, 0, 0), COMPLETE, LEAF(MODULE));
	EXPECT_WALK(WALK(MODULE, STACK + 64, 0), DUMP_SHORT, LEAF(MODULE));
	EXPECT_WALK(WALK(MODULE, STACK - 16, 0), DUMP_SHORT, LEAF(MODULE));
	EXPECT_WALK(WALK(MODULE + 0xb10, STACK + 8, 0, MODULE + 0xb20), BAD_CFA,
		    LEAF(MODULE + 0xb10), MODULE + 0xb20);
	EXPECT_WALK(walk_from((struct unwind_registers){ MODULE, STACK, 0 }, loop, WORDS, 3),
		    TOO_DEEP, LEAF(MODULE), MODULE + 1, MODULE + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks_follow_each_kind),
		cmocka_unit_test(walks_find_a_cfa_in_rbx),
		cmocka_unit_test(walks_start_in_epilogues),
		cmocka_unit_test(walks_go_by_frame_pointer_without_rows),
		cmocka_unit_test(walks_go_through_signal_frames),
		cmocka_unit_test(walks_say_why_they_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
