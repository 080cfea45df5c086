// SPDX-License-Identifier: BSD-2-Clause
/*
 * A thread's repeated paths are walked once. Each is a stretch of the level of paths; those of
 * which a stratum consists make one of the level of strata, and the same stratum again makes that
 * longer. A stretch that is at least a cell long is kept as it is. Shorter ones are gathered until
 * they are as long as a cell, or until a long one comes: so there are at most three for each cell,
 * however long the run.
 *
 *  1. The stretches of a thread and level follow each other without gaps, from 0 to the end.
 *  2. A stretch with a cycle has trips times the weight of the cycle as its length.
 *  3. The parts of a stratum, and the steps of a path, add up to its weight.
 */
#include "analyse/course.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/meta.h"
#include "analyse/steps.h"
#include "base/map.h"
#include "base/mem.h"
#include "paths/layer.h"

enum {
	THREADS_MAX = 200,
	SHORT_FACTOR = 4, /* cells of a thread are this part of all instructions, or longer */
	PART_CELLS = 256, /* of a stratum */
	STEPS_MAX = 64, /* of a path */
	CONTENT_MAX = 1 << 22, /* repeated paths of the strata that are told apart */
	PARTS_MAX = 1 << 17,
};

/* Stretches that are too short to be shown by themselves. */
struct gathering {
	uint64_t begin, length, trips;
	uint64_t *sums; /* by path of the process: its instructions */
	ARRAY(uint64_t) paths; /* that have any */
};

/* A stratum that is being repeated. */
struct repeated {
	ARRAY(struct sequence_repeat) items; /* what it holds */
	uint64_t begin, weight, trips; /* trips 0: none yet */
};

/* The content of a stratum that was kept. */
struct content {
	size_t first, count; /* in `contents` */
	uint64_t next; /* index + 1 of one with the same hash */
	uint32_t process;
};

struct making {
	struct course *course;
	const struct profile *profile;
	struct order_code code; /* of the process in hand */
	uint64_t *weights; /* by path of the process */
	uint32_t *shown; /* by path of the process: index in course.paths + 1 */
	uint64_t cell;
	struct gathering gathered[COURSE_LEVELS];
	struct repeated stratum;
	ARRAY(struct sequence_repeat) open; /* of the stratum that has not ended */
	uint64_t now; /* where the first of `open` begins */
	const struct sequence_repeat *items; /* those that strata are being found in */
	ARRAY(struct sequence_repeat) contents;
	ARRAY(struct content) strata; /* by index in course.strata */
	struct map by_hash; /* of contents to index + 1 */
};

/* --- Paths ------------------------------------------------------------------------------------ */

static void steps_add(struct making *making, uint64_t path)
{
	struct course *course = making->course;
	struct order_blocks blocks = {};
	struct steps steps = {};
	uint64_t rest = 0;

	/* It was checked when it was read. */
	if (!order_path_blocks(&making->code, path, &blocks))
		steps_make(making->profile, &blocks, &steps);
	for (size_t i = 0; i < steps.items.count; i++) {
		const struct step *step = &steps.items.items[i];

		if (i < STEPS_MAX)
			*array_push(&course->steps) = (struct course_step){
				step->location, step_file(making->profile, step), step->line_low,
				step->line_high, step->instructions
			};
		else
			rest += step->instructions;
	}
	if (rest)
		*array_push(&course->steps) = (struct course_step){ .instructions = rest };
	array_deinit(&blocks.items);
	array_deinit(&steps.items);
}

static uint32_t path_show(struct making *making, uint64_t path)
{
	struct course *course = making->course;
	size_t first = course->steps.count;

	if (making->shown[path])
		return making->shown[path] - 1;
	steps_add(making, path);
	*array_push(&course->paths) = (struct course_path){ making->code.process, path,
							    making->weights[path], first,
							    course->steps.count - first };
	making->shown[path] = (uint32_t)course->paths.count;
	return making->shown[path] - 1;
}

/* --- What is too short ------------------------------------------------------------------------ */

static void gathering_add(struct gathering *gathering, uint64_t path, uint64_t instructions)
{
	if (!instructions)
		return;
	if (!gathering->sums[path])
		*array_push(&gathering->paths) = path;
	gathering->sums[path] += instructions;
}

