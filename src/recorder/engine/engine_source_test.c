// SPDX-License-Identifier: BSD-2-Clause
// Serves: W4, W8.
/* A fake engine writes, the source reads: what is handed out is compared with what was written. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/map.h"
#include "base/memories.h"
#include "support/engine_bench.h"

static pid_t dead_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

static void test_segments_arrive_in_order(void **state)
{
	struct engine_bench *bench = *state;
	const uint32_t segments[] = { 1, 5, 5, 8, 2 };
	uint32_t thread;

	engine_bench_program(bench, (uint32_t)getpid(), &thread);
	fake_segments(&bench->engine, thread, segments, 5);
	engine_bench_settle(bench);
	assert_int_equal(bench->heard.segments.count, 4); /* the last one may still be taken back */
	assert_memory_equal(bench->heard.segments.items, segments, 4 * sizeof(*segments));
	assert_int_equal(bench->heard.instructions, 4 * (1 + 5 + 5 + 8));
	assert_int_equal(bench->heard.tid, getpid() + 1);
	assert_int_equal(bench->heard.threads_ended, 0);
	fake_segments(&bench->engine, thread, segments, 1);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.count, 6);
	assert_int_equal(bench->heard.segments.items[4], 2);
	assert_int_equal(bench->heard.threads_ended, 1);
	assert_int_equal(bench->heard.processes_ended, 1);
	assert_int_equal(engine_source_totals(bench->source)->kept, 6);
	assert_int_equal(engine_source_totals(bench->source)->records_kept, 2);
}

/*
 * A thread of the test produces more than a ring holds, at full speed; the source waits and is
 * waited for.
 */
enum { LONG = 3000017 };

static void *produce(void *ctx)
{
	struct engine_bench *bench = ctx;
	uint32_t thread = fake_thread_open(&bench->engine, 0, (uint32_t)getpid(), 7),
		 segments[1001];
	uint64_t place = 0;

	while (place < LONG) {
		size_t count = 0;

		for (; count < 1001 && place < LONG; place++)
			segments[count++] = (uint32_t)(hash64(place) % 8 + 1);
		fake_segments(&bench->engine, thread, segments, count);
	}
	fake_end(&bench->engine, thread);
	return NULL;
}

static void long_stream_take(struct engine_bench *bench,
			     void (*sleep)(struct engine_source *, unsigned))
{
	pthread_t producer;
	uint64_t sum = 0;
	uint32_t other;

	bench->heard.keep = false;
	engine_bench_program(bench, (uint32_t)getpid(), &other);
	pthread_create(&producer, NULL, produce, bench);
	while (bench->heard.threads_ended == 0)
		if (!engine_source_sweep(bench->source))
			sleep(bench->source, 1000);
	pthread_join(producer, NULL);
	for (uint64_t place = 0; place < LONG; place++)
		sum += hash64_pair(place, (uint32_t)(hash64(place) % 8 + 1));
	assert_int_equal(bench->heard.count, LONG);
	assert_true(bench->heard.sum == sum);
}

static void test_a_long_stream(void **state)
{
	long_stream_take(*state, engine_source_wait);
}

static void test_a_long_stream_through_a_small_ring(void **state)
{
	struct engine_bench *bench = *state;

	fake_area(&bench->engine)->large = 0;
	long_stream_take(bench, engine_source_wait);
}

/* Who naps is woken when a ring is half full. */
static void test_naps(void **state)
{
	long_stream_take(*state, engine_source_nap);
}

