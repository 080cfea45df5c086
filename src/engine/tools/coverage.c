// SPDX-License-Identifier: BSD-2-Clause
/* Marks segments that were executed: a byte for each, per thread. */
#include "engine/tool.h"

static void segment_end(struct insert *insert, const struct point *point)
{
	inline_mark(insert, counter_by_segment(ENGINE_TOOL_COVERAGE, point->segment));
}

const struct tool tool_coverage = { .segment_end = segment_end };
