// SPDX-License-Identifier: BSD-2-Clause
/*
 * The options of commands that read profiles: report, annotate, diff, merge, export, html, serve.
 */
#include "cmd/options.h"

#include "analyse/request.h"
#include "cmd/html.h"
#include "cmd/serve.h"
#include "cmd/view_options.h"
#include "report/export.h"

#include <limits.h>

/* clang-format off */

/* --- What reads profiles ---------------------------------------------------------------------- */

#define VIEW(member) OPTION_FIELD(struct view_options, member)

static const struct option_choice colors[] = {
	[COLOR_AUTO] = { "auto" }, [COLOR_ALWAYS] = { "always" }, [COLOR_NEVER] = { "never" }, {},
};

static const struct option_row output_rows[] = {
	{ "input", 'i', OPTION_FILE, VIEW(input), .argument = "FILE", .initial = "assay.db",
	  .help = "Read the profile FILE" },
	{ "output", 'o', OPTION_FILE, VIEW(output), .argument = "FILE",
	  .otherwise = "standard output",
	  .help = "Write to FILE, which appears only when it is whole" },
	{ "color", 0, OPTION_CHOICE, VIEW(color), .argument = "WHEN", .choices = colors,
	  .initial = "auto", .needs = "format=text", .help = "Print text in colour",
	  .more = "With `auto`, text is coloured on a terminal, unless NO_COLOR is set or TERM is "
		  "`dumb`." },
	{ "width", 0, OPTION_NUMBER, VIEW(width), .argument = "N", .low = 1, .high = 100000,
	  .otherwise = "that of the terminal; elsewhere there is no limit",
	  .needs = "format=text", .help = "Print text of N columns",
	  .more = "Names are shortened, numbers never; of a place the offset or the line is kept. "
		  "Where that is not enough, columns are left out, and the last lines name them." },
	{ "no-pager", 0, OPTION_FLAG, VIEW(no_pager), .needs = "format=text",
	  .help = "Do not run a pager" },
	{},
};

static const struct option_row report_rows[] = {
	{ "tui", 0, OPTION_FLAG, VIEW(tui), .needs = "format=text",
	  .help = "Look at the profile on the terminal, to move about in",
	  .more = "Tab goes through the views, Enter shows the callers of a function, `a` its "
		  "instructions with values, `/` chooses functions by name, `h` lists the keys." },
	{ "live", 0, OPTION_NUMBER, VIEW(live), .argument = "PID", .low = 1, .high = INT_MAX,
	  .help = "Show the calls of process PID so far, while `assay calls` records them",
	  .more = "It reads the memory in which the trees grow, of threads that run now; what has "
		  "ended is in the profile of the recording. PID may also be the `assay calls` "
		  "itself: then all its processes are shown. The program does not notice." },
	{},
};

const struct option_group report_groups[] = {
	{ "What to show", request_rows, .takers = request_takers },
	{ "Files and terminals", output_rows },
	{ .rows = report_rows },
	{},
};

static const struct option_row annotate_rows[] = {
	{ "att", 0, OPTION_FLAG, VIEW(att), .help = "Print AT&T syntax instead of Intel's" },
	{ "values", 0, OPTION_LIST, VIEW(request.wish.items), .argument = "ITEM[,ITEM...]",
	  .help = "Show these values, not the best of each instruction",
	  .more = "Items are named as in assay-record(1). If an instruction has several, they "
		  "follow in lines of their own. `arg0` means `arg0@caller` as well; `*` and `?` "
		  "stand for any text and any one byte." },
	{},
};

static const char *const annotate_takes[] = { "limit", "top", "pid", "tid", "uid", "comm",
					      "module", "format", "json", NULL };

const struct option_group annotate_groups[] = {
	{ "What to show", annotate_rows },
	{ .rows = request_rows, .taken = annotate_takes },
	{ "Files and terminals", output_rows },
	{},
};

static const struct option_row diff_rows[] = {
	{ "lines", 0, OPTION_FLAG, VIEW(lines), .help = "Compare source lines" },
	{ "total", 0, OPTION_FLAG, VIEW(total),
	  .help = "Compare functions with what they called, instead of by themselves" },
	{ "significant", 0, OPTION_FLAG, VIEW(significant),
	  .help = "Show only changes that are marked as real" },
	{},
};

static const char *const diff_takes[] = { "sort", "limit", "min-share", "pid", "tid", "uid",
					  "comm", "symbol", "module", "format", "json", NULL };
static const char *const diff_output[] = { "output", "color", "width", "no-pager", NULL };

const struct option_group diff_groups[] = {
	{ "What to compare", diff_rows },
	{ .rows = request_rows, .taken = diff_takes },
	{ "Files and terminals", output_rows, .taken = diff_output },
	{},
};

static const struct option_row merge_rows[] = {
	{ "output", 'o', OPTION_FILE, .at = 0, .size = sizeof(const char *), .argument = "FILE",
	  .help = "Write the merged profile to FILE, which appears only when it is whole",
	  .more = "A profile that is there is kept as FILE.old; anything else is left alone. It "
		  "may be one of the profiles that are merged." },
	{},
};

