// SPDX-License-Identifier: BSD-2-Clause
// Serves: S6.
/*
 * The kernel is made to refuse one system call at a time, by a seccomp filter in a child, so that
 * each answer is seen both ways on any machine. tests/e2e/doctor.py compares the answers with other
 * programs.
 */
#include "capture/ability.h"

#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* From now on, nr fails with error; for good, so only in a child. */
static int syscall_forbid(int nr, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0 : -errno;
}

/* The answer that a child gets to which the kernel refuses the system call nr, unless nr is -1. */
static struct ability probe_in_child(enum ability_id id, int nr, int error, uid_t uid)
{
	struct ability *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ability result;
	int status;
	pid_t child;

	assert_ptr_not_equal(shared, MAP_FAILED);
	child = fork();
	if (child == 0) {
		if (uid != geteuid() && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
			_exit(1);
		if (nr >= 0 && syscall_forbid(nr, error) != 0)
			_exit(1);
		_exit(ability_probe(id, shared) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	result = *shared;
	munmap(shared, sizeof(*shared));
	return result;
}

static size_t descriptors_count(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void every_ability_is_answered_with_reason_and_remedy(void **state)
{
	for (int id = 0; id < ABILITY_COUNT; id++) {
		struct ability ability;

		memset(&ability, 0xff, sizeof(ability));
		assert_int_equal(ability_probe((enum ability_id)id, &ability), 0);
		assert_int_equal(ability.id, id);
		assert_true(strlen(ability.name) > 0 && strlen(ability.title) > 0);
		assert_true(strnlen(ability.detail, sizeof(ability.detail)) > 0);
		assert_int_equal(ability.yes, ability.remedy[0] == '\0');
	}
}

static void an_unknown_ability_is_refused(void **state)
{
	struct ability ability = { .detail = "untouched" };

	assert_int_equal(ability_probe(ABILITY_COUNT, &ability), -EINVAL);
	assert_string_equal(ability.detail, "untouched");
}

static void nothing_outlives_a_probe(void **state)
{
	struct ability ability;
	size_t before = descriptors_count();

	for (int id = 0; id < ABILITY_COUNT; id++)
		assert_int_equal(ability_probe((enum ability_id)id, &ability), 0);
	assert_int_equal(descriptors_count(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void a_refused_system_call_makes_a_no(void **state)
{
	static const struct {
		enum ability_id id;
		int nr, error;
	} cases[] = {
		{ ABILITY_SAMPLE_OWN, SYS_perf_event_open, EACCES },
		{ ABILITY_SAMPLE_OWN, SYS_perf_event_open, ENOSYS },
		{ ABILITY_SAMPLE_KERNEL, SYS_perf_event_open, EACCES },
		{ ABILITY_SAMPLE_SYSTEM, SYS_perf_event_open, EPERM },
		{ ABILITY_SAMPLE_RATE, SYS_perf_event_open, EINVAL },
		{ ABILITY_CYCLES, SYS_perf_event_open, ENOENT },
		{ ABILITY_INSTRUCTIONS, SYS_perf_event_open, EACCES },
		{ ABILITY_LOCKED_MEMORY, SYS_perf_event_open, EMFILE },
		{ ABILITY_LOCKED_MEMORY, SYS_mmap, EPERM },
		{ ABILITY_BPF_SAMPLER, SYS_bpf, EPERM },
		{ ABILITY_BPF_SAMPLER, SYS_ioctl, EINVAL },
		{ ABILITY_BPF_RING, SYS_bpf, EPERM },
		{ ABILITY_BPF_TRACEPOINT, SYS_bpf, EPERM },
		{ ABILITY_BPF_FENTRY, SYS_bpf, ENOSYS },
		{ ABILITY_BTF, SYS_openat, ENOENT },
		{ ABILITY_KERNEL_SYMBOLS, SYS_openat, ENOENT },
		{ ABILITY_ATTACH_OWN, SYS_ptrace, EPERM },
		{ ABILITY_ATTACH_OTHERS, SYS_process_vm_readv, EPERM },
		{ ABILITY_MAP_FILES, SYS_openat, EPERM },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ability ability =
			probe_in_child(cases[i].id, cases[i].nr, cases[i].error, geteuid());

		if (ability.yes)
			fail_msg("%s: yes although the kernel refuses: %s", ability.name,
				 ability.detail);
		assert_true(ability.remedy[0] != '\0');
	}
}

static void root_in_a_container_is_not_told_to_become_root(void **state)
{
	struct ability ability;

	if (geteuid() != 0)
		skip();
	ability = probe_in_child(ABILITY_SAMPLE_SYSTEM, SYS_perf_event_open, EPERM, 0);
	assert_non_null(strstr(ability.remedy, "container"));
	assert_null(strstr(ability.remedy, "run as root"));
	ability = probe_in_child(ABILITY_BPF_SAMPLER, SYS_bpf, EPERM, 0);
	assert_non_null(strstr(ability.remedy, "container"));
}

static void an_ordinary_user_is_told_to_become_root(void **state)
{
	static const enum ability_id ids[] = { ABILITY_BPF_SAMPLER, ABILITY_ATTACH_OTHERS,
					       ABILITY_MAP_FILES };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct ability ability =
			probe_in_child(ids[i], -1, 0, geteuid() == 0 ? 65534 : geteuid());

		assert_false(ability.yes);
		assert_non_null(strstr(ability.remedy, "run as root"));
	}
}

static void debuginfod_follows_the_environment(void **state)
{
	struct ability ability;

	unsetenv("DEBUGINFOD_URLS");
	ability_probe(ABILITY_DEBUGINFOD, &ability);
	assert_false(ability.yes);
	setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1", 1);
	ability_probe(ABILITY_DEBUGINFOD, &ability);
	assert_true(ability.yes || strstr(ability.detail, "not installed"));
	unsetenv("DEBUGINFOD_URLS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_ability_is_answered_with_reason_and_remedy),
		cmocka_unit_test(an_unknown_ability_is_refused),
		cmocka_unit_test(nothing_outlives_a_probe),
		cmocka_unit_test(a_refused_system_call_makes_a_no),
		cmocka_unit_test(root_in_a_container_is_not_told_to_become_root),
		cmocka_unit_test(an_ordinary_user_is_told_to_become_root),
		cmocka_unit_test(debuginfod_follows_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
