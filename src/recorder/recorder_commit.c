// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the recorder writes into the profile by itself: facts and totals. Everything that depends on
 * how the profile keeps them is in this file.
 *
 *	in	totals, losses and facts of all sinks
 *	out	one transaction of the store, twice a second
 *	owner	the recorder: this is a part of it
 *
 * While it records, what the kernel has seen and the host not yet drained is neither kept nor lost;
 * the file always says seen = kept + lost of what it holds.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "recorder/recorder_private.h"

int recorder_fact_set(struct recorder *recorder, enum recording_kind kind, const char *key,
		      const char *value)
{
	return store_fact_add(recorder->store, kind, key, value);
}

int recorder_number_set(struct recorder *recorder, enum recording_kind kind, const char *key,
			uint64_t value)
{
	return store_fact_add_u64(recorder->store, kind, key, value);
}

int recorder_metric_set(struct recorder *recorder, enum recording_kind kind, const char *metric,
			const char *unit, uint64_t total)
{
	return store_metric_set(recorder->store, kind, metric, unit, total);
}

/* A word as a shell takes it: in quotes if there is anything in it that a shell might expand. */
static void word_put(struct strbuf *text, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_@%+=:,./-";

	if (*word && !word[strspn(word, plain)]) {
		strbuf_puts(text, word);
		return;
	}
	strbuf_putc(text, '\'');
	for (; *word; word++)
		if (*word == '\'')
			strbuf_puts(text, "'\\''");
		else
			strbuf_putc(text, *word);
	strbuf_putc(text, '\'');
}

char *recorder_command_text(char *const *command)
{
	struct strbuf text = {};
	char *copy;

	for (char *const *word = command; word && *word; word++) {
		if (text.length)
			strbuf_putc(&text, ' ');
		word_put(&text, *word);
	}
	copy = mem_strdup(strbuf_text(&text));
	strbuf_deinit(&text);
	return copy;
}

int recorder_recording_begin(struct recorder *recorder, enum recording_kind kind)
{
	int err = store_recording_begin(recorder->store, kind, clock_wall());

	err = err ? err : recorder_fact_set(recorder, kind, "command", recorder->command);
	return err ? err
		   : recorder_number_set(recorder, kind, "started_monotonic", recorder->created);
}

/* --- Totals ----------------------------------------------------------------------------------- */

void recorder_totals(struct recorder *recorder, enum recording_kind kind, struct sink_totals *ret)
{
	*ret = (struct sink_totals){};
	array_each(&recorder->sinks, sink)
		if (sink->kind == kind)
			sink->totals(sink->ctx, ret);
}

static int sink_totals_store(struct recorder *recorder, const struct sink *sink, uint64_t duration)
{
	struct sink_totals totals = {};
	int err;

	if (sink->kind == SINK_NO_RECORDING)
		return 0;
	sink->totals(sink->ctx, &totals);
	err = store_seen_set(recorder->store, sink->kind, totals.kept + sink_totals_lost(&totals));
	if (!err && !(recording_kind_row(sink->kind)->flags & RECORDING_IS_COUNTED_BY_STORE))
		err = store_kept_set(recorder->store, sink->kind, totals.kept);
	for (size_t i = 0; i < totals.loss_count && !err; i++)
		err = store_loss_set(recorder->store, sink->kind, totals.losses[i].reason,
				     totals.losses[i].text, totals.losses[i].count);
	return err ? err : store_duration_set(recorder->store, sink->kind, duration);
}

static int profile_commit(struct recorder *recorder)
{
	uint64_t since = recorder->started ? recorder->started : recorder->created;
	int err = loadmap_flush(recorder->loadmap);

	array_each(&recorder->sinks, sink)
		err = err ? err : sink_totals_store(recorder, sink, clock_monotonic() - since);
	return err ? err : store_commit(recorder->store);
}

int recorder_commit(struct recorder *recorder)
{
	int err = 0;

	recorder->commits++;
	array_each(&recorder->sources, source)
		if (source->tally && !err)
			err = source->tally(source->ctx);
	array_each(&recorder->sinks, sink)
		if (sink->flush && !err)
			err = sink->flush(sink->ctx, recorder->last);
	err = err || !recorder->store ? err : profile_commit(recorder);
	if (recorder->watch)
		recorder->watch(recorder->watch_ctx);
	return err;
}
