// SPDX-License-Identifier: BSD-2-Clause
#include "report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/newfile.h"

extern char **environ;

static int file_open(struct output *output, const char *path)
{
	int err = newfile_open(&output->target, path, 0666);

	if (err)
		return err;
	output->path = mem_strdup(path);
	output->file = newfile_stream(&output->target);
	if (!output->file)
		return err_set(-errno, "%s: cannot be written: %s", path, strerror(errno));
	output->terminal = output->target.in_place && isatty(fileno(output->file));
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

	*output = (struct output){ .target = { .dir = -1, .fd = -1 } };
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

int output_stream_check(FILE *file)
{
	errno = 0;
	if (fflush(file))
		return errno ? errno : EIO;
	if (!ferror(file))
		return 0;
	/* It failed earlier, and the reason is lost; what is written now fails for the same. */
	clearerr(file);
	return fputc('\n', file) == EOF || fflush(file) ? errno : EIO;
}

static int stream_close(struct output *output)
{
	int err;

	if (!output->file)
		return 0;
	err = output_stream_check(output->file);
	if (output->file != stdout && fclose(output->file) && !err)
		err = errno;
	output->file = NULL;
	return err == EPIPE && !output->path ? 0 : err;
}

/* Gives the file its name, or removes it if it is not whole. */
static int file_finish(struct output *output, bool ok, int err)
{
	if (!err && ok)
		return newfile_finish(&output->target);
	newfile_drop(&output->target);
	if (!err)
		return 0;
	return err_set(-err, "%s: cannot be written: %s; give another file with -o", output->path,
		       strerror(err));
}

int output_close(struct output *output, bool ok)
{
	int err;

	err = stream_close(output);
	if (output->path)
		err = file_finish(output, ok, err);
	else if (err)
		err = err_set(-err, "standard output: cannot be written: %s", strerror(err));
	if (output->pager > 0)
		while (waitpid(output->pager, NULL, 0) < 0 && errno == EINTR)
			;
	free(output->path);
	*output = (struct output){ .target = { .dir = -1, .fd = -1 } };
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