/* The hottest path; forgets all. */
static uint64_t gathering_end(struct gathering *gathering, uint64_t *ret_instructions)
{
	uint64_t hot = 0;

	*ret_instructions = 0;
	array_each(&gathering->paths, path) {
		if (gathering->sums[*path] > *ret_instructions) {
			hot = *path;
			*ret_instructions = gathering->sums[*path];
		}
		gathering->sums[*path] = 0;
	}
	gathering->paths.count = 0;
	gathering->length = gathering->trips = 0;
	return hot;
}

static void gathered_write(struct making *making, enum course_level level)
{
	struct gathering *gathering = &making->gathered[level];
	struct course_stretch stretch = { .level = level,
					  .begin = gathering->begin,
					  .end = gathering->begin + gathering->length,
					  .trips = gathering->trips };
	uint64_t hot = gathering_end(gathering, &stretch.hot_instructions);

	if (stretch.end == stretch.begin)
		return;
	stretch.hot = path_show(making, hot);
	*array_push(&making->course->stretches) = stretch;
}

/* Makes room for a stretch that is not shown by itself. */
static struct gathering *gather(struct making *making, enum course_level level, uint64_t begin,
				uint64_t length, uint64_t trips)
{
	struct gathering *gathering = &making->gathered[level];

	if (gathering->length && gathering->length + length > making->cell)
		gathered_write(making, level);
	if (!gathering->length)
		gathering->begin = begin;
	gathering->length += length;
	gathering->trips += trips;
	return gathering;
}

static void path_take(struct making *making, uint64_t begin, const struct sequence_repeat *repeat)
{
	uint64_t length = repeat->trips * making->weights[repeat->path];

	if (length < making->cell) {
		gathering_add(gather(making, COURSE_PATHS, begin, length, repeat->trips),
			      repeat->path, length);
		return;
	}
	gathered_write(making, COURSE_PATHS);
	*array_push(&making->course->stretches) =
		(struct course_stretch){ .level = COURSE_PATHS,
					 .cycle = path_show(making, repeat->path) + 1,
					 .begin = begin,
					 .end = begin + length,
					 .trips = repeat->trips,
					 .hot = path_show(making, repeat->path),
					 .hot_instructions = length };
}

/* --- Strata ----------------------------------------------------------------------------------- */

static uint64_t repeats_weight(const struct making *making, const struct sequence_repeat *repeats,
			       size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += repeats[i].trips * making->weights[repeats[i].path];
	return sum;
}

static bool repeats_equal(const struct sequence_repeat *a, const struct sequence_repeat *b,
			  size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (a[i].path != b[i].path || a[i].trips != b[i].trips)
			return false;
	return true;
}

static void part_add(struct making *making, const struct course_part *part)
{
	*array_push(&making->course->parts) = *part;
}

/* The same as for a thread: what is less than a cell is gathered. */
static void parts_add(struct making *making, const struct repeated *stratum)
{
	struct gathering *gathering = &making->gathered[COURSE_STRATA];
	uint64_t cell = stratum->items.count > PART_CELLS ? stratum->weight / PART_CELLS : 0;
	struct course_part part = { .various = true };

	for (size_t i = 0; i <= stratum->items.count; i++) {
		const struct sequence_repeat *it =
			i < stratum->items.count ? &stratum->items.items[i] : NULL;
		uint64_t length = it ? it->trips * making->weights[it->path] : 0;
		bool is_short = it && length < cell;

		if (part.instructions &&
		    (!is_short || part.instructions + length > (cell ? cell : 1))) {
			uint64_t unused;

			part.path = path_show(making, gathering_end(gathering, &unused));
			part_add(making, &part);
			part = (struct course_part){ .various = true };
		}
		if (is_short) {
			gathering_add(gathering, it->path, length);
			part.instructions += length;
			part.trips += it->trips;
		} else if (it) {
			part_add(making, &(struct course_part){ path_show(making, it->path),
								it->trips, length, false });
		}
	}
}

static uint64_t stratum_hot(struct making *making, const struct repeated *stratum,
			    uint64_t *ret_instructions)
{
	struct gathering *gathering = &making->gathered[COURSE_STRATA];

	array_each(&stratum->items, it)
		gathering_add(gathering, it->path, it->trips * making->weights[it->path]);
	return gathering_end(gathering, ret_instructions);
}

