// SPDX-License-Identifier: BSD-2-Clause
/*
 * Configures a recorder for sampling and runs its loop.
 *
 * The recording ends when the command ends, when the last of the attached processes ends, when its
 * time is over, or with a signal. A command that is recorded gets a first signal passed on and some
 * time to end by itself; a second signal ends the recording at once. A recording that fails while
 * the command runs ends too, but not the command: it keeps its terminal, and who waits for both,
 * waits.
 */
#include "cmd/sampling.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/page_server.h"
#include "cmd/sampling_control.h"
#include "cmd/sampling_settings.h"
#include "cmd/signs.h"
#include "recorder/command.h"
#include "recorder/perf_source.h"
#include "recorder/recorder.h"
#include "recorder/sampler_source.h"
#include "recorder/samples.h"
#include "recorder/targets.h"
#include "recorder/values_sink.h"
#include "recorder/waits_source.h"
#include "unwind/unwind.h"

enum {
	COMMIT_MS = 500,
	STOP_PATIENCE_MS = 2000, /* for the command to end after we were told to stop */
	MAX_MAPPINGS = 65536, /* of all processes, in the kernel */
	MAX_BLOCKS = 1 << 18, /* translated instructions in the kernel */
	MAX_UOPS = 1 << 20,
	MAX_THREADS = 32768, /* alive at a time, of which waits are recorded */
};

struct sampling {
	struct sampling_options *options;
	struct sampler *sampler; /* loaded, until the source takes it; NULL: without BPF */
	struct waits *waits; /* loaded, until the source takes them; NULL: none */
	char left_out[128]; /* parts of the sampler that the kernel refused, spaces between */
	struct command *command; /* NULL: none */
	struct targets targets;
	struct recorder *recorder;
	struct values_sink *values; /* the recorder's; NULL: none are taken */
	struct perf_source *perf; /* the recorder's, as is the next one */
	struct sampler_source *source; /* NULL: without BPF */
	struct sampling_control *control; /* NULL: before the start, and where it cannot be */
	struct page_server server;
	ARRAY(int) watched; /* pidfds of attached processes that still run */
	int signals; /* signalfd */
	int epoll;
	uint64_t deadline; /* CLOCK_MONOTONIC; 0: none */
	bool stopping; /* asked to; the command may still be ending */
	bool done;
	int exit_code;
};

static void sampling_deinit(struct sampling *sampling)
{
	sampling_control_destroy(sampling->control);
	page_server_end(&sampling->server);
	recorder_destroy(sampling->recorder);
	waits_destroy(sampling->waits);
	sampler_destroy(sampling->sampler);
	targets_deinit(&sampling->targets);
	command_destroy(sampling->command);
	array_each(&sampling->watched, fd)
		close_fd(fd);
	array_deinit(&sampling->watched);
	close_fd(&sampling->signals);
	close_fd(&sampling->epoll);
}

/* A command beside -p or -a is only the measure of time. */
static bool command_is_target(const struct sampling *sampling)
{
	return sampling->command && !sampling->options->system_wide &&
	       !sampling->options->pid_count;
}

/* --- What to record --------------------------------------------------------------------------- */

static int process_attach(struct sampling *sampling, pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return err_set(-errno, "cannot attach to process %d: %s", (int)pid,
			       strerror(errno));
	*array_push(&sampling->watched) = fd;
	return targets_process_add(&sampling->targets, pid,
				   sampling->options->user_only || sampling->options->own_only);
}

static int targets_find(struct sampling *sampling)
{
	const struct sampling_options *options = sampling->options;
	int err = targets_cpus_set(&sampling->targets, options->cpus, options->cpu_count);

	sampling->targets.everything = options->system_wide;
	for (size_t i = 0; i < options->pid_count && !err; i++) {
		err = process_attach(sampling, options->pids[i]);
		if (err == -ESRCH && i >= options->pids_named)
			err = 0;
	}
	if (!err && options->pid_count && !sampling->watched.count)
		err = err_set(-ESRCH, "all processes that were chosen have ended; choose again");
	if (!err && options->command)
		err = command_start(options->command, &sampling->command);
	if (!err && command_is_target(sampling))
		targets_command_set(&sampling->targets, command_pid(sampling->command));
	return err;
}

/* --- Sources and sinks ------------------------------------------------------------------------ */

static struct sampler_runs runs_wanted(const struct sampling_values *values)
{
	uint64_t system = 0;

