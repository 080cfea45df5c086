// SPDX-License-Identifier: BSD-2-Clause
/*
 * Marks as counters in the text format of Prometheus: metrics with a line for each mark and process
 * that executed it. Times of marks that are timed are a histogram, whose limits are 1, 2.5 and 5
 * times a power of ten. What was lost is a metric of its own.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "report/export.h"

/* ns; behind the last one is what took longer. */
#define DECADE(ns) (ns), (ns)*5 / 2, (ns)*5
static const uint64_t limits[] = { DECADE(10ull),	DECADE(100ull),	      DECADE(1000ull),
				   DECADE(10000ull),	DECADE(100000ull),    DECADE(1000000ull),
				   DECADE(10000000ull), DECADE(100000000ull), DECADE(1000000000ull),
				   10000000000ull };
enum { LIMITS = sizeof(limits) / sizeof(limits[0]) };

struct sample {
	uint32_t mark, process;
	uint64_t visits, instructions;
	uint64_t reads, writes;
	uint64_t timed, time_ns, slower;
	uint64_t buckets[LIMITS + 1];
};

struct samples {
	struct map places; /* mark << 32 | process to index */
	ARRAY(struct sample) list;
};

static void samples_deinit(struct samples *samples)
{
	map_deinit(&samples->places);
	array_deinit(&samples->list);
}

/* Threads of a process are one. NULL: the thread is not meant. Lent until the next one. */
static struct sample *sample_of(struct samples *samples, const struct profile *profile,
				const struct filter *filter, uint32_t mark, uint32_t thread)
{
	uint32_t process = profile->threads[thread].process;
	uint64_t *place;
	bool fresh;

	if (!filter_thread(filter, profile, thread))
		return NULL;
	place = map_at(&samples->places, (uint64_t)mark << 32 | process, &fresh);
	if (fresh) {
		*place = samples->list.count;
		*array_push(&samples->list) = (struct sample){ .mark = mark, .process = process };
	}
	return &samples->list.items[*place];
}

static void executions_add(struct samples *samples, const struct profile *profile,
			   const struct filter *filter)
{
	for (size_t i = 0; i < profile->mark_execution_count; i++) {
		const struct profile_mark_execution *from = &profile->mark_executions[i];
		struct sample *to = sample_of(samples, profile, filter, from->mark, from->thread);

		if (!to)
			continue;
		to->visits += from->visits;
		to->instructions += from->instructions;
	}
	for (size_t i = 0; i < profile->mark_access_count; i++) {
		const struct profile_mark_access *from = &profile->mark_accesses[i];
		struct sample *to = sample_of(samples, profile, filter, from->mark, from->thread);

		if (!to)
			continue;
		to->reads += from->reads;
		to->writes += from->writes;
	}
}

static unsigned limit_of(uint64_t ns)
{
	unsigned at = 0;

	while (at < LIMITS && ns > limits[at])
		at++;
	return at;
}

static void times_add(struct samples *samples, const struct profile *profile,
		      const struct filter *filter)
{
	for (size_t i = 0; i < profile->mark_time_count; i++) {
		const struct profile_mark_time *from = &profile->mark_times[i];
		struct sample *to = sample_of(samples, profile, filter, from->mark, from->thread);

		if (!to)
			continue;
		to->timed += from->timed;
		to->time_ns += from->time_ns;
		to->slower += from->slower;
	}
	for (size_t i = 0; i < profile->mark_time_bucket_count; i++) {
		const struct profile_mark_time_bucket *from = &profile->mark_time_buckets[i];
		struct sample *to = sample_of(samples, profile, filter, from->mark, from->thread);

		if (to)
			to->buckets[limit_of(from->from_ns)] += from->visits;
	}
}

/* A label's value, in which a backslash, a quote and a line feed are written with a backslash. */
static void value_print(FILE *file, const char *text)
{
	struct strbuf safe = {};

	utf8_escape(&safe, text ? text : "");
	for (size_t i = 0; i < safe.length; i++) {
		if (safe.text[i] == '"' || safe.text[i] == '\\')
			putc('\\', file);
		putc(safe.text[i], file);
	}
	strbuf_deinit(&safe);
}

