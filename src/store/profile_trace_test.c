// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1, W2.
/* Executed code, written and read back; and files that say what cannot be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/err.h"
#include "store/profile.h"

static char folder[] = "/tmp/assay-trace-test-XXXXXX";
static char path[sizeof(folder) + 16];

static int folder_make(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/assay.db", folder);
	return 0;
}

static int folder_remove(void **state)
{
	unlink(path);
	return rmdir(folder);
}

static void executed_add(struct store *store, uint32_t block, uint32_t thread, uint64_t count)
{
	assert_int_equal(store_executions_add(store, (struct thread_id){ thread },
					      &(struct store_executed){ { block }, count }, 1),
			 0);
}

static void rows_write(struct store *store)
{
	struct file_id file, same;

	store_process_put(store, &(struct store_process){ .id = { 1 }, .pid = 7, .comm = "p" });
	for (uint32_t i = 1; i <= 2; i++)
		store_thread_put(
			store, &(struct store_thread){
				       .id = { i }, .process = { 1 }, .tid = 6 + i, .comm = "t" });
	store_module_put(store, &(struct store_module){ .id = { 1 }, .path = "/bin/p" });
	for (uint32_t i = 1; i <= 3; i++)
		store_location_put(store,
				   &(struct store_location){ .id = (struct location_id){ i },
							     .module = (struct module_id){ 1 },
							     .address = 16 * i });
	store_block_put(store, &(struct store_block){ { 1 }, { 1 }, 20, 5 });
	store_block_put(store, &(struct store_block){ { 2 }, { 3 }, 4, 1 });
	store_block_part_put(store, &(struct store_block_part){ { 1 }, 0, { 1 }, 3 });
	store_block_part_put(store, &(struct store_block_part){ { 1 }, 1, { 2 }, 2 });
	store_block_part_put(store, &(struct store_block_part){ { 2 }, 0, { 3 }, 1 });
	executed_add(store, 1, 1, 100);
	executed_add(store, 1, 2, 10);
	executed_add(store, 1, 1, 1);
	executed_add(store, 2, 2, 3);
	store_thread_segments_add(store, (struct thread_id){ 1 }, 40, 2);
	store_thread_segments_add(store, (struct thread_id){ 1 }, 1, 0);
	store_loss_set(store, RECORDING_EXECUTED, "unknown_run", "runs", 2);
	store_seen_set(store, RECORDING_EXECUTED, 43);
	assert_int_equal(store_file_find(store, "a.c", &file), 0);
	assert_int_equal(store_file_find(store, "a.c", &same), 0);
	assert_int_equal(file.v, same.v);
	store_source_line_put(store, &(struct store_source_line){ file, 8, { 1 }, 101 });
	store_source_line_put(store, &(struct store_source_line){ file, 9, { 1 }, 0 });
}

static void order_write(struct store *store)
{
	const struct process_id process = { 1 };
	struct store_path_table paths = {
		.process = process, .first = 1, .count = 2, .data = "ab", .size = 2
	};
	struct store_flow flow = { .thread = { 1 },
				   .instructions = 10,
				   .blocks = 5,
				   .paths = 4,
				   .repeats = 3,
				   .strata = 2,
				   .stratum_start = 1,
				   .data = "row",
				   .size = 3 };

	store_path_table_put(store, &paths);
	paths.first = 3;
	store_path_table_put(store, &paths);
	store_flow_put(store, &flow);
	flow.row = 1;
	flow.instructions = 20;
	store_flow_put(store, &flow);
	for (unsigned level = 0; level < 2; level++)
		store_cycle_table_put(store, &(struct store_cycle_table){ .process = process,
									  .level = level,
									  .first = 7,
									  .count = 2,
									  .data = "cycles",
									  .size = 6 });
	store_layer_put(store, &(struct store_layer){ .thread = { 1 }, .symbols = 5, .cut = 1 });
	store_rare_cycle_put(store, &(struct store_rare_cycle){ process, 1, 3, 4, 5 });
}

static int profile_make(void **state)
{
	struct store *store;

	unlink(path);
	assert_int_equal(store_create(path, &store), 0);
	rows_write(store);
	order_write(store);
	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
	return 0;
}

static void what_was_written_is_read(void **state)
{
	struct profile *p;

	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), 0);
	assert_int_equal(p->block_count, 3);
	assert_int_equal(p->blocks[1].length, 20);
	assert_int_equal(p->blocks[1].part_count, 2);
	assert_int_equal(p->block_parts[p->blocks[1].first_part + 1].location, 2);
	assert_int_equal(p->block_parts[p->blocks[1].first_part + 1].instructions, 2);
	assert_int_equal(p->execution_count, 3);
	assert_int_equal(p->executions[0].count, 101);
	assert_int_equal(p->executions[2].thread, 2);
	assert_int_equal(p->thread_segments_count, 1);
	assert_int_equal(p->thread_segments[0].segments, 41);
	assert_int_equal(p->thread_segments[0].lost, 2);
	assert_int_equal(p->kept, 41);
	assert_int_equal(p->seen, 43);
	assert_int_equal(p->source_line_count, 2);
	assert_string_equal(p->files[p->source_lines[1].file].path, "a.c");
	assert_int_equal(p->source_lines[0].count, 101);
	profile_destroy(p);
}

static void the_order_is_read_when_asked_for(void **state)
{
	struct profile *p;

	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), 0);
	assert_int_equal(p->flow_count + p->cycle_table_count + p->path_table_count, 0);
	profile_destroy(p);
	assert_int_equal(profile_load(path, DOMAIN_ALL, &p), 0);
	assert_int_equal(p->path_table_count, 2);
	assert_int_equal(p->path_tables[1].first, 3);
	assert_memory_equal(p->path_tables[1].data, "ab", 2);
	assert_int_equal(p->flow_count, 2);
	assert_int_equal(p->flows[1].instructions, 20);
	assert_int_equal(p->flows[1].stratum_start, 1);
	assert_memory_equal(p->flows[0].data, "row", 3);
	assert_int_equal(p->cycle_table_count, 2);
	assert_int_equal(p->cycle_tables[1].level, 1);
	assert_int_equal(p->cycle_tables[1].first, 7);
	assert_int_equal(p->cycle_tables[1].count, 2);
	assert_int_equal(p->cycle_tables[1].size, 6);
	assert_memory_equal(p->cycle_tables[1].data, "cycles", 6);
	assert_int_equal(p->layers[0].cut, 1);
	assert_int_equal(p->rare_cycles[0].weight, 5);
	profile_destroy(p);
}

static void wrong_rows_are_refused(void **state)
{
	static const char *const wrongs[] = {
		"update block set location = 99 where id = 2",
		"update block set instructions = 1000000 where id = 2",
		"delete from block where id = 1",
		"update block_part set part = 2 where block = 1 and part = 1",
		"update block_part set instructions = 9 where block = 1 and part = 1",
		"update block_part set location = 0 where block = 2",
		"update execution set thread = 3 where block = 2",
		"update execution set block = 3 where block = 2",
		"update execution set count = -1 where block = 2",
		"update execution set count = 9000000000000000000",
		"update thread_segments set thread = 5",
		"update thread_segments set segments = -3",
		"update source_line set file = 2 where line = 9",
		"update source_line set module = 2 where line = 9",
		"update source_line set line = -1 where line = 9",
		"update path_table set count = -1",
		"update path_table set process = 2 where first = 3",
		"update flow set row = 2 where row = 1",
		"update flow set instructions = 5 where row = 1",
		"update flow set stratum_start = 4 where row = 1",
		"update flow set thread = 3",
		"update flow set instructions = 9223372036854775807, blocks = -1 where row = 1",
		"update cycle_table set level = 64 where level = 1",
		"update cycle_table set first = -1 where level = 1",
		"update cycle_table set count = -1 where level = 1",
		"update cycle_table set process = 2",
		"update layer set thread = 9",
		"update layer set symbols = -1",
		"update rare_cycle set level = -1",
	};

	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		struct profile *p;
		sqlite3 *db;

		profile_make(state);
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, wrongs[i], NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
		if (profile_load(path, DOMAIN_ALL, &p) != -EBADMSG)
			fail_msg("believed: %s", wrongs[i]);
	}
}

/* As a recorder leaves it that is killed. */
static int unfinished_make(void **state)
{
	struct store *store;

	unlink(path);
	assert_int_equal(store_create(path, &store), 0);
	rows_write(store);
	assert_int_equal(store_commit(store), 0);
	store_destroy(store);
	return 0;
}

