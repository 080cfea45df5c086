// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as a hotlist: what decodes has just these bytes, and can be asked, continued and
 * merged.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "values/hotlist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ADDED = 200 };

static uint8_t bytes[HOTLIST_BLOB_MAX];

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void range_check(const struct hotlist_range *range, double max)
{
	must(range->low >= 0 && range->low <= range->best && range->best <= range->high &&
	     range->high <= max);
}

static void list_ask(const struct hotlist *list)
{
	uint64_t before = UINT64_MAX;

	must(hotlist_absent_max(list) >= 0);
	for (size_t rank = 0; rank < list->count; rank++) {
		struct hotlist_value value;
		struct hotlist_range share;

		hotlist_get(list, rank, &value);
		hotlist_share(list, rank,
			      &(struct hotlist_sampling){ .group = (double)rank,
							  .skew = (double)rank / 8 },
			      &share);
		must(value.count && value.count <= before && value.first >= 1 &&
		     value.first <= list->total);
		range_check(&value.occurrences, (double)list->total);
		range_check(&share, 1);
		before = value.count;
	}
}

/* New values, and every one in the list once more. */
static void list_continue(struct hotlist *list)
{
	uint64_t words[HOTLIST_WORDS_MAX] = {};

	for (uint64_t i = 0; i < ADDED; i++) {
		struct hotlist_value value;

		words[0] = i / 2;
		hotlist_add(list, words);
		if (i >= list->count)
			continue;
		hotlist_get(list, i, &value);
		memcpy(words, value.words, list->words * sizeof(*words));
		hotlist_add(list, words);
	}
}

static void list_redecode(const struct hotlist *list)
{
	struct hotlist again;

	/* Only damaged lists have such numbers; they are refused. */
	if (list->total > HOTLIST_TOTAL_MAX || list->probability < 0x1p-53)
		return;
	for (size_t rank = 0; rank < list->count; rank++) {
		struct hotlist_value value;

		hotlist_get(list, rank, &value);
		if (value.count > HOTLIST_TOTAL_MAX)
			return;
	}
	must(hotlist_decode(bytes, hotlist_encode(list, bytes), &again) == 0);
	hotlist_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hotlist list, other;

	if (hotlist_decode(data, size, &list) != 0)
		return 0;
	must(hotlist_encode(&list, bytes) == size && memcmp(bytes, data, size) == 0);
	list_ask(&list);
	hotlist_copy(&list, &other);
	list_continue(&list);
	list_ask(&list);
	list_redecode(&list);
	if (hotlist_merge(&other, &list) == 0)
		list_ask(&other);
	hotlist_deinit(&list);
	hotlist_deinit(&other);
	return 0;
}
