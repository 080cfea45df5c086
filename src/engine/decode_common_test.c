// SPDX-License-Identifier: BSD-2-Clause
/*
 * Serves: W1.
 *
 * Whatever the tables of decode_common.c decode, Zydis decodes in the same way: all opcodes with
 * all modrm bytes behind many combinations of prefixes, and random bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/build.h"

enum { BYTES = DECODE_BYTES, RANDOM = 4000000, TEXT_SHARE = 85 };

static uint64_t seed = 20260101;
static unsigned long decoded;

/* decode.c wants it for the program's code, of which there is none here. */
size_t code_read(uint64_t pc, uint8_t *ret, size_t size)
{
	return 0;
}

static uint64_t random_next(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed >> 32;
}

static bool modrm_is_same(const ZydisDecodedInstruction *a, const ZydisDecodedInstruction *b)
{
	if (!(b->attributes & ZYDIS_ATTRIB_HAS_MODRM))
		return !(a->attributes & ZYDIS_ATTRIB_HAS_MODRM);
	return a->attributes & ZYDIS_ATTRIB_HAS_MODRM && a->raw.modrm.mod == b->raw.modrm.mod &&
	       a->raw.modrm.reg == b->raw.modrm.reg && a->raw.modrm.rm == b->raw.modrm.rm &&
	       a->raw.modrm.offset == b->raw.modrm.offset && a->raw.disp.size == b->raw.disp.size &&
	       (!b->raw.disp.size || (a->raw.disp.offset == b->raw.disp.offset &&
				      a->raw.disp.value == b->raw.disp.value));
}

static bool goes_elsewhere(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_SYSCALL:
		return true;
	default:
		return false;
	}
}

/* What is not written by the tables would be an instruction that copy.c must know. */
static bool is_plain(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_INT1:
	case ZYDIS_MNEMONIC_INT:
	case ZYDIS_MNEMONIC_CLZERO:
	case ZYDIS_MNEMONIC_MONITOR:
	case ZYDIS_MNEMONIC_MONITORX:
	case ZYDIS_MNEMONIC_UMONITOR:
	case ZYDIS_MNEMONIC_WRGSBASE:
	case ZYDIS_MNEMONIC_RDGSBASE:
	case ZYDIS_MNEMONIC_LGS:
	case ZYDIS_MNEMONIC_XBEGIN:
		return false;
	default:
		return insn->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY &&
		       !(insn->attributes &
			 (ZYDIS_ATTRIB_HAS_SEGMENT_GS | ZYDIS_ATTRIB_HAS_ADDRESSSIZE));
	}
}

static bool is_same(const ZydisDecodedInstruction *a, const ZydisDecodedInstruction *b)
{
	const uint64_t segments = ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS;

	if (a->length != b->length || a->opcode != b->opcode || a->opcode_map != b->opcode_map ||
	    !modrm_is_same(a, b) || !is_plain(b))
		return false;
	if (goes_elsewhere(a) != goes_elsewhere(b))
		return false;
	if (!goes_elsewhere(b))
		return true;
	return a->meta.category == b->meta.category && a->raw.rex.X
	== b->raw.rex.X
	&&a->raw.rex.B == b->raw.rex.B && a->raw.rex.W == b->raw.rex.W &&
		!((a->attributes ^ b->attributes) & segments) &&
		!(b->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) &&
		(a->mnemonic == ZYDIS_MNEMONIC_SYSCALL) ==
			(b->mnemonic == ZYDIS_MNEMONIC_SYSCALL) &&
		a->raw.imm[0].is_relative == b->raw.imm[0].is_relative &&
		(!b->raw.imm[0].is_relative || a->raw.imm[0].value.s == b->raw.imm[0].value.s);
}

static void compare(const uint8_t *code)
{
	ZydisDecodedInstruction common, zydis;

	memset(&common, 0xa5, sizeof(common));
	if (!instruction_decode_common(code, &common))
		return;
	decoded++;
	if (instruction_decode(code, ZYDIS_MAX_INSTRUCTION_LENGTH, &zydis) &&
	    is_same(&common, &zydis))
		return;
	for (unsigned i = 0; i < ZYDIS_MAX_INSTRUCTION_LENGTH; i++)
		print_error("%02x ", code[i]);
	print_error("\n");
	fail_msg("decoded otherwise than by Zydis");
}

static void test_tables(void **state)
{
	static const char *const prefixes[] = {
		"",	    "\x48",	"\x66",	    "\xf2",	"\xf3",	    "\x64",	"\x41",
		"\x4f",	    "\x66\x48", "\xf3\x48", "\xf2\x41", "\x66\xf2", "\x66\xf3", "\x64\x48",
		"\x66\x64", "\x48\x66", "\x65",	    "\x67",	"\xf0",	    "\xf3\x66", "\x64\xf3",
	};
	uint8_t code[BYTES];

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		for (unsigned opcode = 0; opcode < 0x200; opcode++)
			for (unsigned modrm = 0; modrm < 0x100; modrm++) {
				size_t at = strlen(prefixes[i]);

				for (unsigned j = 0; j < BYTES; j++)
					code[j] = (uint8_t)random_next();
				memcpy(code, prefixes[i], at);
				if (opcode >> 8)
					code[at++] = 0x0f;
				code[at++] = (uint8_t)opcode;
				code[at] = (uint8_t)modrm;
				compare(code);
			}
	assert_in_range(decoded, 100000, 21 * 0x20000);
}

static void test_random(void **state)
{
	uint8_t code[BYTES];

	for (unsigned i = 0; i < RANDOM; i++) {
		for (unsigned j = 0; j < BYTES; j++)
			code[j] = (uint8_t)random_next();
		compare(code);
	}
}

/* Most of what compilers make is in the tables, or they would be of no use. */
static void test_share(void **state)
{
	const uint8_t *at = (const uint8_t *)(uintptr_t)compare, *end = at + 400;
	unsigned long all = 0, before = decoded;

	decoded = 0;
	for (ZydisDecodedInstruction insn; at < end; at += insn.length, all++) {
		if (!instruction_decode(at, ZYDIS_MAX_INSTRUCTION_LENGTH, &insn))
			break;
		compare(at);
	}
	assert_true(decoded * 100 >= all * TEXT_SHARE);
	decoded = before;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_share),
	};

	return cmocka_run_group_tests_name("decode_common", tests, NULL, NULL);
}
