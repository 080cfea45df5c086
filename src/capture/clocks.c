// SPDX-License-Identifier: BSD-2-Clause
#include "capture/clocks.h"

#include "base/map.h"

/* In [0, 1), 53 bits. */
static double uniform(uint64_t *seed)
{
	*seed = hash64(*seed + 0x9e3779b97f4a7c15u);
	return (double)(*seed >> 11) * 0x1p-53;
}

void clocks_draw(uint64_t mean, uint64_t seed, uint64_t *ret, size_t count)
{
	double drawn[CLOCKS], rate = 0;

	for (size_t i = 0; i < count; i++) {
		double place = ((double)i + 0.25 + uniform(&seed) / 2) / (double)count;

		drawn[i] = 1 - CLOCKS_SPREAD + 2 * CLOCKS_SPREAD * place;
		rate += 1 / drawn[i];
	}
	for (size_t i = 0; i < count; i++)
		ret[i] = (uint64_t)((double)mean * rate * drawn[i] + 0.5);
}

double clocks_survival(const uint64_t *periods, size_t count, double t)
{
	double rate = 0, longer = 0;

	for (size_t i = 0; i < count; i++) {
		double alone = 1; /* no other clock ticks within t of a tick of clock i */

		for (size_t j = 0; j < count; j++)
			if (j != i)
				alone *= t < (double)periods[j] ? 1 - t / (double)periods[j] : 0;
		if (t >= (double)periods[i])
			alone = 0;
		longer += alone / (double)periods[i];
		rate += 1 / (double)periods[i];
	}
	return longer / rate;
}
