// SPDX-License-Identifier: BSD-2-Clause
/*
 * Orders for the thread that follows the process are in a list: other threads add one and ring the
 * bell. A thread that needs the result waits for it.
 *
 * An engine applies a change of marks when a thread passes through its code, at the next system
 * call at the latest. If the threads of a process run without doing so, they are interrupted
 * (attach_poke()).
 *
 * The process leaves the engine with its last mark, and while another recording needs it to run
 * natively or in another engine. It comes back when that is over.
 */
#include "cmd/count_session.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cmd/control.h"
#include "inject/attach.h"

enum { SHOWN = 20 };

static const uint64_t poke_after = 50 * (uint64_t)NS_PER_MS;
static const uint64_t read_patience = NS_PER_S;
static const uint64_t order_patience = 30 * (uint64_t)NS_PER_S;

enum order_kind { ORDER_ADD, ORDER_REMOVE, ORDER_VALUES, ORDER_PATHS };

struct order {
	enum order_kind kind;
	char *text; /* the mark */
	uint64_t time; /* how long to record, ns */
	bool waited_for;
	bool done;
	int err;
	char *sentence; /* what went wrong */
};

/* A rule, and when it fired. */
struct ruled {
	uint64_t last; /* CLOCK_MONOTONIC; 0: never */
	uint64_t fired;
};

struct session {
	struct session_options given;
	struct ruled *ruled; /* by rule */
	struct control *control; /* NULL: none */
	struct inject *inject; /* while the process is followed; under lock */
	pid_t pid;
	pthread_mutex_t lock; /* of orders and inject */
	pthread_cond_t served; /* an order was done */
	ARRAY(struct order *) orders;
	bool over;
	/* The fields from here on belong to the thread that follows the process. */
	bool native; /* the process is not in the engine */
	uint64_t changed; /* when marks changed and engines have not all seen it; 0: they have */
	uint64_t page; /* of the sweep: the next one */
	char *page_mark; /* what is marked of it; NULL: nothing yet */
	bool page_due; /* a turn is over */
	ARRAY(pid_t) children; /* commands of rules; under lock */
};

/* --- Orders ----------------------------------------------------------------------------------- */

static void order_free(struct order *order)
{
	free(order->text);
	free(order->sentence);
	free(order);
}

static struct order *order_add(struct session *session, enum order_kind kind, const char *text,
			       uint64_t time, bool waited_for)
{
	struct order *order = mem_zalloc(sizeof(*order));

	*order = (struct order){ .kind = kind,
				 .text = mem_strdup(text ? text : ""),
				 .time = time,
				 .waited_for = waited_for };
	pthread_mutex_lock(&session->lock);
	*array_push(&session->orders) = order;
	if (session->inject)
		inject_ring(session->inject);
	pthread_mutex_unlock(&session->lock);
	return order;
}

/* The order is freed, or left to who serves it. */
static int order_wait(struct session *session, struct order *order)
{
	uint64_t end = clock_monotonic() + order_patience;
	const struct timespec until = { .tv_sec = (time_t)(end / NS_PER_S),
					.tv_nsec = (long)(end % NS_PER_S) };
	int err = 0;

	pthread_mutex_lock(&session->lock);
	while (!order->done && !session->over && !err)
		err = pthread_cond_timedwait(&session->served, &session->lock, &until);
	if (!order->done) {
		order->waited_for = false;
		pthread_mutex_unlock(&session->lock);
		return err_set(-ETIMEDOUT, "process %d is over, or does not come by",
			       (int)session->pid);
	}
	pthread_mutex_unlock(&session->lock);
	err = order->err ? err_set(order->err, "%s", order->sentence) : 0;
	order_free(order);
	return err;
}

static struct order *order_next(struct session *session)
{
	struct order *order = NULL;

	pthread_mutex_lock(&session->lock);
	if (session->orders.count) {
		order = session->orders.items[0];
		memmove(session->orders.items, session->orders.items + 1,
			--session->orders.count * sizeof(struct order *));
	}
	pthread_mutex_unlock(&session->lock);
	return order;
}

