// SPDX-License-Identifier: BSD-2-Clause
/* assay count: puts marks on a program and counts what is executed in them. */
#include "cmd/count.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "analyse/views.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cmd/cmd.h"
#include "cmd/count_recipe.h"
#include "cmd/count_session.h"
#include "cmd/view_code.h"
#include "marks/live.h"
#include "marks/marks.h"
#include "marks/rules.h"
#include "wire/tools.h"

enum { SHOWN = 20 };

/* With --live nothing is begun. */
static int live_check(const struct count_options *given, char **command)
{
	if (given->marks.count || given->file || given->hot || given->rules.count || given->sweep ||
	    given->recipe || given->trace.pid || *command)
		return err_set(-EINVAL, "--live looks at an assay count that runs: only --add, "
					"--remove, --every and --json go with it");
	return 0;
}

/* Whether marks with events are given; a file of marks may hold some, which is found out later. */
static bool events_given(const struct count_options *given)
{
	for (size_t i = 0; i < given->marks.count; i++)
		if (strstr(given->marks.items[i], ",event"))
			return true;
	return given->file;
}

static int options_check(const struct count_options *given, char **command)
{
	if (given->live)
		return live_check(given, command);
	if (given->add.count || given->remove.count || given->json)
		return err_set(-EINVAL, "--add, --remove and --json go with --live PID");
	if (!given->marks.count && !given->file && !given->hot && !given->sweep)
		return err_set(-EINVAL, "nothing is marked: give a mark with -m MARK, such as "
					"-m main, a file of them with -M FILE, or a profile with "
					"--hot FILE");
	if (strcmp(given->by, "engine") != 0 && strcmp(given->by, "kernel") != 0 &&
	    strcmp(given->by, "auto") != 0)
		return err_set(-EINVAL, "--by %s: it is engine, kernel or auto", given->by);
	if (!strcmp(given->by, "kernel") && (given->follow || given->sweep))
		return err_set(-EINVAL, "--by kernel: its marks stay as they are, so neither "
					"--follow-callers nor --sweep goes with it");
	if (!strcmp(given->by, "auto") && !given->trace.pid)
		return err_set(-EINVAL, "--by auto looks at a process that runs, to see how often "
					"marks are visited: give it with -p PID, or --by kernel");
	if (given->follow && !events_given(given))
		return err_set(-EINVAL, "--follow-callers marks the callers of routines that raise "
					"events: give one, such as -m malloc,event");
	if (given->trace.pid && *command)
		return err_set(-EINVAL, "--pid and a command: only one of them can be counted in");
	if (!given->trace.pid && !*command)
		return err_set(-EINVAL, "there is nothing to count in: give a command, or a "
					"process with -p PID");
	return 0;
}

/* Code that a file holds and that has a name; inlined code has no routine of its own. */
static bool is_markable(const struct table *table, const struct cell *cells)
{
	const char *module = cells[table_column(table, "module")].text;

	return *module != '[' && !cells[table_column(table, "inlined")].number &&
	       cells[table_column(table, "address")].set &&
	       strncmp(cells[table_column(table, "symbol")].text, "sub_", 4) != 0;
}

static int hot_rows_take(const struct table *table, uint32_t top, struct marks *marks)
{
	int err = 0;

	for (size_t i = 0; i < table->row_count && top && !err; i++) {
		const struct cell *cells = table_row(table, i);
		AUTO(free_ptr) char *text = NULL;

		if (!is_markable(table, cells))
			continue;
		text = mem_printf("%s!%s", cells[table_column(table, "module")].text,
				  cells[table_column(table, "symbol")].text);
		err = marks_add(marks, text);
		top--;
	}
	return err;
}

static int hot_take(const struct count_options *given, struct marks *marks)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	AUTO(table_destroy_auto) struct table *table = NULL;
	const struct view *view = view_find("functions");
	const struct view_request request = { .min_share = -1 };
	unsigned domains = 0;
	int err = profile_open(given->hot, &profile);

	err = err ? err : view_domains(view, profile, &request, &domains);
	err = err ? err : profile_need(profile, domains);
	err = err ? err : view_run(view, profile, &request, &table);
	return err ? err : hot_rows_take(table, given->top, marks);
}

