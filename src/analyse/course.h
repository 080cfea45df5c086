/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The course of a run: what each thread repeated when, as stretches of its instructions. At each
 * of two levels, strata and paths, the stretches of a thread follow each other from its beginning
 * to its end. A stretch is a cycle that was run some times in a row; what is shorter than a
 * picture could show is put together, with the path that most of it went to.
 *
 * A cycle is the same on each trip, so its content is stored once, and a stretch of a million trips
 * can be shown at any magnification.
 */
#pragma once

#include "analyse/filter.h"
#include "analyse/order.h"

enum course_level { COURSE_PATHS, COURSE_STRATA, COURSE_LEVELS };

struct course_stretch {
	uint32_t level;
	uint32_t cycle; /* of strata or paths, + 1; 0: various */
	uint64_t begin, end; /* instructions of the thread */
	uint64_t trips; /* of the cycle; of various ones all together */
	uint32_t hot; /* path that most instructions went to, */
	uint64_t hot_instructions; /* so many */
};

struct course_thread {
	uint32_t thread; /* of the profile */
	uint64_t instructions;
	size_t first, count; /* stretches, by level and begin */
};

/* A part of a stratum: a path and its trips; or several paths, of which `path` is the hottest. */
struct course_part {
	uint32_t path;
	uint64_t trips;
	uint64_t instructions;
	bool various;
};

struct course_stratum {
	uint64_t weight; /* instructions of a trip */
	size_t first, count; /* parts, in order; none: it has too many */
	uint32_t hot; /* path that most of it goes to */
	uint64_t hot_instructions;
};

struct course_step {
	uint32_t location; /* 0: the rest, in various functions */
	uint32_t file; /* 0: unknown */
	uint32_t line_low, line_high; /* in the first block's file; 0: unknown */
	uint64_t instructions;
};

struct course_path {
	uint32_t process; /* of the profile */
	uint64_t number; /* as of the view `paths` */
	uint64_t weight;
	size_t first, count; /* steps, in order */
};

struct course {
	ARRAY(struct course_thread) threads; /* that executed the most come first */
	ARRAY(struct course_stretch) stretches;
	ARRAY(struct course_stratum) strata;
	ARRAY(struct course_part) parts;
	ARRAY(struct course_path) paths;
	ARRAY(struct course_step) steps;
	size_t omitted; /* threads */
};

/*
 * resolution: a thread has stretches of its own where they are at least its n-th part.
 * -EBADMSG: the profile contradicts itself. Needs course_deinit() in any case.
 */
int course_make(const struct profile *profile, const struct filter *filter, size_t resolution,
		struct course *ret);
void course_deinit(struct course *course);
