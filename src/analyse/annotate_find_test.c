// SPDX-License-Identifier: BSD-2-Clause
// Serves: S3.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyse/annotate.h"
#include "analyse/filter.h"
#include "support/profile_fixture.h"

static void annotate_finds_by_name_then_by_pattern(void **state)
{
	struct filter filter = {};
	struct fixture fixture;
	const struct profile *profile = fixture_demo(&fixture);
	struct annotate_match *matches;
	bool exact, inlined;
	size_t count;

	annotate_find(profile, &filter, "fib", &matches, &count, &exact, &inlined);
	assert_int_equal(count, 1);
	assert_true(exact);
	assert_int_equal(matches[0].samples, 550);
	free(matches);
	annotate_find(profile, &filter, "a", &matches, &count, &exact, &inlined);
	assert_int_equal(count, 3); /* parse (145, clamp in it), main, do_syscall */
	assert_int_equal(matches[0].samples, 145);
	assert_false(exact);
	assert_true(inlined);
	free(matches);
	annotate_find(profile, &filter, "clamp", &matches, &count, &exact, &inlined);
	assert_int_equal(count, 0);
	assert_true(inlined);
	free(matches);
	fixture_deinit(&fixture);
}

/* The name of an inlined function does not mean another one whose name it is a part of. */
static void annotate_finds_no_part_of_a_name_that_there_is(void **state)
{
	struct filter filter = {};
	struct fixture fixture;
	struct annotate_match *matches;
	bool exact, inlined;
	uint32_t module;
	size_t count;

	fixture_init(&fixture);
	module = fixture_module(&fixture, MODULE_ELF, "/bin/hash", "");
	fixture_symbol(&fixture, module, "setup_hash", 0, 16);
	fixture_inlined(&fixture, module, "hash");
	annotate_find(fixture_finish(&fixture), &filter, "hash", &matches, &count, &exact,
		      &inlined);
	assert_int_equal(count, 0);
	assert_true(inlined);
	free(matches);
	fixture_deinit(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(annotate_finds_by_name_then_by_pattern),
		cmocka_unit_test(annotate_finds_no_part_of_a_name_that_there_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
