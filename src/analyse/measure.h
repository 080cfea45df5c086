/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Views of code and of tasks, by samples, by executed code or by calls. What a row stands for (a
 * function, a line, a module, a process, a thread) is separate from what is measured: every measure
 * gives rows of the same form, so that each view is written once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/table.h"
#include "analyse/views.h"
#include "store/profile.h"

enum grain { BY_FUNCTION, BY_LINE, BY_MODULE, BY_PROCESS, BY_THREAD };

enum { AMOUNTS_MAX = 6 };

struct measured {
	uint64_t key; /* tells rows apart; equal amounts come in its order */
	uint32_t module, symbol, file, line; /* of code: where most of it is; 0: unknown */
	const char *name; /* of code: the function */
	bool inlined;
	uint32_t task; /* of a process or thread: its index */
	uint64_t amounts[AMOUNTS_MAX]; /* in the order that the measure's fill() knows */
};

struct measured_rows {
	struct measured *items;
	size_t count, capacity;
	unsigned rank; /* the amount by which rows are ranked, highest first, */
	unsigned second; /* and the one that decides between equals */
	unsigned share; /* the amount that --min-share looks at */
	bool marks; /* instructions were not counted */
	uint64_t whole; /* what shares are of; 0: what was seen, as the table says */
	bool untimed; /* calls were counted only */
};

struct measure {
	const struct column *columns; /* they stand before those of the view */
	size_t column_count;
	/*
	 * Adds the rows that the filters leave, in any order, and sets the totals of the table.
	 * Fails if what was recorded does not agree with itself.
	 */
	int (*collect)(const struct profile *profile, const struct view_request *request,
		       enum grain grain, struct table *table, struct measured_rows *ret);
	/* Fills the columns above. */
	void (*fill)(const struct measured_rows *rows, const struct measured *row,
		     const struct table *table, struct cell *ret);
};

extern const struct measure code_by_samples, code_by_executed;
extern const struct measure tasks_by_samples, tasks_by_executed;
extern const struct measure code_by_calls, tasks_by_calls;
/* The same where what calls cost is not time. */
extern const struct measure code_by_costs, tasks_by_costs;

/* Fills the columns of a view, which stand behind those of the measure. */
typedef void (*measured_fill_fn)(const struct profile *profile, const struct measured *row,
				 struct table *table, struct cell *ret);

struct shape {
	const char *view;
	enum grain grain;
	const struct column *columns;
	size_t column_count;
	measured_fill_fn fill;
};

/* The table of a view whose rows have the shape, by the metric that the request asks for. */
int measured_view(const struct shape *shape, const struct profile *profile,
		  const struct view_request *request, struct table **ret);
