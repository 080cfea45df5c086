/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cycles and how often they were run, as pieces of bytes that a profile keeps.
 *
 *	cyclepack_init(&pack, store_piece, store);
 *	err = cyclepack_add(&pack, cycle);		as flow.h hands them out
 *	err = cyclepack_flush(&pack);			there are no more
 *	cyclepack_deinit(&pack);
 *
 *	cyclepack_reader_init(&reader);
 *	err = cyclepack_read(&reader, &piece);		adds to reader.cycles and reader.symbols
 *	cyclepack_reader_deinit(&reader);
 *
 * Weights are not kept, nor the blocks of paths, which definitions tell. A piece can be read by
 * itself.
 */
#pragma once

#include "base/array.h"
#include "paths/coder.h"
#include "paths/flow.h"

enum {
	CYCLEPACK_CYCLES = 1 << 16, /* cycles of a piece, at most */
	CYCLEPACK_SYMBOLS = 1 << 18, /* a piece with so many symbols is complete */
	/*
	 * Words of memory that what is read may take: so many for each byte, or so many in all,
	 * whichever is more. Real programs have 3 to 10 for a byte; bytes made on purpose could
	 * have thousands.
	 */
	CYCLEPACK_EXPANSION = 256,
	CYCLEPACK_ROOM = 1 << 22,
};

struct cyclepack_piece {
	unsigned level;
	uint64_t first; /* number of the first cycle */
	uint64_t count;
	const uint8_t *data;
	size_t size;
};

struct cyclepack_cycle {
	uint64_t number, trips, repeats;
	uint64_t symbols; /* index of its first symbol */
	uint32_t length; /* 0: a path */
};

struct cyclepack {
	int (*put)(void *context, const struct cyclepack_piece *piece);
	void *context;
	unsigned level; /* level of the cycles collected so far */
	ARRAY(struct cyclepack_cycle) cycles;
	ARRAY(uint32_t) names; /* names of the cycles' symbols, each cycle ended by a 0 */
	ARRAY(struct flow_symbol) symbols; /* by name - 1 */
	uint32_t *places; /* open addressing by the hash of a symbol: a name; 0: free */
	size_t places_mask;
};

/* An error that `put` returns is returned by the call that was made. */
void cyclepack_init(struct cyclepack *pack,
		    int (*put)(void *context, const struct cyclepack_piece *piece), void *context);
void cyclepack_deinit(struct cyclepack *pack);
int cyclepack_add(struct cyclepack *pack, const struct flow_cycle *cycle);
int cyclepack_flush(struct cyclepack *pack);

struct cyclepack_reader {
	struct coder coder;
	ARRAY(struct cyclepack_cycle) cycles; /* cycles of all pieces */
	ARRAY(struct flow_symbol) symbols; /* symbols of all pieces */
	ARRAY(struct flow_symbol) named; /* symbols of this piece, by name - 1 */
	/* words that may be used however few bytes there are; the caller may lower it */
	uint64_t room;
	uint64_t bytes; /* bytes read so far */
};

void cyclepack_reader_init(struct cyclepack_reader *reader);
void cyclepack_reader_deinit(struct cyclepack_reader *reader);
/*
 * -EBADMSG if these bytes cannot have been written here. Numbers grow within a piece, and each fits
 * in an int64_t.
 */
int cyclepack_read(struct cyclepack_reader *reader, const struct cyclepack_piece *piece);
