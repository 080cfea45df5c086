/* SPDX-License-Identifier: BSD-2-Clause */
/* Time is measured as CPU time of the thread, so that a busy machine changes nothing. */
#pragma once

#include <time.h>

static volatile unsigned long sink;

static inline double burnt(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Expands to a loop in the function that uses it, so that its name is the one that is seen. */
#define BURN(seconds)                                                                              \
	for (double end_ = burnt() + (seconds); burnt() < end_;)                                   \
		for (int i_ = 0; i_ < 100000; i_++)                                                \
	sink = sink + (unsigned long)i_
