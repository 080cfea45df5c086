// SPDX-License-Identifier: BSD-2-Clause
/*
 * Replay of runs.
 *
 *	in	the record of a run, and the translations that it went through
 *	out	a call for each instruction with everything that was known there
 *	owner	values.c
 *
 * Theory. The kernel and this file run the same micro-operations through the same uop_step().
 * Everything that step takes from outside is in the record: registers, translations, memory. So
 * both pass through the same states, and here there is time to examine each of them. The effect of
 * an instruction follows from its micro-operations: the register it writes, the memory it reads and
 * writes, and where it goes.
 *
 * Invariants
 * 1. The order of log words is that of the kernel (wire/run.h); every word is taken once.
 * 2. Nothing is told before the end of the run was reached and its state hash compared.
 * 3. The stack pointer's changes are no results: they are the same at every execution, relative to
 *    the frame.
 */
#include "recorder/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "isa/lift.h"
#include "recorder/replay_private.h"

enum {
	FUNCTION_ALIGNMENT = 16,
	LINE = 64, /* bytes of a cache line */
	LINE_NOTES = LINE / sizeof(struct translation_note),
	FETCHED_LINES = 4, /* of a block's operations: most blocks have no more */
};

#define OPERAND_SOURCES                                                                            \
	(SELECTION_BIT(SELECTION_OPERAND1) | SELECTION_BIT(SELECTION_OPERAND2) |                   \
	 SELECTION_BIT(SELECTION_OPERAND3) | SELECTION_BIT(SELECTION_OPERAND4))

#define UOP_CONTEXT struct replay *
#define UOP_LOAD replay_load
#define UOP_STORE replay_store
#define UOP_POISON replay_poison

#include "isa/uop_exec.h"

/*
 * The sources that have to be noted for those that are wanted: whether an instruction has a result
 * shows in whether it stores, and a compared value may stand for its result.
 */
static uint32_t sources_noted(uint64_t needs)
{
	uint32_t noted;

	if (needs & OPERAND_SOURCES)
		needs |= SELECTION_BIT(SELECTION_LOADED) | SELECTION_BIT(SELECTION_LOADED2);
	if (needs & SELECTION_BIT(SELECTION_RESULT))
		needs |= SELECTION_BIT(SELECTION_STORED);
	noted = (uint32_t)(needs & (SELECTION_BIT(REPLAY_SOURCES) - 1));
	noted |= needs & SELECTION_INDIRECT ? STEP_INDIRECT : 0;
	return noted | (needs & SELECTION_ANY_BRANCH ? STEP_ANY_BRANCH : 0);
}

void replay_create(struct translations *translations, uint64_t needs, struct replay **ret)
{
	*ret = mem_zalloc(sizeof(**ret));
	(*ret)->translations = translations;
	(*ret)->noted = sources_noted(needs);
}

void replay_destroy(struct replay *replay)
{
	free(replay);
}

/* --- What an instruction does ----------------------------------------------------------------- */

static bool known(const struct replay *replay, uint8_t reg)
{
	return reg == UOP_NONE || !replay->state.unknown[reg];
}

static uint64_t value_of(const struct replay *replay, uint8_t reg)
{
	return reg == UOP_NONE ? 0 : replay->state.regs[reg];
}

/* A register of the program, as opposed to one of the translation. */
static bool is_result(uint8_t reg)
{
	return (reg <= UOP_R15 && reg != UOP_RSP) || (reg >= UOP_XMM0 && reg < UOP_XMM0_HIGH) ||
	       (reg >= UOP_XMM16 && reg < UOP_XMM16_HIGH) ||
	       (reg >= UOP_K0 && reg < UOP_VECTORS_END);
}

/* A word of a vector that is not its lowest. */
static bool is_upper(uint8_t reg)
{
	return reg >= UOP_XMM0_HIGH && reg < UOP_K0 && !(reg >= UOP_XMM16 && reg < UOP_XMM16_HIGH);
}

static bool is_memory(const struct uop *uop)
{
	return uop_traits[uop->op] & UOP_ADDRESS && uop->op != UOP_OP_LEA;
}

static unsigned size_of(const struct uop *uop)
{
	return uop->size > 8 ? 8 : uop->size;
}

