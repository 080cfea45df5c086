// SPDX-License-Identifier: BSD-2-Clause
/*
 * Replay of runs.
 *
 * Theory. The kernel and this file run the same micro-operations through the same uop_step(). Everything that step
 * takes from outside is in the record: registers, blocks, memory. So both pass through the same states, and this one
 * can look at each of them at leisure. What an instruction did is read off its micro-operations: the register it
 * writes, the memory it reads and writes, where it goes.
 *
 * Invariants
 * 1. The order of log words is that of the kernel (wire/run.h); every word is taken once.
 * 2. Nothing is told before the end of the run was reached and its state hash compared.
 * 3. The stack pointer's changes are no results: they are the same at every execution, relative to the frame.
 */
#include "ingest/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "isa/lift.h"

enum {
	OVERLAY_MAX = 8192, /* words; the kernel has fewer */
	STEPS_MAX = 2 * RUN_LENGTH_MAX + 8, /* instructions and entries */
	FRAMES_MAX = RUN_CALLERS + RUN_LENGTH_MAX,
	GOALS = 3,
	LINE = 64, /* bytes of a cache line */
	LINE_NOTES = LINE / sizeof(struct translation_note),
	FETCHED_LINES = 4, /* of a block's operations: most blocks have no more */
};

struct overlay_word {
	uint64_t address;
	uint64_t data;
	uint8_t present;
	uint8_t unknown;
};

struct step {
	struct replay_place place;
	uint32_t known; /* bit per source */
	uint8_t widths[REPLAY_SOURCES];
	uint64_t values[REPLAY_SOURCES];
};

struct replay {
	struct blocks *blocks;
	uint32_t noted; /* sources that are told or stand in for such, as a mask */
	struct uop_state state;
	const struct run_record *run;
	size_t log_at;
	bool broken; /* the log and the run do not fit */
	struct overlay_word overlay[OVERLAY_MAX];
	size_t overlay_count;
	uint64_t stored; /* which words may be in the overlay, by bits of their addresses */
	struct translation *translation; /* of the block being run; NULL between two */
	struct translation *before; /* the one that was run before it; NULL: none */
	uint32_t instructions; /* begun */
	uint32_t uops; /* executed */
	uint32_t number; /* of the instruction in its block */
	uint32_t first_number; /* of the one that the block was entered at */
	uint32_t at;
	uint64_t callers[FRAMES_MAX];
	size_t caller_count;
	struct step steps[STEPS_MAX];
	size_t step_count;
	struct step *step; /* of the instruction under way */
	struct step skipped; /* of one that is not told, which has no facts */
	bool skips; /* the instruction under way is such a one */
	/* Of the instruction under way. */
	bool computed; /* its operands are known */
	bool compares;
	bool plain; /* so far it has done nothing but find out where to go */
	bool entering; /* a function was entered, and only plain instructions have run since */
	/* Of the path since capturing began. */
	uint64_t directions;
	unsigned branches;
	uint64_t goals[GOALS];
	unsigned goal_count;
};

#define UOP_CONTEXT struct replay *
#define UOP_LOAD replay_load
#define UOP_STORE replay_store
#define UOP_POISON replay_poison

static int replay_load(struct replay *replay, uint64_t address, unsigned size, wire_u64 *ret);
static int replay_store(struct replay *replay, uint64_t address, unsigned size, uint64_t value,
			bool unknown);
static int replay_poison(struct replay *replay, uint64_t address, unsigned size);

#include "wire/uop_exec.h"

/* Whether there is a result is seen by whether something is stored, and what is compared may stand for it. */
static uint32_t sources_noted(uint64_t needs)
{
	if (needs & CAPTURE_BIT(CAPTURE_OPERAND1))
		needs |= CAPTURE_BIT(CAPTURE_LOADED) | CAPTURE_BIT(CAPTURE_STORED);
	if (needs & CAPTURE_BIT(CAPTURE_RESULT))
		needs |= CAPTURE_BIT(CAPTURE_OPERAND1) | CAPTURE_BIT(CAPTURE_STORED);
	return (uint32_t)(needs & (CAPTURE_BIT(REPLAY_SOURCES) - 1));
}

