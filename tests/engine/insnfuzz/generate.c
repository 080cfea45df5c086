// SPDX-License-Identifier: BSD-2-Clause
/*
 * Random sequences of instructions.
 *
 * Most instructions are random bytes of which the decoder says that they are one: prefixes, an
 * opcode of any map, in legacy, VEX or EVEX encoding, operands. Displacements are then made such
 * that memory operands often lie in memory that is there, and jumps lead to a later instruction.
 * The others come from forms.c.
 *
 * A sequence ends with a jump to machine_leave, or earlier with a signal.
 */
#include <Zydis/Zydis.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "insnfuzz.h"

/* Left out, and why. */
// clang-format off
#define EXCLUDED(X)                                                                 \
	X(RDTSC, "time")                                                            \
	X(RDTSCP, "time")                                                           \
	X(RDPRU, "time")                                                            \
	X(RDPMC, "counts events, if it is allowed")                                 \
	X(RDRAND, "random")                                                         \
	X(RDSEED, "random")                                                         \
	X(CPUID, "a virtual machine may give the time")                             \
	X(SYSCALL, "a system call with a random number; forms.c has some")          \
	X(SYSENTER, "a system call that returns elsewhere, on some processors")     \
	X(VMCALL, "asks the hypervisor, which may patch the instruction")           \
	X(VMMCALL, "asks the hypervisor")                                           \
	X(MWAITX, "waits")                                                          \
	X(UMWAIT, "waits")                                                          \
	X(TPAUSE, "waits")                                                          \
	X(CLUI, "switches interrupts of user mode")                                 \
	X(STUI, "switches interrupts of user mode")                                 \
	X(ENCLU, "enters an enclave")                                               \
	X(ENCLV, "enters an enclave")                                               \
	X(XSAVE, "stores what is in use, which changes with each task switch")      \
	X(XSAVE64, "as XSAVE")                                                      \
	X(XSAVEOPT, "as XSAVE")                                                     \
	X(XSAVEOPT64, "as XSAVE")                                                   \
	X(XSAVEC, "as XSAVE")                                                       \
	X(XSAVEC64, "as XSAVE")                                                     \
	X(FNSAVE, "stores the address of the last x87 instruction: see the design page")  \
	X(FNSTENV, "as FNSAVE")                                                     \
	X(FXSAVE, "as FNSAVE")                                                      \
	X(FXSAVE64, "as FNSAVE")                                                    \
	X(XGETBV, "tells what is in use, as XSAVE")                                 \
	X(XBEGIN, "transactions may abort at any time")
// clang-format on

enum { INT_SYSCALL = 0x80, ATTEMPTS = 64 };

static ZydisDecoder decoder;
static bool decoder_ready;

/* AMD's processors know 16-bit branches in 64-bit mode. */
static bool is_amd(void)
{
	uint32_t a = 0, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return b == 0x68747541; /* "Auth" */
}

static bool decode(const uint8_t *bytes, size_t size, ZydisDecodedInstruction *ret)
{
	if (!decoder_ready) {
		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_AMD_BRANCHES, is_amd());
	}
	decoder_ready = true;
	return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, size, ret));
}

bool detects_split_locks(void)
{
	return access("/proc/sys/kernel/split_lock_mitigate", F_OK) == 0;
}

static bool is_excluded(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
#define X(name, why) case ZYDIS_MNEMONIC_##name:
		EXCLUDED(X)
#undef X
		return true;
	case ZYDIS_MNEMONIC_INT:
		return insn->raw.imm[0].value.u == INT_SYSCALL;
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
		return detects_split_locks();
	default:
		return false;
	}
}

bool sequence_allows(const uint8_t *code)
{
	ZydisDecodedInstruction insn;

	return !decode(code, 10, &insn) || !is_excluded(&insn);
}

/* Always faults: one of many will do. */
static bool is_forbidden(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED ||
	       insn->meta.category == ZYDIS_CATEGORY_IO ||
	       insn->meta.category == ZYDIS_CATEGORY_IOSTRINGOP ||
	       insn->meta.category == ZYDIS_CATEGORY_INTERRUPT ||
	       insn->meta.isa_ext == ZYDIS_ISA_EXT_AMD3DNOW;
}

