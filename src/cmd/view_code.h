/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code of functions: from the profile, or from the program's file if it is still there
 * unchanged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/instruction.h"
#include "store/profile.h"
#include "symbols/symbols.h"

struct view_code {
	const char *path; /* of the profile */
	const struct profile *profile;
	struct profile_code *stored; /* NULL until it is asked for */
	struct view_code_module *modules; /* by module; NULL until one is opened */
};

void view_code_init(struct view_code *code, const char *path, const struct profile *profile);
void view_code_deinit(struct view_code *code);
/*
 * The symbols of a module's file, which live as long as the view_code; NULL if the file is gone or
 * has changed.
 */
struct symbols *view_code_symbols(struct view_code *code, uint32_t module);
/* The line of an address, for analyses that ask symbols (ctx) for it; false: unknown. */
bool view_code_line(void *ctx, uint64_t address, const char **ret_file, uint32_t *ret_line);
/* *ret is the caller's to free. -ENOENT: the code is nowhere. */
int view_code_get(struct view_code *code, uint32_t symbol, void **ret, size_t *ret_size);
/* For analyses. */
struct code_source view_code_source(struct view_code *code);
