// SPDX-License-Identifier: BSD-2-Clause
/* Counts segments: one counter for each, per thread. From them follow instructions and blocks. */
#include "engine/tool.h"

static void segment_end(struct insert *insert, const struct point *point)
{
	inline_count(insert, counter_by_segment(ENGINE_TOOL_COUNT, point->segment), 1);
}

const struct tool tool_count = { .segment_end = segment_end };