/*
 * Whether the instruction's left side is this operation's: not if it makes an address, a zero or
 * half a vector.
 */
static bool has_sides(const struct uop *uop)
{
	bool zero = uop->op == UOP_OP_MOV && uop->flags & UOP_IMM && uop->flags & UOP_FLAGS;

	return uop->op < UOP_OP_SKIP_ZERO && uop->op != UOP_OP_NOP && uop->op != UOP_OP_LEA &&
	       uop->op != UOP_OP_FORGET && uop->op != UOP_OP_FORGET_FLAGS &&
	       uop->op != UOP_OP_CLEAR && uop->op != UOP_OP_CLEAR_UPPER && !zero &&
	       !is_upper(uop->dst);
}

static void left_set(struct replay *replay, uint64_t value, unsigned size)
{
	replay->left = value;
	replay->left_size = (uint8_t)size;
}

/* The left side of the first operation that computes: a comparison has no other result. */
static void left_note(struct replay *replay, const struct uop *uop)
{
	unsigned traits = uop_traits[uop->op], size = size_of(uop);

	replay->computed = true;
	if (traits & UOP_READS_A && uop->a != UOP_NONE) {
		if (known(replay, uop->a))
			left_set(replay, value_of(replay, uop->a), size);
	} else if (uop->flags & UOP_IMM) {
		left_set(replay, (uint64_t)uop->imm, size);
	} else if (traits & UOP_READS_B && uop->b != UOP_NONE && known(replay, uop->b)) {
		left_set(replay, value_of(replay, uop->b), size);
	}
}

static bool is_same_base(const struct uop *a, const struct uop *b)
{
	return a->a == b->a && a->b == b->b;
}

/*
 * A second address is that of another operand: not of the next part of a vector, of the next
 * repetition, or of where the first is written back to.
 */
static void address_note(struct replay *replay, const struct uop *uop)
{
	uint64_t address = value_of(replay, uop->a) +
			   (value_of(replay, uop->b) << (uop->flags >> UOP_SCALE_SHIFT)) +
			   (uint64_t)uop->imm;
	const struct uop *first = replay->access;

	if (!first) {
		replay->access = uop;
		replay->access_address = address;
	}
	if (!known(replay, uop->a) || !known(replay, uop->b))
		return;
	if (!first)
		fact(replay, SELECTION_ADDRESS, address, 8);
	else if (!is_same_base(first, uop) ||
		 (first->op != uop->op && address != replay->access_address))
		fact(replay, SELECTION_ADDRESS2, address, 8);
}

/*
 * Notes what is known only before the operation is executed: its address, and the value that it
 * stores.
 */
static void before_uop(struct replay *replay, const struct uop *uop)
{
	unsigned size = size_of(uop);

	if (is_memory(uop)) {
		address_note(replay, uop);
		if (uop->op == UOP_OP_STORE && known(replay, uop->dst))
			fact(replay, SELECTION_STORED, value_of(replay, uop->dst), size);
		return;
	}
	if (!replay->computed && has_sides(uop))
		left_note(replay, uop);
	if (uop->flags & UOP_FLAGS)
		replay->compares = true;
	if (uop->op == UOP_OP_JUMP_TO && known(replay, uop->a))
		fact(replay, SELECTION_TARGET, value_of(replay, uop->a), 8);
}

/* A result may take more than one operation: the last counts. */
static void results_forget(struct replay *replay, uint8_t reg)
{
	if (reg == replay->result)
		replay->step->known &= ~(1u << SELECTION_RESULT);
	if (reg == replay->result2)
		replay->step->known &= ~(1u << SELECTION_RESULT2);
}

static void load_note(struct replay *replay, const struct uop *uop)
{
	bool second = replay->load && !is_same_base(replay->load, uop);

	if (!replay->load)
		replay->load = uop;
	fact(replay, second ? SELECTION_LOADED2 : SELECTION_LOADED, value_of(replay, uop->dst),
	     size_of(uop));
}

