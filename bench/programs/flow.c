// SPDX-License-Identifier: BSD-2-Clause
/*
 * Measures what bench/paths and bench/cycle-tables ask for, on a stream that `assay trace --raw`
 * wrote (src/recorder/engine/raw.h), or on a plain file of 32-bit segments.
 *
 *	flow raw FILE MAX OUT		segments of all threads, one after the other, plain
 *	flow blocks FILE MAX OUT	blocks in the same way, in the order of translation
 *	flow speed FILE MAX		million segments/s: "speed LEVELS" layers of segments only;
 *					"rows LEVELS" with compressed rows
 *	flow size FILE MAX		"size" segments, blocks, paths, distinct paths, repeats;
 *					bytes of rows, of definitions of paths, and of cycles;
 *					memory
 *	flow rebuild FILE MAX		"rebuild" million blocks/s; fails if a block differs
 *	flow tables FILE MAX LEVEL	"table KIND BUCKETS" ns and entries for each lookup;
 *					"cycles" lookups, distinct
 *
 * MAX: take no more segments than this.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "paths/cyclepack.h"
#include "paths/flow.h"
#include "wire/stream.h"

enum { CHUNK = 1 << 14, ROUNDS = 3, FRAME_RECORD = 2, FRAME_SEGMENTS = 4, THREADS_MAX = 4096 };
enum { LOOKUPS_MAX = 6000000 };

struct frame {
	uint32_t kind, number;
	uint64_t size;
};

struct span {
	uint32_t thread;
	size_t first, count;
};

/* The blocks of a segment. */
struct pieces {
	size_t first; /* index in stream.pieces */
	uint32_t count; /* 0: unknown */
};

struct stream {
	ARRAY(uint32_t) segments;
	ARRAY(struct span) spans; /* in the order they were written */
	ARRAY(struct pieces) blocks; /* by segment */
	ARRAY(uint32_t) pieces; /* blocks */
	struct map numbers; /* place and length of a block to its number */
	uint32_t threads; /* numbers are below this */
};

static double cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void blocks_set(struct stream *stream, uint32_t segment, struct pieces blocks)
{
	while (stream->blocks.count <= segment)
		*array_push(&stream->blocks) = (struct pieces){};
	stream->blocks.items[segment] = blocks;
}

static void piece_add(struct stream *stream, const struct stream_block *piece)
{
	bool fresh;
	uint64_t *number = map_at(&stream->numbers, hash64_pair(piece->pc, piece->length), &fresh);

	if (fresh)
		*number = stream->numbers.count;
	*array_push(&stream->pieces) = (uint32_t)*number;
}

static void segments_define(struct stream *stream, const struct stream_segments *segments)
{
	size_t first = stream->pieces.count;

	for (uint32_t i = 0; i < segments->count; i++) {
		piece_add(stream, &segments->blocks[i]);
		blocks_set(stream, segments->first + i, (struct pieces){ first, i + 1 });
	}
}

/* The last of a fragment's segments that is whole, and what there is of the next block. */
static void partial_define(struct stream *stream, const struct stream_partial *partial)
{
	size_t from = partial->blocks ? stream->blocks.items[partial->first].first : 0;
	struct pieces blocks = { stream->pieces.count, partial->blocks };

	for (uint32_t i = 0; i < partial->blocks; i++)
		*array_push(&stream->pieces) = stream->pieces.items[from + i];
	if (partial->last.length) {
		piece_add(stream, &partial->last);
		blocks.count++;
	}
	blocks_set(stream, partial->segment, blocks);
}

static void record_take(struct stream *stream, const void *bytes)
{
	const struct stream_record *record = bytes;

	if (record->type == STREAM_RECORD_SEGMENTS)
		segments_define(stream, bytes);
	if (record->type == STREAM_RECORD_PARTIAL)
		partial_define(stream, bytes);
}

