// SPDX-License-Identifier: BSD-2-Clause
// Serves: T2, T3, T4, T8.
/*
 * Random calls against a reference that keeps every path as a list of routines and looks for it
 * from the first one on each time; repairs against a stack that is known; pruning against the same
 * calls unpruned.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/mem.h"
#include "base/rng.h"
#include "calls/reports.h"
#include "calls/snapshot.h"
#include "calls/tree.h"

enum { DEPTH = 12, SEED = 20261118, METRICS = 2 };

struct fixture {
	struct call_tree_head head;
	struct call_tree tree;
};

static void fixture_init(struct fixture *fixture, uint32_t metrics, uint32_t limit, uint32_t depth,
			 enum call_stack_rule rule)
{
	struct call_tree_options options = { .metrics = metrics,
					     .limit = limit,
					     .depth_limit = depth,
					     .prune_permille = 100,
					     .rule = rule };

	memset(fixture, 0, sizeof(*fixture));
	fixture->tree.head = &fixture->head;
	fixture->tree.nodes =
		mem_alloc((size_t)call_tree_capacity(limit) * call_node_size(metrics));
	fixture->tree.frames = mem_zalloc((depth + 2) * sizeof(struct call_frame));
	call_tree_init(&fixture->tree, &options);
}

static void fixture_deinit(struct fixture *fixture)
{
	free(fixture->tree.nodes);
	free(fixture->tree.frames);
}

static void fixture_snapshot(const struct fixture *fixture, struct call_snapshot *ret)
{
	assert_int_equal(call_snapshot_take(ret, &fixture->head, fixture->tree.nodes,
					    fixture->head.count),
			 0);
}

/* The reference. */

struct path {
	uint8_t routines[DEPTH];
	uint32_t depth;
	uint64_t calls;
	struct call_amount amounts[METRICS];
};

struct reference {
	ARRAY(struct path) paths;
	uint8_t stack[DEPTH];
	uint32_t depth;
	struct call_amount last[METRICS];
};

static struct path *reference_path(struct reference *reference)
{
	array_each(&reference->paths, path)
		if (path->depth == reference->depth &&
		    !memcmp(path->routines, reference->stack, reference->depth))
			return path;
	struct path *path = array_push(&reference->paths);

	*path = (struct path){ .depth = reference->depth };
	memcpy(path->routines, reference->stack, reference->depth);
	return path;
}

static void reference_charge(struct reference *reference, const struct call_amount *now)
{
	struct path *path = reference_path(reference);

	for (int i = 0; i < METRICS; i++) {
		path->amounts[i].base += now[i].base - reference->last[i].base;
		path->amounts[i].elapsed += now[i].elapsed - reference->last[i].elapsed;
		reference->last[i] = now[i];
	}
}

static bool is_below(const struct path *path, const struct path *prefix)
{
	return path->depth >= prefix->depth &&
	       !memcmp(path->routines, prefix->routines, prefix->depth);
}

static void node_path(const struct call_snapshot *snapshot, uint32_t number, struct path *ret)
{
	*ret = (struct path){ .depth = call_snapshot_node(snapshot, number)->level };
	for (uint32_t at = number; at != CALL_ROOT;) {
		const struct call_node *node = call_snapshot_node(snapshot, at);

		ret->routines[node->level - 1] = (uint8_t)node->routine;
		at = node->parent;
	}
}

static uint32_t recursion(const struct path *path)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < path->depth; i++)
		count += path->routines[i] == path->routines[path->depth - 1];
	return count;
}

static void check_node(const struct call_snapshot *snapshot, uint32_t number,
		       struct reference *reference)
{
	const struct call_node *node = call_snapshot_node(snapshot, number);
	struct call_amount sums[METRICS] = {};
	struct path path;
	const struct path *truth;

