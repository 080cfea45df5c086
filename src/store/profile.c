// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads a profile into arrays, and believes nothing on the way.
 *
 * Each table is read once, in the order of its primary key, by a function that turns a row into an
 * array element. Tables come after the tables they refer to, so that a reference can be checked
 * when it is met. All reads happen in one transaction: with the collector still running, the result
 * is the profile as of one commit. The samples of an unfinished profile lie in two tables and are
 * added up here. profile_reader.c has what bounds the work, profile_values.c the tables of values.
 */
#include "store/profile.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/container.h"
#include "store/profile_reader.h"
#include "store/store_private.h"

enum { MEMORY_MIN = 1 << 20 /* bytes of strings that any file may have */ };

static enum module_kind module_kind(struct reader *reader, int column)
{
	enum module_kind kind = MODULE_ANON;

	if (!module_kind_find((const char *)sqlite3_column_text(reader->row, column), &kind))
		reader_wrong(reader, "a module is of no known kind");
	return kind;
}

static void meta_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_named_count *meta = entry_at(p->meta, p->meta_count, p->meta_count);

	meta->name = reader_text(reader, 0);
	meta->text = reader_text(reader, 1);
	if (reader->rows > 1 && strcmp(meta[-1].name, meta->name) >= 0)
		reader_wrong(reader, "rows are out of order");
}

static void process_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);
	struct profile_process *process = entry_at(p->processes, p->process_count, id);

	process->parent = reader_is_null(reader, 1) ? 0 : reader_number32(reader, 1);
	process->pid = reader_number32(reader, 2);
	process->ppid = reader_number32(reader, 3);
	process->uid = reader_user_id(reader, 4);
	process->gid = reader_user_id(reader, 5);
	process->euid = reader_user_id(reader, 6);
	process->egid = reader_user_id(reader, 7);
	process->comm = reader_text(reader, 8);
	process->exe = reader_optional_text(reader, 9);
	process->cgroup = reader_optional_text(reader, 10);
	process->started = reader_bits(reader, 11);
	process->ended = reader_bits(reader, 12);
}

static void thread_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);
	struct profile_thread *thread = entry_at(p->threads, p->thread_count, id);

	thread->process = reader_reference(reader, 1, p->processes, p->process_count, comm);
	thread->tid = reader_number32(reader, 2);
	thread->comm = reader_text(reader, 3);
}

static void module_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);
	struct profile_module *module = entry_at(p->modules, p->module_count, id);

	module->kind = module_kind(reader, 1);
	module->name = reader_text(reader, 2);
	module->path = reader_text(reader, 3);
	module->build_id = reader_optional_text(reader, 4);
}

static void file_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);

	*entry_at(p->files, p->file_count, id) = reader_text(reader, 1);
}

static void symbol_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);
	struct profile_symbol *symbol = entry_at(p->symbols, p->symbol_count, id);

	symbol->module = reader_reference(reader, 1, p->modules, p->module_count, path);
	symbol->name = reader_text(reader, 2);
	symbol->linkage = reader_is_null(reader, 3) ? symbol->name : reader_text(reader, 3);
	symbol->address = reader_bits(reader, 4);
	symbol->size = reader_bits(reader, 5);
	symbol->inlined = reader_number(reader, 6, 1);
}

static void location_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);
	struct profile_location *location;

	if (id != reader->rows)
		reader_wrong(reader, "an id is missing");
	location = entry_at(p->locations, p->location_count, reader->rows);
	location->module = reader_reference(reader, 1, p->modules, p->module_count, path);
	location->address = reader_bits(reader, 2);
}

static uint32_t frame_file(struct reader *reader, int column)
{
	struct profile *p = reader->profile;
	uint64_t id = reader_is_null(reader, column) ? 0 : reader_bits(reader, column);

	if (id < p->file_count && (id == 0 || p->files[id]))
		return (uint32_t)id;
	if (id)
		reader_wrong(reader, "a reference points nowhere");
	return 0;
}

static void frame_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t at = reader_reference(reader, 0, p->locations, p->location_count, module);
	uint32_t depth = reader_number32(reader, 1);
	struct profile_frame *frame = entry_at(p->frames, p->frame_count, reader->rows);

	reader_key_check(reader, at, depth);
	if (depth != p->locations[at].frame_count)
		reader_wrong(reader, "a frame is missing");
	if (depth == 0)
		p->locations[at].first_frame = (uint32_t)reader->rows;
	p->locations[at].frame_count = depth + 1;
	frame->symbol = reader_reference(reader, 2, p->symbols, p->symbol_count, name);
	frame->file = frame_file(reader, 3);
	frame->line = reader_number32(reader, 4);
}

static void stack_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);
	struct profile_stack *stack;

	if (id != reader->rows)
		reader_wrong(reader, "an id is missing");
	stack = entry_at(p->stacks, p->stack_count, reader->rows);
	stack->parent = reader_number32(reader, 1);
	if (stack->parent >= reader->rows)
		reader_wrong(reader, "a stack comes before its parent");
	stack->location = reader_reference(reader, 2, p->locations, p->location_count, module);
}

