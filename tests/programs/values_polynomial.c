// SPDX-License-Identifier: BSD-2-Clause
/*
 * Polynomials and small matrices, in whole numbers and in floating point; the degree is nearly
 * always the same.
 */
#include "values_work.h"

enum { DEGREE = 4, DEGREE_RARE = 2, POINTS = 700, SIZE = 12 };

static const double coefficients[DEGREE + 1] = { 1, -10, 35, -50, 24 };
static const int32_t whole[DEGREE + 1] = { 1, -10, 35, -50, 24 };
static int32_t a[SIZE][SIZE], b[SIZE][SIZE], c[SIZE][SIZE];
volatile double sum;
volatile int64_t whole_sum;

static APART double evaluate(const double *coefficient, int degree, double x)
{
	double y = coefficient[0];

	for (int i = 1; i <= degree; i++)
		y = y * x + coefficient[i];
	return y;
}

static APART int64_t evaluate_whole(const int32_t *coefficient, int degree, int64_t x, int modulus)
{
	int64_t y = coefficient[0];

	for (int i = 1; i <= degree; i++)
		y = (y * x + coefficient[i]) % modulus;
	return y;
}

static APART int changes(const int32_t *coefficient, int degree)
{
	int count = 0, last = 0;

	for (int i = 0; i <= degree; i++) {
		int sign = coefficient[i] < 0 ? -1 : coefficient[i] > 0;

		if (sign && last && sign != last)
			count++;
		if (sign)
			last = sign;
	}
	return count;
}

static APART void multiply(int size, int scale)
{
	for (int i = 0; i < size; i++)
		for (int j = 0; j < size; j++) {
			int32_t dot = 0;

			for (int k = 0; k < size; k++)
				dot += a[i][k] * b[k][j];
			c[i][j] = dot * scale;
		}
}

void work(void)
{
	uint64_t state = 5;
	double total = 0;
	int64_t whole_total = 0;

	for (int i = 0; i < POINTS; i++) {
		uint32_t bits = random_next(&state);
		int degree = bits % 100 < 97 ? DEGREE : DEGREE_RARE;

		total += evaluate(coefficients, degree, (bits >> 8) % 64 / 64.0);
		whole_total +=
			evaluate_whole(whole, degree, (bits >> 8) % 16, bits & 4 ? 9973 : 101);
		if (bits >> 16 & 1)
			whole_total += changes(whole, DEGREE);
		else
			whole_total += changes(whole + 1, DEGREE - 1);
	}
	for (int i = 0; i < 2; i++)
		multiply(SIZE, i ? 1 : 3);
	sum = total;
	whole_sum = whole_total;
}

int main(void)
{
	for (int i = 0; i < SIZE; i++)
		for (int j = 0; j < SIZE; j++) {
			a[i][j] = i == j ? 2 : (i + j) % 3 == 0;
			b[i][j] = i - j;
		}
	for (;;)
		work();
}
