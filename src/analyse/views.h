/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The views: a profile in, a table out. A view is a row of views.def: its name, what it is for,
 * which domains of a profile it reads, which metrics it can measure by, which options it takes, and
 * the function that makes its table. Text, JSON, sorting, limits, help, completion and the refusal
 * of options follow from the row.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analyse/filter.h"
#include "analyse/instruction.h"
#include "analyse/table.h"
#include "paths/sequence.h"
#include "phases/heat.h"
#include "store/profile.h"

/* What rows of code and threads can be measured by. Columns: name, text, domain, what it is. */
#define VIEW_METRICS(X)                                                                            \
	X(AUTO, "auto", 0,                                                                         \
	  "samples if there are any, otherwise what was executed, or calls; tree: calls, with "    \
	  "samples beside them")                                                                   \
	X(SAMPLES, "samples", DOMAIN_SAMPLES, "how often the sampler found a thread there")        \
	X(INSTRUCTIONS, "instructions", DOMAIN_EXECUTED, "how many instructions were executed")    \
	X(BLOCKS, "blocks", DOMAIN_EXECUTED, "how many blocks were executed")                      \
	X(CALLS, "calls", DOMAIN_CALLS, "how often it was called, and what the calls cost")        \
	X(ALLOCATED, "allocated", DOMAIN_CALLS, "how often it was called, and what was allocated")

enum view_metric {
#define X(name, text, domain, help) METRIC_##name,
	VIEW_METRICS(X)
#undef X
};

/*
 * What calls cost. Columns: name, word of the user and metric of call_amount, option of assay calls
 * that records it, help.
 */
#define CALL_COSTS(X)                                                                              \
	X(TIME, "time", "", "time, in nanoseconds")                                                \
	X(OBJECTS, "objects", "--allocations", "how often memory was allocated")                   \
	X(BYTES, "bytes", "--allocations", "how much memory was asked for, in bytes")              \
	X(SAMPLES, "samples", "--from-events", "stack samples that events held")                   \
	X(SYSTEM_CALLS, "system_calls", "--resources", "system calls")                             \
	X(READ, "read", "--resources", "bytes that system calls read")                             \
	X(WRITTEN, "written", "--resources", "bytes that system calls wrote")                      \
	X(RECEIVED, "received", "--resources", "bytes received by recv and its relatives")         \
	X(SENT, "sent", "--resources", "bytes sent by send and its relatives")                     \
	X(FAULTS_MINOR, "faults_minor", "--resources", "page faults without a disk")               \
	X(FAULTS_MAJOR, "faults_major", "--resources", "page faults with a disk")                  \
	X(VOLUNTARY, "voluntary", "--resources", "context switches in order to wait")              \
	X(INVOLUNTARY, "involuntary", "--resources", "context switches to let others run")

enum call_cost {
#define X(name, text, option, help) COST_##name,
	CALL_COSTS(X)
#undef X
};

/* What a point of a thread is counted in. */
enum view_at {
	AT_NOTHING, /* no point is given */
	AT_INSTRUCTION = 1 + SEQUENCE_INSTRUCTION,
	AT_PATH = 1 + SEQUENCE_PATH,
	AT_STRATUM = 1 + SEQUENCE_STRATUM,
};

/* A request to a view; analyse/request.h builds it from words. */
struct view_request {
	struct filter filter;
	const char *sort; /* column name; NULL: the view's own order */
	size_t limit; /* rows, or what the view counts instead, such as functions; 0: all */
	double min_share; /* rows below it are left out; below 0: as the view says */
	enum view_metric metric; /* views that take it get one that is not AUTO */
	enum call_cost cost; /* of calls: what base and cum are */
	bool bottom_up; /* tree: callers below callees */
	bool by_callsite; /* callgraph: only where each function is called from */
	bool by_caller; /* args, invariants: call sites apart */
	bool people; /* the table will be text: leave out what is only of use to programs */
	struct option_texts items; /* views of values: which items; none: as the view says */
	double min_invariance; /* share of the most common value; below 0: as the view says */
	size_t top; /* values shown at each place in text; 0: as the view says */
	bool has_heat; /* paths: hottest by heat instead of instructions */
	enum heat_kind heat;
	bool has_time; /* only samples of moments from second `from` on and before `to` */
	uint32_t from, to; /* to 0: until the end */
	unsigned level; /* strata: of the cycles; 0: 1 */
	uint64_t detectors; /* phases: bits by enum phases_detector; 0: all */
	unsigned agree; /* phases: how many must see a boundary; 0: two, or all if there are less */
	bool by_phase; /* mix: of phases instead of modules */
	enum view_at at; /* at: what position counts */
	uint64_t position;
	struct code_source code; /* views of values: where to get code from */
};

