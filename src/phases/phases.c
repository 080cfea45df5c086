// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a thread did in each of a bounded number of intervals.
 *
 * Everything that is known about an interval is a sum or a union over the paths that ran in it, so
 * the order in which they are counted does not matter. A repeated path only adds to the trips of
 * its slot in a small table of places; when a place is needed for another path, and at the end of
 * an interval, its trips are folded: the features of the path, times the trips, are added to the
 * open interval. A program's hot paths are folded once in an interval.
 *
 * Features of paths come from their segments, and those from their blocks. They are kept for the
 * paths that were folded last. Block and function vectors would have as many dimensions as a
 * program has blocks; they are projected to a few, each key with random signs from its hash
 * (Johnson and Lindenstrauss, Achlioptas): distances stay what they were, nearly.
 *
 * An interval ends with the first path that reaches its length. A repeated path that is longer is
 * divided between its trips. When there are as many intervals as are allowed, neighbours are merged
 * and the length is doubled, so that there are always between half of them and all, of about the
 * same length.
 *
 * Invariants
 *  1. position is the sum over all paths added of their instructions; each is in one interval or in
 *     places.
 *  2. left > 0: instructions until the open interval ends.
 *  3. used holds exactly the places with a slot that is not 0.
 *  4. paths[i].slot is 0, or paths[i] holds the features of that slot.
 *  5. Hot paths are counted at least: what a list had no room for is missing from it.
 */
#include "phases/phases.h"

#include <assert.h>
#include <emmintrin.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "phases/phases_private.h"

enum {
	PLACE_BITS = 13,
	PLACES = 1 << PLACE_BITS,
	PATH_BITS = 14,
	PATHS = 1 << PATH_BITS,
	PATH_MARKS = 24, /* blocks whose marks are kept with the path */
	SIGNATURE_BITS = 11,
	HOT_BITS = 8,
	HOT_PLACES = 1 << HOT_BITS,
	LANES = 4, /* of vectors of 32 bits */
};

_Static_assert(PHASES_SIGNATURE == 1 << SIGNATURE_BITS, "a mark for each bit");
_Static_assert(PHASES_DIMENSIONS <= 64, "a sign for each bit of a hash");
_Static_assert(PHASES_DIMENSIONS % LANES == 0 && HEAT_KIND_COUNT % LANES == 0, "whole vectors");

struct code_block {
	uint64_t hash; /* hash of the key, whose bits are signs */
	uint64_t function; /* hash of the function's key */
	uint16_t heat[HEAT_KIND_COUNT];
};

struct code_segment {
	uint32_t first; /* index in segment_blocks */
	uint32_t count;
};

struct code_path {
	_Alignas(64) float blocks[PHASES_DIMENSIONS];
	float functions[PHASES_DIMENSIONS];
	uint32_t heat[HEAT_KIND_COUNT];
	uint32_t slot;
	uint32_t mark_count; /* more than PATH_MARKS: not kept */
	uint16_t marks[PATH_MARKS];
};

struct phases_code {
	const struct layer_level *level;
	ARRAY(struct code_block) blocks;
	ARRAY(struct code_segment) segments;
	ARRAY(uint32_t) segment_blocks;
	struct code_path *paths;
};

struct place {
	uint64_t trips;
	uint32_t slot; /* 0: free */
};

/* The open interval. */
struct sums {
	double blocks[PHASES_DIMENSIONS];
	double functions[PHASES_DIMENSIONS];
	struct heat heat;
	uint64_t touched[PHASES_SIGNATURE / 64];
	struct phases_hot hot[HOT_PLACES];
};

struct phases {
	struct phases_code *code;
	struct phases_options options;
	uint64_t length; /* instructions of an interval */
	uint64_t position;
	uint64_t left;
	ARRAY(struct phases_interval) intervals;
	struct place places[PLACES];
	uint16_t used[PLACES];
	size_t used_count;
	struct sums open;
};

static uint64_t key_hash(uint64_t key)
{
	key ^= key >> 31;
	key *= 0x9e3779b97f4a7c15u;
	key ^= key >> 29;
	key *= 0xd6e8feb86659fd93u;
	return key ^ key >> 32;
}

static uint32_t slot_index(uint32_t slot, unsigned bits)
{
	return slot * 0x9e3779b1u >> (32 - bits);
}

struct phases_code *phases_code_create(const struct layer_level *paths)
{
	struct phases_code *code = mem_zalloc(sizeof(*code));

	code->level = paths;
	code->paths = mem_zalloc_aligned(PATHS * sizeof(*code->paths), 64);
	return code;
}

void phases_code_destroy(struct phases_code *code)
{
	if (!code)
		return;
	array_deinit(&code->blocks);
	array_deinit(&code->segments);
	array_deinit(&code->segment_blocks);
	free(code->paths);
	free(code);
}

