// SPDX-License-Identifier: BSD-2-Clause
/* A fake engine writes, the drain reads: what is handed out is compared with what was written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/map.h"
#include "trace/drain.h"
#include "trace/fake_engine.h"

enum { RUNS = 64 };

/* What came out. */
struct heard {
	ARRAY(uint32_t) runs; /* of all threads, in the order of arrival */
	uint64_t sum; /* of hashes of place and run: tells the order */
	uint64_t count;
	bool keep; /* in runs */
	unsigned processes, threads, processes_ended, threads_ended, records;
	uint32_t parent, replaces, tid;
	uint64_t counts[RUNS];
	uint64_t instructions; /* of all runs, by their tables */
};

static void on_process(void *ctx, struct drain_process *process)
{
	struct heard *heard = ctx;

	heard->processes++;
	heard->parent = process->parent;
	heard->replaces = process->replaces;
}

static void on_record(void *ctx, struct drain_process *process, const struct stream_record *record,
		      uint32_t first)
{
	((struct heard *)ctx)->records++;
}

static void on_thread(void *ctx, struct drain_thread *thread)
{
	struct heard *heard = ctx;

	assert_non_null(thread->process->runs);
	heard->threads++;
	heard->tid = thread->tid;
}

static uint64_t instructions_of(const struct runtable *runs, uint32_t number)
{
	const struct runtable_run *run = NULL;
	const struct runtable *table = runtable_find(runs, number, &run);
	uint64_t total = 0;

	assert_non_null(table);
	for (uint32_t i = 0; i <= run->whole; i++)
		total += table->pieces.items[runtable_piece(run, i)].instructions;
	return total;
}

static void on_runs(void *ctx, struct drain_thread *thread, const uint32_t *runs, size_t count)
{
	struct heard *heard = ctx;

	for (size_t i = 0; i < count; i++) {
		if (heard->keep) {
			*array_push(&heard->runs) = runs[i];
			heard->instructions += instructions_of(thread->process->runs, runs[i]);
		}
		heard->sum += hash64_pair(heard->count++, runs[i]);
	}
}

static void on_counts(void *ctx, struct drain_thread *thread, uint32_t first,
		      const uint64_t *counts, size_t count)
{
	struct heard *heard = ctx;

	for (size_t i = 0; i < count && first + i < RUNS; i++)
		heard->counts[first + i] += counts[i];
}

static void on_thread_end(void *ctx, struct drain_thread *thread)
{
	((struct heard *)ctx)->threads_ended++;
}

static void on_process_end(void *ctx, struct drain_process *process)
{
	((struct heard *)ctx)->processes_ended++;
}

struct bench {
	struct fake_engine engine;
	struct heard heard;
	struct drain_sink sink;
	struct drain *drain;
};

static void bench_make(struct bench *bench, unsigned counter_bytes, enum drain_counters counters)
{
	*bench = (struct bench){ .heard.keep = true };
	bench->sink = (struct drain_sink){
		.process_begin = on_process,
		.record = on_record,
		.thread_begin = on_thread,
		.runs = on_runs,
		.counts = on_counts,
		.thread_end = on_thread_end,
		.process_end = on_process_end,
		.ctx = &bench->heard,
	};
	fake_engine_init(&bench->engine, counter_bytes);
	assert_int_equal(drain_create(bench->engine.memory, bench->engine.size, counters,
				      &bench->sink, 1, &bench->drain),
			 0);
}

static int setup(void **state)
{
	struct bench *bench = malloc(sizeof(*bench));

	bench_make(bench, 0, DRAIN_NO_COUNTERS);
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	struct bench *bench = *state;

	drain_destroy(bench->drain);
	fake_engine_deinit(&bench->engine);
	array_deinit(&bench->heard.runs);
	free(bench);
	return 0;
}

/* A process of ours with runs 1 to 8, and a thread. */
static uint32_t program_begin(struct bench *bench, uint32_t pid, uint32_t *ret_thread)
{
	uint32_t log = fake_log_open(&bench->engine, pid);

	fake_process(&bench->engine, log, pid, log, 0);
	fake_fragment(&bench->engine, log, 1, 8, 0x1000);
	*ret_thread = fake_thread_open(&bench->engine, log, pid, pid + 1);
	return log;
}

