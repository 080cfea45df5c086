/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's side of wire/stream.h: slots, rings and the log of the process. */
#pragma once

#include "engine/engine.h"
#include "wire/stream.h"

/* The caller holds the engine's lock. */

/* Whether anything is recorded. */
bool stream_wanted(void);
/* Memory that a thread takes, with what it records. */
size_t stream_thread_bytes(void);
/* The log of a program that begins. */
void stream_start(void);
/* In the child, after a fork: what it records goes elsewhere than what its parent does. */
void stream_fork(struct thread *thread);
void stream_thread_start(struct thread *thread);
void stream_thread_end(struct thread *thread);

/* The number of the first run of a new fragment; 0: there are none left. */
uint32_t stream_runs_next(void);
/* The fragment is finished: what its runs are. */
void stream_runs_define(const struct fragment *fragment);
/* A run of the pieces before that one and of some bytes of it. */
uint32_t stream_partial(const struct fragment *fragment, unsigned piece,
			const struct stream_piece *last);
void stream_module(const struct region *region, const char *path);
void stream_native(const struct thread *thread);

/* --- The thread's own; no lock --- */
uint8_t *stream_counts(struct thread *thread);
/* Appends by hand. stream_settle() must follow before the next append: the engine does so on its way to the cache. */
void stream_append(struct thread *thread, uint32_t run);
void stream_unappend(struct thread *thread, uint32_t run);
/* The runs of the chunk that has just become full; NULL: nobody reads them. */
const uint32_t *stream_chunk(struct thread *thread, uint32_t *ret_count);
/* A chunk is full: goes on in the next, as soon as there is room. */
void stream_settle(struct thread *thread);
