/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clusters of vectors, as SimPoint finds them: k-means for each number of clusters up to a limit,
 * and the smallest number whose score by the Bayesian information criterion is nearly as good as
 * the best one's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct clusters {
	size_t count; /* number of clusters */
	uint32_t *labels; /* cluster of each row, from 0 */
	double *centres; /* centres, count times width */
};

/* rows times width numbers, row by row. rows > 0. */
void clusters_find(const double *values, size_t rows, size_t width, size_t most,
		   struct clusters *ret);
void clusters_deinit(struct clusters *clusters);
