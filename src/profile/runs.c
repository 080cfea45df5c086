// SPDX-License-Identifier: BSD-2-Clause
/*
 * For each run: how many blocks it has in common with the beginning of the one before, how many more there are, and those.
 */
#include "profile/runs.h"

#include <errno.h>

#include "base/err.h"

enum {
	KIND_COMMON,
	KIND_MORE,
	ROW_MAX = 1 << 24, /* runs */
	BLOCKS_MAX = 1 << 12, /* of a run */
	GUESS = 4, /* blocks of a run */
	ALL_MAX = 1 << 26, /* runs, and blocks of all of them: few bytes can claim many */
};

static uint32_t common_count(const struct run_blocks *a, const struct run_blocks *b)
{
	uint32_t count = 0;

	while (count < a->count && count < b->count && a->blocks[count] == b->blocks[count])
		count++;
	return count;
}

void runs_encode(struct coder *coder, const struct run_blocks *runs, size_t count)
{
	struct run_blocks before = {};

	coder_forget(coder, count * GUESS);
	coder_write(coder);
	for (size_t i = 0; i < count; i++) {
		uint32_t common = common_count(&before, &runs[i]);

		coder_put_number(coder, KIND_COMMON, common);
		coder_put_number(coder, KIND_MORE, runs[i].count - common);
		for (uint32_t j = common; j < runs[i].count; j++)
			coder_put(coder, runs[i].blocks[j]);
		before = runs[i];
	}
	coder_end(coder);
}

void runs_init(struct runs *runs)
{
	*runs = (struct runs){};
	coder_init(&runs->coder, 1 << 10);
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

static int run_decode(struct runs *runs, size_t common_limit)
{
	uint64_t common, more, begin = runs->blocks.count;
	int err = coder_get_number(&runs->coder, KIND_COMMON, &common);

	err = err ? err : coder_get_number(&runs->coder, KIND_MORE, &more);
	if (err || common > common_limit || more > BLOCKS_MAX || begin > ALL_MAX ||
	    runs->ends.count > ALL_MAX)
		return -EBADMSG;
	array_reserve(&runs->blocks, begin + common + more);
	for (uint64_t i = 0; i < common; i++)
		*array_push(&runs->blocks) = runs->blocks.items[begin - common_limit + i];
	for (uint64_t i = 0; i < more && !err; i++)
		err = coder_get(&runs->coder, array_push(&runs->blocks));
	*array_push(&runs->ends) = runs->blocks.count;
	return err;
}

int runs_add(struct runs *runs, uint64_t first, uint64_t count, const uint8_t *data, size_t size)
{
	size_t limit = 0;
	int err = 0;

	if (first != runs->ends.count || !count || count > ROW_MAX)
		return err_set(-EBADMSG, "runs %llu and following: not in order",
			       (unsigned long long)first);
	coder_forget(&runs->coder, count * GUESS);
	coder_read(&runs->coder, data, size);
	for (uint64_t i = 0; i < count && !err; i++) {
		size_t begin = runs->blocks.count;

		err = run_decode(runs, limit);
		limit = runs->blocks.count - begin;
		if (limit > BLOCKS_MAX)
			err = -EBADMSG;
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
