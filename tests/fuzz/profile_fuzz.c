// SPDX-License-Identifier: BSD-2-Clause
/*
 * Profiles of any bytes: what loads is valid, whatever the file says.
 *
 * An input that begins as SQLite files do is taken as the file itself. Any other is damage to a
 * good profile: groups of four bytes, an offset of three and what is added to the byte there. The
 * fuzzer so reaches behind SQLite's own checks at once.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "analyse/order_cycles.h"
#include "base/mem.h"
#include "paths/flow.h"
#include "store/profile.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STACKS = 40, PATCH_SIZE = 4, BLOCKS = 3, STEPS = 3000, SEED = 77 };
enum { DECODED = 8 }; /* decoding needs models of many megabytes: not for each input */

static char path[64];
static uint8_t *good, *bad;
static size_t good_size;
static volatile uint8_t list_sum; /* reads each byte of each list */

static void path_remove(void)
{
	unlink(path);
}

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void values_put(struct store *store, uint32_t i)
{
	static const uint8_t list[STACKS] = { 1 };
	struct location_id location = { i };

	store_value_put(store, &(struct store_value){ .id.v = STACKS + 1 - i,
						      .location = location,
						      .caller.v = i % 2 ? i : 0,
						      .item.v = 1 + i % 2,
						      .owner = i % 3 ? (int64_t)i : -1,
						      .width = i,
						      .total = 2 * i,
						      .runs = i,
						      .has_moments = i % 2,
						      .maximum = i,
						      .list = list,
						      .list_size = i });
	store_value_name_put(store,
			     &(struct store_value_name){ (uint64_t)i << 58, location, "[heap]" });
	store_parameter_put(store, &(struct store_parameter){ .symbol.v = i,
							      .argument = i % STORE_ARGUMENTS,
							      .name = "n",
							      .type = "int",
							      .encoding = "signed" });
}

static void runs_put(struct store *store)
{
	store_value_item_put(store, &(struct store_value_item){
					    .id.v = 1, .text = "a", .class = "run", .words = 1 });
	store_value_item_put(store, &(struct store_value_item){
					    .id.v = 2, .text = "b", .class = "entry", .words = 8 });
	store_run_end_put(store, &(struct store_run_end){ .reason = "length",
							  .mnemonic = "",
							  .text = "reached the length",
							  .count = 1 });
	store_run_end_put(store, &(struct store_run_end){ .reason = "unknown",
							  .mnemonic = "cpuid",
							  .text = "unknown",
							  .count = 2 });
	store_loss_set(store, RECORDING_VALUES, "nested", "nested", 1);
}

static int row_put(void *context, struct flow *flow, const struct sequence_row *row)
{
	const uint64_t *end = row->end.units;
	static uint64_t number;

	return store_flow_put(context, &(struct store_flow){ .thread.v = 1,
							     .row = (uint32_t)number++,
							     .instructions = end[0],
							     .blocks = end[1],
							     .paths = end[2],
							     .repeats = end[3],
							     .strata = end[4],
							     .stratum_start = row->stratum_start,
							     .base = row->base,
							     .data = row->data,
							     .size = row->size });
}

static int paths_put(void *context, const struct sequence_definitions *row)
{
	return store_path_table_put(context, &(struct store_path_table){ .process.v = 2,
									 .first = row->first,
									 .count = row->count,
									 .data = row->data,
									 .size = row->size });
}

static int cycles_put(void *context, const struct cyclepack_piece *piece)
{
	return store_cycle_table_put(context, &(struct store_cycle_table){ .process.v = 2,
									   .level = piece->level,
									   .first = piece->first,
									   .count = piece->count,
									   .data = piece->data,
									   .size = piece->size });
}

static struct cyclepack pack;

static int cycle_put(void *context, const struct flow_cycle *cycle)
{
	return cyclepack_add(&pack, cycle);
}

/* Segments are one, two and three blocks. */
static size_t segment_blocks(void *context, uint32_t segment, const uint32_t **ret)
{
	static const uint32_t blocks[BLOCKS] = { 1, 2, 3 };

	*ret = blocks;
	return segment;
}

