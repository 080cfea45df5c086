// SPDX-License-Identifier: BSD-2-Clause
/* assay record: sample a command, processes, CPUs or the whole system into a profile. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "capture/ability.h"
#include "cmd/cmd.h"
#include "ingest/collector.h"

#define RUN_SKIP_AS_LENGTH UINT32_MAX

enum {
	DEFAULT_FREQUENCY = 997,
	DEFAULT_RING = 4 << 20,
	INSTRUCTIONS_PER_SECOND =
		32000, /* interpreted, per CPU in use; skipped ones are half of one */
	VALUES_RING = 16 << 20, /* a run is several times as long as a stack */
	CPU_MAX = 8192,
	OPTION_DURATION = 256,
	OPTION_SEED,
	OPTION_RING,
	OPTION_MAX_STACKS,
	OPTION_MAX_DEPTH,
	OPTION_TABLE_MEMORY,
	OPTION_USER_ONLY,
	OPTION_VALUES,
	OPTION_RUN_LENGTH,
	OPTION_RUN_SKIP,
	OPTION_RUN_EVERY,
	OPTION_HOTLIST,
	OPTION_HOTLIST_SIZE,
	OPTION_MAX_SITES,
};

static const char record_usage[] =
	"usage: assay record [options] [--] COMMAND [ARGUMENT...]\n"
	"       assay record [options] -p PID[,PID...]\n"
	"       assay record [options] -a | -C CPUS\n"
	"\n"
	"Samples where a program spends its time, with kernel and user stacks.\n"
	"\n"
	"What to profile\n"
	"  COMMAND             a command and everything it starts\n"
	"  -p, --pid PIDS      running processes, all their threads and later children\n"
	"  -a, --all-cpus      the whole system, until interrupted or COMMAND ends\n"
	"  -C, --cpu CPUS      only on these CPUs (0,2-3); without a command: everything on them\n"
	"\n"
	"How often\n"
	"  -F, --freq HZ       samples per second and CPU in use (997)\n"
	"  -c, --count N       a sample every N events (nanoseconds for cpu-clock)\n"
	"  -e, --event NAME    cpu-clock (default), cycles or instructions\n"
	"      --seed N        of the random sampling intervals (random)\n"
	"\n"
	"Values\n"
	"      --values[=WHAT] also which values flow; WHAT is a list such as result,arg0@caller\n"
	"                      (default), '--values=help' lists what there is\n"
	"      --run-length N  instructions interpreted after a sample (256)\n"
	"      --run-every N   one of N samples is interpreted, chosen at random (as many as give\n"
	"                      32,000 instructions a second: 10 at 997 Hz)\n"
	"      --run-skip N    a random number of up to N instructions is skipped before (as\n"
	"                      --run-length)\n"
	"      --hotlist KIND  space-saving (default), counting, concise or switching\n"
	"      --hotlist-size N  values kept per place (16)\n"
	"\n"
	"Where to\n"
	"  -o, --output FILE   the profile (assay.db); an existing one is kept as FILE.old\n"
	"      --duration S    stop after S seconds\n"
	"  -q, --quiet         say nothing unless something is wrong\n"
	"  -v, --verbose       say more\n"
	"\n"
	"Limits\n"
	"      --ring KIB      ring between kernel and collector (4096; with values 16384)\n"
	"      --max-stacks N  distinct stacks counted per interval (16384)\n"
	"      --max-depth N   user frames per sample (256, the most)\n"
	"      --table-memory MIB  kernel memory for unwind tables (16)\n"
	"      --max-sites N   places with values (131072)\n"
	"      --user-only     do as for users who may not use BPF\n"
	"\n"
	"Stacks are always recorded; -g is accepted and changes nothing.\n";

