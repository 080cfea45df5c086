/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Phases of a thread: what it did when, in bounded memory, and where that changed.
 *
 * Collecting: repeated paths come in as a layer hands them on (profile/layer.h). The thread's instructions are divided into
 * intervals; when there are too many of them, neighbours become one and intervals twice as long. Detecting: five
 * detectors look for changes from interval to interval, and their boundaries are put together.
 *
 *	struct phases_code *code = phases_code_create(level);		one for each process; level 0 of its layers
 *	phases_block_set(code, block, key, function, &heat);		before a run with the block is pushed to the layer
 *	phases_run_set(code, run, blocks, count);
 *	struct phases *phases = phases_create(code, &(struct phases_options){});	one for each thread
 *	layer->sink = phases_sink, layer->sink_context = phases;	or phases_add() for each repeated path
 *	phases_flush(phases); phases_code_forget(code);			at a clearing of level 0, for all threads
 *	phases_finish(phases);
 *	phases_detect(phases, &(struct phases_detect_options){}, &result);
 *	phases_result_deinit(&result); phases_destroy(phases); phases_code_destroy(code);
 *
 * Weights of the layer must be instructions. Everything is numbered by the thread's own instructions, from 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "profile/heat.h"
#include "profile/layer.h"

enum {
	PHASES_INTERVAL = 1 << 15, /* instructions, at first */
	PHASES_INTERVALS = 1024,
	PHASES_DIMENSIONS = 64, /* of projected vectors */
	PHASES_SIGNATURE = 2048, /* bits of a working set */
	PHASES_HOT = 16, /* paths of an interval, and of a phase */
};

/* Columns: name, text of the option and JSON name, what changes. */
#define PHASES_DETECTORS(X)                                                                        \
	X(BLOCKS, "blocks", "how often blocks are executed")                                       \
	X(FUNCTIONS, "functions", "time in functions")                                             \
	X(BRANCHES, "branches", "conditional branches")                                            \
	X(ORDER, "order", "the order of the hot paths")                                            \
	X(WORKING_SET, "working-set", "which blocks are executed")

enum phases_detector {
#define X(name, text, what) PHASES_##name,
	PHASES_DETECTORS(X)
#undef X
		PHASES_DETECTOR_COUNT
};

struct phases_code;

struct phases_options {
	uint64_t interval; /* instructions, at first; 0: PHASES_INTERVAL */
	uint32_t intervals; /* at most; even; 0: PHASES_INTERVALS */
};

struct phases_hot {
	uint64_t path; /* number; 0: none */
	uint64_t trips; /* at least */
	uint64_t instructions; /* of them: its hot value */
};

struct phases_interval {
	uint64_t end; /* instructions; the end of the one before is its beginning */
	struct heat heat;
	float blocks[PHASES_DIMENSIONS]; /* instructions in blocks, projected */
	float functions[PHASES_DIMENSIONS]; /* in functions */
	uint64_t touched[PHASES_SIGNATURE / 64]; /* blocks, hashed */
	struct phases_hot hot[PHASES_HOT]; /* hottest first */
};

struct phases;

struct phases_code *phases_code_create(const struct layer_level *paths);
void phases_code_destroy(struct phases_code *code);
/* Paths' slots lose their meaning. Every thread has been flushed. */
void phases_code_forget(struct phases_code *code);
/* block: dense, from 0. key, function: the same for the same code in every run of a program; 0: not known. */
void phases_block_set(struct phases_code *code, uint32_t block, uint64_t key, uint64_t function,
		      const struct heat *heat);
void phases_run_set(struct phases_code *code, uint32_t run, const uint32_t *blocks, size_t count);
/* The sum over the blocks of a path, by slot. */
void phases_path_heat(const struct phases_code *code, uint32_t slot, struct heat *ret);

struct phases *phases_create(struct phases_code *code, const struct phases_options *options);
void phases_destroy(struct phases *phases);
void phases_add(struct phases *phases, uint32_t slot, uint64_t trips);
/* A sink of the lowest layer of a thread; the context is its phases. */
void phases_sink(void *context, const uint32_t *symbols, size_t count);
void phases_flush(struct phases *phases);
/* The last interval ends here. */
void phases_finish(struct phases *phases);
const struct phases_interval *phases_intervals(const struct phases *phases, size_t *ret_count);
/* Bytes. */
size_t phases_memory(const struct phases *phases);
size_t phases_code_memory(const struct phases_code *code);

struct phases_detect_options {
	unsigned detectors; /* bits by enum phases_detector; 0: all */
	unsigned agree; /* detectors that must see a boundary; 0: two, or all if there are less */
	double shortest; /* phase, share of the run; 0: a hundredth */
	double tolerance; /* boundaries of detectors this close are one, share of the run; 0: a hundredth */
};

struct phases_boundary {
	uint64_t at; /* instructions */
	unsigned detectors; /* that see it, bits */
	bool kept; /* enough of them do */
};

struct phase {
	uint64_t begin, end;
	unsigned detectors; /* that see its beginning; 0: the first */
	unsigned label; /* from 0; phases with the same do the same */
	struct heat heat; /* of the intervals that are mostly in it, scaled to its length */
	struct phases_hot hot[PHASES_HOT];
};

struct phases_result {
	uint64_t instructions;
	ARRAY(struct phases_boundary) boundaries; /* in order */
	ARRAY(struct phase) phases; /* in order, without gaps; none: nothing was executed */
	unsigned labels;
};

/* After phases_finish(). A thread of less than 32 intervals is one phase. */
void phases_detect(const struct phases *phases, const struct phases_detect_options *options,
		   struct phases_result *ret);
void phases_result_deinit(struct phases_result *result);

const char *phases_detector_text(enum phases_detector detector);
const char *phases_detector_what(enum phases_detector detector);
int phases_detector_parse(const char *text, enum phases_detector *ret);
