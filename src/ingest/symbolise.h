/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives names and lines to every location of a profile, and keeps the code of sampled functions, so that the profile
 * can be read anywhere. Runs when recording ends; and on the first look at a profile whose collector was killed.
 */
#pragma once

#include "store/store.h"

/* Opens a module's file, or returns a negative errno; the fd is the caller's. */
typedef int (*symbolise_open_fn)(void *ctx, const struct store_module *module);

/* One transaction: either every location has its names afterwards, or none. */
int symbolise(struct store *store, symbolise_open_fn open, void *ctx);

/* Opens the module's path if the file there still has the build-id that was recorded. */
int symbolise_open_path(void *ctx, const struct store_module *module);

/* Names what a killed collector left without names, and marks the profile finished. 0 also when nothing is to do. */
int symbolise_unfinished(const char *path);
