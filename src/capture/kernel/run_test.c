// SPDX-License-Identifier: BSD-2-Clause
// Serves: V2, V4.
/*
 * The kernel's executor of micro-operations against the host's, which isa/corpus_test.c holds
 * against the processor. Both get the same code, registers and memory; registers, flags, stores,
 * place, end and log must be the same.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "capture/ability.h"
#include "capture/kernel/run_corpus.h"

enum {
	SEED = 20260101,
	INSTRUCTIONS = 120000,
	RUNS = 6000,
	RUN_INSTRUCTIONS_MAX = 24,
	SUFFIX_BLOCKS = 300,
	STORE_RUNS = 12000,
	USED_MIN = 20, /* instructions with each micro-operation */
	MISMATCHES_SHOWN = 10,
	CODE_PLACES = 8192, /* where code begins: two pages */
	MIDDLE = BENCH_DATA_SIZE / 2,
	PAGE = 4096,
};

struct state {
	struct run_bench *bench;
	struct run_corpus corpus;
	unsigned mismatches;
	unsigned full; /* runs that could not be compared: three words collided */
	uint64_t steps;
};

static void report(struct state *state, const char *text)
{
	const uint8_t *code = state->bench->code + (state->bench->test->pc - BENCH_CODE);

	if (state->mismatches++ >= MISMATCHES_SHOWN)
		return;
	print_message("%s; code", text);
	for (int i = 0; i < 32; i++)
		print_message(" %02x", code[i]);
	print_message("\n");
}

/* Runs both ways what is at test->pc. */
static void compare(struct state *state)
{
	char text[BENCH_TEXT_MAX];

	run_bench_host(state->bench);
	run_bench_kernel(state->bench);
	state->steps += state->bench->test->begun;
	if (state->bench->test->end == UOP_END_OVERLAY_FULL) {
		state->full++; /* the host's overlay has no collisions */
		return;
	}
	if (!run_bench_compare(state->bench, text) || !run_bench_compare_logs(state->bench, text))
		report(state, text);
}

static void check(struct state *state)
{
	unsigned mismatches = state->mismatches;

	state->mismatches = 0;
	assert_int_equal(mismatches, 0);
}

/* Code at the start of the area, to be run for so many instructions. */
static void code_put(struct run_bench *bench, const void *code, size_t size, unsigned limit)
{
	memcpy(bench->code, code, size);
	bench->test->pc = BENCH_CODE;
	bench->test->limit = limit;
}

static void jump_put(struct run_bench *bench, uint64_t pc)
{
	static const uint8_t jump[] = { 0xeb, 0x00 };

	memcpy(bench->code + (pc - BENCH_CODE), jump, sizeof(jump));
}

/* --- Random code ------------------------------------------------------------------------------ */

static void instructions_agree(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;

	for (unsigned i = 0; i < INSTRUCTIONS; i++) {
		uint64_t pc = BENCH_CODE + corpus_random(&state->corpus) % CODE_PLACES;

		bench->test->pc = pc;
		bench->test->limit = 1;
		corpus_state(&state->corpus, bench);
		jump_put(bench, pc + corpus_instruction(&state->corpus, bench, pc, false));
		compare(state);
	}
	print_message("seed %d: %d instructions, %u differ\n", SEED, INSTRUCTIONS,
		      state->mismatches);
	check(state);
	for (unsigned i = UOP_OP_NOP + 1; i < UOP_OP_COUNT; i++)
		if (state->corpus.used[i] < USED_MIN)
			fail_msg("micro-operation %u ran %u times only", i, state->corpus.used[i]);
}

static void runs_agree(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	uint64_t before = state->steps;

	for (unsigned i = 0; i < RUNS; i++) {
		uint64_t pc = BENCH_CODE + corpus_random(&state->corpus) % CODE_PLACES;
		unsigned count = 2 + corpus_random(&state->corpus) % RUN_INSTRUCTIONS_MAX;

		bench->test->pc = pc;
		bench->test->limit = count + 2;
		corpus_state(&state->corpus, bench);
		for (unsigned k = 0; k < count; k++)
			pc += corpus_instruction(&state->corpus, bench, pc, true);
		pc += corpus_instruction(&state->corpus, bench, pc, false);
		jump_put(bench, pc);
		compare(state);
	}
	print_message("%" PRIu64 " instructions in %d runs, %u differ, %u had a full overlay\n",
		      state->steps - before, RUNS, state->mismatches, state->full);
	check(state);
	assert_true(state->full < RUNS / 500);
	assert_true(state->steps - before > RUNS * 4);
}

