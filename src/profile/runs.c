// SPDX-License-Identifier: BSD-2-Clause
/*
 * Nearly every run is the one before and one block more: the engine makes fragments, and all beginnings of a fragment are runs. So a
 * run is the block that it has more, or, where a fragment begins, a 0 and its only block. Anything else is told by a 1, how many blocks it
 * has in common with the beginning of the one before, how many more there are, and those. Blocks are coded with 1 added.
 *
 * A row begins as if an empty run were before it. The model is kept from row to row.
 */
#include "profile/runs.h"

#include <errno.h>

#include "base/err.h"

enum {
	KIND_COMMON = 1,
	KIND_MORE,
	SYMBOL_BEGIN = 0,
	SYMBOL_OTHER = 1,
	ROW_MAX = 1 << 24, /* runs */
	BLOCKS_MAX = 1 << 12, /* of a run */
	ALL_MAX = 1 << 26, /* runs, and blocks of all of them: few bytes can claim many */
};

static uint32_t common_count(const struct run_blocks *a, const struct run_blocks *b)
{
	uint32_t count = 0;

	while (count < a->count && count < b->count && a->blocks[count] == b->blocks[count])
		count++;
	return count;
}

static void run_encode(struct coder *coder, const struct run_blocks *before,
		       const struct run_blocks *run)
{
	uint32_t common = common_count(before, run);

	if (!common && before->count && run->count == 1) {
		coder_put(coder, SYMBOL_BEGIN);
	} else if (common < before->count || run->count != common + 1) {
		coder_put(coder, SYMBOL_OTHER);
		coder_put_number(coder, KIND_COMMON, common);
		coder_put_number(coder, KIND_MORE, run->count - common);
	}
	for (uint32_t i = common; i < run->count; i++)
		coder_put(coder, run->blocks[i] + 1);
}

void runs_encode(struct coder *coder, const struct run_blocks *runs, size_t count)
{
	struct run_blocks before = {};

	coder_write(coder);
	for (size_t i = 0; i < count; i++) {
		run_encode(coder, &before, &runs[i]);
		before = runs[i];
	}
	coder_end(coder);
}

void runs_init(struct runs *runs)
{
	*runs = (struct runs){};
	coder_init(&runs->coder, RUNS_EXPECTED);
	*array_push(&runs->ends) = 0;
}

void runs_deinit(struct runs *runs)
{
	coder_deinit(&runs->coder);
	array_deinit(&runs->blocks);
	array_deinit(&runs->ends);
}

void runs_end(struct runs *runs)
{
	coder_deinit(&runs->coder);
}

/* How many blocks the run shares with the one before, and how many more it has; *ret_first: of these, what was read already, or 0. */
static int shape_decode(struct coder *coder, size_t before, uint64_t *ret_common,
			uint64_t *ret_more, uint32_t *ret_first)
{
	uint32_t symbol;
	int err = coder_get(coder, &symbol);

	if (err)
		return err;
	*ret_common = symbol == SYMBOL_BEGIN ? 0 : before;
	*ret_more = 1;
	*ret_first = symbol > SYMBOL_OTHER ? symbol : 0;
	if (symbol != SYMBOL_OTHER)
		return 0;
	err = coder_get_number(coder, KIND_COMMON, ret_common);
	return err ? err : coder_get_number(coder, KIND_MORE, ret_more);
}

/* Anything that was coded with 1 added. */
static int block_decode(struct coder *coder, uint32_t first, uint32_t *ret)
{
	int err = first ? 0 : coder_get(coder, &first);

	if (err || first <= SYMBOL_OTHER)
		return -EBADMSG;
	*ret = first - 1;
	return 0;
}

/* before: blocks of the run before, the last in the array. */
static int run_decode(struct runs *runs, size_t before)
{
	uint64_t common, more, begin = runs->blocks.count;
	uint32_t first;
	int err = shape_decode(&runs->coder, before, &common, &more, &first);

	if (err || common > before || more > BLOCKS_MAX - common || begin > ALL_MAX ||
	    runs->ends.count > ALL_MAX)
		return -EBADMSG;
	array_reserve(&runs->blocks, begin + common + more);
	for (uint64_t i = 0; i < common; i++)
		*array_push(&runs->blocks) = runs->blocks.items[begin - before + i];
	for (uint64_t i = 0; i < more && !err; i++)
		err = block_decode(&runs->coder, i ? 0 : first, array_push(&runs->blocks));
	*array_push(&runs->ends) = runs->blocks.count;
	return err;
}

int runs_add(struct runs *runs, uint64_t first, uint64_t count, const uint8_t *data, size_t size)
{
	size_t before = 0;
	int err = 0;

	if (first != runs->ends.count || !count || count > ROW_MAX)
		return err_set(-EBADMSG, "runs %llu and following: not in order",
			       (unsigned long long)first);
	coder_read(&runs->coder, data, size);
	for (uint64_t i = 0; i < count && !err; i++) {
		size_t begin = runs->blocks.count;

		err = run_decode(runs, before);
		before = runs->blocks.count - begin;
	}
	return err ? err_set(-EBADMSG, "runs %llu and following: corrupt",
			     (unsigned long long)first)
		   : 0;
}

int runs_inherit(struct runs *runs, const struct runs *parent, uint64_t below)
{
	if (runs->ends.count != 1 || below > parent->ends.count || !below)
		return err_set(-EBADMSG, "inherited runs below %llu: not there",
			       (unsigned long long)below);
	for (uint64_t i = 1; i < below; i++)
		*array_push(&runs->ends) = parent->ends.items[i];
	array_reserve(&runs->blocks, parent->ends.items[below - 1]);
	for (uint64_t i = 0; i < parent->ends.items[below - 1]; i++)
		*array_push(&runs->blocks) = parent->blocks.items[i];
	return 0;
}

size_t runs_at(const struct runs *runs, uint64_t run, const uint32_t **ret)
{
	uint64_t begin;

	if (!run || run >= runs->ends.count)
		return 0;
	begin = runs->ends.items[run - 1];
	if (runs->ends.items[run] == begin)
		return 0;
	*ret = runs->blocks.items + begin;
	return runs->ends.items[run] - begin;
}
