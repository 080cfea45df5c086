// SPDX-License-Identifier: BSD-2-Clause
// Serves: W6.
/*
 * Programs that are made up: a behaviour is a loop over some segments with a choice in it; a
 * program is a sequence of behaviours, by what is known when each began.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "phases/phases.h"

enum { SEGMENTS = 200, LOOP = 6, EACH = 10, INTERVAL = 250, INTERVALS = 1024, TOTAL = 400000 };

struct program {
	struct layer_space *space;
	struct layer *layer;
	struct phases_code *code;
	struct phases *phases;
	uint32_t weights[SEGMENTS];
	uint64_t instructions; /* emitted */
	uint64_t branches;
	uint64_t seed;
};

static void on_clearing(void *context, unsigned level)
{
	struct program *program = context;

	if (level)
		return;
	phases_flush(program->phases);
	phases_code_forget(program->code);
}

static bool has_branch(uint32_t segment)
{
	return segment % 20 < 3;
}

/*
 * Segment r is block r, in a function of 20; segments 100 and up have the same branches, and are in
 * one function.
 */
static void code_make(struct program *program)
{
	for (uint32_t segment = 1; segment < SEGMENTS; segment++) {
		struct heat heat = { .of[HEAT_INSTRUCTIONS] = EACH,
				     .of[HEAT_BRANCHES] = has_branch(segment),
				     .of[HEAT_LOADS] = segment % 5 };

		program->weights[segment] = EACH;
		phases_block_set(program->code, segment, segment * 64,
				 segment >= 100 ? 1 : 2 + segment / 20, &heat);
		phases_segment_set(program->code, segment, &segment, 1);
	}
}

static void program_init(struct program *program, size_t memory)
{
	struct layer_space_options options = {
		.levels = 1, .cycles.memory = memory, .clearing = on_clearing, .context = program
	};

	*program = (struct program){ .seed = 12345 };
	assert_int_equal(layer_space_create(&options, &program->space), 0);
	program->layer = layer_create(program->space);
	program->code = phases_code_create(&program->space->levels[0]);
	program->phases =
		phases_create(program->code, &(struct phases_options){ INTERVAL, INTERVALS });
	program->layer->sink = phases_sink;
	program->layer->sink_context = program->phases;
	code_make(program);
	layer_weights_set(program->space, program->weights, SEGMENTS);
}

static void program_deinit(struct program *program)
{
	layer_destroy(program->layer);
	layer_space_retire(program->space);
	phases_destroy(program->phases);
	phases_code_destroy(program->code);
	layer_space_destroy(program->space);
}

static uint32_t random_below(struct program *program, uint32_t limit)
{
	program->seed = program->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(program->seed >> 33) % limit;
}

static void emit(struct program *program, uint32_t segment)
{
	layer_push(program->layer, &segment, 1);
	program->instructions += EACH;
	program->branches += has_branch(segment);
}

/* One turn: segments base + 1 to base + LOOP, sometimes one of the next. */
static void turn(struct program *program, uint32_t base)
{
	for (uint32_t i = 1; i <= LOOP; i++)
		emit(program, base + i);
	if (random_below(program, 3) == 0)
		emit(program, base + LOOP + 1 + random_below(program, 8));
}

static void behave(struct program *program, uint32_t base, uint64_t instructions)
{
	uint64_t end = program->instructions + instructions;

	while (program->instructions < end)
		turn(program, base);
}

static void program_end(struct program *program, const struct phases_detect_options *options,
			struct phases_result *ret)
{
	layer_finish(program->layer);
	phases_finish(program->phases);
	phases_detect(program->phases, options, ret);
	array_each(&ret->boundaries, b)
		assert_int_equal(ret->instructions, program->instructions);
}

static void end_check_none(struct program *program)
{
	struct phases_result result;

	program_end(program, &(struct phases_detect_options){}, &result);
	assert_int_equal(result.phases.count, 1);
	assert_int_equal(result.phases.items[0].begin, 0);
	assert_int_equal(result.phases.items[0].end, program->instructions);
	assert_int_equal(result.phases.items[0].heat.of[HEAT_BRANCHES], program->branches);
	phases_result_deinit(&result);
	program_deinit(program);
}

