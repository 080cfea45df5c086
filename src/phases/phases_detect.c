// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where a thread's phases are: five detectors, and what they agree on.
 *
 *	blocks		Intervals are clustered by their block vectors (phases/cluster.h). The
 *			boundaries are those of the sequence of clusters that lies closest to the
 *			intervals, at a price for each change of cluster. Then the intervals between
 *			two boundaries are clustered by themselves, and so on, because the first
 *			clusters go to what most of the recording does, and a short phase beside a
 *			restless one has none.
 *	functions	Instructions in functions: segmentation of the vectors (phases/changes.h).
 *	branches	Conditional branches per instruction: segmentation.
 *	order		The hot paths before and after, each sorted. A path that has passed another
 *			one, an order of magnitude apart both before and after, counts with its
 *			share of what the hot paths execute.
 *	working-set	The blocks executed before and after, each counted by the share of the
 *			intervals in which it was executed. The distance is how much of both
 *			together is not common to both.
 *
 * All detectors compare as many intervals before and after as the shortest phase has, and all go
 * through the same pruning: a change that is no clearer than what goes on elsewhere is no boundary.
 * Vectors are compared by direction, not by length.
 *
 * Boundaries close to each other become one. Its position is that of the most exact detector: those
 * with vectors tell where in an interval it is, by how much of the interval is like what was
 * before.
 *
 * Phases get labels one after the other: the label of the nearest phase before, by the mean of the
 * block vectors, or a new one if none is near. The phase just before is never near, because there
 * is a boundary between the two.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "phases/changes.h"
#include "phases/cluster.h"
#include "phases/phases_private.h"

enum {
	CLUSTERS = 8,
	SHORTEST = 4, /* intervals of a phase: two halves, and two that may be mixed */
	FEWEST = 32, /* intervals that can be told from noise */
};

static const double shortest_default = 0.01, tolerance_default = 0.01;
static const double floor_factor = 2; /* a boundary is so many times clearer than what is usual */
static const double label_distance = 0.25;
static const double order_magnitude = 10;

/* The least distance of two stretches with a boundary between them. */
static const double thresholds[PHASES_DETECTOR_COUNT] = {
	[PHASES_BLOCKS] = 0.25, [PHASES_FUNCTIONS] = 0.25,  [PHASES_BRANCHES] = 0.05,
	[PHASES_ORDER] = 0.6,	[PHASES_WORKING_SET] = 0.4,
};

static const char *const texts[] = {
#define X(name, text, what) [PHASES_##name] = text,
	PHASES_DETECTORS(X)
#undef X
};

static const char *const whats[] = {
#define X(name, text, what) [PHASES_##name] = what,
	PHASES_DETECTORS(X)
#undef X
};

struct detection {
	const struct phases_interval *intervals;
	size_t count;
	struct phases_detect_options options;
	size_t shortest; /* intervals */
	struct phases_result *result;
	uint16_t *touched; /* touched_count(), for the detector of working sets */
};

const char *phases_detector_text(enum phases_detector detector)
{
	assert(detector < PHASES_DETECTOR_COUNT);
	return texts[detector];
}

const char *phases_detector_what(enum phases_detector detector)
{
	assert(detector < PHASES_DETECTOR_COUNT);
	return whats[detector];
}

int phases_detector_parse(const char *text, enum phases_detector *ret)
{
	for (enum phases_detector i = 0; i < PHASES_DETECTOR_COUNT; i++)
		if (strcmp(text, texts[i]) == 0) {
			*ret = i;
			return 0;
		}
	return err_set(
		-EINVAL,
		"%s: no such detector of phases; there are blocks, functions, branches, order "
		"and working-set",
		text);
}

static uint64_t interval_begin(const struct detection *d, size_t i)
{
	return i ? d->intervals[i - 1].end : 0;
}

static double interval_length(const struct detection *d, size_t i)
{
	return (double)(d->intervals[i].end - interval_begin(d, i));
}

/* Weights are such that the mean interval has weight 1. */
static double interval_weight(const struct detection *d, size_t i)
{
	return fmax(interval_length(d, i), 1) * (double)d->count /
	       fmax((double)d->result->instructions, 1);
}

