// SPDX-License-Identifier: BSD-2-Clause
/* Serves: V1. */
#include "recorder/processes.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A child with a name that makes /proc/PID/stat hard to read, and its own child. */
struct family {
	pid_t child, grandchild;
};

static struct family family_start(void)
{
	struct family family;
	int ready[2];

	assert_int_equal(pipe(ready), 0);
	family.child = fork();
	if (!family.child) {
		pid_t grandchild;

		prctl(PR_SET_NAME, "odd) R 1 (name");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		grandchild = fork();
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* not inherited */
		if (grandchild && write(ready[1], &grandchild, sizeof(grandchild)) < 0)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &family.grandchild, sizeof(pid_t)), sizeof(pid_t));
	close(ready[0]);
	close(ready[1]);
	return family;
}

static void family_end(const struct family *family)
{
	kill(family->grandchild, SIGKILL);
	kill(family->child, SIGKILL);
	waitpid(family->child, NULL, 0);
}

static size_t chosen(const struct processes *processes, pid_t pid)
{
	ssize_t at = processes_find(processes, pid);

	assert_true(at >= 0);
	return processes->entries.items[at].chosen;
}

static void children_follow_their_parent(void **state)
{
	struct family family = family_start();
	struct processes processes = {};

	assert_int_equal(processes_read(&processes), 0);
	assert_true(processes_find(&processes, getpid()) < 0);
	assert_true(processes_choose_pid(&processes, family.child));
	assert_false(chosen(&processes, family.grandchild));
	processes_choose_children(&processes);
	assert_true(chosen(&processes, family.grandchild));
	assert_false(chosen(&processes, 1));
	assert_false(processes_choose_pid(&processes, 0x7ffffff));
	processes_deinit(&processes);
	family_end(&family);
}

static void names_are_found(void **state)
{
	struct family family = family_start();
	struct processes processes = {};

	assert_int_equal(processes_read(&processes), 0);
	/* At least: what was killed before may not be gone yet. */
	assert_true(processes_choose_comm(&processes, "odd) R 1 (name") >= 2);
	assert_true(chosen(&processes, family.child) && chosen(&processes, family.grandchild));
	assert_int_equal(processes_choose_comm(&processes, "no process has this name"), 0);
	assert_true(processes_choose_comm(&processes, "processes_tes?") >= 2); /* the file's name */
	processes_deinit(&processes);
	family_end(&family);
}

static void control_groups_are_found(void **state)
{
	struct family family = family_start();
	struct processes processes = {};
	char path[64], line[4096] = "", *group;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)family.child);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		; /* the last line is the unified hierarchy's, or any */
	if (file)
		fclose(file);
	line[strcspn(line, "\n")] = '\0';
	group = strchr(line, ':') ? strchr(strchr(line, ':') + 1, ':') + 1 : NULL;
	if (group) {
		assert_int_equal(processes_read(&processes), 0);
		assert_true(processes_choose_cgroup(&processes, group) >= 2);
		assert_true(chosen(&processes, family.child));
		assert_int_equal(processes_choose_cgroup(&processes, "/no/such/group"), 0);
		assert_int_equal(processes_choose_container(&processes, "0123456789abcdef"), 0);
	}
	processes_deinit(&processes);
	family_end(&family);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_follow_their_parent),
		cmocka_unit_test(names_are_found),
		cmocka_unit_test(control_groups_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
