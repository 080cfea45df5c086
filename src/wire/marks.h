/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables by which the host tells engines what is marked: shared memory that only the host
 * writes.
 *
 * When an engine sees code that is new, it asks the host for the marks in it
 * (ENGINE_REQUEST_MODULE). The answer is the number of the file, from 1 on, or 0: nothing can be
 * marked there. tables[] has for each file the place of its table, in units of MARKS_UNIT from the
 * beginning of this area; 0: nothing is marked there now. A table is written once, before its
 * place, and never changes. Numbers in it are offsets in the file that is mapped, or codes of
 * instructions: then it is the one table that `instructions` names.
 *
 * The word of each range holds its use (enum mark_use) and a number whose meaning depends on the
 * use.
 *
 * Marks change while programs run: the host writes new tables, their places, and then adds 1 to
 * generation. An engine that sees a new generation forgets the code whose marks have changed, and
 * notes the generation in its own memory (marks_seen in wire/engine.h).
 *
 * A table is sorted by start. reach is the largest end of a range and all before it: to find all
 * ranges that hold a number, go back from the last range that begins there or earlier, until reach
 * is not beyond the number.
 */
#pragma once

#include "wire/stream.h"

enum {
	MARKS_BYTES = STREAM_TRANSLATIONS - STREAM_MARKS,
	MARKS_UNIT = 16,
	MARKS_MAX = 1 << 24, /* numbers of marks are from 1 on, and below this */
	MARKS_FILES = 4096, /* numbers of files are from 1 on, and below this */
	MARKS_EVENT_TICKS = 1 << 30, /* of the time stamp counter */
};

/* What is done where a range is, in the uppermost bits of its word. */
enum mark_use {
	MARK_USE_COUNT, /* number of a mark: visits or instructions are counted */
	MARK_USE_TIME, /* number of a timer: it is within; begins: a visit begins here */
	MARK_USE_TIME_END, /* of a timer: a visit ends here */
	MARK_USE_SITE, /* of a mark: memory that is allocated by calls from here is marked */
	MARK_USE_ALLOCATE, /* the entry of a function that allocates: enum mark_allocation */
	MARK_USE_RELEASE, /* the entry of a function that gives memory back */
	MARK_USE_START, /* of a mark: from here on the thread counts */
	MARK_USE_STOP, /* of a mark: from here on it does not */
	MARK_USE_EVENT = 8, /* of a mark: a visit raises an event; MARK_EVENT */
	MARK_USE_VISITS, /* of a mark: single visits are kept; begins: one begins here */
};

enum { MARK_USE_SHIFT = 28, MARK_NUMBER_MASK = MARKS_MAX - 1 };

/* Which argument of an allocation has its size. */
enum mark_allocation {
	MARK_ALLOCATION_FIRST, /* malloc(size), operator new(size) */
	MARK_ALLOCATION_PRODUCT, /* calloc(count, size) */
	MARK_ALLOCATION_SECOND, /* realloc(old, size), aligned_alloc(alignment, size) */
};

static inline wire_u32 mark_word(enum mark_use use, wire_u32 number, wire_u32 begins)
{
	return (wire_u32)use << MARK_USE_SHIFT | number << 1 | begins;
}

static inline enum mark_use mark_word_use(wire_u32 word)
{
	return (enum mark_use)(word >> MARK_USE_SHIFT);
}

static inline wire_u32 mark_word_number(wire_u32 word)
{
	return word >> 1 & MARK_NUMBER_MASK;
}
/* Added to the number of a range: it raises an event where it begins, and counts nothing. */
#define MARK_EVENT (8u << 28)

/* What stands in front of an instruction's name. */
enum mark_prefix {
	MARK_PREFIX_NONE,
	MARK_PREFIX_LOCK,
	MARK_PREFIX_REP,
	MARK_PREFIX_REPE,
	MARK_PREFIX_REPNE,
	MARK_PREFIX_COUNT,
};

