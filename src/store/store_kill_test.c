// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1, S2.
/* Writers that are killed at any moment, or that run into a full disk: what was committed stays. */
#include "store/store_test.h"

enum { SEED = 20, KILLS = 50, ENDLESS = 1 << 30 };

/* Batch n: the nth location and stack, n samples, one lost one. */
static int batch_put(struct store *store, uint32_t n)
{
	char filler[512];
	int err;

	memset(filler, 'x', sizeof(filler) - 1);
	filler[sizeof(filler) - 1] = '\0';
	if ((err = store_location_put(store,
				      &(struct store_location){ .id = (struct location_id){ n },
								.module = (struct module_id){ 1 },
								.address = n })) ||
	    (err = store_stack_put(store, &(struct store_stack){ (struct stack_id){ n },
								 (struct stack_id){ n - 1 },
								 (struct location_id){ n } })) ||
	    (err = store_samples_add(store, thread_1, (struct stack_id){ n }, n, 0)) ||
	    (err = store_loss_set(store, RECORDING_SAMPLES, "nested", "nested", n)) ||
	    (err = store_fact_add(store, RECORDING_SAMPLES, "filler", filler)))
		return err;
	return store_file_put(store, &(struct store_file){ (struct file_id){ n }, filler });
}

/* Commits batches, telling the pipe after each, and finishes. */
static void writer_run(uint32_t batches, int acks)
{
	struct store *store = NULL;

	if (store_create(path, &store))
		_exit(1);
	identities_put(store);
	for (uint32_t n = 1; n <= batches; n++) {
		if (batch_put(store, n) || store_commit(store) ||
		    write(acks, &n, sizeof(n)) != sizeof(n))
			_exit(1);
	}
	if (store_finish(store))
		_exit(1);
	store_destroy(store);
	_exit(0);
}

static void assert_holds_batches(uint32_t at_least, uint32_t at_most)
{
	struct profile *p = load(path);
	uint32_t n = (uint32_t)p->stack_count - 1;

	assert_in_range(n, at_least, at_most);
	assert_true(p->location_count == n + 1 && p->file_count == n + 1 && p->sample_count == n);
	assert_int_equal(p->kept, (uint64_t)n * (n + 1) / 2);
	assert_int_equal(p->loss_count, n > 0);
	assert_true(n == 0 || p->losses[0].count == n);
	profile_destroy(p);
}

/*
 * Kills the writer after the ack of that batch and some microseconds more; the last batch it
 * acknowledged.
 */
static uint32_t writer_kill(uint32_t batches, uint32_t after, useconds_t delay)
{
	uint32_t acknowledged = 0, n;
	int acks[2], status;
	pid_t writer;

	assert_int_equal(pipe(acks), 0);
	writer = fork();
	assert_true(writer >= 0);
	if (writer == 0) {
		close(acks[0]);
		writer_run(batches, acks[1]);
	}
	close(acks[1]);
	while (acknowledged < after && read(acks[0], &n, sizeof(n)) == sizeof(n))
		acknowledged = n;
	usleep(delay);
	kill(writer, SIGKILL);
	while (read(acks[0], &n, sizeof(n)) == sizeof(n))
		acknowledged = n;
	close(acks[0]);
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return acknowledged;
}

static void completed_holds_batches(uint32_t at_least, uint32_t at_most)
{
	struct store *store = NULL;
	int err = store_reopen(path, &store);

	if (err == -EALREADY)
		return;
	assert_int_equal(err, 0);
	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
	assert_false(is_there("-wal") || is_there("-shm") || is_there("-journal"));
	assert_int_equal(others_count(), 0);
	assert_holds_batches(at_least, at_most);
	assert_answer("pragma integrity_check", "ok");
}

static void killed_writer_loses_no_commit(void **state)
{
	srandom(SEED);
	for (int i = 0; i < KILLS; i++) {
		uint32_t after = 1 + (uint32_t)random() % 100;
		uint32_t acknowledged = writer_kill(ENDLESS, after, (useconds_t)random() % 2000);

		assert_true(acknowledged >= after);
		assert_holds_batches(acknowledged, acknowledged + 1);
		completed_holds_batches(acknowledged, acknowledged + 1);
		files_remove();
	}
}

