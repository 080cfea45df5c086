// SPDX-License-Identifier: BSD-2-Clause
/* Counts runs: one counter for each, per thread, in memory that the host reads. From them follow instructions and blocks. */
#include "engine/build.h"
#include "engine/stream.h"
#include "engine/tool.h"

static uint64_t *counter(struct thread *thread, uint32_t run)
{
	return (uint64_t *)stream_counts(thread) + run;
}

static void run_told(struct thread *thread, uint32_t run)
{
	++*counter(thread, run);
}

static void run_untold(struct thread *thread, uint32_t run)
{
	--*counter(thread, run);
}

const struct tool tool_count = {
	.run_end = put_count,
	.run_told = run_told,
	.run_untold = run_untold,
	.thread_start = stream_thread_start,
	.thread_end = stream_thread_end,
	.module = stream_module,
};
