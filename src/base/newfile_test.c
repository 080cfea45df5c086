// SPDX-License-Identifier: BSD-2-Clause
// Serves: S8.
/*
 * New files in a folder where another user has planted links, pipes and files. The folder is not
 * sticky, so that the kernel's fs.protected_* settings, whatever they are, protect nothing there.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/newfile.h"

enum { ATTACKER = 65534 };

static char folder[64], victim[96];

static char *in_folder(const char *name)
{
	return mem_printf("%s/%s", folder, name);
}

static void text_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void text_is(const char *path, const char *text)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_NOFOLLOW);
	char bytes[64] = {};

	assert_true(fd >= 0);
	assert_true(read(fd, bytes, sizeof(bytes) - 1) >= 0);
	assert_string_equal(bytes, text);
}

static int folder_make(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/newfile.XXXXXX");
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chmod(folder, 0777), 0);
	snprintf(victim, sizeof(victim), "%s.victim", folder);
	text_put(victim, "precious");
	return 0;
}

static int folder_remove(void **state)
{
	pid_t child = fork();

	if (child == 0)
		_exit(execlp("rm", "rm", "-rf", folder, victim, (char *)NULL));
	assert_int_equal(waitpid(child, NULL, 0), child);
	return 0;
}

/* Does it as the attacker; skips the test for callers who cannot become him. */
static void plant(int (*fn)(const char *from, const char *to), const char *from, const char *name)
{
	AUTO(free_ptr) char *to = in_folder(name);
	pid_t child;
	int status;

	if (geteuid() != 0)
		skip();
	child = fork();
	if (child == 0)
		_exit(setresgid(ATTACKER, ATTACKER, ATTACKER) ||
		      setresuid(ATTACKER, ATTACKER, ATTACKER) || fn(from, to));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static int make_fifo(const char *from, const char *to)
{
	return mkfifo(to, 0666) || chmod(to, 0666);
}

static int make_file(const char *from, const char *to)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_EXCL, 0666);

	return fd < 0 || fchmod(fd, 0666);
}

static int write_file(const char *path, const char *text)
{
	struct newfile file;
	int err = newfile_open(&file, path, 0666);

	if (err)
		return err;
	assert_int_equal(write(file.fd, text, strlen(text)), strlen(text));
	return newfile_finish(&file);
}

static void refused(const char *name)
{
	AUTO(free_ptr) char *path = in_folder(name);

	assert_int_equal(write_file(path, "new"), -EPERM);
	assert_non_null(strstr(err_text(), "another user"));
	text_is(victim, "precious");
}

static void foreign_link(void **state)
{
	plant(symlink, victim, "link");
	refused("link");
}

static unsigned mode_of_new(const char *name)
{
	AUTO(free_ptr) char *path = in_folder(name);
	mode_t mask = umask(077);
	struct stat info;

	assert_int_equal(write_file(path, "new"), 0);
	umask(mask);
	assert_int_equal(lstat(path, &info), 0);
	return info.st_mode & 07777;
}

/* What replaces a file has its mode, but not where another user can have put that file. */
static void mode_of_a_linked_file(void **state)
{
	AUTO(free_ptr) char *own = in_folder("own"), *linked = in_folder("linked");

	text_put(own, "old");
	assert_int_equal(chmod(own, 0644), 0);
	assert_int_equal(mode_of_new("own"), 0600);
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(chmod(own, 0644), 0);
	assert_int_equal(mode_of_new("own"), 0644);
	assert_int_equal(chmod(victim, 0644), 0);
	assert_int_equal(link(victim, linked), 0);
	assert_int_equal(mode_of_new("linked"), 0600);
	text_is(victim, "precious");
}

static void foreign_folder_link(void **state)
{
	plant(symlink, "/tmp", "way");
	refused("way/x");
}

static void foreign_pipe(void **state)
{
	plant(make_fifo, NULL, "pipe");
	refused("pipe");
}

/* Whoever links to root's link has not made it, but decides where it stands. */
static void hard_link_to_link(void **state)
{
	AUTO(free_ptr) char *own = in_folder("own"), *second = in_folder("second");

	assert_int_equal(symlink(victim, own), 0);
	assert_int_equal(linkat(AT_FDCWD, own, AT_FDCWD, second, 0), 0);
	refused("second");
}

