/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of a map of JIT code, for the files that read one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "symbols/names.h"
#include "symbols/symbols.h"

struct jit_line {
	uint64_t start, end;
	uint32_t name; /* offset in text */
	uint32_t code; /* offset of the instructions; 0: the file does not have them */
};

struct jitmap {
	char *text; /* the file, each name ended by a NUL */
	ARRAY(struct jit_line) lines;
	uint64_t *cuts;
	uint32_t *owners;
	size_t cut_count;
	struct strtab names;
	struct symbol_frame frame; /* of the last answer */
};

/* Whether the text is not lines, but a jitdump file. */
bool jitdump_is(const char *text, size_t size);
/* Adds a line for each piece of code in the first size bytes of the text. */
void jitdump_read(struct jitmap *map, size_t size);
