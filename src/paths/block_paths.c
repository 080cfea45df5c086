// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes paths of blocks out of cycles of segments; block_paths.h has the theory.
 *
 *	in	cycles of segments
 *	out	paths: cycles of blocks
 *	owner	the space of flows; a state for each thread
 *
 * The last two transitions of each cycle of segments are in its header, in the words that are the
 * user's; most steps find theirs there. The others are in a map.
 *
 * Invariants
 *  1. A state of a thread is one of `states`, or 0.
 *  2. Transitions, in the map and in headers, refer to states, cycles of segments and paths that
 *     their tables hold. The transitions are cleared before one of these tables is.
 *  3. Tables are cleared only between two batches of cycles. Within a batch they may grow beyond
 *     their limits.
 */
#include "paths/block_paths.h"

#include <string.h>

#include "base/mem.h"

/* A transition in a header: two of them, the last one used first. */
enum { KNOWN_STATE, KNOWN_NEXT, KNOWN_ENDED, KNOWN_WORDS };
_Static_assert(2 * KNOWN_WORDS <= CYCLES_HEADER - CYCLES_KEPT, "headers have room for two");

enum {
	TRANSITION_BYTES = 64, /* of one, in the map and in the array, about */
	WORDS_EACH = sizeof(struct layer_taken) / sizeof(uint32_t),
	NOTHING_LOADED = UINT32_MAX,
	HEADERS_AHEAD = 16, /* cycles */
	RECORDS_AHEAD = 6,
};

static struct cycles *segment_cycles(const struct block_paths *all)
{
	return &all->options.segments->levels[0].cycles;
}

/* The record at 0 is of no path. Headers that are free refer to it. */
static void transitions_begin(struct block_paths *all)
{
	array_reserve(&all->ended, 1 + BLOCK_PATHS_FEW * WORDS_EACH);
	memset(all->ended.items, 0, (1 + BLOCK_PATHS_FEW * WORDS_EACH) * sizeof(uint32_t));
	all->ended.count = 1;
}

int block_paths_init(struct block_paths *all, const struct block_paths_options *options)
{
	*all = (struct block_paths){ .options = *options };
	all->loaded = NOTHING_LOADED;
	transitions_begin(all);
	return cycles_init(&all->states, &(struct cycles_options){ .memory = options->memory });
}

void block_paths_deinit(struct block_paths *all)
{
	cycles_deinit(&all->states);
	map_deinit(&all->transitions);
	array_deinit(&all->ended);
	array_deinit(&all->open);
	array_deinit(&all->marks);
}

void block_path_begin(struct block_paths *all, struct block_path *path, struct layer *paths)
{
	*path = (struct block_path){ .paths = paths, .next = all->threads };
	all->threads = path;
}

void block_path_end(struct block_paths *all, struct block_path *path)
{
	struct block_path **link = &all->threads;

	while (*link != path)
		link = &(*link)->next;
	*link = path->next;
}

/* --- Following blocks ------------------------------------------------------------------------- */

static void path_clear(struct block_paths *all)
{
	all->length = 0;
	if (++all->mark)
		return;
	memset(all->marks.items, 0, all->marks.count * sizeof(*all->marks.items));
	all->mark = 1;
}

static __attribute__((noinline)) void marks_grow(struct block_paths *all, uint32_t block)
{
	size_t had = all->marks.count;

	array_reserve(&all->marks, (size_t)block + 1);
	memset(all->marks.items + had, 0, (block + 1 - had) * sizeof(*all->marks.items));
	all->marks.count = (size_t)block + 1;
}

/* The mark of a block; blocks come up in any order. */
static inline uint32_t *mark_of(struct block_paths *all, uint32_t block)
{
	if (__builtin_expect(block >= all->marks.count, 0))
		marks_grow(all, block);
	return &all->marks.items[block];
}

/* Adds blocks up to the first that the path holds already, or has no room for; returns how many. */
static size_t path_add(struct block_paths *all, const uint32_t *blocks, size_t count)
{
	size_t room = all->options.max_cycle - all->length, i;
	uint32_t *open;

	count = count < room ? count : room;
	array_reserve(&all->open, all->length + count + CYCLES_SLACK);
	open = all->open.items + all->length;
	for (i = 0; i < count; i++) {
		uint32_t *mark = mark_of(all, blocks[i]);

		if (*mark == all->mark)
			break;
		*mark = all->mark;
		open[i] = blocks[i];
	}
	all->length += i;
	return i;
}

static void path_load(struct block_paths *all, uint32_t state)
{
	if (all->loaded == state)
		return;
	path_clear(all);
	if (state)
		path_add(all, cycles_symbols(&all->states, state),
			 cycles_at(&all->states, state)->length);
	all->loaded = state;
}

/* The path that is followed, in the table of paths. */
static uint32_t path_place(struct block_paths *all, struct layer *paths)
{
	bool full = false;
	uint32_t place = layer_intern(paths, all->open.items, all->length, &full);

	all->paths_full |= full;
	return place;
}