static int marks_take(const struct count_options *given, struct marks *marks)
{
	int err = 0;

	marks_accesses_limit(marks, given->accesses_max);
	for (size_t i = 0; i < given->marks.count && !err; i++)
		err = marks_add(marks, given->marks.items[i]);
	if (!err && given->file)
		err = marks_add_file(marks, given->file);
	if (!err && given->hot)
		err = hot_take(given, marks);
	if (!err && !marks_count(marks) && !given->sweep)
		err = err_set(-EINVAL, "%s holds %s", given->file ? given->file : given->hot,
			      given->file ? "no mark" : "no function that could be marked");
	return err;
}

/*
 * Prints a row: for code, visits and instructions, and if it is timed the median and the longest
 * visit.
 */
static void row_say(const struct table *table, size_t row)
{
	const struct cell *cells = table_row(table, row);
	const struct cell *middle = &cells[table_column(table, "p50_ns")];
	const char *mark = cells[table_column(table, "mark")].text;
	bool data = cells[table_column(table, "reads")].set;
	unsigned long long first = cells[table_column(table, data ? "reads" : "visits")].number;
	unsigned long long second =
		cells[table_column(table, data ? "writes" : "instructions")].number;

	if (data)
		log_info("%10llu reads  %9llu writes  %s", first, second, mark);
	else if (middle->set)
		log_info("%16llu  %16llu  %s: half took %llu ns or less, the longest %llu ns",
			 first, second, mark, (unsigned long long)middle->number,
			 (unsigned long long)cells[table_column(table, "max_ns")].number);
	else if (cells[table_column(table, "instructions")].set)
		log_info("%16llu  %16llu  %s", first, second, mark);
	else
		log_info("%16llu  %16s  %s", first, "", mark);
}

/* Marks that count nothing since nothing like them was found are worth a line. */
static void missing_say(void *ctx, const struct mark *mark)
{
	const char *hint = "";

	if (mark->places)
		return;
	if (mark->kind == MARK_DATA)
		hint = "; variables that each thread has of its own (thread_local, "
		       "__thread) cannot be marked";
	else if (mark->kind == MARK_ROUTINE && strchr(mark->text, ',') &&
		 !strchr(mark->text, '(') && !strchr(mark->text, '<'))
		hint = "; what follows a comma was taken for a part of its name, as it is "
		       "no option of marks (time, slower=, tail, event, start, stop)";
	log_warn("mark '%s' was not found in any module that was loaded%s", mark->text, hint);
}

/* "42 %: lock table_lock in handle > update_table > futex; 40 visits, 5102334 ns longer each". */
static void tail_row_say(const struct table *table, size_t row)
{
	const struct cell *cells = table_row(table, row);
	const struct cell *object = &cells[table_column(table, "object")];
	const struct cell *value = &cells[table_column(table, "value")];

	log_info("%3.0f %%: %s%s%s in %s%s%s; %llu visits, %llu ns longer each",
		 cells[table_column(table, "share")].real * 100,
		 cells[table_column(table, "cause")].text, object->set ? " " : "",
		 object->set ? object->text : "", cells[table_column(table, "where")].text,
		 value->set ? ", all with " : "", value->set ? value->text : "",
		 (unsigned long long)cells[table_column(table, "visits")].number,
		 (unsigned long long)cells[table_column(table, "longer_ns")].number);
}

/* Why the slowest visits are slow, where that was asked for. */
static int tail_say(const char *path)
{
	enum { CAUSES_SHOWN = 5 };
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	AUTO(table_destroy_auto) struct table *table = NULL;
	AUTO(view_code_deinit) struct view_code code = {};
	const struct view *view = view_find("tail");
	struct view_request request = { .min_share = -1 };
	int err = profile_load(path, view->needs | view->uses, &profile);

	view_code_init(&code, path, profile);
	request.code = view_code_source(&code);
	err = err ? err : view_run(view, profile, &request, &table);
	if (err || !table->row_count)
		return err;
	log_info("of the time by which the slowest visits are longer than the median:");
	for (size_t i = 0; i < table->row_count && i < CAUSES_SHOWN; i++)
		tail_row_say(table, i);
	log_info("'assay report tail' has more");
	return 0;
}

