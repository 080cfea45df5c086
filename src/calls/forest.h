/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trees of all threads of a trace, built from its event records (wire/call_events.h). A living
 * source hands over the same records, so both give the same trees.
 *
 * Traces are checked: an inconsistent record is refused and counted, and a trace that cannot be
 * read any further is an error.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/map.h"
#include "calls/tree.h"
#include "wire/call_events.h"

struct call_forest_options {
	uint32_t node_limit; /* of one thread; pruning begins above */
	uint32_t depth_limit;
	uint32_t thread_limit;
	uint32_t prune_permille;
	enum call_stack_rule rule;
};

#define CALL_FOREST_DEFAULTS                                                                       \
	((struct call_forest_options){ .node_limit = 1 << 20,                                      \
				       .depth_limit = 1 << 14,                                     \
				       .thread_limit = 1 << 16,                                    \
				       .prune_permille = 100 })

struct call_thread {
	uint32_t number;
	char *name; /* the last one, or NULL */
	uint64_t tid; /* of the kernel's thread it started on */
	uint64_t generation;
	uint32_t pid, parent; /* of the process, and of the one that forked it; 0: unknown */
	double tick; /* ns for each tick of time; 1 if nothing else was said */
	uint64_t overhead; /* ticks that each interval was longer by */
	uint64_t program; /* number of the record that began it; 0: none did */
	ARRAY(char *) tasks; /* names, by number */
	bool out; /* does not run */
	bool ended;
	struct call_tree_head head;
	struct call_tree tree;
};

/* Code that a process had loaded. */
struct call_load {
	uint32_t pid;
	uint64_t start, end;
	uint64_t bias; /* addresses of the file are those in the process - bias */
	uint64_t program; /* as of a thread */
	char *path;
};

struct call_forest {
	struct call_forest_options options;
	struct call_trace_head trace;
	ARRAY(struct call_thread *) threads; /* in the order in which they appeared */
	struct map by_number; /* thread number to place in threads */
	ARRAY(struct call_load) loads;
	struct map programs; /* pid to the number of the record that began its newest one */
	struct map names; /* routine to name's id */
	struct strtab strings;
	uint64_t events;
	uint64_t refused; /* records that make no sense, or of threads beyond the limit */
};

/* Fails if the head is not one of a trace that can be read. limits below the least are raised. */
int call_forest_init(struct call_forest *forest, const struct call_trace_head *trace,
		     const struct call_forest_options *options);
void call_forest_deinit(struct call_forest *forest);

/*
 * Takes the whole records at the beginning of data, and says how many bytes they have. Fails at a
 * size that no record can have; what came before has been taken.
 */
int call_forest_take(struct call_forest *forest, const void *data, size_t size, size_t *ret);

/* A whole trace: the head and records up to the end, where no part of a record may be left. */
int call_forest_read(struct call_forest *forest, const void *data, size_t size,
		     const struct call_forest_options *options);

struct call_thread *call_forest_thread(const struct call_forest *forest, uint32_t number);
/* The routine's name, or NULL. */
const char *call_forest_name(const struct call_forest *forest, uint64_t routine);
