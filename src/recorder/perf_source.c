// SPDX-License-Identifier: BSD-2-Clause
/*
 * A source: the kernel's perf rings, for events of processes and, without BPF, for samples. Without
 * samples, the rings tell of every process of the machine: events that follow only the targets
 * would be copied for each CPU at each fork. Events of other processes are dropped here. With
 * samples, the kernel follows the targets itself.
 *
 * Events and samples of the rings come in the order of time, so samples are delivered where they
 * stand among the events; there is no step for them.
 *
 *	in	records of the kernel's perf rings (perfring.c)
 *	out	events for the load map; without BPF also calls of the sink of samples
 *	owner	the recorder, to which the command gives it
 */
#include "recorder/perf_source.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "capture/ability.h"
#include "capture/clocks.h"
#include "image/procfs.h"
#include "recorder/perfring.h"

enum {
	EVENT_PAGES = 256, /* per CPU: half a second of thousands of short processes */
	STACK_BYTES = 16384, /* copied for each sample */
	/* per CPU, with samples: a quarter of a second at 997 Hz, if the recorder gets no CPU */
	SAMPLE_PAGES = 1024,
	SAMPLE_PAGES_ALL = 16384, /* of all CPUs; but each has EVENT_PAGES */
};

#define GONE UINT32_MAX /* for a pid: the task has left its process, and only the kernel runs */

struct perf_source {
	struct recorder *recorder;
	struct loadmap *loadmap;
	struct targets *targets;
	struct samples *samples; /* NULL: only process events */
	struct perfring *ring;
	struct map
		/* pids of the targets and what they created; not used if everything is one */
		members;
	perf_source_fork_fn on_fork;
	void *fork_ctx;
	bool namespaced; /* pid 0 is any process outside of our PID namespace */
	uint64_t events_lost; /* process events that the kernel dropped */
	struct sample_tally tally; /* of samples */
};

/*
 * Chooses the periods and returns their number. If events are few, every n-th one is sampled,
 * without random periods.
 */
static size_t periods_choose(const struct perf_source_options *options, uint64_t ret[CLOCKS])
{
	bool clock = options->event->kind == SAMPLER_CLOCK;
	uint64_t mean = clock && options->frequency ? NS_PER_S / options->frequency
						    : options->period;

	if (!clock && (options->frequency || mean < CLOCKS_MEAN_MIN)) {
		ret[0] = options->frequency ? options->frequency : mean;
		return 1;
	}
	clocks_draw(mean, options->seed, ret, CLOCKS);
	return CLOCKS;
}

static size_t sample_pages(void)
{
	size_t pages = SAMPLE_PAGES, cpus = (size_t)sysconf(_SC_NPROCESSORS_ONLN);

	while (pages > EVENT_PAGES && pages * cpus > SAMPLE_PAGES_ALL)
		pages /= 2;
	return pages;
}

static int ring_open(const struct perf_source_options *options, struct perfring **ret)
{
	const struct targets *targets = options->targets;
	uint64_t periods[CLOCKS];
	struct perfring_options how = { .target.system_wide = true, .pages = EVENT_PAGES };

	if (options->samples) {
		size_t count = periods_choose(options, periods);

		how = (struct perfring_options){
			.target = { .system_wide = targets->everything,
				    .tids = targets->tids.items,
				    .tid_count = targets->tids.count,
				    .cpus = targets->cpus.items,
				    .cpu_count = targets->cpus.count,
				    .enable_on_exec = targets->command != 0 },
			.periods = periods,
			.period_count = count,
			.event = options->event,
			.adapted = options->event->kind != SAMPLER_CLOCK && options->frequency,
			.exclude_kernel = !options->kernel_code,
			.stack_bytes = STACK_BYTES,
			.pages = sample_pages(),
		};
	}
	return perfring_open(&how, ret);
}

int perf_source_create(const struct perf_source_options *options, struct recorder *recorder,
		       struct perf_source **ret)
{
	struct perf_source *source = mem_zalloc(sizeof(*source));
	int err;

	source->recorder = recorder;
	source->loadmap = recorder_loadmap(recorder);
	source->targets = options->targets;
	source->samples = options->samples;
	source->namespaced = !ability_sees_machine_pids();
	array_each(&source->targets->pids, pid)
		map_at(&source->members, (uint64_t)*pid, NULL);
	if (source->targets->command)
		map_at(&source->members, (uint64_t)source->targets->command, NULL);
	err = ring_open(options, &source->ring);
	if (err) {
		perf_source_destroy(source);
		return err;
	}
	*ret = source;
	return 0;
}

void perf_source_destroy(struct perf_source *source)
{
	if (!source)
		return;
	perfring_destroy(source->ring);
	map_deinit(&source->members);
	free(source);
}

void perf_source_on_fork(struct perf_source *source, perf_source_fork_fn fn, void *ctx)
{
	source->on_fork = fn;
	source->fork_ctx = ctx;
}

int perf_source_pause(struct perf_source *source)
{
	return perfring_samples_switch(source->ring, false);
}

int perf_source_resume(struct perf_source *source)
{
	return perfring_samples_switch(source->ring, true);
}

