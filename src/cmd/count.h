/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of assay count, which the rows in options_engine.c fill. */
#pragma once

#include "cmd/trace.h"
#include "marks/live.h"
#include "marks/marks.h"

struct count_options {
	struct option_texts marks;
	const char *file; /* of marks; NULL: none */
	const char *hot; /* a profile, whose hottest functions are marked; NULL: none */
	uint32_t top; /* how many of them */
	const char *recipe; /* further options, from a file; NULL: none */
	struct option_texts rules;
	const char *sweep; /* a module whose pages are marked in turn; NULL: none */
	uint32_t follow; /* how many levels of callers are marked; 0: none */
	uint32_t accesses_max; /* pairs of instruction and data that a thread tells apart */
	double every; /* seconds between two readings; 0: not given */
	uint32_t live; /* a process in which another assay count counts; 0: none */
	struct option_texts add, remove; /* marks that are changed there */
	bool json; /* what is read there */
	const char *by; /* who counts: "engine", "kernel" or "auto" */
	struct trace_options trace; /* what it has in common with assay trace */
};

struct session;

/*
 * Counts by probes of the kernel in a process that runs by itself, or in a command. Returns the
 * exit code. The marks must not have been published.
 */
int count_kernel(const struct count_options *given, struct marks *marks, struct marks_live *live,
		 struct session *session, char *const *command);
/*
 * Watches the process for a moment with probes of the kernel, and says what it has found.
 * *ret_kernel: counting by the kernel is cheaper than by the engine. The marks cannot be used any
 * more.
 */
int count_choose(const struct count_options *given, struct marks *marks, bool *ret_kernel);

/* Reads, or changes, what another assay count counts. Returns the exit code. */
int count_live(const struct count_options *given);