static void result_note(struct replay *replay, const struct uop *uop)
{
	uint64_t value = value_of(replay, uop->dst);

	if (uop->op == UOP_OP_HIGH) { /* ah and the like: the rest of the register stays */
		fact(replay, replay->result == UOP_NONE ? SELECTION_RESULT : SELECTION_RESULT2,
		     value >> 8, 1);
		return;
	}
	if (!is_result(uop->dst) || uop->op == UOP_OP_STRIDE)
		return;
	if (replay->result == UOP_NONE)
		replay->result = uop->dst;
	else if (replay->result2 == UOP_NONE && replay->result != uop->dst)
		replay->result2 = uop->dst;
	if (replay->result == uop->dst)
		fact(replay, SELECTION_RESULT, value, size_of(uop));
	else if (replay->result2 == uop->dst)
		fact(replay, SELECTION_RESULT2, value, size_of(uop));
}

static void after_uop(struct replay *replay, const struct uop *uop)
{
	unsigned traits = uop_traits[uop->op];

	if (uop->op == UOP_OP_STORE || uop->flags & UOP_FLAGS)
		replay->plain = false;
	if (!(traits & UOP_WRITES) || uop->dst == UOP_NONE)
		return;
	if (uop->dst <= UOP_R15)
		replay->plain = false;
	if (replay->skips)
		return;
	if (uop->op != UOP_OP_HIGH)
		results_forget(replay, uop->dst);
	if (!known(replay, uop->dst))
		return;
	if (uop->op == UOP_OP_LOAD)
		load_note(replay, uop);
	result_note(replay, uop);
}

static void caller_push(struct replay *replay, uint64_t address, struct entry entry)
{
	if (replay->caller_count == FRAMES_MAX)
		return;
	replay->entries[replay->caller_count] = entry;
	replay->callers[replay->caller_count++] = address;
}

static uint64_t caller_top(const struct replay *replay)
{
	return replay->caller_count ? replay->callers[replay->caller_count - 1] : 0;
}

static void direction_note(struct replay *replay, bool taken)
{
	fact(replay, SELECTION_TAKEN, taken, 1);
	replay->step->widths[SELECTION_TAKEN] = 1;
	if (replay->skips || replay->branches >= SELECTION_PATH_MAX)
		return;
	replay->directions = replay->directions << 1 | taken;
	replay->branches++;
}

static void goal_note(struct replay *replay, uint64_t target)
{
	if (!replay->skips && replay->goal_count < GOALS)
		replay->goals[replay->goal_count++] = target;
}

static bool decides(const struct uop *uop)
{
	return uop->op == UOP_OP_BRANCH || uop->op == UOP_OP_BRANCH_ZERO;
}

/*
 * The last operation of a block whose instruction decides goes to the next instruction, but for
 * loop, where that is the way back.
 */
static void branch_note(struct replay *replay, const struct uop *uop)
{
	const struct uop_block *block = &replay->translation->block;
	uint64_t next = replay->translation->key.address + block->length;
	bool backwards = (uint64_t)block->uops[block->count - 1].imm != next;

	if (decides(uop) || replay->branches_here)
		direction_note(replay, decides(uop) != backwards);
	else if (uop->op == UOP_OP_JUMP && (uint64_t)uop->imm == next && !(uop->flags & UOP_CALL))
		return; /* the end of a block, and no branch */
	if (uop->op == UOP_OP_JUMP_TO) {
		goal_note(replay, replay->state.pc);
		replay->step->known |= replay->noted & STEP_INDIRECT;
	}
	if (replay->skips || !(replay->noted & STEP_ANY_BRANCH))
		return;
	fact(replay, SELECTION_TARGET, replay->state.pc, 8);
	replay->step->known |= STEP_ANY_BRANCH;
}

/* A jump, not the end of a block or the way that a conditional branch did not take. */
static bool is_unconditional(const struct replay *replay, const struct uop *uop)
{
	const struct uop_block *block = &replay->translation->block;
	uint64_t next = replay->translation->key.address + block->length;

	if (decides(uop) || replay->branches_here)
		return false;
	return uop->op == UOP_OP_JUMP_TO || (uop->op == UOP_OP_JUMP && (uint64_t)uop->imm != next);
}

