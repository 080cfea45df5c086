// SPDX-License-Identifier: BSD-2-Clause
/*
 * A ring of jobs. Numbers that only grow say where each is:
 *
 *	collected <= taken <= ordered <= submitted <= collected + ROWWORKS_JOBS
 *
 * Jobs from ordered to submitted wait for the first step, from taken to ordered for the second. Those below taken are in the second or
 * done. The rest are free.
 *
 * 1. Whoever has taken a job for a step is alone with it; the owner has those that are free or to be collected.
 * 2. The first step is done by one at a time (`ordering`).
 * 3. The threads start with the first job: most processes never have one.
 */
#include "profile/rowworks.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"

/*
 * Rows can wait, up to ROWWORKS_JOBS of them; the program and who drains it cannot for long. So when one of those two has nothing to
 * do, there is a row to work on.
 */
enum { NICENESS = 7, OWNER = ROWWORKS_THREADS };

struct worker {
	struct rowworks *works;
	unsigned number;
	pthread_t thread;
	bool running;
};

struct rowworks {
	struct worker workers[ROWWORKS_THREADS];
	rowworks_step_fn *first, *second;
	void *context;
	struct relay *relay;
	bool threaded;
	bool stop;
	bool ordering; /* job `ordered` is in the first step */
	uint64_t submitted, ordered, taken, collected;
	bool done[ROWWORKS_JOBS];
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

void rowworks_create(bool threaded, struct relay *relay, rowworks_step_fn *first,
		     rowworks_step_fn *second, void *context, struct rowworks **ret)
{
	struct rowworks *works = mem_zalloc(sizeof(*works));

	works->threaded = threaded;
	works->relay = relay;
	works->context = context;
	works->first = first;
	works->second = second;
	for (unsigned i = 0; i < ROWWORKS_THREADS; i++)
		works->workers[i] = (struct worker){ .works = works, .number = i };
	pthread_mutex_init(&works->lock, NULL);
	pthread_cond_init(&works->changed, NULL);
	*ret = works;
}

static void threads_stop(struct rowworks *works)
{
	pthread_mutex_lock(&works->lock);
	works->stop = true;
	pthread_cond_broadcast(&works->changed);
	pthread_mutex_unlock(&works->lock);
	relay_poke(works->relay);
	for (size_t i = 0; i < ROWWORKS_THREADS; i++)
		if (works->workers[i].running)
			pthread_join(works->workers[i].thread, NULL);
}

void rowworks_destroy(struct rowworks *works)
{
	if (!works)
		return;
	threads_stop(works);
	pthread_mutex_destroy(&works->lock);
	pthread_cond_destroy(&works->changed);
	free(works);
}

/* The lock is held before and after. */
static void step_run(struct rowworks *works, rowworks_step_fn *step, uint64_t job, unsigned worker)
{
	pthread_mutex_unlock(&works->lock);
	step(works->context, (int)(job % ROWWORKS_JOBS), worker);
	pthread_mutex_lock(&works->lock);
}

static bool first_is_due(const struct rowworks *works)
{
	return !works->ordering && works->ordered < works->submitted;
}

static bool second_is_due(const struct rowworks *works)
{
	return works->taken < works->ordered;
}

/* Does one step of one job. The lock is held. False: there is nothing to do now. */
static bool some_work(struct rowworks *works, unsigned worker)
{
	uint64_t job;

	if (first_is_due(works)) {
		works->ordering = true;
		step_run(works, works->first, works->ordered, worker);
		works->ordering = false;
		works->ordered++;
	} else if (second_is_due(works)) {
		job = works->taken++;
		step_run(works, works->second, job, worker);
		works->done[job % ROWWORKS_JOBS] = true;
	} else {
		return false;
	}
	pthread_cond_broadcast(&works->changed);
	return true;
}

/*
 * Works if it is a reserve's turn, or waits until it might be. The lock is held before and after, but not while others are woken: they may
 * take the CPU at once.
 */
static void turn_take(struct rowworks *works, unsigned worker, uint32_t seen)
{
	bool entered;

	pthread_mutex_unlock(&works->lock);
	entered = relay_enter(works->relay, seen);
	pthread_mutex_lock(&works->lock);
	if (!entered)
		return;
	while (!works->stop && relay_goes_on(works->relay) && some_work(works, worker))
		;
	pthread_mutex_unlock(&works->lock);
	relay_leave(works->relay);
	pthread_mutex_lock(&works->lock);
}

static void *work(void *context)
{
	const struct worker *worker = context;
	struct rowworks *works = worker->works;

	pthread_setname_np(pthread_self(), "assay-rows");
	setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + NICENESS);
	pthread_mutex_lock(&works->lock);
	while (!works->stop) {
		uint32_t seen = relay_look(works->relay);

		if (first_is_due(works) || second_is_due(works))
			turn_take(works, worker->number, seen);
		else
			pthread_cond_wait(&works->changed, &works->lock);
	}
	pthread_mutex_unlock(&works->lock);
	return NULL;
}

static void thread_start(struct worker *worker)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	worker->running = !pthread_create(&worker->thread, NULL, work, worker);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void threads_start(struct rowworks *works)
{
	size_t count = works->relay ? 1 : ROWWORKS_THREADS; /* a relay has one at a time */

	if (!works->threaded || works->submitted)
		return;
	for (size_t i = 0; i < count; i++)
		thread_start(&works->workers[i]);
}

int rowworks_place(struct rowworks *works)
{
	return works->submitted - works->collected < ROWWORKS_JOBS
		       ? (int)(works->submitted % ROWWORKS_JOBS)
		       : -1;
}

void rowworks_submit(struct rowworks *works)
{
	threads_start(works);
	pthread_mutex_lock(&works->lock);
	works->submitted++;
	pthread_cond_broadcast(&works->changed);
	while (!works->threaded && some_work(works, OWNER))
		;
	pthread_mutex_unlock(&works->lock);
}

static bool oldest_is_done(const struct rowworks *works)
{
	return works->done[works->collected % ROWWORKS_JOBS];
}

int rowworks_collect(struct rowworks *works, bool wait)
{
	bool ready;

	if (works->collected == works->submitted)
		return -1;
	pthread_mutex_lock(&works->lock);
	while (wait && !oldest_is_done(works))
		if (!some_work(works, OWNER))
			pthread_cond_wait(&works->changed, &works->lock);
	ready = oldest_is_done(works);
	pthread_mutex_unlock(&works->lock);
	return ready ? (int)(works->collected % ROWWORKS_JOBS) : -1;
}

bool rowworks_help(struct rowworks *works)
{
	bool any;

	pthread_mutex_lock(&works->lock);
	any = some_work(works, OWNER);
	pthread_mutex_unlock(&works->lock);
	return any;
}

void rowworks_release(struct rowworks *works)
{
	works->done[works->collected % ROWWORKS_JOBS] = false;
	works->collected++;
}