/* --- Random bytes ----------------------------------------------------------------------------- */

static uint8_t *put_prefixes(struct random *random, uint8_t *at)
{
	static const uint8_t prefixes[] = { 0x66, 0x67, 0xf0, 0xf2, 0xf3, 0x2e,
					    0x36, 0x3e, 0x26, 0x64, 0x65 };

	while (random_percent(random, 25))
		*at++ = prefixes[random_below(random, sizeof(prefixes))];
	return at;
}

static uint8_t *put_legacy(struct random *random, uint8_t *at)
{
	static const uint8_t maps[][3] = { { 0 },
					   { 0 },
					   { 1, 0x0f },
					   { 1, 0x0f },
					   { 1, 0x0f },
					   { 2, 0x0f, 0x38 },
					   { 2, 0x0f, 0x3a } };
	const uint8_t *map = maps[random_below(random, sizeof(maps) / sizeof(maps[0]))];

	at = put_prefixes(random, at);
	if (random_percent(random, 50))
		*at++ = 0x40 | random_below(random, 16);
	for (unsigned i = 1; i <= map[0]; i++)
		*at++ = map[i];
	return at;
}

static uint8_t *put_vex(struct random *random, uint8_t *at)
{
	if (random_percent(random, 10))
		at = put_prefixes(random, at);
	if (random_percent(random, 30)) {
		*at++ = 0xc5;
		*at++ = (uint8_t)random_next(random);
		return at;
	}
	*at++ = 0xc4;
	*at++ = (uint8_t)((random_next(random) & 0xe0) | (1 + random_below(random, 3)));
	*at++ = (uint8_t)random_next(random);
	return at;
}

static uint8_t *put_evex(struct random *random, uint8_t *at)
{
	static const uint8_t maps[] = { 1, 2, 3, 5, 6 };

	if (random_percent(random, 10))
		at = put_prefixes(random, at);
	*at++ = 0x62;
	*at++ = (uint8_t)((random_next(random) & 0xf0) | maps[random_below(random, sizeof(maps))]);
	*at++ = (uint8_t)(random_next(random) | 4);
	*at++ = (uint8_t)random_next(random);
	return at;
}

static void bytes_make(struct random *random, uint8_t *bytes)
{
	uint64_t kind = random_below(random, 100);
	uint8_t *at = bytes;

	if (kind < 60)
		at = put_legacy(random, at);
	else if (kind < 80)
		at = put_vex(random, at);
	else
		at = put_evex(random, at);
	while (at < bytes + ITEM_BYTES)
		*at++ = (uint8_t)random_next(random);
}

/* --- Displacements ---------------------------------------------------------------------------- */

static bool is_rip_relative(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & ZYDIS_ATTRIB_HAS_MODRM && insn->raw.modrm.mod == 0 &&
	       insn->raw.modrm.rm == 5 && insn->raw.disp.size;
}

/*
 * Relative to rip: made final in sequence_place(). Here the displacement becomes an offset into the
 * data.
 */
static void displacement_tame(struct random *random, const ZydisDecodedInstruction *insn,
			      struct item *item)
{
	uint8_t *place = item->bytes + insn->raw.disp.offset;
	uint64_t wide = LOW_BASE + random_below(random, LOW_SIZE - 64);
	int32_t small = (int32_t)random_below(random, 512) - 256;

	if (insn->raw.disp.size == 64 && random_percent(random, 80)) {
		memcpy(place, &wide, 8);
	} else if (insn->raw.disp.size == 32 && is_rip_relative(insn)) {
		small = random_percent(random, 90) ? (int32_t)random_below(random, NEAR_SIZE - 64)
						   : NEAR_SIZE + 64;
		memcpy(place, &small, 4);
	} else if (insn->raw.disp.size == 32) {
		if (insn->raw.modrm.mod == 0)
			small += LOW_BASE + LOW_SIZE / 2; /* no base */
		if (random_percent(random, 15)) /* where nothing is, not even of the engine */
			small += (random_percent(random, 50) ? 1 : -1) *
				 (int32_t)(0x10000 + random_below(random, 0xe0000));
		memcpy(place, &small, 4);
	}
}

