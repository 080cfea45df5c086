// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code that may change at any moment: it can be written, or is shared with somebody who may write it elsewhere.
 *
 * A fragment of such code begins with a check: the bytes that it was made of are compared with those that the program has
 * there now. A difference leaves the cache; the engine closes the fragment and makes another one. The bytes are kept, for
 * the check and for translating back.
 *
 *	stale:		the program's registers come back; leave the cache
 *	constants:	the bytes, by words (their negatives where flags must be kept)
 *	indirect entry	as in all fragments
 *	entry:		rcx (and rdx) to their slots, compare word by word, back again
 *	body:		as in all fragments
 *
 * A processor sees its own writes to code at once. So a fragment ends behind an instruction that may have written code:
 * whatever writes memory, but for the stack by way of rsp, unless the stack is where the code is. What other processors
 * write is seen after an instruction that serialises, or where the program has waited for it, and to wait takes a branch:
 * both end fragments.
 *
 * Invariants
 * 1. Nothing is executed from a fragment of such code unless the program's bytes were the same after the last branch, write
 *    or serialising instruction.
 * 2. The check changes no flag that the code behind it might read.
 */
#include <Zydis/Zydis.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	SPILL_BYTES = 9, /* of the instruction that puts a register into its slot */
	STATUS_FLAGS = ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |
		       ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF,
	WORDS_MAX = UNSTABLE_BYTES / 8 + 6, /* bytes, twos and fours at both ends */
};

/* Bytes that are compared at once. */
struct word {
	uint32_t offset;
	uint32_t size; /* 1, 2, 4 or 8 */
};

bool region_is_unstable(const struct region *region)
{
	return region->writable || region->shared;
}

bool code_is_stable(const struct thread *thread, uint64_t pc)
{
	const struct region *region = region_of(pc);

	if (!region || !region->readable)
		return false;
	return (!region_is_unstable(region) && !guard_knows(pc)) || guard_take(thread, pc);
}

/* --- What the code is -------------------------------------------------------------------------------- */

struct scan {
	struct unstable *unstable;
	uint64_t pc;
	size_t size; /* bytes that are there */
	bool stack; /* the stack is in the same memory */
	uint32_t killed; /* flags that were overwritten before they were read */
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool is_stack(const ZydisDecodedOperand *operand)
{
	return operand->mem.base == ZYDIS_REGISTER_RSP && operand->mem.index == ZYDIS_REGISTER_NONE;
}

static bool may_write_code(const struct scan *scan)
{
	for (size_t i = 0; i < scan->insn.operand_count; i++) {
		const ZydisDecodedOperand *operand = &scan->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    (scan->stack || !is_stack(operand)))
			return true;
	}
	return false;
}

static bool is_last(const struct scan *scan)
{
	switch (scan->insn.meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_INTERRUPT:
		return true;
	default:
		return scan->insn.mnemonic == ZYDIS_MNEMONIC_CPUID ||
		       scan->insn.mnemonic == ZYDIS_MNEMONIC_SERIALIZE || may_write_code(scan);
	}
}

/* A shift by 0 and a repetition of 0 times leave the flags as they were. */
static bool is_sure_to_write_flags(const ZydisDecodedInstruction *insn)
{
	return insn->meta.category != ZYDIS_CATEGORY_SHIFT &&
	       insn->meta.category != ZYDIS_CATEGORY_ROTATE &&
	       !(insn->attributes &
		 (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE));
}

static void flags_note(struct scan *scan)
{
	const ZydisAccessedFlags *flags = scan->insn.cpu_flags;

	if (!flags)
		return;
	if (flags->tested & STATUS_FLAGS & ~scan->killed)
		scan->unstable->flags_live = true;
	if (is_sure_to_write_flags(&scan->insn))
		scan->killed |= flags->modified | flags->set_0 | flags->set_1 | flags->undefined;
}

/* Only within guarded_call(): Zydis uses vector registers and looks for a canary. */
static long scan_run(void *context, void *unused)
{
	struct scan *scan = context;
	struct unstable *unstable = scan->unstable;
	ZydisDecoder decoder;
	bool last = false;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (!last && scan->size > unstable->length &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, unstable->bytes + unstable->length,
						   scan->size - unstable->length, &scan->insn,
						   scan->operands))) {
		flags_note(scan);
		last = is_last(scan);
		unstable->length += scan->insn.length;
	}
	if ((scan->killed & STATUS_FLAGS) != STATUS_FLAGS)
		unstable->flags_live = true;
	return 0;
}

void unstable_look(const struct thread *thread, uint64_t pc, struct unstable *ret)
{
	const struct region *region = region_of(pc);
	uint64_t rsp = thread->regs[RSP];
	struct scan scan = { .unstable = ret, .pc = pc };

	*ret = (struct unstable){};
	scan.stack = rsp >= region->start && rsp <= region->end;
	scan.size = code_read(pc, ret->bytes, sizeof(ret->bytes));
	guarded_call(scan_run, &scan, NULL);
}

/* --- The check ------------------------------------------------------------------------------------- */

/* Aligned words: the program may have asked for alignment checks. */
static size_t words_make(uint64_t pc, uint32_t length, struct word ret[WORDS_MAX])
{
	size_t count = 0;
	uint32_t size;

	for (uint32_t at = 0; at < length; at += size) {
		for (size = 8; (pc + at) % size || size > length - at; size /= 2)
			;
		ret[count++] = (struct word){ at, size };
	}
	return count;
}

