// SPDX-License-Identifier: BSD-2-Clause
/* Waits: rows of `wait`, added up if the texts that are shown for them are the same. */
#include "analyse/wait_views.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/names.h"
#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "wire/waits.h"

#define MS_PER_NS 1e-6

const char *wait_cause_text(const char *cause)
{
	static const char *const known[][2] = {
#define X(name, json, text) { json, text },
		WAIT_CAUSES(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(cause, known[i][0]))
			return known[i][1];
	return NULL;
}

/* Texts of one stack, made when it is first met. */
struct stack_texts {
	uint32_t brief, whole; /* in the table of texts */
	bool known;
};

struct summary {
	uint32_t process; /* that waited */
	const char *cause;
	uint32_t brief, whole; /* where */
	uint32_t waker; /* text: name of the thread; "interrupt"; "" */
	uint32_t waker_brief, waker_whole;
	uint32_t object; /* text */
	int64_t waker_pid; /* 0: none */
	uint64_t count, total, longest, queued;
};

struct waits_view {
	const struct profile *profile;
	const struct view_request *request;
	struct forest *forest;
	struct functions functions;
	bool *has_code; /* by stack node; NULL: there is no such filter */
	struct strtab texts;
	struct stack_texts *stacks; /* by node */
	ARRAY(struct summary) rows;
	struct map by_key; /* text of the key to row */
	uint64_t total; /* ns of all that is selected */
	uint64_t count;
};

/* --- Texts ------------------------------------------------------------------------------------ */

static uint32_t text_take(struct waits_view *view, struct strbuf *text)
{
	uint32_t id = strtab_add(&view->texts, strbuf_text(text));

	strbuf_deinit(text);
	return id;
}

static const struct stack_texts *stack_texts(struct waits_view *view, uint32_t node)
{
	struct stack_texts *texts = &view->stacks[node];
	struct strbuf brief = {}, whole = {};

	if (texts->known)
		return texts;
	texts->known = true;
	if (node) {
		stack_brief_put(view->forest, &view->functions, node, &brief);
		stack_whole_put(view->forest, &view->functions, node, &whole);
	}
	texts->brief = text_take(view, &brief);
	texts->whole = text_take(view, &whole);
	return texts;
}

static uint32_t object_text(struct waits_view *view, const struct profile_wait *wait)
{
	const struct profile *profile = view->profile;
	uint32_t symbol = wait->place ? location_function(profile, wait->place) : 0;
	uint64_t offset =
		symbol ? profile->locations[wait->place].address - profile->symbols[symbol].address
		       : 0;
	struct strbuf text = {};

	if (symbol && offset)
		strbuf_printf(&text, "%s+%#llx", name_of_symbol(profile, symbol),
			      (unsigned long long)offset);
	else if (symbol)
		strbuf_puts(&text, name_of_symbol(profile, symbol));
	else if (wait->object)
		strbuf_printf(&text, "%#llx", (unsigned long long)wait->object);
	return text_take(view, &text);
}

static void waker_fill(struct waits_view *view, const struct profile_wait *wait,
		       struct summary *row)
{
	const struct profile *profile = view->profile;
	const struct profile_thread *waker = &profile->threads[wait->waker];
	const struct stack_texts *from = stack_texts(view, wait->waker_stack);
	bool interrupt = wait->waker_stack && !wait->waker;
	const char *name = interrupt ? "interrupt" : wait->waker ? waker->comm : "";

	row->waker = strtab_add(&view->texts, name ? name : "");
	row->waker_brief = from->brief;
	row->waker_whole = from->whole;
	row->waker_pid = wait->waker && !interrupt ? profile->processes[waker->process].pid : 0;
}

/* --- Adding up -------------------------------------------------------------------------------- */

static struct summary *row_find(struct waits_view *view, const struct summary *row)
{
	struct strbuf key = {};
	uint64_t *at;
	bool fresh;

	strbuf_printf(&key, "%u %s %u %u %lld %u %u", row->process, row->cause, row->whole,
		      row->waker, (long long)row->waker_pid, row->waker_whole, row->object);
	at = map_at(&view->by_key, text_take(view, &key), &fresh);
	if (fresh) {
		*at = view->rows.count;
		*array_push(&view->rows) = *row;
	}
	return &view->rows.items[*at];
}

static void wait_add(struct waits_view *view, const struct profile_wait *wait)
{
	const struct stack_texts *where = stack_texts(view, wait->stack);
	struct summary row = {
		.process = view->profile->threads[wait->thread].process,
		.cause = wait->cause,
		.brief = where->brief,
		.whole = where->whole,
		.object = object_text(view, wait),
	};
	struct summary *sum;

	waker_fill(view, wait, &row);
	sum = row_find(view, &row);
	sum->count += wait->count;
	sum->total += wait->total;
	sum->queued += wait->queued;
	if (wait->longest > sum->longest)
		sum->longest = wait->longest;
	view->total += wait->total;
	view->count += wait->count;
}

static void waits_add(struct waits_view *view)
{
	const struct profile *profile = view->profile;

	for (size_t i = 0; i < profile->wait_count; i++) {
		const struct profile_wait *wait = &profile->waits[i];

		if (filter_thread(&view->request->filter, profile, wait->thread) &&
		    (!view->has_code || view->has_code[wait->stack]))
			wait_add(view, wait);
	}
}

static int compare(const void *a, const void *b)
{
	const struct summary *left = a, *right = b;

	if (left->total != right->total)
		return left->total < right->total ? 1 : -1;
	return (left->whole > right->whole) - (left->whole < right->whole);
}

/* --- The table -------------------------------------------------------------------------------- */

enum {
	W_TOTAL_MS,
	W_SHARE,
	W_COUNT,
	W_LONGEST_MS,
	W_QUEUED_MS,
	W_CAUSE,
	W_PROCESS,
	W_WHERE,
	W_OBJECT,
	W_WAKER,
	W_WOKEN_FROM,
	W_TOTAL,
	W_LONGEST,
	W_QUEUED,
	W_PID,
	W_WAKER_PID,
	W_STACK,
	W_WAKER_STACK,
	W_COLUMNS
};

static const struct column wait_columns[] = {
	[W_TOTAL_MS] = { "total_ms", "Total ms", COLUMN_REAL, COLUMN_PEOPLE },
	[W_SHARE] = { "share", "Share", COLUMN_SHARE },
	[W_COUNT] = { "count", "Waits", COLUMN_COUNT },
	[W_LONGEST_MS] = { "longest_ms", "Longest", COLUMN_REAL, COLUMN_PEOPLE, .spare = 3 },
	[W_QUEUED_MS] = { "queued_ms", "Queued", COLUMN_REAL, COLUMN_PEOPLE, .spare = 4 },
	[W_CAUSE] = { "cause", "Cause", COLUMN_TEXT },
	[W_PROCESS] = { "process", "Process", COLUMN_TEXT, .elastic = true, .spare = 1,
			.comfort = 12 },
	[W_WHERE] = { "where", "Where", COLUMN_TEXT, .elastic = true, .comfort = 20 },
	[W_OBJECT] = { "object", "Object", COLUMN_TEXT, .optional = true },
	[W_WAKER] = { "waker", "Woken by", COLUMN_TEXT, .elastic = true, .spare = 2,
		      .comfort = 12 },
	[W_WOKEN_FROM] = { "woken_from", "From", COLUMN_TEXT, .elastic = true, .spare = 5 },
	[W_TOTAL] = { "total_ns", "", COLUMN_COUNT, COLUMN_DATA },
	[W_LONGEST] = { "longest_ns", "", COLUMN_COUNT, COLUMN_DATA },
	[W_QUEUED] = { "queued_ns", "", COLUMN_COUNT, COLUMN_DATA },
	[W_PID] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },
	[W_WAKER_PID] = { "waker_pid", "", COLUMN_INTEGER, COLUMN_DATA },
	[W_STACK] = { "stack", "", COLUMN_TEXT, COLUMN_DATA },
	[W_WAKER_STACK] = { "waker_stack", "", COLUMN_TEXT, COLUMN_DATA },
};

