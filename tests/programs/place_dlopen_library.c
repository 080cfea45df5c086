// SPDX-License-Identifier: BSD-2-Clause
/* The other half of place_dlopen.c. */
#include "place.h"

int library_enter(int a);

APART static int hidden(int a)
{
	place_stay();
	return a + (int)sink;
}

int library_enter(int a)
{
	return hidden(a + 1) + (int)sink;
}
