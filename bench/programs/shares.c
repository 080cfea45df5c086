// SPDX-License-Identifier: BSD-2-Clause
/*
 * Work in seven functions whose shares of the run time differ by design and stay the same from run
 * to run: each turn of the loop calls all of them, for a few hundred microseconds, in a shuffled
 * order so that no sampling interval can stay in step with it.
 *
 *	shares TURNS
 */
#include <err.h>
#include <stdint.h>
#include <stdlib.h>

enum { TABLE = 4096 };

static uint32_t table[TABLE];

#define WORK(name, operation)                                                                      \
	__attribute__((noinline)) static uint32_t name(uint32_t value, uint32_t rounds)            \
	{                                                                                          \
		for (uint32_t i = 0; i < rounds; i++) {                                            \
			operation;                                                                 \
			__asm__ volatile("" : "+r"(value));                                        \
		}                                                                                  \
		return value;                                                                      \
	}

WORK(work_add, value += i ^ (value >> 3))
WORK(work_multiply, value = value * 2654435761u + i)
WORK(work_divide, value = 0xfffffff1u / ((value & 0xffff) + 1) + i)
WORK(work_load, value += table[(value + i) % TABLE])
WORK(work_store, table[(value ^ i) % TABLE] = value + i)
WORK(work_branch, value = value & 1 ? value * 3 + 1 : value / 2 + 77)
WORK(work_rotate, value = (value << 7 | value >> 25) ^ i)

static const struct {
	uint32_t (*run)(uint32_t value, uint32_t rounds);
	uint32_t rounds;
} works[] = {
	{ work_add, 24000 },   { work_multiply, 16000 }, { work_divide, 5000 }, { work_load, 9000 },
	{ work_store, 12000 }, { work_branch, 6000 },	 { work_rotate, 8000 },
};

enum { WORKS = sizeof(works) / sizeof(works[0]) };

int main(int argc, char **argv)
{
	uint32_t value = 1;
	uint32_t turns = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;

	if (!turns)
		errx(2, "usage: shares TURNS");
	/* Seven is prime: any step from 1 to 6 visits all functions. */
	for (uint32_t turn = 0; turn < turns; turn++) {
		uint32_t step = 1 + value % (WORKS - 1);

		for (uint32_t i = 0; i < WORKS; i++) {
			uint32_t pick = (i * step + turn) % WORKS;

			value = works[pick].run(value, works[pick].rounds);
		}
	}
	return value == 0xdeadbeef;
}
