// SPDX-License-Identifier: BSD-2-Clause
/* Finds what to record, opens everything that the collector needs, and begins. */
#include "ingest/collector_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ingest/procfs.h"

enum {
	EVENT_PAGES = 256, /* per CPU: half a second of thousands of short processes */
	PERF_STACK_BYTES = 16384, /* copied per sample without BPF */
	MAX_BLOCKS = 1 << 18, /* translated instructions in the kernel */
	MAX_UOPS = 1 << 20,
};

static int cpus_online(struct collector *collector)
{
	AUTO(close_file) FILE *file = fopen("/sys/devices/system/cpu/online", "re");
	int first, last;

	if (!file)
		return err_set(-errno, "cannot list the CPUs: %s", strerror(errno));
	while (fscanf(file, "%d", &first) == 1) {
		last = first;
		if (fscanf(file, "-%d", &last) < 0 && ferror(file))
			break;
		for (int cpu = first; cpu <= last; cpu++)
			*array_push(&collector->cpus) = cpu;
		if (fgetc(file) != ',')
			break;
	}
	return collector->cpus.count ? 0 : err_set(-EIO, "cannot list the CPUs");
}

static bool is_foreign(pid_t pid)
{
	char path[64];
	struct stat info;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return stat(path, &info) == 0 && info.st_uid != geteuid();
}

static int threads_add(struct collector *collector, pid_t pid)
{
	AUTO(free_ptr) pid_t *tids = NULL;
	size_t count;
	int err = procfs_threads(pid, &tids, &count);

	if (err)
		return err_set(err, "process %d: %s", (int)pid, strerror(-err));
	if (collector->options->user_only && is_foreign(pid))
		return err_set(-EPERM,
			       "process %d belongs to another user; run as root to sample it",
			       (int)pid);
	for (size_t i = 0; i < count; i++)
		*array_push(&collector->tids) = tids[i];
	return 0;
}

static bool tid_known(const struct collector *collector, pid_t tid)
{
	array_each(&collector->tids, known)
		if (*known == tid)
			return true;
	return false;
}

/* Threads that were created while events were being opened for the others. */
static int threads_rescan(struct collector *collector, pid_t pid)
{
	AUTO(free_ptr) pid_t *tids = NULL;
	size_t count;
	int err = procfs_threads(pid, &tids, &count);

	if (err)
		return 0; /* it ended */
	for (size_t i = 0; i < count && !err; i++) {
		if (tid_known(collector, tids[i]))
			continue;
		*array_push(&collector->tids) = tids[i];
		err = perfring_add_thread(collector->ring, tids[i]);
	}
	return err;
}

static int targets_find(struct collector *collector)
{
	const struct collector_options *options = collector->options;
	int err = 0;

	if (options->cpu_count) {
		for (size_t i = 0; i < options->cpu_count; i++)
			*array_push(&collector->cpus) = options->cpus[i];
	} else {
		err = cpus_online(collector);
	}
	for (size_t i = 0; i < options->pid_count && !err; i++) {
		int fd = (int)syscall(SYS_pidfd_open, options->pids[i], 0);

		if (fd < 0)
			return err_set(-errno, "cannot attach to process %d: %s",
				       (int)options->pids[i], strerror(errno));
		*array_push(&collector->watched) = fd;
		err = threads_add(collector, options->pids[i]);
	}
	if (!err && options->command)
		err = command_start(options->command, &collector->command);
	if (!err && collector->command && !options->system_wide && !options->pid_count)
		*array_push(&collector->tids) = command_pid(collector->command);
	return err;
}

bool collector_command_is_target(const struct collector *collector)
{
	return collector->command && !collector->options->system_wide &&
	       !collector->options->pid_count;
}

static int target_add(struct collector *collector, pid_t pid, bool from_exec)
{
	map_at(&collector->members, (uint64_t)pid, NULL);
	publisher_want(collector->publisher, (uint32_t)pid);
	return sampler_add_process(collector->sampler, (uint32_t)pid, from_exec);
}

static struct sampler_runs runs_wanted(const struct collector_options *options)
{
	const struct collector_values *values = &options->values;
	uint64_t system = 0;

