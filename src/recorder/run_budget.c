// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/run_budget.h"

#include <math.h>
#include <stdbool.h>

#include "base/clock.h"

enum {
	FIRST_SECONDS = 2,
	FIRST_TIMES = 5, /* the share, then */
	RUNS_MEASURED = 32, /* before that many, the guess is better */
	EVERY_MAX = 1 << 20,
};

/*
 * Runs wait before they are replayed, so the kernel's and the recorder's time are each divided by
 * the number of runs that they have finished.
 */
static double run_cost(const struct run_budget *budget, const struct run_use *use)
{
	double cost;

	if (use->runs < RUNS_MEASURED || use->replayed < RUNS_MEASURED)
		return budget->guess_ns;
	cost = (double)use->kernel_ns / (double)use->runs;
	return cost + (double)use->recorder_ns / (double)use->replayed;
}

/* Events may come at any rate: then it is the time that passed, of one CPU. */
static double sample_time(const struct run_budget *budget, const struct run_use *use)
{
	if (budget->period_ns)
		return (double)budget->period_ns;
	return use->samples ? (double)use->age_ns / (double)use->samples : NS_PER_MS;
}

/*
 * Whether this is in the first seconds of the recording, or of the programs' CPU time: a server
 * that mostly waits stays cold for longer.
 */
static bool is_first(const struct run_budget *budget, const struct run_use *use)
{
	uint64_t first = FIRST_SECONDS * (uint64_t)NS_PER_S;

	return use->age_ns < first ||
	       (budget->period_ns && use->samples < first / budget->period_ns);
}

uint32_t run_budget_every(const struct run_budget *budget, const struct run_use *use)
{
	double share = budget->share * (is_first(budget, use) ? FIRST_TIMES : 1);
	double every = ceil(run_cost(budget, use) / (share * sample_time(budget, use)));

	return every < 1 ? 1 : every > EVERY_MAX ? EVERY_MAX : (uint32_t)every;
}