void replay_create(struct blocks *blocks, uint64_t needs, struct replay **ret)
{
	*ret = mem_zalloc(sizeof(**ret));
	(*ret)->blocks = blocks;
	(*ret)->noted = sources_noted(needs);
}

void replay_destroy(struct replay *replay)
{
	free(replay);
}

/* --- Memory ------------------------------------------------------------------------------------- */

static uint64_t log_take(struct replay *replay, bool *ret_missing)
{
	size_t at = replay->log_at;

	*ret_missing = true;
	if (at >= replay->run->log_count) {
		replay->broken = true;
		return 0;
	}
	replay->log_at++;
	*ret_missing = run_is_missing(replay->run, (uint32_t)at);
	return replay->run->log[at];
}

static uint64_t stored_bit(uint64_t address)
{
	return 1ull << (address >> 3 & 63);
}

static struct overlay_word *overlay_find(struct replay *replay, uint64_t address)
{
	if (!(replay->stored & stored_bit(address)))
		return NULL;
	for (size_t i = replay->overlay_count; i > 0; i--)
		if (replay->overlay[i - 1].address == address)
			return &replay->overlay[i - 1];
	return NULL;
}

/* The bits of so many bytes from the lowest on; 1 to 8. */
static uint64_t bytes_mask(unsigned size)
{
	return ~0ull >> (64 - size * 8);
}

/* The bits of the bytes in a set of bytes. */
static uint64_t bytes_spread(unsigned bytes)
{
	/* Bits 0 and 7 together would carry in the product. */
	uint64_t bits = ((bytes & 0x7f) * 0x0002040810204081ull) & 0x0101010101010101ull;

	bits |= (uint64_t)(bytes & 0x80) << 49;
	return bits * 0xff;
}

/* Lays what the run has stored over a value that lies within one word. */
static void overlay_lay(struct replay *replay, uint64_t address, unsigned size, uint64_t *value,
			bool *partly, bool *unknown)
{
	const struct overlay_word *word = overlay_find(replay, address & ~7ull);
	unsigned at = address & 7, wanted = (1u << size) - 1, present;
	uint64_t mask;

	if (!word) {
		*partly = true;
		return;
	}
	present = word->present >> at & wanted;
	mask = bytes_spread(present);
	*value = (*value & ~mask) | (word->data >> at * 8 & mask);
	*partly |= present != wanted;
	*unknown |= (word->unknown >> at & present) != 0;
}

static int replay_load(struct replay *replay, uint64_t address, unsigned size, wire_u64 *ret)
{
	bool missing, partly = false, unknown = false;
	uint64_t value = log_take(replay, &missing), high;
	unsigned first = 8 - (address & 7);

	if (size <= first) {
		overlay_lay(replay, address, size, &value, &partly, &unknown);
	} else {
		high = value >> first * 8;
		overlay_lay(replay, address, first, &value, &partly, &unknown);
		overlay_lay(replay, address + first, size - first, &high, &partly, &unknown);
		value = (value & bytes_mask(first)) | high << first * 8;
	}
	*ret = value;
	if (missing && partly)
		return UOP_LOAD_MISSING;
	return unknown ? UOP_LOAD_UNKNOWN : 0;
}

static struct overlay_word *overlay_at(struct replay *replay, uint64_t address)
{
	struct overlay_word *word = overlay_find(replay, address);

	if (word)
		return word;
	if (replay->overlay_count == OVERLAY_MAX) {
		replay->broken = true;
		return NULL;
	}
	word = &replay->overlay[replay->overlay_count++];
	*word = (struct overlay_word){ .address = address };
	replay->stored |= stored_bit(address);
	return word;
}

