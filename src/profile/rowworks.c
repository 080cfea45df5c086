// SPDX-License-Identifier: BSD-2-Clause
/*
 * A ring of jobs. Numbers that only grow say where each is:
 *
 *	collected <= done of each step <= submitted <= collected + ROWWORKS_JOBS
 *
 * Jobs from collected to where all steps are done wait to be collected. From a step's done to submitted they wait for it. The
 * rest are free.
 *
 * 1. A step touches only job `done` of its own, while done < submitted; the owner only those that are free or to be collected.
 * 2. The threads start with the first job: most processes never have one.
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
enum { NICENESS = 7 };

struct step {
	struct rowworks *works;
	rowworks_step_fn *run;
	uint64_t done;
	pthread_t thread;
	bool running;
};

struct rowworks {
	struct step steps[ROWWORKS_STEPS];
	void *context;
	bool threaded;
	bool stop;
	uint64_t submitted, collected;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

void rowworks_create(bool threaded, rowworks_step_fn *const steps[ROWWORKS_STEPS], void *context,
		     struct rowworks **ret)
{
	struct rowworks *works = mem_zalloc(sizeof(*works));

	works->threaded = threaded;
	works->context = context;
	for (size_t i = 0; i < ROWWORKS_STEPS; i++)
		works->steps[i] = (struct step){ .works = works, .run = steps[i] };
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
	for (size_t i = 0; i < ROWWORKS_STEPS; i++)
		if (works->steps[i].running)
			pthread_join(works->steps[i].thread, NULL);
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

static void job_run(struct step *step)
{
	step->run(step->works->context, (int)(step->done % ROWWORKS_JOBS));
}

static void *work(void *context)
{
	struct step *step = context;
	struct rowworks *works = step->works;

	setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + NICENESS);
	pthread_mutex_lock(&works->lock);
	while (!works->stop) {
		if (step->done == works->submitted) {
			pthread_cond_wait(&works->changed, &works->lock);
			continue;
		}
		pthread_mutex_unlock(&works->lock);
		job_run(step);
		pthread_mutex_lock(&works->lock);
		step->done++;
		pthread_cond_broadcast(&works->changed);
	}
	pthread_mutex_unlock(&works->lock);
	return NULL;
}

static void thread_start(struct step *step)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	step->running = !pthread_create(&step->thread, NULL, work, step);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* What has no thread is done here. */
static void threads_start(struct rowworks *works)
{
	if (!works->threaded || works->submitted)
		return;
	for (size_t i = 0; i < ROWWORKS_STEPS; i++)
		thread_start(&works->steps[i]);
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
	pthread_mutex_unlock(&works->lock);
	for (size_t i = 0; i < ROWWORKS_STEPS; i++)
		if (!works->steps[i].running) {
			job_run(&works->steps[i]);
			works->steps[i].done++;
		}
}

/* All steps of the oldest are done. */
static bool oldest_is_done(const struct rowworks *works)
{
	for (size_t i = 0; i < ROWWORKS_STEPS; i++)
		if (works->steps[i].done == works->collected)
			return false;
	return true;
}

int rowworks_collect(struct rowworks *works, bool wait)
{
	bool ready;

	if (works->collected == works->submitted)
		return -1;
	pthread_mutex_lock(&works->lock);
	while (wait && !oldest_is_done(works))
		pthread_cond_wait(&works->changed, &works->lock);
	ready = oldest_is_done(works);
	pthread_mutex_unlock(&works->lock);
	return ready ? (int)(works->collected % ROWWORKS_JOBS) : -1;
}

void rowworks_release(struct rowworks *works)
{
	works->collected++;
}
