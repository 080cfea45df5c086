// SPDX-License-Identifier: BSD-2-Clause
/*
 * Rules of assay count (marks/rules.h), and what they do.
 *
 *	in	what marks have counted, at each interval
 *	out	lines, events in the profile, commands that are run, orders to change marks
 *	owner	the thread that records
 */
#include "cmd/count_session_private.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/strbuf.h"

struct looking {
	struct session *session;
	const struct marks_reading *reading;
};

static void mark_look(void *ctx, const char *mark, struct mark_sum *ret_now,
		      struct mark_sum *ret_before)
{
	const struct looking *looking = ctx;

	marks_reading_find(looking->reading, looking->session->given.marks, mark, ret_now,
			   ret_before);
}

/* What a mark has counted, by what kind of mark it is. */
static void sum_say(struct strbuf *line, const char *mark, const struct mark_sum *now,
		    const struct mark_sum *before, double seconds)
{
	if (now->reads || now->writes) {
		strbuf_printf(line, " %s read %llu times and written %llu times", mark,
			      (unsigned long long)now->reads, (unsigned long long)now->writes);
		return;
	}
	strbuf_printf(line, " %s visited %llu times, %.0f a second", mark,
		      (unsigned long long)now->visits,
		      seconds > 0 ? (double)(now->visits - before->visits) / seconds : 0);
	if (now->p50)
		strbuf_printf(line, ", half of them %llu ns or less, the slowest hundredth %llu ns",
			      (unsigned long long)now->p50, (unsigned long long)now->p99);
}

static void rule_print(struct looking *looking, const struct rule *rule, const char *text)
{
	double seconds = session_seconds(looking->reading);
	struct strbuf line = {};

	strbuf_printf(&line, "%s%s'%s' holds:", text, *text ? ": " : "", rule->text);
	for (size_t i = 0; i < rule->reads.count; i++) {
		struct mark_sum now = {}, before = {};

		mark_look(looking, rule->reads.items[i], &now, &before);
		sum_say(&line, rule->reads.items[i], &now, &before, seconds);
		strbuf_puts(&line, i + 1 < rule->reads.count ? ";" : "");
	}
	log_info("%s", strbuf_text(&line));
	strbuf_deinit(&line);
}

/* Visits; of data, accesses. */
static uint64_t counted(const struct mark_sum *sum)
{
	return sum->visits + sum->reads + sum->writes;
}

struct snapshot {
	const struct marks_reading *reading;
	ARRAY(struct marks_event_value) values;
};

static void snapshot_add(void *ctx, const struct mark *mark)
{
	struct snapshot *snapshot = ctx;
	const struct mark_sum *sum;

	if (mark->number >= snapshot->reading->count || mark->pattern)
		return;
	sum = &snapshot->reading->sums[mark->number];
	*array_push(&snapshot->values) = (struct marks_event_value){ mark->text, counted(sum) };
}

static void rule_event(const struct looking *looking, const struct rule *rule, const char *text,
		       bool all)
{
	struct snapshot snapshot = { .reading = looking->reading };
	struct marks_event event = { .time = looking->reading->time,
				     .cause = all ? "snapshot" : "rule",
				     .text = *text ? text : rule->text };

	if (all)
		marks_each(looking->session->given.marks, 1, snapshot_add, &snapshot);
	for (size_t i = 0; i < rule->reads.count && !all; i++) {
		struct mark_sum now = {}, before = {};

		mark_look((void *)looking, rule->reads.items[i], &now, &before);
		*array_push(&snapshot.values) =
			(struct marks_event_value){ rule->reads.items[i], counted(&now) };
	}
	event.values = snapshot.values.items;
	event.value_count = snapshot.values.count;
	marks_live_event(looking->session->given.live, &event);
	array_deinit(&snapshot.values);
}

/* Which process, and why, the command finds in its environment. */
static void command_run(struct session *session, const struct rule *rule, char *command)
{
	AUTO(free_ptr)
	char *given = mem_printf("ASSAY_PID=%d ASSAY_RULE=\"$1\" exec \"$0\" -c \"$2\"",
				 (int)session->pid);
	char *argv[] = { "/bin/sh", "-c", given, "/bin/sh", rule->text, command, NULL };
	pid_t child;

	if (count_child_start(argv, &child)) {
		log_warn("%s", err_text());
		return;
	}
	pthread_mutex_lock(&session->lock);
	*array_push(&session->children) = child;
	pthread_mutex_unlock(&session->lock);
}

static void action_do(struct looking *looking, const struct rule *rule,
		      const struct rule_action *action)
{
	struct session *session = looking->session;

	switch (action->kind) {
	case RULE_PRINT:
		rule_print(looking, rule, action->text);
		break;
	case RULE_EVENT:
	case RULE_SNAPSHOT:
		rule_event(looking, rule, action->text ? action->text : "",
			   action->kind == RULE_SNAPSHOT);
		break;
	case RULE_START:
		session_order(session, ORDER_ADD, action->text, 0, false);
		break;
	case RULE_STOP:
		session_order(session, ORDER_REMOVE, action->text, 0, false);
		break;
	case RULE_RUN:
		command_run(session, rule, action->text);
		break;
	case RULE_VALUES:
	case RULE_PATHS:
		session_order(session, action->kind == RULE_VALUES ? ORDER_VALUES : ORDER_PATHS,
			      NULL, action->time, false);
		break;
	default:
		break;
	}
}

void session_rules_look(struct session *session, const struct marks_reading *reading)
{
	const struct session_options *given = &session->given;
	struct looking looking = { session, reading };

	for (size_t i = 0; i < given->rule_count; i++) {
		const struct rule *rule = given->rules[i];
		struct ruled *ruled = &session->ruled[i];

		if (ruled->last && reading->time - ruled->last < rule->interval)
			continue;
		if (rule_value(rule, mark_look, &looking, session_seconds(reading)) == 0)
			continue;
		ruled->last = reading->time;
		ruled->fired++;
		array_each(&rule->actions, action)
			action_do(&looking, rule, action);
	}
}
