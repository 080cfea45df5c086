// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads the tables of a file of unknown origin by their descriptions.
 *
 * A file has no checksums, and a page may be linked from several places, so that even a small file
 * could yield rows without end. Hence:
 *
 * 1. The keys of a table grow strictly. A row met twice ends the reading, and the number of rows is
 *    bounded by the size of the file.
 * 2. Array indexes are the ids of the file. Dense tables have no gaps. In the other tables ids
 *    may be missing (nothing refers to them); how much memory those take is bounded by GAP_MAX and
 *    GAP_FACTOR.
 * 3. Texts and lists together take no more than twice the bytes of the file, however often an
 *    overflow page is shared.
 * 4. A reference names a row that is there. A stack's parent comes before it, and no process
 *    descends from itself.
 */
#include "store/profile_reader.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "store/container.h"
#include "store/store_private.h"

enum {
	GAP_MAX = 1 << 20, /* ids up to here are taken whatever is missing */
	GAP_FACTOR = 4, /* above, ids per row there is */
	CHUNK_SIZE = 64 << 10,
};

#define field(row, offset, type) (*(type *)((char *)(row) + (offset)))

/* Texts and lists, freed together. profile.memory points to the newest chunk. */
struct chunk {
	struct chunk *older;
	size_t used, size;
	char bytes[];
};

void reader_wrong(struct reader *reader, const char *what)
{
	if (!reader->wrong)
		reader->wrong = what;
}

void *reader_memory(struct reader *reader, size_t size)
{
	struct chunk *chunk = reader->profile->memory;

	size = (size + 7) & ~(size_t)7;
	if (chunk)
		chunk->used = (chunk->used + 7) & ~(size_t)7;
	if (!chunk || chunk->size - chunk->used < size) {
		size_t bytes = size > CHUNK_SIZE ? size : CHUNK_SIZE; /* a multiple of 8 */

		chunk = mem_alloc(sizeof(*chunk) + bytes);
		*chunk = (struct chunk){ .older = reader->profile->memory, .size = bytes };
		reader->profile->memory = chunk;
	}
	chunk->used += size;
	return chunk->bytes + chunk->used - size;
}

/* A copy, with a NUL behind it. */
static char *bytes_copy(struct reader *reader, const void *bytes, size_t size)
{
	struct chunk *chunk = reader->profile->memory;
	char *copy;

	reader->memory_left -= size + 1;
	/* Unlike other memory, texts lie side by side. */
	if (chunk && chunk->size - chunk->used > size) {
		copy = chunk->bytes + chunk->used;
		chunk->used += size + 1;
	} else {
		copy = reader_memory(reader, size + 1);
	}
	if (size)
		memcpy(copy, bytes, size);
	copy[size] = '\0';
	return copy;
}

/* Each of these gives something harmless in place of what is wrong. "" for NULL. */
static const char *text_read(struct reader *reader, int at)
{
	int type = sqlite3_column_type(reader->row, at);
	const char *text;
	size_t size;

	if (type == SQLITE_NULL)
		return "";
	text = (const char *)sqlite3_column_text(reader->row, at);
	size = (size_t)sqlite3_column_bytes(reader->row, at);
	if (type != SQLITE_TEXT || !text || size >= reader->memory_left) {
		reader_wrong(reader, "a text is too long or no text");
		return "";
	}
	return bytes_copy(reader, text, size);
}

static const uint8_t *bytes_read(struct reader *reader, int at, size_t max, size_t *ret_size)
{
	int type = sqlite3_column_type(reader->row, at);
	const void *bytes = sqlite3_column_blob(reader->row, at);
	size_t size = (size_t)sqlite3_column_bytes(reader->row, at);

	*ret_size = 0;
	if (type != SQLITE_BLOB || size > max || size >= reader->memory_left) {
		reader_wrong(reader, "bytes are too many or missing");
		return NULL;
	}
	*ret_size = bytes ? size : 0;
	return (const uint8_t *)bytes_copy(reader, bytes, *ret_size);
}

static bool is_null(struct reader *reader, int at)
{
	return sqlite3_column_type(reader->row, at) == SQLITE_NULL;
}

static bool is_zero(struct reader *reader, int at)
{
	return sqlite3_column_type(reader->row, at) == SQLITE_INTEGER &&
	       sqlite3_column_int64(reader->row, at) == 0;
}

