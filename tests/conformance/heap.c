// SPDX-License-Identifier: BSD-2-Clause
// options: -static -no-pie
/* The heap of a program at a fixed place, which grows through everything near its code. */
#include "corner.h"

enum { STEP = 32 << 20 };

/* Natively there is nothing above it for a long way. */
static void heap_grow(int megabytes)
{
	char *start = sbrk(0);
	int steps = 0;

	for (long done = 0; done < (long)megabytes << 20; done += STEP) {
		char *at = sbrk(STEP);

		if (at == (void *)-1)
			break;
		at[0] = at[STEP - 1] = (char)++steps;
		if (steps % 4 == 0)
			printf("%d\n", steps);
	}
	printf("%d, %d\n", steps, start[STEP - 1]);
	printf("%d %d\n", sbrk(-(long)steps * STEP) != (void *)-1, sbrk(0) == start);
}

static void scene_some(void)
{
	heap_grow(900);
}

static void scene_much(void)
{
	heap_grow(3000);
}

static const struct scene scenes[] = {
	{ "some", scene_some },
	{ "much", scene_much },
};

SCENES_MAIN(scenes)
