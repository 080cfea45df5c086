// SPDX-License-Identifier: BSD-2-Clause
/*
 * Clusters: k-means, and how many.
 *
 * Each k is tried a few times, from centres that are rows chosen at random, far ones more likely
 * (k-means++), by a generator with a fixed seed. The score is the likelihood of the rows if each
 * cluster is a ball of the same variance, less what its parameters cost (Pelleg and Moore,
 * X-means). It grows slowly where it cannot explain more, so the smallest k is taken whose score
 * comes to nine tenths of the way from the worst to the best (Sherwood et al., SimPoint).
 */
#include "phases/cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"

enum { TRIES = 3, ROUNDS = 40 };
static const double enough = 0.9; /* of the way to the best score */
static const double least_variance = 1e-6; /* rows that are equal but for rounding */

struct input {
	const double *values;
	size_t rows, width;
	uint64_t random;
};

struct trial {
	size_t count;
	uint32_t *labels;
	double *centres;
	double *distances; /* squared distance of each row from its centre */
	double error; /* sum of the distances */
};

static void trial_init(struct trial *trial, const struct input *input, size_t count)
{
	*trial = (struct trial){ .count = count, .error = INFINITY };
	trial->labels = mem_zalloc(input->rows * sizeof(*trial->labels));
	trial->centres = mem_zalloc(count * input->width * sizeof(double));
	trial->distances = mem_zalloc(input->rows * sizeof(double));
}

static void trial_deinit(struct trial *trial)
{
	free(trial->labels);
	free(trial->centres);
	free(trial->distances);
}

/* Returns a random number from 0 to 1. */
static double random_next(struct input *input)
{
	input->random ^= input->random << 13;
	input->random ^= input->random >> 7;
	input->random ^= input->random << 17;
	return (double)(input->random >> 11) / (double)(1ull << 53);
}

static const double *row_of(const struct input *input, size_t row)
{
	return input->values + row * input->width;
}

static double squared(const double *a, const double *b, size_t width)
{
	double sum = 0;

	for (size_t i = 0; i < width; i++)
		sum += (a[i] - b[i]) * (a[i] - b[i]);
	return sum;
}

/* Chooses a row, each with a probability in proportion to its distance. */
static size_t row_far(struct input *input, const double *distances)
{
	double sum = 0, chosen;
	size_t row = 0;

	for (size_t i = 0; i < input->rows; i++)
		sum += distances[i];
	chosen = random_next(input) * sum;
	while (row + 1 < input->rows && (chosen -= distances[row]) > 0)
		row++;
	return row;
}

static void centre_set(struct trial *trial, const struct input *input, size_t centre, size_t row)
{
	memcpy(trial->centres + centre * input->width, row_of(input, row),
	       input->width * sizeof(double));
}

static void centres_choose(struct trial *trial, struct input *input)
{
	centre_set(trial, input, 0, (size_t)(random_next(input) * (double)(input->rows - 1)));
	for (size_t row = 0; row < input->rows; row++)
		trial->distances[row] = squared(row_of(input, row), trial->centres, input->width);
	for (size_t k = 1; k < trial->count; k++) {
		centre_set(trial, input, k, row_far(input, trial->distances));
		for (size_t row = 0; row < input->rows; row++)
			trial->distances[row] =
				fmin(trial->distances[row],
				     squared(row_of(input, row), trial->centres + k * input->width,
					     input->width));
	}
}

/* Gives each row to the nearest centre; returns how many have changed. */
static size_t rows_assign(struct trial *trial, const struct input *input)
{
	size_t moved = 0;

	trial->error = 0;
	for (size_t row = 0; row < input->rows; row++) {
		uint32_t nearest = 0;
		double least = INFINITY;

		for (uint32_t k = 0; k < trial->count; k++) {
			double distance = squared(row_of(input, row),
						  trial->centres + k * input->width, input->width);

			if (distance < least) {
				least = distance;
				nearest = k;
			}
		}
		moved += trial->labels[row] != nearest;
		trial->labels[row] = nearest;
		trial->distances[row] = least;
		trial->error += least;
	}
	return moved;
}