	if (!values->capture)
		return (struct sampler_runs){};
#define X(name) system |= CAPTURE_BIT(CAPTURE_##name);
	RUN_SYSTEM_WORDS(X)
#undef X
	return (struct sampler_runs){
		.length = values->run_length,
		.skip = values->run_skip,
		.every = values->run_every,
		.overwritten = values->capture->needs & CAPTURE_BIT(CAPTURE_OVERWRITTEN),
		.system = values->capture->needs & system,
		.max_blocks = MAX_BLOCKS,
		.max_uops = MAX_UOPS,
	};
}

static int values_start(struct collector *collector)
{
	const struct collector_values *wanted = &collector->options->values;
	struct values_options options = {
		.sites = { wanted->capture, wanted->list, wanted->max_sites },
		.pointers = collector->pointers,
	};

	backlog_init(&collector->backlog, collector->options->ring_bytes);
	blocks_create(collector->sampler, collector->loadmap, &collector->blocks);
	return values_create(&options, collector->store, collector->loadmap, collector->locations,
			     collector->blocks, &collector->values);
}

static int sampler_start(struct collector *collector)
{
	const struct collector_options *options = collector->options;
	const struct sampler_handlers handlers = collector_handlers(collector);
	struct sampler_options how = {
		.everything = options->system_wide,
		.cpus = collector->cpus.items,
		.cpu_count = collector->cpus.count,
		.event = options->event,
		.frequency = options->frequency,
		.period = options->period,
		.seed = options->seed,
		.ring_bytes = options->ring_bytes,
		.max_stacks = options->max_stacks,
		.max_rows = options->max_rows,
		.max_mappings = 65536,
		.max_depth = options->max_depth,
		.runs = runs_wanted(options),
	};
	int err = sampler_open(&how, &handlers, &collector->sampler);

	if (err)
		return err;
	if (options->values.capture)
		pointers_create(collector->loadmap, collector->locations, collector->store,
				&collector->pointers);
	publisher_create(collector->sampler, collector->loadmap, collector->pointers,
			 &collector->publisher);
	return options->values.capture ? values_start(collector) : 0;
}

/* From now on the sampler follows them: whoever tells of their children must be listening. */
static int targets_add(struct collector *collector)
{
	const struct collector_options *options = collector->options;
	int err = 0;

	if (collector_command_is_target(collector))
		err = target_add(collector, command_pid(collector->command), true);
	for (size_t i = 0; i < options->pid_count && !err; i++)
		err = target_add(collector, options->pids[i], false);
	return err;
}

static int ring_start(struct collector *collector)
{
	const struct collector_options *options = collector->options;
	uint64_t periods[CLOCKS];
	struct perfring_options how = { .target.system_wide = true, .pages = EVENT_PAGES };

	if (options->user_only) {
		how.pages = 0;
		how.target = (struct perfring_target){
			.tids = collector->tids.items,
			.tid_count = collector->tids.count,
			.cpus = collector->cpus.items,
			.cpu_count = collector->cpus.count,
			.enable_on_exec = collector_command_is_target(collector),
		};
		clocks_draw(options->frequency ? NS_PER_S / options->frequency : options->period,
			    options->seed, periods);
		how.periods = periods;
		how.period_count = CLOCKS;
		how.exclude_kernel = true;
		how.stack_bytes = PERF_STACK_BYTES;
	}
	return perfring_open(&how, &collector->ring);
}

/* Not as what the kernel tells: there, a process whose parent is none of ours is a new one, with a pid that one of ours had. */
static int on_learnt(void *ctx, const struct event *event)
{
	struct collector *collector = ctx;

	return loadmap_apply(collector->loadmap, event);
}

static int processes_learn(struct collector *collector)
{
	const uint64_t before = 0; /* they were there before the recording */
	int err = 0;

	if (collector->options->system_wide)
		err = procfs_all(before, on_learnt, collector);
	for (size_t i = 0; i < collector->options->pid_count && !err; i++)
		err = procfs_process(collector->options->pids[i], before, on_learnt, collector);
	return err == -ESRCH ? 0 : err;
}

