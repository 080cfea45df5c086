// SPDX-License-Identifier: BSD-2-Clause
/*
 * Serves: T6, T7. Threads of the kernel that use up something and work on tasks: what each task is
 * charged, and that the charges of a thread and its tasks are always what the thread used; also if
 * notices are missing or behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "recorder/tasks.h"

enum { TID = 7, STEPS = 20000 };

/* A kernel thread. */
struct kernel_thread {
	struct tasks *tasks;
	struct thread_slot slot;
	uint64_t sums[THREAD_METRIC_COUNT];
	uint64_t time;
};

/* What settling told. */
struct told {
	size_t count;
	uint64_t sums[THREAD_METRIC_COUNT]; /* of all tasks */
	struct task last, tasks[8];
};

static void begin(struct kernel_thread *thread, struct tasks *tasks, uint64_t begun)
{
	*thread = (struct kernel_thread){ .tasks = tasks };
	thread->slot.record.tid = TID;
	thread->slot.begun = thread->time = begun;
}

static void use(struct kernel_thread *thread, uint64_t amount)
{
	thread->time += amount;
	thread->sums[THREAD_ON_CPU] += amount;
	thread->sums[THREAD_READ] += 2 * amount;
}

static void notice(struct kernel_thread *thread, const char *begins)
{
	struct task_notice notice = { .record = { .kind = RECORD_TASK, .tid = TID } };

	notice.record.time = thread->time;
	notice.begun = thread->slot.begun;
	notice.begins = begins != NULL;
	snprintf(notice.name, sizeof(notice.name), "%s", begins ? begins : "");
	memcpy(notice.sums, thread->sums, sizeof(notice.sums));
	/* A part is not in the slot yet. */
	notice.on_cpu = notice.sums[THREAD_ON_CPU] / 2;
	notice.sums[THREAD_ON_CPU] -= notice.on_cpu;
	notice.counters[THREAD_READ - THREAD_VOLUNTARY] = notice.sums[THREAD_READ];
	notice.sums[THREAD_READ] = 0;
	tasks_notice(thread->tasks, &notice);
}

static int on_task(void *ctx, const struct task *task)
{
	struct told *told = ctx;

	if (told->count < 8)
		told->tasks[told->count] = *task;
	told->count++;
	told->last = *task;
	for (unsigned i = 0; i < THREAD_METRIC_COUNT; i++)
		told->sums[i] += task->sums[i];
	return 0;
}

/* Leaves what is the thread's own in own. */
static void settle(struct kernel_thread *thread, struct told *told, uint64_t *own)
{
	int err = 0;

	*told = (struct told){};
	memcpy(own, thread->sums, sizeof(thread->sums));
	assert_true(
		tasks_settle(thread->tasks, &thread->slot, thread->time, own, on_task, told, &err));
	assert_int_equal(err, 0);
	for (unsigned i = 0; i < THREAD_METRIC_COUNT; i++)
		assert_int_equal(told->sums[i] + own[i], thread->sums[i]);
}

static void assert_task(const struct task *task, const char *name, uint64_t used, uint64_t begun,
			uint64_t ended)
{
	assert_string_equal(task->name, name);
	assert_int_equal(task->sums[THREAD_ON_CPU], used);
	assert_int_equal(task->sums[THREAD_READ], 2 * used);
	assert_int_equal(task->begun, begun);
	assert_int_equal(task->ended, ended);
}

static int setup(void **state)
{
	tasks_create((struct tasks **)state);
	return 0;
}

static int teardown(void **state)
{
	tasks_destroy(*state);
	return 0;
}

static void test_one_after_the_other(void **state)
{
	uint64_t own[THREAD_METRIC_COUNT];
	struct kernel_thread thread;
	struct told told;

	begin(&thread, *state, 1000);
	use(&thread, 5);
	notice(&thread, "one");
	use(&thread, 7);
	notice(&thread, NULL);
	use(&thread, 3);
	notice(&thread, "two");
	use(&thread, 11);
	notice(&thread, NULL);
	use(&thread, 1);
	settle(&thread, &told, own);
	assert_int_equal(told.count, 2);
	assert_task(&told.tasks[0], "one", 7, 1005, 1012);
	assert_task(&told.tasks[1], "two", 11, 1015, 1026);
	assert_int_equal(own[THREAD_ON_CPU], 9);
}

/* What is used within an inner task is not the outer one's, which then goes on. */
static void test_nested(void **state)
{
	uint64_t own[THREAD_METRIC_COUNT];
	struct kernel_thread thread;
	struct told told;

	begin(&thread, *state, 0);
	notice(&thread, "outer");
	use(&thread, 1);
	notice(&thread, "inner");
	use(&thread, 10);
	notice(&thread, NULL);
	use(&thread, 100);
	notice(&thread, NULL);
	use(&thread, 1000);
	settle(&thread, &told, own);
	assert_task(&told.tasks[0], "outer", 101, 0, 111);
	assert_task(&told.tasks[1], "inner", 10, 1, 11);
	assert_int_equal(own[THREAD_ON_CPU], 1000);
}

