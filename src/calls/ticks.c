// SPDX-License-Identifier: BSD-2-Clause
#include "calls/ticks.h"

#include <unistd.h>
#include <x86intrin.h>

#include "base/clock.h"

enum { MEASURE_US = 10000 };

/* The closest of some readings, since one may be interrupted. */
void call_clocks_read(uint64_t *ret_ticks, uint64_t *ret_ns)
{
	uint64_t closest = UINT64_MAX;

	for (int i = 0; i < 100; i++) {
		uint64_t before = __rdtsc();
		uint64_t ns = clock_monotonic();
		uint64_t after = __rdtsc();

		if (after - before >= closest)
			continue;
		closest = after - before;
		*ret_ticks = before + closest / 2;
		*ret_ns = ns;
	}
}

double call_tick_measure(void)
{
	uint64_t first_ticks, first_ns, ticks, ns;

	call_clocks_read(&first_ticks, &first_ns);
	usleep(MEASURE_US);
	call_clocks_read(&ticks, &ns);
	return (double)(ns - first_ns) / (double)(ticks - first_ticks);
}
