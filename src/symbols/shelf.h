/* SPDX-License-Identifier: BSD-2-Clause */
/* Modules that are open, for who needs them again: to start a reader of symbols takes some ten milliseconds. */
#pragma once

#include "base/array.h"
#include "base/map.h"
#include "symbols/symbols.h"

enum { SHELF_MAX = 128 }; /* each has a process */

struct shelf {
	struct map places; /* key to place + 1 */
	ARRAY(struct symbols *) items; /* NULL: taken */
	size_t count;
};

void shelf_deinit(struct shelf *shelf);
/* The caller's from now on, or NULL. */
struct symbols *shelf_take(struct shelf *shelf, uint64_t key);
/* The shelf's from now on; closed if it is full. NULL: nothing to keep. */
void shelf_put(struct shelf *shelf, uint64_t key, struct symbols *symbols);