const struct option_group merge_groups[] = { { .rows = merge_rows }, {} };

static const struct option_row export_rows[] = {
	{ "off-cpu", 0, OPTION_FLAG, VIEW(off_cpu), .only = EXPORT_TAKES_OFF_CPU,
	  .help = "Write the microseconds that threads waited instead of samples",
	  .more = "The innermost frame of each line is the cause." },
	{ "cost", 0, OPTION_CHOICE, VIEW(cost), .argument = "COST", .only = EXPORT_TAKES_COST,
	  .choices = request_costs, .initial = "time",
	  .help = "Choose which cost of calls is written",
	  .more = "It is what functions cost themselves. Only of profiles of `assay calls`." },
	{ "no-comm", 0, OPTION_FLAG, VIEW(no_comm), .only = EXPORT_TAKES_NO_COMM,
	  .help = "Do not begin stacks with the thread's name" },
	{ "binary", 0, OPTION_FLAG, VIEW(binary), .only = EXPORT_TAKES_BINARY,
	  .help = "Write numbers of blocks instead of text",
	  .more = "These are the eight bytes `assayblk`, then chunks of 32-bit numbers in the "
		  "machine's order: the thread's id in the profile, its process's pid, its tid, "
		  "how many blocks follow, and those, by their ids in the profile's table "
		  "`block`." },
	{},
};

static const char *const export_takes[] = { "pid", "tid", "uid", "comm", "symbol", "module", NULL };
static const char *const export_output[] = { "input", "output", NULL };

const struct option_group export_groups[] = {
	{ "What to write", export_rows, .takers = export_takers },
	{ .rows = request_rows, .taken = export_takes, .takers = export_takers },
	{ "Files", output_rows, .taken = export_output },
	{},
};

/* --- html ------------------------------------------------------------------------------------- */

#define HTML(member) OPTION_FIELD(struct html_options, member)

static const struct option_row html_rows[] = {
	{ "input", 'i', OPTION_FILE, HTML(input), .argument = "FILE", .initial = "assay.db",
	  .help = "Read the profile FILE" },
	{ "output", 'o', OPTION_FILE, HTML(output), .argument = "FILE", .initial = "assay.html",
	  .help = "Write the page to FILE, which appears only when it is whole; - is standard "
		  "output" },
	{ "limit", 0, OPTION_NUMBER, HTML(page.limit), .argument = "N", .low = 1, .initial = "2000",
	  .help = "Put at most N rows into each table",
	  .more = "The page says how many more there are." },
	{ "functions", 0, OPTION_NUMBER, HTML(page.functions), .argument = "N", .initial = "40",
	  .help = "Put in the instructions of the N functions with the most samples",
	  .more = "Functions whose code is neither in the profile nor in a file that is here as it "
		  "ran are passed over." },
	{},
};

const struct option_group html_groups[] = { { .rows = html_rows }, {} };

/* --- serve ------------------------------------------------------------------------------------ */

#define SERVE(member) OPTION_FIELD(struct serve_options, member)

static const struct option_row serve_rows[] = {
	{ "input", 'i', OPTION_FILE, SERVE(input), .argument = "FILE", .initial = "assay.db",
	  .help = "Show the profile FILE, which may be one that is being recorded" },
	{ "port", 0, OPTION_NUMBER, SERVE(port), .argument = "N", .high = 65535,
	  .otherwise = "any that is free", .help = "Listen on port N" },
	{ "address", 0, OPTION_TEXT, SERVE(address), .argument = "ADDRESS", .initial = "127.0.0.1",
	  .help = "Listen on this address of the machine",
	  .more = "One that other machines reach is refused without --allow-remote." },
	{ "allow-remote", 0, OPTION_FLAG, SERVE(allow_remote),
	  .help = "Let the address be one that other machines reach",
	  .more = "Whoever has the address with its token then sees the whole profile: names, "
		  "command lines, values, lines of source. Nothing is encrypted on the way. A "
		  "tunnel (`ssh -L`) to the default address is safer." },
	{ "allow-start", 0, OPTION_FLAG, SERVE(allow_start),
	  .help = "Let the page start recordings of COMMAND, and of nothing else",
	  .more = "Each takes the place of the profile that is shown, which is kept as FILE.old." },
	{ "limit", 0, OPTION_NUMBER, SERVE(page.limit), .argument = "N", .low = 1,
	  .initial = "2000", .help = "Put at most N rows into each table" },
	{ "functions", 0, OPTION_NUMBER, SERVE(page.functions), .argument = "N", .initial = "40",
	  .help = "Show the instructions of the N functions with the most samples" },
	{ "quiet", 'q', OPTION_FLAG, SERVE(quiet),
	  .help = "Say nothing but what is wrong, not even the address" },
	{ "of-recorder", 0, OPTION_FLAG, SERVE(of_recorder), .hidden = true,
	  .help = "End soon after standard input has ended" },
	{},
};

const struct option_group serve_groups[] = { { .rows = serve_rows }, {} };
/* clang-format on */
