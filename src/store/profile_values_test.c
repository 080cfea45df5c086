// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1, V14.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/profile.h"
#include "store/store.h"

enum { LOCATIONS = 4, GROWTH_MAX = 32 << 10 };

static const uint64_t kernel_address = 0xffffffff81000010;

static char folder[] = "/tmp/assay-values-test-XXXXXX";
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

static void sql_run(const char *sql)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_exec(db, "pragma synchronous = off", NULL, NULL, NULL);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

static void assert_answer(const char *sql, const char *expected)
{
	sqlite3_stmt *statement;
	sqlite3 *db;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
	assert_string_equal(sqlite3_column_text(statement, 0), expected);
	sqlite3_finalize(statement);
	sqlite3_close(db);
}

static struct store *create(void)
{
	struct store *store = NULL;

	if (store_create(path, &store))
		fail_msg("%s", err_text());
	return store;
}

static struct profile *load(void)
{
	struct profile *profile = NULL;

	if (profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &profile))
		fail_msg("%s", err_text());
	return profile;
}

static void assert_refused(const char *words)
{
	struct profile *p = NULL;

	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), -EBADMSG);
	assert_null(p);
	if (strncmp(err_text(), path, strlen(path)) || !strstr(err_text(), words))
		fail_msg("\"%s\" does not say \"%s\"", err_text(), words);
}

/* One stack with one sample at location 1; the other locations were only seen in runs. */
static void locations_put(struct store *store)
{
	const struct store_module module = { .id.v = 1, .kind = MODULE_ELF, .path = "/bin/m" };

	store_process_put(store, &(struct store_process){ .id.v = 1, .pid = 1, .comm = "c" });
	store_thread_put(store, &(struct store_thread){ .id.v = 1, .process.v = 1, .comm = "t" });
	store_module_put(store, &module);
	for (uint32_t i = 1; i <= LOCATIONS; i++)
		store_location_put(store, &(struct store_location){ .id = (struct location_id){ i },
								    .module = module.id,
								    .address = 0x1000 + i * 16 });
	store_stack_put(store,
			&(struct store_stack){ (struct stack_id){ 1 }, (struct stack_id){ 0 },
					       (struct location_id){ 1 } });
	store_samples_add(store, (struct thread_id){ 1 }, (struct stack_id){ 1 }, 2, 0);
}

static void names_put(struct store *store)
{
	const struct store_symbol symbol = {
		.id.v = 1, .module.v = 1, .name = "copy", .address = 0x1000, .size = 0x100
	};
	const struct store_frame frame = { .location.v = 2, .symbol.v = 1 };
	const struct store_parameter parameters[] = {
		{ .symbol.v = 1,
		  .argument = 5,
		  .name = "last",
		  .type = "enum e",
		  .encoding = "enum",
		  .size = 4 },
		{ .symbol.v = 1,
		  .argument = 0,
		  .name = "n",
		  .type = "size_t",
		  .encoding = "unsigned",
		  .size = 8 },
	};

	assert_int_equal(store_symbol_put(store, &symbol), 0);
	assert_int_equal(store_frame_put(store, &frame), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_parameter_put(store, &parameters[i]), 0);
}

static const struct store_value scalar = {
	.id.v = 3,
	.location.v = 2,
	.item.v = 1,
	.owner = 1000,
	.width = 32,
	.total = 70,
	.runs = 9,
	.has_moments = true,
	.minimum = INT64_MIN,
	.maximum = -5,
	.mean = -2.5e17,
	.squares = 0.125,
	.list = "\x00\xff list",
	.list_size = 7,
};

static const struct store_value tuple = {
	.id.v = 1,
	.location.v = 2,
	.caller.v = 3,
	.item.v = 2,
	.owner = -1,
	.width = 64,
	.total = 40,
	.runs = 40,
	.list = NULL,
	.list_size = 0,
};

/* Ids are in no order, so that sorting has something to do; 5 and 6 are one site. */
static void values_put(struct store *store)
{
	const struct store_value_item items[] = {
		{ .id.v = 2, .text = "caller+arg0", .class = "entry", .words = 2 },
		{ .id.v = 1, .text = "result", .class = "instruction", .words = 1 },
	};
	struct store_value early = scalar, other = scalar, near = tuple, twin;

	for (int i = 0; i < 2; i++)
		assert_int_equal(store_value_item_put(store, &items[i]), 0);
	early.id.v = 4;
	early.location.v = 1;
	other.id.v = 5;
	other.owner = 0;
	other.total = 1;
	twin = other;
	twin.id.v = 6;
	twin.total = 2;
	near.id.v = 7;
	near.caller.v = 1;
	assert_int_equal(store_value_put(store, &tuple), 0);
	assert_int_equal(store_value_put(store, &(struct store_value){ .id.v = 3,
								       .location.v = 4,
								       .item.v = 2,
								       .width = 8,
								       .list = "old",
								       .list_size = 3 }),
			 0);
	assert_int_equal(store_value_put(store, &scalar), 0);
	assert_int_equal(store_value_put(store, &early), 0);
	assert_int_equal(store_value_put(store, &other), 0);
	assert_int_equal(store_value_put(store, &twin), 0);
	assert_int_equal(store_value_put(store, &near), 0);
}

