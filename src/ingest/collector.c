// SPDX-License-Identifier: BSD-2-Clause
/*
 * The collector's loop: a round (collector_intake.c) ten times a second and whenever a ring is half full, totals and a
 * commit twice a second; at the end the last rounds, and names.
 */
#include "ingest/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "ingest/collector_internal.h"
#include "ingest/symbolise.h"

enum {
	ROUND_MS = 100,
	FIRST_ROUND_MS = 5, /* doubled each time: a new command's tables are soon in the kernel */
	ROUNDS_PER_COMMIT = 5,
	VALUES_FLUSHES_PER_COMMIT = 20, /* rounds of commits between two looks at all sites */
	STOP_PATIENCE_MS = 2000, /* for the command to end after we were told to stop */
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
	backlog_deinit(&collector->backlog);
	array_deinit(&collector->tids);
	map_deinit(&collector->members);
	array_deinit(&collector->cpus);
	array_each(&collector->watched, fd)
		close_fd(fd);
	array_deinit(&collector->watched);
	close_fd(&collector->signals);
	close_fd(&collector->epoll);
}

/* --- Loop ------------------------------------------------------------------------------------------- */

/* A first signal ends the command, which may take its time; a second one ends the recording at once. */
static void on_signal(struct collector *collector)
{
	struct signalfd_siginfo info;

	while (read(collector->signals, &info, sizeof(info)) == sizeof(info)) {
		if (collector->stopping || !collector_command_is_target(collector)) {
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
		/* Once at least: who is late must hear of the end too. */
		do {
			err = wait_until(collector, next);
			if (!err && until(next) > 0 && !collector->done)
				err = collector_round(collector); /* a ring is half full */
		} while (!err && !collector->done && until(next) > 0);
		err = err ? err : collector_round(collector);
		if (err || ++rounds % ROUNDS_PER_COMMIT)
			continue;
		collector_progress_show(collector);
		if (rounds % (ROUNDS_PER_COMMIT * VALUES_FLUSHES_PER_COMMIT) == 0)
			err = collector_values_store(collector);
		err = err ? err : collector_totals_store(collector);
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

	collector_run_tally(collector, &tally);
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

	collector_tally(collector, &tally);
	known = samples_kept(collector->samples) + collector_lost(&tally);
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
	err = err ? err : collector_values_store(collector);
	err = err ? err : loadmap_finish(collector->loadmap);
	err = err ? err : collector_totals_store(collector);
	collector_progress_end(collector);
	err = err ? err : names_find(collector);
	return err ? err : store_finish(collector->store);
}

static void result_fill(const struct collector *collector, uint64_t ended,
			struct collector_result *ret)
{
	collector_tally(collector, &ret->tally);
	ret->kept = samples_kept(collector->samples);
	ret->lost = collector_lost(&ret->tally);
	ret->exit_code = collector->exit_code;
	memset(&ret->runs, 0, sizeof(ret->runs));
	ret->runs_kept = 0;
	if (collector->values) {
		collector_run_tally(collector, &ret->runs);
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