/* Whether the target was added up, or read from a table by an index: a switch. */
static bool is_switch(const struct uop_block *block, const struct uop *jump)
{
	for (const struct uop *uop = jump; uop-- > block->uops;)
		if (uop->dst == jump->a && uop_traits[uop->op] & UOP_WRITES)
			return uop->op == UOP_OP_ADD ||
			       (uop->op == UOP_OP_LOAD && uop->b != UOP_NONE);
	return false;
}

/*
 * Whether the jump hands the frame of the function over to another one: nothing is on the stack but
 * the return address, and the target is where functions are and loops of this one are not.
 */
static bool leaves_frame(struct replay *replay, const struct uop *jump)
{
	struct entry *entry = replay->caller_count ? &replay->entries[replay->caller_count - 1]
						   : NULL;
	const struct uop_block *block = &replay->translation->block;
	uint64_t target = replay->state.pc;

	if (!entry || !entry->rsp || !known(replay, UOP_RSP) ||
	    replay->state.regs[UOP_RSP] != entry->rsp || target % FUNCTION_ALIGNMENT)
		return false;
	if (jump->op == UOP_OP_JUMP_TO ? is_switch(block, jump) : target >= entry->pc)
		return false;
	entry->pc = target;
	return true;
}

/* The run goes on at state.pc, by the given operation. */
static void on_leave(struct replay *replay, const struct uop *uop)
{
	bool call = uop->flags & UOP_CALL;

	branch_note(replay, uop);
	if (call) {
		/* What a call stores is where it returns to. */
		replay->step->known &= ~(1u << SELECTION_STORED | 1u << SELECTION_OVERWRITTEN);
		caller_push(replay,
			    replay->translation->key.address + replay->state.regs[UOP_BIAS] +
				    replay->translation->block.length,
			    (struct entry){ replay->state.pc, replay->state.regs[UOP_RSP] });
		replay->entering = true;
	} else if (uop->flags & UOP_RET) {
		if (replay->caller_count)
			replay->caller_count--;
		replay->entering = false;
	} else if (!replay->plain) {
		replay->entering = false;
	}
	replay->jumped = !call && !(uop->flags & UOP_RET) && is_unconditional(replay, uop);
	replay->left_frame = replay->jumped && leaves_frame(replay, uop);
}

/* --- Stepping --------------------------------------------------------------------------------- */

static struct step *step_begin(struct replay *replay, enum selection_class class)
{
	struct step *step;

	replay->skips = replay->instructions <= replay->run->skipped ||
			replay->step_count == STEPS_MAX;
	if (replay->skips)
		return &replay->skipped;
	step = &replay->steps[replay->step_count++];
	step->known = 0;
	step->place = (struct replay_place){
		.class = class,
		.translation = replay->translation,
		.number = replay->number,
		.at = replay->at,
		.pc = replay->translation->key.address + replay->state.regs[UOP_BIAS] + replay->at,
		.caller = caller_top(replay),
	};
	return step;
}

static void entry_note(struct replay *replay)
{
	static const uint8_t registers[SELECTION_ARGS] = { UOP_RDI, UOP_RSI, UOP_RDX,
							   UOP_RCX, UOP_R8,  UOP_R8 + 1 };

	replay->step = step_begin(replay, SELECTION_ENTRY);
	for (unsigned i = 0; i < SELECTION_ARGS; i++)
		if (known(replay, registers[i]))
			fact(replay, SELECTION_ARG0 + i, value_of(replay, registers[i]), 8);
}

/*
 * Code that is called and takes its return address from the stack at once is no function: it asks
 * where it is, or returns on behalf of its caller in a way that confuses the branch predictor
 * (srso_alias_safe_ret).
 */
static bool is_detour(const struct uop_block *block)
{
	bool takes = false;

	for (unsigned i = 0; i < block->count && block->uops[i].at == block->uops[0].at; i++) {
		const struct uop *uop = &block->uops[i];

		if (uop->flags & UOP_RET && uop->op == UOP_OP_JUMP_TO)
			return false;
		takes |= uop->dst == UOP_RSP && uop->a == UOP_RSP && uop->imm > 0 &&
			 (uop->op == UOP_OP_ADD || uop->op == UOP_OP_LEA);
	}
	return takes;
}

