// SPDX-License-Identifier: BSD-2-Clause
/* assay serve: a profile, or a running recording, in the browser of the person who runs it. */
#include "cmd/serve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/cmd.h"
#include "cmd/served.h"
#include "cmd/starter.h"
#include "serve/server.h"

enum {
	PAGE_LOST_MS = 5000, /* a page asks every second: after this it is not there any more */
	LAST_FETCH_MS = 10000, /* for pages to fetch what a recorder has left */
	RECORDER_NICE = 10, /* beside a recorder the program comes first */
	TICK_MS = 250, /* how often it is looked at whether all is done */
};

struct serve {
	struct serve_options options;
	struct served *served;
	struct starter starter;
	struct server *server;
	int signals; /* signalfd; -1: they are the recorder's affair */
	uint64_t asked; /* CLOCK_MONOTONIC: when a page last got an answer; 0: never */
	uint64_t ended; /* when the recorder ended; 0: not yet, or there is none */
	uint64_t final; /* the generation with everything the recorder wrote; 0: not known */
	bool delivered; /* a page has fetched it */
	bool done;
};

/* --- Answers ---------------------------------------------------------------------------------- */

static int answer_take(struct strbuf *text, const char *type, struct answer *ret)
{
	*ret = (struct answer){ type, text->text, text->length, false };
	return 0;
}

static int page_answer(struct answer *ret)
{
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return err_set(-ENOMEM, "there is no memory for the page");
	page_viewer_write(file);
	fclose(file);
	*ret = (struct answer){ "text/html; charset=utf-8", text, size, false };
	return 0;
}

static int state_answer(struct serve *serve, struct answer *ret)
{
	struct starter *starter = &serve->starter;
	struct strbuf text = {};

	starter_look(starter);
	strbuf_printf(&text,
		      "{\"assay\":1,\"generation\":%llu,\"live\":%s,\"may_start\":%s,"
		      "\"running\":%s,\"way\":\"%s\",\"exit_code\":%d}\n",
		      (unsigned long long)served_generation(serve->served),
		      served_is_live(serve->served) ? "true" : "false",
		      starter->command ? "true" : "false", starter->running ? "true" : "false",
		      starter->way ? starter->way : "", starter->exit_code);
	return answer_take(&text, "application/json", ret);
}

static int data_answer(struct serve *serve, struct answer *ret)
{
	const void *data;
	size_t size;
	int err = served_data(serve->served, &data, &size);

	if (err)
		return err;
	if (serve->final && served_generation(serve->served) >= serve->final)
		serve->delivered = true;
	*ret = (struct answer){ "application/json", mem_dup(data, size), size, true };
	return 0;
}

static int report_answer(struct serve *serve, const char *request, struct answer *ret)
{
	char *text;
	size_t size;
	int err = served_report(serve->served, request, &text, &size);

	if (!err)
		*ret = (struct answer){ "application/json", text, size, false };
	return err;
}

static int start_answer(struct serve *serve, const char *way, struct answer *ret)
{
	int err = starter_start(&serve->starter, way);

	return err ? err : state_answer(serve, ret);
}

static int answer_by_kind(void *ctx, const struct route *route, const char *body,
			  struct answer *ret)
{
	switch (route->kind) {
	case ROUTE_PAGE:
		return page_answer(ret);
	case ROUTE_STATE:
		return state_answer(ctx, ret);
	case ROUTE_DATA:
		return data_answer(ctx, ret);
	case ROUTE_REPORT:
		return report_answer(ctx, route->request, ret);
	case ROUTE_START:
		return start_answer(ctx, body, ret);
	}
	return err_set(-ENOENT, "there is no such thing here");
}

/* The time is taken last: to make the data may take seconds, and the page waits meanwhile. */
static int answer(void *ctx, const struct route *route, const char *body, struct answer *ret)
{
	struct serve *serve = ctx;
	int err = answer_by_kind(ctx, route, body, ret);

	serve->asked = clock_monotonic();
	return err;
}

/* --- The loop --------------------------------------------------------------------------------- */

/* With a recorder, a signal from the terminal is for that; this ends when the recorder does. */
static int signals_take(struct serve *serve)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (serve->options.of_recorder) {
		setpriority(PRIO_PROCESS, 0, RECORDER_NICE);
		return 0;
	}
	serve->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return serve->signals < 0 ? err_set(-errno, "cannot wait for signals: %s", strerror(errno))
				  : 0;
}

