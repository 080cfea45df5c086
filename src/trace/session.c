// SPDX-License-Identifier: BSD-2-Clause
/*
 * The draining thread has no signals. While programs record, it looks at their rings every now and then: to be woken for each chunk
 * would cost the programs an interrupt each time, and to look all the time would take the memory they write to away from
 * them. In between it helps with what was made of earlier runs. Only if nothing comes for a while does it sleep on the bell of the shared memory. The store, the load map and all that sinks
 * keep belong to it from its start to its end, and to the caller before and after.
 */
#include "trace/session.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/utsname.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "ingest/symbolise.h"
#include "profile/flow.h"
#include "trace/book.h"
#include "trace/parts.h"
#include "trace/raw.h"

enum {
	NAP_MS = 20,
	SINKS = 2,
	SWEEP_WORTH = 1 << 14, /* runs */
	SHORT_NAP_MS = 4,
	SHORT_NAPS = 10,
	FEW_CPUS = 2, /* a program's thread and the draining one, and none for rows */
};

struct session {
	struct store *store;
	struct book *book;
	struct paths *paths; /* NULL: the order of execution is not kept */
	struct raw *raw;
	struct drain *drain;
	struct drain_sink sinks[SINKS];
	struct relay relay;
	bool marks;
	bool lines;
	uint64_t started;
	pthread_t thread;
	bool running;
	bool stop; /* set by the caller's thread, once */
};

static int meta_store(struct store *store, const struct session_options *options)
{
	struct strbuf command = {};
	struct utsname machine = {};
	int err = 0;

	uname(&machine);
	for (char *const *word = options->command; word && *word; word++)
		strbuf_printf(&command, "%s%s", word == options->command ? "" : " ", *word);
	const struct {
		const char *key, *value;
	} texts[] = {
		{ "host", machine.nodename },	{ "kernel", machine.release },
		{ "machine", machine.machine }, { "command", strbuf_text(&command) },
		{ "event", "executed-code" },	{ "unit", "runs" },
		{ "tool", options->tool },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !err; i++)
		err = store_meta_set(store, texts[i].key, texts[i].value);
	err = err ? err : store_meta_set_u64(store, "started", clock_wall());
	err = err ? err : store_meta_set_u64(store, "started_monotonic", clock_monotonic());
	if (!err && options->paths)
		err = store_meta_set_u64(store, "max_cycle",
					 options->paths->max_cycle ? options->paths->max_cycle
								   : LAYER_MAX_CYCLE);
	if (!err && options->paths)
		err = store_meta_set_u64(store, "order_format", FLOW_FORMAT);
	strbuf_deinit(&command);
	return err ? err : store_commit(store);
}

/* NULL: there are CPUs for the program and for all of our threads. */
static struct relay *relay_make(struct session *session, const struct session_options *options)
{
	struct stream_area *area = (void *)((char *)options->shared + STREAM_AREA);
	cpu_set_t cpus;

	if (options->shared_size < STREAM_SLOTS || sched_getaffinity(0, sizeof(cpus), &cpus) ||
	    CPU_COUNT(&cpus) > FEW_CPUS)
		return NULL;
	relay_init(&session->relay, &area->held, &area->reserves);
	return &session->relay;
}

int session_create(const struct session_options *options, struct session **ret)
{
	AUTO(session_destroy_auto) struct session *session = mem_zalloc(sizeof(*session));
	struct relay *relay = relay_make(session, options);
	size_t count = 0;
	int err = store_create(options->output, &session->store);

	session->started = clock_monotonic();
	session->marks = options->counters == DRAIN_MARKS;
	session->lines = options->lines;
	/* The program waits while whoever drains it waits for the disk; and it does not outlive a power cut, either. */
	err = err ? err : store_sync_at_end(session->store);
	err = err ? err : meta_store(session->store, options);
	if (!err && options->paths)
		paths_create(session->store, options->paths, relay, &session->paths);
	if (!err)
		err = book_create(session->store,
				  &(struct book_options){ session->marks, session->paths },
				  &session->book);
	if (!err && options->raw)
		err = raw_create(options->raw, &session->raw);
	if (err)
		return err;
	session->sinks[count++] = book_sink(session->book);
	if (session->raw)
		session->sinks[count++] = raw_sink(session->raw);
	err = drain_create(options->shared, options->shared_size, options->counters, session->sinks,
			   count, &session->drain);
	if (err)
		return err;
	drain_relay_set(session->drain, relay);
	*ret = take_ptr(session);
	return 0;
}

static void thread_stop(struct session *session)
{
	if (!session->running)
		return;
	__atomic_store_n(&session->stop, true, __ATOMIC_RELEASE);
	drain_wake(session->drain);
	pthread_join(session->thread, NULL);
	session->running = false;
}

void session_destroy(struct session *session)
{
	if (!session)
		return;
	if (session->drain)
		thread_stop(session);
	drain_destroy(session->drain);
	raw_destroy(session->raw);
	book_destroy(session->book);
	paths_destroy(session->paths);
	if (session->store)
		store_abandon(session->store);
	free(session);
}

static void *session_main(void *ctx)
{
	struct session *session = ctx;
	unsigned empty = 0; /* sweeps in a row that brought no runs */

	while (!__atomic_load_n(&session->stop, __ATOMIC_ACQUIRE)) {
		uint64_t before = drain_taken(session->drain);
		bool any = drain_sweep(session->drain);
		uint64_t taken = drain_taken(session->drain) - before;

		empty = taken ? 0 : empty + 1;
		if (taken >= SWEEP_WORTH)
			continue;
		if (session->paths && paths_help(session->paths))
			continue;
		if (empty < SHORT_NAPS)
			drain_nap(session->drain, SHORT_NAP_MS);
		else if (!any)
			drain_wait(session->drain, NAP_MS);
	}
	drain_finish(session->drain);
	return NULL;
}

int session_start(struct session *session)
{
	sigset_t all, old;
	int err;

	/* A file that may not grow is an error like others. The command, which is there by now, keeps what it had. */
	signal(SIGXFSZ, SIG_IGN);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&session->thread, NULL, session_main, session);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	session->running = !err;
	return err ? err_set(-err, "cannot start a thread: %s", strerror(err)) : 0;
}

static int profile_complete(struct session *session)
{
	AUTO(shelf_deinit) struct shelf shelf = {};
	const struct symbolise_sources sources = { .open = parts_module_open,
						   .ctx = book_loadmap(session->book),
						   .shelf = &shelf };
	int err = book_finish(session->book, drain_totals(session->drain));

	err = err ? err : parts_store(session->book, session->store, &shelf);
	err = err ? err : symbolise_from(session->store, &sources);
	if (!err && session->lines)
		err = lines_store(session->book, session->store, &shelf, session->marks);
	if (!err)
		err = store_meta_set_u64(session->store, "duration_ns",
					 clock_monotonic() - session->started);
	if (!err && session->raw)
		err = raw_finish(session->raw);
	return err ? err : store_finish(session->store);
}

int session_finish(struct session *session, struct session_result *ret)
{
	struct session_result result = {};
	const struct book_block *blocks;
	size_t count;
	int err;

	thread_stop(session);
	result.totals = *drain_totals(session->drain);
	result.native = book_threads_native(session->book);
	blocks = book_blocks(session->book, &count);
	for (size_t i = 1; i < count; i++) {
		uint64_t times = session->marks ? blocks[i].count > 0 : blocks[i].count;

		result.blocks += times;
		result.instructions += times * blocks[i].instructions;
	}
	err = profile_complete(session);
	store_destroy(take_ptr(session->store));
	if (!err)
		*ret = result;
	return err;
}