	if (!values->selection)
		return (struct sampler_runs){};
#define X(name) system |= SELECTION_BIT(SELECTION_##name);
	RUN_SYSTEM_WORDS(X)
#undef X
	return (struct sampler_runs){
		.length = values->run_length,
		.skip = values->run_skip,
		.every = values->run_every,
		.overwritten = values->selection->needs & SELECTION_BIT(SELECTION_OVERWRITTEN),
		.system = values->selection->needs & system,
		.max_blocks = MAX_BLOCKS,
		.max_uops = MAX_UOPS,
	};
}

static int values_add(struct sampling *sampling, struct sampler_source *source,
		      struct values_sink **ret)
{
	const struct sampling_values *wanted = &sampling->options->values;
	const struct values_sink_options how = {
		.sites = { wanted->selection, wanted->list, wanted->max_sites },
		.backlog_bytes = sampling->options->ring_bytes,
		.own_only = sampling->options->own_only,
		.no_kernel = sampling->options->no_kernel_values,
	};
	struct sink sink;
	int err = values_sink_create(&how, sampling->recorder, sampler_source_translations(source),
				     ret);

	if (err)
		return err;
	sink = values_sink_interface(*ret);
	recorder_sink_add(sampling->recorder, &sink);
	return 0;
}

/* Why a part is left out, and what that means. */
static void refusal_say(const struct sampler_refusal *refusal)
{
	static const char *const without[] = {
		[SAMPLER_PART_KERNEL] = "only user code is sampled",
		[SAMPLER_PART_KERNEL_TEXT] = "instructions of the kernel are left out",
		[SAMPLER_PART_VALUES] = "values are left out",
	};

	log_warn("this kernel refuses a part of the sampler (%s): %s; 'assay doctor' tells more",
		 refusal->reason[0] ? refusal->reason : strerror(-refusal->err),
		 without[refusal->part]);
}

static int without_bpf_prepare(struct sampling_options *options)
{
	if (options->system_wide && !options->kernel_wide)
		return err_wrap(-EPERM, "the whole system cannot be sampled");
	if (!sampler_event_interrupts(&options->event))
		return err_wrap(-EPERM, options->event.name);
	log_warn("%s; %s; 'assay doctor' tells more", err_text(), sampling_without_bpf(options));
	if (options->values.selection)
		log_warn("values are left out");
	if (options->off_cpu)
		log_warn("what threads wait for is left out");
	options->values.selection = NULL;
	options->off_cpu = false;
	options->user_only = true;
	return 0;
}

/* Reports the parts that the kernel refuses, and removes them from the options. */
static void refusals_settle(struct sampling *sampling, struct sampling_options *options)
{
	const struct sampler_refusal *refusals;
	size_t count = sampler_refusals(sampling->sampler, &refusals), length = 0;

	for (size_t i = 0; i < count; i++) {
		refusal_say(&refusals[i]);
		if (refusals[i].part == SAMPLER_PART_VALUES)
			options->values.selection = NULL;
		length += (size_t)snprintf(sampling->left_out + length,
					   sizeof(sampling->left_out) - length, "%s%s",
					   i ? " " : "", sampler_part_name(refusals[i].part));
	}
}

/* Waits are left out where the kernel does not take their programs. */
static void waits_prepare(struct sampling *sampling, struct sampling_options *options)
{
	const struct waits_options how = {
		.everything = options->system_wide,
		.system_calls = options->system_calls,
		.ring_bytes = options->ring_bytes,
		.max_waits = options->max_stacks,
		.max_threads = MAX_THREADS,
		.max_depth = options->max_depth,
	};
	size_t length;

	if (!options->off_cpu || !waits_load(&how, sampling->sampler, &sampling->waits))
		return;
	log_warn("%s; what threads wait for is left out", err_text());
	options->off_cpu = false;
	length = strlen(sampling->left_out);
	snprintf(sampling->left_out + length, sizeof(sampling->left_out) - length, "%swaits",
		 length ? " " : "");
}

/*
 * Loads the BPF programs, before anything else is touched. Without any of them the sampler stays
 * NULL and options are as for an ordinary user.
 */