static void order_done(struct session *session, struct order *order, int err)
{
	bool waited_for;

	pthread_mutex_lock(&session->lock);
	order->err = err;
	order->sentence = err ? mem_strdup(err_text()) : NULL;
	order->done = true;
	waited_for = order->waited_for;
	pthread_cond_broadcast(&session->served);
	pthread_mutex_unlock(&session->lock);
	if (waited_for)
		return;
	if (err)
		log_warn("%s", order->sentence);
	order_free(order);
}

/* --- Into the engine, and out of it ----------------------------------------------------------- */

static int process_give(struct session *session)
{
	int err = session->native ? 0 : attach_give_back(session->inject);

	session->native |= !err;
	return err;
}

static int process_take(struct session *session)
{
	int err;

	if (!session->native || count_parts_running(session->given.parts))
		return 0;
	err = attach_take(session->inject, session->pid);
	session->native = err != 0;
	session->changed = 0; /* a new engine knows the marks as they are now */
	return err;
}

static int part_record(struct session *session, const struct order *order)
{
	struct count_parts *parts = session->given.parts;
	int err;

	if (count_parts_running(parts))
		return err_set(-EBUSY, "process %d is being recorded already", (int)session->pid);
	err = process_give(session);
	err = err ? err
		  : count_parts_record(parts,
				       order->kind == ORDER_VALUES ? COUNT_PART_VALUES
								   : COUNT_PART_PATHS,
				       session->pid, order->time);
	if (err)
		process_take(session);
	return err;
}

/* What was recorded is written; the marks count again. */
static void parts_look(struct session *session)
{
	if (!count_parts_ended(session->given.parts))
		return;
	if ((!session->given.attached || marks_active(session->given.marks)) &&
	    process_take(session))
		log_warn("%s", err_text());
}

/* --- Changes ---------------------------------------------------------------------------------- */

static int mark_add(struct session *session, const char *text)
{
	int err = marks_change_add(session->given.marks, text);

	session->changed = clock_monotonic();
	return err ? err : process_take(session);
}

static int mark_remove(struct session *session, const char *text)
{
	int err = marks_change_remove(session->given.marks, text);

	session->changed = clock_monotonic();
	if (!err && session->given.attached && !marks_active(session->given.marks))
		err = process_give(session);
	return err;
}

static void order_serve(struct session *session, struct order *order)
{
	int err = -EINVAL;

	switch (order->kind) {
	case ORDER_ADD:
		err = mark_add(session, order->text);
		break;
	case ORDER_REMOVE:
		err = mark_remove(session, order->text);
		break;
	case ORDER_VALUES:
	case ORDER_PATHS:
		err = part_record(session, order);
		break;
	}
	order_done(session, order, err);
}

/* Whether a thread of the process runs: one that sleeps looks when it is woken. */
static bool is_running(pid_t pid)
{
	AUTO(free_ptr) char *command = mem_printf("/proc/%d/task", (int)pid);
	DIR *folder = opendir(command);
	struct dirent *entry;
	bool running = false;

	while (folder && !running && (entry = readdir(folder))) {
		AUTO(free_ptr) char *path = mem_printf("%s/%s/stat", command, entry->d_name);
		AUTO(close_file) FILE *file = fopen(path, "re");
		char line[512];
		const char *end = file && fgets(line, sizeof(line), file) ? strrchr(line, ')')
									  : NULL;

		running = end && end[1] == ' ' && end[2] == 'R';
	}
	if (folder)
		closedir(folder);
	return running;
}

static void process_poke(struct session *session, pid_t pid)
{
	int err = is_running(pid) ? attach_poke(session->inject, pid) : 0;

	if (err && err != -ESRCH)
		log_warn("process %d has not taken up that marks have changed: %s", (int)pid,
			 err_text());
}

