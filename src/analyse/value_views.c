// SPDX-License-Identifier: BSD-2-Clause
/* Flat views of values: every site, and how the runs ended that the values come from. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/meta.h"
#include "analyse/sites.h"
#include "analyse/views.h"
#include "base/mem.h"
#include "values/valuefn.h"
#include "wire/run.h"

enum {
	V_TOTAL,
	V_SHARE,
	V_ITEM,
	V_WHERE,
	V_FROM,
	V_OWNER,
	V_RANGE,
	V_LIST,
	V_VALUES,
	V_RUNS,
	V_DISTINCT,
	V_WIDTH,
	V_PLACE,
	V_CALLER = V_PLACE + PLACE_COLUMNS,
	V_MIN = V_CALLER + CALLER_COLUMNS,
	V_MAX,
	V_MEAN,
	V_STDDEV,
	V_KIND,
	V_PROBABILITY,
	V_COLUMNS
};

static const struct column value_columns[] = {
	[V_TOTAL] = { "total", "Received", COLUMN_COUNT },
	[V_SHARE] = { "share", "Runs%", COLUMN_SHARE, .spare = 1 },
	[V_ITEM] = { "item", "Item", COLUMN_TEXT },
	[V_WHERE] = { "where", "Where", COLUMN_TEXT, COLUMN_PEOPLE, true, .cut = CUT_NAME,
		      .comfort = 18 },
	[V_FROM] = { "from", "Called from", COLUMN_TEXT, COLUMN_PEOPLE, true, true,
		     .cut = CUT_NAME },
	[V_OWNER] = { "owner", "UID", COLUMN_INTEGER, .spare = 2 },
	[V_RANGE] = { "range", "Range", COLUMN_TEXT, COLUMN_PEOPLE, true, true, .spare = 3 },
	[V_LIST] = { "list", "List", COLUMN_TEXT, COLUMN_PEOPLE, true, true, .spare = 4 },
	[V_VALUES] = { "values", "Values", COLUMN_VALUES, .elastic = true },
	[V_RUNS] = { "runs", "", COLUMN_COUNT, COLUMN_DATA },
	[V_DISTINCT] = { "distinct", "", COLUMN_COUNT, COLUMN_DATA },
	[V_WIDTH] = { "width", "", COLUMN_INTEGER, COLUMN_DATA },
	[V_PLACE] = PLACE_COLUMN_LIST,
	[V_CALLER] = CALLER_COLUMN_LIST,
	[V_MIN] = { "min", "", COLUMN_INTEGER, COLUMN_DATA },
	[V_MAX] = { "max", "", COLUMN_INTEGER, COLUMN_DATA },
	[V_MEAN] = { "mean", "", COLUMN_REAL, COLUMN_DATA },
	[V_STDDEV] = { "stddev", "", COLUMN_REAL, COLUMN_DATA },
	[V_KIND] = { "hotlist", "", COLUMN_TEXT, COLUMN_DATA },
	[V_PROBABILITY] = { "probability", "", COLUMN_REAL, COLUMN_DATA },
};

/* The mean of larger numbers is not shown: they are mostly addresses. */
enum { RANGE_MAX = 1000000 };

/* As many as make four digits of a number that is not much smaller than 1. */
static int decimals(double number)
{
	number = fabs(number);
	return number < 10 ? 3 : number < 100 ? 2 : number < 1000 ? 1 : 0;
}

static char *numbers_text(const struct moments *moments, double deviation)
{
	if (moments->min == moments->max || moments->min < -RANGE_MAX || moments->max > RANGE_MAX)
		return NULL;
	return mem_printf("%" PRId64 "..%" PRId64 ", mean %.*f, sd %.*f", moments->min,
			  moments->max, decimals(moments->mean), moments->mean, decimals(deviation),
			  deviation);
}

/* Of buckets: from the least value of the first to the greatest of the last. */
static char *buckets_text(const struct moments *moments)
{
	uint64_t low, high, unused;

	if (moments->min < 0 || moments->max > 64 || moments->min == moments->max)
		return NULL;
	valuefn_bucket((unsigned)moments->min, &low, &unused);
	valuefn_bucket((unsigned)moments->max, &unused, &high);
	return mem_printf(high <= RANGE_MAX ? "%" PRIu64 "..%" PRIu64 : "%" PRIu64 "..0x%" PRIx64,
			  low, high);
}

/* For people, and only of what can be added up; NULL: nothing. */
static char *range_text(const struct moments *moments, double deviation, enum value_kind kind)
{
	switch (kind) {
	case VALUE_BUCKET:
		return buckets_text(moments);
	case VALUE_PATH:
	case VALUE_POINTER:
	case VALUE_FLOAT:
		return NULL;
	default:
		return numbers_text(moments, deviation);
	}
}

static void moments_fill(struct table *table, struct cell *row, const struct moments *moments,
			 enum value_kind kind)
{
	double deviation = sqrt(fmax(0, moments_variance(moments)));
	char *range;

