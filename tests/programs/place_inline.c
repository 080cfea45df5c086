// SPDX-License-Identifier: BSD-2-Clause
/* Three functions deep without a call. */
#include "place.h"

static inline __attribute__((always_inline)) void innermost(void)
{
	place_stay();
	sink = sink + 1;
}

static inline __attribute__((always_inline)) void inner(void)
{
	sink = sink + 2;
	innermost();
}

static inline __attribute__((always_inline)) void outer(void)
{
	inner();
	sink = sink + 3;
}

int main(void)
{
	outer();
	return (int)sink;
}