static void settle(struct bench *bench)
{
	for (int i = 0; i < 6; i++) {
		while (drain_sweep(bench->drain))
			;
		usleep(21000); /* deaths are looked for now and then */
	}
}

static pid_t dead_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return pid;
}

static void test_runs_arrive_in_order(void **state)
{
	struct bench *bench = *state;
	const uint32_t runs[] = { 1, 5, 5, 8, 2 };
	uint32_t thread;

	program_begin(bench, (uint32_t)getpid(), &thread);
	fake_runs(&bench->engine, thread, runs, 5);
	settle(bench);
	assert_int_equal(bench->heard.runs.count, 4); /* the last one may still be taken back */
	assert_memory_equal(bench->heard.runs.items, runs, 4 * sizeof(*runs));
	assert_int_equal(bench->heard.instructions, 4 * (1 + 5 + 5 + 8));
	assert_int_equal(bench->heard.tid, getpid() + 1);
	assert_int_equal(bench->heard.threads_ended, 0);
	fake_runs(&bench->engine, thread, runs, 1);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.count, 6);
	assert_int_equal(bench->heard.runs.items[4], 2);
	assert_int_equal(bench->heard.threads_ended, 1);
	assert_int_equal(bench->heard.processes_ended, 1);
	assert_int_equal(drain_totals(bench->drain)->kept, 6);
	assert_int_equal(drain_totals(bench->drain)->records_kept, 2);
}

/* A thread of the test produces more than a ring holds, at full speed; the drain waits and is waited for. */
enum { LONG = 3000017 };

static void *produce(void *ctx)
{
	struct bench *bench = ctx;
	uint32_t thread = fake_thread_open(&bench->engine, 0, (uint32_t)getpid(), 7), runs[1001];
	uint64_t place = 0;

	while (place < LONG) {
		size_t count = 0;

		for (; count < 1001 && place < LONG; place++)
			runs[count++] = (uint32_t)(hash64(place) % 8 + 1);
		fake_runs(&bench->engine, thread, runs, count);
	}
	fake_end(&bench->engine, thread);
	return NULL;
}

static void long_stream_take(struct bench *bench, void (*sleep)(struct drain *, unsigned))
{
	pthread_t producer;
	uint64_t sum = 0;
	uint32_t other;

	bench->heard.keep = false;
	program_begin(bench, (uint32_t)getpid(), &other);
	pthread_create(&producer, NULL, produce, bench);
	while (bench->heard.threads_ended == 0)
		if (!drain_sweep(bench->drain))
			sleep(bench->drain, 1000);
	pthread_join(producer, NULL);
	for (uint64_t place = 0; place < LONG; place++)
		sum += hash64_pair(place, (uint32_t)(hash64(place) % 8 + 1));
	assert_int_equal(bench->heard.count, LONG);
	assert_true(bench->heard.sum == sum);
}

static void test_a_long_stream(void **state)
{
	long_stream_take(*state, drain_wait);
}

static void test_a_long_stream_through_a_small_ring(void **state)
{
	struct bench *bench = *state;

	fake_area(&bench->engine)->large = 0;
	long_stream_take(bench, drain_wait);
}

/* Who naps is woken when a ring is half full. */
static void test_naps(void **state)
{
	long_stream_take(*state, drain_nap);
}

