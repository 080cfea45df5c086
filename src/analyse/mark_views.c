// SPDX-License-Identifier: BSD-2-Clause
/*
 * The views of marks: what was marked, how often it was executed and how long that took, and who
 * read and wrote data.
 */
#include <stdlib.h>
#include <string.h>

#include "analyse/meta.h"
#include "analyse/names.h"
#include "analyse/views.h"
#include "base/mem.h"

enum {
	K_VISITS,
	K_INSTRUCTIONS,
	K_EACH,
	K_READS,
	K_WRITES,
	K_TIME,
	K_MEAN,
	K_LEAST,
	K_P50,
	K_P90,
	K_P99,
	K_MOST,
	K_SLOWER,
	K_UNTIMED,
	K_MARK,
	K_KIND,
	K_WHERE,
	K_PLACES,
	K_THREADS,
	K_COUNT,
	K_TIMED,
	K_ABANDONED,
	K_TOO_DEEP,
	K_OVERHEAD,
	K_COLUMNS
};

static const struct column mark_columns[] = {
	[K_VISITS] = { "visits", "Visits", COLUMN_COUNT },
	[K_INSTRUCTIONS] = { "instructions", "Instructions", COLUMN_COUNT },
	[K_EACH] = { "instructions_per_visit", "Each", COLUMN_REAL, .spare = 4 },
	[K_READS] = { "reads", "Reads", COLUMN_COUNT, .optional = true },
	[K_WRITES] = { "writes", "Writes", COLUMN_COUNT, .optional = true },
	[K_TIME] = { "time_ns", "Time, ns", COLUMN_COUNT, .optional = true, .spare = 6 },
	[K_MEAN] = { "mean_ns", "Mean", COLUMN_REAL, .optional = true, .spare = 3 },
	[K_LEAST] = { "min_ns", "", COLUMN_COUNT, COLUMN_DATA },
	[K_P50] = { "p50_ns", "p50", COLUMN_COUNT, .optional = true, .spare = 1 },
	[K_P90] = { "p90_ns", "p90", COLUMN_COUNT, .optional = true, .spare = 5 },
	[K_P99] = { "p99_ns", "p99", COLUMN_COUNT, .optional = true, .spare = 1 },
	[K_MOST] = { "max_ns", "Max", COLUMN_COUNT, .optional = true, .spare = 2 },
	[K_SLOWER] = { "slower", "Slower", COLUMN_COUNT, .optional = true, .spare = 2 },
	[K_UNTIMED] = { "untimed", "Untimed", COLUMN_COUNT, .optional = true, .spare = 7 },
	[K_MARK] = { "mark", "Mark", COLUMN_TEXT, .elastic = true },
	[K_KIND] = { "kind", "Kind", COLUMN_TEXT, .spare = 8 },
	[K_WHERE] = { "where", "Where", COLUMN_TEXT, .elastic = true, .cut = CUT_NAME },
	[K_PLACES] = { "places", "", COLUMN_COUNT, COLUMN_DATA },
	[K_THREADS] = { "threads", "", COLUMN_COUNT, COLUMN_DATA },
	[K_COUNT] = { "count", "", COLUMN_COUNT, COLUMN_DATA },
	[K_TIMED] = { "timed", "", COLUMN_COUNT, COLUMN_DATA },
	[K_ABANDONED] = { "abandoned", "", COLUMN_COUNT, COLUMN_DATA },
	[K_TOO_DEEP] = { "too_deep", "", COLUMN_COUNT, COLUMN_DATA },
	[K_OVERHEAD] = { "overhead_ns", "", COLUMN_REAL, COLUMN_DATA },
};

struct mark_sum {
	uint64_t visits, instructions, threads;
	uint64_t reads, writes;
	bool is_timed;
	uint64_t timed, time, most, slower, abandoned, too_deep, overhead;
	struct time_bucket {
		uint64_t from, visits;
	} * buckets; /* by time */
	size_t bucket_count;
	uint64_t places; /* where visits are counted */
	const struct profile_mark_place *place; /* one of them; NULL: none */
	bool elsewhere; /* there are some in another module */
};

