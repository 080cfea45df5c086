// SPDX-License-Identifier: BSD-2-Clause
/* assay trace: run a command in the engine, or take a process that runs, and record what it executes. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/err.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/recording.h"
#include "inject/attach.h"
#include "inject/follow.h"
#include "profile/layer.h"

enum {
	OPTION_TOOL = 256,
	OPTION_NO_CHILDREN,
	OPTION_SUMMARY,
	OPTION_CACHE_SIZE,
	OPTION_RAW, /* for tests: not in the help */
	OPTION_DURATION,
	OPTION_LAYERS,
	OPTION_MAX_CYCLE,
	OPTION_MEMORY,
	EXIT_NOT_FOUND = 127,
	EXIT_NOT_RUN = 126
};

enum {
	CACHE_KB_MIN = 512,
	CACHE_KB_MAX = 4 << 20,
	LAYERS_MAX = LAYER_LEVELS_MAX - 2, /* above paths and strata */
	CYCLE_MIN = 2,
	MEMORY_MB_MIN = 1,
	MEMORY_MB_MAX = 64 << 10,
};

static const char trace_usage[] =
	"usage: assay trace [options] [--] COMMAND [ARGUMENT...]\n"
	"       assay trace [options] -p PID\n"
	"\n"
	"Runs a command in the engine: every instruction from the first one on. Or takes a "
	"process\n"
	"that runs, with all its threads, and gives it back on an interrupt (Ctrl-C).\n"
	"\n"
	"  -p, --pid PID       the process to take\n"
	"      --duration S    gives it back after S seconds\n"
	"      --tool TOOL     what to do on the way (paths):\n"
#define X(name, text, help) "                        " text ": " help "\n"
	ENGINE_TOOLS(X)
#undef X
		"      --layers N      paths: layers of cycles above strata (2)\n"
		"      --max-cycle N   paths: cycles of more than N symbols are cut (4096)\n"
		"      --memory MB     paths: for the cycles of a process (64)\n"
		"      --no-children   programs that the command executes run by themselves\n"
		"      --summary FILE  what ran outside the engine, and why, as JSON\n"
		"      --cache-size KB translated code that a process keeps (262144)\n"
		"  -o, --output FILE   the profile, of tools that record (assay.db); an existing "
		"one\n"
		"                      is kept as FILE.old\n"
		"  -q, --quiet         say nothing unless something is wrong\n"
		"  -v, --verbose       say more\n";

static const struct option long_options[] = {
	{ "tool", required_argument, NULL, OPTION_TOOL },
	{ "no-children", no_argument, NULL, OPTION_NO_CHILDREN },
	{ "pid", required_argument, NULL, 'p' },
	{ "duration", required_argument, NULL, OPTION_DURATION },
	{ "layers", required_argument, NULL, OPTION_LAYERS },
	{ "max-cycle", required_argument, NULL, OPTION_MAX_CYCLE },
	{ "memory", required_argument, NULL, OPTION_MEMORY },
	{ "summary", required_argument, NULL, OPTION_SUMMARY },
	{ "cache-size", required_argument, NULL, OPTION_CACHE_SIZE },
	{ "output", required_argument, NULL, 'o' },
	{ "raw", required_argument, NULL, OPTION_RAW },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{},
};

struct request {
	struct recording_request recording; /* also: what to run, and with which tool */
	unsigned flags;
	uint64_t cache_bytes; /* 0: the engine's own limit */
	const char *summary; /* file, or NULL */
	pid_t pid; /* 0: a command */
	uint64_t duration; /* nanoseconds; 0: no end */
	bool help;
	const char *paths_option; /* only of the tool paths; NULL: none given */
};

static int tool_parse(const char *text, enum engine_tool *ret)
{
	static const char *const tools[] = {
#define X(name, text, help) text,
		ENGINE_TOOLS(X)
#undef X
	};

	for (size_t i = 0; i < ENGINE_TOOLS_END; i++) {
		if (strcmp(text, tools[i]))
			continue;
		*ret = (enum engine_tool)i;
		return 0;
	}
	return err_set(-EINVAL, "--tool: there is no tool '%s'; see 'assay help trace'", text);
}

static int number_parse(const char *option, const char *text, int low, int high, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || value < (unsigned)low || value > (unsigned)high)
		return err_set(-EINVAL, "--%s: '%s' is not a number from %d to %d", option, text,
			       low, high);
	*ret = value;
	return 0;
}

static int cache_size_parse(const char *text, uint64_t *ret)
{
	int err = number_parse("cache-size", text, CACHE_KB_MIN, CACHE_KB_MAX, ret);

	*ret <<= err ? 0 : 10;
	return err;
}