/* In the columns from 0 on: stack, thread, count, kernel. */
static struct profile_sample *samples_add(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_sample *sample = entry_at(p->samples, p->sample_count, p->sample_count);

	sample->stack = reader_reference(reader, 0, p->stacks, p->stack_count, location);
	sample->thread = reader_reference(reader, 1, p->threads, p->thread_count, comm);
	sample->count = reader_count(reader, 2);
	sample->kernel = reader_number(reader, 3, sample->count);
	if (__builtin_add_overflow(p->kept, sample->count, &p->kept) || p->kept > INT64_MAX)
		reader_wrong(reader, "the counts are too large");
	return sample;
}

static void sample_read(struct reader *reader)
{
	const struct profile_sample *sample = samples_add(reader);

	reader_key_check(reader, sample->stack, sample->thread);
}

/* The samples of the last minute or so, not yet added up. */
static void recent_read(struct reader *reader)
{
	samples_add(reader);
	reader_key_check(reader, reader_count(reader, 4), 0);
}

static void loss_read(struct reader *reader)
{
	reader_named_count(reader, &reader->profile->losses, &reader->profile->loss_count);
}

static void stack_end_read(struct reader *reader)
{
	reader_named_count(reader, &reader->profile->stack_ends, &reader->profile->stack_end_count);
}

/*
 * In the order of reading. "not indexed" and "order by" the primary key together make SQLite walk
 * the table itself, whatever indexes somebody may have added.
 */
#define TABLES(X)                                                                                  \
	X(meta, "select key, value from meta not indexed order by key")                            \
	X(process, "select id, parent, pid, ppid, uid, gid, euid, egid, comm, exe, cgroup, "       \
		   "started, ended from process not indexed order by id")                          \
	X(thread, "select id, process, tid, comm from thread not indexed order by id")             \
	X(module, "select id, kind, name, path, build_id from module not indexed order by id")     \
	X(file, "select id, path from file not indexed order by id")                               \
	X(symbol, "select id, module, name, linkage, address, size, inlined "                      \
		  "from symbol not indexed order by id")                                           \
	X(location, "select id, module, address from location not indexed order by id")            \
	X(frame, "select location, depth, symbol, file, line "                                     \
		 "from frame not indexed order by location, depth")                                \
	X(stack, "select id, parent, location from stack not indexed order by id")                 \
	X(sample, "select stack, thread, count, kernel "                                           \
		  "from sample not indexed order by stack, thread")                                \
	X(recent, "select stack, thread, count, kernel, rowid "                                    \
		  "from recent not indexed order by rowid")                                        \
	X(loss, "select reason, text, count from loss not indexed "                                \
		"where count <> 0 order by reason")                                                \
	X(stack_end, "select reason, text, count from stack_end not indexed order by reason")

static int tables_read(struct reader *reader)
{
	static const struct reader_table tables[] = {
#define X(name, sql) { #name, sql, name##_read },
		TABLES(X)
#undef X
	};

	return reader_tables(reader, tables, sizeof(tables) / sizeof(*tables));
}

