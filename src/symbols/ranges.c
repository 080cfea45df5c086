// SPDX-License-Identifier: BSD-2-Clause
/* A sorted array instead of an interval tree: ranges are added once and asked many times. */
#include "symbols/ranges.h"

#include <stdlib.h>

void ranges_deinit(struct ranges *ranges)
{
	array_deinit(&ranges->list);
}

void ranges_add(struct ranges *ranges, uint64_t start, uint64_t end, uint32_t value)
{
	if (start < end)
		*array_push(&ranges->list) = (struct range){ start, end, 0, value };
}

static int range_compare(const void *left, const void *right)
{
	const struct range *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->end != b->end)
		return a->end > b->end ? -1 : 1;
	return (a->value > b->value) - (a->value < b->value);
}

void ranges_sort(struct ranges *ranges)
{
	uint64_t reach = 0;

	if (ranges->list.count)
		qsort(ranges->list.items, ranges->list.count, sizeof(struct range), range_compare);
	array_each(&ranges->list, range) {
		reach = range->end > reach ? range->end : reach;
		range->reach = reach;
	}
}

/* The number of ranges that start at or below the address. */
static size_t ranges_started(const struct ranges *ranges, uint64_t address)
{
	size_t low = 0, high = ranges->list.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ranges->list.items[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct range *ranges_find(const struct ranges *ranges, uint64_t address,
				const struct range *after)
{
	const struct range *items = ranges->list.items;
	size_t i = after ? (size_t)(after - items) : ranges_started(ranges, address);

	while (i-- > 0 && items[i].reach > address)
		if (items[i].end > address)
			return &items[i];
	return NULL;
}