	node_path(snapshot, number, &path);
	memcpy(reference->stack, path.routines, DEPTH);
	reference->depth = path.depth;
	truth = reference_path(reference);
	if (number != CALL_ROOT) {
		assert_int_equal(node->calls, truth->calls);
		assert_int_equal(node->recursion, recursion(&path));
	}
	array_each(&reference->paths, below)
		for (int i = 0; i < METRICS && is_below(below, truth); i++) {
			sums[i].base += below->amounts[i].base;
			sums[i].elapsed += below->amounts[i].elapsed;
		}
	for (int i = 0; i < METRICS; i++) {
		assert_int_equal(node->amounts[i].base, truth->amounts[i].base);
		assert_int_equal(node->amounts[i].elapsed, truth->amounts[i].elapsed);
		assert_int_equal(call_snapshot_sum(snapshot, number, i)->base, sums[i].base);
		assert_int_equal(call_snapshot_sum(snapshot, number, i)->elapsed, sums[i].elapsed);
	}
}

static uint64_t pick(struct rng *rng, uint64_t count)
{
	return rng_next(rng) % count;
}

static uint64_t sp_at(uint32_t depth)
{
	return 0x100000 - depth * 64;
}

struct run {
	struct rng rng;
	struct call_amount now[METRICS];
	struct reference reference;
	uint64_t dropped; /* frames left without an exit */
};

static void run_advance(struct run *run)
{
	for (int i = 0; i < METRICS; i++) {
		uint64_t own = pick(&run->rng, 50);

		run->now[i].base += own;
		run->now[i].elapsed += own + pick(&run->rng, 20);
	}
}

/* An entry or an exit of the reference's stack, which may first lose frames without a word. */
static void run_step(struct run *run, struct call_tree *tree, bool jumps)
{
	struct reference *reference = &run->reference;
	uint32_t kept = reference->depth;

	run_advance(run);
	reference_charge(reference, run->now);
	call_tree_charge(tree, run->now);
	if (jumps && kept && rng_one_in(&run->rng, 10)) {
		kept = (uint32_t)pick(&run->rng, kept) + 1;
		run->dropped += reference->depth - kept;
		reference->depth = kept;
	}
	if (kept < DEPTH && (!kept || rng_trial(&run->rng, 0.52))) {
		uint8_t routine = (uint8_t)('A' + pick(&run->rng, 3));

		reference->stack[reference->depth++] = routine;
		reference_path(reference)->calls++;
		call_tree_enter(tree, routine, sp_at(reference->depth));
	} else {
		call_tree_leave(tree, reference->stack[kept - 1], sp_at(reference->depth));
		reference->depth--;
	}
}

static void check_random(enum call_stack_rule rule, bool jumps, uint64_t seed)
{
	struct run run = {};
	struct fixture fixture;
	struct call_snapshot snapshot;

	rng_init(&run.rng, seed);
	fixture_init(&fixture, METRICS, 100000, DEPTH, rule);
	for (int i = 0; i < 4000; i++)
		run_step(&run, &fixture.tree, jumps);
	assert_true(run.dropped > 0 || !jumps);
	assert_int_equal(fixture.head.repairs[CALL_REPAIR_ABANDONED] +
				 fixture.head.repairs[CALL_REPAIR_REPLACED],
			 run.dropped);
	assert_int_equal(fixture.head.repairs[CALL_REPAIR_NO_ENTRY], 0);
	assert_int_equal(fixture.head.pruned, 0);
	fixture_snapshot(&fixture, &snapshot);
	assert_int_equal(snapshot.reached, fixture.head.used);
	for (uint32_t i = 0; i < snapshot.reached; i++)
		check_node(&snapshot, snapshot.order[i], &run.reference);
	assert_int_equal(snapshot.reached, run.reference.paths.count);
	call_snapshot_deinit(&snapshot);
	array_deinit(&run.reference.paths);
	fixture_deinit(&fixture);
}

