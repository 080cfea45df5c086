// SPDX-License-Identifier: BSD-2-Clause
/*
 * The life of a recorder and its rounds.
 *
 *	in	options, sources and sinks from a command, which also says when to do a round
 *	out	a profile, complete after recorder_finish()
 *	owner	the command; the recorder itself owns store, load map, locations, sources and sinks
 *
 * Paced sources are visited ten times a second, and more often at the beginning: their kernel side
 * works with tables that the host makes from what it learns in a round, and a short command should
 * have them soon. A source whose fd is readable is not visited alone: with it go all others,
 * because the steps of a round are in order only if everybody takes part.
 */
#include "recorder/recorder.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/err.h"
#include "recorder/recorder_private.h"
#include "symbols/spawner.h"

enum {
	FIRST_PAUSE_MS = 5, /* doubled each time */
	PAUSE_MS = 100,
	COMMIT_SLACK_MS = PAUSE_MS / 2, /* a commit goes with the nearest round */
	WAIT_MAX_MS = 1000,
};

static int wakeups_open(struct recorder *recorder)
{
	struct epoll_event event = { .events = EPOLLIN };

	recorder->epoll = epoll_create1(EPOLL_CLOEXEC);
	recorder->woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (recorder->epoll < 0 || recorder->woken < 0 ||
	    epoll_ctl(recorder->epoll, EPOLL_CTL_ADD, recorder->woken, &event))
		return err_set(-errno, "cannot wait for events: %s", strerror(errno));
	return 0;
}

static int profile_create(struct recorder *recorder)
{
	int err = store_create(recorder->options.output, &recorder->store);

	if (!err && recorder->options.sync_at_end)
		err = store_sync_at_end(recorder->store);
	return err ? err : store_machine_here(recorder->store);
}

int recorder_create(const struct recorder_options *options, struct recorder **ret)
{
	AUTO(recorder_destroy_auto) struct recorder *recorder = mem_zalloc(sizeof(*recorder));
	int err;

	recorder->options = *options;
	recorder->command = recorder_command_text(options->command);
	recorder->epoll = recorder->woken = -1;
	recorder->pause_ms = FIRST_PAUSE_MS;
	recorder->created = clock_monotonic();
	if (options->output)
		spawner_begin();
	err = options->output ? profile_create(recorder) : 0;
	err = err ? err : loadmap_create(recorder->store, options->table_cache, &recorder->loadmap);
	err = err ? err : wakeups_open(recorder);
	if (err)
		return err;
	locations_create(recorder->store, &recorder->locations);
	*ret = take_ptr(recorder);
	return 0;
}

static void sources_destroy(struct recorder *recorder)
{
	for (size_t i = recorder->sources.count; i-- > 0;)
		if (recorder->sources.items[i].destroy)
			recorder->sources.items[i].destroy(recorder->sources.items[i].ctx);
	array_deinit(&recorder->sources);
}

static void sinks_destroy(struct recorder *recorder)
{
	for (size_t i = recorder->sinks.count; i-- > 0;)
		if (recorder->sinks.items[i].destroy)
			recorder->sinks.items[i].destroy(recorder->sinks.items[i].ctx);
	array_deinit(&recorder->sinks);
}

void recorder_destroy(struct recorder *recorder)
{
	if (!recorder)
		return;
	sources_destroy(recorder);
	sinks_destroy(recorder);
	module_cache_deinit(&recorder->modules);
	locations_destroy(recorder->locations);
	loadmap_destroy(recorder->loadmap);
	if (recorder->kept)
		store_destroy(recorder->store);
	else if (recorder->store)
		store_abandon(recorder->store);
	if (recorder->options.output)
		spawner_end();
	close_fd(&recorder->epoll);
	close_fd(&recorder->woken);
	free(recorder->command);
	free(recorder->err_sentence);
	free(recorder);
}

struct store *recorder_store(struct recorder *recorder)
{
	return recorder->store;
}

struct loadmap *recorder_loadmap(struct recorder *recorder)
{
	return recorder->loadmap;
}

struct locations *recorder_locations(struct recorder *recorder)
{
	return recorder->locations;
}

