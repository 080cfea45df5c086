/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A symbol table: names for address ranges, one name per start address. Filled, finished, then
 * asked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "base/strbuf.h"
#include "symbols/ranges.h"

/*
 * Among names for one address the lowest value wins; see symtab.c for what decides between equals.
 */
enum symtab_rank {
	SYMTAB_GLOBAL,
	SYMTAB_LOCAL,
	SYMTAB_WEAK,
	SYMTAB_LABEL = 4, /* added: no function by its type */
	SYMTAB_RESOLVER = 8, /* added: chooses an implementation, is not it */
};

struct symtab_entry {
	uint64_t start;
	uint64_t size; /* 0: not said */
	uint32_t name; /* offset in names; 0: only a border */
	uint16_t tag; /* the owner's */
	uint8_t rank; /* enum symtab_rank */
};

struct symtab {
	ARRAY(struct symtab_entry) entries;
	struct strbuf names;
	struct ranges sized, unsized; /* valid after symtab_finish() */
};

struct symtab_hit {
	uint64_t start, size;
	const char *name; /* lives as long as the table */
	uint16_t tag;
};

void symtab_deinit(struct symtab *table);
void symtab_add(struct symtab *table, const struct symtab_entry *entry, const char *name);
/* Something else begins here: no symbol without a size goes on past it. */
void symtab_border(struct symtab *table, uint64_t address);
void symtab_finish(struct symtab *table);

bool symtab_find(const struct symtab *table, uint64_t address, struct symtab_hit *ret);
/* Symbols that do not say their size, taken to go on to the next symbol or border. */
bool symtab_find_unsized(const struct symtab *table, uint64_t address, struct symtab_hit *ret);
/* The table's own copy of the name if it is one of those at that start address; NULL otherwise. */
const char *symtab_alias(const struct symtab *table, uint64_t start, const char *name);
