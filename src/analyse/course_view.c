// SPDX-License-Identifier: BSD-2-Clause
/* The course of each thread as a table: its stretches, with a bar that tells where they lie. */
#include <stdio.h>

#include "analyse/course.h"
#include "analyse/steps.h"
#include "analyse/views.h"

enum { RESOLUTION = 1024, RESOLUTION_PEOPLE = 32 };

enum {
	C_THREAD,
	C_FROM,
	C_TO,
	C_PART,
	C_WHEN,
	C_WHAT,
	C_TRIPS,
	C_HOT_SHARE,
	C_PATH,
	C_WHERE,
	C_LEVEL = C_WHERE + STEP_COLUMNS,
	C_CYCLE,
	C_BEGIN,
	C_END,
	C_EACH,
	C_HOT_INSTRUCTIONS,
	C_PID,
	C_TID,
	C_COLUMNS
};

static const struct column course_columns[] = {
	[C_THREAD] = { "thread", "TID", COLUMN_INTEGER, COLUMN_PEOPLE },
	[C_FROM] = { "from", "From", COLUMN_COUNT, COLUMN_PEOPLE },
	[C_TO] = { "to", "To", COLUMN_COUNT, COLUMN_PEOPLE, .spare = 3 },
	[C_PART] = { "part", "Share", COLUMN_SHARE },
	[C_WHEN] = { "when", "When", COLUMN_TEXT, COLUMN_PEOPLE, .spare = 2 },
	[C_WHAT] = { "what", "What", COLUMN_TEXT },
	[C_TRIPS] = { "trips", "Trips", COLUMN_COUNT },
	[C_HOT_SHARE] = { "hot_share", "Hot", COLUMN_SHARE, .spare = 1 },
	[C_PATH] = { "path", "Path", COLUMN_INTEGER },
	[C_WHERE] = STEP_COLUMN_LIST,
	[C_LEVEL] = { "level", "", COLUMN_INTEGER, COLUMN_DATA },
	[C_CYCLE] = { "cycle", "", COLUMN_INTEGER, COLUMN_DATA },
	[C_BEGIN] = { "begin", "", COLUMN_COUNT, COLUMN_DATA },
	[C_END] = { "end", "", COLUMN_COUNT, COLUMN_DATA },
	[C_EACH] = { "each", "", COLUMN_COUNT, COLUMN_DATA },
	[C_HOT_INSTRUCTIONS] = { "hot_instructions", "", COLUMN_COUNT, COLUMN_DATA },
	[C_PID] = { "pid", "", COLUMN_INTEGER, COLUMN_DATA },
	[C_TID] = { "tid", "", COLUMN_INTEGER, COLUMN_DATA },
};

struct view_course {
	const struct profile *profile;
	const struct view_request *request;
	struct course course;
	struct table *table;
};

static const char *what_of(const struct course_stretch *stretch)
{
	if (!stretch->cycle)
		return stretch->level == COURSE_STRATA ? "various strata" : "various paths";
	return stretch->level == COURSE_STRATA ? "stratum" : "path";
}

static void hot_fill(const struct view_course *view, const struct course_stretch *stretch,
		     struct cell *row)
{
	const struct course *course = &view->course;
	const struct course_path *path = &course->paths.items[stretch->hot];
	const struct course_step *first = &course->steps.items[path->first];

	row[C_PATH] = cell_integer((int64_t)path->number);
	row[C_HOT_INSTRUCTIONS] = cell_number(stretch->hot_instructions);
	row[C_HOT_SHARE] =
		cell_real(share_of(stretch->hot_instructions, stretch->end - stretch->begin));
	if (path->count && first->location)
		step_fill(view->table, view->profile,
			  &(struct step){ .count = 1,
					  .instructions = first->instructions,
					  .location = first->location,
					  .line_low = first->line_low,
					  .line_high = first->line_high },
			  &row[C_WHERE]);
}

static void stretch_fill(const struct view_course *view, const struct course_thread *thread,
			 const struct course_stretch *stretch, struct cell *row)
{
	const struct profile_thread *of = &view->profile->threads[thread->thread];
	uint64_t length = stretch->end - stretch->begin;

	row[C_THREAD] = row[C_TID] = cell_integer(of->tid);
	row[C_PID] = cell_integer(view->profile->processes[of->process].pid);
	row[C_FROM] = row[C_BEGIN] = cell_number(stretch->begin);
	row[C_TO] = row[C_END] = cell_number(stretch->end);
	row[C_PART] = cell_real(share_of(length, thread->instructions));
	row[C_WHEN] = cell_text(
		view_when_text(view->table, stretch->begin, stretch->end, thread->instructions));
	row[C_WHAT] = cell_text(what_of(stretch));
	row[C_TRIPS] = cell_number(stretch->trips);
	row[C_LEVEL] = cell_integer(stretch->level);
	if (stretch->cycle) {
		row[C_CYCLE] = cell_integer(stretch->cycle);
		row[C_EACH] = cell_number(length / stretch->trips);
	}
}

/* People read strata; the page and programs get paths as well. */
static void thread_show(const struct view_course *view, const struct course_thread *thread)
{
	for (size_t i = 0; i < thread->count; i++) {
		const struct course_stretch *stretch =
			&view->course.stretches.items[thread->first + i];
		struct cell *row;

		if (view->request->people && stretch->level != COURSE_STRATA)
			continue;
		if (share_of(stretch->end - stretch->begin, thread->instructions) <
		    view->request->min_share) {
			view->table->omitted++;
			continue;
		}
		row = table_row_add(view->table);
		stretch_fill(view, thread, stretch, row);
		hot_fill(view, stretch, row);
	}
}

int view_course(const struct profile *profile, const struct view_request *request,
		struct table **ret)
{
	AUTO(table_destroy_auto)
	struct table *table = table_create("course", course_columns, C_COLUMNS);
	struct view_course view = { .profile = profile, .request = request, .table = table };
	size_t resolution = request->people ? RESOLUTION_PEOPLE : RESOLUTION;
	int err = order_check(profile);

	resolution = request->limit ? request->limit : resolution;
	err = err ? err : course_make(profile, &request->filter, resolution, &view.course);
	if (!err) {
		order_totals_set(table, profile, 0);
		table->group_column = C_TID;
		table->omitted += view.course.omitted;
		array_each(&view.course.threads, thread) {
			table->totals.selected += thread->instructions;
			thread_show(&view, thread);
		}
		*ret = take_ptr(table);
	}
	course_deinit(&view.course);
	return err;
}
