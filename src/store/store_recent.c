// SPDX-License-Identifier: BSD-2-Clause
/*
 * Samples on their way into the profile: counted in memory, appended at a commit, folded in when
 * there are many.
 *
 * The stacks sampled in half a second lie scattered over the keys of `sample`. Adding to their rows
 * at each commit would write a page for nearly every one of them. So a sample takes three steps:
 *
 *	pending		in memory, since the last commit; equal ones are counted together
 *	recent		a table without a key, to which a commit appends what is pending
 *	sample		the table by stack and thread, to which the rows of recent are added in the
 *			order of its key, so that each page is written once; recent is then empty
 *
 * docs/design/store.md has the numbers. A tick goes straight from pending to its table, whose key
 * grows with time.
 *
 * Invariants
 * 1. A sample that was committed is in recent or in sample, never in both: a fold is part of one
 *    transaction.
 * 2. A fold begins a transaction, it never ends one. Samples are so on disk before their fold
 *    starts, and a kill in the middle of it loses the fold only.
 * 3. Outside a transaction recent has less than STORE_RECENT_MAX rows more than one commit brings;
 *    once the profile is finished it has none.
 * 4. The rowids of recent start from 1 again after each fold, so the last one is their number.
 */
#include <assert.h>
#include <errno.h>

#include "base/err.h"
#include "store/container.h"
#include "store/store_private.h"

int store_samples_add(struct store *store, struct thread_id thread, struct stack_id stack,
		      uint64_t count, uint64_t kernel)
{
	struct store_pending *pending = &store->pending;
	struct store_pending_samples *samples;
	uint64_t *at;
	bool new;

	assert(thread.v && stack.v && kernel <= count);
	at = map_at(&pending->by_key, (uint64_t)stack.v << 32 | thread.v, &new);
	if (new) {
		*at = pending->samples.count;
		*array_push(&pending->samples) =
			(struct store_pending_samples){ .thread = thread, .stack = stack };
	}
	samples = &pending->samples.items[*at];
	samples->count += count;
	samples->kernel += kernel;
	return 0;
}

int store_tick_add(struct store *store, uint32_t second, struct thread_id thread, uint64_t count)
{
	assert(thread.v);
	*map_at(&store->pending.ticks, (uint64_t)second << 32 | thread.v, NULL) += count;
	return 0;
}

void store_pending_clear(struct store *store)
{
	map_clear(&store->pending.by_key);
	map_clear(&store->pending.ticks);
	store->pending.samples.count = 0;
}

void store_pending_deinit(struct store *store)
{
	map_deinit(&store->pending.by_key);
	map_deinit(&store->pending.ticks);
	array_deinit(&store->pending.samples);
}

static int pending_rows_write(struct store *store)
{
	int err;

	array_each(&store->pending.samples, it) {
		err = store_numbers_write(store, STATEMENT_RECENT_ADD, 4,
					  (uint64_t[]){ it->thread.v, it->stack.v, it->count,
							it->kernel });
		if (err)
			return err;
	}
	map_each(&store->pending.ticks, slot) {
		err = store_numbers_write(store, STATEMENT_TICK_ADD, 3,
					  (uint64_t[]){ slot->key >> 32, (uint32_t)slot->key,
							slot->value });
		if (err)
			return err;
	}
	return 0;
}

int store_pending_write(struct store *store)
{
	int err = store->failed ? 0 : pending_rows_write(store);

	store_pending_clear(store);
	return err;
}

/* Of SQLite's errors these two say that a sum does not fit: the counts are not ours. */
static int fold_error(struct store *store)
{
	int code = sqlite3_errcode(store->db) & 0xff;

	if (code == SQLITE_ERROR || code == SQLITE_CONSTRAINT)
		return store_fail(store,
				  err_set(-EBADMSG,
					  "%s: corrupt: the counts are too large; record again",
					  store->path));
	return store_fail(store,
			  container_error(store->db, store->path, "add the recent samples up"));
}

int store_recent_fold(struct store *store)
{
	static const enum store_statement steps[] = { STATEMENT_RECENT_FOLD,
						      STATEMENT_RECENT_CLEAR };

	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		sqlite3_stmt *step = store->statements[steps[i]];
		int rc = sqlite3_step(step);

		if (rc != SQLITE_DONE) {
			int err = fold_error(store);

			sqlite3_reset(step);
			return err;
		}
		sqlite3_reset(step);
	}
	return 0;
}

int store_recent_limit(struct store *store)
{
	sqlite3_stmt *last = store->statements[STATEMENT_RECENT_LAST];
	bool many = false;
	int rc = sqlite3_step(last);

	if (rc == SQLITE_ROW)
		many = sqlite3_column_int64(last, 0) >= STORE_RECENT_MAX;
	sqlite3_reset(last);
	if (rc != SQLITE_ROW)
		return container_error(store->db, store->path, "count the recent samples");
	return many ? store_recent_fold(store) : 0;
}
