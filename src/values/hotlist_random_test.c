// SPDX-License-Identifier: BSD-2-Clause
// Serves: V14.
/*
 * What is true of hotlists in the mean, by simulation with fixed seeds: estimates of single and
 * merged lists have no bias, and the ranges they state hold as often as they claim.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "values/hotlist.h"

enum { VALUES = 300, PART = 400, PARTS_MAX = 4, TRIALS = 2000, SEED = 20260101 };

/* Values are 0 to VALUES - 1, the most frequent first; what is watched besides the first. */
static const uint64_t watched[] = { 0, 4, 30 };

enum { WATCHED = sizeof(watched) / sizeof(*watched) };

struct mean {
	double sum;
	double squares;
};

struct outcome {
	struct mean errors[WATCHED]; /* estimated count - true count */
	struct mean share; /* estimated share of value 0 - its probability */
	unsigned entries, entries_held; /* entries looked at, and those whose range holds */
	unsigned shares_held; /* of value 0 */
	unsigned shares;
	unsigned absent, absent_held;
};

static double cumulated[VALUES];
static unsigned concise_ends; /* switching lists that took concise samples in the end */

/* Zipf's: value i has a share in proportion to (i + 1)^-exponent. */
static void distribution_init(double exponent)
{
	double sum = 0;

	for (unsigned i = 0; i < VALUES; i++)
		cumulated[i] = sum += pow(i + 1, -exponent);
	for (unsigned i = 0; i < VALUES; i++)
		cumulated[i] /= sum;
}