static const char *kind_text(enum mark_kind kind)
{
	static const char *const texts[] = {
#define X(name, text) [MARK_##name] = text,
		MARK_KINDS(X)
#undef X
	};

	return texts[kind];
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void place_add(struct mark_sum *sum, const struct profile_mark_place *place)
{
	if (!place->begins)
		return;
	sum->places++;
	sum->elsewhere |= sum->place && strcmp(sum->place->module, place->module);
	if (!sum->place)
		sum->place = place;
}

static void sums_make(const struct profile *profile, const struct filter *filter,
		      struct mark_sum *sums)
{
	for (size_t i = 0; i < profile->mark_place_count; i++)
		place_add(&sums[profile->mark_places[i].mark], &profile->mark_places[i]);
	for (size_t i = 0; i < profile->mark_execution_count; i++) {
		const struct profile_mark_execution *from = &profile->mark_executions[i];

		if (!filter_thread(filter, profile, from->thread))
			continue;
		sums[from->mark].visits += from->visits;
		sums[from->mark].instructions += from->instructions;
		sums[from->mark].threads++;
	}
}

static void times_sum(const struct profile *profile, const struct filter *filter,
		      struct mark_sum *sums)
{
	for (size_t i = 0; i < profile->mark_time_count; i++) {
		const struct profile_mark_time *from = &profile->mark_times[i];
		struct mark_sum *sum = &sums[from->mark];

		if (!filter_thread(filter, profile, from->thread))
			continue;
		sum->is_timed = true;
		sum->timed += from->timed;
		sum->time += from->time_ns;
		sum->slower += from->slower;
		sum->abandoned += from->abandoned;
		sum->too_deep += from->too_deep;
		sum->most = from->longest_ns > sum->most ? from->longest_ns : sum->most;
		sum->overhead = from->overhead_ps > sum->overhead ? from->overhead_ps
								  : sum->overhead;
	}
	for (size_t i = 0; i < profile->mark_access_count; i++) {
		const struct profile_mark_access *from = &profile->mark_accesses[i];

		if (!filter_thread(filter, profile, from->thread))
			continue;
		sums[from->mark].reads += from->reads;
		sums[from->mark].writes += from->writes;
	}
}

static int bucket_compare(const void *a, const void *b)
{
	const struct time_bucket *left = a, *right = b;

	return left->from < right->from ? -1 : left->from > right->from;
}

/* Of all threads; their ticks are the same, but not what was taken off. */
static void buckets_make(const struct profile *profile, const struct filter *filter,
			 struct mark_sum *sums)
{
	for (size_t i = 0; i < profile->mark_time_bucket_count; i++)
		sums[profile->mark_time_buckets[i].mark].bucket_count++;
	for (size_t i = 1; i < profile->mark_count; i++) {
		if (sums[i].bucket_count)
			sums[i].buckets =
				mem_zalloc(sums[i].bucket_count * sizeof(*sums[i].buckets));
		sums[i].bucket_count = 0;
	}
	for (size_t i = 0; i < profile->mark_time_bucket_count; i++) {
		const struct profile_mark_time_bucket *from = &profile->mark_time_buckets[i];
		struct mark_sum *sum = &sums[from->mark];

		if (filter_thread(filter, profile, from->thread))
			sum->buckets[sum->bucket_count++] =
				(struct time_bucket){ from->from_ns, from->visits };
	}
	for (size_t i = 1; i < profile->mark_count; i++)
		if (sums[i].bucket_count)
			qsort(sums[i].buckets, sums[i].bucket_count, sizeof(*sums[i].buckets),
			      bucket_compare);
}

/* The least time of the bucket that holds the visit at that share of all. */
static struct cell percentile(const struct mark_sum *sum, double share)
{
	double wanted = share * (double)sum->timed, passed = 0;

	for (size_t i = 0; i < sum->bucket_count; i++) {
		passed += (double)sum->buckets[i].visits;
		if (passed >= wanted)
			return cell_number(sum->buckets[i].from);
	}
	return (struct cell){};
}

static void times_fill(struct cell *row, const struct profile_mark *mark,
		       const struct mark_sum *sum)
{
	bool threshold = strstr(mark->text, ",slower=");

	row[K_COUNT] = cell_number(mark->kind == MARK_DATA ? sum->reads + sum->writes
				   : threshold		   ? sum->slower
							   : sum->visits);
	if (mark->kind == MARK_DATA) {
		row[K_READS] = cell_number(sum->reads);
		row[K_WRITES] = cell_number(sum->writes);
	}
	if (!sum->is_timed)
		return;
	row[K_TIME] = cell_number(sum->time);
	row[K_TIMED] = cell_number(sum->timed);
	row[K_UNTIMED] = cell_number(sum->visits > sum->timed ? sum->visits - sum->timed : 0);
	row[K_ABANDONED] = cell_number(sum->abandoned);
	row[K_TOO_DEEP] = cell_number(sum->too_deep);
	row[K_OVERHEAD] = cell_real((double)sum->overhead / 1000);
	if (threshold)
		row[K_SLOWER] = cell_number(sum->slower);
	if (!sum->timed)
		return;
	row[K_MEAN] = cell_real((double)sum->time / (double)sum->timed);
	row[K_LEAST] = percentile(sum, 0);
	row[K_P50] = percentile(sum, 0.5);
	row[K_P90] = percentile(sum, 0.9);
	row[K_P99] = percentile(sum, 0.99);
	row[K_MOST] = cell_number(sum->most);
}

/* "demo+0x1139", and how many more. */
static const char *where_text(struct table *table, const struct profile_mark *mark,
			      const struct mark_sum *sum)
{
	if (mark->kind == MARK_INSTRUCTIONS)
		return "anywhere";
	if (!sum->place && mark->kind == MARK_DATA && sum->reads + sum->writes)
		return "in memory";
	if (!sum->place)
		return "not found";
	return table_own(table, sum->places == 1
					? mem_printf("%s+0x%llx", base_name(sum->place->module),
						     (unsigned long long)sum->place->address)
					: mem_printf("%s+0x%llx and %llu more%s",
						     base_name(sum->place->module),
						     (unsigned long long)sum->place->address,
						     (unsigned long long)sum->places - 1,
						     sum->elsewhere ? ", in several modules" : ""));
}

static void mark_add(struct table *table, const struct profile_mark *mark,
		     const struct mark_sum *sum, bool by_kernel)
{
	struct cell *row = table_row_add(table);

	if (mark->kind != MARK_DATA)
		row[K_VISITS] = cell_number(sum->visits);
	if (mark->kind != MARK_DATA && !by_kernel)
		row[K_INSTRUCTIONS] = cell_number(sum->instructions);
	times_fill(row, mark, sum);
	if (sum->visits && !by_kernel)
		row[K_EACH] = cell_real((double)sum->instructions / (double)sum->visits);
	row[K_MARK] = cell_text(mark->text);
	row[K_KIND] = cell_text(kind_text(mark->kind));
	row[K_WHERE] = cell_text(where_text(table, mark, sum));
	row[K_PLACES] = cell_number(sum->places);
	row[K_THREADS] = cell_number(sum->threads);
}

static void totals_fill(struct table *table, const struct profile *profile,
			const struct filter *filter)
{
	const struct profile_recording *marks = profile_recording(profile, RECORDING_MARKS);

	table->filtered = !filter_is_empty(filter);
	table->totals = (struct totals){
		.seen = marks->seen,
		.kept = marks->kept,
		.selected = marks->kept,
		.losses = marks->losses,
		.loss_count = marks->loss_count,
	};
}

int view_marks(const struct profile *profile, const struct view_request *request,
	       struct table **ret)
{
	struct table *table = table_create("marks", mark_columns, K_COLUMNS);
	struct mark_sum *sums = mem_zalloc(profile->mark_count * sizeof(*sums));
	bool by_kernel = meta_by_kernel(profile);

	sums_make(profile, &request->filter, sums);
	times_sum(profile, &request->filter, sums);
	buckets_make(profile, &request->filter, sums);
	totals_fill(table, profile, &request->filter);
	for (size_t i = 1; i < profile->mark_count; i++)
		if (profile->marks[i].text && *profile->marks[i].text && !profile->marks[i].pattern)
			mark_add(table, &profile->marks[i], &sums[i], by_kernel);
	for (size_t i = 0; i < profile->mark_count; i++)
		free(sums[i].buckets);
	free(sums);
	table_sort(table, K_VISITS);
	*ret = table;
	return 0;
}

/* --- Accesses --------------------------------------------------------------------------------- */

enum { A_READS, A_WRITES, A_MARK, A_SYMBOL, A_FILE, A_LINE, A_MODULE, A_ADDRESS, A_COLUMNS };

static const struct column access_columns[] = {
	[A_READS] = { "reads", "Reads", COLUMN_COUNT },
	[A_WRITES] = { "writes", "Writes", COLUMN_COUNT },
	[A_MARK] = { "mark", "Mark", COLUMN_TEXT, .elastic = true },
	[A_SYMBOL] = { "symbol", "Function", COLUMN_TEXT, .elastic = true },
	[A_FILE] = { "file", "File", COLUMN_TEXT, .elastic = true },
	[A_LINE] = { "line", "Line", COLUMN_INTEGER },
	[A_MODULE] = { "module", "Module", COLUMN_TEXT },
	[A_ADDRESS] = { "address", "Address", COLUMN_ADDRESS },
};

struct access_sum {
	uint32_t mark, location;
	uint64_t reads, writes;
};

static int access_compare(const void *a, const void *b)
{
	const struct access_sum *left = a, *right = b;

	if (left->mark != right->mark)
		return left->mark < right->mark ? -1 : 1;
	return left->location < right->location ? -1 : left->location > right->location;
}

/* Of all threads that the filter takes; returns how many there are. */
static size_t accesses_sum(const struct profile *profile, const struct filter *filter,
			   struct access_sum *ret)
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < profile->mark_access_count; i++) {
		const struct profile_mark_access *from = &profile->mark_accesses[i];

		if (filter_thread(filter, profile, from->thread))
			ret[count++] = (struct access_sum){ from->mark, from->location, from->reads,
							    from->writes };
	}
	qsort(ret, count, sizeof(*ret), access_compare);
	for (size_t i = 0; i < count; i++) {
		if (!kept || access_compare(&ret[kept - 1], &ret[i])) {
			ret[kept++] = ret[i];
			continue;
		}
		ret[kept - 1].reads += ret[i].reads;
		ret[kept - 1].writes += ret[i].writes;
	}
	return kept;
}