/* Divides by the instructions of the interval; unit: makes it a vector of length 1. */
static void vector_row(const float *vector, double length, bool unit, double *ret)
{
	double squares = 0;

	for (unsigned i = 0; i < PHASES_DIMENSIONS; i++) {
		ret[i] = vector[i] / fmax(length, 1);
		squares += ret[i] * ret[i];
	}
	for (unsigned i = 0; unit && squares > 0 && i < PHASES_DIMENSIONS; i++)
		ret[i] /= sqrt(squares);
}

/* Writes the vector that a detector sees of an interval; returns its length. */
static size_t detector_row(const struct detection *d, enum phases_detector detector, size_t i,
			   bool unit, double *ret)
{
	const struct phases_interval *interval = &d->intervals[i];
	double length = interval_length(d, i);

	if (detector == PHASES_BRANCHES) {
		ret[0] = (double)interval->heat.of[HEAT_BRANCHES] / fmax(length, 1);
		return 1;
	}
	vector_row(detector == PHASES_BLOCKS ? interval->blocks : interval->functions, length, unit,
		   ret);
	return PHASES_DIMENSIONS;
}

static void series_fill(const struct detection *d, enum phases_detector detector, bool unit,
			struct changes_series *ret)
{
	double row[PHASES_DIMENSIONS];

	changes_series_init(ret, d->count, detector_row(d, detector, 0, unit, row));
	for (size_t i = 0; i < d->count; i++) {
		detector_row(d, detector, i, unit, row);
		changes_series_add(ret, row, interval_weight(d, i));
	}
}

static double squared(const double *a, const double *b)
{
	double sum = 0;

	for (unsigned i = 0; i < PHASES_DIMENSIONS; i++)
		sum += (a[i] - b[i]) * (a[i] - b[i]);
	return sum;
}

/*
 * Finds the cheapest sequence of clusters. from[i * clusters + k]: the cluster before k at interval
 * i.
 */
static uint32_t clusters_follow(const double *rows, size_t count, const struct clusters *clusters,
				double price, uint32_t *from)
{
	double costs[CLUSTERS] = {};
	uint32_t best = 0;

	for (size_t i = 0; i < count; i++) {
		double change = costs[best] + (i ? price : 0);
		uint32_t before = best;

		for (uint32_t k = 0; k < clusters->count; k++) {
			from[i * clusters->count + k] = costs[k] <= change ? k : before;
			costs[k] = fmin(costs[k], change) +
				   squared(rows + i * PHASES_DIMENSIONS,
					   clusters->centres + k * PHASES_DIMENSIONS);
		}
		for (uint32_t k = 0; k < clusters->count; k++)
			if (costs[k] < costs[best])
				best = k;
	}
	return best;
}

/* A stretch that is too short is joined to the next one. */
static void labels_changes(const uint32_t *labels, size_t count, size_t shortest,
			   struct changes *ret)
{
	size_t last = 0;

	*ret = (struct changes){};
	for (size_t i = 1; i + shortest <= count; i++)
		if (labels[i] != labels[i - 1] && i >= last + shortest) {
			*array_push(&ret->at) = i;
			last = i;
		}
}

static void clusters_changes(const double *rows, size_t count, double price, size_t shortest,
			     struct changes *ret)
{
	AUTO(free_ptr) uint32_t *labels = mem_alloc(count * sizeof(*labels));
	AUTO(free_ptr) uint32_t *from = mem_alloc(count * CLUSTERS * sizeof(*from));
	struct clusters clusters;
	uint32_t k;

	clusters_find(rows, count, PHASES_DIMENSIONS, CLUSTERS, &clusters);
	k = clusters_follow(rows, count, &clusters, price, from);
	for (size_t i = count; i-- > 0;) {
		labels[i] = k;
		k = from[i * clusters.count + k];
	}
	labels_changes(labels, count, shortest, ret);
	clusters_deinit(&clusters);
}

/* Adds the changes of rows from to to - 1, and those between them. */
static void stretch_split(const double *rows, size_t from, size_t to, double price, size_t shortest,
			  struct changes *ret)
{
	struct changes changes = {};
	size_t begin = from;

	if (to - from < 2 * shortest)
		return;
	clusters_changes(rows + from * PHASES_DIMENSIONS, to - from, price, shortest, &changes);
	array_each(&changes.at, at) {
		stretch_split(rows, begin, from + *at, price, shortest, ret);
		begin = from + *at;
		*array_push(&ret->at) = begin;
	}
	if (changes.at.count)
		stretch_split(rows, begin, to, price, shortest, ret);
	changes_deinit(&changes);
}

