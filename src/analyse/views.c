// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/views.h"

#include <errno.h>
#include <string.h>

#include "analyse/meta.h"
#include "analyse/order.h"
#include "analyse/sites.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

/* Below this share a call tree is noise to a reader; 0 shows everything. */
#define NESTED_MIN_SHARE 0.005

/* From this share of its most common value on, a place is called semi-invariant. */
#define SEMI_INVARIANT 0.5
#define BLOCK_INVARIANT 0.9

const struct view views[] = {
	{ "functions", "functions by their own samples, and with what they called", view_functions,
	  .run_trace = trace_functions },
	{ "lines", "source lines by their own samples, and with what they called", view_lines,
	  .run_trace = trace_lines },
	{ "modules", "programs, libraries and kernel modules", view_modules,
	  .run_trace = trace_modules },
	{ "processes", "processes", view_processes, .order = VIEW_ORDER_USED,
	  .run_trace = trace_processes },
	{ "threads", "threads", view_threads, .order = VIEW_ORDER_USED,
	  .run_trace = trace_threads },
	{ "callgraph", "each function with its callers and callees, by call site", view_callgraph,
	  NESTED_MIN_SHARE, true, .takes = VIEW_TAKES_BY_CALLSITE },
	{ "tree", "call tree from the outermost function down (--bottom-up: from the innermost up)",
	  view_tree, NESTED_MIN_SHARE, true },
	{ "losses", "samples lost, by reason, and how stacks ended", view_losses,
	  .run_trace = view_losses },
	{ "coverage", "source files, and how many of their lines a trace executed", NULL,
	  .run_trace = trace_coverage },
	{ "paths", "the paths that a trace ran, hottest first, through all functions and libraries",
	  NULL, NESTED_MIN_SHARE, true, .order = VIEW_ORDER_NEEDED,
	  .takes = VIEW_TAKES_TOP | VIEW_TAKES_HEAT, .run_trace = trace_paths },
	{ "strata", "cycles of repeated paths, hottest first (--level N: of the layers above)",
	  NULL, NESTED_MIN_SHARE, true, .no_code = true, .order = VIEW_ORDER_NEEDED,
	  .takes = VIEW_TAKES_TOP | VIEW_TAKES_LEVEL, .run_trace = trace_strata },
	{ "layers", "cycles of each level: how many, and what was cut, broken or too rare to keep",
	  NULL, .no_code = true, .order = VIEW_ORDER_NEEDED, .run_trace = trace_layers },
	{ "at", "what a trace did at --instruction N, --path N or --stratum N of a thread", NULL,
	  .nested = true, .no_code = true, .order = VIEW_ORDER_NEEDED, .takes = VIEW_TAKES_POSITION,
	  .run_trace = trace_at },
	{ "phases", "phases of threads, with what tells them apart and their hot paths", NULL,
	  NESTED_MIN_SHARE, true, .no_code = true, .order = VIEW_ORDER_NEEDED,
	  .takes = VIEW_TAKES_TOP, .run_trace = trace_phases },
	{ "transfers", "how often a trace went from module to module, as a matrix", NULL,
	  .order = VIEW_ORDER_NEEDED, .run_trace = trace_transfers },
	{ "mix", "kinds of instructions that a trace executed, by module", NULL,
	  .run_trace = trace_mix },
	{ "invariants", "hot places where nearly always the same value comes by", view_invariants,
	  .values = true,
	  .takes = VIEW_TAKES_BY_CALLER | VIEW_TAKES_ITEM | VIEW_TAKES_INVARIANCE | VIEW_TAKES_TOP,
	  .min_invariance = SEMI_INVARIANT },
	{ "args", "functions with the most common values of their arguments", view_args,
	  .nested = true, .values = true, .takes = VIEW_TAKES_BY_CALLER | VIEW_TAKES_TOP },
	{ "blocks", "runs of instructions that are invariant together", view_blocks, .nested = true,
	  .values = true, .takes = VIEW_TAKES_INVARIANCE | VIEW_TAKES_TOP,
	  .min_invariance = BLOCK_INVARIANT },
	{ "values", "every place where values were taken", view_values, .values = true,
	  .takes = VIEW_TAKES_ITEM | VIEW_TAKES_TOP },
	{ "runs", "how the interpreted runs ended that values come from", view_runs,
	  .values = true },
	{},
};

const struct view *view_find(const char *name)
{
	for (const struct view *view = views; view->name; view++)
		if (!strcmp(view->name, name))
			return view;
	return NULL;
}

static int sort_column(const struct table *table, const char *name)
{
	struct strbuf names = {};
	int column = table_column(table, name);

	if (column >= 0)
		return column;
	for (size_t i = 0; i < table->column_count; i++)
		if (table->columns[i].use != COLUMN_PEOPLE)
			strbuf_printf(&names, "%s%s", names.length ? ", " : "",
				      table->columns[i].name);
	err_set(-EINVAL, "--sort %s: the view %s has no such column; it has %s", name, table->view,
		strbuf_text(&names));
	strbuf_deinit(&names);
	return -EINVAL;
}

