// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
/*
 * Samples on their way into the profile. Commit number c adds samples that follow from c alone, so
 * that what a profile has to hold after any number of commits is known without it.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "store/profile.h"
#include "store/store.h"
#include "store/store_private.h"

enum {
	STACKS = 4000,
	THREADS = 4,
	ROWS = 3000, /* added by a commit, some of them twice */
	FOLDED = 26, /* commits after which recent has been folded and has rows again */
	KILLS = 24,
	KILL_FIRST = 1000, /* instructions of SQLite's machine before the first kill */
	KILL_STEP = 80000, /* and between two; a fold takes 1.7 million */
};

static char folder[] = "/tmp/assay-recent-test-XXXXXX";
static char path[sizeof(folder) + 16];

static int clean(void **state)
{
	static const char *const suffixes[] = { "", "-wal", "-shm", "-journal" };

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		AUTO(free_ptr) char *name = mem_printf("%s%s", path, suffixes[i]);

		unlink(name);
	}
	return 0;
}

static int folder_make(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/assay.db", folder);
	return 0;
}

static int folder_remove(void **state)
{
	clean(state);
	return rmdir(folder);
}

static void must(int err)
{
	if (err)
		fail_msg("%s", err_text());
}

/* The one number that SQLite itself answers. */
static int64_t ask(const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *statement;
	int64_t answer;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	answer = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return answer;
}

static struct store *create(void)
{
	struct store *store = NULL;

	must(store_create(path, &store));
	must(store_module_put(store, &(struct store_module){ .id.v = 1, .path = "/m" }));
	for (uint32_t i = 1; i <= THREADS; i++) {
		must(store_process_put(store, &(struct store_process){ .id.v = i, .comm = "p" }));
		must(store_thread_put(store,
				      &(struct store_thread){
					      .id.v = i, .process.v = i, .tid = i, .comm = "t" }));
	}
	for (uint32_t i = 1; i <= STACKS; i++) {
		must(store_location_put(store,
					&(struct store_location){ .id = (struct location_id){ i },
								  .module = (struct module_id){ 1 },
								  .address = i }));
		must(store_stack_put(store, &(struct store_stack){ (struct stack_id){ i },
								   (struct stack_id){ 0 },
								   (struct location_id){ i } }));
	}
	return store;
}

/* The nth addition of a commit. */
static struct profile_sample addition(uint32_t commit, uint32_t n)
{
	uint64_t bits = hash64_pair(commit, n);
	uint64_t count = 1 + (bits >> 50) % 3;

	return (struct profile_sample){ .stack = 1 + (uint32_t)bits % STACKS,
					.thread = 1 + (bits >> 40) % THREADS,
					.count = count,
					.kernel = (bits >> 60) % (count + 1) };
}

static void additions_put(struct store *store, uint32_t commit)
{
	for (uint32_t n = 0; n < ROWS; n++) {
		struct profile_sample it = addition(commit, n);

		must(store_samples_add(store, (struct thread_id){ it.thread },
				       (struct stack_id){ it.stack }, it.count, it.kernel));
		must(store_tick_add(store, commit, (struct thread_id){ it.thread }, it.count));
	}
	must(store_metric_set(store, RECORDING_SAMPLES, "commits", "commits", commit));
}

static void commits_run(struct store *store, uint32_t from, uint32_t to)
{
	for (uint32_t commit = from; commit <= to; commit++) {
		additions_put(store, commit);
		must(store_commit(store));
	}
}

static uint64_t kept_after(uint32_t commits)
{
	uint64_t kept = 0;

	for (uint32_t commit = 1; commit <= commits; commit++) {
		for (uint32_t n = 0; n < ROWS; n++)
			kept += addition(commit, n).count;
	}
	return kept;
}

static void assert_samples_are_those_of(const struct profile *p, uint32_t commits)
{
	struct map counts = {}, kernels = {};

	for (uint32_t commit = 1; commit <= commits; commit++) {
		for (uint32_t n = 0; n < ROWS; n++) {
			struct profile_sample it = addition(commit, n);
			uint64_t key = (uint64_t)it.stack << 32 | it.thread;

			*map_at(&counts, key, NULL) += it.count;
			*map_at(&kernels, key, NULL) += it.kernel;
		}
	}
	assert_int_equal(p->sample_count, counts.count);
	for (size_t i = 0; i < p->sample_count; i++) {
		const struct profile_sample *it = &p->samples[i];
		uint64_t key = (uint64_t)it->stack << 32 | it->thread;

		assert_true(i == 0 || it->stack > it[-1].stack ||
			    (it->stack == it[-1].stack && it->thread > it[-1].thread));
		assert_true(*map_at(&counts, key, NULL) == it->count);
		assert_true(*map_at(&kernels, key, NULL) == it->kernel);
	}
	assert_int_equal(p->kept, kept_after(commits));
	map_deinit(&counts);
	map_deinit(&kernels);
}

