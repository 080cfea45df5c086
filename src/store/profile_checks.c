// SPDX-License-Identifier: BSD-2-Clause
/*
 * Checks that the types of columns do not express, and what is computed from rows after they were
 * read. The content of byte strings is checked by their decoders; here only their size is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/profile_reader.h"

#define compare(a, b) (((a) > (b)) - ((a) < (b)))

/* An empty array is NULL, which qsort() may not be given. */
static void sort(void *array, size_t count, size_t size, int (*order)(const void *, const void *))
{
	if (count)
		qsort(array, count, size, order);
}

static int corrupt(const struct reader *reader, const char *what)
{
	return err_set(-EBADMSG, "%s: corrupt: %s; record again", reader->path, what);
}

/* --- Recordings ---------------------------------------------------------------------- */

static void recording_check(struct reader *reader, void *row)
{
	const struct profile_recording *recording = row;

	for (const struct profile_recording *other = reader->profile->recordings + 1;
	     other < recording; other++)
		if (other->id && other->kind == recording->kind)
			reader_wrong(reader, "there are two recordings of one kind");
}

/* Losses are in the order of their recordings. */
static int losses_done(struct reader *reader)
{
	struct profile *p = reader->profile;

	for (size_t i = 1; i < p->recording_count; i++)
		p->recordings[i].losses =
			reader_memory(reader, p->loss_row_count * sizeof(*p->losses));
	for (size_t i = 0; i < p->loss_row_count; i++) {
		const struct profile_loss *loss = &p->loss_rows[i];
		struct profile_recording *of = &p->recordings[loss->recording];

		if (loss->count)
			of->losses[of->loss_count++] = (struct profile_named_count){ loss->reason,
										     loss->text,
										     loss->count };
	}
	for (size_t i = 1; i < p->recording_count; i++) {
		struct profile_recording *of = &p->recordings[i];
		uint64_t sum = of->kept;

		for (size_t j = 0; j < of->loss_count; j++)
			reader_sum(reader, &sum, of->losses[j].count);
		if (reader->wrong)
			return corrupt(reader, "the losses are too large");
		/* A killed recorder may have told what it saw before it told its last losses. */
		if (of->seen < sum)
			of->seen = sum;
	}
	return 0;
}

/* Whether a recording kept what the rows sum up to. */
static int kept_check(struct reader *reader, enum recording_kind kind, uint64_t sum)
{
	const struct profile_recording *recording = profile_recording(reader->profile, kind);

	if (sum == (recording ? recording->kept : 0))
		return 0;
	return corrupt(reader, "the counts are not as many as were kept");
}

/* --- Processes and code -------------------------------------------------------------- */

/*
 * Parents that were never written are unknown. Each process is walked from once, up to what was
 * walked before.
 */