static uint64_t bits_read(struct reader *reader, int at)
{
	if (sqlite3_column_type(reader->row, at) != SQLITE_INTEGER)
		reader_wrong(reader, "a number is no number");
	return (uint64_t)sqlite3_column_int64(reader->row, at);
}

static uint64_t number_read(struct reader *reader, int at, uint64_t max)
{
	uint64_t value = bits_read(reader, at);

	if (value <= max)
		return value;
	reader_wrong(reader, "a number is out of range");
	return 0;
}

static double real_read(struct reader *reader, int at)
{
	double value = sqlite3_column_double(reader->row, at);

	if (sqlite3_column_type(reader->row, at) == SQLITE_FLOAT && isfinite(value))
		return value;
	reader_wrong(reader, "a number is not finite");
	return 0;
}

void reader_sum(struct reader *reader, uint64_t *sum, uint64_t count)
{
	if (__builtin_add_overflow(*sum, count, sum) || *sum > INT64_MAX)
		reader_wrong(reader, "the counts are too large");
}

/* --- Arrays ------------------------------------------------------------------------ */

/*
 * What an array of that many entries was allocated for: a function of the count, so that it need
 * not be kept.
 */
static size_t capacity_of(size_t array_count)
{
	return array_count ? (size_t)1 << (64 - __builtin_clzl((array_count - 1) | 7)) : 0;
}

void *reader_grow(void *array, size_t *array_count, size_t index, size_t size)
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

static void *row_at(struct profile *profile, const struct store_table *table, size_t index)
{
	void **array = &field(profile, table->array, void *);

	*array = reader_grow(*array, &field(profile, table->array_count, size_t), index,
			     table->row_size);
	return (char *)*array + index * table->row_size;
}

/* A row that is not there: no text is NULL, no user is root. */
static void row_blank(const struct store_table *table, void *row)
{
	for (const struct store_column *column = table->columns(); column->name; column++) {
		if (column->type == STORE_TEXT || column->type == STORE_TEXT_OR_NULL ||
		    column->type == STORE_LAST_PART)
			field(row, column->offset, const char *) = "";
		if (column->type == STORE_USER)
			field(row, column->offset, int64_t) = -1;
	}
}

static void gaps_fill(struct profile *profile, const struct store_table *table)
{
	size_t count = field(profile, table->array_count, size_t);

	for (size_t i = 0; i < count; i++) {
		void *row = row_at(profile, table, i);

		if (!field(row, table->columns()->offset, uint32_t))
			row_blank(table, row);
	}
}

void reader_arrays_begin(struct profile *profile)
{
	for (int i = 0; i < STORE_TABLE_COUNT; i++)
		if (store_style_has_ids(store_tables[i].style))
			row_blank(&store_tables[i], row_at(profile, &store_tables[i], 0));
}

/* --- Rows -------------------------------------------------------------------------- */

static void growth_check(struct reader *reader, uint64_t key)
{
	if (reader->rows > 1 && key <= reader->last)
		reader_wrong(reader, "rows are out of order");
	reader->last = key;
}

static uint32_t id_read(struct reader *reader, enum store_style style)
{
	uint32_t id = (uint32_t)number_read(reader, 0, UINT32_MAX);

	growth_check(reader, id);
	if (id == 0 || (style != STORE_NUMBERED && id > GAP_MAX && id / GAP_FACTOR > reader->rows))
		reader_wrong(reader, "an id is out of range");
	if (style == STORE_DENSE && id != reader->rows)
		reader_wrong(reader, "an id is missing");
	return reader->wrong ? 0 : id;
}

/* Whether a row of a table that may have gaps is there. */
static bool is_there(struct profile *profile, const struct store_table *table, uint64_t id)
{
	return field(row_at(profile, table, id), table->columns()->offset, uint32_t) == id;
}

/* The index of a row that must have been read already. */
static uint32_t reference_read(struct reader *reader, int at, enum store_table_id to)
{
	const struct store_table *table = &store_tables[to];
	uint64_t id = bits_read(reader, at);

	if (id && id < field(reader->profile, table->array_count, size_t) &&
	    (table->style == STORE_DENSE || is_there(reader->profile, table, id)))
		return (uint32_t)id;
	reader_wrong(reader, "a reference points nowhere");
	return 0;
}

