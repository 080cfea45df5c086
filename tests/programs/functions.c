// SPDX-License-Identifier: BSD-2-Clause
/* Functions that execute a known amount of code, each in another way. */
#include <stdio.h>
#include <string.h>

static char buffer[5000];

static __attribute__((noinline)) unsigned collatz(unsigned long value)
{
	unsigned steps = 0;

	for (; value != 1; steps++)
		value = value & 1 ? 3 * value + 1 : value / 2;
	return steps;
}

static __attribute__((noinline)) int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static __attribute__((noinline)) unsigned hash(const char *text, size_t size)
{
	unsigned sum = 5381;

	for (size_t i = 0; i < size; i++)
		sum = sum * 33 ^ (unsigned)text[i];
	return sum;
}

/* One instruction, many steps. */
static __attribute__((noinline)) void fill(int value)
{
	void *place = buffer;
	size_t left = sizeof(buffer);

	__asm__ volatile("rep stosb" : "+D"(place), "+c"(left) : "a"(value) : "memory");
}

static __attribute__((noinline)) int choose(int kind)
{
	switch (kind % 7) {
	case 0:
		return 11;
	case 1:
		return kind * 3;
	case 2:
		return kind ^ 5;
	case 3:
		return kind - 9;
	case 4:
		return kind / 2;
	default:
		return -kind;
	}
}

int main(void)
{
	unsigned sum = 0;

	for (unsigned long i = 1; i < 2000; i++)
		sum += collatz(i);
	for (int i = 0; i < 50; i++) {
		fill(i);
		sum += hash(buffer, sizeof(buffer));
	}
	for (int i = 0; i < 10000; i++)
		sum += (unsigned)choose(i);
	printf("%u %d\n", sum, fibonacci(18));
	return 3;
}
