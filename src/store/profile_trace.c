// SPDX-License-Identifier: BSD-2-Clause
/* Reads the tables of executed code. Rows are read in the order of their keys, as profile_reader.c wants them. */
#include "store/container.h"
#include "store/profile_reader.h"

enum { INSTRUCTIONS_MAX = 256 };

static void block_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);
	struct profile_block *block;

	if (id != reader->rows)
		reader_wrong(reader, "an id is missing");
	block = entry_at(p->blocks, p->block_count, reader->rows);
	block->location = reader_reference(reader, 1, p->locations, p->location_count, module);
	block->length = reader_number32(reader, 2);
	block->instructions = (uint32_t)reader_number(reader, 3, INSTRUCTIONS_MAX);
}

static void block_part_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_reference(reader, 0, p->blocks, p->block_count, location);
	uint32_t number = reader_number32(reader, 1);
	struct profile_block_part *part =
		entry_at(p->block_parts, p->block_part_count, p->block_part_count);
	struct profile_block *block = &p->blocks[id];

	reader_key_check(reader, id, number);
	if (number != block->part_count)
		reader_wrong(reader, "a part of a block is missing");
	if (number == 0)
		block->first_part = (uint32_t)p->block_part_count - 1;
	block->part_count = number + 1;
	part->location = reader_reference(reader, 2, p->locations, p->location_count, module);
	part->instructions = (uint32_t)reader_number(reader, 3, block->instructions);
}

static void execution_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_execution *execution =
		entry_at(p->executions, p->execution_count, p->execution_count);
	uint64_t instructions;

	execution->block = reader_reference(reader, 0, p->blocks, p->block_count, location);
	execution->thread = reader_reference(reader, 1, p->threads, p->thread_count, comm);
	execution->count = reader_count(reader, 2);
	reader_key_check(reader, execution->block, execution->thread);
	/* Parts may, in a file that lies, have more instructions than their block. */
	if (__builtin_mul_overflow(execution->count, INSTRUCTIONS_MAX, &instructions))
		reader_wrong(reader, "the counts are too large");
	else
		reader_sum(reader, 0, instructions);
}

static void thread_runs_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_thread_runs *runs =
		entry_at(p->thread_runs, p->thread_runs_count, p->thread_runs_count);

	runs->thread = reader_reference(reader, 0, p->threads, p->thread_count, comm);
	runs->runs = reader_count(reader, 1);
	runs->lost = reader_count(reader, 2);
	reader_key_check(reader, runs->thread, 0);
	if (__builtin_add_overflow(p->kept, runs->runs, &p->kept) || p->kept > INT64_MAX)
		reader_wrong(reader, "the counts are too large");
}

static void source_line_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_source_line *line =
		entry_at(p->source_lines, p->source_line_count, p->source_line_count);
	uint64_t file = reader_number32(reader, 0);

	if (file == 0 || file >= p->file_count || !p->files[file]) {
		reader_wrong(reader, "a reference points nowhere");
		file = 0;
	}
	line->file = (uint32_t)file;
	line->line = reader_number32(reader, 1);
	line->module = reader_reference(reader, 2, p->modules, p->module_count, path);
	line->count = reader_count(reader, 3);
	reader_key_check(reader, (uint64_t)line->file << 32 | line->line, line->module);
}

/* As TABLES in profile.c. */
#define TRACE_TABLES(X)                                                                            \
	X(block, "select id, location, length, instructions from block not indexed order by id")   \
	X(block_part, "select block, part, location, instructions "                                \
		      "from block_part not indexed order by block, part")                          \
	X(execution,                                                                               \
	  "select block, thread, count from execution not indexed order by block, thread")         \
	X(thread_runs, "select thread, runs, lost from thread_runs not indexed order by thread")   \
	X(source_line, "select file, line, module, count "                                         \
		       "from source_line not indexed order by file, line, module")

int reader_trace(struct reader *reader)
{
	static const struct reader_table tables[] = {
#define X(name, sql) { #name, sql, name##_read },
		TRACE_TABLES(X)
#undef X
	};

	return reader_tables(reader, tables, sizeof(tables) / sizeof(*tables));
}