static void runs_put(struct store *store)
{
	assert_int_equal(store_run_end_put(store,
					   &(struct store_run_end){ .reason = "length",
								    .mnemonic = "",
								    .text = "reached the length",
								    .count = 1 }),
			 0);
	assert_int_equal(store_run_end_put(store,
					   &(struct store_run_end){ .reason = "length",
								    .mnemonic = "",
								    .text = "reached the length",
								    .count = 6 }),
			 0);
	assert_int_equal(store_run_end_put(store, &(struct store_run_end){ .reason = "unknown",
									   .mnemonic = "cpuid",
									   .text = "not modelled",
									   .count = 7 }),
			 0);
	assert_int_equal(store_run_end_put(store, &(struct store_run_end){ .reason = "unknown",
									   .mnemonic = "rdtsc",
									   .text = "not modelled",
									   .count = 6 }),
			 0);
	assert_int_equal(store_run_place_put(store, &(struct store_run_place){ .location.v = 1,
									       .reason = "unknown",
									       .count = 4 }),
			 0);
	assert_int_equal(store_run_place_put(store, &(struct store_run_place){ .location.v = 1,
									       .reason = "system",
									       .count = 9 }),
			 0);
	assert_int_equal(store_loss_set(store, RECORDING_VALUES, "ring_full", "ring was full", 4),
			 0);
	assert_int_equal(store_loss_set(store, RECORDING_VALUES, "ring_full", "ring was full", 5),
			 0);
	assert_int_equal(store_loss_set(store, RECORDING_VALUES, "nested", "nested", 0), 0);
	assert_int_equal(store_value_name_put(store,
					      &(struct store_value_name){ kernel_address,
									  (struct location_id){ 4 },
									  NULL }),
			 0);
	assert_int_equal(store_value_name_put(store,
					      &(struct store_value_name){ 0x55550000,
									  (struct location_id){ 0 },
									  "[heap]" }),
			 0);
	assert_int_equal(store_value_name_put(store,
					      &(struct store_value_name){ 0x7fff0000,
									  (struct location_id){ 1 },
									  "[stack]" }),
			 0);
}

static void profile_write(void)
{
	struct store *store;

	clean(NULL);
	store = create();
	locations_put(store);
	values_put(store);
	runs_put(store);
	assert_int_equal(store_commit(store), 0);
	names_put(store);
	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
}

static void assert_value(const struct profile_value *value, const struct store_value *expected)
{
	assert_int_equal(value->location, expected->location.v);
	assert_int_equal(value->caller, expected->caller.v);
	assert_int_equal(value->item, expected->item.v);
	assert_true(value->owner == expected->owner);
	assert_int_equal(value->width, expected->width);
	assert_true(value->total == expected->total && value->runs == expected->runs);
	assert_int_equal(value->has_moments, expected->has_moments);
	assert_true(value->minimum == expected->minimum && value->maximum == expected->maximum);
	assert_true(value->mean == expected->mean && value->squares == expected->squares);
	assert_int_equal(value->list_size, expected->list_size);
	if (expected->list_size)
		assert_memory_equal(value->list, expected->list, expected->list_size);
}

static void values_come_back_sorted(void **state)
{
	struct profile *p;

	profile_write();
	p = load();
	assert_int_equal(p->value_item_count, 3);
	assert_string_equal(p->value_items[0].text, "");
	assert_string_equal(p->value_items[1].text, "result");
	assert_string_equal(p->value_items[1].class, "instruction");
	assert_string_equal(p->value_items[2].text, "caller+arg0");
	assert_true(p->value_items[1].words == 1 && p->value_items[2].words == 2);
	assert_int_equal(p->value_count, 6);
	assert_int_equal(p->values[0].location, 1);
	assert_true(p->values[1].owner == 0 && p->values[2].owner == 0);
	assert_int_equal(p->values[1].total + p->values[2].total, 3);
	assert_value(&p->values[3], &scalar);
	assert_int_equal(p->values[4].caller, 1);
	assert_value(&p->values[5], &tuple);
	profile_destroy(p);
}

