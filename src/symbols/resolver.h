/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of struct symbols that runs in the worker: one ELF file read by libdwfl. */
#pragma once

#include <stdbool.h>

#include "symbols/symbols.h"

enum { RESOLVER_FRAMES_MAX = 128 };

struct resolver;

/*
 * with_dwarf false: symbol tables only. A file of which nothing can be read gives an empty
 * resolver.
 */
struct resolver *resolver_create(int fd, const char *path, bool with_dwarf);
void resolver_destroy(struct resolver *resolver);
DEFINE_AUTO(struct resolver, resolver_destroy)
/* As symbols_resolve(). */
int resolver_resolve(struct resolver *resolver, uint64_t address, struct symbol_answer *ret);
/* As debuginfo_lines(), with addresses of the file. */
size_t resolver_lines(struct resolver *resolver, size_t unit, size_t first, size_t max,
		      struct symbol_line *ret, size_t *ret_units);
/* As symbols_parameters(). */
int resolver_parameters(struct resolver *resolver, uint64_t address,
			struct symbol_parameter ret[static SYMBOL_PARAMETERS_MAX],
			size_t *ret_count);
/* As symbols_names(): from that one on, at most max; returns how many. */
size_t resolver_names(struct resolver *resolver, enum symbol_names which, size_t first, size_t max,
		      struct symbol_name *ret);