/* Stores bytes within one word. */
static void overlay_put(struct replay *replay, uint64_t address, unsigned size, uint64_t value,
			bool unknown)
{
	struct overlay_word *word = overlay_at(replay, address & ~7ull);
	unsigned at = address & 7, bytes = ((1u << size) - 1) << at;
	uint64_t mask = bytes_mask(size) << at * 8;

	if (!word)
		return;
	word->present |= bytes;
	word->unknown = unknown ? word->unknown | bytes : word->unknown & ~bytes;
	word->data = (word->data & ~mask) | (value << at * 8 & mask);
}

/* Of the step under way. What is known first stays. */
static void fact(struct replay *replay, enum capture_source source, uint64_t value, unsigned size)
{
	struct step *step = replay->step;

	if (replay->skips || !((replay->noted & ~step->known) >> source & 1))
		return;
	step->known |= 1u << source;
	step->values[source] = size < 8 ? value & ~(~0ull << size * 8) : value;
	step->widths[source] = size * 8;
}

static int replay_store(struct replay *replay, uint64_t address, unsigned size, uint64_t value,
			bool unknown)
{
	unsigned first = 8 - (address & 7);

	if (replay->run->flags & RUN_OVERWRITTEN) {
		wire_u64 before = 0;

		if (!replay_load(replay, address, size, &before))
			fact(replay, CAPTURE_OVERWRITTEN, before, size);
	}
	if (size <= first) {
		overlay_put(replay, address, size, value, unknown);
	} else {
		overlay_put(replay, address, first, value, unknown);
		overlay_put(replay, address + first, size - first, value >> first * 8, unknown);
	}
	return 0;
}

static int replay_poison(struct replay *replay, uint64_t address, unsigned size)
{
	while (size) {
		unsigned part = 8 - (address & 7);

		part = part < size ? part : size;
		overlay_put(replay, address, part, 0, true);
		address += part;
		size -= part;
	}
	return 0;
}

/* --- What an instruction does --------------------------------------------------------------------- */

static bool known(const struct replay *replay, uint8_t reg)
{
	return reg == UOP_NONE || !(replay->state.unknown >> (reg & (UOP_REGISTERS - 1)) & 1);
}

static uint64_t value_of(const struct replay *replay, uint8_t reg)
{
	return reg == UOP_NONE ? 0 : replay->state.regs[reg & (UOP_REGISTERS - 1)];
}

/* A register of the program, as opposed to one of the translation. */
static bool is_result(uint8_t reg)
{
	return (reg <= UOP_R15 && reg != UOP_RSP) || (reg >= UOP_XMM0 && reg < UOP_XMM0_HIGH);
}

static bool is_memory(const struct uop *uop)
{
	return uop_traits[uop->op] & UOP_ADDRESS && uop->op != UOP_OP_LEA;
}

static unsigned size_of(const struct uop *uop)
{
	return uop->size > 8 ? 8 : uop->size;
}

/* Whether the instruction's operands are this operation's: not if it makes an address, a zero or half a vector. */
static bool has_operands(const struct uop *uop)
{
	bool zero = uop->op == UOP_OP_MOV && uop->flags & UOP_IMM && uop->flags & UOP_FLAGS;

	return uop->op < UOP_OP_SKIP_ZERO && uop->op != UOP_OP_NOP && uop->op != UOP_OP_LEA &&
	       uop->op != UOP_OP_FORGET && uop->op != UOP_OP_FORGET_FLAGS && !zero &&
	       !(uop->dst >= UOP_XMM0_HIGH && uop->dst < UOP_REGISTERS);
}

