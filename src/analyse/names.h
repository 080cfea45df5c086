/* SPDX-License-Identifier: BSD-2-Clause */
/* What things are called when a person or another program reads about them. Never NULL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/profile.h"

#define NAME_UNKNOWN "[unknown]"

/* symbol 0: "[unknown]". */
const char *name_of_symbol(const struct profile *profile, uint32_t symbol);
const char *name_of_module(const struct profile *profile, uint32_t module);
/* Of a C++ function, how much of its name there is before the parameters; of other names all. */
size_t name_brief_length(const char *name);
/* Whether a function of the kernel only passes on a call or a return. */
bool name_is_thunk(const char *name);
/* NULL when unknown. */
const char *name_of_file(const struct profile *profile, uint32_t file);
/* The name of a mark, such as "[stack cut: ...]", by its address in the module of marks. */
const char *name_of_mark(uint64_t address);
/*
 * The function whose code a location lies in: the one that everything there is inlined into; 0
 * unknown.
 */
uint32_t location_function(const struct profile *profile, uint32_t location);