/* Processes whose memory says that they have not seen the change. */
static void changes_push(struct session *session)
{
	struct memories *memories = inject_memories(session->inject);
	const struct memory *memory = memories_after(memories, 0);

	if (!session->changed || clock_monotonic() - session->changed < poke_after)
		return;
	session->changed = 0;
	for (; memory && !session->native; memory = memories_after(memories, memory->number)) {
		const struct engine_shared *shared = memory->bytes;
		uint32_t seen = __atomic_load_n(&shared->marks_seen, __ATOMIC_ACQUIRE);

		if (!memory->ended && !marks_are_seen(session->given.marks, seen))
			process_poke(session, memory->pid);
	}
}

static void children_reap(struct session *session)
{
	size_t kept = 0;

	pthread_mutex_lock(&session->lock);
	for (size_t i = 0; i < session->children.count; i++)
		if (!waitpid(session->children.items[i], NULL, WNOHANG))
			session->children.items[kept++] = session->children.items[i];
	session->children.count = kept;
	pthread_mutex_unlock(&session->lock);
}

/* Callers of what has raised events. A mark that is there already is followed all the same. */
static void callers_mark(struct session *session)
{
	char *text;

	while (session->given.follow && (text = follow_next(session->given.follow))) {
		int err = mark_add(session, text);

		if (err && err != -EEXIST)
			log_warn("%s", err_text());
		else
			follow_marked(session->given.follow, text);
		free(text);
	}
}

static void on_visit(void *ctx, uint32_t pid, uint32_t mark, uint64_t site)
{
	struct session *session = ctx;

	follow_visit(session->given.follow, pid, mark, site);
	pthread_mutex_lock(&session->lock);
	if (session->inject)
		inject_ring(session->inject);
	pthread_mutex_unlock(&session->lock);
}

/*
 * The next page first: a process that was taken does not leave the engine in between. A page whose
 * mark has not been taken up yet has not had its turn.
 */
static void sweep_move(struct session *session)
{
	char *next;
	int err;

	if (!session->given.sweep || session->changed ||
	    (session->page_mark &&
	     !__atomic_exchange_n(&session->page_due, false, __ATOMIC_RELAXED)))
		return;
	next = marks_page(session->given.marks, session->given.sweep, &session->page);
	if (!next)
		return;
	err = mark_add(session, next);
	if (err) {
		if (err != -EEXIST) /* there is only this one */
			log_warn("%s", err_text());
		free(next);
		return;
	}
	if (session->page_mark && mark_remove(session, session->page_mark))
		log_warn("%s", err_text());
	free(session->page_mark);
	session->page_mark = next;
}

static void on_tick(void *ctx)
{
	struct session *session = ctx;
	struct order *order;

	children_reap(session);
	parts_look(session);
	while ((order = order_next(session)))
		order_serve(session, order);
	callers_mark(session);
	sweep_move(session);
	changes_push(session);
}

/* --- Rules ------------------------------------------------------------------------------------ */

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

static double seconds_of(const struct marks_reading *reading)
{
	return reading->before ? (double)(reading->time - reading->before) / NS_PER_S : 0;
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
	double seconds = seconds_of(looking->reading);
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
		order_add(session, ORDER_ADD, action->text, 0, false);
		break;
	case RULE_STOP:
		order_add(session, ORDER_REMOVE, action->text, 0, false);
		break;
	case RULE_RUN:
		command_run(session, rule, action->text);
		break;
	case RULE_VALUES:
	case RULE_PATHS:
		order_add(session, action->kind == RULE_VALUES ? ORDER_VALUES : ORDER_PATHS, NULL,
			  action->time, false);
		break;
	default:
		break;
	}
}

static void rules_look(struct looking *looking)
{
	const struct session_options *given = &looking->session->given;

	for (size_t i = 0; i < given->rule_count; i++) {
		const struct rule *rule = given->rules[i];
		struct ruled *ruled = &looking->session->ruled[i];

		if (ruled->last && looking->reading->time - ruled->last < rule->interval)
			continue;
		if (rule_value(rule, mark_look, looking, seconds_of(looking->reading)) == 0)
			continue;
		ruled->last = looking->reading->time;
		ruled->fired++;
		array_each(&rule->actions, action)
			action_do(looking, rule, action);
	}
}