static int processes_done(struct reader *reader)
{
	struct profile *p = reader->profile;
	AUTO(free_ptr) uint32_t *walk = mem_zalloc(p->process_count * sizeof(*walk));

	for (uint32_t i = 1; i < p->process_count; i++) {
		struct profile_process *process = &p->processes[i];

		if (process->parent >= p->process_count || !p->processes[process->parent].id)
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

static void symbol_check(struct reader *reader, void *row)
{
	struct profile_symbol *symbol = row;

	if (!*symbol->linkage)
		symbol->linkage = symbol->name;
}

static void frame_check(struct reader *reader, void *row)
{
	const struct profile_frame *frame = row;
	struct profile_location *location = &reader->profile->locations[frame->location];

	if (frame->depth != location->frame_count)
		reader_wrong(reader, "a frame is missing");
	if (frame->depth == 0)
		location->first_frame = (uint32_t)reader->rows - 1;
	location->frame_count = frame->depth + 1;
}

/* --- Samples ------------------------------------------------------------------------- */

static void sample_check(struct reader *reader, void *row)
{
	const struct profile_sample *sample = row;

	if (sample->kernel > sample->count)
		reader_wrong(reader, "a number is out of range");
}

_Static_assert(sizeof(struct profile_sample) == sizeof(struct profile_recent),
	       "rows of recent are samples");

static int sample_compare(const void *left, const void *right)
{
	const struct profile_sample *a = left, *b = right;
	int order = compare(a->recording, b->recording);

	order = order ? order : compare(a->stack, b->stack);
	return order ? order : compare(a->thread, b->thread);
}

/* Brings the rows of sample and recent together: one for each stack and thread, in that order. */
static void samples_unite(struct profile *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->recent_count; i++) {
		p->samples = reader_grow(p->samples, &p->sample_count, p->sample_count,
					 sizeof(*p->samples));
		memcpy(&p->samples[p->sample_count - 1], &p->recents[i], sizeof(*p->samples));
	}
	sort(p->samples, p->sample_count, sizeof(*p->samples), sample_compare);
	for (size_t i = 1; i < p->sample_count; i++) {
		struct profile_sample *last = &p->samples[kept];

		if (sample_compare(last, &p->samples[i]) == 0) {
			last->count += p->samples[i].count;
			last->kernel += p->samples[i].kernel;
		} else {
			p->samples[++kept] = p->samples[i];
		}
	}
	if (p->sample_count)
		p->sample_count = kept + 1;
	free(take_ptr(p->recents));
	p->recent_count = 0;
}

/* recent is read after sample. */
static int samples_done(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint64_t sum = 0;

	for (size_t i = 0; i < p->sample_count; i++)
		reader_sum(reader, &sum, p->samples[i].count);
	for (size_t i = 0; i < p->recent_count; i++)
		reader_sum(reader, &sum, p->recents[i].count);
	if (reader->wrong)
		return corrupt(reader, reader->wrong);
	if (p->recent_count)
		samples_unite(p);
	return kept_check(reader, RECORDING_SAMPLES, sum);
}

/* --- Values -------------------------------------------------------------------------- */

static void value_check(struct reader *reader, void *row)
{
	const struct profile_value *value = row;

	if (value->minimum > value->maximum || value->squares < 0)
		reader_wrong(reader, "a range is empty");
}

static int value_compare(const void *left, const void *right)
{
	const struct profile_value *a = left, *b = right;

	if (a->location != b->location)
		return compare(a->location, b->location);
	if (a->item != b->item)
		return compare(a->item, b->item);
	if (a->caller != b->caller)
		return compare(a->caller, b->caller);
	return compare(a->owner, b->owner);
}

static int values_done(struct reader *reader)
{
	struct profile *p = reader->profile;

	sort(p->values, p->value_count, sizeof(*p->values), value_compare);
	return 0;
}

static int run_end_compare(const void *left, const void *right)
{
	const struct profile_run_end *a = left, *b = right;
	int order = compare(b->count, a->count);

	order = order ? order : strcmp(a->reason, b->reason);
	return order ? order : strcmp(a->mnemonic, b->mnemonic);
}

static int run_ends_done(struct reader *reader)
{
	struct profile *p = reader->profile;

	sort(p->run_ends, p->run_end_count, sizeof(*p->run_ends), run_end_compare);
	return 0;
}

static int run_place_compare(const void *left, const void *right)
{
	const struct profile_run_place *a = left, *b = right;
	int order = compare(b->count, a->count);

	order = order ? order : compare(a->location, b->location);
	return order ? order : strcmp(a->reason, b->reason);
}

static int run_places_done(struct reader *reader)
{
	struct profile *p = reader->profile;

	sort(p->run_places, p->run_place_count, sizeof(*p->run_places), run_place_compare);
	return 0;
}

static int value_name_compare(const void *left, const void *right)
{
	const struct profile_value_name *a = left, *b = right;

	return compare(a->value, b->value);
}

/* The file has them in the order of signed numbers. */
static int value_names_done(struct reader *reader)
{
	struct profile *p = reader->profile;

	sort(p->value_names, p->value_name_count, sizeof(*p->value_names), value_name_compare);
	return 0;
}

/* --- Executed code ------------------------------------------------------------------- */

static void block_part_check(struct reader *reader, void *row)
{
	const struct profile_block_part *part = row;
	struct profile_block *block = &reader->profile->blocks[part->block];

	if (part->part != block->part_count)
		reader_wrong(reader, "a part of a block is missing");
	if (part->part == 0)
		block->first_part = (uint32_t)reader->rows - 1;
	block->part_count = part->part + 1;
	if (part->instructions > block->instructions)
		reader_wrong(reader, "a number is out of range");
}

/* In a corrupt file, the parts of a block may together have more instructions than the block. */
static int executions_done(struct reader *reader)
{
	const struct profile *p = reader->profile;
	uint64_t instructions, sum = 0;
	int err = reader_executions(reader);

	if (err)
		return err;
	for (size_t i = 0; i < p->execution_count; i++) {
		if (__builtin_mul_overflow(p->executions[i].count, STORE_BLOCK_INSTRUCTIONS_MAX,
					   &instructions))
			reader_wrong(reader, "the counts are too large");
		else
			reader_sum(reader, &sum, instructions);
	}
	return reader->wrong ? corrupt(reader, reader->wrong) : 0;
}

static int thread_segments_done(struct reader *reader)
{
	return kept_check(reader, RECORDING_EXECUTED, reader->sums[0]);
}

/* --- Calls --------------------------------------------------------------------------- */

/* The paths of a thread are its own, and begin with the thread. */
static void call_node_check(struct reader *reader, void *row)
{
	const struct profile_call_node *node = row;
	const struct profile_call_node *parent = &reader->profile->call_nodes[node->parent];

	if (node->parent ? parent->thread != node->thread : node->location || node->pruned)
		reader_wrong(reader, "a path of calls belongs to no thread");
	if (node->parent && !node->location == !node->pruned)
		reader_wrong(reader, "a path of calls leads to no routine");
}

static int call_amounts_done(struct reader *reader)
{
	const struct profile *p = reader->profile;
	uint64_t calls = 0;

	for (size_t i = 0; i < p->call_amount_count; i++)
		if (!strcmp(p->call_amounts[i].metric, "calls"))
			calls += p->call_amounts[i].base; /* all of them together fit */
	return kept_check(reader, RECORDING_CALLS, calls);
}

/* --- The order of execution ---------------------------------------------------------- */

/* A thread's rows begin with 0 and each ends behind the one before. */
static void flow_check(struct reader *reader, void *of)
{
	static const struct profile_flow none;
	const struct profile_flow *row = of;
	bool first = reader->rows == 1 || row[-1].thread != row->thread;
	const struct profile_flow *last = first ? &none : &row[-1];

	if (row->row != (first ? 0 : last->row + 1))
		reader_wrong(reader, "a row of a thread is missing");
	if (row->instructions < last->instructions || row->blocks < last->blocks ||
	    row->paths < last->paths || row->repeats < last->repeats ||
	    row->strata < last->strata || row->stratum_start < last->stratum_start ||
	    row->stratum_start > row->repeats)
		reader_wrong(reader, "a thread goes backwards");
	if (reader->wrong)
		return;
	reader_sum(reader, &reader->sums[0], row->instructions - last->instructions);
	reader_sum(reader, &reader->sums[1], row->blocks - last->blocks);
}

static int waits_done(struct reader *reader)
{
	return kept_check(reader, RECORDING_WAITS, reader->sums[0]);
}

const struct reader_check reader_checks[STORE_TABLE_COUNT] = {
	[STORE_TABLE_recording] = { .row = recording_check },
	[STORE_TABLE_loss] = { .done = losses_done },
	[STORE_TABLE_process] = { .done = processes_done },
	[STORE_TABLE_symbol] = { .row = symbol_check },
	[STORE_TABLE_frame] = { .row = frame_check },
	[STORE_TABLE_sample] = { .row = sample_check },
	[STORE_TABLE_recent] = { .row = sample_check, .done = samples_done },
	[STORE_TABLE_value] = { .row = value_check, .done = values_done },
	[STORE_TABLE_run_end] = { .done = run_ends_done },
	[STORE_TABLE_run_place] = { .done = run_places_done },
	[STORE_TABLE_value_name] = { .done = value_names_done },
	[STORE_TABLE_block_part] = { .row = block_part_check },
	[STORE_TABLE_execution] = { .done = executions_done },
	[STORE_TABLE_thread_segments] = { .done = thread_segments_done },
	[STORE_TABLE_flow] = { .row = flow_check },
	[STORE_TABLE_call_node] = { .row = call_node_check },
	[STORE_TABLE_call_amount] = { .done = call_amounts_done },
	[STORE_TABLE_wait] = { .done = waits_done },
};
