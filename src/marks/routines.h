/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routines of the files that programs map, for the engine's tool calltree: where they begin, which
 * of them get nodes of their own, and which allocate (wire/routines.h).
 *
 *	routines_create(), routines_publish()	before anything runs
 *	routines_module()			each time that an engine has seen code that is new
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "wire/routines.h"

struct routines;

/* Names of functions, in which * stands for any text and ? for any one byte. */
struct routine_patterns {
	const char *const *items;
	size_t count;
};

/* Which functions get nodes of their own. The others count as part of their callers. */
struct routine_choice {
	struct routine_patterns only; /* none: all */
	struct routine_patterns skip;
};

struct routines_options {
	struct routine_choice choice;
	uint32_t node_limit, depth_limit, prune_permille; /* of a thread's tree */
	bool allocations; /* objects and bytes are metrics of the tree */
	bool resources; /* so is what the kernel counts */
	bool events; /* each event is written as a record, too */
};

/*
 * Whether the function gets nodes of its own, by its name, its name up to a parenthesis, or its
 * name in the object file. A function with several names is asked about once for each.
 */
enum routine_wish { ROUTINE_UNWANTED, ROUTINE_NOT_MEANT, ROUTINE_WANTED };
/* Where the name of a part goes on behind that of its function ("name.cold"); NULL: it is whole. */
const char *routine_part_suffix(const char *linkage);

enum routine_wish routine_choice_of(const struct routine_choice *choice, const char *name,
				    const char *linkage);
/* The wish of the first name, and another one's. */
enum routine_wish routine_wish_join(enum routine_wish a, enum routine_wish b);
static inline bool routine_choice_any(const struct routine_choice *choice)
{
	return choice->only.count || choice->skip.count;
}

/* The patterns must outlive it. */
struct routines *routines_create(const struct routines_options *options);
void routines_destroy(struct routines *routines);
DEFINE_AUTO(struct routines, routines_destroy)

/* area: of ROUTINES_BYTES, shared with engines, which do not run yet. */
void routines_publish(struct routines *routines, void *area);
/* The place of the module's table; 0: there is none. Of type inject_module. */
int routines_module(void *routines, pid_t pid, const struct stream_module *module);
/* Modules whose table found no room, or whose file could not be read. */
uint64_t routines_failed(const struct routines *routines);