/* The number of commits in the profile at path, all of which it holds, and nothing else. */
static uint32_t assert_whole(void)
{
	struct profile *p = NULL;
	uint32_t commits;

	must(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p));
	commits = (uint32_t)profile_metric(p, RECORDING_SAMPLES, "commits");
	assert_samples_are_those_of(p, commits);
	profile_destroy(p);
	assert_int_equal(ask("select kept from totals"), kept_after(commits));
	assert_int_equal(ask("select sum(count) from timeline"), kept_after(commits));
	return commits;
}

static void assert_views_add_up_to(uint64_t kept)
{
	static const char *const views[] = { "functions", "lines",   "modules",
					     "processes", "threads", NULL };

	for (size_t i = 0; views[i]; i++) {
		AUTO(free_ptr) char *sql = mem_printf("select sum(self) from %s", views[i]);

		assert_int_equal(ask(sql), kept);
	}
	assert_int_equal(ask("select sum(count) from samples"), kept);
	assert_int_equal(ask("select sum(count) from sample_all"), kept);
}

static void equal_samples_of_a_commit_are_one_row(void **state)
{
	struct store *store = create();

	for (int i = 0; i < 5; i++) {
		must(store_samples_add(store, (struct thread_id){ 1 }, (struct stack_id){ 7 }, 2,
				       1));
		must(store_tick_add(store, 0, (struct thread_id){ 1 }, 2));
	}
	must(store_samples_add(store, (struct thread_id){ 2 }, (struct stack_id){ 7 }, 1, 0));
	must(store_commit(store));
	assert_int_equal(ask("select count(*) from sample"), 0);
	assert_int_equal(ask("select count(*) from recent"), 2);
	assert_int_equal(ask("select count * 100 + kernel from recent where thread = 1"), 1005);
	assert_int_equal(ask("select sum(count) from tick"), 10);
	must(store_commit(store));
	assert_int_equal(ask("select sum(count) from recent"), 11);
	store_destroy(store);
}

static void unfinished_profile_adds_both_tables_up(void **state)
{
	struct store *store = create();

	commits_run(store, 1, FOLDED);
	assert_true(ask("select count(*) from sample") > 0);
	assert_true(ask("select count(*) from sample join recent using (stack, thread)") > 0);
	assert_int_equal(assert_whole(), FOLDED);
	assert_views_add_up_to(kept_after(FOLDED));
	store_destroy(store);
	assert_int_equal(assert_whole(), FOLDED);
}

static void finished_profile_has_nothing_recent(void **state)
{
	struct store *store = create();

	commits_run(store, 1, FOLDED);
	additions_put(store, FOLDED + 1); /* the last ones have no commit of their own */
	must(store_finish(store));
	store_destroy(store);
	assert_int_equal(ask("select count(*) from recent"), 0);
	assert_int_equal(assert_whole(), FOLDED + 1);
	assert_views_add_up_to(kept_after(FOLDED + 1));
	assert_int_equal(ask("select sum(total) from stack_total"), kept_after(FOLDED + 1));
}

static void recent_stays_small(void **state)
{
	struct store *store = create();

	for (uint32_t commit = 1; commit <= 3 * FOLDED; commit++) {
		commits_run(store, commit, commit);
		assert_in_range(ask("select count(*) from recent"), 1, STORE_RECENT_MAX + ROWS);
	}
	assert_int_equal(assert_whole(), 3 * FOLDED);
	store_destroy(store);
}

static void unnamed_locations_count_recent_samples(void **state)
{
	struct store *store = create();
	struct store_unnamed *unnamed = NULL;
	size_t count = 0;
	uint64_t self = 0;

	commits_run(store, 1, 2);
	additions_put(store, 3);
	must(store_unnamed_list(store, &unnamed, &count));
	assert_int_equal(count, STACKS);
	for (size_t i = 0; i < count; i++)
		self += unnamed[i].self;
	free(unnamed);
	assert_int_equal(self, kept_after(3));
	must(store_finish(store));
	store_destroy(store);
	assert_int_equal(assert_whole(), 3);
}

