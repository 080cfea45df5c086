// SPDX-License-Identifier: BSD-2-Clause
// Serves: W5.
/*
 * Tables of cycles: all kinds find the same, bounded sorting does what it says and no more, memory
 * is bounded.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/rng.h"
#include "paths/cycles.h"

static uint32_t add(struct cycles *cycles, uint32_t symbol)
{
	return cycles_intern(cycles, &symbol, 1, false);
}

static void access(struct cycles *cycles, uint32_t slot, uint32_t times)
{
	cycles_at(cycles, slot)->accesses += times - 1;
	cycles_count(cycles, slot, times, 1);
}

static void chain_expect(const struct cycles *cycles, const uint32_t *slots, size_t count)
{
	uint32_t chain[32];

	assert_int_equal(cycles_chain(cycles, 0, chain, 32), count);
	assert_memory_equal(chain, slots, count * sizeof(*slots));
}

/* The entries of the worked example of bounded sorting, in one bucket. */
static void example_fill(struct cycles *cycles, uint32_t extra)
{
	static const uint32_t accesses[] = { 100000000, 101000000, 9000, 22,  8431,
					     99997,	32111,	   6719, 5234 };

	for (uint32_t i = 0; i < 9; i++)
		assert_int_equal(add(cycles, 1000 + i), i + 1);
	for (uint32_t i = 0; i < 9; i++)
		access(cycles, i + 1, accesses[i]);
	for (uint32_t i = 0; i < extra; i++)
		access(cycles, 4, 1);
}

static void test_bounded_example(void **state)
{
	struct cycles_options options = {
		.kind = CYCLES_BOUNDED, .buckets = 1, .period = 11, .depth = 8, .frequency = 100000
	};
	static const uint32_t before[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	static const uint32_t after[] = { 2, 1, 3, 4, 5, 6, 7, 8, 9 };
	struct cycles cycles;

	assert_int_equal(cycles_init(&cycles, &options), 0);
	example_fill(&cycles, 1);
	chain_expect(&cycles, before, 9);
	access(&cycles, 4, 1);
	chain_expect(&cycles, after, 9);
	assert_int_equal(cycles.stats.sorted_entries, 2);
	assert_int_equal(cycles.stats.sorts, 1);
	cycles_deinit(&cycles);
}

/* A chain that is not deeper than the threshold stays as it is. */
static void test_bounded_depth(void **state)
{
	struct cycles_options options = {
		.kind = CYCLES_BOUNDED, .buckets = 1, .period = 10, .depth = 9, .frequency = 100000
	};
	static const uint32_t same[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct cycles cycles;

	assert_int_equal(cycles_init(&cycles, &options), 0);
	example_fill(&cycles, 1);
	assert_int_equal(cycles.stats.sorts, 1);
	assert_int_equal(cycles.stats.sorted_buckets, 0);
	chain_expect(&cycles, same, 9);
	cycles_deinit(&cycles);
}

/* Chains are not sorted before the period is over, and never if it is CYCLES_PERIOD_NEVER. */
static void test_bounded_never(void **state)
{
	struct cycles_options options = { .kind = CYCLES_BOUNDED,
					  .buckets = 1,
					  .period = (uint32_t)CYCLES_PERIOD_NEVER,
					  .depth = 1,
					  .frequency = 1 };
	static const uint32_t same[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct cycles cycles;

	assert_int_equal(cycles_init(&cycles, &options), 0);
	example_fill(&cycles, 100);
	cycles_sort(&cycles);
	assert_int_equal(cycles.stats.sorts, 0);
	chain_expect(&cycles, same, 9);
	cycles_deinit(&cycles);
}

static size_t random_cycle(struct rng *rng, uint32_t *ret)
{
	size_t length = 1 + rng_next(rng) % 7;

	for (size_t i = 0; i < length; i++)
		ret[i] = (uint32_t)(rng_next(rng) % 3);
	return length;
}

/* Equal cycles get equal slots, different ones different slots, in order of arrival. */
static void kind_check(enum cycles_kind kind)
{
	struct cycles_options options = {
		.kind = kind, .buckets = 64, .period = 500, .depth = 3, .frequency = 5
	};
	struct map slots = {};
	struct cycles cycles;
	struct rng rng;

	rng_init(&rng, kind);
	assert_int_equal(cycles_init(&cycles, &options), 0);
	for (unsigned i = 0; i < 20000; i++) {
		uint32_t symbols[8] = {}, slot;
		size_t length = random_cycle(&rng, symbols);
		uint64_t key = length;

		for (size_t j = 0; j < length; j++)
			key = key * 4 + symbols[j];
		slot = cycles_intern(&cycles, symbols, length, false);
		cycles_count(&cycles, slot, 2, 1);
		if (!map_find(&slots, key)) {
			uint64_t *place = map_at(&slots, key, NULL);

			*place = slots.count;
		}
		assert_int_equal(slot, *map_find(&slots, key));
		assert_int_equal(cycles_at(&cycles, slot)->length, length);
		assert_memory_equal(cycles_symbols(&cycles, slot), symbols, length * 4);
	}
	assert_int_equal(cycles_last(&cycles), slots.count);
	assert_true(slots.count > 2000);
	map_deinit(&slots);
	cycles_deinit(&cycles);
}

static void test_kinds(void **state)
{
	for (enum cycles_kind kind = 0; kind < CYCLES_KIND_COUNT; kind++) {
		enum cycles_kind parsed = CYCLES_KIND_COUNT;

		kind_check(kind);
		assert_int_equal(cycles_kind_parse(cycles_kind_text(kind), &parsed), 0);
		assert_int_equal(parsed, kind);
	}
	assert_int_equal(cycles_kind_parse("closed", &(enum cycles_kind){ 0 }), -EINVAL);
}

/* Full: known cycles are still found, and memory does not grow; cleared, it begins anew. */
static void memory_check(enum cycles_kind kind)
{
	struct cycles_options options = { .kind = kind, .buckets = 256, .memory = 1 << 20 };
	struct cycles cycles;
	uint32_t last, full = 0;

	assert_int_equal(cycles_init(&cycles, &options), 0);
	while (add(&cycles, full))
		full++;
	last = cycles_last(&cycles);
	assert_true(full > 2000);
	assert_int_equal(last, full);
	assert_true(cycles_memory(&cycles) <= 1 << 20);
	assert_int_equal(add(&cycles, 5), 6);
	assert_int_equal(add(&cycles, full), 0);
	assert_int_equal(cycles_intern(&cycles, &full, 1, true), last + 1);
	cycles_clear(&cycles);
	assert_int_equal(add(&cycles, 5), 1);
	assert_int_equal(add(&cycles, 6), 2);
	assert_int_equal(cycles_last(&cycles), 2);
	cycles_deinit(&cycles);
}

static void test_memory(void **state)
{
	memory_check(CYCLES_OPEN);
	memory_check(CYCLES_BOUNDED);
}

static void test_refused(void **state)
{
	struct cycles cycles;

	assert_int_equal(cycles_init(&cycles, &(struct cycles_options){ .buckets = 3 }), -EINVAL);
	assert_int_equal(cycles_init(&cycles, &(struct cycles_options){ .memory = 5 }), -EINVAL);
	assert_int_equal(cycles_init(&cycles, &(struct cycles_options){ .memory = SIZE_MAX }),
			 -EINVAL);
	assert_int_equal(cycles_init(&cycles, &(struct cycles_options){ .kind = 9 }), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounded_example), cmocka_unit_test(test_bounded_depth),
		cmocka_unit_test(test_bounded_never),	cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_memory),		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