static void order_put(struct store *store)
{
	static const uint32_t weights[BLOCKS + 1] = { 0, 1, 1, 1 };
	struct flow_space *space = NULL;
	uint32_t segments[STEPS], seed = SEED;
	struct flow *flow;

	for (uint32_t i = 0; i < BLOCKS; i++)
		store_block_put(store, &(struct store_block){ { i + 1 }, { i + 1 }, 4, 1 });
	cyclepack_init(&pack, cycles_put, store);
	must(flow_space_create(&(struct flow_space_options){ .blocks = segment_blocks,
							     .row = row_put,
							     .definitions = paths_put,
							     .cycle = cycle_put,
							     .row_repeats = 512,
							     .context = store },
			       &space) == 0);
	flow_weights_set(space, weights, BLOCKS + 1);
	flow = flow_create(space, NULL);
	for (size_t i = 0; i < STEPS; i++) {
		seed = seed * 1664525 + 1013904223;
		segments[i] = 1 + (seed >> 16) % BLOCKS;
	}
	must(flow_push(flow, segments, STEPS) == 0 && flow_finish(flow) == 0);
	flow_destroy(flow);
	must(flow_space_finish(space) == 0 && cyclepack_flush(&pack) == 0);
	cyclepack_deinit(&pack);
	flow_space_destroy(space);
	store_layer_put(store, &(struct store_layer){ .thread.v = 1, .symbols = STEPS });
	store_rare_cycle_put(store,
			     &(struct store_rare_cycle){ (struct process_id){ 2 }, 1, 1, 1, 1 });
}

static void rows_put(struct store *store)
{
	store_process_put(store, &(struct store_process){ .id.v = 1, .pid = 10, .comm = "one" });
	store_process_put(store, &(struct store_process){
					 .id.v = 2, .parent.v = 1, .pid = 11, .comm = "two" });
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct location_id location = { i };

		store_thread_put(store, &(struct store_thread){
						.id.v = i, .process.v = 1 + i % 2, .comm = "t" });
		store_module_put(store, &(struct store_module){ .id.v = i,
								.kind = i % MODULE_KIND_COUNT,
								.path = "/m" });
		store_symbol_put(store, &(struct store_symbol){
						.id.v = i, .module.v = i, .name = "symbol" });
		store_file_put(store, &(struct store_file){ (struct file_id){ i }, "/file.c" });
		store_location_put(store,
				   &(struct store_location){ .id = location,
							     .module = (struct module_id){ i },
							     .address = i });
		store_frame_put(store, &(struct store_frame){
					       .location = location, .symbol.v = i, .file.v = i });
		store_stack_put(store,
				&(struct store_stack){ (struct stack_id){ i },
						       (struct stack_id){ i / 2 }, location });
		store_samples_add(store, (struct thread_id){ i }, (struct stack_id){ i }, i, i);
		values_put(store, i);
	}
	runs_put(store);
	order_put(store);
	store_loss_set(store, RECORDING_SAMPLES, "nested", "nested", 1);
	store_stack_end_put(store, &(struct store_stack_end){
					   .reason = "complete", .text = "complete", .count = 1 });
}

