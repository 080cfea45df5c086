// SPDX-License-Identifier: BSD-2-Clause
/*
 * Merging, table by table, as tables.def describes them.
 *
 * The ids of a part mean nothing outside of it. So each row of a part gets the ids of the merged
 * profile in the place of its own references, which have been given before because a table comes
 * after those it refers to. What then happens to the row depends on its table:
 *
 *	with ids	the row has the id of the row that is the same, or a new one: rows are the
 *			same if all their columns are, except as said at identity() below
 *	keyed		it is written, or added to the row of the same key if the table has
 *			columns of type SUM
 *	others		as the functions below say
 *
 * A table that is added later is merged by its description; this file changes only if that is not
 * enough.
 *
 * Invariants
 * 1. What is written depends on the order of the parts only in the ids, and in which of several
 *    lists or ties is kept where all are right.
 * 2. A process whose order of execution was recorded is no other part's process: its paths
 *    have numbers of their own. Its blocks are not other parts' blocks either, but keep
 *    their order, so that the numbers in its paths only need another base.
 */
#include "store/merge_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/leftover.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "store/container.h"
#include "store/place.h"
#include "store/store_private.h"
#include "store/store_profile.h"

#define field(row, offset, type) (*(type *)((char *)(row) + (offset)))

/* Facts of a recording that must be the same in all parts. */
#define SAME_FACTS(X)                                                                              \
	X(SAMPLES, "event")                                                                        \
	X(SAMPLES, "unit")                                                                         \
	X(SAMPLES, "period")                                                                       \
	X(EXECUTED, "order_format")

static void part_deinit(struct part *part)
{
	for (int i = 0; i < STORE_TABLE_COUNT; i++)
		free(part->ids[i]);
	free(part->ordered);
	map_deinit(&part->occurrences);
	profile_code_destroy(part->code);
	profile_destroy(part->profile);
}

static void merge_deinit(struct merge *merge)
{
	progress_end(&merge->progress);
	strtab_deinit(&merge->keys);
	map_deinit(&merge->by_key);
	map_deinit(&merge->stacks);
	map_deinit(&merge->ranks);
	map_deinit(&merge->hashes);
	map_deinit(&merge->values_by_key);
	map_deinit(&merge->names_by_value);
	array_each(&merge->facts, fact)
		free(*fact);
	array_deinit(&merge->facts);
	array_each(&merge->modules, module)
		free(module->path);
	array_deinit(&merge->modules);
	array_each(&merge->values, value)
		free((void *)value->row.list);
	array_deinit(&merge->values);
	array_each(&merge->names, name)
		free(name->text);
	array_deinit(&merge->names);
	store_destroy(merge->store);
}

/* --- What rows are the same by ------------------------------------------------------- */

static uint64_t number_at(const struct store_column *column, const void *row)
{
	const char *at = (const char *)row + column->offset;

	switch (column->type) {
	case STORE_FLAG:
		return *(const bool *)at;
	case STORE_COUNT:
	case STORE_SUM:
	case STORE_MOST:
	case STORE_BITS:
	case STORE_USER:
		return *(const uint64_t *)at;
	default:
		return *(const uint32_t *)at;
	}
}

static bool is_text(enum store_type type)
{
	return type == STORE_TEXT || type == STORE_TEXT_OR_NULL || type == STORE_LAST_PART;
}

/*
 * No two different rows have the same text: numbers end where texts, which have their lengths
 * before them, begin.
 */
static void key_add(struct strbuf *key, const struct store_column *column, const void *row)
{
	if (is_text(column->type)) {
		const char *text = field(row, column->offset, const char *const);

		strbuf_printf(key, "%zu\"%s", strlen(text), text);
	} else {
		strbuf_printf(key, "%" PRIx64 ",", number_at(column, row));
	}
}

static void key_of_row(struct strbuf *key, enum store_table_id table, const void *row)
{
	strbuf_printf(key, "%d:", table);
	for (const struct store_column *column = store_tables[table].columns(); column->name;
	     column++)
		if (column->type != STORE_ID && column->type != STORE_LATER)
			key_add(key, column, row);
}

/*
 * Files with the same build-id are the same, wherever they lie; addresses of kernels and of
 * processes are theirs.
 */
