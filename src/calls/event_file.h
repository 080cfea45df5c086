/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of events of calls (wire/call_events.h) that is written while programs run. */
#pragma once

#include <stddef.h>

#include "base/cleanup.h"
#include "wire/call_events.h"

struct call_event_file;

int call_event_file_create(const char *path, const struct call_trace_head *head,
			   struct call_event_file **ret);
void call_event_file_destroy(struct call_event_file *file);
DEFINE_AUTO(struct call_event_file, call_event_file_destroy)

/* Records as a program has written them, or a part of one that is followed by the rest. */
void call_event_file_bytes(struct call_event_file *file, const void *bytes, size_t size);
/*
 * A record of the host's own; size is set here. now: the thread's counters; NULL: those of the
 * beginning, where nothing is charged by the record.
 */
void call_event_file_put(struct call_event_file *file, const struct call_event *event,
			 const struct call_amount *now, const void *payload, size_t size);
/* Code that a process has loaded, as a CODE record; bias: see there. */
struct call_event_code {
	uint32_t pid;
	uint64_t start, end, bias;
	const char *path;
};
void call_event_file_code(struct call_event_file *file, const struct call_event_code *code);
/* Everything is in the file now, unless there is an error. */
void call_event_file_flush(struct call_event_file *file);
/* The first failure to write, as a negative errno, said again; 0: there was none. */
int call_event_file_error(const struct call_event_file *file);
