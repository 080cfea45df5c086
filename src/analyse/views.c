// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/views.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

/* Below this share a call tree is noise to a reader; 0 shows everything. */
#define NESTED_MIN_SHARE 0.005

const struct view views[] = {
	{ "functions", "functions by their own samples, and with what they called",
	  view_functions },
	{ "lines", "source lines by their own samples, and with what they called", view_lines },
	{ "modules", "programs, libraries and kernel modules", view_modules },
	{ "processes", "processes", view_processes },
	{ "threads", "threads", view_threads },
	{ "callgraph", "each function with its callers and callees, by call site", view_callgraph,
	  NESTED_MIN_SHARE, true },
	{ "tree", "call tree from the outermost function down (--bottom-up: from the innermost up)",
	  view_tree, NESTED_MIN_SHARE, true },
	{ "losses", "samples lost, by reason, and how stacks ended", view_losses },
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

int view_run(const struct view *view, const struct profile *profile,
	     const struct view_request *request, struct table **ret)
{
	AUTO(table_destroy_auto) struct table *table = NULL;
	struct view_request wish = *request;
	int err;

	if (wish.sort && view->nested)
		return err_set(-EINVAL,
			       "--sort %s: the rows of the view %s belong together and cannot "
			       "be sorted; use the view functions",
			       wish.sort, view->name);
	if (wish.min_share < 0)
		wish.min_share = view->min_share;
	err = view->run(profile, &wish, &table);
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
	table->filtered = !filter_is_empty(&request->filter);
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