static void operands_note(struct replay *replay, const struct uop *uop)
{
	unsigned traits = uop_traits[uop->op], size = size_of(uop);
	enum capture_source next = CAPTURE_OPERAND1;

	replay->computed = true;
	if (traits & UOP_READS_A && uop->a != UOP_NONE) {
		if (known(replay, uop->a))
			fact(replay, next, value_of(replay, uop->a), size);
		next = CAPTURE_OPERAND2;
	}
	if (uop->flags & UOP_IMM)
		fact(replay, next, (uint64_t)uop->imm, size);
	else if (traits & UOP_READS_B && uop->b != UOP_NONE && known(replay, uop->b))
		fact(replay, next, value_of(replay, uop->b), size);
}

/* What can be seen only before the operation. */
static void before_uop(struct replay *replay, const struct uop *uop)
{
	unsigned size = size_of(uop);

	if (is_memory(uop)) {
		if (known(replay, uop->a) && known(replay, uop->b))
			fact(replay, CAPTURE_ADDRESS,
			     value_of(replay, uop->a) +
				     (value_of(replay, uop->b) << (uop->flags >> UOP_SCALE_SHIFT)) +
				     (uint64_t)uop->imm,
			     8);
		if (uop->op == UOP_OP_STORE && known(replay, uop->dst))
			fact(replay, CAPTURE_STORED, value_of(replay, uop->dst), size);
		return;
	}
	if (!replay->computed && has_operands(uop))
		operands_note(replay, uop);
	if (uop->flags & UOP_FLAGS)
		replay->compares = true;
	if (uop->op == UOP_OP_JUMP_TO && known(replay, uop->a))
		fact(replay, CAPTURE_TARGET, value_of(replay, uop->a), 8);
}

static void after_uop(struct replay *replay, const struct uop *uop)
{
	unsigned traits = uop_traits[uop->op], size = size_of(uop);

	if (uop->op == UOP_OP_STORE || uop->flags & UOP_FLAGS)
		replay->plain = false;
	if (!(traits & UOP_WRITES) || uop->dst == UOP_NONE)
		return;
	if (uop->dst <= UOP_R15)
		replay->plain = false;
	if (replay->skips || !known(replay, uop->dst))
		return;
	if (uop->op == UOP_OP_LOAD)
		fact(replay, CAPTURE_LOADED, value_of(replay, uop->dst), size);
	if (uop->op == UOP_OP_HIGH) /* ah and the like: the rest of the register stays */
		fact(replay, CAPTURE_RESULT, value_of(replay, uop->dst) >> 8, 1);
	else if (is_result(uop->dst) && uop->op != UOP_OP_STRIDE)
		fact(replay, CAPTURE_RESULT, value_of(replay, uop->dst), size);
}

static void caller_push(struct replay *replay, uint64_t address)
{
	if (replay->caller_count < FRAMES_MAX)
		replay->callers[replay->caller_count++] = address;
}

static uint64_t caller_top(const struct replay *replay)
{
	return replay->caller_count ? replay->callers[replay->caller_count - 1] : 0;
}

static void direction_note(struct replay *replay, bool taken)
{
	fact(replay, CAPTURE_TAKEN, taken, 1);
	replay->step->widths[CAPTURE_TAKEN] = 1;
	if (replay->skips || replay->branches >= CAPTURE_PATH_MAX)
		return;
	replay->directions = replay->directions << 1 | taken;
	replay->branches++;
}

static void goal_note(struct replay *replay, uint64_t target)
{
	if (!replay->skips && replay->goal_count < GOALS)
		replay->goals[replay->goal_count++] = target;
}

/* The run goes on at state.pc, by the given operation. */
static void on_leave(struct replay *replay, const struct uop *uop)
{
	bool call = uop->flags & UOP_CALL;

	if (uop->op == UOP_OP_BRANCH || uop->op == UOP_OP_BRANCH_ZERO)
		direction_note(replay, true);
	if (uop->op == UOP_OP_JUMP_TO)
		goal_note(replay, replay->state.pc);
	if (call) {
		/* What a call stores is where it returns to. */
		replay->step->known &= ~(1u << CAPTURE_STORED | 1u << CAPTURE_OVERWRITTEN);
		caller_push(replay, replay->translation->key.address +
					    replay->state.regs[UOP_BIAS] +
					    replay->translation->block.length);
		replay->entering = true;
	} else if (uop->flags & UOP_RET) {
		if (replay->caller_count)
			replay->caller_count--;
		replay->entering = false;
	} else if (!replay->plain) {
		replay->entering = false;
	}
}

