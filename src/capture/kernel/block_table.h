/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The translations that the kernel's interpreter runs, as the host writes them: two arrays that
 * both have mapped, so that neither side needs a system call or a lock. wire/run.h says how a slot
 * is found and written.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/run.h"

struct block_table {
	struct run_block *slots;
	struct uop *uops; /* only what is used takes memory */
	uint32_t slot_count; /* a power of two */
	uint32_t uop_count;
	uint32_t slots_used, uops_used;
};

/* The BPF maps, of run_block and uop. 0 or a negative errno. */
int block_table_init(struct block_table *table, int slots_fd, uint32_t slot_count, int uops_fd,
		     uint32_t uop_count);
void block_table_deinit(struct block_table *table);

/*
 * The kernel finds the block by key, and by each of its other instructions if all is set; what
 * there was is replaced. serial is the caller's, unique over all translations, not 0. -ENOSPC: no
 * room.
 */
int block_table_put(struct block_table *table, const struct block_key *key,
		    const struct uop_block *block, uint32_t serial, bool all);
/* The serial of the newest translation that the kernel finds by the key; 0: none. */
uint32_t block_table_find(const struct block_table *table, const struct block_key *key);
/* Removes all translations; runs that have already begun may use the old ones until they end. */
void block_table_clear(struct block_table *table);
