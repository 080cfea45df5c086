/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives names and lines to every location of a profile, and keeps the code and the parameters of
 * functions, so that the profile can be read anywhere. Runs when recording ends; and on the first
 * look at a profile whose recorder was killed.
 */
#pragma once

#include "store/store.h"
#include "symbols/module_cache.h"

/* Opens a module's file, or returns a negative errno; the fd is the caller's. */
typedef int (*symbolise_open_fn)(void *ctx, const struct store_module *module);

/*
 * Code for which the module has no file: of the kernel, of a JIT compiler. address is as in the
 * module's locations. Returns how many of the size bytes are known, counted from the first; 0:
 * none.
 */
typedef size_t (*symbolise_code_fn)(void *ctx, const struct store_module *module, uint64_t address,
				    void *ret, size_t size);

struct symbolise_sources {
	symbolise_open_fn open;
	symbolise_code_fn code; /* NULL: none */
	void *ctx;
	struct module_cache *cache; /* of modules that are open, by their ids; NULL: none */
};

/* One transaction: either every location has its names afterwards, or none. */
int symbolise_from(struct store *store, const struct symbolise_sources *sources);

/* Opens the module's path if the file there still has the build-id that was recorded. */
int symbolise_open_path(void *ctx, const struct store_module *module);

/*
 * Names what a killed recorder left without names, and marks the profile finished. 0 also when
 * nothing is to do.
 */
int symbolise_unfinished(const char *path);
