// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/recording.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/cmd.h"
#include "cmd/signs.h"
#include "recorder/recorder_thread.h"

enum { COMMIT_MS = 500 };

struct recording {
	struct recorder *recorder;
	const char *output; /* lent */
	struct recorder_thread *thread; /* NULL: not started */
	struct engine_recording *engines;
	struct signs signs; /* while the thread runs */
};

static bool has(const struct recording_request *request, enum engine_tool tool)
{
	return request->tools & ENGINE_TOOL_BIT(tool);
}

/* Whether something goes into a profile; other tools have only counters. */
static bool keeps_code(const struct recording_request *request)
{
	return has(request, ENGINE_TOOL_COUNT) || has(request, ENGINE_TOOL_COVERAGE) ||
	       request->marks || engine_tools_flags(request->tools) & ENGINE_TOOL_RING;
}

/* Several counting tools count the same segments, so the most informative one is read. */
static enum engine_counters counters_of(const struct recording_request *request)
{
	if (engine_tools_flags(request->tools) & ENGINE_TOOL_RING)
		return COUNTERS_NONE;
	if (has(request, ENGINE_TOOL_COUNT) || request->marks)
		return COUNTERS_COUNTS;
	return has(request, ENGINE_TOOL_COVERAGE) ? COUNTERS_MARKS : COUNTERS_NONE;
}

/* Names of the tools, as they can be given again. */
static char *tools_text(uint64_t tools)
{
	struct strbuf text = {};

	for (unsigned i = 0; i < ENGINE_TOOLS_END; i++)
		if (tools & ENGINE_TOOL_BIT(i))
			strbuf_printf(&text, "%s%s", text.length ? "," : "",
				      engine_tool_row(i)->name);
	return text.text;
}

static int recorder_make(const struct recording_request *request,
			 const struct engine_recording_options *options, struct recording **ret)
{
	/*
	 * The program waits while the thread that takes its records waits for the disk; and it does
	 * not outlive a power cut, either.
	 */
	const struct recorder_options how = {
		.output = keeps_code(request) ? request->output : NULL,
		.command = request->command,
		.commit_ms = COMMIT_MS,
		.sync_at_end = true,
		.written = command_signals_allow,
		.keep_modules = true,
	};
	AUTO(recording_destroy_auto) struct recording *recording = mem_zalloc(sizeof(*recording));
	int err;

	recording->output = request->output;
	err = recorder_create(&how, &recording->recorder);
	err = err ? err : engine_recording_add(recording->recorder, options, &recording->engines);
	if (!err)
		*ret = take_ptr(recording);
	return err;
}

int recording_create(const struct recording_request *request, struct inject *inject,
		     struct recording **ret)
{
	AUTO(free_ptr) char *tools = tools_text(request->tools);
	const struct engine_recording_options options = {
		.raw = request->raw,
		.tool = tools,
		.tools = request->tools,
		.counters = counters_of(request),
		.lines = engine_tools_flags(request->tools) & ENGINE_TOOL_LINES,
		.memories = inject_memories(inject),
		.shared_size = inject_shared_size(inject),
		.paths = has(request, ENGINE_TOOL_PATHS) ? &request->paths : NULL,
		.marks = request->marks,
		.live = request->live,
	};

	*ret = NULL;
	if (engine_tools_flags(request->tools) & ENGINE_TOOL_ALONE)
		return 0;
	return recorder_make(request, &options, ret);
}

static void thread_stop(struct recording *recording)
{
	if (!recording->thread)
		return;
	recorder_thread_stop(take_ptr(recording->thread));
	signs_end(&recording->signs);
}

void recording_destroy(struct recording *recording)
{
	if (!recording)
		return;
	thread_stop(recording);
	recorder_destroy(recording->recorder);
	free(recording);
}

