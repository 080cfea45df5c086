// SPDX-License-Identifier: BSD-2-Clause
/*
 * Bytes of random instructions, below a table of opcode maps (corpus_bytes.h).
 */
#include "isa/corpus_bytes.h"

#include <stdbool.h>
#include <string.h>

#include "base/map.h"

uint64_t corpus_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return hash64(*state);
}

/*
 * Forms that random bytes hardly ever are: their first bytes, and the opcode extension in the byte
 * after.
 */
static const struct rare {
	uint8_t bytes[5];
	uint8_t size;
	uint8_t extension;
} rare_forms[] = {
	{ { 0x48, 0x0f, 0xc7 }, 3, 1 }, /* cmpxchg16b */
	{ { 0xf0, 0x48, 0x0f, 0xc7 }, 4, 1 }, { { 0xc8, 0x10, 0x00, 0x00 }, 4, 0 }, /* enter */
	{ { 0xf3, 0x48, 0x0f, 0xae }, 4, 0 }, /* rdfsbase, rdgsbase, wrfsbase, wrgsbase */
	{ { 0xf3, 0x48, 0x0f, 0xae }, 4, 1 }, { { 0xf3, 0x48, 0x0f, 0xae }, 4, 2 },
	{ { 0xf3, 0x48, 0x0f, 0xae }, 4, 3 }, { { 0x48, 0x0f, 0x38, 0xf9 }, 4, 1 }, /* movdiri */
	{ { 0x0f, 0x01, 0xd6 }, 3, 0 }, /* xtest */
};

enum {
	RARE_COUNT = sizeof(rare_forms) / sizeof(rare_forms[0]),
};

/*
 * Opcodes of vector instructions that are followed: the map, and the byte; those with few valid
 * forms more than once.
 */
static const uint8_t vector_opcodes[][2] = {
	{ 1, 0x10 }, { 1, 0x11 }, { 1, 0x12 }, { 1, 0x13 }, { 1, 0x14 }, { 1, 0x15 }, { 1, 0x16 },
	{ 1, 0x17 }, { 1, 0x28 }, { 1, 0x29 }, { 1, 0x2b }, { 1, 0x2e }, { 1, 0x2f }, { 1, 0x50 },
	{ 1, 0x54 }, { 1, 0x55 }, { 1, 0x56 }, { 1, 0x57 }, { 1, 0x60 }, { 1, 0x61 }, { 1, 0x62 },
	{ 1, 0x68 }, { 1, 0x69 }, { 1, 0x6a }, { 1, 0x6c }, { 1, 0x6d }, { 1, 0x6e }, { 1, 0x6f },
	{ 1, 0x70 }, { 1, 0x73 }, { 1, 0x74 }, { 1, 0x75 }, { 1, 0x76 }, { 1, 0x7e }, { 1, 0x7f },
	{ 1, 0xc4 }, { 1, 0xc5 }, { 1, 0xc6 }, { 1, 0xd4 }, { 1, 0xd6 }, { 1, 0xd7 }, { 1, 0xda },
	{ 1, 0xdb }, { 1, 0xdf }, { 1, 0xe7 }, { 1, 0xeb }, { 1, 0xef }, { 1, 0xf0 }, { 1, 0xf8 },
	{ 1, 0xf9 }, { 1, 0xfa }, { 1, 0xfb }, { 1, 0xfc }, { 1, 0xfd }, { 1, 0xfe }, { 2, 0x29 },
	{ 2, 0x2a }, { 3, 0x0f }, { 3, 0x14 }, { 3, 0x15 }, { 3, 0x16 }, { 3, 0x22 }, { 1, 0x73 },
	{ 1, 0x73 }, { 1, 0x2b }, { 1, 0xe7 }, { 1, 0x64 }, { 1, 0x65 }, { 1, 0x66 }, { 1, 0x77 },
	{ 1, 0xde }, { 2, 0x17 }, { 2, 0x18 }, { 2, 0x19 }, { 2, 0x37 }, { 2, 0x3a }, { 2, 0x3b },
	{ 2, 0x3e }, { 2, 0x3f }, { 2, 0x58 }, { 2, 0x59 }, { 2, 0x78 }, { 2, 0x79 }, { 1, 0x77 },
};

