// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/err.h"
#include "base/map.h"
#include "base/pids.h"
#include "base/strbuf.h"

/*
 * Against a plain array: insertions and removals in a fixed pseudo-random order, few keys, many
 * collisions.
 */
static void map_agrees_with_an_array(void **state)
{
	enum { KEYS = 257, STEPS = 20000 };
	struct map map = {};
	uint64_t model[KEYS] = {}, seed = 42;
	size_t present = 0;

	for (int step = 0; step < STEPS; step++) {
		uint64_t key = (seed = hash64(seed + 1)) % KEYS;

		if (seed & (1u << 20)) {
			bool fresh;
			uint64_t *value = map_at(&map, key, &fresh);

			assert_int_equal(fresh, model[key] == 0);
			present += fresh;
			*value = model[key] = (uint64_t)step + 1;
		} else {
			assert_int_equal(map_remove(&map, key), model[key] != 0);
			present -= model[key] != 0;
			model[key] = 0;
		}
		assert_int_equal(map.count, present);
	}
	for (uint64_t key = 0; key < KEYS; key++) {
		uint64_t *value = map_find(&map, key);

		assert_int_equal(value ? *value : 0, model[key]);
	}
	map_deinit(&map);
}

static void strtab_gives_dense_equal_ids(void **state)
{
	struct strtab table = {};
	char text[16];

	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 1000; i++) {
			snprintf(text, sizeof(text), "s%u", i);
			assert_int_equal(strtab_add(&table, text), i);
		}
	assert_int_equal(table.count, 1000);
	assert_string_equal(strtab_get(&table, 999), "s999");
	strtab_deinit(&table);
}

static void array_keeps_its_elements_while_growing(void **state)
{
	ARRAY(int) numbers = {};
	int sum = 0;

	for (int i = 0; i < 1000; i++)
		*array_push(&numbers) = i;
	array_each(&numbers, number)
		sum += *number;
	assert_int_equal(sum, 499500);
	array_deinit(&numbers);
}

static void strbuf_grows(void **state)
{
	struct strbuf buf = {};

	assert_string_equal(strbuf_text(&buf), "");
	for (int i = 0; i < 100; i++)
		strbuf_printf(&buf, "%d,", i);
	strbuf_putc(&buf, '.');
	assert_int_equal(buf.length, 291);
	assert_string_equal(buf.text + 283, ",98,99,.");
	strbuf_deinit(&buf);
}

static void err_wrap_puts_the_outer_reason_first(void **state)
{
	assert_int_equal(err_set(-EINVAL, "%s: too small", "x"), -EINVAL);
	assert_int_equal(err_wrap(-EINVAL, "open %d", 7), -EINVAL);
	assert_string_equal(err_text(), "open 7: x: too small");
}

/* From kill() on, whether it has run since, is on its way to its end, or is gone. */
static void who_was_killed_is_ending(void **state)
{
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();

		if (!child)
			while (i % 2)
				;
		if (!child)
			_exit(pause());
		assert_true(child > 0);
		usleep((useconds_t)(i % 8 * 50));
		assert_false(pids_is_ending(child, child));
		kill(child, SIGKILL);
		assert_true(pids_is_ending(child, child));
		assert_int_equal(waitpid(child, NULL, 0), child);
		assert_true(pids_is_ending(child, child));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map_agrees_with_an_array),
		cmocka_unit_test(strtab_gives_dense_equal_ids),
		cmocka_unit_test(array_keeps_its_elements_while_growing),
		cmocka_unit_test(strbuf_grows),
		cmocka_unit_test(err_wrap_puts_the_outer_reason_first),
		cmocka_unit_test(who_was_killed_is_ending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
