// SPDX-License-Identifier: BSD-2-Clause
// Declares marks, in C and in C++; prints how often each is visited. With HALF defined there is a
// range whose end is never reached, too.
#include <stdio.h>
#include <stdlib.h>

#include <assay/mark.h>

static volatile int limit = 40;

static volatile int rare;

/* What is marked has an effect of its own, so that it stays a branch without the mark, too. */
__attribute__((noinline)) static int work(int x)
{
	ASSAY_RANGE_BEGIN(work);
	x = x * 3 + 1;
	if (x % 5 == 0) {
		ASSAY_MARK(fifth);
		rare = x;
	}
	ASSAY_RANGE_END(work);
	return x;
}

/* The same, without marks to count by. */
__attribute__((noinline)) static int fifths(void)
{
	int count = 0;

	for (int i = 0; i < limit; i++)
		count += (i * 3 + 1) % 5 == 0;
	return count;
}

#ifdef HALF
__attribute__((noinline)) static void done(int code)
{
	ASSAY_RANGE_BEGIN(endless);
	fflush(stdout);
	_Exit(code);
	ASSAY_RANGE_END(endless);
}
#else
static void done(int code)
{
	exit(code);
}
#endif

int main(void)
{
	int sum = 0;

	for (int i = 0; i < limit; i++)
		sum += work(i);
	printf("work %d\nfifth %d\n", limit, fifths());
	done(sum < 0);
}
