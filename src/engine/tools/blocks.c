// SPDX-License-Identifier: BSD-2-Clause
/*
 * The sequence of segments, per thread, in a ring that the host drains. When it is full the thread
 * waits.
 *
 *	in	the end of a segment, when code is translated
 *	out	one word in the thread's ring whenever the segment is executed
 *	owner	the engine calls it; the ring is the thread's
 *
 * Superblocks make segments longer. If the host only counts segments (blocks), the fewer there are
 * the better. If it looks for cycles in them (paths), superblocks along a way that is only a little
 * more frequent than others would make many different segments out of a few. Both want the same
 * ring, so if both are in use only one of them appends.
 */
#include "engine/tool.h"

static void segment_end(struct insert *insert, const struct point *point)
{
	inline_append(insert, point->segment);
}

static void segment_end_alone(struct insert *insert, const struct point *point)
{
	if (!(engine_boot.tools & ENGINE_TOOL_BIT(ENGINE_TOOL_PATHS)))
		segment_end(insert, point);
}

const struct tool tool_blocks = {
	.superblock_percent = 50,
	.segment_end = segment_end_alone,
};

const struct tool tool_paths = {
	.superblock_percent = 95,
	.superblock_once = true,
	.segment_end = segment_end,
};
