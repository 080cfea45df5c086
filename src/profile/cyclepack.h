/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cycles and how often they were run, as pieces of bytes that a profile keeps.
 *
 *	cyclepack_init(&pack, store_piece, store);
 *	err = cyclepack_add(&pack, cycle);		as flow.h hands them out: the numbers of a level grow
 *	err = cyclepack_flush(&pack);			there are no more
 *	cyclepack_deinit(&pack);
 *
 *	cyclepack_reader_init(&reader);
 *	err = cyclepack_read(&reader, &piece);		reader.cycles and reader.symbols have them, too
 *	cyclepack_reader_deinit(&reader);
 *
 * Weights are not kept, nor what a path holds: definitions tell. A piece can be read by itself.
 */
#pragma once

#include "base/array.h"
#include "profile/coder.h"
#include "profile/flow.h"

enum {
	CYCLEPACK_CYCLES = 1 << 16, /* of a piece, at most */
	CYCLEPACK_SYMBOLS = 1 << 18, /* a piece that has as many ends */
	/*
	 * Words of memory that what is read may take: so many for each byte, or so many in all. Programs have 3 to 10 for a byte;
	 * bytes made for it could have thousands.
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
	uint64_t symbols; /* index of its first */
	uint32_t length; /* 0: a path */
};

struct cyclepack {
	int (*put)(void *context, const struct cyclepack_piece *piece);
	void *context;
	unsigned level; /* of what there is */
	ARRAY(struct cyclepack_cycle) cycles;
	ARRAY(uint32_t) names; /* of their symbols, each cycle ended by a 0 */
	ARRAY(struct flow_symbol) symbols; /* by name - 1 */
	uint32_t *places; /* by hash of a symbol: its name, or that of another, whose next place it is; 0: free */
	size_t places_mask;
};

/* What put returns, if it is an error, is returned by whatever was called. */
void cyclepack_init(struct cyclepack *pack,
		    int (*put)(void *context, const struct cyclepack_piece *piece), void *context);
void cyclepack_deinit(struct cyclepack *pack);
int cyclepack_add(struct cyclepack *pack, const struct flow_cycle *cycle);
int cyclepack_flush(struct cyclepack *pack);

struct cyclepack_reader {
	struct coder coder;
	ARRAY(struct cyclepack_cycle) cycles; /* of all pieces */
	ARRAY(struct flow_symbol) symbols; /* the same */
	ARRAY(struct flow_symbol) named; /* of this piece, by name - 1 */
	uint64_t room; /* words that may be used however few bytes there are; the caller may lower it */
	uint64_t bytes; /* so far */
};

void cyclepack_reader_init(struct cyclepack_reader *reader);
void cyclepack_reader_deinit(struct cyclepack_reader *reader);
/* -EBADMSG, with a sentence: these bytes cannot have been written here. Numbers grow within a piece; each fits in an int64_t. */
int cyclepack_read(struct cyclepack_reader *reader, const struct cyclepack_piece *piece);
