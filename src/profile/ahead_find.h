/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cycles in what lies ahead, whatever the processor can compare at once: the file that includes this one says it by
 *
 *	TARGET		an attribute for functions: the processor's
 *	WINDOW		symbols, at most AHEAD_WINDOW
 *	window_length	of the cycle that begins there; 0: it has at least as many symbols as a window
 *	window_equal	how many symbols are equal to those a length later; WINDOW: at least so many
 *	window_holds	whether the first `length` symbols hold this one
 *	window_sum	of a hash (cycles_hash())
 *
 * The cycle comes once more if the symbols are equal to those one length before, for a length. So the number of symbols for
 * which that holds, divided by the length, says how many trips follow the first one. The last of them is complete only if
 * a symbol follows that ends it: the first of the cycle again, or another that the cycle holds.
 *
 * Where the next cycle begins is known only when the last one has been measured, and a processor could do several at a time. So a block
 * of symbols is cut into as many parts, and cycles are looked for in all of them in turn, as if one began where
 * the part does. Then they are put together: where the cycles of one part end, in the midst of the next one, usually a
 * cycle of that one begins, and from there on all of its are right. Until then they are found one by one.
 *
 * 1. Nothing beyond symbols[count - 1] is read.
 * 2. Where a cycle begins, its length and trips depend on nothing but the symbols from there on.
 */

#include "profile/ahead.h"
#include "profile/cycles.h"
#include "profile/words.h"

enum {
	PARTS = 4,
	PART_MIN = 32,
	PART_MAX = AHEAD_BLOCK / PARTS,
	MARGIN = 3 * WINDOW + 1, /* symbols that a step may look at */
	RECIPROCAL_BITS = 8,
};

/* m / length for m up to a window: m * reciprocals[length] >> RECIPROCAL_BITS. */
static const uint16_t reciprocals[AHEAD_WINDOW] = { 0,	256, 128, 86, 64, 52, 43, 37,
						    32, 29,  26,  24, 22, 20, 19, 18 };

struct step {
	uint32_t first, length, trips;
};

struct part {
	uint32_t at, end;
	uint32_t count;
	bool stopped; /* a cycle does not end */
	struct step steps[PART_MAX + 1];
};

/* From which symbol on they are not equal any more to those a length later; they are, up to `from`. */
TARGET static size_t equal_until(const uint32_t *symbols, size_t length, size_t from, size_t count)
{
	while (from + length + WINDOW <= count && window_equal(symbols + from, length) == WINDOW)
		from += WINDOW;
	while (from + length < count && symbols[from] == symbols[from + length])
		from++;
	return from;
}

/* As many trips as the symbols show. The first is complete. */
TARGET static size_t trips_count(const uint32_t *symbols, size_t length, size_t count)
{
	size_t equal = equal_until(symbols, length, 0, count - 1);
	size_t more = equal / length;

	if (more && more * length == equal &&
	    !words_hold(symbols, length, symbols[(more + 1) * length]))
		more--;
	return 1 + more;
}

/* What lies ahead. */
struct view {
	const uint32_t *symbols;
	size_t count;
	const struct ahead_long *longer;
};

/* A cycle that no window shows. Its length is 0 if it does not end. */
TARGET static struct step step_long(const struct view *view, uint32_t at)
{
	const uint32_t *symbols = view->symbols + at;
	size_t count = view->count - at;
	struct step step = { .first = at };
	size_t length = view->longer->length(view->longer->context, symbols, count);

	if (length == count)
		return step;
	step.length = (uint32_t)length;
	step.trips = symbols[0] == symbols[length] ? (uint32_t)trips_count(symbols, length, count)
						   : 1;
	return step;
}

