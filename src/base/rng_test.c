// SPDX-License-Identifier: BSD-2-Clause
// Serves: V14.
/* Draws of many trials against the distributions that textbooks give for them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

enum { DRAWS = 40000, CELLS = 64 };

static double binomial_probability(double n, double p, double k)
{
	return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) +
		   (n - k) * log1p(-p));
}

/*
 * Chi-squared over cells that expect at least ten draws, as deviations of a normal variate (Wilson
 * and Hilferty).
 */
static double fit_score(const unsigned *seen, const double *expected)
{
	double sum = 0, rest_seen = 0, rest_expected = 0;
	int cells = -1;

	for (size_t i = 0; i < CELLS; i++) {
		rest_seen += seen[i];
		rest_expected += expected[i];
		if (rest_expected < 10)
			continue;
		sum += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
		rest_seen = rest_expected = 0;
		cells++;
	}
	assert_true(cells >= 1);
	return (cbrt(sum / cells) - (1 - 2.0 / (9 * cells))) / sqrt(2.0 / (9 * cells));
}

/* The 64 likeliest numbers of successes. */
static void binomial_check(uint64_t n, double p)
{
	double middle = (double)n * p, expected[CELLS] = {};
	uint64_t first = middle > CELLS / 2 ? (uint64_t)middle - CELLS / 2 : 0;
	unsigned seen[CELLS] = {}, outside = 0;
	struct rng rng;

	rng_init(&rng, n);
	for (unsigned i = 0; i < CELLS && first + i <= n; i++)
		expected[i] = DRAWS * binomial_probability((double)n, p, (double)(first + i));
	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t drawn = rng_binomial(&rng, n, p);

		assert_true(drawn <= n);
		if (drawn >= first && drawn - first < CELLS)
			seen[drawn - first]++;
		else
			outside++;
	}
	assert_true(fit_score(seen, expected) < 4);
	assert_true(n > 1000 || outside < DRAWS / 1000);
}

static void test_binomial(void **state)
{
	binomial_check(1, 0.3);
	binomial_check(20, 1.0 / 16);
	binomial_check(50, 0.19);
	binomial_check(50, 0.21);
	binomial_check(100, 0.3);
	binomial_check(100, 0.92);
	binomial_check(1000, 0.02);
	binomial_check(5000, 1.0 / 16);
}

/* Too many for cells: mean and variance. */
static void test_binomial_large(void **state)
{
	static const double numbers[] = { 1e6, 1e9, 0x1p52 };
	struct rng rng;

	rng_init(&rng, 1);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		double n = numbers[i], p = 1.0 / 16, sum = 0, squares = 0;

		for (unsigned draw = 0; draw < DRAWS; draw++) {
			double score = ((double)rng_binomial(&rng, (uint64_t)n, p) - n * p) /
				       sqrt(n * p * (1 - p));

			sum += score;
			squares += score * score;
		}
		assert_float_equal(sum / DRAWS, 0, 4 / sqrt(DRAWS));
		assert_float_equal(squares / DRAWS, 1, 4 * sqrt(2.0 / DRAWS));
	}
}

static void run_check(double p, uint64_t max)
{
	double expected[CELLS] = {};
	unsigned seen[CELLS] = {};
	struct rng rng;

	rng_init(&rng, max);
	for (unsigned k = 0; k < CELLS && k <= max; k++)
		expected[k] = DRAWS * pow(p, k) * (k == max ? 1 : 1 - p);
	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t drawn = rng_successes(&rng, p, max);

		assert_true(drawn <= max);
		seen[drawn < CELLS ? drawn : CELLS - 1] += drawn < CELLS;
	}
	assert_true(fit_score(seen, expected) < 4);
}

static void test_run(void **state)
{
	run_check(0.1, 1000);
	run_check(0.9, 1000);
	run_check(0.9, 5);
}

static void test_certain(void **state)
{
	struct rng rng;

	rng_init(&rng, 1);
	for (unsigned i = 0; i < 1000; i++) {
		assert_true(rng_trial(&rng, 1));
		assert_false(rng_trial(&rng, 0));
		assert_true(rng_one_in(&rng, 1));
		assert_int_equal(rng_binomial(&rng, 100, 1), 100);
		assert_int_equal(rng_binomial(&rng, 100, 0), 0);
		assert_int_equal(rng_binomial(&rng, 0, 0.5), 0);
		assert_int_equal(rng_successes(&rng, 1, 7), 7);
		assert_int_equal(rng_successes(&rng, 0, 7), 0);
		assert_int_equal(rng_round(&rng, 3), 3);
	}
}

static void test_means(void **state)
{
	double thirds = 0, sevenths = 0, rounded = 0;
	struct rng rng;

	rng_init(&rng, 2);
	for (unsigned i = 0; i < DRAWS; i++) {
		thirds += rng_trial(&rng, 1 / 3.0);
		sevenths += rng_one_in(&rng, 7);
		rounded += (double)rng_round(&rng, 2.3);
	}
	assert_float_equal(thirds / DRAWS, 1 / 3.0, 4 * sqrt(2 / 9.0 / DRAWS));
	assert_float_equal(sevenths / DRAWS, 1 / 7.0, 4 * sqrt(6 / 49.0 / DRAWS));
	assert_float_equal(rounded / DRAWS, 2.3, 4 * sqrt(0.21 / DRAWS));
}

struct counted {
	struct rng_script script;
	unsigned trials;
};

/* Every third trial is false. */
static bool counted_trial(struct rng_script *script, double probability)
{
	struct counted *counted = (struct counted *)script;

	assert_true(probability == 0.25);
	return ++counted->trials % 3 != 0;
}

static void test_script(void **state)
{
	struct counted counted = { .script.trial = counted_trial };
	struct rng rng = { .script = &counted.script };

	assert_true(rng_trial(&rng, 0.25));
	assert_int_equal(rng_successes(&rng, 0.25, 9), 1);
	assert_int_equal(counted.trials, 3);
	assert_int_equal(rng_binomial(&rng, 9, 0.25), 6);
	assert_int_equal(rng_successes(&rng, 0.25, 1), 1);
	assert_true(rng_one_in(&rng, 4));
	assert_int_equal(counted.trials, 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_binomial), cmocka_unit_test(test_binomial_large),
		cmocka_unit_test(test_run),	 cmocka_unit_test(test_certain),
		cmocka_unit_test(test_means),	 cmocka_unit_test(test_script),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
