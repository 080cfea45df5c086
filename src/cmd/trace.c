// SPDX-License-Identifier: BSD-2-Clause
/*
 * assay trace: run a command in the engine, or take a process that runs, and record what it
 * executes.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/newfile.h"
#include "capture/ability.h"
#include "cmd/cmd.h"
#include "cmd/policy.h"
#include "cmd/recording.h"
#include "cmd/trace.h"
#include "inject/attach.h"
#include "inject/follow.h"
#include "marks/marks.h"
#include "recorder/targets.h"

enum { EXIT_NOT_FOUND = 127, EXIT_NOT_RUN = 126 };

struct request {
	struct trace_options given;
	struct recording_request recording; /* also: what to run, and with which tool */
	const struct trace_marks *marks; /* NULL: of other tools */
};

static int options_check(const struct trace_options *given, char **command)
{

	if (given->pid && *command)
		return err_set(-EINVAL, "--pid and a command: only one of them can be traced");
	if (!given->pid && !*command)
		return err_set(-EINVAL, "there is nothing to trace: give a command, or a process "
					"with -p PID");
	if (given->table.buckets & (given->table.buckets - 1))
		return err_set(-EINVAL, "--buckets %u: give a power of two, such as 65536",
			       given->table.buckets);
	if (engine_tools_flags(given->tools) & ENGINE_TOOL_ALONE &&
	    given->tools & (given->tools - 1))
		return err_set(-EINVAL, "--tool: native and none cannot be combined with others");
	for (unsigned i = 0; i < ENGINE_TOOLS_END; i++)
		if (given->tools & ENGINE_TOOL_BIT(i) &&
		    engine_tool_row(i)->flags & ENGINE_TOOL_OWN)
			return err_set(-EINVAL, "--tool %s: 'assay %s' uses it",
				       engine_tool_row(i)->name,
				       i == ENGINE_TOOL_CALLTREE ? "calls" : "count");
	return 0;
}

/* Columns: word, what a person reads, how often. */
struct outside {
	const char *reason;
	const char *text;
	uint64_t count;
};

enum { OUTSIDE_COUNT = ENGINE_LEAVES_END + PROGRAM_OBSTACLE_COUNT };

static void outside_collect(const struct follow_result *result, const struct inject_counts *counts,
			    struct outside ret[OUTSIDE_COUNT])
{
	static const struct outside leaves[] = {
#define X(name, word, text) { word, text, 0 },
		ENGINE_LEAVES(X)
#undef X
	};

	for (size_t i = 0; i < ENGINE_LEAVES_END; i++) {
		ret[i] = leaves[i];
		ret[i].count = counts->left[i];
	}
	for (size_t i = 0; i < PROGRAM_OBSTACLE_COUNT; i++)
		ret[ENGINE_LEAVES_END + i] =
			(struct outside){ .reason = program_obstacle_name((enum program_obstacle)i),
					  .text = program_obstacle_text((enum program_obstacle)i),
					  .count = result->native[i] };
}

static json_t *totals_make(const struct follow_result *result, const struct inject_counts *counts)
{
	static const char *const words[] = {
#define X(name, word, text) word,
		ENGINE_COUNTS(X)
#undef X
	};
	json_t *totals = json_pack("{s:I, s:I}", "taken", (json_int_t)result->taken, "alone",
				   (json_int_t)result->alone);

	for (size_t i = 0; i < ENGINE_COUNTS_END; i++)
		json_object_set_new(totals, words[i], json_integer((json_int_t)counts->counts[i]));
	return totals;
}

static json_t *counters_make(const struct engine_recording_result *recorded)
{
	json_t *counters = json_array();

	for (size_t i = 0; i < recorded->counter_count; i++) {
		const struct counters_row *row = &recorded->counters[i];
		const struct engine_tool_row *tool = engine_tool_row(row->tool);

		json_array_append_new(counters,
				      json_pack("{s:s, s:s, s:s, s:I}", "tool", tool->name, "name",
						row->name, "unit", tool->unit, "count",
						(json_int_t)row->value));
	}
	return counters;
}

static int summary_put(const char *path, const json_t *envelope)
{
	struct newfile file;
	int err = newfile_open(&file, path, 0666);

	if (err == -EPERM)
		return err; /* it names the link that is in the way */
	if (err)
		return err_set(err,
			       "%s: cannot write the summary: %s; give another file with "
			       "--summary",
			       path, strerror(-err));
	if (!json_dumpfd(envelope, file.fd, JSON_INDENT(1)))
		return newfile_finish(&file);
	err = err_set(-(errno ? errno : EIO), "%s: cannot write the summary: %s", path,
		      strerror(errno ? errno : EIO));
	newfile_drop(&file);
	return err;
}

