// SPDX-License-Identifier: BSD-2-Clause
/*
 * The collector's loop.
 *
 * Order within a round matters. Records are first copied out of the sampler's ring, then the kernel's process events
 * are drained and applied, and only then are the records attributed: an mmap always precedes, in time, the samples that
 * need it, so by then it is known.
 *
 *	1. sampler ring -> queue
 *	2. perf rings   -> load map (and samples, where BPF is not allowed)
 *	3. queue        -> samples
 *	4. counts of the interval before -> samples: their stacks are in the store since 3
 *	5. load map     -> sampler (tables and mappings of processes that were sampled)
 *	6. twice a second: totals and commit
 */
#include "ingest/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "ingest/blocks.h"
#include "ingest/command.h"
#include "ingest/loadmap.h"
#include "ingest/locations.h"
#include "ingest/perfring.h"
#include "ingest/pointers.h"
#include "ingest/procfs.h"
#include "ingest/publisher.h"
#include "ingest/samples.h"
#include "ingest/symbolise.h"
#include "ingest/recheck.h"
#include "ingest/values.h"
#include "store/store.h"

enum {
	ROUND_MS = 100,
	FIRST_ROUND_MS = 5, /* doubled each time: a new command's tables are soon in the kernel */
	COUNTS_MS =
		190, /* every other round: a stack that is counted again in the same interval costs least */
	ROUNDS_PER_COMMIT = 5,
	EVENT_PAGES = 256, /* per CPU: half a second of thousands of short processes */
	PERF_STACK_BYTES = 16384, /* copied per sample without BPF */
	VALUES_FLUSHES_PER_COMMIT = 20, /* rounds of commits between two looks at all sites */
	MAX_BLOCKS = 1 << 18, /* translated instructions in the kernel */
	MAX_UOPS = 1 << 20,
	STOP_PATIENCE_MS = 2000, /* for the command to end after we were told to stop */
};

struct collector {
	const struct collector_options *options;
	struct store *store;
	struct loadmap *loadmap;
	struct locations *locations;
	struct samples *samples;
	struct blocks *blocks; /* this and the next two: NULL if no values are taken */
	struct values *values;
	struct pointers *pointers;
	struct sampler *sampler; /* NULL without BPF */
	struct publisher *publisher; /* NULL without BPF */
	struct perfring *ring;
	struct command *command; /* NULL: none */
	struct recheck *recheck;
	struct strbuf queue; /* records: size_t, then as many bytes, padded to 8 */
	ARRAY(pid_t) tids; /* targets when not system-wide; only without BPF */
	struct map members; /* pids of the targets and what they created; not used system-wide */
	ARRAY(int) cpus;
	ARRAY(int) watched; /* pidfds of attached processes that still run */
	int signals; /* signalfd */
	int epoll;
	uint64_t started;
	uint64_t counts_next; /* when to drain the counts again */
	uint64_t deadline; /* 0: none */
	uint64_t events_lost; /* process events that the kernel dropped */
	uint64_t unread; /* samples that the kernel has seen and that never arrived; known at the end */
	uint64_t runs_unread; /* likewise */
	uint64_t user_seen; /* samples seen without BPF */
	uint64_t user_lost[LOSS_COUNT];
	bool stopping; /* asked to; the command may still be ending */
	bool done;
	int exit_code;
};

static void collector_deinit(struct collector *collector)
{
	publisher_destroy(collector->publisher);
	values_destroy(collector->values);
	blocks_destroy(collector->blocks);
	pointers_destroy(collector->pointers);
	sampler_destroy(collector->sampler);
	perfring_destroy(collector->ring);
	recheck_destroy(collector->recheck);
	samples_destroy(collector->samples);
	locations_destroy(collector->locations);
	loadmap_destroy(collector->loadmap);
	store_destroy(collector->store);
	command_destroy(collector->command);
	strbuf_deinit(&collector->queue);
	array_deinit(&collector->tids);
	map_deinit(&collector->members);
	array_deinit(&collector->cpus);
	array_each(&collector->watched, fd)
		close_fd(fd);
	array_deinit(&collector->watched);
	close_fd(&collector->signals);
	close_fd(&collector->epoll);
}