static uint64_t word_value(const struct unstable *unstable, const struct word *word)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < word->size; i++)
		value |= (uint64_t)unstable->bytes[word->offset + i] << i * 8;
	return unstable->flags_live ? -value : value;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		at[i] = ((const uint8_t *)bytes)[i];
	return at + size;
}

#define PUT(at, ...)                                                                               \
	put(at, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

static uint8_t *put32(uint8_t *at, uint32_t value)
{
	return put(at, &value, 4);
}

/* A displacement from behind itself. */
static uint8_t *put_distance(uint8_t *at, uint64_t to)
{
	return put32(at, (uint32_t)(to - (uint64_t)(at + 4)));
}

static uint8_t *put_spill(uint8_t *at, unsigned reg)
{
	return put32(PUT(at, 0x65, 0x48, 0x89, reg << 3 | 4, 0x25),
		     reg == RCX ? THREAD_SPILL0 : THREAD_SPILL1);
}

static uint8_t *put_unspill(uint8_t *at, unsigned reg)
{
	return put32(PUT(at, 0x65, 0x48, 0x8b, reg << 3 | 4, 0x25),
		     reg == RCX ? THREAD_SPILL0 : THREAD_SPILL1);
}

static uint8_t *put_load_rcx(uint8_t *at, uint64_t from, uint32_t size)
{
	switch (size) {
	case 8:
		return put_distance(PUT(at, 0x48, 0x8b, 0x0d), from);
	case 4:
		return put_distance(PUT(at, 0x8b, 0x0d), from);
	case 2:
		return put_distance(PUT(at, 0x0f, 0xb7, 0x0d), from);
	default:
		return put_distance(PUT(at, 0x0f, 0xb6, 0x0d), from);
	}
}

/* Behind it the constants begin; the check is yet to come. */
uint8_t *unstable_put_stale(struct fragment *fragment, const struct unstable *unstable, uint8_t *at)
{
	struct word words[WORDS_MAX];
	size_t count = words_make(fragment->pc, unstable->length, words);
	struct exit *exit;
	uint32_t number = cache_exit_new(&exit);

	fragment->start = at;
	exit->target = fragment->pc;
	exit->kind = EXIT_STALE;
	exit->stub = at;
	at = put_unspill(at, RCX);
	if (unstable->flags_live)
		at = put_unspill(at, RDX);
	at = put32(PUT(at, 0x65, 0x48, 0xc7, 0x04, 0x25), THREAD_EXIT); /* movq $number, %gs:EXIT */
	at = put32(at, number);
	at = put32(PUT(at, 0x65, 0xff, 0x24, 0x25), THREAD_ON_EXIT); /* jmp *%gs:ON_EXIT */
	while ((uintptr_t)at % 8)
		*at++ = 0xcc;
	for (size_t i = 0; i < count; i++) {
		uint64_t value = word_value(unstable, &words[i]);

		at = put(at, &value, 8);
	}
	while ((uintptr_t)at % 16)
		*at++ = 0xcc;
	return at;
}

static uint8_t *constants_of(const struct fragment *fragment, bool flags_live)
{
	size_t size = (flags_live ? 2 : 1) * SPILL_BYTES + 13 + 8;

	return fragment->start + ((size + 7) & ~(size_t)7);
}

uint8_t *unstable_put_check(struct fragment *fragment, const struct unstable *unstable, uint8_t *at)
{
	struct word words[WORDS_MAX];
	size_t count = words_make(fragment->pc, unstable->length, words);
	uint64_t stale = (uint64_t)fragment->start;
	uint64_t constant = (uint64_t)constants_of(fragment, unstable->flags_live);

	fragment->checked = true;
	fragment->spilled = unstable->flags_live ? 2 : 1;
	at = put_spill(at, RCX);
	if (unstable->flags_live)
		at = put_spill(at, RDX);
	for (size_t i = 0; i < count; i++, constant += 8) {
		at = put_load_rcx(at, fragment->pc + words[i].offset, words[i].size);
		if (unstable->flags_live) {
			at = put_distance(PUT(at, 0x48, 0x8b, 0x15), constant); /* mov, %rdx */
			at = PUT(at, 0x48, 0x8d, 0x0c, 0x11); /* lea (%rcx,%rdx), %rcx */
			at = PUT(at, 0xe3, 0x05); /* jrcxz behind the jump */
			at = put_distance(PUT(at, 0xe9), stale);
		} else {
			at = put_distance(PUT(at, 0x48, 0x3b, 0x0d), constant); /* cmp, %rcx */
			at = put_distance(PUT(at, 0x0f, 0x85), stale); /* jne */
		}
	}
	at = put_unspill(at, RCX);
	return unstable->flags_live ? put_unspill(at, RDX) : at;
}

bool unstable_back(struct thread *thread, const struct fragment *fragment, const uint8_t *at)
{
	bool stale = at < fragment->indirect, check = at >= fragment->entry && at < fragment->body;

	if (!stale && !check)
		return false;
	thread->pc = fragment->pc;
	if (check && at < fragment->entry + fragment->spilled * SPILL_BYTES)
		return true; /* what is in a slot is in its register as well */
	thread->regs[RCX] = thread->spill[0];
	if (fragment->spilled == 2)
		thread->regs[RDX] = thread->spill[1];
	return true;
}
