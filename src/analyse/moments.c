// SPDX-License-Identifier: BSD-2-Clause
/*
 * Moments are by time first; samples are by stack, then thread, each pair once.
 */
#include "analyse/moments.h"

#include <stdlib.h>

#include "base/mem.h"

static int sample_order(const void *left, const void *right)
{
	const struct profile_sample *a = left, *b = right;

	if (a->stack != b->stack)
		return a->stack < b->stack ? -1 : 1;
	return (a->thread > b->thread) - (a->thread < b->thread);
}

bool moments_complete(const struct profile *profile)
{
	uint64_t samples = 0, moments = 0;

	for (size_t i = 0; i < profile->sample_count; i++)
		samples += profile->samples[i].count;
	for (size_t i = 0; i < profile->moment_count; i++)
		moments += profile->moments[i].count;
	return samples == moments;
}

uint32_t moments_begin(const struct profile *profile)
{
	uint32_t first = UINT32_MAX;

	for (size_t i = 0; i < profile->moment_count; i++)
		if (profile->moments[i].second < first)
			first = profile->moments[i].second;
	return first;
}

static size_t samples_merge(struct profile_sample *samples, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		if (kept && !sample_order(&samples[kept - 1], &samples[i])) {
			samples[kept - 1].count += samples[i].count;
			samples[kept - 1].kernel += samples[i].kernel;
		} else {
			samples[kept++] = samples[i];
		}
	}
	return kept;
}

void moments_init(struct profile *part, const struct profile *profile, uint32_t from, uint32_t to)
{
	struct profile_sample *samples = mem_zalloc((profile->moment_count + 1) * sizeof(*samples));
	size_t count = 0;

	for (size_t i = 0; i < profile->moment_count; i++) {
		const struct profile_moment *moment = &profile->moments[i];

		if (moment->second >= from && moment->second < to)
			samples[count++] = (struct profile_sample){ .recording = moment->recording,
								    .stack = moment->stack,
								    .thread = moment->thread,
								    .count = moment->count,
								    .kernel = moment->kernel };
	}
	qsort(samples, count, sizeof(*samples), sample_order);
	*part = *profile;
	part->samples = samples;
	part->sample_count = samples_merge(samples, count);
}

void moments_deinit(struct profile *part)
{
	free(part->samples);
}