static void check_near(uint64_t at, uint64_t truth, uint64_t total)
{
	assert_true(fabs((double)at - (double)truth) <= (double)total / 100);
}

static void test_known(void **state)
{
	struct program program;
	struct phases_result result;
	uint64_t first, second;

	program_init(&program, 0);
	behave(&program, 0, TOTAL * 2 / 5);
	first = program.instructions;
	behave(&program, 40, TOTAL / 3);
	second = program.instructions;
	behave(&program, 0, TOTAL - second);
	program_end(&program, &(struct phases_detect_options){}, &result);
	assert_int_equal(result.phases.count, 3);
	check_near(result.phases.items[1].begin, first, TOTAL);
	check_near(result.phases.items[2].begin, second, TOTAL);
	/* Finer than an interval, which is as long as they were at first, or twice. */
	assert_true(fabs((double)result.phases.items[1].begin - (double)first) < INTERVAL);
	assert_int_equal(result.phases.items[0].label, 0);
	assert_int_equal(result.phases.items[1].label, 1);
	assert_int_equal(result.phases.items[2].label, 0);
	assert_int_equal(result.labels, 2);
	for (unsigned i = 1; i < 3; i++)
		assert_int_equal(result.phases.items[i].detectors,
				 1 << PHASES_BLOCKS | 1 << PHASES_FUNCTIONS | 1 << PHASES_ORDER |
					 1 << PHASES_WORKING_SET);
	/* The loop without one of the choices, and not the other's. */
	assert_true(result.phases.items[0].hot[0].path == result.phases.items[2].hot[0].path);
	assert_true(result.phases.items[0].hot[0].path != result.phases.items[1].hot[0].path);
	assert_true(result.phases.items[1].hot[0].instructions >=
		    result.phases.items[1].hot[1].instructions);
	assert_true(result.phases.items[1].hot[0].instructions > TOTAL / 3 / 4);
	phases_result_deinit(&result);
	program_deinit(&program);
}

static void loop(struct program *program, uint32_t base, uint64_t instructions)
{
	for (uint64_t end = program->instructions + instructions; program->instructions < end;)
		for (uint32_t i = 1; i <= LOOP; i++)
			emit(program, base + i);
}

/* A phase that begins and ends anywhere within an interval executes no more than it is long. */
static void test_hot_within(void **state)
{
	for (uint64_t more = 0; more < 2000; more += 120) {
		struct program program;
		struct phases_result result;

		program_init(&program, 0);
		loop(&program, 0, TOTAL / 3 + more);
		loop(&program, 40, TOTAL / 3);
		loop(&program, 80, TOTAL / 3);
		program_end(&program, &(struct phases_detect_options){}, &result);
		assert_int_equal(result.phases.count, 3);
		array_each(&result.phases, phase) {
			uint64_t hot = 0;

			for (unsigned i = 0; i < PHASES_HOT; i++)
				hot += phase->hot[i].instructions;
			assert_true(hot <= phase->end - phase->begin);
			assert_true(hot > (phase->end - phase->begin) / 10 * 9);
		}
		phases_result_deinit(&result);
		program_deinit(&program);
	}
}

/* A share of the instructions in one behaviour, the others in a second one, turn by turn. */
static void mix(struct program *program, uint32_t share)
{
	turn(program, random_below(program, 1000) < share ? 0 : 40);
}

static void test_steady(void **state)
{
	struct program program;

	program_init(&program, 0);
	behave(&program, 0, TOTAL);
	end_check_none(&program);
	program_init(&program, 0);
	while (program.instructions < TOTAL)
		mix(&program, 500);
	end_check_none(&program);
}

/* Bursts of random lengths, all shorter than a phase. */
static void test_noisy(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct program program;

		program_init(&program, 0);
		program.seed = seed;
		while (program.instructions < TOTAL)
			behave(&program, 20 * random_below(&program, 5),
			       1 + random_below(&program, 400));
		end_check_none(&program);
	}
}

