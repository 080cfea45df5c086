// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tracefile of lcov, which genhtml and many services read: for each source file its lines that
 * have code, with how often they were executed. A line that several modules have counts as often as
 * in the one where it counts most.
 */
#include <errno.h>
#include <inttypes.h>

#include "analyse/names.h"
#include "base/err.h"
#include "report/export.h"

/* The rows of one line from `at` on; returns the row behind them. */
static size_t line_count(const struct profile *profile, const struct filter *filter, size_t at,
			 bool *ret_there, uint64_t *ret_count)
{
	const struct profile_source_line *first = &profile->source_lines[at], *row = first;

	*ret_there = false;
	*ret_count = 0;
	for (; at < profile->source_line_count && row->file == first->file &&
	       row->line == first->line;
	     at++, row++) {
		if (!filter_module(filter, profile, row->module))
			continue;
		*ret_there = true;
		*ret_count = row->count > *ret_count ? row->count : *ret_count;
	}
	return at;
}

static size_t file_put(const struct profile *profile, const struct filter *filter, size_t at,
		       FILE *file)
{
	uint32_t number = profile->source_lines[at].file;
	uint64_t count, found = 0, hit = 0;
	bool there;

	while (at < profile->source_line_count && profile->source_lines[at].file == number) {
		uint32_t line = profile->source_lines[at].line;

		at = line_count(profile, filter, at, &there, &count);
		if (!there)
			continue;
		if (!found)
			fprintf(file, "SF:%s\n", name_of_file(profile, number));
		fprintf(file, "DA:%u,%" PRIu64 "\n", line, count);
		found++;
		hit += count > 0;
	}
	if (found)
		fprintf(file, "LF:%" PRIu64 "\nLH:%" PRIu64 "\nend_of_record\n", found, hit);
	return at;
}

int export_lcov(const struct profile *profile, const struct export_options *options, FILE *file)
{
	if (!profile->source_line_count)
		return err_set(-ENODATA, "this profile has no lines: record with --tool coverage "
					 "or count, a program "
					 "that has debug information");
	fputs("TN:\n", file);
	for (size_t at = 0; at < profile->source_line_count;)
		at = file_put(profile, &options->filter, at, file);
	return 0;
}