/* What the instruction under way reads. */
static const struct operands *operands_get(struct replay *replay)
{
	struct translation *translation = replay->translation;
	const struct uop_block *block = &translation->block;

	if (!translation->operands) {
		unsigned number = 0;

		translation->operands =
			mem_zalloc((block->instructions + 1u) * sizeof(*translation->operands));
		for (unsigned i = 0; i < block->count && number < block->instructions; i++) {
			unsigned at = block->uops[i].at;

			if (i && at == block->uops[i - 1].at)
				continue;
			operands_of(block->code + at, block->length > at ? block->length - at : 0,
				    &translation->operands[number++]);
		}
	}
	return &translation->operands[replay->number];
}

/* Before the instruction: its registers and constants. */
static void operands_begin(struct replay *replay)
{
	const struct operands *operands = operands_get(replay);

	for (unsigned i = 0; i < operands->count; i++) {
		const struct operand *operand = &operands->items[i];
		enum selection_source source = SELECTION_OPERAND1 + i;

		if (operand->kind == OPERAND_CONSTANT)
			fact(replay, source, (uint64_t)operand->constant, operand->size);
		else if (operand->kind != OPERAND_MEMORY && known(replay, operand->reg))
			fact(replay, source,
			     value_of(replay, operand->reg) >>
				     (operand->kind == OPERAND_REGISTER_HIGH ? 8 : 0),
			     operand->size);
	}
}

/* After it: what it has loaded. */
static void operands_end(struct replay *replay)
{
	const struct operands *operands = operands_get(replay);
	const struct step *step = replay->step;
	enum selection_source loaded = SELECTION_LOADED;

	for (unsigned i = 0; i < operands->count; i++) {
		if (operands->items[i].kind != OPERAND_MEMORY)
			continue;
		if (step->known >> loaded & 1)
			fact(replay, SELECTION_OPERAND1 + i, step->values[loaded],
			     step->widths[loaded] / 8);
		loaded = SELECTION_LOADED2;
	}
}

/*
 * Whether a function begins with the block. Calls tell; and what compilers put only there, where
 * they align functions: the mark of a place that may be called through a pointer, and in the kernel
 * the nop of five bytes in whose place a call to the tracer can be written.
 */
static bool is_function(const struct translation *translation)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa },
			     nop[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	const struct uop_block *block = &translation->block;

	if (translation->called)
		return true;
	if (translation->key.address % FUNCTION_ALIGNMENT || block->length < sizeof(nop))
		return false;
	return !memcmp(block->code, endbr64, sizeof(endbr64)) ||
	       (translation->key.module == RUN_MODULE_KERNEL &&
		!memcmp(block->code, nop, sizeof(nop)));
}

static void instruction_begin(struct replay *replay, const struct uop *uop)
{
	bool first = replay->at == UINT32_MAX, head = first && uop->at == 0;

	replay->number = first ? replay->first_number : replay->number + 1;
	replay->at = uop->at;
	replay->instructions++;
	if (first && replay->entering) {
		if (is_detour(&replay->translation->block)) {
			replay->entering = false;
		} else {
			replay->translation->called |= head;
			entry_note(replay);
		}
	} else if (head &&
		   (replay->left_frame || (replay->jumped && is_function(replay->translation)))) {
		entry_note(replay);
	}
	replay->jumped = replay->left_frame = false;
	if (!first && !replay->plain)
		replay->entering = false;
	replay->plain = true;
	replay->computed = replay->compares = replay->branches_here = false;
	replay->left_size = 0;
	replay->result = replay->result2 = UOP_NONE;
	replay->access = replay->load = NULL;
	replay->step = step_begin(replay, SELECTION_INSTRUCTION);
	if (replay->noted & OPERAND_SOURCES && !replay->skips)
		operands_begin(replay);
}

/* A comparison has no result of its own: what is compared stands for it. */
static void instruction_end(struct replay *replay)
{
	const struct step *step = replay->step;
	bool result = step->known >> SELECTION_RESULT & 1,
	     stored = step->known >> SELECTION_STORED & 1;

	if (replay->compares && !result && !stored && replay->left_size)
		fact(replay, SELECTION_RESULT, replay->left, replay->left_size);
	if (replay->noted & OPERAND_SOURCES && !replay->skips)
		operands_end(replay);
}

