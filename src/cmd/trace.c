// SPDX-License-Identifier: BSD-2-Clause
/* assay trace: run a command in the engine. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "inject/follow.h"

enum { OPTION_TOOL = 256, OPTION_NO_CHILDREN, EXIT_NOT_FOUND = 127, EXIT_NOT_RUN = 126 };

static const char trace_usage[] =
	"usage: assay trace [options] [--] COMMAND [ARGUMENT...]\n"
	"\n"
	"Runs a command in the engine: every instruction from the first one on.\n"
	"\n"
	"      --tool TOOL     what to do on the way (none):\n"
#define X(name, text, help) "                        " text ": " help "\n"
	ENGINE_TOOLS(X)
#undef X
		"      --no-children   programs that the command executes run by themselves\n"
		"  -q, --quiet         say nothing unless something is wrong\n"
		"  -v, --verbose       say more\n";

static const struct option long_options[] = {
	{ "tool", required_argument, NULL, OPTION_TOOL },
	{ "no-children", no_argument, NULL, OPTION_NO_CHILDREN },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{},
};

struct request {
	enum engine_tool tool;
	unsigned flags;
	char *const *command;
	bool help;
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

static int option_take(struct request *request, int option, const char *text)
{
	switch (option) {
	case OPTION_TOOL:
		return tool_parse(text, &request->tool);
	case OPTION_NO_CHILDREN:
		request->flags |= ENGINE_NO_CHILDREN;
		return 0;
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
	while ((option = getopt_long(argc, argv, "+qvh", long_options, NULL)) != -1) {
		if (option == '?')
			return err_set(
				-EINVAL,
				"%s: unknown option or missing value; see 'assay help trace'",
				argv[optind - 1]);
		err = option_take(request, option, optarg);
		if (err || request->help)
			return err;
	}
	if (optind == argc)
		return err_set(-EINVAL, "nothing to run: give a command");
	request->command = argv + optind;
	return 0;
}

static void summary_say(const struct follow_result *result)
{
	log_debug("%llu programs were taken by exec", (unsigned long long)result->taken);
	for (size_t i = 0; i < PROGRAM_OBSTACLE_COUNT; i++)
		if (result->native[i])
			log_info("left alone: %llu %s", (unsigned long long)result->native[i],
				 program_obstacle_text((enum program_obstacle)i));
}

int cmd_trace(int argc, char **argv)
{
	AUTO(inject_destroy_auto) struct inject *inject = NULL;
	struct request request = { .tool = ENGINE_TOOL_NONE };
	struct follow_result result = {};
	pid_t pid;
	int err = request_parse(&request, argc, argv);

	if (err) {
		log_error("%s", err_text());
		return EXIT_USAGE;
	}
	if (request.help) {
		fputs(trace_usage, stdout);
		return EXIT_DONE;
	}
	err = inject_create(request.tool, request.flags, &inject);
	if (err) {
		log_error("%s", err_text());
		return EXIT_FAILED;
	}
	err = inject_start(inject, request.command, &pid);
	if (err) {
		log_error("%s", err_text());
		return err == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	}
	follow_run(inject, pid, &result);
	summary_say(&result);
	return result.exit_code;
}
