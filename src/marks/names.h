/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of a function's name as a demangler writes it: "int ns::most<int>(int, int) const". */
#pragma once

#include <stddef.h>

/*
 * The name itself begins at start: a template's has the type of its result in front. It ends at
 * stem without arguments of a template, and at bare without parameters. Each is an index of a byte
 * of the text, or its length.
 */
struct name_parts {
	size_t start, stem, bare;
};

struct name_parts name_parts_of(const char *name);
