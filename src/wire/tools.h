/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of the engine's tools: one row each. The command line, the host's side of shared
 * memory and the engine all read it, so a new tool is this row, its file in src/engine/tools and
 * that file's name in src/engine/meson.build.
 *
 * What a tool keeps for each thread lies behind the ring of the thread's slot (wire/stream.h), in
 * the order of the rows: first the bytes by segment of every tool in use, then their counters.
 */
#pragma once

#include "wire/calltree.h"
#include "wire/mark_data.h"
#include "wire/mark_times.h"
#include "wire/mark_visits.h"
#include "wire/unwind.h"

enum engine_tool_flag {
	ENGINE_TOOL_ALONE = 1, /* it cannot be combined with others */
	/* the segments that a thread executes go to its ring, in their order */
	ENGINE_TOOL_RING = 2,
	/* reports need all lines of the program, also those that were not executed */
	ENGINE_TOOL_LINES = 4,
	/* its counters are not numbers but one structure, which is read as a whole */
	ENGINE_TOOL_WHOLE = 8,
	ENGINE_TOOL_OWN = 16, /* a command of its own uses it; assay trace does not offer it */
};

/*
 * Columns: name; its name in lower case, which users type; flags; bytes kept for each segment;
 * counters of 64 bits; what one unit of these is; what a person reads.
 */
// clang-format off
#define ENGINE_TOOLS(X)                                                                            \
	X(NATIVE, native, ENGINE_TOOL_ALONE, 0, 0, "",                                             \
	  "hands the program back at once: tests the way in")                                      \
	X(NONE, none, ENGINE_TOOL_ALONE, 0, 0, "",                                                 \
	  "runs the program in the engine and records nothing")                                    \
	X(COUNT, count, ENGINE_TOOL_LINES, 8, 0, "segments",                                       \
	  "counts how often each piece of code is executed")                                       \
	X(BLOCKS, blocks, ENGINE_TOOL_RING, 0, 0, "segments",                                      \
	  "hands the sequence of executed blocks to the host, and counts there")                   \
	X(PATHS, paths, ENGINE_TOOL_RING, 0, 0, "segments",                                        \
	  "keeps the order of all that is executed: paths, strata, layers")                        \
	X(COVERAGE, coverage, ENGINE_TOOL_LINES, 1, 0, "segments",                                 \
	  "notes which code is executed at all")                                                   \
	X(OPCODES, opcodes, 0, 0, 2048, "instructions",                                            \
	  "counts executed instructions by mnemonic")                                              \
	X(ACCESSES, accesses, 0, 0, 32, "accesses",                                                \
	  "counts reads and writes of memory by their size")                                       \
	X(CALLS, calls, 0, 0, 65536, "calls",                                                      \
	  "counts calls by the instruction that calls")                                            \
	X(CALLTREE, calltree, ENGINE_TOOL_WHOLE | ENGINE_TOOL_OWN, 0, CALLTREE_WORDS, "calls",   \
	  "builds the tree of calls of each thread: assay calls")                                  \
	X(PROBE, probe, 0, 0, 32, "times",                                                         \
	  "counts at all points where tools may insert code: tests the engine")                    \
	X(MARKS, marks, ENGINE_TOOL_OWN, 8, 1, "segments",                                         \
	  "counts the code that is marked: assay count")                                           \
	X(MARK_TIMES, mark_times, ENGINE_TOOL_WHOLE | ENGINE_TOOL_OWN, 0, MARK_TIMES_WORDS, "",    \
	  "times the code that is marked: assay count")                                            \
	X(MARK_DATA, mark_data, ENGINE_TOOL_WHOLE | ENGINE_TOOL_OWN, 0, MARK_DATA_WORDS, "",       \
	  "counts reads and writes of data that is marked: assay count")                           \
	X(MARK_VISITS, mark_visits, ENGINE_TOOL_WHOLE | ENGINE_TOOL_OWN, 0, MARK_VISITS_WORDS, "", \
	  "keeps the slowest visits of a marked routine: assay count")
// clang-format on

enum engine_tool {
#define X(name, id, flags, bytes, counters, unit, help) ENGINE_TOOL_##name,
	ENGINE_TOOLS(X)
#undef X
		ENGINE_TOOLS_END
};

/* A set of tools: bit n is enum engine_tool n. */
#define ENGINE_TOOL_BIT(tool) (1ull << (tool))

struct engine_tool_row {
	const char *name;
	wire_u32 flags; /* enum engine_tool_flag */
	wire_u32 segment_bytes;
	wire_u32 counters;
	const char *unit;
};

static inline const struct engine_tool_row *engine_tool_row(unsigned tool)
{
	static const struct engine_tool_row rows[] = {
#define X(name, id, flags, bytes, counters, unit, help) { #id, flags, bytes, counters, unit },
		ENGINE_TOOLS(X)
#undef X
	};

	return &rows[tool];
}

/* Flags that any tool of the set has. */
static inline unsigned engine_tools_flags(wire_u64 tools)
{
	unsigned flags = 0;

	for (unsigned i = 0; i < ENGINE_TOOLS_END; i++)
		if (tools & ENGINE_TOOL_BIT(i))
			flags |= engine_tool_row(i)->flags;
	return flags;
}

/*
 * Where a tool's bytes by segment begin, in bytes behind the ring; ENGINE_TOOLS_END: where those of
 * all tools end.
 */
static inline wire_u64 engine_tools_segments_at(wire_u64 tools, unsigned tool,
						wire_u64 segments_max)
{
	wire_u64 at = 0;

	for (unsigned i = 0; i < tool; i++)
		if (tools & ENGINE_TOOL_BIT(i))
			at += engine_tool_row(i)->segment_bytes * segments_max;
	return at;
}

/* Where its counters begin; ENGINE_TOOLS_END: where all ends. */
static inline wire_u64 engine_tools_counters_at(wire_u64 tools, unsigned tool,
						wire_u64 segments_max)
{
	wire_u64 at = engine_tools_segments_at(tools, ENGINE_TOOLS_END, segments_max);

	for (unsigned i = 0; i < tool; i++)
		if (tools & ENGINE_TOOL_BIT(i))
			at += (wire_u64)engine_tool_row(i)->counters * 8;
	return at;
}