/* Goes to the instruction at the given place of the translation; false: there is none. */
static bool instruction_find(struct replay *replay, uint32_t at)
{
	const struct uop_block *block = &replay->translation->block;

	replay->first_number = 0;
	for (uint32_t i = 0; i < block->count; i++) {
		if (block->uops[i].at == at) {
			replay->state.next = i;
			return true;
		}
		if (i + 1u < block->count && block->uops[i + 1].at != block->uops[i].at)
			replay->first_number++;
	}
	return false;
}

static void translation_fetch(const struct translation *translation)
{
	const char *uops = (const char *)translation->block.uops;

	__builtin_prefetch(translation, 1);
	for (size_t i = 0; i < FETCHED_LINES; i++)
		__builtin_prefetch(uops + i * LINE);
}

/* Prefetches the notes of the block's instructions, and the block that may come next. */
static void block_fetch(const struct replay *replay)
{
	const struct translation *translation = replay->translation;
	uint32_t notes = translation->notes ? translation->block.instructions : 0;

	if (translation->follower)
		translation_fetch(translation->follower);
	for (uint32_t i = replay->first_number; i < notes; i += LINE_NOTES)
		__builtin_prefetch(translation->notes + i, 1);
}

static struct translation *translation_find(const struct replay *replay, uint32_t serial)
{
	struct translation *guess = replay->before ? replay->before->follower : NULL;

	return guess && guess->serial == serial ? guess
						: translations_get(replay->translations, serial);
}

/* False: the log does not say which block, or there is no such one. */
static bool block_enter(struct replay *replay)
{
	bool missing;
	uint64_t pc = replay_log_take(replay, &missing), which = replay_log_take(replay, &missing);
	uint32_t at = (uint32_t)(which >> 32);

	replay->translation = translation_find(replay, (uint32_t)which);
	if (!replay->translation || pc != replay->state.pc || !instruction_find(replay, at))
		return false;
	replay->state.regs[UOP_BIAS] = pc - at - replay->translation->key.address;
	replay->at = UINT32_MAX;
	if (replay->before)
		replay->before->follower = replay->translation;
	replay->before = replay->translation;
	block_fetch(replay);
	return true;
}

/* Runs one operation: 0 to go on, or the end as the kernel would see it, plus one. */
static int uop_next(struct replay *replay, uint32_t limit)
{
	const struct uop_block *block = &replay->translation->block;
	uint32_t next = replay->state.next;
	const struct uop *uop;
	int end;

	if (next >= block->count)
		return 1 + UOP_END_BAD_BLOCK;
	uop = &block->uops[next];
	if (uop->at != replay->at) {
		if (replay->at != UINT32_MAX)
			instruction_end(replay);
		if (replay->instructions >= limit)
			return 1 + UOP_END_NONE;
		/*
		 * The kernel's overlay is smaller. It filled up within this instruction; at which
		 * operation is not known.
		 */
		if (replay->run->end == UOP_END_OVERLAY_FULL &&
		    replay->instructions == replay->run->instructions)
			return 1 + UOP_END_OVERLAY_FULL;
		instruction_begin(replay, uop);
	}
	if (replay->uops++ >= RUN_UOPS_MAX)
		return 1 + UOP_END_STRING_LONG;
	if (replay->log_at > RUN_LOG_MAX - 4)
		return 1 + UOP_END_LOG_FULL;
	if (!replay->skips)
		before_uop(replay, uop);
	end = uop_step(&replay->state, uop, replay);
	if (end > 0)
		return 1 + end;
	after_uop(replay, uop);
	if (end != UOP_LEFT) {
		replay->branches_here |= decides(uop);
		return 0;
	}
	instruction_end(replay);
	on_leave(replay, uop);
	replay->translation = NULL;
	return 0;
}

