// SPDX-License-Identifier: BSD-2-Clause
/* Code that is executed, and code that is not: gcov knows which. */
#include <stdio.h>
#include <stdlib.h>

static int classify(int value)
{
	if (value < 0) {
		puts("negative");
		return -1;
	}
	if (value == 0)
		return 0;
	switch (value % 4) {
	case 0:
		return 4;
	case 1:
		return 1;
	case 2:
		value *= 2;
		value += 7;
		return value;
	default:
		break;
	}
	for (int i = 0; i < value; i++)
		if (i > 1000)
			return i;
	return 3;
}

static void unused(void)
{
	puts("nobody calls this");
	exit(9);
}

int main(int argc, char **argv)
{
	int sum = 0;

	if (argc > 5)
		unused();
	for (int i = 0; i < 8; i++)
		if (i % 4 != 2)
			sum += classify(i);
	printf("%d\n", sum);
	return 0;
}
