/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A random number generator and Bernoulli trials, repeatable from a seed.
 *
 * A script in place of the generator decides each single trial; what the generator draws at once
 * (a number of trials, a row of successes) is then tried one by one. So a test can feed the
 * outcomes of a worked example.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct rng_script {
	bool (*trial)(struct rng_script *script, double probability);
};

struct rng {
	uint64_t state; /* of the generator, splitmix64 */
	struct rng_script *script; /* NULL: the generator */
};

/* Close seeds give unrelated generators. */
void rng_init(struct rng *rng, uint64_t seed);

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t bits = rng->state += 0x9e3779b97f4a7c15;

	bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
	bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
	return bits ^ bits >> 31;
}

/* At least 0, below 1. */
static inline double rng_uniform(struct rng *rng)
{
	return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

static inline bool rng_trial(struct rng *rng, double probability)
{
	if (rng->script)
		return rng->script->trial(rng->script, probability);
	return probability >= 1 || rng_uniform(rng) < probability;
}

/* True once in n trials; n > 0. */
static inline bool rng_one_in(struct rng *rng, uint64_t n)
{
	if (rng->script)
		return rng->script->trial(rng->script, 1.0 / (double)n);
	return (unsigned __int128)rng_next(rng) * n >> 64 == 0;
}

/* How many of n trials are true: a binomial variate, exact, in constant expected time. */
uint64_t rng_binomial(struct rng *rng, uint64_t n, double probability);
/* How many trials in a row are true, looking at no more than max: a geometric variate. */
uint64_t rng_successes(struct rng *rng, double probability, uint64_t max);
/* One of the two integers next to value >= 0, such that value is the mean. */
uint64_t rng_round(struct rng *rng, double value);