static int result_say(const struct count_options *given, struct marks *marks)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	AUTO(table_destroy_auto) struct table *table = NULL;
	const struct view *view = view_find("marks");
	const struct view_request request = { .min_share = -1 };
	int err = profile_load(given->trace.output, view->needs, &profile);

	err = err ? err : view_run(view, profile, &request, &table);
	if (err)
		return err;
	marks_each(marks, 1, missing_say, NULL);
	if (given->sweep && !table->row_count)
		log_warn("--sweep: no page of '%s' had its turn: no module of that name was "
			 "loaded, or the program ended before the first turn; --every makes "
			 "turns shorter",
			 given->sweep);
	if (table->row_count)
		log_info("%16s  %16s  %s", "visits", "instructions", "mark");
	for (size_t i = 0; i < table->row_count && i < SHOWN; i++)
		row_say(table, i);
	if (table->row_count > SHOWN)
		log_info("and %zu more", table->row_count - SHOWN);
	return marks_keep_visits(marks) ? tail_say(given->trace.output) : 0;
}

/* --- Rules ------------------------------------------------------------------------------------ */

struct rules {
	ARRAY(struct rule *) items;
};

static void rules_deinit(struct rules *rules)
{
	array_each(&rules->items, rule)
		rule_destroy(*rule);
	array_deinit(&rules->items);
}

static int needs_check(const struct rule *rule, const char *mark, unsigned needs,
		       const struct mark_spec *spec)
{
	bool timed = spec->timed || spec->tail;

	if (needs & 1u << RULE_NEEDS_THRESHOLD && !spec->slower)
		return err_set(-EINVAL,
			       "rule '%s': '%s' has no threshold; mark it with one, such as "
			       "-m '%s,slower=1ms'",
			       rule->text, mark, mark);
	if (needs & 1u << RULE_NEEDS_TIME && !timed)
		return err_set(-EINVAL, "rule '%s': '%s' is not timed; mark it with -m '%s,time'",
			       rule->text, mark, mark);
	if (needs & 1u << RULE_NEEDS_DATA && spec->kind != MARK_DATA)
		return err_set(-EINVAL,
			       "rule '%s': '%s' is code, and only data is read and written",
			       rule->text, mark);
	if (needs & 1u << RULE_NEEDS_NOTHING && spec->kind == MARK_DATA)
		return err_set(-EINVAL,
			       "rule '%s': '%s' is data, which has no calls and no instructions, "
			       "but reads, writes and accesses",
			       rule->text, mark);
	return 0;
}

static int reads_check(const struct rule *rule, struct marks *marks)
{
	int err = 0;

	for (size_t i = 0; i < rule->reads.count && !err; i++) {
		const char *mark = rule->reads.items[i];
		struct mark_spec spec;

		if (marks_spec(marks, mark, &spec))
			err = needs_check(rule, mark, rule->needs.items[i], &spec);
		else
			err = err_set(-EINVAL,
				      "rule '%s': '%s' is not marked; give it with -m, as it is "
				      "written there",
				      rule->text, mark);
	}
	return err;
}

static int rules_take(const struct count_options *given, struct marks *marks, struct rules *rules)
{
	int err = 0;

	for (size_t i = 0; i < given->rules.count && !err; i++) {
		struct rule *rule = NULL;

		err = rule_parse(given->rules.items[i], &rule);
		if (!err)
			*array_push(&rules->items) = rule;
	}
	for (size_t i = 0; i < rules->items.count && !err; i++)
		array_each(&rules->items.items[i]->actions, action)
			if (action->kind == RULE_START && !err)
				err = marks_add_idle(marks, action->text);
	for (size_t i = 0; i < rules->items.count && !err; i++)
		err = reads_check(rules->items.items[i], marks);
	return err ? err : rules_check(rules->items.items, rules->items.count);
}

/* Checks that rules only have actions that are possible where the kernel counts. */
static int rules_check_fixed(const struct rules *rules)
{
	for (size_t i = 0; i < rules->items.count; i++)
		array_each(&rules->items.items[i]->actions, action)
			if (action->kind == RULE_START || action->kind == RULE_STOP ||
			    action->kind == RULE_VALUES || action->kind == RULE_PATHS)
				return err_set(-EINVAL,
					       "rule '%s': where the kernel counts, rules cannot "
					       "start or stop marks, nor record; use --by engine",
					       rules->items.items[i]->text);
	return 0;
}

/*
 * Chooses between kernel and engine. For auto, the marks are read a second time, for the moment in
 * which the process is watched; marks that may change need the engine.
 */
static int kernel_choose(const struct count_options *given, const struct rules *rules, bool *ret)
{
	AUTO(marks_destroy_auto) struct marks *marks = NULL;
	int err;

	*ret = !strcmp(given->by, "kernel");
	if (*ret)
		return rules_check_fixed(rules);
	if (strcmp(given->by, "auto") != 0)
		return 0;
	if (given->follow || given->sweep || rules_check_fixed(rules)) {
		log_info("the engine counts, as marks may change");
		return 0;
	}
	marks = marks_create();
	err = marks_take(given, marks);
	return err ? err : count_choose(given, marks, ret);
}