void phases_code_forget(struct phases_code *code)
{
	for (size_t i = 0; i < PATHS; i++)
		code->paths[i].slot = 0;
}

void phases_block_set(struct phases_code *code, uint32_t block, uint64_t key, uint64_t function,
		      const struct heat *heat)
{
	struct code_block *entry;

	while (code->blocks.count <= block)
		*array_push(&code->blocks) = (struct code_block){};
	entry = &code->blocks.items[block];
	entry->hash = key_hash(key);
	entry->function = key_hash(function);
	for (unsigned i = 0; i < HEAT_KIND_COUNT; i++)
		entry->heat[i] = heat->of[i] < UINT16_MAX ? (uint16_t)heat->of[i] : UINT16_MAX;
}

void phases_segment_set(struct phases_code *code, uint32_t segment, const uint32_t *blocks,
			size_t count)
{
	while (code->segments.count <= segment)
		*array_push(&code->segments) = (struct code_segment){};
	code->segments.items[segment] =
		(struct code_segment){ (uint32_t)code->segment_blocks.count, (uint32_t)count };
	for (size_t i = 0; i < count; i++) {
		assert(blocks[i] < code->blocks.count);
		*array_push(&code->segment_blocks) = blocks[i];
	}
}

/* A path's blocks, one after the other. */
struct walk {
	const struct phases_code *code;
	const uint32_t *segment, *segment_end;
	const uint32_t *block, *block_end;
};

static struct walk walk_start(const struct phases_code *code, uint32_t slot)
{
	const struct cycles *cycles = &code->level->cycles;
	const uint32_t *segments = cycles_symbols(cycles, slot);

	return (struct walk){ .code = code,
			      .segment = segments,
			      .segment_end = segments + cycles_at(cycles, slot)->length };
}

/* Returns the next block; NULL: there are no more. A segment that is not known has no blocks. */
static inline const struct code_block *walk_next(struct walk *walk)
{
	const struct phases_code *code = walk->code;

	while (walk->block == walk->block_end) {
		const struct code_segment *segment;

		if (walk->segment == walk->segment_end)
			return NULL;
		if (*walk->segment++ >= code->segments.count)
			continue;
		segment = &code->segments.items[walk->segment[-1]];
		walk->block = code->segment_blocks.items + segment->first;
		walk->block_end = walk->block + segment->count;
	}
	return &code->blocks.items[*walk->block++];
}

static unsigned block_mark(const struct code_block *block)
{
	return (unsigned)(block->hash * 0x9e3779b97f4a7c15u >> (64 - SIGNATURE_BITS));
}

/* Adds the amount to each dimension, or subtracts it, as the bits of the hash tell. */
static void project(float *vector, uint64_t hash, float amount)
{
	const __m128i bits = _mm_set_epi32(8, 4, 2, 1);
	const __m128 amounts = _mm_set1_ps(amount);

	for (unsigned i = 0; i < PHASES_DIMENSIONS; i += LANES, hash >>= LANES) {
		__m128i set = _mm_and_si128(_mm_set1_epi32((int)(uint32_t)hash), bits);
		__m128i signs = _mm_slli_epi32(_mm_cmpeq_epi32(set, bits), 31);
		__m128 sum = _mm_load_ps(vector + i);

		_mm_store_ps(vector + i,
			     _mm_sub_ps(sum, _mm_xor_ps(amounts, _mm_castsi128_ps(signs))));
	}
}

static void block_add(struct code_path *path, const struct code_block *block)
{
	if (path->mark_count < PATH_MARKS)
		path->marks[path->mark_count] = (uint16_t)block_mark(block);
	path->mark_count++;
	for (unsigned i = 0; i < HEAT_KIND_COUNT; i += LANES) {
		__m128i sum = _mm_load_si128((__m128i *)(path->heat + i));
		__m128i heat = _mm_loadl_epi64((const __m128i *)(block->heat + i));

		_mm_store_si128((__m128i *)(path->heat + i),
				_mm_add_epi32(sum, _mm_unpacklo_epi16(heat, _mm_setzero_si128())));
	}
	project(path->blocks, block->hash, block->heat[HEAT_INSTRUCTIONS]);
}

/* Blocks of a function that follow each other are projected together. */
static void path_fill(const struct phases_code *code, struct code_path *path, uint32_t slot)
{
	struct walk walk = walk_start(code, slot);
	const struct code_block *block;
	uint64_t function = 0;
	float instructions = 0;

	*path = (struct code_path){ .slot = slot };
	while ((block = walk_next(&walk))) {
		block_add(path, block);
		if (block->function != function) {
			project(path->functions, function, instructions);
			function = block->function;
			instructions = 0;
		}
		instructions += block->heat[HEAT_INSTRUCTIONS];
	}
	project(path->functions, function, instructions);
}

