// SPDX-License-Identifier: BSD-2-Clause
/* Floating point in several widths, vectors that compilers make, long jumps over growing stacks. */
#include <complex.h>
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf there;
static double matrix[60][60], other[60][60], product[60][60];

static int compare(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return (a > b) - (a < b);
}

static void jump(int depth)
{
	char bytes[depth * 16 + 1];

	memset(bytes, depth, sizeof(bytes));
	if (!depth)
		longjmp(there, 7);
	jump(depth - 1);
}

int main(void)
{
	uint32_t numbers[5000], seed = 1;
	long double wide = 1;
	double complex z = 0.1 + 0.2 * I;
	float narrow = 0;
	unsigned __int128 big = 1;

	for (int i = 0; i < 5000; i++)
		numbers[i] = seed = seed * 1103515245 + 12345;
	qsort(numbers, 5000, sizeof(*numbers), compare);
	for (int i = 0; i < 60; i++)
		for (int j = 0; j < 60; j++) {
			matrix[i][j] = i * j % 7 + 0.5;
			other[i][j] = i + j;
		}
	for (int i = 0; i < 60; i++)
		for (int j = 0; j < 60; j++)
			for (int k = 0; k < 60; k++)
				product[i][j] += matrix[i][k] * other[k][j];
	for (int i = 1; i < 200; i++) {
		wide = sqrtl(wide + i);
		z = z * z * 0.5 + 0.1;
		narrow += sinf((float)i) / (float)i;
		big = big * 31 + (unsigned)i;
	}
	printf("%u %u %.3f %.12Lf %.9f %.5f %llx\n", numbers[0], numbers[4999], product[7][9], wide,
	       creal(z), (double)narrow, (unsigned long long)(big >> 64));
	fesetround(FE_UPWARD);
	printf("%.17g %d\n", 1.0 / 3.0 * (double)seed, fetestexcept(FE_INEXACT) != 0);
	if (setjmp(there))
		return 7;
	jump(50);
	return 0;
}
