// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/sampling_control.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/control.h"
#include "cmd/mailbox.h"
#include "cmd/record.h"
#include "cmd/sampling_settings.h"

/*
 * A request for a snapshot waits until what was seen before it has come: samples when counts were
 * read twice, runs when they are old enough to be replayed. Then it waits for the next commit.
 */
#define RUNS_WAIT (400 * (uint64_t)NS_PER_MS)
enum { SNAPSHOT_READINGS = 2 };

struct snapshot {
	bool wanted;
	uint64_t time; /* CLOCK_MONOTONIC: from then on runs have come */
	uint64_t readings; /* with so many, samples have come */
	uint64_t commits; /* with so many, they are in the profile; 0: they have not come yet */
};

struct sampling_control {
	struct sampling_parts parts;
	struct mailbox *mailbox;
	struct control *by_pid, *by_file;
	char *profile; /* its path from the root on */
	uint64_t paused; /* CLOCK_MONOTONIC: since when; 0: it is not */
	uint64_t paused_before; /* ns of the pauses that are over */
	struct snapshot snapshot;
	uint64_t commits; /* at the last tick */
};

/* --- Answers ---------------------------------------------------------------------------------- */

static char *text_of(json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);

	json_decref(object);
	return text ? text : mem_strdup("{\"assay\":1,\"error\":\"a name is not text\"}");
}

static char *failure_answer(void)
{
	return text_of(json_pack("{s:i, s:s}", "assay", 1, "error", err_text()));
}

static uint64_t paused_ns(const struct sampling_control *control)
{
	uint64_t now = control->paused ? clock_monotonic() - control->paused : 0;

	return control->paused_before + now;
}

static json_t *totals_json(const struct sampling_control *control, enum recording_kind kind)
{
	struct sink_totals totals;
	uint64_t lost;

	recorder_totals(control->parts.recorder, kind, &totals);
	lost = sink_totals_lost(&totals);
	return json_pack("{s:I, s:I, s:I}", "seen", (json_int_t)(totals.kept + lost), "kept",
			 (json_int_t)totals.kept, "lost", (json_int_t)lost);
}

static json_t *values_json(const struct sampling_control *control)
{
	const struct sampling_values *values = &control->parts.options->values;
	json_t *object = totals_json(control, RECORDING_VALUES);

	json_object_set_new(object, "run_length", json_integer(values->run_length));
	json_object_set_new(object, "run_skip", json_integer(values->run_skip));
	if (values->budget.share > 0)
		json_object_set_new(object, "run_share", json_real(values->budget.share));
	else
		json_object_set_new(object, "run_every", json_integer(values->run_every));
	return object;
}

static char *status_answer(const struct sampling_control *control)
{
	const struct sampling_options *options = control->parts.options;
	uint64_t age = clock_monotonic() - recorder_started(control->parts.recorder);
	json_t *object = json_pack("{s:i, s:s, s:s, s:i, s:s%, s:f, s:f, s:s, s:o}", "assay", 1,
				   "view", "ctl", "state", control->paused ? "paused" : "recording",
				   "pid", (int)getpid(), "profile", control->profile,
				   strlen(control->profile), "seconds", (double)age / NS_PER_S,
				   "paused_seconds", (double)paused_ns(control) / NS_PER_S, "event",
				   options->event.name, "samples",
				   totals_json(control, RECORDING_SAMPLES));

	if (options->frequency)
		json_object_set_new(object, "freq", json_integer((json_int_t)options->frequency));
	else
		json_object_set_new(object, "count", json_integer((json_int_t)options->period));
	if (options->values.selection)
		json_object_set_new(object, "runs", values_json(control));
	return text_of(object);
}

/* --- Pause ------------------------------------------------------------------------------------ */

static int pause_set(struct sampling_control *control, bool paused)
{
	struct sampling_parts *parts = &control->parts;
	int err;

	if (paused == (control->paused != 0))
		return err_set(-EALREADY, paused ? "the recording is paused already"
						 : "the recording is not paused");
	if (parts->options->off_cpu)
		return err_set(-EOPNOTSUPP,
			       "a recording with --off-cpu cannot be paused: waits that begin or "
			       "end meanwhile would be cut");
	if (parts->sampler)
		err = paused ? sampler_source_pause(parts->sampler)
			     : sampler_source_resume(parts->sampler);
	else
		err = paused ? perf_source_pause(parts->perf) : perf_source_resume(parts->perf);
	if (err)
		return err;
	control->paused_before = paused_ns(control);
	control->paused = paused ? clock_monotonic() : 0;
	return 0;
}

