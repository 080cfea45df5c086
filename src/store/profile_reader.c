// SPDX-License-Identifier: BSD-2-Clause
/*
 * Columns and rows of a file that nobody vouches for.
 *
 * A file has no checksums, and a page may be linked from several places, so that even a small file
 * could yield rows without end. Hence:
 *
 * 1. The keys of a table grow strictly. A row met twice ends the reading, and the number of rows is
 *    bounded by the size of the file.
 * 2. Array indexes are the ids of the file. Stacks and locations are dense. In the other tables ids
 *    may be missing (nothing refers to them); how much memory those take is bounded by GAP_MAX and
 *    GAP_FACTOR.
 * 3. Strings and lists together take no more than twice the bytes of the file, however often an
 *    overflow page is shared.
 * 4. A reference names a row that is there. A stack's parent comes before it, and no process
 *    descends from itself.
 */
#include "store/profile_reader.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/container.h"

enum {
	GAP_MAX = 1 << 20, /* ids up to here are taken whatever is missing */
	GAP_FACTOR = 4, /* above, ids per row there is */
	CHUNK_SIZE = 64 << 10,
};

/* Strings and lists, freed together. profile.memory points to the newest chunk. */
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

static void *memory_place(struct reader *reader, size_t size)
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

const char *reader_optional_text(struct reader *reader, int column)
{
	int type = sqlite3_column_type(reader->row, column);
	const char *text;
	size_t size;
	char *copy;

	if (type == SQLITE_NULL)
		return "";
	text = (const char *)sqlite3_column_text(reader->row, column);
	size = (size_t)sqlite3_column_bytes(reader->row, column);
	if (type != SQLITE_TEXT || !text || size >= reader->memory_left) {
		reader_wrong(reader, "a text is too long or no text");
		return "";
	}
	reader->memory_left -= size + 1;
	copy = memory_place(reader, size + 1);
	memcpy(copy, text, size);
	copy[size] = '\0';
	return copy;
}

const char *reader_text(struct reader *reader, int column)
{
	if (sqlite3_column_type(reader->row, column) == SQLITE_NULL)
		reader_wrong(reader, "a text is missing");
	return reader_optional_text(reader, column);
}

const uint8_t *reader_blob(struct reader *reader, int column, size_t max, size_t *ret_size)
{
	int type = sqlite3_column_type(reader->row, column);
	const void *bytes = sqlite3_column_blob(reader->row, column);
	size_t size = (size_t)sqlite3_column_bytes(reader->row, column);
	uint8_t *copy;

	*ret_size = 0;
	if (type != SQLITE_BLOB || size > max || size >= reader->memory_left) {
		reader_wrong(reader, "bytes are too many or missing");
		return NULL;
	}
	reader->memory_left -= size + 1;
	copy = memory_place(reader, size + 1);
	if (bytes)
		memcpy(copy, bytes, size);
	*ret_size = bytes ? size : 0;
	return copy;
}

uint64_t reader_bits(struct reader *reader, int column)
{
	if (sqlite3_column_type(reader->row, column) != SQLITE_INTEGER)
		reader_wrong(reader, "a number is no number");
	return (uint64_t)sqlite3_column_int64(reader->row, column);
}

uint64_t reader_number(struct reader *reader, int column, uint64_t max)
{
	uint64_t value = reader_bits(reader, column);

	if (value <= max)
		return value;
	reader_wrong(reader, "a number is out of range");
	return 0;
}

uint64_t reader_count(struct reader *reader, int column)
{
	return reader_number(reader, column, INT64_MAX);
}

uint32_t reader_number32(struct reader *reader, int column)
{
	return (uint32_t)reader_number(reader, column, UINT32_MAX);
}

double reader_real(struct reader *reader, int column)
{
	double value = sqlite3_column_double(reader->row, column);

	if (sqlite3_column_type(reader->row, column) == SQLITE_FLOAT && isfinite(value))
		return value;
	reader_wrong(reader, "a number is not finite");
	return 0;
}

int64_t reader_user_id(struct reader *reader, int column)
{
	if (sqlite3_column_type(reader->row, column) == SQLITE_NULL)
		return -1;
	return (int64_t)reader_number(reader, column, UINT32_MAX);
}

bool reader_is_null(struct reader *reader, int column)
{
	return sqlite3_column_type(reader->row, column) == SQLITE_NULL;
}

void reader_key_check(struct reader *reader, uint64_t major, uint64_t minor)
{
	bool grows = major > reader->last[0] ||
		     (major == reader->last[0] && minor > reader->last[1]);

	if (reader->rows > 1 && !grows)
		reader_wrong(reader, "rows are out of order");
	reader->last[0] = major;
	reader->last[1] = minor;
}

uint32_t reader_id(struct reader *reader)
{
	uint32_t id = reader_number32(reader, 0);

	reader_key_check(reader, id, 0);
	if (id == 0 || (id > GAP_MAX && id / GAP_FACTOR > reader->rows))
		reader_wrong(reader, "an id is out of range");
	return reader->wrong ? 0 : id;
}

void reader_sum(struct reader *reader, int which, uint64_t count)
{
	if (__builtin_add_overflow(reader->sums[which], count, &reader->sums[which]) ||
	    reader->sums[which] > INT64_MAX)
		reader_wrong(reader, "the counts are too large");
}

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

void reader_named_count(struct reader *reader, struct profile_named_count **array,
			size_t *array_count)
{
	struct profile_named_count *entry = entry_at(*array, *array_count, *array_count);

	entry->name = reader_text(reader, 0);
	entry->text = reader_text(reader, 1);
	entry->count = reader_count(reader, 2);
	if (entry > *array && strcmp(entry[-1].name, entry->name) >= 0)
		reader_wrong(reader, "rows are out of order");
}

static int table_read(struct reader *reader, const struct reader_table *table)
{
	AUTO(sqlite3_finalize_auto) sqlite3_stmt *statement = NULL;
	int rc, err = container_prepare(reader->db, reader->path, table->sql, &statement);

	if (err)
		return err;
	reader->row = statement;
	reader->rows = 0;
	memset(reader->sums, 0, sizeof(reader->sums));
	while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
		if (++reader->rows >= UINT32_MAX)
			reader_wrong(reader, "there are too many rows");
		table->row_read(reader);
		if (reader->wrong)
			return err_set(-EBADMSG, "%s: corrupt: table %s, row %zu: %s; record again",
				       reader->path, table->name, reader->rows, reader->wrong);
	}
	return rc == SQLITE_DONE ? 0 : container_error(reader->db, reader->path, "read");
}

int reader_tables(struct reader *reader, const struct reader_table tables[], size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = table_read(reader, &tables[i]);
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