static void test_random(void **state)
{
	for (uint64_t i = 0; i < 4; i++) {
		check_random(CALL_STACK_UNKNOWN, false, SEED + i);
		check_random(CALL_STACK_EXACT, i & 1, SEED + i);
		check_random(CALL_STACK_BOUND, i & 1, SEED + i);
	}
}

/* Stanzas of random trees: each is checked by the report itself, and the thread's total holds. */
static void test_random_stanzas(void **state)
{
	struct run run = {};
	struct fixture fixture;
	struct call_snapshot snapshot;
	const struct call_snapshot *all[] = { &snapshot, &snapshot };
	struct call_stanzas stanzas;
	uint64_t base = 0;

	rng_init(&run.rng, SEED);
	fixture_init(&fixture, METRICS, 100000, DEPTH, CALL_STACK_EXACT);
	for (int i = 0; i < 20000; i++)
		run_step(&run, &fixture.tree, true);
	fixture_snapshot(&fixture, &snapshot);
	for (uint32_t metric = 0; metric < METRICS; metric++) {
		assert_int_equal(call_report_stanzas(all, 2, metric, &stanzas), 0);
		base = 0;
		for (size_t i = 0; i < stanzas.count; i++) {
			base += stanzas.items[i].self.base;
			assert_true(stanzas.items[i].self.cum <= 2 * run.now[metric].base);
		}
		assert_int_equal(base, 2 * run.now[metric].base);
		call_stanzas_deinit(&stanzas);
	}
	call_snapshot_node(&snapshot, snapshot.order[1])->amounts[0].base++;
	assert_int_equal(call_report_stanzas(all, 2, 0, &stanzas), -EINVAL);
	call_snapshot_deinit(&snapshot);
	array_deinit(&run.reference.paths);
	fixture_deinit(&fixture);
}

struct totals {
	uint64_t calls;
	struct call_amount amounts[METRICS];
};

static struct totals totals_of(const struct call_snapshot *snapshot)
{
	struct totals totals = {};

	for (uint32_t i = 0; i < snapshot->reached; i++) {
		const struct call_node *node = call_snapshot_node(snapshot, snapshot->order[i]);

		totals.calls += node->calls;
		for (uint32_t m = 0; m < snapshot->head.metrics; m++) {
			totals.amounts[m].base += node->amounts[m].base;
			totals.amounts[m].elapsed += node->amounts[m].elapsed;
		}
	}
	return totals;
}

/*
 * The same calls with little memory: fewer nodes, the same totals, and nothing that was not there.
 */
static void test_pruning(void **state)
{
	for (uint32_t limit = 64; limit <= 1024; limit *= 2) {
		struct run run = {};
		struct run again = {};
		struct fixture whole;
		struct fixture pruned;
		struct call_snapshot full;
		struct call_snapshot part;
		struct totals a;
		struct totals b;

		rng_init(&run.rng, SEED);
		rng_init(&again.rng, SEED);
		fixture_init(&whole, METRICS, 100000, DEPTH, CALL_STACK_EXACT);
		fixture_init(&pruned, METRICS, limit, DEPTH, CALL_STACK_EXACT);
		for (int i = 0; i < 20000; i++) {
			run_step(&run, &whole.tree, true);
			run_step(&again, &pruned.tree, true);
			assert_true(pruned.head.used <= pruned.head.capacity);
		}
		fixture_snapshot(&whole, &full);
		fixture_snapshot(&pruned, &part);
		a = totals_of(&full);
		b = totals_of(&part);
		assert_memory_equal(&a, &b, sizeof(a));
		assert_int_equal(a.amounts[0].base, run.now[0].base);
		assert_int_equal(part.reached, pruned.head.used);
		assert_true(pruned.head.pruned > 0);
		assert_non_null(map_find(&part.routines, CALL_ROUTINE_PRUNED));
		assert_null(map_find(&full.routines, CALL_ROUTINE_PRUNED));
		call_snapshot_deinit(&full);
		call_snapshot_deinit(&part);
		array_deinit(&run.reference.paths);
		array_deinit(&again.reference.paths);
		fixture_deinit(&whole);
		fixture_deinit(&pruned);
	}
}

