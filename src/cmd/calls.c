// SPDX-License-Identifier: BSD-2-Clause
/*
 * assay calls: exact trees of calls, by thread, of any program in the engine, or of programs that
 * were compiled with hooks.
 */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "analyse/call_tables.h"
#include "analyse/views.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "calls/recording.h"
#include "cmd/calls.h"
#include "cmd/cmd.h"
#include "cmd/trace.h"
#include "java/attach.h"
#include "recorder/command.h"
#include "recorder/hooks_source.h"
#include "report/output.h"
#include "report/report.h"
#include "symbols/symbols.h"

enum { POLL_MS = 20, COMMIT_MS = 1000, ROWS_SHOWN = 30 };

struct request {
	struct calls_options wish;
	char **command;
};

static struct call_recording_options recording_options(const struct calls_options *wish)
{
	struct call_recording_options options = {
		.timed = !wish->count_only,
		.java = wish->way == CALLS_JAVA,
		.entries = wish->way == CALLS_HOOKS && wish->entries,
		.node_limit = wish->max_nodes,
		.depth_limit = wish->max_depth,
		.thread_limit = wish->max_threads,
		.prune_permille = (uint32_t)(wish->prune_share * CALL_PERMILLE),
		.events = wish->events,
	};

	/* A path that is as deep as the limit must fit, and leave room for others. */
	if (options.node_limit < 4 * options.depth_limit + 16)
		options.depth_limit = (options.node_limit - 16) / 4;
	return options;
}

static const char *view_name(enum calls_view view)
{
	static const char *const names[] = {
		[CALLS_FUNCTIONS] = "functions",
		[CALLS_TREE] = "tree",
		[CALLS_CALLGRAPH] = "callgraph",
	};

	return names[view];
}

/* Names of a snapshot: addresses of processes become numbers that are the same for all. */

struct module {
	char *path;
	struct symbols *symbols; /* NULL: cannot be read */
};

struct names {
	const struct call_recording *recording;
	struct strtab keys; /* module, a line feed, symbol */
	ARRAY(struct call_name) items;
	ARRAY(struct module) modules;
	struct jitmap *java; /* of methods, as far as they were known when one was asked for */
};

static void names_deinit(struct names *names)
{
	array_each(&names->items, name) {
		free((char *)name->symbol);
		free((char *)name->module);
	}
	array_each(&names->modules, module) {
		free(module->path);
		symbols_destroy(module->symbols);
	}
	array_deinit(&names->items);
	array_deinit(&names->modules);
	jitmap_destroy(names->java);
	strtab_deinit(&names->keys);
}

static struct symbols *names_symbols(struct names *names, const char *path)
{
	struct module *module;
	AUTO(close_fd) int fd = -1;

	array_each(&names->modules, it)
		if (!strcmp(it->path, path))
			return it->symbols;
	module = array_push(&names->modules);
	*module = (struct module){ .path = mem_strdup(path) };
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && symbols_open(fd, path, &module->symbols))
		module->symbols = NULL;
	return module->symbols;
}

static uint64_t names_put(struct names *names, const char *module, char *symbol)
{
	AUTO(free_ptr) char *key = mem_printf("%s\n%s", module ? module : "", symbol);
	uint32_t id = strtab_add(&names->keys, key);

	if (id < names->items.count) {
		free(symbol);
		return id;
	}
	*array_push(&names->items) =
		(struct call_name){ .symbol = symbol,
				    .module = module ? mem_strdup(module) : NULL };
	return id;
}

/*
 * The map grows while machines load classes: a method that is not in it may have been added since
 * it was read.
 */
static bool names_java(struct names *names, uint64_t routine, struct symbol_answer *ret)
{
	AUTO(close_fd) int fd = -1;

	if (routine >= CALL_JAVA_END)
		return false;
	if (names->java && !jitmap_resolve(names->java, routine, ret))
		return true;
	jitmap_destroy(names->java);
	names->java = NULL;
	fd = fcntl(call_recording_java_names(names->recording), F_DUPFD_CLOEXEC, 3);
	return fd >= 0 && !jitmap_open(fd, &names->java) &&
	       !jitmap_resolve(names->java, routine, ret);
}

