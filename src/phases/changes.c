// SPDX-License-Identifier: BSD-2-Clause
/*
 * Changes of level in a sequence of vectors.
 *
 * Segmentation is exact: of all divisions into stretches of the shortest length or more, the one
 * with the least sum of squared distances from the stretches' means plus a price for each change,
 * found by dynamic programming over the end of the last stretch (optimal partitioning). The price
 * is what a stretch of the shortest length gains that lies at the threshold's distance, or what the
 * noise gains by chance, if that is more.
 *
 * Noise is not always the same, nor independent from row to row. So each change is then compared
 * with the rest of the sequence around it: the distance of a few rows before and after it, with the
 * distances of equally many rows around the nearest places that no change is close to, on both
 * sides together. If there are hardly any, stretches are cut in halves instead. A drift has the
 * same distance everywhere, and goes; so does what a program does all the time. The least clear one
 * goes first, and then counts among the places without change.
 *
 * Distances end at 1, where nothing is common: in a restless program the usual ones are near that,
 * and none is twice as far. So contrasts are compared, the squared distance in relation to what is
 * left of 1: for vectors of the same length, what differs in relation to what is common. Where
 * distances are small, twice the distance is four times the contrast.
 *
 * Invariants
 *  1. Changes are in order, at least `shortest` apart from each other and from both ends.
 *  2. sums[0] is 0, and so are weights[0] and squares[0].
 */
#include "phases/changes.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/mem.h"

static const double noise_price = 2; /* times what the best cut of mere noise is expected to gain */
/* Places are compared with those whose distance is exceeded by one in twenty. */
static const double usual = 0.95;

/* Halves of a short stretch have less rows than windows have, and are further apart by chance. */
static const double half_weight = 0.5;

static const double most_different = 0.999; /* squared distances above this count as this */

enum { PLACES = 8 }; /* places that are compared, in shortest stretches */

void changes_series_init(struct changes_series *series, size_t rows, size_t width)
{
	*series = (struct changes_series){ .width = width };
	series->sums = mem_zalloc((rows + 1) * width * sizeof(double));
	series->weights = mem_zalloc((rows + 1) * sizeof(double));
	series->squares = mem_zalloc((rows + 1) * sizeof(double));
}

void changes_series_deinit(struct changes_series *series)
{
	free(series->sums);
	free(series->weights);
	free(series->squares);
	*series = (struct changes_series){};
}

void changes_series_add(struct changes_series *series, const double *row, double weight)
{
	size_t n = series->count++;
	const double *before = series->sums + n * series->width;
	double *after = series->sums + (n + 1) * series->width, square = 0;

	assert(weight > 0);
	for (size_t i = 0; i < series->width; i++) {
		after[i] = before[i] + weight * row[i];
		square += row[i] * row[i];
	}
	series->weights[n + 1] = series->weights[n] + weight;
	series->squares[n + 1] = series->squares[n] + weight * square;
}

void changes_deinit(struct changes *changes)
{
	array_deinit(&changes->at);
}

static double weight_of(const struct changes_series *series, size_t from, size_t to)
{
	return series->weights[to] - series->weights[from];
}

static double mean_at(const struct changes_series *series, size_t from, size_t to, size_t i)
{
	return (series->sums[to * series->width + i] - series->sums[from * series->width + i]) /
	       weight_of(series, from, to);
}

void changes_mean(const struct changes_series *series, size_t from, size_t to, double *ret)
{
	for (size_t i = 0; i < series->width; i++)
		ret[i] = mean_at(series, from, to, i);
}

double changes_distance(const void *context, size_t from, size_t middle, size_t to)
{
	const struct changes_series *series = context;
	double apart = 0, both = 0;

	for (size_t i = 0; i < series->width; i++) {
		double before = mean_at(series, from, middle, i);
		double after = mean_at(series, middle, to, i);

		apart += (before - after) * (before - after);
		both += before * before + after * after;
	}
	return both > 0 ? fmin(sqrt(apart / both), 1) : 0;
}

/* Sum of weighted squared distances of the rows from their mean. */
static double spread(const struct changes_series *series, size_t from, size_t to)
{
	double squared = 0, weight = weight_of(series, from, to);

	for (size_t i = 0; i < series->width; i++) {
		double sum = series->sums[to * series->width + i] -
			     series->sums[from * series->width + i];

		squared += sum * sum;
	}
	return fmax(series->squares[to] - series->squares[from] - squared / weight, 0);
}

static int double_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/*
 * Returns the quantile: the value that a share of the numbers does not exceed; 0 if there are none.
 * Sorts them.
 */
static double quantile(double *values, size_t count, double share)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), double_compare);
	return values[(size_t)(share * (double)(count - 1))];
}

/* Variance of a row of average weight, within stretches so short that few hold a change. */
static double noise(const struct changes_series *series, size_t shortest)
{
	size_t window = shortest > 1 ? shortest : 2, count = 0;
	AUTO(free_ptr) double *values = mem_alloc((series->count + 1) * sizeof(*values));

	for (size_t i = 0; i + window <= series->count; i++)
		values[count++] = spread(series, i, i + window) / (double)(window - 1);
	return quantile(values, count, 0.5);
}

