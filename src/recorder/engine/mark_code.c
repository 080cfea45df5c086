// SPDX-License-Identifier: BSD-2-Clause
/*
 * How often each marked instruction was executed. Several marks may cover an instruction, which is
 * counted once nevertheless: spans of a block that overlap or touch become one piece of code. What
 * a block has executed of its list of spans depends on where it ends, as one that was cut short has
 * the list of the one that it was cut from. So executions are summed up by list and extent, and
 * pieces are made when the thread has ended.
 */
#include "recorder/engine/mark_code.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/mem.h"

enum { LIST_SHIFT = 32, INSTRUCTIONS_SHIFT = 16, EXTENT_MASK = (1 << INSTRUCTIONS_SHIFT) - 1 };

/* A part of a block: instructions by number, and bytes, from its beginning on. */
struct piece {
	uint32_t first, end;
	uint32_t offset, end_offset;
};

void mark_code_init(struct mark_code *code, struct recorder *recorder)
{
	*code = (struct mark_code){ .recorder = recorder };
}

void mark_code_deinit(struct mark_code *code)
{
	map_deinit(&code->executed);
}

void mark_code_count(struct mark_code *code, uint32_t list, const struct stream_block *block,
		     uint64_t times)
{
	uint64_t key = (uint64_t)list << LIST_SHIFT |
		       (uint64_t)block->instructions << INSTRUCTIONS_SHIFT | block->length;

	/* Longer than any block: the program has overwritten the catalog. */
	if (block->instructions > STREAM_BLOCK_INSTRUCTIONS_MAX || block->length > EXTENT_MASK)
		return;
	*map_at(&code->executed, key, NULL) += times;
}

static int piece_order(const void *left, const void *right)
{
	const struct piece *a = left, *b = right;

	return (a->first > b->first) - (a->first < b->first);
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Makes the piece of a span as far as the block reaches; false: it does not reach it. */
static bool piece_make(const struct stream_mark *mark, uint32_t instructions, uint32_t length,
		       struct piece *ret)
{
	*ret = (struct piece){
		.first = mark->first,
		.end = least(mark->first + (uint32_t)mark->instructions, instructions),
		.offset = mark->offset,
		.end_offset = least(mark->offset + (uint32_t)mark->length, length),
	};
	return ret->first < ret->end && ret->offset < ret->end_offset;
}

/* Sorts them, and makes one of those that overlap or touch. Returns how many are left. */
static size_t pieces_join(struct piece *pieces, size_t count)
{
	size_t kept = 0;

	qsort(pieces, count, sizeof(*pieces), piece_order);
	for (size_t i = 1; i < count; i++) {
		if (pieces[i].first > pieces[kept].end) {
			pieces[++kept] = pieces[i];
		} else if (pieces[i].end > pieces[kept].end) {
			pieces[kept].end = pieces[i].end;
			pieces[kept].end_offset = pieces[i].end_offset;
		}
	}
	return kept + 1;
}

static int piece_write(struct mark_code *code, const struct mark_span *span,
		       const struct piece *piece, struct thread_id thread, uint64_t count)
{
	struct store_mark_code row = { .length = piece->end_offset - piece->offset,
				       .instructions = piece->end - piece->first,
				       .thread = thread,
				       .count = count };
	int err = locations_add(recorder_locations(code->recorder), span->module,
				span->block + piece->offset, &row.location);

	return err ? err : store_add(recorder_store(code->recorder), STORE_TABLE_mark_code, &row);
}

/* Writes the executions of blocks that end at the same place and have the same list. */
static int list_write(struct mark_code *code, const struct mark_span *spans,
		      const struct map_slot *slot, struct thread_id thread)
{
	uint32_t list = (uint32_t)(slot->key >> LIST_SHIFT), length = slot->key & EXTENT_MASK;
	uint32_t instructions = slot->key >> INSTRUCTIONS_SHIFT & EXTENT_MASK;
	ARRAY(struct piece) pieces = {};
	struct piece piece;
	int err = 0;

	for (uint32_t at = list; at; at = spans[at - 1].next)
		if (piece_make(&spans[at - 1].mark, instructions, length, &piece))
			*array_push(&pieces) = piece;
	if (pieces.count)
		pieces.count = pieces_join(pieces.items, pieces.count);
	for (size_t i = 0; i < pieces.count && !err; i++)
		err = piece_write(code, &spans[list - 1], &pieces.items[i], thread, slot->value);
	array_deinit(&pieces);
	return err;
}

int mark_code_write(struct mark_code *code, const struct mark_span *spans, struct thread_id thread)
{
	int err = 0;

	map_each(&code->executed, slot)
		if (!err && slot->value)
			err = list_write(code, spans, slot, thread);
	map_clear(&code->executed);
	return err;
}