int recording_start(struct recording *recording)
{
	int err;

	command_signals_ignore();
	if (!recording)
		return 0;
	err = recorder_start(recording->recorder);
	if (err) {
		recorder_abandon(recording->recorder);
		return err;
	}
	signs_begin(&recording->signs, recording->recorder, RECORDING_EXECUTED, "segments",
		    recording->output);
	err = recorder_thread_start(recording->recorder, &recording->thread);
	if (err) {
		signs_end(&recording->signs);
		recorder_abandon(recording->recorder);
	}
	return err;
}

static void losses_say(const struct engine_totals *totals)
{
	static const char *const texts[] = {
#define X(name, json, text) [SEGMENT_LOSS_##name] = text,
		SEGMENT_LOSSES(X)
#undef X
	};

	for (size_t i = 0; i < SEGMENT_LOSS_COUNT; i++)
		if (totals->lost[i])
			log_warn("lost: %llu %s", (unsigned long long)totals->lost[i], texts[i]);
	for (size_t i = 1; i < CATALOG_FAULT_COUNT; i++)
		if (totals->records_lost[i])
			log_warn("not understood: %llu %s",
				 (unsigned long long)totals->records_lost[i],
				 catalog_fault_text((enum catalog_fault)i));
	if (totals->broken)
		log_warn("%llu %s overwritten what %s recorded", (unsigned long long)totals->broken,
			 totals->broken == 1 ? "thread or process has"
					     : "threads or processes have",
			 totals->broken == 1 ? "it" : "they");
	if (totals->refused)
		log_warn("%llu thread%s not recorded: there were too many at once",
			 (unsigned long long)totals->refused,
			 totals->refused == 1 ? " was" : "s were");
}

/* The largest of each tool; all of them are in the summary. */
static void counters_say(const struct engine_recording_result *result)
{
	enum { SHOWN = 10 };
	unsigned shown = 0;

	for (size_t i = 0; i < result->counter_count; i++) {
		const struct counters_row *row = &result->counters[i];

		if (!i || row->tool != row[-1].tool) {
			log_info("%s, %s:", engine_tool_row(row->tool)->name,
				 engine_tool_row(row->tool)->unit);
			shown = 0;
		}
		if (shown++ < SHOWN)
			log_info("%16llu  %s", (unsigned long long)row->value, row->name);
	}
}

static void lookups_say(const struct cycles_stats *stats)
{
	log_info("%llu lookups of cycles looked at %.3f entries each; sorted %llu times, %llu "
		 "buckets with %llu entries",
		 (unsigned long long)stats->lookups,
		 stats->lookups ? (double)stats->probes / (double)stats->lookups : 0,
		 (unsigned long long)stats->sorts, (unsigned long long)stats->sorted_buckets,
		 (unsigned long long)stats->sorted_entries);
}

static void result_say(const struct recording_request *request,
		       const struct engine_recording_result *result)
{
	bool marks = counters_of(request) == COUNTERS_MARKS;
	bool paths = has(request, ENGINE_TOOL_PATHS);
	bool usual = !strcmp(request->output, "assay.db");

	losses_say(&result->totals);
	counters_say(result);
	if (!keeps_code(request))
		return;
	if (request->marks)
		log_debug("marks were counted");
	else if (marks)
		log_info("%llu different block%s executed", (unsigned long long)result->sums.blocks,
			 PLURAL(result->sums.blocks));
	else
		log_info("%llu instructions in %llu blocks executed",
			 (unsigned long long)result->sums.instructions,
			 (unsigned long long)result->sums.blocks);
	if (paths && request->paths.table.kind == CYCLES_BOUNDED)
		lookups_say(&result->lookups);
	log_info("profile: %s; see it with 'assay report%s%s%s'", request->output,
		 request->marks ? " marks"
		 : marks	? " coverage"
		 : paths	? " paths"
				: "",
		 usual ? "" : " -i ", usual ? "" : request->output);
}

int recording_finish(const struct recording_request *request, struct recording *recording,
		     struct engine_recording_result *ret)
{
	int err;

	if (!recording)
		return 0;
	thread_stop(recording);
	err = recorder_finish(recording->recorder);
	if (err)
		return err;
	engine_recording_result(recording->engines, ret);
	result_say(request, ret);
	return 0;
}
