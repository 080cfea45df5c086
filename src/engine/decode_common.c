// SPDX-License-Identifier: BSD-2-Clause
/*
 * Decoding of the instructions that programs mostly consist of, by tables: how long they are, and
 * what copy.c asks about them. Zydis tells everything about an instruction, which takes ten times
 * as long, and most instructions of a short program are translated once and executed a few times.
 *
 * Instructions that are not in the tables (rare prefixes, VEX and EVEX vectors, system
 * instructions) are left to Zydis. decode_common_test.c compares both decoders for all those that
 * are.
 *
 * Invariants
 * 1. What is decoded here, Zydis decodes as well, with the same answer in the fields that are
 *    filled in; the others are not written.
 * 2. Nothing is decoded here whose copy would need more than another displacement, but for direct
 *    branches, near calls, jumps and returns, and system calls.
 */
#include "engine/build.h"

/* What follows an opcode, and which forms of it are not left to Zydis. */
enum trait {
	KNOWN = 1,
	MODRM = 2,
	IMM8 = 4,
	IMMZ = 8, /* 4 bytes, or 2 with an operand-size prefix */
	IMMV = 16, /* the same, or 8 with REX.W */
	MEMORY = 32, /* only with an operand in memory */
	REGISTER = 64, /* only with one in a register */
	BARE = 128, /* only without prefixes, but REX */
	GROUP = 256, /* depends on the modrm byte's reg field: group_traits() */
	BRANCH = 512,
	/* which of the prefixes 66, F2 and F3 select the instruction; NP: none of them may */
	NP = 1024,
	P66 = 2048,
	PF3 = 4096,
	PF2 = 8192,
	PLAIN = 16384, /* 66 is the operand size */
};

enum {
	SSE = NP | P66 | PF3 | PF2,
	RM = KNOWN | MODRM | PLAIN,
};

#define ALU(base)                                                                                  \
	[(base)] = RM, [(base) + 1] = RM, [(base) + 2] = RM, [(base) + 3] = RM,                    \
	[(base) + 4] = KNOWN | IMM8 | PLAIN, [(base) + 5] = KNOWN | IMMZ | PLAIN

static const uint16_t one_byte[256] = {
	ALU(0x00),
	ALU(0x08),
	ALU(0x10),
	ALU(0x18),
	ALU(0x20),
	ALU(0x28),
	ALU(0x30),
	ALU(0x38),
	[0x50 ... 0x5f] = KNOWN | PLAIN,
	[0x63] = RM,
	[0x68] = KNOWN | IMMZ | PLAIN,
	[0x69] = RM | IMMZ,
	[0x6a] = KNOWN | IMM8 | PLAIN,
	[0x6b] = RM | IMM8,
	[0x70 ... 0x7f] = KNOWN | BARE | BRANCH | IMM8,
	[0x80] = RM | IMM8,
	[0x81] = RM | IMMZ,
	[0x83] = RM | IMM8,
	[0x84 ... 0x8b] = RM,
	[0x8d] = RM | MEMORY,
	[0x90] = KNOWN | PLAIN,
	[0x98 ... 0x99] = KNOWN | PLAIN,
	[0xa4 ... 0xa7] = KNOWN | PLAIN | PF3 | PF2,
	[0xa8] = KNOWN | IMM8 | PLAIN,
	[0xa9] = KNOWN | IMMZ | PLAIN,
	[0xaa ... 0xaf] = KNOWN | PLAIN | PF3 | PF2,
	[0xb0 ... 0xb7] = KNOWN | IMM8 | PLAIN,
	[0xb8 ... 0xbf] = KNOWN | IMMV | PLAIN,
	[0xc0] = RM | IMM8 | GROUP,
	[0xc1] = RM | IMM8 | GROUP,
	[0xc3] = KNOWN | BARE,
	[0xc6] = RM | IMM8 | GROUP,
	[0xc7] = RM | IMMZ | GROUP,
	[0xc9] = KNOWN | BARE,
	[0xd0 ... 0xd3] = RM | GROUP,
	[0xe8] = KNOWN | BARE | BRANCH | IMMZ,
	[0xe9] = KNOWN | BARE | BRANCH | IMMZ,
	[0xeb] = KNOWN | BARE | BRANCH | IMM8,
	[0xf6] = RM | GROUP,
	[0xf7] = RM | GROUP,
	[0xfe] = RM | GROUP,
	[0xff] = RM | GROUP,
};

#define VECTOR (KNOWN | MODRM)

