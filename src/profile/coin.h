/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unfair coins: the chance that the summaries of src/profile need, repeatable from a seed.
 *
 * A script in place of the generator decides each single flip; what the generator draws at once (a number of flips, a
 * run of them) is then flipped one by one. So a test can feed the flips of a worked example.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct coin_script {
	bool (*flip)(struct coin_script *script, double probability);
};

struct coin {
	uint64_t state; /* of the generator, splitmix64 */
	struct coin_script *script; /* NULL: the generator */
};

/* Close seeds give unrelated coins. */
void coin_init(struct coin *coin, uint64_t seed);

static inline uint64_t coin_next(struct coin *coin)
{
	uint64_t bits = coin->state += 0x9e3779b97f4a7c15;

	bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
	bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
	return bits ^ bits >> 31;
}

/* At least 0, below 1. */
static inline double coin_uniform(struct coin *coin)
{
	return (double)(coin_next(coin) >> 11) * 0x1p-53;
}

static inline bool coin_flip(struct coin *coin, double probability)
{
	if (coin->script)
		return coin->script->flip(coin->script, probability);
	return probability >= 1 || coin_uniform(coin) < probability;
}

/* True once in n flips; n > 0. */
static inline bool coin_one_in(struct coin *coin, uint64_t n)
{
	if (coin->script)
		return coin->script->flip(coin->script, 1.0 / (double)n);
	return (unsigned __int128)coin_next(coin) * n >> 64 == 0;
}

/* How many of n flips are true: a binomial variate, exact, in constant expected time. */
uint64_t coin_binomial(struct coin *coin, uint64_t n, double probability);
/* How many flips in a row are true, looking at no more than max: a geometric variate. */
uint64_t coin_run(struct coin *coin, double probability, uint64_t max);
/* One of the two integers next to value >= 0, such that value is the mean. */
uint64_t coin_round(struct coin *coin, double value);
