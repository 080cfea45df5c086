// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/call_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/cleanup.h"

enum {
	C_CUM,
	C_BASE,
	C_SHARE,
	C_CALLS,
	C_SAMPLES,
	C_WAITED,
	C_LATER_CUM, /* of functions, which are ranked by base */
	C_ELAPSED,
	C_LEVEL,
	C_RECURSION,
	C_ROLE,
	C_PID,
	C_TID,
	C_COMM,
	C_MODULE,
	C_TEXT,
	C_SYMBOL,
	C_GROUP,
	C_SELF_SAMPLES,
	C_SELF_WAITED,
	C_COUNT
};

// clang-format off
#define COLUMNS(cum_use, level_use, role_use, unit)                                                \
	{                                                                                          \
		[C_CUM] = { "cum", "Cum" unit, COLUMN_COUNT, cum_use, .optional = true },          \
		[C_BASE] = { "base", "Base" unit, COLUMN_COUNT, .optional = true },                \
		[C_SHARE] = { "share", "Share", COLUMN_SHARE, .spare = 1 },                        \
		[C_CALLS] = { "calls", "Calls", COLUMN_COUNT },                                    \
		[C_SAMPLES] = { "samples", "Samples", COLUMN_COUNT, .optional = true },            \
		[C_WAITED] = { "waited_ns", "Waited ns", COLUMN_COUNT, .optional = true,           \
			       .spare = 1 },                                                       \
		[C_LATER_CUM] = { "later_cum", "Cum" unit, COLUMN_COUNT, COLUMN_PEOPLE,            \
				  .optional = true },                                              \
		[C_ELAPSED] = { "elapsed", "Elapsed" unit, COLUMN_COUNT, .optional = true,         \
				.spare = 2 },                                                      \
		[C_LEVEL] = { "level", "Level", COLUMN_INTEGER, level_use, .spare = 1 },           \
		[C_RECURSION] = { "recursion", "RL", COLUMN_INTEGER, .spare = 3 },                 \
		[C_ROLE] = { "role", "Role", COLUMN_TEXT, role_use },                              \
		[C_PID] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },                              \
		[C_TID] = { "tid", "", COLUMN_INTEGER, COLUMN_DATA },                              \
		[C_COMM] = { "comm", "", COLUMN_TEXT, COLUMN_DATA },                               \
		[C_MODULE] = { "module", "", COLUMN_TEXT, COLUMN_DATA },                           \
		[C_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true,             \
			     .cut = CUT_NAME, .comfort = 30 },                                     \
		[C_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },                           \
		[C_GROUP] = { "group", "", COLUMN_INTEGER, COLUMN_DATA },                          \
		[C_SELF_WAITED] = { "self_waited_ns", "", COLUMN_COUNT, COLUMN_DATA },             \
		[C_SELF_SAMPLES] = { "self_samples", "", COLUMN_COUNT, COLUMN_DATA },              \
	}
// clang-format on

#define SHOWN COLUMN_EVERYWHERE
#define HIDDEN COLUMN_DATA

/* The second of each is for what is not time. */
static const struct column tree_columns[][C_COUNT] = { COLUMNS(SHOWN, SHOWN, HIDDEN, " ns"),
						       COLUMNS(SHOWN, SHOWN, HIDDEN, "") };
static const struct column function_columns[][C_COUNT] = { COLUMNS(HIDDEN, HIDDEN, HIDDEN, " ns"),
							   COLUMNS(HIDDEN, HIDDEN, HIDDEN, "") };
static const struct column caller_columns[][C_COUNT] = { COLUMNS(SHOWN, HIDDEN, SHOWN, " ns"),
							 COLUMNS(SHOWN, HIDDEN, SHOWN, "") };

struct work {
	const struct call_input *input;
	struct table *table;
	uint64_t base; /* ticks of all threads */
	uint64_t calls; /* the same */
	bool timed;
	bool sampled; /* there are samples beside the calls */
	uint64_t waited; /* ns on all paths */
};

/* An amount below 0 is less than the hooks' own cost that was subtracted: it is shown as 0. */
static uint64_t at_least_none(uint64_t ticks)
{
	return (int64_t)ticks < 0 ? 0 : ticks;
}

static uint64_t to_ns(const struct work *work, uint64_t ticks)
{
	ticks = at_least_none(ticks);
	return (uint64_t)((double)ticks * work->input->tick + 0.5);
}