static void key_of_module(struct strbuf *key, const struct profile_module *module)
{
	bool of_process = module->kind == MODULE_JIT || module->kind == MODULE_ANON;

	strbuf_printf(key, "%d:%d,%u,%u,%s\"%s", STORE_TABLE_module, module->kind,
		      of_process ? module->process : 0,
		      module->kind == MODULE_KERNEL ? module->machine : 0,
		      *module->build_id ? "id" : "path",
		      *module->build_id ? module->build_id : module->path);
}

/* Whether rows of a part may be alike and yet not the same. */
static bool has_twins(enum store_table_id table)
{
	return table == STORE_TABLE_process || table == STORE_TABLE_thread;
}

static bool is_ordered_process(const struct part *part, enum store_table_id table, uint32_t id)
{
	return table == STORE_TABLE_process && part->ordered[id];
}

/*
 * The place of the id of the row that is the same; 0: there is none yet. old: the row's id in its
 * part.
 */
static uint64_t *identity(struct merge *merge, struct part *part, enum store_table_id table,
			  const void *row, uint32_t old)
{
	struct strbuf key = {};
	uint64_t *place;

	if (table == STORE_TABLE_stack) {
		const struct profile_stack *stack = row;

		return map_at(&merge->stacks, (uint64_t)stack->parent << 32 | stack->location,
			      NULL);
	}
	if (table == STORE_TABLE_module)
		key_of_module(&key, row);
	else
		key_of_row(&key, table, row);
	if (is_ordered_process(part, table, old) || (table == STORE_TABLE_block && part->has_order))
		strbuf_printf(&key, "part %u, %u", merge->part, old);
	if (has_twins(table)) {
		uint32_t number = strtab_add(&merge->keys, strbuf_text(&key));

		strbuf_printf(&key, "#%" PRIu64, ++*map_at(&part->occurrences, number, NULL));
	}
	place = map_at(&merge->by_key, strtab_add(&merge->keys, strbuf_text(&key)), NULL);
	strbuf_deinit(&key);
	return place;
}

/* --- Rows ---------------------------------------------------------------------------- */

static const char *rows_of(const struct profile *profile, enum store_table_id table,
			   size_t *ret_count)
{
	*ret_count = field(profile, store_tables[table].array_count, const size_t);
	return field(profile, store_tables[table].array, const char *const);
}

void merge_translate(const struct part *part, enum store_table_id table, const void *row, void *ret)
{
	memcpy(ret, row, store_tables[table].row_size);
	for (const struct store_column *column = store_tables[table].columns(); column->name;
	     column++) {
		uint32_t *id = &field(ret, column->offset, uint32_t);

		if (store_type_is_reference(column->type) && *id)
			*id = part->ids[column->table][*id];
	}
}

/*
 * Parts may have more or fewer details of a row: without debug information there are no lines.
 * Whether these details are the best so far, independent of the order of the parts: those with the
 * highest rank, and among different ones of the same rank those with the highest hash.
 */
static bool details_are_best(struct merge *merge, enum store_table_id table, uint32_t id,
			     uint64_t rank, uint64_t hash)
{
	uint64_t *best_rank = map_at(&merge->ranks, (uint64_t)table << 32 | id, NULL);
	uint64_t *best_hash = map_at(&merge->hashes, (uint64_t)table << 32 | id, NULL);

	if (rank < *best_rank || (rank == *best_rank && hash <= *best_hash))
		return false;
	*best_rank = rank;
	*best_hash = hash;
	return true;
}

static int symbol_code_copy(struct merge *merge, struct part *part, uint32_t old, uint32_t id)
{
	AUTO(free_ptr) void *code = NULL;
	size_t size = 0;
	int err = profile_code_get(part->code, old, &code, &size);

	if (err == -ENOENT)
		return 0;
	if (err || !details_are_best(merge, STORE_TABLE_symbol, id, size, hash_bytes(code, size)))
		return err;
	return store_symbol_code_put(merge->store, (struct symbol_id){ id }, code, size);
}

/*
 * The path that comes first in the alphabet, whatever comes first in time; no machine if there are
 * several.
 */
