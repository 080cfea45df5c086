/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The random sampling interval.
 *
 * The kernel repeats a perf clock at a fixed period and offers no way to change it from the
 * handler. A fixed period may beat with the program's own. So a sampler runs CLOCKS clocks at once,
 * each slower by that factor on average, with periods drawn at random:
 *
 *	period i = mean * CLOCKS * (base_i + random part), scaled so that the rates add up
 *
 * The range 1 +- SPREAD is cut into CLOCKS equal parts, and clock i draws from the middle half of
 * part i: no two clocks are so close that they would run side by side for long.
 *
 * The clocks drift against each other, so the time between two samples varies from 0 up to the
 * shortest period. With phases spread evenly (which periods without a common divisor reach by
 * themselves), an interval that starts at a tick of clock i is longer than t with probability
 *
 *	product over j != i of (1 - t / period j)
 *
 * and the mean over all is exactly the mean asked for. clocks_survival() is that function; tests
 * compare recorded intervals with it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	CLOCKS = 4,
	CLOCKS_MEAN_MIN = 64, /* a mean period from which on whole numbers are good enough */
};

#define CLOCKS_SPREAD 0.25

/*
 * Draws the periods of count clocks, at most CLOCKS. mean: in ns (or events). seed: the same seed
 * gives the same periods.
 */
void clocks_draw(uint64_t mean, uint64_t seed, uint64_t *ret, size_t count);
/* Probability that an interval is longer than t. */
double clocks_survival(const uint64_t *periods, size_t count, double t);
