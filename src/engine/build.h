/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fragment while it is made, and the code that is put into it. translate.c makes fragments, tools
 * add to them.
 */
#pragma once

#include <Zydis/Zydis.h>

#include "engine/engine.h"
#include "engine/gs.h"
#include "engine/inline.h"

enum {
	SCRATCH_NONE = RSP, /* which is never free */
	TAILS_MAX = BLOCKS_MAX + 4,
	EXITS_MAX = 2 * BLOCKS_MAX + 4,
	CONSTANTS_MAX = 2 * BLOCKS_MAX + 2
};

/*
 * How the processor's state at a place in the cache differs from the program's there, and how far
 * the segment has got that ends there.
 */
enum state {
	STATE_SPILLED = 1, /* rcx and rdx are in their slots */
	STATE_RCX = 2, /* rcx is in its slot */
	STATE_FORWARD = 4, /* the branch is done but for the jump: pc is in rdx */
	STATE_WHOLE = 8, /* the last block of the segment is over */
	STATE_TOLD = 16, /* the tool knows of the segment */
	STATE_X = 32, /* a register is in rcx's slot, ... */
	STATE_X_SHIFT = 8, /* ... this one */
	STATE_Y = 64, /* another is in rdx's */
	STATE_Y_SHIFT = 12,
	STATE_FLAGS = 128, /* flags are where inserted code has saved them */
	STATE_SAVED_SHIFT = 16, /* registers that it has saved, a bit each */
};

enum { INSERTED_BEFORE = 2 }; /* lists in front of an instruction: of all, of transfers */

/* A list of operations, and how many of its units have taken effect. */
struct happened {
	const struct inserted *list; /* NULL: there is none */
	unsigned units;
};

struct build {
	struct thread *thread;
	struct fragment *fragment;
	uint8_t *at; /* next byte */
	uint64_t pc; /* of the instruction in hand */
	const uint8_t *code; /* its bytes */
	ZydisDecodedInstruction insn;
	bool ended; /* the block in hand has its last instruction */
	bool far; /* there is no room within reach of the code, or there is no code */
	uint64_t follow; /* the program's address at which the fragment goes on; 0: it ends */
	const struct plan *plan; /* NULL: none */
	uint64_t stop; /* the fragment of changing code ends here; 0: the code is stable */
	unsigned block; /* number of the block in hand */
	unsigned instructions; /* of the blocks before the one in hand */
	uint32_t block_instructions; /* of the block in hand, before the instruction in hand */
	uint32_t first_segment;
	struct segment_ends ends;
	unsigned end_count;
	/* Lists that tools insert at instructions (insert.c). */
	const struct inserted *next_inserted; /* translating back: the next list */
	bool inserts; /* else: whether tools insert anything at instructions */
	uint8_t *inserted_at; /* where the next list is kept */
	unsigned ordinal; /* of the instruction in hand, in the fragment */
	struct happened before[INSERTED_BEFORE]; /* of that instruction */
	struct happened after; /* set while its list is put */
	/* at the end of a segment: how many units there are, and how many have taken effect */
	unsigned units, told;
	/*
	 * Translating back: nothing is written; the last state before the address wanted is kept.
	 */
	bool back;
	const uint8_t *wanted;
	uint64_t state_pc;
	unsigned state; /* enum state */
	unsigned state_block;
	uint32_t state_instructions; /* of that block, done */
	struct happened state_before[INSERTED_BEFORE], state_after;
	unsigned state_told;
	/*
	 * What put_append() leaves for put_rest(): a short branch, where it comes back, and the
	 * segment's end.
	 */
	uint8_t *rest_from;
	const uint8_t *rest_back;
	unsigned rest_told;
	struct segment_end {
		uint32_t segment;
		uint64_t target; /* see below */
		bool flags_dead; /* flags are dead at the target */
		/* a register of which the same is true, flags being dead; SCRATCH_NONE: none */
		unsigned scratch;
	} rest;
	unsigned tail_count, exit_count, constant_count;
	/* build_clear() does not clear the fields from here on. */
	/* Ways out of the middle: the tool's code for them lies behind the blocks. */
	struct tail {
		uint8_t *patch; /* displacement that leads there */
		uint64_t target; /* as in struct segment_end */
		unsigned block;
	} tails[TAILS_MAX];
	struct way {
		uint8_t *patch; /* displacement that leads to the stub */
		uint64_t target;
		uint32_t kind;
		uint32_t length;
		unsigned block;
		struct happened before[INSERTED_BEFORE];
	} exits[EXITS_MAX];
	struct {
		uint8_t *patch; /* displacement that leads to the constant */
		uint64_t value;
	} constants[CONSTANTS_MAX];
};