static int sampler_prepare(struct sampling *sampling, struct sampling_options *options)
{
	const struct sampler_options how = {
		.everything = options->system_wide,
		.event = options->event,
		.frequency = options->frequency,
		.period = options->period,
		.seed = options->seed,
		.ring_bytes = options->ring_bytes,
		.max_stacks = options->max_stacks,
		.max_rows = options->max_rows,
		.max_mappings = MAX_MAPPINGS,
		.max_depth = options->max_depth,
		.runs = runs_wanted(&options->values),
	};

	if (options->user_only)
		return 0;
	if (sampler_load(&how, &sampling->sampler))
		return without_bpf_prepare(options);
	refusals_settle(sampling, options);
	waits_prepare(sampling, options);
	return 0;
}

static int waits_add(struct sampling *sampling, struct samples *samples,
		     struct sampler_source *sampler)
{
	struct recorder *recorder = sampling->recorder;
	AUTO(close_fd) int program = -1;
	struct waits_source *source;
	struct waits_sink *rows;
	struct source from;
	struct sink to;
	int err;

	waits_sink_create(recorder, samples, sampling->options->max_depth, &rows);
	to = waits_sink_interface(rows);
	recorder_sink_add(recorder, &to);
	err = waits_source_create(take_ptr(sampling->waits), sampler, recorder, rows, &source);
	if (err)
		return err;
	if (sampling->command)
		program = command_open(sampling->command);
	waits_source_file(source, program);
	from = waits_source_interface(source);
	recorder_source_add(recorder, &from);
	return 0;
}

static int sampler_add(struct sampling *sampling, struct samples *samples, struct perf_source *perf)
{
	const struct sampling_options *options = sampling->options;
	struct sampler_source *source;
	struct values_sink *values = NULL;
	struct source interface;
	int err = sampler_source_create(take_ptr(sampling->sampler), &sampling->targets,
					options->values.selection != NULL, sampling->recorder,
					&source);

	if (err)
		return err;
	interface = sampler_source_interface(source);
	recorder_source_add(sampling->recorder, &interface);
	if (options->values.selection)
		err = values_add(sampling, source, &values);
	if (err)
		return err;
	sampler_source_connect(source, samples, values);
	sampler_source_budget(source, &options->values.budget);
	sampling->values = values;
	sampling->source = source;
	perf_source_on_fork(perf, sampler_source_forked, source);
	return options->off_cpu ? waits_add(sampling, samples, source) : 0;
}

static int sources_add(struct sampling *sampling)
{
	const struct sampling_options *options = sampling->options;
	struct perf_source_options how = {
		.targets = &sampling->targets,
		.event = &options->event,
		.frequency = options->frequency,
		.period = options->period,
		.seed = options->seed,
	};
	struct recorder *recorder = sampling->recorder;
	struct perf_source *perf;
	struct samples *samples;
	struct source source;
	struct sink sink;
	int err;

	samples_create(recorder_store(recorder), recorder_loadmap(recorder),
		       recorder_locations(recorder), recorder_created(recorder), options->max_depth,
		       &samples);
	sink = samples_sink(samples);
	recorder_sink_add(recorder, &sink);
	how.samples = options->user_only ? samples : NULL;
	how.kernel_code = options->kernel_code;
	err = perf_source_create(&how, recorder, &perf);
	if (err)
		return err;
	source = perf_source_interface(perf);
	recorder_source_add(recorder, &source);
	sampling->perf = perf;
	return options->user_only ? 0 : sampler_add(sampling, samples, perf);
}

/* --- Facts ------------------------------------------------------------------------------------ */

static int samples_facts_set(struct sampling *sampling)
{
	const struct sampling_options *options = sampling->options;
	const struct {
		const char *key, *value;
	} texts[] = {
		{ "event", options->event.name },
		{ "unit", options->event.unit },
		{ "sampler", options->user_only ? "perf ring" : "bpf" },
		{ "left_out", sampling->left_out },
	};
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "seed", options->seed },
		{ "cpus", sampling->targets.cpus.count },
	};
	int err = sampling_rate_facts(sampling->recorder, options);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !err; i++)
		err = recorder_fact_set(sampling->recorder, RECORDING_SAMPLES, texts[i].key,
					texts[i].value);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !err; i++)
		err = recorder_number_set(sampling->recorder, RECORDING_SAMPLES, numbers[i].key,
					  numbers[i].value);
	return err;
}

static int values_facts_set(struct sampling *sampling)
{
	const struct sampling_values *values = &sampling->options->values;
	int err;

	if (!values->selection)
		return 0;
	err = recorder_fact_set(sampling->recorder, RECORDING_VALUES, "values", values->what);
	return err ? err : sampling_runs_facts(sampling->recorder, sampling->options);
}