/* A few threads have large rings; what has ended leaves them to others. */
static void test_large_rings(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t catalog = fake_catalog_open(&bench->engine, (uint32_t)getpid()),
		 slots[STREAM_LARGE_MAX + 1];

	fake_process(&bench->engine, catalog, (uint32_t)getpid(), catalog, 0);
	for (uint32_t i = 0; i <= STREAM_LARGE_MAX; i++)
		slots[i] = fake_thread_open(&bench->engine, catalog, (uint32_t)getpid(), i + 1);
	assert_int_equal(fake_slot(&bench->engine, slots[0])->ring, STREAM_RING_LARGE);
	assert_int_equal(fake_slot(&bench->engine, slots[STREAM_LARGE_MAX])->ring, STREAM_RING);
	engine_bench_settle(bench);
	for (uint32_t i = 0; i <= STREAM_LARGE_MAX; i++)
		fake_end(&bench->engine, slots[i]);
	engine_bench_settle(bench);
	assert_int_equal(bench->heard.threads_ended, STREAM_LARGE_MAX + 1);
	assert_int_equal(fake_area(&bench->engine)->large, STREAM_LARGE_MAX);
}

static void test_partial_segments(void **state)
{
	struct engine_bench *bench = *state;
	const uint32_t segments[] = { 9, 10, 11 };
	uint32_t thread, catalog = engine_bench_program(bench, (uint32_t)getpid(), &thread);

	fake_partial(&bench->engine, catalog, 9, 1, 3, (struct stream_block){ 0x1030, 2, 1 });
	fake_partial(&bench->engine, catalog, 10, 1, 0, (struct stream_block){ 0x1000, 0, 0 });
	fake_partial(&bench->engine, catalog, 11, 2, 3, (struct stream_block){ 0x1030, 2, 1 });
	fake_segments(&bench->engine, thread, segments, 3);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.instructions, 4 * 3 + 1);
	assert_int_equal(engine_source_totals(bench->source)->records_lost[CATALOG_FRAGMENT], 1);
	assert_int_equal(engine_source_totals(bench->source)->lost[SEGMENT_LOSS_UNKNOWN], 1);
}

static void test_a_child_knows_what_its_parent_knew(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), thread,
		 catalog = engine_bench_program(bench, pid, &thread), child, child_thread;
	const uint32_t segments[] = { 8, 9, 3, 10 };

	fake_fragment(&bench->engine, catalog, 9, 1, 0x5000);
	child = fake_catalog_open(&bench->engine, pid - 1);
	fake_process(&bench->engine, child, pid - 1, catalog, 9);
	fake_fragment(&bench->engine, child, 9, 2, 0x7000);
	fake_partial(&bench->engine, child, 11, 1, 2, (struct stream_block){ 0x1020, 1, 1 });
	child_thread = fake_thread_open(&bench->engine, child, pid - 1, pid - 1);
	fake_segments(&bench->engine, child_thread, segments, 4);
	fake_segments(&bench->engine, child_thread, (uint32_t[]){ 11 }, 1);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.processes, 2);
	assert_int_equal(bench->heard.parent, 1);
	assert_int_equal(bench->heard.count, 5);
	assert_int_equal(bench->heard.instructions, 4 * (8 + 1 + 3 + 2) + 9);
}

/*
 * The parent's slot is still being filled in when it is passed by, and the child's is found first.
 */
static void test_a_child_is_found_before_its_parent(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), catalog = fake_catalog_open(&bench->engine, pid), child,
		 thread;

	fake_process(&bench->engine, catalog, pid, catalog, 0);
	fake_fragment(&bench->engine, catalog, 1, 8, 0x1000);
	fake_slot(&bench->engine, catalog)->state = STREAM_TAKEN;
	child = fake_catalog_open(&bench->engine, pid - 1);
	fake_process(&bench->engine, child, pid - 1, catalog, 9);
	thread = fake_thread_open(&bench->engine, child, pid - 1, pid - 1);
	fake_segments(&bench->engine, thread, (uint32_t[]){ 8, 3 }, 2);
	fake_end(&bench->engine, thread);
	engine_source_sweep(bench->source);
	engine_source_sweep(bench->source);
	fake_slot(&bench->engine, catalog)->state = STREAM_LIVE;
	engine_bench_settle(bench);
	engine_source_finish(bench->source);
	assert_int_equal(engine_source_totals(bench->source)->lost[SEGMENT_LOSS_UNKNOWN], 0);
	assert_int_equal(bench->heard.count, 2);
	assert_int_equal(bench->heard.instructions, 4 * (8 + 3));
}