/* --- Events ----------------------------------------------------------------------------------- */

static bool is_member(struct perf_source *source, const struct event *event)
{
	if (source->targets->everything || source->samples)
		return true;
	if (event->kind == EVENT_FORK && event->pid != event->fork.ppid) {
		if (map_find(&source->members, event->fork.ppid))
			map_at(&source->members, event->pid, NULL);
		else
			map_remove(&source->members, event->pid); /* a reused pid */
	}
	return map_find(&source->members, event->pid);
}

static void on_lost(struct perf_source *source, uint64_t lost)
{
	if (!source->samples) {
		source->events_lost += lost;
		return;
	}
	source->tally.seen += lost;
	source->tally.lost[LOSS_KERNEL_LOST] += lost;
}

static int event_apply(void *ctx, const struct event *event)
{
	struct perf_source *source = ctx;

	return loadmap_apply(source->loadmap, event);
}

/*
 * The BPF sampler tells to whom a process belongs. Without it that must be looked up, if the
 * process is still there.
 */
static int identity_look(struct perf_source *source, const struct event *event)
{
	bool process = event->kind == EVENT_EXEC ||
		       (event->kind == EVENT_FORK && event->pid == event->tid);
	int err;

	if (!source->samples || !process)
		return 0;
	err = procfs_identity((pid_t)event->pid, event->time, event_apply, source);
	return err == -ESRCH ? 0 : err;
}

static int process_event(struct perf_source *source, const struct event *event)
{
	int err;

	if (!is_member(source, event))
		return 0;
	if (event->kind == EVENT_FORK && event->pid != event->fork.ppid && source->on_fork)
		source->on_fork(source->fork_ctx, event->fork.ppid, event->pid);
	err = loadmap_apply(source->loadmap, event);
	return err ? err : identity_look(source, event);
}

static bool has_process(const struct perf_source *source, const struct event *event)
{
	return event->pid != GONE && (event->pid || !source->namespaced);
}

static int on_event(void *ctx, const struct event *event)
{
	struct perf_source *source = ctx;

	switch (event->kind) {
	case EVENT_SAMPLE:
		source->tally.seen++;
		if (has_process(source, event))
			return samples_event(source->samples, event);
		source->tally.lost[LOSS_NO_PROCESS]++;
		return 0;
	case EVENT_LOST:
		on_lost(source, event->lost);
		return 0;
	/* the kernel does not say how many samples it left out: at least one */
	case EVENT_THROTTLE:
		if (source->samples) {
			source->tally.seen++;
			source->tally.lost[LOSS_THROTTLED]++;
		}
		return 0;
	default:
		return has_process(source, event) ? process_event(source, event) : 0;
	}
}

/* --- Start ------------------------------------------------------------------------------------ */

/* Threads that were created while events were being opened for the others. */
static int threads_rescan(struct perf_source *source, pid_t pid)
{
	AUTO(free_ptr) pid_t *tids = NULL;
	size_t count;
	int err = procfs_threads(pid, &tids, &count);

	if (err)
		return 0; /* it ended */
	for (size_t i = 0; i < count && !err; i++)
		if (targets_thread_add(source->targets, tids[i]))
			err = perfring_add_thread(source->ring, tids[i]);
	return err;
}

/*
 * What /proc tells goes to the load map directly and not through on_event(), which would take a
 * process whose parent is not a target for a new process that reuses a target's pid.
 */
static int processes_learn(struct perf_source *source)
{
	const uint64_t before = 0; /* they were there before the recording */
	int err = 0;

	if (source->targets->everything)
		err = procfs_all(before, event_apply, source);
	array_each(&source->targets->pids, pid)
		if (!err)
			err = procfs_process(*pid, before, event_apply, source);
	return err == -ESRCH ? 0 : err;
}

static int enable(void *ctx)
{
	struct perf_source *source = ctx;
	bool on_exec = source->samples && source->targets->command;
	int err = on_exec ? 0 : perfring_enable(source->ring);

	array_each(&source->targets->pids, pid)
		if (!err && source->samples)
			err = threads_rescan(source, *pid);
	return err ? err : processes_learn(source);
}

/* --- The recorder's side ---------------------------------------------------------------------- */

static int disable(void *ctx)
{
	struct perf_source *source = ctx;

	return perfring_disable(source->ring);
}

static int events(void *ctx)
{
	struct perf_source *source = ctx;

	return perfring_drain(source->ring, on_event, source);
}

static int tally(void *ctx)
{
	struct perf_source *source = ctx;

	if (source->samples)
		samples_tally_set(source->samples, &source->tally);
	if (!source->events_lost)
		return 0;
	return recorder_metric_set(source->recorder, RECORDING_SAMPLES, "process_events_lost",
				   "events", source->events_lost);
}

static void destroy(void *ctx)
{
	perf_source_destroy(ctx);
}

struct source perf_source_interface(struct perf_source *source)
{
	return (struct source){
		.ctx = source,
		.fd = perfring_fd(source->ring),
		.paced = true,
		.enable = enable,
		.disable = disable,
		.events = events,
		.tally = tally,
		.destroy = destroy,
	};
}
