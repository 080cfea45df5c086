// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints the layers of the 32-bit symbols on standard input, in the words of
 * tests/layers_reference.py.
 *
 *	layer_dump LEVELS MAX_CYCLE BATCH KIND
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "paths/layer.h"

static void cycle_print(const struct layer_space *space, unsigned level, uint32_t slot)
{
	const struct cycles *cycles = &space->levels[level].cycles;
	const struct cycle *cycle = cycles_at(cycles, slot);

	printf("%u.%u %lu %u:", level, slot, cycle->trips, cycle->accesses);
	for (uint32_t i = 0; i < cycle->length; i++) {
		uint32_t symbol = cycles_symbols(cycles, slot)[i];
		const struct repeat *repeat;

		if (level == 0) {
			printf(" %u", symbol);
			continue;
		}
		repeat = layer_symbol(space, level, symbol);
		printf(" %ux%lu", repeat->slot, repeat->trips);
	}
	printf("\n");
}

static void layer_print(const struct layer *layer)
{
	uint32_t last = cycles_last(&layer->level->cycles);

	printf("level %u symbols %lu cycles %lu repeats %lu distinct %u\n", layer->depth,
	       layer->counts.symbols, layer->counts.cycles, layer->counts.repeats, last);
	for (uint32_t slot = 1; slot <= last; slot++)
		cycle_print(layer->space, layer->depth, slot);
}

int main(int argc, char **argv)
{
	struct layer_space_options options = {};
	struct layer_space *space;
	struct layer *layer;
	size_t batch, count;

	if (argc != 5 || cycles_kind_parse(argv[4], &options.cycles.kind))
		return 2;
	options.levels = (unsigned)strtoul(argv[1], NULL, 10);
	options.max_cycle = (uint32_t)strtoul(argv[2], NULL, 10);
	options.cycles.period = 100;
	options.cycles.depth = 1;
	options.cycles.frequency = 2;
	options.cycles.buckets = 16;
	batch = strtoul(argv[3], NULL, 10);
	if (layer_space_create(&options, &space)) {
		fprintf(stderr, "%s\n", err_text());
		return 1;
	}
	AUTO(free_ptr) uint32_t *symbols = mem_alloc(batch * sizeof(*symbols));
	layer = layer_create(space);
	while ((count = fread(symbols, sizeof(*symbols), batch, stdin)) > 0)
		layer_push(layer, symbols, count);
	layer_finish(layer);
	for (struct layer *each = layer; each; each = each->next)
		layer_print(each);
	layer_destroy(layer);
	layer_space_destroy(space);
	return 0;
}