static const struct code_path *path_get(struct phases_code *code, uint32_t slot)
{
	struct code_path *path = &code->paths[slot_index(slot, PATH_BITS)];

	if (path->slot != slot)
		path_fill(code, path, slot);
	return path;
}

void phases_path_heat(const struct phases_code *code, uint32_t slot, struct heat *ret)
{
	struct walk walk = walk_start(code, slot);
	const struct code_block *block;

	*ret = (struct heat){};
	while ((block = walk_next(&walk)))
		for (unsigned i = 0; i < HEAT_KIND_COUNT; i++)
			ret->of[i] += block->heat[i];
}

size_t phases_code_memory(const struct phases_code *code)
{
	return sizeof(*code) + PATHS * sizeof(*code->paths) +
	       code->blocks.capacity * sizeof(*code->blocks.items) +
	       code->segments.capacity * sizeof(*code->segments.items) +
	       code->segment_blocks.capacity * sizeof(uint32_t);
}

struct phases *phases_create(struct phases_code *code, const struct phases_options *options)
{
	struct phases *phases = mem_zalloc(sizeof(*phases));

	phases->code = code;
	phases->options = *options;
	if (!phases->options.interval)
		phases->options.interval = PHASES_INTERVAL;
	if (!phases->options.intervals)
		phases->options.intervals = PHASES_INTERVALS;
	assert(phases->options.intervals % 2 == 0);
	phases->length = phases->left = phases->options.interval;
	return phases;
}

void phases_destroy(struct phases *phases)
{
	if (!phases)
		return;
	array_deinit(&phases->intervals);
	free(phases);
}

static void touched_add(uint64_t *touched, unsigned mark)
{
	touched[mark / 64] |= 1ull << mark % 64;
}

static void marks_fold(struct phases *phases, const struct code_path *path)
{
	struct walk walk;
	const struct code_block *block;

	if (path->mark_count <= PATH_MARKS) {
		for (unsigned i = 0; i < path->mark_count; i++)
			touched_add(phases->open.touched, path->marks[i]);
		return;
	}
	walk = walk_start(phases->code, path->slot);
	while ((block = walk_next(&walk)))
		touched_add(phases->open.touched, block_mark(block));
}

/* If two paths have the same place, the hotter one gets it. */
static void hot_fold(struct phases *phases, uint32_t slot, uint64_t trips)
{
	const struct layer_level *level = phases->code->level;
	struct phases_hot *hot = &phases->open.hot[slot_index(slot, HOT_BITS)];
	uint64_t instructions = trips * cycles_at(&level->cycles, slot)->weight;

	if (hot->path != level->base + slot) {
		if (hot->instructions >= instructions)
			return;
		*hot = (struct phases_hot){ .path = level->base + slot };
	}
	hot->trips += trips;
	hot->instructions += instructions;
}

static void vector_fold(double *sums, const float *vector, double trips)
{
	const __m128d times = _mm_set1_pd(trips);

	for (unsigned i = 0; i < PHASES_DIMENSIONS; i += LANES) {
		__m128 floats = _mm_load_ps(vector + i);
		__m128d low = _mm_mul_pd(_mm_cvtps_pd(floats), times);
		__m128d high = _mm_mul_pd(_mm_cvtps_pd(_mm_movehl_ps(floats, floats)), times);

		_mm_storeu_pd(sums + i, _mm_add_pd(_mm_loadu_pd(sums + i), low));
		_mm_storeu_pd(sums + i + 2, _mm_add_pd(_mm_loadu_pd(sums + i + 2), high));
	}
}

static void place_fold(struct phases *phases, const struct place *place)
{
	const struct code_path *path = path_get(phases->code, place->slot);
	struct sums *open = &phases->open;

	vector_fold(open->blocks, path->blocks, (double)place->trips);
	vector_fold(open->functions, path->functions, (double)place->trips);
	for (unsigned i = 0; i < HEAT_KIND_COUNT; i++)
		open->heat.of[i] += place->trips * path->heat[i];
	marks_fold(phases, path);
	hot_fold(phases, place->slot, place->trips);
}

void phases_flush(struct phases *phases)
{
	for (size_t i = 0; i < phases->used_count; i++) {
		struct place *place = &phases->places[phases->used[i]];

		place_fold(phases, place);
		*place = (struct place){};
	}
	phases->used_count = 0;
}

static int hot_compare(const void *left, const void *right)
{
	const struct phases_hot *a = left, *b = right;

	if (a->instructions != b->instructions)
		return a->instructions < b->instructions ? 1 : -1;
	return (a->path > b->path) - (a->path < b->path);
}