/* By a general register: two of them together hardly ever are an address. */
static bool is_indexed(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & ZYDIS_ATTRIB_HAS_SIB && !insn->raw.rex.X
	&&insn->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
}

static void item_tame(struct random *random, const ZydisDecodedInstruction *insn, struct item *item)
{
	item->length = insn->length;
	if (insn->raw.disp.size)
		displacement_tame(random, insn, item);
	if (is_indexed(insn) && random_percent(random, 75))
		item->bytes[insn->raw.sib.offset] =
			(uint8_t)((item->bytes[insn->raw.sib.offset] & 0xc7) | 0x20);
	if (insn->raw.imm[0].is_relative && insn->raw.imm[0].size != 16) {
		item->fix_offset = insn->raw.imm[0].offset;
		item->fix_size = insn->raw.imm[0].size / 8;
		item->target = TARGET_LATER;
	}
}

/* Bytes that are no instruction end the sequence, so they are rare. */
static void random_add(struct random *random, struct sequence *sequence)
{
	struct item *item = item_add(sequence, "\x90", 1);
	ZydisDecodedInstruction insn;

	for (unsigned i = 0; i < ATTEMPTS; i++) {
		bytes_make(random, item->bytes);
		if (decode(item->bytes, 15, &insn)) {
			if (is_excluded(&insn) ||
			    (is_forbidden(&insn) && random_percent(random, 90)))
				continue;
			item_tame(random, &insn, item);
			return;
		}
		if (random_below(random, 2000) == 0) {
			item->length = ITEM_UNKNOWN;
			return;
		}
	}
	item->bytes[0] = 0x90;
	item->length = 1;
}

/* --- Sequences -------------------------------------------------------------------------------- */

struct item *item_add(struct sequence *sequence, const void *bytes, size_t length)
{
	struct item *item = &sequence->items[sequence->count++];

	memset(item, 0, sizeof(*item));
	memcpy(item->bytes, bytes, length);
	item->length = (uint8_t)length;
	return item;
}

static size_t sequence_size(const struct sequence *sequence)
{
	size_t size = 0;

	for (unsigned i = 0; i < sequence->count; i++)
		size += sequence->items[i].length;
	return size;
}

/* The whole goes round and round, with the counter in memory, so that a timer finds it there. */
static void loop_begin(struct random *random, struct sequence *sequence)
{
	uint8_t load[] = { 0xc7, 0x04, 0x25, 0, 0, 0, 0, 0, 0, 0, 0 }; /* movl $n, LOW_BASE */
	uint32_t place = LOW_BASE, count = 20 + (uint32_t)random_below(random, 400);

	memcpy(load + 3, &place, 4);
	memcpy(load + 7, &count, 4);
	item_add(sequence, load, sizeof(load));
}

static void loop_end(struct sequence *sequence)
{
	uint8_t count[] = { 0xff, 0x0c, 0x25, 0, 0, 0, 0 }; /* decl LOW_BASE */
	uint32_t place = LOW_BASE;
	struct item *back;

	memcpy(count + 3, &place, 4);
	item_add(sequence, count, sizeof(count));
	back = item_add(sequence, "\x0f\x8f\0\0\0\0", 6); /* jg */
	back->fix_offset = 2;
	back->fix_size = 4;
	back->target = 1;
	back->inner = true;
}

/* Ends that are signals; the others jump to machine_leave. */
static void end_add(struct random *random, struct sequence *sequence)
{
	static const char *const ends[] = { "\xcc",	    "\x0f\x0b", "\xf1",		"\xcd\x03",
					    "\xf4",	    "\xcd\x21", "\x0f\xff\xc0", "\xfa",
					    "\x0f\x01\xf8", "\x0f\x30", "\xec",		"\xea" };
	static const uint8_t lengths[] = { 1, 2, 1, 2, 1, 2, 3, 1, 3, 2, 1, 1 };
	struct item *leave;

	if (random_percent(random, 12)) {
		size_t kind = random_below(random, sizeof(lengths));

		item_add(sequence, ends[kind], lengths[kind]);
	}
	leave = item_add(sequence, "\xff\x25\0\0\0\0", 6); /* jmp *leave(%rip) */
	leave->fix_offset = 2;
	leave->fix_size = 4;
	leave->target = TARGET_LEAVE;
}

