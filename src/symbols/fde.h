/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a function without a symbol begins and ends, from the unwind information that even stripped
 * files carry: .eh_frame_hdr is a table of all functions sorted by address.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/elf_image.h"

struct fde_entry; /* as in the file */

/*
 * The table of a file, read at once when it is first needed: a browser has a million functions, and
 * a search that reads each entry by itself would take twenty system calls for each. Zero at first.
 */
struct fde_table {
	bool known; /* it was read, or there is none */
	uint64_t base; /* address that entries are relative to */
	struct fde_entry *entries;
	size_t count;
	struct elf_window window; /* of what they point to */
};

void fde_table_deinit(struct fde_table *table);

/*
 * The function that holds address; -ENOENT: none, or the file's table is not the usual kind. It
 * must be the same image each time.
 */
int fde_find(struct fde_table *table, const struct elf_image *image, uint64_t address,
	     uint64_t *ret_start, uint64_t *ret_size);
/* All functions, by address, until tell says no. */
void fde_each(struct fde_table *table, const struct elf_image *image,
	      bool (*tell)(void *ctx, uint64_t start, uint64_t size), void *ctx);
