// SPDX-License-Identifier: BSD-2-Clause
// Writes once to each of many large objects: static ones, or what was allocated and, with "free",
// is given back at once.
#include <stdlib.h>
#include <string.h>

enum { COUNT = 100, SIZE = 2 << 20 };

volatile char objects[COUNT][SIZE];

static void objects_write(void)
{
	for (int i = 0; i < COUNT; i++)
		objects[i][SIZE / 2] = 1;
}

static void allocations_write(int frees)
{
	for (int i = 0; i < COUNT; i++) {
		volatile char *memory = malloc(SIZE); /* HERE */

		if (!memory)
			exit(1);
		memory[SIZE / 2] = 1;
		if (frees)
			free((void *)memory);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "objects"))
		objects_write();
	else
		allocations_write(!strcmp(argv[1], "free"));
	return 0;
}