/* What has a large share of its parent stays through any number of small ones. */
static void test_pruning_share(void **state)
{
	struct fixture fixture;
	struct call_snapshot snapshot;
	struct call_amount now[1] = {};
	const struct call_node *heavy;
	uint64_t routine = 1000;

	fixture_init(&fixture, 1, 64, DEPTH, CALL_STACK_UNKNOWN);
	call_tree_enter(&fixture.tree, 'M', 0);
	for (int i = 0; i < 10000; i++) {
		call_tree_enter(&fixture.tree, 'H', 0);
		now[0].base += 1000;
		call_tree_charge(&fixture.tree, now);
		call_tree_leave(&fixture.tree, 'H', 0);
		for (int small = 0; small < 5; small++) {
			call_tree_enter(&fixture.tree, ++routine, 0);
			now[0].base += 10;
			call_tree_charge(&fixture.tree, now);
			call_tree_leave(&fixture.tree, routine, 0);
		}
	}
	fixture_snapshot(&fixture, &snapshot);
	heavy = call_snapshot_node(&snapshot, (uint32_t)*map_find(&snapshot.routines, 'H'));
	assert_int_equal(heavy->calls, 10000);
	assert_int_equal(heavy->amounts[0].base, 10000 * 1000);
	assert_int_equal(call_snapshot_sum(&snapshot, CALL_ROOT, 0)->base, now[0].base);
	assert_int_equal(fixture.head.total, now[0].base);
	assert_true(fixture.head.pruned > 40000);
	call_snapshot_deinit(&snapshot);
	fixture_deinit(&fixture);
}

/* Nothing is small enough: the sweep raises the share until there is room. */
static void test_pruning_equal(void **state)
{
	struct fixture fixture;
	struct call_snapshot snapshot;
	struct totals totals;

	fixture_init(&fixture, 0, 64, 8, CALL_STACK_UNKNOWN);
	for (uint64_t path = 0; path < 3000; path++) {
		for (uint32_t depth = 0; depth < 8; depth++)
			call_tree_enter(&fixture.tree, path * 8 + depth, 0);
		for (uint32_t depth = 8; depth-- > 0;)
			call_tree_leave(&fixture.tree, path * 8 + depth, 0);
		assert_true(fixture.head.used <= fixture.head.capacity);
	}
	assert_true(fixture.head.sweeps > 0);
	fixture_snapshot(&fixture, &snapshot);
	totals = totals_of(&snapshot);
	assert_int_equal(totals.calls, 1 + 3000 * 8);
	call_snapshot_deinit(&snapshot);
	fixture_deinit(&fixture);
}

static void check_repairs(const struct fixture *fixture, uint64_t abandoned, uint64_t replaced,
			  uint64_t no_entry, uint64_t too_deep)
{
	assert_int_equal(fixture->head.repairs[CALL_REPAIR_ABANDONED], abandoned);
	assert_int_equal(fixture->head.repairs[CALL_REPAIR_REPLACED], replaced);
	assert_int_equal(fixture->head.repairs[CALL_REPAIR_NO_ENTRY], no_entry);
	assert_int_equal(fixture->head.repairs[CALL_REPAIR_TOO_DEEP], too_deep);
}

