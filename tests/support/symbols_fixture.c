// SPDX-License-Identifier: BSD-2-Clause
#include "support/symbols_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/assay-symbols-XXXXXX";
static char command[4096];

#define FORMAT_COMMAND(format)                                                                     \
	do {                                                                                       \
		va_list args_;                                                                     \
		va_start(args_, format);                                                           \
		assert_true(vsnprintf(command, sizeof(command), format, args_) <                   \
			    (int)sizeof(command));                                                 \
		va_end(args_);                                                                     \
	} while (0)

static bool shell(const char *text, const char *output)
{
	char *const arguments[] = { "sh", "-c", (char *)text, NULL };
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	if (output)
		posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output,
						 O_CREAT | O_TRUNC | O_WRONLY, 0600);
	if (posix_spawn(&pid, "/bin/sh", &actions, NULL, arguments, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid)
		status = -1;
	posix_spawn_file_actions_destroy(&actions);
	return status == 0;
}

int fixture_setup(void **state)
{
	return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

int fixture_teardown(void **state)
{
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	return chdir("/") == 0 && shell(command, NULL) ? 0 : -1;
}

void fixture_run(const char *format, ...)
{
	FORMAT_COMMAND(format);
	if (!shell(command, NULL))
		fail_msg("%s: failed", command);
}

bool fixture_try(const char *format, ...)
{
	FORMAT_COMMAND(format);
	return shell(command, NULL);
}

FILE *fixture_output(const char *format, ...)
{
	FILE *file;

	FORMAT_COMMAND(format);
	shell(command, "output");
	file = fopen("output", "r");
	assert_non_null(file);
	/* The open file stays readable, and the next command has its own. */
	unlink("output");
	return file;
}

char *fixture_line(FILE *file, char *line, size_t size)
{
	if (!fgets(line, (int)size, file))
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	return line;
}

void fixture_write(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

int fixture_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail_msg("%s: cannot open", path);
	return fd;
}

int fixture_memory(const void *bytes, size_t size)
{
	int fd = memfd_create("fixture", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	return fd;
}
