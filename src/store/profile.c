// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads a profile into arrays, and believes nothing on the way.
 *
 * Each table is read once, in the order of its primary key, by a function that turns a row into an
 * array element. Tables come after the tables they refer to, so that a reference can be checked
 * when it is met. All reads happen in one transaction: with the collector still running, the result
 * is the profile as of one commit. The samples of an unfinished profile lie in two tables and are
 * added up here.
 *
 * A file has no checksums, and a page may be linked from several places, so that even a small file
 * could yield rows without end. Hence:
 *
 * 1. The keys of a table grow strictly. A row met twice ends the reading, and the number of rows is
 *    bounded by the size of the file.
 * 2. Array indexes are the ids of the file. Stacks and locations are dense. In the other tables ids
 *    may be missing (nothing refers to them); how much memory those take is bounded by GAP_MAX and
 *    GAP_FACTOR.
 * 3. Strings together take no more than twice the bytes of the file, however often an overflow page
 *    is shared.
 * 4. A reference names a row that is there. A stack's parent comes before it, and no process
 *    descends from itself.
 */
#include "store/profile.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/err.h"
#include "base/mem.h"
#include "store/container.h"
#include "store/store_private.h"

enum {
	GAP_MAX = 1 << 20, /* ids up to here are taken whatever is missing */
	GAP_FACTOR = 4, /* above, ids per row there is */
	CHUNK_SIZE = 64 << 10,
	STRINGS_MIN = 1 << 20, /* bytes of strings that any file may have */
};

/* Strings, freed together. profile.memory points to the newest chunk. */
struct chunk {
	struct chunk *older;
	size_t used, size;
	char bytes[];
};

/*
 * What goes wrong in a row is kept in `wrong` until the row has been read, so that the row
 * functions need no ifs.
 */
struct reader {
	struct profile *profile;
	const char *path;
	sqlite3 *db;
	sqlite3_stmt *row;
	const char *wrong; /* NULL: the row is good so far */
	size_t rows; /* of this table, with the present one */
	uint64_t last[2]; /* key of the row before */
	size_t strings_left; /* bytes */
};

static void wrong(struct reader *reader, const char *what)
{
	if (!reader->wrong)
		reader->wrong = what;
}

static char *string_place(struct reader *reader, size_t size)
{
	struct chunk *chunk = reader->profile->memory;

	if (!chunk || chunk->size - chunk->used < size) {
		size_t bytes = size > CHUNK_SIZE ? size : CHUNK_SIZE;

		chunk = mem_alloc(sizeof(*chunk) + bytes);
		*chunk = (struct chunk){ .older = reader->profile->memory, .size = bytes };
		reader->profile->memory = chunk;
	}
	chunk->used += size;
	return chunk->bytes + chunk->used - size;
}

/* "" for NULL. */
static const char *optional_text(struct reader *reader, int column)
{
	int type = sqlite3_column_type(reader->row, column);
	const char *text;
	size_t size;
	char *copy;

	if (type == SQLITE_NULL)
		return "";
	text = (const char *)sqlite3_column_text(reader->row, column);
	size = (size_t)sqlite3_column_bytes(reader->row, column);
	if (type != SQLITE_TEXT || !text || size >= reader->strings_left) {
		wrong(reader, "a text is too long or no text");
		return "";
	}
	reader->strings_left -= size + 1;
	copy = string_place(reader, size + 1);
	memcpy(copy, text, size);
	copy[size] = '\0';
	return copy;
}

static const char *text(struct reader *reader, int column)
{
	if (sqlite3_column_type(reader->row, column) == SQLITE_NULL)
		wrong(reader, "a text is missing");
	return optional_text(reader, column);
}

/* Any 64 bits. */
static uint64_t bits(struct reader *reader, int column)
{
	if (sqlite3_column_type(reader->row, column) != SQLITE_INTEGER)
		wrong(reader, "a number is no number");
	return (uint64_t)sqlite3_column_int64(reader->row, column);
}