/* As a killed recorder leaves them, but in the file itself instead of its log. */
static void recent_put(void)
{
	sqlite3 *db;

	must(sqlite3_open(path, &db) == SQLITE_OK);
	must(sqlite3_exec(db,
			  "insert into recent select recording, stack, thread, 1, 0 from sample; "
			  "update recording set kept = (select sum(count) from sample_all) where "
			  "kind = 'samples'",
			  NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}

static void good_make(void)
{
	struct store *store = NULL;
	struct stat info;
	int fd;

	snprintf(path, sizeof(path), "/tmp/assay-profile-fuzz-%d.db", (int)getpid());
	must(store_create(path, &store) == 0);
	rows_put(store);
	must(store_finish(store) == 0);
	store_destroy(store);
	recent_put();
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0 && fstat(fd, &info) == 0);
	good_size = (size_t)info.st_size;
	good = mem_alloc(good_size);
	bad = mem_alloc(good_size);
	must(read(fd, good, good_size) == (ssize_t)good_size);
	close(fd);
	atexit(path_remove);
}

static void file_write(const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	must(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	close(fd);
}

static void damaged_write(const uint8_t *data, size_t size)
{
	memcpy(bad, good, good_size);
	for (; size >= PATCH_SIZE; data += PATCH_SIZE, size -= PATCH_SIZE) {
		size_t offset = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;

		bad[offset % good_size] += data[3];
	}
	file_write(bad, good_size);
}

static void names_check(const struct profile *p)
{
	for (size_t i = 0; i < p->symbol_count; i++)
		must(p->symbols[i].module < p->module_count && p->symbols[i].name &&
		     p->symbols[i].linkage);
	for (size_t i = 0; i < p->frame_count; i++)
		must(p->frames[i].symbol < p->symbol_count && p->frames[i].file < p->file_count);
	for (size_t i = 0; i < p->file_count; i++)
		must(p->files[i].path != NULL);
	for (size_t i = 1; i < p->location_count; i++)
		must(p->locations[i].module < p->module_count &&
		     (uint64_t)p->locations[i].first_frame + p->locations[i].frame_count <=
			     p->frame_count);
}

static void value_check(const struct profile *p, const struct profile_value *value)
{
	must(value->location && value->location < p->location_count);
	must(value->caller < p->location_count);
	must(value->item && value->item < p->value_item_count);
	must(p->value_items[value->item].words >= 1 && p->value_items[value->item].words <= 8);
	must(value->width >= 1 && value->width <= 64);
	must(value->total <= INT64_MAX && value->runs <= INT64_MAX);
	must(value->owner >= -1 && value->owner <= UINT32_MAX);
	must(value->minimum <= value->maximum && value->squares >= 0);
	must(value->list && value->list_size <= STORE_VALUE_LIST_MAX);
	for (size_t i = 0; i < value->list_size; i++)
		list_sum += value->list[i];
}

static void values_check(const struct profile *p)
{
	for (size_t i = 0; i < p->value_count; i++) {
		value_check(p, &p->values[i]);
		must(i == 0 || p->values[i - 1].location <= p->values[i].location);
	}
	for (size_t i = 0; i < p->value_item_count; i++)
		must(p->value_items[i].text && p->value_items[i].class);
	for (size_t i = 0; i < p->run_end_count; i++)
		must(p->run_ends[i].reason && p->run_ends[i].mnemonic && p->run_ends[i].text);
	for (size_t i = 0; i < p->value_name_count; i++)
		must(p->value_names[i].location < p->location_count && p->value_names[i].text &&
		     (i == 0 || p->value_names[i - 1].value < p->value_names[i].value));
	for (size_t i = 0; i < p->parameter_count; i++)
		must(p->parameters[i].symbol && p->parameters[i].symbol < p->symbol_count &&
		     p->parameters[i].argument < STORE_ARGUMENTS && p->parameters[i].name);
}

static int repeats_check(void *context, const struct profile_flow *row,
			 const struct sequence_position *begin,
			 const struct sequence_repeats *repeats)
{
	const struct order_code *code = context;
	struct order_blocks blocks = {};

	array_each(&repeats->items, item) {
		blocks.items.count = 0;
		must(order_path_blocks(code, item->path, &blocks) == 0);
		array_each(&blocks.items, block)
			must(*block && *block < code->profile->block_count);
	}
	array_deinit(&blocks.items);
	return 0;
}

static void cycles_check(const struct order_code *code)
{
	struct order_cycles cycles;

	order_cycles_init(&cycles);
	if (order_cycles_add(&cycles, code, LAYER_LEVELS_MAX) == 0)
		array_each(&cycles.items, cycle) {
			const struct flow_symbol *symbols = order_cycle_symbols(&cycles, cycle);

			must(cycle->length && cycle->repeats <= cycle->trips);
			for (uint32_t i = 0; symbols && i < cycle->length; i++)
				must(order_cycle_find(&cycles, cycle->process, cycle->level - 1,
						      symbols[i].number) != NULL);
		}
	order_cycles_deinit(&cycles);
}

/* What can be decoded refers to what there is. */
static void order_check_all(const struct profile *p)
{
	for (uint32_t process = 1; process < p->process_count; process++) {
		struct order_code code;
		int err = order_code_init(&code, p, process);

		for (uint32_t thread = 1; thread < p->thread_count && !err; thread++)
			if (p->threads[thread].process == process)
				order_walk(&code, thread, repeats_check, &code);
		if (!err)
			cycles_check(&code);
		order_code_deinit(&code);
	}
}

static void profile_check(const struct profile *p)
{
	names_check(p);
	values_check(p);
	for (size_t i = 0; i < p->thread_count; i++)
		must(p->threads[i].process < p->process_count && p->threads[i].comm);
	for (size_t i = 0; i < p->process_count; i++)
		must(p->processes[i].parent < p->process_count && p->processes[i].comm &&
		     p->processes[i].exe);
	for (size_t i = 1; i < p->stack_count; i++)
		must(p->stacks[i].parent < i && p->stacks[i].location &&
		     p->stacks[i].location < p->location_count);
	for (size_t i = 0; i < p->sample_count; i++)
		must(p->samples[i].stack && p->samples[i].stack < p->stack_count &&
		     p->samples[i].thread && p->samples[i].thread < p->thread_count &&
		     p->samples[i].kernel <= p->samples[i].count);
	must(p->seen >= p->kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *profile = NULL;

	if (!good)
		good_make();
	if (size >= 16 && memcmp(data, "SQLite format 3", 16) == 0)
		file_write(data, size);
	else
		damaged_write(data, size);
	if (profile_load(path, DOMAIN_ALL, &profile) == 0) {
		profile_check(profile);
		if (size && data[size - 1] % DECODED == 0)
			order_check_all(profile);
	}
	profile_destroy(profile);
	return 0;
}
