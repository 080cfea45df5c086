/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts the engine into processes at their first instruction.
 *
 *	inject_create()		the engine and the memory that is shared with it, for a command and
 *				all it starts
 *	inject_start()		starts the command, with the engine in it
 *	follow_run()		serves the engines until the command has ended (follow.h)
 *
 * All of it belongs to one thread: the kernel knows a tracer by its thread.
 */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/memories.h"
#include "inject/program.h"
#include "wire/engine.h"
#include "wire/stream.h"

struct inject;

/*
 * tools: a set, ENGINE_TOOL_BIT. flags: enum engine_flag; ASSAY_ENGINE_CHECKS in the environment
 * adds one. Gives up privileges that the binary has and its user has not, because a program that it
 * starts could use them.
 */
int inject_create(uint64_t tools, unsigned flags, struct inject **ret);
/* The processes go on; their engines see that there is no host any more. */
void inject_destroy(struct inject *inject);
DEFINE_AUTO(struct inject, inject_destroy)

/* How much translated code an engine keeps, in bytes; 0: its own limit. */
void inject_cache_limit(struct inject *inject, uint64_t bytes);

/* The shared memories, one for each process; they have slots (wire/stream.h) if a tool records. */
struct memories *inject_memories(const struct inject *inject);
uint64_t inject_shared_size(const struct inject *inject);
/*
 * Makes the memory that the next process will get. pid 0: it belongs to no process, for tests. If
 * no process gets it, the caller has to set `ended`.
 */
int inject_memory_make(struct inject *inject, pid_t pid, struct memory **ret);
/*
 * The memory that all processes can read and only we can write. The pointer is where a process's
 * memory would begin around it, so that STREAM_GATES and STREAM_MARKS are offsets from there.
 */
void *inject_public(const struct inject *inject);

/*
 * The counts of the engines of all processes. The programs could overwrite them, so nothing may
 * depend on them.
 */
struct inject_counts {
	uint64_t left[ENGINE_LEAVES_END];
	uint64_t counts[ENGINE_COUNTS_END];
	struct engine_fault fault; /* of the first process that had one */
};
struct inject_counts inject_counts(const struct inject *inject);
uint64_t inject_session(const struct inject *inject);
/* Where the engine is put if nothing is in the way. */
uint64_t inject_address(const struct inject *inject);

/*
 * Answers an engine's request about code that was mapped (ENGINE_REQUEST_MODULE): 0 or more, or a
 * negative errno. The module is a private copy of what the process wrote, with a terminated path.
 * Called by follow_run() and follow_attached().
 */
typedef int inject_module(void *ctx, pid_t pid, const struct stream_module *module);
void inject_modules_serve(struct inject *inject, inject_module *serve, void *ctx);
/* -ENOTSUP: no function was set. */
int inject_module_ask(const struct inject *inject, pid_t pid, const struct stream_module *module);

/*
 * A function that follow_run() and follow_attached() call each time they wake up, for work that
 * only their thread can do. inject_ring() wakes them, from any thread.
 */
typedef void inject_tick(void *ctx);
void inject_tick_serve(struct inject *inject, inject_tick *tick, void *ctx);
void inject_tick_call(const struct inject *inject);
void inject_ring(const struct inject *inject);

/*
 * Signals that end a program by default and are meant for the command: blocked from its start until
 * follow_run() forwards them.
 */
#define INJECT_SIGNALS(X)                                                                          \
	X(SIGINT)                                                                                  \
	X(SIGTERM)                                                                                 \
	X(SIGHUP)                                                                                  \
	X(SIGQUIT)

void inject_signals_block(void);
/* The signal mask of the caller of inject_create(). */
const sigset_t *inject_mask(const struct inject *inject);

/*
 * Starts a command; argv[0] is searched in PATH. Once this has returned, it runs, with no tracer
 * attached. A command that exec refuses fails with exec's reason: -ENOENT where there is no such
 * file. INJECT_SIGNALS are blocked afterwards.
 */
int inject_start(struct inject *inject, char *const *argv, pid_t *ret);

/*
 * A thread of this thread's is stopped at PTRACE_EVENT_EXEC: puts the engine in and lets it go. In
 * any case no tracer is attached afterwards; on failure the program goes on without an engine, and
 * *ret_obstacle says why.
 */
int inject_take(struct inject *inject, pid_t pid, enum program_obstacle *ret_obstacle);