static int module_unite(struct merge *merge, const struct profile_module *row, uint32_t id)
{
	struct merge_module *module;
	bool changed = false;

	while (merge->modules.count <= id)
		*array_push(&merge->modules) = (struct merge_module){};
	module = &merge->modules.items[id];
	if (!module->path) {
		module->row = *row;
		changed = true;
	}
	if (!module->path || strcmp(row->path, module->path) < 0) {
		free(module->path);
		module->path = mem_strdup(row->path);
		changed = true;
	}
	changed |= module->row.machine != row->machine || module->row.deleted != row->deleted;
	if (!changed)
		return 0;
	module->row.id = id;
	module->row.name = NULL;
	module->row.path = module->path;
	module->row.build_id = row->build_id;
	module->row.deleted |= row->deleted;
	if (module->row.machine != row->machine)
		module->row.machine = 0;
	return store_put(merge->store, STORE_TABLE_module, &module->row);
}

static int id_row_merge(struct merge *merge, struct part *part, enum store_table_id table,
			const void *row, uint32_t old)
{
	_Alignas(8) char copy[STORE_ROW_MAX];
	uint64_t *id;
	bool fresh;
	int err = 0;

	merge_translate(part, table, row, copy);
	id = identity(merge, part, table, copy, old);
	fresh = !*id;
	if (fresh)
		*id = ++merge->ids[table];
	part->ids[table][old] = (uint32_t)*id;
	if (table == STORE_TABLE_module)
		return module_unite(merge, (const struct profile_module *)copy, (uint32_t)*id);
	field(copy, store_tables[table].columns()->offset, uint32_t) = (uint32_t)*id;
	if (fresh)
		err = store_put(merge->store, table, copy);
	if (!err && table == STORE_TABLE_symbol)
		err = symbol_code_copy(merge, part, old, part->ids[table][old]);
	return err;
}

/* Parents are given their ids first, wherever they stand. */
static int process_merge(struct merge *merge, struct part *part, uint32_t old)
{
	const struct profile_process *row = &part->profile->processes[old];
	int err = 0;

	if (part->ids[STORE_TABLE_process][old] || !row->id)
		return 0;
	if (row->parent)
		err = process_merge(merge, part, row->parent);
	return err ? err : id_row_merge(merge, part, STORE_TABLE_process, row, old);
}

static int id_rows_merge(struct merge *merge, struct part *part, enum store_table_id table)
{
	size_t count;
	const char *rows = rows_of(part->profile, table, &count);
	int err = 0;

	if (table == STORE_TABLE_block && part->has_order)
		part->block_base = merge->ids[table];
	for (uint32_t i = 1; i < count && !err; i++) {
		const char *row = rows + i * store_tables[table].row_size;

		if (table == STORE_TABLE_process)
			err = process_merge(merge, part, i);
		else if (field(row, store_tables[table].columns()->offset, const uint32_t))
			err = id_row_merge(merge, part, table, row, i);
	}
	return err;
}

/* --- Recordings ---------------------------------------------------------------------- */

static int fact_check(struct merge *merge, const struct part *part, enum recording_kind kind,
		      const char *key, char **known)
{
	const char *value = profile_fact(part->profile, kind, key);

	if (!value)
		return 0;
	if (profile_fact_count(part->profile, kind, key) > 1)
		return err_set(
			-EINVAL,
			"%s: its %s was changed while it was recorded (assay ctl): its counts "
			"do not add up with others",
			part->path, key);
	if (!*known)
		*known = mem_strdup(value);
	if (!strcmp(*known, value))
		return 0;
	return err_set(-EINVAL,
		       "%s: has %s %s, what was merged before has %s (from %s on): counts of both "
		       "do not add up; merge only recordings that were made alike",
		       part->path, key, value, *known, merge->first_path);
}

static int facts_check(struct merge *merge, const struct part *part)
{
	static const struct {
		enum recording_kind kind;
		const char *key;
	} same[] = {
#define X(kind, key) { RECORDING_##kind, key },
		SAME_FACTS(X)
#undef X
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(same) / sizeof(*same) && !err; i++) {
		if (merge->facts.count <= i)
			*array_push(&merge->facts) = NULL;
		err = fact_check(merge, part, same[i].kind, same[i].key, &merge->facts.items[i]);
	}
	return err;
}

