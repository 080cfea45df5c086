// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/probes/probe_marks.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "image/procfs.h"
#include "recorder/engine/mark_events.h"
#include "recorder/engine/mark_readings.h"

struct probe_marks {
	struct recorder *recorder;
	struct marks *marks;
	struct marks_live *live;
	struct probes *probes;
	struct mark_events *events; /* of rules */
	pid_t pid;
	struct mark_sums now; /* while counters are read */
	struct mark_sums sampled; /* what rows of samples say so far */
	uint32_t marks_written; /* those below have a row */
	size_t places_written;
	uint64_t kept; /* visits and accesses that are in rows */
	int err; /* the first failure */
	char *err_sentence;
};

static void fail(struct probe_marks *mine, int err)
{
	if (!err || mine->err)
		return;
	mine->err = err;
	mine->err_sentence = mem_strdup(err_text());
}

/* --- Marks ------------------------------------------------------------------------------------ */

static void mark_write(void *ctx, const struct mark *mark)
{
	struct probe_marks *mine = ctx;
	const struct store_mark row = { .id = { mark->number },
					.kind = mark->kind,
					.pattern = mark->pattern,
					.text = mark->text };

	fail(mine, store_mark_put(recorder_store(mine->recorder), &row));
	mine->marks_written = mark->number + 1;
}

static void place_write(void *ctx, uint32_t number, const struct mark_place *place)
{
	struct probe_marks *mine = ctx;
	const struct store_mark_place row = { .mark = { number },
					      .module = place->module,
					      .address = place->address,
					      .begins = place->begins,
					      .size = place->size };

	fail(mine, store_mark_place_put(recorder_store(mine->recorder), &row));
	mine->places_written++;
}

static void marks_write(struct probe_marks *mine)
{
	marks_each(mine->marks, mine->marks_written, mark_write, mine);
	marks_places_each(mine->marks, mine->places_written, place_write, mine);
}

/* --- While the process runs ------------------------------------------------------------------- */

/* What both reads and writes counts as a write. */
static void count_add(struct mark_sum *sum, enum probe_what what, uint64_t count)
{
	if (what == PROBE_VISITS)
		sum->visits += count;
	else if (what == PROBE_WRITES)
		sum->writes += count;
	else
		sum->reads += count;
}

static void count_take(void *ctx, uint32_t mark, pid_t tid, enum probe_what what, uint64_t count)
{
	struct probe_marks *mine = ctx;

	count_add(mark_sums_at(&mine->now, mark), what, count);
}

static void reads_settle(struct mark_sum *sum)
{
	sum->reads = sum->reads > sum->writes ? sum->reads - sum->writes : 0;
}

static void sample_write(struct probe_marks *mine, uint32_t mark, const struct mark_sum *now,
			 uint64_t time)
{
	struct mark_sum *before = mark_sums_at(&mine->sampled, mark);
	const struct store_mark_sample row = {
		.mark = { mark },
		.time = time - recorder_created(mine->recorder),
		.visits = now->visits - before->visits,
		.reads = now->reads > before->reads ? now->reads - before->reads : 0,
		.writes = now->writes - before->writes,
	};

	if (!row.visits && !row.reads && !row.writes)
		return;
	fail(mine, store_add(recorder_store(mine->recorder), STORE_TABLE_mark_sample, &row));
	*before = *now;
}

static void fold(struct probe_marks *mine, bool last)
{
	uint64_t time = clock_monotonic();
	bool kept;

	if (!marks_live_due(mine->live, time, &kept) && !last)
		return;
	mine->now.items.count = 0;
	probes_read(mine->probes, count_take, mine);
	marks_write(mine);
	array_each(&mine->now.items, sum)
		reads_settle(sum);
	kept |= last;
	for (uint32_t i = 1; kept && i < mine->now.items.count; i++)
		sample_write(mine, i, &mine->now.items.items[i], time);
	marks_live_fold(mine->live, time, kept, mine->now.items.items, mine->now.items.count);
}

/* --- The source ------------------------------------------------------------------------------- */

static int event_take(void *ctx, const struct event *event)
{
	return loadmap_apply(recorder_loadmap(ctx), event);
}

static int enable(void *ctx)
{
	struct probe_marks *mine = ctx;

	return procfs_process(mine->pid, 0, event_take, mine->recorder);
}

