// SPDX-License-Identifier: BSD-2-Clause
/*
 * A source: trees of calls that hooks and the agent of Java have built. The load map learns of
 * these processes only from what the hooks tell: the process may have ended before we could read
 * /proc, and in this way no privilege is needed. A module is told as one mapping from its first
 * byte to its last, which is what the dynamic linker reserves for it.
 */
#include "recorder/hooks_source.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "image/procfs.h"

struct hooks_source {
	struct recorder *recorder;
	struct call_recording *recording;
	struct calls_sink *calls;
	struct hooks_filter filter;
	struct map named; /* processes whose names were told, by pid */
	struct map processes; /* told to the load map, by pid */
	struct map threads; /* pid << 32 | tid of those that were delivered */
	ARRAY(bool) modules; /* of the recording's list: told to the load map */
	struct map programs; /* pid to the newest program that was told */
	int err; /* the first failure */
};

static int event_apply(void *ctx, const struct event *event)
{
	struct hooks_source *source = ctx;
	int err = loadmap_apply(recorder_loadmap(source->recorder), event);

	source->err = source->err ? source->err : err;
	return 0;
}

/* A thread of Java has a name of its own, which is not that of its process. */
static void process_comm(const struct call_result *result, char ret[sizeof(result->name)])
{
	char comm[PROCFS_COMM_MAX];

	if (result->java)
		snprintf(ret, sizeof(result->name), "%s",
			 procfs_comm((pid_t)result->pid, (pid_t)result->pid, comm) ? comm : "java");
	else
		snprintf(ret, sizeof(result->name), "%s", result->name);
}

static void exec_tell(struct hooks_source *source, uint32_t pid, const char *name, uint64_t now)
{
	const struct event event = {
		.kind = EVENT_EXEC, .pid = pid, .tid = pid, .time = now, .comm = name
	};

	event_apply(source, &event);
}

/*
 * A child of a fork has what its parent had; others begin with an exec. The parent is told first,
 * though it may end last: to tell its exec later would be to tell of another program.
 */
static void process_tell(struct hooks_source *source, const struct call_result *result,
			 uint64_t now)
{
	struct event event = {
		.kind = EVENT_FORK, .pid = result->pid, .tid = result->pid, .time = now
	};
	char comm[sizeof(result->name)];
	bool fresh;

	if (map_find(&source->processes, result->pid))
		return;
	process_comm(result, comm);
	if (result->parent) {
		map_at(&source->processes, result->parent, &fresh);
		if (fresh)
			exec_tell(source, result->parent, comm, now);
		event.fork.ppid = event.fork.ptid = result->parent;
		event_apply(source, &event);
	} else {
		exec_tell(source, result->pid, comm, now);
	}
	map_at(&source->processes, result->pid, NULL);
	if (!result->kinds) /* events are of processes that are long gone */
		procfs_identity((pid_t)result->pid, now, event_apply, source);
}

/*
 * Tells the load map of the modules of processes that it knows; the others wait until it does.
 * program: of this one; 0: of any.
 */
static void modules_tell(struct hooks_source *source, uint64_t now, uint64_t program)
{
	const struct call_module *module;

	for (uint32_t i = 0; (module = call_recording_module_at(source->recording, i)); i++) {
		struct stat info = {};
		struct event event = {
			.kind = EVENT_MMAP, .pid = module->pid, .tid = module->pid, .time = now
		};

		if (i == source->modules.count)
			*array_push(&source->modules) = false;
		if (source->modules.items[i] || !map_find(&source->processes, module->pid) ||
		    (program && call_recording_module_program(source->recording, i) != program))
			continue;
		source->modules.items[i] = true;
		stat(module->path, &info);
		event.mmap = (struct event_mmap){ .start = module->start,
						  .end = module->end,
						  .inode = info.st_ino,
						  .major = major(info.st_dev),
						  .minor = minor(info.st_dev),
						  .path = module->path };
		event_apply(source, &event);
	}
}

/* Of events: the process may have executed another program since a thread of it was told. */
static void program_tell(struct hooks_source *source, const struct call_result *result,
			 uint64_t now)
{
	bool fresh;
	uint64_t *program = map_at(&source->programs, result->pid, &fresh);

	if (!fresh && *program != result->program)
		exec_tell(source, result->pid, result->name, now);
	*program = result->program;
}

/* Another thread had this id before: one that has ended, or one that the same carrier runs. */
static void thread_tell(struct hooks_source *source, const struct call_result *result, uint64_t now)
{
	const struct event event = { .kind = EVENT_FORK,
				     .pid = result->pid,
				     .tid = result->tid,
				     .time = now,
				     .fork = { .ppid = result->pid, .ptid = result->pid } };
	bool fresh;

	map_at(&source->threads, (uint64_t)result->pid << 32 | result->tid, &fresh);
	if (!fresh)
		event_apply(source, &event);
}

static void thread_name(struct hooks_source *source, const struct call_result *result, uint64_t now)
{
	const struct event event = { .kind = EVENT_COMM,
				     .pid = result->pid,
				     .tid = result->tid,
				     .time = now,
				     .comm = result->name };

	event_apply(source, &event);
}

/* The kernel may give the id to another thread from now on. That of a process's first ends last. */
static void thread_end(struct hooks_source *source, const struct call_result *result, uint64_t now)
{
	const struct event event = {
		.kind = EVENT_EXIT, .pid = result->pid, .tid = result->tid, .time = now
	};

	if (result->ended && result->tid != result->pid)
		event_apply(source, &event);
}

