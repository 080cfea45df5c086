// SPDX-License-Identifier: BSD-2-Clause
/* Serves: V4. */
#include "recorder/run_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"

static const struct run_budget two_percent = { .share = 0.02,
					       .guess_ns = 60000,
					       .period_ns = NS_PER_MS };

static void the_first_seconds_have_more(void **state)
{
	struct run_use use = { .age_ns = NS_PER_S };

	assert_int_equal(run_budget_every(&two_percent, &use), 1); /* 60 us of 100 */
	use = (struct run_use){ .age_ns = 3ull * NS_PER_S, .samples = 2001 };
	assert_int_equal(run_budget_every(&two_percent, &use), 3); /* 60 us of 20 */
}

/* A server that was busy for half a second of ten has as many runs as others at the start. */
static void a_program_that_waits_is_still_new(void **state)
{
	struct run_use use = { .age_ns = 10ull * NS_PER_S, .samples = 500 };

	assert_int_equal(run_budget_every(&two_percent, &use), 1);
	use.samples = 1999;
	assert_int_equal(run_budget_every(&two_percent, &use), 1);
	use.samples = 2000;
	assert_int_equal(run_budget_every(&two_percent, &use), 3);
}

/* What was measured counts, and both sides do; runs that wait are not taken for cheap ones. */
static void costs_are_measured(void **state)
{
	struct run_use use = { .age_ns = 10ull * NS_PER_S,
			       .samples = 10000,
			       .runs = 1000,
			       .kernel_ns = 1000 * 30000,
			       .replayed = 500,
			       .recorder_ns = 500 * 170000 };

	assert_int_equal(run_budget_every(&two_percent, &use), 10); /* 200 us of 20 */
	use.recorder_ns = 0;
	use.kernel_ns = 1000 * 1000;
	assert_int_equal(run_budget_every(&two_percent, &use), 1);
	use.kernel_ns = ~0ull / 4;
	assert_int_equal(run_budget_every(&two_percent, &use), 1 << 20);
}

/* 100,000 events a second, of which 2 % of a second can be spent on runs of 60 us: 333 of them. */
static void events_have_no_period(void **state)
{
	const struct run_budget budget = { .share = 0.02, .guess_ns = 60000 };
	struct run_use use = { .age_ns = 10ull * NS_PER_S, .samples = 1000000 };

	assert_int_equal(run_budget_every(&budget, &use), 300);
	use = (struct run_use){ .age_ns = 10ull * NS_PER_S };
	assert_int_equal(run_budget_every(&budget, &use), 3); /* none came: any is welcome */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_seconds_have_more),
		cmocka_unit_test(a_program_that_waits_is_still_new),
		cmocka_unit_test(costs_are_measured),
		cmocka_unit_test(events_have_no_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