/* A few threads have large rings; what has ended leaves them to others. */
static void test_large_rings(void **state)
{
	struct bench *bench = *state;
	uint32_t log = fake_log_open(&bench->engine, (uint32_t)getpid()),
		 slots[STREAM_LARGE_MAX + 1];

	fake_process(&bench->engine, log, (uint32_t)getpid(), log, 0);
	for (uint32_t i = 0; i <= STREAM_LARGE_MAX; i++)
		slots[i] = fake_thread_open(&bench->engine, log, (uint32_t)getpid(), i + 1);
	assert_int_equal(fake_slot(&bench->engine, slots[0])->ring, STREAM_RING_LARGE);
	assert_int_equal(fake_slot(&bench->engine, slots[STREAM_LARGE_MAX])->ring, STREAM_RING);
	settle(bench);
	for (uint32_t i = 0; i <= STREAM_LARGE_MAX; i++)
		fake_end(&bench->engine, slots[i]);
	settle(bench);
	assert_int_equal(bench->heard.threads_ended, STREAM_LARGE_MAX + 1);
	assert_int_equal(fake_area(&bench->engine)->large, STREAM_LARGE_MAX);
}

/* No ring has such a size: nothing is taken from it. */
static void test_a_ring_of_another_size(void **state)
{
	struct bench *bench = *state;
	uint32_t thread;

	program_begin(bench, (uint32_t)getpid(), &thread);
	fake_runs(&bench->engine, thread, (uint32_t[]){ 1, 2, 3 }, 3);
	fake_slot(&bench->engine, thread)->ring = 0;
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.count, 0);
	assert_int_equal(drain_totals(bench->drain)->broken, 1);
}

static void test_unknown_runs_are_counted(void **state)
{
	struct bench *bench = *state;
	const uint32_t runs[] = { 1, 0, 9, 2, UINT32_MAX, 3 }, good[] = { 1, 2, 3 };
	uint32_t thread;

	program_begin(bench, (uint32_t)getpid(), &thread);
	fake_runs(&bench->engine, thread, runs, 6);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.runs.count, 3);
	assert_memory_equal(bench->heard.runs.items, good, sizeof(good));
	assert_int_equal(drain_totals(bench->drain)->kept, 3);
	assert_int_equal(drain_totals(bench->drain)->lost[DRAIN_LOSS_UNKNOWN], 3);
}

/* Runs 9 to 15 are not told of, 16 is. */
static void test_gaps_are_not_handed_out(void **state)
{
	struct bench *bench = *state;
	const uint32_t runs[] = { 16, 12, 16 };
	uint32_t thread, log = program_begin(bench, (uint32_t)getpid(), &thread);

	fake_fragment(&bench->engine, log, 16, 1, 0x9000);
	fake_runs(&bench->engine, thread, runs, 3);
	fake_runs(&bench->engine, thread, (uint32_t[]){ 1 }, 1);
	settle(bench);
	assert_int_equal(bench->heard.count, 2);
	fake_fragment(&bench->engine, log, 9, 7, 0x8000);
	fake_runs(&bench->engine, thread, runs, 3);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.count, 6);
	assert_int_equal(drain_totals(bench->drain)->lost[DRAIN_LOSS_UNKNOWN], 1);
}

static void test_partial_runs(void **state)
{
	struct bench *bench = *state;
	const uint32_t runs[] = { 9, 10, 11 };
	uint32_t thread, log = program_begin(bench, (uint32_t)getpid(), &thread);

	fake_partial(&bench->engine, log, 9, 1, 3, (struct stream_piece){ 0x1030, 2, 1 });
	fake_partial(&bench->engine, log, 10, 1, 0, (struct stream_piece){ 0x1000, 0, 0 });
	fake_partial(&bench->engine, log, 11, 2, 3, (struct stream_piece){ 0x1030, 2, 1 });
	fake_runs(&bench->engine, thread, runs, 3);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.instructions, 4 * 3 + 1);
	assert_int_equal(drain_totals(bench->drain)->records_lost[LOG_FRAGMENT], 1);
	assert_int_equal(drain_totals(bench->drain)->lost[DRAIN_LOSS_UNKNOWN], 1);
}

