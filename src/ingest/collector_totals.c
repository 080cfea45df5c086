// SPDX-License-Identifier: BSD-2-Clause
/* What the collector says about the recording as a whole: seen, kept, lost. */
#include "ingest/collector_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

void collector_tally(const struct collector *collector, struct sample_tally *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (collector->sampler) {
		sampler_tally(collector->sampler, ret);
		ret->lost[LOSS_NO_STACK] += samples_orphaned(collector->samples);
		ret->lost[LOSS_UNREAD] += collector->unread;
		return;
	}
	ret->seen = collector->user_seen;
	memcpy(ret->lost, collector->user_lost, sizeof(ret->lost));
}

uint64_t collector_lost(const struct sample_tally *tally)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < LOSS_COUNT; i++)
		lost += tally->lost[i];
	return lost;
}

static const char *const loss_names[][2] = {
#define X(name, json, text) [LOSS_##name] = { json, text },
	LOSS_REASONS(X)
#undef X
};

static const char *const end_names[][2] = {
#define X(name, json, text) [STACK_END_##name] = { json, text },
	STACK_ENDS(X)
#undef X
};

/*
 * While recording, what the kernel has seen and the host not yet drained is neither kept nor lost; the file always says
 * seen = kept + lost of what it holds.
 */
int collector_totals_store(struct collector *collector)
{
	const uint64_t *ends = samples_ends(collector->samples);
	struct sample_tally tally;
	int err;

	collector_tally(collector, &tally);
	err = loadmap_flush(collector->loadmap);
	if (!err)
		err = store_seen_set(collector->store,
				     samples_kept(collector->samples) + collector_lost(&tally));
	for (size_t i = 0; i < LOSS_COUNT && !err; i++)
		if (tally.lost[i])
			err = store_loss_set(collector->store, loss_names[i][0], loss_names[i][1],
					     tally.lost[i]);
	for (size_t i = 0; i < STACK_END_COUNT && !err; i++)
		if (ends[i])
			err = store_stack_end_set(collector->store, end_names[i][0],
						  end_names[i][1], ends[i]);
	if (!err)
		err = store_meta_set_u64(collector->store, "duration_ns",
					 clock_monotonic() - collector->started);
	if (!err && collector->events_lost)
		err = store_meta_set_u64(collector->store, "process_events_lost",
					 collector->events_lost);
	return err ? err : store_commit(collector->store);
}

void collector_run_tally(const struct collector *collector, struct run_tally *ret)
{
	sampler_run_tally(collector->sampler, ret);
	ret->lost[RUN_LOSS_UNREAD] += collector->runs_unread;
}

int collector_values_store(struct collector *collector)
{
	struct run_tally tally;

	if (!collector->values)
		return 0;
	collector_run_tally(collector, &tally);
	return values_flush(collector->values, &tally);
}

void collector_progress_show(const struct collector *collector)
{
	struct sample_tally tally;

	if (!collector->options->progress)
		return;
	collector_tally(collector, &tally);
	fprintf(stderr, "\r[assay: %.1f s, %llu samples, %llu lost] ",
		(double)(clock_monotonic() - collector->started) / NS_PER_S,
		(unsigned long long)tally.seen, (unsigned long long)collector_lost(&tally));
	fflush(stderr);
}

void collector_progress_end(const struct collector *collector)
{
	if (collector->options->progress)
		fputs("\r\033[K", stderr);
}
