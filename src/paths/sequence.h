/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thread did, from beginning to end, as rows that a profile keeps.
 *
 * A row is a stretch of a thread's repeated paths, compressed; it can be read without the rows
 * before it. It tells how far the thread had come at its end, in instructions, blocks, paths,
 * repeated paths and strata, so that the row that holds the n-th of any of them is found by one
 * search in an index. Paths are given by number. Which blocks they consist of is told once, in
 * rows of definitions, all of which are read, in the order in which they were written.
 *
 * All numbers are of one thread and begin with 0, but paths' own numbers begin with 1. A path is
 * counted each time it is run: a repeated path with three trips counts three times.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "paths/coder.h"
#include "paths/cycles.h"
#include "paths/repeats.h"

enum {
	SEQUENCE_ROW_MAX = 1 << 22, /* repeated paths */
	/*
	 * Words of memory that the paths of a profile may take: so many for each byte of their
	 * definitions, or so many in all, whichever is more. Real programs have 3 to 7 for a byte;
	 * bytes made on purpose could have thousands.
	 */
	SEQUENCE_PATHS_EXPANSION = 256,
	SEQUENCE_PATHS_ROOM = 1 << 24,
};

/* Columns: name, text of the option, what is counted. */
#define SEQUENCE_UNITS(X)                                                                          \
	X(INSTRUCTION, "instruction", "instructions")                                              \
	X(BLOCK, "block", "blocks")                                                                \
	X(PATH, "path", "paths, each trip")                                                        \
	X(REPEAT, "repeat", "repeated paths")                                                      \
	X(STRATUM, "stratum", "strata that have ended, each trip")

enum sequence_unit {
#define X(name, text, what) SEQUENCE_##name,
	SEQUENCE_UNITS(X)
#undef X
		SEQUENCE_UNIT_COUNT
};

/* How far a thread has come: how many of each it has behind it. */
struct sequence_position {
	uint64_t units[SEQUENCE_UNIT_COUNT];
};

struct sequence_row {
	struct sequence_position end; /* the end of the row before is this one's beginning */
	/* number of the repeated path that began the stratum which is open at the end */
	uint64_t stratum_start;
	uint64_t base; /* number of a path = base + slot */
	const uint8_t *data;
	size_t size;
};

struct sequence_definitions {
	uint64_t first; /* number of the first path */
	uint64_t count;
	const uint8_t *data;
	size_t size;
};

/* Writes definitions; one for all threads of a process. */
struct sequence_encoder {
	struct coder definitions;
	ARRAY(uint32_t) symbols; /* to be coded at once */
};

/* Writes rows, one after the other, of any thread. */
struct sequence_row_encoder {
	struct coder coder;
	uint32_t *names; /* by symbol: its name in this row; 0: it has none yet */
	size_t names_count;
	ARRAY(uint32_t) named; /* symbol by name - 1 */
};

/* What comes out of a row. */
struct sequence_encoded {
	ARRAY(uint8_t) bytes;
	ARRAY(struct repeat) pairs; /* by name - 1 */
	ARRAY(uint32_t) counts; /* by name - 1: how often the name is in the row */
};

/* Tells what symbols stand for. */
typedef void sequence_pairs_fn(const void *context, const uint32_t *symbols, size_t count,
			       struct repeat *ret);

void sequence_row_encoder_init(struct sequence_row_encoder *encoder);
void sequence_row_encoder_deinit(struct sequence_row_encoder *encoder);
size_t sequence_row_encoder_memory(const struct sequence_row_encoder *encoder);
/*
 * At most SEQUENCE_ROW_MAX symbols, all below the limit; names are written over them. `ret` may
 * have been used before.
 */
void sequence_row_encode(struct sequence_row_encoder *encoder, uint32_t *symbols, size_t count,
			 uint32_t limit, sequence_pairs_fn *pairs, const void *context,
			 struct sequence_encoded *ret);
void sequence_encoded_deinit(struct sequence_encoded *encoded);
size_t sequence_encoded_memory(const struct sequence_encoded *encoded);

void sequence_encoder_init(struct sequence_encoder *encoder);
void sequence_encoder_deinit(struct sequence_encoder *encoder);
size_t sequence_encoder_memory(const struct sequence_encoder *encoder);
/* The bytes are valid until the next call. Slots first to last of the table. */
void sequence_definitions_encode(struct sequence_encoder *encoder, const struct cycles *cycles,
				 uint32_t first, uint32_t last, const uint8_t **ret,
				 size_t *ret_size);

/* The paths of a process, from its definitions. */
struct sequence_paths {
	struct coder coder;
	ARRAY(uint32_t) blocks; /* of all paths, one after the other */
	ARRAY(uint64_t) ends; /* by number: where its blocks end */
	/* words that may be used however short the definitions are; the caller may lower it */
	uint64_t room;
	uint64_t bytes; /* of definitions so far */
};

void sequence_paths_init(struct sequence_paths *paths);
void sequence_paths_deinit(struct sequence_paths *paths);
/* Definitions are added in the order in which they were made. */
int sequence_paths_add(struct sequence_paths *paths,
		       const struct sequence_definitions *definitions);
/* There are no more definitions: gives back the memory that only reading them needs. */
void sequence_paths_end(struct sequence_paths *paths);
/* Returns how many blocks a path has, and where they are; 0 if there is no such path. */
size_t sequence_path(const struct sequence_paths *paths, uint64_t number, const uint32_t **ret);

/* A repeated path of a row that was read. */
struct sequence_repeat {
	uint64_t path; /* number */
	uint64_t trips;
};

struct sequence_repeats {
	ARRAY(struct sequence_repeat) items;
	ARRAY(struct sequence_repeat) names; /* of this row */
	struct coder coder;
};

void sequence_repeats_init(struct sequence_repeats *repeats);
void sequence_repeats_deinit(struct sequence_repeats *repeats);
/* Replaces what is there by what the row holds. Of the row it needs only base, data and size. */
int sequence_row_decode(struct sequence_repeats *repeats, const struct sequence_row *row);

/* Where the n-th of something is in a row. */
struct sequence_place {
	struct sequence_position
		/* position at the beginning of the trip; strata are those of the argument */
		before;
	size_t repeat; /* index in the row */
	uint64_t trip; /* trip of the repeated path, from 0 on */
	size_t block; /* index in the path */
	uint64_t instruction; /* instruction of the block, from 0 on */
};

/*
 * Finds the n-th instruction, block, path or repeated path in a row that begins at `begin`.
 * weights: instructions by block; blocks beyond have none. -ENOENT if the row does not hold it;
 * -EBADMSG if a path is unknown.
 */
int sequence_locate(const struct sequence_repeats *repeats, const struct sequence_paths *paths,
		    const uint32_t *weights, size_t weights_count,
		    const struct sequence_position *begin, enum sequence_unit unit, uint64_t n,
		    struct sequence_place *ret);

/*
 * Finds the strata of a sequence of repeated paths that begins with a stratum: calls `stratum` with
 * first and count for each one that ends within it. Returns where the open one begins. To find the
 * strata of a row, put the repeated paths from the previous row's stratum_start on before it.
 */
size_t sequence_strata(const struct sequence_repeat *repeats, size_t count, uint32_t max_cycle,
		       void (*stratum)(void *context, size_t first, size_t count), void *context);

const char *sequence_unit_text(enum sequence_unit unit);
int sequence_unit_parse(const char *text, enum sequence_unit *ret);