/* Those that events gave; each process has a module of its own for them. */
static void names_tell(struct hooks_source *source, struct loadmap_process *process)
{
	const char *names = call_recording_names(source->recording);
	bool fresh;
	int fd;

	if (!names)
		return;
	map_at(&source->named, process->pid, &fresh);
	if (!fresh)
		return;
	fd = memfd_create("assay-names", MFD_CLOEXEC);
	if (fd < 0 || write(fd, names, strlen(names)) != (ssize_t)strlen(names)) {
		close_fd(&fd);
		return;
	}
	loadmap_names_give(recorder_loadmap(source->recorder), process, fd);
}

/* Threads without a call are left out. */
static int result_deliver(struct hooks_source *source, const struct call_result *result)
{
	struct loadmap *loadmap = recorder_loadmap(source->recorder);
	struct calls_thread thread = calls_thread_of(result);
	int err;

	if (result->snapshot.reached < 2 && !result->kinds)
		return 0;
	thread.process = loadmap_process_at(loadmap, result->pid, thread.time);
	names_tell(source, thread.process);
	thread_tell(source, result, thread.time);
	thread.thread = loadmap_thread(loadmap, thread.process, result->tid, thread.time);
	if (result->java)
		thread.java = loadmap_named_module(loadmap, thread.process, "[java]",
						   call_recording_java_names(source->recording));
	thread_name(source, result, thread.time);
	err = calls_sink_tasks(source->calls, &thread, result->tid, &result->tasks);
	thread_end(source, result, clock_monotonic());
	return err;
}

struct asking {
	const struct hooks_source *source;
	uint32_t pid;
};

static bool is_wanted(void *ctx, uint64_t routine)
{
	const struct asking *asking = ctx;

	return asking->source->filter.wanted(asking->source->filter.ctx, asking->pid, routine);
}

/* After modules were told, by which routines are known. */
static int result_filter(const struct hooks_source *source, struct call_result *result)
{
	struct asking asking = { source, result->pid };

	return source->filter.wanted ? call_snapshot_fold(&result->snapshot, is_wanted, &asking)
				     : 0;
}

static void result_take(struct hooks_source *source, struct call_result *result)
{
	int err = result_filter(source, result);

	err = err ? err : result_deliver(source, result);
	source->err = source->err ? source->err : err;
	call_result_deinit(result);
}

static int results_deliver(struct hooks_source *source, struct call_results *results)
{
	uint64_t now = clock_monotonic();

	/* A process is told before its modules, and all modules before the first routine. */
	array_each(results, result)
		process_tell(source, result, now);
	if (results->count)
		modules_tell(source, now, 0);
	array_each(results, result)
		result_take(source, result);
	results->count = 0;
	return source->err;
}

static int compare_programs(const void *a, const void *b)
{
	const struct call_result *first = a, *second = b;

	return (first->program > second->program) - (first->program < second->program);
}

/* Of events: program by program, so that a process has the code of one at a time. */
static int results_replay(struct hooks_source *source, struct call_results *results)
{
	if (results->count)
		qsort(results->items, results->count, sizeof(*results->items), compare_programs);
	array_each(results, result) {
		uint64_t now = clock_monotonic();

		process_tell(source, result, now);
		program_tell(source, result, now);
		modules_tell(source, now, result->program);
		result_take(source, result);
	}
	results->count = 0;
	return source->err;
}

static int deliver(void *ctx, bool last, bool *ret_more)
{
	struct hooks_source *source = ctx;

	struct call_results *ended = call_recording_ended(source->recording);

	call_recording_poll(source->recording);
	return ended->count && ended->items[0].program ? results_replay(source, ended)
						       : results_deliver(source, ended);
}

static int tally(void *ctx)
{
	struct hooks_source *source = ctx;

	calls_sink_lost(source->calls, CALL_LOSS_INTERRUPTED,
			call_recording_interrupted(source->recording));
	calls_sink_lost(source->calls, CALL_LOSS_NO_THREAD,
			call_recording_refused(source->recording));
	return 0;
}

/* Threads that still run, or whose process was killed, are as they are now. */
static int finish(void *ctx)
{
	struct hooks_source *source = ctx;
	struct call_results running = {};
	int err;

	call_recording_finish(source->recording, &running);
	err = results_deliver(source, &running);
	call_results_deinit(&running);
	return err ? err : tally(source);
}

static void destroy(void *ctx)
{
	struct hooks_source *source = ctx;

	map_deinit(&source->processes);
	map_deinit(&source->named);
	map_deinit(&source->programs);
	map_deinit(&source->threads);
	array_deinit(&source->modules);
	free(source);
}

void hooks_source_add(struct recorder *recorder, struct call_recording *recording,
		      struct calls_sink *calls, const struct hooks_filter *filter)
{
	struct hooks_source *source = mem_zalloc(sizeof(*source));
	const struct source row = { .ctx = source,
				    .fd = -1,
				    .deliver = deliver,
				    .tally = tally,
				    .finish = finish,
				    .destroy = destroy };

	source->recorder = recorder;
	source->recording = recording;
	source->calls = calls;
	if (filter)
		source->filter = *filter;
	recorder_source_add(recorder, &row);
}
