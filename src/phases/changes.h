/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes in a sequence of vectors: where its level jumps, and not where it is only noisy or
 * drifts.
 *
 * A change is an index: that of the first row after it. How far two stretches are apart is a number
 * from 0 to 1: the distance of their means, in units of both means' lengths together; 1 if they
 * have nothing in common.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

struct changes_series {
	size_t count; /* rows */
	size_t width;
	/*
	 * Sums over the rows before the n-th: of weight times row, of weight, of weight times
	 * square. count + 1 each.
	 */
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
	/*
	 * and by this factor further than what is usual between neighbours elsewhere, if that is
	 * not far
	 */
	double floor;
};

void changes_series_init(struct changes_series *series, size_t rows, size_t width);
void changes_series_deinit(struct changes_series *series);
/* Adds a row, of at most as many as were announced; weight > 0. */
void changes_series_add(struct changes_series *series, const double *row, double weight);
/* Computes the mean of rows from to to - 1. */
void changes_mean(const struct changes_series *series, size_t from, size_t to, double *ret);
/*
 * The distance between rows from to middle - 1 and rows middle to to - 1; the context is a struct
 * changes_series.
 */
double changes_distance(const void *series, size_t from, size_t middle, size_t to);

/* Returns what a change must gain, in squares of weighted distances. */
double changes_price(const struct changes_series *series, const struct changes_options *options);
/*
 * Finds the division into stretches whose rows are closest to their means, at a price for each
 * change.
 */
void changes_segment(const struct changes_series *series, const struct changes_options *options,
		     struct changes *ret);
/* Tells how far rows from to middle - 1 are from rows middle to to - 1. */
typedef double changes_distance_fn(const void *context, size_t from, size_t middle, size_t to);

/* Drops changes that are no clearer than what happens elsewhere all the time. */
void changes_prune(changes_distance_fn *distance, const void *context, size_t rows,
		   const struct changes_options *options, struct changes *changes);
/*
 * Returns where the i-th change is, finer than rows: the rows beside it are taken for mixtures of
 * what is before and after. 2.25 is after a quarter of row 2.
 */
double changes_refine(const struct changes_series *series, const struct changes *changes, size_t i);

/*
 * Does what segmenting and pruning do, for what has distances but no means: changes are where
 * distances are greatest.
 */
void changes_peaks(changes_distance_fn *distance, const void *context, size_t rows,
		   const struct changes_options *options, struct changes *ret);

void changes_deinit(struct changes *changes);
