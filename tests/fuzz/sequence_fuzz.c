// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as a row or as definitions of paths: what can be read makes sense by itself. */
#include <stdint.h>
#include <stdlib.h>

#include "profile/sequence.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BASE = 1000, DEFINED = 50 };

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void row_try(const uint8_t *data, size_t size)
{
	struct sequence_row row = { .base = BASE, .data = data, .size = size };
	struct sequence_repeats repeats;

	sequence_repeats_init(&repeats);
	if (!sequence_row_decode(&repeats, &row))
		array_each(&repeats.items, repeat)
			must(repeat->path > BASE && repeat->trips > 0);
	sequence_repeats_deinit(&repeats);
}

/* In two pieces: the model is kept between them. */
static void definitions_try(const uint8_t *data, size_t size)
{
	struct sequence_paths paths;

	sequence_paths_init(&paths);
	for (unsigned piece = 0; piece < 2; piece++) {
		struct sequence_definitions definitions = { .first = 1 + piece * DEFINED,
							    .count = DEFINED,
							    .data = data + size / 2 * piece,
							    .size = size / 2 };

		if (sequence_paths_add(&paths, &definitions))
			break;
		for (uint64_t number = 1; number <= (piece + 1) * DEFINED; number++) {
			const uint32_t *runs = NULL;
			size_t length = sequence_path(&paths, number, &runs);

			for (size_t i = 0; i < length; i++)
				must(runs[i] < CODER_SYMBOL_MAX);
		}
	}
	sequence_paths_deinit(&paths);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1)
		row_try(data + 1, size - 1);
	else
		definitions_try(data + 1, size - 1);
	return 0;
}