static int deliver(void *ctx, bool last, bool *ret_more)
{
	fold(ctx, false);
	return 0;
}

/* By thread. */
static void row_write(void *ctx, uint32_t mark, pid_t tid, enum probe_what what, uint64_t count)
{
	struct probe_marks *mine = ctx;
	struct store *store = recorder_store(mine->recorder);
	struct loadmap *map = recorder_loadmap(mine->recorder);
	uint64_t now = clock_monotonic();
	struct loadmap_process *process = loadmap_process_at(map, (uint32_t)mine->pid, now);
	struct thread_id thread = loadmap_thread(map, process, (uint32_t)tid, now);

	if (what == PROBE_VISITS) {
		const struct store_mark_execution row = { .mark = { mark },
							  .thread = thread,
							  .visits = count };

		fail(mine, store_add(store, STORE_TABLE_mark_execution, &row));
		mine->kept += count;
	}
}

struct access {
	uint32_t mark;
	pid_t tid;
	struct mark_sum sum;
};

struct accesses {
	ARRAY(struct access) items;
};

static void access_take(void *ctx, uint32_t mark, pid_t tid, enum probe_what what, uint64_t count)
{
	struct accesses *accesses = ctx;
	struct access *access = NULL;

	if (what == PROBE_VISITS)
		return;
	array_each(&accesses->items, other)
		if (other->mark == mark && other->tid == tid)
			access = other;
	if (!access) {
		access = array_push(&accesses->items);
		*access = (struct access){ .mark = mark, .tid = tid };
	}
	count_add(&access->sum, what, count);
}

static void accesses_write(struct probe_marks *mine)
{
	struct loadmap *map = recorder_loadmap(mine->recorder);
	uint64_t now = clock_monotonic();
	struct accesses accesses = {};

	probes_read(mine->probes, access_take, &accesses);
	array_each(&accesses.items, access) {
		struct loadmap_process *process = loadmap_process_at(map, (uint32_t)mine->pid, now);
		struct store_mark_access row = {
			.mark = { access->mark },
			.thread = loadmap_thread(map, process, (uint32_t)access->tid, now),
		};

		reads_settle(&access->sum);
		row.reads = access->sum.reads;
		row.writes = access->sum.writes;
		fail(mine,
		     store_add(recorder_store(mine->recorder), STORE_TABLE_mark_access, &row));
		mine->kept += row.reads + row.writes;
	}
	array_deinit(&accesses.items);
}

static int finish(void *ctx)
{
	struct probe_marks *mine = ctx;

	probes_stop(mine->probes);
	fold(mine, true);
	probes_read(mine->probes, row_write, mine);
	accesses_write(mine);
	return 0;
}

/* --- The sink --------------------------------------------------------------------------------- */

static void totals(void *ctx, struct sink_totals *ret)
{
	ret->kept = ((const struct probe_marks *)ctx)->kept;
}

static int flush(void *ctx, bool last)
{
	struct probe_marks *mine = ctx;

	marks_write(mine);
	fail(mine, mark_events_flush(mine->events, mine->marks_written));
	if (last)
		fail(mine, mark_events_finish(mine->events, 0));
	return mine->err ? err_set(mine->err, "%s", mine->err_sentence) : 0;
}

static void destroy(void *ctx)
{
	struct probe_marks *mine = ctx;

	mark_events_destroy(mine->events);
	array_deinit(&mine->now.items);
	array_deinit(&mine->sampled.items);
	free(mine->err_sentence);
	free(mine);
}

void probe_marks_add(struct recorder *recorder, struct marks *marks, struct marks_live *live,
		     struct probes *probes, pid_t pid)
{
	struct probe_marks *mine = mem_zalloc(sizeof(*mine));
	const struct source source = {
		.ctx = mine, .fd = -1, .enable = enable, .deliver = deliver, .finish = finish
	};
	const struct sink sink = { .ctx = mine,
				   .kind = RECORDING_MARKS,
				   .flush = flush,
				   .totals = totals,
				   .destroy = destroy };

	*mine = (struct probe_marks){ .recorder = recorder,
				      .marks = marks,
				      .live = live,
				      .probes = probes,
				      .events = mark_events_create(recorder, live),
				      .pid = pid,
				      .marks_written = 1 };
	recorder_source_add(recorder, &source);
	recorder_sink_add(recorder, &sink);
}
