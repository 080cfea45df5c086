// SPDX-License-Identifier: BSD-2-Clause
/* Throws at the end of a recursion and catches half way up, with destructors between, until the time is over. */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>

static volatile unsigned long sink;

struct guard {
	unsigned long value;
	explicit guard(unsigned long start) : value(start)
	{
	}
	~guard()
	{
		for (int i = 0; i < 200; i++)
			sink = sink + value;
	}
};

__attribute__((noinline)) static unsigned long dive(int depth, unsigned long seed)
{
	guard kept(seed);

	if (depth == 0)
		throw std::runtime_error("bottom " + std::to_string(seed));
	if (depth != 20)
		return dive(depth - 1, seed * 3 + 1) + kept.value;
	try {
		return dive(depth - 1, seed) + kept.value;
	} catch (const std::exception &error) {
		return error.what()[0];
	}
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	unsigned long total = 0;

	for (unsigned long i = 0; clock() < seconds * CLOCKS_PER_SEC; i++)
		total += dive(40, i);
	return total == 0;
}
