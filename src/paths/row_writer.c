// SPDX-License-Identifier: BSD-2-Clause
/*
 * Rows of paths go through a thread of lower priority, which compresses them. A queue of jobs in a
 * ring, and a thread that empties it. Three numbers, which only grow, say where each job is:
 *
 *	collected <= written <= submitted <= collected + ROW_WRITER_JOBS
 *
 * Jobs from written to submitted wait for the thread, or are with it; those from collected to
 * written can be collected; the rest are free.
 *
 * Invariants
 *  1. The thread touches only the job `written`; the owner touches only jobs that are free or
 *     written.
 *  2. The owner alone changes submitted and collected, and the thread alone changes written. Both
 *     do so under the lock, except for collected, which the thread never reads.
 *  3. The thread is started with the first job, because most processes never have one. If it cannot
 *     be started, the owner writes rows itself.
 *
 *	in	jobs: rows that are full
 *	out	the same jobs, done, in their order
 *	owner	the space of flows; a job is the thread's until it is collected
 */
#include "paths/row_writer.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"

/*
 * Up to ROW_WRITER_JOBS rows can wait; the program and the thread that drains it cannot wait for
 * long. So this thread has a lower priority than both.
 */
enum { NICENESS = 7 };

struct row_writer {
	row_writer_fn *write;
	void *context;
	bool threaded;
	bool running; /* there is a thread */
	bool stop;
	uint64_t submitted, written, collected;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

void row_writer_create(bool threaded, row_writer_fn *write, void *context, struct row_writer **ret)
{
	struct row_writer *writer = mem_zalloc(sizeof(*writer));

	writer->threaded = threaded;
	writer->write = write;
	writer->context = context;
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->changed, NULL);
	*ret = writer;
}

static void thread_stop(struct row_writer *writer)
{
	if (!writer->running)
		return;
	pthread_mutex_lock(&writer->lock);
	writer->stop = true;
	pthread_cond_broadcast(&writer->changed);
	pthread_mutex_unlock(&writer->lock);
	pthread_join(writer->thread, NULL);
}

void row_writer_destroy(struct row_writer *writer)
{
	if (!writer)
		return;
	thread_stop(writer);
	pthread_mutex_destroy(&writer->lock);
	pthread_cond_destroy(&writer->changed);
	free(writer);
}

/* The lock is held before and after, but not while the row is written. */
static void job_write(struct row_writer *writer)
{
	pthread_mutex_unlock(&writer->lock);
	writer->write(writer->context, (int)(writer->written % ROW_WRITER_JOBS));
	pthread_mutex_lock(&writer->lock);
	writer->written++;
	pthread_cond_broadcast(&writer->changed);
}

static void *thread_main(void *context)
{
	struct row_writer *writer = context;

	pthread_setname_np(pthread_self(), "assay-rows");
	setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + NICENESS);
	pthread_mutex_lock(&writer->lock);
	while (!writer->stop) {
		if (writer->written < writer->submitted)
			job_write(writer);
		else
			pthread_cond_wait(&writer->changed, &writer->lock);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

/* Signals are the main thread's. */
static void thread_start(struct row_writer *writer)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	writer->running = !pthread_create(&writer->thread, NULL, thread_main, writer);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

int row_writer_place(const struct row_writer *writer)
{
	return writer->submitted - writer->collected < ROW_WRITER_JOBS
		       ? (int)(writer->submitted % ROW_WRITER_JOBS)
		       : -1;
}

void row_writer_submit(struct row_writer *writer)
{
	if (writer->threaded && !writer->submitted)
		thread_start(writer);
	pthread_mutex_lock(&writer->lock);
	writer->submitted++;
	if (writer->running)
		pthread_cond_broadcast(&writer->changed);
	else
		job_write(writer);
	pthread_mutex_unlock(&writer->lock);
}

int row_writer_collect(struct row_writer *writer, bool wait)
{
	bool ready;

	if (writer->collected == writer->submitted)
		return -1;
	pthread_mutex_lock(&writer->lock);
	while (wait && writer->written == writer->collected)
		pthread_cond_wait(&writer->changed, &writer->lock);
	ready = writer->written > writer->collected;
	pthread_mutex_unlock(&writer->lock);
	return ready ? (int)(writer->collected % ROW_WRITER_JOBS) : -1;
}

void row_writer_release(struct row_writer *writer)
{
	writer->collected++;
}
