// SPDX-License-Identifier: BSD-2-Clause
/*
 * Divides blocks among the functions and lines that their instructions belong to. A block may lie
 * across several lines, inlined functions, and even functions. So each of its instructions is
 * looked up, and neighbours for which the answer is the same become a part. Module by module, in
 * the order of addresses, CHUNK blocks at a time: the instructions of all of them, each once. The
 * rows come last, in the order of their table, which is what SQLite is fastest with. While the
 * blocks of a module are worked on, the debug information of the next ones is loaded.
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

enum {
	BLOCK_BYTES_MAX = STREAM_BLOCK_INSTRUCTIONS_MAX * ZYDIS_MAX_INSTRUCTION_LENGTH,
	CHUNK = 8192, /* blocks */
	AHEAD = 2, /* modules */
};

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
	struct progress progress;
	struct symbols *symbols; /* of the module being worked on; NULL: none */
	ARRAY(uint8_t) lengths; /* of the instructions of the chunk, block by block */
	uint16_t decoded[CHUNK]; /* by block of the chunk: its instructions; 0: as one part */
	ARRAY(uint64_t) addresses; /* of the instructions of the chunk, each once, ascending */
	ARRAY(uint64_t) places; /* of each: equal for the same function, frames and line */
	ARRAY(struct store_block_part) parts; /* of all modules; those of a block together */
	ARRAY(struct heat) heats;
};

static void work_destroy(struct work **slot)
{
	struct work *work = *slot;

	free(work->order);
	symbols_destroy(work->symbols);
	array_deinit(&work->lengths);
	array_deinit(&work->addresses);
	array_deinit(&work->places);
	array_deinit(&work->parts);
	array_deinit(&work->heats);
	free(work);
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

/* Adds the lengths of a block's instructions; false: they are not those that the engine saw. */
static bool block_decode(struct work *work, const struct executed_block *block)
{
	uint8_t code[BLOCK_BYTES_MAX];
	ZydisDecodedInstruction instruction;
	uint32_t at = 0, count = 0;

	if (block->length > sizeof(code) ||
	    symbols_code(work->symbols, block->address, code, block->length) != (int)block->length)
		return false;
	for (; at < block->length && count < STREAM_BLOCK_INSTRUCTIONS_MAX;
	     at += instruction.length, count++) {
		if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&work->decoder, NULL, code + at,
							      block->length - at, &instruction)))
			return false;
		*array_push(&work->lengths) = instruction.length;
	}
	return at == block->length && count == block->instructions;
}

/* Blocks overlap mostly where they end with the same instructions. */
static bool is_last(const struct work *work, uint64_t address)
{
	for (size_t i = work->addresses.count; i-- > 0 && work->addresses.items[i] >= address;)
		if (work->addresses.items[i] == address)
			return true;
	return false;
}

static void addresses_sort(struct work *work)
{
	size_t kept = 0;

	qsort(work->addresses.items, work->addresses.count, sizeof(uint64_t), address_compare);
	for (size_t i = 1; i < work->addresses.count; i++)
		if (work->addresses.items[i] != work->addresses.items[kept])
			work->addresses.items[++kept] = work->addresses.items[i];
	work->addresses.count = kept + 1;
}

/* At most CHUNK blocks. */
static void addresses_collect(struct work *work, const uint32_t *ids, size_t count)
{
	bool sorted = true;

	work->addresses.count = work->lengths.count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct executed_block *block = &work->blocks[ids[i]];
		uint64_t address = block->address;
		size_t begin = work->lengths.count;

		work->decoded[i] = 0;
		if (!work->symbols || !block_decode(work, block)) {
			work->lengths.count = begin;
			continue;
		}
		work->decoded[i] = (uint16_t)block->instructions;
		for (size_t j = begin; j < work->lengths.count; address += work->lengths.items[j++])
			if (!is_last(work, address)) {
				size_t had = work->addresses.count;

				sorted &= !had || work->addresses.items[had - 1] < address;
				*array_push(&work->addresses) = address;
			}
	}
	if (!sorted)
		addresses_sort(work);
}

static void places_find(struct work *work)
{
	size_t total = work->addresses.count;

	array_reserve(&work->places, total);
	for (size_t i = 0; i < total; i += SYMBOLS_BATCH_MAX)
		symbols_places(work->symbols, work->addresses.items + i,
			       total - i < SYMBOLS_BATCH_MAX ? total - i : SYMBOLS_BATCH_MAX,
			       work->places.items + i);
}

static size_t address_index(const struct work *work, uint64_t address)
{
	const uint64_t *found = bsearch(&address, work->addresses.items, work->addresses.count,
					sizeof(uint64_t), address_compare);

	return (size_t)(found - work->addresses.items);
}

static int part_add(struct work *work, const struct executed_block *block,
		    struct store_block_part *part, uint64_t address)
{
	int err = locations_add(recorder_locations(work->recorder), block->module, address,
				&part->location);

	*array_push(&work->parts) = *part;
	part->part++;
	part->instructions = 0;
	return err;
}

