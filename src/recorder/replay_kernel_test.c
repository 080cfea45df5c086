// SPDX-License-Identifier: BSD-2-Clause
// Serves: V2.
/* The replay accepts the records of runs that the kernel's executor has made, if BPF is allowed. */
#include "recorder/replay_test.h"

#include "capture/ability.h"
#include "capture/kernel/run_corpus.h"

enum {
	SEED = 20260101,
	KERNEL_RUNS = 4000,
	KERNEL_RUN_MAX = 30,
};

/* The bench's translations, under their serials. */
static void translations_take(struct state *state, const struct run_bench *bench)
{
	if (bench->blocks.count < state->translations.all.count)
		blocks_clear(&state->translations);
	for (size_t i = state->translations.all.count; i < bench->blocks.count; i++) {
		const struct bench_block *known = &bench->blocks.items[i];

		block_add(&state->translations, known->pc - BENCH_BIAS, known->block.code,
			  known->block.length);
		state->translations.all.items[i]->block = known->block;
	}
}

static void code_make(struct run_corpus *corpus, struct run_bench *bench, unsigned count)
{
	uint64_t pc = BENCH_CODE + corpus_random(corpus) % 8192;

	bench->test->pc = pc;
	corpus_state(corpus, bench);
	memset(bench->test->unknown, 0, UOP_REGISTERS);
	uop_vectors_forget(bench->test->unknown);
	for (unsigned i = 0; i < count; i++)
		pc += corpus_instruction(corpus, bench, pc, i + 1 < count);
	memcpy(bench->code + (pc - BENCH_CODE), "\xeb", 2);
}

struct narrow {
	const struct state *wide;
	uint64_t needs;
	size_t count;
};

static int on_narrow_place(void *ctx, const struct replay_place *place,
			   struct selection_facts *facts)
{
	struct narrow *narrow = ctx;
	const struct told *told = &narrow->wide->told[narrow->count++];

	assert_int_equal(place->class, told->place.class);
	assert_int_equal(place->pc, told->place.pc);
	assert_int_equal(facts->known & narrow->needs, told->facts.known & narrow->needs);
	for (unsigned i = 0; i < SELECTION_SOURCE_COUNT; i++)
		if (facts->known & narrow->needs & SELECTION_BIT(i)) {
			assert_int_equal(facts->values[i], told->facts.values[i]);
			assert_int_equal(facts->widths[i], told->facts.widths[i]);
		}
	return 0;
}

/* Of what is needed, the same is told as if everything were. */
static void narrow_replay(struct state *state, const struct run_record *record, uint64_t needs)
{
	AUTO(replay_destroy_auto) struct replay *replay = NULL;
	struct narrow narrow = { .wide = state, .needs = needs };
	struct replay_end end;

	if (needs & SELECTION_BIT(SELECTION_TARGET))
		narrow.needs = needs |= SELECTION_ANY_BRANCH;
	replay_create(&state->translations, needs, &replay);
	assert_int_equal(replay_run(replay, record, on_narrow_place, &narrow, &end), 0);
	assert_int_equal(narrow.count, state->count);
}

/*
 * Random code, executed by the kernel: the replay comes to the same state, and tells of every
 * instruction.
 */
static void kernel_records(struct state *state, unsigned flags)
{
	struct run_corpus corpus = { .random = SEED };
	struct run_bench *bench = NULL;
	unsigned ends[UOP_END_COUNT] = { 0 };

	assert_int_equal(run_bench_create(flags, &bench), 0);
	for (unsigned i = 0; i < KERNEL_RUNS; i++) {
		unsigned count = 1 + corpus_random(&corpus) % KERNEL_RUN_MAX;

		code_make(&corpus, bench, count);
		bench->test->limit = count + 1;
		bench->test->skip = corpus_random(&corpus) % 3;
		run_bench_host(bench);
		run_bench_kernel(bench);
		translations_take(state, bench);
		if (replay(state, bench->record) != 0)
			fail_msg("run %u of seed %d was refused", i, SEED);
		/* Shorter runs skip less. */
		assert_int_equal(count_of(state, SELECTION_INSTRUCTION),
				 bench->test->begun - bench->test->skip * bench->test->begun /
							      bench->test->limit);
		ends[state->end.end]++;
		if (i % 4 == 0)
			narrow_replay(state, bench->record,
				      SELECTION_BIT(i / 4 % SELECTION_SOURCE_COUNT));
	}
	assert_true(ends[UOP_END_NONE] > KERNEL_RUNS / 4);
	assert_true(ends[UOP_END_UNKNOWN_ADDRESS] && ends[UOP_END_UNKNOWN_BRANCH]);
	run_bench_destroy(bench);
}

static void bpf_need(void)
{
	struct ability bpf;

	if (ability_probe(ABILITY_BPF_SAMPLER, &bpf) || !bpf.yes) {
		print_message("%s\n", bpf.detail);
		skip();
	}
}

static void records_of_the_kernel(void **ctx)
{
	bpf_need();
	kernel_records(*ctx, 0);
	blocks_clear(&((struct state *)*ctx)->translations);
	kernel_records(*ctx, RUN_OVERWRITTEN);
}

/* A run that does little but repeat itself: the kernel gives up on it, and says how far it came. */
static void endless_runs(void **ctx)
{
	static const uint8_t code[] = { 0xb9, 0x40, 0, 0, 0, 0x48, 0x89, 0xdf, 0xf3, 0xaa };
	struct state *state = *ctx;
	struct run_bench *bench = NULL;

	bpf_need();
	assert_int_equal(run_bench_create(0, &bench), 0);
	for (unsigned i = 0; i < 40; i++) /* mov ecx, 64; mov rdi, rbx; rep stosb */
		memcpy(bench->code + i * sizeof(code), code, sizeof(code));
	bench->test->pc = BENCH_CODE;
	bench->test->regs[UOP_RBX] = BENCH_DATA;
	memset(bench->test->unknown, 0, UOP_REGISTERS);
	uop_vectors_forget(bench->test->unknown);
	bench->test->limit = 120;
	run_bench_host(bench);
	run_bench_kernel(bench);
	translations_take(state, bench);
	assert_int_equal(replay(state, bench->record), 0);
	assert_int_equal(state->end.end, UOP_END_STRING_LONG);
	assert_int_equal(count_of(state, SELECTION_INSTRUCTION), bench->test->begun);
	assert_true(bench->test->begun > 9 && bench->test->begun < bench->test->limit);
	run_bench_destroy(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_of_the_kernel),
		TEST(endless_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
