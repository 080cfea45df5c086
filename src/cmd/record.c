// SPDX-License-Identifier: BSD-2-Clause
/* assay record: sample a command, processes, CPUs or the whole system into a profile. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "capture/ability.h"
#include "cmd/cmd.h"
#include "cmd/policy.h"
#include "cmd/record.h"
#include "cmd/record_targets.h"
#include "cmd/sampling.h"
#include "cmd/sampling_settings.h"

enum {
	DEFAULT_FREQUENCY = 997,
	PERIOD_MIN = 10000, /* ns */
	COMMAND_TABLES = 16 << 20, /* bytes of unwind tables in the kernel */
	SYSTEM_TABLES = 64 << 20,
	DEFAULT_RING = 4 << 20,
	VALUES_RING = 16 << 20, /* a run is several times as long as a stack */
};

/* What the options say, in the form that sampling_run() wants. */
struct request {
	struct record_options given;
	struct options options;
	struct sampling_options sampling;
	pid_array pids;
	ARRAY(int) cpus;
	struct selection selection;
};

static void request_deinit(struct request *request)
{
	options_deinit(&request->options);
	array_deinit(&request->pids);
	array_deinit(&request->cpus);
	selection_deinit(&request->selection);
}

static int targets_settle(struct request *request, char **command)
{
	struct sampling_options *options = &request->sampling;
	size_t chosen = request->given.pids.count + request->given.comms.count +
			request->given.cgroups.count + request->given.containers.count;

	for (size_t i = 0; i < request->given.pids.count; i++)
		*array_push(&request->pids) = (pid_t)request->given.pids.items[i];
	for (size_t i = 0; i < request->given.cpus.count; i++)
		*array_push(&request->cpus) = (int)request->given.cpus.items[i];
	options->command = *command ? command : NULL;
	options->cpus = request->cpus.items;
	options->cpu_count = request->cpus.count;
	options->system_wide = request->given.all_cpus ||
			       (options->cpu_count && !chosen && !options->command);
	if (options->system_wide && chosen)
		return err_set(-EINVAL, "--all-cpus already covers every process; leave out --pid, "
					"--comm, --cgroup and --container");
	if (request->given.children && !chosen)
		return err_set(-EINVAL, "--children is of use only with --pid, --comm, --cgroup or "
					"--container");
	if (!options->command && !chosen && !options->system_wide)
		return err_set(-EINVAL, "there is nothing to profile: give a command, processes "
					"with -p PID, or -a for the whole system");
	return 0;
}

/* Rings come in powers of two. */
static size_t ring_choose(const struct record_options *given)
{
	size_t wanted = given->ring ? given->ring : given->values ? VALUES_RING : DEFAULT_RING;
	size_t bytes = 1024;

	while (bytes < wanted)
		bytes *= 2;
	return bytes;
}

static int values_settle(struct request *request)
{
	const struct record_options *given = &request->given;
	struct sampling_values *values = &request->sampling.values;
	int err;

	*values = (struct sampling_values){
		.what = given->values,
		.run_length = given->run_length,
		.run_skip = options_given(&request->options, "run-skip") ? given->run_skip
									 : given->run_length,
		.list = { .kind = given->hotlist, .size = given->hotlist_size },
		.max_sites = given->max_sites,
	};
	values->run_every = given->run_every;
	if (!values->run_every)
		sampling_share_set(&request->sampling, given->run_share);
	if (!given->values)
		return 0;
	err = selection_parse(given->values, &request->selection);
	if (err)
		return err_wrap(err, "--values");
	values->selection = &request->selection;
	return 0;
}

static uint64_t seed_choose(const struct request *request)
{
	uint64_t seed;

	if (options_given(&request->options, "seed"))
		return request->given.seed;
	if (getrandom(&seed, sizeof(seed), 0) < 0)
		seed = clock_monotonic();
	return seed >> 1; /* SQLite's integers are signed */
}

/*
 * Time and counters of the CPU are sampled at a rate, unless -c says otherwise. Events of the
 * kernel are few: each is one sample, unless an option says otherwise.
 */
static int event_settle(struct request *request)
{
	struct sampling_options *options = &request->sampling;
	bool rate_given = options_given(&request->options, "freq");
	int err = sampler_event_parse(request->given.event, &options->event);

	if (err)
		return err_wrap(err, "--event");
	if (options->event.kind == SAMPLER_TRACEPOINT && rate_given)
		return err_set(-EINVAL, "--freq: a tracepoint has no rate of its own; --count N "
					"takes one of N occurrences");
	if (options->event.kind == SAMPLER_CLOCK && !options->frequency &&
	    options->period < PERIOD_MIN)
		return err_set(-EINVAL, "--count %llu: takes %d nanoseconds of cpu-clock or more",
			       (unsigned long long)options->period, PERIOD_MIN);
	if (options->event.kind > SAMPLER_HARDWARE && !rate_given && !options->period) {
		options->frequency = 0;
		options->period = 1;
	}
	return 0;
}

