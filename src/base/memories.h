/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of memories that we share with other processes, one piece for each process. Two threads
 * of ours use it, and a piece is unmapped when neither needs it any more:
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
	pid_t pid; /* in our pid namespace; 0: the piece belongs to no process in particular */
	uint64_t inode;
	/* by which other processes can map the piece too; -1: none. Closed with the piece */
	int file;
	bool read; /* the reader needs it no more; atomic */
	bool ended; /* its process has ended, or executes another program; atomic */
	uint64_t ended_at; /* ns; only the follower uses it */
	uint32_t served; /* its bell when the follower last looked at its requests */
	uint32_t hints; /* of translations, that the follower has read (inject/sharing.c) */
};

struct memories;

struct memories *memories_create(void);
/* Unmaps all pieces. */
void memories_destroy(struct memories *memories);
/* From now on, pieces stay until memory.read is set. */
void memories_reader_expect(struct memories *memories);
struct memory *memories_add(struct memories *memories, void *bytes, uint64_t size, pid_t pid,
			    uint64_t inode);
/* The piece with the next higher number; NULL: there is none. Both threads may call it. */
struct memory *memories_after(struct memories *memories, uint32_t number);
size_t memories_count(struct memories *memories);

/*
 * Finds the processes that have ended, and unmaps the pieces that neither thread needs. A piece is
 * kept for a while after its process has ended, because a child of that process may still make a
 * request in it. gone() is called before a piece is unmapped.
 */
void memories_collect(struct memories *memories,
		      void (*gone)(void *ctx, const struct memory *memory), void *ctx);

bool pid_is_alive(pid_t pid);

enum { BELLS_MAX = 127 };

/*
 * Futexes on which one thread sleeps: others, in any process, add to one of the words and wake it.
 * The sleep ends when any of the words is not as it was.
 */
struct bells {
	/*
	 * if there are more than BELLS_MAX, the others are not waited for, and the sleep is short
	 */
	size_t count;
	uint32_t *words[BELLS_MAX];
	uint32_t values[BELLS_MAX];
};

void bells_add(struct bells *bells, uint32_t *word, uint32_t value);
/* timeout NULL: none. */
void bells_wait(const struct bells *bells, const struct timespec *timeout);
void bell_ring(uint32_t *word);
