/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Phases of a thread: what it did when, in bounded memory, and where that changed.
 *
 * Collecting: repeated paths come in as a layer hands them on (paths/layer.h). The thread's
 * instructions are divided into intervals; when there are too many of them, neighbours become one
 * and intervals twice as long. Detecting: five detectors look for changes from interval to
 * interval, and their boundaries are put together.
 *
 *	struct phases_code *code = phases_code_create(level);	one for each process
 *	phases_block_set(code, block, key, function, &heat);	before its segments are pushed
 *	phases_segment_set(code, segment, blocks, count);
 *	phases = phases_create(code, &(struct phases_options){});	one for each thread
 *	layer->sink = phases_sink, layer->sink_context = phases;	or phases_add()
 *	phases_flush(phases); phases_code_forget(code);		at a clearing of level 0
 *	phases_finish(phases);
 *	phases_detect(phases, &(struct phases_detect_options){}, &result);
 *	phases_result_deinit(&result); phases_destroy(phases); phases_code_destroy(code);
 *
 * `level` is level 0 of the process's layers. Weights of the layer must be instructions. Everything
 * is numbered by the thread's own instructions, from 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "phases/heat.h"
#include "paths/layer.h"

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
	uint64_t instructions; /* instructions of these trips: its hot value */
};

struct phases_interval {
	uint64_t end; /* instructions; the end of the one before is its beginning */
	struct heat heat;
	float blocks[PHASES_DIMENSIONS]; /* instructions in blocks, projected */
	float functions[PHASES_DIMENSIONS]; /* instructions in functions, projected */
	/* the working set: a bit for each hash of a block */
	uint64_t touched[PHASES_SIGNATURE / 64];
	struct phases_hot hot[PHASES_HOT]; /* hottest first */
};

struct phases;

struct phases_code *phases_code_create(const struct layer_level *paths);
void phases_code_destroy(struct phases_code *code);
/* Paths' slots are about to lose their meaning. Every thread has been flushed. */
void phases_code_forget(struct phases_code *code);
/*
 * block: dense, from 0. key, function: the same for the same code in every execution of a program;
 * 0: not known.
 */
void phases_block_set(struct phases_code *code, uint32_t block, uint64_t key, uint64_t function,
		      const struct heat *heat);
void phases_segment_set(struct phases_code *code, uint32_t segment, const uint32_t *blocks,
			size_t count);
/* Returns the heat of a path, by slot: the sum over its blocks. */
void phases_path_heat(const struct phases_code *code, uint32_t slot, struct heat *ret);

struct phases *phases_create(struct phases_code *code, const struct phases_options *options);
void phases_destroy(struct phases *phases);
void phases_add(struct phases *phases, uint32_t slot, uint64_t trips);
/* A sink of the lowest layer of a thread; the context is its phases. */
void phases_sink(void *context, const uint32_t *symbols, size_t count);
void phases_flush(struct phases *phases);
/* Ends the last interval. */
void phases_finish(struct phases *phases);
const struct phases_interval *phases_intervals(const struct phases *phases, size_t *ret_count);
/* Returns the bytes that are allocated. */
size_t phases_memory(const struct phases *phases);
size_t phases_code_memory(const struct phases_code *code);

struct phases_detect_options {
	unsigned detectors; /* bits by enum phases_detector; 0: all */
	unsigned agree; /* detectors that must see a boundary; 0: two, or all if there are less */
	double shortest; /* phase, share of the recording; 0: a hundredth */
	/* boundaries of detectors this close are one, share of the recording; 0: a hundredth */
	double tolerance;
};

struct phases_boundary {
	uint64_t at; /* instructions */
	unsigned detectors; /* detectors that see it, as bits */
	bool kept; /* enough detectors see it */
};

struct phase {
	uint64_t begin, end;
	unsigned detectors; /* detectors that see its beginning, as bits; 0 for the first phase */
	unsigned label; /* from 0; phases with the same do the same */
	struct heat heat; /* heat of the intervals that are mostly in it, scaled to its length */
	struct phases_hot hot[PHASES_HOT]; /* of the same intervals, scaled likewise */
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