static uint64_t number(struct reader *reader, int column, uint64_t max)
{
	uint64_t value = bits(reader, column);

	if (value <= max)
		return value;
	wrong(reader, "a number is out of range");
	return 0;
}

static uint64_t count(struct reader *reader, int column)
{
	return number(reader, column, INT64_MAX);
}

static uint32_t number32(struct reader *reader, int column)
{
	return (uint32_t)number(reader, column, UINT32_MAX);
}

/* -1 for NULL. */
static int64_t user_id(struct reader *reader, int column)
{
	if (sqlite3_column_type(reader->row, column) == SQLITE_NULL)
		return -1;
	return (int64_t)number(reader, column, UINT32_MAX);
}

/* The index of an entry that must have been read already; there tells. */
#define reference(reader, column, array, array_count, there)                                       \
	({                                                                                         \
		uint64_t id_ = bits((reader), (column));                                           \
		if (id_ == 0 || id_ >= (array_count) || !(array)[id_].there) {                     \
			wrong((reader), "a reference points nowhere");                             \
			id_ = 0;                                                                   \
		}                                                                                  \
		(uint32_t) id_;                                                                    \
	})

static bool is_null(struct reader *reader, int column)
{
	return sqlite3_column_type(reader->row, column) == SQLITE_NULL;
}

/* Rows come in the order of their keys, each key once. */
static void key_check(struct reader *reader, uint64_t major, uint64_t minor)
{
	bool grows = major > reader->last[0] ||
		     (major == reader->last[0] && minor > reader->last[1]);

	if (reader->rows > 1 && !grows)
		wrong(reader, "rows are out of order");
	reader->last[0] = major;
	reader->last[1] = minor;
}

/* The id in column 0, or 0 if it cannot be. */
static uint32_t id_read(struct reader *reader)
{
	uint32_t id = number32(reader, 0);

	key_check(reader, id, 0);
	if (id == 0 || (id > GAP_MAX && id / GAP_FACTOR > reader->rows))
		wrong(reader, "an id is out of range");
	return reader->wrong ? 0 : id;
}

/*
 * What an array of that many entries was allocated for: a function of the count, so that it need
 * not be kept.
 */
static size_t capacity_of(size_t array_count)
{
	return array_count ? (size_t)1 << (64 - __builtin_clzl((array_count - 1) | 7)) : 0;
}

/* Makes array[index] exist, with zeroes from the old end on. */
static void *grow(void *array, size_t *array_count, size_t index, size_t size)
{
	size_t old = *array_count, wanted = index + 1;

	if (wanted <= old)
		return array;
	if (wanted > capacity_of(old))
		array = mem_realloc(array, capacity_of(wanted), size);
	memset((char *)array + old * size, 0, (wanted - old) * size);
	*array_count = wanted;
	return array;
}

#define entry_at(array, array_count, index)                                                        \
	({                                                                                         \
		size_t index_ = (index);                                                           \
		(array) = grow((array), &(array_count), index_, sizeof(*(array)));                 \
		&(array)[index_];                                                                  \
	})

static enum module_kind module_kind(struct reader *reader, int column)
{
	enum module_kind kind = MODULE_ANON;

	if (!module_kind_find((const char *)sqlite3_column_text(reader->row, column), &kind))
		wrong(reader, "a module is of no known kind");
	return kind;
}

static void meta_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_named_count *meta = entry_at(p->meta, p->meta_count, p->meta_count);

	meta->name = text(reader, 0);
	meta->text = text(reader, 1);
	if (reader->rows > 1 && strcmp(meta[-1].name, meta->name) >= 0)
		wrong(reader, "rows are out of order");
}

static void process_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = id_read(reader);
	struct profile_process *process = entry_at(p->processes, p->process_count, id);

	process->parent = is_null(reader, 1) ? 0 : number32(reader, 1);
	process->pid = number32(reader, 2);
	process->ppid = number32(reader, 3);
	process->uid = user_id(reader, 4);
	process->gid = user_id(reader, 5);
	process->euid = user_id(reader, 6);
	process->egid = user_id(reader, 7);
	process->comm = text(reader, 8);
	process->exe = optional_text(reader, 9);
	process->cgroup = optional_text(reader, 10);
	process->started = bits(reader, 11);
	process->ended = bits(reader, 12);
}

