// SPDX-License-Identifier: BSD-2-Clause
// Serves: V9.
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "values/valuefn.h"

static uint64_t apply(const char *text, unsigned width, uint64_t value, uint64_t second)
{
	struct valuefn fn = {};

	assert_int_equal(valuefn_parse(text, &fn), 0);
	return valuefn_apply(fn, width, value, second);
}

static void test_functions(void **state)
{
	static const struct {
		const char *text;
		unsigned width;
		uint64_t value, second, result;
	} cases[] = {
		{ "self", 64, UINT64_MAX, 0, UINT64_MAX },
		{ "self", 8, 0x1ff, 0, 0xff },
		{ "bits:4-11", 64, 0xabcdef, 0, 0xde },
		{ "bits:0-63", 64, UINT64_MAX, 0, UINT64_MAX },
		{ "bits:63", 64, UINT64_MAX, 0, 1 },
		{ "bits:4-11", 8, 0xabcdef, 0, 0xe },
		{ "low", 64, 6, 0, 0 },
		{ "low", 64, 7, 0, 1 },
		{ "sign", 64, 0, 0, 0 },
		{ "sign", 64, 5, 0, 1 },
		{ "sign", 32, 0xffffffff, 0, UINT64_MAX },
		{ "sign", 64, 0xffffffff, 0, 1 },
		{ "sign", 8, 0x100, 0, 0 },
		{ "sign", 1, 1, 0, UINT64_MAX },
		{ "alignment", 64, 0x7f3000, 0, 12 },
		{ "alignment", 64, 1, 0, 0 },
		{ "alignment", 64, 0, 0, 64 },
		{ "alignment", 16, 0x10000, 0, 16 },
		{ "difference", 64, 0x1008, 0x1000, 8 },
		{ "difference", 64, 0x1000, 0x1008, (uint64_t)-8 },
		{ "difference", 32, 1, 0xffffffff, 2 },
		{ "difference", 8, 0x80, 1, 0x7f },
		{ "log2", 64, 0, 0, 0 },
		{ "log2", 64, 1, 0, 1 },
		{ "log2", 64, 7, 0, 3 },
		{ "log2", 64, 8, 0, 4 },
		{ "log2", 64, UINT64_MAX, 0, 64 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(apply(cases[i].text, cases[i].width, cases[i].value,
				       cases[i].second),
				 cases[i].result);
}

static void test_names(void **state)
{
	static const char *const good[] = { "self",	 "bits:4-11", "bits:63",    "low",   "sign",
					    "alignment", "log2",      "difference", "bits:0" };
	static const char *const bad[] = { "",		"bits",	    "bits:",	 "bits:64",
					   "bits:5-4",	"bits:4-",  "bits:4-64", "bits:4-11x",
					   "bits:-1",	"bits:100", "sine",	 "low ",
					   "bits:1-2-3" };
	struct valuefn fn = { .last_bit = 77 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(valuefn_parse(bad[i], &fn), -EINVAL);
	assert_int_equal(fn.last_bit, 77);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct strbuf buf = {};

		assert_int_equal(valuefn_parse(good[i], &fn), 0);
		valuefn_print(fn, &buf);
		assert_string_equal(strbuf_text(&buf), good[i]);
		assert_int_equal(valuefn_arguments(fn), fn.kind == VALUEFN_DIFFERENCE ? 2 : 1);
		strbuf_deinit(&buf);
	}
}

/* Buckets cover all numbers without gap or overlap, and their ends fall into them. */
static void test_buckets(void **state)
{
	struct valuefn log2 = { .kind = VALUEFN_LOG2 };
	uint64_t next = 0, low, high;

	for (unsigned bucket = 0; bucket <= 64; bucket++, next = high + 1) {
		valuefn_bucket(bucket, &low, &high);
		assert_int_equal(low, next);
		assert_int_equal(valuefn_apply(log2, 64, low, 0), bucket);
		assert_int_equal(valuefn_apply(log2, 64, high, 0), bucket);
	}
	assert_int_equal(high, UINT64_MAX);
}

/*
 * Two passes in long double are the truth. Far from 0, where sums of squares would lose everything.
 */
static void moments_check(int64_t offset, uint64_t spread, unsigned split)
{
	enum { COUNT = 1000 };
	struct moments all = {}, left = {}, right = {};
	long double sum = 0, squares = 0;
	int64_t values[COUNT], min = INT64_MAX, max = INT64_MIN;
	struct rng rng;

	rng_init(&rng, split);
	for (unsigned i = 0; i < COUNT; i++) {
		values[i] = offset + (int64_t)(rng_next(&rng) % spread);
		sum += values[i];
		min = values[i] < min ? values[i] : min;
		max = values[i] > max ? values[i] : max;
		moments_add(&all, values[i]);
		moments_add(i < split ? &left : &right, values[i]);
	}
	for (unsigned i = 0; i < COUNT; i++)
		squares += (values[i] - sum / COUNT) * (values[i] - sum / COUNT);
	moments_merge(&left, &right);
	for (unsigned i = 0; i < 2; i++) {
		const struct moments *moments = i ? &left : &all;

		assert_int_equal(moments->count, COUNT);
		assert_int_equal(moments->min, min);
		assert_int_equal(moments->max, max);
		assert_true(fabsl(moments->mean - sum / COUNT) <= fabsl(sum / COUNT) * 1e-14L);
		assert_true(fabsl(moments_variance(moments) - squares / (COUNT - 1)) <=
			    squares / (COUNT - 1) * 1e-5L);
	}
}

static void test_moments(void **state)
{
	struct moments none = {}, one = {};

	moments_check(-500, 1000, 300);
	moments_check(INT64_C(0x7ffff7dd0000), 4096, 1);
	moments_check(-INT64_C(0x800000000000), 1 << 20, 0);
	moments_check(0, UINT64_C(1) << 62, 1000);
	assert_true(moments_variance(&none) == 0);
	moments_add(&one, -7);
	moments_merge(&one, &none);
	assert_true(moments_variance(&one) == 0);
	assert_true(one.mean == -7 && one.min == -7 && one.max == -7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_moments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