/* Coverage says of a block whether it was executed, other tools how often. */
static int coverage_check(struct merge *merge, const struct part *part)
{
	const char *tool = profile_fact(part->profile, RECORDING_EXECUTED, "tool");
	bool coverage = tool && !strcmp(tool, "coverage");

	if (!tool)
		return 0;
	if (merge->recordings[RECORDING_EXECUTED].id && merge->coverage != coverage)
		return err_set(-EINVAL,
			       "%s: made by the tool %s, and what was merged before by another: "
			       "whether code was executed and how often do not add up",
			       part->path, tool);
	merge->coverage = coverage;
	return 0;
}

static int sum_add(const struct part *part, uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum) || *sum > INT64_MAX)
		return err_set(-EOVERFLOW,
			       "%s: too much to be merged with the others: the sums do "
			       "not fit",
			       part->path);
	return 0;
}

static int recordings_merge(struct merge *merge, struct part *part)
{
	int err = facts_check(merge, part);

	err = err ? err : coverage_check(merge, part);
	for (size_t i = 1; i < part->profile->recording_count && !err; i++) {
		const struct profile_recording *row = &part->profile->recordings[i];
		struct profile_recording *sum = &merge->recordings[row->kind];

		if (!row->id)
			continue;
		if (!sum->id) {
			sum->id = ++merge->ids[STORE_TABLE_recording];
			sum->kind = row->kind;
			sum->started = row->started;
		}
		part->ids[STORE_TABLE_recording][i] = sum->id;
		if (row->started < sum->started)
			sum->started = row->started;
		sum->parts += row->parts;
		if ((err = sum_add(part, &sum->seen, row->seen)) ||
		    (err = sum_add(part, &sum->kept, row->kept)))
			return err;
		err = sum_add(part, &sum->duration, row->duration);
	}
	return err;
}

static int recordings_write(struct merge *merge)
{
	int err = 0;

	for (int i = 0; i < RECORDING_KIND_COUNT && !err; i++) {
		merge->recordings[i].unit = recording_kind_row(i)->unit;
		if (merge->recordings[i].id)
			err = store_put(merge->store, STORE_TABLE_recording, &merge->recordings[i]);
	}
	return err;
}

/* --- Other tables -------------------------------------------------------------------- */

static int row_put(struct merge *merge, const struct part *part, enum store_table_id table,
		   const void *row)
{
	_Alignas(8) char copy[STORE_ROW_MAX];

	merge_translate(part, table, row, copy);
	return store_put(merge->store, table, copy);
}

static uint64_t text_hash(uint64_t hash, const char *text)
{
	return hash64_pair(hash, hash_bytes(text, strlen(text)));
}

/* More frames are better than fewer, and known lines than unknown ones. */
static int location_frames_merge(struct merge *merge, struct part *part, uint32_t old)
{
	const struct profile *p = part->profile;
	const struct profile_location *location = &p->locations[old];
	const struct profile_frame *frames = p->frames + location->first_frame;
	uint64_t rank = (uint64_t)location->frame_count << 32, hash = 0;
	int err = 0;

	for (uint32_t i = 0; i < location->frame_count; i++) {
		rank += frames[i].file && frames[i].line;
		hash = text_hash(hash, p->symbols[frames[i].symbol].name);
		hash = text_hash(hash, p->files[frames[i].file].path);
		hash = hash64_pair(hash, frames[i].line);
	}
	if (!details_are_best(merge, STORE_TABLE_location, part->ids[STORE_TABLE_location][old],
			      rank, hash))
		return 0;
	for (uint32_t i = 0; i < location->frame_count && !err; i++)
		err = row_put(merge, part, STORE_TABLE_frame, &frames[i]);
	return err;
}

static int frames_merge(struct merge *merge, struct part *part)
{
	int err = 0;

	for (uint32_t i = 1; i < part->profile->location_count && !err; i++)
		err = location_frames_merge(merge, part, i);
	return err;
}

