// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code that may change at any moment: it can be written here, or it is shared memory that may be
 * written through another mapping.
 *
 * A fragment of such code begins with a check: the bytes that it was made of are compared with
 * those that the program has there now. A difference leaves the cache; the engine closes the
 * fragment and makes another one. The bytes are kept, for the check and for translating back.
 *
 *	stale:		the program's registers come back; leave the cache
 *	constants:	the negatives of the bytes, by words
 *	indirect entry	as in all fragments
 *	entry:		rcx and rdx to their slots, compare word by word, back again
 *	body:		as in all fragments
 *
 * A processor sees its own writes to code at once. So a fragment ends behind an instruction that
 * may have written code: whatever writes memory, but for the stack by way of rsp, unless the stack
 * is where the code is. What other processors write is seen after an instruction that serialises,
 * or where the program has waited for it, and to wait takes a branch: both end fragments.
 *
 * Invariants
 * 1. Nothing is executed from a fragment of such code unless the program's bytes were the same
 *    after the last branch, write or serialising instruction.
 * 2. The check changes no flag. Whether the code behind it reads flags cannot be known from the
 *    bytes that it was made of: if they have changed, it is other code that goes on.
 */
#include <Zydis/Zydis.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	SPILL_BYTES = 9, /* of the instruction that puts a register into its slot */
	SPILLS = 2, /* rcx and rdx */
	WORDS_MAX = CHANGING_CODE_BYTES / 8 + 6, /* bytes, twos and fours at both ends */
};

/* Bytes that are compared at once. */
struct word {
	uint32_t offset;
	uint32_t size; /* 1, 2, 4 or 8 */
};

bool region_is_changing(const struct region *region)
{
	return region->writable || region->shared;
}

bool code_is_stable(const struct thread *thread, uint64_t pc)
{
	const struct region *region = region_of(pc);

	if (!region || !region->readable)
		return false;
	return (!region_is_changing(region) && !guard_knows(pc)) || guard_take(thread, pc);
}

/* --- What the code is -------------------------------------------------------------------- */

struct scan {
	struct changing_code *changing;
	uint64_t pc;
	size_t size; /* bytes that are there */
	bool stack; /* the stack is in the same memory */
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

/* Only within guarded_call(): Zydis uses vector registers and looks for a canary. */
static long scan_run(void *context, void *unused)
{
	struct scan *scan = context;
	struct changing_code *changing = scan->changing;
	ZydisDecoder decoder;
	bool last = false;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	while (!last && scan->size > changing->length &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, changing->bytes + changing->length,
						   scan->size - changing->length, &scan->insn,
						   scan->operands))) {
		last = is_last(scan);
		changing->length += scan->insn.length;
	}
	return 0;
}

void changing_code_look(const struct thread *thread, uint64_t pc, struct changing_code *ret)
{
	const struct region *region = region_of(pc);
	uint64_t rsp = thread->regs[RSP];
	struct scan scan = { .changing = ret, .pc = pc };

	*ret = (struct changing_code){};
	scan.stack = rsp >= region->start && rsp <= region->end;
	scan.size = code_read(pc, ret->bytes, sizeof(ret->bytes));
	guarded_call(scan_run, &scan, NULL);
}

/* --- The check --------------------------------------------------------------------------- */

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

static uint64_t word_value(const struct changing_code *changing, const struct word *word)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < word->size; i++)
		value |= (uint64_t)changing->bytes[word->offset + i] << i * 8;
	return -value;
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

/* Puts the code for a failed check. The constants follow behind it, and then the check. */
uint8_t *changing_code_put_stale(struct fragment *fragment, const struct changing_code *changing,
				 uint8_t *at)
{
	struct word words[WORDS_MAX];
	size_t count = words_make(fragment->pc, changing->length, words);
	struct exit *exit;
	uint32_t number = cache_exit_new(&exit);

	fragment->start = at;
	exit->target = fragment->pc;
	exit->kind = EXIT_STALE;
	exit->stub = at;
	at = put_unspill(at, RCX);
	at = put_unspill(at, RDX);
	at = put32(PUT(at, 0x65, 0x48, 0xc7, 0x04, 0x25), THREAD_EXIT); /* movq $number, %gs:EXIT */
	at = put32(at, number);
	at = put32(PUT(at, 0x65, 0xff, 0x24, 0x25), THREAD_ON_EXIT); /* jmp *%gs:ON_EXIT */
	while ((uintptr_t)at % 8)
		*at++ = 0xcc;
	for (size_t i = 0; i < count; i++) {
		uint64_t value = word_value(changing, &words[i]);

		at = put(at, &value, 8);
	}
	while ((uintptr_t)at % 16)
		*at++ = 0xcc;
	return at;
}

static uint8_t *constants_of(const struct fragment *fragment)
{
	size_t size = SPILLS * SPILL_BYTES + 13 + 8;

	return fragment->start + ((size + 7) & ~(size_t)7);
}

uint8_t *changing_code_put_check(struct fragment *fragment, const struct changing_code *changing,
				 uint8_t *at)
{
	struct word words[WORDS_MAX];
	size_t count = words_make(fragment->pc, changing->length, words);
	uint64_t stale = (uint64_t)fragment->start;
	uint64_t constant = (uint64_t)constants_of(fragment);

	fragment->checked = true;
	at = put_spill(at, RCX);
	at = put_spill(at, RDX);
	for (size_t i = 0; i < count; i++, constant += 8) {
		at = put_load_rcx(at, fragment->pc + words[i].offset, words[i].size);
		at = put_distance(PUT(at, 0x48, 0x8b, 0x15), constant); /* mov, %rdx */
		at = PUT(at, 0x48, 0x8d, 0x0c, 0x11); /* lea (%rcx,%rdx), %rcx */
		at = PUT(at, 0xe3, 0x05); /* jrcxz behind the jump */
		at = put_distance(PUT(at, 0xe9), stale);
	}
	at = put_unspill(at, RCX);
	return put_unspill(at, RDX);
}

bool changing_code_back(struct thread *thread, const struct fragment *fragment, const uint8_t *at)
{
	bool stale = at < fragment->indirect, check = at >= fragment->entry && at < fragment->body;

	if (!stale && !check)
		return false;
	thread->pc = fragment->pc;
	if (check && at < fragment->entry + SPILLS * SPILL_BYTES)
		return true; /* what is in a slot is in its register as well */
	thread->regs[RCX] = thread->spill[0];
	thread->regs[RDX] = thread->spill[1];
	return true;
}
