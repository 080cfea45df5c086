/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names for addresses of data: objects of the symbol tables, and sections for what lies outside of
 * them.
 */
#pragma once

#include <gelf.h>
#include <stdbool.h>

#include "symbols/symtab.h"

struct objects {
	struct symtab table;
	struct symtab sections; /* "[.bss]" */
};

void objects_deinit(struct objects *objects);
/* Sections first: they are borders for symbols without size. elf NULL: none. */
void objects_sections(struct objects *objects, Elf *elf);
/* Symbols that are no data are left out. */
void objects_add(struct objects *objects, const GElf_Sym *symbol, enum symtab_rank rank,
		 uint64_t address, const char *name);
void objects_finish(struct objects *objects);
bool objects_find(const struct objects *objects, uint64_t address, struct symtab_hit *ret);