static void segments_take(struct stream *stream, uint32_t thread, const uint32_t *segments,
			  size_t count, size_t max)
{
	if (count > max - stream->segments.count)
		count = max - stream->segments.count;
	if (!count || thread >= THREADS_MAX)
		return;
	*array_push(&stream->spans) = (struct span){ thread, stream->segments.count, count };
	array_reserve(&stream->segments, stream->segments.count + count);
	memcpy(stream->segments.items + stream->segments.count, segments,
	       count * sizeof(*segments));
	stream->segments.count += count;
	if (stream->threads <= thread)
		stream->threads = thread + 1;
}

static void frames_read(struct stream *stream, FILE *file, size_t max)
{
	struct frame frame;
	ARRAY(char) bytes = {};

	while (fread(&frame, sizeof(frame), 1, file) == 1 && stream->segments.count < max) {
		array_reserve(&bytes, frame.size);
		if (fread(bytes.items, 1, frame.size, file) != frame.size)
			break;
		if (frame.kind == FRAME_RECORD)
			record_take(stream, bytes.items);
		if (frame.kind == FRAME_SEGMENTS)
			segments_take(stream, frame.number, (void *)bytes.items, frame.size / 4,
				      max);
	}
	array_deinit(&bytes);
}

static void stream_read(struct stream *stream, const char *path, size_t max)
{
	FILE *file = fopen(path, "rb");
	char magic[8];
	uint32_t chunk[CHUNK];
	size_t count;

	if (!file || fread(magic, sizeof(magic), 1, file) != 1)
		exit(1);
	if (memcmp(magic, "assayraw", sizeof(magic)) == 0) {
		frames_read(stream, file, max);
	} else {
		rewind(file);
		while ((count = fread(chunk, 4, CHUNK, file)) > 0 && stream->segments.count < max)
			segments_take(stream, 1, chunk, count, max);
	}
	fclose(file);
}

/* What the flows that run ask; a segment that nothing defines is a block of its own. */
static const struct stream *asked;

static size_t segment_blocks(void *context, uint32_t segment, const uint32_t **ret)
{
	static uint32_t single;

	if (segment < asked->blocks.count && asked->blocks.items[segment].count) {
		*ret = asked->pieces.items + asked->blocks.items[segment].first;
		return asked->blocks.items[segment].count;
	}
	single = segment;
	*ret = &single;
	return asked->blocks.count == 0;
}

static void layers_run(const struct stream *stream, unsigned levels)
{
	struct layer_space_options options = { .levels = levels };
	struct layer *layers[THREADS_MAX] = {};
	struct layer_space *space;

	if (layer_space_create(&options, &space))
		exit(1);
	array_each(&stream->spans, span) {
		if (!layers[span->thread])
			layers[span->thread] = layer_create(space);
		for (size_t at = 0; at < span->count; at += CHUNK)
			layer_push(layers[span->thread], &stream->segments.items[span->first + at],
				   span->count - at < CHUNK ? span->count - at : CHUNK);
	}
	for (uint32_t i = 0; i < stream->threads; i++) {
		if (layers[i])
			layer_finish(layers[i]);
		layer_destroy(layers[i]);
	}
	layer_space_destroy(space);
}

struct sizes {
	size_t rows, definitions, packed, memory;
	uint64_t paths, repeats, cycles;
	struct cyclepack pack;
};

static int row_size(void *context, struct flow *flow, const struct sequence_row *row)
{
	((struct sizes *)context)->rows += row->size + sizeof(*row);
	return 0;
}

static int definitions_size(void *context, const struct sequence_definitions *definitions)
{
	struct sizes *sizes = context;

	sizes->definitions += definitions->size + sizeof(*definitions);
	sizes->cycles += definitions->count;
	return 0;
}

static int cycle_size(void *context, const struct flow_cycle *cycle)
{
	return cyclepack_add(&((struct sizes *)context)->pack, cycle);
}

static int piece_size(void *context, const struct cyclepack_piece *piece)
{
	((struct sizes *)context)->packed += piece->size + sizeof(*piece);
	return 0;
}