/* The programs of a whole system have more code than one command. */
static void tables_settle(struct request *request)
{
	struct sampling_options *options = &request->sampling;
	uint64_t bytes = request->given.table_memory;

	if (!bytes)
		bytes = options->system_wide ? SYSTEM_TABLES : COMMAND_TABLES;
	options->max_rows = (uint32_t)(bytes / sizeof(struct unwind_row));
}

static int request_settle(struct request *request, char **command)
{
	const struct record_options *given = &request->given;
	int err;

	request->sampling = (struct sampling_options){
		.output = given->output,
		.serve = given->serve,
		.serve_port = given->serve_port,
		.frequency = given->frequency,
		.period = given->period,
		.seed = seed_choose(request),
		.duration = given->duration,
		.ring_bytes = ring_choose(given),
		.max_stacks = given->max_stacks,
		.max_depth = given->max_depth,
		.user_only = given->user_only,
		.off_cpu = given->off_cpu,
		.system_calls = given->system_calls,
	};
	err = event_settle(request);
	err = err ? err : values_settle(request);
	err = err ? err : targets_settle(request, command);
	if (!err)
		tables_settle(request);
	return err;
}

/* With file capabilities (setcap) the kernel refuses nothing to any user. */
static int policy_settle(struct sampling_options *options)
{
	struct policy policy;
	int err = policy_read(&policy);

	if (err)
		return err;
	options->own_only = !policy.other_users;
	options->no_kernel_values = !policy.kernel_values;
	if (options->own_only && options->system_wide &&
	    !(options->user_only && policy_shows_everybody()))
		return err_set(-EPERM,
			       "sampling the whole system shows other users' processes; run as "
			       "root, or let the administrator put 'other-users = yes' into %s",
			       POLICY_FILE);
	return 0;
}

/* What cannot be recorded without BPF is refused rather than missing in the profile. */
static int bpf_need(const char *what, const char *option, bool chosen)
{
	return chosen ? err_set(-EINVAL,
				"%s need BPF, which --user-only leaves out; leave out one of "
				"--user-only and %s",
				what, option)
		      : err_set(-EPERM,
				"%s need BPF and privilege; run as root and outside of containers, "
				"or leave out %s",
				what, option);
}

static int privilege_settle(struct sampling_options *options)
{
	static const enum ability_id needed[] = { ABILITY_BPF_SAMPLER, ABILITY_BPF_RING,
						  ABILITY_BTF, ABILITY_BPF_TRACEPOINT };
	struct ability ability, wide;
	bool chosen = options->user_only;
	int err;

	ability_probe(ABILITY_SAMPLE_SYSTEM, &wide);
	options->kernel_wide = wide.yes;
	ability_probe(ABILITY_SAMPLE_KERNEL, &ability);
	options->kernel_code = ability.yes && !options->user_only;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]) && !options->user_only; i++) {
		if (ability_probe(needed[i], &ability) || ability.yes)
			continue;
		options->user_only = true;
		log_warn("no %s (%s): %s; remedy: %s", ability.title, ability.detail,
			 sampling_without_bpf(options), ability.remedy);
	}
	if (options->user_only && options->system_wide && !wide.yes)
		return err_set(-EPERM, "sampling the whole system: %s; %s", wide.detail,
			       wide.remedy);
	if ((err = policy_settle(options)))
		return err;
	if (options->user_only && options->values.selection)
		return bpf_need("values", "--values", chosen);
	if (options->user_only && options->off_cpu)
		return bpf_need("waits", "--off-cpu", chosen);
	if (options->user_only && !sampler_event_interrupts(&options->event))
		return err_set(-EPERM,
			       "%s happen in the kernel and need BPF and privilege; run as root",
			       options->event.name);
	return 0;
}

static void runs_say(const struct sampling_result *result)
{
	const struct sink_totals *runs = &result->runs;
	uint64_t lost = sink_totals_lost(runs), missing = result->runs_missing;

	log_info("%llu run%s interpreted: %llu kept, %llu lost",
		 (unsigned long long)(runs->kept + lost), PLURAL(runs->kept + lost),
		 (unsigned long long)runs->kept, (unsigned long long)lost);
	for (size_t i = 0; i < runs->loss_count; i++)
		log_info("%llu run%s lost: %s", (unsigned long long)runs->losses[i].count,
			 PLURAL(runs->losses[i].count), runs->losses[i].text);
	if (missing * 2 > runs->kept)
		log_info("%.0f %% of the runs ended early, in code that was not translated yet: "
			 "record longer, or spend more at once with --run-share 10%%",
			 100.0 * (double)missing / (double)runs->kept);
	else if (result->runs_whole * 2 < runs->kept)
		log_info("%.0f %% of the runs ended early: 'assay report runs' says why",
			 100.0 - 100.0 * (double)result->runs_whole / (double)runs->kept);
}

