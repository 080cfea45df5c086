// SPDX-License-Identifier: BSD-2-Clause
/*
 * Views of code and tasks, whatever they are measured by: one of by_samples.c, by_executed.c and
 * by_calls.c fills the rows, and this file puts them in order.
 *
 *	in	what a row is about (a shape), and what it is measured by
 *	out	a table with a row for each function, line, module, process or thread
 *	owner	the view that calls it
 */
#include "analyse/measure.h"

#include <stdlib.h>

#include "base/cleanup.h"

static int amount_order(const struct measured *a, const struct measured *b, unsigned amount)
{
	return (a->amounts[amount] < b->amounts[amount]) -
	       (a->amounts[amount] > b->amounts[amount]);
}

static int measured_order(const void *left, const void *right, void *ctx)
{
	const struct measured_rows *rows = ctx;
	const struct measured *a = left, *b = right;
	int order = amount_order(a, b, rows->rank);

	order = order ? order : amount_order(a, b, rows->second);
	return order ? order : (a->key > b->key) - (a->key < b->key);
}

/* The amount that is 100 %. */
static uint64_t rows_whole(const struct measured_rows *rows, const struct table *table)
{
	return rows->whole ? rows->whole : table->totals.seen;
}

/* In the order of the report, without those that are too small for it. */
static void rows_rank(struct measured_rows *rows, double min_share, struct table *table)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct measured *row = &rows->items[i];

		if (share_of(row->amounts[rows->share], rows_whole(rows, table)) < min_share)
			table->omitted++;
		else
			rows->items[kept++] = *row;
	}
	rows->count = kept;
	if (kept)
		qsort_r(rows->items, kept, sizeof(*rows->items), measured_order, rows);
}

static const struct measure *measure_choose(const struct shape *shape,
					    const struct view_request *request)
{
	enum view_metric metric = request->metric;
	bool tasks = shape->grain == BY_PROCESS || shape->grain == BY_THREAD;

	if (metric == METRIC_CALLS && request->cost != COST_TIME)
		return tasks ? &tasks_by_costs : &code_by_costs;
	if (metric == METRIC_CALLS)
		return tasks ? &tasks_by_calls : &code_by_calls;
	if (metric == METRIC_SAMPLES)
		return tasks ? &tasks_by_samples : &code_by_samples;
	return tasks ? &tasks_by_executed : &code_by_executed;
}

int measured_view(const struct shape *shape, const struct profile *profile,
		  const struct view_request *request, struct table **ret)
{
	const struct measure *measure = measure_choose(shape, request);
	struct table *table = table_create_joined(shape->view, measure->columns,
						  measure->column_count, shape->columns,
						  shape->column_count);
	struct measured_rows rows = {};

	int err = measure->collect(profile, request, shape->grain, table, &rows);

	if (err) {
		free(rows.items);
		table_destroy(table);
		return err;
	}
	rows_rank(&rows, request->min_share, table);
	for (size_t i = 0; i < rows.count; i++) {
		struct cell *row = table_row_add(table);

		measure->fill(&rows, &rows.items[i], table, row);
		shape->fill(profile, &rows.items[i], table, row + measure->column_count);
	}
	free(rows.items);
	*ret = table;
	return 0;
}
