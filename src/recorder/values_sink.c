// SPDX-License-Identifier: BSD-2-Clause
/*
 * When runs are replayed and values written: with each commit.
 *
 *	in	records of runs, from sampler_source.c
 *	out	calls of values.c; totals and losses of runs
 *	owner	the command makes it; as a sink it belongs to the recorder
 *
 * 1. The totals that are told are those of the last time when values were written, so that the file
 *    never counts a run whose values it does not hold.
 * 2. While runs are replayed, which may take a second, the sources are still visited.
 */
#include "recorder/values_sink.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

struct values_sink {
	struct recorder *recorder;
	struct translations *translations;
	struct pointers *pointers;
	struct values *values;
	struct backlog backlog;
	struct run_tally tally; /* the source's */
	bool own_only, no_kernel; /* as in the options */
	uint64_t withheld; /* runs */
	struct sink_totals written;
	uint64_t spent; /* CPU time, ns */
};

int values_sink_create(const struct values_sink_options *options, struct recorder *recorder,
		       struct translations *translations, struct values_sink **ret)
{
	struct values_sink *sink = mem_zalloc(sizeof(*sink));
	struct values_options how = { .sites = options->sites };
	int err;

	sink->recorder = recorder;
	sink->own_only = options->own_only;
	sink->no_kernel = options->no_kernel;
	sink->translations = translations;
	backlog_init(&sink->backlog, options->backlog_bytes);
	pointers_create(recorder_loadmap(recorder), recorder_locations(recorder),
			recorder_store(recorder), &sink->pointers);
	how.pointers = sink->pointers;
	err = values_create(&how, recorder_store(recorder), recorder_loadmap(recorder),
			    recorder_locations(recorder), translations, &sink->values);
	if (err) {
		values_sink_destroy(sink);
		return err;
	}
	*ret = sink;
	return 0;
}

void values_sink_destroy(struct values_sink *sink)
{
	if (!sink)
		return;
	values_destroy(sink->values);
	pointers_destroy(sink->pointers);
	backlog_deinit(&sink->backlog);
	free(sink);
}

/*
 * A command may start programs that may do more than the user who starts them (setuid, setgid,
 * capabilities): what they compute is not for that user.
 */
static bool is_withheld(const struct values_sink *sink, const struct run_record *run)
{
	bool foreign = run->owner != geteuid() || run->flags & RUN_GUARDED;

	return (sink->own_only && foreign) || (sink->no_kernel && run->pc >> 63);
}

void values_sink_run(struct values_sink *sink, const struct run_record *run)
{
	if (is_withheld(sink, run))
		sink->withheld++;
	else
		backlog_add(&sink->backlog, run);
}

void values_sink_tally_set(struct values_sink *sink, const struct run_tally *tally)
{
	sink->tally = *tally;
}

void values_sink_use(const struct values_sink *sink, uint64_t *ret_ns, uint64_t *ret_runs)
{
	*ret_ns = sink->spent;
	*ret_runs = values_replayed(sink->values);
}

void values_sink_ends(const struct values_sink *sink, uint64_t *ret_whole, uint64_t *ret_missing)
{
	*ret_whole = values_ended(sink->values, UOP_END_NONE);
	*ret_missing = values_ended(sink->values, UOP_END_BLOCK_MISSING);
}

struct pointers *values_sink_pointers(struct values_sink *sink)
{
	return sink->pointers;
}

/* --- The recorder's side ---------------------------------------------------------------------- */

static int on_pause(void *ctx)
{
	return recorder_intake(ctx);
}

static int work(void *ctx, bool last, bool *ret_more)
{
	struct values_sink *sink = ctx;
	uint64_t begun;
	int err;

	if (!last && !backlog_is_due(&sink->backlog, clock_monotonic()))
		return 0;
	begun = clock_thread();
	err = backlog_replay(&sink->backlog, sink->values, on_pause, sink->recorder);
	if (!err)
		translations_settle(sink->translations);
	sink->spent += clock_thread() - begun;
	return err;
}

/* Should the kernel have sent a run that was neither read nor counted as lost, the file says so. */
static void unread_count(struct values_sink *sink)
{
	struct sink_totals known;
	uint64_t sum;

	values_totals(sink->values, &sink->tally, &known);
	sum = known.kept + sink_totals_lost(&known);
	if (sink->tally.seen > sum)
		sink->tally.lost[RUN_LOSS_UNREAD] += sink->tally.seen - sum;
}

static int flush(void *ctx, bool last)
{
	struct values_sink *sink = ctx;
	uint64_t begun = clock_thread();
	int err;

	sink->tally.lost[RUN_LOSS_WITHHELD] = sink->withheld;
	if (last)
		unread_count(sink);
	values_totals(sink->values, &sink->tally, &sink->written);
	err = values_flush(sink->values, &sink->tally);
	sink->spent += clock_thread() - begun;
	return err;
}

static void totals(void *ctx, struct sink_totals *ret)
{
	const struct values_sink *sink = ctx;

	*ret = sink->written;
}

static int name(void *ctx)
{
	struct values_sink *sink = ctx;

	return values_name(sink->values);
}

static void destroy(void *ctx)
{
	values_sink_destroy(ctx);
}

struct sink values_sink_interface(struct values_sink *sink)
{
	return (struct sink){
		.ctx = sink,
		.kind = RECORDING_VALUES,
		.work = work,
		.flush = flush,
		.totals = totals,
		.name = name,
		.destroy = destroy,
	};
}
