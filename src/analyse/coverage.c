// SPDX-License-Identifier: BSD-2-Clause
/* Coverage: the source files of what was executed, and how many of their lines were executed. */
#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/views.h"

enum { C_EXECUTED, C_LINES, C_SHARE, C_FILE, C_COLUMNS };

static const struct column coverage_columns[] = {
	[C_EXECUTED] = { "executed", "Executed", COLUMN_COUNT },
	[C_LINES] = { "lines", "Lines", COLUMN_COUNT },
	[C_SHARE] = { "share", "Share", COLUMN_SHARE },
	[C_FILE] = { "file", "File", COLUMN_TEXT, .elastic = true, .cut = CUT_PLACE },
};

/* The lines of one file from row `at` on, each once; returns the row behind them. */
static size_t file_count(const struct profile *profile, const struct filter *filter, size_t at,
			 uint64_t *ret_lines, uint64_t *ret_executed)
{
	const struct profile_source_line *first = &profile->source_lines[at], *row = first;
	uint32_t last = 0;
	bool executed = false;

	*ret_lines = *ret_executed = 0;
	for (; at < profile->source_line_count && row->file == first->file; at++, row++) {
		if (!filter_module(filter, profile, row->module))
			continue;
		if (row->line != last || !*ret_lines) {
			++*ret_lines;
			executed = false;
		}
		*ret_executed += row->count && !executed;
		executed |= row->count > 0;
		last = row->line;
	}
	return at;
}

int view_coverage(const struct profile *profile, const struct view_request *request,
		  struct table **ret)
{
	struct table *table = table_create("coverage", coverage_columns, C_COLUMNS);
	uint64_t lines, executed;

	executed_totals_set(table, profile, &request->filter);
	for (size_t at = 0; at < profile->source_line_count;) {
		const char *file = name_of_file(profile, profile->source_lines[at].file);
		struct cell *row;

		at = file_count(profile, &request->filter, at, &lines, &executed);
		if (!lines || share_of(executed, lines) < request->min_share) {
			table->omitted += lines > 0;
			continue;
		}
		row = table_row_add(table);
		row[C_LINES] = cell_number(lines);
		row[C_EXECUTED] = cell_number(executed);
		row[C_SHARE] = cell_real(share_of(executed, lines));
		row[C_FILE] = cell_text_or_unset(file);
	}
	if (!profile->source_line_count)
		table->empty =
			meta_has_tool(profile, "paths")
				? "This profile keeps paths, not which lines were not executed; "
				  "record it with 'assay trace --tool coverage -- COMMAND'."
				: "None of the executed code has line information; compile with "
				  "-g.";
	table_sort(table, C_EXECUTED);
	*ret = table;
	return 0;
}