static struct cell cell_ms(uint64_t ns)
{
	return cell_real((double)ns * MS_PER_NS);
}

static struct cell cell_copy(struct table *table, const struct waits_view *view, uint32_t text)
{
	const char *from = strtab_get(&view->texts, text);

	return *from ? cell_text(table_own(table, mem_strdup(from))) : (struct cell){};
}

static void row_write(const struct waits_view *view, const struct summary *from,
		      struct table *table)
{
	const struct profile_process *process = &view->profile->processes[from->process];
	struct cell *row = table_row_add(table);

	row[W_TOTAL_MS] = cell_ms(from->total);
	row[W_SHARE] = cell_real(share_of(from->total, view->total));
	row[W_COUNT] = cell_number(from->count);
	row[W_LONGEST_MS] = cell_ms(from->longest);
	row[W_QUEUED_MS] = cell_ms(from->queued);
	row[W_CAUSE] = cell_text(from->cause);
	row[W_PROCESS] = cell_text(process->comm ? process->comm : "");
	row[W_WHERE] = cell_copy(table, view, from->brief);
	row[W_OBJECT] = cell_copy(table, view, from->object);
	row[W_WAKER] = cell_copy(table, view, from->waker);
	row[W_WOKEN_FROM] = cell_copy(table, view, from->waker_brief);
	row[W_TOTAL] = cell_number(from->total);
	row[W_LONGEST] = cell_number(from->longest);
	row[W_QUEUED] = cell_number(from->queued);
	row[W_PID] = cell_integer(process->pid);
	if (from->waker_pid)
		row[W_WAKER_PID] = cell_integer(from->waker_pid);
	row[W_STACK] = cell_copy(table, view, from->whole);
	row[W_WAKER_STACK] = cell_copy(table, view, from->waker_whole);
}

