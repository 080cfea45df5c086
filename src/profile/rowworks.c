// SPDX-License-Identifier: BSD-2-Clause
/*
 * A ring of jobs. Three numbers that only grow say where each is:
 *
 *	collected <= done <= submitted <= collected + JOBS
 *
 * Jobs from collected to done wait to be collected, from done to submitted to be run. The rest are free.
 *
 * 1. The worker touches only job `done`, while done < submitted; the owner only the others.
 * 2. The thread starts with the first job: most processes never have one.
 */
#include "profile/rowworks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/mem.h"

enum { JOBS = 3 };

struct rowworks {
	struct sequence_job jobs[JOBS];
	bool threaded;
	bool running;
	bool stop;
	uint64_t submitted, done, collected;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

static struct sequence_job *job_at(struct rowworks *works, uint64_t number)
{
	return &works->jobs[number % JOBS];
}

void rowworks_create(bool threaded, struct rowworks **ret)
{
	struct rowworks *works = mem_zalloc(sizeof(*works));

	works->threaded = threaded;
	for (size_t i = 0; i < JOBS; i++)
		sequence_job_init(&works->jobs[i]);
	pthread_mutex_init(&works->lock, NULL);
	pthread_cond_init(&works->changed, NULL);
	*ret = works;
}

static void thread_stop(struct rowworks *works)
{
	if (!works->running)
		return;
	pthread_mutex_lock(&works->lock);
	works->stop = true;
	pthread_cond_broadcast(&works->changed);
	pthread_mutex_unlock(&works->lock);
	pthread_join(works->thread, NULL);
}

void rowworks_destroy(struct rowworks *works)
{
	if (!works)
		return;
	thread_stop(works);
	for (size_t i = 0; i < JOBS; i++)
		sequence_job_deinit(&works->jobs[i]);
	pthread_mutex_destroy(&works->lock);
	pthread_cond_destroy(&works->changed);
	free(works);
}

static void *work(void *context)
{
	struct rowworks *works = context;

	pthread_mutex_lock(&works->lock);
	while (!works->stop) {
		if (works->done == works->submitted) {
			pthread_cond_wait(&works->changed, &works->lock);
			continue;
		}
		pthread_mutex_unlock(&works->lock);
		sequence_job_run(job_at(works, works->done));
		pthread_mutex_lock(&works->lock);
		works->done++;
		pthread_cond_broadcast(&works->changed);
	}
	pthread_mutex_unlock(&works->lock);
	return NULL;
}

/* Without a thread it is done here. */
static void thread_start(struct rowworks *works)
{
	sigset_t all, old;

	if (works->running || !works->threaded)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	works->running = !pthread_create(&works->thread, NULL, work, works);
	works->threaded = works->running;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

struct sequence_job *rowworks_place(struct rowworks *works)
{
	return works->submitted - works->collected < JOBS ? job_at(works, works->submitted) : NULL;
}

void rowworks_submit(struct rowworks *works)
{
	thread_start(works);
	if (!works->running) {
		sequence_job_run(job_at(works, works->submitted++));
		works->done = works->submitted;
		return;
	}
	pthread_mutex_lock(&works->lock);
	works->submitted++;
	pthread_cond_broadcast(&works->changed);
	pthread_mutex_unlock(&works->lock);
}

struct sequence_job *rowworks_collect(struct rowworks *works, bool wait)
{
	bool ready;

	if (works->collected == works->submitted)
		return NULL;
	pthread_mutex_lock(&works->lock);
	while (wait && works->done == works->collected)
		pthread_cond_wait(&works->changed, &works->lock);
	ready = works->done > works->collected;
	pthread_mutex_unlock(&works->lock);
	return ready ? job_at(works, works->collected) : NULL;
}

void rowworks_release(struct rowworks *works)
{
	works->collected++;
}

size_t rowworks_memory(const struct rowworks *works)
{
	size_t bytes = sizeof(*works);

	for (size_t i = 0; i < JOBS; i++)
		bytes += sequence_job_memory(&works->jobs[i]);
	return bytes;
}