/* --- The loop --------------------------------------------------------------------------------- */

static int watch(struct sampling *sampling, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(sampling->epoll, EPOLL_CTL_ADD, fd, &event))
		return err_set(-errno, "cannot wait for events: %s", strerror(errno));
	return 0;
}

static int watches_start(struct sampling *sampling)
{
	int err = watch(sampling, sampling->signals);

	err = err ? err : watch(sampling, recorder_fd(sampling->recorder));
	if (!err && sampling->command)
		err = watch(sampling, command_fd(sampling->command));
	array_each(&sampling->watched, fd)
		if (!err)
			err = watch(sampling, *fd);
	return err;
}

static int signals_take(struct sampling *sampling)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sampling->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	sampling->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (sampling->signals < 0 || sampling->epoll < 0)
		return err_set(-errno, "cannot wait for events: %s", strerror(errno));
	return 0;
}

static void on_signal(struct sampling *sampling)
{
	struct signalfd_siginfo info;

	while (read(sampling->signals, &info, sizeof(info)) == sizeof(info)) {
		if (sampling->stopping || !command_is_target(sampling)) {
			sampling->done = true;
			continue;
		}
		sampling->stopping = true;
		sampling->deadline = clock_monotonic() + STOP_PATIENCE_MS * (uint64_t)NS_PER_MS;
		sampling->exit_code = 128 + (int)info.ssi_signo;
		if (info.ssi_code != SI_KERNEL) /* a terminal has signalled the command itself */
			command_signal(sampling->command, SIGTERM);
	}
}

static void on_process_end(struct sampling *sampling, int fd)
{
	epoll_ctl(sampling->epoll, EPOLL_CTL_DEL, fd, NULL);
	for (size_t i = 0; i < sampling->watched.count; i++)
		if (sampling->watched.items[i] == fd) {
			close(fd);
			sampling->watched.items[i] =
				sampling->watched.items[--sampling->watched.count];
			break;
		}
	if (!sampling->watched.count && !sampling->command)
		sampling->done = true;
}

static void wakeup_handle(struct sampling *sampling, int fd)
{
	if (fd == sampling->signals) {
		on_signal(sampling);
	} else if (sampling->command && fd == command_fd(sampling->command)) {
		if (command_ended(sampling->command, &sampling->exit_code))
			sampling->done = true;
	} else if (sampling->control && fd == sampling_control_fd(sampling->control)) {
		sampling_control_serve(sampling->control);
	} else if (fd != recorder_fd(sampling->recorder)) {
		on_process_end(sampling, fd);
	}
}

