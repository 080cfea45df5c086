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

struct grind {
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

static struct row *row_at(struct grind *grind, uint32_t slot, uint32_t callee)
{
	const struct slot *at = &grind->forest->slots[slot];
	uint32_t function = grind->functions.entity[slot];
	uint64_t file = number_of(&grind->files, (uint64_t)function << 32 | at->file);
	uint64_t place = number_of(&grind->places, file << 32 | at->line);
	uint64_t index = number_of(&grind->indexes, place << 32 | callee);

	if (index > grind->rows.count)
		*array_push(&grind->rows) =
			(struct row){ function, at->file, at->line, callee, 0, 0 };
	return &grind->rows.items[index - 1];
}

/* The slot that calls the outermost function of a node; UINT32_MAX: none does. */
static uint32_t slot_above(const struct grind *grind, uint32_t node)
{
	uint32_t parent = grind->profile->stacks[node].parent;

	return parent ? forest_slot_begin(grind->forest, parent) : UINT32_MAX;
}

/* Calls change for each call that the node adds to the path, the outermost first. */
static void calls_change(struct grind *grind, uint32_t node, bool enter)
{
	uint32_t begin = forest_slot_begin(grind->forest, node), above = slot_above(grind, node);

	for (uint32_t slot = forest_slot_end(grind->forest, node); slot-- > begin; above = slot) {
		uint32_t callee = grind->functions.entity[slot];
		struct row *row;

		if (above == UINT32_MAX || grind->functions.entity[above] == callee)
			continue;
		row = row_at(grind, above, callee);
		if (enter && !row->on_path++)
			row->count += grind->forest->cum[node];
		if (!enter)
			row->on_path--;
	}
}

static void node_enter(void *ctx, uint32_t node)
{
	struct grind *grind = ctx;

	calls_change(grind, node, true);
	if (grind->forest->own[node])
		row_at(grind, forest_slot_begin(grind->forest, node), 0)->count +=
			grind->forest->own[node];
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
static void function_write(struct grind *grind, const char *key, uint32_t function)
{
	struct strbuf safe = {};

	if (grind->named[function]) {
		fprintf(grind->file, "%s=(%u)\n", key, function);
		return;
	}
	grind->named[function] = true;
	utf8_escape(&safe, functions_name(&grind->functions, function));
	fprintf(grind->file, "%s=(%u) %s\n", key, function, strbuf_text(&safe));
	strbuf_deinit(&safe);
}

static void object_write(struct grind *grind, const char *key, uint32_t function)
{
	name_write(grind->file, key,
		   name_of_module(grind->profile, functions_module(&grind->functions, function)));
}

static void row_write(struct grind *grind, const struct row *row, const struct row *last)
{
	const char *path = name_of_file(grind->profile, row->file);

	if (!last || last->function != row->function || last->file != row->file) {
		fputc('\n', grind->file);
		object_write(grind, "ob", row->function);
		name_write(grind->file, "fl", path ? path : "\?\?\?");
		function_write(grind, "fn", row->function);
	}
	if (row->callee) {
		object_write(grind, "cob", row->callee);
		function_write(grind, "cfn", row->callee);
		fputs("calls=1 0\n", grind->file);
	}
	fprintf(grind->file, "%u %" PRIu64 "\n", row->line, row->count);
}

static void head_write(struct grind *grind, const char *event, bool losses)
{
	const char *command = profile_meta(grind->profile, "command");
	uint64_t summary = grind->forest->selected;

	for (size_t i = 0; losses && i < grind->profile->loss_count; i++)
		summary += grind->profile->losses[i].count;
	fputs("# callgrind format\nversion: 1\ncreator: assay\n", grind->file);
	if (command) {
		struct strbuf safe = {};

		utf8_escape(&safe, command);
		fprintf(grind->file, "cmd: %s\n", strbuf_text(&safe));
		strbuf_deinit(&safe);
	}
	fprintf(grind->file, "positions: line\nevents: %s\nsummary: %" PRIu64 "\n", event, summary);
}

static void losses_write(const struct grind *grind)
{
	for (size_t i = 0; i < grind->profile->loss_count; i++)
		fprintf(grind->file, "\nob=\?\?\?\nfl=\?\?\?\nfn=[lost: %s]\n0 %" PRIu64 "\n",
			grind->profile->losses[i].name, grind->profile->losses[i].count);
}

static void grind_deinit(struct grind *grind)
{
	functions_deinit(&grind->functions);
	forest_destroy(grind->forest);
	map_deinit(&grind->files);
	map_deinit(&grind->places);
	map_deinit(&grind->indexes);
	array_deinit(&grind->rows);
	free(grind->named);
}

int export_callgrind(const struct profile *profile, const struct export_options *options,
		     FILE *file)
{
	struct grind grind = {
		.profile = profile,
		.forest = forest_create(profile, &options->filter, FOREST_CODE_SAMPLES),
		.file = file,
	};
	bool losses = filter_is_empty(&options->filter);

	functions_init(&grind.functions, grind.forest, NULL);
	grind.named = mem_zalloc(grind.functions.count + 1);
	forest_walk(grind.forest, node_enter, node_leave, &grind);
	if (grind.rows.count)
		qsort(grind.rows.items, grind.rows.count, sizeof(*grind.rows.items), row_order);
	head_write(&grind, options->executed ? "Instructions" : "Samples", losses);
	for (size_t i = 0; i < grind.rows.count && !ferror(file); i++)
		row_write(&grind, &grind.rows.items[i], i ? &grind.rows.items[i - 1] : NULL);
	if (losses)
		losses_write(&grind);
	grind_deinit(&grind);
	return 0;
}
