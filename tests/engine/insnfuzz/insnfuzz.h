/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random instruction sequences, run from random states. The same seed gives the same sequences and
 * states, so that what a run natively and a run under the engine print can be compared line by
 * line.
 *
 * Everything lies at fixed addresses. A program's address space is not empty under the engine, so
 * whatever a sequence can reach by accident is reserved here: the low 64 gigabytes, and what is
 * near the code. The engine has to be left a place for its copies, which lie within a gigabyte of
 * the code.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_BASE 0x200000000000ull
#define NEAR_BASE (CODE_BASE + 0x200000) /* data that code reaches relative to rip */
#define HOLE_BASE (NEAR_BASE + NEAR_SIZE) /* no access, from here on and below the code */
/*
 * Where sequences find the address of machine_leave, which is random: far from what string
 * instructions go through.
 */
#define LEAVE_BASE (CODE_BASE - 0x8000000)
#define LOW_BASE 0x40000000ull /* data and stack, below 4 GB for 32-bit addresses */
#define LOW_RESERVED 0x1000000000ull

enum {
	SLOT = 384, /* bytes for a sequence */
	BATCH = 1024, /* sequences in one mapping */
	ITEMS_MAX = 64, /* instructions of a sequence */
	ITEM_BYTES = 16,
	ITEM_UNKNOWN = 16, /* length of bytes that are no instruction: others have at most 15 */
	LOW_SIZE = 8192,
	NEAR_SIZE = 4096,
	LEAVE_SIZE = 4096,
	HOLE_SIZE =
		/* as far as bt reaches with a 32-bit register, and displacements besides */
	0x10200000,
	VECTORS_SIZE = 4096,
	STEPS_MAX = 24, /* of a sequence that steps itself */
};

enum { FLAG_TRAP = 0x100, FLAG_ALIGNMENT = 0x40000 };

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static inline uint64_t random_below(struct random *random, uint64_t bound)
{
	return random_next(random) % bound;
}

static inline bool random_percent(struct random *random, unsigned percent)
{
	return random_below(random, 100) < percent;
}

/* --- generate.c: sequences --- */
struct item {
	uint8_t bytes[ITEM_BYTES];
	uint8_t length;
	uint8_t fix_offset, fix_size; /* a displacement that leads to item `target`; size 0: none */
	uint8_t target;
	uint8_t behind; /* a target that is yet to be chosen is no earlier item; 0: any later one */
	/*
	 * Nothing jumps here: a system call with another number than its own might do anything, a
	 * loop never end, and a far jump lead into 32-bit code.
	 */
	bool inner;
};

struct sequence {
	struct item items[ITEMS_MAX + 1];
	unsigned count;
	bool loops; /* for as long as a timer needs to hit it */
};

/*
 * Where the kernel detects split locks, it takes the alignment check of an iretq on a stack that is
 * not aligned for one, sleeps, and tries again, for ever: there is no iretq then. Kernels that may
 * do so have a setting for it.
 */
bool detects_split_locks(void);

/* What a sequence ends with, besides its own faults. */
void generate(struct random *random, bool loops, struct sequence *ret);
/* Puts the sequence where it will run. Returns the bytes used. */
size_t sequence_place(const struct sequence *sequence, uint8_t *place);
/* An instruction that is not left out. */
bool sequence_allows(const uint8_t *code);
void sequence_print(const uint8_t *place, size_t size);
/*
 * Whether it may come to the middle of an instruction: by a branch whose target it may have
 * changed, or an unknown one.
 */
bool sequence_strays(const struct sequence *sequence);
/* Sets the bit of each instruction's offset. */
void sequence_starts(const struct sequence *sequence, uint64_t *ret);

/* --- forms.c: sequences that need several instructions to make sense --- */
struct item *item_add(struct sequence *sequence, const void *bytes, size_t length);
void form_add(struct random *random, struct sequence *sequence);
/* Displacements of jumps lead to later items; the number of items is known only at the end. */
void targets_choose(struct random *random, struct sequence *sequence);
enum {
	TARGET_LATER = 0xff, /* to be chosen */
	TARGET_LEAVE = 0xfe, /* where the address of machine_leave is */
};

/* --- enter.S: from here into a sequence, and back --- */
/* Parts of the state that xsave keeps: all but AMX, whose tiles alone are twice VECTORS_SIZE. */
#define VECTORS_KEPT 0xfff9ffffu
struct machine {
	uint64_t general[16]; /* in x86's numbering */
	uint64_t flags;
	uint64_t rip;
	uint64_t fs, gs;
	uint64_t segments; /* ds, es, fs, gs: 16 bits each */
	uint64_t unused[3];
	uint8_t vectors[VECTORS_SIZE]; /* as xsave lays them out */
};
extern struct machine machine_in, machine_out;
extern uint64_t host_fs;
/* Runs from machine_in; afterwards machine_out is what was left. */
void machine_enter(void);
void machine_leave(void);
_Noreturn void machine_escape(void);
void machine_signal(int number, void *info, void *context);
/* Called by machine_signal. */
void on_signal(int number, void *info, void *context);

/* --- run.c --- */
struct outcome {
	uint64_t words[48]; /* what happened, in numbers: outcome_print() names them */
	uint64_t vectors, memory; /* hashes */
};
void run_init(void);
/* Periodic signals at so many microseconds. */
void run_timer(unsigned microseconds);
void run_code(uint8_t *code, size_t size);
void run_code_edit(void);
/* starts: where a timer may interrupt it; NULL: anywhere. */
void run_one(struct random *random, uint64_t code, size_t size, const uint64_t *starts,
	     struct outcome *ret);
uint64_t outcome_hash(const struct outcome *outcome);
/* That ended it; 0 none. */
int outcome_signal(const struct outcome *outcome);
/* It had to be ended. */
bool outcome_hung(const struct outcome *outcome);
void outcome_print(const struct outcome *outcome);
/* Signals that came while a sequence was running. */
uint64_t run_interrupts(void);
