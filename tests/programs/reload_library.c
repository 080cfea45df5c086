// SPDX-License-Identifier: BSD-2-Clause
/* A library whose function WORK has the same address as another's. */
#include "burn.h"

void library_work(double seconds);

__attribute__((noinline, noclone)) static void WORK(double seconds)
{
	BURN(seconds);
}

void library_work(double seconds)
{
	WORK(seconds);
	sink = sink + 1;
}
