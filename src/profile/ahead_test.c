// SPDX-License-Identifier: BSD-2-Clause
#include "profile/ahead.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "profile/cycles.h"

enum { SYMBOLS = 16384, PAGE = 4096 };

/* The definition: how many symbols until one comes again. */
static size_t length_plain(void *context, const uint32_t *symbols, size_t count)
{
	for (size_t i = 1; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (symbols[i] == symbols[j])
				return i;
	return count;
}

static const struct ahead_long longer = { length_plain, NULL };

typedef size_t find_fn(const uint32_t *, size_t, const struct ahead_long *, struct ahead *);

static void cycle_check(const uint32_t *symbols, size_t count, const struct ahead_cycle *cycle)
{
	const uint32_t *first = symbols + cycle->first;

	assert_true(cycle->trips > 0);
	for (size_t i = 0; i < cycle->trips; i++) {
		size_t at = cycle->first + i * cycle->length;

		assert_int_equal(length_plain(NULL, symbols + at, count - at), cycle->length);
		assert_memory_equal(symbols + at, first, cycle->length * sizeof(*symbols));
	}
	assert_int_equal(cycle->hash, cycles_hash(first, cycle->length));
}

/* What is left at the end is found by the definition. Returns how many trips there were. */
static size_t check(find_fn *find, const uint32_t *symbols, size_t count)
{
	struct ahead *found = malloc(sizeof(*found));
	size_t at = 0, trips = 0;

	while (at < count) {
		size_t taken = find(symbols + at, count - at, &longer, found), next = 0;

		for (size_t i = 0; i < found->count; i++) {
			const struct ahead_cycle *cycle = &found->cycles[i];

			assert_int_equal(cycle->first, next);
			cycle_check(symbols + at, count - at, cycle);
			next += cycle->length * cycle->trips;
			trips += cycle->trips;
		}
		assert_int_equal(taken, next);
		trips += !taken;
		at += taken ? taken : length_plain(NULL, symbols + at, count - at);
	}
	free(found);
	return trips;
}

static size_t trips_plain(const uint32_t *symbols, size_t count)
{
	size_t at = 0, trips = 0;

	for (; at < count; trips++)
		at += length_plain(NULL, symbols + at, count - at);
	return trips;
}

/* Behind the last symbol nothing can be read. */
static uint32_t *symbols_map(void)
{
	uint8_t *memory = mmap(NULL, SYMBOLS * 4 + PAGE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + SYMBOLS * 4, PAGE, PROT_NONE), 0);
	return (uint32_t *)memory;
}

/* Loops of up to `longest` symbols, each a few times and interrupted now and then, of `different` symbols. */
static void symbols_make(uint32_t *symbols, unsigned longest, unsigned different)
{
	uint32_t body[64];
	size_t at = 0;

	while (at < SYMBOLS) {
		size_t length = 1 + (size_t)random() % longest;
		size_t trips = 1 + (size_t)(random() % 5 ? random() % 4 : random() % 60);

		for (size_t i = 0; i < length; i++)
			body[i] = (uint32_t)random() % different;
		for (size_t i = 0; i < length * trips && at < SYMBOLS; i++) {
			symbols[at++] = body[i % length];
			if (random() % 97 == 0)
				break;
		}
	}
}

static void both_check(const uint32_t *symbols, size_t count)
{
	size_t trips = trips_plain(symbols, count);

	assert_int_equal(check(ahead_find_narrow, symbols, count), trips);
	if (ahead_is_wide())
		assert_int_equal(check(ahead_find_wide, symbols, count), trips);
}

static void test_random(void **state)
{
	uint32_t *symbols = symbols_map();

	srandom(4711);
	for (unsigned longest = 1; longest <= 40; longest += longest < 18 ? 1 : 11) {
		symbols_make(symbols, longest, 10);
		both_check(symbols, SYMBOLS);
		symbols_make(symbols, longest, 1000);
		both_check(symbols, SYMBOLS);
	}
	munmap(symbols, SYMBOLS * 4 + PAGE);
}

/* One loop, in which every part of a block begins at another place; and no loop at all. */
static void test_regular(void **state)
{
	uint32_t *symbols = symbols_map();

	for (unsigned period = 1; period <= 40; period++) {
		for (size_t i = 0; i < SYMBOLS; i++)
			symbols[i] = (uint32_t)(i % period);
		both_check(symbols, SYMBOLS);
	}
	for (size_t i = 0; i < SYMBOLS; i++)
		symbols[i] = (uint32_t)(i < 2000 ? i : i % 2);
	both_check(symbols, SYMBOLS);
	munmap(symbols, SYMBOLS * 4 + PAGE);
}

/* However few there are. */
static void test_short(void **state)
{
	uint32_t *symbols = symbols_map();

	srandom(17);
	symbols_make(symbols, 6, 20);
	for (size_t count = 1; count < 700; count++)
		both_check(symbols + SYMBOLS - count, count);
	munmap(symbols, SYMBOLS * 4 + PAGE);
}

/* Most of a sequence is found this way, not by the definition. */
static void test_reach(void **state)
{
	uint32_t *symbols = symbols_map();
	struct ahead *found = malloc(sizeof(*found));

	srandom(3);
	symbols_make(symbols, 6, 20);
	assert_true(ahead_find_narrow(symbols, SYMBOLS, &longer, found) >= AHEAD_BLOCK);
	assert_true(ahead_find(symbols, SYMBOLS, &longer, found) >= AHEAD_BLOCK);
	assert_true(found->count > AHEAD_BLOCK / 40);
	free(found);
	munmap(symbols, SYMBOLS * 4 + PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_regular),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_reach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
