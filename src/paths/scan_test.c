// SPDX-License-Identifier: BSD-2-Clause
// Serves: W3.
/* Cycles of a block, compared with those that the definition gives. */
#include "paths/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "paths/cycles.h"

enum { ROOM = 8192, SYMBOLS = ROOM - CYCLES_SLACK, PAGE = 4096, NO_MAX = 1 << 20 };

/* How many symbols until one comes again, or until max; 0: neither happens. */
static size_t length_plain(const uint32_t *symbols, size_t count, size_t max)
{
	for (size_t i = 1; i < count; i++) {
		if (i == max)
			return i;
		for (size_t j = 0; j < i; j++)
			if (symbols[i] == symbols[j])
				return i;
	}
	return count == max ? count : 0;
}

/* One cycle, and how often it comes in a row; returns where it ends, or 0. */
static size_t cycle_plain(const uint32_t *symbols, size_t count, size_t max, size_t *ret_trips)
{
	size_t length = length_plain(symbols, count, max), end = length;

	for (*ret_trips = 1; length; end += length, (*ret_trips)++)
		if (length_plain(symbols + end, count - end, max) != length ||
		    memcmp(symbols, symbols + end, length * sizeof(*symbols)) != 0)
			break;
	return end;
}

static void block_check(struct scan *scan, const uint32_t *symbols, size_t count, uint32_t max)
{
	static const uint32_t skipped[ROOM + 1];
	size_t taken = scan_find(scan, symbols, skipped, count, max), at = 0;

	for (size_t i = 0; i < scan->count; i++) {
		const struct scan_cycle *found = &scan->cycles[i];
		size_t trips, end = cycle_plain(symbols + at, count - at, max, &trips);

		assert_int_equal(found->length * trips, end);
		assert_int_equal(found->trips, trips);
		assert_int_equal(found->last - scan->base, at + end - found->length);
		assert_int_equal(found->hash, cycles_hash(symbols + at, found->length));
		at += (size_t)found->length * found->trips;
	}
	assert_int_equal(taken, at);
	assert_int_equal(length_plain(symbols + at, count - at, max), 0);
}

/*
 * Loops of up to `longest` symbols, each up to `trips` times; what lies behind them and
 * CYCLES_SLACK more cannot be read.
 */
