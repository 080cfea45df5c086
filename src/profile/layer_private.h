/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of profile/layer.h share. */
#pragma once

#include "profile/layer.h"

enum { LAYER_GUESS_BITS = 13 };

/* Symbols that come in, and how much each counts. Runs have no weights here. */
struct batch {
	const uint32_t *symbols;
	const uint64_t *weights;
	size_t count;
};

static inline struct batch batch_part(struct batch batch, size_t first, size_t count)
{
	return (struct batch){ batch.symbols + first, batch.weights ? batch.weights + first : NULL,
			       count };
}

/* --- layer.c --- */

/* Hands on what is pending. */
void layer_drain(struct layer *layer);
/* The place of a cycle that has ended. Clears tables if there is no room, unless it is made (force). */
uint32_t layer_cycle_intern(struct layer *layer, struct batch symbols, uint32_t hash, bool force);
/* The same for one that is known to be new. */
uint32_t layer_cycle_add(struct layer *layer, struct batch symbols, uint32_t hash, bool force);
/* A serial number that no stamp has. */
void layer_serial_next(struct layer_level *level);
/* Stamps symbols until one is stamped already, or until max; returns how many. */
size_t layer_stamp(struct layer_level *level, const uint32_t *symbols, size_t max);
/* The stamps are those of the layer's open cycle. */
void layer_stamps_take(struct layer *layer);
void layer_open_append(struct layer *layer, struct batch batch);

/* The symbol of a repeated cycle if its header has it; otherwise REPEATS_FULL. */
static inline uint32_t symbol_kept(const uint32_t *header, uint64_t trips)
{
	uint32_t kept = header[CYCLES_LAST_TRIPS] == trips ? header[CYCLES_LAST_SYMBOL]
							   : REPEATS_FULL;

	return trips <= CYCLES_FEW_TRIPS ? header[CYCLES_FEW + trips - 1] - 1 : kept;
}

/* The header was looked at just before: it is in the nearest cache. */
static inline void repeat_add(struct layer *layer)
{
	const uint32_t *header = &layer->level->cycles.words.items[layer->place];

	layer->batch[layer->pending++] =
		(struct layer_repeat){ .trips = layer->trips,
				       .place = layer->place,
				       .symbol = symbol_kept(header, layer->trips) };
	if (layer->pending == LAYER_BATCH)
		layer_drain(layer);
}

static inline void cycle_found(struct layer *layer, uint32_t place, uint64_t trips)
{
	if (place == layer->place) {
		layer->trips += trips;
		return;
	}
	if (layer->place)
		repeat_add(layer);
	layer->place = place;
	layer->trips = trips;
}

/* --- layer_guess.c --- */

/* Finds a number of cycles and hands them on; returns how many symbols were taken, and how many cycles were not guessed. Nothing is open. */
size_t layer_guess_take(struct layer *layer, struct batch batch, size_t *ret_wrong);
void layer_guesses_clear(struct layer_level *level);