/* The parent is gone before the child says a word. */
static void test_a_child_outlives_its_parent(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t dead = (uint32_t)dead_child(), thread,
		 catalog = engine_bench_program(bench, dead, &thread), child;

	fake_end(&bench->engine, thread);
	fake_end(&bench->engine, catalog);
	engine_bench_settle(bench);
	assert_int_equal(bench->heard.threads_ended, 1);
	assert_int_equal(bench->heard.processes_over, 1); /* what it needed can go ... */
	assert_int_equal(bench->heard.processes_ended, 0); /* ... but a child may ask for it */
	child = fake_catalog_open(&bench->engine, (uint32_t)getpid());
	assert_int_not_equal(child, catalog);
	fake_process(&bench->engine, child, (uint32_t)getpid(), catalog, 9);
	thread = fake_thread_open(&bench->engine, child, (uint32_t)getpid(), 1);
	fake_segments(&bench->engine, thread, (uint32_t[]){ 8 }, 1);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.instructions, 32);
	assert_int_equal(bench->heard.parent, 1);
}

static void test_an_exec_ends_what_was_before(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), thread, next;

	engine_bench_program(bench, pid, &thread);
	fake_segments(&bench->engine, thread, (uint32_t[]){ 1, 2 }, 2);
	engine_bench_settle(bench);
	engine_bench_program(bench, pid, &next);
	fake_segments(&bench->engine, next, (uint32_t[]){ 3 }, 1);
	engine_bench_settle(bench);
	assert_int_equal(bench->heard.count, 2);
	assert_int_equal(bench->heard.threads_ended, 1);
	assert_int_equal(bench->heard.replaces, 1);
	assert_int_equal(fake_slot(&bench->engine, thread)->state, STREAM_FREE);
	assert_int_equal(fake_slot(&bench->engine, next)->state, STREAM_LIVE);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.count, 3);
	assert_int_equal(bench->heard.processes_ended, 2);
}

enum { PROGRAMS = 2, PID = 4000000 };

/* Memories of their own: PROGRAMS that hold nothing and have gone, and as many of one process. */
struct programs {
	struct memories *memories;
	struct fake_engine engines[2 * PROGRAMS];
};

static void programs_begin(struct engine_bench *bench, struct programs *ret)
{
	ret->memories = memories_create();
	engine_source_memories_set(bench->source, ret->memories);
	for (uint32_t i = 0; i < 2 * PROGRAMS; i++) {
		struct fake_engine *engine = &ret->engines[i];
		struct memory *memory;

		fake_engine_init(engine, 0);
		memory = memories_add(ret->memories, engine->memory, engine->size, PID, 0);
		memory->ended = i < PROGRAMS;
		if (i == PROGRAMS - 1)
			engine_bench_settle(bench);
	}
}

/*
 * The places of memories that are gone are taken from behind: what a process executed last is found
 * first.
 */
static void test_programs_are_told_in_their_order(void **state)
{
	struct engine_bench *bench = *state;
	struct programs programs;

	programs_begin(bench, &programs);
	for (uint32_t i = 0; i < PROGRAMS; i++) {
		struct fake_engine *engine = &programs.engines[PROGRAMS + i];
		uint32_t catalog = fake_catalog_open(engine, PID), number = PROGRAMS + i + 1;

		fake_process(engine, catalog, PID, number * STREAM_SLOT_COUNT + catalog, 0);
	}
	engine_source_sweep(bench->source);
	assert_int_equal(bench->heard.processes, PROGRAMS);
	assert_int_equal(bench->heard.replaces, 1);
	engine_source_finish(bench->source);
	engine_source_destroy(bench->source);
	bench->source = NULL;
	memories_destroy(programs.memories);
}

