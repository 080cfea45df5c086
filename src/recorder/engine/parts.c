// SPDX-License-Identifier: BSD-2-Clause
/*
 * A block may lie across several lines, inlined functions, and even functions. So each of its
 * instructions is looked up, and neighbours for which the answer is the same become a part. Module
 * by module: the instructions of all its blocks, in ascending order, each once.
 *
 * How often a line was executed is how often its most executed instruction was: summing up the
 * blocks that an address lies in, over all addresses of the line.
 *
 * 1. The parts of a block have its instructions, all of them.
 * 2. Where code cannot be decoded as the engine did, the block is one part.
 */
#include "recorder/engine/parts.h"

#include <Zydis/Zydis.h>
#include <errno.h>

#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/progress.h"
#include "symbols/symbols.h"

enum { BLOCK_BYTES_MAX = STREAM_BLOCK_INSTRUCTIONS_MAX * ZYDIS_MAX_INSTRUCTION_LENGTH };

/* From an address on, up to that of the next one, code was executed that often. */
struct heat {
	uint64_t address;
	int64_t change; /* against before */
	uint64_t count;
};

struct work {
	struct recorder *recorder;
	struct store *store;
	bool marks;
	const struct executed_block *blocks;
	uint32_t *order; /* block ids by module and address */
	size_t order_count;
	ZydisDecoder decoder;
	struct symbols *symbols; /* of the module being worked on; NULL: none */
	ARRAY(uint64_t) addresses; /* of its instructions */
	ARRAY(uint64_t) places; /* what is known about each: equal for the same function and line */
	ARRAY(struct heat) heats;
};

static void work_deinit(struct work *work)
{
	free(work->order);
	symbols_destroy(work->symbols);
	array_deinit(&work->addresses);
	array_deinit(&work->places);
	array_deinit(&work->heats);
}

#define compare(a, b) (((a) > (b)) - ((a) < (b)))

static int order_compare(const void *left, const void *right, void *ctx)
{
	const struct executed_block *blocks = ctx;
	const struct executed_block *a = &blocks[*(const uint32_t *)left];
	const struct executed_block *b = &blocks[*(const uint32_t *)right];

	if (a->module.v != b->module.v)
		return compare(a->module.v, b->module.v);
	if (a->address != b->address)
		return compare(a->address, b->address);
	return compare(a->length, b->length);
}

static int address_compare(const void *left, const void *right)
{
	return compare(*(const uint64_t *)left, *(const uint64_t *)right);
}

/* The lengths of a block's instructions; false: they are not those that the engine saw. */
static bool block_decode(struct work *work, const struct executed_block *block,
			 uint8_t ret[static STREAM_BLOCK_INSTRUCTIONS_MAX])
{
	uint8_t code[BLOCK_BYTES_MAX];
	ZydisDecodedInstruction instruction;
	uint32_t at = 0, count = 0;

	if (block->length > sizeof(code) ||
	    symbols_code(work->symbols, block->address, code, block->length) != (int)block->length)
		return false;
	for (; at < block->length && count < STREAM_BLOCK_INSTRUCTIONS_MAX;
	     at += instruction.length) {
		if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&work->decoder, NULL, code + at,
							      block->length - at, &instruction)))
			return false;
		ret[count++] = instruction.length;
	}
	return at == block->length && count == block->instructions;
}

static void addresses_collect(struct work *work, const uint32_t *ids, size_t count)
{
	uint8_t lengths[STREAM_BLOCK_INSTRUCTIONS_MAX];
	size_t kept = 0;

	work->addresses.count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct executed_block *block = &work->blocks[ids[i]];
		uint64_t address = block->address;

		if (!block_decode(work, block, lengths))
			continue;
		for (uint32_t j = 0; j < block->instructions; address += lengths[j++])
			*array_push(&work->addresses) = address;
	}
	if (!work->addresses.count)
		return;
	qsort(work->addresses.items, work->addresses.count, sizeof(uint64_t), address_compare);
	for (size_t i = 1; i < work->addresses.count; i++)
		if (work->addresses.items[i] != work->addresses.items[kept])
			work->addresses.items[++kept] = work->addresses.items[i];
	work->addresses.count = kept + 1;
}

static uint64_t answer_place(const struct symbol_answer *answer)
{
	uint64_t place = answer->address;

	for (size_t i = 0; i < answer->frame_count; i++) {
		place = hash64_pair(place, (uintptr_t)answer->frames[i].name);
		place = hash64_pair(place, (uintptr_t)answer->frames[i].file);
		place = hash64_pair(place, answer->frames[i].line);
	}
	return place;
}