static void blocks_changes(const struct detection *d, const struct changes_series *series,
			   const struct changes_options *options, struct changes *ret)
{
	AUTO(free_ptr) double *rows = mem_alloc(d->count * PHASES_DIMENSIONS * sizeof(*rows));

	*ret = (struct changes){};
	for (size_t i = 0; i < d->count; i++)
		detector_row(d, PHASES_BLOCKS, i, true, rows + i * PHASES_DIMENSIONS);
	stretch_split(rows, 0, d->count, changes_price(series, options), options->shortest, ret);
}

static struct phases_boundary *boundary_near(const struct detection *d, uint64_t at)
{
	double tolerance = d->options.tolerance * (double)d->result->instructions;
	struct phases_boundary *nearest = NULL;
	double least = INFINITY;

	array_each(&d->result->boundaries, boundary) {
		double far = fabs((double)boundary->at - (double)at);

		if (far <= tolerance && far < least) {
			least = far;
			nearest = boundary;
		}
	}
	return nearest;
}

static void boundary_add(struct detection *d, enum phases_detector detector, double row)
{
	size_t i = (size_t)row;
	uint64_t at = interval_begin(d, i);
	struct phases_boundary *boundary;

	if (i < d->count)
		at += (uint64_t)((row - (double)i) * interval_length(d, i));
	boundary = boundary_near(d, at);
	if (!boundary) {
		boundary = array_push(&d->result->boundaries);
		*boundary = (struct phases_boundary){ .at = at };
	}
	boundary->detectors |= 1u << detector;
}

static void vectors_detect(struct detection *d, enum phases_detector detector)
{
	struct changes_options options = { d->shortest, thresholds[detector], floor_factor };
	struct changes_series series, raw;
	struct changes changes;

	series_fill(d, detector, true, &series);
	series_fill(d, detector, false, &raw);
	if (detector == PHASES_BLOCKS)
		blocks_changes(d, &series, &options, &changes);
	else
		changes_segment(&series, &options, &changes);
	changes_prune(changes_distance, &series, d->count, &options, &changes);
	for (size_t i = 0; i < changes.at.count; i++)
		boundary_add(d, detector, changes_refine(&raw, &changes, i));
	changes_deinit(&changes);
	changes_series_deinit(&series);
	changes_series_deinit(&raw);
}

/* For each interval and mark: in how many intervals before it the mark was made. */
static uint16_t *touched_count(const struct detection *d)
{
	uint16_t *counts = mem_zalloc((d->count + 1) * PHASES_SIGNATURE * sizeof(*counts));

	assert(d->count <= UINT16_MAX);
	for (size_t row = 0; row < d->count; row++) {
		uint16_t *now = counts + row * PHASES_SIGNATURE, *next = now + PHASES_SIGNATURE;

		for (unsigned i = 0; i < PHASES_SIGNATURE; i++)
			next[i] = (uint16_t)(now[i] +
					     (d->intervals[row].touched[i / 64] >> i % 64 & 1));
	}
	return counts;
}

/*
 * The Jaccard distance of two sets, in which a block that is executed in half of the intervals is
 * half a member.
 */
static double working_set_distance(const void *context, size_t from, size_t middle, size_t to)
{
	const struct detection *d = context;
	const uint16_t *first = d->touched + from * PHASES_SIGNATURE;
	const uint16_t *second = d->touched + middle * PHASES_SIGNATURE;
	const uint16_t *third = d->touched + to * PHASES_SIGNATURE;
	float before = 1 / (float)(middle - from), after = 1 / (float)(to - middle);
	float apart = 0, either = 0;

	for (unsigned i = 0; i < PHASES_SIGNATURE; i++) {
		float was = (float)(second[i] - first[i]) * before;
		float is = (float)(third[i] - second[i]) * after;

		apart += was > is ? was - is : is - was;
		either += was > is ? was : is;
	}
	return either > 0 ? (double)(apart / either) : 0;
}

struct hot_list {
	struct phases_hot hot[PHASES_HOT];
	double length; /* instructions of the stretch */
};

