// SPDX-License-Identifier: BSD-2-Clause
/*
 * Every command and every option. The options of requests, which scripts and commands share, are in
 * analyse/request.c. An option is one row here, a field of the struct that it fills, and its use; a
 * command is one entry of `commands` and its file. What the manual pages list of options is made
 * from here by `make docs`.
 */
#include "analyse/request.h"
#include "capture/kernel/sampler.h"
#include "cmd/calls.h"
#include "cmd/cmd.h"
#include "cmd/count.h"
#include "cmd/ctl.h"
#include "cmd/doctor.h"
#include "cmd/html.h"
#include "cmd/record.h"
#include "cmd/serve.h"
#include "cmd/top.h"
#include "cmd/trace.h"
#include "cmd/view_options.h"
#include "paths/layer.h"
#include "report/export.h"
#include "wire/run.h"
#include "wire/sample.h"
#include "wire/tools.h"

#include <limits.h>

/* clang-format off */

/* --- record ----------------------------------------------------------------------------------- */

#define RECORD(member) OPTION_FIELD(struct record_options, member)

static const struct option_choice hotlists[] = {
#define X(name, text) [HOTLIST_##name] = { text },
	HOTLIST_KINDS(X)
#undef X
	{},
};

static const struct option_row record_targets[] = {
	{ "pid", 'p', OPTION_NUMBERS, RECORD(pids), .argument = "PID[,PID...]", .low = 1,
	  .high = INT_MAX,
	  .help = "Sample running processes, all their threads, and what they create from now on",
	  .more = "Recording ends when the last of them does, or after the command." },
	{ "children", 0, OPTION_FLAG, RECORD(children),
	  .help = "Sample also what the chosen processes have created before",
	  .more = "What they create from now on is always sampled. A server whose master process "
		  "only waits for its workers needs this." },
	{ "comm", 0, OPTION_PATTERN, RECORD(comms), .argument = "PATTERN",
	  .help = "Sample the running processes with that name, or whose program has it",
	  .more = "`*` and `?` stand for any text and any one byte. Can be given several times." },
	{ "cgroup", 'G', OPTION_PATTERN, RECORD(cgroups), .argument = "PATH",
	  .help = "Sample the running processes in that control group and below it",
	  .more = "PATH is as in `/proc/PID/cgroup`, or begins with `/sys/fs/cgroup`. Processes "
		  "that are moved there later are not sampled." },
	{ "container", 0, OPTION_PATTERN, RECORD(containers), .argument = "ID",
	  .help = "Sample the running processes of that container",
	  .more = "They are found by control groups that have ID, or an id that begins with it, "
		  "in their name, as those of docker, podman and containerd have." },
	{ "all-cpus", 'a', OPTION_FLAG, RECORD(all_cpus),
	  .help = "Sample the whole system, the kernel included, until interrupted or the command "
		  "ends",
	  .more = "Idle time is not sampled." },
	{ "cpu", 'C', OPTION_NUMBERS, RECORD(cpus), .argument = "CPUS", .high = 8192,
	  .ranges = true,
	  .help = "Sample only on these CPUs, such as 0,2-3; without a command, everything on "
		  "them" },
	{},
};

static const struct option_row record_rate[] = {
	{ "freq", 'F', OPTION_NUMBER, RECORD(frequency), .argument = "HZ", .low = 1,
	  .high = 100000, .initial = "997",
	  .help = "Take HZ samples per second and CPU in use",
	  .more = "Four clocks with different random periods tick at once, so that the time "
		  "between two samples is random." },
	{ "count", 'c', OPTION_NUMBER, RECORD(period), .argument = "N", .low = 1,
	  .high = UINT32_MAX * 1000ull, OPTION_ALSO(struct record_options, frequency, 0),
	  .otherwise = "1 for events of the kernel",
	  .help = "Take a sample every N events on average, instead of at a frequency",
	  .more = "The number of events between two samples is random. Events of `cpu-clock` are "
		  "nanoseconds." },
	{ "event", 'e', OPTION_TEXT, RECORD(event), .argument = "EVENT",
	  .initial = "cpu-clock",
	  .help = "Choose what is sampled; -e help lists what EVENT may be",
	  .more = "Time, a counter of the CPU such as `cache-misses`, an event of the kernel "
		  "(`page-faults`, `context-switches`, `cpu-migrations`), or a tracepoint such as "
		  "`sched:sched_switch`. A counter that the CPU lacks is refused. With `-F`, the "
		  "kernel adapts the number of events between two samples; shares are then those "
		  "of time. With `--values`, a page fault begins at the instruction that caused "
		  "it; other events of the kernel begin where an interrupt stopped user code, "
		  "and none begins in a system call." },
	{ "seed", 0, OPTION_NUMBER, RECORD(seed), .argument = "N", .high = INT64_MAX,
	  .otherwise = "a random number",
	  .help = "Begin the random sampling intervals with N",
	  .more = "The profile keeps the one that was used." },
	{ "stacks", 'g', OPTION_FLAG,
	  .help = "Accepted because perf has `-g`: stacks are always recorded" },
	{},
};

