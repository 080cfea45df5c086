// SPDX-License-Identifier: BSD-2-Clause
/* The sequence of runs, per thread, in a ring that the host drains. When it is full the thread waits. */
#include "engine/build.h"
#include "engine/stream.h"
#include "engine/tool.h"

const struct tool tool_blocks = {
	.run_end = put_append,
	.run_told = stream_append,
	.run_untold = stream_unappend,
	.called = stream_settle, /* put_append() found the chunk full */
	.thread_start = stream_thread_start,
	.thread_end = stream_thread_end,
	.module = stream_module,
};
