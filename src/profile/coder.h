/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A compressor for sequences of symbols that programs make: what came after the same symbols before comes again.
 *
 *	coder_init(&coder, 1 << 20);				or a guess how many symbols
 *	coder_write(&coder);
 *	coder_put(&coder, symbol); coder_put_number(&coder, kind, value); ...
 *	coder_end(&coder);					coder.out holds the bytes
 *
 *	coder_read(&coder, bytes, size);
 *	err = coder_get(&coder, &symbol); ...			in the same order
 *	coder_deinit(&coder);
 *
 * The model learns as it goes and is kept from one coder_end() to the next coder_write(), unless coder_forget() is
 * called; the reader must do the same. Symbols are best dense and numbered in order of their first use: a symbol one
 * greater than all before costs next to nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

enum {
	CODER_REACH = 3, /* symbols of a long context */
	CODER_LONG = 3, /* symbols that a long context remembers */
	CODER_SHORT = 12, /* symbols that a short one remembers */
	CODER_RECENT = 64,
	CODER_KINDS = 4, /* of numbers, each with a model of its own */
	CODER_SYMBOL_MAX = 0x7fffffff,
};

/* Eight bytes: what followed the last three symbols, the last first. */
struct coder_long {
	uint16_t symbols[CODER_LONG]; /* their lower parts, from 1 on; 0: none */
	uint8_t state; /* how many there are, and how often in a row the first was right, about */
	uint8_t class; /* of states */
};

/* Half a line of the cache: what followed the last symbol. Around it is what lies there when both contexts are put together. */
struct coder_short {
	uint16_t before[CODER_LONG];
	uint16_t symbols[CODER_SHORT]; /* as those of a long context */
	uint16_t behind;
};

/* The chances of sixteen values, in 32768ths: how much those before a value have together. The first is always 0. */
struct coder_nibble {
	uint16_t before[16];
};

/* Values below sixteen with their chances, in bytes of their own. */
struct coder_stream {
	uint64_t low; /* writing: where the range begins; reading: where in it the input is */
	uint64_t range;
	/* Writing. */
	uint16_t *events; /* nibble * 16 + value: not in out yet */
	size_t event_count;
	ARRAY(uint8_t) out;
	/* Reading. */
	const uint8_t *in, *in_end;
	uint8_t in_last; /* byte: its last bit is not used yet */
	unsigned in_group; /* events that were read since the range was made greater */
	size_t beyond; /* bytes read that there are not */
};

struct coder {
	struct coder_long *longs;
	unsigned bits; /* of their number */
	struct coder_short *shorts; /* valid up to that of `max` */
	uint16_t *highs; /* by lower part: the higher part of the last symbol that had it */
	struct coder_nibble *nibbles; /* of ranks, of spelled symbols and of numbers */
	uint16_t *counts; /* by event of ranks: how often it came of late */
	unsigned period; /* ranks from one change of their chances to the next */
	int until; /* ranks, until the next; it waits for the end of a group */
	uint32_t recent[CODER_RECENT]; /* symbols; those before `at` are the context */
	unsigned at;
	uint32_t max; /* greatest symbol so far */
	struct coder_stream ranks;
	struct coder_stream spelling; /* and numbers */
	/* Bits that have no chances: those that are no whole byte yet; reading: that were not taken. */
	uint64_t plain;
	unsigned plain_bits; /* so many */
	ARRAY(uint8_t) plains; /* writing: their bytes */
	const uint8_t *
		plain_in; /* reading: behind the next of their bytes, which are read from the end on */
	ARRAY(uint8_t) out; /* what was written */
};

void coder_init(struct coder *coder, size_t symbols);
void coder_deinit(struct coder *coder);
/* As new; for about so many symbols. */
void coder_forget(struct coder *coder, size_t symbols);
size_t coder_memory(const struct coder *coder);

void coder_write(struct coder *coder);
void coder_put(struct coder *coder, uint32_t symbol);
/* The same for all of them, in less time. */
void coder_put_all(struct coder *coder, const uint32_t *symbols, size_t count);
/* Any number; small ones and those that come often are short. */
void coder_put_number(struct coder *coder, unsigned kind, uint64_t value);
void coder_end(struct coder *coder);

/* The bytes are kept by the caller. They may be anything; what comes out may then be, too. */
void coder_read(struct coder *coder, const uint8_t *bytes, size_t size);
/* -EBADMSG if the bytes cannot have been written here. */
int coder_get(struct coder *coder, uint32_t *ret);
int coder_get_number(struct coder *coder, unsigned kind, uint64_t *ret);