/* A block that is divided into more parts has better line information. */
static int block_parts_merge(struct merge *merge, struct part *part)
{
	const struct profile *p = part->profile;
	int err = 0;

	for (uint32_t i = 1; i < p->block_count && !err; i++) {
		const struct profile_block_part *parts = p->block_parts + p->blocks[i].first_part;
		uint32_t count = p->blocks[i].part_count;
		uint64_t hash = 0;

		for (uint32_t j = 0; j < count; j++)
			hash = hash64_pair(hash, p->locations[parts[j].location].address);
		if (!details_are_best(merge, STORE_TABLE_block, part->ids[STORE_TABLE_block][i],
				      count, hash))
			continue;
		for (uint32_t j = 0; j < count && !err; j++)
			err = row_put(merge, part, STORE_TABLE_block_part, &parts[j]);
	}
	return err;
}

/* Whether the row has not been there yet. */
static bool row_is_new(struct merge *merge, enum store_table_id table, const void *row)
{
	struct strbuf key = {};
	bool fresh;

	key_of_row(&key, table, row);
	map_at(&merge->by_key, strtab_add(&merge->keys, strbuf_text(&key)), &fresh);
	strbuf_deinit(&key);
	return fresh;
}

/* A line that one part executed was executed, whatever others say. */
static int covered_line_merge(struct merge *merge, struct profile_source_line *row)
{
	uint64_t count = row->count;
	bool fresh;

	row->count = 0;
	fresh = row_is_new(merge, STORE_TABLE_source_line, row);
	row->count = count;
	return fresh || count ? store_put(merge->store, STORE_TABLE_source_line, row) : 0;
}

static int row_merge(struct merge *merge, const struct part *part, enum store_table_id table,
		     void *row)
{
	switch (table) {
	case STORE_TABLE_mapping:
		if (!row_is_new(merge, table, row))
			return 0;
		break;
	case STORE_TABLE_tick:
		((struct profile_tick *)row)->second += part->later;
		break;
	case STORE_TABLE_cpu_tick:
		((struct profile_cpu_tick *)row)->second += part->later;
		break;
	case STORE_TABLE_moment:
		((struct profile_moment *)row)->second += part->later;
		break;
	case STORE_TABLE_path_table:
		((struct profile_path_table *)row)->base += part->block_base;
		break;
	case STORE_TABLE_source_line:
		if (merge->coverage)
			return covered_line_merge(merge, row);
		break;
	case STORE_TABLE_execution:
		if (merge->coverage)
			return store_put(merge->store, table, row);
		break;
	default:
		break;
	}
	return store_row_merge(merge->store, table, row);
}

static int rows_merge(struct merge *merge, struct part *part, enum store_table_id table)
{
	_Alignas(8) char copy[STORE_ROW_MAX];
	size_t count;
	const char *rows = rows_of(part->profile, table, &count);
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		merge_translate(part, table, rows + i * store_tables[table].row_size, copy);
		err = row_merge(merge, part, table, copy);
	}
	return err;
}

static int table_merge(struct merge *merge, struct part *part, enum store_table_id table)
{
	switch (table) {
	case STORE_TABLE_meta:
	case STORE_TABLE_stack_total:
		return 0; /* the store's own */
	case STORE_TABLE_recording:
		return recordings_merge(merge, part);
	case STORE_TABLE_value:
		merge_values_take(merge, part);
		return 0;
	case STORE_TABLE_value_name:
		merge_names_take(merge, part);
		return 0;
	case STORE_TABLE_frame:
		return frames_merge(merge, part);
	case STORE_TABLE_block_part:
		return block_parts_merge(merge, part);
	default:
		return store_style_has_ids(store_tables[table].style)
			       ? id_rows_merge(merge, part, table)
			       : rows_merge(merge, part, table);
	}
}

/* --- Parts --------------------------------------------------------------------------- */

static void ordered_find(struct part *part)
{
	const struct profile *p = part->profile;

	part->ordered = mem_zalloc(p->process_count);
	for (size_t i = 0; i < p->path_table_count; i++)
		part->ordered[p->path_tables[i].process] = true;
	for (size_t i = 0; i < p->flow_count; i++)
		part->ordered[p->threads[p->flows[i].thread].process] = true;
	for (size_t i = 0; i < p->layer_count; i++)
		part->ordered[p->threads[p->layers[i].thread].process] = true;
	for (size_t i = 0; i < p->process_count; i++)
		part->has_order |= part->ordered[i];
}

