// SPDX-License-Identifier: BSD-2-Clause
/*
 * The options of commands that sample: record, ctl and top.
 */
#include "cmd/options.h"

#include "cmd/ctl.h"
#include "cmd/record.h"
#include "cmd/top.h"
#include "wire/run.h"
#include "wire/sample.h"

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
	  .help = "Stop after that time",
	  .more = "A command that has not ended by then goes on without being recorded." },
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

const struct option_group record_groups[] = {
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

const struct option_group ctl_groups[] = { { .rows = ctl_rows }, {} };

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

const struct option_group top_groups[] = { { .rows = top_rows }, {} };
/* clang-format on */
