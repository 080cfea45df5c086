// SPDX-License-Identifier: BSD-2-Clause
/*
 * Many Bernoulli trials at the cost of a few.
 *
 * A row of successes has length k or more with probability p^k, so its length is log(u) / log(p)
 * rounded down. Few expected successes are found by jumping from success to success over such rows
 * of failures. For many, Hoermann's transformed rejection with squeeze (BTRS, "The generation of
 * binomial random variates", 1993) draws from a curve above the distribution and accepts in
 * proportion: 1.15 tries in the mean, whatever n is.
 */
#include "base/rng.h"

#include <math.h>

enum { JUMPS_MEAN = 10 }; /* BTRS is exact from this many expected successes on */

void rng_init(struct rng *rng, uint64_t seed)
{
	*rng = (struct rng){ .state = seed };
	rng->state = rng_next(rng);
}

/* Above 0, at most 1: has a logarithm. */
static double uniform_positive(struct rng *rng)
{
	return 1 - rng_uniform(rng);
}

static uint64_t binomial_trials(struct rng *rng, uint64_t n, double probability)
{
	uint64_t successes = 0;

	while (n--)
		successes += rng_trial(rng, probability);
	return successes;
}

static uint64_t binomial_jumps(struct rng *rng, uint64_t n, double probability)
{
	double scale = 1 / log1p(-probability);
	double at = 0;
	uint64_t successes = 0;

	for (;; successes++) {
		at += 1 + floor(log(uniform_positive(rng)) * scale);
		if (at > (double)n)
			return successes;
	}
}

/* What Stirling's formula leaves out of log(k!). */
static double stirling_rest(double k)
{
	static const double small[] = { 0.0810614667953272,  0.0413406959554092,
					0.0276779256849983,  0.02079067210376509,
					0.0166446911898211,  0.0138761288230707,
					0.0118967099458917,  0.0104112652619720,
					0.00925546218271273, 0.00833056343336287 };
	double inverse = 1 / (k + 1), square = inverse * inverse;

	if (k < 10)
		return small[(int)k];
	return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 * square) * square) * inverse;
}

/* log of how likely k successes of n are, against the likeliest number. */
static double binomial_log_ratio(double n, double probability, double k)
{
	double odds = probability / (1 - probability);
	double mode = floor((n + 1) * probability);

	return (mode + 0.5) * log((mode + 1) / (odds * (n - mode + 1))) +
	       (n + 1) * log((n - mode + 1) / (n - k + 1)) +
	       (k + 0.5) * log(odds * (n - k + 1) / (k + 1)) + stirling_rest(mode) +
	       stirling_rest(n - mode) - stirling_rest(k) - stirling_rest(n - k);
}

/* The constants are Hoermann's. */
static uint64_t binomial_rejection(struct rng *rng, double n, double probability)
{
	double deviation = sqrt(n * probability * (1 - probability));
	double b = 1.15 + 2.53 * deviation;
	double a = -0.0873 + 0.0248 * b + 0.01 * probability;
	double alpha = (2.83 + 5.1 / b) * deviation;

	for (;;) {
		double u = rng_uniform(rng) - 0.5, v = uniform_positive(rng);
		double us = 0.5 - fabs(u);
		double k = floor((2 * a / us + b) * u + n * probability + 0.5);

		if (us >= 0.07 && v <= 0.92 - 4.2 / b)
			return (uint64_t)k;
		if (!(k >= 0 && k <= n))
			continue;
		if (log(v * alpha / (a / (us * us) + b)) <= binomial_log_ratio(n, probability, k))
			return (uint64_t)k;
	}
}

uint64_t rng_binomial(struct rng *rng, uint64_t n, double probability)
{
	if (rng->script)
		return binomial_trials(rng, n, probability);
	if (probability > 0.5)
		return n - rng_binomial(rng, n, 1 - probability);
	if (probability <= 0 || !n)
		return 0;
	if ((double)n * probability < JUMPS_MEAN)
		return binomial_jumps(rng, n, probability);
	return binomial_rejection(rng, (double)n, probability);
}

uint64_t rng_successes(struct rng *rng, double probability, uint64_t max)
{
	uint64_t length = 0;
	double drawn;

	if (rng->script) {
		while (length < max && rng_trial(rng, probability))
			length++;
		return length;
	}
	if (probability <= 0 || !max)
		return 0;
	if (probability >= 1)
		return max;
	drawn = floor(log(uniform_positive(rng)) / log(probability));
	return drawn < (double)max ? (uint64_t)drawn : max;
}

uint64_t rng_round(struct rng *rng, double value)
{
	double below = floor(value);

	return (uint64_t)below + rng_trial(rng, value - below);
}