static void thread_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = id_read(reader);
	struct profile_thread *thread = entry_at(p->threads, p->thread_count, id);

	thread->process = reference(reader, 1, p->processes, p->process_count, comm);
	thread->tid = number32(reader, 2);
	thread->comm = text(reader, 3);
}

static void module_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = id_read(reader);
	struct profile_module *module = entry_at(p->modules, p->module_count, id);

	module->kind = module_kind(reader, 1);
	module->name = text(reader, 2);
	module->path = text(reader, 3);
	module->build_id = optional_text(reader, 4);
}

static void file_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = id_read(reader);

	*entry_at(p->files, p->file_count, id) = text(reader, 1);
}

static void symbol_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = id_read(reader);
	struct profile_symbol *symbol = entry_at(p->symbols, p->symbol_count, id);

	symbol->module = reference(reader, 1, p->modules, p->module_count, path);
	symbol->name = text(reader, 2);
	symbol->linkage = is_null(reader, 3) ? symbol->name : text(reader, 3);
	symbol->address = bits(reader, 4);
	symbol->size = bits(reader, 5);
	symbol->inlined = number(reader, 6, 1);
}

static void location_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = id_read(reader);
	struct profile_location *location;

	if (id != reader->rows)
		wrong(reader, "an id is missing");
	location = entry_at(p->locations, p->location_count, reader->rows);
	location->module = reference(reader, 1, p->modules, p->module_count, path);
	location->address = bits(reader, 2);
}

static uint32_t frame_file(struct reader *reader, int column)
{
	struct profile *p = reader->profile;
	uint64_t id = is_null(reader, column) ? 0 : bits(reader, column);

	if (id < p->file_count && (id == 0 || p->files[id]))
		return (uint32_t)id;
	if (id)
		wrong(reader, "a reference points nowhere");
	return 0;
}

static void frame_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t at = reference(reader, 0, p->locations, p->location_count, module);
	uint32_t depth = number32(reader, 1);
	struct profile_frame *frame = entry_at(p->frames, p->frame_count, reader->rows);

	key_check(reader, at, depth);
	if (depth != p->locations[at].frame_count)
		wrong(reader, "a frame is missing");
	if (depth == 0)
		p->locations[at].first_frame = (uint32_t)reader->rows;
	p->locations[at].frame_count = depth + 1;
	frame->symbol = reference(reader, 2, p->symbols, p->symbol_count, name);
	frame->file = frame_file(reader, 3);
	frame->line = number32(reader, 4);
}

static void stack_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = id_read(reader);
	struct profile_stack *stack;

	if (id != reader->rows)
		wrong(reader, "an id is missing");
	stack = entry_at(p->stacks, p->stack_count, reader->rows);
	stack->parent = number32(reader, 1);
	if (stack->parent >= reader->rows)
		wrong(reader, "a stack comes before its parent");
	stack->location = reference(reader, 2, p->locations, p->location_count, module);
}

/* In the columns from 0 on: stack, thread, count, kernel. */
static struct profile_sample *samples_add(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_sample *sample = entry_at(p->samples, p->sample_count, p->sample_count);

	sample->stack = reference(reader, 0, p->stacks, p->stack_count, location);
	sample->thread = reference(reader, 1, p->threads, p->thread_count, comm);
	sample->count = count(reader, 2);
	sample->kernel = number(reader, 3, sample->count);
	if (__builtin_add_overflow(p->kept, sample->count, &p->kept) || p->kept > INT64_MAX)
		wrong(reader, "the counts are too large");
	return sample;
}

static void sample_read(struct reader *reader)
{
	const struct profile_sample *sample = samples_add(reader);

	key_check(reader, sample->stack, sample->thread);
}

