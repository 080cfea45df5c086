// SPDX-License-Identifier: BSD-2-Clause
/*
 * Invariants
 * 1. Whatever a program writes into its ring, the file can be read: records have sizes that fit,
 *    and are of kinds that a thread may tell. A ring with another record is not read any further.
 * 2. The code of a process is in the file before the first record of its threads.
 */
#include "recorder/engine/call_events.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/mem.h"
#include "image/loadmap_file.h"

struct code {
	uint64_t start, end, bias;
	char *path;
};

struct process {
	uint32_t number, pid, parent; /* of pids; 0: it was not forked, or nobody knows by whom */
	ARRAY(struct code) codes;
	size_t told; /* how many of the codes are in the file */
	bool begun; /* its PROGRAM is in the file */
};

struct call_events {
	struct call_event_file *file;
	size_t amounts; /* bytes of the counters in each record */
	ARRAY(struct process) processes;
	struct map told; /* numbers of threads whose START is in the file */
	struct map broken; /* numbers of threads whose rings made no sense */
	uint64_t lost;
	char buffer[CALLTREE_EVENT_BYTES];
};

int call_events_create(const char *path, const struct call_trace_head *head,
		       struct call_events **ret)
{
	struct call_events *events = mem_zalloc(sizeof(*events));
	struct call_trace_head own = *head;
	int err;

	own.magic = CALL_TRACE_MAGIC;
	own.version = CALL_TRACE_VERSION;
	events->amounts = head->metrics * sizeof(struct call_amount);
	err = call_event_file_create(path, &own, &events->file);
	if (err)
		free(events);
	else
		*ret = events;
	return err;
}

void call_events_destroy(struct call_events *events)
{
	if (!events)
		return;
	array_each(&events->processes, process) {
		array_each(&process->codes, code)
			free(code->path);
		array_deinit(&process->codes);
	}
	array_deinit(&events->processes);
	map_deinit(&events->told);
	map_deinit(&events->broken);
	call_event_file_destroy(events->file);
	free(events);
}

/* --- Processes -------------------------------------------------------------------------------- */

static struct process *process_find(struct call_events *events, uint32_t number)
{
	array_each(&events->processes, process)
		if (process->number == number)
			return process;
	return NULL;
}

static void codes_tell(struct call_events *events, struct process *process)
{
	const struct call_event program = { .major = CALL_MAJOR_CODE,
					    .minor = CALL_MINOR_PROGRAM,
					    .thread = process->pid };

	if (!process->begun)
		call_event_file_put(events->file, &program, NULL, NULL, 0);
	process->begun = true;
	for (; process->told < process->codes.count; process->told++) {
		const struct code *from = &process->codes.items[process->told];
		const struct call_event_code code = { .pid = process->pid,
						      .start = from->start,
						      .end = from->end,
						      .bias = from->bias,
						      .path = from->path };

		call_event_file_code(events->file, &code);
	}
}

void call_events_process(struct call_events *events, const struct engine_process *process)
{
	bool forked = process->parent && !process->replaces;
	struct process *mine = array_push(&events->processes);
	const struct process *parent;

	*mine = (struct process){ .number = process->number, .pid = process->pid };
	parent = forked ? process_find(events, process->parent) : NULL;
	if (!parent)
		return;
	mine->parent = parent->pid;
	array_each(&parent->codes, code) {
		struct code copy = *code;

		copy.path = mem_strdup(code->path);
		*array_push(&mine->codes) = copy;
	}
}

/*
 * A record of code is about a file as the dynamic linker maps it: it begins where the file's first
 * byte is, though only a part further on has code.
 */
static void code_place(uint32_t pid, const struct stream_module *module, struct code *ret)
{
	const struct event_mmap mmap = { .start = module->start,
					 .end = module->end,
					 .offset = module->offset,
					 .inode = module->inode,
					 .major = module->device_major,
					 .minor = module->device_minor,
					 .path = module->path };
	struct loadmap_file file;
	uint64_t first;

	ret->bias = ret->start;
	if (!module->inode || loadmap_file_open(pid, &mmap, module->path, &file))
		return;
	ret->bias = loadmap_file_bias(&file, module->start, module->offset);
	first = ret->bias + module->start - loadmap_file_bias(&file, module->start, 0);
	if (first < ret->start)
		ret->start = first;
	loadmap_file_deinit(&file);
}

void call_events_module(struct call_events *events, const struct engine_process *process,
			const struct stream_module *module)
{
	struct process *mine = process_find(events, process->number);
	struct code code = { .start = module->start, .end = module->end };

	if (!mine || !*module->path || module->end <= module->start)
		return;
	code_place(process->pid, module, &code);
	code.path = mem_strdup(module->path);
	*array_push(&mine->codes) = code;
}

