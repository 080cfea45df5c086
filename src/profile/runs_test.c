// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/err.h"
#include "profile/runs.h"

enum { RUNS = 20000, FRAGMENT = 9 };

static uint32_t blocks[RUNS];
static struct run_blocks made[RUNS];

static uint32_t random_next(void)
{
	static uint32_t state = 7;

	state = state * 1664525 + 1013904223;
	return state >> 8;
}

/* Prefixes of fragments, as engines make them; every hundredth is not known. */
static void make(void)
{
	for (size_t i = 0; i < RUNS; i++)
		blocks[i] = random_next() % 5000 + 1;
	for (size_t i = 0; i < RUNS; i++) {
		size_t begin = i / FRAGMENT * FRAGMENT;

		made[i] = (struct run_blocks){ blocks + begin,
					       i % 100 == 99 ? 0 : (uint32_t)(i - begin + 1) };
	}
}

static void row_add(struct coder *coder, struct runs *runs, size_t first, size_t count)
{
	runs_encode(coder, made + first - 1, count);
	assert_int_equal(runs_add(runs, first, count, coder->out.items, coder->out.count), 0);
}

static void what_was_encoded_comes_back(void **state)
{
	struct coder coder;
	struct runs runs;

	make();
	coder_init(&coder, RUNS_EXPECTED);
	runs_init(&runs);
	row_add(&coder, &runs, 1, 5000);
	row_add(&coder, &runs, 5001, RUNS - 5000);
	assert_int_equal(runs_limit(&runs), RUNS + 1);
	for (size_t i = 0; i < RUNS; i++) {
		const uint32_t *found = NULL;

		assert_int_equal(runs_at(&runs, i + 1, &found), made[i].count);
		if (made[i].count)
			assert_memory_equal(found, made[i].blocks,
					    made[i].count * sizeof(uint32_t));
	}
	coder_deinit(&coder);
	runs_deinit(&runs);
}

static void children_inherit(void **state)
{
	struct coder coder;
	struct runs parent, child;
	const uint32_t *found;

	make();
	coder_init(&coder, RUNS_EXPECTED);
	runs_init(&parent);
	runs_init(&child);
	row_add(&coder, &parent, 1, 50);
	assert_int_equal(runs_inherit(&child, &parent, 31), 0);
	assert_int_equal(runs_limit(&child), 31);
	assert_int_equal(runs_at(&child, 31, &found), 0);
	coder_forget(&coder, RUNS_EXPECTED);
	row_add(&coder, &child, 31, 2);
	assert_int_equal(runs_at(&child, 30, &found), made[29].count);
	assert_int_equal(runs_at(&child, 32, &found), made[31].count);
	assert_memory_equal(found, made[31].blocks, made[31].count * sizeof(uint32_t));
	assert_int_equal(runs_inherit(&child, &parent, 31), -EBADMSG);
	coder_deinit(&coder);
	runs_deinit(&parent);
	runs_deinit(&child);
}

static void garbage_is_refused(void **state)
{
	static const uint8_t garbage[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	struct runs runs;

	runs_init(&runs);
	assert_int_equal(runs_add(&runs, 2, 1, garbage, sizeof(garbage)), -EBADMSG);
	assert_int_equal(runs_add(&runs, 1, 1 << 20, garbage, sizeof(garbage)), -EBADMSG);
	runs_deinit(&runs);
}

/* The usual run, one block more than the last, takes a few bits if the block is new, and so does the beginning of a fragment. */
static void fragments_are_small(void **state)
{
	struct coder coder;

	make();
	for (size_t i = 0; i < RUNS; i++) {
		blocks[i] = (uint32_t)i + 1;
		made[i].count = (uint32_t)(i % FRAGMENT) + 1;
	}
	coder_init(&coder, RUNS_EXPECTED);
	runs_encode(&coder, made, RUNS);
	assert_in_range(coder.out.count, 1, RUNS / 4);
	coder_deinit(&coder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_encoded_comes_back),
		cmocka_unit_test(children_inherit),
		cmocka_unit_test(fragments_are_small),
		cmocka_unit_test(garbage_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