/* A block is entered at each of its instructions. */
static void suffixes_agree(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	uint64_t starts[8];
	char text[BENCH_TEXT_MAX];
	unsigned inside = 0;

	for (unsigned i = 0; i < SUFFIX_BLOCKS; i++) {
		uint64_t pc = BENCH_CODE + corpus_random(&state->corpus) % CODE_PLACES;

		corpus_state(&state->corpus, bench);
		for (unsigned k = 0; k < 8; k++) {
			starts[k] = pc;
			pc += corpus_instruction(&state->corpus, bench, pc, true);
		}
		jump_put(bench, pc);
		run_bench_publish(bench, starts[0], true);
		bench->test->limit = 3;
		for (unsigned k = 0; k < 4; k++) {
			bench->test->pc = starts[k];
			run_bench_host(bench);
			/* A block that is full ends before any of them, and goes on there. */
			for (unsigned m = 1; m < 8; m++)
				run_bench_publish(bench, starts[m], false);
			run_bench_publish(bench, starts[0], true);
			run_bench_kernel(bench);
			if (!run_bench_compare(bench, text))
				report(state, text);
		}
		inside += bench->record->log[1] >> 32 == starts[3] - starts[0];
	}
	check(state);
	assert_true(inside > SUFFIX_BLOCKS / 2); /* of the others, the block ended before */
}

/* --- Stores and loads ------------------------------------------------------------------------- */

/* mov [rdi], rax and mov rax, [rsi] of 1, 2, 4 and 8 bytes; the rest is nop. */
static const uint8_t store_codes[4][3] = {
	{ 0x88, 0x07, 0x90 },
	{ 0x66, 0x89, 0x07 },
	{ 0x89, 0x07, 0x90 },
	{ 0x48, 0x89, 0x07 },
};
static const uint8_t load_codes[4][3] = {
	{ 0x8a, 0x06, 0x90 },
	{ 0x66, 0x8b, 0x06 },
	{ 0x8b, 0x06, 0x90 },
	{ 0x48, 0x8b, 0x06 },
};

static unsigned length_of(unsigned form)
{
	return store_codes[form][2] == 0x90 ? 2 : 3;
}

/* store at rdi, load at rsi, store what was loaded at rdi + 16; then a jump. */
static void pair_put(struct run_bench *bench, unsigned store, unsigned load)
{
	static const uint8_t end[] = { 0x48, 0x89, 0x47, 0x10, 0xeb, 0x00 };
	uint8_t code[16] = { 0 };
	unsigned used = length_of(store);

	memcpy(code, store_codes[store], used);
	memcpy(code + used, load_codes[load], length_of(load));
	used += length_of(load);
	memcpy(code + used, end, sizeof(end));
	code_put(bench, code, sizeof(code), 4);
}

static void pairs_run(struct state *state, unsigned store, unsigned load, uint64_t base,
		      bool unknown)
{
	struct run_test *test = state->bench->test;

	pair_put(state->bench, store, load);
	for (unsigned at = 0; at < 8; at++) {
		for (int distance = -9; distance <= 9; distance++) {
			test->regs[UOP_RAX] = corpus_random(&state->corpus);
			test->regs[UOP_RDI] = base + at;
			test->regs[UOP_RSI] = base + at + (uint64_t)distance;
			memset(test->unknown, 0, sizeof(test->unknown));
			test->unknown[UOP_RAX] = unknown;
			compare(state);
		}
	}
}

/* All alignments and distances; in the middle of memory, and where it ends. */
static void loads_see_stores(void **ctx)
{
	struct state *state = *ctx;

	corpus_state(&state->corpus, state->bench);
	for (unsigned form = 0; form < 16; form++) {
		pairs_run(state, form / 4, form % 4, BENCH_DATA + MIDDLE, false);
		pairs_run(state, form / 4, form % 4, BENCH_DATA + MIDDLE, true);
		pairs_run(state, form / 4, form % 4, BENCH_DATA + BENCH_DATA_SIZE - 8, false);
		pairs_run(state, form / 4, form % 4, BENCH_DATA + BENCH_DATA_SIZE - 8, true);
	}
	check(state);
}

/*
 * mov [rdi + disp8] or mov [rsi + disp8], both ways, of any size and any of the first four
 * registers.
 */
static unsigned access_put(struct run_corpus *corpus, uint8_t *code)
{
	uint64_t random = corpus_random(corpus);
	unsigned size = random & 3, used = 0, reg = random >> 2 & 3;
	bool load = random >> 4 & 1;

	if (size == 1)
		code[used++] = 0x66;
	if (size == 3)
		code[used++] = 0x48;
	code[used++] = (load ? 0x8a : 0x88) | (size ? 1 : 0);
	code[used++] = 0x40 | reg << 3 | (random >> 5 & 1 ? UOP_RSI : UOP_RDI);
	code[used++] = random >> 8 & 31;
	return used;
}

