// SPDX-License-Identifier: BSD-2-Clause
#include "capture/kernel/run_bench.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "isa/lift.h"
#include "run_test.skel.h"

enum {
	DATA_MAX = 8,
	PAGE = 4096,
	RESERVE = 300, /* blocks of a run, and more */
};

/* --- The host's side -------------------------------------------------------------------------- */

static const uint8_t *memory_at(const struct run_bench *bench, uint64_t address, size_t *ret_left)
{
	if (address - BENCH_DATA < BENCH_DATA_SIZE) {
		*ret_left = BENCH_DATA + BENCH_DATA_SIZE - address;
		return bench->data + (address - BENCH_DATA);
	}
	if (address - BENCH_CODE < BENCH_CODE_SIZE) {
		*ret_left = BENCH_CODE + BENCH_CODE_SIZE - address;
		return bench->code + (address - BENCH_CODE);
	}
	*ret_left = 0;
	return NULL;
}

/*
 * The kernel reads a datum whole or not at all, so this does. Code is asked for in larger pieces.
 */
static size_t read_memory(void *context, uint64_t address, void *ret, size_t size)
{
	struct run_bench *bench = context;
	size_t left;
	const uint8_t *place = memory_at(bench, address, &left);
	struct bench_event event = { .is_block = size > DATA_MAX };

	if (event.is_block) {
		left = address - BENCH_CODE < BENCH_CODE_SIZE ? left : 0;
		size = left < size ? left : size;
		event.word = address;
	} else {
		event.missing = left < size;
		size = event.missing ? 0 : size;
	}
	if (size)
		memcpy(ret, place, size);
	if (size && !event.is_block)
		memcpy(&event.word, place, size);
	if (size || !event.is_block)
		*array_push(&bench->events) = event;
	return size;
}

static bool is_nearly_full(const struct run_bench *bench)
{
	return bench->table.uops_used + RESERVE * UOP_BLOCK_MAX > BENCH_UOPS ||
	       bench->blocks.count + RESERVE > BENCH_BLOCKS;
}

void run_bench_host(struct run_bench *bench)
{
	struct uop_machine *machine = bench->machine;
	const struct run_test *test = bench->test;

	if (is_nearly_full(bench))
		run_bench_clear(bench);
	bench->events.count = 0;
	machine->bias = BENCH_BIAS;
	uop_machine_start(machine, test->pc, test->rflags);
	memcpy(machine->state.regs, test->regs, sizeof(test->regs));
	machine->state.regs[UOP_BIAS] = BENCH_BIAS;
	memcpy(machine->state.unknown, test->unknown, sizeof(test->unknown));
	bench->end = UOP_END_NONE;
	while (bench->end == UOP_END_NONE && machine->instructions < test->limit)
		bench->end = uop_machine_next(machine);
	array_each(&bench->events, event)
		if (event->is_block)
			run_bench_publish(bench, event->word, false);
}

/* --- The kernel's side ------------------------------------------------------------------------ */

static bool is_published(const struct run_bench *bench, uint64_t pc)
{
	const uint64_t *serial = map_find(&bench->by_pc, pc);
	const struct uop_block *block;
	size_t left;
	const uint8_t *code = memory_at(bench, pc, &left);

	if (!serial)
		return false;
	block = &bench->blocks.items[*serial - 1].block;
	return block->length && block->length <= left &&
	       memcmp(block->code, code, block->length) == 0;
}

void run_bench_publish(struct run_bench *bench, uint64_t pc, bool suffixes)
{
	struct bench_block *known;
	struct block_key key = { .address = pc - BENCH_BIAS, .module = BENCH_MODULE };
	const struct uop_block *block;
	size_t left;
	const uint8_t *code = memory_at(bench, pc, &left);
	uint32_t serial;

	if (!suffixes && is_published(bench, pc))
		return;
	if (bench->table.uops_used + UOP_BLOCK_MAX > BENCH_UOPS)
		abort();
	known = array_push(&bench->blocks);
	known->pc = pc;
	known->first = bench->table.uops_used;
	lift_block(code, left < UOP_CODE_MAX + 16 ? left : UOP_CODE_MAX + 16, pc - BENCH_BIAS,
		   &known->block);
	block = &known->block;
	serial = (uint32_t)bench->blocks.count;
	*map_at(&bench->by_pc, pc, NULL) = serial;
	if (block_table_put(&bench->table, &key, block, serial, suffixes))
		abort();
}

void run_bench_clear(struct run_bench *bench)
{
	block_table_clear(&bench->table);
	map_clear(&bench->by_pc);
	bench->blocks.count = 0;
}