static const struct option long_options[] = {
	{ "pid", required_argument, NULL, 'p' },
	{ "all-cpus", no_argument, NULL, 'a' },
	{ "cpu", required_argument, NULL, 'C' },
	{ "freq", required_argument, NULL, 'F' },
	{ "count", required_argument, NULL, 'c' },
	{ "event", required_argument, NULL, 'e' },
	{ "output", required_argument, NULL, 'o' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ "duration", required_argument, NULL, OPTION_DURATION },
	{ "seed", required_argument, NULL, OPTION_SEED },
	{ "ring", required_argument, NULL, OPTION_RING },
	{ "max-stacks", required_argument, NULL, OPTION_MAX_STACKS },
	{ "max-depth", required_argument, NULL, OPTION_MAX_DEPTH },
	{ "table-memory", required_argument, NULL, OPTION_TABLE_MEMORY },
	{ "user-only", no_argument, NULL, OPTION_USER_ONLY },
	{ "values", optional_argument, NULL, OPTION_VALUES },
	{ "run-length", required_argument, NULL, OPTION_RUN_LENGTH },
	{ "run-skip", required_argument, NULL, OPTION_RUN_SKIP },
	{ "run-every", required_argument, NULL, OPTION_RUN_EVERY },
	{ "hotlist", required_argument, NULL, OPTION_HOTLIST },
	{ "hotlist-size", required_argument, NULL, OPTION_HOTLIST_SIZE },
	{ "max-sites", required_argument, NULL, OPTION_MAX_SITES },
	{},
};

struct request {
	struct collector_options collector;
	ARRAY(pid_t) pids;
	ARRAY(int) cpus;
	bool event_chosen;
	bool frequency_chosen;
	bool quiet;
	bool help;
	bool values_help;
	struct capture capture;
};

static void request_deinit(struct request *request)
{
	array_deinit(&request->pids);
	array_deinit(&request->cpus);
	capture_deinit(&request->capture);
}

static int number_parse(const char *text, const char *option, uint64_t low, uint64_t high,
			uint64_t *ret)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < low || value > high)
		return err_set(-EINVAL, "%s takes a whole number from %llu to %llu, not '%s'",
			       option, (unsigned long long)low, (unsigned long long)high, text);
	*ret = value;
	return 0;
}

static int pids_parse(struct request *request, const char *text)
{
	AUTO(free_ptr) char *copy = mem_strdup(text);
	char *rest = copy, *item;
	uint64_t pid;
	int err;

	while ((item = strsep(&rest, ","))) {
		err = number_parse(item, "-p", 1, INT_MAX, &pid);
		if (err)
			return err;
		*array_push(&request->pids) = (pid_t)pid;
	}
	return 0;
}

static int cpu_range_parse(struct request *request, char *item)
{
	char *dash = strchr(item, '-');
	uint64_t first, last;
	int err;

	if (dash)
		*dash = '\0';
	err = number_parse(item, "-C", 0, CPU_MAX, &first);
	last = first;
	if (!err && dash)
		err = number_parse(dash + 1, "-C", first, CPU_MAX, &last);
	for (uint64_t cpu = first; !err && cpu <= last; cpu++)
		*array_push(&request->cpus) = (int)cpu;
	return err;
}

static int cpus_parse(struct request *request, const char *text)
{
	AUTO(free_ptr) char *copy = mem_strdup(text);
	char *rest = copy, *item;
	int err = 0;

	while (!err && (item = strsep(&rest, ",")))
		err = cpu_range_parse(request, item);
	return err;
}

static int duration_parse(const char *text, double *ret)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || value > 1e9)
		return err_set(-EINVAL, "--duration takes seconds, not '%s'", text);
	*ret = value;
	return 0;
}

static int limit_parse(struct collector_options *options, int option, const char *text)
{
	uint64_t value = 0;
	int err;

	switch (option) {
	case OPTION_RING:
		err = number_parse(text, "--ring", 64, 1 << 20, &value);
		options->ring_bytes = 1024;
		while (!err && options->ring_bytes < value * 1024)
			options->ring_bytes *= 2; /* rings come in powers of two */
		return err;
	case OPTION_MAX_STACKS:
		err = number_parse(text, "--max-stacks", 64, 1 << 24, &value);
		options->max_stacks = (uint32_t)value;
		return err;
	case OPTION_MAX_DEPTH:
		err = number_parse(text, "--max-depth", 1, SAMPLE_DEPTH_MAX, &value);
		options->max_depth = (uint32_t)value;
		return err;
	default:
		err = number_parse(text, "--table-memory", 1, 1024, &value);
		options->max_rows = (uint32_t)(value << 20) / sizeof(struct unwind_row);
		return err;
	}
}