static void runs_and_names_come_back(void **state)
{
	const struct profile_recording *values;
	struct profile *p;

	profile_write();
	p = load();
	assert_int_equal(p->run_end_count, 3);
	assert_string_equal(p->run_ends[0].mnemonic, "cpuid");
	assert_int_equal(p->run_ends[0].count, 7);
	assert_string_equal(p->run_ends[1].reason, "length");
	assert_string_equal(p->run_ends[1].text, "reached the length");
	assert_int_equal(p->run_ends[1].count, 6);
	assert_string_equal(p->run_ends[2].mnemonic, "rdtsc");
	assert_int_equal(p->run_place_count, 2);
	assert_int_equal(p->run_places[0].count, 9);
	assert_string_equal(p->run_places[0].reason, "system");
	assert_int_equal(p->run_places[1].count, 4);
	values = profile_recording(p, RECORDING_VALUES);
	assert_int_equal(values->loss_count, 1);
	assert_string_equal(values->losses[0].name, "ring_full");
	assert_int_equal(values->losses[0].count, 5);
	assert_int_equal(p->value_name_count, 3);
	assert_true(p->value_names[0].value == 0x55550000 && p->value_names[0].location == 0);
	assert_string_equal(p->value_names[0].text, "[heap]");
	assert_true(p->value_names[1].value == 0x7fff0000 && p->value_names[1].location == 1);
	assert_true(p->value_names[2].value == kernel_address && p->value_names[2].location == 4);
	assert_string_equal(p->value_names[2].text, "");
	assert_int_equal(p->parameter_count, 2);
	assert_true(p->parameters[0].symbol == 1 && p->parameters[0].argument == 0);
	assert_string_equal(p->parameters[0].name, "n");
	assert_string_equal(p->parameters[0].type, "size_t");
	assert_string_equal(p->parameters[0].encoding, "unsigned");
	assert_true(p->parameters[0].size == 8 && p->parameters[1].argument == 5);
	profile_destroy(p);
}

static void sites_can_be_asked_for_in_sql(void **state)
{
	profile_write();
	assert_answer("pragma integrity_check", "ok");
	assert_answer("select count(*) from pragma_foreign_key_check", "0");
	assert_answer("select symbol || ' ' || module || ' ' || address || ' ' || item || ' ' || "
		      "owner || ' ' || total || ' ' || runs || ' ' || maximum || ' ' || mean "
		      "from value_sites where symbol = 'copy' limit 1",
		      "copy m 0x1020 result 1000 70 9 -5 -2.5e+17");
	assert_answer("select caller || ' ' || (owner is null and minimum is null) "
		      "from value_sites where item = 'caller+arg0' limit 1",
		      "0x1030 1");
	assert_answer("select group_concat(total) from value_sites where symbol = '[unknown]'",
		      "70");
	assert_answer("select count(*) from value_sites where caller is null", "4");
}

static void code_is_kept_where_there_are_values(void **state)
{
	AUTO(free_ptr) struct store_unnamed *unnamed = NULL;
	struct store *store = create();
	size_t count = 0;

	locations_put(store);
	values_put(store);
	assert_int_equal(store_unnamed_list(store, &unnamed, &count), 0);
	assert_int_equal(count, LOCATIONS);
	assert_true(unnamed[0].location.v == 1 && unnamed[0].self == 2 + 70);
	assert_true(unnamed[1].location.v == 2 && unnamed[1].self == 70 + 40 + 1 + 2 + 40);
	assert_true(unnamed[2].self == 0 && unnamed[3].self == 0);
	store_destroy(store);
}

