// SPDX-License-Identifier: BSD-2-Clause
/*
 * The options of commands that execute programs in the engine: trace, count and calls.
 */
#include "cmd/options.h"

#include "cmd/calls.h"
#include "cmd/count.h"
#include "cmd/trace.h"
#include "paths/layer.h"
#include "wire/tools.h"

#include <limits.h>

/* clang-format off */

/* --- trace ------------------------------------------------------------------------------------ */

#define TRACE(member) OPTION_FIELD(struct trace_options, member)

static const struct option_choice tools[] = {
#define X(name, id, flags, bytes, counters, unit, help)                                          \
	[ENGINE_TOOL_##name] = { #id, help, ((flags) & ENGINE_TOOL_OWN) != 0 },
	ENGINE_TOOLS(X)
#undef X
	{},
};

static const struct option_choice tables[] = {
#define X(name, text, what) [CYCLES_##name] = { text, what },
	CYCLES_KINDS(X)
#undef X
		{},
};

static const struct option_row trace_rows[] = {
	{ "pid", 'p', OPTION_NUMBER, TRACE(pid), .argument = "PID", .low = 1, .high = INT_MAX,
	  .help = "Take a running process instead of starting a command" },
	{ "duration", 0, OPTION_DURATION, TRACE(duration), .argument = "TIME", .needs = "pid",
	  .otherwise = "until an interrupt", .help = "Give the process back after that time" },
	{ "release", 0, OPTION_FLAG, TRACE(release), .needs = "pid",
	  .help = "Only take the process out of an engine whose 'assay trace' was killed",
	  .more = "It goes on by itself, as after an interrupt." },
	{ "tool", 0, OPTION_CHOICES, TRACE(tools), .argument = "TOOL[,TOOL...]", .choices = tools,
	  .initial = "paths", .help = "Choose what the engine does on the way" },
	{ "layers", 0, OPTION_NUMBER, TRACE(layers), .argument = "N", .low = 1,
	  .high = LAYER_LEVELS_MAX - 2, .initial = "2", .needs = "tool=paths",
	  .help = "Find N layers of cycles above strata" },
	{ "max-cycle", 0, OPTION_NUMBER, TRACE(max_cycle), .argument = "N", .low = 2,
	  .high = LAYER_MAX_CYCLE_MAX, .initial = "4096", .needs = "tool=paths",
	  .help = "End a cycle when it has N symbols, if not before",
	  .more = "How many were cut is in the view `layers`." },
	{ "memory", 0, OPTION_SIZE, TRACE(memory), .argument = "MIB", .unit = 1 << 20,
	  .low = 1 << 20, .high = UINT64_C(64) << 30, .initial = "64", .needs = "tool=paths",
	  .help = "Limit the memory for the paths of a process",
	  .more = "Layers above, and what is being compressed, take about as much again. When it "
		  "is full, what is known about cycles goes into the profile and is forgotten; the "
		  "order is complete all the same, but a path that comes again gets another "
		  "number." },
	{ "table", 0, OPTION_CHOICE, TRACE(table.kind), .argument = "KIND", .choices = tables,
	  .initial = "open", .needs = "tool=paths",
	  .help = "Choose how cycles are found again: in what kind of table",
	  .more = "Of a `bounded` one it is said at the end what lookups took, so that what "
		  "sorting gains can be seen." },
	{ "buckets", 0, OPTION_NUMBER, TRACE(table.buckets), .argument = "N", .low = 1,
	  .high = 1 << 24, .otherwise = "65536", .needs = "table=bounded",
	  .help = "Give a bounded table N buckets, a power of two" },
	{ "sort-period", 0, OPTION_NUMBER, TRACE(table.period), .argument = "N", .low = 1,
	  .high = UINT32_MAX, .otherwise = "1048576", .needs = "table=bounded",
	  .help = "Sort deep buckets of a bounded table after N lookups",
	  .more = "4294967295 is never." },
	{ "sort-depth", 0, OPTION_NUMBER, TRACE(table.depth), .argument = "N", .low = 1,
	  .high = UINT32_MAX, .otherwise = "4", .needs = "table=bounded",
	  .help = "Sort buckets of more than N entries" },
	{ "sort-frequency", 0, OPTION_NUMBER, TRACE(table.frequency), .argument = "N", .low = 1,
	  .high = UINT32_MAX, .otherwise = "1000", .needs = "table=bounded",
	  .help = "Sort the entries that were found at least N times" },
	{ "no-children", 0, OPTION_FLAG, TRACE(no_children),
	  .help = "Let programs that the command executes run without the engine" },
	{ "summary", 0, OPTION_FILE, TRACE(summary), .argument = "FILE",
	  .help = "Write to FILE, as JSON, what ran outside the engine and why" },
	{ "cache-size", 0, OPTION_SIZE, TRACE(cache_size), .argument = "KIB", .unit = 1 << 10,
	  .low = 512 << 10, .high = UINT64_C(4) << 30, .otherwise = "262144",
	  .help = "Limit the translated code that a process keeps",
	  .more = "When there is more, the oldest is given up and translated anew where it is "
		  "needed again." },
	{ "output", 'o', OPTION_FILE, TRACE(output), .argument = "FILE", .initial = "assay.db",
	  .help = "Write the profile to FILE; an existing one is kept as FILE.old" },
	{ "raw", 0, OPTION_FILE, TRACE(raw), .argument = "FILE", .hidden = true,
	  .help = "Write what the engine records to FILE as it comes" },
	{ "quiet", 'q', OPTION_FLAG, TRACE(quiet),
	  .help = "Say nothing unless something is wrong" },
	{ "verbose", 'v', OPTION_FLAG, TRACE(verbose), .help = "Say more" },
	{},
};

const struct option_group trace_groups[] = { { .rows = trace_rows }, {} };

/* --- count ------------------------------------------------------------------------------------ */

#define COUNT(member) OPTION_FIELD(struct count_options, member)

static const struct option_row count_rows[] = {
	{ "mark", 'm', OPTION_PATTERN, COUNT(marks), .argument = "MARK",
	  .help = "Count MARK: `deflate`, `libz.so!inflate_fast+0x40`, `deflate.c:414-493`, "
		  "`insn:lock*`",
	  .more = "A routine, whose name may be a pattern; an instruction, by a routine and an "
		  "offset or by an address of its file; a range of addresses "
		  "(`libz.so!0x5a10-0x5a80`); source lines; instructions by their names; what the "
		  "program declares itself (`mark:parse`); or data (`data:window`, "
		  "`data:0x7f0012345000+64`, `data:heap:malloc@parse.c:88`). In front of `!` is "
		  "the module. Behind code, `,time` times its visits, and `,slower=300ns` also "
		  "counts those that took longer. Behind one routine, `,tail` says what its "
		  "slowest calls do differently. May be given many times." },
	{ "marks", 'M', OPTION_FILE, COUNT(file), .argument = "FILE",
	  .help = "Count the marks in FILE, one a line; lines that begin with # are comments" },
	{ "recipe", 0, OPTION_TEXT, COUNT(recipe), .argument = "NAME=ARGUMENT",
	  .help = "Take the options of a recipe in: `tail=deflate`; --recipe help lists them",
	  .more = "A recipe is a file with options, one a line, by their long names without "
		  "dashes; `$1` in it is the ARGUMENT. With a slash in it, NAME is the path of "
		  "one's own." },
	{ "hot", 0, OPTION_FILE, COUNT(hot), .argument = "FILE",
	  .help = "Count the hottest functions of the profile FILE",
	  .more = "Functions of the kernel, inlined ones and those without a name are passed "
		  "over." },
	{ "top", 0, OPTION_NUMBER, COUNT(top), .argument = "N", .low = 1, .high = 100000,
	  .initial = "20", .needs = "hot", .help = "Count so many of them" },
	{ "sweep", 0, OPTION_TEXT, COUNT(sweep), .argument = "MODULE",
	  .help = "Mark the code of MODULE page by page, each in its turn for an interval",
	  .more = "A turn is as long as `--every` says. After the last page comes the first one "
		  "again, and goes on counting; `report marks` has a row for each page." },
	{ "when", 0, OPTION_PATTERN, COUNT(rules), .argument = "RULE",
	  .help = "Act when a condition holds: `rate(calls(deflate)) > 1000 -> print`",
	  .more = "The condition is looked at each time that marks are read (see `--every`). "
		  "RULES, above, has the rest. May be given many times." },
	{ "follow-callers", 0, OPTION_NUMBER, COUNT(follow), .argument = "N", .low = 1, .high = 64,
	  .otherwise = "none",
	  .help = "Mark the callers of routines that raise events, then theirs, N levels up",
	  .more = "Each caller is counted from when it was first seen, as `report marks` says. Who "
		  "called whom is said at the end, and is an event of the profile: "
		  "`report events` has the chain. At least one mark has `,event` behind it. With "
		  "`,slower=5ms,event` only what was slow is followed, with the same threshold." },
	{ "by", 0, OPTION_TEXT, COUNT(by), .argument = "WHO", .initial = "engine",
	  .help = "Who counts: engine, kernel or auto",
	  .more = "The engine can count every mark. The kernel counts visits of code by a probe at "
		  "each place, and reads and writes of at most two objects of 1, 2, 4 or 8 bytes "
		  "by breakpoints of the processor, while the process runs as it is: good for what "
		  "is rare. With auto and `--pid` the kernel counts for a second, and whoever is "
		  "cheaper for what was seen counts from then on; the choice and its reasons are "
		  "said." },
	{ "max-accesses", 0, OPTION_NUMBER, COUNT(accesses_max), .argument = "N", .low = 2,
	  .high = MARK_DATA_CELLS_MAX, .initial = "262144",
	  .help = "Keep at most N rows of `report accesses` for each thread",
	  .more = "A row takes about 50 bytes once it is used. Behind half of N, new rows say "
		  "which data was accessed, and not by what; what is beyond N is lost, and counted "
		  "as `uncounted_access` in `report losses`." },
	{ "every", 0, OPTION_DURATION, COUNT(every), .argument = "TIME", .otherwise = "1s",
	  .help = "Read the marks at that interval, and say what they have counted",
	  .more = "Without it they are read every second, for the profile, and nothing is said; "
		  "with `--when`, only rules say something. With `--live`, read again and again." },
	{ "live", 0, OPTION_NUMBER, COUNT(live), .argument = "PID", .low = 1, .high = INT_MAX,
	  .help = "Read what another assay count has counted in the process so far" },
	{ "add", 0, OPTION_PATTERN, COUNT(add), .argument = "MARK",
	  .help = "With --live: count MARK from now on" },
	{ "remove", 0, OPTION_PATTERN, COUNT(remove), .argument = "MARK",
	  .help = "With --live: count MARK no more",
	  .more = "As it was given. What it has counted is kept. A process that was taken with "
		  "`--pid` runs by itself while nothing is marked." },
	{ "json", 0, OPTION_FLAG, COUNT(json),
	  .help = "With --live: print what was read as JSON, an object for each reading" },
	{ "pid", 'p', OPTION_NUMBER, COUNT(trace.pid), .argument = "PID", .low = 1, .high = INT_MAX,
	  .help = "Take a running process instead of starting a command" },
	{ "duration", 0, OPTION_DURATION, COUNT(trace.duration), .argument = "TIME",
	  .needs = "pid", .otherwise = "until an interrupt",
	  .help = "Give the process back after that time" },
	{ "no-children", 0, OPTION_FLAG, COUNT(trace.no_children),
	  .help = "Let programs that the command executes run without the engine" },
	{ "output", 'o', OPTION_FILE, COUNT(trace.output), .argument = "FILE",
	  .initial = "assay.db",
	  .help = "Write the profile to FILE; an existing one is kept as FILE.old" },
	{ "quiet", 'q', OPTION_FLAG, COUNT(trace.quiet),
	  .help = "Say nothing unless something is wrong" },
	{ "verbose", 'v', OPTION_FLAG, COUNT(trace.verbose), .help = "Say more" },
	{},
};

const struct option_group count_groups[] = { { .rows = count_rows }, {} };

/* --- calls ------------------------------------------------------------------------------------ */

#define CALLS(member) OPTION_FIELD(struct calls_options, member)

static const struct option_choice calls_views[] = {
	[CALLS_TREE] = { "tree", "the tree of each thread" },
	[CALLS_FUNCTIONS] = { "functions", "each function, over all threads" },
	[CALLS_CALLGRAPH] = { "callgraph", "each function between its callers and what it calls" },
	{},
};

static const struct option_choice calls_ways[] = {
	[CALLS_AUTO] = { "auto", "java if the program is a launcher of Java, hooks if it has them, "
				 "otherwise the engine" },
	[CALLS_ENGINE] = { "engine", "every call of any program, in the engine" },
	[CALLS_HOOKS] = { "hooks", "functions that were compiled with hooks, as by -pg" },
	[CALLS_JAVA] = { "java", "methods of Java, and functions with hooks; also of machines that "
				 "a script starts" },
	{},
};

static const struct option_row calls_what[] = {
	{ "with", 0, OPTION_CHOICE, CALLS(way), .argument = "WAY", .choices = calls_ways,
	  .initial = "auto", .help = "Choose how calls are seen" },
	{ "pid", 'p', OPTION_NUMBER, CALLS(pid), .argument = "PID", .low = 1, .high = INT_MAX,
	  .help = "Take a process that runs, instead of starting a command",
	  .more = "A Java virtual machine is given the agent; methods that run at that moment are "
		  "seen from their next call on, and at the end its classes are as they were. It "
		  "can be done once for each machine, as the user that it has, unless it was "
		  "started with -XX:+DisableAttachMechanism. Any other process comes into the "
		  "engine, as with assay-trace(1), and is given back. Functions that were called "
		  "before are found when something returns to them: they have no calls, and each "
		  "such return is counted." },
	{ "duration", 0, OPTION_DURATION, CALLS(duration), .argument = "TIME", .needs = "pid",
	  .otherwise = "until an interrupt", .help = "Give the process back after that time" },
	{ "count", 0, OPTION_FLAG, CALLS(count_only),
	  .help = "Only count calls; take no time stamps" },
	{ "only", 0, OPTION_PATTERN, CALLS(only), .argument = "FUNCTION",
	  .help = "Tell only such functions apart; others are part of who calls them",
	  .more = "In a name * stands for any text and ? for any one character. The option can be "
		  "given more than once. In the engine, calls that are not told apart cost hardly "
		  "anything, unless they are indirect." },
	{ "skip", 0, OPTION_PATTERN, CALLS(skip), .argument = "FUNCTION",
	  .help = "Make such functions part of who calls them" },
	{ "allocations", 0, OPTION_FLAG, CALLS(allocations),
	  .help = "Also count objects and bytes that functions allocate",
	  .more = "Each call of malloc and its relatives is an object of as many bytes as it asks "
		  "for, and belongs to the function that made the call. `assay report tree --cost "
		  "bytes` shows them. Only in the engine." },
	{ "resources", 0, OPTION_FLAG, CALLS(resources),
	  .help = "Also count what functions ask of the kernel",
	  .more = "These are system calls, bytes that they read, wrote, sent and received, page "
		  "faults and context switches. `assay report tree --cost faults_minor` shows one "
		  "of them. Only in the engine, and not with --count." },
	{ "output", 'o', OPTION_FILE, CALLS(output), .argument = "FILE", .initial = "assay.db",
	  .help = "Write the profile to FILE" },
	{ "events", 0, OPTION_FILE, CALLS(events), .argument = "FILE",
	  .help = "Also write every event to FILE; not of Java, and not with --resources",
	  .more = "A record has 32 bytes, and 16 for each of time, objects and bytes. In the "
		  "engine it takes some 0.15 microseconds. The program waits while the disk is "
		  "slower than it is." },
	{ "from-events", 0, OPTION_FILE, CALLS(from_events), .argument = "FILE",
	  .help = "Run nothing, but make the trees of the events in FILE" },
	{ "view", 0, OPTION_CHOICE, CALLS(view), .argument = "VIEW", .choices = calls_views,
	  .initial = "tree", .help = "Choose what is shown at the end",
	  .more = "The profile has all of them, for `assay report`. Cum and elapsed in `functions` "
		  "are those of the outermost calls, so that a recursive function counts once. In "
		  "each group of `callgraph`, the parents' calls, base and cum add up to the "
		  "function's own, and the children's cum to its cum without its base; this is "
		  "checked." },
	{ "limit", 0, OPTION_NUMBER, CALLS(limit), .argument = "N", .low = 1,
	  .otherwise = "30, and all in JSON", .help = "Show N rows" },
	{ "json", 0, OPTION_FLAG, CALLS(json), .help = "Print JSON; times are nanoseconds" },
	{ "snapshot-every", 0, OPTION_DURATION, CALLS(snapshot_every), .argument = "TIME",
	  .help = "Also report the threads that run, at this interval, while the command runs" },
	{},
};

static const struct option_row calls_limits[] = {
	{ "max-nodes", 0, OPTION_NUMBER, CALLS(max_nodes), .argument = "N", .low = 64,
	  .high = 1 << 24, .initial = "65536",
	  .help = "Keep up to N call paths of a thread",
	  .more = "Above, paths whose share of their caller is small are folded into a path "
		  "`[pruned]`, so that all sums hold. The default takes about 6 MB for each thread "
		  "that uses them." },
	{ "prune-share", 0, OPTION_SHARE, CALLS(prune_share), .argument = "S", .initial = "0.1",
	  .help = "Call a path small below this share of its caller's time" },
	{ "max-depth", 0, OPTION_NUMBER, CALLS(max_depth), .argument = "N", .low = 8,
	  .high = 1 << 20, .initial = "8192",
	  .help = "Tell up to N calls within each other apart; at most a quarter of --max-nodes",
	  .more = "What lies below is charged to the function above, and its calls are counted as "
		  "lost." },
	{ "max-threads", 0, OPTION_NUMBER, CALLS(max_threads), .argument = "N", .low = 1,
	  .high = 1 << 16, .initial = "512",
	  .help = "Follow up to N threads at the same time",
	  .more = "Further ones are counted as lost, once each." },
	{},
};

const struct option_group calls_groups[] = {
	{ "What to show", calls_what },
	{ "Limits", calls_limits },
	{},
};
/* clang-format on */
