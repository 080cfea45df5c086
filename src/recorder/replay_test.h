/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of the replay: a translation for each block that a test makes, and what the replay has
 * told of a run. A test is one file that includes this.
 */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "isa/lift.h"
#include "recorder/replay.h"
#include "support/run_fixture.h"

enum { TOLD_MAX = 300, MODULE = RUN_MODULE_FIRST + 1 };

/* Stands for recorder/translations.c, which needs a sampler. */
struct translations {
	ARRAY(struct translation *) all; /* serial - 1 */
};

struct translation *translations_get(const struct translations *translations, uint32_t serial)
{
	return serial && serial <= translations->all.count ? translations->all.items[serial - 1]
							   : NULL;
}

struct told {
	struct replay_place place;
	struct selection_facts facts;
};

struct state {
	struct run_fixture fixture;
	struct translations translations;
	struct replay *replay;
	struct told told[TOLD_MAX];
	size_t count;
	size_t stop_after; /* the callback fails then; 0: never */
	struct replay_end end;
};

static inline uint32_t block_add(struct translations *translations, uint64_t address,
				 const uint8_t *code, size_t size)
{
	struct translation *translation = mem_zalloc(sizeof(*translation));

	translation->key = (struct block_key){ .address = address, .module = MODULE };
	lift_block(code, size, address, &translation->block);
	*array_push(&translations->all) = translation;
	translation->serial = (uint32_t)translations->all.count;
	return (uint32_t)translations->all.count;
}

static inline void blocks_clear(struct translations *translations)
{
	array_each(&translations->all, translation) {
		free((*translation)->operands);
		free(*translation);
	}
	translations->all.count = 0;
}

static inline uint64_t on_enter(void *ctx, uint64_t pc, const uint8_t *code, size_t size)
{
	struct state *state = ctx;

	return block_add(&state->translations, pc - FIXTURE_BIAS, code, size);
}

static inline int on_place(void *ctx, const struct replay_place *place,
			   struct selection_facts *facts)
{
	struct state *state = ctx;

	assert_true(state->count < TOLD_MAX);
	state->told[state->count++] = (struct told){ *place, *facts };
	return state->count == state->stop_after ? -EPIPE : 0;
}

static inline int setup(void **ctx)
{
	struct state *state = mem_zalloc(sizeof(*state));

	run_fixture_init(&state->fixture);
	state->fixture.enter = on_enter;
	state->fixture.ctx = state;
	replay_create(&state->translations, UINT64_MAX, &state->replay);
	*ctx = state;
	return 0;
}

static inline int teardown(void **ctx)
{
	struct state *state = *ctx;

	blocks_clear(&state->translations);
	array_deinit(&state->translations.all);
	replay_destroy(state->replay);
	run_fixture_deinit(&state->fixture);
	free(state);
	return 0;
}

static inline int replay(struct state *state, const struct run_record *record)
{
	state->count = 0;
	state->end = (struct replay_end){ UOP_END_COUNT, 12345 };
	return replay_run(state->replay, record, on_place, state, &state->end);
}

/* Executes the code, written as a string, and tells of it. */
#define RUN(state, text, limit) run(state, text, sizeof(text) - 1, limit)

static inline void run(struct state *state, const char *code, size_t size, unsigned limit)
{
	memcpy(state->fixture.code, code, size);
	run_fixture_execute(&state->fixture, limit);
	assert_int_equal(replay(state, state->fixture.record), 0);
}

/* The n-th instruction that was told, from 0 on. */
static inline const struct told *instruction(const struct state *state, unsigned n)
{
	for (size_t i = 0; i < state->count; i++)
		if (state->told[i].place.class == SELECTION_INSTRUCTION && !n--)
			return &state->told[i];
	fail_msg("instruction was not told");
	return NULL;
}

static inline const struct told *entry(const struct state *state, unsigned n)
{
	for (size_t i = 0; i < state->count; i++)
		if (state->told[i].place.class == SELECTION_ENTRY && !n--)
			return &state->told[i];
	return NULL;
}

static inline size_t count_of(const struct state *state, enum selection_class class)
{
	size_t count = 0;

	for (size_t i = 0; i < state->count; i++)
		count += state->told[i].place.class == class;
	return count;
}

static inline void expect(const struct told *told, enum selection_source source, uint64_t value,
			  unsigned width)
{
	if (!(told->facts.known & SELECTION_BIT(source)))
		fail_msg("%s is not known", selection_source_text(source));
	if (told->facts.values[source] != value || told->facts.widths[source] != width)
		fail_msg("%s is %llx of %u bits, not %llx of %u", selection_source_text(source),
			 (unsigned long long)told->facts.values[source], told->facts.widths[source],
			 (unsigned long long)value, width);
}

static inline void expect_none(const struct told *told, enum selection_source source)
{
	if (told->facts.known & SELECTION_BIT(source))
		fail_msg("%s is known", selection_source_text(source));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
