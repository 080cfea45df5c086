// SPDX-License-Identifier: BSD-2-Clause
/*
 * The line is drawn by a thread that lives from the outermost progress_begin() to its end.
 *
 * Invariants
 * 1. The list of steps, and what stands on the terminal, are touched with the lock held.
 * 2. After the outermost progress_end() the thread is gone and the line is empty.
 * 3. Blanks erase the line, not an escape sequence: that works on every terminal.
 */
#include "base/progress.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/utf8.h"

enum { REDRAW_MS = 200, WIDTH_UNKNOWN = 80 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static pthread_t drawing_thread;
static bool drawing_runs; /* the thread is there */
static struct progress *current; /* innermost step */
static size_t drawn; /* columns that the line takes now */

static size_t terminal_width(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col
									   : WIDTH_UNKNOWN;
}

static void line_erase(void)
{
	if (drawn)
		fprintf(stderr, "\r%*s\r", (int)drawn, "");
	drawn = 0;
	fflush(stderr);
}

/* 1234567 as 1,234,567 */
static void number_print(struct strbuf *buf, uint64_t number)
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);

	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			strbuf_putc(buf, ',');
		strbuf_putc(buf, digits[i]);
	}
}

/* Time that is left if the rest takes as long as what is done. */
static void rest_print(struct strbuf *buf, uint64_t ns, uint64_t done, uint64_t total)
{
	double rest = (double)ns / NS_PER_S * (double)(total - done) / (double)done;

	if (rest < 100)
		strbuf_printf(buf, ", about %.0f s more", rest < 1 ? 1 : rest);
	else if (rest < 6000)
		strbuf_printf(buf, ", about %.0f min more", rest / 60);
	else
		strbuf_printf(buf, ", about %.0f h more", rest / 3600);
}

static void line_compose(const struct progress *progress, uint64_t ns, struct strbuf *ret)
{
	uint64_t done = atomic_load(&progress->done), total = atomic_load(&progress->total);

	strbuf_puts(ret, "assay: ");
	utf8_escape(ret, progress->what);
	strbuf_puts(ret, ": ");
	if (done)
		number_print(ret, done);
	if (done && done < total) {
		strbuf_puts(ret, " of ");
		number_print(ret, total);
		strbuf_printf(ret, " (%.0f %%)", 100 * (double)done / (double)total);
		rest_print(ret, ns, done, total);
	} else {
		strbuf_printf(ret, done ? " done, %llu s" : "%llu s",
			      (unsigned long long)(ns / NS_PER_S));
	}
}

static void line_draw(const struct progress *progress, uint64_t ns)
{
	struct strbuf line = {}, cut = {};
	size_t width;

	line_compose(progress, ns, &line);
	utf8_cut(&cut, strbuf_text(&line), terminal_width() - 1, "...");
	width = utf8_width(strbuf_text(&cut));
	fprintf(stderr, "\r%s%*s", strbuf_text(&cut), width < drawn ? (int)(drawn - width) : 0, "");
	fflush(stderr);
	drawn = width;
	strbuf_deinit(&line);
	strbuf_deinit(&cut);
}

static void wait_a_little(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += REDRAW_MS * NS_PER_MS;
	until.tv_sec += until.tv_nsec / NS_PER_S;
	until.tv_nsec %= NS_PER_S;
	pthread_cond_timedwait(&wake, &lock, &until);
}

static void *draw(void *ctx)
{
	pthread_mutex_lock(&lock);
	while (current) {
		uint64_t ns = clock_monotonic() - current->began;

		if (ns >= NS_PER_S)
			line_draw(current, ns);
		wait_a_little();
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

bool progress_is_seen(void)
{
	return !log_is_quiet() && isatty(STDERR_FILENO);
}

/* No signal of the process is for this thread. Without a thread there are no signs of life. */
static void drawing_start(void)
{
	pthread_condattr_t attributes;
	sigset_t all, before;

	if (!progress_is_seen())
		return;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&wake, &attributes);
	pthread_condattr_destroy(&attributes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	drawing_runs = !pthread_create(&drawing_thread, NULL, draw, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void drawing_stop(void)
{
	if (!drawing_runs)
		return;
	pthread_cond_signal(&wake);
	pthread_join(drawing_thread, NULL);
	pthread_cond_destroy(&wake);
	drawing_runs = false;
}

void progress_begin(struct progress *progress, const char *what, ...)
{
	va_list args;

	*progress = (struct progress){ .began = clock_monotonic() };
	va_start(args, what);
	vsnprintf(progress->what, sizeof(progress->what), what, args);
	va_end(args);
	pthread_mutex_lock(&lock);
	progress->outer = current;
	current = progress;
	pthread_mutex_unlock(&lock);
	if (!progress->outer)
		drawing_start();
}

void progress_set(struct progress *progress, uint64_t done, uint64_t total)
{
	atomic_store_explicit(&progress->done, done, memory_order_relaxed);
	atomic_store_explicit(&progress->total, total, memory_order_relaxed);
}

void progress_tell(struct progress *progress, const char *what, ...)
{
	va_list args;

	pthread_mutex_lock(&lock);
	va_start(args, what);
	vsnprintf(progress->what, sizeof(progress->what), what, args);
	va_end(args);
	pthread_mutex_unlock(&lock);
}

void progress_end(struct progress *progress)
{
	pthread_mutex_lock(&lock);
	current = progress->outer;
	line_erase();
	pthread_mutex_unlock(&lock);
	if (!progress->outer)
		drawing_stop();
}

void progress_pause(void)
{
	pthread_mutex_lock(&lock);
	line_erase();
}

void progress_resume(void)
{
	pthread_mutex_unlock(&lock);
}
