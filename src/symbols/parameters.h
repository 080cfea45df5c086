/* SPDX-License-Identifier: BSD-2-Clause */
/* The parameters of a function in integer registers, by DWARF. Runs only in a worker (worker.h). */
#pragma once

#include <elfutils/libdw.h>

#include "symbols/symbols.h"
#include "symbols/typename.h"

/* Keeps the strings of all answers. */
struct parameters {
	struct typenames names;
	struct strtab texts;
	struct map types; /* address of a type's DIE to its text */
};

void parameters_deinit(struct parameters *parameters);
/* As symbols_parameters(), for a function that begins at pc. */
int parameters_read(struct parameters *parameters, Dwarf_Die *function, uint64_t pc,
		    struct symbol_parameter ret[static SYMBOL_PARAMETERS_MAX], size_t *ret_count);
