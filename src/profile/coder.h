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
	CODER_ORDERS = 3, /* contexts of 1, 2 and 4 symbols */
	CODER_WAYS = 3, /* symbols that a context remembers */
	CODER_CONFIDENCE = 16,
	CODER_HISTORY = 64,
	CODER_REACH = 4, /* symbols of the longest context */
	CODER_RECENT = 64,
	CODER_BITS = 1024,
	CODER_KINDS = 4, /* of numbers, each with a model of its own */
	CODER_NUMBER_BITS = 64,
	CODER_TREE_BITS = 16,
	CODER_SYMBOL_MAX = 0x7fffffff,
};

/* Sixteen bytes: a context and what followed it, the last first. */
struct coder_context {
	uint32_t symbols[CODER_WAYS]; /* + 1; 0: none */
	uint32_t confidence; /* how often in a row the first was right, about */
};

/* What is left of it, both ends inclusive. */
struct coder_range {
	uint32_t low, high;
};

struct coder {
	struct coder_context *contexts[CODER_ORDERS];
	unsigned bits; /* of the number of contexts of an order */
	uint32_t recent[CODER_RECENT]; /* symbols; the four before `at` are the context */
	unsigned at;
	uint32_t max; /* greatest symbol so far */
	unsigned history; /* how the last three symbols were found */
	/* Chances of a 1, in 65536ths. */
	uint16_t *flags; /* [order][way][confidence][history]: it is this symbol */
	uint16_t *tree; /* bits of a symbol that nothing predicted */
	uint16_t fresh; /* it is greater than all before */
	uint16_t lengths[CODER_KINDS][CODER_NUMBER_BITS];
	uint16_t digits[CODER_KINDS][CODER_NUMBER_BITS][8];
	struct coder_range range;
	uint32_t bits_waiting[CODER_BITS]; /* writing: chance | bit << 16 */
	unsigned bits_count;
	uint32_t code; /* reading: where in the range the input is */
	ARRAY(uint8_t) out;
	const uint8_t *in, *in_end;
	size_t missing; /* bytes read beyond the end */
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