/* A centre that has lost all its rows stays where it is. */
static void centres_move(struct trial *trial, const struct input *input, size_t *members)
{
	size_t width = input->width;

	memset(members, 0, trial->count * sizeof(*members));
	for (size_t row = 0; row < input->rows; row++)
		members[trial->labels[row]]++;
	for (size_t k = 0; k < trial->count; k++)
		if (members[k])
			memset(trial->centres + k * width, 0, width * sizeof(double));
	for (size_t row = 0; row < input->rows; row++) {
		double *centre = trial->centres + trial->labels[row] * width;

		for (size_t i = 0; i < width; i++)
			centre[i] += row_of(input, row)[i] / (double)members[trial->labels[row]];
	}
}

static void trial_segment(struct trial *trial, struct input *input)
{
	AUTO(free_ptr) size_t *members = mem_zalloc(trial->count * sizeof(*members));

	centres_choose(trial, input);
	for (unsigned round = 0; round < ROUNDS; round++) {
		if (!rows_assign(trial, input) && round)
			return;
		centres_move(trial, input, members);
	}
	rows_assign(trial, input);
}

static void trial_best(struct input *input, size_t count, struct trial *ret)
{
	trial_init(ret, input, count);
	for (unsigned i = 0; i < TRIES; i++) {
		struct trial trial, worse;

		trial_init(&trial, input, count);
		trial_segment(&trial, input);
		worse = trial.error < ret->error ? *ret : trial;
		if (trial.error < ret->error)
			*ret = trial;
		trial_deinit(&worse);
	}
}

static double trial_score(const struct trial *trial, const struct input *input)
{
	double rows = (double)input->rows, width = (double)input->width;
	double count = (double)trial->count, likelihood = 0;
	double variance = fmax(trial->error / (width * fmax(rows - count, 1)), least_variance);
	AUTO(free_ptr) size_t *members = mem_zalloc(trial->count * sizeof(*members));

	for (size_t row = 0; row < input->rows; row++)
		members[trial->labels[row]]++;
	for (size_t k = 0; k < trial->count; k++)
		if (members[k])
			likelihood += (double)members[k] * log((double)members[k] / rows);
	likelihood -= rows * width / 2 * log(2 * M_PI * variance);
	likelihood -= trial->error / (2 * variance);
	return likelihood - (count * (width + 1)) / 2 * log(rows);
}

static size_t scores_choose(const double *scores, size_t count)
{
	double best = -INFINITY, worst = INFINITY;
	size_t chosen = 0;

	for (size_t i = 0; i < count; i++) {
		best = fmax(best, scores[i]);
		worst = fmin(worst, scores[i]);
	}
	while (scores[chosen] < worst + enough * (best - worst))
		chosen++;
	return chosen;
}

void clusters_find(const double *values, size_t rows, size_t width, size_t most,
		   struct clusters *ret)
{
	struct input input = { values, rows, width, .random = 0x9e3779b97f4a7c15u };
	size_t count = most < rows ? most : rows, chosen;
	AUTO(free_ptr) struct trial *trials = mem_alloc(count * sizeof(*trials));
	AUTO(free_ptr) double *scores = mem_alloc(count * sizeof(*scores));

	for (size_t i = 0; i < count; i++) {
		trial_best(&input, i + 1, &trials[i]);
		scores[i] = trial_score(&trials[i], &input);
	}
	chosen = scores_choose(scores, count);
	*ret = (struct clusters){ trials[chosen].count, trials[chosen].labels,
				  trials[chosen].centres };
	trials[chosen].labels = NULL;
	trials[chosen].centres = NULL;
	for (size_t i = 0; i < count; i++)
		trial_deinit(&trials[i]);
}

void clusters_deinit(struct clusters *clusters)
{
	free(clusters->labels);
	free(clusters->centres);
	*clusters = (struct clusters){};
}