static uint64_t names_of(struct names *names, uint32_t pid, uint64_t address)
{
	struct symbol_answer answer;
	struct symbols *symbols;
	const char *path;
	const char *base;
	uint64_t offset;

	if (!call_recording_module(names->recording, pid, address, &path, &offset))
		return names_java(names, address, &answer)
			       ? names_put(names, "[java]", mem_strdup(answer.frames[0].name))
			       : names_put(names, NULL, mem_printf("0x%lx", address));
	base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	symbols = names_symbols(names, path);
	if (!symbols || symbols_resolve(symbols, offset, &answer) || !answer.frame_count)
		return names_put(names, base, mem_printf("%s+0x%lx", base, offset));
	return names_put(names, base, mem_strdup(answer.frames[answer.frame_count - 1].name));
}

/* The functions that --only and --skip select, by name. */
struct sieve {
	struct routine_choice choice;
	struct names names;
	struct map known; /* hash of pid and address to whether it is wanted */
};

static bool sieve_wants(void *ctx, uint32_t pid, uint64_t routine)
{
	struct sieve *sieve = ctx;
	bool is_new;
	uint64_t *known = map_at(&sieve->known, hash64_pair(pid, routine), &is_new);

	if (is_new) {
		uint64_t id = names_of(&sieve->names, pid, routine);

		*map_at(&sieve->known, hash64_pair(pid, routine), NULL) =
			routine_choice_of(&sieve->choice, sieve->names.items.items[id].symbol,
					  NULL) == ROUTINE_WANTED;
		known = map_find(&sieve->known, hash64_pair(pid, routine));
	}
	return *known;
}

struct asking {
	struct sieve *sieve;
	uint32_t pid;
};

static bool asking_wants(void *ctx, uint64_t routine)
{
	const struct asking *asking = ctx;

	return sieve_wants(asking->sieve, asking->pid, routine);
}

static void result_sieve(struct sieve *sieve, struct call_result *result)
{
	struct asking asking = { sieve, result->pid };

	call_snapshot_fold(&result->snapshot, asking_wants, &asking);
}

static void sieve_deinit(struct sieve *sieve)
{
	names_deinit(&sieve->names);
	map_deinit(&sieve->known);
}

/* The routines of a result become numbers of names. */
static void result_name(struct names *names, struct call_result *result)
{
	struct map known = {};

	for (uint32_t i = 0; i < result->snapshot.reached; i++) {
		struct call_node *node =
			call_snapshot_node(&result->snapshot, result->snapshot.order[i]);
		bool is_new;
		uint64_t *id;

		if (node->routine >= CALL_ROUTINE_PRUNED)
			continue;
		id = map_at(&known, node->routine, &is_new);
		if (is_new)
			*id = call_is_task(node->routine)
				      ? names_put(names, NULL,
						  mem_printf("task %s",
							     call_task_name(&result->tasks,
									    node->routine)))
				      : names_of(names, result->pid, node->routine);
		node->routine = *id;
	}
	map_deinit(&known);
}

/* The report. */

static int table_print(const struct calls_options *wish, const struct table *table)
{
	struct output output;
	int err = output_open(&output, NULL, false);

	if (err)
		return err;
	if (wish->json)
		report_json(table, output.file);
	else
		report_text(table,
			    &(struct text_options){
				    .width = output_width(&output, 0),
				    .utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8"),
			    },
			    output.file);
	return output_close(&output, true);
}

/* Text shows the first rows unless the user asks for more; the profile has all. */
static size_t rows_shown(const struct calls_options *wish)
{
	if (wish->limit)
		return wish->limit;
	return wish->json ? 0 : ROWS_SHOWN;
}

int calls_profile_show(const struct calls_options *wish, const char *path)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	AUTO(table_destroy_auto) struct table *table = NULL;
	const struct view *view = view_find(view_name(wish->view));
	const struct view_request request = { .metric = METRIC_CALLS,
					      .min_share = wish->json ? 0 : -1,
					      .limit = rows_shown(wish),
					      .people = !wish->json };
	unsigned domains;
	int err = profile_open(path, &profile);

	err = err ? err : view_domains(view, profile, &request, &domains);
	err = err ? err : profile_need(profile, domains);
	err = err ? err : view_run(view, profile, &request, &table);
	return err ? err : table_print(wish, table);
}

/*
 * While the command runs: only threads that still do are shown as they are now. Between the end of
 * its last thread and its own there is nothing to show.
 */
static int snapshot(const struct request *request, struct call_recording *recording,
		    struct sieve *sieve)
{
	AUTO(table_destroy_auto) struct table *table = NULL;
	struct call_results running = {};
	struct names names = { .recording = recording };
	struct call_input input = { .tick = call_recording_tick(recording),
				    .limit = rows_shown(&request->wish) };
	int err = 0;

