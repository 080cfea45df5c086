// SPDX-License-Identifier: BSD-2-Clause
/* The list of the tools in use, and calls to all of them. */
#include "engine/tool.h"

#include "engine/inline.h"
#include "engine/stream.h"

const struct tool tool_native = {}, tool_none = {};

static const struct tool *in_use[ENGINE_TOOLS_END + 1]; /* ends with NULL */
struct tool tools_offer;

const struct tool *tool_of(unsigned number)
{
	static const struct tool *const tools[ENGINE_TOOLS_END] = {
#define X(name, id, flags, bytes, counters, unit, help) [ENGINE_TOOL_##name] = &tool_##id,
		ENGINE_TOOLS(X)
#undef X
	};

	return tools[number];
}

#define OFFER(function)                                                                            \
	if (tool->function)                                                                        \
	tools_offer.function = tool->function

static void tool_use(const struct tool *tool, size_t index)
{
	in_use[index] = tool;
	OFFER(block);
	OFFER(before);
	OFFER(access);
	OFFER(call);
	OFFER(back);
	OFFER(branch);
	OFFER(after);
	OFFER(segment_end);
	OFFER(renew);
	OFFER(cuts);
	OFFER(paused);
	OFFER(work_begin);
	OFFER(work_end);
	OFFER(superblock_percent);
	OFFER(superblock_once);
}

/* If there are two that have superblocks, they are as the later one in the registry wants them. */
void tools_start(void)
{
	size_t count = 0;

	if (!stream_wanted())
		return;
	for (unsigned i = 0; i < ENGINE_TOOLS_END; i++)
		if (engine_boot.tools & ENGINE_TOOL_BIT(i))
			tool_use(tool_of(i), count++);
}

bool tools_any(void)
{
	return in_use[0];
}

const struct tool *const *tools_in_use(void)
{
	return in_use;
}

/* --- Events ------------------------------------------------------------------------------ */

#define TELL(function, ...)                                                                        \
	do {                                                                                       \
		for (const struct tool *const *tool = in_use; *tool; tool++)                       \
			if ((*tool)->function)                                                     \
				(*tool)->function(__VA_ARGS__);                                    \
	} while (0)

void tools_thread_start(struct thread *thread)
{
	if (!tools_any())
		return;
	stream_thread_start(thread);
	TELL(thread_start, thread);
}

void tools_thread_end(struct thread *thread)
{
	if (!tools_any())
		return;
	TELL(thread_end, thread);
	stream_thread_end(thread);
}

void tools_forked(struct thread *thread)
{
	TELL(forked, thread);
}

void tools_work_begin(struct thread *thread)
{
	if (tools_offer.work_begin)
		TELL(work_begin, thread);
}

void tools_work_end(struct thread *thread)
{
	if (tools_offer.work_end)
		TELL(work_end, thread);
}

void tools_paused(struct thread *thread, uint64_t ticks)
{
	TELL(paused, thread, ticks);
}

void tools_module(const struct region *region, const char *path)
{
	if (!tools_any())
		return;
	stream_module(region, path);
	TELL(module, region, path);
}

void tools_unmapped(uint64_t start, uint64_t end)
{
	TELL(unmapped, start, end);
}

void tools_syscall(struct thread *thread)
{
	TELL(syscall, thread);
}

void tools_syscall_done(struct thread *thread)
{
	TELL(syscall_done, thread);
}

void tools_renew(void)
{
	if (tools_offer.renew)
		TELL(renew);
}

void tools_fragment(uint32_t first)
{
	TELL(fragment, first);
}

void tools_partial(uint32_t segment, uint32_t of, const struct stream_partial *partial)
{
	TELL(partial, segment, of, partial);
}

bool tools_cut(uint64_t pc)
{
	for (const struct tool *const *tool = in_use; *tool && tools_offer.cuts; tool++)
		if ((*tool)->cuts && (*tool)->cuts(pc))
			return true;
	return false;
}

/* --- Segments ---------------------------------------------------------------------------- */

void tools_segment_list(struct insert *ret, uint32_t segment)
{
	const struct point point = { .segment = segment };

	ret->count = 0;
	TELL(segment_end, ret, &point);
}

void tools_segment_ended(struct thread *thread, uint32_t segment, unsigned from)
{
	static const struct inline_values none;
	struct insert insert;

	tools_segment_list(&insert, segment);
	inline_do(thread, insert.ops, insert.count, from, &none);
}

void tools_segment_undo(struct thread *thread, uint32_t segment)
{
	static const struct inline_values none;
	struct insert insert;

	tools_segment_list(&insert, segment);
	inline_undo(thread, insert.ops, insert.count, INSERT_OPS_MAX, &none);
}

/*
 * The segment that ends there: one of the fragment's own, or one that only a signal could make; 0:
 * nothing was executed.
 */
static uint32_t segment_of(const struct fragment *fragment, unsigned block, uint64_t length,
			   uint32_t instructions)
{
	const struct block *last = &fragment->blocks[block];
	struct stream_block part;

	if (!length)
		return block ? fragment->first_segment + block - 1 : 0;
	if (length == last->length)
		return fragment->first_segment + block;
	part = (struct stream_block){ last->pc, (uint32_t)length, instructions };
	return stream_partial(fragment, block, &part);
}

void tools_segment_cut(struct thread *thread, const struct fragment *fragment, unsigned block,
		       uint64_t length, uint32_t instructions)
{
	uint32_t segment = segment_of(fragment, block, length, instructions);

	if (segment)
		tools_segment_ended(thread, segment, 0);
}
