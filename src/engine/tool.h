/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tools: what the engine does besides running the program. A tool is a table of functions; what is NULL does not happen.
 *
 * Code runs in fragments, and leaves them at the end of a block. What was executed between two such moments is a run
 * (wire/stream.h), and run_end() may put code there with the helpers of build.h: once per run instead of once per block,
 * which is why tools are cheap. Tools never put instructions of their own choice.
 *
 * The functions are called with the engine's lock held, but for thread_end and syscall.
 */
#pragma once

#include "engine/engine.h"

struct build;
struct run_end;

struct tool {
	/* Of the times a block was executed, how many must go the same way for a trace to follow; traces.c. */
	unsigned trace_percent;
	bool trace_once; /* and it ends before a block that it holds: cycles stay visible */
	/* Puts code where a run ends. */
	void (*run_end)(struct build *build, const struct run_end *end);
	/* A fragment is finished and has runs. */
	void (*run_defined)(const struct fragment *fragment);
	/* A run has ended where no code could be put, in a system call or a signal: does the same by hand. */
	void (*run_told)(struct thread *thread, uint32_t run);
	/* Takes back what run_told() has just done: the system call has yet to be done. */
	void (*run_untold)(struct thread *thread, uint32_t run);
	/* put_append() found a chunk full. No lock is held. */
	void (*called)(struct thread *thread);
	/* Before the first and after the last instruction of a thread. */
	void (*thread_start)(struct thread *thread);
	void (*thread_end)(struct thread *thread);
	/* Memory that holds code, when it is first seen. */
	void (*module)(const struct region *region, const char *path);
	/* A system call is about to be done: number and arguments are in the registers. */
	void (*syscall)(struct thread *thread);
};

/* NULL: the program just runs. */
const struct tool *tool(void);
/* A run has ended in the middle of a fragment: bytes and instructions are those executed of the piece. */
void tool_run_cut(struct thread *thread, const struct fragment *fragment, unsigned piece,
		  uint64_t length, uint32_t instructions);

extern const struct tool tool_count, tool_blocks, tool_paths, tool_coverage;