static inline void build_clear(struct build *build)
{
	__builtin_memset(build, 0, offsetof(struct build, tails));
}

/* --- emit.c ------------------------------------------------------------------------------ */
static inline void put8(struct build *build, unsigned byte)
{
	if (!build->back)
		*build->at = (uint8_t)byte;
	build->at++;
}

static inline void put32(struct build *build, uint64_t value)
{
	if (!build->back)
		__builtin_memcpy(build->at, &(uint32_t){ (uint32_t)value }, 4);
	build->at += 4;
}

static inline void put_bytes(struct build *build, const void *bytes, size_t count)
{
	fault_point(ENGINE_FAIL_STORE);
	if (__builtin_constant_p(count) && !build->back)
		__builtin_memcpy(build->at, bytes, count);
	else if (!build->back)
		for (size_t i = 0; i < count; i++)
			build->at[i] = ((const uint8_t *)bytes)[i];
	build->at += count;
}

/*
 * Copies the current instruction, as a fixed number of bytes; those behind it will be overwritten.
 */
static inline void put_code(struct build *build, const uint8_t *code, size_t count)
{
	fault_point(ENGINE_FAIL_STORE);
	if (!build->back)
		__builtin_memcpy(build->at, code, 16);
	build->at += count;
}

/* Displacements that are already put. */
void fix8(const struct build *build, uint8_t *place, uint64_t value);
void fix32(const struct build *build, uint8_t *place, uint64_t value);
void write32(uint8_t *place, uint64_t value);
void state_note(struct build *build, uint64_t pc, unsigned state);
/*
 * Declares that the program's state, except for what `state` says, is that before the instruction
 * at pc.
 */
static inline void put_state(struct build *build, uint64_t pc, unsigned state)
{
	if (build->back)
		state_note(build, pc, state);
}

/*
 * The program's registers at the place that was wanted, from those of the processor there: in the
 * thread.
 */
void registers_back(struct thread *thread, const struct build *build);
/* Moves between a register and a word of the thread: opcode 0x89 stores, 0x8b loads. */
void put_thread_move(struct build *build, unsigned opcode, unsigned reg, unsigned offset);
void put_jump_thread(struct build *build, unsigned offset);

/* An address to which no direct branch can lead: it is not canonical, nor near one that is. */
#define TARGET_IN_RDX (1ull << 63)

/* --- lower.c ----------------------------------------------------------------------------- */
/* The place where a list is put. */
struct place {
	uint64_t pc;
	unsigned state; /* as everything around it has it */
	struct happened *
		/* grows with each unit; NULL: the end of a segment, where build->told does */
		happened;
};
/* lea, which may be relative to rip; false: it does not reach. */
bool put_lea(struct build *build, const struct gs_lea *lea);
/* The same as when it was put first, if translating back. */
void inserted_put(struct build *build, const struct inserted *list, const struct place *place);

/* --- lower_ends.c ------------------------------------------------------------------------ */
/*
 * Puts the operations of tools at the end of a segment. Control is about to go to target;
 * TARGET_IN_RDX: that is in rdx, and rcx and rdx are in their slots. No register and no flag
 * changes that the program could still read. All of it is in state WHOLE, and TOLD from the
 * instruction on that stores what the last unit is for.
 */
void segment_end_put(struct build *build, const struct segment_end *end);
/* Puts the slow part of segment_end_put(), which lies behind the jump that follows it. */
void put_rest(struct build *build);