/* count 0: one part. */
static int block_split(struct work *work, uint32_t id, const uint8_t *lengths, size_t count)
{
	const struct executed_block *block = &work->blocks[id];
	struct store_block_part part = { .block = { id } };
	uint64_t start = block->address, address = start;
	size_t index = count ? address_index(work, address) : 0;
	int err = 0;

	for (size_t i = 0; i + 1 < count && !err; i++) {
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
		err = part_add(work, block, &part, start);
		start = address;
	}
	part.instructions += count ? 1 : block->instructions;
	return err ? err : part_add(work, block, &part, start);
}

static int chunk_split(struct work *work, const uint32_t *ids, size_t count)
{
	const uint8_t *lengths;
	int err = 0;

	addresses_collect(work, ids, count);
	places_find(work);
	lengths = work->lengths.items;
	for (size_t i = 0; i < count && !err; lengths += work->decoded[i++])
		err = block_split(work, ids[i], lengths, work->decoded[i]);
	return err;
}

/* The parts of a block lie together: sorting finds where. */
static int parts_put(struct work *work)
{
	AUTO(free_ptr) uint32_t *firsts = mem_alloc((work->order_count + 1) * sizeof(*firsts));
	int err = 0;

	for (size_t i = work->parts.count; i-- > 0;)
		firsts[work->parts.items[i].block.v] = (uint32_t)i;
	for (uint32_t id = 1; id <= work->order_count; id++)
		for (size_t i = firsts[id];
		     i < work->parts.count && !err && work->parts.items[i].block.v == id; i++) {
			progress_set(&work->progress, id, work->order_count);
			err = store_block_part_put(work->store, &work->parts.items[i]);
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

/* What to do with some blocks of one module, or with all. */
typedef int (*blocks_fn)(struct work *work, const uint32_t *ids, size_t count);

struct task {
	const char *doing;
	blocks_fn fn;
	size_t at_once; /* blocks */
};

static int module_work(struct work *work, const struct task *task, size_t begin, size_t end)
{
	struct module_id id = work->blocks[work->order[begin]].module;
	int err = module_open(work, id);

	for (size_t next; begin < end && !err; begin = next) {
		next = end - begin > task->at_once ? begin + task->at_once : end;
		progress_set(&work->progress, begin, work->order_count);
		err = task->fn(work, work->order + begin, next - begin);
	}
	module_cache_put(recorder_modules(work->recorder), id.v, take_ptr(work->symbols));
	return err;
}

static size_t module_end(const struct work *work, size_t begin)
{
	uint32_t module = work->blocks[work->order[begin]].module.v;
	size_t end = begin;

	while (end < work->order_count && work->blocks[work->order[end]].module.v == module)
		end++;
	return end;
}

/* Begins to load the module; *begin moves on to the next one. */
static int module_prepare(struct work *work, size_t *begin)
{
	struct module_cache *cache = recorder_modules(work->recorder);
	struct module_id id;
	int err;

	if (*begin >= work->order_count)
		return 0;
	id = work->blocks[work->order[*begin]].module;
	*begin = module_end(work, *begin);
	if (cache->count >= MODULE_CACHE_MAX)
		return 0;
	err = module_open(work, id);
	if (work->symbols)
		symbols_prepare(work->symbols);
	module_cache_put(cache, id.v, take_ptr(work->symbols));
	return err;
}

static void order_make(struct work *work, const struct executed *executed)
{
	size_t count;

	work->blocks = executed_blocks(executed, &count);
	work->order_count = count - 1;
	work->order = mem_alloc(count * sizeof(*work->order));
	for (uint32_t i = 1; i < count; i++)
		work->order[i - 1] = i;
	qsort_r(work->order, work->order_count, sizeof(*work->order), order_compare,
		(void *)(uintptr_t)work->blocks);
}

static int modules_work(struct work *work, const struct task *task)
{
	size_t ahead = 0;
	int err = 0;

	for (int i = 0; i < AHEAD && !err; i++)
		err = module_prepare(work, &ahead);
	for (size_t begin = 0, end; begin < work->order_count && !err; begin = end) {
		end = module_end(work, begin);
		err = module_prepare(work, &ahead);
		err = err ? err : module_work(work, task, begin, end);
	}
	return err;
}

static int executed_work(const struct executed *executed, struct recorder *recorder, bool marks,
			 const struct task *task)
{
	AUTO(work_destroy) struct work *work = mem_zalloc(sizeof(*work));
	int err;

	work->recorder = recorder;
	work->store = recorder_store(recorder);
	work->marks = marks;
	ZydisDecoderInit(&work->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	progress_begin(&work->progress, "%s", task->doing);
	order_make(work, executed);
	err = modules_work(work, task);
	if (!err && work->parts.count) {
		progress_tell(&work->progress, "storing blocks");
		err = parts_put(work);
	}
	progress_end(&work->progress);
	return err ? err : store_commit(work->store);
}

int parts_store(struct executed *executed, struct recorder *recorder)
{
	static const struct task split = { "finding functions and lines of blocks", chunk_split,
					   CHUNK };

	return executed_work(executed, recorder, false, &split);
}

int lines_store(struct executed *executed, struct recorder *recorder, bool marks)
{
	static const struct task lines = { "finding lines that were not executed",
					   module_lines_store, SIZE_MAX };

	return executed_work(executed, recorder, marks, &lines);
}