static void test_repairs(void **state)
{
	struct fixture fixture;

	fixture_init(&fixture, 0, 200, DEPTH, CALL_STACK_EXACT);
	call_tree_leave(&fixture.tree, 'A', 1000);
	check_repairs(&fixture, 0, 0, 1, 0);
	call_tree_enter(&fixture.tree, 'A', 900);
	call_tree_enter(&fixture.tree, 'B', 800);
	call_tree_enter(&fixture.tree, 'C', 700);
	call_tree_enter(&fixture.tree, 'D', 800); /* B was left by an exception, or became D */
	check_repairs(&fixture, 1, 1, 1, 0);
	assert_int_equal(call_tree_depth(&fixture.tree), 2);
	assert_int_equal(call_tree_current(&fixture.tree)->level, 2);
	call_tree_tail(&fixture.tree, 'E', 800);
	check_repairs(&fixture, 1, 1, 1, 0);
	assert_int_equal(call_tree_current(&fixture.tree)->routine, 'E');
	assert_int_equal(call_tree_current(&fixture.tree)->level, 2);
	call_tree_leave(&fixture.tree, 'D', 800); /* the place counts */
	check_repairs(&fixture, 1, 2, 1, 0);
	call_tree_leave(&fixture.tree, 'Z', 850); /* below A: nobody's */
	check_repairs(&fixture, 1, 2, 2, 0);
	call_tree_leave(&fixture.tree, 'A', 900);
	assert_int_equal(call_tree_depth(&fixture.tree), 0);
	fixture_deinit(&fixture);
}

/* Hooks see a lower stack pointer at the exit of a routine that took more of the stack. */
/*
 * A frame that stands again lies on a path of which nothing else is on the stack: no sweep may take
 * that path away.
 */
static void test_stand(void **state)
{
	static const uint64_t path[] = { 1, 2, 3 };
	struct fixture fixture;

	fixture_init(&fixture, 0, 64, 8, CALL_STACK_UNKNOWN);
	fixture.tree.weighs_itself = true;
	for (uint64_t i = 0; i < 3; i++)
		call_tree_enter(&fixture.tree, path[i], 0);
	for (uint64_t i = 0; i < 3; i++)
		call_tree_gone(&fixture.tree, CALL_REPAIR_ABANDONED);
	assert_int_equal(fixture.head.repairs[CALL_REPAIR_ABANDONED], 3);
	for (uint64_t i = 0; i < 10000; i++) { /* so much that the path is small */
		call_tree_enter(&fixture.tree, 9, 0);
		call_tree_leave(&fixture.tree, 9, 0);
	}
	call_tree_enter(&fixture.tree, 9, 0);
	assert_true(call_tree_stand(&fixture.tree, path, 3));
	assert_int_equal(call_tree_depth(&fixture.tree), 2);
	assert_int_equal(call_tree_current(&fixture.tree)->routine, 3);
	for (uint64_t i = 0; i < 1000; i++) {
		call_tree_enter(&fixture.tree, 100 + i, 0);
		call_tree_leave(&fixture.tree, 100 + i, 0);
	}
	assert_true(fixture.head.sweeps > 0);
	assert_int_equal(call_tree_current(&fixture.tree)->routine, 3);
	assert_int_equal(call_tree_current(&fixture.tree)->flags, 0);
	call_tree_leave(&fixture.tree, 3, 0);
	assert_int_equal(call_tree_current(&fixture.tree)->routine, 9);
	fixture_deinit(&fixture);
}