/* The thread ends in the middle of a task, which ends with it. */
static void test_end_is_missing(void **state)
{
	uint64_t own[THREAD_METRIC_COUNT];
	struct kernel_thread thread;
	struct told told;

	begin(&thread, *state, 0);
	use(&thread, 2);
	notice(&thread, "one");
	use(&thread, 4);
	settle(&thread, &told, own);
	assert_task(&told.tasks[0], "one", 4, 2, 6);
	assert_int_equal(own[THREAD_ON_CPU], 2);
}

/* Recording began in the middle of a task. */
static void test_beginning_is_missing(void **state)
{
	uint64_t own[THREAD_METRIC_COUNT];
	struct kernel_thread thread;
	struct told told;

	begin(&thread, *state, 0);
	use(&thread, 2);
	notice(&thread, NULL);
	use(&thread, 4);
	settle(&thread, &told, own);
	assert_int_equal(told.count, 0);
	assert_int_equal(own[THREAD_ON_CPU], 6);
}

/* The same tid, but another thread: it has nothing of the first one's. */
static void test_tid_again(void **state)
{
	uint64_t own[THREAD_METRIC_COUNT];
	struct kernel_thread first, second;
	struct told told;

	begin(&first, *state, 0);
	notice(&first, "first");
	use(&first, 4);
	begin(&second, *state, 50);
	use(&second, 1);
	notice(&second, "second");
	use(&second, 8);
	settle(&first, &told, own);
	assert_int_equal(told.count, 1);
	assert_task(&told.tasks[0], "first", 4, 0, 4);
	settle(&second, &told, own);
	assert_int_equal(told.count, 1);
	assert_task(&told.tasks[0], "second", 8, 51, 59);
	assert_int_equal(own[THREAD_ON_CPU], 1);
}

/* A notice that was read in the middle of a switch lacks something: nothing is taken back. */
static void test_behind(void **state)
{
	uint64_t own[THREAD_METRIC_COUNT];
	struct kernel_thread thread;
	struct told told;

	begin(&thread, *state, 0);
	use(&thread, 9);
	notice(&thread, "one");
	thread.sums[THREAD_ON_CPU] -= 4;
	notice(&thread, NULL);
	thread.sums[THREAD_ON_CPU] += 4;
	use(&thread, 3);
	settle(&thread, &told, own);
	assert_int_equal(told.tasks[0].sums[THREAD_ON_CPU], 0);
	assert_int_equal(own[THREAD_ON_CPU], 12);
}

static void test_no_tasks(void **state)
{
	struct kernel_thread thread;
	struct told told = {};
	int err = 0;

	begin(&thread, *state, 0);
	use(&thread, 9);
	assert_false(tasks_settle(*state, &thread.slot, 9, thread.sums, on_task, &told, &err));
	assert_int_equal(thread.sums[THREAD_ON_CPU], 9);
}

static void test_too_many(void **state)
{
	uint64_t own[THREAD_METRIC_COUNT];
	struct kernel_thread thread;
	struct told told;

	begin(&thread, *state, 0);
	for (unsigned i = 0; i < TASKS_MAX + 3; i++) {
		notice(&thread, "task");
		use(&thread, 1);
		notice(&thread, NULL);
	}
	settle(&thread, &told, own);
	assert_int_equal(told.count, TASKS_MAX);
	assert_int_equal(own[THREAD_ON_CPU], 3);
	assert_int_equal(tasks_merged(*state), 3);
}

/* Any notice, in any order, some of them lost: nothing is lost or counted twice. */
static void test_any_order(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		uint64_t own[THREAD_METRIC_COUNT];
		struct kernel_thread thread;
		struct told told;
		struct rng rng;

		rng_init(&rng, seed);
		begin(&thread, *state, seed);
		for (int i = 0; i < STEPS; i++) {
			uint64_t dice = rng_next(&rng) % 10;

			use(&thread, rng_next(&rng) % 1000);
			if (dice < 4)
				notice(&thread, "task");
			else if (dice < 8)
				notice(&thread, NULL);
		}
		settle(&thread, &told, own);
		assert_true(told.count > STEPS / 4);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_one_after_the_other),
		TEST(test_nested),
		TEST(test_end_is_missing),
		TEST(test_beginning_is_missing),
		TEST(test_tid_again),
		TEST(test_behind),
		TEST(test_no_tasks),
		TEST(test_too_many),
		TEST(test_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