static int rate_parse(struct request *request, int option, const char *text)
{
	struct collector_options *options = &request->collector;

	request->frequency_chosen = true;
	if (option == 'F')
		return number_parse(text, "-F", 1, 100000, &options->frequency);
	options->frequency = 0;
	return number_parse(text, "-c", 10000, UINT32_MAX * 1000ull, &options->period);
}

static int what_parse(struct request *request, const char *text)
{
	struct collector_values *values = &request->collector.values;
	int err;

	values->what = text ? text : "default";
	if (!strcmp(values->what, "help")) {
		request->help = request->values_help = true;
		return 0;
	}
	capture_deinit(&request->capture);
	err = capture_parse(values->what, &request->capture);
	if (err)
		return err_wrap(err, "--values");
	values->capture = &request->capture;
	return 0;
}

static int values_parse(struct request *request, int option, const char *text)
{
	struct collector_values *values = &request->collector.values;
	uint64_t value = 0;
	int err;

	switch (option) {
	case OPTION_VALUES:
		return what_parse(request, text);
	case OPTION_RUN_LENGTH:
		err = number_parse(text, "--run-length", 1, RUN_LENGTH_MAX / 2, &value);
		values->run_length = (uint32_t)value;
		return err;
	case OPTION_RUN_EVERY:
		err = number_parse(text, "--run-every", 1, 1 << 20, &value);
		values->run_every = (uint32_t)value;
		return err;
	case OPTION_RUN_SKIP:
		err = number_parse(text, "--run-skip", 0, RUN_LENGTH_MAX / 2, &value);
		values->run_skip = (uint32_t)value;
		return err;
	case OPTION_HOTLIST:
		return hotlist_kind_parse(text, &values->list.kind);
	case OPTION_HOTLIST_SIZE:
		err = number_parse(text, "--hotlist-size", HOTLIST_SIZE_MIN, HOTLIST_SIZE_MAX,
				   &value);
		values->list.size = (unsigned)value;
		return err;
	default:
		err = number_parse(text, "--max-sites", 1, 1 << 24, &value);
		values->max_sites = value;
		return err;
	}
}

static int option_take(struct request *request, int option, const char *text)
{
	struct collector_options *options = &request->collector;

	switch (option) {
	case 'p':
		return pids_parse(request, text);
	case 'a':
		options->system_wide = true;
		return 0;
	case 'C':
		return cpus_parse(request, text);
	case 'F':
	case 'c':
		return rate_parse(request, option, text);
	case 'e':
		request->event_chosen = true;
		return sampler_event_parse(text, &options->event);
	case 'o':
		options->output = text;
		return 0;
	case 'g':
		return 0;
	case 'q':
		request->quiet = true;
		return 0;
	case 'v':
		log_verbose_set(true);
		return 0;
	case 'h':
		request->help = true;
		return 0;
	case OPTION_DURATION:
		return duration_parse(text, &options->duration);
	case OPTION_SEED:
		return number_parse(text, "--seed", 0, UINT64_MAX, &options->seed);
	case OPTION_USER_ONLY:
		options->user_only = true;
		return 0;
	case OPTION_RING:
	case OPTION_MAX_STACKS:
	case OPTION_MAX_DEPTH:
	case OPTION_TABLE_MEMORY:
		return limit_parse(options, option, text);
	case OPTION_VALUES:
	case OPTION_RUN_LENGTH:
	case OPTION_RUN_SKIP:
	case OPTION_RUN_EVERY:
	case OPTION_HOTLIST:
	case OPTION_HOTLIST_SIZE:
	case OPTION_MAX_SITES:
		return values_parse(request, option, text);
	}
	return err_set(-EINVAL, "unknown option; see 'assay help record'");
}

