// SPDX-License-Identifier: BSD-2-Clause
// Declares marks in functions that several files have, and in one that is not used; compiled twice,
// once with SECOND defined, and linked. Prints how often each is visited.
#include <cstdio>

#include <assay/mark.h>

template<class T> __attribute__((noinline)) T triple(T x)
{
	volatile T sum = 0;

	ASSAY_RANGE_BEGIN(triple);
	for (int i = 0; i < 3; i++)
		sum = sum + x;
	ASSAY_RANGE_END(triple);
	return sum;
}

inline __attribute__((noinline)) int next(int x)
{
	volatile int sum = x;

	ASSAY_MARK(next);
	return sum + 1;
}

int second(int x);

#ifdef SECOND
int unused(int x)
{
	ASSAY_MARK(unused);
	return x / 3;
}

int second(int x)
{
	return triple(x) + next(x);
}
#else
static volatile int limit = 40;
static int table[4];

int main()
{
	int sum = 0;

	ASSAY_DATA(table);
	for (int i = 0; i < limit; i++) {
		sum += triple(i) + next(i) + second(i);
		table[i % 4]++;
	}
	std::printf("triple %d\nnext %d\n", 2 * limit, 2 * limit);
	return sum < 0 || table[0] < 0;
}
#endif
