// SPDX-License-Identifier: BSD-2-Clause
/*
 * Keys of memory (pkeys). The thread's rights are the program's while the engine works, so the
 * program may have forbidden itself to read its own code; and those of a handler of ours are what
 * the kernel gives to every handler: key 0 only. Where the engine touches memory of the program it
 * opens all keys, and gives back what was there.
 *
 * A handler's frame holds the register beside the vector registers, and returning from the handler
 * brings it back.
 */
#include "engine/engine.h"

enum { COMPONENT = 9, XSTATE_HEADER = 512 };

static bool known, have;
static uint32_t place; /* of the register in a frame's vector registers */

static void keys_look(void)
{
	uint32_t a = 7, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	have = c >> 4 & 1; /* the kernel has switched them on */
	a = 0xd;
	c = COMPONENT;
	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	place = b;
	known = true;
}

static void rights_set(uint32_t rights)
{
	__asm__ volatile(".byte 0x0f, 0x01, 0xef" : : "a"(rights), "c"(0), "d"(0) : "memory");
}

uint32_t keys_open(void)
{
	uint32_t rights, none;

	if (!known)
		keys_look();
	if (!have)
		return 0;
	__asm__ volatile(".byte 0x0f, 0x01, 0xee" : "=a"(rights), "=d"(none) : "c"(0));
	if (rights)
		rights_set(0);
	return rights;
}

void keys_close(uint32_t rights)
{
	if (rights)
		rights_set(rights);
}

void keys_reset(uint8_t *vectors, uint32_t rights)
{
	if (!have || !place)
		return;
	*(uint64_t *)(vectors + XSTATE_HEADER) |= 1ull << COMPONENT;
	*(uint32_t *)(vectors + place) = rights;
}
