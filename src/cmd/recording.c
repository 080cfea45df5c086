// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/recording.h"

#include "base/log.h"

/* Columns: name as in ENGINE_TOOLS, name, what it leaves besides sequences of runs, whether all lines are wanted. */
#define RECORDING_TOOLS(X)                                                                         \
	X(COUNT, "count", DRAIN_COUNTS, true)                                                      \
	X(BLOCKS, "blocks", DRAIN_NO_COUNTERS, false)                                              \
	X(PATHS, "paths", DRAIN_NO_COUNTERS, false)                                                \
	X(COVERAGE, "coverage", DRAIN_MARKS, true)

int recording_create(const struct recording_request *request, struct inject *inject,
		     struct session **ret)
{
	struct session_options options = {
		.output = request->output,
		.raw = request->raw,
		.command = request->command,
		.shared = inject_shared(inject),
		.shared_size = inject_shared_size(inject),
		.paths = request->tool == ENGINE_TOOL_PATHS ? &request->paths : NULL,
	};

	switch (request->tool) {
#define X(name, text, left, all_lines)                                                             \
	case ENGINE_TOOL_##name:                                                                   \
		options.tool = text;                                                               \
		options.counters = left;                                                           \
		options.lines = all_lines;                                                         \
		return session_create(&options, ret);
		RECORDING_TOOLS(X)
#undef X
	default:
		return 0;
	}
}

static void losses_say(const struct drain_totals *totals)
{
	static const char *const texts[] = {
#define X(name, json, text) [DRAIN_LOSS_##name] = text,
		DRAIN_LOSSES(X)
#undef X
	};

	for (size_t i = 0; i < DRAIN_LOSS_COUNT; i++)
		if (totals->lost[i])
			log_warn("lost: %llu %s", (unsigned long long)totals->lost[i], texts[i]);
	for (size_t i = 1; i < LOG_FAULT_COUNT; i++)
		if (totals->records_lost[i])
			log_warn("not understood: %llu %s",
				 (unsigned long long)totals->records_lost[i],
				 log_fault_text((enum log_fault)i));
	if (totals->broken)
		log_warn("%llu threads or processes have overwritten what they recorded",
			 (unsigned long long)totals->broken);
	if (totals->refused)
		log_warn("%llu threads were not recorded: there were too many at once",
			 (unsigned long long)totals->refused);
}

static void result_say(const struct recording_request *request, const struct session_result *result)
{
	bool marks = request->tool == ENGINE_TOOL_COVERAGE;
	bool paths = request->tool == ENGINE_TOOL_PATHS;
	bool usual = !strcmp(request->output, "assay.db");

	losses_say(&result->totals);
	if (marks)
		log_info("%llu different blocks executed", (unsigned long long)result->blocks);
	else
		log_info("%llu instructions in %llu blocks executed",
			 (unsigned long long)result->instructions,
			 (unsigned long long)result->blocks);
	log_info("profile: %s; see it with 'assay report%s%s%s'", request->output,
		 marks	 ? " coverage"
		 : paths ? " paths"
			 : "",
		 usual ? "" : " -i ", usual ? "" : request->output);
}

int recording_finish(const struct recording_request *request, struct session *session)
{
	struct session_result result = {};
	int err = session ? session_finish(session, &result) : 0;

	if (session && !err)
		result_say(request, &result);
	return err;
}