static const struct option_row record_values[] = {
	{ "values", 0, OPTION_TEXT, RECORD(values), .argument = "WHAT", .implied = "default",
	  .help = "Record which values flow, too; --values=help lists what WHAT may be",
	  .more = "After a sample the next instructions are interpreted, from the registers that "
		  "were interrupted and without touching the program, and what they compute is "
		  "counted by place: instruction, or function entered. WHAT is a list of items "
		  "separated by commas. Values need BPF." },
	{ "run-length", 0, OPTION_NUMBER, RECORD(run_length), .argument = "N", .low = 1,
	  .high = RUN_LENGTH_MAX / 2, .initial = "256", .needs = "values",
	  .help = "Interpret N instructions in a run",
	  .more = "Short runs see too much of what comes right behind slow instructions." },
	{ "run-share", 0, OPTION_SHARE, RECORD(run_share), .argument = "SHARE",
	  .initial = "2%", .needs = "values",
	  .help = "Spend this share of the programs' time on runs",
	  .more = "What a run takes, in the kernel and in the recorder, is measured all the time, "
		  "and the share of samples that have one follows. In the first two seconds of the "
		  "recording and of the programs' own time, when no code is translated yet, it is "
		  "five times as much." },
	{ "run-every", 0, OPTION_NUMBER, RECORD(run_every), .argument = "N", .low = 1,
	  .high = 1 << 20, .needs = "values", .otherwise = "as --run-share says",
	  .help = "Interpret a run after one of N samples, chosen at random" },
	{ "run-skip", 0, OPTION_NUMBER, RECORD(run_skip), .argument = "N",
	  .high = RUN_LENGTH_MAX / 2, .otherwise = "that of --run-length", .needs = "values",
	  .help = "Pass over a random number of up to N instructions before each run",
	  .more = "The longer both are, the less shares lean to what follows slow code. A run that "
		  "ends early passes over less." },
	{ "hotlist", 0, OPTION_CHOICE, RECORD(hotlist), .argument = "KIND", .choices = hotlists,
	  .initial = "space-saving", .needs = "values",
	  .help = "Choose how the most common values of a place are kept in little memory" },
	{ "hotlist-size", 0, OPTION_NUMBER, RECORD(hotlist_size), .argument = "N",
	  .low = HOTLIST_SIZE_MIN, .high = HOTLIST_SIZE_MAX, .initial = "16", .needs = "values",
	  .help = "Keep N values per place" },
	{},
};

static const struct option_row record_waits[] = {
	{ "off-cpu", 0, OPTION_FLAG, RECORD(off_cpu),
	  .help = "Record what threads wait for, where, and who wakes them, too",
	  .more = "At each switch of a thread that is recorded its stack is taken, with the cause, "
		  "the stack of who wakes it, and how long it then waits for a processor. See the "
		  "views `waits`, `threads` and `cpus`. Tasks that a program announces by "
		  "assay/client.h are threads of their own. It needs BPF." },
	{ "system-calls", 0, OPTION_FLAG, RECORD(system_calls), .needs = "off-cpu",
	  .help = "Count the system calls of each thread",
	  .more = "That costs a little at each system call of the machine." },
	{},
};

static const struct option_row record_results[] = {
	{ "output", 'o', OPTION_FILE, RECORD(output), .argument = "FILE", .initial = "assay.db",
	  .help = "Write the profile to FILE; an existing one is kept as FILE.old" },
	{ "duration", 0, OPTION_DURATION, RECORD(duration), .argument = "TIME",
	  .help = "Stop after that time" },
	{ "serve", 0, OPTION_NUMBER, RECORD(serve_port), .argument = "PORT", .high = 65535,
	  .implied = "0", OPTION_ALSO(struct record_options, serve, true),
	  .help = "Show the profile in a browser while it is recorded",
	  .more = "The address of the page, on this machine and with a random token, is printed; "
		  "assay-serve(1) explains it. Without PORT it is any that is free. When the "
		  "recording ends, pages that are open get the complete profile." },
	{ "quiet", 'q', OPTION_FLAG, RECORD(quiet),
	  .help = "Say nothing unless something is wrong" },
	{ "verbose", 'v', OPTION_FLAG, RECORD(verbose), .help = "Say more" },
	{},
};

