// SPDX-License-Identifier: BSD-2-Clause
// Serves: W1.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "inject/program.h"

static char folder[] = "/tmp/program_test.XXXXXX";

static int folder_make(void **state)
{
	return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
	AUTO(free_ptr) char *file = mem_printf("%s/program", folder);

	unlink(file);
	return rmdir(folder);
}

/* A file with these bytes and mode; always the same one. */
static char *file_make(const void *bytes, size_t size, mode_t mode, uid_t uid, gid_t gid)
{
	char *path = mem_printf("%s/program", folder);
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, bytes, size), size);
	if (uid != getuid() || gid != getgid())
		assert_int_equal(fchown(fd, uid, gid), 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static enum program_obstacle check(const void *bytes, size_t size, mode_t mode,
				   const struct program_user *user)
{
	AUTO(free_ptr) char *path = file_make(bytes, size, mode, getuid(), getgid());

	return program_check(path, "", user);
}

static void test_find(void **state)
{
	AUTO(free_ptr) char *path = NULL;
	AUTO(free_ptr) char *other = NULL;

	assert_int_equal(program_find("sh", &path), 0);
	assert_int_equal(access(path, X_OK), 0);
	assert_string_equal(strrchr(path, '/'), "/sh");
	assert_int_equal(program_find("/bin/sh", &other), 0);
	assert_string_equal(other, "/bin/sh");
	other = (free(other), NULL);
	assert_int_equal(program_find("no-such-command", &other), -ENOENT);
	assert_string_equal(err_text(), "cannot run 'no-such-command': No such file or directory");
	assert_int_equal(program_find("/etc/passwd", &other), -EACCES);
	assert_int_equal(program_find("/tmp", &other), -EACCES);
	assert_null(other);
}

static void test_foreign(void **state)
{
	const struct program_user user = { .uid = getuid(), .gid = getgid() };
	Elf64_Ehdr header = { .e_ident = ELFMAG "\2\1\1", .e_machine = EM_X86_64 };
	char bytes[128] = {};

	memcpy(bytes, &header, sizeof(header));
	assert_int_equal(check(bytes, sizeof(bytes), 0755, &user), PROGRAM_FINE);
	bytes[EI_CLASS] = ELFCLASS32;
	assert_int_equal(check(bytes, sizeof(bytes), 0755, &user), PROGRAM_FOREIGN);
	header.e_machine = EM_AARCH64;
	memcpy(bytes, &header, sizeof(header));
	assert_int_equal(check(bytes, sizeof(bytes), 0755, &user), PROGRAM_FOREIGN);
	assert_int_equal(check("", 0, 0755, &user), PROGRAM_FINE);
}

static void test_privileged(void **state)
{
	struct program_user self = { .uid = getuid(), .gid = getgid() };
	struct program_user other = { .uid = getuid() + 1, .gid = getgid() + 1 };

	assert_int_equal(check("x", 1, 0755, &other), PROGRAM_FINE);
	assert_int_equal(check("x", 1, 04755, &other), PROGRAM_PRIVILEGED);
	assert_int_equal(check("x", 1, 02755, &other), PROGRAM_PRIVILEGED);
	assert_int_equal(check("x", 1, 02745, &other), PROGRAM_FINE);
	assert_int_equal(check("x", 1, 06755, &self), PROGRAM_FINE);
	other.no_new_privileges = true;
	assert_int_equal(check("x", 1, 06755, &other), PROGRAM_FINE);
}

/* The kernel looks at the interpreter, and so must we. */
static void test_script(void **state)
{
	static const char *const lines[] = { "#!/bin/su\n", "#! \t/bin/su -c\nrest", "#!/bin/su" };
	const struct program_user user = { .uid = 65534, .gid = 65534 };
	struct stat status;

	if (stat("/bin/su", &status) || !(status.st_mode & S_ISUID))
		skip();
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(check(lines[i], strlen(lines[i]), 0755, &user),
				 PROGRAM_PRIVILEGED);
	assert_int_equal(check("#!/bin/sh\n", 10, 0755, &user), PROGRAM_FINE);
	assert_int_equal(check("#!", 2, 0755, &user), PROGRAM_FINE);
	assert_int_equal(check("#!\n", 3, 0755, &user), PROGRAM_FINE);
}

/* A script that names itself ends, as it does in the kernel. */
static void test_script_of_itself(void **state)
{
	const struct program_user user = { .uid = 65534, .gid = 65534 };
	AUTO(free_ptr) char *line = mem_printf("#!%s/program\n", folder);

	assert_int_equal(check(line, strlen(line), 0755, &user), PROGRAM_FINE);
}

static void test_user(void **state)
{
	struct program_user user;
	int status;
	pid_t pid;

	assert_int_equal(program_user_get(getpid(), &user), 0);
	assert_int_equal(user.uid, geteuid());
	assert_int_equal(user.gid, getegid());
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		_exit(program_user_get(getpid(), &user) || !user.no_new_privileges);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(program_user_get(1 << 30, &user), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_privileged),
		cmocka_unit_test(test_script),
		cmocka_unit_test(test_script_of_itself),
		cmocka_unit_test(test_user),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
