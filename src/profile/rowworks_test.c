// SPDX-License-Identifier: BSD-2-Clause
/* Who does the steps of rows, and in which order. */
#include "profile/rowworks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OWNER = ROWWORKS_THREADS, PATIENCE = 5000 /* ms */ };

struct steps {
	uint32_t held, reserves; /* of the relay */
	unsigned first[ROWWORKS_JOBS], second[ROWWORKS_JOBS]; /* when, from 1 on; 0: not yet */
	unsigned count;
	unsigned by[ROWWORKS_WORKERS];
};

static unsigned step_count(struct steps *steps, unsigned worker)
{
	__atomic_add_fetch(&steps->by[worker], 1, __ATOMIC_SEQ_CST);
	return __atomic_add_fetch(&steps->count, 1, __ATOMIC_SEQ_CST);
}

static void first(void *context, int job, unsigned worker)
{
	struct steps *steps = context;

	assert_int_equal(steps->first[job], 0);
	steps->first[job] = step_count(steps, worker);
}

static void second(void *context, int job, unsigned worker)
{
	struct steps *steps = context;

	assert_int_not_equal(steps->first[job], 0);
	assert_int_equal(steps->second[job], 0);
	steps->second[job] = step_count(steps, worker);
}

static void rows_submit(struct rowworks *works, int count)
{
	for (int i = 0; i < count; i++) {
		assert_int_equal(rowworks_place(works), i);
		rowworks_submit(works);
	}
}

static void rows_collect(struct rowworks *works, const struct steps *steps, int count)
{
	for (int i = 0; i < count; i++) {
		assert_int_equal(rowworks_collect(works, true), i);
		assert_int_not_equal(steps->second[i], 0);
		rowworks_release(works);
		assert_true(i == 0 || steps->first[i] > steps->first[i - 1]);
	}
	assert_int_equal(rowworks_collect(works, true), -1);
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

static void test_without_threads(void **state)
{
	struct steps steps = {};
	struct rowworks *works;

	rowworks_create(false, NULL, first, second, &steps, &works);
	rows_submit(works, 3);
	assert_int_equal(steps.by[OWNER], 6);
	assert_false(rowworks_help(works));
	rows_collect(works, &steps, 3);
	rowworks_destroy(works);
}

static void test_threads_work_by_themselves(void **state)
{
	struct steps steps = {};
	struct rowworks *works;

	rowworks_create(true, NULL, first, second, &steps, &works);
	rows_submit(works, 5);
	assert_true(comes_to(&steps.count, 10));
	assert_int_equal(steps.by[OWNER], 0);
	rows_collect(works, &steps, 5);
	rowworks_destroy(works);
}

static void test_reserves_leave_it_to_the_owner(void **state)
{
	struct steps steps = {};
	struct relay relay;
	struct rowworks *works;

	relay_init(&relay, &steps.held, &steps.reserves);
	rowworks_create(true, &relay, first, second, &steps, &works);
	rows_submit(works, 4);
	assert_true(comes_to(&steps.reserves, 1));
	assert_true(rowworks_help(works));
	assert_int_equal(steps.count, 1);
	while (rowworks_help(works))
		;
	assert_int_equal(steps.by[OWNER], 8);
	rows_collect(works, &steps, 4);
	rowworks_destroy(works);
}

static void test_reserves_work_while_the_program_waits(void **state)
{
	struct steps steps = {};
	struct relay relay;
	struct rowworks *works;
	uint32_t wake = 0;

	relay_init(&relay, &steps.held, &steps.reserves);
	rowworks_create(true, &relay, first, second, &steps, &works);
	rows_submit(works, 4);
	assert_true(comes_to(&steps.reserves, 1));
	__atomic_add_fetch(&steps.held, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &steps.held, FUTEX_WAKE, 1, NULL, NULL, 0);
	assert_true(comes_to(&steps.count, 8));
	assert_int_equal(steps.by[OWNER], 0);
	rows_collect(works, &steps, 4);
	relay_release(&relay, &wake);
	assert_true(comes_to(&wake, 1));
	rowworks_destroy(works);
}

/* Nobody may sleep for ever. */
static void test_the_end_comes_first(void **state)
{
	struct steps steps = {};
	struct relay relay;
	struct rowworks *works;

	for (int i = 0; i < 200; i++) {
		memset(&steps, 0, sizeof(steps));
		relay_init(&relay, &steps.held, &steps.reserves);
		rowworks_create(true, &relay, first, second, &steps, &works);
		rows_submit(works, 2);
		rowworks_destroy(works);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_threads),
		cmocka_unit_test(test_threads_work_by_themselves),
		cmocka_unit_test(test_reserves_leave_it_to_the_owner),
		cmocka_unit_test(test_reserves_work_while_the_program_waits),
		cmocka_unit_test(test_the_end_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
