// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes three functions at run time and runs them: outer calls inner, and later also late, which
 * calls back to C. With the argument "map" they are named in /tmp/perf-PID.map, late only when it
 * comes to be; with "exit", when the program ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef void (*function)(long, void *);

/* push rbp; mov rbp, rsp; 1: dec rdi; jne 1b; pop rbp; ret */
static const unsigned char inner[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0xff,
				       0xcf, 0x75, 0xfb, 0x5d, 0xc3 };
/* push rbp; mov rbp, rsp; call rsi; pop rbp; ret */
static const unsigned char outer[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3 };
static volatile unsigned long sink;

static void map_write(const char *at, size_t size, const char *name)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	file = fopen(path, "a");
	if (file) {
		fprintf(file, "%lx %zx %s\n", (unsigned long)at, size, name);
		fclose(file);
	}
}

static void *emit(char *at, const unsigned char *code, size_t size, const char *name, int map)
{
	memcpy(at, code, size);
	if (map)
		map_write(at, size, name);
	return at;
}

static void callback(long rounds)
{
	for (long i = 0; i < rounds; i++)
		sink = sink + (unsigned long)i;
}

__attribute__((noinline, noclone)) static void run(function code, long rounds, void *callee,
						   double seconds)
{
	double end = (double)clock() / CLOCKS_PER_SEC + seconds;

	while ((double)clock() / CLOCKS_PER_SEC < end)
		code(rounds, callee);
	sink = sink + 1;
}

int main(int argc, char **argv)
{
	int map = argc > 1 && !strcmp(argv[1], "map");
	char *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *first = emit(code, inner, sizeof(inner), "inner made at run time", map);
	function second =
		(function)emit(code + 64, outer, sizeof(outer), "outer made at run time", map);

	run(second, 300000, first, 0.4);
	second = (function)emit(code + 4096, outer, sizeof(outer), "late made at run time", map);
	run(second, 300000, (void *)callback, 0.4);
	if (argc > 1 && !strcmp(argv[1], "exit")) {
		map_write(code, sizeof(inner), "inner made at run time");
		map_write(code + 64, sizeof(outer), "outer made at run time");
		map_write(code + 4096, sizeof(outer), "late made at run time");
	}
	return 0;
}
