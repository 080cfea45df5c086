// SPDX-License-Identifier: BSD-2-Clause
// Serves: V1.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/map.h"
#include "capture/clocks.h"

enum { MEAN = 1000000 };

/* The rates of the clocks add up to the rate asked for, whatever was drawn. */
static void rates_add_up(void **state)
{
	uint64_t periods[CLOCKS];

	for (uint64_t seed = 0; seed < 1000; seed++) {
		double rate = 0;

		clocks_draw(MEAN, seed, periods, CLOCKS);
		for (size_t i = 0; i < CLOCKS; i++) {
			rate += 1.0 / (double)periods[i];
			assert_in_range(periods[i], MEAN * CLOCKS / 2, MEAN * CLOCKS * 2);
		}
		assert_true(fabs(rate * MEAN - 1) < 1e-5);
	}
}

static void seeds_matter(void **state)
{
	uint64_t a[CLOCKS], b[CLOCKS], again[CLOCKS];

	clocks_draw(MEAN, 1, a, CLOCKS);
	clocks_draw(MEAN, 2, b, CLOCKS);
	clocks_draw(MEAN, 1, again, CLOCKS);
	assert_memory_not_equal(a, b, sizeof(a));
	assert_memory_equal(a, again, sizeof(a));
}

static int by_value(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Runs the clocks from given phases and collects n intervals. */
static void clocks_run(const uint64_t *periods, uint64_t seed, double *intervals, size_t n)
{
	double next[CLOCKS], last = 0;

	for (size_t i = 0; i < CLOCKS; i++)
		next[i] = (double)(hash64(seed + i) % periods[i]);
	for (size_t k = 0; k < n + 1; k++) {
		size_t first = 0;

		for (size_t i = 1; i < CLOCKS; i++)
			if (next[i] < next[first])
				first = i;
		if (k)
			intervals[k - 1] = next[first] - last;
		last = next[first];
		next[first] += (double)periods[first];
	}
}

/* Kolmogorov's distance between simulated clocks and the closed form. */
static void survival_is_what_the_clocks_do(void **state)
{
	enum { N = 20000 };
	double *intervals = malloc(N * sizeof(*intervals));
	uint64_t periods[CLOCKS];

	for (uint64_t seed = 1; seed <= 5; seed++) {
		double distance = 0, mean = 0;

		clocks_draw(MEAN, seed, periods, CLOCKS);
		clocks_run(periods, seed, intervals, N);
		qsort(intervals, N, sizeof(*intervals), by_value);
		for (size_t i = 0; i < N; i++) {
			double expected = 1 - clocks_survival(periods, CLOCKS, intervals[i]);

			distance = fmax(distance, fabs(expected - (double)(i + 1) / N));
			mean += intervals[i] / N;
		}
		assert_true(distance < 0.02);
		assert_true(fabs(mean / MEAN - 1) < 0.01);
	}
	free(intervals);
}

/*
 * One clock alone would be this: every interval the same. The closed form must tell the difference.
 */
static void one_clock_is_a_step(void **state)
{
	uint64_t period = MEAN;

	assert_true(clocks_survival(&period, 1, MEAN * 0.99) > 0.999);
	assert_true(clocks_survival(&period, 1, MEAN * 1.01) < 0.001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_add_up),
		cmocka_unit_test(seeds_matter),
		cmocka_unit_test(survival_is_what_the_clocks_do),
		cmocka_unit_test(one_clock_is_a_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
