// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as a row, as definitions of paths or as cycles: what can be read makes sense by itself.
 */
#include <stdint.h>
#include <stdlib.h>

#include "paths/cyclepack.h"
#include "paths/sequence.h"

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

static void cycles_try(const uint8_t *data, size_t size)
{
	struct cyclepack_piece piece = { .level = data[0] & 1,
					 .first = BASE,
					 .count = DEFINED,
					 .data = data + 1,
					 .size = size - 1 };
	struct cyclepack_reader reader;

	cyclepack_reader_init(&reader);
	if (!cyclepack_read(&reader, &piece)) {
		array_each(&reader.cycles, cycle)
			must(cycle->number >= BASE && cycle->repeats <= cycle->trips &&
			     cycle->symbols + cycle->length <= reader.symbols.count);
		array_each(&reader.symbols, symbol)
			must(symbol->number && symbol->trips);
	}
	cyclepack_reader_deinit(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1)
		row_try(data + 1, size - 1);
	else if (data[0] & 2 && size > 1)
		cycles_try(data + 1, size - 1);
	else
		definitions_try(data + 1, size - 1);
	return 0;
}
