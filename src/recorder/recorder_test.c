// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1, S2.
/*
 * Sources and sinks that only note when they were called: what a recorder does, in which order, and
 * after failures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/strbuf.h"
#include "recorder/recorder.h"
#include "recorder/recorder_private.h"
#include "recorder/recorder_thread.h"
#include "store/profile.h"

static char folder[] = "/tmp/assay-recorder-test-XXXXXX";
static char output[sizeof(folder) + 16];

/* What was called: a letter for the source or sink, and the name of the function. */
static struct strbuf calls;

struct fake {
	char letter;
	int verdict; /* of deliver() and flush() */
	unsigned more; /* how often deliver() wants the next visit at once */
	unsigned delivered; /* visits */
	unsigned woken;
	bool last; /* as deliver() or work() was told */
	struct sink_totals totals;
};

static int note(struct fake *fake, const char *what)
{
	strbuf_printf(&calls, "%s%c.%s", calls.length ? " " : "", fake->letter, what);
	return 0;
}

static void heard(const char *expected)
{
	assert_string_equal(strbuf_text(&calls), expected);
	calls.length = 0;
}

#define NOTES(name)                                                                                \
	static int fake_##name(void *ctx)                                                          \
	{                                                                                          \
		return note(ctx, #name);                                                           \
	}
NOTES(enable)
NOTES(disable)
NOTES(look)
NOTES(events)
NOTES(settle)
NOTES(tally)
NOTES(finish)
NOTES(name)
NOTES(complete)

static int fake_deliver(void *ctx, bool last, bool *ret_more)
{
	struct fake *fake = ctx;

	note(fake, "deliver");
	fake->delivered++;
	fake->last = last;
	if (fake->more) {
		fake->more--;
		*ret_more = true;
	}
	return fake->verdict ? err_set(fake->verdict, "source %c is empty", fake->letter) : 0;
}

static int fake_work(void *ctx, bool last, bool *ret_more)
{
	struct fake *fake = ctx;

	fake->last = last;
	return note(fake, "work");
}

static int fake_flush(void *ctx, bool last)
{
	struct fake *fake = ctx;

	note(fake, last ? "flush-last" : "flush");
	return fake->verdict ? err_set(fake->verdict, "sink %c is full", fake->letter) : 0;
}

static void fake_totals(void *ctx, struct sink_totals *ret)
{
	*ret = ((struct fake *)ctx)->totals;
}

static void fake_wait(void *ctx, unsigned milliseconds)
{
	usleep(1000);
}

static void fake_wake(void *ctx)
{
	((struct fake *)ctx)->woken++;
}

static struct source source_of(struct fake *fake, bool paced)
{
	return (struct source){
		.ctx = fake,
		.fd = -1,
		.paced = paced,
		.enable = fake_enable,
		.disable = fake_disable,
		.look = fake_look,
		.events = fake_events,
		.deliver = fake_deliver,
		.settle = fake_settle,
		.tally = fake_tally,
		.finish = fake_finish,
	};
}

static struct sink sink_of(struct fake *fake)
{
	return (struct sink){
		.ctx = fake,
		.kind = RECORDING_SAMPLES,
		.work = fake_work,
		.flush = fake_flush,
		.totals = fake_totals,
		.name = fake_name,
		.complete = fake_complete,
	};
}

/* All is in the file but names. */
static void written(void)
{
	strbuf_printf(&calls, " written");
}

static struct recorder *recorder_make(unsigned commit_ms)
{
	const struct recorder_options options = { .output = output,
						  .commit_ms = commit_ms,
						  .written = written };
	struct recorder *recorder;

	unlink(output);
	assert_int_equal(recorder_create(&options, &recorder), 0);
	calls.length = 0;
	return recorder;
}

static void source_give(struct recorder *recorder, struct fake *fake, bool paced)
{
	const struct source source = source_of(fake, paced);

	recorder_source_add(recorder, &source);
}

static void sink_give(struct recorder *recorder, struct fake *fake)
{
	const struct sink sink = sink_of(fake);

	recorder_sink_add(recorder, &sink);
}

/*
 * Every source takes a step before any takes the next one; sinks work, and a commit comes, when all
 * is delivered.
 */
static void steps_are_in_order(void **state)
{
	struct fake a = { .letter = 'a' }, b = { .letter = 'b' }, s = { .letter = 's' };
	struct recorder *recorder = recorder_make(0);

	source_give(recorder, &a, true);
	source_give(recorder, &b, true);
	sink_give(recorder, &s);
	assert_int_equal(recorder_start(recorder), 0);
	heard("a.enable b.enable a.look b.look a.events b.events a.deliver b.deliver a.settle "
	      "b.settle "
	      "a.tally b.tally s.flush");
	assert_int_equal(recorder_round(recorder, NULL), 0);
	heard("a.look b.look a.events b.events a.deliver b.deliver a.settle b.settle s.work "
	      "a.tally b.tally "
	      "s.flush");
	assert_int_equal(recorder_intake(recorder), 0);
	heard("a.look b.look a.events b.events a.deliver b.deliver a.settle b.settle");
	recorder_destroy(recorder);
}

/* While a source has more, work that was put off waits. */
static void work_comes_second(void **state)
{
	struct fake a = { .letter = 'a' }, s = { .letter = 's' };
	struct recorder *recorder = recorder_make(60000);
	bool more;

	source_give(recorder, &a, false);
	sink_give(recorder, &s);
	assert_int_equal(recorder_start(recorder), 0);
	calls.length = 0;
	a.more = 1;
	assert_int_equal(recorder_round(recorder, &more), 0);
	assert_true(more);
	assert_int_equal(recorder_round(recorder, &more), 0);
	assert_false(more);
	heard("a.look a.events a.deliver a.settle a.look a.events a.deliver a.settle s.work");
	recorder_destroy(recorder);
}

/*
 * Beside a source that is visited all the time, others are visited when it is their time, or their
 * fd is readable.
 */
static void paced_sources_wait(void **state)
{
	struct fake a = { .letter = 'a' }, b = { .letter = 'b' };
	struct recorder *recorder = recorder_make(60000);
	struct source paced = source_of(&b, true);
	int fd = eventfd(0, EFD_CLOEXEC);
	unsigned before;

	paced.fd = fd;
	source_give(recorder, &a, false);
	recorder_source_add(recorder, &paced);
	assert_int_equal(recorder_start(recorder), 0);
	before = b.delivered;
	while (clock_monotonic() < recorder_due(recorder))
		assert_int_equal(recorder_round(recorder, NULL), 0);
	assert_true(a.delivered > before);
	assert_true(b.delivered - before <=
		    1); /* one at most: it may be time between the two looks at the clock */
	assert_int_equal(recorder_round(recorder, NULL), 0);
	before = b.delivered;
	eventfd_write(fd, 1);
	assert_int_equal(poll(&(struct pollfd){ recorder_fd(recorder), POLLIN, 0 }, 1, 0), 1);
	assert_int_equal(recorder_round(recorder, NULL), 0);
	assert_int_equal(b.delivered, before + 1);
	recorder_destroy(recorder);
	close(fd);
}

/*
 * The first failure is told by every later call; nothing is committed any more, but sources are
 * still visited.
 */
static void failures_are_kept(void **state)
{
	struct fake a = { .letter = 'a' }, s = { .letter = 's' };
	struct recorder *recorder = recorder_make(0);
	uint64_t commits;

	source_give(recorder, &a, false);
	sink_give(recorder, &s);
	assert_int_equal(recorder_start(recorder), 0);
	s.verdict = -ENOSPC;
	assert_int_equal(recorder_round(recorder, NULL), -ENOSPC);
	s.verdict = 0;
	a.verdict = -EIO;
	commits = recorder_commits(recorder);
	err_set(-EINVAL, "something else");
	calls.length = 0;
	assert_int_equal(recorder_round(recorder, NULL), -ENOSPC);
	assert_string_equal(err_text(), "sink s is full");
	heard("a.look a.events a.deliver s.work");
	assert_int_equal(recorder_commits(recorder), commits);
	assert_int_equal(recorder_finish(recorder), -ENOSPC);
	recorder_destroy(recorder);
	assert_int_equal(access(output, F_OK), 0);
}

/* At the end nothing is left for later, and what needs names gets them. */
static void the_end_is_complete(void **state)
{
	struct fake a = { .letter = 'a' };
	struct fake s = { .letter = 's',
			  .totals = { .kept = 0,
				      .loss_count = 1,
				      .losses = { { "unread", "never read", 4 } } } };
	struct recorder *recorder = recorder_make(60000);
	struct profile *profile;

	source_give(recorder, &a, true);
	sink_give(recorder, &s);
	assert_int_equal(recorder_start(recorder), 0);
	calls.length = 0;
	assert_int_equal(recorder_finish(recorder), 0);
	assert_true(a.last);
	assert_true(s.last);
	heard("a.disable a.look a.events a.deliver a.settle s.work a.look a.events a.deliver "
	      "a.settle s.work "
	      "a.look a.events a.deliver a.settle s.work a.finish a.tally s.flush-last written "
	      "s.name "
	      "s.complete");
	recorder_destroy(recorder);
	assert_int_equal(profile_load(output, DOMAIN_ALL, &profile), 0);
	assert_true(profile->finished);
	assert_int_equal(profile->seen, 4);
	assert_int_equal(profile->kept, 0);
	assert_string_equal(profile->losses[0].name, "unread");
	profile_destroy(profile);
}

/* Who was never started, or has nothing to record, leaves nothing. */
static void nothing_is_left(void **state)
{
	struct recorder *recorder = recorder_make(60000);

	assert_int_equal(access(output, F_OK), 0);
	recorder_destroy(recorder);
	assert_int_not_equal(access(output, F_OK), 0);
	recorder = recorder_make(60000);
	assert_int_equal(recorder_start(recorder), 0);
	recorder_abandon(recorder);
	recorder_destroy(recorder);
	assert_int_not_equal(access(output, F_OK), 0);
}

/* A recorder without a profile visits, works and ends like any other. */
static void no_profile_is_needed(void **state)
{
	const struct recorder_options options = { .commit_ms = 0 };
	struct fake a = { .letter = 'a' };
	struct recorder *recorder;

	unlink(output);
	assert_int_equal(recorder_create(&options, &recorder), 0);
	assert_null(recorder_store(recorder));
	source_give(recorder, &a, false);
	assert_int_equal(recorder_start(recorder), 0);
	assert_int_equal(recorder_round(recorder, NULL), 0);
	assert_int_equal(recorder_finish(recorder), 0);
	assert_int_equal(a.delivered, 5);
	recorder_destroy(recorder);
	assert_int_not_equal(access(output, F_OK), 0);
}

/*
 * A thread makes rounds until it is stopped, also when it would sleep for long, and goes on after a
 * failure.
 */
static void a_thread_makes_rounds(void **state)
{
	struct fake a = { .letter = 'a', .verdict = -EIO };
	struct recorder *recorder = recorder_make(60000);
	struct source source = source_of(&a, false);
	struct recorder_thread *thread;

	source.wait = fake_wait;
	source.wake = fake_wake;
	recorder_source_add(recorder, &source);
	a.verdict = 0;
	assert_int_equal(recorder_start(recorder), 0);
	a.verdict = -EIO;
	assert_int_equal(recorder_thread_start(recorder, &thread), 0);
	while (__atomic_load_n(&a.delivered, __ATOMIC_RELAXED) < 10)
		usleep(1000);
	recorder_thread_stop(thread);
	assert_int_equal(a.woken, 1);
	assert_int_equal(recorder_finish(recorder), -EIO);
	assert_string_equal(err_text(), "source a is empty");
	recorder_destroy(recorder);
}

static int folder_make(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(output, sizeof(output), "%s/assay.db", folder);
	return 0;
}

static int folder_remove(void **state)
{
	unlink(output);
	strbuf_deinit(&calls);
	return rmdir(folder);
}

/* What the profile says can be pasted into a shell, and means the same there (V20). */
static void commands_are_quoted(void **state)
{
	char *const words[] = { "sh", "-c", "echo 'a  b' $HOME", "", "--x=1,2", NULL };
	char *text = recorder_command_text(words), *none = recorder_command_text(NULL);

	assert_string_equal(text, "sh -c 'echo '\\''a  b'\\'' $HOME' '' --x=1,2");
	assert_string_equal(none, "");
	free(text);
	free(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_are_quoted),	 cmocka_unit_test(steps_are_in_order),
		cmocka_unit_test(work_comes_second),	 cmocka_unit_test(paced_sources_wait),
		cmocka_unit_test(failures_are_kept),	 cmocka_unit_test(the_end_is_complete),
		cmocka_unit_test(nothing_is_left),	 cmocka_unit_test(no_profile_is_needed),
		cmocka_unit_test(a_thread_makes_rounds),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