/* The samples of the last minute or so, not yet added up. */
static void recent_read(struct reader *reader)
{
	samples_add(reader);
	key_check(reader, count(reader, 4), 0);
}

static void named_count_read(struct reader *reader, struct profile_named_count **array,
			     size_t *array_count)
{
	struct profile_named_count *entry = entry_at(*array, *array_count, *array_count);

	entry->name = text(reader, 0);
	entry->text = text(reader, 1);
	entry->count = count(reader, 2);
	if (entry > *array && strcmp(entry[-1].name, entry->name) >= 0)
		wrong(reader, "rows are out of order");
}

static void loss_read(struct reader *reader)
{
	named_count_read(reader, &reader->profile->losses, &reader->profile->loss_count);
}

static void stack_end_read(struct reader *reader)
{
	named_count_read(reader, &reader->profile->stack_ends, &reader->profile->stack_end_count);
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

static int table_read(struct reader *reader, const char *name, const char *sql,
		      void (*row_read)(struct reader *))
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *statement = NULL;
	int rc, err = container_prepare(reader->db, reader->path, sql, &statement);

	if (err)
		return err;
	reader->row = statement;
	reader->rows = 0;
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
		if (++reader->rows >= UINT32_MAX)
			wrong(reader, "there are too many rows");
		row_read(reader);
		if (reader->wrong)
			return err_set(-EBADMSG, "%s: corrupt: table %s, row %zu: %s; record again",
				       reader->path, name, reader->rows, reader->wrong);
	}
	return rc == SQLITE_DONE ? 0 : container_error(reader->db, reader->path, "read");
}

static int tables_read(struct reader *reader)
{
	static const struct {
		const char *name, *sql;
		void (*row_read)(struct reader *);
	} tables[] = {
#define X(name, sql) { #name, sql, name##_read },
		TABLES(X)
#undef X
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables) && !err; i++)
		err = table_read(reader, tables[i].name, tables[i].sql, tables[i].row_read);
	return err;
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

int profile_load(const char *path, struct profile **ret)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	struct reader reader = { .path = path };
	int version = 0, err = container_open_read(path, &db, &version);

	if (err)
		return err;
	reader.profile = profile = mem_zalloc(sizeof(*profile));
	reader.db = db;
	reader.strings_left = STRINGS_MIN + 2 * (file_size(path, "") + file_size(path, "-wal"));
	arrays_begin(profile);
	if (sqlite3_exec(db, "begin", NULL, NULL, NULL))
		return container_error(db, path, "read");
	if ((err = tables_read(&reader)) || (err = processes_check(&reader)) ||
	    (err = totals_read(&reader)))
		return err;
	samples_merge(profile);
	gaps_fill(profile);
	*ret = take_ptr(profile);
	return 0;
}

void profile_destroy(struct profile *profile)
{
	struct chunk *chunk, *older;

	if (!profile)
		return;
	for (chunk = profile->memory; chunk; chunk = older) {
		older = chunk->older;
		free(chunk);
	}
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

int profile_symbol_code(const char *path, uint32_t symbol, void **ret, size_t *ret_size)
{
	AUTO(container_close_auto) sqlite3 *db = NULL;
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *get = NULL;
	int rc, version = 0, err = container_open_read(path, &db, &version);

	if (err ||
	    (err = container_prepare(db, path, "select code from symbol where id = ?", &get)))
		return err;
	sqlite3_bind_int64(get, 1, symbol);
	rc = sqlite3_step(get);
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return container_error(db, path, "read code");
	if (rc == SQLITE_DONE || sqlite3_column_type(get, 0) != SQLITE_BLOB)
		return err_set(
			-ENOENT,
			"%s: holds no code of symbol %u; only sampled functions have theirs kept",
			path, symbol);
	*ret_size = (size_t)sqlite3_column_bytes(get, 0);
	*ret = mem_dup(sqlite3_column_blob(get, 0), *ret_size);
	return 0;
}