/* Reopening folds; unless that is committed too, nothing has changed. */
static void reopened_profile_is_folded_once(void **state)
{
	struct store *store = create();

	commits_run(store, 1, 3);
	store_destroy(store);
	for (int i = 0; i < 2; i++) {
		must(store_reopen(path, &store));
		store_destroy(store);
		assert_true(ask("select count(*) from recent") > 0);
		assert_int_equal(assert_whole(), 3);
	}
	must(store_reopen(path, &store));
	must(store_commit(store));
	store_destroy(store);
	assert_int_equal(ask("select count(*) from recent"), 0);
	assert_int_equal(assert_whole(), 3);
}

static int64_t synchronous(const struct store *store)
{
	sqlite3_stmt *statement;
	int64_t answer;

	assert_int_equal(sqlite3_prepare_v2(store->db, "pragma synchronous", -1, &statement, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	answer = sqlite3_column_int64(statement, 0);
	sqlite3_finalize(statement);
	return answer;
}

static void pages_limit(struct store *store, int64_t pages)
{
	AUTO(free_ptr) char *sql = mem_printf("pragma max_page_count = %lld", (long long)pages);

	assert_int_equal(sqlite3_exec(store->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static int location_put(struct store *store, uint32_t id)
{
	return store_location_put(store,
				  &(struct store_location){ .id = (struct location_id){ id },
							    .module = (struct module_id){ 1 },
							    .address = id });
}

/* SQLite has rolled back by then, and would commit each row by itself. */
static void row_after_one_that_does_not_fit_is_refused(void **state)
{
	struct store *store = create();
	uint32_t id = STACKS;

	commits_run(store, 1, 1);
	pages_limit(store, ask("pragma page_count"));
	while (!location_put(store, ++id))
		;
	pages_limit(store, 1 << 20);
	assert_int_equal(location_put(store, id + 1), -ENOSPC);
	assert_int_equal(ask("select count(*) from location"), STACKS);
	assert_int_equal(store_commit(store), -ENOSPC);
	assert_non_null(strstr(err_text(), "no space left on the disk"));
	assert_int_equal(location_put(store, STACKS + 1), 0);
	must(store_commit(store));
	assert_int_equal(ask("select count(*) from location"), STACKS + 1);
	store_destroy(store);
}

static void disk_is_waited_for_at_the_end(void **state)
{
	struct store *store = create();

	assert_int_equal(synchronous(store), 1);
	additions_put(store, 1);
	must(store_sync_at_end(store));
	assert_int_equal(assert_whole(), 1); /* what there was is committed */
	assert_int_equal(synchronous(store), 0);
	commits_run(store, 2, 3);
	must(store_finish(store));
	assert_int_equal(synchronous(store), 1);
	store_destroy(store);
	assert_int_equal(assert_whole(), 3);
}

static int die(void *unused)
{
	kill(getpid(), SIGKILL);
	return 0;
}

/*
 * Kills itself so many instructions of SQLite after it began the commit of which the fold is due.
 */
static void writer_run(int instructions)
{
	struct store *store = create();
	uint32_t commit = 1;

	/* Hardly any cache: pages of a fold reach the log long before its commit. */
	sqlite3_exec(store->db, "pragma cache_size = 10", NULL, NULL, NULL);
	for (; sqlite3_last_insert_rowid(store->db) < STORE_RECENT_MAX - ROWS; commit++)
		commits_run(store, commit, commit);
	additions_put(store, commit);
	sqlite3_progress_handler(store->db, instructions, die, NULL);
	must(store_commit(store));
	sqlite3_progress_handler(store->db, 0, NULL, NULL);
	die(NULL);
}

static void writer_kill(int instructions)
{
	int status;
	pid_t writer = fork();

	assert_true(writer >= 0);
	if (writer == 0)
		writer_run(instructions);
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/*
 * From the first row of the commit, over the fold, to the moment when the fold is done and its
 * transaction open.
 */
static void kill_around_a_fold_loses_nothing(void **state)
{
	uint32_t fewest = UINT32_MAX, most = 0;

	for (int i = 0; i < KILLS; i++) {
		struct store *store = NULL;
		uint32_t commits;

		writer_kill(KILL_FIRST + i * KILL_STEP);
		commits = assert_whole();
		assert_int_equal(ask("select count(*) from sample"), 0);
		must(store_reopen(path, &store));
		must(store_finish(store));
		store_destroy(store);
		assert_int_equal(assert_whole(), commits);
		assert_int_equal(ask("select count(*) from recent"), 0);
		fewest = commits < fewest ? commits : fewest;
		most = commits > most ? commits : most;
		clean(state);
	}
	assert_int_equal(most, fewest + 1);
}

static void commit_that_does_not_fit_is_undone(void **state)
{
	struct store *store = create();

	commits_run(store, 1, 2);
	pages_limit(store, ask("pragma page_count"));
	additions_put(store, 3);
	assert_int_equal(store_commit(store), -ENOSPC);
	assert_int_equal(assert_whole(), 2);
	pages_limit(store, 1 << 20);
	commits_run(store, 3, 4);
	assert_int_equal(assert_whole(), 4);
	store_destroy(store);
}

/* The first commit with executed blocks makes their table, which goes with it. */
static void executions_that_do_not_fit_are_undone(void **state)
{
	static struct store_executed executed[1 << 14];
	const struct thread_id thread = { 1 };
	struct store *store = create();

	for (uint32_t i = 0; i < sizeof(executed) / sizeof(*executed); i++)
		executed[i] = (struct store_executed){ { i + 1 }, (uint64_t)i << 32 };
	assert_int_equal(store_commit(store), 0);
	/* Room for the table, not for what is appended. */
	pages_limit(store, ask("pragma page_count") + 4);
	store_executions_add(store, thread, executed, sizeof(executed) / sizeof(*executed));
	assert_int_equal(store_commit(store), -ENOSPC);
	pages_limit(store, 1 << 20);
	assert_int_equal(store_executions_add(store, thread, executed, 3), 0);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(ask("select count(*) from execution_recent"), 1);
	store_destroy(store);
}

static void fold_that_does_not_fit_loses_no_commit(void **state)
{
	struct store *store = create();
	uint32_t commit = 1;
	int err = 0;

	for (; !err; commit++) {
		additions_put(store, commit);
		/* Room for the commit, not for its fold. */
		if (sqlite3_last_insert_rowid(store->db) > STORE_RECENT_MAX - ROWS)
			pages_limit(store, ask("pragma page_count") + 20);
		err = store_commit(store);
	}
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(assert_whole(), commit - 1);
	assert_int_equal(ask("select count(*) from sample"), 0);
	pages_limit(store, 1 << 20);
	commits_run(store, commit, commit + 1);
	assert_true(ask("select count(*) from sample") > 0);
	assert_int_equal(assert_whole(), commit + 1);
	store_destroy(store);
}

static void assert_counts_too_large(void)
{
	struct store *store = NULL;
	struct profile *p = NULL;

	assert_int_equal(store_reopen(path, &store), -EBADMSG);
	assert_non_null(strstr(err_text(), "the counts are too large"));
	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), -EBADMSG);
	assert_non_null(strstr(err_text(), "table recording, row 1: a number is out of range"));
}

static void counts_that_overflow_are_refused(void **state)
{
	struct store *store = create();

	for (int i = 0; i < 2; i++) {
		must(store_samples_add(store, (struct thread_id){ 1 }, (struct stack_id){ 1 },
				       INT64_MAX, 0));
		must(store_commit(store));
	}
	store_destroy(store);
	assert_counts_too_large();
	clean(state);
	store = create();
	must(store_samples_add(store, (struct thread_id){ 1 }, (struct stack_id){ 1 }, INT64_MAX,
			       0));
	must(store_commit(store));
	store_destroy(store);
	must(store_reopen(path, &store));
	must(store_samples_add(store, (struct thread_id){ 1 }, (struct stack_id){ 1 }, 1, 0));
	must(store_commit(store));
	store_destroy(store);
	assert_counts_too_large();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(equal_samples_of_a_commit_are_one_row, clean),
		cmocka_unit_test_setup(unfinished_profile_adds_both_tables_up, clean),
		cmocka_unit_test_setup(finished_profile_has_nothing_recent, clean),
		cmocka_unit_test_setup(recent_stays_small, clean),
		cmocka_unit_test_setup(unnamed_locations_count_recent_samples, clean),
		cmocka_unit_test_setup(reopened_profile_is_folded_once, clean),
		cmocka_unit_test_setup(disk_is_waited_for_at_the_end, clean),
		cmocka_unit_test_setup(kill_around_a_fold_loses_nothing, clean),
		cmocka_unit_test_setup(row_after_one_that_does_not_fit_is_refused, clean),
		cmocka_unit_test_setup(commit_that_does_not_fit_is_undone, clean),
		cmocka_unit_test_setup(executions_that_do_not_fit_are_undone, clean),
		cmocka_unit_test_setup(fold_that_does_not_fit_loses_no_commit, clean),
		cmocka_unit_test_setup(counts_that_overflow_are_refused, clean),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
