// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as a trace of calls, with little memory, so that nodes are pruned: it is refused, or
 * gives trees within their limits whose stanzas add up and whose totals are what was charged.
 */
#include <stdint.h>
#include <stdlib.h>

#include "calls/forest.h"
#include "calls/reports.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_thread(const struct call_thread *thread)
{
	struct call_snapshot snapshot;
	const struct call_snapshot *all = &snapshot;
	struct call_stanzas stanzas;
	uint64_t samples = 0;

	must(thread->head.used <= thread->head.capacity);
	must(!call_snapshot_take(&snapshot, &thread->head, thread->tree.nodes, thread->head.count));
	must(snapshot.reached == thread->head.used);
	for (uint32_t i = 0; i < snapshot.reached; i++)
		samples += call_snapshot_node(&snapshot, snapshot.order[i])->samples;
	must(samples == snapshot.samples[CALL_ROOT]);
	if (thread->head.metrics)
		must(call_snapshot_sum(&snapshot, CALL_ROOT, 0)->base == thread->head.total);
	for (uint32_t i = 0; i <= thread->head.metrics; i++) {
		must(!call_report_stanzas(&all, 1, i, &stanzas));
		call_stanzas_deinit(&stanzas);
	}
	call_snapshot_deinit(&snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct call_forest_options options = { .depth_limit = 6,
					       .thread_limit = 4,
					       .prune_permille = 100 };
	struct call_forest forest;

	if (!size)
		return 0;
	options.rule = (enum call_stack_rule)(data[0] % 3);
	if (call_forest_read(&forest, data + 1, size - 1, &options))
		return 0;
	array_each(&forest.threads, thread)
		check_thread(*thread);
	call_forest_deinit(&forest);
	return 0;
}
