/* SPDX-License-Identifier: BSD-2-Clause */
/* Serves the engines of a command and of all it starts, until the command has ended. */
#pragma once

#include "inject/inject.h"

struct follow_result {
	int exit_code; /* exit status, or 128 + signal */
	bool ended; /* attached: it has ended by itself */
	bool left; /* the command was told to end and has not; exit_code is 128 + that signal */
	bool again; /* because it was told to end a second time */
	uint64_t alone; /* processes that were forked and could not be given memory to record in */
	uint64_t taken; /* programs that were executed and have the engine */
	uint64_t native[PROGRAM_OBSTACLE_COUNT]; /* those that run natively, by reason */
};

/*
 * pid is what inject_start() has started. SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process are
 * handed on to it; those of a terminal it gets by itself. If it has not ended three seconds later,
 * or when a second signal comes, it is left alone. On return these signals are blocked: the caller
 * takes them again when what was recorded is written.
 */
int follow_run(struct inject *inject, pid_t pid, struct follow_result *ret);

/*
 * process is a pidfd of what attach_take() has taken. Until it has ended, or one of these signals
 * has come, or duration nanoseconds are over (0: never). Then no request is served any more.
 */
int follow_attached(struct inject *inject, int process, uint64_t duration,
		    struct follow_result *ret);