/* 1: not an option of the tool paths. */
static int paths_option_take(struct request *request, int option, const char *text)
{
	struct paths_options *paths = &request->recording.paths;
	uint64_t number = 0;
	int err;

	switch (option) {
	case OPTION_LAYERS:
		request->paths_option = "layers";
		err = number_parse("layers", text, 1, LAYERS_MAX, &number);
		paths->layers = (unsigned)number;
		return err;
	case OPTION_MAX_CYCLE:
		request->paths_option = "max-cycle";
		err = number_parse("max-cycle", text, CYCLE_MIN, LAYER_MAX_CYCLE_MAX, &number);
		paths->max_cycle = (uint32_t)number;
		return err;
	case OPTION_MEMORY:
		request->paths_option = "memory";
		err = number_parse("memory", text, MEMORY_MB_MIN, MEMORY_MB_MAX, &number);
		paths->memory = number << 20;
		return err;
	}
	return 1;
}

static int pid_parse(const char *text, pid_t *ret)
{
	char *end;
	long pid = strtol(text, &end, 10);

	if (*end || end == text || pid <= 0 || pid > INT_MAX)
		return err_set(-EINVAL, "-p: '%s' is not the number of a process", text);
	*ret = (pid_t)pid;
	return 0;
}

static int duration_parse(const char *text, uint64_t *ret)
{
	char *end;
	double seconds = strtod(text, &end);

	if (*end || end == text || !(seconds > 0 && seconds < 1e9))
		return err_set(-EINVAL, "--duration: '%s' is not a number of seconds", text);
	*ret = (uint64_t)(seconds * 1e9);
	return 0;
}

static int option_take(struct request *request, int option, const char *text)
{
	int err = paths_option_take(request, option, text);

	if (err <= 0)
		return err;
	switch (option) {
	case OPTION_TOOL:
		return tool_parse(text, &request->recording.tool);
	case OPTION_NO_CHILDREN:
		request->flags |= ENGINE_NO_CHILDREN;
		return 0;
	case OPTION_SUMMARY:
		request->summary = text;
		return 0;
	case OPTION_CACHE_SIZE:
		return cache_size_parse(text, &request->cache_bytes);
	case 'o':
		request->recording.output = text;
		return 0;
	case OPTION_RAW:
		request->recording.raw = text;
		return 0;
	case 'p':
		return pid_parse(text, &request->pid);
	case OPTION_DURATION:
		return duration_parse(text, &request->duration);
	case 'q':
		log_quiet_set(true);
		return 0;
	case 'v':
		log_verbose_set(true);
		return 0;
	}
	request->help = true;
	return 0;
}

static int request_parse(struct request *request, int argc, char **argv)
{
	int option, err;

	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+o:p:qvh", long_options, NULL)) != -1) {
		if (option == '?')
			return err_set(
				-EINVAL,
				"%s: unknown option or missing value; see 'assay help trace'",
				argv[optind - 1]);
		err = option_take(request, option, optarg);
		if (err || request->help)
			return err;
	}
	if (request->pid && optind != argc)
		return err_set(-EINVAL, "-p and a command: only one of them can be traced");
	if (!request->pid && request->duration)
		return err_set(-EINVAL, "--duration is for -p: a command runs to its end");
	if (request->paths_option && request->recording.tool != ENGINE_TOOL_PATHS)
		return err_set(-EINVAL, "--%s is for --tool paths", request->paths_option);
	if (!request->pid && optind == argc)
		return err_set(-EINVAL, "nothing to run: give a command, or a process with -p");
	request->recording.command = argv + optind;
	return 0;
}

/* Columns: word, what a person reads, how often. */
struct outside {
	const char *reason;
	const char *text;
	uint64_t count;
};

enum { OUTSIDE_COUNT = ENGINE_LEAVES_END + PROGRAM_OBSTACLE_COUNT };

static void outside_collect(const struct follow_result *result, const struct engine_shared *shared,
			    struct outside ret[OUTSIDE_COUNT])
{
	static const struct outside leaves[] = {
#define X(name, word, text) { word, text, 0 },
		ENGINE_LEAVES(X)
#undef X
	};

	for (size_t i = 0; i < ENGINE_LEAVES_END; i++) {
		ret[i] = leaves[i];
		ret[i].count = shared->left[i];
	}
	for (size_t i = 0; i < PROGRAM_OBSTACLE_COUNT; i++)
		ret[ENGINE_LEAVES_END + i] =
			(struct outside){ .reason = program_obstacle_name((enum program_obstacle)i),
					  .text = program_obstacle_text((enum program_obstacle)i),
					  .count = result->native[i] };
}

static json_t *totals_make(const struct follow_result *result, const struct engine_shared *shared)
{
	static const char *const words[] = {
#define X(name, word, text) word,
		ENGINE_COUNTS(X)
#undef X
	};
	json_t *totals = json_pack("{s:I}", "taken", (json_int_t)result->taken);

	for (size_t i = 0; i < ENGINE_COUNTS_END; i++)
		json_object_set_new(totals, words[i], json_integer(shared->counts[i]));
	return totals;
}