static uint32_t path_state(struct block_paths *all)
{
	uint32_t state = 0;

	if (all->length) {
		state = cycles_intern(&all->states, all->open.items, all->length, false);
		all->states_full |= !state;
		if (!state)
			state = cycles_intern(&all->states, all->open.items, all->length, true);
	}
	all->loaded = state;
	return state;
}

static struct layer_taken *ended_at(const struct block_paths *all, size_t record)
{
	return (struct layer_taken *)(all->ended.items + record + 1);
}

/* Begins a record, which is the last until the next one is begun. */
static size_t record_begin(struct block_paths *all)
{
	size_t record = all->ended.count;

	array_reserve(&all->ended, record + 1 + BLOCK_PATHS_FEW * WORDS_EACH);
	*array_push(&all->ended) = 0;
	return record;
}

/* Adds to the paths of the record that is the last. */
static void ended_add(struct block_paths *all, size_t record, uint32_t place)
{
	uint32_t count = all->ended.items[record];
	struct layer_taken *ended = ended_at(all, record);

	if (count && ended[count - 1].place == place) {
		ended[count - 1].trips++;
		return;
	}
	all->ended.items[record]++;
	all->ended.count += WORDS_EACH;
	array_reserve(&all->ended, all->ended.count + BLOCK_PATHS_FEW * WORDS_EACH);
	ended_at(all, record)[count] = (struct layer_taken){ place, 1 };
}

/* The block that comes next in a cycle of segments. */
struct cursor {
	uint32_t segment; /* index in the cycle */
	uint32_t block; /* index in that segment */
};

/*
 * Follows the blocks of a cycle until the path ends; the cursor is then in front of the block that
 * ends it. False: the path does not end in this cycle.
 */
static bool cycle_follow(struct block_paths *all, uint32_t slot, struct cursor *at)
{
	const struct cycles *cycles = segment_cycles(all);
	const uint32_t *segments = cycles_symbols(cycles, slot);
	uint32_t length = cycles_at(cycles, slot)->length;

	all->loaded = NOTHING_LOADED;
	for (; at->segment < length; at->segment++, at->block = 0) {
		const uint32_t *blocks = NULL;
		size_t count =
			all->options.blocks(all->options.context, segments[at->segment], &blocks);

		if (!count)
			continue;
		at->block += (uint32_t)path_add(all, blocks + at->block, count - at->block);
		if (at->block < count)
			return true;
	}
	return false;
}

/* Returns next state << 32 | index in `ended`. */
static uint64_t transition_make(struct block_paths *all, struct layer *paths, uint32_t state,
				uint32_t place)
{
	uint32_t slot = segment_cycles(all)->words.items[place + CYCLES_SLOT];
	size_t record = 0;
	struct cursor at = {};

	all->states_full |= all->ended.count >= UINT32_MAX / 2 ||
			    all->transitions.count * TRANSITION_BYTES > all->options.memory;
	path_load(all, state);
	while (cycle_follow(all, slot, &at)) {
		record = record ? record : record_begin(all);
		ended_add(all, record, path_place(all, paths));
		path_clear(all);
	}
	return (uint64_t)path_state(all) << 32 | record;
}

static uint64_t transition_find(struct block_paths *all, struct layer *paths, uint32_t state,
				uint32_t place)
{
	uint64_t key = (uint64_t)state << 32 | place;
	uint64_t *known = map_find(&all->transitions, key);
	uint64_t made;

	if (known)
		return *known;
	made = transition_make(all, paths, state, place);
	*map_at(&all->transitions, key, NULL) = made;
	return made;
}

/* Which of the two it is cannot be predicted, so both are looked at. */
static inline uint64_t transition_of(struct block_paths *all, struct layer *paths, uint32_t state,
				     uint32_t place)
{
	uint32_t *known = segment_cycles(all)->words.items + place + CYCLES_KEPT;
	const uint32_t *used = known[KNOWN_WORDS + KNOWN_STATE] == state + 1 ? known + KNOWN_WORDS
									     : known;
	uint64_t found;

	if (__builtin_expect(used[KNOWN_STATE] == state + 1, 1))
		return (uint64_t)used[KNOWN_NEXT] << 32 | used[KNOWN_ENDED];
	found = transition_find(all, paths, state, place);
	memcpy(known + KNOWN_WORDS, known, KNOWN_WORDS * sizeof(*known));
	known[KNOWN_STATE] = state + 1;
	known[KNOWN_NEXT] = (uint32_t)(found >> 32);
	known[KNOWN_ENDED] = (uint32_t)found;
	return found;
}

/* --- Cycles that come in ---------------------------------------------------------------------- */

static void out_flush(struct block_paths *all, struct layer *paths)
{
	layer_take(paths, all->out, all->out_count);
	all->out_count = 0;
}