static bool has_table(const char *name)
{
	sqlite3_stmt *find;
	sqlite3 *db;
	bool found;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "select 1 from sqlite_schema where name = ?", -1,
					    &find, NULL),
			 SQLITE_OK);
	sqlite3_bind_text(find, 1, name, -1, SQLITE_STATIC);
	found = sqlite3_step(find) == SQLITE_ROW;
	sqlite3_finalize(find);
	sqlite3_close(db);
	return found;
}

static void executions_assert(void)
{
	struct profile *p;

	assert_int_equal(profile_load(path, DOMAIN_EXECUTED, &p), 0);
	assert_int_equal(p->execution_count, 3);
	assert_int_equal(p->executions[0].block, 1);
	assert_int_equal(p->executions[0].thread, 1);
	assert_int_equal(p->executions[0].count, 101);
	assert_int_equal(p->executions[1].count, 10);
	assert_int_equal(p->executions[2].block, 2);
	assert_int_equal(p->executions[2].count, 3);
	profile_destroy(p);
}

static void what_was_committed_is_read_and_folded(void **state)
{
	struct store *store;

	assert_true(has_table("execution_recent"));
	executions_assert();
	assert_int_equal(store_reopen(path, &store), 0);
	assert_int_equal(store_commit(store), 0);
	executions_assert();
	executed_add(store, 2, 2, -1);
	executed_add(store, 2, 2, 1);
	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
	assert_false(has_table("execution_recent"));
	executions_assert();
}

