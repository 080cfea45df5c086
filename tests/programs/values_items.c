// SPDX-License-Identifier: BSD-2-Clause
/*
 * Instructions with two results, three operands and two addresses, a branch of known directions,
 * and functions that get texts and names of numbers. Prints its places, then runs until it has
 * used the CPU time that it was given, in seconds. With a second argument it asks the kernel not to
 * let its user look into it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum colour { RED, GREEN = 5, BLUE = -1 };
enum rights { READ = 1, WRITE = 2, RUN = 4 };

static char from[16] = "the source", to[16];
static volatile uint64_t sum;

#define PLACE(name) ".globl " name "\n" name ":\n"

/* One copy of it, not unrolled: a label cannot be there twice. */
__attribute__((noinline, noipa)) static void work(void)
{
	uint64_t a = 1000, d = 0, rest = 7, x = 11, y = 13;
	char *source = from, *target = to;

	__asm__ volatile(PLACE("place_div") "div %2" : "+a"(a), "+d"(d) : "r"(rest));
	sum += a + d;
	__asm__ volatile(PLACE("place_xchg") "xchg %0, %1" : "+r"(x), "+r"(y));
	sum += x - y;
	__asm__ volatile(PLACE("place_movs") "movsb" : "+S"(source), "+D"(target) : : "memory");
	for (unsigned i = 0; i < 4; i++)
		__asm__ volatile(
			"test $3, %0\n" PLACE("place_branch") "jnz place_after\n"
							      "incq %1\n" PLACE("place_after") "nop"
			:
			: "r"(i), "m"(sum));
}

__attribute__((noinline, noipa)) static size_t take(const char *text, enum colour colour,
						    enum rights rights, char *binary)
{
	return strlen(text) + (size_t)colour + rights + (size_t)binary[0];
}

static double used(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	char *text = strdup("user:1001"), *binary = malloc(64), *quoted = strdup("say \"a\\b\"\n");

	memset(binary, 0x81, 63);
	if (argc > 2 && prctl(PR_SET_DUMPABLE, 0))
		return 1;
	printf("%p %p %p\n", (void *)from, (void *)to, (void *)text);
	fflush(stdout);
	while (used() < seconds)
		for (int i = 0; i < 20000; i++) {
			work();
			sum += take(text, GREEN, READ | RUN, binary);
			sum += take(quoted, BLUE, WRITE, binary);
		}
	return 0;
}