struct module_cache *recorder_modules(struct recorder *recorder)
{
	return recorder->options.keep_modules ? &recorder->modules : NULL;
}

uint64_t recorder_created(const struct recorder *recorder)
{
	return recorder->created;
}

uint64_t recorder_started(const struct recorder *recorder)
{
	return recorder->started;
}

uint64_t recorder_due(const struct recorder *recorder)
{
	return recorder->due;
}

int recorder_fd(const struct recorder *recorder)
{
	return recorder->epoll;
}

void recorder_watch(struct recorder *recorder, void (*watch)(void *ctx), void *ctx)
{
	recorder->watch = watch;
	recorder->watch_ctx = ctx;
}

uint64_t recorder_commits(const struct recorder *recorder)
{
	return recorder->commits;
}

void recorder_source_add(struct recorder *recorder, const struct source *source)
{
	*array_push(&recorder->sources) = *source;
	recorder->has_paced |= source->paced;
	recorder->has_unpaced |= !source->paced;
}

void recorder_sink_add(struct recorder *recorder, const struct sink *sink)
{
	*array_push(&recorder->sinks) = *sink;
	if (recorder->store && sink->kind != SINK_NO_RECORDING)
		recorder_fail(recorder, recorder_recording_begin(recorder, sink->kind));
}

int recorder_fail(struct recorder *recorder, int err)
{
	if (recorder->err)
		return err_set(recorder->err, "%s", recorder->err_sentence);
	if (err) {
		recorder->err = err;
		recorder->err_sentence = mem_strdup(err_text());
	}
	return err;
}

/* --- Rounds ----------------------------------------------------------------------------------- */

/* Whether the source takes part in this round. */
static bool takes_part(const struct source *source, bool all)
{
	return all || !source->paced;
}

/* The first failure counts, but every source gets its visit. */
static int step_look(struct recorder *recorder, bool all)
{
	int err = 0;

	array_each(&recorder->sources, source)
		if (source->look && takes_part(source, all)) {
			int failed = source->look(source->ctx);

			err = err ? err : failed;
		}
	return recorder_fail(recorder, err);
}

static int step_events(struct recorder *recorder, bool all)
{
	int err = 0;

	array_each(&recorder->sources, source)
		if (source->events && takes_part(source, all)) {
			int failed = source->events(source->ctx);

			err = err ? err : failed;
		}
	return recorder_fail(recorder, err);
}

static int step_deliver(struct recorder *recorder, bool all, bool *ret_more)
{
	int err = 0;

	array_each(&recorder->sources, source)
		if (source->deliver && takes_part(source, all)) {
			int failed = source->deliver(source->ctx, recorder->last, ret_more);

			err = err ? err : failed;
		}
	return recorder_fail(recorder, err);
}

static int step_settle(struct recorder *recorder, bool all)
{
	int err = 0;

	array_each(&recorder->sources, source)
		if (source->settle && takes_part(source, all) && !err)
			err = source->settle(source->ctx);
	return recorder_fail(recorder, err);
}

static int visit(struct recorder *recorder, bool all, bool *ret_more)
{
	int err;

	step_look(recorder, all);
	step_events(recorder, all);
	err = step_deliver(recorder, all, ret_more);
	return err ? err : step_settle(recorder, all);
}

int recorder_intake(struct recorder *recorder)
{
	bool more = false;

	return visit(recorder, true, &more);
}

static bool is_readable(const struct recorder *recorder)
{
	struct pollfd poller = { .fd = recorder->epoll, .events = POLLIN };

	return poll(&poller, 1, 0) > 0;
}

/* Without an unpaced source the caller makes a round only when it is due. */
static bool paced_take_part(struct recorder *recorder, uint64_t now)
{
	bool due = recorder->last || now >= recorder->due;

	if (!recorder->has_paced)
		return false;
	if (due) {
		recorder->due = now + recorder->pause_ms * (uint64_t)NS_PER_MS;
		recorder->pause_ms = recorder->pause_ms < PAUSE_MS / 2 ? recorder->pause_ms * 2
								       : PAUSE_MS;
	}
	return due || !recorder->has_unpaced || is_readable(recorder);
}

