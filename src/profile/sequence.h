/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a thread did, from beginning to end, as rows that a profile keeps.
 *
 * A row is a stretch of a thread's repeated paths, compressed; it can be read without the rows before it. It says how
 * far the thread had come at its end, in instructions, runs, paths, repeated paths and strata, so that the row that
 * holds the n-th of any of them is found by one search in an index. Paths are given by number. What runs they are is said
 * once, in rows of definitions, which are read in the order they were written in, all of them.
 *
 * All numbers are of one thread and begin with 0, but paths' own numbers begin with 1. A path is counted each time it is
 * run: of a repeated path with three trips, three.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/coder.h"
#include "profile/cycles.h"
#include "profile/repeats.h"

enum {
	SEQUENCE_ROW_MAX = 1 << 22, /* repeated paths */
	/*
	 * Words of memory that the paths of a profile may take: so many for each byte of their definitions, or so many in
	 * all. Programs have 3 to 7 for a byte; bytes made for it could have thousands.
	 */
	SEQUENCE_PATHS_EXPANSION = 256,
	SEQUENCE_PATHS_ROOM = 1 << 24,
};

/* Columns: name, text of the option, what is counted. */
#define SEQUENCE_UNITS(X)                                                                          \
	X(INSTRUCTION, "instruction", "instructions")                                              \
	X(RUN, "run", "runs")                                                                      \
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
	struct sequence_position end; /* the last row's end is this one's beginning */
	uint64_t stratum_start; /* repeated path with which the stratum began that is open at the end */
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

/* One for many threads. */
struct sequence_encoder {
	struct coder definitions;
	ARRAY(uint32_t) symbols; /* to be coded at once */
};

/* Gives names to the repeated paths of rows; one for many rows, one after the other. */
struct sequence_namer {
	uint32_t *names; /* by symbol: what it is called in this row; 0: not yet */
	size_t names_count;
	ARRAY(uint32_t) named; /* symbol by name - 1 */
};

/* A row on its way to bytes. */
struct sequence_job {
	const uint32_t *names; /* of its repeated paths, in order; the caller's */
	size_t count;
	ARRAY(struct repeat) pairs; /* by name - 1 */
	ARRAY(uint32_t) counts; /* the same: how often the name is in the row */
	ARRAY(uint8_t) bytes;
};

/* What symbols stand for. */
typedef void sequence_pairs_fn(const void *context, const uint32_t *symbols, size_t count,
			       struct repeat *ret);

void sequence_namer_deinit(struct sequence_namer *namer);
size_t sequence_namer_memory(const struct sequence_namer *namer);

void sequence_job_deinit(struct sequence_job *job);
size_t sequence_job_memory(const struct sequence_job *job);
/* At most SEQUENCE_ROW_MAX symbols, all below the limit. They become names, which the job needs until it has run. */
void sequence_job_name(struct sequence_job *job, struct sequence_namer *namer, uint32_t limit,
		       uint32_t *symbols, size_t count);
/* The last that the namer was used for. */
void sequence_job_pair(struct sequence_job *job, const struct sequence_namer *namer,
		       sequence_pairs_fn *pairs, const void *context);
/* Any coder will do. */
void sequence_job_run(struct sequence_job *job, struct coder *coder);

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
	ARRAY(uint32_t) runs; /* of all paths, one after the other */
	ARRAY(uint64_t) ends; /* by number: where its runs end */
	uint64_t room; /* words that may be used however short the definitions are; the caller may lower it */
	uint64_t bytes; /* of definitions so far */
};

void sequence_paths_init(struct sequence_paths *paths);
void sequence_paths_deinit(struct sequence_paths *paths);
/* In the order they were made in. */
int sequence_paths_add(struct sequence_paths *paths,
		       const struct sequence_definitions *definitions);
/* There are no more: gives back what only reading them needs. */
void sequence_paths_end(struct sequence_paths *paths);
/* A path's runs; 0 if there is no such path. */
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
/* Replaces what is there by the row's. Looks only at base, data and size. */
int sequence_row_decode(struct sequence_repeats *repeats, const struct sequence_row *row);

/* Where the n-th of something is in a row. */
struct sequence_place {
	struct sequence_position
		before; /* at the beginning of this trip; strata are as in the argument */
	size_t repeat; /* index in the row */
	uint64_t trip; /* of the repeated path, from 0 on */
	size_t run; /* index in the path */
	uint64_t instruction; /* of the run, from 0 on */
};

/*
 * The place of the n-th instruction, run, path or repeated path, in a row that begins at `begin`. weights: instructions by
 * run; what lies beyond has none. -ENOENT if the row does not hold it; -EBADMSG if a path is unknown.
 */
int sequence_locate(const struct sequence_repeats *repeats, const struct sequence_paths *paths,
		    const uint32_t *weights, size_t weights_count,
		    const struct sequence_position *begin, enum sequence_unit unit, uint64_t n,
		    struct sequence_place *ret);

/*
 * The strata of a sequence of repeated paths that begins with a stratum: calls `stratum` with first and count for each
 * that ends within it. Returns where the open one begins. A row's sequence must be preceded by the end of the rows before,
 * from the previous row's stratum_start on.
 */
size_t sequence_strata(const struct sequence_repeat *repeats, size_t count, uint32_t max_cycle,
		       void (*stratum)(void *context, size_t first, size_t count), void *context);

const char *sequence_unit_text(enum sequence_unit unit);
int sequence_unit_parse(const char *text, enum sequence_unit *ret);