/* Everything gathered so far has been written, so its memory is used for the parts. */
static uint32_t stratum_new(struct making *making, const struct repeated *stratum, uint64_t next)
{
	struct course *course = making->course;
	size_t first = course->parts.count;
	struct course_stratum shown = { .weight = stratum->weight };
	uint64_t hot;

	*array_push(&making->strata) = (struct content){ making->contents.count,
							 stratum->items.count, next,
							 making->code.process };
	array_each(&stratum->items, it)
		*array_push(&making->contents) = *it;
	hot = stratum_hot(making, stratum, &shown.hot_instructions);
	shown.hot = path_show(making, hot);
	if (first < PARTS_MAX)
		parts_add(making, stratum);
	shown.first = first;
	shown.count = course->parts.count - first;
	*array_push(&course->strata) = shown;
	return (uint32_t)course->strata.count;
}

/* Its number + 1; 0: there is no room to tell it from others. */
static uint32_t stratum_number(struct making *making, const struct repeated *stratum)
{
	size_t count = stratum->items.count;
	uint64_t hash = making->code.process, *place, first;

	if (making->contents.count + count > CONTENT_MAX)
		return 0;
	array_each(&stratum->items, it)
		hash = hash64_pair(hash, hash64_pair(it->path, it->trips));
	place = map_at(&making->by_hash, hash, NULL);
	first = *place;
	for (uint64_t i = first; i; i = making->strata.items[i - 1].next) {
		const struct content *content = &making->strata.items[i - 1];

		if (content->count == count && content->process == making->code.process &&
		    repeats_equal(&making->contents.items[content->first], stratum->items.items,
				  count))
			return (uint32_t)i;
	}
	*place = making->strata.count + 1;
	return stratum_new(making, stratum, first);
}

static void various_take(struct making *making, const struct repeated *stratum)
{
	struct gathering *gathering = gather(making, COURSE_STRATA, stratum->begin,
					     stratum->weight * stratum->trips, stratum->trips);

	array_each(&stratum->items, it)
		gathering_add(gathering, it->path,
			      stratum->trips * it->trips * making->weights[it->path]);
}

/* Ends the stratum that was repeated. */
static void stratum_end(struct making *making)
{
	struct repeated *stratum = &making->stratum;
	uint64_t length = stratum->trips * stratum->weight;
	uint32_t number = 0;

	if (!stratum->trips)
		return;
	if (length >= making->cell) {
		gathered_write(making, COURSE_STRATA);
		number = stratum_number(making, stratum);
	}
	if (!number) {
		various_take(making, stratum);
	} else {
		const struct course_stratum *shown = &making->course->strata.items[number - 1];

		*array_push(&making->course->stretches) =
			(struct course_stretch){ .level = COURSE_STRATA,
						 .cycle = number,
						 .begin = stratum->begin,
						 .end = stratum->begin + length,
						 .trips = stratum->trips,
						 .hot = shown->hot,
						 .hot_instructions =
							 stratum->trips * shown->hot_instructions };
	}
	stratum->trips = 0;
}

static void stratum_take(void *context, size_t first, size_t count)
{
	struct making *making = context;
	const struct sequence_repeat *items = making->items + first;
	struct repeated *stratum = &making->stratum;
	uint64_t weight = repeats_weight(making, items, count);

	if (stratum->trips && stratum->items.count == count &&
	    repeats_equal(stratum->items.items, items, count)) {
		stratum->trips++;
	} else {
		stratum_end(making);
		stratum->items.count = 0;
		for (size_t i = 0; i < count; i++)
			*array_push(&stratum->items) = items[i];
		stratum->begin = making->now;
		stratum->weight = weight;
		stratum->trips = 1;
	}
	making->now += weight;
}

/* --- Threads ---------------------------------------------------------------------------------- */

static int row_take(void *context, const struct profile_flow *row,
		    const struct sequence_position *begin, const struct sequence_repeats *repeats)
{
	struct making *making = context;
	uint32_t max_cycle = (uint32_t)meta_number(making->profile, META_MAX_CYCLE);
	uint64_t now = begin->units[SEQUENCE_INSTRUCTION];
	size_t open;

	array_each(&repeats->items, it) {
		path_take(making, now, it);
		now += it->trips * making->weights[it->path];
		*array_push(&making->open) = *it;
	}
	making->items = making->open.items;
	open = sequence_strata(making->open.items, making->open.count,
			       max_cycle ? max_cycle : LAYER_MAX_CYCLE, stratum_take, making);
	memmove(making->open.items, making->open.items + open,
		(making->open.count - open) * sizeof(*making->open.items));
	making->open.count -= open;
	return 0;
}

