// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
/* Symbolisation of a store: this program and a kernel that does not run are the modules. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "recorder/symbolise.h"

static const struct symbolise_sources by_path = { .open = symbolise_open_path };
static char path[] = "/tmp/assay-symbolise-XXXXXX";

int symbolise_test_object[7] = { 1 };
int symbolise_test_function(int number, const char *text);

__attribute__((noinline)) int symbolise_test_function(int number, const char *text)
{
	return number + text[0] + symbolise_test_object[number & 3];
}

static int setup(void **state)
{
	int fd = mkstemp(path);

	return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
	char old[sizeof(path) + 4];

	/* Each test's profile replaces the one before. */
	snprintf(old, sizeof(old), "%s.old", path);
	unlink(old);
	return unlink(path);
}

/* How far the program was moved: its ELF header is mapped at its start. */
extern const char __ehdr_start[];

static uint64_t in_file(const void *address)
{
	return (uint64_t)((const char *)address - __ehdr_start);
}

static void location_put(struct store *store, uint32_t id, uint32_t module, uint64_t address)
{
	assert_int_equal(
		store_location_put(store,
				   &(struct store_location){ .id = (struct location_id){ id },
							     .module = (struct module_id){ module },
							     .address = address }),
		0);
}

/* One sample, so that the location's code is worth keeping. */
static void sample_put(struct store *store, uint32_t stack, uint32_t location)
{
	const struct store_process process = { .id = { 1 }, .pid = 1, .comm = "test" };
	const struct store_thread thread = { { 1 }, { 1 }, 1, "test", 0, 0 };

	assert_int_equal(store_process_put(store, &process), 0);
	assert_int_equal(store_thread_put(store, &thread), 0);
	assert_int_equal(store_stack_put(store,
					 &(struct store_stack){ (struct stack_id){ stack },
								(struct stack_id){},
								(struct location_id){ location } }),
			 0);
	assert_int_equal(store_samples_add(store, (struct thread_id){ 1 },
					   (struct stack_id){ stack }, 1, 0),
			 0);
}

static struct store *store_make(void)
{
	struct store *store;

	assert_int_equal(store_create(path, &store), 0);
	return store;
}

/* The first column of the first row, as text on the heap; NULL when there is none. */
static char *query(const char *sql)
{
	sqlite3 *database;
	sqlite3_stmt *statement;
	const char *text = NULL;
	char *result = NULL;

	assert_int_equal(sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
	if (sqlite3_step(statement) == SQLITE_ROW)
		text = (const char *)sqlite3_column_text(statement, 0);
	if (text)
		result = mem_strdup(text);
	sqlite3_finalize(statement);
	sqlite3_close(database);
	return result;
}

static void query_gives(const char *expected, const char *sql)
{
	AUTO(free_ptr) char *text = query(sql);

	assert_non_null(text);
	assert_string_equal(text, expected);
}

static void store_end(struct store *store)
{
	if (store_finish(store))
		fail_msg("%s", err_text());
	store_destroy(store);
}

static void functions_and_objects_have_names(void **state)
{
	struct store *store = store_make();
	const struct store_module module = { .id = { 1 },
					     .kind = MODULE_ELF,
					     .path = "/proc/self/exe" };
	uint64_t function = in_file(symbolise_test_function);

	assert_int_equal(store_module_put(store, &module), 0);
	location_put(store, 1, 1, function);
	location_put(store, 2, 1, function + 1);
	location_put(store, 3, 1, in_file(&symbolise_test_object[2]));
	sample_put(store, 1, 2);
	assert_int_equal(symbolise_from(store, &by_path), 0);
	store_end(store);
	query_gives(
		"symbolise_test_function symbolise_test_function symbolise_test_object",
		"select group_concat(name, ' ') from (select symbol.name from frame join symbol on "
		"symbol.id = frame.symbol order by frame.location)");
	query_gives("28 0 1", "select size || ' ' || inlined || ' ' || (code is null) from symbol "
			      "where name = 'symbolise_test_object'");
	query_gives("1", "select count(*) from symbol where name = 'symbolise_test_function' and "
			 "code is not null");
	query_gives("0 number int signed 4, 1 text const char * pointer 8",
		    "select group_concat(argument || ' ' || p.name || ' ' || type || ' ' || "
		    "encoding || "
		    "' ' || p.size, ', ') from parameter as p join symbol on symbol.id = p.symbol "
		    "where symbol.name = 'symbolise_test_function'");
}

/*
 * More than one batch, each location with its own frames, and the order of ids is not that of
 * addresses.
 */
static void many_locations_keep_their_names(void **state)
{
	enum { COUNT = 2000 };
	struct store *store = store_make();
	const struct store_module module = { .id = { 1 },
					     .kind = MODULE_ELF,
					     .path = "/proc/self/exe" };
	uint64_t start = in_file(symbolise_test_function) - COUNT / 2;

	assert_int_equal(store_module_put(store, &module), 0);
	for (uint32_t i = 0; i < COUNT; i++)
		location_put(store, i + 1, 1, start + i * 7 % COUNT);
	assert_int_equal(symbolise_from(store, &by_path), 0);
	store_end(store);
	query_gives("2000", "select count(distinct location) from frame");
	/* The last frame is the function that holds the location. */
	query_gives("0", "select count(*) from frame join symbol on symbol.id = frame.symbol join "
			 "location on location.id = frame.location where not inlined and "
			 "symbol.name <> '[unknown]' and (location.address < symbol.address or "
			 "location.address >= symbol.address + symbol.size)");
	query_gives("1", "select count(*) from symbol where name = 'symbolise_test_function'");
	query_gives("1", "select count(distinct symbol.id) > 3 from symbol");
}

static const uint8_t nops[] = { 0x90, 0x90, 0x90 };

static size_t code_give(void *ctx, const struct store_module *module, uint64_t address, void *ret,
			size_t size)
{
	unsigned int *asked = ctx;

	assert_true(module->kind == MODULE_JIT || module->kind == MODULE_KERNEL);
	assert_int_equal(address, 0x1000);
	assert_int_equal(size, 0x20);
	(*asked)++;
	memcpy(ret, nops, sizeof(nops));
	return sizeof(nops);
}

static int map_open(void *ctx, const struct store_module *module)
{
	int fd = open(module->path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Where no file has the code, what the caller knows of it is kept, and asked for once. */
static void code_comes_from_the_caller(void **state)
{
	unsigned int asked = 0;
	const struct symbolise_sources sources = { map_open, code_give, &asked };
	struct store *store = store_make();
	char map[] = "/tmp/assay-map-XXXXXX";
	int fd = mkstemp(map);
	const struct store_module module = { .id = { 1 }, .kind = MODULE_JIT, .path = map };

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "1000 20 jitted\n", 15), 15);
	close(fd);
	assert_int_equal(store_module_put(store, &module), 0);
	location_put(store, 1, 1, 0x1004);
	location_put(store, 2, 1, 0x1008);
	sample_put(store, 1, 1);
	sample_put(store, 2, 2);
	assert_int_equal(symbolise_from(store, &sources), 0);
	store_end(store);
	unlink(map);
	assert_int_equal(asked, 1);
	query_gives("jitted 909090", "select name || ' ' || hex(code) from symbol");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_and_objects_have_names),
		cmocka_unit_test(many_locations_keep_their_names),
		cmocka_unit_test(code_comes_from_the_caller),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
