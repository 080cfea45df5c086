// SPDX-License-Identifier: BSD-2-Clause
// Serves: W6.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "phases/changes.h"
#include "phases/cluster.h"

enum { ROWS = 400, WIDTH = 4 };

static const struct changes_options options = { .shortest = 5, .threshold = 0.2, .floor = 2 };

static uint64_t seed;

/* Nearly normal: mean 0, variance 1. */
static double noise(void)
{
	double sum = 0;

	for (int i = 0; i < 12; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		sum += (double)(seed >> 11) / (double)(1ull << 53);
	}
	return sum - 6;
}

/* Level by row: the share of the first of two behaviours. */
typedef double level_fn(size_t row);

static void series_make(level_fn *level, double noisy, struct changes_series *ret)
{
	changes_series_init(ret, ROWS, WIDTH);
	for (size_t i = 0; i < ROWS; i++) {
		double row[WIDTH] = { level(i), 1 - level(i), 0.3, 0 };

		for (size_t k = 0; k < WIDTH; k++)
			row[k] += noisy * noise();
		changes_series_add(ret, row, 1 + 0.1 * (double)(i % 3));
	}
}

static void changes_find(const struct changes_series *series, struct changes *ret)
{
	changes_segment(series, &options, ret);
	changes_prune(changes_distance, series, series->count, &options, ret);
}

static double level_steady(size_t row)
{
	return 0.5;
}

static double level_steps(size_t row)
{
	return row < 100 ? 0 : row < 250 ? 1 : 0;
}

/* The row with the change is a mixture. */
static double level_mixed(size_t row)
{
	return row < 200 ? 1 : row == 200 ? 0.25 : 0;
}

static double level_drift(size_t row)
{
	return (double)row / ROWS;
}

static double level_alternating(size_t row)
{
	return row / 20 % 2;
}

static double level_fast(size_t row)
{
	return row % 2;
}

static void test_steps(void **state)
{
	for (uint64_t first = 1; first <= 10; first++) {
		struct changes_series series;
		struct changes changes;

		seed = first;
		series_make(level_steps, 0.1, &series);
		changes_find(&series, &changes);
		assert_int_equal(changes.at.count, 2);
		assert_int_equal(changes.at.items[0], 100);
		assert_int_equal(changes.at.items[1], 250);
		changes_deinit(&changes);
		changes_series_deinit(&series);
	}
}

static void test_refined(void **state)
{
	struct changes_series series;
	struct changes changes;

	seed = 3;
	series_make(level_mixed, 0.01, &series);
	changes_find(&series, &changes);
	assert_int_equal(changes.at.count, 1);
	assert_true(fabs(changes_refine(&series, &changes, 0) - 200.25) < 0.05);
	changes_deinit(&changes);
	changes_series_deinit(&series);
}

static void check_none(level_fn *level, double noisy)
{
	for (uint64_t first = 1; first <= 20; first++) {
		struct changes_series series;
		struct changes changes;

		seed = first;
		series_make(level, noisy, &series);
		changes_find(&series, &changes);
		assert_int_equal(changes.at.count, 0);
		changes_deinit(&changes);
		changes_series_deinit(&series);
	}
}

static void test_none(void **state)
{
	check_none(level_steady, 0);
	check_none(level_steady, 0.05);
	check_none(level_steady, 0.3);
	check_none(level_drift, 0.01);
	check_none(level_drift, 0.1);
	check_none(level_fast, 0.1);
}

/* A restless sequence: as far apart as that everywhere, and a bit further at row 200. */
struct restless {
	double usual, there;
};

static double restless_distance(const void *context, size_t from, size_t middle, size_t to)
{
	const struct restless *restless = context;

	return middle >= 198 && middle <= 202 ? restless->there : restless->usual;
}

static size_t restless_count(double usual, double there)
{
	const struct restless restless = { usual, there };
	struct changes changes = {};
	size_t count;

	for (size_t at = 100; at <= 300; at += 100)
		*array_push(&changes.at) = at;
	changes_prune(restless_distance, &restless, ROWS, &options, &changes);
	count = changes.at.count;
	if (count)
		assert_int_equal(changes.at.items[0], 200);
	changes_deinit(&changes);
	return count;
}