static int paused_tell(const struct sampling_control *control)
{
	uint64_t paused = paused_ns(control);

	return paused ? recorder_metric_set(control->parts.recorder, RECORDING_SAMPLES, "paused",
					    "nanoseconds", paused)
		      : 0;
}

/* --- Settings --------------------------------------------------------------------------------- */

static const char *const settings[] = { "freq",	     "run-length", "run-skip",
					"run-share", "run-every",  NULL };

struct change {
	struct record_options given;
	struct options options;
};

static bool is_set(const struct change *change, const char *name)
{
	return options_given(&change->options, name);
}

static bool runs_are_set(const struct change *change)
{
	return is_set(change, "run-length") || is_set(change, "run-skip") ||
	       is_set(change, "run-share") || is_set(change, "run-every");
}

/* text: NAME=VALUE; it is cut, and must outlive the change. */
static int setting_take(struct change *change, char *text)
{
	char *value = strchr(text, '=');
	size_t i = 0;

	if (!value)
		return err_set(-EINVAL, "%s: a setting is NAME=VALUE", text);
	*value++ = '\0';
	while (settings[i] && strcmp(settings[i], text) != 0)
		i++;
	if (!settings[i])
		return err_set(-EINVAL,
			       "%s cannot be changed while recording; freq, run-length, run-skip, "
			       "run-share and run-every can",
			       text);
	return options_take(&change->options, options_find(change->options.groups, text), value);
}

static int settings_read(struct change *change, char *text)
{
	char *rest = text, *word;
	int err = 0;

	while (!err && (word = strsep(&rest, " ")))
		if (*word)
			err = setting_take(change, word);
	if (!err && !change->options.given.count)
		err = err_set(-EINVAL, "nothing is set; give settings such as freq=499");
	return err;
}

static int change_check(const struct sampling_control *control, const struct change *change)
{
	struct sampling_options wanted = *control->parts.options;

	if (runs_are_set(change) && !wanted.values.selection)
		return err_set(-EINVAL, "this recording takes no values, so it has no runs; begin "
					"it with --values");
	if (is_set(change, "run-share") && is_set(change, "run-every"))
		return err_set(-EINVAL, "run-share and run-every exclude each other");
	if (!is_set(change, "freq"))
		return 0;
	if (!control->parts.sampler)
		return err_set(-EOPNOTSUPP,
			       "the rate of a recording without BPF cannot be changed: "
			       "threads have clocks of their own");
	wanted.frequency = change->given.frequency;
	return sampling_rate_check(&wanted);
}

static int rate_change(struct sampling_control *control, uint64_t frequency)
{
	struct sampling_options *options = control->parts.options;
	int err = sampler_source_rate_set(control->parts.sampler, frequency);

	if (err)
		return err;
	options->frequency = frequency;
	return sampling_rate_facts(control->parts.recorder, options);
}

/* The part that is passed over follows the length, unless it was chosen. */
static int runs_change(struct sampling_control *control, const struct change *change)
{
	struct sampling_options *options = control->parts.options;
	struct sampling_values *values = &options->values;
	bool follows = values->run_skip == values->run_length;

	if (is_set(change, "run-length"))
		values->run_length = change->given.run_length;
	if (is_set(change, "run-skip"))
		values->run_skip = change->given.run_skip;
	else if (follows)
		values->run_skip = values->run_length;
	if (is_set(change, "run-share"))
		values->budget.share = change->given.run_share;
	if (is_set(change, "run-every")) {
		values->budget.share = 0;
		values->run_every = change->given.run_every;
	}
	if (values->budget.share > 0)
		sampling_share_set(options, values->budget.share);
	sampler_source_runs_set(control->parts.sampler, values->run_length, values->run_skip,
				values->run_every, &values->budget);
	return sampling_runs_facts(control->parts.recorder, options);
}

/*
 * Makes a change of several settings. It is checked as a whole first: either all are made, or none.
 */
static int change_make(struct sampling_control *control, const struct change *change)
{
	int err = change_check(control, change);

	if (!err && is_set(change, "freq"))
		err = rate_change(control, change->given.frequency);
	if (!err && control->parts.options->values.selection)
		err = runs_change(control, change); /* their budget depends on the rate, too */
	return err;
}

static int settings_set(struct sampling_control *control, char *text)
{
	struct change change = {};
	int err;

	options_init(&change.options, command_find("record")->groups, &change.given);
	err = settings_read(&change, text);
	err = err ? err : change_make(control, &change);
	options_deinit(&change.options);
	return err;
}