/*
 * Returns, in variances, a bound of the greatest of as many chi-squared variables as there are rows
 * (Laurent and Massart).
 */
static double noise_gain(const struct changes_series *series)
{
	double each = log((double)series->count) / (double)series->width;

	return 1 + 2 * sqrt(each) + 2 * each;
}

double changes_price(const struct changes_series *series, const struct changes_options *options)
{
	double square = series->squares[series->count] / (double)series->count;
	double far = 2 * options->threshold * options->threshold * square;

	return fmax((double)options->shortest * far,
		    noise_price * noise_gain(series) * noise(series, options->shortest));
}

void changes_segment(const struct changes_series *series, const struct changes_options *options,
		     struct changes *ret)
{
	size_t n = series->count, shortest = options->shortest;
	AUTO(free_ptr) double *best = mem_zalloc((n + 1) * sizeof(*best));
	AUTO(free_ptr) size_t *last = mem_zalloc((n + 1) * sizeof(*last));
	double price = n >= 2 * shortest ? changes_price(series, options) : 0;

	*ret = (struct changes){};
	if (n < 2 * shortest)
		return;
	for (size_t end = shortest; end <= n; end++) {
		best[end] = spread(series, 0, end);
		for (size_t from = shortest; from + shortest <= end; from++) {
			double cost = best[from] + price;

			if (cost < best[end] && (cost += spread(series, from, end)) < best[end]) {
				best[end] = cost;
				last[end] = from;
			}
		}
	}
	for (size_t end = last[n]; end; end = last[end])
		*array_push(&ret->at) = end;
	for (size_t i = 0; i < ret->at.count / 2; i++) {
		size_t other = ret->at.items[ret->at.count - 1 - i];

		ret->at.items[ret->at.count - 1 - i] = ret->at.items[i];
		ret->at.items[i] = other;
	}
}

/* Sets the stretches around the i-th change. */
static size_t stretch_from(const struct changes *changes, size_t i)
{
	return i ? changes->at.items[i - 1] : 0;
}

static size_t stretch_to(const struct changes *changes, size_t i, size_t rows)
{
	return i + 1 < changes->at.count ? changes->at.items[i + 1] : rows;
}

/*
 * Distances of as many rows before and after each index as the shortest stretch has; 0 close to the
 * ends.
 */
static double *scores_make(changes_distance_fn *distance, const void *context, size_t rows,
			   size_t window)
{
	double *scores = mem_zalloc((rows + 1) * sizeof(*scores));

	for (size_t i = window; i + window <= rows; i++)
		scores[i] = distance(context, i - window, i, i + window);
	return scores;
}

struct pruning {
	changes_distance_fn *distance;
	const void *context;
	size_t rows, window;
	const double *scores;
	double *usual; /* room for a number for each row */
};

/*
 * What is usual in a stretch: the scores of places where neither it nor the mixed row beside it is
 * exceeded, or, if it is too short for that, how far its halves are apart, for all of its rows.
 */
static size_t stretch_usual(const struct pruning *pruning, size_t from, size_t to, double *ret)
{
	size_t window = pruning->window, count = 0;
	double far;

	for (size_t i = from + window + 1; i + window + 1 <= to; i++)
		ret[count++] = pruning->scores[i];
	if (count || to - from < 4)
		return count;
	far = pruning->distance(pruning->context, from + 1, (from + to) / 2, to - 1);
	for (size_t i = from; i < to; i++)
		ret[count++] = half_weight * far;
	return count;
}

/* Returns a distance that few places in all stretches exceed. */
static double usual_anywhere(const struct pruning *pruning, const struct changes *changes)
{
	size_t count = 0, from = 0;

	for (size_t i = 0; i <= changes->at.count; i++) {
		size_t to = i < changes->at.count ? changes->at.items[i] : pruning->rows;

		count += stretch_usual(pruning, from, to, pruning->usual + count);
		from = to;
	}
	return quantile(pruning->usual, count, usual);
}

/*
 * Whether the rows compared there are all of one stretch, and none beside a change, which may be
 * mixed.
 */
static bool is_place(const struct pruning *pruning, const struct changes *changes, size_t at)
{
	if (at < pruning->window || at + pruning->window > pruning->rows)
		return false;
	array_each(&changes->at, change)
		if (at <= *change + pruning->window && *change <= at + pruning->window)
			return false;
	return true;
}

/* The same for the places nearest to the i-th change. */
static double usual_near(const struct pruning *pruning, const struct changes *changes, size_t i)
{
	size_t at = changes->at.items[i], most = PLACES * pruning->window, count = 0;

	for (size_t far = 1; far < pruning->rows && count + 1 < most; far++) {
		if (far <= at && is_place(pruning, changes, at - far))
			pruning->usual[count++] = pruning->scores[at - far];
		if (is_place(pruning, changes, at + far))
			pruning->usual[count++] = pruning->scores[at + far];
	}
	if (count < pruning->window)
		return INFINITY;
	return quantile(pruning->usual, count, usual);
}

