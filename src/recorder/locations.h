/* SPDX-License-Identifier: BSD-2-Clause */
/* Code addresses of the profile: (module, address) to a dense id. New ones go to the store. */
#pragma once

#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"
#include "store/store.h"

struct locations;

void locations_create(struct store *store, struct locations **ret);
void locations_destroy(struct locations *locations);
DEFINE_AUTO(struct locations, locations_destroy)

int locations_add(struct locations *locations, struct module_id module, uint64_t address,
		  struct location_id *ret);