/* --- Requests --------------------------------------------------------------------------------- */

static int request_do(struct sampling_control *control, char *request)
{
	if (!strcmp(request, "status"))
		return 0;
	if (!strcmp(request, "pause") || !strcmp(request, "resume"))
		return pause_set(control, request[0] == 'p');
	if (!strncmp(request, "set ", 4))
		return settings_set(control, request + 4);
	return err_set(-EINVAL,
		       "this assay record does not know the request '%s'; it may be of "
		       "another version",
		       request);
}

/* --- Snapshots -------------------------------------------------------------------------------- */

static uint64_t readings(const struct sampling_control *control)
{
	const struct sampler_source *sampler = control->parts.sampler;

	return sampler ? sampler_source_readings(sampler) : 0;
}

static void snapshot_begin(struct sampling_control *control)
{
	control->snapshot = (struct snapshot){
		.wanted = true,
		.time = clock_monotonic() + RUNS_WAIT,
		.readings = control->parts.sampler ? readings(control) + SNAPSHOT_READINGS : 0,
	};
}

static void snapshot_look(struct sampling_control *control)
{
	struct snapshot *snapshot = &control->snapshot;

	if (!snapshot->wanted)
		return;
	if (snapshot->commits && control->commits >= snapshot->commits) {
		snapshot->wanted = false;
		mailbox_answer(control->mailbox, status_answer(control));
	} else if (!snapshot->commits && readings(control) >= snapshot->readings &&
		   clock_monotonic() >= snapshot->time) {
		snapshot->commits = control->commits + 1;
	}
}

void sampling_control_serve(struct sampling_control *control)
{
	AUTO(free_ptr) char *request = mailbox_take(control->mailbox);

	if (!request)
		return;
	if (!strcmp(request, "snapshot")) {
		snapshot_begin(control);
		return;
	}
	mailbox_answer(control->mailbox,
		       request_do(control, request) ? failure_answer() : status_answer(control));
}

int sampling_control_tick(struct sampling_control *control)
{
	uint64_t commits = recorder_commits(control->parts.recorder);
	int err = 0;

	if (commits != control->commits)
		err = paused_tell(control);
	control->commits = commits;
	snapshot_look(control);
	return err;
}

/* --- Life ------------------------------------------------------------------------------------- */

static int sockets_open(struct sampling_control *control)
{
	AUTO(free_ptr) char *pid = mem_printf("record.%d", (int)getpid());
	AUTO(free_ptr) char *folder = getcwd(NULL, 0);
	AUTO(free_ptr) char *file = NULL;
	const char *output = control->parts.options->output;
	struct stat profile;
	int err;

	if (stat(output, &profile))
		return err_set(-errno, "%s: cannot be looked at: %s", output, strerror(errno));
	control->profile = output[0] == '/' || !folder ? mem_strdup(output)
						       : mem_printf("%s/%s", folder, output);
	file = mem_printf("record.%llx.%llx", (unsigned long long)profile.st_dev,
			  (unsigned long long)profile.st_ino);
	err = control_create(pid, mailbox_ask, control->mailbox, &control->by_pid);
	return err ? err : control_create(file, mailbox_ask, control->mailbox, &control->by_file);
}

int sampling_control_create(const struct sampling_parts *parts, struct sampling_control **ret)
{
	struct sampling_control *control = mem_zalloc(sizeof(*control));
	int err;

	control->parts = *parts;
	err = mailbox_create("{\"assay\":1,\"error\":\"the recording has ended\"}",
			     &control->mailbox);
	err = err ? err : sockets_open(control);
	if (err) {
		sampling_control_destroy(control);
		return err;
	}
	*ret = control;
	return 0;
}

static void sockets_close(struct sampling_control *control)
{
	if (control->mailbox)
		mailbox_close(control->mailbox);
	control_destroy(take_ptr(control->by_pid));
	control_destroy(take_ptr(control->by_file));
}

void sampling_control_destroy(struct sampling_control *control)
{
	if (!control)
		return;
	sockets_close(control);
	mailbox_destroy(control->mailbox);
	free(control->profile);
	free(control);
}

int sampling_control_fd(const struct sampling_control *control)
{
	return mailbox_fd(control->mailbox);
}

int sampling_control_end(struct sampling_control *control)
{
	if (!control)
		return 0;
	sockets_close(control);
	return paused_tell(control);
}
