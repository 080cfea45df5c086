// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tail calls of known numbers, compiled with -O2. In each of ROUNDS rounds main() calls
 *	tailer		which jumps to leaf()
 *	indirect	which jumps to leaf() or other() by a pointer, in turn; other() calls leaf()
 *	chooser		which jumps to leaf() on a condition, half of the time
 *	down		which jumps to its own beginning 3 times
 *	again		which jumps to its own beginning 3 times by a pointer; framed, the same with
 *			a frame of its own, which calls leaf() each time
 * and in the end it allocates 3 objects: 100 bytes, 200 by realloc, and 3 of 50.
 */
#include <stdlib.h>

#define KEEP __attribute__((noinline, noclone))

enum { ROUNDS = 1000 };

static volatile int sink;
static void *volatile memory;

KEEP int leaf(int x)
{
	sink += x;
	return x + 1;
}

KEEP int other(int x)
{
	sink += 2 * x;
	return leaf(x) + 1;
}

KEEP int tailer(int x)
{
	sink -= x;
	return leaf(x * 2);
}

static int (*volatile table[2])(int) = { leaf, other };

KEEP int indirect(int x)
{
	sink ^= x;
	return table[x & 1](x);
}

KEEP int chooser(int x)
{
	if (x & 1)
		return leaf(x);
	return x;
}

/* In assembly, since a compiler would make a loop of it. */
int down(int x);
__asm__(".text\n\t"
	".globl down\n\t"
	".type down, @function\n"
	"down:\n\t"
	"test %edi, %edi\n\t"
	"je 1f\n\t"
	"dec %edi\n\t"
	"jmp down\n"
	"1:\n\t"
	"xor %eax, %eax\n\t"
	"ret\n\t"
	".size down, . - down");

static int (*volatile steps[4])(int);

KEEP int again(int x)
{
	sink += x;
	return x ? steps[x & 1](x - 1) : 0;
}

KEEP int framed(int x)
{
	sink += leaf(x);
	return x ? steps[2 + (x & 1)](x - 1) : 0;
}

KEEP void allocator(void)
{
	memory = malloc(100);
	memory = realloc(memory, 200);
	free(memory);
	memory = calloc(3, 50);
	free(memory);
}

int main(void)
{
	steps[0] = steps[1] = again;
	steps[2] = steps[3] = framed;
	for (int i = 0; i < ROUNDS; i++) {
		sink += tailer(i);
		sink += indirect(i);
		sink += chooser(i);
		sink += down(3);
		sink += again(3);
		sink += framed(3);
	}
	allocator();
	return 5;
}