static int summary_write(const char *path, json_t *totals,
			 const struct outside outside[OUTSIDE_COUNT])
{
	json_t *rows = json_array();
	json_t *envelope = json_pack("{s:i, s:s, s:o, s:o}", "assay", 1, "view", "trace", "totals",
				     totals, "rows", rows);
	int err;

	for (size_t i = 0; i < OUTSIDE_COUNT; i++)
		if (outside[i].count)
			json_array_append_new(rows,
					      json_pack("{s:s, s:I}", "reason", outside[i].reason,
							"count", (json_int_t)outside[i].count));
	err = json_dump_file(envelope, path, JSON_INDENT(1));
	json_decref(envelope);
	return err ? err_set(-EIO, "cannot write the summary %s", path) : 0;
}

static void counts_say(const struct engine_shared *shared)
{
	static const char *const texts[] = {
#define X(name, word, text) text,
		ENGINE_COUNTS(X)
#undef X
	};

	for (size_t i = 0; i < ENGINE_COUNTS_END; i++)
		log_debug("%u %s", shared->counts[i], texts[i]);
}

static int summary_give(const struct request *request, const struct inject *inject,
			const struct follow_result *result)
{
	struct outside outside[OUTSIDE_COUNT];

	outside_collect(result, inject_shared(inject), outside);
	log_debug("%llu programs were taken by exec", (unsigned long long)result->taken);
	for (size_t i = 0; i < OUTSIDE_COUNT; i++)
		if (outside[i].count)
			log_info("%s: %llu %s",
				 i < ENGINE_LEAVES_END ? "left the engine" : "left alone",
				 (unsigned long long)outside[i].count, outside[i].text);
	counts_say(inject_shared(inject));
	return request->summary ? summary_write(request->summary,
						totals_make(result, inject_shared(inject)), outside)
				: 0;
}

/* The command runs: whatever fails now, it is followed to its end. */
static int command_follow(const struct request *request, struct inject *inject,
			  struct session *session, pid_t pid)
{
	struct follow_result result = {};
	int err = session ? session_start(session) : 0;

	if (err)
		log_error("%s", err_text());
	follow_run(inject, pid, &result);
	if (summary_give(request, inject, &result))
		log_error("%s", err_text());
	if (!err && (err = recording_finish(&request->recording, session)))
		log_error("%s", err_text());
	return err && result.exit_code == 0 ? EXIT_FAILED : result.exit_code;
}

/* As command_follow(). Signals that end us wait until the process can be given back. */
static int process_follow(const struct request *request, struct inject *inject,
			  struct session *session, int process)
{
	bool at_once = request->recording.tool == ENGINE_TOOL_NATIVE;
	struct follow_result result = {};
	int err = session ? session_start(session) : 0, failed;

	if (err)
		log_error("%s", err_text());
	log_info("process %d is in the engine; an interrupt (Ctrl-C) gives it back",
		 (int)request->pid);
	follow_attached(inject, process, at_once ? 1 : request->duration, &result);
	inject_signals_block();
	failed = attach_give_back(inject);
	if (failed)
		log_error("%s", err_text());
	else if (result.ended)
		log_info("process %d has ended", (int)request->pid);
	if (summary_give(request, inject, &result))
		log_error("%s", err_text());
	if (!err && (err = recording_finish(&request->recording, session)))
		log_error("%s", err_text());
	return err || failed ? EXIT_FAILED : EXIT_DONE;
}

static int command_trace(const struct request *request, struct inject *inject,
			 struct session *session)
{
	pid_t pid;
	int err = inject_start(inject, request->recording.command, &pid);

	if (err) {
		log_error("%s", err_text());
		return err == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	}
	return command_follow(request, inject, session, pid);
}

static int process_trace(const struct request *request, struct inject *inject,
			 struct session *session)
{
	AUTO(close_fd) int process = (int)syscall(SYS_pidfd_open, request->pid, 0);
	int err;

	inject_signals_block();
	err = attach_take(inject, request->pid);
	if (err) {
		log_error("%s", err_text());
		return EXIT_FAILED;
	}
	return process_follow(request, inject, session, process);
}

int cmd_trace(int argc, char **argv)
{
	AUTO(inject_destroy_auto) struct inject *inject = NULL;
	AUTO(session_destroy_auto) struct session *session = NULL;
	struct request request = { .recording = { .tool = ENGINE_TOOL_PATHS,
						  .output = "assay.db" } };
	int err = request_parse(&request, argc, argv);

	if (err) {
		log_error("%s", err_text());
		return EXIT_USAGE;
	}
	if (request.help) {
		fputs(trace_usage, stdout);
		return EXIT_DONE;
	}
	err = inject_create(request.recording.tool, request.flags, &inject);
	err = err ? err : recording_create(&request.recording, inject, &session);
	if (err) {
		log_error("%s", err_text());
		return EXIT_FAILED;
	}
	inject_cache_limit(inject, request.cache_bytes);
	return request.pid ? process_trace(&request, inject, session)
			   : command_trace(&request, inject, session);
}