/* Follows the log to its end; 0 or the end of the run, plus one. */
static int follow(struct replay *replay)
{
	const struct run_record *run = replay->run;
	uint32_t limit = run->end == UOP_END_NONE ? run->instructions : UINT32_MAX;
	int end = 0;

	while (!end && !replay->broken) {
		if (!replay->translation) {
			if (replay->instructions >= limit)
				return 1 + UOP_END_NONE;
			if (replay->log_at == run->log_count)
				return 1 + run->end;
			if (!block_enter(replay))
				return 0;
		}
		end = uop_next(replay, limit);
	}
	return replay->broken ? 0 : end;
}

static void run_begin(struct replay *replay, const struct run_record *run)
{
	struct uop_state *state = &replay->state;

	replay->run = run;
	replay->log_at = run->flags & RUN_SYSTEM ? RUN_SYSTEM_COUNT : 0;
	replay->broken = replay->log_at > run->log_count;
	replay->overlay_count = replay->instructions = replay->step_count = 0;
	replay->stored = 0;
	memset(replay->unread, 0, sizeof(replay->unread));
	replay->uops = 0;
	replay->translation = replay->before = NULL;
	replay->entering = replay->jumped = replay->left_frame = false;
	replay->directions = replay->branches = replay->goal_count = 0;
	replay->caller_count = 0;
	for (size_t i = RUN_CALLERS; i-- > 0;)
		if (run->callers[i] || replay->caller_count)
			caller_push(replay, run->callers[i], (struct entry){});
	*state = (struct uop_state){
		.pc = run->pc,
		.flags = (uint32_t)run->rflags,
		.flags_known = UOP_TRACKED,
	};
	uop_vectors_forget(state->unknown);
	memcpy(state->regs, run->regs, sizeof(run->regs));
	state->regs[UOP_FS_BASE] = run->fs_base;
	state->regs[UOP_GS_BASE] = run->gs_base;
	if (run->flags & RUN_IN_KERNEL)
		state->unknown[UOP_FS_BASE] = UOP_UNKNOWN;
	if (run->flags & RUN_IN_KERNEL && !run->gs_base)
		state->unknown[UOP_GS_BASE] = UOP_UNKNOWN;
}

/* --- The end of a run ------------------------------------------------------------------------- */

/* The mnemonic of the instruction in which the run ended, if it ended within one. */
static unsigned end_mnemonic(const struct replay *replay)
{
	const struct uop_block *block;
	const struct uop *last;

	if (!replay->translation || !replay->state.next)
		return 0;
	block = &replay->translation->block;
	last = &block->uops[replay->state.next - 1];
	/* The instruction that a block gives up at is not part of its code. */
	if (last->op == UOP_OP_GIVE_UP)
		return UOP_GIVE_UP_MNEMONIC(last->imm);
	return last->at < block->length
		       ? lift_mnemonic_of(block->code + last->at, block->length - last->at)
		       : 0;
}

/* Between blocks, the code that could not be entered. */
static uint64_t end_pc(const struct replay *replay)
{
	return replay->translation ? replay->translation->key.address +
					     replay->state.regs[UOP_BIAS] + replay->at
				   : replay->state.pc;
}

static bool is_where_kernel_was(const struct replay *replay)
{
	const struct run_record *run = replay->run;

	if (run->end == UOP_END_OVERLAY_FULL)
		return true;
	return replay->log_at == run->log_count &&
	       run_state_hash(&replay->state) == run->state_hash;
}

void replay_expect(const struct replay *replay, const struct run_record *run)
{
	size_t first = run->flags & RUN_SYSTEM ? RUN_SYSTEM_COUNT : 0;
	const struct translation *translation;

	if (run->log_count < first + 2)
		return;
	translation = translations_get(replay->translations, (uint32_t)run->log[first + 1]);
	if (translation)
		translation_fetch(translation);
}

int replay_run(struct replay *replay, const struct run_record *run, replay_fn *fn, void *ctx,
	       struct replay_end *ret)
{
	int end;

	run_begin(replay, run);
	end = follow(replay);
	if (end != 1 + run->end || !is_where_kernel_was(replay))
		return -EBADMSG;
	ret->end = run->end;
	ret->mnemonic = run->end ? end_mnemonic(replay) : 0;
	ret->pc = end_pc(replay);
	memcpy(ret->unread, replay->unread, sizeof(ret->unread));
	return replay_tell(replay, fn, ctx);
}
