// SPDX-License-Identifier: BSD-2-Clause
/*
 * Marks as counter tracks of a trace that chrome://tracing and Perfetto read: the JSON of Trace
 * Event Format. A track for each mark has how much it counted in each interval, and events of marks
 * are instants.
 */
#include <inttypes.h>

#include "base/strbuf.h"
#include "report/export.h"
#include "report/json.h"

static void text_print(FILE *file, const char *text)
{
	struct strbuf safe = {};

	json_string_put(&safe, text ? text : "");
	fputs(strbuf_text(&safe), file);
	strbuf_deinit(&safe);
}

/* Prints reads and writes of data, or visits of code, with the mean time if the mark is timed. */
static void args_print(FILE *file, const struct profile *profile,
		       const struct profile_mark_sample *sample)
{
	if (profile->marks[sample->mark].kind == MARK_DATA) {
		fprintf(file, ",\"args\":{\"reads\":%" PRIu64 ",\"writes\":%" PRIu64 "}}",
			sample->reads, sample->writes);
		return;
	}
	fprintf(file, ",\"args\":{\"visits\":%" PRIu64 ",\"instructions\":%" PRIu64, sample->visits,
		sample->instructions);
	if (sample->timed)
		fprintf(file, ",\"mean_ns\":%.1f", (double)sample->time_ns / (double)sample->timed);
	fputs("}}", file);
}

/* Times are in microseconds; a counter has its value from its time on. */
int export_chrome(const struct profile *profile, const struct export_options *options, FILE *file)
{
	const char *separator = "";

	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", file);
	for (size_t i = 0; i < profile->mark_sample_count; i++) {
		const struct profile_mark_sample *sample = &profile->mark_samples[i];

		fprintf(file,
			"%s\n{\"ph\":\"C\",\"pid\":%u,\"ts\":%" PRIu64 ".%03u,\"name\":", separator,
			sample->recording, (uint64_t)sample->time / 1000,
			(unsigned)(sample->time % 1000));
		text_print(file, profile->marks[sample->mark].text);
		args_print(file, profile, sample);
		separator = ",";
	}
	for (size_t i = 0; i < profile->mark_event_count; i++) {
		const struct profile_mark_event *event = &profile->mark_events[i];

		fprintf(file,
			"%s\n{\"ph\":\"i\",\"s\":\"g\",\"pid\":%u,\"tid\":%u,\"ts\":%" PRIu64
			".%03u,\"name\":",
			separator, event->recording,
			event->thread ? profile->threads[event->thread].tid : 0,
			(uint64_t)event->time / 1000, (unsigned)(event->time % 1000));
		text_print(file, event->mark ? profile->marks[event->mark].text : event->text);
		fputs("}", file);
		separator = ",";
	}
	fputs("\n]}\n", file);
	return 0;
}