static int summary_write(const char *path, json_t *totals,
			 const struct outside outside[OUTSIDE_COUNT],
			 const struct engine_recording_result *recorded)
{
	json_t *rows = json_array();
	json_t *envelope = json_pack("{s:i, s:s, s:o, s:o, s:o}", "assay", 1, "view", "trace",
				     "totals", totals, "rows", rows, "counters",
				     counters_make(recorded));
	int err;

	for (size_t i = 0; i < OUTSIDE_COUNT; i++)
		if (outside[i].count)
			json_array_append_new(rows,
					      json_pack("{s:s, s:I}", "reason", outside[i].reason,
							"count", (json_int_t)outside[i].count));
	err = summary_put(path, envelope);
	json_decref(envelope);
	return err;
}

static void counts_say(const struct inject_counts *counts)
{
	static const char *const texts[] = {
#define X(name, word, text) text,
		ENGINE_COUNTS(X)
#undef X
	};

	for (size_t i = 0; i < ENGINE_COUNTS_END; i++)
		log_debug("%llu %s", (unsigned long long)counts->counts[i], texts[i]);
}

/* Only the authors of Assay can act on such a fault, so the line holds what they need. */
static void fault_say(const struct inject_counts *counts)
{
	struct engine_fault fault = counts->fault;

	if (!fault.at)
		return;
	log_warn("the engine has failed %llu times within itself; the program was not disturbed. "
		 "Please report: version %s, %s at engine+0x%llx, signal %u, address 0x%llx, "
		 "program at 0x%llx",
		 (unsigned long long)counts->counts[ENGINE_COUNT_FAULTS], ASSAY_VERSION,
		 fault.signal ? "fault" : "no memory", (unsigned long long)fault.at, fault.signal,
		 (unsigned long long)fault.address, (unsigned long long)fault.pc);
}

static int summary_give(const struct request *request, const struct inject *inject,
			const struct follow_result *result,
			const struct engine_recording_result *recorded)
{
	struct outside outside[OUTSIDE_COUNT];
	struct inject_counts counts = inject_counts(inject);

	outside_collect(result, &counts, outside);
	log_debug("%llu programs were taken by exec", (unsigned long long)result->taken);
	for (size_t i = 0; i < OUTSIDE_COUNT; i++)
		if (outside[i].count)
			log_info("%s: %llu %s",
				 i < ENGINE_LEAVES_END ? "left the engine" : "left alone",
				 (unsigned long long)outside[i].count, outside[i].text);
	if (result->alone)
		log_warn("%llu processes that were forked are not recorded: they could not be "
			 "attached to",
			 (unsigned long long)result->alone);
	fault_say(&counts);
	counts_say(&counts);
	return request->given.summary
		       ? summary_write(request->given.summary, totals_make(result, &counts),
				       outside, recorded)
		       : 0;
}

static void marks_begun(const struct request *request, struct inject *inject, pid_t pid)
{
	const struct trace_marks *marks = request->marks;

	if (!marks || !marks->begun)
		return;
	marks->begun(marks->ctx, inject, pid);
	inject_tick_serve(inject, marks->tick, marks->ctx);
}

static void marks_over(const struct request *request)
{
	if (request->marks && request->marks->over)
		request->marks->over(request->marks->ctx);
}

/* The command runs: whatever fails now, it is followed to its end. */
static int command_follow(const struct request *request, struct inject *inject,
			  struct recording *recording, pid_t pid)
{
	struct engine_recording_result recorded = {};
	struct follow_result result = {};
	int err = recording_start(recording), failed;

	if (err)
		log_error("%s", err_text());
	marks_begun(request, inject, pid);
	follow_run(inject, pid, &result);
	marks_over(request);
	if (result.left)
		log_warn("process %d %s and has not ended: it goes on by itself, and what it "
			 "executes "
			 "from now on is not recorded",
			 (int)pid, result.again ? "was told twice" : "was given three seconds");
	if (!err && (err = recording_finish(&request->recording, recording, &recorded)))
		log_error("%s", err_text());
	failed = summary_give(request, inject, &result, &recorded);
	if (failed)
		log_error("%s", err_text());
	return (err || failed) && result.exit_code == 0 ? EXIT_FAILED : result.exit_code;
}

/* As command_follow(). */
static int process_follow(const struct request *request, struct inject *inject,
			  struct recording *recording, int process)
{
	bool at_once = request->recording.tools & ENGINE_TOOL_BIT(ENGINE_TOOL_NATIVE);
	struct engine_recording_result recorded = {};
	struct follow_result result = {};
	int err = recording_start(recording), failed;

