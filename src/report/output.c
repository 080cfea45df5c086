// SPDX-License-Identifier: BSD-2-Clause
#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

extern char **environ;

static int failed(const char *path, int err)
{
	return err_set(-err, "%s: cannot be written: %s; give another file with -o", path,
		       strerror(err));
}

/* The mode a file gets that is simply created, or that of the file to be replaced. */
static mode_t wanted_mode(const char *path)
{
	mode_t mask = umask(0);
	struct stat status;

	umask(mask);
	return stat(path, &status) == 0 ? status.st_mode & 0777 : 0666 & ~mask;
}

/* Devices and pipes are written to; they are not replaced. */
static int in_place_open(struct output *output)
{
	output->file = fopen(output->path, "we");
	if (!output->file)
		return failed(output->path, errno);
	output->terminal = isatty(fileno(output->file));
	return 0;
}

static int file_open(struct output *output, const char *path)
{
	AUTO(close_fd) int fd = -1;
	struct stat status;
	char *real = realpath(path, NULL); /* a symbolic link stays one */

	output->path = real ? real : mem_strdup(path);
	if (stat(output->path, &status) == 0 && !S_ISREG(status.st_mode))
		return in_place_open(output);
	output->temporary = mem_printf("%s.XXXXXX", output->path);
	fd = mkostemp(output->temporary, O_CLOEXEC);
	if (fd < 0) {
		int err = errno;

		free(take_ptr(output->temporary));
		return failed(output->path, err);
	}
	fchmod(fd, wanted_mode(output->path));
	output->file = fdopen(fd, "w");
	if (!output->file)
		return failed(output->path, errno);
	take_fd(fd);
	return 0;
}

static const char *pager_command(void)
{
	const char *pager = getenv("PAGER");

	if (!pager)
		return "less -FRX";
	return *pager && strcmp(pager, "cat") ? pager : NULL;
}

/* Runs the pager with its standard input from us; true when it started. */
static bool pager_start(struct output *output, const char *command)
{
	char *const argv[] = { "sh", "-c", (char *)command, NULL };
	posix_spawn_file_actions_t actions;
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC))
		return false;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
	err = posix_spawn(&output->pager, "/bin/sh", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[0]);
	output->file = err ? NULL : fdopen(ends[1], "w");
	if (output->file)
		return true;
	close(ends[1]);
	return false;
}

int output_open(struct output *output, const char *path, bool pager)
{
	const char *command = pager && isatty(STDOUT_FILENO) ? pager_command() : NULL;
	int err = 0;

	*output = (struct output){};
	if (path && strcmp(path, "-")) {
		err = file_open(output, path);
		if (err)
			output_close(output, false);
		return err;
	}
	signal(SIGPIPE, SIG_IGN);
	output->terminal = isatty(STDOUT_FILENO);
	if (!command || !pager_start(output, command)) {
		output->pager = 0;
		output->file = stdout;
	}
	return 0;
}

static int stream_close(struct output *output)
{
	int err = 0;

	if (!output->file)
		return 0;
	if (fflush(output->file) || ferror(output->file))
		err = errno ? errno : EIO;
	if (output->file != stdout && fclose(output->file) && !err)
		err = errno;
	output->file = NULL;
	return err == EPIPE && !output->path ? 0 : err;
}

static int file_finish(struct output *output, bool ok, int err)
{
	if (!err && ok && rename(output->temporary, output->path) == 0)
		return 0;
	if (!err && ok)
		err = errno;
	unlink(output->temporary);
	return err;
}

int output_close(struct output *output, bool ok)
{
	int err;

	errno = 0;
	err = stream_close(output);
	if (output->temporary)
		err = file_finish(output, ok, err);
	if (output->pager > 0)
		while (waitpid(output->pager, NULL, 0) < 0 && errno == EINTR)
			;
	if (err)
		err = failed(output->path ? output->path : "standard output", err);
	free(output->temporary);
	free(output->path);
	*output = (struct output){};
	return ok ? err : 0;
}

bool output_color(const struct output *output, enum output_color wish)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (wish != COLOR_AUTO)
		return wish == COLOR_ALWAYS;
	return output->terminal && !(no_color && *no_color) && term && strcmp(term, "dumb");
}

size_t output_width(const struct output *output, size_t wish)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;

	if (wish)
		return wish;
	if (!output->terminal)
		return 0;
	if (columns && strtoul(columns, NULL, 10) > 0)
		return strtoul(columns, NULL, 10);
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	return 80;
}