const char *call_name_text(struct table *table, const struct call_name *name)
{
	return name->unnamed ? table_own(table, mem_strdup(name->symbol)) : name->symbol;
}

static const char *symbol_of(const struct work *work, uint64_t routine)
{
	if (routine == CALL_ROUTINE_PRUNED)
		return "[pruned]";
	if (routine == CALL_ROUTINE_THREAD)
		return "[thread]";
	return call_name_text(work->table, &work->input->names[routine]);
}

static const char *module_of(const struct work *work, uint64_t routine)
{
	return routine >= CALL_ROUTINE_PRUNED ? NULL : work->input->names[routine].module;
}

static struct cell *row_put(struct work *work, const struct call_row *row)
{
	struct cell *cells = table_row_add(work->table);

	cells[C_CALLS] = cell_number(row->calls);
	cells[C_RECURSION] = cell_integer(row->recursion);
	cells[C_MODULE] = cell_text_or_unset(module_of(work, row->routine));
	cells[C_SYMBOL] = cell_text(symbol_of(work, row->routine));
	cells[C_TEXT] = cells[C_SYMBOL];
	cells[C_SHARE] = cell_real(
		work->timed ? share_of(at_least_none(row->base), at_least_none(work->base))
			    : share_of(row->calls, work->calls));
	if (work->timed) {
		cells[C_BASE] = cell_number(to_ns(work, row->base));
		cells[C_CUM] = cell_number(to_ns(work, row->cum));
		if (work->table->columns == function_columns[work->input->plain])
			cells[C_LATER_CUM] = cells[C_CUM];
		if (!work->input->plain || row->elapsed)
			cells[C_ELAPSED] = cell_number(to_ns(work, row->elapsed));
	}
	return cells;
}

static void thread_name(struct work *work, const struct call_result *result, struct cell *cells)
{
	char *text =
		mem_printf("thread %u of process %u, %s", result->tid, result->pid, result->name);

	cells[C_SYMBOL] = cells[C_TEXT] = cell_text(table_own(work->table, text));
}

static bool is_wanted(const struct work *work, uint64_t routine)
{
	const struct call_input *input = work->input;

	return !input->wanted || (routine < CALL_ROUTINE_PRUNED &&
				  input->wanted(input->wanted_ctx, &input->names[routine]));
}

/*
 * Rows that are large enough, and on a path with a routine that is wanted. One that is too small
 * has nothing large below it.
 */
static void tree_choose(struct work *work, const struct call_snapshot *snapshot,
			const struct call_rows *rows, const uint64_t *waited, bool *ret)
{
	uint64_t least_waited = (uint64_t)(work->input->min_share * (double)work->waited);
	uint64_t least = (uint64_t)(work->input->min_share *
				    (double)(work->timed ? at_least_none(work->base) : 0));

	memset(ret, !work->input->wanted, rows->count);
	for (size_t i = 0; i < rows->count && work->input->wanted; i++) {
		const struct call_row *row = &rows->items[i];
		uint32_t level = row->level;

		if (!is_wanted(work, row->routine))
			continue;
		for (size_t at = i; at < snapshot->after[i]; at++)
			ret[at] = true;
		for (size_t at = i; at-- > 0 && level;)
			if (rows->items[at].level < level) {
				level = rows->items[at].level;
				ret[at] = true;
			}
	}
	for (size_t i = 0; i < rows->count; i++) {
		bool is_long = waited && waited[rows->items[i].node] > least_waited;

		if (ret[i] && !is_long && at_least_none(rows->items[i].cum) < least) {
			ret[i] = false;
			work->table->omitted++;
		}
	}
}

static void samples_put(const struct call_snapshot *snapshot, const struct call_row *row,
			struct cell *cells)
{
	cells[C_SAMPLES] = cell_number(snapshot->samples[row->node]);
	cells[C_SELF_SAMPLES] = cell_number(row->samples);
}

static struct cell *tree_row_put(struct work *work, const struct call_result *result, size_t group,
				 const struct call_row *row)
{
	struct cell *cells = row_put(work, row);

	cells[C_LEVEL] = cell_integer(row->level);
	cells[C_PID] = cell_integer(result->pid);
	cells[C_TID] = cell_integer(result->tid);
	cells[C_COMM] = cell_text(table_own(work->table, mem_strdup(result->name)));
	cells[C_GROUP] = cell_integer((int64_t)group);
	if (work->sampled)
		samples_put(&result->snapshot, row, cells);
	if (!row->level)
		thread_name(work, result, cells);
	return cells;
}

