// SPDX-License-Identifier: BSD-2-Clause
/*
 * Trees of calls in the formats of other tools, each thread by itself. The weight of a path is what
 * its last routine used itself, in nanoseconds, or the number of calls where calls were only
 * counted.
 *
 * 1. The weights of a thread add up to its base (or its calls).
 * 2. What was lost is in the unit of calls, so it is there only where weights are calls.
 */
#include <inttypes.h>
#include <string.h>

#include "analyse/call_trees.h"
#include "base/array.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "report/export.h"
#include "report/json.h"

static const char *routine_name(const struct call_trees *trees, uint64_t routine)
{
	return routine == CALL_ROUTINE_PRUNED ? "[pruned]" : trees->names[routine].symbol;
}

static uint64_t node_weight(const struct call_snapshot *snapshot, const struct call_node *node)
{
	if (snapshot->head.metrics)
		return node->amounts[0].base;
	return node->routine == CALL_ROUTINE_THREAD ? 0 : node->calls;
}

static bool is_timed(const struct call_trees *trees)
{
	for (size_t i = 0; i < trees->results.count; i++)
		if (trees->results.items[i].snapshot.head.metrics)
			return true;
	return false;
}

static bool tells_losses(const struct call_trees *trees, const struct export_options *options)
{
	return !is_timed(trees) && filter_is_empty(&options->filter);
}

/* --- Collapsed stacks ------------------------------------------------------------------------- */

static void name_put(struct strbuf *line, const char *name)
{
	size_t at = line->length;

	utf8_escape(line, name);
	for (; at < line->length; at++)
		if (line->text[at] == ';')
			line->text[at] = ':';
}

/* ends: of the part of the line that stands for the path down to each level. */
static void thread_collapse(const struct call_trees *trees, const struct call_result *result,
			    bool no_comm, FILE *file)
{
	const struct call_snapshot *snapshot = &result->snapshot;
	ARRAY(size_t) ends = {};
	struct strbuf line = {};

	for (uint32_t i = 0; i < snapshot->reached && !ferror(file); i++) {
		const struct call_node *node = call_snapshot_node(snapshot, snapshot->order[i]);
		uint64_t weight = node_weight(snapshot, node);

		ends.count = node->level;
		line.length = node->level ? ends.items[node->level - 1] : 0;
		if (node->level) {
			if (line.length)
				strbuf_putc(&line, ';');
			name_put(&line, routine_name(trees, node->routine));
		} else if (!no_comm) {
			name_put(&line, result->name);
			strbuf_printf(&line, "/%u", result->tid);
		}
		*array_push(&ends) = line.length;
		if (weight && line.length)
			fprintf(file, "%.*s %" PRIu64 "\n", (int)line.length, line.text, weight);
	}
	array_deinit(&ends);
	strbuf_deinit(&line);
}

int export_collapsed_calls(const struct profile *profile, const struct export_options *options,
			   FILE *file)
{
	AUTO(call_trees_deinit) struct call_trees trees = {};
	int err = call_trees_init(&trees, profile, &options->filter, options->cost);

	if (err)
		return err;
	for (size_t i = 0; i < trees.results.count; i++)
		thread_collapse(&trees, &trees.results.items[i], options->no_comm, file);
	for (size_t i = 0; tells_losses(&trees, options) && i < trees.input.loss_count; i++)
		fprintf(file, "[lost: %s] %" PRIu64 "\n", trees.input.losses[i].name,
			trees.input.losses[i].count);
	return 0;
}

/* --- speedscope ------------------------------------------------------------------------------- */

static void frames_put(struct strbuf *text, const struct call_trees *trees)
{
	strbuf_puts(text, "{\"name\":\"[pruned]\"}");
	for (size_t i = 0; i < trees->name_count; i++) {
		strbuf_puts(text, ",\n{\"name\":");
		json_string_put(text, trees->names[i].symbol);
		strbuf_puts(text, ",\"file\":");
		json_string_put(text, trees->names[i].module);
		strbuf_putc(text, '}');
	}
}

static uint64_t frame_of(uint64_t routine)
{
	return routine == CALL_ROUTINE_PRUNED ? 0 : routine + 1;
}

static void paths_put(struct strbuf *text, const struct call_snapshot *snapshot)
{
	ARRAY(uint64_t) path = {};
	const char *comma = "";

	for (uint32_t i = 0; i < snapshot->reached; i++) {
		const struct call_node *node = call_snapshot_node(snapshot, snapshot->order[i]);

		path.count = node->level ? node->level - 1 : 0;
		if (node->level)
			*array_push(&path) = frame_of(node->routine);
		if (!node_weight(snapshot, node))
			continue;
		strbuf_printf(text, "%s[", comma);
		for (size_t at = 0; at < path.count; at++)
			strbuf_printf(text, "%s%" PRIu64, at ? "," : "", path.items[at]);
		strbuf_putc(text, ']');
		comma = ",";
	}
	array_deinit(&path);
}

static uint64_t weights_put(struct strbuf *text, const struct call_snapshot *snapshot)
{
	const char *comma = "";
	uint64_t sum = 0;

	for (uint32_t i = 0; i < snapshot->reached; i++) {
		uint64_t weight =
			node_weight(snapshot, call_snapshot_node(snapshot, snapshot->order[i]));

		if (weight)
			strbuf_printf(text, "%s%" PRIu64, comma, weight);
		comma = weight ? "," : comma;
		sum += weight;
	}
	return sum;
}

/* What speedscope knows to print. */
static const char *unit_of(const struct call_snapshot *snapshot, enum call_cost cost)
{
	switch (cost) {
	case COST_TIME:
		return snapshot->head.metrics ? "nanoseconds" : "none";
	case COST_BYTES:
	case COST_READ:
	case COST_WRITTEN:
	case COST_RECEIVED:
	case COST_SENT:
		return "bytes";
	default:
		return "none";
	}
}

static void thread_scope(const struct call_result *result, enum call_cost cost, struct strbuf *text)
{
	AUTO(free_ptr) char *name = mem_printf("%s %u", result->name, result->tid);
	const struct call_snapshot *snapshot = &result->snapshot;
	struct strbuf weights = {};
	uint64_t sum = weights_put(&weights, snapshot);

	strbuf_puts(text, "{\"type\":\"sampled\",\"name\":");
	json_string_put(text, name);
	strbuf_printf(text,
		      ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n\"samples\":[",
		      unit_of(snapshot, cost), sum);
	paths_put(text, snapshot);
	strbuf_puts(text, "],\n\"weights\":[");
	strbuf_puts(text, strbuf_text(&weights));
	strbuf_puts(text, "]}");
	strbuf_deinit(&weights);
}

int export_speedscope_calls(const struct profile *profile, const struct export_options *options,
			    FILE *file)
{
	AUTO(call_trees_deinit) struct call_trees trees = {};
	struct strbuf text = {};
	int err = call_trees_init(&trees, profile, &options->filter, options->cost);

	if (err)
		return err;
	strbuf_puts(&text, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
			   "\"exporter\":\"assay\",\n\"shared\":{\"frames\":[");
	frames_put(&text, &trees);
	strbuf_puts(&text, "]},\n\"profiles\":[\n");
	for (size_t i = 0; i < trees.results.count && !ferror(file); i++) {
		strbuf_puts(&text, i ? ",\n" : "");
		thread_scope(&trees.results.items[i], options->cost, &text);
		fwrite(strbuf_text(&text), 1, text.length, file);
		text.length = 0;
	}
	strbuf_puts(&text, "]}\n");
	fwrite(strbuf_text(&text), 1, text.length, file);
	strbuf_deinit(&text);
	return 0;
}