static void test_bound_rule(void **state)
{
	struct fixture fixture;

	fixture_init(&fixture, 0, 200, DEPTH, CALL_STACK_BOUND);
	fixture.tree.stack_low = 100;
	fixture.tree.stack_high = 1000;
	call_tree_enter(&fixture.tree, 'A', 900);
	call_tree_enter(&fixture.tree, 'A', 800);
	call_tree_leave(&fixture.tree, 'A', 500);
	check_repairs(&fixture, 0, 0, 0, 0);
	call_tree_enter(&fixture.tree, 'A', 800);
	call_tree_enter(&fixture.tree, 'A', 700);
	call_tree_leave(&fixture.tree, 'A', 850); /* longjmp into the outermost A, which returns */
	check_repairs(&fixture, 2, 0, 0, 0);
	assert_int_equal(call_tree_depth(&fixture.tree), 0);
	call_tree_enter(&fixture.tree, 'A', 900);
	call_tree_enter(&fixture.tree, 'H', 5000); /* a signal's handler on a stack of its own */
	call_tree_enter(&fixture.tree, 'I', 4000);
	assert_int_equal(call_tree_depth(&fixture.tree), 3);
	call_tree_leave(&fixture.tree, 'I', 4000);
	call_tree_leave(&fixture.tree, 'H', 5000);
	check_repairs(&fixture, 2, 0, 0, 0);
	call_tree_enter(&fixture.tree, 'H', 5000);
	call_tree_leave(&fixture.tree, 'A', 900); /* it never came back */
	check_repairs(&fixture, 3, 0, 0, 0);
	assert_int_equal(call_tree_depth(&fixture.tree), 0);
	fixture_deinit(&fixture);
}

static void test_too_deep(void **state)
{
	for (int rule = CALL_STACK_UNKNOWN; rule <= CALL_STACK_BOUND; rule++) {
		struct fixture fixture;

		fixture_init(&fixture, 0, 200, 4, (enum call_stack_rule)rule);
		for (uint64_t i = 0; i < 10; i++)
			call_tree_enter(&fixture.tree, 'A', 900 - i * 10);
		assert_int_equal(call_tree_depth(&fixture.tree), 4);
		check_repairs(&fixture, 0, 0, 0, 6);
		for (uint64_t i = 10; i-- > 0;)
			call_tree_leave(&fixture.tree, 'A', 900 - i * 10);
		assert_int_equal(call_tree_depth(&fixture.tree), 0);
		check_repairs(&fixture, 0, 0, 0, 6);
		fixture_deinit(&fixture);
	}
}

static void test_counter_goes_back(void **state)
{
	struct fixture fixture;
	struct call_amount now[1] = { { .base = 100, .elapsed = 200 } };

	fixture_init(&fixture, 1, 200, 4, CALL_STACK_UNKNOWN);
	call_tree_start(&fixture.tree, now);
	now[0].base = 90;
	now[0].elapsed = 205;
	call_tree_charge(&fixture.tree, now);
	now[0].base = 103;
	call_tree_charge(&fixture.tree, now);
	assert_int_equal(fixture.head.repairs[CALL_REPAIR_WENT_BACK], 1);
	assert_int_equal(call_tree_current(&fixture.tree)->amounts[0].base, 3);
	assert_int_equal(call_tree_current(&fixture.tree)->amounts[0].elapsed, 5);
	fixture_deinit(&fixture);
}

/* What is taken off for the measurement is never more than there was. */
static void test_overhead(void **state)
{
	enum { CALLS = 2000, TICKS = 20 };
	struct fixture fixture;
	struct call_snapshot snapshot;
	struct call_amount now[1] = {};

	fixture_init(&fixture, 1, 200, 4, CALL_STACK_UNKNOWN);
	call_tree_start(&fixture.tree, now);
	for (int i = 0; i < CALLS; i++) {
		call_tree_charge(&fixture.tree, now);
		call_tree_enter(&fixture.tree, 7, 0);
		now[0].base += TICKS;
		call_tree_charge(&fixture.tree, now);
		call_tree_leave(&fixture.tree, 7, 0);
		now[0].base += 3 * TICKS;
	}
	fixture_snapshot(&fixture, &snapshot);
	assert_int_equal(call_snapshot_overhead(&snapshot, TICKS - 1), TICKS - 1);
	assert_int_equal(call_snapshot_overhead(&snapshot, 5 * TICKS), TICKS);
	call_snapshot_deinit(&snapshot);
	fixture_deinit(&fixture);
}

