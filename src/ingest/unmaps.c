// SPDX-License-Identifier: BSD-2-Clause
#include "ingest/unmaps.h"

#include <errno.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "ingest/procfs.h"

enum { CHECKS_MAX = 16 }; /* processes per call; each costs some 50 us */

struct range {
	uint64_t start, end;
};

struct unmaps {
	struct loadmap *loadmap;
	struct map noted; /* pids */
	ARRAY(struct range) current; /* of the process being looked at */
};

void unmaps_create(struct loadmap *loadmap, struct unmaps **ret)
{
	*ret = mem_zalloc(sizeof(**ret));
	(*ret)->loadmap = loadmap;
}

void unmaps_destroy(struct unmaps *unmaps)
{
	if (!unmaps)
		return;
	map_deinit(&unmaps->noted);
	array_deinit(&unmaps->current);
	free(unmaps);
}

void unmaps_note(struct unmaps *unmaps, uint32_t pid)
{
	map_at(&unmaps->noted, pid, NULL);
}

static int on_mapping(void *ctx, const struct event *event)
{
	struct unmaps *unmaps = ctx;

	*array_push(&unmaps->current) = (struct range){ event->mmap.start, event->mmap.end };
	return 0;
}

static bool still_there(const struct unmaps *unmaps, const struct loadmap_mapping *mapping)
{
	array_each(&unmaps->current, range)
		if (range->start < mapping->end && mapping->start < range->end)
			return true;
	return false;
}

static int process_check(struct unmaps *unmaps, uint32_t pid)
{
	uint64_t now = clock_monotonic();
	struct loadmap_process *process;
	int err;

	unmaps->current.count = 0;
	err = procfs_mappings((pid_t)pid, now, on_mapping, unmaps);
	if (err || !unmaps->current.count)
		return 0; /* it ended */
	process = loadmap_process_at(unmaps->loadmap, pid, now);
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
		    !still_there(unmaps, mapping))
			err = loadmap_apply(unmaps->loadmap, &event);
	}
	return err;
}

int unmaps_check(struct unmaps *unmaps)
{
	uint32_t pids[CHECKS_MAX];
	size_t count = 0;
	int err = 0;

	map_each(&unmaps->noted, slot) {
		if (count == CHECKS_MAX)
			break;
		pids[count++] = (uint32_t)slot->key;
	}
	for (size_t i = 0; i < count && !err; i++) {
		map_remove(&unmaps->noted, pids[i]);
		err = process_check(unmaps, pids[i]);
	}
	return err;
}
