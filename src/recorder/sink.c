// SPDX-License-Identifier: BSD-2-Clause
/* Sums over what a sink tells of its recording. */
#include "recorder/sink.h"

#include <assert.h>

void sink_totals_add(struct sink_totals *totals, const char *reason, const char *text,
		     uint64_t count)
{
	if (!count)
		return;
	assert(totals->loss_count < SINK_LOSSES_MAX);
	totals->losses[totals->loss_count++] = (struct sink_loss){ reason, text, count };
}

uint64_t sink_totals_lost(const struct sink_totals *totals)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < totals->loss_count; i++)
		lost += totals->losses[i].count;
	return lost;
}
