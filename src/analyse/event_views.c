// SPDX-License-Identifier: BSD-2-Clause
/* Views of marks over time: events, and what was counted in each interval. */
#include <stdlib.h>
#include <string.h>

#include "analyse/meta.h"
#include "analyse/views.h"
#include "analyse/wait_views.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum {
	E_TIME,
	E_CAUSE,
	E_MARK,
	E_TID,
	E_TOOK,
	E_TEXT,
	E_BRIEF,
	E_STACK,
	E_VALUES,
	E_COLUMNS,
};

static const struct column event_columns[] = {
	[E_TIME] = { "time", "Second", COLUMN_REAL },
	[E_CAUSE] = { "cause", "Cause", COLUMN_TEXT },
	[E_MARK] = { "mark", "Mark", COLUMN_TEXT, .elastic = true },
	[E_TID] = { "tid", "Thread", COLUMN_INTEGER },
	[E_TOOK] = { "took_ns", "Took, ns", COLUMN_COUNT, .optional = true },
	[E_TEXT] = { "text", "Text", COLUMN_TEXT, .elastic = true },
	[E_BRIEF] = { "called", "Called by", COLUMN_TEXT, COLUMN_PEOPLE, .elastic = true },
	[E_STACK] = { "stack", "", COLUMN_TEXT, COLUMN_DATA },
	[E_VALUES] = { "values", "", COLUMN_TEXT, COLUMN_DATA },
};

struct events_view {
	const struct profile *profile;
	struct forest *forest;
	struct functions functions;
	size_t value; /* of the next event: they are in the same order */
};

/* Behind the frame of the mark itself. */
static const char *brief_text(struct events_view *view, struct table *table, uint32_t stack)
{
	struct strbuf text = {};

	stack = view->profile->stacks[stack].parent;
	if (stack)
		stack_brief_put(view->forest, &view->functions, stack, &text);
	return text.text ? table_own(table, text.text) : "";
}

static const char *stack_text(struct events_view *view, struct table *table, uint32_t stack)
{
	struct strbuf text = {};

	stack_whole_put(view->forest, &view->functions, stack, &text);
	return text.text ? table_own(table, text.text) : "";
}

static bool is_earlier(const struct profile_mark_event_value *value,
		       const struct profile_mark_event *event)
{
	return value->recording != event->recording ? value->recording < event->recording
						    : value->number < event->number;
}

/* "rdi=0x10, rsi=0x1"; of marks, "work=100". */
static const char *values_text(struct events_view *view, struct table *table,
			       const struct profile_mark_event *event, struct cell *ret_took)
{
	const struct profile *profile = view->profile;
	struct strbuf text = {};

	for (; view->value < profile->mark_event_value_count; view->value++) {
		const struct profile_mark_event_value *value =
			&profile->mark_event_values[view->value];

		if (is_earlier(value, event))
			continue;
		if (value->recording != event->recording || value->number != event->number)
			break;
		if (event->mark && !strcmp(value->name, "took_ns")) {
			*ret_took = cell_number(value->value);
			continue;
		}
		strbuf_printf(&text, event->mark ? "%s%s=0x%llx" : "%s%s=%llu",
			      text.length ? ", " : "", value->name,
			      (unsigned long long)value->value);
	}
	return text.text ? table_own(table, text.text) : "";
}

static void event_add(struct events_view *view, struct table *table,
		      const struct profile_mark_event *event)
{
	const struct profile *profile = view->profile;
	struct cell *row = table_row_add(table);

	row[E_TIME] = cell_real((double)event->time / 1e9);
	row[E_CAUSE] = cell_text(event->cause);
	row[E_MARK] = cell_text_or_unset(event->mark ? profile->marks[event->mark].text : NULL);
	if (event->thread)
		row[E_TID] = cell_integer(profile->threads[event->thread].tid);
	row[E_TEXT] = cell_text_or_unset(event->text);
	if (event->stack) {
		row[E_BRIEF] = cell_text_or_unset(brief_text(view, table, event->stack));
		row[E_STACK] = cell_text(stack_text(view, table, event->stack));
	}
	row[E_VALUES] = cell_text_or_unset(values_text(view, table, event, &row[E_TOOK]));
}

static void totals_set(struct table *table, const struct profile *profile)
{
	const struct profile_recording *marks = profile_recording(profile, RECORDING_MARKS);

	table->totals = (struct totals){ .seen = marks->seen,
					 .kept = marks->kept,
					 .selected = marks->kept,
					 .losses = marks->losses,
					 .loss_count = marks->loss_count };
}

/* The totals of events. Lost events are a row of the profile's table, but not of the view. */
static void events_total(struct table *table, const struct profile *profile, size_t kept)
{
	struct profile_named_count *loss = table_alloc(table, sizeof(*loss));
	size_t at = 0;

	*loss = (struct profile_named_count){ "events", "events that were too many at once", 0 };
	for (size_t i = 0; i < profile->mark_event_count; i++) {
		const struct profile_mark_event *event = &profile->mark_events[i];

		if (strcmp(event->cause, "lost") != 0)
			continue;
		while (at < profile->mark_event_value_count &&
		       is_earlier(&profile->mark_event_values[at], event))
			at++;
		if (at < profile->mark_event_value_count)
			loss->count += profile->mark_event_values[at].value;
	}
	table->totals = (struct totals){ .seen = kept + loss->count,
					 .kept = kept,
					 .selected = table->row_count,
					 .losses = loss,
					 .loss_count = loss->count != 0 };
}

