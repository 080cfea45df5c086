// SPDX-License-Identifier: BSD-2-Clause
/* assay ctl: the other side of an assay record that runs; sampling_control.h is the first. */
#include "cmd/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/newfile.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "cmd/cmd.h"
#include "cmd/control.h"
#include "store/snapshot.h"

static void json_release(json_t **object)
{
	json_decref(*object);
}

/* --- The request ------------------------------------------------------------------------------ */

static int by_pid_ask(pid_t pid, const char *request, char **ret)
{
	AUTO(free_ptr) char *name = mem_printf("record.%d", (int)pid);
	const struct control_peer peer = { .pid = pid };
	int err = control_ask(name, &peer, request, ret);

	if (err == -ESRCH)
		return err_set(err, "process %d is no assay record that runs on this machine",
			       (int)pid);
	return err == -EPERM ? err_set(err, "process %d is another user's recording", (int)pid)
			     : err;
}

/* The recorder has the same user as the owner of the profile. */
static int by_file_ask(const char *path, const char *request, char **ret)
{
	AUTO(free_ptr) char *name = NULL;
	struct control_peer peer = { .owned = true };
	struct stat file;
	int err;

	if (stat(path, &file))
		return err_set(-errno,
			       "%s: %s; name the profile that is recorded with -i, or its recorder "
			       "with -p",
			       path, errno == ENOENT ? "no such profile" : strerror(errno));
	name = mem_printf("record.%llx.%llx", (unsigned long long)file.st_dev,
			  (unsigned long long)file.st_ino);
	peer.user = file.st_uid;
	err = control_ask(name, &peer, request, ret);
	if (err == -ESRCH)
		return err_set(err,
			       "%s: nobody records it: it may be complete already, or its "
			       "recording is still about to begin",
			       path);
	return err == -EPERM ? err_set(err, "%s: another user records it", path) : err;
}

/* The answer comes from another process and is escaped before it is printed. */
static int ask(const struct ctl_options *given, const char *request, json_t **ret)
{
	AUTO(free_ptr) char *text = NULL;
	AUTO(json_release) json_t *answer = NULL;
	const char *error;
	int err = given->pid ? by_pid_ask((pid_t)given->pid, request, &text)
			     : by_file_ask(given->input, request, &text);

	if (err)
		return err;
	answer = json_loads(text, 0, NULL);
	if (!json_is_object(answer))
		return err_set(-EPROTO, "what the assay record answers is not JSON");
	error = json_string_value(json_object_get(answer, "error"));
	if (error)
		return err_set(-EINVAL, "%s", error);
	*ret = json_incref(answer);
	return 0;
}

/* --- The answer ------------------------------------------------------------------------------- */

static long long number(const json_t *object, const char *key)
{
	return (long long)json_integer_value(json_object_get(object, key));
}

static void text_print(const char *label, const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	struct strbuf safe = {};

	utf8_escape(&safe, text ? text : "");
	printf("%-10s%s\n", label, strbuf_text(&safe));
	strbuf_deinit(&safe);
}

static void totals_print(const char *label, const json_t *totals)
{
	printf("%-10s%lld seen, %lld kept, %lld lost\n", label, number(totals, "seen"),
	       number(totals, "kept"), number(totals, "lost"));
}

static void runs_print(const json_t *runs)
{
	const json_t *share = json_object_get(runs, "run_share");

	totals_print("runs", runs);
	printf("%-10s%lld instructions, after up to %lld that are passed over; ", "length",
	       number(runs, "run_length"), number(runs, "run_skip"));
	if (share)
		printf("%.6g %% of the time\n", 100 * json_number_value(share));
	else
		printf("one for %lld samples\n", number(runs, "run_every"));
}

static void status_print(const json_t *answer)
{
	const json_t *runs = json_object_get(answer, "runs");

	text_print("state", answer, "state");
	printf("%-10s%lld\n", "recorder", number(answer, "pid"));
	text_print("profile", answer, "profile");
	printf("%-10s%.1f s, %.1f of them paused\n", "time",
	       json_number_value(json_object_get(answer, "seconds")),
	       json_number_value(json_object_get(answer, "paused_seconds")));
	text_print("event", answer, "event");
	if (json_object_get(answer, "freq"))
		printf("%-10s%lld a second and CPU in use\n", "rate", number(answer, "freq"));
	else
		printf("%-10sone sample for %lld\n", "count", number(answer, "count"));
	totals_print("samples", json_object_get(answer, "samples"));
	if (runs)
		runs_print(runs);
}

