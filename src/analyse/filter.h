/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which samples and which functions a view is about.
 *
 * pid, tid, uid and comm choose samples, by the thread they were taken in. symbol and module choose
 * code. A pattern matches when it is part of the name; one that holds '*' or '?' must match the
 * whole name, '*' standing for any text and '?' for any one byte. Of several patterns for one
 * thing, any may match.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/option.h"
#include "store/profile.h"

struct filter {
	struct option_numbers pids, tids, uids;
	struct option_texts comms; /* thread's name or its process's */
	struct option_texts symbols; /* name as shown, or linkage name */
	struct option_texts modules; /* path, or its last part */
};

void filter_deinit(struct filter *filter);

bool pattern_match(const char *pattern, const char *name);

bool filter_is_empty(const struct filter *filter);
/* Whether symbols or modules are given. */
bool filter_has_code(const struct filter *filter);
bool filter_thread(const struct filter *filter, const struct profile *profile, uint32_t thread);
/* symbol 0: code without a name, in the given module. */
bool filter_symbol(const struct filter *filter, const struct profile *profile, uint32_t symbol);
bool filter_module(const struct filter *filter, const struct profile *profile, uint32_t module);
