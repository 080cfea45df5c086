// SPDX-License-Identifier: BSD-2-Clause
/* assay calls in the engine: programs as they are, which build trees of calls while they run. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "calls/engine_memory.h"
#include "capture/ability.h"
#include "cmd/calls.h"
#include "cmd/live_profile.h"
#include "cmd/trace.h"
#include "inject/attach.h"
#include "inject/follow.h"
#include "marks/routines.h"
#include "recorder/engine/engine_recording.h"
#include "recorder/recorder_thread.h"

enum { COMMIT_MS = 1000, MS_PER_S = 1000, EXIT_NOT_FOUND = 127, EXIT_NOT_RUN = 126 };

/* --- Recording -------------------------------------------------------------------------------- */

struct run {
	struct routines *routines;
	struct inject *inject;
	struct recorder *recorder;
	struct recorder_thread *thread;
	struct engine_recording *engines;
	struct calls_sink *calls;
};

static int engine_check(void)
{
	struct ability engine;

	ability_probe(ABILITY_ENGINE, &engine);
	return engine.yes ? 0 : err_set(-ENOTSUP, "%s; %s", engine.detail, engine.remedy);
}

static struct routines_options routines_of(const struct calls_options *wish)
{
	struct routines_options options = {
		.choice = calls_choice(wish),
		.node_limit = wish->max_nodes < CALLTREE_LIMIT ? wish->max_nodes : CALLTREE_LIMIT,
		.depth_limit = wish->max_depth < CALLTREE_DEPTH ? wish->max_depth : CALLTREE_DEPTH,
		.prune_permille = (uint32_t)(wish->prune_share * CALL_PERMILLE),
		.allocations = wish->allocations,
		.resources = wish->resources,
		.events = wish->events,
	};

	if (options.node_limit < 4 * options.depth_limit + 16)
		options.depth_limit = (options.node_limit - 16) / 4;
	return options;
}

static int events_create(const struct calls_options *wish, struct call_events **ret)
{
	const struct routines_options limits = routines_of(wish);
	struct call_trace_head head = { .metrics = wish->allocations ? CALLTREE_METRICS_ALLOCATIONS
								     : CALLTREE_METRICS,
					.node_limit = limits.node_limit,
					.depth_limit = limits.depth_limit,
					.prune_permille = limits.prune_permille,
					.weighs_itself = true,
					.untimed = wish->count_only };

	memcpy(head.kinds, call_engine_kinds, head.metrics);
	return call_events_create(wish->events, &head, ret);
}

static int recorder_make(const struct calls_options *wish, char **command, struct run *run)
{
	const struct recorder_options how = { .output = wish->output,
					      .command = command,
					      .commit_ms = COMMIT_MS,
					      .sync_at_end = true,
					      .keep_modules = true };
	struct engine_recording_options options = {
		.tool = "calltree",
		.tools = ENGINE_TOOL_BIT(ENGINE_TOOL_CALLTREE),
		.counters = COUNTERS_NONE,
		.memories = inject_memories(run->inject),
		.shared_size = inject_shared_size(run->inject),
	};
	struct sink sink;
	int err = recorder_create(&how, &run->recorder);

	if (err)
		return err;
	calls_sink_create(run->recorder, &run->calls);
	sink = calls_sink(run->calls);
	recorder_sink_add(run->recorder, &sink);
	options.calls = run->calls;
	if (wish->events)
		err = events_create(wish, &options.events);
	return err ? err : engine_recording_add(run->recorder, &options, &run->engines);
}

static int recorder_begin(struct run *run)
{
	int err;

	err = recorder_start(run->recorder);
	err = err ? err : recorder_thread_start(run->recorder, &run->thread);
	if (err)
		recorder_abandon(run->recorder);
	return err;
}

static int recorder_end(const struct calls_options *wish, struct run *run,
			struct calls_outcome *ret)
{
	struct engine_recording_result result = {};
	int err;

	recorder_thread_stop(take_ptr(run->thread));
	err = recorder_fact_set(run->recorder, RECORDING_CALLS, "events", "engine");
	if (!err && !wish->count_only)
		err = recorder_fact_set(run->recorder, RECORDING_CALLS, "metric", "time");
	err = err ? err : recorder_finish(run->recorder);
	if (err)
		return err;
	engine_recording_result(run->engines, &result);
	ret->totals = *calls_sink_totals(run->calls);
	ret->overhead = result.trees.overhead;
	ret->bad = result.trees.bad;
	ret->own_faults = result.trees.own_faults;
	ret->native = result.sums.native;
	ret->events_lost = result.trees.events_lost;
	return 0;
}

static void run_deinit(struct run *run)
{
	recorder_thread_stop(run->thread);
	recorder_destroy(run->recorder);
	inject_destroy(run->inject);
	routines_destroy(run->routines);
}

/* --- Snapshots -------------------------------------------------------------------------------- */

/* A thread that reports what the threads of all processes have called so far, now and then. */
struct snapshots {
	const struct calls_options *wish;
	pthread_t thread;
	int stop; /* readable: the thread has to end; -1: there is no thread */
};

static void snapshot_show(const struct calls_options *wish)
{
	AUTO(live_profile_remove) struct live_profile live = {};
	int err = live_profile_make((uint32_t)getpid(), &live);

	if (err == -ENOENT) /* nothing is to be seen, yet or any more */
		return;
	err = err ? err : calls_profile_show(wish, live.path);
	if (err)
		log_warn("no snapshot: %s", err_text());
}