static int cycle_ignore(void *context, const struct flow_cycle *cycle)
{
	return 0;
}

static struct sizes flows_run(const struct stream *stream, unsigned levels)
{
	struct sizes sizes = {};
	struct flow_space_options options = { .levels = levels,
					      .blocks = segment_blocks,
					      .row = row_size,
					      .definitions = definitions_size,
					      .cycle = cycle_size,
					      .context = &sizes };
	struct flow *flows[THREADS_MAX] = {};
	struct flow_space *space;

	asked = stream;
	cyclepack_init(&sizes.pack, piece_size, &sizes);
	if (flow_space_create(&options, &space))
		exit(1);
	array_each(&stream->spans, span) {
		if (!flows[span->thread])
			flows[span->thread] = flow_create(space, NULL);
		for (size_t at = 0; at < span->count; at += CHUNK)
			flow_push(flows[span->thread], &stream->segments.items[span->first + at],
				  span->count - at < CHUNK ? span->count - at : CHUNK);
	}
	for (uint32_t i = 0; i < stream->threads; i++) {
		if (!flows[i])
			continue;
		flow_finish(flows[i]);
		sizes.paths += flows[i]->paths->counts.cycles;
		sizes.repeats += flows[i]->paths->counts.repeats;
	}
	sizes.memory = flow_space_memory(space);
	for (uint32_t i = 0; i < stream->threads; i++)
		flow_destroy(flows[i]);
	if (flow_space_finish(space) || cyclepack_flush(&sizes.pack))
		exit(1);
	cyclepack_deinit(&sizes.pack);
	flow_space_destroy(space);
	return sizes;
}

/* A profile in memory, of one thread. */
struct kept {
	ARRAY(struct sequence_row) rows;
	ARRAY(struct sequence_definitions) definitions;
};

static int row_keep(void *context, struct flow *flow, const struct sequence_row *row)
{
	struct sequence_row *kept = array_push(&((struct kept *)context)->rows);

	*kept = *row;
	kept->data = mem_dup(row->data, row->size);
	return 0;
}

static int definitions_keep(void *context, const struct sequence_definitions *definitions)
{
	struct sequence_definitions *kept = array_push(&((struct kept *)context)->definitions);

	*kept = *definitions;
	kept->data = mem_dup(definitions->data, definitions->size);
	return 0;
}

/* Compares with the blocks from `at` on; returns where it ends. */
static size_t row_compare(const uint32_t *expected, size_t count,
			  const struct sequence_paths *paths,
			  const struct sequence_repeats *repeats, size_t at)
{
	array_each(&repeats->items, repeat) {
		const uint32_t *blocks = NULL;
		size_t length = sequence_path(paths, repeat->path, &blocks);

		for (uint64_t trip = 0; trip < repeat->trips; trip++, at += length)
			if (!length || at + length > count ||
			    memcmp(blocks, &expected[at], length * 4))
				exit(3);
	}
	return at;
}

static void kept_compare(const uint32_t *expected, size_t count, const struct kept *kept)
{
	struct sequence_repeats repeats;
	struct sequence_paths paths;
	double begin = cpu_seconds();
	size_t at = 0;

	sequence_paths_init(&paths);
	sequence_repeats_init(&repeats);
	array_each(&kept->definitions, definitions)
		if (sequence_paths_add(&paths, definitions))
			exit(3);
	array_each(&kept->rows, row) {
		if (sequence_row_decode(&repeats, row))
			exit(3);
		at = row_compare(expected, count, &paths, &repeats, at);
		if (at != row->end.units[SEQUENCE_BLOCK])
			exit(3);
	}
	if (at != count)
		exit(3);
	printf("rebuild %.1f\n", (double)at / (cpu_seconds() - begin) / 1e6);
}