static const struct option_row record_limits[] = {
	{ "ring", 0, OPTION_SIZE, RECORD(ring), .argument = "KIB", .unit = 1 << 10,
	  .low = 64 << 10, .high = 1 << 30, .otherwise = "4096, with values 16384",
	  .help = "Limit the ring between the kernel and the recorder",
	  .more = "It is rounded up to a power of two. With values, runs wait in memory for some "
		  "seconds before they are looked at, up to about as many bytes." },
	{ "max-stacks", 0, OPTION_NUMBER, RECORD(max_stacks), .argument = "N", .low = 64,
	  .high = 1 << 24, .initial = "16384",
	  .help = "Limit the stacks that the kernel counts between two readings",
	  .more = "A tenth of a second lies between two readings. Stacks of different threads "
		  "count apart." },
	{ "max-depth", 0, OPTION_NUMBER, RECORD(max_depth), .argument = "N", .low = 1,
	  .high = SAMPLE_DEPTH_MAX, .initial = "256", .help = "Limit the user frames per sample" },
	{ "table-memory", 0, OPTION_SIZE, RECORD(table_memory), .argument = "MIB",
	  .unit = 1 << 20, .low = 1 << 20, .high = 1 << 30, .otherwise = "16, with -a 64",
	  .help = "Limit the kernel memory for unwind tables",
	  .more = "Stacks through modules whose tables do not fit are walked by the recorder "
		  "instead." },
	{ "max-sites", 0, OPTION_NUMBER, RECORD(max_sites), .argument = "N", .low = 1,
	  .high = 1 << 24, .initial = "131072", .needs = "values",
	  .help = "Limit the places with values",
	  .more = "A place is an instruction or a function, an item, and with `@caller` a call "
		  "site." },
	{ "user-only", 0, OPTION_FLAG, RECORD(user_only),
	  .help = "Sample only user code, without BPF" },
	{},
};

static const struct option_group record_groups[] = {
	{ "What to profile", record_targets },
	{ "How often", record_rate },
	{ "Which values", record_values },
	{ "What threads wait for", record_waits },
	{ "Where to", record_results },
	{ "Limits", record_limits },
	{},
};

/* --- ctl -------------------------------------------------------------------------------------- */

#define CTL(member) OPTION_FIELD(struct ctl_options, member)

static const struct option_row ctl_rows[] = {
	{ "input", 'i', OPTION_FILE, CTL(input), .argument = "FILE", .initial = "assay.db",
	  .help = "Talk to the recorder that writes the profile FILE" },
	{ "pid", 'p', OPTION_NUMBER, CTL(pid), .argument = "PID", .low = 1, .high = INT_MAX,
	  .otherwise = "the recorder of --input",
	  .help = "Talk to the recorder with that process number: that of `assay record` itself" },
	{ "output", 'o', OPTION_FILE, CTL(output), .argument = "FILE",
	  .help = "With `snapshot`: copy the profile to FILE" },
	{ "json", 0, OPTION_FLAG, CTL(json), .help = "Print JSON" },
	{},
};

static const struct option_group ctl_groups[] = { { .rows = ctl_rows }, {} };

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

static const struct option_group trace_groups[] = { { .rows = trace_rows }, {} };

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

static const struct option_group count_groups[] = { { .rows = count_rows }, {} };

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

