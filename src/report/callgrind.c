// SPDX-License-Identifier: BSD-2-Clause
/*
 * The format of callgrind: for each function its own samples by line, and the calls it makes, with
 * the samples that were taken in them. callgrind_annotate and KCachegrind read it. Of executed code
 * the samples are instructions.
 *
 * A place is a function, file and line. Its own samples are a row without a callee; a call is a row
 * with one. The walk over the call paths counts how often each call is on the present path, so that
 * in a recursion a sample counts once in a call. A function that calls itself has its samples
 * already: such calls are left out.
 *
 *  1. The own samples of all rows add up to the samples that the filter selects; with those lost,
 *     to the summary.
 *  2. At the end of the walk no call is on the path.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "analyse/forest.h"
#include "analyse/names.h"
#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "report/export.h"
#include "base/utf8.h"

struct row {
	uint32_t function, file, line;
	uint32_t callee; /* 0: its own samples */
	uint32_t on_path;
	uint64_t count;
};

struct writer {
	const struct profile *profile;
	struct forest *forest;
	struct functions functions;
	struct map files; /* function << 32 | file, to a number from 1 on */
	struct map places; /* that number << 32 | line, to a place from 1 on */
	struct map indexes; /* place << 32 | callee, to the row + 1 */
	ARRAY(struct row) rows;
	bool *named; /* by function: the name has been written, and its number is enough */
	FILE *file;
};

static uint64_t number_of(struct map *map, uint64_t key)
{
	bool fresh;
	uint64_t *number = map_at(map, key, &fresh);

	if (fresh)
		*number = map->count;
	return *number;
}

static struct row *row_at(struct writer *writer, uint32_t slot, uint32_t callee)
{
	const struct slot *at = &writer->forest->slots[slot];
	uint32_t function = writer->functions.entity[slot];
	uint64_t file = number_of(&writer->files, (uint64_t)function << 32 | at->file);
	uint64_t place = number_of(&writer->places, file << 32 | at->line);
	uint64_t index = number_of(&writer->indexes, place << 32 | callee);

	if (index > writer->rows.count)
		*array_push(&writer->rows) =
			(struct row){ function, at->file, at->line, callee, 0, 0 };
	return &writer->rows.items[index - 1];
}

/* The slot that calls the outermost function of a node; UINT32_MAX: none does. */
static uint32_t slot_above(const struct writer *writer, uint32_t node)
{
	uint32_t parent = writer->profile->stacks[node].parent;

	return parent ? forest_slot_begin(writer->forest, parent) : UINT32_MAX;
}

/* Calls change for each call that the node adds to the path, the outermost first. */
static void calls_change(struct writer *writer, uint32_t node, bool enter)
{
	uint32_t begin = forest_slot_begin(writer->forest, node), above = slot_above(writer, node);

	for (uint32_t slot = forest_slot_end(writer->forest, node); slot-- > begin; above = slot) {
		uint32_t callee = writer->functions.entity[slot];
		struct row *row;

		if (above == UINT32_MAX || writer->functions.entity[above] == callee)
			continue;
		row = row_at(writer, above, callee);
		if (enter && !row->on_path++)
			row->count += writer->forest->cum[node];
		if (!enter)
			row->on_path--;
	}
}

static void node_enter(void *ctx, uint32_t node)
{
	struct writer *writer = ctx;

	calls_change(writer, node, true);
	if (writer->forest->own[node])
		row_at(writer, forest_slot_begin(writer->forest, node), 0)->count +=
			writer->forest->own[node];
}

static void node_leave(void *ctx, uint32_t node)
{
	calls_change(ctx, node, false);
}

static int row_order(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	return (a->callee > b->callee) - (a->callee < b->callee);
}

static void name_write(FILE *file, const char *key, const char *name)
{
	struct strbuf safe = {};

	utf8_escape(&safe, name);
	fprintf(file, "%s=%s\n", key, strbuf_text(&safe));
	strbuf_deinit(&safe);
}

/* A number stands for the function; its name follows the first time. */
static void function_write(struct writer *writer, const char *key, uint32_t function)
{
	struct strbuf safe = {};

	if (writer->named[function]) {
		fprintf(writer->file, "%s=(%u)\n", key, function);
		return;
	}
	writer->named[function] = true;
	utf8_escape(&safe, functions_name(&writer->functions, function));
	fprintf(writer->file, "%s=(%u) %s\n", key, function, strbuf_text(&safe));
	strbuf_deinit(&safe);
}

static void object_write(struct writer *writer, const char *key, uint32_t function)
{
	name_write(writer->file, key,
		   name_of_module(writer->profile, functions_module(&writer->functions, function)));
}

static void row_write(struct writer *writer, const struct row *row, const struct row *last)
{
	const char *path = name_of_file(writer->profile, row->file);

	if (!last || last->function != row->function || last->file != row->file) {
		fputc('\n', writer->file);
		object_write(writer, "ob", row->function);
		name_write(writer->file, "fl", path ? path : "\?\?\?");
		function_write(writer, "fn", row->function);
	}
	if (row->callee) {
		object_write(writer, "cob", row->callee);
		function_write(writer, "cfn", row->callee);
		fputs("calls=1 0\n", writer->file);
	}
	fprintf(writer->file, "%u %" PRIu64 "\n", row->line, row->count);
}

static void head_write(struct writer *writer, const char *event, bool losses)
{
	const char *command = profile_meta(writer->profile, "command");
	uint64_t summary = writer->forest->selected;

	for (size_t i = 0; losses && i < writer->profile->loss_count; i++)
		summary += writer->profile->losses[i].count;
	fputs("# callgrind format\nversion: 1\ncreator: assay\n", writer->file);
	if (command) {
		struct strbuf safe = {};

		utf8_escape(&safe, command);
		fprintf(writer->file, "cmd: %s\n", strbuf_text(&safe));
		strbuf_deinit(&safe);
	}
	fprintf(writer->file, "positions: line\nevents: %s\nsummary: %" PRIu64 "\n", event,
		summary);
}

static void losses_write(const struct writer *writer)
{
	for (size_t i = 0; i < writer->profile->loss_count; i++)
		fprintf(writer->file, "\nob=\?\?\?\nfl=\?\?\?\nfn=[lost: %s]\n0 %" PRIu64 "\n",
			writer->profile->losses[i].name, writer->profile->losses[i].count);
}

static void writer_deinit(struct writer *writer)
{
	functions_deinit(&writer->functions);
	forest_destroy(writer->forest);
	map_deinit(&writer->files);
	map_deinit(&writer->places);
	map_deinit(&writer->indexes);
	array_deinit(&writer->rows);
	free(writer->named);
}

int export_callgrind(const struct profile *profile, const struct export_options *options,
		     FILE *file)
{
	struct writer writer = {
		.profile = profile,
		.forest = forest_create(profile, &options->filter, FOREST_CODE_SAMPLES),
		.file = file,
	};
	bool losses = filter_is_empty(&options->filter);

	functions_init(&writer.functions, writer.forest, NULL);
	writer.named = mem_zalloc(writer.functions.count + 1);
	forest_walk(writer.forest, node_enter, node_leave, &writer);
	if (writer.rows.count)
		qsort(writer.rows.items, writer.rows.count, sizeof(*writer.rows.items), row_order);
	head_write(&writer, options->executed ? "Instructions" : "Samples", losses);
	for (size_t i = 0; i < writer.rows.count && !ferror(file); i++)
		row_write(&writer, &writer.rows.items[i], i ? &writer.rows.items[i - 1] : NULL);
	if (losses)
		losses_write(&writer);
	writer_deinit(&writer);
	return 0;
}