/* Many stores and loads of all sizes on the same few words, some of them unknown or absent. */
static void overlapping_stores_agree(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	uint8_t code[256];

	for (unsigned i = 0; i < STORE_RUNS; i++) {
		uint64_t base = BENCH_DATA + (i % 4 ? MIDDLE : BENCH_DATA_SIZE - 16);
		unsigned used = 0;

		for (unsigned k = 0; k < 16; k++)
			used += access_put(&state->corpus, code + used);
		code[used++] = 0xeb;
		code[used++] = 0x00;
		corpus_state(&state->corpus, bench);
		code_put(bench, code, used, 16);
		bench->test->regs[UOP_RDI] = base + corpus_random(&state->corpus) % 8;
		bench->test->regs[UOP_RSI] = base + corpus_random(&state->corpus) % 8;
		bench->test->unknown[UOP_RAX] |= corpus_random(&state->corpus) & 1;
		bench->test->unknown[UOP_RCX] |= corpus_random(&state->corpus) & 1;
		bench->test->unknown[UOP_RDI] = bench->test->unknown[UOP_RSI] = 0;
		compare(state);
	}
	check(state);
}

/* Vector stores of what is not followed, then a load around them. */
static void poison_agrees(void **ctx)
{
	static const struct {
		unsigned size;
		uint8_t code[6];
		unsigned length;
	} stores[] = {
		{ 16, { 0x0f, 0x11, 0x07 }, 3 }, /* movups [rdi], xmm0 */
		{ 32, { 0xc5, 0xfc, 0x11, 0x07 }, 4 }, /* vmovups [rdi], ymm0 */
		{ 64, { 0x62, 0xf1, 0x7c, 0x48, 0x11, 0x07 }, 6 }, /* vmovups [rdi], zmm0 */
		{ 10, { 0xdb, 0x3f }, 2 }, /* fstp tbyte [rdi] */
	};
	struct state *state = *ctx;
	struct run_test *test = state->bench->test;
	uint8_t code[16];

	for (unsigned form = 0; form < 16; form++) {
		unsigned length = stores[form / 4].length, load = form % 4;

		corpus_state(&state->corpus, state->bench);
		memcpy(code, stores[form / 4].code, length);
		memcpy(code + length, load_codes[load], length_of(load));
		memcpy(code + length + length_of(load), "\xeb", 2);
		code_put(state->bench, code, sizeof(code), 3);
		for (unsigned at = 0; at < 8; at++) {
			for (unsigned offset = 0; offset < stores[form / 4].size + 16; offset++) {
				test->regs[UOP_RDI] = BENCH_DATA + MIDDLE + at;
				test->regs[UOP_RSI] = BENCH_DATA + MIDDLE + at + offset - 8;
				uop_vectors_forget(test->unknown);
				compare(state);
			}
		}
	}
	check(state);
}

/* --- Limits ----------------------------------------------------------------------------------- */

/* The code so often, then a jump. */
static void repeated_put(struct run_bench *bench, const void *code, size_t size, unsigned times)
{
	static const uint8_t jump[] = { 0xeb, 0x00 };

	for (unsigned i = 0; i < times; i++)
		memcpy(bench->code + i * size, code, size);
	memcpy(bench->code + times * size, jump, sizeof(jump));
	bench->test->pc = BENCH_CODE;
}

static const struct uop_word *host_word(const struct run_bench *bench, uint64_t address)
{
	for (size_t i = 0; i < bench->machine->overlay_count; i++)
		if (bench->machine->overlay[i].address == address)
			return &bench->machine->overlay[i];
	return NULL;
}

/*
 * 64 stores next to each other have room in any place; some hundred have not, and the run ends
 * there.
 */
static void overlay_fills(void **ctx)
{
	static const uint8_t push[] = { 0x50 };
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	unsigned least = UINT32_MAX;

	for (unsigned i = 0; i < 500; i++) {
		corpus_state(&state->corpus, bench);
		memset(bench->test->unknown, 0, UOP_REGISTERS);
		bench->test->regs[UOP_RSP] = BENCH_DATA + BENCH_DATA_SIZE - 1024 -
					     corpus_random(&state->corpus) % 4096 * 4;
		repeated_put(bench, push, sizeof(push), 1000);
		bench->test->limit = 900;
		run_bench_host(bench);
		run_bench_kernel(bench);
		assert_int_equal(bench->test->end, UOP_END_OVERLAY_FULL);
		least = bench->test->begun < least ? bench->test->begun : least;
		for (uint32_t k = 0; k < bench->test->word_count; k++) {
			const struct run_test_word *word = &bench->test->words[k];
			const struct uop_word *host = host_word(bench, word->address);

			if (k + 1 < bench->test->word_count && !host)
				report(state, "a word is not the host's");
		}
	}
	print_message("at least %u pushes fit\n", least);
	check(state);
	assert_true(least >= 64);
}