static void waited_put(const struct work *work, size_t result, const struct call_row *row,
		       const uint64_t *below, struct cell *cells)
{
	if (!below)
		return;
	cells[C_WAITED] = cell_number(below[row->node]);
	cells[C_SELF_WAITED] = cell_number(work->input->waited[result][row->node]);
}

static int result_compare(const void *a, const void *b, void *ctx)
{
	const struct call_result *const *results = ctx;
	size_t left = *(const size_t *)a, right = *(const size_t *)b;

	if (results[left]->pid != results[right]->pid)
		return results[left]->pid < results[right]->pid ? -1 : 1;
	if (results[left]->tid != results[right]->tid)
		return results[left]->tid < results[right]->tid ? -1 : 1;
	return left < right ? -1 : left > right;
}

/* Threads by number. They arrive in the order of their ends, which differs from run to run. */
static size_t *results_order(const struct call_input *input)
{
	size_t *order = mem_alloc((input->count + 1) * sizeof(*order));

	for (size_t i = 0; i < input->count; i++)
		order[i] = i;
	qsort_r(order, input->count, sizeof(*order), result_compare, (void *)input->results);
	return order;
}

/* ns that were waited on each path, and on those that go on from it. */
static uint64_t *waited_below(const struct work *work, size_t result)
{
	const struct call_snapshot *snapshot = &work->input->results[result]->snapshot;
	uint64_t *sums;

	if (!work->input->waited)
		return NULL;
	sums = mem_zalloc(((size_t)snapshot->head.count + 1) * sizeof(*sums));
	for (uint32_t i = snapshot->reached; i-- > 0;) {
		uint32_t number = snapshot->order[i];

		sums[number] += work->input->waited[result][number];
		if (number != CALL_ROOT)
			sums[call_snapshot_node(snapshot, number)->parent] += sums[number];
	}
	return sums;
}

static void waited_sum(struct work *work)
{
	for (size_t i = 0; i < work->input->count && work->input->waited; i++) {
		AUTO(free_ptr) uint64_t *sums = waited_below(work, i);

		work->waited += sums[CALL_ROOT];
	}
}

/* So that the samples of all rows are those that were kept, and so with the time. */
static void off_put(struct work *work, uint64_t samples, uint64_t waited, const char *text)
{
	struct cell *cells;

	if (!samples && !waited)
		return;
	cells = table_row_add(work->table);
	if (work->sampled)
		cells[C_SAMPLES] = cells[C_SELF_SAMPLES] = cell_number(samples);
	if (work->input->waited)
		cells[C_WAITED] = cells[C_SELF_WAITED] = cell_number(waited);
	cells[C_LEVEL] = cell_integer(0);
	cells[C_GROUP] = cell_integer((int64_t)work->input->count);
	cells[C_SYMBOL] = cells[C_TEXT] = cell_text(text);
}

static void tree_fill(struct work *work)
{
	AUTO(free_ptr) size_t *order = results_order(work->input);
	const struct call_samples_off *off = &work->input->off, *waits = &work->input->waited_off;

	waited_sum(work);
	for (size_t i = 0; i < work->input->count; i++) {
		const struct call_result *result = work->input->results[order[i]];
		struct call_rows rows = {};
		AUTO(free_ptr) bool *chosen = mem_zalloc(result->snapshot.reached + 1);
		AUTO(free_ptr) uint64_t *waited = waited_below(work, order[i]);

		call_report_tree(&result->snapshot, 0, &rows);
		tree_choose(work, &result->snapshot, &rows, waited, chosen);
		for (size_t at = 0; at < rows.count; at++)
			if (chosen[at])
				waited_put(work, order[i], &rows.items[at], waited,
					   tree_row_put(work, result, i, &rows.items[at]));
		array_deinit(&rows);
	}
	work->table->level_column = C_LEVEL;
	work->table->group_column = C_GROUP;
	if (work->input->limit && work->timed)
		table_limit_tree(work->table, C_CUM, work->input->limit);
	else if (work->input->limit)
		table_limit(work->table, work->input->limit);
	off_put(work, off->paths, waits->paths, "[on paths that no call took]");
	off_put(work, off->threads, waits->threads, "[of threads whose calls are not known]");
}

