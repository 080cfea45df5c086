// SPDX-License-Identifier: BSD-2-Clause
/*
 * A hash map from (module, address) to a number. Two different locations whose hashes are equal get
 * neighbouring keys.
 *
 *	in	a module and an address in it
 *	out	the id of the location; rows of new locations for the store
 *	owner	the recorder; all sinks share it
 */
#include "recorder/locations.h"

#include "base/array.h"
#include "base/map.h"
#include "base/mem.h"

struct location {
	struct module_id module;
	uint64_t address;
};

struct locations {
	struct store *store;
	ARRAY(struct location) known; /* id - 1 */
	struct map ids; /* hash of module and address to id; collisions go to the next key */
};

void locations_create(struct store *store, struct locations **ret)
{
	*ret = mem_zalloc(sizeof(**ret));
	(*ret)->store = store;
}

void locations_destroy(struct locations *locations)
{
	if (!locations)
		return;
	array_deinit(&locations->known);
	map_deinit(&locations->ids);
	free(locations);
}

int locations_add(struct locations *locations, struct module_id module, uint64_t address,
		  struct location_id *ret)
{
	uint64_t key = hash64_pair(module.v, address);
	uint64_t *id;
	bool fresh;

	for (;; key++) {
		const struct location *known;

		id = map_at(&locations->ids, key, &fresh);
		if (fresh)
			break;
		known = &locations->known.items[*id - 1];
		if (known->module.v == module.v && known->address == address) {
			ret->v = (uint32_t)*id;
			return 0;
		}
	}
	*array_push(&locations->known) = (struct location){ module, address };
	*id = locations->known.count;
	ret->v = (uint32_t)*id;
	return store_location_put(locations->store, &(struct store_location){ .id = *ret,
									      .module = module,
									      .address = address });
}