static void *snapshots_run(void *ctx)
{
	const struct snapshots *snapshots = ctx;
	struct pollfd stop = { .fd = snapshots->stop, .events = POLLIN };
	double ms = snapshots->wish->snapshot_every * MS_PER_S;

	while (!poll(&stop, 1, ms < 1 ? 1 : ms < INT_MAX ? (int)ms : INT_MAX))
		snapshot_show(snapshots->wish);
	return NULL;
}

/* Signals are for the thread that follows the program. */
static void snapshots_start(struct snapshots *snapshots, const struct calls_options *wish)
{
	sigset_t all, before;
	int err;

	*snapshots = (struct snapshots){ .wish = wish, .stop = -1 };
	if (wish->snapshot_every <= 0)
		return;
	snapshots->stop = eventfd(0, EFD_CLOEXEC);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = snapshots->stop < 0
		      ? errno
		      : pthread_create(&snapshots->thread, NULL, snapshots_run, snapshots);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!err)
		return;
	log_warn("there will be no snapshots: %s", strerror(err));
	close_fd(&snapshots->stop);
	snapshots->stop = -1;
}

static void snapshots_stop(struct snapshots *snapshots)
{
	const uint64_t one = 1;

	if (snapshots->stop < 0 || write(snapshots->stop, &one, sizeof(one)) != sizeof(one))
		return;
	pthread_join(snapshots->thread, NULL);
	close_fd(&snapshots->stop);
}

/* --- Processes -------------------------------------------------------------------------------- */

/* What engines are told: how far trees may grow, and where routines begin. */
static void routines_prepare(const struct calls_options *wish, struct run *run)
{
	const struct routines_options options = routines_of(wish);

	run->routines = routines_create(&options);
	routines_publish(run->routines, (char *)inject_public(run->inject) + STREAM_MARKS);
	inject_modules_serve(run->inject, routines_module, run->routines);
}

static void obstacles_say(const struct follow_result *followed)
{
	for (size_t i = 0; i < PROGRAM_OBSTACLE_COUNT; i++)
		if (followed->native[i])
			log_info("left alone: %llu %s", (unsigned long long)followed->native[i],
				 program_obstacle_text((enum program_obstacle)i));
}

/* Whatever fails once the command runs, it is followed to its end. */
static int command_follow(const struct calls_options *wish, struct run *run, pid_t pid,
			  struct calls_outcome *ret)
{
	struct follow_result followed = {};
	struct snapshots snapshots;
	int err = recorder_begin(run);

	if (err)
		log_error("%s", err_text());
	snapshots_start(&snapshots, wish);
	follow_run(run->inject, pid, &followed);
	snapshots_stop(&snapshots);
	ret->code = followed.exit_code;
	obstacles_say(&followed);
	return err ? err : recorder_end(wish, run, ret);
}

/* Whatever fails once the process is in the engine, it is given back. */
static int process_follow(const struct calls_options *wish, struct run *run, int process,
			  struct calls_outcome *ret)
{
	struct follow_result followed = {};
	struct snapshots snapshots;
	int err = recorder_begin(run);

	if (err)
		log_error("%s", err_text());
	log_info("process %u is in the engine; an interrupt (Ctrl-C) gives it back", wish->pid);
	snapshots_start(&snapshots, wish);
	follow_attached(run->inject, process, (uint64_t)(wish->duration * NS_PER_S), &followed);
	snapshots_stop(&snapshots);
	if (attach_give_back(run->inject))
		log_error("%s", err_text());
	else
		ret->code = EXIT_SUCCESS;
	if (followed.ended)
		log_info("process %u has ended", wish->pid);
	obstacles_say(&followed);
	return err ? err : recorder_end(wish, run, ret);
}

static int run_prepare(const struct calls_options *wish, char **command, struct run *run)
{
	unsigned flags = wish->count_only ? 0 : ENGINE_CALLS_TIMED;
	int err = engine_check();

	err = err ? err : inject_create(ENGINE_TOOL_BIT(ENGINE_TOOL_CALLTREE), flags, &run->inject);
	err = err ? err : recorder_make(wish, command, run);
	if (!err)
		routines_prepare(wish, run);
	return err;
}

int calls_engine_attach(const struct calls_options *wish, struct calls_outcome *ret)
{
	AUTO(run_deinit) struct run run = {};
	AUTO(close_fd) int process = (int)syscall(SYS_pidfd_open, wish->pid, 0);
	int err = process < 0 ? err_set(-errno, "process %u: %s", wish->pid, strerror(errno)) : 0;

	err = err ? err : trace_process_check((pid_t)wish->pid);
	err = err ? err : run_prepare(wish, NULL, &run);
	if (err)
		return err;
	inject_signals_block();
	err = attach_take(run.inject, (pid_t)wish->pid);
	return err ? err : process_follow(wish, &run, process, ret);
}

int calls_engine_run(const struct calls_options *wish, char **command, struct calls_outcome *ret)
{
	AUTO(run_deinit) struct run run = {};
	pid_t pid;
	int err = run_prepare(wish, command, &run);

	if (err)
		return err;
	err = inject_start(run.inject, command, &pid);
	if (err) {
		ret->code = err == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
		return err;
	}
	return command_follow(wish, &run, pid, ret);
}