/* The cycle that begins here; at least MARGIN symbols are there. */
TARGET static inline __attribute__((always_inline)) struct step step_at(const struct view *view,
									uint32_t at)
{
	const uint32_t *window = view->symbols + at;
	unsigned length = window_length(window), equal, more, exact;

	if (__builtin_expect(!length, 0))
		return step_long(view, at);
	equal = window_equal(window, length);
	more = equal * reciprocals[length] >> RECIPROCAL_BITS;
	exact = (more * length == equal) & (more != 0);
	/* What is likely is taken for granted, so that the next step need not wait for it. */
	if (__builtin_expect((equal == WINDOW) |
				     (exact & window_holds(window, length, window[equal + length])),
			     0))
		return (struct step){ at, length,
				      (uint32_t)trips_count(window, length, view->count - at) };
	return (struct step){ at, length, 1 + more - exact };
}

TARGET static inline uint32_t step_end(const struct step *step)
{
	return step->first + step->length * step->trips;
}

TARGET static inline __attribute__((always_inline)) void part_step(struct part *part,
								   const struct view *view)
{
	struct step step = step_at(view, part->at);

	part->steps[part->count] = step;
	part->count += step.length != 0;
	part->at = step_end(&step);
	if (__builtin_expect(!step.length, 0)) {
		part->stopped = true;
		part->end = 0;
	}
}

TARGET static inline unsigned part_goes_on(const struct part *part)
{
	return part->at < part->end;
}

TARGET static inline unsigned parts_go_on(const struct part *parts)
{
	return part_goes_on(&parts[0]) & part_goes_on(&parts[1]) & part_goes_on(&parts[2]) &
	       part_goes_on(&parts[3]);
}

TARGET static inline void parts_find(struct part *parts, uint32_t size, const struct view *view)
{
	for (unsigned i = 0; i < PARTS; i++) {
		parts[i].at = i * size;
		parts[i].end = (i + 1) * size;
		parts[i].count = 0;
		parts[i].stopped = false;
	}
	while (parts_go_on(parts)) {
		part_step(&parts[0], view);
		part_step(&parts[1], view);
		part_step(&parts[2], view);
		part_step(&parts[3], view);
	}
	for (unsigned i = 0; i < PARTS; i++)
		while (part_goes_on(&parts[i]))
			part_step(&parts[i], view);
}

TARGET static inline void step_put(struct ahead *ret, const struct view *view, struct step step)
{
	const uint32_t *symbols = view->symbols + step.first;
	struct ahead_cycle *cycle = &ret->cycles[ret->count++];

	cycle->first = step.first;
	cycle->length = step.length;
	cycle->trips = step.trips;
	cycle->hash = step.length < WINDOW
			      ? cycles_hash_end(window_sum(symbols, step.length), step.length)
			      : cycles_hash(symbols, step.length);
}

/* Whether a trip of the step begins there; then the step is what remains of it. */
TARGET static bool step_meets(struct step *step, uint32_t at)
{
	uint32_t done = at - step->first;

	if (at < step->first || done % step->length)
		return false;
	step->first = at;
	step->trips -= done / step->length;
	return true;
}

/* Appends the cycles from *at on to the part's end. False: one does not end, or the end of the sequence is near. */
TARGET static inline bool part_take(const struct part *part, const struct view *view,
				    struct ahead *ret, uint32_t *at)
{
	const struct step *step = part->steps, *end = step + part->count;
	struct step next;

	while (true) {
		while (step < end && step_end(step) <= *at)
			step++;
		if (step == end)
			return !part->stopped;
		next = *step;
		if (step_meets(&next, *at))
			break;
		if (*at + MARGIN > view->count)
			return false;
		next = step_at(view, *at);
		if (!next.length)
			return false;
		step_put(ret, view, next);
		*at = step_end(&next);
	}
	step_put(ret, view, next);
	for (step++; step < end; step++)
		step_put(ret, view, *step);
	*at = part->at;
	return !part->stopped;
}

TARGET static inline size_t block_find(const struct view *view, struct ahead *ret)
{
	struct part parts[PARTS];
	uint32_t at = 0, size;

	ret->count = 0;
	if (view->count < MARGIN + PARTS * PART_MIN)
		return 0;
	size = (uint32_t)((view->count - MARGIN) / PARTS);
	if (size > PART_MAX)
		size = PART_MAX;
	parts_find(parts, size, view);
	for (unsigned i = 0; i < PARTS; i++)
		if (!part_take(&parts[i], view, ret, &at))
			break;
	return at;
}
