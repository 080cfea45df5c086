/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes in a sequence of vectors: where its level jumps, and not where it is only noisy or drifts.
 *
 * A change is an index: that of the first row after it. How far two stretches are apart is a number from 0 to 1: the
 * distance of their means, in units of both means' lengths together; 1 if they have nothing in common.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

struct changes_series {
	size_t count; /* rows */
	size_t width;
	/* Sums over the rows before the n-th: of weight times row, of weight, of weight times square. count + 1 each. */
	double *sums;
	double *weights;
	double *squares;
};

struct changes {
	ARRAY(size_t) at; /* in order; none is 0 or count */
};

struct changes_options {
	size_t shortest; /* rows between changes, at least; > 0 */
	double threshold; /* changes are at least that far apart */
	double floor; /* and by this factor further than what is usual between neighbours elsewhere, if that is not far */
};

void changes_series_init(struct changes_series *series, size_t rows, size_t width);
void changes_series_deinit(struct changes_series *series);
/* At most as many rows as were said; weight > 0. */
void changes_series_add(struct changes_series *series, const double *row, double weight);
/* Of rows from to to - 1. */
void changes_mean(const struct changes_series *series, size_t from, size_t to, double *ret);
/* Between rows from to middle - 1 and middle to to - 1; of a struct changes_series. */
double changes_distance(const void *series, size_t from, size_t middle, size_t to);

/* What a change must gain, in squares of weighted distances, to be one. */
double changes_price(const struct changes_series *series, const struct changes_options *options);
/* The division into stretches whose rows are closest to their means, at the price for each. */
void changes_segment(const struct changes_series *series, const struct changes_options *options,
		     struct changes *ret);
/* How far rows from to middle - 1 are from rows middle to to - 1. */
typedef double changes_distance_fn(const void *context, size_t from, size_t middle, size_t to);

/* Drops changes that are no clearer than what happens elsewhere all the time. */
void changes_prune(changes_distance_fn *distance, const void *context, size_t rows,
		   const struct changes_options *options, struct changes *changes);
/*
 * Where the i-th change is, finer than rows: those beside it are taken for mixtures of what is before and after. In rows:
 * 2.25 is after a quarter of row 2.
 */
double changes_refine(const struct changes_series *series, const struct changes *changes, size_t i);

/* The same as segment and prune for what has distances but no mean: where they are greatest. */
void changes_peaks(changes_distance_fn *distance, const void *context, size_t rows,
		   const struct changes_options *options, struct changes *ret);

void changes_deinit(struct changes *changes);