void generate(struct random *random, bool loops, struct sequence *ret)
{
	unsigned wanted = 1 + (unsigned)random_below(random, 12);

	ret->count = 0;
	ret->loops = loops && random_percent(random, 60);
	if (ret->loops)
		loop_begin(random, ret);
	while (wanted--) {
		if (random_percent(random, 30))
			form_add(random, ret);
		else
			random_add(random, ret);
		if (sequence_size(ret) > SLOT / 2)
			break;
	}
	if (ret->loops)
		loop_end(ret);
	end_add(random, ret);
	targets_choose(random, ret);
}

static void fix(const struct item *item, const uint64_t *starts, uint64_t next, uint8_t *place)
{
	uint64_t to = item->target == TARGET_LEAVE ? LEAVE_BASE : starts[item->target];
	int64_t distance = (int64_t)(to - next);

	memcpy(place + item->fix_offset, &distance, item->fix_size);
}

static void fix_data(uint8_t *place, uint64_t next)
{
	ZydisDecodedInstruction insn;
	int32_t offset;

	if (!decode(place, 15, &insn) || !is_rip_relative(&insn) || insn.raw.disp.size != 32)
		return;
	memcpy(&offset, place + insn.raw.disp.offset, 4);
	offset += (int32_t)(NEAR_BASE - next);
	memcpy(place + insn.raw.disp.offset, &offset, 4);
}

size_t sequence_place(const struct sequence *sequence, uint8_t *place)
{
	uint64_t starts[ITEMS_MAX + 1], at = (uint64_t)place;

	for (unsigned i = 0; i < sequence->count; i++) {
		starts[i] = at;
		memcpy((void *)at, sequence->items[i].bytes, sequence->items[i].length);
		at += sequence->items[i].length;
	}
	for (unsigned i = 0; i < sequence->count; i++) {
		const struct item *item = &sequence->items[i];

		if (item->fix_size)
			fix(item, starts, starts[i] + item->length, (uint8_t *)starts[i]);
		else
			fix_data((uint8_t *)starts[i], starts[i] + item->length);
	}
	return at - (uint64_t)place;
}

/* Not to the decoder, that is: the processor may know one, and where it ends. */
static bool item_is_unknown(const struct item *item)
{
	return item->length == ITEM_UNKNOWN;
}

static bool item_is_indirect(const struct item *item)
{
	ZydisDecodedInstruction insn;

	if (!decode(item->bytes, item->length, &insn))
		return true;
	return insn.meta.category == ZYDIS_CATEGORY_RET ||
	       ((insn.meta.category == ZYDIS_CATEGORY_CALL ||
		 insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR) &&
		!insn.raw.imm[0].is_relative);
}

bool sequence_strays(const struct sequence *sequence)
{
	for (unsigned i = 0; i + 1 < sequence->count; i++)
		if (item_is_unknown(&sequence->items[i]) || item_is_indirect(&sequence->items[i]))
			return true;
	return false;
}

void sequence_starts(const struct sequence *sequence, uint64_t *ret)
{
	size_t at = 0;

	memset(ret, 0, SLOT / 8);
	for (unsigned i = 0; i < sequence->count; i++) {
		ret[at / 64] |= 1ull << at % 64;
		at += sequence->items[i].length;
	}
}

void sequence_print(const uint8_t *place, size_t size)
{
	ZydisFormatter formatter;
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	char text[128];

	ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_ATT);
	for (size_t at = 0; at < size; at += insn.length) {
		snprintf(text, sizeof(text), "(no instruction)");
		insn.length = 1;
		if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, place + at, 15, &insn, operands)))
			ZydisFormatterFormatInstruction(&formatter, &insn, operands,
							insn.operand_count_visible, text,
							sizeof(text), (uint64_t)(place + at), NULL);
		printf("  %p ", (const void *)(place + at));
		for (size_t i = 0; i < 15; i++)
			printf(i < insn.length ? "%02x" : "  ", place[at + i]);
		printf(" %s\n", text);
	}
}
