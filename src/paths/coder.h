/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A compressor for the sequences of symbols that programs make: what came after the same symbols
 * before comes again.
 *
 *	coder_init(&coder, 1 << 20);			a guess how many symbols there will be
 *	coder_write(&coder);
 *	coder_put(&coder, symbol); coder_put_number(&coder, kind, value); ...
 *	coder_end(&coder);					coder.out holds the bytes
 *
 *	coder_read(&coder, bytes, size);
 *	err = coder_get(&coder, &symbol); ...			in the same order
 *	coder_deinit(&coder);
 *
 * The model adapts to what it codes, and is kept from one coder_end() to the next coder_write()
 * unless coder_forget() is called; the reader must do the same. Symbols should be dense and
 * numbered in order of their first use: a symbol one greater than all before costs next to nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

enum {
	CODER_REACH = 3, /* symbols that make the longer context */
	CODER_ORDER3 = 3, /* symbols that an order-3 context lists */
	CODER_ORDER1 = 12, /* symbols that an order-1 context lists */
	CODER_RECENT = 64,
	CODER_KINDS = 4, /* of numbers, each with probabilities of its own */
	CODER_SYMBOL_MAX = 0x7fffffff,
	CODER_STATES = 64, /* of an order-3 context: symbols in its list * 16 + confidence */
};

/* The order-3 context, of eight bytes: what followed the last three symbols, the latest first. */
struct coder_order3 {
	uint16_t symbols[CODER_ORDER3]; /* their lower parts, from 1 on; 0: none */
	uint8_t state; /* how many there are, and about how often in a row the first was right */
	uint8_t class; /* of states, by which probabilities are chosen */
};

/*
 * The order-1 context, of half a cache line: what followed the last symbol. The words around the
 * list are written where both contexts are put together, and mean nothing.
 */
struct coder_order1 {
	uint16_t before[CODER_ORDER3];
	uint16_t symbols[CODER_ORDER1]; /* as in an order-3 context */
	uint16_t behind;
};

/*
 * The probabilities of sixteen values as a cumulative distribution, in 32768ths: below[v] is the
 * probability of all values less than v, and below[0] is 0.
 */
struct coder_cdf {
	uint16_t below[16];
};

/* A range coder for values below sixteen, with bytes of its own. */
struct coder_stream {
	/* writing: where the range begins; reading: where in the range the input is */
	uint64_t low;
	uint64_t range;
	/* Writing. */
	uint16_t *events; /* index of a distribution * 16 + value; not in out yet */
	size_t event_count;
	ARRAY(uint8_t) out;
	/* Reading. */
	const uint8_t *in, *in_end;
	uint8_t in_last; /* byte, whose last bit is not used yet */
	unsigned in_group; /* events that were read since the range was normalised */
	size_t beyond; /* bytes that were read behind the end */
};

struct coder {
	const struct coder_steps *steps; /* of writing; they depend on the processor */
	struct coder_order3 *order3; /* a hash table without chains */
	unsigned bits; /* of its size */
	struct coder_order1 *order1; /* by symbol; valid up to that of `max` */
	uint16_t *highs; /* by lower part: the higher part of the last symbol that had it */
	struct coder_cdf *cdfs; /* of ranks, of literals and of numbers */
	uint16_t *counts; /* how often each event of ranks has occurred of late */
	unsigned period; /* ranks from one change of their probabilities to the next */
	int until; /* ranks until the next change, which waits for the end of a group */
	uint32_t recent[CODER_RECENT]; /* symbols; those before `at` are the context */
	unsigned at;
	uint32_t max; /* greatest symbol so far */
	uint16_t state_next[CODER_STATES][16]; /* by state and rank: state | class << 8 */
	struct coder_stream ranks;
	struct coder_stream literals; /* and numbers */
	/*
	 * Raw bits, which have no probabilities. Those that are no whole byte yet, or were not
	 * taken yet.
	 */
	uint64_t raw;
	unsigned raw_bits;
	ARRAY(uint8_t) raw_bytes; /* writing */
	const uint8_t *raw_in; /* reading: behind the next byte; they are read from the end on */
	ARRAY(uint8_t) out; /* what was written */
};

void coder_init(struct coder *coder, size_t symbols);
void coder_deinit(struct coder *coder);
/* Makes the coder as if new, for about so many symbols. */
void coder_forget(struct coder *coder, size_t symbols);
size_t coder_memory(const struct coder *coder);

void coder_write(struct coder *coder);
void coder_put(struct coder *coder, uint32_t symbol);
/* The same for all of them, in less time. */
void coder_put_all(struct coder *coder, const uint32_t *symbols, size_t count);
/* Any number but the greatest; small ones and those that come often are short. */
void coder_put_number(struct coder *coder, unsigned kind, uint64_t value);
void coder_end(struct coder *coder);

/* The caller keeps the bytes. They may be anything; what comes out may then be anything, too. */
void coder_read(struct coder *coder, const uint8_t *bytes, size_t size);
/* -EBADMSG if the bytes cannot have been written here. */
int coder_get(struct coder *coder, uint32_t *ret);
int coder_get_number(struct coder *coder, unsigned kind, uint64_t *ret);