/* --- Threads ---------------------------------------------------------------------------------- */

/* The code first: also what was loaded since. */
static void start_tell(struct call_events *events, const struct engine_thread *thread)
{
	struct process *process = process_find(events, thread->process->number);
	struct call_event event = { .major = CALL_MAJOR_THREAD,
				    .minor = CALL_MINOR_PROCESS,
				    .thread = thread->number,
				    .routine = thread->process->pid,
				    .sp = process ? process->parent : 0 };
	bool fresh;

	if (process)
		codes_tell(events, process);
	map_at(&events->told, thread->number, &fresh);
	if (!fresh)
		return;
	call_event_file_put(events->file, &event, NULL, NULL, 0);
	event.minor = CALL_MINOR_START;
	event.routine = thread->tid;
	event.sp = thread->number;
	call_event_file_put(events->file, &event, NULL, NULL, 0);
}

static bool is_of_thread(const struct call_event *event)
{
	switch (event->major) {
	case CALL_MAJOR_ENGINE:
		return true;
	case CALL_MAJOR_THREAD:
		return event->minor == CALL_MINOR_TASK;
	case CALL_MAJOR_ALLOCATION:
		return event->minor == CALL_MINOR_ASKED;
	default:
		return false;
	}
}

/* Says whose records they are; returns the bytes of those that make sense. */
static size_t records_check(const struct call_events *events, uint32_t number, char *bytes,
			    size_t size)
{
	size_t at = 0;

	while (size - at >= sizeof(struct call_event)) {
		struct call_event event;

		memcpy(&event, bytes + at, sizeof(event));
		if (event.size < sizeof(event) + events->amounts || event.size % 8 ||
		    event.size > size - at || !is_of_thread(&event))
			break;
		event.thread = number;
		memcpy(bytes + at, &event, sizeof(event));
		at += event.size;
	}
	return at;
}

static void ring_copy(const struct calltree_memory *shared, uint64_t from, char *to, size_t size)
{
	const char *ring = (const char *)shared + CALLTREE_EVENTS;
	size_t place = from & (CALLTREE_EVENT_BYTES - 1);
	size_t first = size < CALLTREE_EVENT_BYTES - place ? size : CALLTREE_EVENT_BYTES - place;

	memcpy(to, ring + place, first);
	memcpy(to + first, ring, size - first);
}

bool call_events_drain(struct call_events *events, const struct engine_thread *thread,
		       struct calltree_memory *shared)
{
	uint64_t written = __atomic_load_n(&shared->written, __ATOMIC_ACQUIRE);
	uint64_t size = written - shared->taken;
	size_t good = 0;

	if (!size)
		return false;
	start_tell(events, thread);
	if (size <= CALLTREE_EVENT_BYTES && !map_find(&events->broken, thread->number)) {
		ring_copy(shared, shared->taken, events->buffer, size);
		good = records_check(events, thread->number, events->buffer, size);
		call_event_file_bytes(events->file, events->buffer, good);
	}
	if (good < size) {
		map_at(&events->broken, thread->number, NULL);
		events->lost++;
	}
	__atomic_store_n(&shared->taken, written, __ATOMIC_RELEASE);
	return true;
}

void call_events_end(struct call_events *events, const struct engine_thread *thread,
		     struct calltree_memory *shared, const char *name, double tick)
{
	struct call_event event = { .major = CALL_MAJOR_THREAD,
				    .minor = CALL_MINOR_NAME,
				    .thread = thread->number };
	struct call_amount now[CALLTREE_METRICS_MAX];

	call_events_drain(events, thread, shared);
	start_tell(events, thread);
	memcpy(now, shared->now, sizeof(now));
	call_event_file_put(events->file, &event, now, name, strlen(name));
	event.minor = CALL_MINOR_END;
	event.routine = thread->tid;
	event.sp = thread->number;
	call_event_file_put(events->file, &event, now, NULL, 0);
	event.minor = CALL_MINOR_SCALE;
	memcpy(&event.routine, &tick, sizeof(tick));
	event.sp = shared->timed ? shared->overhead : 0;
	call_event_file_put(events->file, &event, NULL, NULL, 0);
	events->lost += shared->dropped;
}

uint64_t call_events_lost(const struct call_events *events)
{
	return events->lost;
}

int call_events_flush(struct call_events *events)
{
	call_event_file_flush(events->file);
	return call_event_file_error(events->file);
}