/* --- Samples in ----------------------------------------------------------------------------------- */

static int queue_record(struct collector *collector, const void *record, size_t size)
{
	static const char padding[8];

	strbuf_add(&collector->queue, &size, sizeof(size));
	strbuf_add(&collector->queue, record, size);
	strbuf_add(&collector->queue, padding, -size & 7);
	return 0;
}

static int on_stack(void *ctx, const struct sample_stack *stack)
{
	return queue_record(ctx, stack,
			    sizeof(*stack) + 8u * (stack->kernel_count + stack->user_count));
}

static int on_dump(void *ctx, const struct sample_dump *dump)
{
	return queue_record(ctx, dump, sizeof(*dump) + dump->stack_size);
}

static int on_identity(void *ctx, const struct sample_identity *identity)
{
	return queue_record(ctx, identity, sizeof(*identity));
}

static int on_run(void *ctx, const struct run_record *run)
{
	return queue_record(ctx, run, run_record_size(run->log_count));
}

static int on_wanted(void *ctx, const struct run_wanted *wanted)
{
	return queue_record(ctx, wanted, sizeof(*wanted));
}

static int on_count(void *ctx, const struct sample_key *key, const struct sample_count *count)
{
	struct collector *collector = ctx;

	recheck_note(collector->recheck, key->image.tgid);
	return samples_count(collector->samples, key, count);
}

static int identity_apply(struct collector *collector, const struct sample_identity *identity)
{
	struct event event = {
		.kind = EVENT_IDENTITY,
		.pid = identity->record.image.tgid,
		.tid = identity->record.image.tgid,
		.time = identity->record.time,
		.identity = {
			.ppid = identity->parent,
			.uid = identity->uid,
			.gid = identity->gid,
			.euid = identity->euid,
			.egid = identity->egid,
			.cgroup = identity->cgroup,
		},
	};

	return loadmap_apply(collector->loadmap, &event);
}

static int record_apply(struct collector *collector, const void *data)
{
	const struct sample_record *record = data;

	switch (record->kind) {
	case RECORD_STACK:
		return samples_stack(collector->samples, data);
	case RECORD_DUMP:
		publisher_want(collector->publisher, record->image.tgid);
		recheck_note(collector->recheck, record->image.tgid);
		return samples_dump(collector->samples, data);
	case RECORD_RUN:
		return values_run(collector->values, data);
	case RECORD_WANTED:
		return blocks_want(collector->blocks, data);
	default:
		return identity_apply(collector, data);
	}
}

/* The record at a place of the queue, which is then that of the next one; NULL: there are no more. */
static const struct sample_record *queue_take(struct collector *collector, size_t *at)
{
	const char *record = collector->queue.text + *at + sizeof(size_t);
	size_t size;

	if (*at >= collector->queue.length)
		return NULL;
	memcpy(&size, collector->queue.text + *at, sizeof(size));
	*at += sizeof(size) + ((size + 7) & ~(size_t)7);
	return (const struct sample_record *)record;
}

static int queue_apply(struct collector *collector)
{
	size_t at = 0;
	const struct sample_record *record = queue_take(collector, &at), *next;
	int err = 0;

	for (; record && !err; record = next) {
		next = queue_take(collector, &at);
		if (next && next->kind == RECORD_RUN)
			values_expect(collector->values, (const struct run_record *)next);
		err = record_apply(collector, record);
	}
	collector->queue.length = 0;
	return err;
}

/*
 * With BPF the kernel tells of every process of the machine, because events that follow only the targets would be copied
 * for each CPU at each fork. What is none of ours is dropped here.
 */