/* --- Running ---------------------------------------------------------------------------------- */

static int count_run(struct count_options *given, struct marks *marks, const struct rules *rules,
		     bool kernel, char **command)
{
	/* Those that no mark needs put no code anywhere, until one comes that does. */
	const uint64_t tools =
		ENGINE_TOOL_BIT(ENGINE_TOOL_MARKS) | ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_TIMES) |
		ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_DATA) | ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_VISITS);
	double seconds = given->every > 0 ? given->every : 1;
	AUTO(marks_live_destroy_auto)
	struct marks_live *live = marks_live_create((uint64_t)(seconds * NS_PER_S) + 1);
	AUTO(follow_destroy_auto)
	struct follow *follow = given->follow ? follow_create(marks, given->follow) : NULL;
	AUTO(count_parts_destroy_auto)
	struct count_parts *parts = count_parts_create(given->trace.output);
	const struct session_options options = {
		.marks = marks,
		.live = live,
		.rules = rules->items.items,
		.rule_count = rules->items.count,
		.follow = follow,
		.sweep = given->sweep,
		.quiet = given->trace.quiet,
		.attached = given->trace.pid != 0,
		.fixed = kernel,
		.says = given->every > 0 && !rules->items.count,
		.parts = parts,
	};
	AUTO(session_destroy_auto) struct session *session = session_create(&options);
	const struct trace_marks hooks = session_hooks(session);
	int code;

	if (kernel)
		return count_kernel(given, marks, live, session, command);
	given->trace.tools = tools;
	code = trace_run(&given->trace, &hooks, command);
	if (count_parts_merge(parts)) {
		log_error("%s", err_text());
		code = code == EXIT_DONE ? EXIT_FAILED : code;
	}
	if (marks_failed(marks))
		log_warn("in %llu modules marks could not be looked up",
			 (unsigned long long)marks_failed(marks));
	if (marks_untimed(marks))
		log_warn("%llu marks are not timed: there is room for the times of %d",
			 (unsigned long long)marks_untimed(marks), MARK_TIMERS_MAX);
	return code;
}

/* Identifies the file, so that a new one at the same place can be told from it. */
static uint64_t profile_identity(const char *path)
{
	struct stat status;

	if (stat(path, &status))
		return 0;
	return hash64_pair(hash64_pair(status.st_dev, status.st_ino),
			   hash64_pair((uint64_t)status.st_mtim.tv_sec,
				       (uint64_t)status.st_mtim.tv_nsec));
}

static int recipes_help(void)
{
	struct strbuf text = {};

	recipe_help(&text);
	fputs(strbuf_text(&text), stdout);
	strbuf_deinit(&text);
	return command_output_check();
}

int cmd_count(const struct command *command, int argc, char **argv)
{
	AUTO(options_deinit) struct options options = {};
	AUTO(marks_destroy_auto) struct marks *marks = marks_create();
	AUTO(rules_deinit) struct rules rules = {};
	struct count_options given = {};
	int first, err, code;
	uint64_t before;
	bool kernel = false;

	options_init(&options, command->groups, &given);
	err = options_parse(&options, OPTIONS_FIRST, argc, argv, &first);
	if (!err && options.help)
		return command_help(command);
	if (!err && given.recipe && !strcmp(given.recipe, "help"))
		return recipes_help();
	if (!err && given.recipe)
		err = recipe_take(given.recipe, &options);
	err = err ? err : options_check(&given, argv + first);
	if (!err && given.live)
		return count_live(&given);
	err = err ? err : marks_take(&given, marks);
	err = err ? err : rules_take(&given, marks, &rules);
	if (err)
		return command_usage_error(command);
	log_quiet_set(given.trace.quiet);
	log_verbose_set(given.trace.verbose);
	if (kernel_choose(&given, &rules, &kernel))
		return command_failure();
	before = profile_identity(given.trace.output);
	code = count_run(&given, marks, &rules, kernel, argv + first);
	/* If the recording could not begin, the profile is still the one from before. */
	if (!given.trace.quiet && profile_identity(given.trace.output) != before &&
	    result_say(&given, marks))
		log_debug("%s", err_text());
	return code;
}