enum { MANY_BLOCKS = 1000, MANY_THREADS = 3 };

/* Of each thread every block that its number divides, in two parts. */
static void many_write(struct store *store)
{
	struct store_executed executed[MANY_BLOCKS];

	for (uint32_t i = 3; i <= MANY_BLOCKS; i++)
		store_block_put(store, &(struct store_block){ { i }, { 3 }, 4, 1 });
	for (uint32_t thread = 3; thread <= MANY_THREADS; thread++)
		store_thread_put(store, &(struct store_thread){ .id = { thread },
								.process = { 1 },
								.tid = 6 + thread,
								.comm = "t" });
	for (uint32_t i = 0; i < 2 * MANY_THREADS; i++) {
		uint32_t thread = i % MANY_THREADS + 1;
		size_t count = 0;

		for (uint32_t block = thread; block <= MANY_BLOCKS; block += thread)
			executed[count++] =
				(struct store_executed){ { block }, (uint64_t)block << i * 7 };
		assert_int_equal(store_executions_add(store, (struct thread_id){ thread }, executed,
						      count),
				 0);
	}
}

static void many_are_merged_in_order(void **state)
{
	struct store *store;
	struct profile *p;
	size_t count = 0;

	unlink(path);
	assert_int_equal(store_create(path, &store), 0);
	rows_write(store);
	assert_int_equal(store_commit(store), 0);
	many_write(store);
	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
	assert_int_equal(profile_load(path, DOMAIN_EXECUTED, &p), 0);
	for (uint32_t block = 1; block <= MANY_BLOCKS; block++)
		for (uint32_t thread = 1; thread <= MANY_THREADS; thread++) {
			const struct profile_execution *row = &p->executions[count];
			uint64_t first = (uint64_t)block << (thread - 1) * 7;

			if (block % thread && (block != 1 || thread != 2))
				continue;
			assert_int_equal(row->block, block);
			assert_int_equal(row->thread, thread);
			if (block > 2) /* of the others there was something before */
				assert_int_equal(row->count, first + (first << MANY_THREADS * 7));
			count++;
		}
	assert_int_equal(p->execution_count, count);
	profile_destroy(p);
}

static void wrong_recent_rows_are_refused(void **state)
{
	static const char *const wrongs[] = {
		"update execution_recent set thread = 3",
		"update execution_recent set thread = 0",
		"update execution_recent set data = x'ff'",
		"update execution_recent set data = x'0302'", /* block 3 */
		"update execution_recent set data = x'0102000a'", /* a block twice */
		"update execution_recent set data = x'01'", /* without a count */
		"update execution_recent set data = x'0101'", /* -1 */
		"update execution_recent set data = x'ffffffffffffffffffffff0102'",
	};

	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		struct profile *p;
		sqlite3 *db;

		unfinished_make(state);
		assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db, wrongs[i], NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(db);
		if (profile_load(path, DOMAIN_EXECUTED, &p) != -EBADMSG)
			fail_msg("believed: %s", wrongs[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_was_written_is_read, profile_make),
		cmocka_unit_test_setup(the_order_is_read_when_asked_for, profile_make),
		cmocka_unit_test(wrong_rows_are_refused),
		cmocka_unit_test_setup(what_was_committed_is_read_and_folded, unfinished_make),
		cmocka_unit_test(many_are_merged_in_order),
		cmocka_unit_test(wrong_recent_rows_are_refused),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