static int sinks_work(struct recorder *recorder, bool *ret_more)
{
	int err = 0;

	array_each(&recorder->sinks, sink)
		if (sink->work && !err)
			err = sink->work(sink->ctx, recorder->last, ret_more);
	return recorder_fail(recorder, err);
}

static int commit_if_due(struct recorder *recorder, uint64_t now)
{
	if (now + COMMIT_SLACK_MS * (uint64_t)NS_PER_MS < recorder->commit_due || recorder->last)
		return 0;
	recorder->commit_due = now + recorder->options.commit_ms * (uint64_t)NS_PER_MS;
	return recorder_fail(recorder, recorder_commit(recorder));
}

int recorder_round(struct recorder *recorder, bool *ret_more)
{
	uint64_t now = clock_monotonic();
	bool more = false;
	int err = visit(recorder, paced_take_part(recorder, now), &more);

	if (!more)
		err = sinks_work(recorder, &more);
	if (!err)
		err = commit_if_due(recorder, now);
	if (ret_more)
		*ret_more = more;
	return err;
}

/* --- Start and waiting ------------------------------------------------------------------------ */

/*
 * Each module of the profile keeps a file open. A command that is recorded has been forked by now
 * and keeps its limit.
 */
static void files_limit_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int source_start(struct recorder *recorder, const struct source *source)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (source->fd >= 0 && epoll_ctl(recorder->epoll, EPOLL_CTL_ADD, source->fd, &event))
		return err_set(-errno, "cannot wait for events: %s", strerror(errno));
	return source->enable ? source->enable(source->ctx) : 0;
}

int recorder_start(struct recorder *recorder)
{
	int err = recorder_fail(recorder, 0);

	files_limit_raise();
	array_each(&recorder->sources, source)
		err = err ? err : source_start(recorder, source);
	err = err ? err : recorder_intake(recorder);
	err = err ? err : recorder_commit(recorder);
	if (err)
		return recorder_fail(recorder, err);
	recorder->kept = true;
	recorder->started = clock_monotonic();
	recorder->due = recorder->started + recorder->pause_ms * (uint64_t)NS_PER_MS;
	recorder->commit_due =
		recorder->started + recorder->options.commit_ms * (uint64_t)NS_PER_MS;
	return 0;
}

void recorder_abandon(struct recorder *recorder)
{
	recorder->kept = false;
}

static unsigned ms_until_due(const struct recorder *recorder)
{
	uint64_t now = clock_monotonic(), left = recorder->due > now ? recorder->due - now : 0;

	left = (left + NS_PER_MS - 1) / NS_PER_MS;
	return left < WAIT_MAX_MS ? (unsigned)left : WAIT_MAX_MS;
}

static void fds_wait(struct recorder *recorder, unsigned ms)
{
	struct pollfd poller = { .fd = recorder->epoll, .events = POLLIN };

	if (poll(&poller, 1, (int)ms) < 0 && errno != EINTR)
		recorder_fail(recorder,
			      err_set(-errno, "cannot wait for events: %s", strerror(errno)));
}

/*
 * A source with a wait of its own, such as one on a word of shared memory, cannot be waited for
 * together with fds. It goes first, as it is never paced; what fds tell is looked at when it wakes
 * up, or when a round is due.
 */
void recorder_wait(struct recorder *recorder)
{
	unsigned ms = recorder->has_paced ? ms_until_due(recorder) : WAIT_MAX_MS;
	const struct source *waits = NULL;
	eventfd_t wakes;

	array_each(&recorder->sources, source)
		if (source->wait)
			waits = source;
	if (waits)
		waits->wait(waits->ctx, ms);
	else
		fds_wait(recorder, ms);
	if (!waits || recorder->has_paced)
		eventfd_read(recorder->woken, &wakes);
}

void recorder_wake(struct recorder *recorder)
{
	array_each(&recorder->sources, source)
		if (source->wake)
			source->wake(source->ctx);
	eventfd_write(recorder->woken, 1);
}