static void hot_list_fill(const struct detection *d, size_t from, size_t to, struct hot_list *ret)
{
	*ret = (struct hot_list){};
	for (size_t i = from; i < to; i++) {
		phases_hot_merge(ret->hot, d->intervals[i].hot);
		ret->length += interval_length(d, i);
	}
}

/* The share of a path in the instructions. If a full list lacks the path, the most it can have. */
static double hot_share(const struct hot_list *list, uint64_t path)
{
	for (unsigned i = 0; i < PHASES_HOT; i++)
		if (list->hot[i].path == path)
			return (double)list->hot[i].instructions / list->length;
	return (double)list->hot[PHASES_HOT - 1].instructions / list->length;
}

/* Whether `up` was behind `down` and is before it now, by an order of magnitude both times. */
static bool path_passed(const struct hot_list *now, const struct hot_list *then,
			const struct phases_hot *up, const struct phases_hot *down)
{
	double up_now = (double)up->instructions / now->length;
	double down_then = (double)down->instructions / then->length;

	return down_then >= order_magnitude * hot_share(then, up->path) &&
	       up_now >= order_magnitude * hot_share(now, down->path);
}

/*
 * The instructions of the hot paths of `now`, or of those of them that have passed another since
 * `then`.
 */
static double hot_sum(const struct hot_list *now, const struct hot_list *then, bool passed)
{
	double sum = 0;

	for (unsigned i = 0; i < PHASES_HOT && now->hot[i].path; i++) {
		bool counts = !passed;

		for (unsigned j = 0; !counts && j < PHASES_HOT && then->hot[j].path; j++)
			counts = path_passed(now, then, &now->hot[i], &then->hot[j]);
		sum += counts ? (double)now->hot[i].instructions : 0;
	}
	return sum;
}

/*
 * The distance: which share of what the hot paths execute belongs to paths that have passed another
 * one.
 */
static double order_distance(const void *context, size_t from, size_t middle, size_t to)
{
	struct hot_list before, after;
	double hot;

	hot_list_fill(context, from, middle, &before);
	hot_list_fill(context, middle, to, &after);
	hot = hot_sum(&before, &after, false) + hot_sum(&after, &before, false);
	return hot > 0 ? (hot_sum(&before, &after, true) + hot_sum(&after, &before, true)) / hot
		       : 0;
}

static void peaks_detect(struct detection *d, enum phases_detector detector)
{
	struct changes_options options = { d->shortest, thresholds[detector], floor_factor };
	AUTO(free_ptr) uint16_t *touched = NULL;
	struct changes changes;

	if (detector == PHASES_WORKING_SET)
		d->touched = touched = touched_count(d);
	changes_peaks(detector == PHASES_ORDER ? order_distance : working_set_distance, d, d->count,
		      &options, &changes);
	array_each(&changes.at, at)
		boundary_add(d, detector, (double)*at);
	changes_deinit(&changes);
	d->touched = NULL;
}

static int boundary_compare(const void *left, const void *right)
{
	const struct phases_boundary *a = left, *b = right;

	return (a->at > b->at) - (a->at < b->at);
}

static void boundaries_detect(struct detection *d)
{
	struct phases_result *result = d->result;

	for (enum phases_detector i = 0; i < PHASES_DETECTOR_COUNT; i++) {
		if (!(d->options.detectors & 1u << i))
			continue;
		if (i == PHASES_ORDER || i == PHASES_WORKING_SET)
			peaks_detect(d, i);
		else
			vectors_detect(d, i);
	}
	array_each(&result->boundaries, boundary)
		boundary->kept = (unsigned)__builtin_popcount(boundary->detectors) >=
				 d->options.agree;
	if (result->boundaries.count)
		qsort(result->boundaries.items, result->boundaries.count,
		      sizeof(*result->boundaries.items), boundary_compare);
}

/*
 * A phase begins and ends within intervals, and what is known of it are sums over the intervals
 * whose middle it has: it gets the part that its length is of theirs.
 */
static void phase_scale(struct phase *phase, double part)
{
	for (unsigned k = 0; k < HEAT_KIND_COUNT; k++)
		phase->heat.of[k] = (uint64_t)((double)phase->heat.of[k] * part);
	for (unsigned k = 0; k < PHASES_HOT; k++) {
		phase->hot[k].trips = (uint64_t)((double)phase->hot[k].trips * part);
		phase->hot[k].instructions = (uint64_t)((double)phase->hot[k].instructions * part);
	}
}