static int meta_texts_store(struct collector *collector, const char *command)
{
	const struct collector_options *options = collector->options;
	struct utsname machine = {};
	int err = 0;

	uname(&machine);
	const struct {
		const char *key, *value;
	} texts[] = {
		{ "host", machine.nodename },
		{ "kernel", machine.release },
		{ "machine", machine.machine },
		{ "command", command },
		{ "event", sampler_event_name(options->event) },
		{ "unit", sampler_event_unit(options->event) },
		{ "sampler", options->user_only ? "perf ring" : "bpf" },
		{ "values", options->values.capture ? options->values.what : "" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !err; i++)
		err = store_meta_set(collector->store, texts[i].key, texts[i].value);
	return err;
}

static int meta_numbers_store(struct collector *collector)
{
	const struct collector_options *options = collector->options;
	bool by_time = options->frequency && options->event == SAMPLER_CPU_CLOCK;
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "started", clock_wall() },
		{ "started_monotonic", collector->started },
		{ "frequency", options->frequency },
		{ "period", by_time ? NS_PER_S / options->frequency : options->period },
		{ "seed", options->seed },
		{ "cpus", collector->cpus.count },
		{ "run_length", options->values.run_length },
		{ "run_skip", options->values.run_skip },
		{ "run_every", options->values.run_every },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !err; i++)
		err = store_meta_set_u64(collector->store, numbers[i].key, numbers[i].value);
	return err;
}

static int meta_store(struct collector *collector)
{
	char *const *argument = collector->options->command;
	struct strbuf command = {};
	int err;

	for (; argument && *argument; argument++)
		strbuf_printf(&command, "%s%s", command.length ? " " : "", *argument);
	err = meta_texts_store(collector, strbuf_text(&command));
	strbuf_deinit(&command);
	return err ? err : meta_numbers_store(collector);
}

static int watch(struct collector *collector, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(collector->epoll, EPOLL_CTL_ADD, fd, &event))
		return err_set(-errno, "cannot wait for events: %s", strerror(errno));
	return 0;
}

static int watches_start(struct collector *collector)
{
	int err = watch(collector, collector->signals);

	if (!err)
		err = watch(collector, perfring_fd(collector->ring));
	if (!err && collector->sampler)
		err = watch(collector, sampler_fd(collector->sampler));
	if (!err && collector->command)
		err = watch(collector, command_fd(collector->command));
	array_each(&collector->watched, fd)
		if (!err)
			err = watch(collector, *fd);
	return err;
}

static int signals_take(struct collector *collector)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	collector->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	collector->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (collector->signals < 0 || collector->epoll < 0)
		return err_set(-errno, "cannot wait for events: %s", strerror(errno));
	return 0;
}

/* Each module of the profile keeps a file open. */
static void files_limit_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int collector_open(struct collector *collector)
{
	const struct collector_options *options = collector->options;
	int err = signals_take(collector);

	err = err ? err : targets_find(collector);
	files_limit_raise(); /* after the command was forked: the limit is its own */
	err = err ? err : store_create(options->output, &collector->store);
	collector->started = clock_monotonic();
	err = err ? err : loadmap_create(collector->store, unwind_cache_dir(), &collector->loadmap);
	if (err)
		return err;
	locations_create(collector->store, &collector->locations);
	samples_create(collector->store, collector->loadmap, collector->locations,
		       collector->started, options->max_depth, &collector->samples);
	recheck_create(collector->loadmap, &collector->recheck);
	err = ring_start(collector);
	if (!err && !options->user_only)
		err = sampler_start(collector);
	return err;
}

int collector_start(struct collector *collector)
{
	int err = meta_store(collector);

	/* A file that may not grow is an error like others. The command, which is there by now, keeps what it had. */
	signal(SIGXFSZ, SIG_IGN);
	err = err ? err : watches_start(collector);
	if (!err && !(collector->options->user_only && collector_command_is_target(collector)))
		err = perfring_enable(collector->ring);
	if (!err && collector->sampler)
		err = targets_add(collector);
	if (!err && collector->sampler)
		err = sampler_enable(collector->sampler);
	for (size_t i = 0;
	     collector->options->user_only && i < collector->options->pid_count && !err; i++)
		err = threads_rescan(collector, collector->options->pids[i]);
	err = err ? err : processes_learn(collector);
	err = err ? err : collector_round(collector);
	err = err ? err : collector_totals_store(collector);
	if (err)
		return err;
	collector->started = clock_monotonic();
	if (collector->options->duration > 0)
		collector->deadline =
			collector->started + (uint64_t)(collector->options->duration * NS_PER_S);
	return collector->command ? command_release(collector->command) : 0;
}
