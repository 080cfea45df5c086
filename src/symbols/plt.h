/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names for the stubs through which a program calls functions of libraries (the procedure linkage
 * table): relocations and code of the stubs in, symbols such as memcpy@plt out.
 */
#pragma once

#include <libelf.h>

#include "symbols/symtab.h"

/* Adds "memcpy@plt" for each stub that can be told; names is what the file itself defines. */
void plt_add(Elf *elf, const struct symtab *names, struct symtab *ret);
