// SPDX-License-Identifier: BSD-2-Clause
// Serves: V4.
/*
 * The table of translations, in plain memory in place of BPF maps. Reading is as the kernel does
 * it; run_test.c has the kernel itself.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "capture/kernel/block_table.h"

enum {
	SLOTS = 4096,
	UOPS = 1 << 16,
	MODULE = RUN_MODULE_FIRST + 3,
	REWRITES = 3000000,
	INSTRUCTION = 5, /* bytes, in blocks that are made here */
};

struct state {
	struct block_table table;
	int slots, uops;
};

static int memory_open(size_t size)
{
	int fd = memfd_create("block_table_test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static int setup(void **ctx)
{
	struct state *state = mem_zalloc(sizeof(*state));

	state->slots = memory_open(SLOTS * sizeof(struct run_block));
	state->uops = memory_open(UOPS * sizeof(struct uop));
	assert_int_equal(block_table_init(&state->table, state->slots, SLOTS, state->uops, UOPS),
			 0);
	*ctx = state;
	return 0;
}

static int teardown(void **ctx)
{
	struct state *state = *ctx;

	block_table_deinit(&state->table);
	close(state->slots);
	close(state->uops);
	free(state);
	return 0;
}

/* As block_find() in run.bpf.h. */
static bool find(const struct block_table *table, uint64_t address, uint32_t module,
		 struct run_block *ret)
{
	uint64_t hash = run_block_hash(address, module);

	for (uint32_t i = 0; i < RUN_PROBES; i++) {
		volatile struct run_block *slot =
			&table->slots[run_block_slot(hash, i) & (SLOTS - 1)];
		uint32_t serial = slot->serial;

		if (!serial)
			return false;
		if (slot->address != address || slot->module != module)
			continue;
		*ret = *slot;
		return slot->serial == serial;
	}
	return false;
}

/* Instructions of two micro-operations each; the last gives up and is not part of the code. */
static struct uop_block block_make(uint64_t pc, unsigned instructions, uint8_t mark)
{
	struct uop_block block = {
		.pc = pc,
		.length = (wire_u16)(instructions * INSTRUCTION),
		.instructions = (wire_u16)instructions,
		.count = (wire_u16)(2 * instructions + 1),
	};

	memset(block.code, mark, block.length);
	for (unsigned i = 0; i < block.count; i++) {
		block.uops[i].at = (wire_u16)(i / 2 * INSTRUCTION);
		block.uops[i].imm = mark;
	}
	return block;
}

static int put(struct block_table *table, const struct uop_block *block, uint32_t module,
	       uint32_t serial, bool all)
{
	struct block_key key = { .address = block->pc, .module = module };

	return block_table_put(table, &key, block, serial, all);
}

static uint32_t find_by_key(const struct block_table *table, uint64_t address, uint32_t module)
{
	return block_table_find(table, &(struct block_key){ .address = address, .module = module });
}

static void blocks_are_found_by_each_instruction(void **ctx)
{
	struct block_table *table = &((struct state *)*ctx)->table;
	struct uop_block first = block_make(0x1000, 3, 1), second = block_make(0x1002, 2, 2);
	struct run_block found;

	assert_int_equal(put(table, &first, MODULE, 7, true), 0);
	assert_int_equal(put(table, &second, MODULE, 8, false), 0);
	for (unsigned at = 0; at < 3 * INSTRUCTION; at += INSTRUCTION) {
		uint8_t code[UOP_CODE_MAX + 8] = { 0 };

		assert_true(find(table, 0x1000 + at, MODULE, &found));
		assert_int_equal(found.serial, 7);
		assert_int_equal(find_by_key(table, 0x1000 + at, MODULE), 7);
		assert_int_equal(found.at, at);
		assert_int_equal(found.length, first.length - at);
		assert_int_equal(found.next, 2 * at / INSTRUCTION);
		assert_int_equal(found.count, first.count);
		assert_int_equal(table->uops[found.first + found.next].at, at);
		memset(code, 1, found.length);
		assert_int_equal(found.code_hash, run_code_hash(code, found.length));
	}
	assert_true(find(table, 0x1002, MODULE, &found));
	assert_int_equal(table->uops[found.first].imm, 2);
	assert_int_equal(find_by_key(table, 0x1002, MODULE), 8);
	assert_int_equal(find_by_key(table, 0x1002, MODULE + 1), 0);
	assert_false(find(table, 0x1002 + INSTRUCTION, MODULE, &found));
	assert_false(find(table, 0x1000 + 3 * INSTRUCTION, MODULE, &found)); /* it gives up there */
	assert_false(find(table, 0x1000, MODULE + 1, &found));
}

static void newer_blocks_replace_older_ones(void **ctx)
{
	struct block_table *table = &((struct state *)*ctx)->table;
	struct uop_block block = block_make(0x1000, 3, 1);
	struct run_block found;
	uint32_t used;

	assert_int_equal(put(table, &block, MODULE, 1, true), 0);
	used = table->slots_used;
	block = block_make(0x1000 + INSTRUCTION, 2, 2);
	assert_int_equal(put(table, &block, MODULE, 2, true), 0);
	assert_int_equal(table->slots_used, used);
	assert_true(find(table, 0x1000, MODULE, &found));
	assert_int_equal(found.serial, 1);
	assert_true(find(table, 0x1000 + INSTRUCTION, MODULE, &found));
	assert_int_equal(found.serial, 2);
	assert_int_equal(found.at, 0);
}

/*
 * Up to half of the slots, everything is found again; then there is no room until all is forgotten.
 */
static void the_table_fills_and_is_emptied(void **ctx)
{
	struct block_table *table = &((struct state *)*ctx)->table;
	struct run_block found;
	uint32_t count = 0;
	int err = 0;

	for (; !err; count++) {
		struct uop_block block = block_make(0x400000 + count * 16, 1, 1);

		err = put(table, &block, MODULE, count + 1, true);
	}
	count--;
	assert_int_equal(err, -ENOSPC);
	assert_in_range(count, SLOTS / 4, SLOTS / 2);
	for (uint32_t i = 0; i < count; i++) {
		assert_true(find(table, 0x400000 + i * 16, MODULE, &found));
		assert_int_equal(found.serial, i + 1);
	}
	block_table_clear(table);
	for (uint32_t i = 0; i < count; i++)
		assert_false(find(table, 0x400000 + i * 16, MODULE, &found));
	assert_int_equal(table->slots_used + table->uops_used, 0);
}

static void micro_operations_run_out(void **ctx)
{
	struct block_table *table = &((struct state *)*ctx)->table;
	struct uop_block block = block_make(0x1000, 10, 1);
	uint32_t serial = 0;

	while (UOPS - table->uops_used >= block.count)
		assert_int_equal(put(table, &block, MODULE, ++serial, false), 0);
	assert_int_equal(put(table, &block, MODULE, ++serial, false), -ENOSPC);
}

static void *rewrite(void *ctx)
{
	struct block_table *table = ctx;

	for (uint32_t serial = 1; serial <= REWRITES; serial++) {
		unsigned instructions = 1 + serial % 12;
		struct uop_block block = block_make(0x1000, instructions, (uint8_t)instructions);

		table->uops_used = 0;
		if (put(table, &block, MODULE, serial, false))
			return ctx;
	}
	return NULL;
}

/* A reader sees a translation whole or not at all, while another thread replaces it. */
static void readers_see_no_halves(void **ctx)
{
	struct block_table *table = &((struct state *)*ctx)->table;
	struct run_block found = { 0 };
	pthread_t writer;
	void *failed;
	unsigned seen = 0;

	assert_int_equal(pthread_create(&writer, NULL, rewrite, table), 0);
	while (found.serial < REWRITES) {
		unsigned instructions;

		if (!find(table, 0x1000, MODULE, &found))
			continue;
		instructions = 1 + found.serial % 12;
		assert_int_equal(found.length, instructions * INSTRUCTION);
		assert_int_equal(found.count, 2 * instructions + 1);
		seen++;
	}
	assert_int_equal(pthread_join(writer, &failed), 0);
	assert_null(failed);
	assert_true(seen);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_are_found_by_each_instruction),
		TEST(newer_blocks_replace_older_ones),
		TEST(the_table_fills_and_is_emptied),
		TEST(micro_operations_run_out),
		TEST(readers_see_no_halves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