int view_events(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	static const struct filter none;
	struct events_view view = { .profile = profile };
	struct table *table = table_create("events", event_columns, E_COLUMNS);
	size_t kept = 0;

	view.forest = forest_create(profile, &none, FOREST_CODE_SAMPLES);
	functions_init(&view.functions, view.forest, NULL);
	for (size_t i = 0; i < profile->mark_event_count; i++) {
		const struct profile_mark_event *event = &profile->mark_events[i];

		if (!strcmp(event->cause, "lost"))
			continue;
		kept++;
		if (!event->thread || filter_thread(&request->filter, profile, event->thread))
			event_add(&view, table, event);
	}
	functions_deinit(&view.functions);
	forest_destroy(view.forest);
	table->filtered = !filter_is_empty(&request->filter);
	events_total(table, profile, kept);
	if (!table->row_count)
		table->empty = "nothing raised an event";
	*ret = table;
	return 0;
}

/* --- Over time -------------------------------------------------------------------------------- */

enum {
	S_TIME,
	S_VISITS,
	S_INSTRUCTIONS,
	S_RATE,
	S_READS,
	S_WRITES,
	S_MEAN,
	S_EACH,
	S_SLOWER,
	S_MARK,
	S_SPENT,
	S_COLUMNS
};

static const struct column sample_columns[] = {
	[S_TIME] = { "time", "Second", COLUMN_REAL },
	[S_VISITS] = { "visits", "Visits", COLUMN_COUNT },
	[S_INSTRUCTIONS] = { "instructions", "Instructions", COLUMN_COUNT },
	[S_RATE] = { "visits_per_second", "Visits/s", COLUMN_REAL, .spare = 1 },
	[S_READS] = { "reads", "Reads", COLUMN_COUNT, .optional = true },
	[S_WRITES] = { "writes", "Writes", COLUMN_COUNT, .optional = true },
	[S_MEAN] = { "mean_ns", "Mean, ns", COLUMN_REAL, .optional = true, .spare = 2 },
	[S_EACH] = { "ns_per_instruction", "ns/insn", COLUMN_REAL, .optional = true, .spare = 3 },
	[S_SLOWER] = { "slower", "Slower", COLUMN_COUNT, .optional = true },
	[S_MARK] = { "mark", "Mark", COLUMN_TEXT, .elastic = true },
	[S_SPENT] = { "time_ns", "", COLUMN_COUNT, COLUMN_DATA },
};

static int sample_compare(const void *a, const void *b)
{
	const struct profile_mark_sample *left = *(const void *const *)a;
	const struct profile_mark_sample *right = *(const void *const *)b;

	if (left->time != right->time)
		return left->time < right->time ? -1 : 1;
	return left->mark < right->mark ? -1 : left->mark > right->mark;
}

static void sample_add(struct table *table, const struct profile *profile,
		       const struct profile_mark_sample *sample, uint64_t before)
{
	struct cell *row = table_row_add(table);

	row[S_TIME] = cell_real((double)sample->time / 1e9);
	if (profile->marks[sample->mark].kind == MARK_DATA) {
		row[S_READS] = cell_number(sample->reads);
		row[S_WRITES] = cell_number(sample->writes);
	} else {
		row[S_VISITS] = cell_number(sample->visits);
		if (!meta_by_kernel(profile))
			row[S_INSTRUCTIONS] = cell_number(sample->instructions);
	}
	if (sample->timed) {
		row[S_MEAN] = cell_real((double)sample->time_ns / (double)sample->timed);
		row[S_SLOWER] = cell_number(sample->slower);
		row[S_SPENT] = cell_number(sample->time_ns);
	}
	if (sample->timed && sample->instructions)
		row[S_EACH] = cell_real((double)sample->time_ns / (double)sample->instructions);
	if (sample->time > before)
		row[S_RATE] =
			cell_real((double)sample->visits * 1e9 / (double)(sample->time - before));
	row[S_MARK] = cell_text(profile->marks[sample->mark].text);
}

/* An interval begins where the one before it ended, of whichever mark. */
int view_marktime(const struct profile *profile, const struct view_request *request,
		  struct table **ret)
{
	struct table *table = table_create("marktime", sample_columns, S_COLUMNS);
	size_t count = profile->mark_sample_count;
	const struct profile_mark_sample **order = mem_zalloc((count + 1) * sizeof(*order));
	uint64_t time = 0, before = 0;

	for (size_t i = 0; i < count; i++)
		order[i] = &profile->mark_samples[i];
	qsort(order, count, sizeof(*order), sample_compare);
	for (size_t i = 0; i < count; i++) {
		if (order[i]->time != time) {
			before = time;
			time = order[i]->time;
		}
		sample_add(table, profile, order[i], before);
	}
	free(order);
	totals_set(table, profile);
	*ret = table;
	return 0;
}