/* Options that not every view takes. */
enum view_takes {
	TAKES_SORT = 1 << 0,
	TAKES_MIN_SHARE = 1 << 1,
	TAKES_METRIC = 1 << 2,
	TAKES_THREADS = 1 << 3, /* --pid, --tid, --comm */
	TAKES_USERS = 1 << 4,
	TAKES_SYMBOLS = 1 << 5,
	TAKES_MODULES = 1 << 6,
	TAKES_BOTTOM_UP = 1 << 7,
	TAKES_BY_CALLSITE = 1 << 8,
	TAKES_BY_CALLER = 1 << 9,
	TAKES_ITEM = 1 << 10,
	TAKES_INVARIANCE = 1 << 11,
	TAKES_TOP = 1 << 12,
	TAKES_HEAT = 1 << 13,
	TAKES_LEVEL = 1 << 14,
	TAKES_POSITION = 1 << 15,
	TAKES_TIME = 1 << 20,
	TAKES_DETECTORS = 1 << 21,
	TAKES_BY_PHASE = 1 << 22,
	TAKES_TASKS = TAKES_THREADS | TAKES_USERS,
	TAKES_CODE = TAKES_SYMBOLS | TAKES_MODULES,
	TAKES_FILTERS = TAKES_TASKS | TAKES_CODE,
};

struct view {
	const char *name;
	const char *summary;
	int (*run)(const struct profile *profile, const struct view_request *request,
		   struct table **ret);
	/*
	 * Domains that it reads. Of those that hold what was recorded (samples, values, executed
	 * code, paths) the profile must have all; that of the metric comes in addition.
	 */
	unsigned needs;
	unsigned uses; /* domains that it also reads where the profile has them */
	unsigned takes; /* of enum view_takes */
	unsigned metrics; /* that it can be measured by, a bit each; 0: all */
	double min_share; /* unless given */
	double min_invariance; /* unless given */
	bool joins; /* of calls, it has the samples as well: that is chosen if there are both */
	bool nested; /* it shows stacks; those of executed code come from the order of execution */
	bool limits; /* it limits itself: in what it counts instead of rows */
};

/* NULL: no such view. */
const struct view *view_find(const char *name);
/* Ends with an entry without a name. */
extern const struct view views[];

/* Whether something of a domain was recorded, whether or not it is loaded. */
bool profile_holds(const struct profile *profile, enum profile_domain domain);
/*
 * The view to show if none is named: functions, or another one if the profile has no data for it.
 */
const struct view *profile_view(const struct profile *profile);
/*
 * Checks that the profile holds domains. -ENODATA: one is missing; the message names it and the
 * command that records it.
 */
int profile_holds_check(const struct profile *profile, unsigned domains);

/*
 * What a view needs of an open profile to answer a request. -ENODATA: the profile does not hold it,
 * and which command would record it.
 */
int view_domains(const struct view *view, const struct profile *profile,
		 const struct view_request *request, unsigned *ret);

/*
 * Runs a view on a profile that has what view_domains() says; sorts and limits. -EINVAL: the view
 * has no such column to sort by, or what is asked does not fit the profile. -ENODATA: the profile
 * does not hold what the view is about.
 */
int view_run(const struct view *view, const struct profile *profile,
	     const struct view_request *request, struct table **ret);

#define VIEW(name, ...)                                                                            \
	int view_##name(const struct profile *profile, const struct view_request *request,         \
			struct table **ret);
#include "analyse/views.def"

/*
 * Totals in instructions (in blocks where they were only marked) of all that was executed, and of
 * what the filter selects. NULL: nothing is selected.
 */
void executed_totals_set(struct table *table, const struct profile *profile,
			 const struct filter *filter);

/* The view mix with --by-phase. */
int mix_by_phase(const struct profile *profile, const struct view_request *request,
		 struct table **ret);

/* "foo", or "foo (inlined)", owned by the table when made. */
const char *view_function_text(struct table *table, const char *name, bool inlined);
/*
 * "main [demo]", and "do_syscall [kernel]" without a second pair of brackets; owned by the table.
 */
const char *view_titled_text(struct table *table, const char *name, const char *module);
/* A bar, as long as a whole life, with what is from begin to end filled; owned by the table. */
const char *view_when_text(struct table *table, uint64_t begin, uint64_t end, uint64_t all);
/* "dir/file.c:12", owned by the table; "" without a file. */
const char *view_place_text(struct table *table, const char *file, uint32_t line);
/* "+0x4e": how far a location lies behind the beginning of its function. NULL: it is there. */
const char *view_offset_text(struct table *table, const struct profile *profile, uint32_t location);
