// SPDX-License-Identifier: BSD-2-Clause
/*
 * Samples on their way into the profile: counted in memory, appended at a commit, folded in when
 * there are many.
 *
 *	in	samples by stack and thread, as the sink counts them
 *	out	rows of three tables, in the transaction of the commit
 *	owner	the store
 *
 * The stacks sampled in half a second lie scattered over the keys of `sample`. Adding to their rows
 * at each commit would write a page for nearly every one of them. So a sample takes three steps:
 *
 *	pending		in memory, since the last commit; equal ones are counted together
 *	recent		a table without a key, to which a commit appends what is pending
 *	sample		the table by stack and thread, to which the rows of recent are added in the
 *			order of its key, so that each page is written once; recent is then empty
 *
 * docs/design/store.md has the numbers. Ticks and moments go straight from pending to their tables,
 * whose keys grow with time.
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

int store_moment_add(struct store *store, uint32_t second, struct thread_id thread,
		     struct stack_id stack, uint64_t count, uint64_t kernel)
{
	struct store_pending *pending = &store->pending;
	const uint64_t *samples = map_find(&pending->by_key, (uint64_t)stack.v << 32 | thread.v);
	struct store_pending_moment *moment;
	uint64_t *at;
	bool new;

	assert(samples && kernel <= count);
	at = map_at(&pending->by_moment, (uint64_t)second << 32 | *samples, &new);
	if (new) {
		*at = pending->moments.count;
		*array_push(&pending->moments) =
			(struct store_pending_moment){ .second = second,
						       .samples = (uint32_t)*samples };
	}
	moment = &pending->moments.items[*at];
	moment->count += count;
	moment->kernel += kernel;
	return 0;
}

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

int store_cpu_tick_add(struct store *store, uint32_t second, uint32_t cpu, uint64_t count)
{
	*map_at(&store->pending.cpu_ticks, (uint64_t)second << 32 | cpu, NULL) += count;
	return 0;
}

void store_pending_clear(struct store *store)
{
	map_clear(&store->pending.by_key);
	map_clear(&store->pending.ticks);
	map_clear(&store->pending.by_moment);
	map_clear(&store->pending.cpu_ticks);
	store->pending.samples.count = 0;
	store->pending.moments.count = 0;
}

void store_pending_deinit(struct store *store)
{
	map_deinit(&store->pending.by_key);
	map_deinit(&store->pending.ticks);
	map_deinit(&store->pending.by_moment);
	map_deinit(&store->pending.cpu_ticks);
	array_deinit(&store->pending.samples);
	array_deinit(&store->pending.moments);
}

static int pending_samples_write(struct store *store)
{
	struct store_recording *recording;
	int err = 0;

	if (!store->pending.samples.count)
		return 0;
	recording = store_recording(store, RECORDING_SAMPLES);
	array_each(&store->pending.samples, it) {
		err = store_recent_put(store, &(struct store_recent){ .recording = recording->id,
								      .stack = it->stack,
								      .thread = it->thread,
								      .count = it->count,
								      .kernel = it->kernel });
		if (err)
			return err;
		recording->kept += it->count;
	}
	return 0;
}

static int pending_ticks_write(struct store *store)
{
	int err = 0;

	map_each(&store->pending.ticks, slot) {
		err = store_add(store, STORE_TABLE_tick,
				&(struct store_tick){ .second = (uint32_t)(slot->key >> 32),
						      .thread.v = (uint32_t)slot->key,
						      .count = slot->value });
		if (err)
			return err;
	}
	return 0;
}

static int pending_cpu_ticks_write(struct store *store)
{
	int err = 0;

	map_each(&store->pending.cpu_ticks, slot) {
		err = store_add(store, STORE_TABLE_cpu_tick,
				&(struct store_cpu_tick){ .second = (uint32_t)(slot->key >> 32),
							  .cpu = (uint32_t)slot->key,
							  .count = slot->value });
		if (err)
			return err;
	}
	return 0;
}

/* Only the last STORE_MOMENTS_KEPT seconds stay. */
static int moments_forget(struct store *store, uint32_t newest)
{
	sqlite3_stmt *forget = store->statements[STATEMENT_MOMENT_FORGET];
	int rc;

	if (newest <= store->pending.newest)
		return 0;
	store->pending.newest = newest;
	if (newest < STORE_MOMENTS_KEPT)
		return 0;
	sqlite3_bind_int64(forget, 1, store_recording(store, RECORDING_SAMPLES)->id.v);
	sqlite3_bind_int64(forget, 2, newest - STORE_MOMENTS_KEPT);
	rc = sqlite3_step(forget);
	sqlite3_reset(forget);
	return rc == SQLITE_DONE
		       ? 0
		       : store_fail(store, container_error(store->db, store->path,
							   "forget when samples were taken"));
}

/* Its key begins with the time: what is added lies at the end of the table, and close together. */
static int pending_moments_write(struct store *store)
{
	uint32_t newest = 0;
	int err = 0;

	array_each(&store->pending.moments, it) {
		const struct store_pending_samples *samples =
			&store->pending.samples.items[it->samples];

		err = store_add(store, STORE_TABLE_moment,
				&(struct store_moment){ .second = it->second,
							.stack = samples->stack,
							.thread = samples->thread,
							.count = it->count,
							.kernel = it->kernel });
		if (err)
			return err;
		newest = it->second > newest ? it->second : newest;
	}
	return moments_forget(store, newest);
}

int store_pending_write(struct store *store)
{
	int err = store->failed ? 0 : pending_samples_write(store);

	err = err || store->failed ? err : pending_ticks_write(store);
	err = err || store->failed ? err : pending_moments_write(store);
	err = err || store->failed ? err : pending_cpu_ticks_write(store);

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
