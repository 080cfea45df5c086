// SPDX-License-Identifier: BSD-2-Clause
/* The tools, and what the engine does for all of them. */
#include "engine/tool.h"

#include "engine/stream.h"

const struct tool *tool(void)
{
	static const struct tool *const tools[ENGINE_TOOLS_END] = {
		[ENGINE_TOOL_COUNT] = &tool_count,
		[ENGINE_TOOL_BLOCKS] = &tool_blocks,
		[ENGINE_TOOL_PATHS] = &tool_paths,
		[ENGINE_TOOL_COVERAGE] = &tool_coverage,
	};

	return engine_boot.tool < ENGINE_TOOLS_END && stream_wanted() ? tools[engine_boot.tool]
								      : NULL;
}

/* The run that ends there: one of the fragment's own, or one that only a signal could make; 0: nothing was executed. */
static uint32_t run_of(const struct fragment *fragment, unsigned piece, uint64_t length,
		       uint32_t instructions)
{
	const struct piece *last = &fragment->pieces[piece];
	struct stream_piece part;

	if (!length)
		return piece ? fragment->first_run + piece - 1 : 0;
	if (length == last->length)
		return fragment->first_run + piece;
	part = (struct stream_piece){ last->pc, (uint32_t)length, instructions };
	return stream_partial(fragment, piece, &part);
}

void tool_run_cut(struct thread *thread, const struct fragment *fragment, unsigned piece,
		  uint64_t length, uint32_t instructions)
{
	uint32_t run;

	run = run_of(fragment, piece, length, instructions);
	if (!run)
		return;
	tool()->run_told(thread, run);
}
