// SPDX-License-Identifier: BSD-2-Clause
/* The test plays all parts; where somebody has to sleep, it is a thread. */
#include "base/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

struct words {
	uint32_t held, reserves;
};

/* A thread of the program begins to wait. */
static void program_waits(struct words *words)
{
	__atomic_add_fetch(&words->held, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&words->reserves, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &words->held, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Who would sleep returns at once: something has changed since. */
static bool enter_now(struct relay *relay)
{
	return relay_enter(relay, relay_look(relay) - 1);
}

static void test_who_works_wakes(void **state)
{
	struct words words = {};
	struct relay relay;
	uint32_t wake = 0;

	relay_init(&relay, &words.held, &words.reserves);
	assert_false(enter_now(&relay));
	program_waits(&words);
	assert_true(enter_now(&relay));
	assert_true(relay_goes_on(&relay));
	relay_release(&relay, &wake);
	assert_int_equal(wake, 0);
	assert_false(relay_goes_on(&relay));
	relay_leave(&relay);
	assert_int_equal(wake, 1);
	assert_false(enter_now(&relay));
}

static void test_nobody_works(void **state)
{
	struct words words = {};
	struct relay relay;
	uint32_t wake = 0;

	relay_init(&relay, &words.held, &words.reserves);
	program_waits(&words);
	relay_release(&relay, &wake);
	assert_int_equal(wake, 1);
	assert_false(enter_now(&relay));
}

static void test_hurry(void **state)
{
	struct words words = {};
	struct relay relay;
	uint32_t wake = 0;

	relay_init(&relay, &words.held, &words.reserves);
	relay_hurry(&relay);
	program_waits(&words);
	assert_true(enter_now(&relay));
	relay_hurry(&relay);
	assert_int_equal(wake, 0);
	relay_release(&relay, &wake);
	relay_hurry(&relay);
	assert_int_equal(wake, 1);
	assert_false(relay_goes_on(&relay));
	relay_leave(&relay);
	assert_int_equal(wake, 1);
}

static void test_two_threads_wait(void **state)
{
	struct words words = {};
	struct relay relay;
	uint32_t first = 0, second = 0;

	relay_init(&relay, &words.held, &words.reserves);
	program_waits(&words);
	program_waits(&words);
	assert_true(enter_now(&relay));
	relay_release(&relay, &first);
	assert_int_equal(first, 0);
	assert_false(relay_goes_on(&relay));
	relay_release(&relay, &second);
	assert_int_equal(second, 1);
	relay_leave(&relay);
	assert_int_equal(first, 1);
	assert_int_equal(second, 1);
}

static void test_one_reserve_at_a_time(void **state)
{
	struct words words = {};
	struct relay relay;

	relay_init(&relay, &words.held, &words.reserves);
	program_waits(&words);
	assert_true(enter_now(&relay));
	assert_false(enter_now(&relay));
	relay_leave(&relay);
	assert_true(enter_now(&relay));
}

static void test_end(void **state)
{
	struct words words = {};
	struct relay relay;

	relay_init(&relay, &words.held, &words.reserves);
	relay_end(&relay);
	assert_true(enter_now(&relay));
	assert_true(relay_goes_on(&relay));
}

static void test_no_relay(void **state)
{
	uint32_t wake = 0;

	relay_here(NULL);
	relay_hurry(NULL);
	relay_poke(NULL);
	assert_true(relay_enter(NULL, relay_look(NULL)));
	assert_true(relay_goes_on(NULL));
	relay_release(NULL, &wake);
	assert_int_equal(wake, 1);
	relay_leave(NULL);
	relay_end(NULL);
}

static void *reserve(void *context)
{
	struct relay *relay = context;

	return relay_enter(relay, relay_look(relay)) ? relay : NULL;
}

static pthread_t reserve_start(struct relay *relay)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, reserve, relay), 0);
	while (!__atomic_load_n(relay->reserves, __ATOMIC_SEQ_CST))
		usleep(1000);
	usleep(10000); /* until it sleeps, most likely; it need not */
	return thread;
}

static void test_a_reserve_sleeps(void **state)
{
	struct words words = {};
	struct relay relay;
	pthread_t thread;

	relay_init(&relay, &words.held, &words.reserves);
	thread = reserve_start(&relay);
	program_waits(&words);
	pthread_join(thread, NULL);
	assert_int_equal(words.reserves, 0);
	assert_true(enter_now(&relay));
	relay_leave(&relay);
	relay_release(&relay, &(uint32_t){ 0 });
	thread = reserve_start(&relay);
	relay_poke(&relay);
	pthread_join(thread, NULL);
	assert_false(enter_now(&relay));
}

static void test_the_cpu_is_left(void **state)
{
	struct words words = {};
	struct relay relay;
	cpu_set_t all, one, after;

	sched_getaffinity(0, sizeof(all), &all);
	if (CPU_COUNT(&all) < 2)
		skip();
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	relay_init(&relay, &words.held, &words.reserves);
	relay_here(&relay);
	assert_true(CPU_ISSET((size_t)relay.cpu, &one));
	program_waits(&words);
	assert_true(enter_now(&relay)); /* there is no other CPU for us */
	relay_leave(&relay);
	sched_setaffinity(0, sizeof(all), &all);
	for (int i = 0; i < 20; i++) {
		relay_here(&relay);
		assert_true(enter_now(&relay));
		sched_getaffinity(0, sizeof(after), &after);
		assert_true(CPU_EQUAL(&after, &all));
		relay_leave(&relay);
		if (sched_getcpu() != relay.cpu)
			return;
	}
	fail_msg("always on CPU %d", relay.cpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_works_wakes),
		cmocka_unit_test(test_nobody_works),
		cmocka_unit_test(test_hurry),
		cmocka_unit_test(test_two_threads_wait),
		cmocka_unit_test(test_one_reserve_at_a_time),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_no_relay),
		cmocka_unit_test(test_a_reserve_sleeps),
		cmocka_unit_test(test_the_cpu_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