static void places_find(struct work *work)
{
	struct symbol_answer answers[SYMBOLS_BATCH_MAX];

	work->places.count = 0;
	for (size_t i = 0; i < work->addresses.count; i += SYMBOLS_BATCH_MAX) {
		size_t left = work->addresses.count - i;
		size_t count = left < SYMBOLS_BATCH_MAX ? left : SYMBOLS_BATCH_MAX;

		symbols_resolve_many(work->symbols, work->addresses.items + i, count, answers);
		for (size_t j = 0; j < count; j++)
			*array_push(&work->places) = answer_place(&answers[j]);
	}
}

static size_t address_index(const struct work *work, uint64_t address)
{
	const uint64_t *found = bsearch(&address, work->addresses.items, work->addresses.count,
					sizeof(uint64_t), address_compare);

	return (size_t)(found - work->addresses.items);
}

static int part_put(struct work *work, const struct executed_block *block,
		    struct store_block_part *part, uint64_t address)
{
	int err = locations_add(recorder_locations(work->recorder), block->module, address,
				&part->location);

	err = err ? err : store_block_part_put(work->store, part);
	part->part++;
	part->instructions = 0;
	return err;
}

/* lengths NULL: one part. */
static int block_split(struct work *work, uint32_t id, const uint8_t *lengths)
{
	const struct executed_block *block = &work->blocks[id];
	struct store_block_part part = { .block = { id } };
	uint64_t start = block->address, address = start;
	size_t index = lengths ? address_index(work, address) : 0;
	int err = 0;

	for (uint32_t i = 0; lengths && i + 1 < block->instructions && !err; i++) {
		uint64_t place = work->places.items[index];

		part.instructions++;
		address += lengths[i];
		/*
		 * The next address of all is the next of this block, unless blocks overlap in the
		 * middle of instructions.
		 */
		index = work->addresses.items[index + 1] == address ? index + 1
								    : address_index(work, address);
		if (work->places.items[index] == place)
			continue;
		err = part_put(work, block, &part, start);
		start = address;
	}
	part.instructions += lengths ? 1 : block->instructions;
	return err ? err : part_put(work, block, &part, start);
}

static int blocks_split(struct work *work, const uint32_t *ids, size_t count)
{
	uint8_t lengths[STREAM_BLOCK_INSTRUCTIONS_MAX];
	int err = 0;

	if (work->symbols) {
		addresses_collect(work, ids, count);
		places_find(work);
	}
	for (size_t i = 0; i < count && !err; i++) {
		bool decoded = work->symbols && block_decode(work, &work->blocks[ids[i]], lengths);

		err = block_split(work, ids[i], decoded ? lengths : NULL);
	}
	return err;
}

/* --- Lines ------------------------------------------------------------------------------------ */

static int heat_compare(const void *left, const void *right)
{
	const struct heat *a = left, *b = right;

	return compare(a->address, b->address);
}

static void heats_make(struct work *work, const uint32_t *ids, size_t count)
{
	uint64_t now = 0;

	work->heats.count = 0;
	*array_push(&work->heats) = (struct heat){};
	for (size_t i = 0; i < count; i++) {
		const struct executed_block *block = &work->blocks[ids[i]];

		*array_push(&work->heats) =
			(struct heat){ block->address, (int64_t)block->count, 0 };
		*array_push(&work->heats) =
			(struct heat){ block->address + block->length, -(int64_t)block->count, 0 };
	}
	qsort(work->heats.items, work->heats.count, sizeof(struct heat), heat_compare);
	array_each(&work->heats, heat) {
		now += (uint64_t)heat->change;
		heat->count = now;
	}
}

