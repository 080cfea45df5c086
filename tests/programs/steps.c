// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program without a library, so short that it can be followed instruction by instruction:
 * branches, calls, returns, jumps through a table, a loop, a repeated instruction, system calls.
 */
static char text[64];
static volatile int sink;

static long call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static __attribute__((noinline)) int one(int n)
{
	return n * 3;
}

static __attribute__((noinline)) int two(int n)
{
	return n & 1 ? one(n) : n / 2;
}

static __attribute__((noinline)) int three(int n)
{
	int sum = 0;

	while (n-- > 0)
		sum += two(n);
	return sum;
}

static int (*const table[])(int) = { one, two, three };

static void work(void)
{
	void *place = text;
	long left = sizeof(text);

	__asm__ volatile("rep stosb" : "+D"(place), "+c"(left) : "a"('x') : "memory");
	for (int i = 0; i < 100; i++)
		sink += table[i % 3](i);
	for (int i = 0; i < 5; i++)
		call(39, 0, 0, 0); /* getpid */
}

__attribute__((force_align_arg_pointer, noreturn)) void _start(void)
{
	work();
	call(1, 1, (long)"done\n", 5); /* write */
	call(231, 0, 0, 0); /* exit_group */
	__builtin_unreachable();
}
