// SPDX-License-Identifier: BSD-2-Clause
/*
 * assay top: what takes the time right now. A recorder runs as a process of its own and writes a
 * profile that is thrown away at the end; what is shown are its last seconds.
 */
#include "cmd/top.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/browse.h"
#include "cmd/cmd.h"
#include "cmd/served.h"

enum { BEGIN_MS = 30000, LOOK_MS = 50 };

struct top {
	struct top_options given;
	char *const *command;
	char *folder, *profile, *talk; /* the folder, and in it the profile and what record says */
	pid_t recorder;
	struct served *served;
};

static int folder_make(struct top *top)
{
	const char *base = getenv("TMPDIR");
	AUTO(free_ptr) char *name = mem_printf("%s/assay-top-XXXXXX", base ? base : "/tmp");

	if (!mkdtemp(name))
		return err_set(-errno, "%s: cannot make a folder: %s; name another place in TMPDIR",
			       name, strerror(errno));
	top->folder = take_ptr(name);
	top->profile = mem_printf("%s/assay.db", top->folder);
	top->talk = mem_printf("%s/talk", top->folder);
	return 0;
}

static void folder_remove(struct top *top)
{
	static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };

	if (!top->folder)
		return;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		AUTO(free_ptr) char *name = mem_printf("%s%s", top->profile, suffixes[i]);

		unlink(name);
	}
	unlink(top->talk);
	rmdir(top->folder);
}

/* The command line of the recorder; what is printed into *texts lives as long as that does. */
static void words_make(const struct top *top, struct strbuf texts[3], const char **ret)
{
	size_t count = 0;

	strbuf_printf(&texts[0], "%" PRIu64, top->given.frequency);
	for (size_t i = 0; i < top->given.pids.count; i++)
		strbuf_printf(&texts[1], "%s%" PRId64, i ? "," : "", top->given.pids.items[i]);
	strbuf_printf(&texts[2], "--values=%s", top->given.values ? top->given.values : "");
	ret[count++] = "assay";
	ret[count++] = "record";
	ret[count++] = "-q";
	ret[count++] = "-o";
	ret[count++] = top->profile;
	ret[count++] = "-F";
	ret[count++] = strbuf_text(&texts[0]);
	if (top->given.values)
		ret[count++] = strbuf_text(&texts[2]);
	if (top->given.pids.count) {
		ret[count++] = "-p";
		ret[count++] = strbuf_text(&texts[1]);
	} else if (!*top->command) {
		ret[count++] = "-a";
	}
	ret[count++] = "--";
	for (char *const *word = top->command; *word; word++)
		ret[count++] = *word;
	ret[count - (strcmp(ret[count - 1], "--") == 0)] = NULL;
}

/* What the recorder and a command say would end up between the rows: it is kept for the end. */
static int recorder_start(struct top *top)
{
	extern char **environ;
	posix_spawn_file_actions_t actions;
	struct strbuf texts[3] = {};
	size_t words = 16;
	AUTO(free_ptr) const char **argv = NULL;
	int err;

	for (char *const *word = top->command; *word; word++)
		words++;
	argv = mem_zalloc(words * sizeof(*argv));
	words_make(top, texts, argv);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, top->talk,
					 O_WRONLY | O_CREAT | O_APPEND, 0600);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	err = posix_spawn(&top->recorder, "/proc/self/exe", &actions, NULL, (char *const *)argv,
			  environ);
	posix_spawn_file_actions_destroy(&actions);
	for (size_t i = 0; i < 3; i++)
		strbuf_deinit(&texts[i]);
	return err ? err_set(-err, "the recorder cannot be started: %s", strerror(err)) : 0;
}

static bool recorder_is_gone(struct top *top)
{
	if (!top->recorder || waitpid(top->recorder, NULL, WNOHANG) != top->recorder)
		return !top->recorder;
	top->recorder = 0;
	return true;
}

static void talk_print(const struct top *top)
{
	FILE *file = fopen(top->talk, "r");
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		fputs(line, stderr);
	if (file)
		fclose(file);
}

/* Until there is something to show. */
static int recorder_await(struct top *top)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * NS_PER_MS };
	const struct page_wish none = {};
	uint64_t end = clock_monotonic() + BEGIN_MS * (uint64_t)NS_PER_MS;

	while (served_create(top->profile, &none, &top->served)) {
		if (recorder_is_gone(top)) {
			talk_print(top);
			return err_set(-ECHILD, "nothing can be recorded; see above");
		}
		if (clock_monotonic() > end)
			return err_set(-ETIMEDOUT, "the recorder does not begin");
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int show(struct top *top)
{
	static const char *const views[] = { "functions",  "processes", "threads",
					     "modules",	   "lines",	"args",
					     "invariants", "losses",	NULL };
	AUTO(free_ptr) char *title = mem_printf("top, last %u s", top->given.window);
	const struct browse_options options = {
		.view = "functions", .views = views, .window = top->given.window, .title = title
	};

	return browse_run(top->served, &options);
}

static void top_end(struct top *top)
{
	if (top->recorder && !recorder_is_gone(top)) {
		kill(top->recorder, SIGINT);
		while (waitpid(top->recorder, NULL, 0) < 0 && errno == EINTR)
			;
	}
	served_destroy(top->served);
	folder_remove(top);
	free(top->folder);
	free(top->profile);
	free(top->talk);
}

static int top_run(struct top *top)
{
	int err = 0;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		err = err_set(-ENOTTY, "top needs a terminal; 'assay record' and 'assay report' do "
				       "not");
	err = err ? err : folder_make(top);
	err = err ? err : recorder_start(top);
	err = err ? err : recorder_await(top);
	err = err ? err : show(top);
	top_end(top);
	return err;
}

int cmd_top(const struct command *command, int argc, char **argv)
{
	struct top top = {};
	struct options options;
	int first, code, err;

	options_init(&options, command->groups, &top.given);
	err = options_parse(&options, OPTIONS_FIRST, argc, argv, &first);
	top.command = argv + first;
	if (!err && *top.command && top.given.pids.count)
		err = err_set(-EINVAL, "top takes processes with -p, or a command");
	if (!err && options.help)
		code = command_help(command);
	else if (err)
		code = command_usage_error(command);
	else
		code = top_run(&top) ? command_failure() : EXIT_DONE;
	options_deinit(&options);
	return code;
}