static void log_fills(void **ctx)
{
	static const uint8_t pop[] = { 0x58 };
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	char text[BENCH_TEXT_MAX];

	corpus_state(&state->corpus, bench);
	memset(bench->test->unknown, 0, UOP_REGISTERS);
	bench->test->regs[UOP_RSP] = BENCH_DATA;
	repeated_put(bench, pop, sizeof(pop), 1100);
	bench->test->limit = 1024;
	run_bench_host(bench);
	run_bench_kernel(bench);
	assert_int_equal(bench->end, UOP_END_NONE);
	assert_int_equal(bench->test->end, UOP_END_LOG_FULL);
	assert_in_range(bench->test->begun, RUN_LOG_MAX * 9 / 10,
			RUN_LOG_MAX - 4); /* blocks take words too */
	assert_in_range(bench->record->log_count, RUN_LOG_MAX - 4, RUN_LOG_MAX);
	if (!run_bench_compare_logs(bench, text))
		fail_msg("%s", text);
}

static void long_strings_end(void **ctx)
{
	static const uint8_t rep_movsb[] = { 0xf3, 0xa4 };
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;

	for (unsigned count = 0; count < UOP_AGAIN_MAX + 8; count++) {
		corpus_state(&state->corpus, bench);
		memset(bench->test->unknown, 0, UOP_REGISTERS);
		repeated_put(bench, rep_movsb, sizeof(rep_movsb), 1);
		bench->test->regs[UOP_RCX] = count;
		bench->test->regs[UOP_RDI] = bench->test->regs[UOP_RSI] + count % 11;
		bench->test->limit = 1;
		compare(state);
		assert_int_equal(bench->test->end,
				 count > UOP_AGAIN_MAX ? UOP_END_STRING_LONG : UOP_END_NONE);
	}
	check(state);
}

/* --- Requests --------------------------------------------------------------------------------- */

static void missing_code_is_asked_for(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	uint64_t pc = BENCH_CODE + 3 * PAGE + 17;

	run_bench_clear(bench);
	corpus_state(&state->corpus, bench);
	jump_put(bench, pc);
	bench->test->pc = pc;
	bench->test->limit = 2;
	run_bench_kernel(bench);
	assert_int_equal(bench->test->end, UOP_END_BLOCK_MISSING);
	assert_int_equal(bench->test->begun, 0);
	assert_int_equal(bench->wanted_count, 1);
	assert_int_equal(bench->wanted->key.address, pc - BENCH_BIAS);
	assert_int_equal(bench->wanted->key.module, BENCH_MODULE);
	assert_int_equal(bench->wanted->pc, pc);
	assert_int_equal(bench->wanted->stale, 0);
	assert_int_equal(bench->wanted->code_size, RUN_CODE_BYTES);
	assert_memory_equal(bench->wanted->code, bench->code + 3 * PAGE + 17, RUN_CODE_BYTES);
	bench->test->time -= 1000000000; /* at the same time once more: it was asked for */
	run_bench_kernel(bench);
	assert_int_equal(bench->wanted_count, 0);
}

static void stale_code_is_not_run(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	uint64_t pc = BENCH_CODE + 5 * PAGE;

	corpus_state(&state->corpus, bench);
	jump_put(bench, pc);
	bench->test->pc = pc;
	bench->test->limit = 1;
	compare(state);
	check(state);
	bench->code[5 * PAGE + 1] = 0x10; /* jumps further */
	run_bench_kernel(bench);
	assert_int_equal(bench->test->end, UOP_END_BLOCK_STALE);
	assert_int_equal(bench->test->begun, 0);
	assert_int_equal(bench->wanted_count, 1);
	assert_int_equal(bench->wanted->stale, 1);
	compare(state);
	check(state);
	assert_int_equal(bench->test->state.pc, pc + 2 + 0x10);
}