static void test_a_child_knows_what_its_parent_knew(void **state)
{
	struct bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), thread, log = program_begin(bench, pid, &thread), child,
		 child_thread;
	const uint32_t runs[] = { 8, 9, 3, 10 };

	fake_fragment(&bench->engine, log, 9, 1, 0x5000);
	child = fake_log_open(&bench->engine, pid - 1);
	fake_process(&bench->engine, child, pid - 1, log, 9);
	fake_fragment(&bench->engine, child, 9, 2, 0x7000);
	fake_partial(&bench->engine, child, 11, 1, 2, (struct stream_piece){ 0x1020, 1, 1 });
	child_thread = fake_thread_open(&bench->engine, child, pid - 1, pid - 1);
	fake_runs(&bench->engine, child_thread, runs, 4);
	fake_runs(&bench->engine, child_thread, (uint32_t[]){ 11 }, 1);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.processes, 2);
	assert_int_equal(bench->heard.parent, 1);
	assert_int_equal(bench->heard.count, 5);
	assert_int_equal(bench->heard.instructions, 4 * (8 + 1 + 3 + 2) + 9);
}

/* The parent's slot is still being filled in when it is passed by, and the child's is found first. */
static void test_a_child_is_found_before_its_parent(void **state)
{
	struct bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), log = fake_log_open(&bench->engine, pid), child, thread;

	fake_process(&bench->engine, log, pid, log, 0);
	fake_fragment(&bench->engine, log, 1, 8, 0x1000);
	fake_slot(&bench->engine, log)->state = STREAM_TAKEN;
	child = fake_log_open(&bench->engine, pid - 1);
	fake_process(&bench->engine, child, pid - 1, log, 9);
	thread = fake_thread_open(&bench->engine, child, pid - 1, pid - 1);
	fake_runs(&bench->engine, thread, (uint32_t[]){ 8, 3 }, 2);
	fake_end(&bench->engine, thread);
	drain_sweep(bench->drain);
	drain_sweep(bench->drain);
	fake_slot(&bench->engine, log)->state = STREAM_LIVE;
	settle(bench);
	drain_finish(bench->drain);
	assert_int_equal(drain_totals(bench->drain)->lost[DRAIN_LOSS_UNKNOWN], 0);
	assert_int_equal(bench->heard.count, 2);
	assert_int_equal(bench->heard.instructions, 4 * (8 + 3));
}

/* The parent is gone before the child says a word. */
static void test_a_child_outlives_its_parent(void **state)
{
	struct bench *bench = *state;
	uint32_t dead = (uint32_t)dead_child(), thread, log = program_begin(bench, dead, &thread),
		 child;

	fake_end(&bench->engine, thread);
	fake_end(&bench->engine, log);
	settle(bench);
	assert_int_equal(bench->heard.threads_ended, 1);
	child = fake_log_open(&bench->engine, (uint32_t)getpid());
	assert_int_not_equal(child, log);
	fake_process(&bench->engine, child, (uint32_t)getpid(), log, 9);
	thread = fake_thread_open(&bench->engine, child, (uint32_t)getpid(), 1);
	fake_runs(&bench->engine, thread, (uint32_t[]){ 8 }, 1);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.instructions, 32);
	assert_int_equal(bench->heard.parent, 1);
}

static void test_an_exec_ends_what_was_before(void **state)
{
	struct bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), thread, next;

	program_begin(bench, pid, &thread);
	fake_runs(&bench->engine, thread, (uint32_t[]){ 1, 2 }, 2);
	settle(bench);
	program_begin(bench, pid, &next);
	fake_runs(&bench->engine, next, (uint32_t[]){ 3 }, 1);
	settle(bench);
	assert_int_equal(bench->heard.count, 2);
	assert_int_equal(bench->heard.threads_ended, 1);
	assert_int_equal(bench->heard.replaces, 1);
	assert_int_equal(fake_slot(&bench->engine, thread)->state, STREAM_FREE);
	assert_int_equal(fake_slot(&bench->engine, next)->state, STREAM_LIVE);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.count, 3);
	assert_int_equal(bench->heard.processes_ended, 2);
}

