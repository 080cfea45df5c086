// SPDX-License-Identifier: BSD-2-Clause
/*
 * What marks have counted, as assay count prints it and as it answers assay count --live.
 *
 *	in	readings of the marks; requests of the socket
 *	out	lines on standard error; JSON; orders to change marks
 *	owner	the thread that records prints; the one of the socket answers
 */
#include "cmd/count_session_private.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

enum { SHOWN = 20 };

static const uint64_t read_patience = NS_PER_S;

double session_seconds(const struct marks_reading *reading)
{
	return reading->before ? (double)(reading->time - reading->before) / NS_PER_S : 0;
}

struct row {
	const char *text;
	uint32_t number;
	enum mark_kind kind;
	bool removed;
	struct mark_sum now, grown;
};

struct rows {
	const struct marks_reading *reading;
	ARRAY(struct row) items;
};

static void row_add(void *ctx, const struct mark *mark)
{
	struct rows *rows = ctx;
	struct row row = { .text = mark->text,
			   .number = mark->number,
			   .kind = mark->kind,
			   .removed = mark->removed };

	if (mark->pattern)
		return;
	if (mark->number < rows->reading->count) {
		const struct mark_sum *before = &rows->reading->earlier[mark->number];

		row.now = rows->reading->sums[mark->number];
		row.grown.visits = row.now.visits - before->visits;
		row.grown.instructions = row.now.instructions - before->instructions;
		row.grown.timed = row.now.timed - before->timed;
		row.grown.time_ns = row.now.time_ns - before->time_ns;
	}
	*array_push(&rows->items) = row;
}

static int row_compare(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	if (left->grown.visits != right->grown.visits)
		return left->grown.visits > right->grown.visits ? -1 : 1;
	return left->number < right->number ? -1 : left->number > right->number;
}

static double per_second(uint64_t count, double seconds)
{
	return seconds > 0 ? (double)count / seconds : 0;
}

static void row_say(const struct row *row, double seconds)
{
	const struct mark_sum *now = &row->now;

	if (row->kind == MARK_DATA)
		log_info("%10llu reads  %9llu writes  %14s  %s", (unsigned long long)now->reads,
			 (unsigned long long)now->writes, "", row->text);
	else if (now->p50)
		log_info("%16llu  %16llu  %14.1f  %s: p50 %llu ns, p99 %llu ns",
			 (unsigned long long)now->visits, (unsigned long long)now->instructions,
			 per_second(row->grown.visits, seconds), row->text,
			 (unsigned long long)now->p50, (unsigned long long)now->p99);
	else
		log_info("%16llu  %16llu  %14.1f  %s", (unsigned long long)now->visits,
			 (unsigned long long)now->instructions,
			 per_second(row->grown.visits, seconds), row->text);
}

void session_print(struct session *session, const struct marks_reading *reading)
{
	struct rows rows = { .reading = reading };
	double seconds = session_seconds(reading);

	marks_each(session->given.marks, 1, row_add, &rows);
	if (rows.items.count)
		qsort(rows.items.items, rows.items.count, sizeof(struct row), row_compare);
	log_info("%16s  %16s  %14s  %s", "visits", "instructions", "visits/s", "mark");
	for (size_t i = 0; i < rows.items.count && i < SHOWN; i++) {
		const struct row *row = &rows.items.items[i];

		row_say(row, seconds);
	}
	array_deinit(&rows.items);
}

/* --- The socket ------------------------------------------------------------------------------- */

static char *text_of(json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);

	json_decref(object);
	return text ? text : mem_strdup("{\"assay\":1,\"error\":\"a name is not text\"}");
}

static char *failure_answer(void)
{
	return text_of(json_pack("{s:i, s:s}", "assay", 1, "error", err_text()));
}

static json_t *row_json(const struct row *row, double seconds)
{
	const struct mark_sum *now = &row->now;
	json_t *object = json_pack("{s:s%, s:i, s:b, s:I, s:I, s:f, s:f}", "mark", row->text,
				   strlen(row->text), "number", (int)row->number, "counting",
				   !row->removed, "visits", (json_int_t)now->visits, "instructions",
				   (json_int_t)now->instructions, "visits_per_second",
				   per_second(row->grown.visits, seconds),
				   "instructions_per_second",
				   per_second(row->grown.instructions, seconds));

	if (row->kind == MARK_DATA)
		json_object_update_new(object,
				       json_pack("{s:I, s:I}", "reads", (json_int_t)now->reads,
						 "writes", (json_int_t)now->writes));
	if (now->timed)
		json_object_update_new(
			object,
			json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "timed",
				  (json_int_t)now->timed, "time_ns", (json_int_t)now->time_ns,
				  "slower", (json_int_t)now->slower, "p50_ns", (json_int_t)now->p50,
				  "p90_ns", (json_int_t)now->p90, "p99_ns", (json_int_t)now->p99,
				  "p999_ns", (json_int_t)now->p999));
	return object;
}

static char *read_answer(struct session *session)
{
	struct marks_reading reading;
	struct rows rows = { .reading = &reading };
	json_t *list = json_array();
	double seconds;

	marks_live_read(session->given.live, true, read_patience, &reading);
	seconds = session_seconds(&reading);
	marks_each(session->given.marks, 1, row_add, &rows);
	if (rows.items.count)
		qsort(rows.items.items, rows.items.count, sizeof(struct row), row_compare);
	array_each(&rows.items, row)
		json_array_append_new(list, row_json(row, seconds));
	array_deinit(&rows.items);
	marks_reading_deinit(&reading);
	return text_of(json_pack("{s:i, s:s, s:i, s:f, s:b, s:o}", "assay", 1, "view", "live",
				 "pid", (int)session->pid, "seconds", seconds, "native",
				 __atomic_load_n(&session->native, __ATOMIC_RELAXED), "rows",
				 list));
}

static char *change_answer(struct session *session, enum order_kind kind, const char *mark)
{
	struct order *order = session_order(session, kind, mark, 0, true);

	if (session_order_wait(session, order))
		return failure_answer();
	return text_of(json_pack("{s:i, s:b}", "assay", 1, "done", 1));
}

char *session_answer(void *ctx, const char *request)
{
	struct session *session = ctx;

	if (!strcmp(request, "read"))
		return read_answer(session);
	if (session->given.fixed) {
		err_set(-ENOTSUP, "the kernel counts in this process, and its marks cannot be "
				  "changed; begin with --by engine");
		return failure_answer();
	}
	if (!strncmp(request, "add ", 4))
		return change_answer(session, ORDER_ADD, request + 4);
	if (!strncmp(request, "remove ", 7))
		return change_answer(session, ORDER_REMOVE, request + 7);
	err_set(-EINVAL, "a request of an unknown kind");
	return failure_answer();
}