static bool is_member(struct collector *collector, const struct event *event)
{
	if (collector->options->system_wide || !collector->sampler)
		return true;
	if (event->kind == EVENT_FORK && event->pid != event->fork.ppid) {
		if (map_find(&collector->members, event->fork.ppid))
			map_at(&collector->members, event->pid, NULL);
		else
			map_remove(&collector->members, event->pid); /* a reused pid */
	}
	return map_find(&collector->members, event->pid);
}

static int on_lost(struct collector *collector, uint64_t lost)
{
	if (collector->sampler) {
		collector->events_lost += lost;
	} else {
		collector->user_seen += lost;
		collector->user_lost[LOSS_KERNEL_LOST] += lost;
	}
	return 0;
}

static int on_identity_event(void *ctx, const struct event *event)
{
	struct collector *collector = ctx;

	return loadmap_apply(collector->loadmap, event);
}

/* Without BPF, who a new process belongs to must be looked up, if it is still there. */
static int identity_look(struct collector *collector, const struct event *event)
{
	bool process = event->kind == EVENT_EXEC ||
		       (event->kind == EVENT_FORK && event->pid == event->tid);
	int err;

	if (collector->sampler || !process)
		return 0;
	err = procfs_identity((pid_t)event->pid, event->time, on_identity_event, collector);
	return err == -ESRCH ? 0 : err;
}

static int on_event(void *ctx, const struct event *event)
{
	struct collector *collector = ctx;
	int err;

	switch (event->kind) {
	case EVENT_SAMPLE:
		collector->user_seen++;
		return samples_event(collector->samples, event);
	case EVENT_LOST:
		return on_lost(collector, event->lost);
	case EVENT_THROTTLE: /* at least one */
		if (!collector->sampler) {
			collector->user_seen++;
			collector->user_lost[LOSS_THROTTLED]++;
		}
		return 0;
	default:
		break;
	}
	if (!is_member(collector, event))
		return 0;
	if (event->kind == EVENT_FORK && collector->publisher && event->pid != event->fork.ppid)
		publisher_forked(collector->publisher, event->fork.ppid, event->pid);
	err = loadmap_apply(collector->loadmap, event);
	return err ? err : identity_look(collector, event);
}

static bool counts_due(struct collector *collector)
{
	uint64_t now = clock_monotonic();

	if (now < collector->counts_next)
		return false;
	collector->counts_next = now + COUNTS_MS * (uint64_t)NS_PER_MS;
	return true;
}

static int collector_round(struct collector *collector)
{
	int err = 0;

	if (collector->sampler)
		err = sampler_drain_ring(collector->sampler);
	if (!err)
		err = perfring_drain(collector->ring, on_event, collector);
	if (!err)
		err = queue_apply(collector);
	if (!err && collector->sampler && (counts_due(collector) || collector->done))
		err = sampler_drain_counts(collector->sampler);
	if (!err && collector->publisher)
		err = publisher_sync(collector->publisher);
	return err;
}

/* --- Totals ---------------------------------------------------------------------------------------- */

static void tally_get(const struct collector *collector, struct sample_tally *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (collector->sampler) {
		sampler_tally(collector->sampler, ret);
		ret->lost[LOSS_NO_STACK] += samples_orphaned(collector->samples);
		ret->lost[LOSS_UNREAD] += collector->unread;
		return;
	}
	ret->seen = collector->user_seen;
	memcpy(ret->lost, collector->user_lost, sizeof(ret->lost));
}

static uint64_t tally_lost(const struct sample_tally *tally)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < LOSS_COUNT; i++)
		lost += tally->lost[i];
	return lost;
}

static const char *const loss_names[][2] = {
#define X(name, json, text) [LOSS_##name] = { json, text },
	LOSS_REASONS(X)
#undef X
};

static const char *const end_names[][2] = {
#define X(name, json, text) [STACK_END_##name] = { json, text },
	STACK_ENDS(X)
#undef X
};

/*
 * While recording, what the kernel has seen and the host not yet drained is neither kept nor lost; the file always says
 * seen = kept + lost of what it holds.
 */