static uint32_t *symbols_make(size_t longest, size_t trips, uint32_t kinds)
{
	uint32_t *symbols = mmap(NULL, ROOM * 4 + PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_int_equal(mprotect(symbols + ROOM, PAGE, PROT_NONE), 0);
	for (size_t at = 0; at < ROOM;) {
		size_t length = 1 + (size_t)random() % longest;
		size_t all = length * (1 + (size_t)random() % trips);
		uint32_t first = (uint32_t)random() % kinds;

		for (size_t i = 0; i < all && at < ROOM; i++)
			symbols[at++] = first + (uint32_t)(i % length) * 3;
	}
	return symbols;
}

static void symbols_free(uint32_t *symbols)
{
	munmap(symbols, ROOM * 4 + PAGE);
}

static void example_expect(const char *letters, size_t taken, const char *lengths)
{
	static const uint32_t skipped[64];
	uint32_t symbols[64] = {};
	struct scan scan = {};
	char text[64] = "";

	for (size_t i = 0; letters[i]; i++)
		symbols[i] = (uint32_t)letters[i];
	assert_int_equal(scan_find(&scan, symbols, skipped, strlen(letters), NO_MAX), taken);
	for (size_t i = 0; i < scan.count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%ux%u ",
			 scan.cycles[i].length, scan.cycles[i].trips);
	assert_string_equal(text, lengths);
	scan_deinit(&scan);
}

static void test_examples(void **state)
{
	example_expect("ABCDB", 4, "4x1 ");
	example_expect("ABCABCBD", 6, "3x2 ");
	example_expect("ABCABDA", 6, "3x1 3x1 ");
	example_expect("ABCABCD", 3, "3x1 ");
	example_expect("AAAA", 3, "1x3 ");
	example_expect("ABCD", 0, "");
}

static void test_random(void **state)
{
	struct scan scan = {};

	srandom(11);
	for (size_t longest = 1; longest < 60; longest += 1 + longest / 4) {
		uint32_t *symbols = symbols_make(longest, 1 + longest % 5, 1 + longest % 7);

		block_check(&scan, symbols, SYMBOLS, NO_MAX);
		for (uint32_t max = 1; max < 40; max = max * 2 + 1)
			block_check(&scan, symbols, SYMBOLS / 8, max);
		symbols_free(symbols);
	}
	scan_deinit(&scan);
}

/*
 * AB is cut, CD ends by itself and is as long, and both A and B come again after five symbols: they
 * are not the same for that.
 */
static void test_cut(void **state)
{
	static const uint32_t symbols[8 + CYCLES_SLACK] = { 0, 1, 2, 3, 2, 0, 1, 0 };
	struct scan scan = {};

	block_check(&scan, symbols, 8, 2);
	assert_int_equal(scan.cycles[0].trips, 1);
	scan_deinit(&scan);
}

/* Where symbols are left out, the cycles are those of all of them. */
static void fold_check(struct scan *scan, const uint32_t *symbols, size_t count, uint32_t before)
{
	static uint32_t folded[ROOM], skipped[ROOM + 1];
	size_t left = scan_fold(symbols, count, before, folded, skipped), at = 0, taken;

	skipped[left] = before + (uint32_t)(count - left);
	for (size_t i = 0; i < left; i++)
		assert_int_equal(folded[i], symbols[i + (skipped[i] - before)]);
	taken = scan_find(scan, folded, skipped, left, NO_MAX);
	for (size_t i = 0; i < scan->count; i++) {
		const struct scan_cycle *found = &scan->cycles[i];
		size_t trips, end = cycle_plain(symbols + at, count - at, NO_MAX, &trips);

		assert_memory_equal(scan_based(scan, folded) + found->last, symbols + at,
				    found->length * sizeof(*symbols));
		assert_int_equal(found->trips, trips);
		assert_int_equal(found->length * trips, end);
		assert_int_equal(found->hash, cycles_hash(symbols + at, found->length));
		at += end;
	}
	assert_int_equal(taken + (skipped[taken] - before), at);
	assert_int_equal(length_plain(symbols + at, count - at, NO_MAX), 0);
}

static void test_fold(void **state)
{
	struct scan scan = {};

	srandom(29);
	for (size_t trips = 1; trips < 100; trips += 1 + trips / 3) {
		uint32_t *symbols = symbols_make(1 + trips % 3, trips, 1 + (uint32_t)trips % 4);

		for (size_t count = 1; count < 50; count++)
			fold_check(&scan, symbols + SYMBOLS - count, count, 5);
		fold_check(&scan, symbols, SYMBOLS, UINT32_MAX - 100);
		symbols_free(symbols);
	}
	scan_deinit(&scan);
}

/* However few there are, and whatever blocks came before. */
static void test_short(void **state)
{
	uint32_t *symbols;
	struct scan scan = {};

	srandom(17);
	symbols = symbols_make(9, 4, 6);
	for (size_t count = 1; count < 600; count++)
		block_check(&scan, symbols + SYMBOLS - count, count, NO_MAX);
	symbols_free(symbols);
	scan_deinit(&scan);
}

/* Numbers of places have an end. */
static void test_base(void **state)
{
	uint32_t *symbols;
	struct scan scan = {};

	srandom(23);
	symbols = symbols_make(9, 4, 6);
	block_check(&scan, symbols, 1000, NO_MAX);
	for (uint32_t base = 0; base < 1010; base += 5) {
		scan.base = base;
		memset(scan.places, 0xff, scan.place_count * sizeof(*scan.places));
		block_check(&scan, symbols, 1000, NO_MAX);
		block_check(&scan, symbols, 500, NO_MAX);
	}
	symbols_free(symbols);
	scan_deinit(&scan);
}

/* Symbols that were never seen are large. */
static void test_large(void **state)
{
	uint32_t symbols[100 + CYCLES_SLACK] = {};
	struct scan scan = {};

	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 100; i++)
			symbols[i] = (1u << round) - 1 + i % (7 + round);
		block_check(&scan, symbols, 100, NO_MAX);
	}
	assert_in_range(scan_memory(&scan), (1 << 20) * 4, 1 << 24);
	scan_deinit(&scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples), cmocka_unit_test(test_random),
		cmocka_unit_test(test_cut),	 cmocka_unit_test(test_fold),
		cmocka_unit_test(test_short),	 cmocka_unit_test(test_base),
		cmocka_unit_test(test_large),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