/*
 * Twice as far, while that is little; where nothing can be twice as far, four times as much that
 * differs.
 */
static void test_restless(void **state)
{
	assert_int_equal(restless_count(0.15, 0.28), 0);
	assert_int_equal(restless_count(0.15, 0.32), 1);
	assert_int_equal(restless_count(0.7, 0.85), 0);
	assert_int_equal(restless_count(0.7, 0.95), 1);
	assert_int_equal(restless_count(1, 1), 0);
}

/* Stretches too short for a place without change between two of them. */
static void test_alternating(void **state)
{
	struct changes_options long_options = { .shortest = 15, .threshold = 0.2, .floor = 2 };
	struct changes_series series;
	struct changes changes;

	seed = 5;
	series_make(level_alternating, 0.1, &series);
	changes_segment(&series, &long_options, &changes);
	changes_prune(changes_distance, &series, ROWS, &long_options, &changes);
	assert_int_equal(changes.at.count, ROWS / 20 - 1);
	for (size_t i = 0; i < changes.at.count; i++)
		assert_int_equal(changes.at.items[i], 20 * (i + 1));
	changes_deinit(&changes);
	changes_series_deinit(&series);
}

static void test_peaks(void **state)
{
	struct changes_series series;
	struct changes changes;

	seed = 9;
	series_make(level_steps, 0.05, &series);
	changes_peaks(changes_distance, &series, ROWS, &options, &changes);
	assert_int_equal(changes.at.count, 2);
	assert_int_equal(changes.at.items[0], 100);
	assert_int_equal(changes.at.items[1], 250);
	changes_deinit(&changes);
	changes_series_deinit(&series);
}

static void test_few_rows(void **state)
{
	for (size_t rows = 1; rows < 2 * options.shortest; rows++) {
		struct changes_series series;
		struct changes changes;

		changes_series_init(&series, rows, 1);
		for (size_t i = 0; i < rows; i++)
			changes_series_add(&series, &(double){ i < 5 }, 1);
		changes_find(&series, &changes);
		assert_int_equal(changes.at.count, 0);
		changes_deinit(&changes);
		changes_series_deinit(&series);
	}
}

static void cluster_check(size_t kinds, double noisy)
{
	static double values[ROWS * WIDTH];
	struct clusters clusters;

	for (size_t i = 0; i < ROWS; i++)
		for (size_t k = 0; k < WIDTH; k++)
			values[i * WIDTH + k] =
				(i * 7 % ROWS * kinds / ROWS == k) + noisy * noise();
	clusters_find(values, ROWS, WIDTH, 8, &clusters);
	assert_int_equal(clusters.count, kinds);
	for (size_t i = 0; i < ROWS; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_equal(clusters.labels[i] == clusters.labels[j],
					 i * 7 % ROWS * kinds / ROWS ==
						 j * 7 % ROWS * kinds / ROWS);
	clusters_deinit(&clusters);
}

static void test_clusters(void **state)
{
	seed = 11;
	cluster_check(2, 0.05);
	cluster_check(3, 0.05);
	cluster_check(4, 0.05);
	cluster_check(4, 0);
}

static void test_one_cluster(void **state)
{
	double value = 3;
	struct clusters clusters;

	clusters_find(&value, 1, 1, 8, &clusters);
	assert_int_equal(clusters.count, 1);
	assert_int_equal(clusters.labels[0], 0);
	clusters_deinit(&clusters);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),	    cmocka_unit_test(test_refined),
		cmocka_unit_test(test_none),	    cmocka_unit_test(test_restless),
		cmocka_unit_test(test_alternating), cmocka_unit_test(test_peaks),
		cmocka_unit_test(test_few_rows),    cmocka_unit_test(test_clusters),
		cmocka_unit_test(test_one_cluster),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
