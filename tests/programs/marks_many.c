// SPDX-License-Identifier: BSD-2-Clause
// One instruction writes each byte of a table once, and another one reads it. Then prints what the
// mark that is given has counted.
#include <stdio.h>

#include <assay/client.h>

enum { SIZE = 17000 };

volatile char table[SIZE];

int main(int argc, char **argv)
{
	struct assay_mark_counts counts;
	int sum = 0;

	for (int i = 0; i < SIZE; i++)
		table[i] = 1;
	for (int i = 0; i < SIZE; i++)
		sum += table[i];
	if (argc == 2) {
		assay_mark_read(argv[1], &counts);
		printf("counted %llu\nreads %llu\nwrites %llu\n", counts.counted, counts.reads,
		       counts.writes);
	}
	return sum != SIZE;
}