static void recorder_ended(struct serve *serve)
{
	served_look_now(serve->served);
	serve->ended = clock_monotonic();
	serve->final = served_generation(serve->served);
}

/* Whether all open pages have fetched what the recorder has left. */
static bool pages_are_done(const struct serve *serve)
{
	uint64_t now = clock_monotonic();

	if (!serve->ended)
		return false;
	return serve->delivered || now > serve->ended + LAST_FETCH_MS * (uint64_t)NS_PER_MS ||
	       !serve->asked || now > serve->asked + PAGE_LOST_MS * (uint64_t)NS_PER_MS;
}

static int timeout_choose(const struct serve *serve)
{
	int timeout = server_timeout(serve->server);

	if (serve->ended && (timeout < 0 || timeout > TICK_MS))
		timeout = TICK_MS;
	return timeout;
}

static int round_run(struct serve *serve)
{
	struct pollfd fds[] = {
		{ server_fd(serve->server), POLLIN, 0 },
		{ serve->signals, POLLIN, 0 },
		{ serve->options.of_recorder && !serve->ended ? STDIN_FILENO : -1, POLLIN, 0 },
	};

	if (poll(fds, 3, timeout_choose(serve)) < 0 && errno != EINTR)
		return err_set(-errno, "cannot wait for requests: %s", strerror(errno));
	if (fds[1].revents)
		serve->done = true;
	if (fds[2].revents)
		recorder_ended(serve);
	return server_run(serve->server);
}

static int loop(struct serve *serve)
{
	int err = 0;

	while (!err && !serve->done) {
		err = round_run(serve);
		serve->done = serve->done || pages_are_done(serve);
	}
	return err;
}

/* --- All of it -------------------------------------------------------------------------------- */

static int serve_open(struct serve *serve)
{
	const struct serve_options *options = &serve->options;
	const struct server_options how = {
		.address = options->address,
		.port = (uint16_t)options->port,
		.remote = options->allow_remote,
		.answer = answer,
		.ctx = serve,
	};
	int err = signals_take(serve);

	err = err ? err : served_create(options->input, &options->page, &serve->served);
	return err ? err : server_create(&how, &serve->server);
}

static void address_say(const struct serve *serve)
{
	if (serve->options.allow_remote)
		log_warn("the profile can be seen from other machines by whoever has this "
			 "address, and nothing is encrypted on the way%s",
			 serve->starter.command ? "; and they can start recordings of the command"
						: "");
	log_info("%s", server_url(serve->server));
	if (!serve->options.of_recorder)
		log_info("open this address in a browser; Ctrl-C ends the server");
}

static void serve_deinit(struct serve *serve)
{
	server_destroy(serve->server);
	starter_end(&serve->starter);
	served_destroy(serve->served);
	close_fd(&serve->signals);
}

static int serve_run(struct serve *serve)
{
	int err = serve_open(serve);

	if (!err) {
		address_say(serve);
		err = loop(serve);
	}
	serve_deinit(serve);
	return err;
}

/* A command is what may be started: one without the other is a mistake. */
static int command_settle(struct serve *serve, char **command)
{
	if (serve->options.allow_start && !*command)
		return err_set(-EINVAL, "--allow-start takes the command that the page may "
					"record: assay serve --allow-start -- COMMAND");
	if (!serve->options.allow_start && *command)
		return err_set(-EINVAL,
			       "'%s': a command is started only with --allow-start; the profile "
			       "is named with -i",
			       *command);
	serve->starter.path = serve->options.input;
	serve->starter.command = *command ? command : NULL;
	return 0;
}

int cmd_serve(const struct command *command, int argc, char **argv)
{
	struct serve serve = { .signals = -1 };
	struct options options;
	int first, code, err;

	options_init(&options, command->groups, &serve.options);
	err = options_parse(&options, OPTIONS_FIRST, argc, argv, &first);
	if (!err && options.help) {
		code = command_help(command);
	} else if (err || command_settle(&serve, argv + first)) {
		code = command_usage_error(command);
	} else {
		log_quiet_set(serve.options.quiet);
		err = serve_run(&serve);
		code = err == -EINVAL ? command_usage_error(command)
		       : err	      ? command_failure()
				      : EXIT_DONE;
	}
	options_deinit(&options);
	return code;
}