static uint32_t recording_read(struct reader *reader, int at, enum recording_kind kind)
{
	uint32_t id = reference_read(reader, at, STORE_TABLE_recording);

	if (id && reader->profile->recordings[id].kind != kind)
		reader_wrong(reader, "a recording is of another kind");
	return id;
}

static unsigned name_read(struct reader *reader, int at, const char *const names[])
{
	unsigned number = 0;

	if (!store_name_find(names, (const char *)sqlite3_column_text(reader->row, at), &number))
		reader_wrong(reader, "something is of no known kind");
	return number;
}

/* Of columns that depend on the same flag all are there, or none. */
static bool flagged_is_there(struct reader *reader, int at, bool *flag)
{
	bool there = !is_null(reader, at);

	if (reader->has_if && *flag != there)
		reader_wrong(reader, "a number is missing");
	reader->has_if = true;
	return *flag = there;
}

static void column_read(struct reader *reader, int at, const struct store_column *column, void *row,
			uint64_t *sum)
{
	void *to = (char *)row + column->offset;
	uint64_t number;

	switch (column->type) {
	case STORE_ID: /* by id_read() */
	case STORE_LATER:
		break;
	case STORE_REF:
		*(uint32_t *)to = reference_read(reader, at, column->table);
		break;
	case STORE_OF:
		*(uint32_t *)to = recording_read(reader, at, (enum recording_kind)column->max);
		break;
	case STORE_REF_OR_NULL:
	case STORE_HERE:
		*(uint32_t *)to = is_null(reader, at) ? 0
						      : reference_read(reader, at, column->table);
		break;
	case STORE_REF_OR_ZERO:
		*(uint32_t *)to = is_zero(reader, at) ? 0
						      : reference_read(reader, at, column->table);
		break;
	case STORE_PARENT:
		*(uint32_t *)to =
			is_null(reader, at) ? 0 : (uint32_t)number_read(reader, at, UINT32_MAX);
		break;
	case STORE_ABOVE:
		*(uint32_t *)to = (uint32_t)number_read(reader, at, UINT32_MAX);
		if (*(uint32_t *)to >= reader->last)
			reader_wrong(reader, "a row comes before its parent");
		break;
	case STORE_FROM_ONE:
		number = bits_read(reader, at);
		if (number == 0 || number > column->max)
			reader_wrong(reader, "a number is out of range");
		*(uint32_t *)to = reader->wrong ? 1 : (uint32_t)number;
		break;
	case STORE_U32:
		*(uint32_t *)to = (uint32_t)number_read(reader, at, column->max);
		break;
	case STORE_SUM:
		*(uint64_t *)to = number_read(reader, at, column->max);
		reader_sum(reader, sum, *(uint64_t *)to);
		break;
	case STORE_MOST:
	case STORE_COUNT:
		*(uint64_t *)to = number_read(reader, at, column->max);
		break;
	case STORE_BITS:
		*(uint64_t *)to = bits_read(reader, at);
		break;
	case STORE_FLAG:
		*(bool *)to = number_read(reader, at, column->max);
		break;
	case STORE_USER:
		*(int64_t *)to =
			is_null(reader, at) ? -1 : (int64_t)number_read(reader, at, column->max);
		break;
	case STORE_TEXT:
	case STORE_LAST_PART:
		if (is_null(reader, at))
			reader_wrong(reader, "a text is missing");
		*(const char **)to = text_read(reader, at);
		break;
	case STORE_TEXT_OR_NULL:
		*(const char **)to = text_read(reader, at);
		break;
	case STORE_NAMED:
		*(unsigned *)to = name_read(reader, at, column->names);
		break;
	case STORE_SIGNED_IF:
		if (flagged_is_there(reader, at, &field(row, column->other, bool)))
			*(int64_t *)to = (int64_t)bits_read(reader, at);
		break;
	case STORE_REAL_IF:
		if (flagged_is_there(reader, at, &field(row, column->other, bool)))
			*(double *)to = real_read(reader, at);
		break;
	case STORE_BYTES:
	case STORE_LIST:
		*(const uint8_t **)to =
			bytes_read(reader, at, column->max, &field(row, column->other, size_t));
		break;
	}
}