/* An instruction as a number: Zydis's number of its mnemonic, and its prefix. */
static inline wire_u32 mark_code(enum mark_prefix prefix, wire_u32 mnemonic)
{
	return (wire_u32)prefix << 16 | mnemonic;
}

/* Whether there are marks that switch counting on or off for the thread that executes them. */
enum mark_regions {
	MARK_REGIONS = 1,
	/* threads begin with counting switched off, because a mark starts it */
	MARK_REGIONS_OFF = 2,
};

struct marks_area {
	/* 0: all marks are of instructions by name, so no engine need ask about a module */
	wire_u32 asks;
	wire_u32 instructions; /* the table by codes of instructions; 0: there is none */
	wire_u32 generation; /* grows when marks have changed */
	wire_u32 event_limit; /* events that a process may raise in MARKS_EVENT_TICKS */
	/* places: struct mark_timer of each timer; marked addresses, a table of data; 0: none */
	wire_u32 timers;
	wire_u32 data;
	wire_u32 regions; /* enum mark_regions */
	wire_u32 names; /* the place of struct mark_names */
	wire_u32 slow_permille; /* of visits, the slowest, that are kept by themselves */
	/*
	 * ENGINE_TOOL_BIT of the tools that some mark needs now, as of `generation`. The others are
	 * there for marks that may come, and put no code anywhere.
	 */
	wire_u32 tools;
	/* pairs of an instruction and marked data that a thread may tell apart (mark_data.h) */
	wire_u32 accesses_max;
	wire_u32 reserved;
	wire_u32 tables[MARKS_FILES];
};

struct mark_range {
	wire_u32 start, end;
	wire_u32 reach;
	wire_u32 mark; /* mark_word(): number << 1; 1 is added if visits are counted here */
};

/* A range of marked data. */
struct mark_data_range {
	wire_u64 start, end; /* addresses; in a file, as in the file */
	wire_u32 mark; /* its number */
	wire_u32 event; /* 1: each access raises an event */
	wire_u32 reserved[2];
};

struct mark_table {
	wire_u32 count;
	/*
	 * How many struct mark_data_range follow behind the ranges, at the next multiple of 16.
	 * Their addresses are those of the file. The engine gets the bias from the first executable
	 * segment, which begins at this file offset and has this address in the file.
	 */
	wire_u32 data_count;
	wire_u32 code_offset, code_address;
	struct mark_range ranges[];
};

/*
 * A mark's name, by which a program reads its counts (include/assay/client.h). The hash is
 * mark_name_hash() of the text.
 */
struct mark_name {
	wire_u64 hash;
	wire_u32 mark; /* its number */
	wire_u32 of; /* the mark as it was given: of what a pattern found, the pattern */
};

/* The host adds names while programs run: it writes the name first and increases the count then. */
struct mark_names {
	wire_u32 count, room;
	wire_u32 reserved[2];
	struct mark_name items[];
};

/* FNV-1a, as client.h has it. */
static inline wire_u64 mark_name_hash(const char *text)
{
	wire_u64 hash = 0xcbf29ce484222325ull;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash;
}

/* What a program gets when it reads a mark; struct assay_mark_counts of client.h. */
struct mark_reading {
	wire_u64 visits, instructions, reads, writes; /* of all threads of the process */
	/* of the one that reads */
	wire_u64 thread_visits, thread_instructions, thread_reads, thread_writes;
	wire_u64 counted; /* 1: there is such a mark */
};

enum { MARK_CLIENT_READ = 0x59534104 }; /* the displacement in client.h */

_Static_assert(sizeof(struct mark_name) == MARKS_UNIT, "wire");
_Static_assert(sizeof(struct mark_names) == MARKS_UNIT, "wire");
_Static_assert(sizeof(struct marks_area) == 3 * MARKS_UNIT + 4 * MARKS_FILES, "wire");
_Static_assert(sizeof(struct mark_range) == MARKS_UNIT, "wire");
_Static_assert(sizeof(struct mark_data_range) == 2 * MARKS_UNIT, "wire");
_Static_assert(sizeof(struct mark_table) == MARKS_UNIT, "wire");