static int totals_store(struct collector *collector)
{
	const uint64_t *ends = samples_ends(collector->samples);
	struct sample_tally tally;
	int err;

	tally_get(collector, &tally);
	err = loadmap_flush(collector->loadmap);
	if (!err)
		err = store_seen_set(collector->store,
				     samples_kept(collector->samples) + tally_lost(&tally));
	for (size_t i = 0; i < LOSS_COUNT && !err; i++)
		if (tally.lost[i])
			err = store_loss_set(collector->store, loss_names[i][0], loss_names[i][1],
					     tally.lost[i]);
	for (size_t i = 0; i < STACK_END_COUNT && !err; i++)
		if (ends[i])
			err = store_stack_end_set(collector->store, end_names[i][0],
						  end_names[i][1], ends[i]);
	if (!err)
		err = store_meta_set_u64(collector->store, "duration_ns",
					 clock_monotonic() - collector->started);
	if (!err && collector->events_lost)
		err = store_meta_set_u64(collector->store, "process_events_lost",
					 collector->events_lost);
	return err ? err : store_commit(collector->store);
}

static void run_tally_get(const struct collector *collector, struct run_tally *ret)
{
	sampler_run_tally(collector->sampler, ret);
	ret->lost[RUN_LOSS_UNREAD] += collector->runs_unread;
}

static int values_store(struct collector *collector)
{
	struct run_tally tally;

	if (!collector->values)
		return 0;
	run_tally_get(collector, &tally);
	return values_flush(collector->values, &tally);
}

static void progress_show(const struct collector *collector)
{
	struct sample_tally tally;

	if (!collector->options->progress)
		return;
	tally_get(collector, &tally);
	fprintf(stderr, "\r[assay: %.1f s, %llu samples, %llu lost] ",
		(double)(clock_monotonic() - collector->started) / NS_PER_S,
		(unsigned long long)tally.seen, (unsigned long long)tally_lost(&tally));
	fflush(stderr);
}

static void progress_end(const struct collector *collector)
{
	if (collector->options->progress)
		fputs("\r\033[K", stderr);
}

/* --- Start ------------------------------------------------------------------------------------------ */

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

/* The command is only the measure of time when something else is profiled. */
static bool command_is_target(const struct collector *collector)
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

	blocks_create(collector->sampler, collector->loadmap, &collector->blocks);
	return values_create(&options, collector->store, collector->loadmap, collector->locations,
			     collector->blocks, &collector->values);
}