static int answer_print(const struct ctl_options *given, const json_t *answer)
{
	if (given->json) {
		json_dumpf(answer, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		putchar('\n');
	} else {
		status_print(answer);
	}
	return command_output_check();
}

/* --- A copy of the profile -------------------------------------------------------------------- */

static int bytes_copy(int from, int to, const char *path)
{
	char part[1 << 16];
	ssize_t got;

	while ((got = read(from, part, sizeof(part))) > 0)
		for (ssize_t done = 0, put; done < got; done += put)
			if ((put = write(to, part + done, (size_t)(got - done))) < 0)
				return err_set(-errno, "%s: cannot be written: %s", path,
					       strerror(errno));
	return got < 0 ? err_set(-errno, "the copy of the profile cannot be read: %s",
				 strerror(errno))
		       : 0;
}

static int copy_place(const char *copy, const char *path)
{
	AUTO(close_fd) int fd = open(copy, O_RDONLY | O_CLOEXEC);
	struct newfile file;
	int err;

	if (fd < 0)
		return err_set(-errno, "%s: cannot be read: %s", copy, strerror(errno));
	err = newfile_open(&file, path, 0600);
	if (err)
		return err;
	err = bytes_copy(fd, file.fd, path);
	if (!err)
		return newfile_finish(&file);
	newfile_drop(&file);
	return err;
}

/*
 * SQLite makes it in a folder of our own, where no other user can put a link; then it goes where it
 * is wanted.
 */
static int copy_make(const char *profile, const char *path)
{
	const char *base = getenv("TMPDIR");
	AUTO(free_ptr) char *folder = mem_printf("%s/assay-ctl-XXXXXX", base ? base : "/tmp");
	AUTO(free_ptr) char *copy = NULL;
	int err;

	if (!mkdtemp(folder))
		return err_set(-errno,
			       "%s: cannot make a folder for the copy: %s; name another place in "
			       "TMPDIR",
			       folder, strerror(errno));
	copy = mem_printf("%s/profile", folder);
	err = store_snapshot(profile, copy);
	err = err ? err : copy_place(copy, path);
	unlink(copy);
	rmdir(folder);
	return err;
}

static int snapshot(const struct ctl_options *given, const json_t *answer)
{
	const char *profile = json_string_value(json_object_get(answer, "profile"));
	int err;

	if (!given->output)
		return answer_print(given, answer);
	profile = given->pid ? profile : given->input;
	err = profile ? copy_make(profile, given->output)
		      : err_set(-EPROTO, "the assay record does not say what it records");
	if (err)
		return command_failure();
	log_info("a snapshot was written to %s", given->output);
	return given->json ? answer_print(given, answer) : EXIT_DONE;
}

/* --- The command line ------------------------------------------------------------------------- */

static bool is_known(const struct command *command, const char *verb)
{
	const char *name, *summary;

	for (size_t i = 0; (name = command->names(i, &summary)); i++)
		if (!strcmp(name, verb))
			return true;
	return false;
}

static int words_check(const struct command *command, const struct ctl_options *given, char **words)
{
	bool set = *words && !strcmp(*words, "set");

	if (!*words || !is_known(command, *words))
		return err_set(-EINVAL, "ctl takes what to do: status, pause, resume, snapshot or "
					"set NAME=VALUE");
	if (words[1] && !set)
		return err_set(-EINVAL, "'%s': %s takes no arguments", words[1], *words);
	if (!words[1] && set)
		return err_set(-EINVAL, "set takes settings such as freq=499 or run-length=128");
	if (given->output && strcmp(*words, "snapshot") != 0)
		return err_set(-EINVAL, "--output is of use only with snapshot");
	return 0;
}

/* The words with blanks between them. */
static int request_make(char **words, struct strbuf *ret)
{
	for (; *words; words++) {
		if (strpbrk(*words, " \n") || !**words)
			return err_set(-EINVAL, "'%s': a setting is NAME=VALUE", *words);
		strbuf_printf(ret, "%s%s", ret->length ? " " : "", *words);
	}
	return 0;
}

static int request_run(const struct ctl_options *given, const char *request)
{
	AUTO(json_release) json_t *answer = NULL;

	if (ask(given, request, &answer))
		return command_failure();
	return strcmp(request, "snapshot") == 0 ? snapshot(given, answer)
						: answer_print(given, answer);
}

int cmd_ctl(const struct command *command, int argc, char **argv)
{
	struct ctl_options given = {};
	struct strbuf request = {};
	struct options options;
	int first, code, err;

	options_init(&options, command->groups, &given);
	err = options_parse(&options, OPTIONS_ANYWHERE, argc, argv, &first);
	if (!err && options.help) {
		code = command_help(command);
	} else {
		if (!err && given.pid && options_given(&options, "input"))
			err = err_set(-EINVAL, "--input and --pid exclude each other");
		err = err ? err : words_check(command, &given, argv + first);
		err = err ? err : request_make(argv + first, &request);
		code = err ? command_usage_error(command)
			   : request_run(&given, strbuf_text(&request));
	}
	strbuf_deinit(&request);
	options_deinit(&options);
	return code;
}
