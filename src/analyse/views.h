/* SPDX-License-Identifier: BSD-2-Clause */
/* The views: a profile in, a table out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analyse/filter.h"
#include "analyse/instruction.h"
#include "analyse/table.h"
#include "profile/heat.h"
#include "profile/sequence.h"
#include "store/profile.h"

struct view_request {
	struct filter filter;
	const char *sort; /* column name; NULL: the view's own order */
	size_t limit; /* rows (callgraph: functions); 0: all */
	double min_share; /* of the samples seen; rows below are left out; below 0: the view's own default */
	bool bottom_up; /* tree: callers below callees */
	bool by_callsite; /* callgraph: only where each function is called from */
	bool by_caller; /* args, invariants: call sites apart */
	bool people; /* the table will be text: leave out what is only of use to programs */
	struct filter_patterns items; /* views of values: which items; none: the view's own choice */
	double min_invariance; /* share of the most common value; below 0: the view's own default */
	size_t top; /* values shown at each place in text; 0: 3 */
	bool has_heat; /* paths: hottest by heat instead of instructions */
	enum heat_kind heat;
	unsigned level; /* strata: of the cycles; 0: 1 */
	bool has_position; /* at: unit and position are given */
	enum sequence_unit unit;
	uint64_t position;
	struct code_source code; /* views of values: where to get code from */
};

/* Options that only some views take. */
enum view_option_set {
	VIEW_TAKES_BY_CALLSITE = 1,
	VIEW_TAKES_BY_CALLER = 2,
	VIEW_TAKES_ITEM = 4,
	VIEW_TAKES_INVARIANCE = 8,
	VIEW_TAKES_TOP = 16,
	VIEW_TAKES_LEVEL = 32,
	VIEW_TAKES_POSITION = 64,
	VIEW_TAKES_HEAT = 128,
};

/* What a view does with the order of execution, which is loaded for those that want it. */
enum view_order { VIEW_ORDER_NONE, VIEW_ORDER_USED, VIEW_ORDER_NEEDED };

struct view {
	const char *name;
	const char *summary;
	/* NULL: only of executed code. */
	int (*run)(const struct profile *profile, const struct view_request *request,
		   struct table **ret);
	double min_share; /* default */
	bool nested; /* rows depend on their order: --sort makes no sense */
	bool values; /* about values: they are needed, and cannot be told apart by process */
	enum view_order order;
	bool no_code; /* takes no filter of code: parts of a sequence make no sense */
	unsigned takes; /* of enum view_option_set */
	double min_invariance; /* default */
	/* The same of executed code; NULL: there is no such thing. */
	int (*run_trace)(const struct profile *profile, const struct view_request *request,
			 struct table **ret);
};

/* NULL: no such view. */
const struct view *view_find(const char *name);
/* Ends with an entry without a name. */
extern const struct view views[];

/*
 * Runs a view, sorts and limits. -EINVAL: the view does not take an option, or has no such column to sort by. -ENODATA: the profile
 * has no values, samples or executed code, and the view is about them.
 */
int view_run(const struct view *view, const struct profile *profile,
	     const struct view_request *request, struct table **ret);

int view_functions(const struct profile *profile, const struct view_request *request,
		   struct table **ret);
int view_lines(const struct profile *profile, const struct view_request *request,
	       struct table **ret);
int view_modules(const struct profile *profile, const struct view_request *request,
		 struct table **ret);
int view_processes(const struct profile *profile, const struct view_request *request,
		   struct table **ret);
int view_threads(const struct profile *profile, const struct view_request *request,
		 struct table **ret);
int view_callgraph(const struct profile *profile, const struct view_request *request,
		   struct table **ret);
int view_tree(const struct profile *profile, const struct view_request *request,
	      struct table **ret);
int view_losses(const struct profile *profile, const struct view_request *request,
		struct table **ret);

int view_args(const struct profile *profile, const struct view_request *request,
	      struct table **ret);
int view_blocks(const struct profile *profile, const struct view_request *request,
		struct table **ret);
int view_invariants(const struct profile *profile, const struct view_request *request,
		    struct table **ret);
int view_values(const struct profile *profile, const struct view_request *request,
		struct table **ret);
int view_runs(const struct profile *profile, const struct view_request *request,
	      struct table **ret);

int trace_functions(const struct profile *profile, const struct view_request *request,
		    struct table **ret);
int trace_lines(const struct profile *profile, const struct view_request *request,
		struct table **ret);
int trace_modules(const struct profile *profile, const struct view_request *request,
		  struct table **ret);
int trace_processes(const struct profile *profile, const struct view_request *request,
		    struct table **ret);
int trace_threads(const struct profile *profile, const struct view_request *request,
		  struct table **ret);
int trace_paths(const struct profile *profile, const struct view_request *request,
		struct table **ret);
int trace_strata(const struct profile *profile, const struct view_request *request,
		 struct table **ret);
int trace_layers(const struct profile *profile, const struct view_request *request,
		 struct table **ret);
int trace_at(const struct profile *profile, const struct view_request *request, struct table **ret);
int trace_phases(const struct profile *profile, const struct view_request *request,
		 struct table **ret);
int trace_transfers(const struct profile *profile, const struct view_request *request,
		    struct table **ret);
int trace_mix(const struct profile *profile, const struct view_request *request,
	      struct table **ret);
int trace_coverage(const struct profile *profile, const struct view_request *request,
		   struct table **ret);

/* Totals in instructions, of all that was executed; nothing selected. */
void trace_totals_set(struct table *table, const struct profile *profile);

/* -ENODATA: the profile is a trace. */
int view_samples_check(const struct profile *profile);
/* -ENODATA: the profile has samples. */
int view_trace_check(const struct profile *profile);
/* -ENODATA: the profile was recorded without values. */
int view_values_check(const struct profile *profile);
/* -EINVAL: the filter asks for processes or threads, which values are not kept by. */
int view_values_filter_check(const struct filter *filter);

/* "foo", or "foo (inlined)", owned by the table when made. */
const char *view_function_text(struct table *table, const char *name, bool inlined);
/* "main [demo]", and "do_syscall [kernel]" without a second pair of brackets; owned by the table. */
const char *view_titled_text(struct table *table, const char *name, const char *module);
/* "dir/file.c:12", owned by the table; "" without a file. */
const char *view_place_text(struct table *table, const char *file, uint32_t line);