static void access_add(struct table *table, const struct profile *profile,
		       const struct access_sum *sum)
{
	const struct profile_location *location = &profile->locations[sum->location];
	struct cell *row = table_row_add(table);

	row[A_READS] = cell_number(sum->reads);
	row[A_WRITES] = cell_number(sum->writes);
	row[A_MARK] = cell_text(profile->marks[sum->mark].text);
	if (!sum->location) {
		row[A_SYMBOL] = cell_text("[others]");
		return;
	}
	row[A_SYMBOL] =
		cell_text(name_of_symbol(profile, location_function(profile, sum->location)));
	row[A_MODULE] = cell_text(base_name(name_of_module(profile, location->module)));
	row[A_ADDRESS] = cell_number(location->address);
	if (location->frame_count) {
		const struct profile_frame *frame = &profile->frames[location->first_frame];
		const char *file = name_of_file(profile, frame->file);

		if (file)
			row[A_FILE] = cell_text(base_name(file));
		if (file && frame->line)
			row[A_LINE] = cell_integer(frame->line);
	}
}

int view_accesses(const struct profile *profile, const struct view_request *request,
		  struct table **ret)
{
	struct table *table = table_create("accesses", access_columns, A_COLUMNS);
	struct access_sum *sums = mem_zalloc((profile->mark_access_count + 1) * sizeof(*sums));
	size_t count = accesses_sum(profile, &request->filter, sums);

	totals_fill(table, profile, &request->filter);
	for (size_t i = 0; i < count; i++)
		access_add(table, profile, &sums[i]);
	free(sums);
	table_sort(table, A_WRITES);
	table_sort(table, A_READS);
	if (!count)
		table->empty = "no data that is marked was read or written";
	*ret = table;
	return 0;
}
