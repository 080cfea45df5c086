// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counters are read at a fixed interval, and in between on request. A reading at the interval is
 * compared with the one before it; a reading on request with the last one at the interval.
 */
#include "marks/live.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/mem.h"

struct events_list {
	ARRAY(struct marks_event) items;
};

struct marks_live {
	pthread_mutex_t lock; /* protects all fields below */
	pthread_cond_t folded; /* a reading was made */
	uint64_t interval;
	uint64_t next; /* when the next one at the interval is due */
	uint64_t readings; /* how many were made */
	bool asked; /* for one in between */
	struct marks_reading reading;
	struct mark_sum *base; /* the last one at the interval, with room for reading.count */
	uint64_t base_time;
	struct events_list events; /* that wait to be written */
	uint64_t events_lost;
	void (*watch)(void *ctx, const struct marks_reading *reading);
	void *watch_ctx;
	marks_live_visit *visit;
	void *visit_ctx;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void mark_sum_add(struct mark_sum *to, const struct mark_sum *from)
{
	to->visits += from->visits;
	to->instructions += from->instructions;
	to->timed += from->timed;
	to->time_ns += from->time_ns;
	to->slower += from->slower;
	to->reads += from->reads;
	to->writes += from->writes;
	to->p50 = larger(to->p50, from->p50);
	to->p90 = larger(to->p90, from->p90);
	to->p99 = larger(to->p99, from->p99);
	to->p999 = larger(to->p999, from->p999);
}

void marks_reading_deinit(struct marks_reading *reading)
{
	free(reading->sums);
	free(reading->earlier);
	*reading = (struct marks_reading){};
}

struct marks_live *marks_live_create(uint64_t interval)
{
	struct marks_live *live = mem_zalloc(sizeof(*live));
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&live->folded, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_mutex_init(&live->lock, NULL);
	live->interval = interval;
	return live;
}

static void events_free(struct events_list *events)
{
	array_each(&events->items, event) {
		free((char *)event->text);
		for (size_t i = 0; i < event->value_count; i++)
			free((char *)event->values[i].name);
		free(event->values);
	}
	array_deinit(&events->items);
}

void marks_live_destroy(struct marks_live *live)
{
	if (!live)
		return;
	events_free(&live->events);
	marks_reading_deinit(&live->reading);
	free(live->base);
	pthread_cond_destroy(&live->folded);
	pthread_mutex_destroy(&live->lock);
	free(live);
}

void marks_live_watch(struct marks_live *live,
		      void (*watch)(void *ctx, const struct marks_reading *reading), void *ctx)
{
	live->watch = watch;
	live->watch_ctx = ctx;
}

void marks_live_follow(struct marks_live *live, marks_live_visit *visit, void *ctx)
{
	live->visit = visit;
	live->visit_ctx = ctx;
}

void marks_live_visited(struct marks_live *live, uint32_t pid, uint32_t mark, uint64_t site)
{
	if (live->visit)
		live->visit(live->visit_ctx, pid, mark, site);
}

bool marks_live_due(struct marks_live *live, uint64_t now, bool *ret_kept)
{
	bool due;

	pthread_mutex_lock(&live->lock);
	*ret_kept = now >= live->next;
	due = *ret_kept || live->asked;
	pthread_mutex_unlock(&live->lock);
	return due;
}

/* New marks have numbers above those that were there: earlier, they had counted nothing. */
static void sums_grow(struct mark_sum **sums, size_t from, size_t to)
{
	if (to <= from)
		return;
	*sums = mem_realloc(*sums, to, sizeof(**sums));
	memset(*sums + from, 0, (to - from) * sizeof(**sums));
}

static void reading_take(struct marks_live *live, uint64_t now, bool kept,
			 const struct mark_sum *sums, size_t count)
{
	struct marks_reading *reading = &live->reading;

	sums_grow(&reading->sums, reading->count, count);
	sums_grow(&reading->earlier, reading->count, count);
	sums_grow(&live->base, reading->count, count);
	reading->count = count > reading->count ? count : reading->count;
	if (reading->count)
		memcpy(reading->earlier, live->base, reading->count * sizeof(*live->base));
	if (count)
		memcpy(reading->sums, sums, count * sizeof(*sums));
	reading->before = live->base_time;
	reading->time = now;
	if (!kept)
		return;
	if (count)
		memcpy(live->base, sums, count * sizeof(*sums));
	live->base_time = now;
}

static uint64_t next_after(const struct marks_live *live, uint64_t now)
{
	uint64_t next = live->next + live->interval;

	return live->next && next > now ? next : now + live->interval;
}

void marks_live_fold(struct marks_live *live, uint64_t now, bool kept, const struct mark_sum *sums,
		     size_t count)
{
	struct marks_reading shown;

	pthread_mutex_lock(&live->lock);
	reading_take(live, now, kept, sums, count);
	if (kept)
		live->next = next_after(live, now);
	live->asked = false;
	live->readings++;
	shown = live->reading; /* only this thread changes it */
	pthread_cond_broadcast(&live->folded);
	pthread_mutex_unlock(&live->lock);
	if (kept && live->watch)
		live->watch(live->watch_ctx, &shown);
}

static struct mark_sum *sums_copy(const struct mark_sum *sums, size_t count)
{
	struct mark_sum *copy = mem_zalloc((count ? count : 1) * sizeof(*copy));

