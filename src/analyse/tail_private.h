/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the view "tail" share; tail_view.c says how it works. */
#pragma once

#include "analyse/views.h"
#include "base/array.h"
#include "base/map.h"

enum { ARGUMENTS = 6 };

/*
 * The visits of a group have a property in common if this share of them has it; it distinguishes
 * them if no more than the second share of usual visits has it.
 */
static const double common_share = 0.7, rare_share = 0.2;

/* Somewhere in the tree of calls. Number 0 is the routine itself. */
struct path {
	uint32_t parent;
	enum { PATH_CALL, PATH_SYSTEM_CALL, PATH_BLOCK } kind;
	uint32_t location, place; /* 0: none */
	uint32_t system_call;
	uint64_t object;
	double usual_ns, usual_count; /* means */
	uint32_t usual_visits; /* in which it was */
};

struct step {
	uint32_t path;
	double ns, count;
};

struct visit {
	const struct profile_mark_visit *row;
	size_t first, end; /* of steps */
	const struct profile_mark_visit_argument *arguments; /* NULL: none */
	bool usual, slow;
	double weight; /* so many slow visits it stands for */
};

/* Slow visits that are slow for the same reason. */
struct group {
	const char *cause;
	uint32_t path;
	double excess, off; /* of all that its visits stand for */
	/* The mean, kept as such: where all visits have as many, it is exactly that. */
	double faults;
	double weight;
	ARRAY(uint32_t) visits;
};

struct time_bucket {
	uint64_t from, visits;
};

struct tail {
	const struct profile *profile;
	const struct view_request *request;
	struct table *table;
	uint32_t mark;
	ARRAY(struct path) paths;
	struct map path_ids;
	ARRAY(struct step) steps;
	ARRAY(struct visit) visits;
	ARRAY(struct group) groups;
	ARRAY(struct time_bucket) buckets; /* of all visits, by time */
	uint64_t timed, p25, p50, p75;
	uint64_t slowest; /* ns: what takes so long is slow */
	uint32_t usual, slow;
	double weight; /* of all slow visits */
	double usual_faults, usual_off; /* means */
	uint32_t symbol; /* of the routine; 0: not known */
	unsigned parameters; /* bit n: it takes argument n, or that is not known */
	double excess; /* of all slow visits */
};

/* An argument that the visits of a group have in common, and usual visits do not. */
struct tail_common {
	const struct profile_mark_visit_argument *argument; /* NULL: nothing */
	unsigned way;
	double share, usual;
};

/* Weighs the slow visits: the slowest are all kept, of the others some. */
void tail_weights_find(struct tail *tail);
/*
 * Finds the routine and its parameters, by debug information, or else by what its code reads before
 * it writes it.
 */
void tail_parameters_find(struct tail *tail);
struct tail_common tail_common_find(const struct tail *tail, const struct group *group);
/* "size = 13", "*name = "GET /""; the register, where debug information has no name. */
const char *tail_common_text(const struct tail *tail, const struct tail_common *common);
