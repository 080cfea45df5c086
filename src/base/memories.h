/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is shared with other processes, a piece for each, and who of us still needs it.
 *
 *	the follower	makes a piece for a process, serves the process, sees its end, and is the
 *			only one who takes pieces away (memories_collect)
 *	the reader	a thread beside it, if there is one: finds new pieces, and says of each when
 *			it has read it to the end
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct memory {
	void *bytes;
	uint64_t size;
	uint32_t number; /* from 1, never used again */
	pid_t pid; /* as we know it; 0: of nobody in particular */
	uint64_t inode;
	int file; /* for other processes that want to look; -1: none. Closed with the piece */
	bool read; /* the reader needs it no more; atomic */
	bool ended; /* its process has ended, or executes another program; atomic */
	uint64_t ended_at; /* ns; of the follower */
};

struct memories;

struct memories *memories_create(void);
/* Unmaps all. */
void memories_destroy(struct memories *memories);
/* From now on, pieces stay until memory.read is set. */
void memories_reader_expect(struct memories *memories);
struct memory *memories_add(struct memories *memories, void *bytes, uint64_t size, pid_t pid,
			    uint64_t inode);
/* The one with the next higher number; NULL: none. For both. */
struct memory *memories_after(struct memories *memories, uint32_t number);
size_t memories_count(struct memories *memories);

/*
 * Looks which processes have ended. Pieces that nobody needs are unmapped, a while after their
 * process has ended: a child of it may still ask there. gone() is called before.
 */
void memories_collect(struct memories *memories,
		      void (*gone)(void *ctx, const struct memory *memory), void *ctx);

bool pid_is_alive(pid_t pid);

enum { BELLS_MAX = 127 };

/* Words that others, in any process, add to and wake: a sleep ends when one is not as it was. */
struct bells {
	size_t count; /* those beyond BELLS_MAX are not waited for, and the sleep is short then */
	uint32_t *words[BELLS_MAX];
	uint32_t values[BELLS_MAX];
};

void bells_add(struct bells *bells, uint32_t *word, uint32_t value);
/* timeout NULL: none. */
void bells_wait(const struct bells *bells, const struct timespec *timeout);
void bell_ring(uint32_t *word);