/* The first program's catalog waits for that of its parent, which does not come; so does the next.
 */
static void test_programs_wait_for_those_before(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), first, next, absent = STREAM_SLOT_COUNT - 1;

	first = fake_catalog_open(&bench->engine, pid);
	fake_process(&bench->engine, first, pid, absent, 0);
	next = fake_catalog_open(&bench->engine, pid);
	fake_process(&bench->engine, next, pid, next, 0);
	engine_source_sweep(bench->source);
	assert_int_equal(bench->heard.processes, 0);
	engine_bench_settle(bench);
	assert_int_equal(bench->heard.processes, 2);
	assert_int_equal(bench->heard.replaces, 1);
}

/* Until its exec the child of a vfork writes as a thread of its parent. */
static void test_vfork(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), thread, child, next,
		 catalog = engine_bench_program(bench, pid, &thread);

	child = fake_thread_open(&bench->engine, catalog, pid - 1, pid - 1);
	fake_segments(&bench->engine, child, (uint32_t[]){ 1, 2 }, 2);
	engine_bench_settle(bench);
	engine_bench_program(bench, pid - 1, &next);
	engine_bench_settle(bench);
	assert_int_equal(bench->heard.count, 2);
	assert_int_equal(bench->heard.threads, 3);
	assert_int_equal(bench->heard.threads_ended, 1);
	assert_int_equal(bench->heard.replaces, 0);
	engine_source_finish(bench->source);
	assert_int_equal(engine_source_totals(bench->source)->lost[SEGMENT_LOSS_ORPHAN], 0);
}

/* A signal comes between an append and what it stands for: the engine takes the append back. */
static void test_an_append_is_taken_back(void **state)
{
	struct engine_bench *bench = *state;
	const uint32_t segments[] = { 1, 2, 4 };
	uint32_t thread;

	engine_bench_program(bench, (uint32_t)getpid(), &thread);
	fake_segments(&bench->engine, thread, (uint32_t[]){ 1, 2, 3 }, 3);
	engine_bench_settle(bench);
	fake_slot(&bench->engine, thread)->next -= sizeof(uint32_t);
	engine_bench_settle(bench);
	fake_segments(&bench->engine, thread, (uint32_t[]){ 4 }, 1);
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.count, 3);
	assert_memory_equal(bench->heard.segments.items, segments, sizeof(segments));
	assert_int_equal(engine_source_totals(bench->source)->broken, 0);
}

/*
 * A child is killed in the middle of a stream: all that it had written is there, and its slots are
 * free again.
 */
static void test_a_killed_process_loses_nothing(void **state)
{
	struct engine_bench *bench = *state;
	uint32_t segments[1000],
		*written = (void *)(bench->engine.memory + ENGINE_SHARED_SIZE - 4096);
	pid_t pid = fork();

	if (pid == 0) {
		uint32_t thread;

		engine_bench_program(bench, (uint32_t)getpid(), &thread);
		for (size_t i = 0; i < 1000; i++)
			segments[i] = (uint32_t)(i % 8 + 1);
		for (;; (*written)++) {
			fake_segments(&bench->engine, thread, segments, 1000);
			if (*written == 1100) /* more than a ring, less than a chunk beyond it */
				raise(SIGKILL);
		}
	}
	bench->heard.keep = false;
	while (waitpid(pid, NULL, WNOHANG) == 0)
		if (!engine_source_sweep(bench->source))
			engine_source_wait(bench->source, 10);
	engine_bench_settle(bench);
	assert_int_equal(*written, 1100);
	assert_int_equal(bench->heard.count, 1101 * 1000);
	assert_int_equal(bench->heard.threads_ended, 1);
	assert_int_equal(fake_slot(&bench->engine, 1)->state, STREAM_FREE);
}

