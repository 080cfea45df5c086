/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The values of a profile, site by site: lists that are read, chosen and merged, and what a view
 * shows of them.
 *
 *	sites_init(&sites, profile, request, table);
 *	while (sites_next(&sites, group, &site))	adds up rows that group does not split
 *		...
 *	sites_deinit(&sites);
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/instruction.h"
#include "analyse/table.h"
#include "analyse/value_text.h"
#include "analyse/views.h"
#include "values/selection.h"
#include "values/hotlist.h"
#include "values/valuefn.h"

/* An item of the profile, understood. */
struct site_item {
	const char *text;
	bool known; /* otherwise only the text is valid */
	struct selection selection; /* one item, if known */
	enum selection_class class;
};

/* One list, or several of them merged. */
struct site {
	uint32_t location;
	uint32_t caller; /* 0: none, or several */
	uint32_t item;
	int64_t owner; /* -1: the kernel; of several, the first */
	unsigned width;
	uint64_t total;
	uint64_t runs; /* of a merged one the sum: a run that met several sites counts for each */
	double skew; /* of struct hotlist_sampling */
	struct hotlist list;
	struct moments moments; /* count 0: none */
};

/* What tells two rows at the same location and of the same item apart. */
enum site_group {
	SITE_ALL, /* nothing: callers and owners are merged */
	SITE_CALLER, /* the caller */
	SITE_ROW, /* everything */
};

struct sites {
	const struct profile *profile;
	const struct view_request *request;
	struct table *table; /* counts what could not be read */
	struct site_item *items; /* by item of the profile */
	bool *wanted; /* by item: the request wants it */
	uint32_t function; /* only sites in this symbol's code; 0: all */
	struct code_cache code;
	struct disassembler disassembler;
	double skew; /* of all sites */
	size_t next; /* row of the profile */
};

void sites_init(struct sites *sites, const struct profile *profile,
		const struct view_request *request, struct table *table);
void sites_deinit(struct sites *sites);

/* -EINVAL: the profile has no item that one of the patterns means; option: what the user wrote. */
int sites_items_check(const struct profile *profile, const struct option_texts *items,
		      const char *option);

/*
 * The next site that the request wants, by location, item and caller; false at the end. It is the
 * caller's.
 */
bool sites_next(struct sites *sites, enum site_group group, struct site *ret);
void site_deinit(struct site *site);
/* The position of sites_next(); after sites_seek() to it, sites_next() returns the same site. */
size_t sites_tell(const struct sites *sites);
void sites_seek(struct sites *sites, size_t place);

/*
 * Adds a site of the same item, which may be at another location. False: they cannot be added up.
 */
bool site_merge(struct site *site, const struct site *from);
/*
 * The share of all runs that gave values here. Where call sites are merged it is an upper bound,
 * because a run that met several of them is known only by the sum.
 */
double site_runs_share(const struct sites *sites, const struct site *site);

/* The range of the most common value; all 0 without values. */
struct hotlist_range site_top(const struct site *site);
/* Whether it shows one plain source, such as result or arg0; says which. */
bool site_source(const struct sites *sites, const struct site *site, enum selection_source *ret);
/* The order in which items describe an instruction best: the lowest number first. */
unsigned site_preference(const struct sites *sites, uint32_t item);

/* instruction: the one at the site, or NULL. The label is a register or the item. */
struct cell site_cell(struct sites *sites, const struct site *site,
		      const struct instruction *instruction, const char *label);
/* What its values are, of tuples the first words. */
struct value_type site_type(const struct sites *sites, const struct site *site,
			    const struct instruction *instruction);
/* "eax", "operand1 eax", "taken"; owned by the table. */
const char *site_label(struct sites *sites, const struct site *site,
		       const struct instruction *instruction);
/* The register that holds the values, or NULL. */
const char *site_register(struct sites *sites, const struct site *site,
			  const struct instruction *instruction);

/*
 * Columns that views of values have in common, for programs. The lists go after a designator of the
 * first one.
 */
enum { PLACE_SYMBOL, PLACE_MODULE, PLACE_FILE, PLACE_LINE, PLACE_ADDRESS, PLACE_COLUMNS };
enum { CALLER_ADDRESS, CALLER_SYMBOL, CALLER_FILE, CALLER_LINE, CALLER_COLUMNS };

// clang-format off
#define PLACE_COLUMN_LIST                                                                          \
	{ "symbol", "", COLUMN_TEXT, COLUMN_DATA },                                                \
	{ "module", "", COLUMN_TEXT, COLUMN_DATA },                                                \
	{ "file", "", COLUMN_TEXT, COLUMN_DATA },                                                  \
	{ "line", "", COLUMN_INTEGER, COLUMN_DATA },                                               \
	{ "address", "", COLUMN_ADDRESS, COLUMN_DATA }
#define CALLER_COLUMN_LIST                                                                         \
	{ "caller", "", COLUMN_ADDRESS, COLUMN_DATA },                                             \
	{ "caller_symbol", "", COLUMN_TEXT, COLUMN_DATA },                                         \
	{ "caller_file", "", COLUMN_TEXT, COLUMN_DATA },                                           \
	{ "caller_line", "", COLUMN_INTEGER, COLUMN_DATA }
// clang-format on

/* cells: those of the first column. */
void site_place_fill(struct cell *cells, const struct profile *profile, uint32_t location);
void site_caller_fill(struct cell *cells, const struct profile *profile, uint32_t location);
/* "file.c:12" of cells that are filled, owned by the table; unset without a file. */
struct cell site_line_cell(struct table *table, const struct cell *cells);

/* "numchanges+0x54" for people, without parameters of C++ functions; owned by the table. */
const char *site_place_text(struct table *table, const struct profile *profile, uint32_t location);

/* NULL: the profile has none. */
const struct profile_parameter *parameter_find(const struct profile *profile, uint32_t symbol,
					       unsigned argument);
/* "const double *factors", owned by the table. */
const char *parameter_text(struct table *table, const struct profile_parameter *parameter);
