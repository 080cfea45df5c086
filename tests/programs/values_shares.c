// SPDX-License-Identifier: BSD-2-Clause
/*
 * Values with shares that are known: 97 and 3 in a hundred, 60 and 40, all alike. What the rare or
 * the frequent one leads to may be slow, and much or little code: an interrupt then comes more
 * often near one value than near another.
 */
#include "values_work.h"

enum { TURNS = 1600, TABLE = 64 };

static uint32_t table[TABLE];
volatile uint64_t result;

/* Divisions in a chain: slow. */
static APART uint64_t slow(uint64_t a, unsigned kind)
{
	return (a | 1) % ((uint64_t)kind * 1000003 + (a & 15) + 3) + a / (kind + 7);
}

static APART uint64_t quick(uint64_t a, unsigned kind)
{
	return (a ^ kind) + (a >> 3);
}

static APART unsigned pick(unsigned value, unsigned limit)
{
	return value < limit;
}

static APART uint32_t scatter(uint32_t value, unsigned shift)
{
	return value << shift | value >> (32 - shift);
}

void work(void)
{
	uint64_t state = 11, total = 0;

	for (int i = 0; i < TABLE; i++)
		table[i] = 0;
	for (int i = 0; i < TURNS; i++) {
		uint32_t bits = random_next(&state);
		unsigned rare = pick(bits % 1000, 30);
		unsigned kind = pick(bits / 1000 % 1000, 600);

		if (rare)
			total += slow(bits, 1);
		if (kind)
			total += quick(total, kind);
		else
			total += slow(total & 0xffff, 2);
		table[bits >> 8 & (TABLE - 1)] += kind;
		total += scatter(bits & 7, rare ? 3 : 5);
	}
	result = total;
}

int main(void)
{
	for (;;)
		work();
}