static void out_add(struct block_paths *all, struct layer *paths, struct layer_taken taken)
{
	if (all->out_count >= LAYER_BATCH)
		out_flush(all, paths);
	all->out[all->out_count++] = taken;
}

/* Hands on the paths of a record, so many times. */
static void ended_repeat(struct block_paths *all, struct layer *paths, uint32_t record,
			 uint64_t times)
{
	uint32_t count = all->ended.items[record];
	const struct layer_taken *ended = ended_at(all, record);

	if (count == 1 && ended->trips * times < UINT32_MAX) {
		out_add(all, paths,
			(struct layer_taken){ ended->place, (uint32_t)(ended->trips * times) });
		return;
	}
	for (; times && count; times--)
		for (uint32_t i = 0; i < count; i++)
			out_add(all, paths, ended[i]);
}

/* Most transitions end a few paths; how many cannot be predicted. */
static inline void ended_hand_on(struct block_paths *all, struct layer *paths, uint32_t record)
{
	uint32_t count = all->ended.items[record];

	if (__builtin_expect(count > BLOCK_PATHS_FEW, 0)) {
		ended_repeat(all, paths, record, 1);
		return;
	}
	if (__builtin_expect(all->out_count >= LAYER_BATCH, 0))
		out_flush(all, paths);
	memcpy(all->out + all->out_count, ended_at(all, record),
	       BLOCK_PATHS_FEW * sizeof(*all->out));
	all->out_count += count;
}

static inline void cycle_take(struct block_paths *all, struct block_path *path, uint32_t place,
			      uint64_t trips)
{
	while (trips) {
		uint64_t found = transition_of(all, path->paths, path->state, place);
		uint32_t before = path->state;

		path->state = (uint32_t)(found >> 32);
		if (trips > 1 && path->state == before) {
			ended_repeat(all, path->paths, (uint32_t)found, trips);
			return;
		}
		ended_hand_on(all, path->paths, (uint32_t)found);
		trips--;
	}
}

static void transitions_clear(struct block_paths *all)
{
	struct cycles *cycles = segment_cycles(all);

	for (uint32_t slot = 1; slot <= cycles_last(cycles); slot++)
		memset(cycles_header(cycles, slot) + CYCLES_KEPT, 0,
		       (CYCLES_HEADER - CYCLES_KEPT) * sizeof(uint32_t));
	map_clear(&all->transitions);
	transitions_begin(all);
}

/* Open paths stay what they are, and get new states. */
static void states_clear(struct block_paths *all)
{
	struct cycles before = all->states;

	cycles_init(&all->states, &(struct cycles_options){ .memory = all->options.memory });
	for (struct block_path *path = all->threads; path; path = path->next)
		if (path->state)
			path->state = cycles_intern(&all->states,
						    cycles_symbols(&before, path->state),
						    cycles_at(&before, path->state)->length, true);
	cycles_deinit(&before);
	all->loaded = NOTHING_LOADED;
	all->states_full = false;
}

static void make_room(struct block_paths *all)
{
	transitions_clear(all);
	states_clear(all);
	if (all->paths_full)
		layer_space_clear(all->options.paths);
	all->paths_full = false;
}

/*
 * Prefetches headers, and some cycles later what their transitions refer to, one of which will most
 * often be used.
 */
static inline void fetch_ahead(const struct block_paths *all, const uint32_t *places, size_t i,
			       size_t count)
{
	const uint32_t *words = segment_cycles(all)->words.items + CYCLES_KEPT;

	if (i + HEADERS_AHEAD < count)
		__builtin_prefetch(words + places[i + HEADERS_AHEAD]);
	if (i + RECORDS_AHEAD < count) {
		const uint32_t *known = words + places[i + RECORDS_AHEAD];

		__builtin_prefetch(all->ended.items + known[KNOWN_ENDED]);
		__builtin_prefetch(all->ended.items + known[KNOWN_WORDS + KNOWN_ENDED]);
	}
}

void block_path_take(struct block_paths *all, struct block_path *path, const uint32_t *places,
		     const uint64_t *trips, size_t count)
{
	if (all->paths_full || all->states_full)
		make_room(all);
	for (size_t i = 0; i < count; i++) {
		fetch_ahead(all, places, i, count);
		cycle_take(all, path, places[i], trips[i]);
	}
	out_flush(all, path->paths);
}

void block_path_finish(struct block_paths *all, struct block_path *path)
{
	path_load(all, path->state);
	path->state = 0;
	if (all->length)
		out_add(all, path->paths, (struct layer_taken){ path_place(all, path->paths), 1 });
	out_flush(all, path->paths);
}

void block_paths_cycles_clearing(struct block_paths *all)
{
	transitions_clear(all);
}

size_t block_paths_memory(const struct block_paths *all)
{
	return cycles_memory(&all->states) +
	       (all->transitions.mask + 1) * sizeof(*all->transitions.slots) +
	       (all->ended.capacity + all->open.capacity + all->marks.capacity) * sizeof(uint32_t);
}
