/* SPDX-License-Identifier: BSD-2-Clause */
/* A profile that is still being written, as of its last commit. */
#pragma once

#include <stdbool.h>

/*
 * Copies the last commit of a profile to a path where nothing is; the process that writes the
 * profile does not wait. The copy is as unfinished as the original. Refusals are those of
 * profile_open().
 */
int store_snapshot(const char *path, const char *to);
/* Whether some process is writing it. */
bool store_is_written(const char *path);