/* All spans as if they were of one thread. */
static void rebuild(const struct stream *stream)
{
	struct kept kept = {};
	struct flow_space_options options = { .blocks = segment_blocks,
					      .row = row_keep,
					      .definitions = definitions_keep,
					      .cycle = cycle_ignore,
					      .context = &kept };
	ARRAY(uint32_t) expected = {};
	struct flow_space *space;
	struct flow *flow;

	asked = stream;
	if (flow_space_create(&options, &space))
		exit(1);
	flow = flow_create(space, NULL);
	for (size_t at = 0; at < stream->segments.count; at += CHUNK)
		flow_push(flow, &stream->segments.items[at],
			  stream->segments.count - at < CHUNK ? stream->segments.count - at
							      : CHUNK);
	if (flow_finish(flow))
		exit(1);
	array_each(&stream->segments, segment) {
		const uint32_t *blocks = NULL;
		size_t count = segment_blocks(NULL, *segment, &blocks);

		for (size_t i = 0; i < count; i++)
			*array_push(&expected) = blocks[i];
	}
	kept_compare(expected.items, expected.count, &kept);
}

static void speed(const struct stream *stream)
{
	for (unsigned levels = 1; levels <= 4; levels++) {
		double best = 1e9, best_rows = 1e9;

		for (unsigned round = 0; round < ROUNDS; round++) {
			double begin = cpu_seconds(), middle;

			layers_run(stream, levels);
			middle = cpu_seconds();
			best = middle - begin < best ? middle - begin : best;
			if (levels == 1)
				continue;
			flows_run(stream, levels);
			begin = cpu_seconds();
			best_rows = begin - middle < best_rows ? begin - middle : best_rows;
		}
		printf("speed %u %.1f\n", levels, (double)stream->segments.count / best / 1e6);
		if (levels > 1)
			printf("rows %u %.1f\n", levels,
			       (double)stream->segments.count / best_rows / 1e6);
	}
}

static void size(const struct stream *stream)
{
	struct sizes sizes = flows_run(stream, 4);
	uint64_t blocks = 0;

	array_each(&stream->segments, segment)
		blocks += *segment < stream->blocks.count ? stream->blocks.items[*segment].count
							  : 1;
	printf("size %zu %lu %lu %lu %lu %zu %zu %zu %zu\n", stream->segments.count, blocks,
	       sizes.paths, sizes.cycles, sizes.repeats, sizes.rows, sizes.definitions,
	       sizes.packed, sizes.memory);
}

/* The cycles of the first levels, as a sequence of lookups. */
struct lookups {
	ARRAY(uint32_t) symbols;
	ARRAY(uint32_t) lengths;
	struct layer *layer;
};

static void lookups_add(void *context, const uint32_t *symbols, size_t count)
{
	struct lookups *lookups = context;
	const struct layer_level *level = lookups->layer->level;

	for (size_t i = 0; i < count && lookups->lengths.count < LOOKUPS_MAX; i++) {
		uint32_t slot = level->repeats.items.items[symbols[i]].slot;
		uint32_t length = cycles_at(&level->cycles, slot)->length;

		*array_push(&lookups->lengths) = length;
		array_reserve(&lookups->symbols, lookups->symbols.count + length);
		memcpy(lookups->symbols.items + lookups->symbols.count,
		       cycles_symbols(&level->cycles, slot), length * 4);
		lookups->symbols.count += length;
	}
}

static void lookups_make(const struct stream *stream, unsigned depth, struct lookups *ret)
{
	struct layer_space_options options = { .levels = 2, .cycles.memory = (size_t)4 << 30 };
	struct layer_space *space;
	struct layer *layer;

	if (layer_space_create(&options, &space))
		exit(1);
	layer = layer_create(space);
	ret->layer = depth ? layer->next : layer;
	ret->layer->sink = lookups_add;
	ret->layer->sink_context = ret;
	array_each(&stream->spans, span)
		layer_push(layer, &stream->segments.items[span->first], span->count);
	layer_finish(layer);
	layer_destroy(layer);
	layer_space_destroy(space);
}

