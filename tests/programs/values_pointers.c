// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions that are given addresses of data, of bss, of the heap, of the stack, of code and of
 * memory without a name, again and again. Maps a file, if one is named.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 1024, SIZE = 4096 };

uint64_t window[WORDS] = { 1 };
uint64_t counters[WORDS];

__attribute__((noinline)) uint64_t spin(const uint64_t *place, uint64_t (*next)(uint64_t))
{
	uint64_t sum = 0;

	for (int i = 0; i < 4; i++) {
		const volatile uint64_t *word = place;

		sum = next(sum + *word);
	}
	return sum;
}

__attribute__((noinline)) uint64_t mixed(uint64_t value)
{
	return value * 0x9e3779b97f4a7c15 + 1;
}

#define SPINNER(name)                                                                              \
	__attribute__((noinline)) uint64_t name(const uint64_t *place)                             \
	{                                                                                          \
		return spin(place, mixed) + 1;                                                     \
	}

SPINNER(take_data)
SPINNER(take_bss)
SPINNER(take_heap)
SPINNER(take_stack)
SPINNER(take_memory)

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int file_map(const char *path)
{
	int fd = open(path, O_RDWR);

	if (mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED)
		return 0;
	perror(path);
	return 1;
}

/* SECONDS [FILE [SECONDS before it is mapped]] */
int main(int argc, char **argv)
{
	double begin = now(), end = begin + strtod(argv[1], NULL);
	double map = begin + (argc > 3 ? strtod(argv[3], NULL) : 0);
	uint64_t local[4] = { 1 }, sum = 0, *heap = calloc(8, 8);
	uint64_t *memory =
		mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const char *path = argc > 2 ? argv[2] : NULL;

	while (now() < end) {
		if (path && now() >= map) {
			if (file_map(path))
				return 1;
			path = NULL;
		}
		for (int i = 0; i < 100; i++)
			sum += take_data(window + 2) + take_bss(counters + 5) + take_heap(heap) +
			       take_stack(local) + take_memory(memory + 3);
	}
	printf("%p %p %p %p %p %d\n", (void *)(window + 2), (void *)(counters + 5), (void *)heap,
	       (void *)local, (void *)(memory + 3), sum == 1);
	return 0;
}
