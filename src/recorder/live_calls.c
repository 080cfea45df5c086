// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads trees of calls of a process that another assay calls is recording. From a process to its
 * trees: the kernel says which files the process has mapped, by inode; two names among them are
 * ours. Some process, usually the recorder, has such a file open: /proc is searched for the
 * descriptor. A process finds its slots there by the pid that it knows itself by, which is another
 * one in a container.
 */
#include "recorder/live_calls.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "calls/engine_memory.h"
#include "calls/recording.h"
#include "calls/ticks.h"
#include "image/procfs.h"
#include "wire/stream.h"

/* A file that the process has mapped. */
struct shared_file {
	bool engine; /* otherwise of hooks or of Java */
	uint64_t inode;
	dev_t device;
};

struct live_calls {
	struct recorder *recorder;
	struct calls_sink *calls;
	pid_t pid; /* that was asked for */
	uint32_t inner; /* the same as the process itself knows it */
	bool is_recorded; /* otherwise it records, and all its processes are wanted */
	ARRAY(struct shared_file) files;
	struct call_results results;
	struct live_calls_totals totals;
	uint64_t lost[CALL_LOSS_COUNT];
	int java_names; /* a perf map; -1: none */
	struct map processes; /* told to the load map, by pid */
	int err; /* the first failure */
};

/* --- The files -------------------------------------------------------------------------------- */

static void area_look(void *ctx, const struct event_mmap *area, bool executable)
{
	struct live_calls *live = ctx;
	bool engine = !strcmp(area->path, "/memfd:assay-own (deleted)");

	if (!engine && strcmp(area->path, "/memfd:assay-calls (deleted)") != 0)
		return;
	array_each(&live->files, file)
		if (file->inode == area->inode)
			return;
	*array_push(&live->files) =
		(struct shared_file){ engine, area->inode, makedev(area->major, area->minor) };
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Opens the file through a descriptor of that process; -1: it has none, or we may not look. */
static int file_open_of(const char *pid, const struct shared_file *file)
{
	AUTO(free_ptr) char *folder = mem_printf("/proc/%s/fd", pid);
	AUTO(close_dir) DIR *dir = opendir(folder);
	const struct dirent *entry;
	int fd = -1;

	while (dir && fd < 0 && (entry = readdir(dir))) {
		AUTO(free_ptr) char *path = mem_printf("%s/%s", folder, entry->d_name);
		struct stat info;

		if (!stat(path, &info) && info.st_ino == file->inode && info.st_dev == file->device)
			fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	return fd;
}

static int file_open(pid_t first, const struct shared_file *file)
{
	AUTO(free_ptr) char *pid = mem_printf("%d", (int)first);
	AUTO(close_dir) DIR *dir = opendir("/proc");
	const struct dirent *entry;
	int fd = file_open_of(pid, file);

	while (dir && fd < 0 && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			fd = file_open_of(entry->d_name, file);
	return fd >= 0 ? fd
		       : err_set(-EACCES,
				 "the calls of process %d are recorded, but the memory in which "
				 "that happens cannot be opened: be the user who records, or root",
				 (int)first);
}

/* --- The engine's ----------------------------------------------------------------------------- */

static uint64_t tree_at(void)
{
	return STREAM_COUNTS_OFFSET +
	       engine_tools_counters_at(ENGINE_TOOL_BIT(ENGINE_TOOL_CALLTREE), ENGINE_TOOL_CALLTREE,
					STREAM_SEGMENTS_MAX);
}

static void engine_result(struct live_calls *live, const struct stream_slot *slot,
			  const void *shared, double tick)
{
	struct call_result result = { .pid = slot->pid, .tid = slot->tid, .tick = tick };
	struct calltree_memory memory;
	int err = call_engine_take(shared, &result.snapshot, &memory);

	live->totals.bad += err && err != -ENOENT;
	if (err)
		return;
	result.untimed = !memory.timed;
	result.kinds = result.snapshot.head.metrics;
	memcpy(result.metric_kinds, call_engine_kinds, sizeof(call_engine_kinds));
	call_engine_tasks(shared, &result.tasks);
	live->totals.timed |= memory.timed != 0;
	*array_push(&live->results) = result;
}

static void engine_slot(struct live_calls *live, int fd, uint64_t at, double tick)
{
	const size_t size = CALLTREE_WORDS * 8;
	struct stream_slot slot;
	void *shared;

	if (pread(fd, &slot, sizeof(slot), (off_t)at) != sizeof(slot) || slot.state != STREAM_LIVE)
		return;
	live->is_recorded |= slot.pid == live->inner;
	if (slot.kind != STREAM_THREAD)
		return;
	shared = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
		      (off_t)(at + tree_at()));
	if (shared == MAP_FAILED) {
		live->totals.bad++;
		return;
	}
	engine_result(live, &slot, shared, tick);
	munmap(shared, size);
}

/* Slots are read, not mapped: to look at one that was never used would give it a page. */
static int engine_read(struct live_calls *live, int fd)
{
	struct stream_area area;
	struct stat info;
	int seals = fcntl(fd, F_GET_SEALS);
	double tick = call_tick_measure();

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &info) ||
	    pread(fd, &area, sizeof(area), STREAM_AREA) != sizeof(area) ||
	    area.version != STREAM_VERSION || area.slot_count > STREAM_SLOT_COUNT ||
	    area.slot_bytes < tree_at() + CALLTREE_WORDS * 8 || area.slot_bytes % 4096 ||
	    (uint64_t)info.st_size < STREAM_SLOTS ||
	    ((uint64_t)info.st_size - STREAM_SLOTS) / area.slot_bytes < area.slot_count)
		return err_set(-EINVAL, "process %d is recorded by another version of assay",
			       (int)live->pid);
	if (area.tools != ENGINE_TOOL_BIT(ENGINE_TOOL_CALLTREE))
		return err_set(-ENOENT, "process %d is in the engine, but not for its calls",
			       (int)live->pid);
	for (uint32_t i = 0; i < area.slot_count; i++)
		engine_slot(live, fd, STREAM_SLOTS + i * area.slot_bytes, tick);
	live->totals.events = "engine";
	live->lost[CALL_LOSS_NO_THREAD] += area.refused;
	return 0;
}

