// SPDX-License-Identifier: BSD-2-Clause
/*
 * Translations on request.
 *
 * 1. A serial number stands for one translation for ever: a record in flight names what really ran.
 * 2. When the kernel's maps are full, all of them are emptied at once and fill again with what is hot. Translations of
 *    the time before are kept for the runs that are still under way (blocks_settle()).
 */
#include "ingest/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "isa/lift.h"

enum {
	FOLLOW_MAX = 32, /* blocks translated per request */
	FOLLOW_BUSY = 2, /* likewise, when translating takes too much time */
	BUDGET_PERCENT = 2, /* of a CPU, for what was not asked for */
	BUDGET_NS =
		200 * NS_PER_MS, /* that may be saved up: code is cold when a recording begins */
	READ_MAX = UOP_CODE_MAX + 16, /* bytes that a block can need */
	WINDOWS = 4,
	WINDOW_SIZE = 1024, /* a power of two */
};

struct blocks {
	struct sampler *sampler;
	struct loadmap *loadmap;
	ARRAY(struct translation *) all; /* serial - first_serial */
	uint64_t budget_at; /* when budget_left was right */
	uint64_t budget_left;
	uint32_t first_serial;
	uint32_t current_from; /* serials below are of the time before the maps were emptied */
	uint32_t needed_from; /* what current_from was at the last blocks_settle() */
};

/* Code that was read: what follows a block mostly lies close to it. */
struct code_window {
	uint64_t start;
	size_t size; /* 0: nothing */
	uint8_t code[WINDOW_SIZE];
};

/* Where code comes from. */
struct source {
	struct code_window windows[WINDOWS];
	unsigned next_window; /* the oldest */
	struct sampler *sampler; /* reads the kernel's */
	const struct run_wanted *wanted;
	int fd; /* -1: only the bytes of the request */
	uint64_t start, end; /* module addresses that the file has */
	uint64_t offset; /* of start in the file */
};

/* Addresses in the module to translate. */
struct agenda {
	uint64_t addresses[FOLLOW_MAX];
	size_t count;
	size_t limit;
};

uint32_t blocks_module_number(struct module_id module)
{
	return module.v ? RUN_MODULE_FIRST + module.v : RUN_MODULE_NONE;
}

struct module_id blocks_module_id(uint32_t number)
{
	if (number <= RUN_MODULE_FIRST || number & RUN_MODULE_PRIVATE)
		return (struct module_id){ 0 };
	return (struct module_id){ number - RUN_MODULE_FIRST };
}

void blocks_create(struct sampler *sampler, struct loadmap *loadmap, struct blocks **ret)
{
	struct blocks *blocks = mem_zalloc(sizeof(*blocks));

	blocks->sampler = sampler;
	blocks->loadmap = loadmap;
	blocks->first_serial = blocks->current_from = blocks->needed_from = 1;
	blocks->budget_at = clock_monotonic();
	blocks->budget_left = BUDGET_NS;
	*ret = blocks;
}

/* Without the operations that the block does not have. */
static struct translation *translation_create(const struct block_key *key, uint32_t serial,
					      const struct uop_block *block)
{
	size_t size = offsetof(struct uop_block, uops) + block->count * sizeof(struct uop);
	struct translation *translation = mem_alloc(offsetof(struct translation, block) + size);

	translation->key = *key;
	translation->serial = serial;
	translation->follower = NULL;
	translation->notes = NULL;
	memcpy(&translation->block, block, size);
	return translation;
}

static void translation_destroy(struct translation *translation)
{
	free(translation->notes);
	free(translation);
}

struct translation_note *blocks_note(struct translation *translation, uint32_t number)
{
	if (!translation->notes)
		translation->notes = mem_zalloc((translation->block.instructions + 1u) *
						sizeof(*translation->notes));
	return &translation->notes[number];
}

void blocks_destroy(struct blocks *blocks)
{
	if (!blocks)
		return;
	array_each(&blocks->all, translation)
		translation_destroy(*translation);
	array_deinit(&blocks->all);
	free(blocks);
}

