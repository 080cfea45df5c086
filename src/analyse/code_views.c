// SPDX-License-Identifier: BSD-2-Clause
/* Flat views of code: functions, lines and modules. */
#include "analyse/measure.h"
#include "analyse/names.h"

enum { F_MODULE, F_TEXT, F_SYMBOL, F_ADDRESS, F_INLINED, F_COLUMNS };

static const struct column function_columns[] = {
	[F_MODULE] = { "module", "Module", COLUMN_TEXT, .elastic = true, .comfort = 8 },
	[F_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME,
		     .comfort = 18 },
	[F_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },
	[F_ADDRESS] = { "address", "", COLUMN_ADDRESS, COLUMN_DATA },
	[F_INLINED] = { "inlined", "", COLUMN_BOOL, COLUMN_DATA },
};

static void function_fill(const struct profile *profile, const struct measured *from,
			  struct table *table, struct cell *row)
{
	row[F_MODULE] = cell_text(name_of_module(profile, from->module));
	row[F_TEXT] = cell_text(view_function_text(table, from->name, from->inlined));
	row[F_SYMBOL] = cell_text(from->name);
	row[F_INLINED] = cell_number(from->inlined);
	if (from->symbol && !from->inlined)
		row[F_ADDRESS] = cell_number(profile->symbols[from->symbol].address);
}

int view_functions(const struct profile *profile, const struct view_request *request,
		   struct table **ret)
{
	static const struct shape shape = { "functions", BY_FUNCTION, function_columns, F_COLUMNS,
					    function_fill };

	return measured_view(&shape, profile, request, ret);
}

enum { M_NAME, M_KIND, M_PATH, M_BUILD_ID, M_COLUMNS };

static const struct column module_columns[] = {
	[M_NAME] = { "module", "Module", COLUMN_TEXT, .elastic = true, .comfort = 10 },
	[M_KIND] = { "kind", "Kind", COLUMN_TEXT, .spare = 1 },
	[M_PATH] = { "path", "Path", COLUMN_TEXT, .elastic = true, .cut = CUT_PLACE },
	[M_BUILD_ID] = { "build_id", "", COLUMN_TEXT, COLUMN_DATA },
};

static const char *module_kind_name(enum module_kind kind)
{
	static const char *const names[] = {
#define X(name, text) [MODULE_##name] = text,
		MODULE_KINDS(X)
#undef X
	};

	return kind < MODULE_KIND_COUNT ? names[kind] : NAME_UNKNOWN;
}

static void module_fill(const struct profile *profile, const struct measured *from,
			struct table *table, struct cell *row)
{
	const struct profile_module *module = &profile->modules[from->module];

	row[M_NAME] = cell_text(name_of_module(profile, from->module));
	if (!from->module)
		return;
	row[M_KIND] = cell_text(module_kind_name(module->kind));
	row[M_PATH] = cell_text_or_unset(module->path);
	row[M_BUILD_ID] = cell_text_or_unset(module->build_id);
}

int view_modules(const struct profile *profile, const struct view_request *request,
		 struct table **ret)
{
	static const struct shape shape = { "modules", BY_MODULE, module_columns, M_COLUMNS,
					    module_fill };

	return measured_view(&shape, profile, request, ret);
}

enum { L_PLACE, L_MODULE, L_TEXT, L_FILE, L_LINE, L_SYMBOL, L_COLUMNS };

static const struct column line_columns[] = {
	[L_PLACE] = { "place", "Line", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_PLACE,
		      .comfort = 13 },
	[L_MODULE] = { "module", "Module", COLUMN_TEXT, .elastic = true, .comfort = 8, .spare = 1 },
	[L_TEXT] = { "function", "Function", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME,
		     .comfort = 18 },
	[L_FILE] = { "file", "", COLUMN_TEXT, COLUMN_DATA },
	[L_LINE] = { "line", "", COLUMN_INTEGER, COLUMN_DATA },
	[L_SYMBOL] = { "symbol", "", COLUMN_TEXT, COLUMN_DATA },
};

static void line_fill(const struct profile *profile, const struct measured *from,
		      struct table *table, struct cell *row)
{
	const char *file = name_of_file(profile, from->file);

	row[L_PLACE] = cell_text(view_place_text(table, file, from->line));
	row[L_MODULE] = cell_text(name_of_module(profile, from->module));
	row[L_SYMBOL] = cell_text(from->name);
	row[L_TEXT] = cell_text(view_function_text(table, from->name, from->inlined));
	row[L_FILE] = cell_text_or_unset(file);
	if (file && from->line)
		row[L_LINE] = cell_integer(from->line);
}

int view_lines(const struct profile *profile, const struct view_request *request,
	       struct table **ret)
{
	static const struct shape shape = { "lines", BY_LINE, line_columns, L_COLUMNS, line_fill };

	return measured_view(&shape, profile, request, ret);
}