/* The last change at or below the address. */
static size_t heat_search(const struct work *work, uint64_t address)
{
	size_t low = 0, high = work->heats.count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (work->heats.items[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static uint64_t heat_most(const struct work *work, uint64_t start, uint64_t end)
{
	size_t i = heat_search(work, start);
	uint64_t most = work->heats.items[i].count;

	for (i++; i < work->heats.count && work->heats.items[i].address < end; i++) {
		bool last = i + 1 == work->heats.count ||
			    work->heats.items[i + 1].address > work->heats.items[i].address;

		if (last && work->heats.items[i].count > most)
			most = work->heats.items[i].count;
	}
	return most;
}

struct lines {
	struct map counts; /* file << 32 | line to executions + 1 */
	struct map files; /* address of a name to id */
};

static void lines_deinit(struct lines *lines)
{
	map_deinit(&lines->counts);
	map_deinit(&lines->files);
}

static int file_number(struct work *work, struct lines *lines, const char *path, uint64_t *ret)
{
	bool fresh;
	uint64_t *id = map_at(&lines->files, (uintptr_t)path, &fresh);
	struct file_id file;
	int err = fresh ? store_file_find(work->store, path, &file) : 0;

	if (!err && fresh)
		*id = file.v;
	*ret = *id;
	return err;
}

static int line_count(struct work *work, struct lines *lines, const struct symbol_line *line,
		      uint64_t end)
{
	uint64_t file = 0, most, *count;
	int err;

	if (!line->line || !line->file || end <= line->address)
		return 0;
	err = file_number(work, lines, line->file, &file);
	if (err)
		return err;
	most = heat_most(work, line->address, end);
	if (work->marks && most)
		most = 1;
	count = map_at(&lines->counts, file << 32 | line->line, NULL);
	*count = *count > most + 1 ? *count : most + 1;
	return 0;
}

static int module_lines_store(struct work *work, const uint32_t *ids, size_t id_count)
{
	AUTO(lines_deinit) struct lines lines = {};
	AUTO(free_ptr) struct symbol_line *rows = NULL;
	size_t count = 0;
	int err = 0;

	if (!work->symbols)
		return 0;
	heats_make(work, ids, id_count);
	symbols_lines(work->symbols, &rows, &count);
	for (size_t i = 0; i + 1 < count && !err; i++)
		err = line_count(work, &lines, &rows[i], rows[i + 1].address);
	map_each(&lines.counts, slot) {
		const struct store_source_line row = { .file = { (uint32_t)(slot->key >> 32) },
						       .line = (uint32_t)slot->key,
						       .module = work->blocks[ids[0]].module,
						       .count = slot->value - 1 };

		err = err ? err : store_source_line_put(work->store, &row);
	}
	return err;
}

/* --- Modules ---------------------------------------------------------------------------------- */

/* Without its file, a module's blocks are not looked into. */
static int module_open(struct work *work, struct module_id id)
{
	AUTO(free_ptr) char *path = NULL;
	AUTO(close_fd) int fd = -1;
	struct store_module row;
	int err;

	work->symbols = module_cache_take(recorder_modules(work->recorder), id.v);
	if (work->symbols)
		return 0;
	err = store_module_get(work->store, id, &row, &path);
	if (err || (row.kind != MODULE_ELF && row.kind != MODULE_VDSO))
		return err;
	fd = recorder_module_open(work->recorder, &row);
	if (fd < 0 || symbols_open(fd, path, &work->symbols))
		log_debug("%s: its code cannot be read", path);
	return 0;
}

/* What to do with the blocks of one module. */
typedef int (*module_fn)(struct work *work, const uint32_t *ids, size_t count);

static int module_work(struct work *work, module_fn fn, const uint32_t *ids, size_t count)
{
	struct module_id id = work->blocks[ids[0]].module;
	int err = module_open(work, id);

	err = err ? err : fn(work, ids, count);
	module_cache_put(recorder_modules(work->recorder), id.v, take_ptr(work->symbols));
	return err;
}

static int modules_work(const struct executed *executed, struct recorder *recorder, bool marks,
			module_fn fn)
{
	AUTO(work_deinit)
	struct work work = { .recorder = recorder,
			     .store = recorder_store(recorder),
			     .marks = marks };
	AUTO(progress_end) struct progress progress;
	size_t count, end;
	int err = 0;

	progress_begin(&progress, "finding functions and lines of blocks");
	work.blocks = executed_blocks(executed, &count);
	work.order_count = count - 1;
	work.order = mem_alloc(count * sizeof(*work.order));
	ZydisDecoderInit(&work.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (uint32_t i = 1; i < count; i++)
		work.order[i - 1] = i;
	qsort_r(work.order, work.order_count, sizeof(*work.order), order_compare,
		(void *)(uintptr_t)work.blocks);
	for (size_t begin = 0; begin < work.order_count && !err; begin = end) {
		uint32_t module = work.blocks[work.order[begin]].module.v;

		for (end = begin;
		     end < work.order_count && work.blocks[work.order[end]].module.v == module;)
			end++;
		progress_set(&progress, begin, work.order_count);
		err = module_work(&work, fn, work.order + begin, end - begin);
	}
	return err ? err : store_commit(work.store);
}

int parts_store(struct executed *executed, struct recorder *recorder)
{
	return modules_work(executed, recorder, false, blocks_split);
}

int lines_store(struct executed *executed, struct recorder *recorder, bool marks)
{
	return modules_work(executed, recorder, marks, module_lines_store);
}
