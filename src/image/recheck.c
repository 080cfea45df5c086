// SPDX-License-Identifier: BSD-2-Clause
/*
 * Compares the load map with /proc/PID/maps, process by process, a bounded number of them each
 * time. Mappings of the load map that /proc does not have get an UNMAP event with the present time.
 */
#include "image/recheck.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "image/procfs.h"

enum { CHECKS_MAX = 128 }; /* processes per call; each costs some 50 us */

struct range {
	uint64_t start, end;
};

struct recheck {
	struct loadmap *loadmap;
	struct map noted; /* pids in waiting */
	ARRAY(uint32_t) waiting; /* pids in the order in which they were noted */
	struct loadmap_process *process; /* being looked at */
	ARRAY(struct range) current; /* its mappings by /proc */
};

void recheck_create(struct loadmap *loadmap, struct recheck **ret)
{
	*ret = mem_zalloc(sizeof(**ret));
	(*ret)->loadmap = loadmap;
}

void recheck_destroy(struct recheck *recheck)
{
	if (!recheck)
		return;
	map_deinit(&recheck->noted);
	array_deinit(&recheck->waiting);
	array_deinit(&recheck->current);
	free(recheck);
}

void recheck_note(struct recheck *recheck, uint32_t pid)
{
	bool fresh;

	map_at(&recheck->noted, pid, &fresh);
	if (fresh)
		*array_push(&recheck->waiting) = pid;
}

static int on_mapping(void *ctx, const struct event *event)
{
	struct recheck *recheck = ctx;
	struct loadmap_mapping known;

	*array_push(&recheck->current) = (struct range){ event->mmap.start, event->mmap.end };
	if (loadmap_find(recheck->loadmap, recheck->process, event->mmap.start, event->time,
			 &known))
		return 0;
	return loadmap_apply(recheck->loadmap, event);
}

static bool still_there(const struct recheck *recheck, const struct loadmap_mapping *mapping)
{
	array_each(&recheck->current, range)
		if (range->start < mapping->end && mapping->start < range->end)
			return true;
	return false;
}

static int process_check(struct recheck *recheck, uint32_t pid)
{
	uint64_t now = clock_monotonic();
	struct loadmap_process *process = loadmap_process_at(recheck->loadmap, pid, now);
	int err;

	recheck->process = process;
	recheck->current.count = 0;
	err = procfs_mappings((pid_t)pid, now, on_mapping, recheck);
	if (err || !recheck->current.count)
		return err; /* none: it ended */
	for (size_t i = 0; i < process->mapping_count && !err; i++) {
		const struct loadmap_mapping *mapping = &process->mappings[i];
		struct event event = {
			.kind = EVENT_UNMAP,
			.pid = pid,
			.tid = pid,
			.time = now,
			.mmap = { .start = mapping->start, .end = mapping->end },
		};

		/* One that is younger than our look at /proc is there. */
		if (mapping->to == UINT64_MAX && mapping->from < now &&
		    !still_there(recheck, mapping))
			err = loadmap_apply(recheck->loadmap, &event);
	}
	return err;
}

int recheck_run(struct recheck *recheck, loadmap_changed_fn fn, void *ctx)
{
	size_t count = recheck->waiting.count < CHECKS_MAX ? recheck->waiting.count : CHECKS_MAX;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		uint32_t pid = recheck->waiting.items[i];

		map_remove(&recheck->noted, pid);
		err = process_check(recheck, pid);
		if (!err && fn)
			err = fn(ctx, recheck->process);
	}
	recheck->waiting.count -= count;
	if (count)
		memmove(recheck->waiting.items, recheck->waiting.items + count,
			recheck->waiting.count * sizeof(uint32_t));
	return err;
}
