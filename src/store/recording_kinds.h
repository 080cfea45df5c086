/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kinds of recordings that a profile can hold: one row each, with everything that is particular
 * to a kind. Names in the file and in JSON, units, totals, losses, what a reader is told when a
 * profile lacks it, and the format page follow from the row.
 *
 * A kind NAME has a domain DOMAIN_NAME of the same name (store/profile.h) with its tables, and a
 * sink that says what was kept and lost (recorder/sink.h).
 */
#pragma once

enum recording_flag {
	/*
	 * The totals of a profile are those of its first kind with this flag. The others accompany
	 * samples: they have totals of their own only.
	 */
	RECORDING_IS_MAIN = 1,
	/* The store counts what is kept as rows are added; of the others the sink says it. */
	RECORDING_IS_COUNTED_BY_STORE = 2,
};

/*
 * Columns: name; text in the file and in JSON; what people call it; unit; flags; what it holds;
 * what was seen and what was kept, in the view `losses`; the command that records it.
 */
// clang-format off
#define RECORDING_KINDS(X)                                                                         \
	X(SAMPLES, "samples", "samples", "samples",                                                \
	  RECORDING_IS_MAIN | RECORDING_IS_COUNTED_BY_STORE,                                       \
	  "where threads were found at random moments",                                            \
	  "times the sampler ran for a sample that was asked for", "samples in this profile",      \
	  "assay record -- COMMAND")                                                               \
	X(VALUES, "values", "values", "runs", 0,                                                   \
	  "what instructions computed",                                                            \
	  "runs begun", "runs that gave values",                                                   \
	  "assay record --values -- COMMAND")                                                      \
	X(EXECUTED, "executed", "executed code", "segments",                                       \
	  RECORDING_IS_MAIN | RECORDING_IS_COUNTED_BY_STORE,                                       \
	  "the code that was executed under the engine",                                           \
	  "segments that threads executed", "segments in this profile",                            \
	  "assay trace --tool count -- COMMAND")                                                   \
	X(CALLS, "calls", "calls", "calls", RECORDING_IS_MAIN,                                     \
	  "which routines were called by which path",                                              \
	  "calls that threads made", "calls in this profile",                                      \
	  "assay calls -- COMMAND")                                                                \
	X(WAITS, "waits", "waits", "waits", 0,                                                     \
	  "what threads used and waited for",                                                      \
	  "times that a thread left its processor", "waits in this profile",                       \
	  "assay record --off-cpu -- COMMAND")                                                     \
	X(MARKS, "marks", "marks", "segments and accesses", RECORDING_IS_MAIN,                     \
	  "how often marked code was executed, and marked data read and written",                  \
	  "segments that threads executed, and their accesses to marked data",                     \
	  "segments and accesses in this profile",                                                 \
	  "assay count -m MARK -- COMMAND")
// clang-format on

enum recording_kind {
#define X(name, ...) RECORDING_##name,
	RECORDING_KINDS(X)
#undef X
		RECORDING_KIND_COUNT
};

struct recording_kind_row {
	const char *text, *called, *unit;
	unsigned flags; /* enum recording_flag */
	const char *about, *seen_text, *kept_text, *command;
};

const struct recording_kind_row *recording_kind_row(enum recording_kind kind);