static int ms_until(uint64_t time)
{
	uint64_t now = clock_monotonic();

	return time > now ? (int)((time - now + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

/* Until the recorder wants a round, or something else has happened. */
static int wait_for_it(struct sampling *sampling)
{
	uint64_t time = recorder_due(sampling->recorder);
	struct epoll_event events[16];
	int count;

	if (sampling->deadline && sampling->deadline < time)
		time = sampling->deadline;
	count = epoll_wait(sampling->epoll, events, 16, ms_until(time));
	if (count < 0 && errno != EINTR)
		return err_set(-errno, "cannot wait for events: %s", strerror(errno));
	for (int i = 0; i < count; i++)
		wakeup_handle(sampling, events[i].data.fd);
	if (sampling->deadline && clock_monotonic() >= sampling->deadline)
		sampling->done = true;
	return 0;
}

static double seconds_since_start(const struct sampling *sampling)
{
	return (double)(clock_monotonic() - recorder_started(sampling->recorder)) / NS_PER_S;
}

static int loop(struct sampling *sampling)
{
	struct signs signs;
	int err = 0;

	signs_begin(&signs, sampling->recorder, RECORDING_SAMPLES, "samples",
		    sampling->options->output);
	while (!err && !sampling->done) {
		err = wait_for_it(sampling);
		err = err ? err : recorder_round(sampling->recorder, NULL);
		if (!err && sampling->control)
			err = sampling_control_tick(sampling->control);
	}
	signs_end(&signs);
	return err;
}

/* --- All of it -------------------------------------------------------------------------------- */

static int sampling_open(struct sampling *sampling)
{
	const struct recorder_options how = {
		.output = sampling->options->output,
		.command = sampling->options->command,
		.table_cache = unwind_cache_dir(),
		.commit_ms = COMMIT_MS,
		.written = command_signals_allow,
	};
	int err = signals_take(sampling);

	err = err ? err : targets_find(sampling);
	err = err ? err : recorder_create(&how, &sampling->recorder);
	err = err ? err : sources_add(sampling);
	err = err ? err : samples_facts_set(sampling);
	err = err ? err : values_facts_set(sampling);
	return err ? err : watches_start(sampling);
}

/* A recording that cannot be controlled goes on all the same. */
static int control_start(struct sampling *sampling)
{
	const struct sampling_parts parts = {
		.recorder = sampling->recorder,
		.options = sampling->options,
		.sampler = sampling->source,
		.perf = sampling->perf,
	};

	if (!sampling_control_create(&parts, &sampling->control))
		return watch(sampling, sampling_control_fd(sampling->control));
	log_warn("%s; 'assay ctl' does not work", err_text());
	return 0;
}

static int sampling_start(struct sampling *sampling)
{
	int err;

	command_signals_ignore();
	err = recorder_start(sampling->recorder);
	if (!err && sampling->options->serve)
		err = page_server_start(sampling->options->output, sampling->options->serve_port,
					&sampling->server);
	err = err ? err : control_start(sampling); /* its threads come after all forks */
	if (err)
		return err;
	if (sampling->options->duration > 0)
		sampling->deadline = recorder_started(sampling->recorder) +
				     (uint64_t)(sampling->options->duration * NS_PER_S);
	err = sampling->command ? command_release(sampling->command) : 0;
	if (err)
		recorder_abandon(sampling->recorder);
	return err;
}

/* After a failure, which err_text() tells: until the command has ended, without its recording. */
static void command_outlast(struct sampling *sampling)
{
	if (!sampling->command || command_ended(sampling->command, &sampling->exit_code))
		return;
	log_warn("%s; the command goes on without being recorded", err_text());
	if (sampling->perf)
		perf_source_pause(sampling->perf);
	if (sampling->source)
		sampler_source_pause(sampling->source);
	while (!sampling->done) {
		struct pollfd waits[] = { { .fd = sampling->signals, .events = POLLIN },
					  { .fd = command_fd(sampling->command),
					    .events = POLLIN } };

		poll(waits, 2, sampling->deadline ? ms_until(sampling->deadline) : -1);
		on_signal(sampling);
		sampling->done |= command_ended(sampling->command, &sampling->exit_code) ||
				  (sampling->deadline && !ms_until(sampling->deadline));
	}
}

/* The recording's failure is what counts, whatever was in the way afterwards. */
static int loop_or_outlast(struct sampling *sampling)
{
	AUTO(free_ptr) char *reason = NULL;
	int err = loop(sampling);

	if (!err)
		return 0;
	reason = mem_strdup(err_text());
	command_outlast(sampling);
	return err_set(err, "%s", reason);
}

/* What was started here goes on: whoever started it should know, and under which number. */
static void survivor_tell(const struct sampling *sampling)
{
	int code;

	if (sampling->command && !command_ended(sampling->command, &code))
		log_info("the command goes on without being recorded, as process %d",
			 (int)command_pid(sampling->command));
}

int sampling_run(const struct sampling_options *options, struct sampling_result *ret)
{
	struct sampling_options settled = *options;
	AUTO(sampling_deinit)
	struct sampling sampling = {
		.options = &settled, .server = PAGE_SERVER_NONE, .signals = -1, .epoll = -1
	};
	int err;

	err = sampler_prepare(&sampling, &settled);
	err = err ? err : sampling_open(&sampling);
	err = err ? err : sampling_start(&sampling);
	err = err ? err : loop_or_outlast(&sampling);
	if (err)
		return err;
	ret->seconds = seconds_since_start(&sampling);
	survivor_tell(&sampling);
	err = sampling_control_end(sampling.control);
	err = err ? err : recorder_finish(sampling.recorder);
	if (err)
		return err;
	ret->exit_code = sampling.exit_code;
	ret->values_taken = settled.values.selection != NULL;
	if (ret->values_taken)
		values_sink_ends(sampling.values, &ret->runs_whole, &ret->runs_missing);
	recorder_totals(sampling.recorder, RECORDING_SAMPLES, &ret->samples);
	ret->thinned = sampling.source ? sampler_source_thinned(sampling.source) : 0;
	recorder_totals(sampling.recorder, RECORDING_VALUES, &ret->runs);
	ret->waits_taken = settled.off_cpu;
	recorder_totals(sampling.recorder, RECORDING_WAITS, &ret->waits);
	return 0;
}
