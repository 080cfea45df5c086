/* SPDX-License-Identifier: BSD-2-Clause */
/* The difference of two profiles, with a test whether it is larger than sampling errors explain. */
#pragma once

#include <stdbool.h>

#include "analyse/filter.h"
#include "analyse/table.h"
#include "store/profile.h"

struct diff_request {
	struct filter filter; /* for both */
	bool lines; /* by line instead of by function */
	bool total; /* compare with what was called, instead of self */
	bool significant_only;
	double min_share; /* of the larger of the two */
	const char *sort; /* column; NULL: by size of the change */
	size_t limit; /* 0: all */
	bool exact; /* of executed code (executed_stacks.h): counts have no error */
};

/* a is the older one. -EINVAL: the sort column does not exist. */
int diff_run(const struct profile *a, const struct profile *b, const struct diff_request *request,
	     struct table **ret);