/* Both lists begin with the hottest; `into` may be one of them. */
void phases_hot_merge(struct phases_hot *into, const struct phases_hot *from)
{
	struct phases_hot both[2 * PHASES_HOT];
	size_t count = PHASES_HOT;

	memcpy(both, into, PHASES_HOT * sizeof(*both));
	for (size_t i = 0; i < PHASES_HOT && from[i].path; i++) {
		size_t same = 0;

		while (same < PHASES_HOT && both[same].path != from[i].path)
			same++;
		if (same == PHASES_HOT) {
			both[count++] = from[i];
			continue;
		}
		both[same].trips += from[i].trips;
		both[same].instructions += from[i].instructions;
	}
	qsort(both, count, sizeof(*both), hot_compare);
	memcpy(into, both, PHASES_HOT * sizeof(*both));
}

static void intervals_merge(struct phases_interval *into, const struct phases_interval *next)
{
	into->end = next->end;
	heat_add(&into->heat, &next->heat, 1);
	for (unsigned i = 0; i < PHASES_DIMENSIONS; i++) {
		into->blocks[i] += next->blocks[i];
		into->functions[i] += next->functions[i];
	}
	for (unsigned i = 0; i < PHASES_SIGNATURE / 64; i++)
		into->touched[i] |= next->touched[i];
	phases_hot_merge(into->hot, next->hot);
}

static void intervals_halve(struct phases *phases)
{
	struct phases_interval *all = phases->intervals.items;

	for (size_t i = 0; i < phases->intervals.count / 2; i++) {
		struct phases_interval merged = all[2 * i];

		intervals_merge(&merged, &all[2 * i + 1]);
		all[i] = merged;
	}
	phases->intervals.count /= 2;
	phases->length *= 2;
}

/* Writes the hottest paths of the places, in order. */
static void hot_take(const struct phases_hot *places, struct phases_hot *ret)
{
	memset(ret, 0, PHASES_HOT * sizeof(*ret));
	for (size_t i = 0; i < HOT_PLACES; i++) {
		size_t at = PHASES_HOT;

		if (!places[i].path)
			continue;
		while (at > 0 && hot_compare(&places[i], &ret[at - 1]) < 0)
			at--;
		if (at == PHASES_HOT)
			continue;
		memmove(ret + at + 1, ret + at, (PHASES_HOT - 1 - at) * sizeof(*ret));
		ret[at] = places[i];
	}
}

static void interval_close(struct phases *phases)
{
	struct phases_interval *interval;
	struct sums *open = &phases->open;

	phases_flush(phases);
	interval = array_push(&phases->intervals);
	interval->end = phases->position;
	interval->heat = open->heat;
	for (unsigned i = 0; i < PHASES_DIMENSIONS; i++) {
		interval->blocks[i] = (float)open->blocks[i];
		interval->functions[i] = (float)open->functions[i];
	}
	memcpy(interval->touched, open->touched, sizeof(open->touched));
	hot_take(open->hot, interval->hot);
	*open = (struct sums){};
	if (phases->intervals.count == phases->options.intervals)
		intervals_halve(phases);
	phases->left = phases->length;
}

static void place_add(struct phases *phases, uint32_t slot, uint64_t trips)
{
	uint32_t index = slot_index(slot, PLACE_BITS);
	struct place *place = &phases->places[index];

	if (place->slot != slot) {
		if (place->slot)
			place_fold(phases, place);
		else
			phases->used[phases->used_count++] = (uint16_t)index;
		*place = (struct place){ .slot = slot };
	}
	place->trips += trips;
}

void phases_add(struct phases *phases, uint32_t slot, uint64_t trips)
{
	uint64_t each = cycles_at(&phases->code->level->cycles, slot)->weight;

	while (trips * each >= phases->left) {
		uint64_t part = (phases->left + each - 1) / each;

		place_add(phases, slot, part);
		phases->position += part * each;
		trips -= part;
		interval_close(phases);
	}
	if (!trips)
		return;
	place_add(phases, slot, trips);
	phases->position += trips * each;
	phases->left -= trips * each;
}

void phases_sink(void *context, const uint32_t *symbols, size_t count)
{
	struct phases *phases = context;
	const struct repeat *repeats = phases->code->level->repeats.items.items;

	for (size_t i = 0; i < count; i++)
		phases_add(phases, repeats[symbols[i]].slot, repeats[symbols[i]].trips);
}

void phases_finish(struct phases *phases)
{
	if (phases->used_count || phases->left != phases->length)
		interval_close(phases);
}

const struct phases_interval *phases_intervals(const struct phases *phases, size_t *ret_count)
{
	*ret_count = phases->intervals.count;
	return phases->intervals.items;
}

size_t phases_memory(const struct phases *phases)
{
	return sizeof(*phases) + phases->intervals.capacity * sizeof(*phases->intervals.items);
}
