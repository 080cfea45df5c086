/* SPDX-License-Identifier: BSD-2-Clause */
/* Which functions and lines the blocks of a profile belong to, instruction by instruction; and which lines there are besides. */
#pragma once

#include "symbols/shelf.h"
#include "trace/book.h"

/* Writes block_part, after book_finish() and before the locations get their names. Modules stay open on the shelf. */
int parts_store(struct book *book, struct store *store, struct shelf *shelf);
/* Writes source_line where there is debug information, after the locations have got their names: files have numbers then. */
int lines_store(struct book *book, struct store *store, struct shelf *shelf, bool marks);
/* The module's file: for symbolise_from(). ctx: struct loadmap. */
int parts_module_open(void *ctx, const struct store_module *module);