int view_values_check(const struct profile *profile)
{
	if (profile->value_count || profile_meta(profile, META_VALUES))
		return 0;
	return err_set(-ENODATA, "this profile has no values; record with --values");
}

int view_values_filter_check(const struct filter *filter)
{
	const char *option = filter->pids.count	   ? "pid"
			     : filter->tids.count  ? "tid"
			     : filter->comms.count ? "comm"
						   : NULL;

	if (!option)
		return 0;
	return err_set(-EINVAL,
		       "--%s: values are not kept by process or thread; --uid, --module and "
		       "--symbol choose among them",
		       option);
}

int view_samples_check(const struct profile *profile)
{
	if (!profile_meta(profile, META_TOOL))
		return 0;
	return err_set(-ENODATA,
		       "this profile is a trace and has no samples; make one that has with "
		       "assay record");
}

int view_trace_check(const struct profile *profile)
{
	if (profile_meta(profile, META_TOOL))
		return 0;
	return err_set(-ENODATA,
		       "this profile has samples, not executed code; make one that has with "
		       "assay trace --tool coverage");
}

/* Whether the profile has what the view is about. */
static int kind_check(const struct view *view, const struct profile *profile)
{
	if (view->order == VIEW_ORDER_NEEDED && profile_meta(profile, META_TOOL))
		return order_check(profile);
	if (!view->run)
		return view_trace_check(profile);
	return view->run_trace ? 0 : view_samples_check(profile);
}

static int takes_check(const struct view *view, const struct view_request *request)
{
	const struct {
		const char *option;
		unsigned bit;
		bool given;
	} options[] = {
		{ "by-callsite", VIEW_TAKES_BY_CALLSITE, request->by_callsite },
		{ "by-caller", VIEW_TAKES_BY_CALLER, request->by_caller },
		{ "item", VIEW_TAKES_ITEM, request->items.count },
		{ "min-invariance", VIEW_TAKES_INVARIANCE, request->min_invariance > 0 },
		{ "top", VIEW_TAKES_TOP, request->top },
		{ "heat", VIEW_TAKES_HEAT, request->has_heat },
		{ "level", VIEW_TAKES_LEVEL, request->level },
		{ request->has_position ? sequence_unit_text(request->unit) : "instruction",
		  VIEW_TAKES_POSITION, request->has_position },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].given && !(view->takes & options[i].bit))
			return err_set(-EINVAL, "--%s: the view %s has no use for it",
				       options[i].option, view->name);
	return 0;
}

static int request_check(const struct view *view, const struct profile *profile,
			 const struct view_request *request)
{
	int err = takes_check(view, request);

	err = err ? err : kind_check(view, profile);
	if (!err && request->sort && view->nested)
		err = err_set(-EINVAL,
			      "--sort %s: the rows of the view %s belong together and cannot "
			      "be sorted; use the view %s",
			      request->sort, view->name, view->values ? "values" : "functions");
	if (!err && view->no_code && filter_has_code(&request->filter))
		err = err_set(-EINVAL,
			      "--symbol, --module: the view %s has no use for them; the view paths "
			      "shows paths that have such code",
			      view->name);
	if (!err && view->values)
		err = view_values_filter_check(&request->filter);
	if (!err && view->values)
		err = view_values_check(profile);
	if (!err)
		err = sites_items_check(profile, &request->items, "item");
	return err;
}

int view_run(const struct view *view, const struct profile *profile,
	     const struct view_request *request, struct table **ret)
{
	AUTO(table_destroy_auto) struct table *table = NULL;
	struct view_request wish = *request;
	int err = request_check(view, profile, request);

	if (err)
		return err;
	if (wish.min_share < 0)
		wish.min_share = view->min_share;
	if (wish.min_invariance < 0)
		wish.min_invariance = view->min_invariance;
	err = (profile_meta(profile, META_TOOL) ? view->run_trace : view->run)(profile, &wish,
									       &table);
	if (err)
		return err;
	if (wish.sort) {
		int column = sort_column(table, wish.sort);

		if (column < 0)
			return column;
		table_sort(table, (size_t)column);
	}
	if (wish.limit && !view->nested)
		table_limit(table, wish.limit);
	table->filtered = !view->values && !filter_is_empty(&request->filter);
	*ret = take_ptr(table);
	return 0;
}

const char *view_function_text(struct table *table, const char *name, bool inlined)
{
	return inlined ? table_own(table, mem_printf("%s (inlined)", name)) : name;
}

const char *view_titled_text(struct table *table, const char *name, const char *module)
{
	bool bare = *module != '[';

	return table_own(table,
			 mem_printf("%s %s%s%s", name, bare ? "[" : "", module, bare ? "]" : ""));
}

const char *view_place_text(struct table *table, const char *file, uint32_t line)
{
	if (!file)
		return "";
	return line ? table_own(table, mem_printf("%s:%u", file, line)) : file;
}