static void killed_while_finishing_loses_nothing(void **state)
{
	srandom(SEED);
	for (int i = 0; i < KILLS; i++) {
		assert_int_equal(writer_kill(20, 20, (useconds_t)random() % 3000), 20);
		assert_holds_batches(20, 20);
		completed_holds_batches(20, 20);
		files_remove();
	}
}

/*
 * Killed anywhere from its first instruction on: nothing or a profile, and the next recording
 * starts.
 */
static void killed_creator_blocks_nothing(void **state)
{
	srandom(SEED);
	for (int i = 0; i < KILLS; i++) {
		writer_kill(ENDLESS, 0, (useconds_t)random() % 4000);
		if (is_there(""))
			profile_destroy(load(path));
	}
	full_profile_write();
	assert_false(is_there("-new"));
}

/* What a killed writer left in its log comes along when the profile is kept. */
static void log_of_a_killed_writer_is_kept(void **state)
{
	uint32_t acknowledged = writer_kill(ENDLESS, 10, 0);
	struct profile *p;

	full_profile_write();
	p = load(old_path);
	assert_in_range(p->stack_count - 1, acknowledged, acknowledged + 1);
	profile_destroy(p);
	assert_false(is_there(".old-wal") || is_there(".old-shm"));
	assert_int_equal(others_count(), 0);
}

static void stuck_writer_run(void)
{
	const struct rlimit limit = { 400000, 400000 };
	struct store *store = NULL;
	int err = 0;

	signal(SIGXFSZ, SIG_IGN);
	if (setrlimit(RLIMIT_FSIZE, &limit) || store_create(path, &store))
		_exit(1);
	identities_put(store);
	for (uint32_t n = 1; n < 100000 && !err; n++) {
		if (!(err = batch_put(store, n)))
			err = store_commit(store);
	}
	if (!err || !strstr(err_text(), path))
		_exit(2);
	store_destroy(store);
	_exit(0);
}

static void file_that_cannot_grow_keeps_what_was_committed(void **state)
{
	int status;
	pid_t writer = fork();

	assert_true(writer >= 0);
	if (writer == 0)
		stuck_writer_run();
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_holds_batches(5, 100000);
}

/* A transaction of which a row is missing is not committed, and the next one is as good as any. */
static void full_disk_undoes_the_whole_transaction(void **state)
{
	struct store *store = create();
	int err = 0;

	identities_put(store);
	assert_int_equal(batch_put(store, 1), 0);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(sqlite3_exec(store->db, "pragma max_page_count = 30", NULL, NULL, NULL),
			 SQLITE_OK);
	for (uint32_t n = 2; n < 1000 && !err; n++)
		err = batch_put(store, n);
	assert_int_equal(err, -ENOSPC);
	assert_non_null(strstr(err_text(), "no space left"));
	assert_int_equal(store_commit(store), -ENOSPC);
	assert_non_null(strstr(err_text(), "no space left"));
	assert_holds_batches(1, 1);
	assert_int_equal(batch_put(store, 2), 0);
	assert_int_equal(store_commit(store), 0);
	assert_holds_batches(2, 2);
	store_destroy(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(killed_writer_loses_no_commit, clean),
		cmocka_unit_test_setup(killed_while_finishing_loses_nothing, clean),
		cmocka_unit_test_setup(killed_creator_blocks_nothing, clean),
		cmocka_unit_test_setup(log_of_a_killed_writer_is_kept, clean),
		cmocka_unit_test_setup(full_disk_undoes_the_whole_transaction, clean),
		cmocka_unit_test_setup(file_that_cannot_grow_keeps_what_was_committed, clean),
		SHARED(killed_writer_loses_no_commit),
		SHARED(killed_while_finishing_loses_nothing),
		SHARED(log_of_a_killed_writer_is_kept),
		SHARED(full_disk_undoes_the_whole_transaction),
	};

	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