	call_recording_running(recording, &running);
	input.results = mem_alloc((running.count + 1) * sizeof(*input.results));
	array_each(&running, result) {
		if (result->snapshot.reached < 2)
			continue;
		if (routine_choice_any(&sieve->choice))
			result_sieve(sieve, result);
		result_name(&names, result);
		input.results[input.count++] = result;
	}
	input.names = names.items.items;
	if (input.count)
		err = call_table_make(view_name(request->wish.view), &input, &table);
	if (table)
		err = table_print(&request->wish, table);
	free(input.results);
	names_deinit(&names);
	call_results_deinit(&running);
	return err;
}

static void repairs_say(const uint64_t *repairs)
{
	static const char *const texts[] = {
#define X(name, json, text) text,
		CALL_REPAIRS(X)
#undef X
	};

	for (int i = 0; i < CALL_REPAIR_COUNT; i++)
		if (repairs[i])
			log_info("%lu %s", repairs[i], texts[i]);
}

static void java_say(const struct calls_outcome *outcome)
{
	static const char *const texts[] = {
#define X(name, json, text) text,
		CALL_JAVA_COUNTS(X)
#undef X
	};
	static const enum call_java_count worth[] = { CALL_JAVA_UNKNOWN, CALL_JAVA_REFUSED,
						      CALL_JAVA_ODD, CALL_JAVA_EARLY };

	for (size_t i = 0; i < sizeof(worth) / sizeof(worth[0]); i++)
		if (outcome->java[worth[i]])
			log_warn("%lu %s", outcome->java[worth[i]], texts[worth[i]]);
	if (outcome->java[CALL_JAVA_PAUSES])
		log_info("%lu pauses for garbage collection took %.1f ms; they are not a part of "
			 "what methods took",
			 outcome->java[CALL_JAVA_PAUSES],
			 (double)outcome->java[CALL_JAVA_PAUSED] / 1e6);
}

static void outcome_say(const struct request *request, const struct calls_outcome *outcome)
{
	static const struct {
		const char *whose, *nothing;
	} texts[] = {
		[CALLS_ENGINE] = { "engine's", "no calls were seen" },
		[CALLS_HOOKS] = { "hooks'", "no calls were seen: compile the program with "
					    "-finstrument-functions, -pg or "
					    "-fpatchable-function-entry, and not statically" },
		[CALLS_JAVA] = { "agent's", "no calls were seen: no Java virtual machine was "
					    "started with java or another program of a JDK" },
	};
	bool usual = !strcmp(request->wish.output, "assay.db");
	const char *nothing = texts[request->wish.way].nothing;

	if (request->wish.from_events)
		nothing = "no calls were seen";
	if (outcome->java[CALL_JAVA_MACHINES])
		nothing = "no calls were seen: the Java virtual machine called no methods but "
			  "those of its own classes";
	if (!outcome->totals.calls)
		log_warn("%s", nothing);
	if (outcome->overhead > 0)
		log_info("at most %.1f ns were taken off each interval for the %s own cost",
			 outcome->overhead, texts[request->wish.way].whose);
	java_say(outcome);
	if (outcome->wall_only)
		log_warn("perf events are not allowed here: base and cumulative times include "
			 "waiting");
	if (outcome->no_exits)
		log_warn("the ends of %lu calls could not be seen: they count as if they had "
			 "lasted until the next call",
			 outcome->no_exits);
	if (outcome->unpatched)
		log_warn("%lu patchable entries are not recorded: shorter than a call, without "
			 "unwind information, or in a library that was loaded while other threads "
			 "ran, or in which dlsym() found nothing",
			 outcome->unpatched);
	if (outcome->native)
		log_warn("%lu threads left the engine: their calls from then on are not seen",
			 outcome->native);
	if (outcome->events_lost)
		log_warn("%lu events were not written", outcome->events_lost);
	if (outcome->totals.pruned)
		log_info("%lu small call paths were folded into [pruned]", outcome->totals.pruned);
	if (outcome->own_faults)
		log_info("%lu page faults were the engine's own, and are in no function",
			 outcome->own_faults);
	if (outcome->bad)
		log_warn("%lu trees made no sense and are left out", outcome->bad);
	repairs_say(outcome->totals.repairs);
	log_info("profile: %s; see all of it with 'assay report tree%s%s --min-share 0'",
		 request->wish.output, usual ? "" : " -i ", usual ? "" : request->wish.output);
}

/* The recording. */