static uint32_t table_run(const struct lookups *lookups, const char *name,
			  struct cycles_options options)
{
	struct cycles cycles;
	const uint32_t *symbols = lookups->symbols.items;
	double begin;
	uint32_t distinct;

	options.memory = (size_t)8 << 30;
	if (cycles_init(&cycles, &options))
		exit(1);
	begin = cpu_seconds();
	array_each(&lookups->lengths, length) {
		cycles_count(&cycles, cycles_intern(&cycles, symbols, *length, false), 1, 1);
		symbols += *length;
	}
	printf("table %s %u %.1f %.2f\n", name, options.buckets,
	       (cpu_seconds() - begin) * 1e9 / (double)lookups->lengths.count,
	       (double)cycles.stats.probes / (double)cycles.stats.lookups);
	distinct = cycles_last(&cycles);
	cycles_deinit(&cycles);
	return distinct;
}

static void tables(const struct stream *stream, unsigned depth)
{
	static const uint32_t widths[] = { 1 << 16, 1 << 18, 1 << 21 };
	struct lookups lookups = {};
	uint32_t distinct;

	lookups_make(stream, depth, &lookups);
	distinct = table_run(&lookups, "open", (struct cycles_options){});
	for (size_t i = 0; i < sizeof(widths) / sizeof(*widths); i++) {
		struct cycles_options options = { .kind = CYCLES_BOUNDED, .buckets = widths[i] };

		table_run(&lookups, "bounded", options);
		options.period = (uint32_t)CYCLES_PERIOD_NEVER;
		table_run(&lookups, "unsorted", options);
	}
	printf("cycles %zu %u\n", lookups.lengths.count, distinct);
}

static void raw(const struct stream *stream, const char *path)
{
	FILE *file = fopen(path, "wb");

	if (!file)
		exit(1);
	for (uint32_t thread = 0; thread < stream->threads; thread++)
		array_each(&stream->spans, span)
			if (span->thread == thread && fwrite(&stream->segments.items[span->first],
							     4, span->count, file) != span->count)
				exit(1);
	if (fclose(file))
		exit(1);
}

static void span_blocks_write(const struct stream *stream, const struct span *span, FILE *file)
{
	const uint32_t *segments = &stream->segments.items[span->first];

	for (size_t i = 0; i < span->count; i++) {
		struct pieces blocks = { 0, 0 };

		if (segments[i] < stream->blocks.count)
			blocks = stream->blocks.items[segments[i]];
		if (blocks.count && fwrite(&stream->pieces.items[blocks.first], 4, blocks.count,
					   file) != blocks.count)
			exit(1);
	}
}

static void raw_blocks(const struct stream *stream, const char *path)
{
	FILE *file = fopen(path, "wb");

	if (!file)
		exit(1);
	for (uint32_t thread = 0; thread < stream->threads; thread++)
		array_each(&stream->spans, span)
			if (span->thread == thread)
				span_blocks_write(stream, span, file);
	if (fclose(file))
		exit(1);
}

int main(int argc, char **argv)
{
	struct stream stream = {};

	if (argc < 4)
		return 2;
	stream_read(&stream, argv[2], strtoull(argv[3], NULL, 10));
	if (strcmp(argv[1], "raw") == 0 && argc == 5)
		raw(&stream, argv[4]);
	else if (strcmp(argv[1], "blocks") == 0 && argc == 5)
		raw_blocks(&stream, argv[4]);
	else if (strcmp(argv[1], "speed") == 0)
		speed(&stream);
	else if (strcmp(argv[1], "size") == 0)
		size(&stream);
	else if (strcmp(argv[1], "rebuild") == 0)
		rebuild(&stream);
	else if (strcmp(argv[1], "tables") == 0 && argc == 5)
		tables(&stream, (unsigned)strtoul(argv[4], NULL, 10));
	else
		return 2;
	return 0;
}
