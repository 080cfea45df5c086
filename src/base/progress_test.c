// SPDX-License-Identifier: BSD-2-Clause
// Serves: S8, S10.
/*
 * What stands on a terminal while a step takes long. A pseudo-terminal is stderr, and the test
 * waits for what has to come; nothing is said about when.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"

static int stderr_before;
static int reader; /* what was written to stderr */
static char seen[65536];
static size_t seen_size;

static void stderr_to(int fd)
{
	stderr_before = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
	seen_size = 0;
	seen[0] = 0;
	fcntl(reader, F_SETFL, O_NONBLOCK);
}

static void terminal_open(void)
{
	reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(reader >= 0 && !grantpt(reader) && !unlockpt(reader));
	stderr_to(open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC));
}

static void stderr_back(void)
{
	fflush(stderr);
	dup2(stderr_before, STDERR_FILENO);
	close(stderr_before);
	close(reader);
}

static const char *seen_so_far(void)
{
	ssize_t got = read(reader, seen + seen_size, sizeof(seen) - 1 - seen_size);

	if (got > 0)
		seen_size += (size_t)got;
	seen[seen_size] = 0;
	return seen;
}

/* The runner of the tests ends a test that waits forever. */
static void wait_for(const char *text)
{
	while (!strstr(seen_so_far(), text))
		usleep(1000);
}

/* What a person sees in the end: a carriage return goes back, characters replace characters. */
static void screen_of(const char *text, char *ret, size_t size)
{
	size_t start = 0, at = 0, end = 0;

	for (; *text; text++) {
		if (*text == '\r') {
			at = start;
			continue;
		}
		if (*text == '\n') {
			ret[end++] = '\n';
			start = at = end;
			continue;
		}
		assert_true(at < size - 2);
		ret[at++] = *text;
		end = at > end ? at : end;
	}
	ret[end] = 0;
}

static void a_step_that_takes_long_says_how_far_it_is(void **state)
{
	struct progress progress;
	char screen[1000];

	terminal_open();
	progress_begin(&progress, "finding %s", "names");
	wait_for("assay: finding names: 1 s");
	progress_set(&progress, 12000, 1200000);
	wait_for("assay: finding names: 12,000 of 1,200,000 (1 %), about ");
	progress_set(&progress, 1700, 0);
	wait_for("assay: finding names: 1,700 done, ");
	progress_end(&progress);
	screen_of(seen_so_far(), screen, sizeof(screen));
	stderr_back();
	assert_int_equal(strspn(screen, " "), strlen(screen));
}

static void the_inner_step_is_shown_then_the_outer_one_again(void **state)
{
	struct progress outer, inner;

	terminal_open();
	progress_begin(&outer, "outer");
	progress_begin(&inner, "inner");
	wait_for("assay: inner: ");
	progress_end(&inner);
	seen_size = 0;
	wait_for("assay: outer: ");
	progress_end(&outer);
	stderr_back();
}

static void a_message_stands_above_the_line(void **state)
{
	struct progress progress;
	char screen[1000];

	terminal_open();
	progress_begin(&progress, "a step of some length");
	wait_for("a step of some length");
	log_warn("odd");
	progress_end(&progress);
	screen_of(seen_so_far(), screen, sizeof(screen));
	stderr_back();
	assert_memory_equal(screen, "assay: warning: odd ", 20);
	assert_int_equal(strspn(screen + 19, " \n"), strlen(screen + 19));
}

static void names_do_not_command_the_terminal(void **state)
{
	struct progress progress;

	terminal_open();
	progress_begin(&progress, "reading %s", "\033[2Jx");
	wait_for("assay: reading \\x1b[2Jx");
	log_error("%s", "no such file: \033]0;title\a\xc2\x9b\n");
	wait_for("no such file: \\x1b]0;title\\x07\\u009b\\x0a");
	progress_end(&progress);
	stderr_back();
	assert_null(strchr(seen, '\033'));
}

/* The line begins after a second; the thread looks five times a second. */
static void nothing_is_said(void)
{
	struct progress progress;

	progress_begin(&progress, "a step");
	usleep(1500000);
	progress_end(&progress);
	seen_so_far();
	stderr_back();
	assert_int_equal(seen_size, 0);
}

static void a_short_step_says_nothing(void **state)
{
	struct progress progress;

	terminal_open();
	for (int i = 0; i < 100; i++) {
		progress_begin(&progress, "a step");
		progress_end(&progress);
	}
	seen_so_far();
	stderr_back();
	assert_int_equal(seen_size, 0);
}

static void without_a_terminal_nothing_is_said(void **state)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	reader = ends[0];
	stderr_to(ends[1]);
	nothing_is_said();
}

static void quiet_is_quiet(void **state)
{
	terminal_open();
	log_quiet_set(true);
	nothing_is_said();
	log_quiet_set(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_that_takes_long_says_how_far_it_is),
		cmocka_unit_test(the_inner_step_is_shown_then_the_outer_one_again),
		cmocka_unit_test(a_message_stands_above_the_line),
		cmocka_unit_test(names_do_not_command_the_terminal),
		cmocka_unit_test(a_short_step_says_nothing),
		cmocka_unit_test(without_a_terminal_nothing_is_said),
		cmocka_unit_test(quiet_is_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