static int sample_compare(const void *left, const void *right)
{
	const struct profile_sample *a = left, *b = right;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Brings the rows of sample and recent together: one for each stack and thread, in that order. */
static void samples_merge(struct profile *p)
{
	size_t kept = 0;

	if (p->sample_count == 0)
		return;
	qsort(p->samples, p->sample_count, sizeof(*p->samples), sample_compare);
	for (size_t i = 1; i < p->sample_count; i++) {
		struct profile_sample *last = &p->samples[kept];

		if (sample_compare(last, &p->samples[i]) == 0) {
			last->count += p->samples[i].count;
			last->kernel += p->samples[i].kernel;
		} else {
			p->samples[++kept] = p->samples[i];
		}
	}
	p->sample_count = kept + 1;
}

/*
 * Parents that were never written are unknown. Each process is walked from once, up to what was
 * walked before.
 */
static int processes_check(struct reader *reader)
{
	struct profile *p = reader->profile;
	AUTO(free_ptr) uint32_t *walk = mem_zalloc(p->process_count * sizeof(*walk));

	for (uint32_t i = 1; i < p->process_count; i++) {
		struct profile_process *process = &p->processes[i];

		if (process->parent >= p->process_count || !p->processes[process->parent].comm)
			process->parent = 0;
	}
	for (uint32_t i = 1; i < p->process_count; i++) {
		uint32_t at = i;

		for (; at && !walk[at]; at = p->processes[at].parent)
			walk[at] = i;
		if (at && walk[at] == i)
			return err_set(-EBADMSG,
				       "%s: corrupt: process %u descends from itself; record again",
				       reader->path, at);
	}
	return 0;
}

/* Entry 0 and ids that were not given: zeroes and empty strings. */
static void gaps_fill(struct profile *p)
{
	for (size_t i = 0; i < p->process_count; i++) {
		struct profile_process *process = &p->processes[i];

		if (!process->comm)
			*process = (struct profile_process){ .uid = -1,
							     .gid = -1,
							     .euid = -1,
							     .egid = -1,
							     .comm = "",
							     .exe = "",
							     .cgroup = "" };
	}
	for (size_t i = 0; i < p->thread_count; i++) {
		if (!p->threads[i].comm)
			p->threads[i].comm = "";
	}
	for (size_t i = 0; i < p->module_count; i++) {
		if (!p->modules[i].path)
			p->modules[i] = (struct profile_module){ MODULE_ANON, "", "", "" };
	}
	for (size_t i = 0; i < p->symbol_count; i++) {
		if (!p->symbols[i].name)
			p->symbols[i].name = p->symbols[i].linkage = "";
	}
	for (size_t i = 0; i < p->file_count; i++) {
		if (!p->files[i])
			p->files[i] = "";
	}
	for (size_t i = 0; i < p->value_item_count; i++) {
		if (!p->value_items[i].text)
			p->value_items[i].text = p->value_items[i].class = "";
	}
}

/* Every array has its entry 0, also when its table is empty. */
static void arrays_begin(struct profile *p)
{
	entry_at(p->processes, p->process_count, 0);
	entry_at(p->threads, p->thread_count, 0);
	entry_at(p->modules, p->module_count, 0);
	entry_at(p->files, p->file_count, 0);
	entry_at(p->symbols, p->symbol_count, 0);
	entry_at(p->locations, p->location_count, 0);
	entry_at(p->frames, p->frame_count, 0);
	entry_at(p->stacks, p->stack_count, 0);
	entry_at(p->value_items, p->value_item_count, 0);
	entry_at(p->blocks, p->block_count, 0);
}

/*
 * seen counts what the sampler saw. A killed collector may have said so last before its last
 * samples.
 */
static int totals_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	const char *finished = profile_meta(p, "finished");
	const char *seen = profile_meta(p, "seen");
	uint64_t sum = p->kept;

	for (size_t i = 0; i < p->loss_count; i++) {
		if (__builtin_add_overflow(sum, p->losses[i].count, &sum) || sum > INT64_MAX)
			return err_set(-EBADMSG,
				       "%s: corrupt: the losses are too large; record again",
				       reader->path);
	}
	p->finished = finished && strcmp(finished, "1") == 0;
	p->seen = seen ? strtoull(seen, NULL, 10) : 0;
	if (p->seen > INT64_MAX)
		return err_set(-EBADMSG,
			       "%s: corrupt: the number of samples seen is too large; record again",
			       reader->path);
	if (p->seen < sum)
		p->seen = sum;
	return 0;
}

static size_t file_size(const char *path, const char *suffix)
{
	AUTO(free_ptr) char *name = mem_printf("%s%s", path, suffix);
	struct stat info;

	return stat(name, &info) ? 0 : (size_t)info.st_size;
}

static int profile_read(const char *path, bool flow, struct profile **ret)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	struct reader reader = { .path = path };
	int version = 0, err = container_open_read(path, &db, &version);

	if (err)
		return err;
	reader.profile = profile = mem_zalloc(sizeof(*profile));
	reader.db = db;
	reader.memory_left = MEMORY_MIN + 2 * (file_size(path, "") + file_size(path, "-wal"));
	arrays_begin(profile);
	if (sqlite3_exec(db, "begin", NULL, NULL, NULL))
		return container_error(db, path, "read");
	if ((err = tables_read(&reader)) || (err = processes_check(&reader)))
		return err;
	if (version >= STORE_VERSION_TRACE && (err = reader_trace(&reader)))
		return err;
	if (version >= STORE_VERSION_TRACE && flow && (err = reader_flow(&reader)))
		return err;
	if ((err = totals_read(&reader)))
		return err;
	if (version >= STORE_VERSION_VALUES && (err = reader_values(&reader)))
		return err;
	samples_merge(profile);
	gaps_fill(profile);
	*ret = take_ptr(profile);
	return 0;
}

int profile_load(const char *path, struct profile **ret)
{
	return profile_read(path, false, ret);
}

int profile_load_flow(const char *path, struct profile **ret)
{
	return profile_read(path, true, ret);
}

void profile_destroy(struct profile *profile)
{
	if (!profile)
		return;
	reader_memory_free(profile->memory);
	free(profile->modules);
	free(profile->processes);
	free(profile->threads);
	free(profile->symbols);
	free(profile->files);
	free(profile->frames);
	free(profile->locations);
	free(profile->stacks);
	free(profile->samples);
	free(profile->losses);
	free(profile->stack_ends);
	free(profile->meta);
	free(profile->value_items);
	free(profile->values);
	free(profile->run_ends);
	free(profile->run_losses);
	free(profile->value_names);
	free(profile->parameters);
	free(profile->blocks);
	free(profile->block_parts);
	free(profile->executions);
	free(profile->thread_runs);
	free(profile->source_lines);
	free(profile->run_tables);
	free(profile->run_parents);
	free(profile->path_tables);
	free(profile->flows);
	free(profile->cycle_tables);
	free(profile->layers);
	free(profile->rare_cycles);
	free(profile);
}

const char *profile_meta(const struct profile *profile, const char *key)
{
	for (size_t i = 0; i < profile->meta_count; i++) {
		if (strcmp(profile->meta[i].name, key) == 0)
			return profile->meta[i].text;
	}
	return NULL;
}