/* Until its exec the child of a vfork writes as a thread of its parent. */
static void test_vfork(void **state)
{
	struct bench *bench = *state;
	uint32_t pid = (uint32_t)getpid(), thread, child, next,
		 log = program_begin(bench, pid, &thread);

	child = fake_thread_open(&bench->engine, log, pid - 1, pid - 1);
	fake_runs(&bench->engine, child, (uint32_t[]){ 1, 2 }, 2);
	settle(bench);
	program_begin(bench, pid - 1, &next);
	settle(bench);
	assert_int_equal(bench->heard.count, 2);
	assert_int_equal(bench->heard.threads, 3);
	assert_int_equal(bench->heard.threads_ended, 1);
	assert_int_equal(bench->heard.replaces, 0);
	drain_finish(bench->drain);
	assert_int_equal(drain_totals(bench->drain)->lost[DRAIN_LOSS_ORPHAN], 0);
}

/* A signal comes between an append and what it stands for: the engine takes the append back. */
static void test_an_append_is_taken_back(void **state)
{
	struct bench *bench = *state;
	const uint32_t runs[] = { 1, 2, 4 };
	uint32_t thread;

	program_begin(bench, (uint32_t)getpid(), &thread);
	fake_runs(&bench->engine, thread, (uint32_t[]){ 1, 2, 3 }, 3);
	settle(bench);
	fake_slot(&bench->engine, thread)->next -= sizeof(uint32_t);
	settle(bench);
	fake_runs(&bench->engine, thread, (uint32_t[]){ 4 }, 1);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.count, 3);
	assert_memory_equal(bench->heard.runs.items, runs, sizeof(runs));
	assert_int_equal(drain_totals(bench->drain)->broken, 0);
}

/* A child is killed in the middle of a stream: all that it had written is there, and its slots are free again. */
static void test_a_killed_process_loses_nothing(void **state)
{
	struct bench *bench = *state;
	uint32_t runs[1000], *written = (void *)(bench->engine.memory + ENGINE_SHARED_SIZE - 4096);
	pid_t pid = fork();

	if (pid == 0) {
		uint32_t thread;

		program_begin(bench, (uint32_t)getpid(), &thread);
		for (size_t i = 0; i < 1000; i++)
			runs[i] = (uint32_t)(i % 8 + 1);
		for (;; (*written)++) {
			fake_runs(&bench->engine, thread, runs, 1000);
			if (*written == 1100) /* more than a ring, less than a chunk beyond it */
				raise(SIGKILL);
		}
	}
	bench->heard.keep = false;
	while (waitpid(pid, NULL, WNOHANG) == 0)
		if (!drain_sweep(bench->drain))
			drain_wait(bench->drain, 10);
	settle(bench);
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

/* A thread appears after slots were looked for, and its process dies before they are again; others keep the drain busy. */
static void test_a_thread_appears_at_the_end(void **state)
{
	struct bench *bench = *state;
	const uint32_t runs[] = { 1, 2, 3 };
	pid_t child = child_begin();
	uint32_t log = fake_log_open(&bench->engine, (uint32_t)child), busy;

	fake_process(&bench->engine, log, (uint32_t)child, log, 0);
	fake_fragment(&bench->engine, log, 1, 8, 0x1000);
	program_begin(bench, (uint32_t)getpid(), &busy);
	drain_sweep(bench->drain);
	usleep(14000);
	drain_sweep(bench->drain);
	fake_runs(&bench->engine, fake_thread_open(&bench->engine, log, (uint32_t)child, 7), runs,
		  3);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	usleep(7000);
	for (int i = 0; i < 4; i++) {
		fake_runs(&bench->engine, busy, runs, 3);
		drain_sweep(bench->drain);
	}
	settle(bench);
	drain_finish(bench->drain);
	assert_int_equal(drain_totals(bench->drain)->lost[DRAIN_LOSS_ORPHAN], 0);
	assert_int_equal(bench->heard.count, 3 + 4 * 3);
}

static void test_slots_are_used_again(void **state)
{
	struct bench *bench = *state;
	unsigned programs = 0;

	bench->heard.keep = false;
	for (; programs < 3 * STREAM_SLOT_COUNT / 2; programs++) {
		uint32_t thread, log;

		log = program_begin(bench, (uint32_t)getpid(), &thread);
		assert_int_not_equal(thread, UINT32_MAX);
		fake_runs(&bench->engine, thread, (uint32_t[]){ 1 + programs % 8 }, 1);
		fake_end(&bench->engine, log);
		fake_end(&bench->engine, thread);
		if (programs % 100 == 0)
			for (int i = 0; i < 4; i++)
				drain_sweep(bench->drain);
	}
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.count, programs);
	assert_int_equal(bench->heard.processes, programs);
	assert_int_equal(drain_totals(bench->drain)->refused, 0);
}