static int sampler_start(struct collector *collector)
{
	const struct collector_options *options = collector->options;
	const struct sampler_handlers handlers = {
		on_stack, on_dump, on_identity, on_count, on_run, on_wanted, collector,
	};
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
	if (options->values.capture)
		err = values_start(collector);
	if (err)
		return err;
	if (command_is_target(collector))
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
			.enable_on_exec = command_is_target(collector),
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

static int processes_learn(struct collector *collector)
{
	const uint64_t before = 0; /* they were there before the recording */
	int err = 0;

	if (collector->options->system_wide)
		err = procfs_all(before, on_event, collector);
	for (size_t i = 0; i < collector->options->pid_count && !err; i++)
		err = procfs_process(collector->options->pids[i], before, on_event, collector);
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

static int collector_open(struct collector *collector)
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

static int collector_start(struct collector *collector)
{
	int err = meta_store(collector);

	err = err ? err : watches_start(collector);
	if (!err && !(collector->options->user_only && command_is_target(collector)))
		err = perfring_enable(collector->ring);
	if (!err && collector->sampler)
		err = sampler_enable(collector->sampler);
	for (size_t i = 0;
	     collector->options->user_only && i < collector->options->pid_count && !err; i++)
		err = threads_rescan(collector, collector->options->pids[i]);
	err = err ? err : processes_learn(collector);
	err = err ? err : collector_round(collector);
	err = err ? err : totals_store(collector);
	if (err)
		return err;
	collector->started = clock_monotonic();
	if (collector->options->duration > 0)
		collector->deadline =
			collector->started + (uint64_t)(collector->options->duration * NS_PER_S);
	return collector->command ? command_release(collector->command) : 0;
}

/* --- Loop ------------------------------------------------------------------------------------------- */

/* A first signal ends the command, which may take its time; a second one ends the recording at once. */
static void on_signal(struct collector *collector)
{
	struct signalfd_siginfo info;

	while (read(collector->signals, &info, sizeof(info)) == sizeof(info)) {
		if (collector->stopping || !command_is_target(collector)) {
			collector->done = true;
			continue;
		}
		collector->stopping = true;
		collector->deadline = clock_monotonic() + STOP_PATIENCE_MS * (uint64_t)NS_PER_MS;
		collector->exit_code = 128 + (int)info.ssi_signo;
		if (info.ssi_code != SI_KERNEL) /* a terminal has signalled the command itself */
			command_signal(collector->command, SIGTERM);
	}
}

static void on_process_end(struct collector *collector, int fd)
{
	epoll_ctl(collector->epoll, EPOLL_CTL_DEL, fd, NULL);
	for (size_t i = 0; i < collector->watched.count; i++)
		if (collector->watched.items[i] == fd) {
			close(fd);
			collector->watched.items[i] =
				collector->watched.items[--collector->watched.count];
			break;
		}
	if (!collector->watched.count && !collector->command)
		collector->done = true;
}

static void wakeup_handle(struct collector *collector, int fd)
{
	if (fd == collector->signals) {
		on_signal(collector);
	} else if (collector->command && fd == command_fd(collector->command)) {
		if (command_ended(collector->command, &collector->exit_code))
			collector->done = true;
	} else if (fd != perfring_fd(collector->ring) &&
		   !(collector->sampler && fd == sampler_fd(collector->sampler))) {
		on_process_end(collector, fd);
	}
}

static int until(uint64_t time)
{
	uint64_t now = clock_monotonic();

	return time > now ? (int)((time - now + NS_PER_MS - 1) / NS_PER_MS) : 0;
}

static int wait_until(struct collector *collector, uint64_t time)
{
	struct epoll_event events[16];
	int count;

	if (collector->deadline && collector->deadline < time)
		time = collector->deadline;
	count = epoll_wait(collector->epoll, events, 16, until(time));
	if (count < 0 && errno != EINTR)
		return err_set(-errno, "cannot wait for events: %s", strerror(errno));
	for (int i = 0; i < count; i++)
		wakeup_handle(collector, events[i].data.fd);
	if (collector->deadline && clock_monotonic() >= collector->deadline)
		collector->done = true;
	return 0;
}

static int on_rechecked(void *ctx, struct loadmap_process *process)
{
	struct collector *collector = ctx;

	return collector->publisher ? publisher_look(collector->publisher, process) : 0;
}

static int collector_loop(struct collector *collector)
{
	uint64_t next = clock_monotonic();
	unsigned int rounds = 0, pause = FIRST_ROUND_MS;
	int err = 0;

	while (!err && !collector->done) {
		next += pause * (uint64_t)NS_PER_MS;
		pause = pause < ROUND_MS / 2 ? pause * 2 : ROUND_MS;
		while (!err && !collector->done && until(next) > 0) {
			err = wait_until(collector, next);
			if (!err && until(next) > 0 && !collector->done)
				err = collector_round(collector); /* a ring is half full */
		}
		err = err ? err : collector_round(collector);
		if (err || ++rounds % ROUNDS_PER_COMMIT)
			continue;
		progress_show(collector);
		if (rounds % (ROUNDS_PER_COMMIT * VALUES_FLUSHES_PER_COMMIT) == 0)
			err = values_store(collector);
		err = err ? err : totals_store(collector);
		if (!err && rounds % (2 * ROUNDS_PER_COMMIT) == 0)
			err = recheck_run(collector->recheck, on_rechecked, collector);
	}
	return err;
}

/* --- End -------------------------------------------------------------------------------------------- */

static int module_fd(void *ctx, const struct store_module *row)
{
	struct collector *collector = ctx;
	struct loadmap_module *module = loadmap_module_get(collector->loadmap, row->id);
	int fd;

	if (!module || module->fd < 0)
		return symbolise_open_path(NULL, row);
	fd = fcntl(module->fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

/* The kernel's, as it runs. */
static size_t module_code(void *ctx, const struct store_module *module, uint64_t address, void *ret,
			  size_t size)
{
	struct collector *collector = ctx;
	size_t got = 0, step = 1;

	if (module->kind != MODULE_KERNEL || !collector->sampler)
		return 0;
	for (; got < size && step; got += step)
		step = sampler_kernel_text(collector->sampler, address + got, (char *)ret + got,
					   size - got);
	return got;
}

static void runs_unread_count(struct collector *collector)
{
	struct run_tally tally;
	uint64_t known = values_read(collector->values);

	run_tally_get(collector, &tally);
	for (size_t i = 0; i < RUN_LOSS_COUNT; i++)
		known += tally.lost[i];
	if (tally.seen > known)
		collector->runs_unread = tally.seen - known;
}

/* After the last drain everything that was seen is kept or lost. Should it ever not be, the file says so. */
static void unread_count(struct collector *collector)
{
	struct sample_tally tally;
	uint64_t known;

	tally_get(collector, &tally);
	known = samples_kept(collector->samples) + tally_lost(&tally);
	if (tally.seen > known)
		collector->unread = tally.seen - known;
	if (collector->values)
		runs_unread_count(collector);
}

static int names_find(struct collector *collector)
{
	const struct symbolise_sources sources = { module_fd, module_code, collector };
	int err = collector->values ? values_name(collector->values) : 0;

	return err ? err : symbolise_from(collector->store, &sources);
}

static int collector_finish(struct collector *collector)
{
	int err = 0;

	if (collector->sampler)
		err = sampler_disable(collector->sampler);
	if (!err)
		err = perfring_disable(collector->ring);
	/* Three rounds: what was under way arrives in the first, both counts maps are empty after the next. */
	for (int i = 0; i < 3 && !err; i++)
		err = collector_round(collector);
	unread_count(collector);
	err = err ? err : values_store(collector);
	err = err ? err : loadmap_finish(collector->loadmap);
	err = err ? err : totals_store(collector);
	progress_end(collector);
	err = err ? err : names_find(collector);
	return err ? err : store_finish(collector->store);
}

static void result_fill(const struct collector *collector, uint64_t ended,
			struct collector_result *ret)
{
	tally_get(collector, &ret->tally);
	ret->kept = samples_kept(collector->samples);
	ret->lost = tally_lost(&ret->tally);
	ret->exit_code = collector->exit_code;
	memset(&ret->runs, 0, sizeof(ret->runs));
	ret->runs_kept = 0;
	if (collector->values) {
		run_tally_get(collector, &ret->runs);
		ret->runs_kept = values_kept(collector->values);
		ret->runs.lost[RUN_LOSS_DISAGREED] +=
			values_read(collector->values) - ret->runs_kept;
	}
	ret->seconds = (double)(ended - collector->started) / NS_PER_S;
}

int collector_run(const struct collector_options *options, struct collector_result *ret)
{
	AUTO(collector_deinit)
	struct collector collector = { .options = options, .signals = -1, .epoll = -1 };
	uint64_t ended;
	int err;

	err = collector_open(&collector);
	err = err ? err : collector_start(&collector);
	if (err) {
		if (collector.store)
			store_abandon(take_ptr(collector.store));
		return err;
	}
	err = collector_loop(&collector);
	if (err)
		return err;
	ended = clock_monotonic();
	err = collector_finish(&collector);
	if (!err)
		result_fill(&collector, ended, ret);
	return err;
}
