/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Puts the engine into processes at their first instruction.
 *
 *	inject_create()		the engine and the memory that is shared with it, for a command and all it starts
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
#include "inject/program.h"
#include "wire/engine.h"

struct inject;

/* flags: enum engine_flag. Gives up privileges that the binary has and its user has not: what it starts could use them. */
int inject_create(enum engine_tool tool, unsigned flags, struct inject **ret);
/* The processes go on; their engines see that nobody listens any more. */
void inject_destroy(struct inject *inject);
DEFINE_AUTO(struct inject, inject_destroy)

/* How much translated code an engine keeps, in bytes; 0: its own limit. */
void inject_cache_limit(struct inject *inject, uint64_t bytes);

struct engine_shared *inject_shared(const struct inject *inject);
/* Of the memory that is shared: with slots (wire/stream.h) if the tool records. */
uint64_t inject_shared_size(const struct inject *inject);
uint64_t inject_session(const struct inject *inject);
/* Where the engine is put if nothing is in the way. */
uint64_t inject_address(const struct inject *inject);

/* Signals that end a program by default and are the command's business: blocked from its start until somebody hands them on. */
#define INJECT_SIGNALS(X)                                                                          \
	X(SIGINT)                                                                                  \
	X(SIGTERM)                                                                                 \
	X(SIGHUP)                                                                                  \
	X(SIGQUIT)

void inject_signals_block(void);
/* As the caller had it when it called inject_create(). */
const sigset_t *inject_mask(const struct inject *inject);

/*
 * Starts a command; argv[0] is searched in PATH. Once this has returned, it runs, with nobody attached. A command that exec
 * refuses fails with exec's reason: -ENOENT where there is no such file. INJECT_SIGNALS are blocked afterwards.
 */
int inject_start(struct inject *inject, char *const *argv, pid_t *ret);

/*
 * A thread of this thread's is stopped at PTRACE_EVENT_EXEC: puts the engine in and lets it go. In any case nobody is
 * attached afterwards; on failure the program goes on without an engine, and *ret_obstacle says why.
 */
int inject_take(struct inject *inject, pid_t pid, enum program_obstacle *ret_obstacle);