static const uint16_t two_bytes[256] = {
	[0x05] = KNOWN | BARE,
	[0x10 ... 0x11] = VECTOR | SSE,
	[0x14 ... 0x15] = VECTOR | NP | P66,
	[0x16] = VECTOR | P66 | MEMORY,
	[0x1f] = RM,
	[0x28] = VECTOR | NP | P66,
	[0x29] = VECTOR | NP | P66,
	[0x2a] = VECTOR | PF3 | PF2,
	[0x2c ... 0x2d] = VECTOR | PF3 | PF2,
	[0x2e ... 0x2f] = VECTOR | NP | P66,
	[0x40 ... 0x4f] = RM,
	[0x51] = VECTOR | SSE,
	[0x54 ... 0x57] = VECTOR | NP | P66,
	[0x58 ... 0x5a] = VECTOR | SSE,
	[0x5c ... 0x5f] = VECTOR | SSE,
	[0x60 ... 0x6f] = VECTOR | P66,
	[0x70] = VECTOR | P66 | IMM8,
	[0x71 ... 0x73] = VECTOR | P66 | IMM8 | REGISTER | GROUP,
	[0x74 ... 0x76] = VECTOR | P66,
	[0x7e] = VECTOR | P66 | PF3,
	[0x7f] = VECTOR | P66 | PF3,
	[0x80 ... 0x8f] = KNOWN | BARE | BRANCH | IMMZ,
	[0x90 ... 0x9f] = RM,
	[0xa3] = RM,
	[0xa4] = RM | IMM8,
	[0xa5] = RM,
	[0xab] = RM,
	[0xac] = RM | IMM8,
	[0xad] = RM,
	[0xaf] = RM,
	[0xb0 ... 0xb1] = RM,
	[0xb3] = RM,
	[0xb6 ... 0xb7] = RM,
	[0xba] = RM | IMM8 | GROUP,
	[0xbb ... 0xbf] = RM,
	[0xc0 ... 0xc1] = RM,
	[0xc6] = VECTOR | NP | P66 | IMM8,
	[0xc8 ... 0xcf] = KNOWN | PLAIN,
	[0xd1 ... 0xd5] = VECTOR | P66,
	[0xd6] = VECTOR | P66,
	[0xd7] = VECTOR | P66 | REGISTER,
	[0xd8 ... 0xe5] = VECTOR | P66,
	[0xe7] = VECTOR | P66 | MEMORY,
	[0xe8 ... 0xef] = VECTOR | P66,
	[0xf1 ... 0xf6] = VECTOR | P66,
	[0xf8 ... 0xfe] = VECTOR | P66,
};

struct prefixes {
	bool operand_size, fs;
	unsigned repeat; /* PF2 or PF3 */
	unsigned rex;
	unsigned traits; /* that an opcode must have to go with them */
};

/* Each of 66, F2, F3 and FS once at most, then REX. Gives where the opcode is. */
static const uint8_t *prefixes_take(const uint8_t *at, struct prefixes *ret)
{
	*ret = (struct prefixes){};
	for (;; at++) {
		if (*at == 0x66 && !ret->operand_size)
			ret->operand_size = true;
		else if (*at == 0x64 && !ret->fs)
			ret->fs = true;
		else if (*at == 0xf3 && !ret->repeat)
			ret->repeat = PF3;
		else if (*at == 0xf2 && !ret->repeat)
			ret->repeat = PF2;
		else
			break;
	}
	if ((*at & 0xf0) == 0x40)
		ret->rex = *at++;
	return at;
}

static bool prefixes_fit(const struct prefixes *prefixes, unsigned traits)
{
	if (traits & BARE)
		return !prefixes->operand_size && !prefixes->fs && !prefixes->repeat;
	if (prefixes->repeat)
		return traits & prefixes->repeat && (traits & PLAIN || !prefixes->operand_size);
	if (prefixes->operand_size)
		return traits & (P66 | PLAIN);
	return traits & (NP | PLAIN);
}

/* Of an opcode whose modrm byte says more; 0: for Zydis. */
static unsigned group_traits(bool two, unsigned opcode, unsigned modrm, unsigned traits)
{
	unsigned reg = modrm >> 3 & 7;

	if (two && opcode == 0xba)
		return reg >= 4 ? traits : 0;
	if (two) /* 71, 72, 73: shifts */
		return reg == 2 || reg == 6 || (reg == 4 && opcode != 0x73) ? traits : 0;
	switch (opcode) {
	case 0xc6:
	case 0xc7:
		return reg ? 0 : traits;
	case 0xf6:
		return reg == 1 ? 0 : traits | (reg ? 0 : IMM8);
	case 0xf7:
		return reg == 1 ? 0 : traits | (reg ? 0 : IMMZ);
	case 0xfe:
		return reg <= 1 ? traits : 0;
	case 0xff:
		if (reg == 2 || reg == 4)
			return traits | BARE;
		return reg <= 1 || reg == 6 ? traits : 0;
	default:
		return reg == 6 ? 0 : traits;
	}
}

static unsigned imm_size(const struct prefixes *prefixes, unsigned traits)
{
	unsigned wide = prefixes->rex & 8 && traits & IMMV ? 8 : 4;

	if (traits & IMM8)
		return 1;
	if (!(traits & (IMMZ | IMMV)))
		return 0;
	return prefixes->operand_size && !(prefixes->rex & 8) ? 2 : wide;
}

