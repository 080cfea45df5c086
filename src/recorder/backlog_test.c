// SPDX-License-Identifier: BSD-2-Clause
/* Runs that wait, before values that only note which came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/mem.h"
#include "recorder/backlog.h"

enum { MAX = 4 << 20 };

static ARRAY(uint64_t) replayed; /* pc of the runs */
static int verdict; /* of values_run() */

int values_run(struct values *values, const struct run_record *run)
{
	for (uint32_t i = 0; i < run->log_count; i++)
		assert_int_equal(run->log[i], run->pc + i);
	*array_push(&replayed) = run->pc;
	return verdict;
}

void values_expect(const struct values *values, const struct run_record *run)
{
	assert_int_equal(run->record.kind, RECORD_RUN);
}

static void add(struct backlog *backlog, uint64_t pc, uint64_t time)
{
	uint32_t words = (uint32_t)pc % 100;
	AUTO(free_ptr) struct run_record *run = mem_zalloc(run_record_size(words));

	run->record.kind = RECORD_RUN;
	run->record.time = time;
	run->pc = pc;
	run->log_count = (uint16_t)words;
	for (uint32_t i = 0; i < words; i++)
		run->log[i] = pc + i;
	backlog_add(backlog, run);
}

static int setup(void **state)
{
	struct backlog *backlog = mem_alloc(sizeof(*backlog));

	backlog_init(backlog, MAX);
	replayed.count = 0;
	verdict = 0;
	*state = backlog;
	return 0;
}

static int teardown(void **state)
{
	backlog_deinit(*state);
	free(*state);
	array_deinit(&replayed);
	return 0;
}

static int on_pause(void *ctx)
{
	add(ctx, 1000000 + replayed.count, 0);
	return 0;
}

static int on_bad_pause(void *ctx)
{
	return -5;
}

static void age_makes_due(void **state)
{
	struct backlog *backlog = *state;
	uint64_t begun = 1000ull * NS_PER_S;

	assert_false(backlog_is_due(backlog, begun));
	add(backlog, 1, begun);
	add(backlog, 2, begun + LOADMAP_KEEP / 4);
	assert_false(backlog_is_due(backlog, begun));
	assert_true(backlog_is_due(backlog, begun + LOADMAP_KEEP));
	assert_int_equal(backlog_replay(backlog, NULL, on_pause, backlog), 0);
	assert_false(backlog_is_due(backlog, begun + LOADMAP_KEEP));
	assert_int_equal(replayed.count, 2);
}

static void size_makes_due(void **state)
{
	struct backlog *backlog = *state;

	for (uint64_t i = 0; i < MAX / sizeof(struct run_record) + 1; i++)
		add(backlog, i * 100, 0);
	assert_true(backlog_is_due(backlog, 0));
}

/* Also what comes while others are replayed: it waits for the next time. */
static void all_are_replayed_in_order(void **state)
{
	struct backlog *backlog = *state;
	size_t added = 5000, pauses;

	for (uint64_t i = 0; i < added; i++)
		add(backlog, i, 0);
	assert_int_equal(backlog_replay(backlog, NULL, on_pause, backlog), 0);
	assert_int_equal(replayed.count, added);
	for (uint64_t i = 0; i < added; i++)
		assert_int_equal(replayed.items[i], i);
	assert_int_equal(backlog_replay(backlog, NULL, on_pause, backlog), 0);
	pauses = replayed.count - added;
	assert_in_range(pauses, 8, 16);
	for (size_t i = added; i + 1 < replayed.count; i++)
		assert_true(replayed.items[i] < replayed.items[i + 1]);
	assert_int_equal(backlog->runs.length, 0);
}

static int on_flood(void *ctx)
{
	for (uint64_t i = 0; i < MAX / 2 / sizeof(struct run_record); i++)
		add(ctx, 100, 0);
	return 0;
}

/* Runs come faster than they are replayed. */
static void memory_is_bounded(void **state)
{
	struct backlog *backlog = *state;

	for (unsigned i = 0; i < 20; i++) {
		on_flood(backlog);
		assert_int_equal(backlog_replay(backlog, NULL, on_flood, backlog), 0);
		assert_in_range(backlog->runs.length, 1, 2 * MAX);
	}
}

static void errors_are_told(void **state)
{
	struct backlog *backlog = *state;

	for (uint64_t i = 0; i < 10000; i++)
		add(backlog, i, 0);
	assert_int_equal(backlog_replay(backlog, NULL, on_bad_pause, NULL), -5);
	verdict = -7;
	assert_int_equal(backlog_replay(backlog, NULL, on_pause, backlog), -7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(age_makes_due),	 TEST(size_makes_due),	TEST(all_are_replayed_in_order),
		TEST(memory_is_bounded), TEST(errors_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