static int part_open(const char *path, struct part *ret)
{
	int err = profile_load(path, DOMAIN_ALL, &ret->profile);

	ret->path = path;
	if (err)
		return err;
	if (!ret->profile->finished)
		return err_set(-EINVAL,
			       "%s: its recording has not ended; when it has, or was killed, assay "
			       "report -i %s completes it",
			       path, path);
	ordered_find(ret);
	for (int i = 0; i < STORE_TABLE_COUNT; i++) {
		size_t count;

		rows_of(ret->profile, (enum store_table_id)i, &count);
		if (store_style_has_ids(store_tables[i].style))
			ret->ids[i] = mem_zalloc(count * sizeof(*ret->ids[i]));
	}
	return profile_code_create(path, &ret->code);
}

/* When the samples of all parts began, s since 1970. */
static int start_find(const char *const paths[], size_t count, uint64_t *ret)
{
	uint64_t start = UINT64_MAX;

	for (size_t i = 0; i < count; i++) {
		AUTO(profile_destroy_auto) struct profile *profile = NULL;
		const struct profile_recording *samples;
		int err = profile_open(paths[i], &profile);

		if (err)
			return err;
		samples = profile_recording(profile, RECORDING_SAMPLES);
		if (samples && samples->started / NS_PER_S < start)
			start = samples->started / NS_PER_S;
	}
	*ret = start;
	return 0;
}

/* Seconds count from the beginning of the merged recording. */
static uint32_t later_than(const struct profile *profile, uint64_t start)
{
	const struct profile_recording *samples = profile_recording(profile, RECORDING_SAMPLES);

	return samples ? (uint32_t)(samples->started / NS_PER_S - start) : 0;
}

static int part_merge(struct merge *merge, const char *path)
{
	AUTO(part_deinit) struct part part = {};
	int err = part_open(path, &part);

	if (!merge->part++)
		merge->first_path = path;
	if (!err)
		part.later = later_than(part.profile, merge->start);
	for (int i = 0; i < STORE_TABLE_COUNT && !err; i++)
		err = table_merge(merge, &part, (enum store_table_id)i);
	return err ? err : store_commit(merge->store);
}

static int merged_write(struct merge *merge, const char *const paths[], size_t count)
{
	int err = start_find(paths, count, &merge->start);

	for (size_t i = 0; i < count && !err; i++) {
		progress_set(&merge->progress, i, count);
		err = part_merge(merge, paths[i]);
	}
	if (err || (err = recordings_write(merge)) || (err = merge_values_write(merge)) ||
	    (err = merge_names_write(merge)))
		return err;
	return store_finish(merge->store);
}

/* A merge that is interrupted leaves nothing behind. */
static int merge_make(struct merge *merge, const char *const paths[], size_t count,
		      const char *name, const char *output)
{
	int leftovers[PLACE_LEFTOVERS], err;
	sigset_t before;

	leftover_signals_hold(&before);
	err = store_create(name, &merge->store);
	if (!err)
		place_leftovers(&merge->store->place, leftovers);
	leftover_signals_release(&before);
	if (err)
		return err;
	err = store_sync_at_end(merge->store);
	err = err ? err : merged_write(merge, paths, count);
	if (err) {
		AUTO(free_ptr) char *why = mem_strdup(err_text());

		store_abandon(take_ptr(merge->store));
		err_set(err, "%s", why);
	} else {
		store_destroy(take_ptr(merge->store));
		err = store_place(name, output);
	}
	for (size_t i = 0; i < PLACE_LEFTOVERS; i++)
		leftover_forget(leftovers[i]);
	return err;
}

int merge_profiles(const char *const paths[], size_t count, const char *output,
		   const struct merge_options *options)
{
	AUTO(merge_deinit) struct merge merge = { .options = options };
	AUTO(free_ptr)
	char *name = mem_printf("%s.merge-%ld", output, (long)getpid());

	AUTO(place_close) struct place place = PLACE_NONE;
	int err = place_open(&place, output); /* which is the name that its message has */

	if (err)
		return err;
	progress_begin(&merge.progress, "merging");
	return merge_make(&merge, paths, count, name, output);
}