	if (!moments->count)
		return;
	row[V_MIN] = cell_integer(moments->min);
	row[V_MAX] = cell_integer(moments->max);
	row[V_MEAN] = cell_real(moments->mean);
	row[V_STDDEV] = cell_real(deviation);
	range = range_text(moments, deviation, kind);
	if (range)
		row[V_RANGE] = cell_text(table_own(table, range));
}

/*
 * The kind of list, where it is not the usual one, with p and where its most common value was first
 * counted.
 */
static void list_fill(struct table *table, struct cell *row, const struct site *site)
{
	const char *kind = hotlist_kind_text(site->list.kind);
	struct hotlist_value value;

	row[V_KIND] = cell_text(kind);
	row[V_PROBABILITY] = cell_real(site->list.probability);
	if (site->list.kind == HOTLIST_SPACE_SAVING || !site->list.count)
		return;
	hotlist_get(&site->list, 0, &value);
	row[V_LIST] = cell_text(table_own(table, mem_printf("%s, p %.3g, first %" PRIu64, kind,
							    site->list.probability, value.first)));
}

static void value_row_add(struct sites *sites, const struct site *site)
{
	const struct profile *profile = sites->profile;
	struct table *table = sites->table;
	struct cell *row = table_row_add(table);
	struct instruction instruction;
	bool code = code_cache_instruction(&sites->code, site->location, &instruction);

	row[V_TOTAL] = cell_number(site->total);
	row[V_SHARE] = cell_real(site_runs_share(sites, site));
	row[V_ITEM] = cell_text(sites->items[site->item].text);
	if (site->caller) {
		row[V_FROM] = cell_text(site_place_text(table, profile, site->caller));
		site_caller_fill(&row[V_CALLER], profile, site->caller);
	}
	if (site->owner >= 0)
		row[V_OWNER] = cell_integer(site->owner);
	row[V_RUNS] = cell_number(site->runs);
	row[V_DISTINCT] = cell_number(site->list.count);
	row[V_WIDTH] = cell_integer(site->width);
	site_place_fill(&row[V_PLACE], profile, site->location);
	row[V_WHERE] =
		cell_text(view_titled_text(table, site_place_text(table, profile, site->location),
					   row[V_PLACE + PLACE_MODULE].text));
	list_fill(table, row, site);
	moments_fill(table, row, &site->moments,
		     site_type(sites, site, code ? &instruction : NULL).kind);
	row[V_VALUES] = site_cell(sites, site, code ? &instruction : NULL,
				  site_register(sites, site, code ? &instruction : NULL));
}

/*
 * The lists are read twice: first all of them, to choose the rows, then those of the rows shown.
 * Making a row takes longer than reading a list, because its code has to be found.
 */
struct value_note {
	uint64_t total;
	size_t place; /* for sites_seek() */
};

static int value_note_order(const void *left, const void *right)
{
	const struct value_note *a = left, *b = right;

	if (a->total != b->total)
		return a->total < b->total ? 1 : -1;
	return (a->place > b->place) - (a->place < b->place);
}

static void value_rows_add(struct sites *sites)
{
	const struct view_request *request = sites->request;
	struct table *table = sites->table;
	ARRAY(struct value_note) notes = {};
	size_t place = sites_tell(sites), limit, unreadable;
	struct site site;

	for (; sites_next(sites, SITE_ROW, &site); place = sites_tell(sites)) {
		if (site_runs_share(sites, &site) < request->min_share)
			table->omitted++;
		else
			*array_push(&notes) = (struct value_note){ site.total, place };
		site_deinit(&site);
	}
	if (notes.count)
		qsort(notes.items, notes.count, sizeof(*notes.items), value_note_order);
	limit = request->limit && !request->sort && request->limit < notes.count ? request->limit
										 : notes.count;
	table->omitted += notes.count - limit;
	unreadable = table->unreadable;
	for (size_t i = 0; i < limit; i++) {
		sites_seek(sites, notes.items[i].place);
		if (!sites_next(sites, SITE_ROW, &site))
			continue;
		value_row_add(sites, &site);
		site_deinit(&site);
	}
	table->unreadable = unreadable;
	array_deinit(&notes);
}

int view_values(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	struct table *table = table_create("values", value_columns, V_COLUMNS);
	struct sites sites;

	table_totals_set(table, profile, profile->kept);
	table_runs_set(table, profile);
	sites_init(&sites, profile, request, table);
	value_rows_add(&sites);
	sites_deinit(&sites);
	*ret = table;
	return 0;
}

enum {
	R_COUNT,
	R_SHARE,
	R_STEP_SHARE,
	R_KIND,
	R_REASON,
	R_MNEMONIC,
	R_WHERE,
	R_TEXT,
	R_PLACE,
	R_COLUMNS = R_PLACE + PLACE_COLUMNS
};

