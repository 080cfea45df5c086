// SPDX-License-Identifier: BSD-2-Clause
/*
 * A caller is a pair of a routine and the marked routine that it called. When it is first seen, it
 * gets a mark with events, one level above that of its callee; when it is seen again, it is
 * counted. Callers are known from events, of which a process raises a limited number; the counts of
 * marks are exact.
 */
#include "cmd/count_follow.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

enum { CALLERS_MAX = 256, WAITING_MAX = 1024 };

struct caller {
	char *mark; /* MODULE!NAME,event */
	uint32_t number; /* of the mark; 0: it is not marked */
	uint32_t of; /* number of the mark that it called */
	unsigned level; /* from 1 on */
	uint64_t events;
};

struct visit {
	uint32_t pid, mark;
	uint64_t site;
};

struct follow {
	struct marks *marks;
	unsigned levels;
	pthread_mutex_t lock; /* of visits and lost */
	ARRAY(struct visit) visits; /* that wait */
	uint64_t lost;
	/* The fields from here on belong to the thread that follows the process. */
	ARRAY(struct caller) callers;
};

struct follow *follow_create(struct marks *marks, unsigned levels)
{
	struct follow *follow = mem_zalloc(sizeof(*follow));

	follow->marks = marks;
	follow->levels = levels;
	pthread_mutex_init(&follow->lock, NULL);
	return follow;
}

void follow_destroy(struct follow *follow)
{
	if (!follow)
		return;
	array_each(&follow->callers, caller)
		free(caller->mark);
	array_deinit(&follow->callers);
	array_deinit(&follow->visits);
	pthread_mutex_destroy(&follow->lock);
	free(follow);
}

void follow_visit(void *ctx, uint32_t pid, uint32_t mark, uint64_t site)
{
	struct follow *follow = ctx;

	pthread_mutex_lock(&follow->lock);
	if (follow->visits.count < WAITING_MAX)
		*array_push(&follow->visits) = (struct visit){ pid, mark, site };
	else
		follow->lost++;
	pthread_mutex_unlock(&follow->lock);
}

static bool visit_take(struct follow *follow, struct visit *ret)
{
	bool taken = false;

	pthread_mutex_lock(&follow->lock);
	if (follow->visits.count) {
		*ret = follow->visits.items[0];
		memmove(follow->visits.items, follow->visits.items + 1,
			--follow->visits.count * sizeof(*ret));
		taken = true;
	}
	pthread_mutex_unlock(&follow->lock);
	return taken;
}

/* The level of a mark that was added as a caller; 0: the mark was given by the user. */
static unsigned level_of(const struct follow *follow, uint32_t mark)
{
	array_each(&follow->callers, caller)
		if (caller->number == mark)
			return caller->level;
	return 0;
}

/* Who called is known: it counts. Otherwise it is to be marked, unless it is already. */
static char *caller_add(struct follow *follow, const struct visit *visit, char *mark)
{
	unsigned level = level_of(follow, visit->mark) + 1;
	struct caller caller = { .mark = mark, .of = visit->mark, .level = level, .events = 1 };
	bool marked = false;

	array_each(&follow->callers, known) {
		if (strcmp(known->mark, mark) != 0)
			continue;
		marked = true;
		caller.number = known->number;
		if (known->of != visit->mark)
			continue;
		known->events++;
		free(mark);
		return NULL;
	}
	if (follow->callers.count >= CALLERS_MAX) {
		follow->lost++;
		free(mark);
		return NULL;
	}
	*array_push(&follow->callers) = caller;
	return marked || level > follow->levels ? NULL : mem_strdup(mark);
}

/* As slow as what it called, where that raises events when it is slow. */
static char *caller_text(struct follow *follow, uint32_t called, const char *routine)
{
	AUTO(free_ptr) char *given = marks_given(follow->marks, called);
	const char *slower = given ? strstr(given, ",slower=") : NULL;

	return slower ? mem_printf("%s%.*s,event", routine, (int)strcspn(slower + 1, ",") + 1,
				   slower)
		      : mem_printf("%s,event", routine);
}

char *follow_next(struct follow *follow)
{
	struct visit visit;
	char *next = NULL;

	while (!next && visit_take(follow, &visit)) {
		AUTO(free_ptr) char *routine = NULL;

		if (level_of(follow, visit.mark) >= follow->levels)
			continue;
		/* A call may be the last instruction of a routine. */
		routine = marks_routine_at(follow->marks, visit.pid, visit.site - 1);
		if (routine)
			next = caller_add(follow, &visit, caller_text(follow, visit.mark, routine));
	}
	return next;
}

struct numbered {
	struct follow *follow;
	const char *text;
};

static void number_note(void *ctx, uint32_t number)
{
	const struct numbered *numbered = ctx;

	array_each(&numbered->follow->callers, caller)
		if (!strcmp(caller->mark, numbered->text))
			caller->number = number;
}

void follow_marked(struct follow *follow, const char *text)
{
	struct numbered numbered = { follow, text };

	marks_numbers(follow->marks, text, number_note, &numbered);
}

/* --- What was found --------------------------------------------------------------------------- */

static int caller_compare(const void *a, const void *b)
{
	const struct caller *left = a, *right = b;

	if (left->level != right->level)
		return left->level < right->level ? -1 : 1;
	if (left->events != right->events)
		return left->events > right->events ? -1 : 1;
	return strcmp(left->mark, right->mark);
}

struct named {
	uint32_t number;
	char *text;
};

static void name_take(void *ctx, const struct mark *mark)
{
	struct named *named = ctx;

	if (mark->number == named->number)
		named->text = mem_strndup(mark->text, strcspn(mark->text, ","));
}

static void caller_tell(struct follow *follow, const struct caller *caller, struct marks_live *live,
			bool quiet)
{
	struct named named = { .number = caller->of };
	struct marks_event_value values[] = { { "level", caller->level },
					      { "events", caller->events } };
	struct marks_event event = {
		.time = clock_monotonic(), .cause = "caller", .value_count = 2, .values = values
	};
	AUTO(free_ptr) char *text = NULL;

	marks_each(follow->marks, 1, name_take, &named);
	text = mem_printf("%.*s calls %s", (int)strcspn(caller->mark, ","), caller->mark,
			  named.text ? named.text : "");
	free(named.text);
	event.text = text;
	marks_live_event(live, &event);
	if (!quiet)
		log_info("level %u: %10llu events: %s", caller->level,
			 (unsigned long long)caller->events, text);
}

void follow_end(struct follow *follow, struct marks_live *live, bool quiet)
{
	if (follow->callers.count)
		qsort(follow->callers.items, follow->callers.count, sizeof(struct caller),
		      caller_compare);
	array_each(&follow->callers, caller)
		caller_tell(follow, caller, live, quiet);
	if (follow->lost)
		log_warn("%llu events had callers for which there was no room",
			 (unsigned long long)follow->lost);
}
