/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's side of wire/stream.h: slots, rings and the catalog of the process. */
#pragma once

#include "engine/engine.h"
#include "wire/stream.h"

/* The caller holds the engine's lock. */

/* Whether anything is recorded. */
bool stream_wanted(void);
/* Memory that a thread takes, with what it records. */
size_t stream_thread_bytes(void);
/* The slot of the process's catalog; not a slot: it has none. */
uint32_t stream_catalog_number(void);
/* The catalog of a program that begins. */
void stream_start(void);
/* In the child, after a fork: makes a catalog and slots of its own. */
void stream_fork(struct thread *thread, uint32_t parent);
/* The catalog of this process, by a number that no other has. */
uint32_t stream_catalog(void);
/* A thread that a fork has left behind: what it shares with the host is the parent's. */
void stream_forget(struct thread *thread);
void stream_thread_start(struct thread *thread);
void stream_thread_end(struct thread *thread);
/* All threads end, and what they have recorded stays: only what has no slot is counted now. */
void stream_process_end(struct thread *thread);

/* The number of the first segment of a new fragment; 0: there are none left. */
uint32_t stream_segments_next(void);
/* After a fault of the engine itself. */
void stream_skip(void);
/* The fragment is finished: what its segments are. */
void stream_segments_define(const struct fragment *fragment);
/* A segment of the blocks before that one and of some bytes of it. */
uint32_t stream_partial(const struct fragment *fragment, unsigned block,
			const struct stream_block *last);
void stream_module(const struct region *region, const char *path);
void stream_native(const struct thread *thread);
void stream_counter(uint32_t tool, uint32_t index, uint64_t pc, const char *name);
enum { STREAM_MARKED_MAX = 256 };
/* At most STREAM_MARKED_MAX. */
void stream_marked(uint32_t segment, const struct stream_mark *marks, uint32_t count);

/* Writes an event of a mark with the program's present registers and stack. */
struct mark_event;
void stream_event(const struct thread *thread, const struct mark_event *from);

/* Writes the meaning of all counters to a new catalog (counters.c). */
void counters_tell_again(void);

/* The host has something to take that cannot wait. */
void stream_host_wake(void);
/* Whether the host reads what the thread has in its memory. */
bool stream_is_read(struct thread *thread);

/* --- The thread's own; no lock ----------------------------------------------------------- */
uint8_t *stream_counts(struct thread *thread);
const struct stream_gates *stream_gates(struct thread *thread);
/*
 * Appends a segment from the engine's own code. stream_settle() must follow before the next append;
 * the engine calls it on its way to the cache.
 */
void stream_append(struct thread *thread, uint32_t segment);
void stream_unappend(struct thread *thread, uint32_t segment);
/* The segments of the chunk that has just become full; NULL: the ring is private. */
const uint32_t *stream_chunk(struct thread *thread, uint32_t *ret_count);
/* A chunk is full: goes on in the next, as soon as there is room. */
void stream_settle(struct thread *thread);