/* --- Stepping -------------------------------------------------------------------------------------- */

static struct step *step_begin(struct replay *replay, enum capture_class class)
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
	static const uint8_t registers[CAPTURE_ARGS] = { UOP_RDI, UOP_RSI, UOP_RDX,
							 UOP_RCX, UOP_R8,  UOP_R8 + 1 };

	replay->step = step_begin(replay, CAPTURE_ENTRY);
	for (unsigned i = 0; i < CAPTURE_ARGS; i++)
		if (known(replay, registers[i]))
			fact(replay, CAPTURE_ARG0 + i, value_of(replay, registers[i]), 8);
}

/*
 * Code that is called and takes its return address from the stack at once is no function: it asks where it is, or returns
 * on behalf of its caller in a way that confuses the branch predictor (srso_alias_safe_ret).
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

static void instruction_begin(struct replay *replay, const struct uop *uop)
{
	bool first = replay->at == UINT32_MAX;

	replay->number = first ? replay->first_number : replay->number + 1;
	replay->at = uop->at;
	replay->instructions++;
	if (first && replay->entering) {
		if (is_detour(&replay->translation->block))
			replay->entering = false;
		else
			entry_note(replay);
	}
	if (!first && !replay->plain)
		replay->entering = false;
	replay->plain = true;
	replay->computed = false;
	replay->compares = false;
	replay->step = step_begin(replay, CAPTURE_INSTRUCTION);
}

/* A comparison has no result of its own: what is compared stands for it. */
static void instruction_end(struct replay *replay)
{
	struct step *step = replay->step;
	bool result = step->known >> CAPTURE_RESULT & 1, stored = step->known >> CAPTURE_STORED & 1;

	if (replay->compares && !result && !stored && step->known >> CAPTURE_OPERAND1 & 1)
		fact(replay, CAPTURE_RESULT, step->values[CAPTURE_OPERAND1],
		     step->widths[CAPTURE_OPERAND1] / 8);
	if (!(step->known >> CAPTURE_OPERAND1 & 1) && !replay->computed) {
		if (step->known >> CAPTURE_LOADED & 1)
			fact(replay, CAPTURE_OPERAND1, step->values[CAPTURE_LOADED],
			     step->widths[CAPTURE_LOADED] / 8);
		else if (stored)
			fact(replay, CAPTURE_OPERAND1, step->values[CAPTURE_STORED],
			     step->widths[CAPTURE_STORED] / 8);
	}
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

/* What will be needed soon: the notes of the block's instructions, and the block that may come next. */
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

	return guess && guess->serial == serial ? guess : blocks_get(replay->blocks, serial);
}

/* False: the log does not say which block, or there is no such one. */
static bool block_enter(struct replay *replay)
{
	bool missing;
	uint64_t pc = log_take(replay, &missing), which = log_take(replay, &missing);
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
		/* The kernel's overlay is smaller. It filled up within this instruction, nobody can tell where. */
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
	if (uop->op == UOP_OP_BRANCH || uop->op == UOP_OP_BRANCH_ZERO)
		if (end != UOP_LEFT)
			direction_note(replay, false);
	if (end != UOP_LEFT)
		return 0;
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
	replay->uops = 0;
	replay->translation = replay->before = NULL;
	replay->entering = false;
	replay->directions = replay->branches = replay->goal_count = 0;
	replay->caller_count = 0;
	for (size_t i = RUN_CALLERS; i-- > 0;)
		if (run->callers[i] || replay->caller_count)
			caller_push(replay, run->callers[i]);
	*state = (struct uop_state){
		.pc = run->pc,
		.flags = (uint32_t)run->rflags,
		.flags_known = UOP_TRACKED,
		.unknown = UOP_XMM_ALL,
	};
	memcpy(state->regs, run->regs, sizeof(run->regs));
	state->regs[UOP_FS_BASE] = run->fs_base;
	state->regs[UOP_GS_BASE] = run->gs_base;
	if (run->flags & RUN_IN_KERNEL)
		state->unknown |= 1ull << UOP_FS_BASE | (run->gs_base ? 0 : 1ull << UOP_GS_BASE);
}