static pid_t child_begin(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

/*
 * A thread appears after slots were looked for, and its process dies before they are again; others
 * keep the source busy.
 */
static void test_a_thread_appears_at_the_end(void **state)
{
	struct engine_bench *bench = *state;
	const uint32_t segments[] = { 1, 2, 3 };
	pid_t child = child_begin();
	uint32_t catalog = fake_catalog_open(&bench->engine, (uint32_t)child), busy;

	fake_process(&bench->engine, catalog, (uint32_t)child, catalog, 0);
	fake_fragment(&bench->engine, catalog, 1, 8, 0x1000);
	engine_bench_program(bench, (uint32_t)getpid(), &busy);
	engine_source_sweep(bench->source);
	usleep(14000);
	engine_source_sweep(bench->source);
	fake_segments(&bench->engine, fake_thread_open(&bench->engine, catalog, (uint32_t)child, 7),
		      segments, 3);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	usleep(7000);
	for (int i = 0; i < 4; i++) {
		fake_segments(&bench->engine, busy, segments, 3);
		engine_source_sweep(bench->source);
	}
	engine_bench_settle(bench);
	engine_source_finish(bench->source);
	assert_int_equal(engine_source_totals(bench->source)->lost[SEGMENT_LOSS_ORPHAN], 0);
	assert_int_equal(bench->heard.count, 3 + 4 * 3);
}

static void test_slots_are_used_again(void **state)
{
	struct engine_bench *bench = *state;
	unsigned programs = 0;

	bench->heard.keep = false;
	for (; programs < 3 * STREAM_SLOT_COUNT / 2; programs++) {
		uint32_t thread, catalog;

		catalog = engine_bench_program(bench, (uint32_t)getpid(), &thread);
		assert_int_not_equal(thread, UINT32_MAX);
		fake_segments(&bench->engine, thread, (uint32_t[]){ 1 + programs % 8 }, 1);
		fake_end(&bench->engine, catalog);
		fake_end(&bench->engine, thread);
		if (programs % 100 == 0)
			for (int i = 0; i < 4; i++)
				engine_source_sweep(bench->source);
	}
	engine_source_finish(bench->source);
	assert_int_equal(bench->heard.count, programs);
	assert_int_equal(bench->heard.processes, programs);
	assert_int_equal(engine_source_totals(bench->source)->refused, 0);
}

static void test_counters(void **state)
{
	struct engine_bench bench;
	uint32_t thread;
	uint64_t *counts;

	engine_bench_make(&bench, sizeof(uint64_t), COUNTERS_COUNTS);
	engine_bench_program(&bench, (uint32_t)getpid(), &thread);
	counts = fake_counters(&bench.engine, thread);
	counts[3] = 1000000;
	counts[8] = 5;
	counts[0] = 3;
	fake_end(&bench.engine, thread);
	engine_bench_settle(&bench);
	assert_int_equal(bench.heard.counts[3], 1000000);
	assert_int_equal(bench.heard.counts[8], 5);
	assert_int_equal(counts[3], 0);
	engine_source_finish(bench.source);
	assert_int_equal(engine_source_totals(bench.source)->kept, 1000005);
	assert_int_equal(engine_source_totals(bench.source)->lost[SEGMENT_LOSS_UNKNOWN], 3);
	engine_source_destroy(bench.source);
	fake_engine_deinit(&bench.engine);
}

static void counter_tell(struct fake_engine *engine, uint32_t catalog, uint32_t tool,
			 uint32_t index)
{
	const struct {
		struct stream_counter head;
		char name[8];
	} record = { .head = { .record = { sizeof(record), STREAM_RECORD_COUNTER },
			       .tool = tool,
			       .index = index },
		     .name = "mov" };

	fake_append(engine, catalog, &record, sizeof(record));
}

/*
 * Behind the bytes by segment of one tool lie the counters of two others; what cannot be is not
 * believed.
 */
static void test_counters_of_tools(void **state)
{
	const uint64_t tools = ENGINE_TOOL_BIT(ENGINE_TOOL_COVERAGE) |
			       ENGINE_TOOL_BIT(ENGINE_TOOL_OPCODES) |
			       ENGINE_TOOL_BIT(ENGINE_TOOL_ACCESSES);
	struct engine_bench bench;
	uint32_t catalog, thread;
	uint64_t *opcodes;

	engine_bench_make(&bench, 2, COUNTERS_MARKS);
	engine_source_tools_set(bench.source, tools);
	catalog = engine_bench_program(&bench, (uint32_t)getpid(), &thread);
	counter_tell(&bench.engine, catalog, ENGINE_TOOL_OPCODES, 7);
	counter_tell(&bench.engine, catalog, ENGINE_TOOL_ACCESSES, 0);
	counter_tell(&bench.engine, catalog, ENGINE_TOOL_CALLS, 1); /* not in use */
	counter_tell(&bench.engine, catalog, ENGINE_TOOL_ACCESSES, 32); /* it has fewer */
	counter_tell(&bench.engine, catalog, ENGINE_TOOLS_END, 0);
	opcodes = (uint64_t *)((char *)fake_counters(&bench.engine, thread) + STREAM_SEGMENTS_MAX);
	opcodes[7] = 1000;
	opcodes[2048] = 5; /* the first of accesses */
	fake_end(&bench.engine, thread);
	engine_bench_settle(&bench);
	assert_int_equal(bench.heard.counter_sum, 1000 + 2 * 5);
	engine_source_finish(bench.source);
	assert_int_equal(engine_source_totals(bench.source)->records_lost[CATALOG_COUNTER], 2);
	engine_source_destroy(bench.source);
	fake_engine_deinit(&bench.engine);
}

static void test_marks(void **state)
{
	struct engine_bench bench;
	uint32_t thread;
	uint8_t *marks;

	engine_bench_make(&bench, 1, COUNTERS_MARKS);
	engine_bench_program(&bench, (uint32_t)getpid(), &thread);
	marks = fake_counters(&bench.engine, thread);
	marks[2] = 1;
	marks[7] = 255;
	engine_source_finish(bench.source);
	assert_int_equal(bench.heard.counts[2], 1);
	assert_int_equal(bench.heard.counts[7], 1);
	assert_int_equal(engine_source_totals(bench.source)->kept, 2);
	engine_source_destroy(bench.source);
	fake_engine_deinit(&bench.engine);
}

/* A thread that waits for room is woken once there is some, and when it is killed. */
static void test_who_waits_is_woken(void **state)
{
	struct engine_bench *bench = *state;
	struct stream_slot *slot;
	uint32_t thread;

	engine_bench_program(bench, (uint32_t)getpid(), &thread);
	slot = fake_slot(&bench->engine, thread);
	for (uint32_t i = 0; i < 3; i++) {
		fake_segments(&bench->engine, thread, (uint32_t[]){ 1, 2, 3 }, 3);
		slot->waiting = 1;
		if (i == 2)
			fake_end(&bench->engine, thread);
		engine_bench_settle(bench);
		assert_int_equal(slot->waiting, 0);
		assert_int_equal(slot->wake, i + 1);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, engine_bench_setup, engine_bench_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_segments_arrive_in_order),
		TEST(test_a_long_stream),
		TEST(test_a_long_stream_through_a_small_ring),
		TEST(test_naps),
		TEST(test_large_rings),
		TEST(test_partial_segments),
		TEST(test_a_child_knows_what_its_parent_knew),
		TEST(test_a_child_is_found_before_its_parent),
		TEST(test_a_child_outlives_its_parent),
		TEST(test_an_exec_ends_what_was_before),
		TEST(test_programs_are_told_in_their_order),
		TEST(test_programs_wait_for_those_before),
		TEST(test_vfork),
		TEST(test_an_append_is_taken_back),
		TEST(test_a_killed_process_loses_nothing),
		TEST(test_a_thread_appears_at_the_end),
		TEST(test_slots_are_used_again),
		TEST(test_who_waits_is_woken),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_counters_of_tools),
		cmocka_unit_test(test_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