static void labels_print(FILE *file, const struct profile *profile, const struct sample *sample)
{
	const struct profile_process *process = &profile->processes[sample->process];

	fputs("mark=\"", file);
	value_print(file, profile->marks[sample->mark].text);
	fprintf(file, "\",pid=\"%u\",comm=\"", process->pid);
	value_print(file, process->comm);
	fputs("\"", file);
}

static bool is_data(const struct profile *profile, const struct sample *sample)
{
	return profile->marks[sample->mark].kind == MARK_DATA;
}

/* Columns: metric, what it is, of which samples it is, its value. */
#define COUNTERS(X)                                                                                \
	X("assay_mark_visits_total", "Visits of a mark.", !is_data(profile, sample),               \
	  sample->visits)                                                                          \
	X("assay_mark_instructions_total", "Instructions executed within a mark.",                 \
	  !is_data(profile, sample), sample->instructions)                                         \
	X("assay_mark_reads_total", "Reads of data that is marked.", is_data(profile, sample),     \
	  sample->reads)                                                                           \
	X("assay_mark_writes_total", "Writes of data that is marked.", is_data(profile, sample),   \
	  sample->writes)                                                                          \
	X("assay_mark_slower_total", "Visits that were slower than the mark's threshold.",         \
	  strstr(profile->marks[sample->mark].text, ",slower="), sample->slower)

static void counters_print(FILE *file, const struct profile *profile, const struct samples *samples)
{
#define X(metric, about, wanted, value)                                                            \
	fputs("# HELP " metric " " about "\n# TYPE " metric " counter\n", file);                   \
	array_each(&samples->list, sample)                                                         \
		if (wanted) {                                                                      \
			fputs(metric "{", file);                                                   \
			labels_print(file, profile, sample);                                       \
			fprintf(file, "} %" PRIu64 "\n", value);                                   \
		}
	COUNTERS(X)
#undef X
}

static void histogram_print(FILE *file, const struct profile *profile, const struct sample *sample)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i <= LIMITS; i++) {
		sum += sample->buckets[i];
		fputs("assay_mark_duration_seconds_bucket{", file);
		labels_print(file, profile, sample);
		if (i < LIMITS)
			fprintf(file, ",le=\"%g\"} %" PRIu64 "\n", (double)limits[i] / 1e9, sum);
		else
			fprintf(file, ",le=\"+Inf\"} %" PRIu64 "\n", sum);
	}
	fputs("assay_mark_duration_seconds_sum{", file);
	labels_print(file, profile, sample);
	fprintf(file, "} %.9f\nassay_mark_duration_seconds_count{", (double)sample->time_ns / 1e9);
	labels_print(file, profile, sample);
	fprintf(file, "} %" PRIu64 "\n", sample->timed);
}

int export_prometheus(const struct profile *profile, const struct export_options *options,
		      FILE *file)
{
	AUTO(samples_deinit) struct samples samples = {};
	const struct profile_recording *marks = profile_recording(profile, RECORDING_MARKS);

	executions_add(&samples, profile, &options->filter);
	times_add(&samples, profile, &options->filter);
	counters_print(file, profile, &samples);
	fputs("# HELP assay_mark_duration_seconds How long visits of a mark took.\n"
	      "# TYPE assay_mark_duration_seconds histogram\n",
	      file);
	array_each(&samples.list, sample)
		if (sample->timed)
			histogram_print(file, profile, sample);
	if (!filter_is_empty(&options->filter))
		return 0;
	fputs("# HELP assay_marks_lost_total Segments with marked code that are not counted.\n"
	      "# TYPE assay_marks_lost_total counter\n",
	      file);
	fprintf(file, "assay_marks_lost_total %" PRIu64 "\n",
		marks ? marks->seen - marks->kept : 0);
	return 0;
}