/* The same of a routine on many paths, each of which is taken now and then. */
static void test_overhead_of_routine(void **state)
{
	enum { PATHS = 100, CALLS = 50, TICKS = 20 };
	struct fixture fixture;
	struct call_snapshot snapshot;
	struct call_amount now[1] = {};

	fixture_init(&fixture, 1, 400, 4, CALL_STACK_UNKNOWN);
	call_tree_start(&fixture.tree, now);
	for (int i = 0; i < PATHS * CALLS; i++) {
		call_tree_charge(&fixture.tree, now);
		call_tree_enter(&fixture.tree, 100 + (uint64_t)(i % PATHS), 0);
		now[0].base += 10 * TICKS;
		call_tree_charge(&fixture.tree, now);
		call_tree_enter(&fixture.tree, 7, 0);
		now[0].base += TICKS;
		call_tree_charge(&fixture.tree, now);
		call_tree_leave(&fixture.tree, 7, 0);
		now[0].base += 10 * TICKS;
		call_tree_charge(&fixture.tree, now);
		call_tree_leave(&fixture.tree, 100 + (uint64_t)(i % PATHS), 0);
		now[0].base += 10 * TICKS;
	}
	fixture_snapshot(&fixture, &snapshot);
	assert_int_equal(call_snapshot_overhead(&snapshot, 5 * TICKS), TICKS);
	call_snapshot_deinit(&snapshot);
	fixture_deinit(&fixture);
}

/* Whatever lies in shared memory: refused, or a tree in which each node is reached once. */
static void test_hostile_snapshot(void **state)
{
	struct rng rng;
	int refused = 0;

	rng_init(&rng, SEED);
	for (int round = 0; round < 3000; round++) {
		struct fixture fixture;
		struct call_snapshot snapshot;
		struct call_node *node;

		fixture_init(&fixture, 1, 200, DEPTH, CALL_STACK_UNKNOWN);
		for (uint64_t i = 0; i < 40; i++) {
			call_tree_enter(&fixture.tree, pick(&rng, 4), 0);
			if (call_tree_depth(&fixture.tree) > pick(&rng, DEPTH))
				call_tree_pop(&fixture.tree);
		}
		for (int i = 0; i < 3; i++) {
			node = call_tree_node(&fixture.tree,
					      (uint32_t)pick(&rng, fixture.head.count));
			(&node->parent)[pick(&rng, 3)] = (uint32_t)pick(&rng, 45) - 3;
		}
		if (call_snapshot_take(&snapshot, &fixture.head, fixture.tree.nodes,
				       fixture.head.count)) {
			refused++;
		} else {
			assert_true(snapshot.reached <= snapshot.head.count);
			call_snapshot_deinit(&snapshot);
		}
		fixture_deinit(&fixture);
	}
	assert_true(refused > 100 && refused < 3000);
}

static void test_snapshot_of_changing(void **state)
{
	struct fixture fixture;
	struct call_snapshot snapshot;

	fixture_init(&fixture, 1, 200, DEPTH, CALL_STACK_UNKNOWN);
	fixture.head.change = 1;
	assert_int_equal(call_snapshot_take(&snapshot, &fixture.head, fixture.tree.nodes, 1),
			 -EAGAIN);
	fixture.head.change = 2;
	fixture.head.count = 2;
	assert_int_equal(call_snapshot_take(&snapshot, &fixture.head, fixture.tree.nodes, 1),
			 -EINVAL);
	fixture_deinit(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_random_stanzas),
		cmocka_unit_test(test_pruning),
		cmocka_unit_test(test_pruning_share),
		cmocka_unit_test(test_pruning_equal),
		cmocka_unit_test(test_repairs),
		cmocka_unit_test(test_bound_rule),
		cmocka_unit_test(test_stand),
		cmocka_unit_test(test_too_deep),
		cmocka_unit_test(test_counter_goes_back),
		cmocka_unit_test(test_overhead),
		cmocka_unit_test(test_overhead_of_routine),
		cmocka_unit_test(test_hostile_snapshot),
		cmocka_unit_test(test_snapshot_of_changing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
