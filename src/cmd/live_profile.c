// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/live_profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "recorder/live_calls.h"

enum { COMMIT_MS = 1000 };

static int folder_make(struct live_profile *profile)
{
	const char *base = getenv("TMPDIR");
	AUTO(free_ptr) char *name = mem_printf("%s/assay-live-XXXXXX", base ? base : "/tmp");

	if (!mkdtemp(name))
		return err_set(-errno,
			       "%s: cannot make a folder for what is to be shown: %s; name "
			       "another place in TMPDIR",
			       name, strerror(errno));
	profile->folder = take_ptr(name);
	profile->path = mem_printf("%s/live.db", profile->folder);
	return 0;
}

void live_profile_remove(struct live_profile *profile)
{
	if (profile->path)
		unlink(profile->path);
	if (profile->folder)
		rmdir(profile->folder);
	free(profile->path);
	free(profile->folder);
	*profile = (struct live_profile){};
}

/* All records exist already, so a single round takes them. */
static int recorder_run(struct recorder *recorder, const struct live_calls_totals *totals)
{
	int err = recorder_start(recorder);

	err = err ? err : recorder_round(recorder, NULL);
	err = err ? err : recorder_fact_set(recorder, RECORDING_CALLS, "events", totals->events);
	if (!err && totals->timed)
		err = recorder_fact_set(recorder, RECORDING_CALLS, "metric", "time");
	return err ? err : recorder_finish(recorder);
}

int live_profile_make(uint32_t pid, struct live_profile *ret)
{
	AUTO(recorder_destroy_auto) struct recorder *recorder = NULL;
	struct recorder_options how = { .commit_ms = COMMIT_MS };
	struct live_calls_totals totals = {};
	struct calls_sink *calls;
	struct sink sink;
	int err = folder_make(ret);

	how.output = ret->path;
	err = err ? err : recorder_create(&how, &recorder);
	if (err)
		return err;
	calls_sink_create(recorder, &calls);
	sink = calls_sink(calls);
	recorder_sink_add(recorder, &sink);
	err = live_calls_add(recorder, calls, (pid_t)pid, &totals);
	if (!err && !totals.threads)
		err = totals.bad
			      ? err_set(-EAGAIN,
					"the trees of process %u make no sense, or change too "
					"fast; "
					"try again",
					pid)
			      : err_set(-ENOENT,
					"no thread of process %u has called anything so far", pid);
	err = err ? err : recorder_run(recorder, &totals);
	ret->threads = totals.threads;
	ret->bad = totals.bad;
	return err;
}
