// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/heats.h"

#include <stdlib.h>

#include "analyse/names.h"
#include "base/mem.h"

enum { STATE_NEW, STATE_KNOWN, STATE_UNKNOWN };

void heats_init(struct heats *heats, const struct profile *profile,
		const struct code_source *source)
{
	*heats = (struct heats){ .profile = profile };
	code_cache_init(&heats->code, profile, source);
	heats->items = mem_zalloc(profile->block_count * sizeof(*heats->items));
	heats->states = mem_zalloc(profile->block_count);
}

void heats_deinit(struct heats *heats)
{
	code_cache_deinit(&heats->code);
	free(heats->items);
	free(heats->states);
}

static bool heat_find(struct heats *heats, uint32_t block, struct heat *ret)
{
	const struct profile *profile = heats->profile;
	const struct profile_block *row = &profile->blocks[block];
	uint32_t symbol = location_function(profile, row->location);
	const uint8_t *code = NULL;
	size_t size = symbol ? code_cache_get(&heats->code, symbol, &code) : 0;
	uint64_t offset =
		profile->locations[row->location].address - profile->symbols[symbol].address;

	if (offset >= size || row->length > size - offset)
		return false;
	return heat_of_block(code + offset, row->length, row->instructions, ret);
}

const struct heat *heats_of(struct heats *heats, uint32_t block, bool *ret_known)
{
	struct heat *heat = &heats->items[block];

	if (heats->states[block] == STATE_NEW) {
		heats->states[block] = heat_find(heats, block, heat) ? STATE_KNOWN : STATE_UNKNOWN;
		heat->of[HEAT_INSTRUCTIONS] = heats->profile->blocks[block].instructions;
	}
	if (ret_known)
		*ret_known = heats->states[block] == STATE_KNOWN;
	return heat;
}
