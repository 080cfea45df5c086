// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts reads and writes of memory by their size. An operand that is read and written counts as
 * both. A string instruction with a repeat prefix may do any number of accesses, so these
 * instructions are counted by themselves.
 */
#include "engine/tool.h"

/* Columns: bytes, name of the counter. Sizes that are not listed count as others. */
#define SIZES(X)                                                                                   \
	X(0, "other")                                                                              \
	X(1, "1")                                                                                  \
	X(2, "2")                                                                                  \
	X(4, "4")                                                                                  \
	X(8, "8")                                                                                  \
	X(16, "16")                                                                                \
	X(32, "32")                                                                                \
	X(64, "64")

enum { KINDS = 3 }; /* reads, writes, repeated */

static const uint8_t sizes[] = {
#define X(bytes, name) bytes,
	SIZES(X)
#undef X
};

static const char *const names[][KINDS] = {
#define X(bytes, name) { "read " name, "write " name, "repeated " name },
	SIZES(X)
#undef X
};

static uint32_t size_class(uint32_t size)
{
	for (uint32_t i = 1; i < sizeof(sizes); i++)
		if (sizes[i] == size)
			return i;
	return 0;
}

static void kind_count(struct insert *insert, uint32_t size, uint32_t kind)
{
	uint32_t class = size_class(size);

	inline_gate(insert, ENGINE_TOOL_ACCESSES);
	inline_count(insert,
		     counter_named(ENGINE_TOOL_ACCESSES, class * KINDS + kind, names[class][kind]),
		     1);
}

static void access(struct insert *insert, const struct point *point)
{
	const struct access *access = &point->access;

	if (access->repeated)
		kind_count(insert, access->size, 2);
	else if (access->read)
		kind_count(insert, access->size, 0);
	if (access->write && !access->repeated)
		kind_count(insert, access->size, 1);
}

const struct tool tool_accesses = { .access = access };