/* --- What is said ----------------------------------------------------------------------------- */

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

static void reading_say(struct session *session, const struct marks_reading *reading)
{
	struct rows rows = { .reading = reading };
	double seconds = seconds_of(reading);

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

static void on_reading(void *ctx, const struct marks_reading *reading)
{
	struct session *session = ctx;
	struct looking looking = { session, reading };

	if (session->given.says && reading->before)
		reading_say(session, reading);
	rules_look(&looking);
	if (!session->given.sweep)
		return;
	__atomic_store_n(&session->page_due, true, __ATOMIC_RELAXED);
	pthread_mutex_lock(&session->lock);
	if (session->inject)
		inject_ring(session->inject);
	pthread_mutex_unlock(&session->lock);
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
	seconds = seconds_of(&reading);
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
	struct order *order = order_add(session, kind, mark, 0, true);

	if (order_wait(session, order))
		return failure_answer();
	return text_of(json_pack("{s:i, s:b}", "assay", 1, "done", 1));
}

static char *answer(void *ctx, const char *request)
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

/* --- Beginning and end ------------------------------------------------------------------------ */

static void on_begun(void *ctx, struct inject *inject, pid_t pid)
{
	AUTO(free_ptr) char *name = mem_printf("count.%d", (int)pid);
	struct session *session = ctx;

	pthread_mutex_lock(&session->lock);
	session->inject = inject;
	session->pid = pid;
	pthread_mutex_unlock(&session->lock);
	if (control_create(name, answer, session, &session->control))
		log_warn("%s; 'assay count --live' does not work", err_text());
}

/* Reports the callers of the last events, which cannot be marked any more. */
static void callers_tell(struct session *session)
{
	struct follow *follow = session->given.follow;
	char *text;

	while (follow && (text = follow_next(follow)))
		free(text);
	if (follow)
		follow_end(follow, session->given.live, session->given.quiet);
}

/* The program is over: threads that wait to be served are told. */
static void on_over(void *ctx)
{
	struct session *session = ctx;

	pthread_mutex_lock(&session->lock);
	session->over = true;
	session->inject = NULL;
	pthread_cond_broadcast(&session->served);
	pthread_mutex_unlock(&session->lock);
	control_destroy(take_ptr(session->control));
	callers_tell(session);
	count_parts_stop(session->given.parts);
}

struct session *session_create(const struct session_options *options)
{
	struct session *session = mem_zalloc(sizeof(*session));
	pthread_condattr_t attributes;

	session->given = *options;
	session->ruled = mem_zalloc((options->rule_count + 1) * sizeof(*session->ruled));
	pthread_mutex_init(&session->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&session->served, &attributes);
	pthread_condattr_destroy(&attributes);
	marks_live_watch(options->live, on_reading, session);
	if (options->follow)
		marks_live_follow(options->live, on_visit, session);
	return session;
}

void session_destroy(struct session *session)
{
	if (!session)
		return;
	for (size_t i = 0; i < session->given.rule_count; i++)
		if (session->ruled[i].fired)
			log_info("rule '%s' fired %llu time%s", session->given.rules[i]->text,
				 (unsigned long long)session->ruled[i].fired,
				 PLURAL(session->ruled[i].fired));
	array_each(&session->orders, order)
		order_free(*order);
	array_deinit(&session->orders);
	array_deinit(&session->children);
	pthread_cond_destroy(&session->served);
	pthread_mutex_destroy(&session->lock);
	free(session->page_mark);
	free(session->ruled);
	free(session);
}

struct trace_marks session_hooks(struct session *session)
{
	return (struct trace_marks){
		.marks = session->given.marks,
		.live = session->given.live,
		.begun = on_begun,
		.tick = on_tick,
		.over = on_over,
		.ctx = session,
	};
}
