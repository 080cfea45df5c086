/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of assay calls, which the rows in options_engine.c fill. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "marks/routines.h"
#include "recorder/calls_sink.h"
#include "wire/call_area.h"

enum calls_way { CALLS_AUTO, CALLS_ENGINE, CALLS_HOOKS, CALLS_JAVA };
enum calls_view { CALLS_TREE, CALLS_FUNCTIONS, CALLS_CALLGRAPH };

struct calls_options {
	enum calls_view view;
	enum calls_way way;
	bool entries; /* hooks: the program tells entries only */
	bool count_only;
	/* functions that get nodes of their own; functions that do not */
	struct option_texts only, skip;
	bool allocations;
	bool resources;
	const char *events; /* file: events are written to it; NULL: none */
	const char *from_events; /* file: nothing is run, they are read from it; NULL */
	uint64_t limit; /* rows; 0: some in text, all in JSON */
	bool json;
	const char *output; /* the profile */
	double snapshot_every; /* s; 0: never */
	uint32_t max_nodes;
	double prune_share;
	uint32_t max_depth;
	uint32_t max_threads;
	uint32_t pid; /* a process that runs; 0: a command is started */
	double duration; /* s; 0: until an interrupt */
};

/* What became of a command. */
struct calls_outcome {
	int code; /* its own, or why it was not run */
	struct calls_totals totals;
	double overhead; /* ns that were taken off each interval; 0: none */
	uint64_t bad; /* trees that made no sense */
	uint64_t native; /* threads that left the engine */
	uint64_t events_lost; /* of engines, not in the file of events */
	uint64_t own_faults; /* page faults of the engine's own, which are in no tree */
	uint64_t no_exits; /* entries whose exits could not be seen */
	uint64_t unpatched; /* patchable entries that could not be patched */
	bool wall_only; /* base times include waiting */
	uint64_t java[CALL_JAVA_COUNT]; /* what became of classes and methods */
};

static inline struct routine_choice calls_choice(const struct calls_options *wish)
{
	return (struct routine_choice){ { wish->only.items, wish->only.count },
					{ wish->skip.items, wish->skip.count } };
}

/* Prints what is asked for of a profile. */
int calls_profile_show(const struct calls_options *wish, const char *path);
/* How calls are seen best: the program calls hooks, it starts Java, or neither. */
struct calls_kind {
	enum calls_way way;
	bool entries; /* it tells entries only */
};

struct calls_kind calls_kind_of(const char *command);
/* Runs a command in the engine and writes the profile. */
int calls_engine_run(const struct calls_options *wish, char **command, struct calls_outcome *ret);
/* Takes a process that runs into the engine, until its end, an interrupt, or for a while. */
int calls_engine_attach(const struct calls_options *wish, struct calls_outcome *ret);