/* Numbers as SQLite orders them. */
static int64_t key_number(const struct store_column *column, const void *row)
{
	const char *at = (const char *)row + column->offset;

	if (column->type == STORE_COUNT || column->type == STORE_SUM || column->type == STORE_BITS)
		return *(const int64_t *)at;
	return *(const uint32_t *)at;
}

static int keys_compare(const struct store_table *table, const void *a, const void *b)
{
	const struct store_column *column = table->columns();

	for (unsigned i = 0; i < table->keys; i++, column++) {
		int64_t left, right;
		int order;

		if (column->type == STORE_TEXT) {
			order = strcmp(field(a, column->offset, const char *const),
				       field(b, column->offset, const char *const));
		} else {
			left = key_number(column, a);
			right = key_number(column, b);
			order = (left > right) - (left < right);
		}
		if (order)
			return order;
	}
	return 0;
}

static void *row_begin(struct reader *reader, const struct store_table *table, int columns)
{
	struct profile *profile = reader->profile;
	uint32_t id;
	void *row;

	if (table->style == STORE_APPENDED)
		growth_check(reader, number_read(reader, columns, INT64_MAX));
	if (table->keys || table->style == STORE_APPENDED)
		return row_at(profile, table, field(profile, table->array_count, size_t));
	id = id_read(reader, table->style);
	row = row_at(profile, table,
		     store_style_has_ids(table->style)
			     ? id
			     : field(profile, table->array_count, size_t));
	field(row, table->columns()->offset, uint32_t) = id;
	return row;
}

static void row_read(struct reader *reader, enum store_table_id which, int columns)
{
	const struct store_table *table = &store_tables[which];
	void *row = row_begin(reader, table, columns);
	uint64_t *sum = reader->sums;
	int at = 0;

	reader->has_if = false;
	for (const struct store_column *column = table->columns(); column->name; column++) {
		if (column->type == STORE_LATER)
			continue;
		assert(column->type != STORE_SUM || sum < reader->sums + READER_SUMS);
		column_read(reader, at++, column, row, sum);
		sum += column->type == STORE_SUM;
	}
	if (table->keys && reader->rows > 1 && !reader->wrong &&
	    keys_compare(table, (char *)row - table->row_size, row) >= 0)
		reader_wrong(reader, "rows are out of order");
	if (reader_checks[which].row && !reader->wrong)
		reader_checks[which].row(reader, row);
}

static int statement_prepare(struct reader *reader, const struct store_table *table,
			     sqlite3_stmt **ret)
{
	struct strbuf sql = {};
	int err;

	store_table_sql_read(table, &sql);
	err = container_prepare(reader->db, reader->path, strbuf_text(&sql), ret);
	strbuf_deinit(&sql);
	return err;
}

enum { ROWS_TOLD = 1024 }; /* how many are read from one sign of life to the next */

static int rows_read(struct reader *reader, enum store_table_id which)
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *statement = NULL;
	const struct store_table *table = &store_tables[which];
	int rc, columns, err = statement_prepare(reader, table, &statement);

	if (err)
		return err;
	reader->row = statement;
	reader->rows = 0;
	memset(reader->sums, 0, sizeof(reader->sums));
	columns = sqlite3_column_count(statement) - (table->style == STORE_APPENDED);
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
		if (++reader->rows >= UINT32_MAX)
			reader_wrong(reader, "there are too many rows");
		if (reader->rows % ROWS_TOLD == 0)
			progress_set(reader->progress, reader->read + reader->rows,
				     reader->expected);
		row_read(reader, which, columns);
		if (reader->wrong)
			return err_set(-EBADMSG, "%s: corrupt: table %s, row %zu: %s; record again",
				       reader->path, table->name, reader->rows, reader->wrong);
	}
	reader->read += reader->rows;
	return rc == SQLITE_DONE ? 0 : container_error(reader->db, reader->path, "read");
}

int reader_table(struct reader *reader, enum store_table_id which)
{
	int err = rows_read(reader, which);

	if (!err && store_style_has_ids(store_tables[which].style))
		gaps_fill(reader->profile, &store_tables[which]);
	if (!err && reader_checks[which].done)
		err = reader_checks[which].done(reader);
	return err;
}

void reader_memory_free(void *memory)
{
	struct chunk *chunk, *older;

	for (chunk = memory; chunk; chunk = older) {
		older = chunk->older;
		free(chunk);
	}
}
