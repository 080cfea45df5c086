/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the replay share: replay.c follows a run and notes what each instruction did,
 * replay_memory.c serves its loads and stores, and replay_tell.c hands the notes out when the run
 * has turned out to be right.
 */
#pragma once

#include "recorder/replay.h"

enum {
	OVERLAY_MAX = 8192, /* words; the kernel has fewer */
	STEPS_MAX = 2 * RUN_LENGTH_MAX + 8, /* instructions and entries */
	FRAMES_MAX = RUN_CALLERS + RUN_LENGTH_MAX,
	GOALS = 3,
};

/* In masks of 32 bits, above those of sources. */
enum step_bit {
	STEP_INDIRECT = 1 << 30, /* SELECTION_INDIRECT */
	STEP_ANY_BRANCH = 1u << 31, /* SELECTION_ANY_BRANCH */
};

_Static_assert(REPLAY_SOURCES <= 30, "sources and two more bits");

/* Eight bytes of memory that the run has stored to. */
struct overlay_word {
	uint64_t address;
	uint64_t data;
	uint8_t present;
	uint8_t unknown;
};

/* What one instruction did, or what was known where a function was entered. */
struct step {
	struct replay_place place;
	uint32_t known; /* bit per source, and enum step_bit */
	uint8_t widths[REPLAY_SOURCES];
	uint64_t values[REPLAY_SOURCES];
};

struct replay {
	struct translations *translations;
	uint32_t noted; /* sources that are told or stand in for such, and enum step_bit */
	struct uop_state state;
	const struct run_record *run;
	size_t log_at;
	uint32_t unread[RUN_UNREAD_COUNT]; /* loads that gave no value */
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
	struct entry {
		uint64_t pc, rsp; /* of the function; rsp 0: it was not entered in this run */
	} entries[FRAMES_MAX]; /* by caller */
	size_t caller_count;
	struct step steps[STEPS_MAX];
	size_t step_count;
	struct step *step; /* of the instruction under way */
	struct step skipped; /* of one that is not told, which has no facts */
	bool skips; /* the instruction under way is such a one */
	/* Of the instruction under way. */
	bool computed; /* an operation has computed */
	bool compares;
	bool branches_here; /* it has decided where to go */
	uint8_t left_size; /* bytes of the left side of what is computed; 0: not known */
	uint64_t left;
	uint8_t result; /* register that holds its result; UOP_NONE: none yet */
	uint8_t result2; /* the same for a second one */
	const struct uop *access; /* its first to memory; NULL: none yet */
	uint64_t access_address; /* the address of that access, if it is known */
	const struct uop *load; /* its first load */
	bool plain; /* so far it has done nothing but find out where to go */
	bool jumped; /* what was left last ended with a jump that is always taken, */
	bool left_frame; /* and it was the end of the function */
	bool entering; /* a function was entered, and only plain instructions have run since */
	/* Of the path since capturing began. */
	uint64_t directions;
	unsigned branches;
	uint64_t goals[GOALS];
	unsigned goal_count;
};

/* Calls fn for every step of the run, in order, and for what is true of the run as a whole. */
int replay_tell(const struct replay *replay, replay_fn *fn, void *ctx);

/* Notes a fact of the present step, unless it is known already. */
static inline void fact(struct replay *replay, enum selection_source source, uint64_t value,
			unsigned size)
{
	struct step *step = replay->step;

	if (replay->skips || !((replay->noted & ~step->known) >> source & 1))
		return;
	step->known |= 1u << source;
	step->values[source] = size < 8 ? value & ~(~0ull << size * 8) : value;
	step->widths[source] = size * 8;
}

/* The next word of the log; missing: the kernel could not read it. */
uint64_t replay_log_take(struct replay *replay, bool *ret_missing);
/* What uop_step() calls: 0, or what ends the run. */
int replay_load(struct replay *replay, uint64_t address, unsigned size, wire_u64 *ret);
int replay_store(struct replay *replay, uint64_t address, unsigned size, uint64_t value,
		 bool unknown);
int replay_poison(struct replay *replay, uint64_t address, unsigned size);