static void waits_say(const struct sink_totals *waits)
{
	log_info("%llu wait%s kept", (unsigned long long)waits->kept, PLURAL(waits->kept));
	for (size_t i = 0; i < waits->loss_count; i++)
		log_warn("%llu wait%s lost: %s", (unsigned long long)waits->losses[i].count,
			 PLURAL(waits->losses[i].count), waits->losses[i].text);
}

/* Of a recording without samples. */
static void nothing_say(const struct sampling_options *options)
{
	if (options->event.kind != SAMPLER_CLOCK)
		log_info("no sample was taken: there were %s %s; record longer%s",
			 options->period == 1 ? "no" : "too few", options->event.name,
			 options->period > 1 ? ", or with a smaller --count" : "");
	else
		log_info("no sample was taken: what was recorded used less of a CPU than the %.1f "
			 "ms "
			 "between two samples; record longer, with a larger -F, or with --off-cpu "
			 "what threads wait for",
			 (options->frequency ? 1e3 / (double)options->frequency
					     : (double)options->period / NS_PER_MS));
}

static void summary_say(const struct sampling_options *options,
			const struct sampling_result *result)
{
	const struct sink_totals *samples = &result->samples;
	uint64_t lost = sink_totals_lost(samples);

	log_info("%llu sample%s in %.1f s: %llu kept, %llu lost; written to %s",
		 (unsigned long long)(samples->kept + lost), PLURAL(samples->kept + lost),
		 result->seconds, (unsigned long long)samples->kept, (unsigned long long)lost,
		 options->output);
	if (!samples->kept && !lost)
		nothing_say(options);
	if (result->thinned)
		log_warn("%.0f %% of the samples are in the weight of a later one on their CPU, as "
			 "the recorder was behind: a lower -F costs less and says as much",
			 100.0 * (double)result->thinned / (double)(samples->kept + lost));
	for (size_t i = 0; i < samples->loss_count; i++)
		log_warn("%llu sample%s lost: %s", (unsigned long long)samples->losses[i].count,
			 PLURAL(samples->losses[i].count), samples->losses[i].text);
	if (result->values_taken)
		runs_say(result);
	if (result->waits_taken)
		waits_say(&result->waits);
}

static int event_help(void)
{
	struct strbuf events = {};

	sampler_event_help(&events);
	fputs(strbuf_text(&events), stdout);
	strbuf_deinit(&events);
	return command_output_check();
}

static int values_help(void)
{
	struct strbuf sources = {};

	selection_help(&sources);
	fputs(strbuf_text(&sources), stdout);
	strbuf_deinit(&sources);
	return command_output_check();
}

static int request_run(struct request *request)
{
	struct sampling_options *options = &request->sampling;
	AUTO(bystanders_deinit) struct bystanders bystanders = {};
	struct sampling_result result;
	int err;

	log_quiet_set(request->given.quiet);
	log_verbose_set(request->given.verbose);
	err = sampler_event_find(&options->event);
	err = err ? err : sampling_rate_check(options);
	err = err ? err : privilege_settle(options);
	err = err ? err : record_targets_choose(&request->given, &request->pids);
	if (!err) {
		options->pids = request->pids.items;
		options->pid_count = request->pids.count;
		options->pids_named = request->given.pids.count;
		bystanders_note(&bystanders, &request->pids);
	}
	err = err ? err : sampling_run(options, &result);
	if (err)
		return command_failure();
	summary_say(options, &result);
	bystanders_say(&bystanders);
	return result.exit_code;
}

int cmd_record(const struct command *command, int argc, char **argv)
{
	AUTO(request_deinit) struct request request = {};
	int first, err;

	options_init(&request.options, command->groups, &request.given);
	err = options_parse(&request.options, OPTIONS_FIRST, argc, argv, &first);
	if (!err && request.given.values && !strcmp(request.given.values, "help"))
		return values_help();
	if (!err && !strcmp(request.given.event, "help"))
		return event_help();
	if (!err && request.options.help)
		return command_help(command);
	err = err ? err : request_settle(&request, argv + first);
	return err ? command_usage_error(command) : request_run(&request);
}