static void test_counters(void **state)
{
	struct bench bench;
	uint32_t thread;
	uint64_t *counts;

	bench_make(&bench, sizeof(uint64_t), DRAIN_COUNTS);
	program_begin(&bench, (uint32_t)getpid(), &thread);
	counts = fake_counters(&bench.engine, thread);
	counts[3] = 1000000;
	counts[8] = 5;
	counts[0] = 3;
	fake_end(&bench.engine, thread);
	settle(&bench);
	assert_int_equal(bench.heard.counts[3], 1000000);
	assert_int_equal(bench.heard.counts[8], 5);
	assert_int_equal(counts[3], 0);
	drain_finish(bench.drain);
	assert_int_equal(drain_totals(bench.drain)->kept, 1000005);
	assert_int_equal(drain_totals(bench.drain)->lost[DRAIN_LOSS_UNKNOWN], 3);
	drain_destroy(bench.drain);
	fake_engine_deinit(&bench.engine);
}

static void test_marks(void **state)
{
	struct bench bench;
	uint32_t thread;
	uint8_t *marks;

	bench_make(&bench, 1, DRAIN_MARKS);
	program_begin(&bench, (uint32_t)getpid(), &thread);
	marks = fake_counters(&bench.engine, thread);
	marks[2] = 1;
	marks[7] = 255;
	drain_finish(bench.drain);
	assert_int_equal(bench.heard.counts[2], 1);
	assert_int_equal(bench.heard.counts[7], 1);
	assert_int_equal(drain_totals(bench.drain)->kept, 2);
	drain_destroy(bench.drain);
	fake_engine_deinit(&bench.engine);
}

static void test_a_broken_log_ends_there(void **state)
{
	struct bench *bench = *state;
	const struct stream_record huge = { STREAM_RECORD_MAX + 8, STREAM_RECORD_RUNS };
	uint32_t thread, log = program_begin(bench, (uint32_t)getpid(), &thread);

	fake_append(&bench->engine, log, &huge, sizeof(huge));
	fake_fragment(&bench->engine, log, 9, 1, 0x8000);
	fake_runs(&bench->engine, thread, (uint32_t[]){ 1, 9 }, 2);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.count, 1);
	assert_int_equal(drain_totals(bench->drain)->records_lost[LOG_SIZE], 1);
	assert_int_equal(drain_totals(bench->drain)->records_seen, 3);
	assert_int_equal(drain_totals(bench->drain)->records_kept, 2);
}

static void test_positions_out_of_range(void **state)
{
	struct bench *bench = *state;
	uint32_t thread;

	program_begin(bench, (uint32_t)getpid(), &thread);
	fake_slot(&bench->engine, thread)->passed = 5ull << 32;
	fake_slot(&bench->engine, thread)->next = fake_slot(&bench->engine, thread)->start;
	settle(bench);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.count, 0);
	assert_int_equal(drain_totals(bench->drain)->broken, 1);
}

static void test_threads_without_a_log(void **state)
{
	struct bench *bench = *state;
	uint32_t thread = fake_thread_open(&bench->engine, 77, (uint32_t)getpid(), 1);

	fake_runs(&bench->engine, thread, (uint32_t[]){ 1, 2, 3 }, 3);
	fake_slot(&bench->engine, thread)->lost = 40;
	fake_thread_open(&bench->engine, UINT32_MAX, (uint32_t)getpid(), 1);
	settle(bench);
	drain_finish(bench->drain);
	assert_int_equal(bench->heard.threads, 0);
	assert_int_equal(drain_totals(bench->drain)->lost[DRAIN_LOSS_ORPHAN], 3);
	assert_int_equal(drain_totals(bench->drain)->lost[DRAIN_LOSS_ABANDONED], 10);
}

