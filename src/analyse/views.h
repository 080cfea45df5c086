/* SPDX-License-Identifier: BSD-2-Clause */
/* The views: a profile in, a table out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analyse/filter.h"
#include "analyse/table.h"
#include "store/profile.h"

struct view_request {
	struct filter filter;
	const char *sort; /* column name; NULL: the view's own order */
	size_t limit; /* rows (callgraph: functions); 0: all */
	double min_share; /* of the samples seen; rows below are left out; below 0: the view's own default */
	bool bottom_up; /* tree: callers below callees */
};

struct view {
	const char *name;
	const char *summary;
	int (*run)(const struct profile *profile, const struct view_request *request,
		   struct table **ret);
	double min_share; /* default */
	bool nested; /* rows depend on their order: --sort makes no sense */
};

/* NULL: no such view. */
const struct view *view_find(const char *name);
/* Ends with an entry without a name. */
extern const struct view views[];

/* Runs a view, sorts and limits. -EINVAL: the sort column does not exist or the view cannot be sorted. */
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

/* "foo", or "foo (inlined)", owned by the table when made. */
const char *view_function_text(struct table *table, const char *name, bool inlined);
/* "main [demo]", and "do_syscall [kernel]" without a second pair of brackets; owned by the table. */
const char *view_titled_text(struct table *table, const char *name, const char *module);
/* "dir/file.c:12", owned by the table; "" without a file. */
const char *view_place_text(struct table *table, const char *file, uint32_t line);