/* Those that only EVEX has. */
static const uint8_t evex_opcodes[][2] = {
	{ 1, 0x6f }, { 1, 0x7f }, { 1, 0x74 }, { 1, 0x64 }, { 1, 0xda }, { 1, 0xef }, { 1, 0xfc },
	{ 2, 0x26 }, { 2, 0x27 }, { 2, 0x26 }, { 2, 0x27 }, { 2, 0x7a }, { 2, 0x7b }, { 2, 0x7c },
	{ 3, 0x1e }, { 3, 0x1f }, { 3, 0x3e }, { 3, 0x3f }, { 3, 0x25 }, { 3, 0x25 }, { 2, 0x59 },
};

/* Those of mask registers. */
static const uint8_t mask_opcodes[][2] = {
	{ 1, 0x41 }, { 1, 0x42 }, { 1, 0x44 }, { 1, 0x45 }, { 1, 0x46 }, { 1, 0x47 },
	{ 1, 0x4a }, { 1, 0x4b }, { 1, 0x90 }, { 1, 0x91 }, { 1, 0x92 }, { 1, 0x93 },
	{ 1, 0x98 }, { 1, 0x99 }, { 3, 0x30 }, { 3, 0x31 }, { 3, 0x32 }, { 3, 0x33 },
};

enum {
	VECTOR_OPCODES = sizeof(vector_opcodes) / sizeof(vector_opcodes[0]),
	EVEX_OPCODES = sizeof(evex_opcodes) / sizeof(evex_opcodes[0]),
	MASK_OPCODES = sizeof(mask_opcodes) / sizeof(mask_opcodes[0]),
};

/* Prefix, map and opcode without VEX; how many bytes. */
static int make_legacy_vector(uint64_t random, unsigned map, uint8_t opcode, uint8_t code[16])
{
	static const uint8_t prefixes[] = { 0, 0x66, 0xf3, 0xf2 };
	int used = 0;

	if (random & 3)
		code[used++] = prefixes[random & 3];
	if (random & 4)
		code[used++] = 0x40 | (random >> 4 & 15);
	code[used++] = 0x0f;
	if (map != 1)
		code[used++] = map == 2 ? 0x38 : 0x3a;
	code[used++] = opcode;
	return used;
}

/* Of any length, half of them under a mask, any registers. */
static void make_evex(uint64_t random, uint8_t code[16])
{
	const uint8_t *chosen = evex_opcodes[random % EVEX_OPCODES];
	unsigned mask = random >> 8 & 1 ? random >> 9 & 7 : 0;

	code[0] = 0x62;
	code[1] = (random >> 12 & 0xf0) | chosen[0];
	code[2] = (random >> 20 & 0xfc) | 4 | (random >> 30 & 3 ? 1 : random >> 32 & 3);
	code[3] = (mask && random >> 34 & 1 ? 0x80 : 0) | (random >> 35 & 3) << 5 |
		  (random >> 37 & 1) << 3 | mask;
	code[4] = chosen[1];
	if (random >> 38 & 1)
		code[5] |= 0xc0;
	if (chosen[0] == 2 && chosen[1] > 0x50) /* one source only */
		code[2] |= 0x78, code[3] |= 8;
	if (chosen[0] == 1 && (chosen[1] & 0x6f) == 0x6f)
		code[2] |= 0x78, code[3] |= 8;
}

static void make_mask(uint64_t random, uint8_t code[16])
{
	const uint8_t *chosen = mask_opcodes[random % MASK_OPCODES];
	bool one = chosen[0] == 3 || chosen[1] >= 0x90 || chosen[1] == 0x44;

	code[0] = 0xc4;
	code[1] = 0xe0 | chosen[0];
	code[2] = (random >> 8 & 0x80) | (one ? 0x78 : 0x40 | (random >> 16 & 0x38)) |
		  (one ? 0 : 4) | (random >> 24 & 3);
	code[3] = chosen[1];
	if (random >> 32 & 3)
		code[4] |= 0xc0;
}

