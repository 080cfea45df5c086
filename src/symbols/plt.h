/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include <libelf.h>

#include "symbols/symtab.h"

/* Adds "memcpy@plt" for each stub that can be told; names is what the file itself defines. */
void plt_add(Elf *elf, const struct symtab *names, struct symtab *ret);