static int on_record(void *ctx, void *data, size_t size)
{
	struct run_bench *bench = ctx;
	const struct sample_record *record = data;

	if (record->kind == RECORD_RUN) {
		memcpy(bench->record, data, size);
		return 0;
	}
	memcpy(bench->wanted, data, sizeof(*bench->wanted));
	bench->wanted_count++;
	return 0;
}

void run_bench_kernel(struct run_bench *bench)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);

	bench->wanted_count = 0;
	bench->test->time += 1000000000; /* requests are repeated after a while */
	if (bpf_prog_test_run_opts(bpf_program__fd(bench->skeleton->progs.run_once), &options) ||
	    options.retval || !bench->test->sent)
		abort();
	ring_buffer__consume(bench->ring);
}

/* --- Comparing -------------------------------------------------------------------------------- */

uint64_t run_bench_pc(const struct run_bench *bench)
{
	const struct run_test *test = bench->test;
	uint32_t next = test->state.next - (test->end != UOP_END_NONE && test->state.next > 0);

	if (!test->count)
		return test->state.pc;
	for (size_t i = 0; i < bench->blocks.count; i++)
		if (bench->blocks.items[i].first == test->first)
			return bench->blocks.items[i].pc +
			       bench->blocks.items[i].block.uops[next].at;
	return 0;
}

static bool differ(char text[BENCH_TEXT_MAX], const char *what, uint64_t number, uint64_t kernel,
		   uint64_t host)
{
	if (kernel == host)
		return false;
	snprintf(text, BENCH_TEXT_MAX, "%s %" PRIu64 ": %" PRIx64 " in the kernel, %" PRIx64, what,
		 number, kernel, host);
	return true;
}

static bool registers_compare(struct run_bench *bench, char text[BENCH_TEXT_MAX])
{
	const struct uop_state *kernel = &bench->test->state, *host = &bench->machine->state;

	if (differ(text, "misses", 0, kernel->misses, host->misses))
		return false;
	for (unsigned i = 0; i < UOP_REGISTERS; i++)
		if (differ(text, "unknown register", i, kernel->unknown[i], host->unknown[i]) ||
		    (!host->unknown[i] &&
		     differ(text, "register", i, kernel->regs[i], host->regs[i])))
			return false;
	return true;
}

/* The host's executor has the function that settles flags. */
static bool flags_compare(struct run_bench *bench, char text[BENCH_TEXT_MAX])
{
	struct uop_machine *machine = bench->machine;
	uint32_t host, host_known, kernel, kernel_known;
	struct uop_state state = machine->state;

	uop_machine_flags(machine, &host, &host_known);
	machine->state = bench->test->state;
	uop_machine_flags(machine, &kernel, &kernel_known);
	machine->state = state;
	return !differ(text, "known flags", 0, kernel_known & UOP_TRACKED,
		       host_known & UOP_TRACKED) &&
	       !differ(text, "flags", 0, kernel & kernel_known & UOP_TRACKED,
		       host & host_known & UOP_TRACKED);
}

static const struct uop_word *host_word(const struct uop_machine *machine, uint64_t address)
{
	for (size_t i = 0; i < machine->overlay_count; i++)
		if (machine->overlay[i].address == address)
			return &machine->overlay[i];
	return NULL;
}

static uint64_t known_bytes(uint64_t data, unsigned present, unsigned unknown)
{
	for (int i = 0; i < 8; i++)
		if (!((present & ~unknown) >> i & 1))
			data &= ~(0xffull << i * 8);
	return data;
}

static bool memory_compare(struct run_bench *bench, char text[BENCH_TEXT_MAX])
{
	const struct run_test *test = bench->test;

	if (differ(text, "words stored", 0, test->word_count, bench->machine->overlay_count))
		return false;
	for (uint32_t i = 0; i < test->word_count; i++) {
		const struct run_test_word *kernel = &test->words[i];
		const struct uop_word *host = host_word(bench->machine, kernel->address);

		if (!host || differ(text, "bytes stored", i, kernel->present, host->present) ||
		    differ(text, "bytes unknown", i, kernel->unknown, host->unknown) ||
		    differ(text, "word stored", i,
			   known_bytes(kernel->data, kernel->present, kernel->unknown),
			   known_bytes(host->data, host->present, host->unknown)))
			return false;
	}
	return true;
}

