/* SPDX-License-Identifier: BSD-2-Clause */
/* Which functions and lines the blocks of a profile belong to, instruction by instruction; and which lines there are besides. */
#pragma once

#include "trace/book.h"

/* Writes block_part, after book_finish() and before the locations get their names. */
int parts_store(struct book *book, struct store *store);
/* Writes source_line where there is debug information, after the locations have got their names: files have numbers then. */
int lines_store(struct book *book, struct store *store, bool marks);
/* The module's file: for symbolise(). ctx: struct loadmap. */
int parts_module_open(void *ctx, const struct store_module *module);