/* VEX or EVEX, mostly of 128 bits, without masks and with registers below 16. */
static int make_vex(uint64_t random, unsigned map, uint8_t opcode, uint8_t code[16])
{
	uint8_t rest = (random >> 4 & 0x83) | (random & 4 ? 0x78 : random >> 16 & 0x78);

	if (random & 8) {
		code[0] = 0xc4;
		code[1] = (random >> 24 & 0xe0) | map;
		code[2] = rest | (random >> 32 & 1 ? 0 : 4);
		code[3] = opcode;
		return 4;
	}
	code[0] = 0x62;
	code[1] = (random >> 24 & 0xe0) | (random >> 34 & 7 ? 0x50 : random >> 40 & 0x50) | map;
	code[2] = rest | 4;
	code[3] = 8 | (random >> 37 & 1 ? 0 : random >> 48);
	code[4] = opcode;
	return 5;
}

/*
 * One operand is the same register as the other: zeros, ones, and results that overwrite their
 * source.
 */
static void make_same(uint64_t random, uint8_t code[16], int used)
{
	unsigned reg = random & 7;

	code[used] = 0xc0 | reg << 3 | reg;
	if (code[0] == 0xc4 || code[0] == 0x62) {
		code[1] |= 0xe0;
		code[2] = (code[2] & 0x87) | (random & 8 ? 0x78 : (15 - reg) << 3);
	}
}

static void make_vector_bytes(uint64_t *state, uint8_t code[16])
{
	uint64_t random = corpus_random(state), choice = corpus_random(state);
	unsigned map = 1 + (choice >> 8) % 3;
	uint8_t opcode = choice >> 16;
	int used;

	if (choice & 7) {
		const uint8_t *chosen = vector_opcodes[(choice >> 16) % VECTOR_OPCODES];

		map = chosen[0];
		opcode = chosen[1];
	}
	used = choice & 8 ? make_vex(random, map, opcode, code)
			  : make_legacy_vector(random, map, opcode, code);
	if (!(choice >> 4 & 3))
		make_same(choice >> 32, code, used);
	else if ((choice >> 4 & 3) == 1)
		code[used] |= 0xc0;
}

void corpus_bytes(uint64_t *state, uint8_t code[16])
{
	static const uint8_t prefixes[] = { 0x66, 0xf2, 0xf3, 0xf0, 0x64, 0x65, 0x67 };
	static const uint8_t vex_opcodes[] = { 0xf2, 0xf3, 0xf5, 0xf6, 0xf7, 0xf0 };
	uint64_t random = corpus_random(state);
	int used = 0;

	for (int i = 0; i < 16; i++)
		code[i] = corpus_random(state) >> 13;
	if (random % 16 >= 10) {
		make_vector_bytes(state, code);
		return;
	}
	if (random % 16 == 9) {
		make_evex(corpus_random(state), code);
		return;
	}
	if (random % 32 == 8) {
		make_mask(corpus_random(state), code);
		return;
	}
	if (random % 16 == 0) {
		bool third = random >> 8 & 1;

		code[0] = 0xc4;
		code[1] = (code[1] & 0xe0) | (third ? 3 : 2);
		code[2] &= ~4;
		code[3] = third ? 0xf0 : vex_opcodes[(random >> 16) % 6];
		return;
	}
	if (random % 64 == 1) {
		const struct rare *rare = &rare_forms[(random >> 16) % RARE_COUNT];

		memcpy(code, rare->bytes, rare->size);
		code[rare->size] = (code[rare->size] & 0xc7) | rare->extension << 3;
		return;
	}
	for (int i = 0; i < 7; i++)
		if ((random >> (8 + 4 * i) & 15) < (i < 3 ? 3 : 1))
			code[used++] = prefixes[i];
	if (random >> 40 & 1)
		code[used++] = 0x40 | (random >> 41 & 15);
	if (random >> 45 & 1) {
		code[used++] = 0x0f;
		if ((random >> 46 & 15) == 0) {
			code[used++] = 0x38;
			code[used] = random >> 50 & 1 ? 0xf6 : 0xf0 | (random >> 51 & 1);
		}
	}
}
