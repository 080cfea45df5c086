// SPDX-License-Identifier: BSD-2-Clause
/* Calls work() as often as it is told, then dies by the signal it is told. */
#include <signal.h>
#include <stdlib.h>

static volatile unsigned sink;

static __attribute__((noinline)) void work(unsigned n)
{
	sink += n;
}

int main(int argc, char **argv)
{
	unsigned long count = strtoul(argv[1], NULL, 10);
	int number = (int)strtoul(argv[2], NULL, 10);

	for (unsigned long i = 0; i < count; i++)
		work((unsigned)i);
	raise(number);
	return 1;
}
