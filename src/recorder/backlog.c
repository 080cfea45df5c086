// SPDX-License-Identifier: BSD-2-Clause
/*
 * The runs that wait to be replayed. Runs lie one behind the other in one buffer. Replaying them
 * goes in parts, so that the sources are visited in between.
 */
#include "recorder/backlog.h"

#include <string.h>

#include "base/clock.h"
#include "image/loadmap.h"

enum { PART = 256 << 10 }; /* bytes replayed between two pauses */

/*
 * Runs that wait are lost if the recorder is killed; this time and that between two commits add up
 * to less than a second.
 */
#define PATIENCE (300 * (uint64_t)NS_PER_MS)

_Static_assert(PATIENCE < LOADMAP_KEEP, "processes and mappings of runs are known");

void backlog_init(struct backlog *backlog, size_t max)
{
	*backlog = (struct backlog){ .max = max };
}

void backlog_deinit(struct backlog *backlog)
{
	strbuf_deinit(&backlog->runs);
}

void backlog_add(struct backlog *backlog, const struct run_record *run)
{
	strbuf_add(&backlog->runs, run, run_record_size(run->log_count));
}

static const struct run_record *run_at(const struct backlog *backlog, size_t at)
{
	return (const struct run_record *)(backlog->runs.text + at);
}

bool backlog_is_due(const struct backlog *backlog, uint64_t now)
{
	if (!backlog->runs.length)
		return false;
	return backlog->runs.length >= backlog->max ||
	       now >= run_at(backlog, 0)->record.time + PATIENCE;
}

/* Replays from one place to another, or the first behind it; *at is then where it stopped. */
static int part_replay(const struct backlog *backlog, struct values *values, size_t end, size_t *at)
{
	int err = 0;

	while (*at < end && !err) {
		const struct run_record *run = run_at(backlog, *at);

		*at += run_record_size(run->log_count);
		if (*at < backlog->runs.length)
			values_expect(values, run_at(backlog, *at));
		err = values_run(values, run);
	}
	return err;
}

static void front_drop(struct backlog *backlog, size_t size)
{
	backlog->runs.length -= size;
	if (size)
		memmove(backlog->runs.text, backlog->runs.text + size, backlog->runs.length);
}

int backlog_replay(struct backlog *backlog, struct values *values, backlog_pause_fn *pause,
		   void *ctx)
{
	size_t all = backlog->runs.length, at = 0;
	int err = 0;

	while (at < all && !err) {
		err = part_replay(backlog, values, all - at > PART ? at + PART : all, &at);
		/*
		 * If runs come faster than they are replayed, the kernel's ring is left to fill
		 * up: what is lost there is counted.
		 */
		if (!err && at < all && backlog->runs.length - at < backlog->max)
			err = pause(ctx);
	}
	front_drop(backlog, at);
	return err;
}