static uint64_t value_draw(struct rng *rng)
{
	double at = rng_uniform(rng);
	unsigned low = 0, high = VALUES - 1;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (cumulated[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void mean_add(struct mean *mean, double value)
{
	mean->sum += value;
	mean->squares += value * value;
}

/* The mean in units of its standard error, over all trials. */
static double mean_score(const struct mean *mean)
{
	double average = mean->sum / TRIALS;

	return average / sqrt((mean->squares / TRIALS - average * average) / TRIALS);
}

static bool range_holds(const struct hotlist_range *range, double truth)
{
	assert_true(range->low <= range->best && range->best <= range->high);
	return range->low <= truth + 1e-9 && truth <= range->high + 1e-9;
}

static void entries_judge(struct outcome *outcome, const struct hotlist *list,
			  const unsigned *truth, double *estimates)
{
	for (size_t rank = 0; rank < list->count; rank++) {
		struct hotlist_value value;

		hotlist_get(list, rank, &value);
		estimates[value.words[0]] = value.occurrences.best;
		outcome->entries++;
		outcome->entries_held += range_holds(&value.occurrences, truth[value.words[0]]);
		if (value.words[0] == 0) {
			struct hotlist_range share;

			hotlist_share(list, rank, &(struct hotlist_sampling){}, &share);
			mean_add(&outcome->share, share.best - cumulated[0]);
			outcome->shares++;
			outcome->shares_held += range_holds(&share, cumulated[0]);
		}
	}
}

static void list_judge(struct outcome *outcome, const struct hotlist *list, const unsigned *truth)
{
	double estimates[VALUES] = {};

	entries_judge(outcome, list, truth, estimates);
	for (size_t i = 0; i < WATCHED; i++)
		mean_add(&outcome->errors[i], estimates[watched[i]] - truth[watched[i]]);
	for (size_t i = 0; i < VALUES; i++)
		if (estimates[i] == 0) {
			outcome->absent++;
			outcome->absent_held += truth[i] <= hotlist_absent_max(list);
		}
}

/* Merged in pairs, like a tree, with a list of its own for each part. */
static void trial_run(enum hotlist_kind kind, unsigned parts, struct rng *rng,
		      struct outcome *outcome)
{
	struct hotlist lists[PARTS_MAX];
	unsigned truth[VALUES] = {};

	for (unsigned part = 0; part < parts; part++) {
		struct hotlist_config config = { .kind = kind, .seed = rng_next(rng) };

		hotlist_init(&lists[part], &config);
		for (unsigned i = 0; i < PART; i++) {
			uint64_t value = value_draw(rng);

			truth[value]++;
			hotlist_add(&lists[part], &value);
		}
	}
	for (unsigned step = 1; step < parts; step *= 2)
		for (unsigned part = 0; part + step < parts; part += 2 * step)
			assert_int_equal(hotlist_merge(&lists[part], &lists[part + step]), 0);
	assert_int_equal(lists[0].total, parts * PART);
	assert_true(lists[0].count <= HOTLIST_SIZE);
	concise_ends += kind == HOTLIST_SWITCHING && lists[0].concise;
	list_judge(outcome, &lists[0], truth);
	for (unsigned part = 0; part < parts; part++)
		hotlist_deinit(&lists[part]);
}

/* At least as often as claimed, but for three standard errors of the claim itself. */
static bool claim_holds(unsigned held, unsigned of, unsigned independent)
{
	double slip = 3 * sqrt(HOTLIST_CONFIDENCE * (1 - HOTLIST_CONFIDENCE) / independent);

	return (double)held / of >= HOTLIST_CONFIDENCE - slip;
}

static void outcome_check(enum hotlist_kind kind, unsigned parts, const struct outcome *outcome)
{
	printf("%s, %u parts: bias %+.2f %+.2f %+.2f standard errors; held: counts %.3f, shares "
	       "%.3f, absent %.3f\n",
	       hotlist_kind_text(kind), parts, mean_score(&outcome->errors[0]),
	       mean_score(&outcome->errors[1]), mean_score(&outcome->errors[2]),
	       (double)outcome->entries_held / outcome->entries,
	       (double)outcome->shares_held / outcome->shares,
	       (double)outcome->absent_held / outcome->absent);
	for (size_t i = 0; i < WATCHED; i++)
		assert_true(fabs(mean_score(&outcome->errors[i])) < 3);
	if (outcome->shares == TRIALS)
		assert_true(fabs(mean_score(&outcome->share)) < 3);
	assert_true(claim_holds(outcome->entries_held, outcome->entries, TRIALS));
	assert_true(claim_holds(outcome->shares_held, outcome->shares, TRIALS));
	assert_true(claim_holds(outcome->absent_held, outcome->absent, TRIALS));
}

static void kind_check(enum hotlist_kind kind, double exponent)
{
	distribution_init(exponent);
	for (unsigned parts = 1; parts <= PARTS_MAX; parts *= 2) {
		struct outcome outcome = {};
		struct rng rng;

		rng_init(&rng, SEED + parts);
		for (unsigned trial = 0; trial < TRIALS; trial++)
			trial_run(kind, parts, &rng, &outcome);
		outcome_check(kind, parts, &outcome);
	}
}

static void test_space_saving(void **state)
{
	kind_check(HOTLIST_SPACE_SAVING, 1.1);
}

static void test_counting(void **state)
{
	kind_check(HOTLIST_COUNTING, 1.1);
}

static void test_concise(void **state)
{
	kind_check(HOTLIST_CONCISE, 1.1);
}

/* Skewed so that about half of the lists switch, and lists of both states are merged. */
static void test_switching(void **state)
{
	kind_check(HOTLIST_SWITCHING, 1.2);
	assert_in_range(concise_ends, TRIALS / 10, TRIALS * 3 - TRIALS / 10);
}

/*
 * Groups as runs of a program give them: nine in ten of one value, one in ten of many, and all of a
 * group alike.
 */
static void groups_add(struct hotlist *list, struct rng *rng, double share)
{
	for (unsigned i = 0; i < PART; i++) {
		uint64_t value = rng_uniform(rng) >= share;
		unsigned more = rng_uniform(rng) < 0.1 ? 49 : 0;

		hotlist_add(list, &value);
		while (more--)
			hotlist_add_grouped(list, &value);
	}
}

static size_t rank_of(const struct hotlist *list, uint64_t wanted)
{
	struct hotlist_value value;
	size_t rank = 0;

	for (; rank < list->count; rank++) {
		hotlist_get(list, rank, &value);
		if (value.words[0] == wanted)
			break;
	}
	return rank;
}

/*
 * How often the range of a true share of 0.6 holds, over lists merged of two; forget: as if only
 * the mean were known.
 */
static unsigned groups_held(bool forget)
{
	unsigned held = 0;
	struct rng rng;

	rng_init(&rng, SEED);
	for (unsigned trial = 0; trial < TRIALS; trial++) {
		AUTO(hotlist_deinit_auto) struct hotlist list = {}, other = {};
		struct hotlist_sampling sampling = {};
		struct hotlist_range share;

		hotlist_init(&list, &(struct hotlist_config){});
		hotlist_init(&other, &(struct hotlist_config){});
		groups_add(&list, &rng, 0.6);
		groups_add(&other, &rng, 0.6);
		assert_int_equal(hotlist_merge(&list, &other), 0);
		if (forget) {
			sampling.group = (double)list.total / (2 * PART);
			list.squares = list.total;
		}
		hotlist_share(&list, rank_of(&list, 0), &sampling, &share);
		held += range_holds(&share, 0.6);
	}
	return held;
}

static void test_groups(void **state)
{
	unsigned held = groups_held(false), mean = groups_held(true);

	printf("groups: held %.3f, with the mean size alone %.3f\n", held / (double)TRIALS,
	       mean / (double)TRIALS);
	assert_true(claim_holds(held, TRIALS, TRIALS));
	assert_true(mean < 0.8 * TRIALS);
}

/* Occurrences of value 0 are 1.3 times as likely to be sampled as others. */
static void test_skew(void **state)
{
	unsigned held = 0, blind = 0;
	struct rng rng;

	rng_init(&rng, SEED);
	for (unsigned trial = 0; trial < TRIALS; trial++) {
		AUTO(hotlist_deinit_auto) struct hotlist list = {};
		struct hotlist_range share;

		hotlist_init(&list, &(struct hotlist_config){});
		for (unsigned i = 0; i < 4 * PART; i++)
			hotlist_add(&list, &(uint64_t){ rng_uniform(&rng) >= 1.3 * 2 / 3.6 });
		hotlist_share(&list, 0, &(struct hotlist_sampling){ .skew = log(1.3) }, &share);
		held += range_holds(&share, 2 / 3.0);
		hotlist_share(&list, 0, &(struct hotlist_sampling){}, &share);
		blind += range_holds(&share, 2 / 3.0);
	}
	assert_true(claim_holds(held, TRIALS, TRIALS));
	assert_true(blind < TRIALS / 2);
}

/* Lists of which the second continues the first, as runs of one program do. */
static void test_merge_order(void **state)
{
	struct hotlist_config config = {};
	struct hotlist_value value;
	struct hotlist a, b;

	hotlist_init(&a, &config);
	hotlist_init(&b, &config);
	for (uint64_t i = 1; i <= 10; i++)
		hotlist_add(&a, &(uint64_t){ 5 });
	for (uint64_t i = 1; i <= 30; i++)
		hotlist_add(&b, &(uint64_t){ i <= 8 ? 5 : 6 });
	assert_int_equal(hotlist_merge(&a, &b), 0);
	assert_int_equal(a.total, 40);
	hotlist_get(&a, 0, &value);
	assert_int_equal(value.words[0], 6);
	assert_int_equal(value.count, 22);
	assert_int_equal(value.first, 10 + 9);
	hotlist_get(&a, 1, &value);
	assert_int_equal(value.count, 18);
	assert_int_equal(value.first, 1);
	assert_true(hotlist_is_exact(&a));
	assert_int_equal(b.total, 30);
	hotlist_deinit(&a);
	hotlist_deinit(&b);
}

static void test_merge_refuses(void **state)
{
	struct hotlist_config one = {}, kind = { .kind = HOTLIST_CONCISE }, width = { .words = 2 };
	struct hotlist a, b;

	hotlist_init(&a, &one);
	hotlist_init(&b, &kind);
	assert_int_equal(hotlist_merge(&a, &b), -EINVAL);
	hotlist_init(&b, &width);
	assert_int_equal(hotlist_merge(&a, &b), -EINVAL);
	hotlist_init(&b, &one);
	b.total = HOTLIST_TOTAL_MAX;
	a.total = 1;
	assert_int_equal(hotlist_merge(&a, &b), -EOVERFLOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_space_saving), cmocka_unit_test(test_counting),
		cmocka_unit_test(test_concise),	     cmocka_unit_test(test_switching),
		cmocka_unit_test(test_groups),	     cmocka_unit_test(test_skew),
		cmocka_unit_test(test_merge_order),  cmocka_unit_test(test_merge_refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