static void phase_fill(const struct detection *d, struct phase *phase, double *vector)
{
	double row[PHASES_DIMENSIONS], weight = 0;
	double length = 0;

	for (size_t i = 0; i < d->count; i++) {
		uint64_t middle = interval_begin(d, i) / 2 + d->intervals[i].end / 2;

		if (middle < phase->begin || middle >= phase->end)
			continue;
		heat_add(&phase->heat, &d->intervals[i].heat, 1);
		phases_hot_merge(phase->hot, d->intervals[i].hot);
		length += interval_length(d, i);
		detector_row(d, PHASES_BLOCKS, i, true, row);
		weight += interval_weight(d, i);
		for (unsigned k = 0; k < PHASES_DIMENSIONS; k++)
			vector[k] += row[k] * interval_weight(d, i);
	}
	for (unsigned k = 0; weight > 0 && k < PHASES_DIMENSIONS; k++)
		vector[k] /= weight;
	if (length > 0)
		phase_scale(phase, (double)(phase->end - phase->begin) / length);
}

static double vectors_apart(const double *a, const double *b)
{
	static const double zero[PHASES_DIMENSIONS];
	double both = squared(a, zero) + squared(b, zero);

	return both > 0 ? sqrt(squared(a, b) / both) : 0;
}

static void phase_label(struct phases_result *result, const double *vectors, size_t i)
{
	double least = label_distance;
	struct phase *phase = &result->phases.items[i];

	phase->label = result->labels;
	for (size_t j = 0; j < i; j++) {
		double apart = vectors_apart(vectors + i * PHASES_DIMENSIONS,
					     vectors + j * PHASES_DIMENSIONS);

		if (apart >= least || result->phases.items[j].label == phase[-1].label)
			continue;
		least = apart;
		phase->label = result->phases.items[j].label;
	}
	result->labels += phase->label == result->labels;
}

static void phases_make(struct detection *d)
{
	struct phases_result *result = d->result;
	AUTO(free_ptr)
	double *vectors =
		mem_zalloc((result->boundaries.count + 1) * PHASES_DIMENSIONS * sizeof(*vectors));

	*array_push(&result->phases) = (struct phase){ .end = result->instructions };
	array_each(&result->boundaries, boundary) {
		if (!boundary->kept)
			continue;
		result->phases.items[result->phases.count - 1].end = boundary->at;
		*array_push(&result->phases) = (struct phase){ .begin = boundary->at,
							       .end = result->instructions,
							       .detectors = boundary->detectors };
	}
	for (size_t i = 0; i < result->phases.count; i++) {
		phase_fill(d, &result->phases.items[i], vectors + i * PHASES_DIMENSIONS);
		phase_label(result, vectors, i);
	}
}

static struct phases_detect_options options_filled(const struct phases_detect_options *given)
{
	struct phases_detect_options options = *given;
	unsigned count;

	if (!options.detectors)
		options.detectors = (1u << PHASES_DETECTOR_COUNT) - 1;
	count = (unsigned)__builtin_popcount(options.detectors);
	if (!options.agree)
		options.agree = 2;
	if (options.agree > count)
		options.agree = count;
	options.shortest = options.shortest > 0 ? options.shortest : shortest_default;
	options.tolerance = options.tolerance > 0 ? options.tolerance : tolerance_default;
	return options;
}

void phases_detect(const struct phases *phases, const struct phases_detect_options *options,
		   struct phases_result *ret)
{
	struct detection d = { .options = options_filled(options), .result = ret };

	*ret = (struct phases_result){};
	d.intervals = phases_intervals(phases, &d.count);
	if (!d.count)
		return;
	ret->instructions = d.intervals[d.count - 1].end;
	d.shortest = (size_t)ceil(d.options.shortest * (double)d.count);
	d.shortest = d.shortest < SHORTEST ? SHORTEST : d.shortest;
	if (d.count >= FEWEST)
		boundaries_detect(&d);
	phases_make(&d);
}

void phases_result_deinit(struct phases_result *result)
{
	array_deinit(&result->boundaries);
	array_deinit(&result->phases);
	*result = (struct phases_result){};
}