static const struct column run_columns[] = {
	[R_COUNT] = { "count", "Count", COLUMN_COUNT },
	[R_SHARE] = { "share", "Runs%", COLUMN_SHARE },
	[R_STEP_SHARE] = { "step_share", "Steps%", COLUMN_SHARE, .spare = 1 },
	[R_KIND] = { "kind", "What", COLUMN_TEXT },
	[R_REASON] = { "reason", "Reason", COLUMN_TEXT },
	[R_MNEMONIC] = { "mnemonic", "Instruction", COLUMN_TEXT },
	[R_WHERE] = { "where", "Where", COLUMN_TEXT, COLUMN_PEOPLE, true },
	[R_TEXT] = { "text", "Meaning", COLUMN_TEXT, .elastic = true, .comfort = 24 },
	[R_PLACE] = PLACE_COLUMN_LIST,
};

static struct cell *run_row_add(struct table *table, const char *kind, const char *text,
				uint64_t count)
{
	struct cell *row = table_row_add(table);

	row[R_COUNT] = cell_number(count);
	row[R_KIND] = cell_text(kind);
	row[R_TEXT] = cell_text_or_unset(text);
	return row;
}

static void run_share_row_add(struct table *table, const char *kind, const char *reason,
			      const char *text, uint64_t count)
{
	struct cell *row = run_row_add(table, kind, text, count);

	row[R_SHARE] = cell_real(share_of(count, table->runs.seen));
	row[R_REASON] = cell_text_or_unset(reason);
}

static void run_ends_add(struct table *table, const struct profile *profile, uint64_t steps)
{
	for (size_t i = 0; i < profile->run_end_count; i++) {
		const struct profile_run_end *end = &profile->run_ends[i];

		run_share_row_add(table, "end", end->reason, end->text, end->count);
		table_row(table, table->row_count - 1)[R_STEP_SHARE] =
			cell_real(share_of(end->count, steps));
		table_row(table, table->row_count - 1)[R_MNEMONIC] =
			cell_text_or_unset(end->mnemonic);
	}
}

/* Those with a share of the runs that is worth a line. */
static void run_places_add(struct table *table, const struct profile *profile,
			   const struct view_request *request)
{
	struct code_cache code;

	code_cache_init(&code, profile, &request->code);
	for (size_t i = 0; i < profile->run_place_count; i++) {
		const struct profile_run_place *place = &profile->run_places[i];
		struct instruction instruction;
		struct cell *row;

		if (share_of(place->count, table->runs.seen) < request->min_share) {
			table->omitted++;
			continue;
		}
		run_share_row_add(table, "place", place->reason, NULL, place->count);
		row = table_row(table, table->row_count - 1);
		site_place_fill(&row[R_PLACE], profile, place->location);
		row[R_WHERE] = cell_text(
			view_titled_text(table, site_place_text(table, profile, place->location),
					 row[R_PLACE + PLACE_MODULE].text));
		if (code_cache_instruction(&code, place->location, &instruction))
			row[R_MNEMONIC] =
				cell_text(ZydisMnemonicGetString(instruction.decoded.mnemonic));
	}
	code_cache_deinit(&code);
}

/* Loads whose value is not known, by what it was that was not read. */
static void unread_rows_add(struct table *table, const struct profile *profile)
{
	static const struct {
		const char *metric, *reason, *text;
	} rows[] = {
#define X(name, json, text) { METRIC_UNREAD json, json, text },
		RUN_UNREADS(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t count = profile_metric(profile, RECORDING_VALUES, rows[i].metric);

		if (!count)
			continue;
		run_row_add(table, "unread", rows[i].text, count);
		table_row(table, table->row_count - 1)[R_REASON] = cell_text(rows[i].reason);
	}
}

int view_runs(const struct profile *profile, const struct view_request *request, struct table **ret)
{
	struct table *table = table_create("runs", run_columns, R_COLUMNS);
	uint64_t steps = profile_metric(profile, RECORDING_VALUES, METRIC_STEPS);

	table_totals_set(table, profile, profile->kept);
	table_runs_set(table, profile);
	run_share_row_add(table, "seen", NULL, "runs begun", table->runs.seen);
	run_share_row_add(table, "kept", NULL, "runs that gave values", table->runs.kept);
	for (size_t i = 0; i < table->runs.loss_count; i++)
		run_share_row_add(table, "lost", table->runs.losses[i].name,
				  table->runs.losses[i].text, table->runs.losses[i].count);
	run_row_add(table, "steps", "instructions interpreted", steps);
	run_row_add(table, "values_seen", "values that came by",
		    profile_metric(profile, RECORDING_VALUES, METRIC_VALUES_SEEN));
	run_row_add(table, "values_kept", "values in this profile",
		    profile_metric(profile, RECORDING_VALUES, METRIC_VALUES_KEPT));
	unread_rows_add(table, profile);
	run_ends_add(table, profile, steps);
	run_places_add(table, profile, request);
	*ret = table;
	return 0;
}
