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
 * adds one. Gives up privileges that the binary has and its user has not: what it starts could use
 * them.
 */
int inject_create(uint64_t tools, unsigned flags, struct inject **ret);
/* The processes go on; their engines see that nobody listens any more. */
void inject_destroy(struct inject *inject);
DEFINE_AUTO(struct inject, inject_destroy)

/* How much translated code an engine keeps, in bytes; 0: its own limit. */
void inject_cache_limit(struct inject *inject, uint64_t bytes);

/* Memory that is shared, a piece for each process: with slots (wire/stream.h) if a tool records. */
struct memories *inject_memories(const struct inject *inject);
uint64_t inject_shared_size(const struct inject *inject);
/*
 * Makes a piece; the next process that is taken gets it. pid 0: of whoever has it, for tests. It is
 * the caller's to say that it has ended if no process gets it.
 */
int inject_memory_make(struct inject *inject, pid_t pid, struct memory **ret);
/*
 * What all processes can read and we alone can write, as if it began where a process's memory
 * begins: STREAM_GATES and STREAM_MARKS are offsets in it.
 */
void *inject_public(const struct inject *inject);

/* What engines say about themselves, of all processes: not more than a hint. */
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
 * What an engine gets that asks about code that was mapped (ENGINE_REQUEST_MODULE): 0 or more, or a
 * negative errno. The module is as the process said it, in private memory, and its path has an end.
 * Called by follow_run() and follow_attached().
 */
typedef int inject_module(void *ctx, pid_t pid, const struct stream_module *module);
void inject_modules_serve(struct inject *inject, inject_module *serve, void *ctx);
/* -ENOTSUP: nobody serves. */
int inject_module_ask(const struct inject *inject, pid_t pid, const struct stream_module *module);

/*
 * Whoever is called by follow_run() and follow_attached() whenever something may have happened: for
 * what only their thread can do. inject_ring() makes it so, from any thread.
 */
typedef void inject_tick(void *ctx);
void inject_tick_serve(struct inject *inject, inject_tick *tick, void *ctx);
void inject_tick_call(const struct inject *inject);
void inject_ring(const struct inject *inject);

/*
 * Signals that end a program by default and are the command's business: blocked from its start
 * until somebody hands them on.
 */
#define INJECT_SIGNALS(X)                                                                          \
	X(SIGINT)                                                                                  \
	X(SIGTERM)                                                                                 \
	X(SIGHUP)                                                                                  \
	X(SIGQUIT)

void inject_signals_block(void);
/* As the caller had it when it called inject_create(). */
const sigset_t *inject_mask(const struct inject *inject);

/*
 * Starts a command; argv[0] is searched in PATH. Once this has returned, it runs, with nobody
 * attached. A command that exec refuses fails with exec's reason: -ENOENT where there is no such
 * file. INJECT_SIGNALS are blocked afterwards.
 */
int inject_start(struct inject *inject, char *const *argv, pid_t *ret);

/*
 * A thread of this thread's is stopped at PTRACE_EVENT_EXEC: puts the engine in and lets it go. In
 * any case nobody is attached afterwards; on failure the program goes on without an engine, and
 * *ret_obstacle says why.
 */
int inject_take(struct inject *inject, pid_t pid, enum program_obstacle *ret_obstacle);