	if (err)
		log_error("%s", err_text());
	log_info("process %d is in the engine; an interrupt (Ctrl-C) gives it back",
		 (int)request->given.pid);
	marks_begun(request, inject, (pid_t)request->given.pid);
	follow_attached(inject, process,
			at_once ? 1 : (uint64_t)(request->given.duration * NS_PER_S), &result);
	marks_over(request);
	failed = attach_give_back(inject);
	if (failed)
		log_error("%s", err_text());
	else if (result.ended)
		log_info("process %d has ended", (int)request->given.pid);
	if (!err && (err = recording_finish(&request->recording, recording, &recorded)))
		log_error("%s", err_text());
	if (summary_give(request, inject, &result, &recorded)) {
		log_error("%s", err_text());
		failed = -EIO;
	}
	return err || failed ? EXIT_FAILED : EXIT_DONE;
}

static int command_trace(const struct request *request, struct inject *inject,
			 struct recording *recording)
{
	pid_t pid;
	int err = inject_start(inject, request->recording.command, &pid);

	if (err) {
		log_error("%s", err_text());
		return err == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	}
	return command_follow(request, inject, recording, pid);
}

int trace_process_check(pid_t pid)
{
	struct policy policy;
	int err = policy_read(&policy);

	if (err || policy.other_users || !targets_is_foreign(pid))
		return err;
	return err_set(
		-EPERM,
		"process %d belongs to another user, or its own may not look into it; run as root "
		"to take it, or let the administrator put 'other-users = yes' into %s",
		(int)pid, POLICY_FILE);
}

static int process_trace(const struct request *request, struct inject *inject,
			 struct recording *recording)
{
	AUTO(close_fd) int process = (int)syscall(SYS_pidfd_open, request->given.pid, 0);
	int err;

	inject_signals_block();
	err = trace_process_check((pid_t)request->given.pid);
	err = err ? err : attach_take(inject, (pid_t)request->given.pid);
	if (err) {
		log_error("%s", err_text());
		return EXIT_FAILED;
	}
	return process_follow(request, inject, recording, process);
}

static int process_release(const struct request *request)
{
	AUTO(inject_destroy_auto) struct inject *inject = NULL;
	pid_t pid = (pid_t)request->given.pid;
	int err = trace_process_check(pid);

	err = err ? err : inject_create(ENGINE_TOOL_BIT(ENGINE_TOOL_NONE), 0, &inject);
	err = err ? err : attach_release(inject, pid);
	if (err)
		return command_failure();
	log_info("process %d runs by itself again", (int)pid);
	return EXIT_DONE;
}

/* Without what the engine needs, the program would die of it. */
static int engine_settle(void)
{
	struct ability engine;

	ability_probe(ABILITY_ENGINE, &engine);
	return engine.yes ? 0 : err_set(-ENOTSUP, "%s; %s", engine.detail, engine.remedy);
}

/* Engines look their marks up in memory that is shared. */
static int marks_prepare(struct marks *marks, struct inject *inject)
{
	int err = marks_publish(marks, (char *)inject_public(inject) + STREAM_MARKS);

	if (!err)
		inject_modules_serve(inject, marks_module, marks);
	return err;
}

static int request_run(const struct request *request)
{
	AUTO(inject_destroy_auto) struct inject *inject = NULL;
	AUTO(recording_destroy_auto) struct recording *recording = NULL;
	unsigned flags = request->given.no_children ? ENGINE_NO_CHILDREN : 0;
	int err;

	log_quiet_set(request->given.quiet);
	log_verbose_set(request->given.verbose);
	if (request->given.release)
		return process_release(request);
	err = engine_settle();
	err = err ? err : inject_create(request->given.tools, flags, &inject);
	if (!err && request->recording.marks)
		err = marks_prepare(request->recording.marks, inject);
	err = err ? err : recording_create(&request->recording, inject, &recording);
	if (err)
		return command_failure();
	inject_cache_limit(inject, request->given.cache_size);
	return request->given.pid ? process_trace(request, inject, recording)
				  : command_trace(request, inject, recording);
}

int trace_run(const struct trace_options *options, const struct trace_marks *marks, char **command)
{
	const struct request request = {
		.given = *options,
		.recording = {
			.tools = options->tools,
			.output = options->output,
			.raw = options->raw,
			.command = command,
			.paths = { options->layers, options->max_cycle, options->memory,
				   options->table },
			.marks = marks ? marks->marks : NULL,
			.live = marks ? marks->live : NULL,
		},
		.marks = marks,
	};

	return request_run(&request);
}

int cmd_trace(const struct command *command, int argc, char **argv)
{
	AUTO(options_deinit) struct options options = {};
	struct trace_options given = {};
	int first, err;

	options_init(&options, command->groups, &given);
	err = options_parse(&options, OPTIONS_FIRST, argc, argv, &first);
	if (!err && options.help)
		return command_help(command);
	err = err ? err : options_check(&given, argv + first);
	return err ? command_usage_error(command) : trace_run(&given, NULL, argv + first);
}
