// SPDX-License-Identifier: BSD-2-Clause
/*
 * How many slow visits each one that is kept stands for.
 *
 *	in	the visits that are kept, and how many there were in each bucket of times
 *	out	a weight for each slow visit, and the sum of all
 *	owner	the view "tail" (tail_view.c)
 */
#include <stdlib.h>

#include "analyse/tail_private.h"
#include "base/mem.h"

static int longer_first(const void *a, const void *b)
{
	const struct visit *left = *(struct visit *const *)a, *right = *(struct visit *const *)b;
	uint64_t left_ns = left->row->time_ns, right_ns = right->row->time_ns;

	return left_ns > right_ns ? -1 : left_ns < right_ns;
}

/*
 * The slowest visits are all kept, of the others some. From the slowest on down, the visits of some
 * buckets that follow each other, of which at least one is kept, are shared out among the kept ones
 * of these buckets. order: slow visits, the longest first.
 */
static void weights_share_out(struct tail *tail, struct visit **order)
{
	uint32_t first = 0, next = 0, last_first = 0;
	double visits = 0, last_visits = 0;

	for (size_t i = tail->buckets.count; i-- && tail->buckets.items[i].from >= tail->slowest;) {
		const struct time_bucket *bucket = &tail->buckets.items[i];
		bool same = i && bucket[-1].from == bucket->from; /* of another thread */

		visits += (double)bucket->visits;
		while (next < tail->slow && order[next]->row->time_ns >= bucket->from)
			next++;
		if (next == first || visits < next - first || same)
			continue;
		for (uint32_t k = first; k < next; k++)
			order[k]->weight = visits / (next - first);
		last_first = first;
		last_visits = visits;
		first = next;
		visits = 0;
	}
	/* What is left has too few visits, or none that is kept. */
	for (uint32_t k = last_first; k < next && visits > 0; k++)
		order[k]->weight = (last_visits + visits) / (next - last_first);
}

void tail_weights_find(struct tail *tail)
{
	struct visit **order = mem_zalloc((tail->slow + 1) * sizeof(struct visit *));
	uint32_t count = 0;

	array_each(&tail->visits, visit) {
		visit->weight = 1;
		if (visit->slow)
			order[count++] = visit;
	}
	qsort(order, count, sizeof(*order), longer_first);
	weights_share_out(tail, order);
	for (uint32_t i = 0; i < count; i++)
		tail->weight += order[i]->weight;
	free(order);
}
