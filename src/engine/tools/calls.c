// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts calls, direct and indirect, by the instruction that calls: a counter for each, made when
 * it is translated.
 */
#include "engine/tool.h"

static void call(struct insert *insert, const struct point *point)
{
	inline_gate(insert, ENGINE_TOOL_CALLS);
	inline_count(insert, counter_of_code(ENGINE_TOOL_CALLS, point->pc), 1);
}

const struct tool tool_calls = { .call = call };
