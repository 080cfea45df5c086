// SPDX-License-Identifier: BSD-2-Clause
/*
 * A session of assay count: what happens to marks while programs run.
 *
 *	in	orders of rules and of the socket; what the thread that follows the process sees
 *	out	marks that are added and removed; the process, in the engine or out of it
 *	owner	the command; three threads meet here, and the lock guards what they share
 *
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
#include "cmd/count_session_private.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "inject/attach.h"

static const uint64_t poke_after = 50 * (uint64_t)NS_PER_MS;
static const uint64_t order_patience = 30 * (uint64_t)NS_PER_S;

struct order {
	enum order_kind kind;
	char *text; /* the mark */
	uint64_t time; /* how long to record, ns */
	bool waited_for;
	bool done;
	int err;
	char *sentence; /* what went wrong */
};

/* --- Orders ----------------------------------------------------------------------------------- */

static void order_free(struct order *order)
{
	free(order->text);
	free(order->sentence);
	free(order);
}

struct order *session_order(struct session *session, enum order_kind kind, const char *text,
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

/* The order is freed, or left to the thread that serves it. */
int session_order_wait(struct session *session, struct order *order)
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

/* --- Beginning and end ------------------------------------------------------------------------ */

static void on_reading(void *ctx, const struct marks_reading *reading)
{
	struct session *session = ctx;

	if (session->given.says && reading->before)
		session_print(session, reading);
	session_rules_look(session, reading);
	if (!session->given.sweep)
		return;
	__atomic_store_n(&session->page_due, true, __ATOMIC_RELAXED);
	pthread_mutex_lock(&session->lock);
	if (session->inject)
		inject_ring(session->inject);
	pthread_mutex_unlock(&session->lock);
}

static void on_begun(void *ctx, struct inject *inject, pid_t pid)
{
	AUTO(free_ptr) char *name = mem_printf("count.%d", (int)pid);
	struct session *session = ctx;

	pthread_mutex_lock(&session->lock);
	session->inject = inject;
	session->pid = pid;
	pthread_mutex_unlock(&session->lock);
	if (control_create(name, session_answer, session, &session->control))
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
