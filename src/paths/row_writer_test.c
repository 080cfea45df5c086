// SPDX-License-Identifier: BSD-2-Clause
// Serves: W4.
/*
 * Who writes rows, in which order they are written and come back, and that nobody waits for ever.
 */
#include "paths/row_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE = 5000 /* ms */ };

struct rows {
	pthread_t owner;
	unsigned written[ROW_WRITER_JOBS]; /* when, from 1 on; 0: not yet */
	unsigned count, by_owner;
	bool hold; /* nobody may finish a row */
};

static void row_write(void *context, int job)
{
	struct rows *rows = context;

	while (__atomic_load_n(&rows->hold, __ATOMIC_SEQ_CST))
		usleep(100);
	rows->by_owner += pthread_equal(pthread_self(), rows->owner) != 0;
	rows->written[job] = __atomic_add_fetch(&rows->count, 1, __ATOMIC_SEQ_CST);
}

static void rows_submit(struct row_writer *writer, int count)
{
	for (int i = 0; i < count; i++) {
		assert_int_equal(row_writer_place(writer), i);
		row_writer_submit(writer);
	}
}

static void rows_collect(struct row_writer *writer, const struct rows *rows, int count)
{
	for (int i = 0; i < count; i++) {
		assert_int_equal(row_writer_collect(writer, true), i);
		assert_int_equal(rows->written[i], i + 1);
		row_writer_release(writer);
	}
	assert_int_equal(row_writer_collect(writer, true), -1);
}

static void test_without_a_thread(void **state)
{
	struct rows rows = { .owner = pthread_self() };
	struct row_writer *writer;

	row_writer_create(false, row_write, &rows, &writer);
	rows_submit(writer, 3);
	assert_int_equal(rows.by_owner, 3);
	rows_collect(writer, &rows, 3);
	row_writer_destroy(writer);
}

static bool comes_to(const unsigned *number, unsigned wanted)
{
	for (int i = 0; i < PATIENCE; i++) {
		if (__atomic_load_n(number, __ATOMIC_SEQ_CST) == wanted)
			return true;
		usleep(1000);
	}
	return false;
}

/* Nobody needs to collect for the thread to work. */
static void test_the_thread_works_by_itself(void **state)
{
	struct rows rows = { .owner = pthread_self() };
	struct row_writer *writer;

	row_writer_create(true, row_write, &rows, &writer);
	rows_submit(writer, 5);
	assert_true(comes_to(&rows.count, 5));
	rows_collect(writer, &rows, 5);
	assert_int_equal(rows.by_owner, 0);
	row_writer_destroy(writer);
}

/*
 * All jobs are taken while the thread is busy; a job that is written and collected is free again.
 */
static void test_jobs_are_bounded(void **state)
{
	struct rows rows = { .owner = pthread_self(), .hold = true };
	struct row_writer *writer;

	row_writer_create(true, row_write, &rows, &writer);
	rows_submit(writer, ROW_WRITER_JOBS);
	assert_int_equal(row_writer_place(writer), -1);
	assert_int_equal(row_writer_collect(writer, false), -1);
	__atomic_store_n(&rows.hold, false, __ATOMIC_SEQ_CST);
	assert_int_equal(row_writer_collect(writer, true), 0);
	assert_int_equal(row_writer_place(writer), -1);
	row_writer_release(writer);
	assert_int_equal(row_writer_place(writer), 0);
	row_writer_destroy(writer);
}

/* The writer may be destroyed at any time; nobody sleeps for ever. */
static void test_the_end_comes_first(void **state)
{
	struct rows rows = { .owner = pthread_self() };
	struct row_writer *writer;

	for (int i = 0; i < 200; i++) {
		memset(rows.written, 0, sizeof(rows.written));
		row_writer_create(true, row_write, &rows, &writer);
		rows_submit(writer, 2);
		row_writer_destroy(writer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_a_thread),
		cmocka_unit_test(test_the_thread_works_by_itself),
		cmocka_unit_test(test_jobs_are_bounded),
		cmocka_unit_test(test_the_end_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
