// SPDX-License-Identifier: BSD-2-Clause
/*
 * The sequence of runs, per thread, in a ring that the host drains. When it is full the thread waits.
 *
 * Traces make runs longer. The host counts them (blocks), and the fewer they are the better; or it looks for cycles in them
 * (paths): then ways that are only a little more frequent than others would make many different runs out of few.
 */
#include "engine/build.h"
#include "engine/stream.h"
#include "engine/tool.h"
#include "engine/traces.h"

/* put_append() found the chunk full. */
static void chunk_full(struct thread *thread)
{
	uint32_t count;
	const uint32_t *runs = stream_chunk(thread, &count);

	if (runs)
		traces_learn(thread, runs, count);
	stream_settle(thread);
}

#define TOOL_BLOCKS(percent, once)                                                                 \
	{                                                                                          \
		.trace_percent = (percent), .trace_once = (once), .run_end = put_append,           \
		.run_defined = traces_note, .run_told = stream_append,                             \
		.run_untold = stream_unappend, .called = chunk_full,                               \
		.thread_start = stream_thread_start, .thread_end = stream_thread_end,              \
		.module = stream_module,                                                           \
	}

const struct tool tool_blocks = TOOL_BLOCKS(50, false), tool_paths = TOOL_BLOCKS(95, true);