/* --- insert.c ---------------------------------------------------------------------------- */
/*
 * Lists in front of the instruction in hand; in front of a transfer whose target is in rdx; behind
 * the instruction.
 */
void insert_before(struct build *build);
void insert_transfer(struct build *build);
void insert_after(struct build *build);
/* The operations in front of the last instruction of a fragment. */
void insert_of_last(const struct fragment *fragment, struct insert *ret);
/* Whether tools insert anything at transfers of that kind. */
bool insert_wants_transfer(const ZydisDecodedInstruction *insn);
/* The fragment has room for no more instructions; for no more blocks. */
bool insert_is_full(const struct build *build);
bool insert_is_enough(const struct build *build);
void insert_start(struct build *build);
/* The fragment is finished: keeps its lists. */
void insert_finish(struct build *build, struct fragment *fragment);
/*
 * The program's state is in the thread. Executes inserted units in front of that state which have
 * not taken effect, and undoes those behind it which have.
 */
void insert_settle(struct thread *thread, const struct build *build, uint64_t target);

/* --- ways.c ------------------------------------------------------------------------------ */
/* A jump that an exit's stub patches; kind: enum exit_kind. */
void put_jump(struct build *build, uint64_t target, uint32_t kind);
/* The segment ends, and control goes to target. */
void put_leave(struct build *build, uint64_t target);
/*
 * Leaves by an instruction whose displacement comes last. The tools' code for it lies apart, out of
 * the way of what goes on.
 */
void put_out(struct build *build, const uint8_t *opcode, size_t size, uint64_t target);
/* On to pc, in this fragment or in another; on to what is in rdx. */
void put_way(struct build *build, uint64_t pc);
void put_way_indirect(struct build *build);
void put_push_constant(struct build *build, uint64_t value);
/* Whether the fragment itself goes on at pc. Translating back, it does where it did. */
bool way_is_followed(const struct build *build, uint64_t pc);
void tails_put(struct build *build);

/* --- copy.c: within guarded_call() ------------------------------------------------------- */
/*
 * Puts code that does what the current instruction does. False: the thread has to leave the cache
 * for it.
 */
bool instruction_put(struct build *build);

/* --- decode.c: within guarded_call() ----------------------------------------------------- */
const ZydisDecoder *instruction_decoder(void);
bool decoder_is_amd(void);
bool instruction_decode(const uint8_t *code, size_t size, ZydisDecodedInstruction *ret);
/* operands: ZYDIS_MAX_OPERAND_COUNT of them. */
bool instruction_decode_full(const uint8_t *code, size_t size, ZydisDecodedInstruction *ret,
			     ZydisDecodedOperand *operands);
/* An operand that a push or call writes below the stack. */
bool insert_is_pushed(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operand);
/*
 * Copies the program's code, as far as it is there. Translating back, what was there when it was
 * translated.
 */
size_t code_copy(const struct build *build, uint8_t *ret, size_t size);

/* --- decode_common.c --------------------------------------------------------------------- */
enum { DECODE_BYTES = 32 }; /* that may be read, whatever the instruction */
/*
 * The same for common instructions, and only what copy.c asks for: length, attributes for modrm and
 * segment, encoding, opcode, opcode_map, category and mnemonic of what goes elsewhere, rex, modrm,
 * disp, imm[0] of branches. False: it takes Zydis.
 */
bool instruction_decode_common(const uint8_t *code, ZydisDecodedInstruction *ret);

/* --- live.c: within guarded_call() ------------------------------------------------------- */
/* Registers and flags that are dead at pc: code in front of it may use them. */
struct dead {
	bool flags; /* all status flags */
	unsigned scratch; /* a register; SCRATCH_NONE: none, or flags are not */
	unsigned registers; /* all of them, a bit each, whatever flags are */
};
void dead_at(uint64_t pc, struct dead *ret);
/* The same, with all registers: dead_at() stops at the first. */
void dead_all_at(uint64_t pc, struct dead *ret);