/* --- Those of hooks, and of Java -------------------------------------------------------------- */

static int hooks_read(struct live_calls *live, int fd)
{
	AUTO(call_recording_destroy_auto) struct call_recording *recording = NULL;
	size_t first = live->results.count;
	int err = call_recording_open(fd, &recording);

	if (err)
		return err_wrap(err, "process %d", (int)live->pid);
	live->is_recorded |= call_recording_host(recording) != live->inner;
	call_recording_running(recording, &live->results);
	live->totals.events = "hooks";
	for (size_t i = first; i < live->results.count; i++)
		if (live->results.items[i].java)
			live->totals.events = "java";
	close_fd(&live->java_names);
	live->java_names = fcntl(call_recording_java_names(recording), F_DUPFD_CLOEXEC, 3);
	live->totals.timed |= call_recording_timed(recording);
	live->totals.bad += call_recording_bad(recording);
	live->lost[CALL_LOSS_NO_THREAD] += call_recording_refused(recording);
	live->lost[CALL_LOSS_INTERRUPTED] += call_recording_interrupted(recording);
	return 0;
}

/* --- All of them ------------------------------------------------------------------------------ */

static int process_missing(pid_t pid)
{
	if (kill(pid, 0) && errno == ESRCH)
		return err_set(-ESRCH, "process %d does not exist", (int)pid);
	return err_set(-ENOENT,
		       "the calls of process %d are not recorded now: start it with 'assay calls "
		       "-- COMMAND', or read a profile with -i FILE",
		       (int)pid);
}

/*
 * Keeps the results of the pid that was asked for. The recorder may not have noticed yet that a
 * process has ended.
 */
