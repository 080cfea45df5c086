// SPDX-License-Identifier: BSD-2-Clause
/* Enters the kernel all the time: most samples have kernel frames above the user's. */
#include <unistd.h>

#include "place.h"

APART static int enter(int a)
{
	place_ready();
	while (stay)
		sink = sink + (unsigned long)getppid();
	return a + (int)sink;
}

int main(int argc, char **argv)
{
	return enter(argc) + (int)sink;
}