static const struct option_group report_groups[] = {
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

static const struct option_group annotate_groups[] = {
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

static const struct option_group diff_groups[] = {
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

static const struct option_group merge_groups[] = { { .rows = merge_rows }, {} };

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

static const struct option_group export_groups[] = {
	{ "What to write", export_rows, .takers = export_takers },
	{ .rows = request_rows, .taken = export_takes, .takers = export_takers },
	{ "Files", output_rows, .taken = export_output },
	{},
};

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
	  .help = "Also write every event to FILE; only with compiled-in hooks",
	  .more = "A record has 32 bytes, and 16 for the time. The program waits while the disk is "
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

static const struct option_group calls_groups[] = {
	{ "What to show", calls_what },
	{ "Limits", calls_limits },
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

static const struct option_group html_groups[] = { { .rows = html_rows }, {} };

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

static const struct option_group serve_groups[] = { { .rows = serve_rows }, {} };

/* --- top -------------------------------------------------------------------------------------- */

#define TOP(member) OPTION_FIELD(struct top_options, member)

static const struct option_row top_rows[] = {
	{ "pid", 'p', OPTION_NUMBERS, TOP(pids), .argument = "PID[,PID...]", .low = 1,
	  .high = INT_MAX, .otherwise = "the whole system",
	  .help = "Show running processes, and what they create" },
	{ "freq", 'F', OPTION_NUMBER, TOP(frequency), .argument = "HZ", .low = 1, .high = 100000,
	  .initial = "997", .help = "Take HZ samples per second and CPU in use" },
	{ "values", 0, OPTION_TEXT, TOP(values), .argument = "WHAT", .implied = "default",
	  .help = "Show which values flow, too",
	  .more = "WHAT is as in assay-record(1). Values are those since the beginning." },
	{ "window", 0, OPTION_NUMBER, TOP(window), .argument = "SECONDS", .low = 1, .high = 3600,
	  .initial = "10", .help = "Show the samples of the last SECONDS" },
	{},
};

static const struct option_group top_groups[] = { { .rows = top_rows }, {} };

/* --- Others ----------------------------------------------------------------------------------- */

static const struct option_row doctor_rows[] = {
	{ "json", 0, OPTION_FLAG, OPTION_FIELD(struct doctor_options, json), .help = "Print JSON" },
	{ "verbose", 'v', OPTION_FLAG, OPTION_FIELD(struct doctor_options, verbose),
	  .help = "Print on standard error what the kernel says of programs that it refuses" },
	{},
};

static const struct option_group doctor_groups[] = { { .rows = doctor_rows }, {} };
static const struct option_row no_rows[] = { {} };
static const struct option_group no_groups[] = { { .rows = no_rows }, {} };

static const char *view_name(size_t index, const char **ret_summary)
{
	*ret_summary = views[index].summary;
	return views[index].name;
}

static const char *format_name(size_t index, const char **ret_summary)
{
	*ret_summary = export_formats[index].summary;
	return export_formats[index].name;
}

static const char *ctl_name(size_t index, const char **ret_summary)
{
	static const struct option_choice verbs[] = {
		{ "status", "tell what the recording does, and how much it has" },
		{ "pause", "take no samples until resume" },
		{ "resume", "go on after pause" },
		{ "snapshot", "write what was recorded up to now; with -o, copy the profile" },
		{ "set", "change freq, run-length, run-skip, run-share or run-every" },
		{},
	};

	*ret_summary = verbs[index].help;
	return verbs[index].name;
}

static const char *shell_name(size_t index, const char **ret_summary)
{
	static const struct option_choice shells[] = {
		{ "bash", "for a file in ~/.local/share/bash-completion/completions" },
		{ "zsh", "for a file _assay in a folder of $fpath" },
		{ "fish", "for a file in ~/.config/fish/completions" },
		{},
	};

	*ret_summary = shells[index].help;
	return shells[index].name;
}

const struct command commands[] = {
	{ "record", "sample a command, processes or the whole system",
	  "[options] [--] COMMAND [ARGUMENT...]\n"
	  "[options] -p PID[,PID...]\n"
	  "[options] --comm PATTERN | --cgroup PATH | --container ID\n"
	  "[options] -a | -C CPUS [[--] COMMAND]",
	  "Samples where a program spends its time, with kernel and user stacks. COMMAND is\n"
	  "profiled with everything that it starts.",
	  record_groups, ARGUMENTS_COMMAND, NULL, cmd_record },
	{ "ctl", "pause and adjust a recording that runs, or take a snapshot of it",
	  "[-i FILE | -p PID] status | pause | resume\n"
	  "[-i FILE | -p PID] snapshot [-o FILE]\n"
	  "[-i FILE | -p PID] set NAME=VALUE [NAME=VALUE...]",
	  "Talks to an assay record that runs, of the same user or by root.",
	  ctl_groups, ARGUMENTS_NAMES, ctl_name, cmd_ctl },
	{ "trace", "run a command in the engine, from its first instruction on",
	  "[options] [--] COMMAND [ARGUMENT...]\n"
	  "[options] -p PID",
	  "Runs a command in the engine: every instruction from the first one on. Or takes a\n"
	  "running process, with all its threads, and gives it back on an interrupt (Ctrl-C).",
	  trace_groups, ARGUMENTS_COMMAND, NULL, cmd_trace },
	{ "count", "count marked routines, lines and instructions, exactly",
	  "-m MARK [-m MARK...] [options] [--] COMMAND [ARGUMENT...]\n"
	  "-m MARK [-m MARK...] [options] -p PID\n"
	  "--recipe NAME=ARGUMENT [options] [--] COMMAND [ARGUMENT...]\n"
	  "--live PID [--add MARK] [--remove MARK] [--every TIME]",
	  "Runs a command in the engine, or takes a running process, and counts what is marked in\n"
	  "it: how often it was visited, and how many instructions were executed in it. Code that\n"
	  "is not marked runs without any counting.",
	  count_groups, ARGUMENTS_COMMAND, NULL, cmd_count },
	{ "calls", "every call, by thread and call path, with what it cost",
	  "[options] [--] COMMAND [ARGUMENT...]\n"
	  "[options] -p PID",
	  "Counts every call, by thread and call path, in any program and in the processes that\n"
	  "it starts. Methods of Java are counted by an agent in its virtual machine; a program\n"
	  "that was compiled with -finstrument-functions, -pg or -fpatchable-function-entry is\n"
	  "recorded by its hooks; others in the engine.",
	  calls_groups, ARGUMENTS_COMMAND, NULL, cmd_calls },
	{ "report", "what took the time: functions, lines, call graph, values, paths, losses",
	  "[VIEW] [options]",
	  "Prints one view of a profile: functions, unless another is named. VIEW may also be a\n"
	  "request such as 'functions?symbol=deflate*&limit=20'.\n"
	  "\n"
	  "Every percentage is of everything seen, what was lost included; of values, of those\n"
	  "received at the place; Runs% is of the runs begun.",
	  report_groups, ARGUMENTS_NAMES, view_name, cmd_report },
	{ "top", "what takes the time right now, on the terminal",
	  "[options]\n"
	  "[options] [--] COMMAND [ARGUMENT...]",
	  "Shows which functions, processes and threads take the time, renewed as it passes: of\n"
	  "the whole system, of processes, or of a command. The key h lists the others.",
	  top_groups, ARGUMENTS_COMMAND, NULL, cmd_top },
	{ "annotate", "the instructions of a function with their samples and values",
	  "SYMBOL [options]",
	  "Prints the instructions of a function with the samples and the values taken at each,\n"
	  "and its source lines where the files can be read. SYMBOL is the function's name, or a\n"
	  "part of it that only one function has.",
	  annotate_groups, ARGUMENTS_NONE, NULL, cmd_annotate },
	{ "diff", "what changed between two profiles", "[options] A B",
	  "Prints the shares of functions in profile A and profile B, the largest change first. A\n"
	  "change beyond three standard errors is marked as real; others are what sampling the\n"
	  "same program twice would show.",
	  diff_groups, ARGUMENTS_FILES, NULL, cmd_diff },
	{ "merge", "one profile made of several, of one machine or of many", "FILE... -o FILE",
	  "Makes one profile of several, which may be of several runs and machines. Counts,\n"
	  "losses and metrics are the sums; modules are the same if their build-ids are.",
	  merge_groups, ARGUMENTS_FILES, NULL, cmd_merge },
	{ "export", "a profile in the format of another tool", "FORMAT [options]",
	  "Writes a profile in another format. What was lost is exported as [lost: reason], so\n"
	  "that totals are those of the reports; with a filter it is left out.",
	  export_groups, ARGUMENTS_NAMES, format_name, cmd_export },
	{ "html", "a profile as one page for a browser: flame graph, tables, code, values",
	  "[options]\n"
	  "[options] OLDER NEWER",
	  "Writes one page that shows a profile in a browser: flame graph, tables, code and\n"
	  "values. It needs neither the profile nor a network. Of two profiles it also shows what\n"
	  "changed.",
	  html_groups, ARGUMENTS_FILES, NULL, cmd_html },
	{ "serve", "a profile, or a running recording, live in the browser",
	  "[options]\n"
	  "[options] --allow-start [--] COMMAND [ARGUMENT...]",
	  "Shows a profile in a browser on this machine, with the page of assay html. Of a\n"
	  "profile that is being recorded the page is renewed as it grows. The address has a\n"
	  "random token, without which nothing is shown.",
	  serve_groups, ARGUMENTS_COMMAND, NULL, cmd_serve },
	{ "doctor", "what this machine and user can do, and the remedy", "[options]",
	  "Tries what a recording needs, as the user who runs it, and says what to do where it\n"
	  "fails.",
	  doctor_groups, ARGUMENTS_NONE, NULL, cmd_doctor },
	{ "completion", "a script that completes commands and options in a shell", "SHELL",
	  "Prints a script by which a shell completes commands, options and their values. It is\n"
	  "installed with assay; this is for shells that do not look there.",
	  no_groups, ARGUMENTS_NAMES, shell_name, cmd_completion },
	{},
};
/* clang-format on */