int call_input_stanzas(const struct call_input *input, struct call_stanzas *ret)
{
	AUTO(free_ptr)
	const struct call_snapshot **snapshots = mem_alloc((input->count + 1) * sizeof(*snapshots));

	for (size_t i = 0; i < input->count; i++)
		snapshots[i] = &input->results[i]->snapshot;
	return call_report_stanzas(snapshots, input->count, 0, ret);
}

static void functions_fill(struct work *work, const struct call_stanzas *stanzas)
{
	for (size_t i = 0; i < stanzas->count; i++)
		if (stanzas->items[i].self.routine != CALL_ROUTINE_THREAD)
			row_put(work, &stanzas->items[i].self);
	table_sort(work->table, work->timed ? C_BASE : C_CALLS);
}

static void role_put(struct work *work, const struct call_row *row, const char *role, size_t group)
{
	struct cell *cells = row_put(work, row);

	cells[C_ROLE] = cell_text(role);
	cells[C_GROUP] = cell_integer((int64_t)group);
}

static bool is_shown(const struct work *work, const struct call_row *self)
{
	double share = work->timed ? share_of(at_least_none(self->cum), at_least_none(work->base))
				   : share_of(self->calls, work->calls);

	return is_wanted(work, self->routine) && share >= work->input->min_share;
}

static void callgraph_fill(struct work *work, const struct call_stanzas *stanzas)
{
	size_t shown = 0;

	for (size_t i = 0; i < stanzas->count; i++) {
		const struct call_stanza *stanza = &stanzas->items[i];

		if (!is_shown(work, &stanza->self) ||
		    (work->input->limit && shown == work->input->limit)) {
			work->table->omitted++;
			continue;
		}
		shown++;
		for (uint32_t at = 0; at < stanza->parent_count; at++)
			role_put(work, &stanza->parents[at], "parent", i);
		role_put(work, &stanza->self, "self", i);
		for (uint32_t at = 0; at < stanza->child_count; at++)
			role_put(work, &stanza->children[at], "child", i);
	}
	work->table->group_column = C_GROUP;
}

void call_totals_set(struct table *table, const struct call_input *input, uint64_t calls)
{
	struct totals *totals = &table->totals;

	totals->selected = calls;
	totals->kept = totals->seen = input->kept ? input->kept : calls;
	totals->losses = input->losses;
	totals->loss_count = input->loss_count;
	for (size_t i = 0; i < totals->loss_count; i++)
		totals->seen += totals->losses[i].count;
}

/* Calls of all nodes; that a thread was started is none. */
static void sums_make(struct work *work)
{
	for (size_t i = 0; i < work->input->count; i++) {
		const struct call_snapshot *snapshot = &work->input->results[i]->snapshot;

		work->timed |= snapshot->head.metrics > 0;
		work->sampled |= snapshot->samples[CALL_ROOT] > 0;
		if (snapshot->head.metrics)
			work->base += call_snapshot_sum(snapshot, CALL_ROOT, 0)->base;
		for (uint32_t at = 1; at < snapshot->reached; at++)
			work->calls += call_snapshot_node(snapshot, snapshot->order[at])->calls;
	}
}

int call_table_make(const char *view, const struct call_input *input, struct table **ret)
{
	bool is_tree = !strcmp(view, "tree");
	bool is_functions = !strcmp(view, "functions");
	const struct column *columns = is_tree	      ? tree_columns[input->plain]
				       : is_functions ? function_columns[input->plain]
						      : caller_columns[input->plain];
	struct work work = { .input = input, .sampled = input->sampled };
	struct call_stanzas stanzas = {};
	int err;

	if (!is_tree && !is_functions && strcmp(view, "callgraph"))
		return err_set(-EINVAL, "no such view of calls: %s", view);
	err = call_input_stanzas(input,
				 &stanzas); /* of the tree too: sums are checked at every report */
	if (err)
		return err;
	sums_make(&work);
	work.table = table_create(view, columns, C_COUNT);
	if (is_tree)
		tree_fill(&work);
	else if (is_functions)
		functions_fill(&work, &stanzas);
	else
		callgraph_fill(&work, &stanzas);
	call_totals_set(work.table, input, work.calls);
	call_stanzas_deinit(&stanzas);
	*ret = work.table;
	return 0;
}