static int wait_for(const struct request *request, struct call_recording *recording,
		    struct sieve *sieve, struct recorder *recorder, struct command *command,
		    int *ret_code)
{
	uint64_t every = (uint64_t)(request->wish.snapshot_every * NS_PER_S);
	uint64_t next = clock_monotonic() + every;
	int err = 0;

	while (!command_ended(command, ret_code) && !err) {
		struct pollfd ended = { .fd = command_fd(command), .events = POLLIN };

		poll(&ended, 1, POLL_MS);
		err = recorder_round(recorder, NULL);
		if (every && clock_monotonic() >= next && !err) {
			err = snapshot(request, recording, sieve);
			next += every;
		}
	}
	return err;
}

static int recorder_make(const struct request *request, struct call_recording *recording,
			 struct sieve *sieve, struct calls_sink **ret_calls, struct recorder **ret)
{
	const struct hooks_filter filter = { sieve_wants, sieve };
	const struct recorder_options how = { .output = request->wish.output,
					      .command = request->command,
					      .commit_ms = COMMIT_MS,
					      .sync_at_end = true };
	struct sink sink;
	int err = recorder_create(&how, ret);

	if (err)
		return err;
	calls_sink_create(*ret, ret_calls);
	sink = calls_sink(*ret_calls);
	recorder_sink_add(*ret, &sink);
	hooks_source_add(*ret, recording, *ret_calls,
			 routine_choice_any(&sieve->choice) ? &filter : NULL);
	return 0;
}

static double overhead_ns(const struct request *request, const struct call_recording *recording)
{
	return request->wish.way == CALLS_JAVA ? (double)call_recording_java_overhead(recording)
					       : (double)call_recording_overhead(recording) *
							 call_recording_tick(recording);
}

static int java_facts_set(struct recorder *recorder, const struct call_recording *recording)
{
	static const char *const names[] = {
#define X(name, json, text) "java_" json,
		CALL_JAVA_COUNTS(X)
#undef X
	};
	int err = 0;

	for (int i = 0; i < CALL_JAVA_COUNT && !err; i++)
		err = recorder_number_set(recorder, RECORDING_CALLS, names[i],
					  call_recording_java(recording, i));
	return err;
}

static int facts_set(struct recorder *recorder, const struct request *request,
		     const struct call_recording *recording)
{
	bool java = request->wish.way == CALLS_JAVA;
	double ns = overhead_ns(request, recording);
	int err = recorder_fact_set(recorder, RECORDING_CALLS, "events", java ? "java" : "hooks");

	if (!err && java)
		err = java_facts_set(recorder, recording);
	if (err || request->wish.count_only)
		return err;
	err = recorder_fact_set(recorder, RECORDING_CALLS, "metric", "time");
	/* in thousandths of a nanosecond */
	return err ? err
		   : recorder_number_set(recorder, RECORDING_CALLS, "overhead_ps",
					 (uint64_t)(ns * 1000));
}

static void outcome_fill(const struct request *request, struct call_recording *recording,
			 const struct calls_sink *calls, struct calls_outcome *ret)
{
	ret->totals = *calls_sink_totals(calls);
	ret->overhead = overhead_ns(request, recording);
	for (int i = 0; i < CALL_JAVA_COUNT; i++)
		ret->java[i] = call_recording_java(recording, i);
	ret->bad = call_recording_bad(recording);
	ret->no_exits = call_recording_no_exits(recording);
	ret->unpatched = call_recording_unpatched(recording);
	ret->wall_only = call_recording_wall_only(recording);
}

