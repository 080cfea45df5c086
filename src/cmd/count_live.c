// SPDX-License-Identifier: BSD-2-Clause
/* assay count --live: the other side of an assay count that runs. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "cmd/cmd.h"
#include "cmd/control.h"
#include "cmd/count.h"

static void json_release(json_t **object)
{
	json_decref(*object);
}

static int socket_ask(pid_t pid, const char *request, char **ret)
{
	AUTO(free_ptr) char *name = mem_printf("count.%d", (int)pid);
	const struct control_peer anybody = {};
	int err = control_ask(name, &anybody, request, ret);

	if (err == -ESRCH)
		return err_set(
			err, "nobody counts in process %d; begin with 'assay count -p %d -m MARK'",
			(int)pid, (int)pid);
	return err == -EPERM ? err_set(err, "another user counts in process %d", (int)pid) : err;
}

/* The answer comes from another process: names in it are escaped before they are printed. */
static int ask(const struct count_options *given, const char *request, json_t **ret)
{
	AUTO(free_ptr) char *text = NULL;
	AUTO(json_release) json_t *answer = NULL;
	const char *error;
	int err = socket_ask((pid_t)given->live, request, &text);

	if (err)
		return err;
	answer = json_loads(text, 0, NULL);
	if (!json_is_object(answer))
		return err_set(-EPROTO, "what the assay count of process %u answers is not JSON",
			       given->live);
	error = json_string_value(json_object_get(answer, "error"));
	if (error)
		return err_set(-EINVAL, "%s", error);
	*ret = json_incref(answer);
	return 0;
}

static int change(const struct count_options *given, const char *what, const char *mark)
{
	AUTO(free_ptr) char *request = mem_printf("%s %s", what, mark);
	AUTO(json_release) json_t *answer = NULL;

	return ask(given, request, &answer);
}

static int changes_make(const struct count_options *given)
{
	int err = 0;

	for (size_t i = 0; i < given->remove.count && !err; i++)
		err = change(given, "remove", given->remove.items[i]);
	for (size_t i = 0; i < given->add.count && !err; i++)
		err = change(given, "add", given->add.items[i]);
	return err;
}

static long long number_of(const json_t *row, const char *name)
{
	return (long long)json_integer_value(json_object_get(row, name));
}

/* Prints a row: reads and writes of data, or visits of code, with percentiles if they are timed. */
static void row_print(const json_t *row, const char *mark)
{
	if (json_object_get(row, "reads"))
		printf("%10lld reads  %9lld writes  %14s  ", number_of(row, "reads"),
		       number_of(row, "writes"), "");
	else
		printf("%16lld  %16lld  %14.1f  ", number_of(row, "visits"),
		       number_of(row, "instructions"),
		       json_number_value(json_object_get(row, "visits_per_second")));
	fputs(mark, stdout);
	if (number_of(row, "p50_ns"))
		printf(": p50 %lld ns, p99 %lld ns", number_of(row, "p50_ns"),
		       number_of(row, "p99_ns"));
	puts(json_is_true(json_object_get(row, "counting")) ? "" : " (removed)");
}

static void reading_print(const json_t *answer)
{
	const json_t *row;
	size_t i;

	printf("%16s  %16s  %14s  %s\n", "visits", "instructions", "visits/s", "mark");
	json_array_foreach(json_object_get(answer, "rows"), i, row)
	{
		const char *mark = json_string_value(json_object_get(row, "mark"));
		struct strbuf safe = {};

		utf8_escape(&safe, mark ? mark : "");
		row_print(row, strbuf_text(&safe));
		strbuf_deinit(&safe);
	}
}

static int reading_show(const struct count_options *given)
{
	AUTO(json_release) json_t *answer = NULL;
	int err = ask(given, "read", &answer);

	if (err)
		return err;
	if (given->json) {
		json_dumpf(answer, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		reading_print(answer);
	}
	return fflush(stdout) ? err_set(-errno, "cannot write what was read: %m") : 0;
}

static void pause_for(double seconds)
{
	const struct timespec moment = { .tv_sec = (time_t)seconds,
					 .tv_nsec = (long)((seconds - (double)(time_t)seconds) *
							   NS_PER_S) };

	nanosleep(&moment, NULL);
}

/* Once; or again and again, until the count is over. */
int count_live(const struct count_options *given)
{
	bool changes = given->add.count || given->remove.count;
	int err = changes_make(given);

	if (!err && (!changes || given->every > 0))
		err = reading_show(given);
	while (!err && given->every > 0) {
		pause_for(given->every);
		err = reading_show(given);
		if (err == -ESRCH)
			return EXIT_DONE;
	}
	return err ? command_failure() : EXIT_DONE;
}