/* --- Telling ---------------------------------------------------------------------------------------- */

static void context_set(struct capture_facts *facts, enum capture_source source, uint64_t value,
			unsigned width)
{
	facts->known |= CAPTURE_BIT(source);
	facts->values[source] = value;
	facts->widths[source] = (uint8_t)width;
}

static void context_fill(const struct replay *replay, struct capture_facts *facts)
{
	static const uint8_t sources[RUN_SYSTEM_COUNT] = {
#define X(name) [RUN_SYSTEM_##name] = CAPTURE_##name,
		RUN_SYSTEM_WORDS(X)
#undef X
	};
	const struct run_record *run = replay->run;

	facts->known = 0;
	context_set(facts, CAPTURE_PID, run->record.image.tgid, 32);
	context_set(facts, CAPTURE_TID, run->record.tid, 32);
	for (size_t i = 0; run->flags & RUN_SYSTEM && i < RUN_SYSTEM_COUNT; i++)
		if (!run_is_missing(run, (uint32_t)i))
			context_set(facts, sources[i], run->log[i], 64);
}

/* A marker bit above the directions says how many there are. */
static void path_fill(const struct replay *replay, struct capture_facts *facts)
{
	context_set(facts, CAPTURE_PATH, 1ull << replay->branches | replay->directions, 64);
	for (unsigned i = 0; i < GOALS; i++)
		context_set(facts, CAPTURE_GOAL1 + i, i < replay->goal_count ? replay->goals[i] : 0,
			    64);
}

static int step_tell(const struct step *step, struct capture_facts *facts, replay_fn *fn, void *ctx)
{
	uint64_t mask = CAPTURE_BIT(REPLAY_SOURCES) - 1;

	facts->known = (facts->known & ~mask & ~CAPTURE_BIT(CAPTURE_CALLER)) | step->known;
	for (uint32_t left = step->known; left; left &= left - 1) {
		unsigned source = (unsigned)__builtin_ctz(left);

		facts->values[source] = step->values[source];
		facts->widths[source] = step->widths[source];
	}
	if (step->place.caller)
		context_set(facts, CAPTURE_CALLER, step->place.caller, 64);
	return fn(ctx, &step->place, facts);
}

static int run_tell(const struct replay *replay, replay_fn *fn, void *ctx)
{
	struct capture_facts facts;
	struct step first;
	size_t count = replay->step_count;
	int err;

	/* An instruction that could not be finished is not told. */
	if (replay->instructions > replay->run->instructions && count)
		count--;
	if (!count)
		return 0;
	context_fill(replay, &facts);
	if (replay->run->end == UOP_END_NONE) /* what was cut short would look like another path */
		path_fill(replay, &facts);
	first = replay->steps[0];
	first.place.class = CAPTURE_RUN;
	err = step_tell(&first, &facts, fn, ctx);
	for (size_t i = 0; i < count && !err; i++)
		err = step_tell(&replay->steps[i], &facts, fn, ctx);
	return err;
}

/* Of the instruction that the run ended in, if it ended in one. */
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
	translation = blocks_get(replay->blocks, (uint32_t)run->log[first + 1]);
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
	return run_tell(replay, fn, ctx);
}