static void totals_set(struct table *table, const struct waits_view *view)
{
	const struct profile_recording *recording =
		profile_recording(view->profile, RECORDING_WAITS);

	table->totals = (struct totals){
		.seen = recording->seen,
		.kept = recording->kept,
		.selected = view->count,
		.losses = recording->losses,
		.loss_count = recording->loss_count,
	};
}

static void view_deinit(struct waits_view *view)
{
	functions_deinit(&view->functions);
	forest_destroy(view->forest);
	free(view->has_code);
	free(view->stacks);
	strtab_deinit(&view->texts);
	array_deinit(&view->rows);
	map_deinit(&view->by_key);
}

int view_waits(const struct profile *profile, const struct view_request *request,
	       struct table **ret)
{
	AUTO(view_deinit) struct waits_view view = { .profile = profile, .request = request };
	struct table *table = table_create("waits", wait_columns, W_COLUMNS);
	static const struct filter none;

	view.forest = forest_create(profile, &none, FOREST_CODE_SAMPLES);
	functions_init(&view.functions, view.forest, NULL);
	if (filter_has_code(&request->filter))
		view.has_code = forest_nodes_with_code(view.forest, &request->filter);
	view.stacks = mem_zalloc((profile->stack_count + 1) * sizeof(*view.stacks));
	waits_add(&view);
	if (view.rows.count)
		qsort(view.rows.items, view.rows.count, sizeof(*view.rows.items), compare);
	for (size_t i = 0; i < view.rows.count; i++) {
		if (share_of(view.rows.items[i].total, view.total) >= request->min_share)
			row_write(&view, &view.rows.items[i], table);
		else
			table->omitted++;
	}
	totals_set(table, &view);
	*ret = table;
	return 0;
}
