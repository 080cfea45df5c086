// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/starter.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/array.h"
#include "base/err.h"
#include "base/log.h"
#include "marks/spec.h"

/* What the page may ask for, and how the command line begins that does it. */
static const struct {
	const char *way;
	const char *words[3];
	bool marks; /* takes a mark, which becomes the next word */
} ways[] = {
	{ "samples", { "record" } },
	{ "values", { "record", "--values" } },
	{ "operands", { "record", "--values=result,operands,address,loaded,stored,taken,target" } },
	{ "paths", { "trace" } },
	{ "counts", { "trace", "--tool", "count" } },
	{ "marks", { "count", "-m" }, .marks = true },
};

/* The mark is a word of its own, never of a shell, and is read here first: nothing else gets on. */
static int mark_check(const char *mark)
{
	struct mark_spec spec;
	int err = mark_spec_parse(mark, &spec);

	if (!err)
		mark_spec_deinit(&spec);
	return err;
}

static int way_find(const char *wish, size_t *ret, const char **ret_mark)
{
	size_t length = strcspn(wish, " ");
	const char *mark = wish[length] ? wish + length + 1 : NULL;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		int err = 0;

		if (strlen(ways[i].way) != length || strncmp(ways[i].way, wish, length) ||
		    ways[i].marks != (mark != NULL))
			continue;
		err = mark ? mark_check(mark) : 0;
		if (err)
			return err;
		*ret = i;
		*ret_mark = mark;
		return 0;
	}
	return err_set(-EINVAL, "only samples, values, operands, paths, counts, and marks with one "
				"mark can be recorded from here");
}

static int process_start(struct starter *starter, size_t way, const char *mark)
{
	extern char **environ;
	ARRAY(const char *) words = {};
	posix_spawnattr_t attributes;
	sigset_t none;
	int err;

	*array_push(&words) = "assay";
	for (size_t i = 0; i < 3 && ways[way].words[i]; i++)
		*array_push(&words) = ways[way].words[i];
	if (mark)
		*array_push(&words) = mark;
	*array_push(&words) = "-o";
	*array_push(&words) = starter->path;
	*array_push(&words) = "--";
	for (char *const *word = starter->command; *word; word++)
		*array_push(&words) = *word;
	*array_push(&words) = NULL;
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	err = posix_spawn(&starter->running, "/proc/self/exe", NULL, &attributes,
			  (char *const *)words.items, environ);
	posix_spawnattr_destroy(&attributes);
	array_deinit(&words);
	if (err) {
		starter->running = 0;
		return err_set(-err, "cannot start a recording: %s", strerror(err));
	}
	return 0;
}

int starter_start(struct starter *starter, const char *wish)
{
	const char *mark = NULL;
	size_t index = 0;
	int err;

	if (!starter->command)
		return err_set(-EACCES, "this server was not started with --allow-start; run the "
					"command in a terminal");
	err = way_find(wish, &index, &mark);
	if (err)
		return err;
	starter_look(starter);
	if (starter->running)
		return err_set(-EBUSY, "a recording is running; wait for its end");
	log_info("the page has asked for a recording of %s", ways[index].way);
	err = process_start(starter, index, mark);
	if (!err)
		starter->way = ways[index].way;
	return err;
}

static void ended(struct starter *starter, int status)
{
	starter->running = 0;
	starter->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void starter_look(struct starter *starter)
{
	int status;

	if (starter->running && waitpid(starter->running, &status, WNOHANG) == starter->running)
		ended(starter, status);
}

void starter_end(struct starter *starter)
{
	int status;

	starter_look(starter);
	if (!starter->running)
		return;
	kill(starter->running, SIGTERM);
	if (waitpid(starter->running, &status, 0) == starter->running)
		ended(starter, status);
}