/* Somebody works on the CPU of who waits for room: he wakes it, not the drain. */
static void test_a_relay_wakes(void **state)
{
	struct bench *bench = *state;
	struct stream_area *area = fake_area(&bench->engine);
	struct stream_slot *slot;
	struct relay relay;
	uint32_t thread;

	relay_init(&relay, &area->held, &area->reserves);
	drain_relay_set(bench->drain, &relay);
	program_begin(bench, (uint32_t)getpid(), &thread);
	slot = fake_slot(&bench->engine, thread);
	for (int i = 0; i < 3; i++) {
		fake_runs(&bench->engine, thread, (uint32_t[]){ 1, 2, 3 }, 3);
		slot->waiting = 1;
		area->held++;
		if (i == 0)
			assert_true(relay_enter(&relay, area->held));
		if (i == 2) /* it is killed */
			fake_end(&bench->engine, thread);
		settle(bench);
		assert_int_equal(slot->waiting, 0);
		assert_int_equal(area->held, relay.released);
		assert_int_equal(slot->wake, i);
		if (i == 0) {
			relay_leave(&relay);
			assert_int_equal(slot->wake, 1);
			slot->wake = 0;
		}
	}
}

/* A hostile program: random words all over the slots while the drain works. */
static void test_garbage_does_no_harm(void **state)
{
	struct bench *bench = *state;
	uint64_t random = 1;

	bench->heard.keep = false;
	for (int round = 0; round < 3000; round++) {
		uint32_t index = (uint32_t)(hash64(random++) % 8), *words;
		struct stream_slot *slot = fake_slot(&bench->engine, index);
		size_t word = hash64(random++) % (sizeof(*slot) / sizeof(*words));

		words = (uint32_t *)slot;
		words[word] = (uint32_t)(hash64(random) % 4 ? hash64(random) % 5 : hash64(random));
		words = (uint32_t *)((char *)slot + STREAM_RING_OFFSET);
		words[hash64(random + 1) % 64] = (uint32_t)hash64(random + 2) % 64;
		if (round % 100 == 0) {
			uint32_t thread;

			program_begin(bench, 1, &thread);
		}
		random += 3;
		drain_sweep(bench->drain);
	}
	drain_finish(bench->drain);
	assert_true(drain_totals(bench->drain)->records_seen >=
		    drain_totals(bench->drain)->records_kept);
}

static void test_small_memory_is_refused(void **state)
{
	struct bench *bench = *state;
	struct drain *drain;

	assert_int_equal(drain_create(bench->engine.memory, ENGINE_SHARED_SIZE, DRAIN_NO_COUNTERS,
				      NULL, 0, &drain),
			 -EINVAL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_runs_arrive_in_order),
		TEST(test_a_long_stream),
		TEST(test_a_long_stream_through_a_small_ring),
		TEST(test_naps),
		TEST(test_large_rings),
		TEST(test_a_ring_of_another_size),
		TEST(test_unknown_runs_are_counted),
		TEST(test_gaps_are_not_handed_out),
		TEST(test_partial_runs),
		TEST(test_a_child_knows_what_its_parent_knew),
		TEST(test_a_child_is_found_before_its_parent),
		TEST(test_a_child_outlives_its_parent),
		TEST(test_an_exec_ends_what_was_before),
		TEST(test_vfork),
		TEST(test_an_append_is_taken_back),
		TEST(test_a_killed_process_loses_nothing),
		TEST(test_a_thread_appears_at_the_end),
		TEST(test_slots_are_used_again),
		TEST(test_a_broken_log_ends_there),
		TEST(test_positions_out_of_range),
		TEST(test_threads_without_a_log),
		TEST(test_a_relay_wakes),
		TEST(test_garbage_does_no_harm),
		TEST(test_small_memory_is_refused),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
