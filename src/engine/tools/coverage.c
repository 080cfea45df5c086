// SPDX-License-Identifier: BSD-2-Clause
/* Marks runs that were executed: a byte for each, per thread, in memory that the host reads. */
#include "engine/build.h"
#include "engine/stream.h"
#include "engine/tool.h"

static void run_told(struct thread *thread, uint32_t run)
{
	stream_counts(thread)[run] = 1;
}

const struct tool tool_coverage = {
	.run_end = put_seen,
	.run_told = run_told,
	.thread_start = stream_thread_start,
	.thread_end = stream_thread_end,
	.module = stream_module,
};