static int64_t number_at(const uint8_t *at, unsigned size)
{
	int32_t number;

	if (size == 1)
		return (int8_t)*at;
	__builtin_memcpy(&number, at, sizeof(number));
	return number;
}

/* The modrm byte and what belongs to it; gives where that ends. */
static const uint8_t *modrm_take(const uint8_t *code, const uint8_t *at,
				 ZydisDecodedInstruction *ret)
{
	unsigned modrm = *at, mod = modrm >> 6, rm = modrm & 7, size = mod == 1 ? 1 : 0;

	ret->attributes |= ZYDIS_ATTRIB_HAS_MODRM;
	ret->raw.modrm.mod = (uint8_t)mod;
	ret->raw.modrm.reg = modrm >> 3 & 7;
	ret->raw.modrm.rm = (uint8_t)rm;
	ret->raw.modrm.offset = (uint8_t)(at++ - code);
	if (mod == 2 || (mod == 0 && rm == 5))
		size = 4;
	if (mod != 3 && rm == 4 && (*at++ & 7) == 5 && mod == 0)
		size = 4;
	ret->raw.disp.size = (uint8_t)(size * 8);
	if (!size)
		return at;
	ret->raw.disp.offset = (uint8_t)(at - code);
	ret->raw.disp.value = number_at(at, size);
	return at + size;
}

static ZydisInstructionCategory category_of(bool two, unsigned opcode, unsigned reg)
{
	if (two)
		return opcode == 0x05		 ? ZYDIS_CATEGORY_SYSCALL
		       : (opcode & 0xf0) == 0x80 ? ZYDIS_CATEGORY_COND_BR
						 : ZYDIS_CATEGORY_INVALID;
	if ((opcode & 0xf0) == 0x70)
		return ZYDIS_CATEGORY_COND_BR;
	switch (opcode) {
	case 0xc3:
		return ZYDIS_CATEGORY_RET;
	case 0xe8:
		return ZYDIS_CATEGORY_CALL;
	case 0xe9:
	case 0xeb:
		return ZYDIS_CATEGORY_UNCOND_BR;
	case 0xff:
		if (reg == 2)
			return ZYDIS_CATEGORY_CALL;
		return reg == 4 ? ZYDIS_CATEGORY_UNCOND_BR : ZYDIS_CATEGORY_INVALID;
	default:
		return ZYDIS_CATEGORY_INVALID;
	}
}

static void fields_start(ZydisDecodedInstruction *ret, const struct prefixes *prefixes, bool two,
			 unsigned opcode)
{
	ret->attributes = prefixes->fs ? ZYDIS_ATTRIB_HAS_SEGMENT_FS : 0;
	ret->encoding = ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	ret->opcode_map = two ? ZYDIS_OPCODE_MAP_0F : ZYDIS_OPCODE_MAP_DEFAULT;
	ret->opcode = (uint8_t)opcode;
	ret->mnemonic = two && opcode == 0x05 ? ZYDIS_MNEMONIC_SYSCALL : ZYDIS_MNEMONIC_INVALID;
	ret->raw.rex.W = prefixes->rex >> 3 & 1;
	ret->raw.rex.X
	= prefixes->rex >> 1 & 1;
	ret->raw.rex.B = prefixes->rex & 1;
	ret->raw.modrm.reg = 0;
	ret->raw.disp.size = 0;
	ret->raw.imm[0].is_relative = false;
	ret->raw.prefix_count = 0;
}

bool instruction_decode_common(const uint8_t *code, ZydisDecodedInstruction *ret)
{
	struct prefixes prefixes;
	const uint8_t *at = prefixes_take(code, &prefixes);
	bool two = *at == 0x0f;
	unsigned opcode = at[two], traits = (two ? two_bytes : one_byte)[opcode], size;

	at += 1 + two;
	if (!(traits & KNOWN))
		return false;
	if (traits & GROUP)
		traits = group_traits(two, opcode, *at, traits);
	if (!traits || !prefixes_fit(&prefixes, traits) || (traits & MEMORY && *at >= 0xc0) ||
	    (traits & REGISTER && *at < 0xc0))
		return false;
	fields_start(ret, &prefixes, two, opcode);
	if (traits & MODRM)
		at = modrm_take(code, at, ret);
	ret->meta.category = category_of(two, opcode, ret->raw.modrm.reg);
	size = imm_size(&prefixes, traits);
	if (traits & BRANCH) {
		ret->raw.imm[0].is_relative = true;
		ret->raw.imm[0].value.s = number_at(at, size);
	}
	at += size;
	ret->length = (uint8_t)(at - code);
	return ret->length <= ZYDIS_MAX_INSTRUCTION_LENGTH;
}