/* A signal ends the recording, not this process. */
static int signals_open(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int machine_wait(const struct request *request, struct call_recording *recording,
			struct sieve *sieve, struct recorder *recorder, int process)
{
	AUTO(close_fd) int signals = signals_open();
	uint64_t end = clock_monotonic() + (uint64_t)(request->wish.duration * NS_PER_S);
	uint64_t every = (uint64_t)(request->wish.snapshot_every * NS_PER_S);
	uint64_t next = clock_monotonic() + every;
	struct pollfd waits[] = { { .fd = process, .events = POLLIN },
				  { .fd = signals, .events = POLLIN } };
	int err = 0;

	while (!err && !poll(waits, 2, POLL_MS) &&
	       !(request->wish.duration > 0 && clock_monotonic() >= end)) {
		err = recorder_round(recorder, NULL);
		if (every && clock_monotonic() >= next && !err) {
			err = snapshot(request, recording, sieve);
			next += every;
		}
	}
	return err;
}

/* Attaches the agent to a Java virtual machine that runs, and restores its classes at the end. */
static int machine_run(const struct request *request, struct calls_outcome *ret)
{
	AUTO(call_recording_destroy_auto) struct call_recording *recording = NULL;
	AUTO(sieve_deinit) struct sieve sieve = { .choice = calls_choice(&request->wish) };
	AUTO(recorder_destroy_auto) struct recorder *recorder = NULL;
	const struct call_recording_options how = recording_options(&request->wish);
	pid_t pid = (pid_t)request->wish.pid;
	AUTO(close_fd) int process = (int)syscall(SYS_pidfd_open, pid, 0);
	AUTO(free_ptr) char *agent = NULL;
	AUTO(free_ptr) char *area = NULL;
	struct calls_sink *calls;
	int err = trace_process_check(pid);

	if (!err && process < 0)
		err = err_set(-errno, "process %d: %s", (int)pid, strerror(errno));
	err = err ? err : call_recording_create(&how, &recording);
	sieve.names.recording = recording;
	err = err ? err : recorder_make(request, recording, &sieve, &calls, &recorder);
	err = err ? err : recorder_start(recorder);
	if (err)
		return err;
	agent = call_recording_agent_path(recording);
	area = call_recording_area_path(recording);
	err = java_attach(pid, agent, area);
	err = err ? err : java_attach(pid, agent, "+");
	if (err) {
		recorder_abandon(recorder);
		return err;
	}
	err = machine_wait(request, recording, &sieve, recorder, process);
	if (!err && !kill(pid, 0) && java_attach(pid, agent, "-"))
		log_warn("%s: its methods go on being counted", err_text());
	err = err ? err : facts_set(recorder, request, recording);
	err = err ? err : recorder_finish(recorder);
	ret->code = 0;
	if (!err)
		outcome_fill(request, recording, calls, ret);
	return err;
}

static int hooks_run(const struct request *request, struct calls_outcome *ret)
{
	AUTO(call_recording_destroy_auto) struct call_recording *recording = NULL;
	AUTO(command_destroy_auto) struct command *command = NULL;
	AUTO(sieve_deinit) struct sieve sieve = { .choice = calls_choice(&request->wish) };
	AUTO(recorder_destroy_auto) struct recorder *recorder = NULL;
	const struct call_recording_options how = recording_options(&request->wish);
	struct calls_sink *calls;
	int err = call_recording_create(&how, &recording);

	sieve.names.recording = recording;
	err = err ? err : recorder_make(request, recording, &sieve, &calls, &recorder);
	err = err ? err : call_recording_environment(recording, true);
	err = err ? err : command_start(request->command, &command);
	err = err ? err : call_recording_environment(recording, false);
	if (err)
		return err;
	signal(SIGINT, SIG_IGN); /* the command decides; what it did is reported in any case */
	signal(SIGQUIT, SIG_IGN);
	err = command_release(command);
	err = err ? err : recorder_start(recorder);
	err = err ? err : wait_for(request, recording, &sieve, recorder, command, &ret->code);
	err = err ? err : facts_set(recorder, request, recording);
	err = err ? err : recorder_finish(recorder);
	if (err)
		return err;
	outcome_fill(request, recording, calls, ret);
	if (call_recording_dropped(recording))
		log_warn("%lu events were not written", call_recording_dropped(recording));
	return call_recording_events_error(recording);
}

/* Trees of events that were written some time ago. */
static int events_run(const struct request *request, struct calls_outcome *ret)
{
	AUTO(call_recording_destroy_auto) struct call_recording *recording = NULL;
	AUTO(sieve_deinit) struct sieve sieve = { .choice = calls_choice(&request->wish) };
	AUTO(recorder_destroy_auto) struct recorder *recorder = NULL;
	const struct call_recording_options how = recording_options(&request->wish);
	struct calls_sink *calls;
	int err = call_recording_read(request->wish.from_events, &how, &recording);

	sieve.names.recording = recording;
	err = err ? err : recorder_make(request, recording, &sieve, &calls, &recorder);
	err = err ? err : recorder_start(recorder);
	err = err ? err : recorder_round(recorder, NULL);
	err = err ? err : recorder_fact_set(recorder, RECORDING_CALLS, "events", "file");
	if (!err && call_recording_timed(recording))
		err = recorder_fact_set(recorder, RECORDING_CALLS, "metric", "time");
	err = err ? err : recorder_finish(recorder);
	if (err)
		return err;
	ret->code = EXIT_SUCCESS;
	ret->totals = *calls_sink_totals(calls);
	if (call_recording_dropped(recording))
		log_warn("%lu records made no sense and are left out",
			 call_recording_dropped(recording));
	return 0;
}

/* The first option given that only the engine supports; NULL: none. */
static const char *engine_option(const struct calls_options *wish)
{
	return wish->allocations ? "--allocations" : wish->resources ? "--resources" : NULL;
}

/* Hooks can only be there from the beginning. */
static enum calls_way process_way(const struct calls_options *wish)
{
	AUTO(free_ptr) char *program = mem_printf("/proc/%u/exe", wish->pid);

	return calls_kind_of(program).way == CALLS_JAVA && !engine_option(wish) ? CALLS_JAVA
										: CALLS_ENGINE;
}

static int way_choose(struct request *request)
{
	struct calls_options *wish = &request->wish;
	struct calls_kind kind = { CALLS_ENGINE, false };

	if (request->command && *request->command)
		kind = calls_kind_of(*request->command);
	/* Of a script nobody knows what it starts. */
	wish->entries = kind.entries || kind.way == CALLS_ENGINE;
	if (wish->pid && wish->way == CALLS_HOOKS)
		return err_set(-EINVAL, "--pid: a process that runs cannot be given hooks; leave "
					"--with to it, or say --with engine or java");
	if (wish->pid && wish->way == CALLS_AUTO)
		wish->way = process_way(wish);
	if (wish->resources && wish->count_only)
		return err_set(-EINVAL, "--resources: time stamps tell when the kernel was "
					"entered; leave out --count");
	if (wish->way == CALLS_AUTO && engine_option(wish))
		wish->way = CALLS_ENGINE;
	if (wish->way == CALLS_HOOKS && engine_option(wish))
		return err_set(-ENOTSUP,
			       "%s: hooks do not see them; leave --with to the program, "
			       "or say --with engine",
			       engine_option(wish));
	if (wish->way == CALLS_JAVA && wish->resources)
		return err_set(-ENOTSUP, "--resources: methods of Java do not see them; leave out "
					 "--with, or say --with engine");
	if (wish->way == CALLS_AUTO)
		wish->way = kind.way;
	if (wish->way == CALLS_JAVA && !call_recording_has_java())
		return err_set(-ENOTSUP, "this assay was built without a JDK and cannot record "
					 "Java; build it again with javac and jvmti.h, or use "
					 "--with engine");
	if (wish->way == CALLS_JAVA && wish->events)
		return err_set(-ENOTSUP, "--events: not of Java, whose trees are built only");
	if (wish->resources && wish->events)
		return err_set(-ENOTSUP, "--events: a file has no events of the kernel; leave out "
					 "--resources");
	return 0;
}

/* The profile is closed when it is shown. */
static int run(struct request *request, int *ret_code)
{
	struct calls_outcome outcome = { .code = EXIT_FAILED };
	int err = request->wish.from_events ? 0 : way_choose(request);

	if (err)
		return err;
	if (request->wish.from_events)
		err = events_run(request, &outcome);
	else if (request->wish.pid && request->wish.way == CALLS_ENGINE)
		err = calls_engine_attach(&request->wish, &outcome);
	else if (request->wish.pid)
		err = machine_run(request, &outcome);
	else if (request->wish.way != CALLS_ENGINE)
		err = hooks_run(request, &outcome);
	else
		err = calls_engine_run(&request->wish, request->command, &outcome);
	*ret_code = outcome.code;
	err = err ? err : calls_profile_show(&request->wish, request->wish.output);
	if (!err)
		outcome_say(request, &outcome);
	return err;
}

int cmd_calls(const struct command *command, int argc, char **argv)
{
	struct request request = {};
	struct options options;
	int first, err, code = EXIT_FAILED;

	options_init(&options, command->groups, &request.wish);
	err = options_parse(&options, OPTIONS_FIRST, argc, argv, &first);
	if (!err && !options.help && first == argc && !request.wish.from_events &&
	    !request.wish.pid)
		err = err_set(-EINVAL, "no command is given");
	if (!err && first < argc && request.wish.from_events)
		err = err_set(-EINVAL, "--from-events: nothing is run, but a command is given");
	if (!err && first < argc && request.wish.pid)
		err = err_set(-EINVAL, "a command and --pid are given: one of both");
	request.command = err ? NULL : argv + first;
	if (!err && options.help)
		code = command_help(command);
	else if (err)
		code = command_usage_error(command);
	else if (run(&request, &code))
		code = command_failure();
	options_deinit(&options);
	return code;
}