static void results_choose(struct live_calls *live)
{
	size_t kept = 0;

	array_each(&live->results, result) {
		if (result->snapshot.reached < 2 ||
		    (live->is_recorded ? result->pid != live->inner
				       : kill((pid_t)result->pid, 0) && errno == ESRCH)) {
			call_result_deinit(result);
			continue;
		}
		if (live->is_recorded)
			result->pid = (uint32_t)live->pid;
		live->results.items[kept++] = *result;
	}
	live->results.count = kept;
}

static int trees_take(struct live_calls *live)
{
	int err = procfs_areas(live->pid, area_look, live);

	if (err)
		return err_set(err,
			       "cannot see what process %d has in memory: %s; be its user, or root",
			       (int)live->pid, strerror(-err));
	if (!live->files.count)
		return process_missing(live->pid);
	array_each(&live->files, file) {
		AUTO(close_fd) int fd = file_open(live->pid, file);

		if (fd < 0)
			return fd;
		err = file->engine ? engine_read(live, fd) : hooks_read(live, fd);
		if (err)
			return err;
	}
	results_choose(live);
	return 0;
}

/* --- Into a profile --------------------------------------------------------------------------- */

static int event_apply(void *ctx, const struct event *event)
{
	struct live_calls *live = ctx;
	int err = loadmap_apply(recorder_loadmap(live->recorder), event);

	live->err = live->err ? live->err : err;
	return 0;
}

static void name_tell(struct live_calls *live, const struct call_result *result, uint64_t now)
{
	const struct event event = { .kind = EVENT_COMM,
				     .pid = result->pid,
				     .tid = result->tid,
				     .time = now,
				     .comm = result->name };

	if (*result->name)
		event_apply(live, &event);
}

static int result_deliver(struct live_calls *live, const struct call_result *result)
{
	struct loadmap *loadmap = recorder_loadmap(live->recorder);
	struct calls_thread thread = calls_thread_of(result);
	bool fresh;

	map_at(&live->processes, result->pid, &fresh);
	if (fresh)
		procfs_process((pid_t)result->pid, 0, event_apply, live);
	thread.process = loadmap_process_at(loadmap, result->pid, thread.time);
	thread.thread = loadmap_thread(loadmap, thread.process, result->tid, thread.time);
	if (result->java)
		thread.java =
			loadmap_named_module(loadmap, thread.process, "[java]", live->java_names);
	name_tell(live, result, thread.time);
	return calls_sink_tasks(live->calls, &thread, result->tid, &result->tasks);
}

static int deliver(void *ctx, bool last, bool *ret_more)
{
	struct live_calls *live = ctx;

	array_each(&live->results, result) {
		int err = result_deliver(live, result);

		live->err = live->err ? live->err : err;
		call_result_deinit(result);
	}
	live->results.count = 0;
	return live->err;
}

static int tally(void *ctx)
{
	struct live_calls *live = ctx;

	calls_sink_lost(live->calls, CALL_LOSS_NO_THREAD, live->lost[CALL_LOSS_NO_THREAD]);
	calls_sink_lost(live->calls, CALL_LOSS_INTERRUPTED, live->lost[CALL_LOSS_INTERRUPTED]);
	return 0;
}

static void destroy(void *ctx)
{
	struct live_calls *live = ctx;

	array_deinit(&live->files);
	call_results_deinit(&live->results);
	map_deinit(&live->processes);
	close_fd(&live->java_names);
	free(live);
}

int live_calls_add(struct recorder *recorder, struct calls_sink *calls, pid_t pid,
		   struct live_calls_totals *ret)
{
	struct live_calls *live = mem_zalloc(sizeof(*live));
	const struct source row = {
		.ctx = live, .fd = -1, .deliver = deliver, .tally = tally, .destroy = destroy
	};
	int err;

	live->recorder = recorder;
	live->calls = calls;
	live->pid = pid;
	live->inner = (uint32_t)procfs_namespace_pid(pid);
	live->java_names = -1;
	err = trees_take(live);
	if (err) {
		destroy(live);
		return err;
	}
	live->totals.threads = live->results.count;
	*ret = live->totals;
	recorder_source_add(recorder, &row);
	return 0;
}
