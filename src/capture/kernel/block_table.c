// SPDX-License-Identifier: BSD-2-Clause
/*
 * Writes the kernel's table of translations.
 *
 * 1. Micro-operations are in place before a slot leads to them.
 * 2. While a slot is written its serial is 0. Serials are not used twice, so a reader that finds
 *    the same one before and after has read one translation.
 * 3. Slots become free only all at once: the first free slot ends a search.
 * 4. At most half of the slots are used.
 */
#include "capture/kernel/block_table.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void *map_whole(int fd, size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int block_table_init(struct block_table *table, int slots_fd, uint32_t slot_count, int uops_fd,
		     uint32_t uop_count)
{
	*table = (struct block_table){ .slot_count = slot_count, .uop_count = uop_count };
	table->slots = map_whole(slots_fd, slot_count * sizeof(*table->slots));
	table->uops = table->slots ? map_whole(uops_fd, uop_count * sizeof(*table->uops)) : NULL;
	return table->uops ? 0 : -errno;
}

void block_table_deinit(struct block_table *table)
{
	if (table->slots)
		munmap(table->slots, table->slot_count * sizeof(*table->slots));
	if (table->uops)
		munmap(table->uops, table->uop_count * sizeof(*table->uops));
	*table = (struct block_table){ 0 };
}

/* The slot that has the key, or a free one; NULL: neither where the kernel would look. */
static struct run_block *slot_find(const struct block_table *table, uint64_t address,
				   uint32_t module)
{
	uint64_t hash = run_block_hash(address, module);

	for (uint32_t i = 0; i < RUN_PROBES; i++) {
		uint32_t at = run_block_slot(hash, i) & (table->slot_count - 1);
		struct run_block *slot = &table->slots[at];

		if (!slot->serial || (slot->address == address && slot->module == module))
			return slot;
	}
	return NULL;
}

static int slot_write(struct block_table *table, const struct run_block *block)
{
	struct run_block *slot = slot_find(table, block->address, block->module);
	struct run_block unfinished = *block;

	if (!slot || (!slot->serial && table->slots_used >= table->slot_count / 2))
		return -ENOSPC;
	table->slots_used += !slot->serial;
	unfinished.serial = 0;
	__atomic_store_n(&slot->serial, 0, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	*slot = unfinished;
	__atomic_store_n(&slot->serial, block->serial, __ATOMIC_RELEASE);
	return 0;
}

/* Puts the block's tail that begins at micro-operation `next`, the first one of an instruction. */
static int suffix_put(struct block_table *table, const struct block_key *key,
		      const struct uop_block *block, uint32_t serial, unsigned next)
{
	unsigned at = block->uops[next].at;
	uint8_t code[UOP_CODE_MAX + 8] = { 0 };
	struct run_block row = {
		.address = key->address + at,
		.module = key->module,
		.serial = serial,
		.first = table->uops_used,
		.count = (wire_u8)block->count,
		.length = (wire_u8)(block->length - at),
		.next = (wire_u8)next,
		.at = (wire_u8)at,
	};

	memcpy(code, block->code + at, row.length);
	row.code_hash = run_code_hash(code, row.length);
	return slot_write(table, &row);
}

static bool begins_instruction(const struct uop_block *block, unsigned i)
{
	return block->uops[i].at < block->length && block->uops[i].at != block->uops[i - 1].at;
}

int block_table_put(struct block_table *table, const struct block_key *key,
		    const struct uop_block *block, uint32_t serial, bool all)
{
	int err;

	if (block->count > table->uop_count - table->uops_used)
		return -ENOSPC;
	memcpy(table->uops + table->uops_used, block->uops, block->count * sizeof(struct uop));
	err = suffix_put(table, key, block, serial, 0);
	for (unsigned i = 1; all && i < block->count && !err; i++)
		if (begins_instruction(block, i))
			err = suffix_put(table, key, block, serial, i);
	table->uops_used += block->count;
	return err;
}

uint32_t block_table_find(const struct block_table *table, const struct block_key *key)
{
	const struct run_block *slot = slot_find(table, key->address, key->module);

	return slot ? slot->serial : 0;
}

void block_table_clear(struct block_table *table)
{
	for (uint32_t i = 0; i < table->slot_count; i++)
		__atomic_store_n(&table->slots[i].serial, 0, __ATOMIC_RELAXED);
	table->slots_used = table->uops_used = 0;
}