static int stretch_order(const void *left, const void *right)
{
	const struct course_stretch *a = left, *b = right;

	if (a->level != b->level)
		return a->level > b->level ? -1 : 1;
	return (a->begin > b->begin) - (a->begin < b->begin);
}

static int thread_take(struct making *making, struct course_thread *thread)
{
	struct course *course = making->course;
	int err;

	thread->first = course->stretches.count;
	making->now = making->open.count = making->stratum.trips = 0;
	err = order_walk(&making->code, thread->thread, row_take, making);
	if (err)
		return err;
	making->items = making->open.items;
	if (making->open.count)
		stratum_take(making, 0, making->open.count);
	stratum_end(making);
	gathered_write(making, COURSE_STRATA);
	gathered_write(making, COURSE_PATHS);
	thread->count = course->stretches.count - thread->first;
	if (thread->count)
		qsort(course->stretches.items + thread->first, thread->count,
		      sizeof(*course->stretches.items), stretch_order);
	return 0;
}

static int process_begin(struct making *making, uint32_t process)
{
	int err = order_code_init(&making->code, making->profile, process);
	size_t paths = making->code.paths.ends.count + 1;

	making->weights = mem_zalloc(paths * sizeof(*making->weights));
	making->shown = mem_zalloc(paths * sizeof(*making->shown));
	for (size_t i = 0; i < COURSE_LEVELS; i++)
		making->gathered[i].sums = mem_zalloc(paths * sizeof(uint64_t));
	for (uint64_t i = 1; i + 1 < paths && !err; i++)
		making->weights[i] = order_path_weight(&making->code, i);
	return err;
}

static void process_end(struct making *making)
{
	order_code_deinit(&making->code);
	free(making->weights);
	free(making->shown);
	for (size_t i = 0; i < COURSE_LEVELS; i++) {
		free(making->gathered[i].sums);
		array_deinit(&making->gathered[i].paths);
		making->gathered[i] = (struct gathering){};
	}
}

static int process_take(struct making *making, uint32_t process, size_t resolution, uint64_t all)
{
	bool begun = false;
	int err = 0;

	array_each(&making->course->threads, thread) {
		uint64_t least = all / (resolution * SHORT_FACTOR);

		if (making->profile->threads[thread->thread].process != process)
			continue;
		if (!begun)
			err = process_begin(making, process);
		begun = true;
		making->cell = thread->instructions / resolution;
		making->cell = making->cell > least ? making->cell : least;
		making->cell += !making->cell;
		err = err ? err : thread_take(making, thread);
		if (err)
			break;
	}
	if (begun)
		process_end(making);
	return err;
}

static int thread_order(const void *left, const void *right)
{
	const struct course_thread *a = left, *b = right;

	if (a->instructions != b->instructions)
		return a->instructions > b->instructions ? -1 : 1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Returns the instructions of all. */
static uint64_t threads_choose(const struct profile *profile, const struct filter *filter,
			       struct course *course)
{
	uint64_t all = 0;

	for (uint32_t i = 1; i < profile->thread_count; i++) {
		uint64_t length = order_thread_end(profile, i).units[SEQUENCE_INSTRUCTION];

		if (length && filter_thread(filter, profile, i))
			*array_push(&course->threads) =
				(struct course_thread){ .thread = i, .instructions = length };
	}
	if (course->threads.count)
		qsort(course->threads.items, course->threads.count, sizeof(*course->threads.items),
		      thread_order);
	if (course->threads.count > THREADS_MAX) {
		course->omitted = course->threads.count - THREADS_MAX;
		course->threads.count = THREADS_MAX;
	}
	array_each(&course->threads, thread)
		all += thread->instructions;
	return all;
}

int course_make(const struct profile *profile, const struct filter *filter, size_t resolution,
		struct course *ret)
{
	struct making making = { .course = ret, .profile = profile };
	uint64_t all;
	int err = 0;

	*ret = (struct course){};
	all = threads_choose(profile, filter, ret);
	for (uint32_t i = 1; i < profile->process_count && !err; i++)
		err = process_take(&making, i, resolution, all);
	array_deinit(&making.stratum.items);
	array_deinit(&making.open);
	array_deinit(&making.contents);
	array_deinit(&making.strata);
	map_deinit(&making.by_hash);
	return err;
}

void course_deinit(struct course *course)
{
	array_deinit(&course->threads);
	array_deinit(&course->stretches);
	array_deinit(&course->strata);
	array_deinit(&course->parts);
	array_deinit(&course->paths);
	array_deinit(&course->steps);
}
