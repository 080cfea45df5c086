// SPDX-License-Identifier: BSD-2-Clause
/* Reads pages that nobody has touched, again and again, for the seconds of CPU time it was given. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 2000 };

static volatile uint64_t sum;

static double used(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;

	while (used() < seconds) {
		volatile char *pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (size_t i = 0; i < PAGES; i++)
			for (int j = 0; j < 20; j++)
				sum += j ? sum >> 3 : (uint64_t)pages[i * PAGE];
		munmap((void *)pages, (size_t)PAGES * PAGE);
	}
	return 0;
}