struct translation *blocks_get(const struct blocks *blocks, uint32_t serial)
{
	if (serial < blocks->first_serial || serial - blocks->first_serial >= blocks->all.count)
		return NULL;
	return blocks->all.items[serial - blocks->first_serial];
}

/* The kernel knows a block by each of its instructions. */
static struct translation *find(const struct blocks *blocks, const struct block_key *key)
{
	return blocks_get(blocks, sampler_find_block(blocks->sampler, key));
}

/* --- Translating --------------------------------------------------------------------------------- */

static void start_over(struct blocks *blocks)
{
	log_debug("translations fill the kernel's maps: starting over");
	blocks->current_from = blocks->first_serial + (uint32_t)blocks->all.count;
	sampler_forget_blocks(blocks->sampler);
}

static void drop_until(struct blocks *blocks, uint32_t serial)
{
	uint32_t dropped = serial - blocks->first_serial;

	if (!dropped)
		return;
	for (uint32_t i = 0; i < dropped; i++)
		translation_destroy(blocks->all.items[i]);
	memmove(blocks->all.items, blocks->all.items + dropped,
		(blocks->all.count - dropped) * sizeof(*blocks->all.items));
	blocks->all.count -= dropped;
	array_each(&blocks->all, translation)
		(*translation)->follower = NULL; /* it may be one that was dropped */
	blocks->first_serial = serial;
}

void blocks_settle(struct blocks *blocks)
{
	drop_until(blocks, blocks->needed_from);
	blocks->needed_from = blocks->current_from;
}

static int publish(struct blocks *blocks, const struct block_key *key,
		   const struct uop_block *block)
{
	uint32_t serial = blocks->first_serial + (uint32_t)blocks->all.count;
	int err = sampler_publish_block(blocks->sampler, key, block, serial);

	if (err == -ENOSPC) {
		start_over(blocks);
		err = sampler_publish_block(blocks->sampler, key, block, serial);
	}
	if (err)
		return err;
	*array_push(&blocks->all) = translation_create(key, serial, block);
	return 0;
}

/* There is no more than the bytes of the request. */
static bool is_all(const struct source *source)
{
	return source->fd < 0 && source->wanted->key.module != RUN_MODULE_KERNEL;
}

static size_t code_read(const struct source *source, uint64_t address, void *ret, size_t size)
{
	ssize_t got;

	if (source->wanted->key.module == RUN_MODULE_KERNEL)
		return sampler_kernel_text(source->sampler, address, ret, size);
	if (source->fd < 0 || address < source->start || address >= source->end)
		return 0;
	got = pread(source->fd, ret, size, (off_t)(address - source->start + source->offset));
	return got > 0 ? (size_t)got : 0;
}

/* The window that has what a block at the address can need; NULL: there is not so much. */
static const struct code_window *window_at(struct source *source, uint64_t address)
{
	struct code_window *window;

	for (size_t i = 0; i < WINDOWS; i++) {
		window = &source->windows[i];
		if (address - window->start < window->size &&
		    window->size - (address - window->start) >= READ_MAX)
			return window;
	}
	window = &source->windows[source->next_window++ % WINDOWS];
	window->start = address & ~(WINDOW_SIZE / 2 - 1ull);
	window->size = code_read(source, window->start, window->code, WINDOW_SIZE);
	return window->size >= address - window->start + READ_MAX ? window : NULL;
}

/* Code at a module address; how many bytes there are. */
static size_t source_read(struct source *source, uint64_t address, uint8_t ret[static READ_MAX])
{
	uint64_t into = address - source->wanted->key.address;
	const struct code_window *window;

	if (into < source->wanted->code_size) {
		size_t size = source->wanted->code_size - into;

		if (size >= READ_MAX || is_all(source)) {
			size = size < READ_MAX ? size : READ_MAX;
			memcpy(ret, source->wanted->code + into, size);
			return size;
		}
	}
	window = window_at(source, address);
	if (!window)
		return code_read(source, address, ret, READ_MAX);
	memcpy(ret, window->code + (address - window->start), READ_MAX);
	return READ_MAX;
}

