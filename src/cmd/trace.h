/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of assay trace, which the rows in options_engine.c fill. */
#pragma once

#include <sys/types.h>

#include "base/option.h"
#include "paths/cycles.h"

struct trace_options {
	uint32_t pid; /* 0: a command */
	double duration; /* seconds; 0: no end */
	bool release; /* takes the engine out of a process whose host has ended */
	uint64_t tools; /* a set: ENGINE_TOOL_BIT */
	uint32_t layers;
	uint32_t max_cycle; /* symbols */
	uint64_t memory; /* bytes */
	struct cycles_options table; /* of cycles */
	bool no_children;
	const char *summary; /* a file; NULL: none */
	uint64_t cache_size; /* bytes */
	const char *output;
	const char *raw; /* a file; NULL: none */
	bool quiet, verbose;
};

struct inject;
struct marks;
struct marks_live;

/* The marks for the tool marks, and callbacks for changing them while the program runs. */
struct trace_marks {
	struct marks *marks;
	struct marks_live *live; /* NULL: they are not read meanwhile */
	/* The process runs in the engine; called in the thread that follows it, as is tick. */
	void (*begun)(void *ctx, struct inject *inject, pid_t pid);
	void (*tick)(void *ctx); /* see inject_tick */
	void (*over)(void *ctx); /* it is over, and what was recorded is not written yet */
	void *ctx;
};

/*
 * Runs the command, or takes the process, in the engine, as the options say, and records. marks:
 * NULL for other tools. Returns the exit code.
 */
int trace_run(const struct trace_options *options, const struct trace_marks *marks, char **command);

/* With file capabilities (setcap) the kernel would let any user's process be taken. */
int trace_process_check(pid_t pid);
