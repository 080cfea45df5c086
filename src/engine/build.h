/* SPDX-License-Identifier: BSD-2-Clause */
/* A fragment while it is made, and the code that is put into it. translate.c makes fragments, tools add to them. */
#pragma once

#include <Zydis/Zydis.h>

#include "engine/engine.h"

enum {
	SCRATCH_NONE = RSP, /* which is never free */
	TAILS_MAX = PIECES_MAX + 4,
	EXITS_MAX = 2 * PIECES_MAX + 4,
	CONSTANTS_MAX = 2 * PIECES_MAX + 2
};

/* Where the program's state is, at a place in the cache; run: as far as the tool is concerned. */
enum state {
	STATE_SPILLED = 1, /* rcx and rdx are in their slots */
	STATE_RCX = 2, /* rcx is in its slot */
	STATE_FORWARD = 4, /* the branch is done but for the jump: pc is in rdx */
	STATE_WHOLE = 8, /* the last block of the run is over */
	STATE_TOLD = 16, /* the tool knows of the run */
	STATE_X = 32, /* a register is in rcx's slot, ... */
	STATE_X_SHIFT = 8, /* ... this one */
	STATE_Y = 64, /* another is in rdx's */
	STATE_Y_SHIFT = 12,
};

struct build {
	struct thread *thread;
	struct fragment *fragment;
	uint8_t *at; /* next byte */
	uint64_t pc; /* of the instruction in hand */
	const uint8_t *code; /* its bytes */
	ZydisDecodedInstruction insn;
	bool ended; /* the block */
	bool far; /* no room for it within reach of the code, or no code */
	uint64_t follow; /* where the fragment goes on; 0: there it ends */
	const struct plan *plan; /* NULL: none */
	uint64_t stop; /* unstable code ends here; 0: the code is stable */
	unsigned piece; /* in hand */
	unsigned instructions; /* of whole pieces */
	uint32_t piece_instructions; /* of this one, before the one in hand */
	uint32_t first_run;
	struct run_ends ends;
	unsigned end_count;
	/* Translating back: nothing is written; the last state before the address wanted is kept. */
	bool back;
	const uint8_t *wanted;
	uint64_t state_pc;
	unsigned state; /* enum state */
	unsigned state_piece;
	uint32_t state_instructions; /* of that piece, done */
	/* Ways out of the middle: the tool's code for them lies behind the blocks. */
	struct tail {
		uint8_t *patch; /* displacement that leads there */
		uint64_t target; /* as in struct run_end */
		unsigned piece;
	} tails[TAILS_MAX];
	unsigned tail_count;
	struct way {
		uint8_t *patch; /* displacement that leads to the stub */
		uint64_t target;
		uint32_t kind;
		uint32_t length;
		unsigned piece;
	} exits[EXITS_MAX];
	unsigned exit_count;
	/* What put_append() leaves for put_rest(): a short branch, where it comes back, and the run's end. */
	uint8_t *rest_from;
	const uint8_t *rest_back;
	struct run_end {
		uint32_t run;
		uint64_t target; /* see below */
		bool flags_dead; /* nobody reads flags at the target before they are written */
		unsigned scratch; /* a register of which the same is true, flags being dead; SCRATCH_NONE: none */
	} rest;
	struct {
		uint8_t *patch; /* displacement that leads to the constant */
		uint64_t value;
	} constants[CONSTANTS_MAX];
	unsigned constant_count;
};

/* --- emit.c --- */
void put8(struct build *build, unsigned byte);
void put32(struct build *build, uint64_t value);
void put_bytes(struct build *build, const void *bytes, size_t count);
/* Displacements that are already put. */
void fix8(const struct build *build, uint8_t *place, uint64_t value);
void fix32(const struct build *build, uint8_t *place, uint64_t value);
void write32(uint8_t *place, uint64_t value);
/* From here on the program's state is that before the instruction at pc, but for what state says. */
void put_state(struct build *build, uint64_t pc, unsigned state);
/* Moves between a register and a word of the thread: opcode 0x89 stores, 0x8b loads. */
void put_thread_move(struct build *build, unsigned opcode, unsigned reg, unsigned offset);
void put_jump_thread(struct build *build, unsigned offset);

/* An address to which no direct branch can lead: it is not canonical, nor near one that is. */
#define TARGET_IN_RDX (1ull << 63)

/*
 * What tools put where a run ends. Control is about to go to target; TARGET_IN_RDX: that is in rdx, and rcx and rdx are in their
 * slots. No register and no flag changes that the program could still read. All of it is in state WHOLE, and TOLD from the
 * instruction on that stores what the helper is for.
 */
/* Adds 1 to the thread's counter of the run. */
void put_count(struct build *build, const struct run_end *end);
/* Appends the run to the thread's ring. */
void put_append(struct build *build, const struct run_end *end);
/* Marks the run as seen. */
void put_seen(struct build *build, const struct run_end *end);
/* What run_end() has left to be put behind the jump that follows it. */
void put_rest(struct build *build);

/* --- translate.c: within guarded_call() --- */
bool instruction_decode(const uint8_t *code, size_t size, ZydisDecodedInstruction *ret);
/* operands: ZYDIS_MAX_OPERAND_COUNT of them. */
bool instruction_decode_full(const uint8_t *code, size_t size, ZydisDecodedInstruction *ret,
			     ZydisDecodedOperand *operands);

/* --- live.c: within guarded_call() --- */
/* What is written at pc and behind before it is read: what code in front of it may use. */
struct dead {
	bool flags; /* all status flags */
	unsigned scratch; /* a register; SCRATCH_NONE: none, or flags are not */
};
void dead_at(uint64_t pc, struct dead *ret);