static void test_drift(void **state)
{
	struct program program;

	program_init(&program, 0);
	while (program.instructions < TOTAL)
		mix(&program, (uint32_t)(1000 * program.instructions / TOTAL));
	end_check_none(&program);
}

static void test_short(void **state)
{
	struct program program;
	struct phases_result result;

	program_init(&program, 0);
	phases_detect(program.phases, &(struct phases_detect_options){}, &result);
	assert_int_equal(result.phases.count, 0);
	behave(&program, 0, 5 * INTERVAL);
	behave(&program, 40, 5 * INTERVAL);
	end_check_none(&program);
}

/* Each detector alone sees what only it can see. */
static unsigned seen_between(uint32_t before, uint32_t after)
{
	struct program program;
	struct phases_result result;
	unsigned seen;

	program_init(&program, 0);
	behave(&program, before, TOTAL / 2);
	behave(&program, after, TOTAL / 2);
	program_end(&program, &(struct phases_detect_options){ .agree = 1 }, &result);
	assert_true(result.phases.count <= 2);
	seen = result.phases.count == 2 ? result.phases.items[1].detectors : 0;
	phases_result_deinit(&result);
	program_deinit(&program);
	return seen;
}

static void test_detectors(void **state)
{
	unsigned all = 1 << PHASES_BLOCKS | 1 << PHASES_ORDER | 1 << PHASES_WORKING_SET;

	/* In the same function, with the same branches. */
	assert_int_equal(seen_between(100, 120), all);
	assert_int_equal(seen_between(100, 140), all);
	/* 103 has no branches but in what is executed after it. */
	assert_int_equal(seen_between(100, 123), all | 1 << PHASES_BRANCHES);
	assert_int_equal(seen_between(0, 20), all | 1 << PHASES_FUNCTIONS);
	assert_int_equal(seen_between(0, 0), 0);
}

static void test_chosen(void **state)
{
	for (unsigned i = 0; i < PHASES_DETECTOR_COUNT; i++) {
		struct phases_detect_options options = { .detectors = 1u << i };
		struct phases_result result;
		struct program program;

		program_init(&program, 0);
		behave(&program, 0, TOTAL / 2);
		behave(&program, 43, TOTAL / 2);
		program_end(&program, &options, &result);
		assert_int_equal(result.phases.count, 2);
		assert_int_equal(result.phases.items[1].detectors, 1u << i);
		check_near(result.phases.items[1].begin, TOTAL / 2, TOTAL);
		phases_result_deinit(&result);
		program_deinit(&program);
	}
}

static void test_agreement(void **state)
{
	struct phases_detect_options options = { .agree = 4 };
	struct phases_result result;
	struct program program;

	program_init(&program, 0);
	behave(&program, 100, TOTAL / 2);
	behave(&program, 120, TOTAL / 2);
	program_end(&program, &options, &result);
	assert_int_equal(result.boundaries.count, 1);
	assert_false(result.boundaries.items[0].kept);
	assert_int_equal(result.phases.count, 1);
	phases_result_deinit(&result);
	program_deinit(&program);
}

/* Two paths, in those shares; then the other way round. Paths beginning with 1 and with 11. */
static bool order_seen(uint32_t share)
{
	struct phases_detect_options options = { .detectors = 1u << PHASES_ORDER };
	struct phases_result result;
	struct program program;
	bool seen;

	program_init(&program, 0);
	while (program.instructions < TOTAL) {
		uint32_t now = program.instructions < TOTAL / 2 ? share : 1000 - share;
		uint32_t base = random_below(&program, 1000) < now ? 0 : 10;

		for (uint32_t i = 1; i <= LOOP; i++)
			emit(&program, base + i);
	}
	program_end(&program, &options, &result);
	seen = result.phases.count == 2;
	assert_true(seen || result.phases.count == 1);
	phases_result_deinit(&result);
	program_deinit(&program);
	return seen;
}

/* Similar counters may change places; those an order of magnitude apart tell of a phase. */
static void test_order(void **state)
{
	assert_false(order_seen(520));
	assert_false(order_seen(700));
	assert_true(order_seen(960));
}

