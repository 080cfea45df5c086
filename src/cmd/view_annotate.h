/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "analyse/table.h"
#include "cmd/view_code.h"

/*
 * The instructions of a function with their samples, and with the values of those that have any.
 * The profile has samples, names and code loaded, and values if it holds them. -ENOENT: the code is
 * nowhere.
 */
int view_annotate(const struct profile *profile, struct view_code *source, uint32_t symbol,
		  struct table **ret);