	if (count)
		memcpy(copy, sums, count * sizeof(*copy));
	return copy;
}

void marks_live_read(struct marks_live *live, bool fresh, uint64_t patience,
		     struct marks_reading *ret)
{
	uint64_t end = clock_monotonic() + patience, readings;
	const struct timespec until = { .tv_sec = (time_t)(end / NS_PER_S),
					.tv_nsec = (long)(end % NS_PER_S) };

	pthread_mutex_lock(&live->lock);
	readings = live->readings;
	live->asked |= fresh;
	while (fresh && live->readings == readings &&
	       !pthread_cond_timedwait(&live->folded, &live->lock, &until))
		;
	*ret = live->reading;
	ret->sums = sums_copy(live->reading.sums, live->reading.count);
	ret->earlier = sums_copy(live->reading.earlier, live->reading.count);
	pthread_mutex_unlock(&live->lock);
}

/* --- Events ----------------------------------------------------------------------------------- */

void marks_live_event(struct marks_live *live, const struct marks_event *event)
{
	struct marks_event *copy;

	pthread_mutex_lock(&live->lock);
	if (live->events.items.count >= MARKS_EVENTS_MAX) {
		live->events_lost++;
		pthread_mutex_unlock(&live->lock);
		return;
	}
	copy = array_push(&live->events.items);
	*copy = *event;
	copy->text = mem_strdup(event->text);
	copy->values = mem_zalloc((event->value_count + 1) * sizeof(*copy->values));
	for (size_t i = 0; i < event->value_count; i++)
		copy->values[i] = (struct marks_event_value){ mem_strdup(event->values[i].name),
							      event->values[i].value };
	pthread_mutex_unlock(&live->lock);
}

uint64_t marks_live_events_take(struct marks_live *live,
				void (*tell)(void *ctx, const struct marks_event *event), void *ctx)
{
	struct events_list events;
	uint64_t lost;

	pthread_mutex_lock(&live->lock);
	events = live->events;
	live->events = (struct events_list){};
	lost = live->events_lost;
	pthread_mutex_unlock(&live->lock);
	array_each(&events.items, event)
		tell(ctx, event);
	events_free(&events);
	return lost;
}

/* --- One mark of a reading -------------------------------------------------------------------- */

struct search {
	const struct marks_reading *reading;
	struct mark_sum now, earlier;
	bool found;
};

static void mark_take(void *ctx, uint32_t number)
{
	struct search *search = ctx;

	search->found = true;
	if (number >= search->reading->count)
		return;
	mark_sum_add(&search->now, &search->reading->sums[number]);
	mark_sum_add(&search->earlier, &search->reading->earlier[number]);
}

bool marks_reading_find(const struct marks_reading *reading, struct marks *marks, const char *text,
			struct mark_sum *ret_now, struct mark_sum *ret_earlier)
{
	struct search search = { .reading = reading };

	marks_numbers(marks, text, mark_take, &search);
	*ret_now = search.now;
	*ret_earlier = search.earlier;
	return search.found;
}