static void test_exact(void **state)
{
	struct phases_result result;
	struct program program;
	uint64_t heat = 0, begin = 0;
	const struct phases_interval *intervals;
	size_t count;

	/* Level 0 is cleared again and again. */
	program_init(&program, 1 << 16);
	for (unsigned i = 0; i < 3000; i++)
		for (unsigned k = 0; k < 6 + i % 13; k++)
			emit(&program, 1 + random_below(&program, SEGMENTS - 1));
	program_end(&program, &(struct phases_detect_options){}, &result);
	assert_true(program.space->levels[0].evicted > 0);
	intervals = phases_intervals(program.phases, &count);
	assert_true(count >= INTERVALS / 2 && count < INTERVALS);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(intervals[i].heat.of[HEAT_INSTRUCTIONS], intervals[i].end - begin);
		heat += intervals[i].heat.of[HEAT_BRANCHES];
		begin = intervals[i].end;
	}
	assert_int_equal(begin, program.instructions);
	assert_int_equal(heat, program.branches);
	phases_result_deinit(&result);
	program_deinit(&program);
}

/* Ten billion instructions of one path. */
static void test_long_repeat(void **state)
{
	const uint64_t trips = 1000000007, each = 3 * EACH;
	const struct phases_interval *intervals;
	struct program program;
	uint64_t begin = 0, counted = 0;
	uint32_t slot;
	size_t count;

	program_init(&program, 0);
	for (uint32_t i = 0; i < 4; i++)
		emit(&program, 1 + i % 3);
	layer_settle(program.layer);
	slot = cycles_last(&program.space->levels[0].cycles);
	phases_add(program.phases, slot, trips);
	phases_finish(program.phases);
	intervals = phases_intervals(program.phases, &count);
	assert_true(count >= INTERVALS / 2 && count < INTERVALS);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal((intervals[i].end - begin) % each, 0);
		if (i + 1 < count)
			assert_true(intervals[i].end - begin >= trips * each / INTERVALS);
		assert_int_equal(intervals[i].hot[0].path, slot);
		assert_int_equal(intervals[i].hot[0].trips * each, intervals[i].end - begin);
		assert_int_equal(intervals[i].hot[1].path, 0);
		counted += intervals[i].hot[0].trips;
		begin = intervals[i].end;
	}
	assert_int_equal(counted, trips);
	assert_int_equal(begin, trips * each);
	program_deinit(&program);
}

static void test_path_heat(void **state)
{
	struct program program;
	struct heat heat;

	program_init(&program, 0);
	for (uint32_t i = 0; i < 5; i++)
		emit(&program, 1 + i % 4);
	layer_settle(program.layer);
	phases_path_heat(program.code, cycles_last(&program.space->levels[0].cycles), &heat);
	assert_int_equal(heat.of[HEAT_INSTRUCTIONS], 4 * EACH);
	assert_int_equal(heat.of[HEAT_BRANCHES], 2);
	assert_int_equal(heat.of[HEAT_LOADS], 1 + 2 + 3 + 4);
	program_deinit(&program);
}

static void test_names(void **state)
{
	for (enum phases_detector i = 0; i < PHASES_DETECTOR_COUNT; i++) {
		enum phases_detector detector;

		assert_int_equal(phases_detector_parse(phases_detector_text(i), &detector), 0);
		assert_int_equal(detector, i);
	}
	assert_int_equal(phases_detector_parse("moon", &(enum phases_detector){ 0 }), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),	    cmocka_unit_test(test_steady),
		cmocka_unit_test(test_noisy),	    cmocka_unit_test(test_drift),
		cmocka_unit_test(test_short),	    cmocka_unit_test(test_detectors),
		cmocka_unit_test(test_chosen),	    cmocka_unit_test(test_agreement),
		cmocka_unit_test(test_order),	    cmocka_unit_test(test_exact),
		cmocka_unit_test(test_long_repeat), cmocka_unit_test(test_path_heat),
		cmocka_unit_test(test_names),	    cmocka_unit_test(test_hot_within),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
