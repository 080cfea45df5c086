// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts instructions by mnemonic: the simplest tool there is, one counter in front of each
 * instruction.
 */
#include "engine/tool.h"

static void before(struct insert *insert, const struct point *point)
{
	ZydisMnemonic mnemonic = point->insn->mnemonic;

	inline_gate(insert, ENGINE_TOOL_OPCODES);
	inline_count(insert,
		     counter_named(ENGINE_TOOL_OPCODES, mnemonic, ZydisMnemonicGetString(mnemonic)),
		     1);
}

const struct tool tool_opcodes = { .before = before };
