// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads the tables of the order of execution. Bytes are taken as they are: who decodes them (src/profile) believes nothing either. Here
 * numbers are checked: threads only go forward, row by row, and sums stay in range.
 */
#include "store/container.h"
#include "store/profile_reader.h"

enum { DATA_MAX = 256 << 20, LEVELS_MAX = 64 };

static void definitions_read(struct reader *reader, struct profile_definitions *row)
{
	struct profile *p = reader->profile;

	row->process = reader_reference(reader, 0, p->processes, p->process_count, comm);
	row->first = reader_count(reader, 1);
	row->count = reader_count(reader, 2);
	row->data = reader_blob(reader, 3, DATA_MAX, &row->size);
	reader_key_check(reader, row->process, row->first);
}

static void run_table_read(struct reader *reader)
{
	struct profile *p = reader->profile;

	definitions_read(reader, entry_at(p->run_tables, p->run_table_count, p->run_table_count));
}

static void path_table_read(struct reader *reader)
{
	struct profile *p = reader->profile;

	definitions_read(reader,
			 entry_at(p->path_tables, p->path_table_count, p->path_table_count));
}

static void run_parent_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_run_parent *row =
		entry_at(p->run_parents, p->run_parent_count, p->run_parent_count);

	row->process = reader_reference(reader, 0, p->processes, p->process_count, comm);
	row->parent = reader_reference(reader, 1, p->processes, p->process_count, comm);
	row->inherited = reader_count(reader, 2);
	reader_key_check(reader, row->process, 0);
}

/* A thread's rows begin with 0 and each ends behind the one before. */
static void flow_order_check(struct reader *reader, const struct profile_flow *row)
{
	static const struct profile_flow none;
	bool first = reader->rows == 1 || row[-1].thread != row->thread;
	const struct profile_flow *last = first ? &none : &row[-1];

	if (row->row != (first ? 0 : last->row + 1))
		reader_wrong(reader, "a row of a thread is missing");
	if (row->instructions < last->instructions || row->runs < last->runs ||
	    row->paths < last->paths || row->repeats < last->repeats ||
	    row->strata < last->strata || row->stratum_start < last->stratum_start ||
	    row->stratum_start > row->repeats)
		reader_wrong(reader, "a thread goes backwards");
	reader_sum(reader, 0, row->instructions - last->instructions);
	reader_sum(reader, 1, row->runs - last->runs);
}

static void flow_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_flow *row = entry_at(p->flows, p->flow_count, p->flow_count);

	row->thread = reader_reference(reader, 0, p->threads, p->thread_count, comm);
	row->row = reader_count(reader, 1);
	row->instructions = reader_count(reader, 2);
	row->runs = reader_count(reader, 3);
	row->paths = reader_count(reader, 4);
	row->repeats = reader_count(reader, 5);
	row->strata = reader_count(reader, 6);
	row->stratum_start = reader_count(reader, 7);
	row->base = reader_count(reader, 8);
	row->data = reader_blob(reader, 9, DATA_MAX, &row->size);
	reader_key_check(reader, row->thread, row->row);
	flow_order_check(reader, row);
}

static void cycle_table_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_cycle_table *row =
		entry_at(p->cycle_tables, p->cycle_table_count, p->cycle_table_count);

	row->process = reader_reference(reader, 0, p->processes, p->process_count, comm);
	row->level = (unsigned)reader_number(reader, 1, LEVELS_MAX - 1);
	row->first = reader_count(reader, 2);
	row->count = reader_count(reader, 3);
	row->data = reader_blob(reader, 4, DATA_MAX, &row->size);
	reader_key_check(reader, (uint64_t)row->process << 8 | row->level, row->first);
}

static void layer_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_layer *row = entry_at(p->layers, p->layer_count, p->layer_count);

	row->thread = reader_reference(reader, 0, p->threads, p->thread_count, comm);
	row->level = (unsigned)reader_number(reader, 1, LEVELS_MAX - 1);
	row->symbols = reader_count(reader, 2);
	row->cycles = reader_count(reader, 3);
	row->repeats = reader_count(reader, 4);
	row->cut = reader_count(reader, 5);
	row->broken = reader_count(reader, 6);
	reader_key_check(reader, row->thread, row->level);
	reader_sum(reader, 0, row->symbols);
	reader_sum(reader, 1, row->cycles);
}

static void rare_cycle_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_rare_cycle *row =
		entry_at(p->rare_cycles, p->rare_cycle_count, p->rare_cycle_count);

	row->process = reader_reference(reader, 0, p->processes, p->process_count, comm);
	row->level = (unsigned)reader_number(reader, 1, LEVELS_MAX - 1);
	row->cycles = reader_count(reader, 2);
	row->trips = reader_count(reader, 3);
	row->weight = reader_count(reader, 4);
	reader_key_check(reader, row->process, row->level);
	reader_sum(reader, 0, row->cycles);
	reader_sum(reader, 1, row->weight);
}

/* As TABLES in profile.c. */
#define FLOW_TABLES(X)                                                                             \
	X(run_table, "select process, first, count, data from run_table order by process, first")  \
	X(run_parent,                                                                              \
	  "select process, parent, inherited from run_parent not indexed order by process")        \
	X(path_table,                                                                              \
	  "select process, first, count, data from path_table order by process, first")            \
	X(flow, "select thread, row, instructions, runs, paths, repeats, strata, stratum_start, "  \
		"base, data from flow order by thread, row")                                       \
	X(cycle_table, "select process, level, first, count, data from cycle_table "               \
		       "order by process, level, first")                                           \
	X(layer, "select thread, level, symbols, cycles, repeats, cut, broken "                    \
		 "from layer not indexed order by thread, level")                                  \
	X(rare_cycle, "select process, level, cycles, trips, weight "                              \
		      "from rare_cycle not indexed order by process, level")

int reader_flow(struct reader *reader)
{
	static const struct reader_table tables[] = {
#define X(name, sql) { #name, sql, name##_read },
		FLOW_TABLES(X)
#undef X
	};

	return reader_tables(reader, tables, sizeof(tables) / sizeof(*tables));
}