static void rows_that_lie_are_refused(void **state)
{
	static const struct {
		const char *sql, *words;
	} lies[] = {
		{ "update value_item set words = 0", "table value_item, row 1: a number is out" },
		{ "update value_item set words = 9", "out of range" },
		{ "update value_item set words = -1", "out of range" },
		{ "insert into value_item values (0, (select recording from value_item), '', '', "
		  "1)",
		  "an id is out of range" },
		{ "insert into value_item values (-1, (select recording from value_item), '', '', "
		  "1)",
		  "out of range" },
		{ "insert into value_item values (2000000, (select recording from value_item), '', "
		  "'', 1)",
		  "an id is out of range" },
		{ "update value set location = 5 where id = 4",
		  "table value, row 3: a reference points nowhere" },
		{ "update value set location = 0", "points nowhere" },
		{ "update value set location = -1", "points nowhere" },
		{ "update value set location = 4294967297", "points nowhere" },
		{ "update value set caller = 0", "points nowhere" },
		{ "update value set caller = 5", "points nowhere" },
		{ "update value set item = 0", "points nowhere" },
		{ "update value set item = 3", "points nowhere" },
		{ "delete from value_item where id = 1",
		  "table value, row 2: a reference points nowhere" },
		{ "update value set id = -1 where id = 1", "out of range" },
		{ "update value set id = 4294967296 where id = 1", "out of range" },
		{ "update value set owner = -1", "out of range" },
		{ "update value set owner = 4294967296", "out of range" },
		{ "update value set width = 0", "out of range" },
		{ "update value set width = 65", "out of range" },
		{ "update value set total = -1", "out of range" },
		{ "update value set runs = -1", "out of range" },
		{ "update value set total = 0x7fffffffffffffff where id in (1, 3)",
		  "table value, row 2: the counts are too large" },
		{ "update value set runs = 0x7fffffffffffffff where id in (1, 3)",
		  "the counts are too large" },
		{ "update value set minimum = NULL where id = 3", "a number is missing" },
		{ "update value set maximum = NULL where id = 3", "a number is missing" },
		{ "update value set mean = NULL where id = 3", "a number is missing" },
		{ "update value set squares = NULL where id = 3", "a number is missing" },
		{ "update value set mean = 9e999 where id = 3", "a number is not finite" },
		{ "update value set squares = 9e999 where id = 3", "a number is not finite" },
		{ "update value set squares = -1.0 where id = 3", "a range is empty" },
		{ "update value set minimum = -4 where id = 3", "a range is empty" },
		{ "update value set list = zeroblob(65537) where id = 3",
		  "table value, row 2: bytes are too many" },
		{ "update run_end set count = -1", "out of range" },
		{ "update run_end set count = 0x7fffffffffffffff",
		  "table run_end, row 2: the counts are too large" },
		{ "update loss set count = -1", "out of range" },
		{ "update loss set count = 0x7fffffffffffffff", "the counts are too large" },
		{ "update value_name set location = 5 where location = 4", "points nowhere" },
		{ "update value_name set location = 0 where location = 4",
		  "table value_name, row 1: a reference points nowhere" },
		{ "update parameter set symbol = 2 where argument = 5",
		  "table parameter, row 2: a reference points nowhere" },
		{ "update parameter set argument = 6 where argument = 5", "out of range" },
		{ "update parameter set argument = -1 where argument = 5", "out of range" },
		{ "update parameter set size = -1", "out of range" },
		{ "drop table value_name", "table value_name is missing or not laid out" },
		{ "drop table value; create table value (id integer primary key, list)",
		  "table value is missing or not laid out" },
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		profile_write();
		sql_run(lies[i].sql);
		assert_refused(lies[i].words);
	}
}

/* What the store itself would not write, but harms nobody. */
static void extremes_are_taken(void **state)
{
	struct profile *p;

	profile_write();
	sql_run("update value set list = zeroblob(65536), width = 1, owner = 4294967295, runs = 0, "
		"minimum = 0x8000000000000000, maximum = 0x7fffffffffffffff, mean = 1e308, "
		"squares = 0.0 where id = 3; update value_item set words = 8 where id = 2; "
		"insert into value_item values (900, (select recording from value_item), 'far', "
		"'run', 1); "
		"update value set item = 900 where id = 1; "
		"insert into value_name values (0, NULL, NULL), (-1, NULL, NULL)");
	p = load();
	assert_true(p->values[3].owner == UINT32_MAX && p->values[3].list_size == 65536);
	assert_true(p->values[3].minimum == INT64_MIN && p->values[3].maximum == INT64_MAX);
	assert_int_equal(p->values[5].item, 900);
	assert_string_equal(p->value_items[899].class, "");
	assert_string_equal(p->value_items[900].text, "far");
	assert_int_equal(p->value_name_count, 5);
	assert_true(p->value_names[0].value == 0 && p->value_names[4].value == UINT64_MAX);
	profile_destroy(p);
}

static void empty_tables_take_little(void **state)
{
	struct store *store = create();
	struct stat with, without;

	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
	assert_int_equal(stat(path, &with), 0);
	sql_run("drop table value; drop table value_item; drop table value_name; drop table "
		"run_end; drop table run_place; drop table parameter; vacuum");
	assert_int_equal(stat(path, &without), 0);
	assert_in_range(with.st_size - without.st_size, 1, GROWTH_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(values_come_back_sorted, clean),
		cmocka_unit_test_setup(runs_and_names_come_back, clean),
		cmocka_unit_test_setup(sites_can_be_asked_for_in_sql, clean),
		cmocka_unit_test_setup(code_is_kept_where_there_are_values, clean),
		cmocka_unit_test_setup(rows_that_lie_are_refused, clean),
		cmocka_unit_test_setup(extremes_are_taken, clean),
		cmocka_unit_test_setup(empty_tables_take_little, clean),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
