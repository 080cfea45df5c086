// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes the events that marks raise, with their stacks. A catalog may tell of a visit before its
 * thread is known to the profile. Such events wait: until rows are written, or the thread ends.
 */
#include "recorder/engine/mark_events.h"

#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/mem.h"
#include "recorder/engine/executed.h"
#include "recorder/stacks.h"

enum { WAITING_MAX = 4096, DEPTH_MAX = 512, RBX = 3, RSP = 4, RBP = 5 };

struct waiting {
	struct engine_process *process;
	struct stream_event *event; /* heap */
};

struct mark_events {
	struct recorder *recorder;
	struct stacks *stacks;
	struct marks_live *live;
	ARRAY(struct engine_thread *) threads; /* that run */
	ARRAY(struct waiting) waiting;
	uint64_t start_ns, start_ticks; /* one moment */
	uint32_t number; /* of the last one written */
	uint64_t lost; /* of no thread that is known, or too many */
	uint64_t live_lost;
	uint32_t marks;
	int err; /* the first failure */
};

static void fail(struct mark_events *events, int err)
{
	events->err = events->err ? events->err : err;
}

struct mark_events *mark_events_create(struct recorder *recorder, struct marks_live *live)
{
	struct mark_events *events = mem_zalloc(sizeof(*events));

	events->recorder = recorder;
	events->live = live;
	events->start_ns = clock_monotonic();
	events->start_ticks = __rdtsc();
	stacks_create(recorder_store(recorder), recorder_loadmap(recorder),
		      recorder_locations(recorder), &events->stacks);
	return events;
}

void mark_events_destroy(struct mark_events *events)
{
	if (!events)
		return;
	array_each(&events->waiting, waiting)
		free(waiting->event);
	array_deinit(&events->waiting);
	array_deinit(&events->threads);
	stacks_destroy(events->stacks);
	free(events);
}

void mark_events_thread_begin(struct mark_events *events, struct engine_thread *thread)
{
	*array_push(&events->threads) = thread;
}

void mark_events_add(struct mark_events *events, struct engine_process *process,
		     const struct stream_event *event)
{
	struct stream_event *copy;
	uint64_t site;

	if (events->live && !event->access && event->stack_size >= sizeof(site)) {
		memcpy(&site, event->stack, sizeof(site));
		marks_live_visited(events->live, process->pid, event->mark, site);
	}
	if (events->waiting.count >= WAITING_MAX) {
		events->lost++;
		return;
	}
	copy = mem_zalloc(event->record.size);
	memcpy(copy, event, event->record.size);
	*array_push(&events->waiting) = (struct waiting){ process, copy };
}

/* --- Rows ------------------------------------------------------------------------------------- */

static void value_write(struct mark_events *events, const char *name, uint64_t value)
{
	const struct store_mark_event_value row = { .number = events->number,
						    .name = name,
						    .value = value };

	fail(events, store_mark_event_value_put(recorder_store(events->recorder), &row));
}

static uint64_t since_begin(const struct mark_events *events, uint64_t time)
{
	uint64_t began = recorder_created(events->recorder);

	return time > began ? time - began : 0;
}

/* An event whose stack cannot be walked is kept without a stack. */
static struct stack_id stack_walk(struct mark_events *events, struct engine_process *process,
				  const struct stream_event *event)
{
	const struct stack_memory memory = {
		.registers = { event->pc, event->registers[RSP], event->registers[RBP],
			       event->registers[RBX] },
		.memory = { event->registers[RSP], event->stack, event->stack_size },
		.max_depth = DEPTH_MAX,
	};
	struct loadmap_process *image = executed_image(process);
	struct stack_id stack = {};
	enum stack_end end;

	if (image)
		fail(events,
		     stacks_walk(events->stacks, image, event->time, &memory, &end, &stack));
	return stack;
}

static uint64_t ns_of(const struct mark_events *events, uint64_t ticks)
{
	double ns = (double)(clock_monotonic() - events->start_ns);

	return (uint64_t)((double)ticks * ns / (double)(__rdtsc() - events->start_ticks));
}

/* For data: how it was accessed. The program may have overwritten the value. */
static const char *access_text(uint32_t access)
{
	static const char *const texts[] = { "", "read", "written", "read and written" };

	return texts[access & (STREAM_ACCESS_READ | STREAM_ACCESS_WRITE)];
}

static void visit_write(struct mark_events *events, const struct engine_thread *thread,
			const struct stream_event *event)
{
	static const char *const names[] = {
		"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
		"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"
	};
	struct store_mark_event row = { .number = ++events->number,
					.time = since_begin(events, event->time),
					.cause = "visit",
					.mark = { event->mark },
					.thread = executed_thread_id(thread),
					.text = access_text(event->access) };

	row.stack = stack_walk(events, thread->process, event);
	fail(events, store_mark_event_put(recorder_store(events->recorder), &row));
	if (event->ticks)
		value_write(events, "took_ns", ns_of(events, event->ticks));
	value_write(events, "rip", event->pc);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		value_write(events, names[i], event->registers[i]);
}

static const struct engine_thread *thread_find(const struct mark_events *events,
					       const struct waiting *waiting)
{
	array_each(&events->threads, thread)
		if ((*thread)->process == waiting->process && (*thread)->tid == waiting->event->tid)
			return *thread;
	return NULL;
}

/* Those of one thread, or (NULL) of all that are known. */
static void visits_write(struct mark_events *events, const struct engine_thread *only)
{
	size_t kept = 0;

	for (size_t i = 0; i < events->waiting.count; i++) {
		struct waiting waiting = events->waiting.items[i];
		const struct engine_thread *thread = thread_find(events, &waiting);

		if (!thread || (only && thread != only)) {
			events->waiting.items[kept++] = waiting;
			continue;
		}
		/* A number that we never gave: the program has overwritten the catalog. */
		if (waiting.event->mark && waiting.event->mark < events->marks)
			visit_write(events, thread, waiting.event);
		else
			events->lost++;
		free(waiting.event);
	}
	events->waiting.count = kept;
}

void mark_events_thread_end(struct mark_events *events, struct engine_thread *thread)
{
	size_t kept = 0;

	visits_write(events, thread);
	for (size_t i = 0; i < events->threads.count; i++)
		if (events->threads.items[i] != thread)
			events->threads.items[kept++] = events->threads.items[i];
	events->threads.count = kept;
}

static void told_write(void *ctx, const struct marks_event *event)
{
	struct mark_events *events = ctx;
	const struct store_mark_event row = { .number = ++events->number,
					      .time = since_begin(events, event->time),
					      .cause = event->cause,
					      .text = event->text };

	fail(events, store_mark_event_put(recorder_store(events->recorder), &row));
	for (size_t i = 0; i < event->value_count; i++)
		value_write(events, event->values[i].name, event->values[i].value);
}

int mark_events_flush(struct mark_events *events, uint32_t marks)
{
	events->marks = marks;
	visits_write(events, NULL);
	if (events->live)
		events->live_lost = marks_live_events_take(events->live, told_write, events);
	return events->err;
}

int mark_events_finish(struct mark_events *events, uint64_t refused)
{
	struct marks_event_value value = { "lost", 0 };
	const struct marks_event lost = {
		.time = clock_monotonic(),
		.cause = "lost",
		.text = "events that were too many at once, or of no thread "
			"that is known",
		.value_count = 1,
		.values = &value
	};

	array_each(&events->waiting, waiting)
		free(waiting->event);
	value.value = events->lost + events->live_lost + events->waiting.count + refused;
	events->waiting.count = 0;
	if (value.value)
		told_write(events, &lost);
	return events->err;
}
