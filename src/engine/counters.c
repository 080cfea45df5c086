// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counters of tools: where they lie in a thread's memory, and what they stand for.
 *
 * The host learns what a counter stands for from the catalog, before code that changes it is
 * executed. A process that was forked has a catalog of its own; it is told everything once more.
 *
 * The caller holds the engine's lock.
 */
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"

enum { SITES = 1 << 17 }; /* places of the table: twice as many as a tool has counters */

/* One that was told to the host. */
struct meaning {
	struct meaning *older;
	uint32_t tool, index;
	uint64_t pc;
	const char *name; /* lives as long as the engine */
};

static struct meaning *newest;

/* Counters by the address of code, for each tool that asks. */
struct sites {
	uint32_t next; /* the next that is free; 0: none was taken */
	struct site {
		uint64_t pc; /* 0: free */
		uint32_t index;
	} * table;
};

static struct sites sites[ENGINE_TOOLS_END];
static uint8_t *known[ENGINE_TOOLS_END]; /* a byte for each counter */

uint32_t counter_by_segment(enum engine_tool tool, uint32_t segment)
{
	return (uint32_t)engine_tools_segments_at(engine_boot.tools, tool, STREAM_SEGMENTS_MAX) +
	       segment * engine_tool_row(tool)->segment_bytes;
}

static uint32_t counter_place(enum engine_tool tool, uint32_t index)
{
	return (uint32_t)engine_tools_counters_at(engine_boot.tools, tool, STREAM_SEGMENTS_MAX) +
	       index * 8;
}

uint64_t *counter_value(struct thread *thread, uint32_t counter)
{
	return (uint64_t *)(stream_counts(thread) + counter);
}

static void meaning_add(enum engine_tool tool, uint32_t index, uint64_t pc, const char *name)
{
	struct meaning *meaning;

	if (!known[tool])
		known[tool] = memory_map(engine_tool_row(tool)->counters);
	if (!known[tool])
		fault_memory("no memory");
	if (known[tool][index])
		return;
	known[tool][index] = 1;
	meaning = memory_take(sizeof(*meaning));
	*meaning = (struct meaning){ newest, tool, index, pc, name };
	newest = meaning;
	stream_counter(tool, index, pc, name);
}

void counters_tell_again(void)
{
	for (const struct meaning *meaning = newest; meaning; meaning = meaning->older)
		stream_counter(meaning->tool, meaning->index, meaning->pc, meaning->name);
}

uint32_t counter_named(enum engine_tool tool, uint32_t index, const char *name)
{
	if (index >= engine_tool_row(tool)->counters)
		engine_die("a tool wants more counters than it has in wire/tools.h");
	meaning_add(tool, index, 0, name);
	return counter_place(tool, index);
}

static struct site *site_of(struct sites *of, uint64_t pc)
{
	uint64_t at = pc ^ pc >> 17;

	while (of->table[at % SITES].pc && of->table[at % SITES].pc != pc)
		at++;
	return &of->table[at % SITES];
}

uint32_t counter_of_code(enum engine_tool tool, uint64_t pc)
{
	struct sites *of = &sites[tool];
	struct site *site;

	if (!of->table)
		of->table = memory_map(SITES * sizeof(*of->table));
	if (!of->table)
		fault_memory("no memory");
	site = site_of(of, pc);
	if (site->pc)
		return counter_place(tool, site->index);
	if (of->next + 1 >= engine_tool_row(tool)->counters)
		return counter_named(tool, 0, "others");
	*site = (struct site){ pc, ++of->next };
	meaning_add(tool, site->index, pc, "");
	return counter_place(tool, site->index);
}