/* Without the rows beside the next changes, which may be mixed. */
static double change_score(const struct pruning *pruning, const struct changes *changes, size_t i)
{
	size_t at = changes->at.items[i], from = at - pruning->window, to = at + pruning->window;
	size_t last = stretch_from(changes, i), next = stretch_to(changes, i, pruning->rows);

	from = last && from <= last ? last + 1 : from;
	to = next < pruning->rows && to >= next ? next - 1 : to;
	return pruning->distance(pruning->context, from, at, to);
}

/* The contrast: what differs in relation to what is common. */
static double contrast(double distance)
{
	double different = fmin(distance * distance, most_different);

	return different / (1 - different);
}

/* Returns how clear a change is; below 1 it is not clear enough. */
static double clearness(const struct pruning *pruning, const struct changes_options *options,
			const struct changes *changes, size_t i, double anywhere)
{
	double noisy = fmin(anywhere, usual_near(pruning, changes, i));
	double needed = fmax(contrast(options->threshold),
			     options->floor * options->floor * contrast(noisy));

	return contrast(change_score(pruning, changes, i)) / needed;
}

static void change_remove(struct changes *changes, size_t i)
{
	changes->at.count--;
	for (; i < changes->at.count; i++)
		changes->at.items[i] = changes->at.items[i + 1];
}

static void prune(const struct pruning *pruning, const struct changes_options *options,
		  struct changes *changes)
{
	while (changes->at.count) {
		double least = INFINITY, anywhere = usual_anywhere(pruning, changes);
		size_t worst = 0;

		for (size_t i = 0; i < changes->at.count; i++) {
			double clear = clearness(pruning, options, changes, i, anywhere);

			worst = clear < least ? i : worst;
			least = fmin(clear, least);
		}
		if (least >= 1)
			return;
		change_remove(changes, worst);
	}
}

void changes_prune(changes_distance_fn *distance, const void *context, size_t rows,
		   const struct changes_options *options, struct changes *changes)
{
	size_t window = options->shortest;
	AUTO(free_ptr) double *scores = scores_make(distance, context, rows, window);
	AUTO(free_ptr) double *values = mem_alloc((rows + 1) * sizeof(*values));

	prune(&(struct pruning){ distance, context, rows, window, scores, values }, options,
	      changes);
}

/*
 * Returns which share of the row is like what is before, if it is a mixture of that and what is
 * after.
 */
static double mixture(const struct changes_series *series, size_t row, const double *before,
		      const double *after)
{
	double along = 0, whole = 0;

	for (size_t i = 0; i < series->width; i++) {
		double apart = before[i] - after[i];

		along += (mean_at(series, row, row + 1, i) - after[i]) * apart;
		whole += apart * apart;
	}
	return whole > 0 ? fmin(fmax(along / whole, 0), 1) : 0;
}

double changes_refine(const struct changes_series *series, const struct changes *changes, size_t i)
{
	size_t at = changes->at.items[i], from = stretch_from(changes, i);
	size_t to = stretch_to(changes, i, series->count);
	AUTO(free_ptr) double *before = mem_alloc(series->width * sizeof(double));
	AUTO(free_ptr) double *after = mem_alloc(series->width * sizeof(double));

	if (at - from < 2 || to - at < 2)
		return (double)at;
	changes_mean(series, from, at - 1, before);
	changes_mean(series, at + 1, to, after);
	return (double)(at - 1) + mixture(series, at - 1, before, after) +
	       mixture(series, at, before, after);
}

/*
 * Returns the highest that is left, at least `shortest` away from those taken; 0: none is above the
 * threshold.
 */
static size_t peak_next(const double *scores, size_t rows, const struct changes_options *options,
			const struct changes *taken)
{
	size_t best = 0;

	for (size_t i = options->shortest; i + options->shortest <= rows; i++) {
		bool near = scores[i] < options->threshold;

		array_each(&taken->at, at)
			near |= i < *at + options->shortest && *at < i + options->shortest;
		if (!near && (!best || scores[i] > scores[best]))
			best = i;
	}
	return best;
}

static int index_compare(const void *left, const void *right)
{
	size_t a = *(const size_t *)left, b = *(const size_t *)right;

	return (a > b) - (a < b);
}

void changes_peaks(changes_distance_fn *distance, const void *context, size_t rows,
		   const struct changes_options *options, struct changes *ret)
{
	size_t window = options->shortest, peak;
	AUTO(free_ptr) double *scores = scores_make(distance, context, rows, window);
	AUTO(free_ptr) double *values = mem_alloc((rows + 1) * sizeof(*values));

	*ret = (struct changes){};
	while ((peak = peak_next(scores, rows, options, ret)))
		*array_push(&ret->at) = peak;
	if (!ret->at.count)
		return;
	qsort(ret->at.items, ret->at.count, sizeof(*ret->at.items), index_compare);
	prune(&(struct pruning){ distance, context, rows, window, scores, values }, options, ret);
}
