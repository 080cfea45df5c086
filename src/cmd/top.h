/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of assay top, which the rows in options_record.c fill. */
#pragma once

#include "base/option.h"

struct top_options {
	struct option_numbers pids;
	uint64_t frequency; /* Hz */
	const char *values; /* what to capture; NULL: nothing */
	uint32_t window; /* seconds */
};