static int targets_check(struct request *request)
{
	struct collector_options *options = &request->collector;

	options->pids = request->pids.items;
	options->pid_count = request->pids.count;
	options->cpus = request->cpus.items;
	options->cpu_count = request->cpus.count;
	if (options->system_wide && options->pid_count)
		return err_set(-EINVAL, "-a already covers every process; leave out -p");
	if (options->cpu_count && !options->pid_count && !options->command)
		options->system_wide = true;
	if (!options->command && !options->pid_count && !options->system_wide)
		return err_set(-EINVAL, "nothing to profile: give a command, -p PID or -a");
	return 0;
}

static int request_parse(struct request *request, int argc, char **argv)
{
	int option, err;

	optind = 1;
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+p:aC:F:c:e:o:gqvh", long_options, NULL)) != -1) {
		if (option == '?')
			return err_set(
				-EINVAL,
				"%s: unknown option or missing value; see 'assay help record'",
				argv[optind - 1]);
		err = option_take(request, option, optarg);
		if (err || request->help)
			return err;
	}
	if (optind < argc)
		request->collector.command = argv + optind;
	return targets_check(request);
}

/* What the machine lacks: refused with the reason, or replaced and announced. */
static int event_settle(struct request *request)
{
	struct collector_options *options = &request->collector;

	if (!sampler_event_works(options->event)) {
		if (options->event == SAMPLER_CPU_CLOCK)
			return err_set(-EACCES, "this user may not sample at all; lower "
						"kernel.perf_event_paranoid to 2 or run as root");
		log_warn("this machine has no counter for %s; sampling cpu-clock instead",
			 sampler_event_name(options->event));
		options->event = SAMPLER_CPU_CLOCK;
		if (!options->frequency) {
			log_warn("-c %llu counted %s; sampling at %d Hz instead",
				 (unsigned long long)options->period, "events", DEFAULT_FREQUENCY);
			options->frequency = DEFAULT_FREQUENCY;
		}
	}
	return 0;
}

/* Beyond its limit the kernel would suppress samples without telling us. */
static int rate_settle(const struct collector_options *options)
{
	AUTO(close_file) FILE *file = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
	uint64_t rate = options->frequency;
	unsigned long long most;

	if (!rate && options->event == SAMPLER_CPU_CLOCK)
		rate = NS_PER_S / options->period;
	if (!file || fscanf(file, "%llu", &most) != 1 || rate <= most)
		return 0;
	return err_set(-EINVAL,
		       "%llu samples a second are above this kernel's limit of %llu; raise "
		       "kernel.perf_event_max_sample_rate",
		       (unsigned long long)rate, most);
}

static int privilege_settle(struct collector_options *options)
{
	static const enum ability_id needed[] = { ABILITY_BPF_SAMPLER, ABILITY_BPF_RING,
						  ABILITY_BTF, ABILITY_BPF_TRACEPOINT };
	struct ability ability;

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]) && !options->user_only; i++) {
		if (ability_probe(needed[i], &ability) || ability.yes)
			continue;
		options->user_only = true;
		log_warn("no %s (%s): sampling only user code of your own processes; remedy: %s",
			 ability.title, ability.detail, ability.remedy);
	}
	if (options->user_only && options->system_wide)
		return err_set(-EPERM, "sampling the whole system needs BPF and privilege; run as "
				       "root, or profile your own command");
	if (options->user_only && options->values.capture)
		return err_set(-EPERM, "values need BPF and privilege; run as root, or leave out "
				       "--values");
	if (options->user_only && options->event != SAMPLER_CPU_CLOCK) {
		log_warn("without BPF only cpu-clock is sampled");
		options->event = SAMPLER_CPU_CLOCK;
	}
	return 0;
}