/*
 * It is replaced: whoever has it open sees nothing of what is written, and its mode does not count.
 */
static void foreign_file(void **state)
{
	AUTO(free_ptr) char *path = in_folder("file");
	struct stat info;
	int kept;

	plant(make_file, NULL, "file");
	kept = open(path, O_RDONLY);
	assert_int_equal(write_file(path, "new"), 0);
	text_is(path, "new");
	assert_int_equal(fstat(kept, &info), 0);
	assert_int_equal(info.st_size, 0);
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_uid, geteuid());
	assert_int_equal(info.st_mode & 022, 0);
	close(kept);
}

static void own_link(void **state)
{
	AUTO(free_ptr) char *link = in_folder("mine"), *target = in_folder("sub/target");
	AUTO(free_ptr) char *sub = in_folder("sub");

	assert_int_equal(mkdir(sub, 0700), 0);
	text_put(target, "old");
	assert_int_equal(chmod(target, 0640), 0);
	assert_int_equal(symlink("sub/../sub/target", link), 0);
	assert_int_equal(write_file(link, "new"), 0);
	text_is(target, "new");
	struct stat info;
	assert_int_equal(lstat(link, &info), 0);
	assert_true(S_ISLNK(info.st_mode));
	assert_int_equal(stat(target, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0640);
}

static size_t files_in_folder(void)
{
	char text[4096] = {};
	int ends[2];
	pid_t child;
	ssize_t size;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		dup2(ends[1], 1);
		_exit(execlp("ls", "ls", "-A", folder, (char *)NULL));
	}
	close(ends[1]);
	size = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	waitpid(child, NULL, 0);
	return size > 0 ? (size_t)size : 0;
}

/* Nothing is seen of a file that is not finished, nor left of one that never was. */
static void unfinished(void **state)
{
	AUTO(free_ptr) char *path = in_folder("draft");
	struct newfile file;

	assert_int_equal(newfile_open(&file, path, 0666), 0);
	assert_int_equal(write(file.fd, "half", 4), 4);
	assert_int_equal(access(path, F_OK), -1);
	newfile_drop(&file);
	assert_int_equal(files_in_folder(), 0);
}

static void killed(void **state)
{
	AUTO(free_ptr) char *path = in_folder("draft");
	struct newfile file;
	pid_t child = fork();

	if (child == 0) {
		if (newfile_open(&file, path, 0666) || write(file.fd, "half", 4) != 4)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(files_in_folder(), 0);
}

static void in_place(void **state)
{
	AUTO(free_ptr) char *folder_path = in_folder("d");

	assert_int_equal(write_file("/dev/null", "x"), 0);
	assert_int_equal(access("/dev/null", W_OK), 0);
	assert_int_equal(mkdir(folder_path, 0700), 0);
	assert_int_equal(write_file(folder_path, "x"), -EISDIR);
	assert_int_equal(write_file("/", "x"), -EISDIR);
	assert_int_equal(write_file("", "x"), -EISDIR);
	assert_int_equal(write_file("/dev/null/x", "x"), -ENOTDIR);
	assert_int_equal(write_file("/nonexistent-folder/x", "x"), -ENOENT);
}

/* /dev/stdout leads through links of /proc, which have no text. */
static void standard_output(void **state)
{
	int ends[2], kept = dup(STDOUT_FILENO);
	char bytes[8] = {};

	assert_int_equal(pipe(ends), 0);
	fflush(stdout);
	dup2(ends[1], STDOUT_FILENO);
	int err = write_file("/dev/stdout", "new");
	dup2(kept, STDOUT_FILENO);
	assert_int_equal(err, 0);
	assert_int_equal(read(ends[0], bytes, sizeof(bytes)), 3);
	assert_string_equal(bytes, "new");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(foreign_link), TEST(foreign_folder_link), TEST(mode_of_a_linked_file),
		TEST(foreign_pipe), TEST(hard_link_to_link),   TEST(foreign_file),
		TEST(own_link),	    TEST(unfinished),	       TEST(killed),
		TEST(in_place),	    TEST(standard_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