/* Bytes that are no instruction may be one later: code is made while others look. */
static void undecodable_code_can_become_stale(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;

	corpus_state(&state->corpus, bench);
	memset(bench->code + 7 * PAGE, 0x06, 16);
	bench->test->pc = BENCH_CODE + 7 * PAGE;
	bench->test->limit = 1;
	compare(state);
	check(state);
	assert_int_equal(bench->test->end, UOP_END_UNDECODABLE);
	memset(bench->code + 7 * PAGE, 0x90, 16);
	run_bench_kernel(bench);
	assert_int_equal(bench->test->end, UOP_END_BLOCK_STALE);
	assert_int_equal(bench->wanted_count, 1);
}

/* The last bytes of the mapping: what follows cannot be read. */
static void code_ends_with_its_mapping(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	uint64_t pc = BENCH_CODE + BENCH_CODE_SIZE - 3;

	corpus_state(&state->corpus, bench);
	memset(bench->code + BENCH_CODE_SIZE - 3, 0x90, 3);
	bench->test->pc = pc;
	bench->test->limit = 10;
	run_bench_kernel(bench);
	assert_int_equal(bench->wanted_count, 1);
	assert_int_equal(bench->wanted->code_size, 3);
	compare(state);
	check(state);
	assert_int_equal(bench->test->end, UOP_END_CODE_UNREADABLE);
	assert_int_equal(bench->test->begun, 3);
	bench->test->pc = 0x1000; /* in no mapping */
	run_bench_kernel(bench);
	assert_int_equal(bench->test->end, UOP_END_CODE_UNREADABLE);
	assert_int_equal(bench->wanted_count, 0);
}

static void short_runs_skip_less(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;

	corpus_state(&state->corpus, bench);
	memset(bench->code + BENCH_CODE_SIZE - 8, 0x90, 8);
	bench->test->pc = BENCH_CODE + BENCH_CODE_SIZE - 8;
	bench->test->skip = 10;
	for (bench->test->limit = 40; bench->test->limit >= 8; bench->test->limit /= 5) {
		run_bench_host(bench);
		run_bench_kernel(bench);
		assert_int_equal(bench->record->instructions, 8);
		assert_int_equal(bench->record->skipped, bench->test->limit > 8 ? 2 : 10);
	}
	bench->test->skip = 0;
}

/* The comparison itself would see a difference. */
static void differences_are_seen(void **ctx)
{
	struct state *state = *ctx;
	struct run_bench *bench = state->bench;
	struct run_test copy;
	char text[BENCH_TEXT_MAX];

	corpus_state(&state->corpus, bench);
	pair_put(bench, 3, 3);
	uop_vectors_forget(bench->test->unknown);
	bench->test->regs[UOP_RDI] = BENCH_DATA + MIDDLE;
	run_bench_host(bench);
	run_bench_kernel(bench);
	if (!run_bench_compare(bench, text) || !run_bench_compare_logs(bench, text))
		fail_msg("%s", text);
	copy = *bench->test;
	bench->test->state.regs[UOP_RAX] ^= 1;
	assert_false(run_bench_compare(bench, text));
	*bench->test = copy;
	bench->test->state.flags ^= UOP_CF;
	assert_false(run_bench_compare(bench, text));
	*bench->test = copy;
	bench->test->words[0].data ^= 1ull << 63;
	assert_false(run_bench_compare(bench, text));
	*bench->test = copy;
	bench->record->log[bench->record->log_count - 1] ^= 1;
	assert_false(run_bench_compare_logs(bench, text));
}

static int setup(void **ctx)
{
	struct state *state = mem_zalloc(sizeof(*state));

	state->corpus.random = SEED;
	*ctx = state;
	return run_bench_create(0, &state->bench);
}

static int teardown(void **ctx)
{
	struct state *state = *ctx;

	run_bench_destroy(state->bench);
	free(state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(differences_are_seen),
		cmocka_unit_test(instructions_agree),
		cmocka_unit_test(runs_agree),
		cmocka_unit_test(suffixes_agree),
		cmocka_unit_test(loads_see_stores),
		cmocka_unit_test(overlapping_stores_agree),
		cmocka_unit_test(poison_agrees),
		cmocka_unit_test(overlay_fills),
		cmocka_unit_test(log_fills),
		cmocka_unit_test(long_strings_end),
		cmocka_unit_test(missing_code_is_asked_for),
		cmocka_unit_test(stale_code_is_not_run),
		cmocka_unit_test(undecodable_code_can_become_stale),
		cmocka_unit_test(code_ends_with_its_mapping),
		cmocka_unit_test(short_runs_skip_less),
	};
	struct ability bpf;

	if (ability_probe(ABILITY_BPF_SAMPLER, &bpf) || !bpf.yes) {
		print_message("skipped: %s\n", bpf.detail);
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