static void runs_say(const struct collector_result *result)
{
	static const char *const reasons[] = {
#define X(name, json, text) [RUN_LOSS_##name] = text,
		RUN_LOSSES(X)
#undef X
	};
	uint64_t lost = 0;

	for (size_t i = 0; i < RUN_LOSS_COUNT; i++)
		lost += result->runs.lost[i];
	log_info("%llu runs interpreted: %llu kept, %llu lost",
		 (unsigned long long)(result->runs_kept + lost),
		 (unsigned long long)result->runs_kept, (unsigned long long)lost);
	for (size_t i = 0; i < RUN_LOSS_COUNT; i++)
		if (result->runs.lost[i])
			log_info("%llu runs lost: %s", (unsigned long long)result->runs.lost[i],
				 reasons[i]);
}

static void summary_say(const struct collector_options *options,
			const struct collector_result *result)
{
	static const char *const reasons[] = {
#define X(name, json, text) [LOSS_##name] = text,
		LOSS_REASONS(X)
#undef X
	};

	log_info("%llu samples in %.1f s: %llu kept, %llu lost; written to %s",
		 (unsigned long long)(result->kept + result->lost), result->seconds,
		 (unsigned long long)result->kept, (unsigned long long)result->lost,
		 options->output);
	for (size_t i = 0; i < LOSS_COUNT; i++)
		if (result->tally.lost[i])
			log_warn("%llu samples lost: %s", (unsigned long long)result->tally.lost[i],
				 reasons[i]);
	if (options->values.capture)
		runs_say(result);
}

static int help_show(const struct request *request)
{
	struct strbuf sources = {};

	if (request->values_help) {
		capture_help(&sources);
		fputs(strbuf_text(&sources), stdout);
	} else {
		fputs(record_usage, stdout);
	}
	strbuf_deinit(&sources);
	return 0;
}

/* Values have a budget: a higher rate of samples does not cost more of them. */
static uint32_t run_every_choose(const struct collector_options *options)
{
	const struct collector_values *values = &options->values;
	uint64_t rate = options->frequency ? options->frequency : NS_PER_S / options->period;
	/* Half of run_skip in the mean, and half as dear: their values go nowhere. */
	uint64_t wanted = rate * (values->run_length + values->run_skip / 4);
	uint64_t every = (wanted + INSTRUCTIONS_PER_SECOND - 1) / INSTRUCTIONS_PER_SECOND;

	return every ? (uint32_t)every : 1;
}

static int usage_error(void)
{
	log_error("%s", err_text());
	return 2;
}

int cmd_record(int argc, char **argv)
{
	AUTO(request_deinit) struct request request = {
		.collector = {
			.output = "assay.db",
			.frequency = DEFAULT_FREQUENCY,
			.max_stacks = 16384,
			.max_rows = 2 << 20,
			.max_depth = SAMPLE_DEPTH_MAX,
			.values = { .run_length = 256,
				    .run_skip = RUN_SKIP_AS_LENGTH,
				    .max_sites = 131072 },
		},
	};
	struct collector_options *options = &request.collector;
	struct collector_result result;
	int err;

	if (getrandom(&options->seed, sizeof(options->seed), 0) < 0)
		options->seed = clock_monotonic();
	options->seed >>= 1; /* SQLite's integers are signed */
	if (request_parse(&request, argc, argv))
		return usage_error();
	if (request.help)
		return help_show(&request);
	if (options->values.run_skip == RUN_SKIP_AS_LENGTH)
		options->values.run_skip = options->values.run_length;
	if (!options->values.run_every)
		options->values.run_every = run_every_choose(options);
	if (!options->ring_bytes)
		options->ring_bytes = options->values.capture ? VALUES_RING : DEFAULT_RING;
	log_quiet_set(request.quiet);
	options->progress = !request.quiet && isatty(STDERR_FILENO);
	err = event_settle(&request);
	err = err ? err : rate_settle(options);
	err = err ? err : privilege_settle(options);
	err = err ? err : collector_run(options, &result);
	if (err) {
		log_error("%s", err_text());
		return 1;
	}
	summary_say(options, &result);
	return result.exit_code;
}