static void source_begin(struct blocks *blocks, const struct run_wanted *wanted, struct source *ret)
{
	uint64_t bias = wanted->pc - wanted->key.address;
	struct loadmap_process *process;
	struct loadmap_mapping mapping;

	for (size_t i = 0; i < WINDOWS; i++)
		ret->windows[i].size = 0;
	ret->next_window = 0;
	ret->sampler = blocks->sampler;
	ret->wanted = wanted;
	ret->fd = -1;
	if (!blocks_module_id(wanted->key.module).v)
		return;
	process =
		loadmap_process_at(blocks->loadmap, wanted->record.image.tgid, wanted->record.time);
	if (!loadmap_find(blocks->loadmap, process, wanted->pc, wanted->record.time, &mapping))
		return;
	ret->fd = mapping.module->fd;
	ret->start = mapping.start - bias;
	ret->end = mapping.end - bias;
	ret->offset = mapping.offset;
}

static void agenda_add(struct agenda *agenda, uint64_t address)
{
	for (size_t i = 0; i < agenda->count; i++)
		if (agenda->addresses[i] == address)
			return;
	if (agenda->count < agenda->limit)
		agenda->addresses[agenda->count++] = address;
}

/* Where a block can go on, as far as its code tells. */
static void successors_add(const struct uop_block *block, struct agenda *agenda)
{
	for (unsigned i = 0; i < block->count; i++) {
		const struct uop *uop = &block->uops[i];

		if (uop->op == UOP_OP_BRANCH || uop->op == UOP_OP_BRANCH_ZERO ||
		    uop->op == UOP_OP_JUMP)
			agenda_add(agenda, (uint64_t)uop->imm);
		if (uop->flags & UOP_CALL && (uop->op == UOP_OP_JUMP || uop->op == UOP_OP_JUMP_TO))
			agenda_add(agenda, block->pc + block->length);
	}
}

static int translate(struct blocks *blocks, struct source *source, uint64_t address,
		     struct agenda *agenda)
{
	struct block_key key = { .address = address, .module = source->wanted->key.module };
	bool asked = address == source->wanted->key.address;
	struct translation *known = find(blocks, &key);
	uint8_t code[READ_MAX];
	struct uop_block block;
	size_t size;

	if (known && !(asked && source->wanted->stale)) {
		successors_add(&known->block, agenda);
		return 0;
	}
	size = source_read(source, address, code);
	if (!size)
		return 0;
	lift_block(code, size, address, &block);
	if (!block.length) /* bytes were lacking; they may be there the next time */
		return 0;
	/* Translations of what the bytes at hand cut off would be replaced at once. */
	if (!asked && size < READ_MAX && block.length + 16u > size)
		return 0;
	successors_add(&block, agenda);
	return publish(blocks, &key, &block);
}

/* Code that never repeats, a compiler's say, is not worth following. */
static size_t follow_limit(struct blocks *blocks, uint64_t now)
{
	blocks->budget_left += (now - blocks->budget_at) * BUDGET_PERCENT / 100;
	blocks->budget_at = now;
	if (blocks->budget_left > BUDGET_NS)
		blocks->budget_left = BUDGET_NS;
	return blocks->budget_left ? FOLLOW_MAX : FOLLOW_BUSY;
}

static void budget_spend(struct blocks *blocks, uint64_t since)
{
	uint64_t spent = clock_monotonic() - since;

	blocks->budget_left -= spent < blocks->budget_left ? spent : blocks->budget_left;
}

int blocks_want(struct blocks *blocks, const struct run_wanted *wanted)
{
	uint64_t begun = clock_monotonic();
	struct agenda agenda = { .addresses = { wanted->key.address },
				 .count = 1,
				 .limit = follow_limit(blocks, begun) };
	struct source source;
	int err = 0;

	if (wanted->code_size > RUN_CODE_BYTES)
		return 0;
	source_begin(blocks, wanted, &source);
	for (size_t i = 0; i < agenda.count && !err; i++)
		err = translate(blocks, &source, agenda.addresses[i], &agenda);
	budget_spend(blocks, begun);
	return err;
}
