/* SPDX-License-Identifier: BSD-2-Clause */
/* Stack samples, and waits, on the paths of calls of the same profile. */
#pragma once

#include <stdint.h>

#include "analyse/filter.h"
#include "store/profile.h"

/* Samples, or ns of waiting, that are on no path of calls. */
struct call_samples_off {
	uint64_t paths; /* that no call took, in trees that there are */
	uint64_t threads; /* that have no tree, or it is not known which */
};

/*
 * Adds the samples of the threads that the filter leaves to the paths that they were taken on.
 * samples: by row of call_node. filter NULL: all threads.
 */
struct call_samples_off call_samples_place(const struct profile *profile,
					   const struct filter *filter, uint64_t *samples);
/* The same of ns that threads waited, until they were on a processor again. */
struct call_samples_off call_waits_place(const struct profile *profile, const struct filter *filter,
					 uint64_t *ns);
