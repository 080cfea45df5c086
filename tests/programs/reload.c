// SPDX-License-Identifier: BSD-2-Clause
/*
 * Loads two libraries in turn, several times; the second gets the address that the first has just
 * left. Prints the CPU time spent in each and whether the addresses were the same. reload LIBRARY
 * LIBRARY ROUNDS SECONDS [apart] With "apart" the second library has a caller of its own, so that a
 * stack tells which of them it was.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "burn.h"

static double spent[2];
static void *addresses[2];

static inline __attribute__((always_inline)) int visit(const char *path, int which, double seconds)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*work)(double) = library ? (void (*)(double))dlsym(library, "library_work") : NULL;
	double begin = burnt();

	if (!work)
		return 1;
	addresses[which] = (void *)work;
	work(seconds);
	spent[which] += burnt() - begin;
	dlclose(library);
	return 0;
}

__attribute__((noinline, noclone)) static int visit_either(const char *path, int which,
							   double seconds)
{
	return visit(path, which, seconds);
}

__attribute__((noinline, noclone)) static int visit_second(const char *path, double seconds)
{
	return visit(path, 1, seconds);
}

int main(int argc, char **argv)
{
	int rounds = atoi(argv[3]), apart = argc > 5, failed = 0;
	double seconds = atof(argv[4]);

	for (int i = 0; i < 2 * rounds && !failed; i++)
		if (apart && i % 2)
			failed = visit_second(argv[2], seconds);
		else
			failed = visit_either(argv[1 + i % 2], i % 2, seconds);
	if (failed)
		return 1;
	printf("%.6f %.6f %d\n", spent[0], spent[1], addresses[0] == addresses[1]);
	return 0;
}
