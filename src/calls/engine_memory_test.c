// SPDX-License-Identifier: BSD-2-Clause
// Serves: T3.
/* Trees as engines leave them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "calls/engine_memory.h"

enum { CALLS = 5000, TICKS = 10, ROUTINES = 2 };

/* A routine that is called and never takes long, below one that is called once. */
static char *memory_make(uint64_t overhead)
{
	char *bytes = calloc(CALLTREE_WORDS, sizeof(uint64_t));
	struct calltree_memory *memory = (struct calltree_memory *)bytes;
	struct call_node *nodes[ROUTINES + 1];

	memory->head = (struct call_tree_head){ .metrics = CALLTREE_METRICS,
						.count = ROUTINES + 1,
						.used = ROUTINES + 1,
						.limit = CALLTREE_LIMIT,
						.capacity = CALLTREE_CAPACITY,
						.free = CALL_NONE };
	for (uint32_t i = 0; i <= ROUTINES; i++) {
		nodes[i] = (struct call_node *)(bytes + CALLTREE_NODES +
						i * call_node_size(CALLTREE_METRICS));
		*nodes[i] = (struct call_node){ .routine = i ? i : CALL_ROUTINE_THREAD,
						.parent = i ? i - 1 : CALL_NONE,
						.child = i < ROUTINES ? i + 1 : CALL_NONE,
						.sibling = CALL_NONE,
						.instance = CALL_NONE,
						.level = i,
						.calls = i < ROUTINES ? 1 : CALLS };
	}
	nodes[1]->amounts[0].elapsed = 2 * CALLS * TICKS;
	nodes[2]->amounts[0].elapsed = CALLS * TICKS;
	memory->overhead = overhead;
	memory->timed = 1;
	memory->ready = 1;
	return bytes;
}

/*
 * Where the processor was slower while the cost of the tool was measured than it was later, more
 * would be taken off than there was, and callers would have to pay for it.
 */
static void test_overhead(void **state)
{
	static const struct {
		uint64_t overhead, caller, callee;
	} cases[] = {
		{ 0, 2 * CALLS * TICKS, CALLS * TICKS },
		{ TICKS / 2, 2 * CALLS * TICKS - (CALLS + 1) * TICKS / 2, CALLS * TICKS / 2 },
		{ 5 * TICKS, (CALLS - 1) * TICKS, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *memory = memory_make(cases[i].overhead);
		struct calltree_memory head;
		struct call_snapshot snapshot;

		assert_int_equal(call_engine_take(memory, &snapshot, &head), 0);
		assert_int_equal(call_snapshot_node(&snapshot, 1)->amounts[0].base,
				 cases[i].caller);
		assert_int_equal(call_snapshot_node(&snapshot, 2)->amounts[0].base,
				 cases[i].callee);
		call_snapshot_deinit(&snapshot);
		free(memory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overhead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
