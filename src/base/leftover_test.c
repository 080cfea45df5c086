// SPDX-License-Identifier: BSD-2-Clause
// Serves: S8, S10.
/* A signal that ends a process removes what the process has not finished, and nothing else. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/leftover.h"

static char folder[] = "/tmp/leftover-XXXXXX";

static int here(void)
{
	int dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(dir >= 0);
	return dir;
}

static void file_make(int dir, const char *name)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static bool is_there(const char *name)
{
	int dir = here();
	bool found = !faccessat(dir, name, F_OK, 0);

	close(dir);
	return found;
}

/* Two files, one of which is finished, and a folder with a third; the folder's number is closed. */
static void unfinished_make(void)
{
	int dir = here(), inner, finished;

	file_make(dir, "unfinished");
	file_make(dir, "finished");
	assert_int_equal(mkdirat(dir, "folder", 0700), 0);
	inner = openat(dir, "folder", O_PATH | O_DIRECTORY);
	file_make(inner, "inside");
	assert_int_not_equal(leftover_add(dir, "unfinished", 0), 0);
	finished = leftover_add(dir, "finished", 0);
	assert_int_not_equal(leftover_add(dir, "folder", AT_REMOVEDIR), 0);
	assert_int_not_equal(leftover_add(inner, "inside", 0), 0);
	leftover_forget(finished);
	close(inner);
	close(dir);
}

/* Returns the status of a child that does all that and gets the signal. */
static int child_end(int number, void (*before)(void), void (*after)(void))
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (before)
			before();
		unfinished_make();
		if (after)
			after();
		raise(number);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void clean(void)
{
	int dir = here();

	unlinkat(dir, "unfinished", 0);
	unlinkat(dir, "finished", 0);
	unlinkat(dir, "folder/inside", 0);
	unlinkat(dir, "folder", AT_REMOVEDIR);
	close(dir);
}

static void signals_remove_what_is_unfinished(void **state)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		int status = child_end(ends[i], NULL, NULL);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), ends[i]);
		assert_false(is_there("unfinished"));
		assert_false(is_there("folder"));
		assert_true(is_there("finished"));
		clean();
	}
}

static void interrupt_ignore(void)
{
	signal(SIGINT, SIG_IGN);
}

static void ignored_signals_stay_ignored(void **state)
{
	int status = child_end(SIGINT, interrupt_ignore, NULL);

	assert_true(WIFEXITED(status));
	assert_true(is_there("unfinished"));
	assert_true(is_there("folder/inside"));
	clean();
}

/* As a process that reads symbols, which gets the same signal from the terminal. */
static void in_a_child(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		raise(SIGINT);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_true(is_there("unfinished"));
}

static void children_remove_nothing(void **state)
{
	assert_true(WIFSIGNALED(child_end(SIGINT, NULL, in_a_child)));
	assert_false(is_there("unfinished"));
	clean();
}

static void too_many_are_not_watched(void **state)
{
	int dir = here(), numbers[100], kept = 0;

	for (size_t i = 0; i < 100; i++)
		kept += (numbers[i] = leftover_add(dir, "x", 0)) != 0;
	assert_in_range(kept, 16, 99);
	for (size_t i = 0; i < 100; i++)
		leftover_forget(numbers[i]);
	assert_int_not_equal(numbers[0] = leftover_add(dir, "x", 0), 0);
	leftover_forget(numbers[0]);
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signals_remove_what_is_unfinished),
		cmocka_unit_test(ignored_signals_stay_ignored),
		cmocka_unit_test(children_remove_nothing),
		cmocka_unit_test(too_many_are_not_watched),
	};
	int failed;

	if (!mkdtemp(folder))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	clean();
	rmdir(folder);
	return failed;
}