bool run_bench_compare(struct run_bench *bench, char text[BENCH_TEXT_MAX])
{
	const struct run_test *test = bench->test;

	return !differ(text, "end", 0, test->end, bench->end) &&
	       !differ(text, "instructions", 0, test->begun, bench->machine->instructions) &&
	       !differ(text, "pc", 0, run_bench_pc(bench), bench->machine->state.pc) &&
	       registers_compare(bench, text) && flags_compare(bench, text) &&
	       memory_compare(bench, text);
}

bool run_bench_compare_logs(const struct run_bench *bench, char text[BENCH_TEXT_MAX])
{
	const struct run_record *record = bench->record;
	size_t at = 0;

	array_each(&bench->events, event) {
		if (at + event->is_block >= record->log_count)
			break;
		if (differ(text, "log", at, record->log[at], event->word) ||
		    differ(text, "missing", at, run_is_missing(record, at), event->missing))
			return false;
		at++;
		if (event->is_block && differ(text, "serial", at, record->log[at],
					      *map_find(&bench->by_pc, event->word)))
			return false;
		at += event->is_block;
	}
	return !differ(text, "length of log", 0, record->log_count, at);
}

/* --- Life ------------------------------------------------------------------------------------- */

static void *place_map(uint64_t address, size_t size)
{
	void *place = mmap((void *)address, size + PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);

	if (place != (void *)address || mprotect((char *)place + size, PAGE, PROT_NONE))
		abort();
	return place;
}

static int mapping_put(struct run_bench *bench)
{
	struct unwind_mapping mapping = {
		.start = BENCH_CODE,
		.end = BENCH_CODE + BENCH_CODE_SIZE,
		.bias = BENCH_BIAS,
		.module = BENCH_MODULE,
	};
	uint32_t first = 3;

	bench->test->process = (struct sampler_process){ .first = first, .count = 1 };
	return bpf_map__update_elem(bench->skeleton->maps.mappings, &first, sizeof(first), &mapping,
				    sizeof(mapping), BPF_ANY);
}

static void *map_window(const struct bpf_map *map, size_t size)
{
	void *window = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);

	return window == MAP_FAILED ? NULL : window;
}

static int skeleton_load(struct run_bench *bench, unsigned flags)
{
	struct run_test_bpf *skeleton = bench->skeleton = run_test_bpf__open();
	int err;

	if (!skeleton)
		return -errno;
	skeleton->rodata->run_flags = (uint16_t)flags;
	skeleton->rodata->ring_wakeup = UINT64_MAX;
	skeleton->rodata->blocks_mask = 2 * BENCH_BLOCKS - 1;
	bpf_map__set_max_entries(skeleton->maps.blocks, 2 * BENCH_BLOCKS);
	bpf_map__set_max_entries(skeleton->maps.uops, BENCH_UOPS);
	err = run_test_bpf__load(skeleton);
	if (err)
		return err;
	err = block_table_init(&bench->table, bpf_map__fd(skeleton->maps.blocks), 2 * BENCH_BLOCKS,
			       bpf_map__fd(skeleton->maps.uops), BENCH_UOPS);
	if (err)
		return err;
	bench->test = map_window(skeleton->maps.tests, sizeof(struct run_test));
	bench->ring = ring_buffer__new(bpf_map__fd(skeleton->maps.ring), on_record, bench, NULL);
	if (!bench->test || !bench->ring)
		return -errno;
	return mapping_put(bench);
}

int run_bench_create(unsigned flags, struct run_bench **ret)
{
	struct run_bench *bench = mem_zalloc(sizeof(*bench));
	int err;

	bench->code = place_map(BENCH_CODE, BENCH_CODE_SIZE);
	bench->data = place_map(BENCH_DATA, BENCH_DATA_SIZE);
	bench->machine = uop_machine_create(read_memory, bench);
	bench->record = mem_zalloc(RUN_RECORD_MAX);
	bench->wanted = mem_zalloc(sizeof(*bench->wanted));
	err = skeleton_load(bench, flags);
	if (err) {
		run_bench_destroy(bench);
		return err;
	}
	*ret = bench;
	return 0;
}

void run_bench_destroy(struct run_bench *bench)
{
	if (!bench)
		return;
	block_table_deinit(&bench->table);
	if (bench->test)
		munmap(bench->test, sizeof(struct run_test));
	ring_buffer__free(bench->ring);
	run_test_bpf__destroy(bench->skeleton);
	uop_machine_destroy(bench->machine);
	munmap(bench->code, BENCH_CODE_SIZE + PAGE);
	munmap(bench->data, BENCH_DATA_SIZE + PAGE);
	array_deinit(&bench->blocks);
	array_deinit(&bench->events);
	map_deinit(&bench->by_pc);
	free(bench->record);
	free(bench->wanted);
	free(bench);
}
