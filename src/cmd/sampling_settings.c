// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/sampling_settings.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"

enum {
	RUN_GUESS_NS =
		5000, /* for a run: to begin and end it, in the kernel and in the recorder, */
	STEP_GUESS_NS = 150, /* and for each of its instructions */
};

const char *sampling_without_bpf(const struct sampling_options *options)
{
	static const char *const texts[2][2] = {
		{ "sampling only user code of your own processes",
		  "sampling only your own processes, at a higher cost" },
		{ "sampling only user code, at a higher cost", "sampling at a higher cost" },
	};

	return texts[options->system_wide][options->kernel_code];
}

int sampling_rate_check(const struct sampling_options *options)
{
	AUTO(close_file) FILE *file = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
	uint64_t rate = options->frequency;
	unsigned long long most;

	if (!rate && options->event.kind == SAMPLER_CLOCK)
		rate = NS_PER_S / options->period;
	if (!file || fscanf(file, "%llu", &most) != 1 || rate <= most)
		return 0;
	return err_set(-EINVAL,
		       "%llu samples a second are above this kernel's limit of %llu; raise "
		       "kernel.perf_event_max_sample_rate",
		       (unsigned long long)rate, most);
}

uint64_t sampling_period(const struct sampling_options *options)
{
	if (options->frequency && options->event.kind == SAMPLER_CLOCK)
		return NS_PER_S / options->frequency;
	return options->period;
}

/*
 * What runs take as long as nothing is measured is guessed. Half of run_skip is passed over in the
 * mean, and costs half as much as the rest, because the values are not recorded.
 */
void sampling_share_set(struct sampling_options *options, double share)
{
	struct sampling_values *values = &options->values;
	double steps = values->run_length + values->run_skip / 4.0;
	bool clock = options->event.kind == SAMPLER_CLOCK;

	values->budget = (struct run_budget){
		.share = share,
		.guess_ns = RUN_GUESS_NS + steps * STEP_GUESS_NS,
		.period_ns = clock ? sampling_period(options) : 0,
	};
	values->run_every = run_budget_every(&values->budget, &(struct run_use){});
}

int sampling_rate_facts(struct recorder *recorder, const struct sampling_options *options)
{
	int err = recorder_number_set(recorder, RECORDING_SAMPLES, "frequency", options->frequency);

	return err ? err
		   : recorder_number_set(recorder, RECORDING_SAMPLES, "period",
					 sampling_period(options));
}

int sampling_runs_facts(struct recorder *recorder, const struct sampling_options *options)
{
	const struct sampling_values *values = &options->values;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "run_length", values->run_length },
		{ "run_skip", values->run_skip },
		{ "run_every", values->budget.share > 0 ? 0 : values->run_every },
		{ "run_share_ppm", (uint64_t)(values->budget.share * 1e6 + 0.5) },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !err; i++)
		err = recorder_number_set(recorder, RECORDING_VALUES, numbers[i].key,
					  numbers[i].value);
	return err;
}
