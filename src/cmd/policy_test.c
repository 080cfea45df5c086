// SPDX-License-Identifier: BSD-2-Clause
// Serves: S6, S8.
/* Who may say what ordinary users see: root, in a file that nobody else can write. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "cmd/policy.h"

#define TEN "1234567890"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
/* With what follows it is one line, and more than a reader of fixed lines takes at once. */
#define LONG_COMMENT "# " HUNDRED HUNDRED TEN TEN TEN TEN TEN "123"

enum { USER = 65534 };

static char path[] = "/tmp/assay-policy-XXXXXX";

static void say(const char *text, uid_t owner, mode_t mode)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chown(path, owner, 0), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void policy_is(uid_t user, bool other_users, bool kernel_values)
{
	struct policy policy = { .other_users = !other_users, .kernel_values = !kernel_values };

	assert_int_equal(policy_read_file(path, user, &policy), 0);
	assert_int_equal(policy.other_users, other_users);
	assert_int_equal(policy.kernel_values, kernel_values);
}

static void root_may_do_everything(void **state)
{
	say("other-users = no\n", 0, 0644);
	policy_is(0, true, true);
}

static void what_is_not_allowed_is_not(void **state)
{
	say("", 0, 0644);
	policy_is(USER, false, false);
	say("# a comment\n\n  other-users = yes # why not\n", 0, 0644);
	policy_is(USER, true, false);
	say("other-users=yes\nkernel-values = yes\n", 0, 0600);
	policy_is(USER, true, true);
	say(LONG_COMMENT "other-users = yes\n", 0, 0644);
	policy_is(USER, false, false);
	say("other-users = yes\nother-users = no\n", 0, 0644);
	policy_is(USER, false, false);
	unlink(path);
	policy_is(USER, false, false);
}

static void files_of_others_allow_nothing(void **state)
{
	say("other-users = yes\n", USER, 0644);
	policy_is(USER, false, false);
	say("other-users = yes\n", 0, 0664);
	policy_is(USER, false, false);
	say("other-users = yes\n", 0, 0646);
	policy_is(USER, false, false);
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	policy_is(USER, false, false);
	unlink(path);
}

static void what_cannot_be_understood_is_an_error(void **state)
{
	static const char *const bad[] = { "other-users\n", "other-users = perhaps\n",
					   "everything = yes\n", "other-users = yes no\n" };
	struct policy policy;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		say(bad[i], 0, 0644);
		assert_int_equal(policy_read_file(path, USER, &policy), -EINVAL);
	}
}

/* Only root can make a file of root's. */
static int scratch_make(void **state)
{
	if (geteuid() != 0)
		exit(77);
	return mkstemp(path) < 0;
}

static int scratch_remove(void **state)
{
	unlink(path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_may_do_everything),
		cmocka_unit_test(what_is_not_allowed_is_not),
		cmocka_unit_test(files_of_others_allow_nothing),
		cmocka_unit_test(what_cannot_be_understood_is_an_error),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
