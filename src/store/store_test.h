/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of the store: a folder of its own for each test, and a profile with known rows. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/profile.h"
#include "store/store.h"
#include "store/store_private.h"

static char folder[] = "/tmp/assay-store-test-XXXXXX";
static char path[sizeof(folder) + 16];
static char old_path[sizeof(path) + 4];

static inline bool is_there(const char *suffix)
{
	AUTO(free_ptr) char *name = mem_printf("%s%s", path, suffix);

	return access(name, F_OK) == 0;
}

/* All that is in the folder. */
static inline void files_remove(void)
{
	char *const argv[] = { "find", folder, "-mindepth", "1", "-delete", NULL };
	pid_t child;
	int status;

	assert_int_equal(posix_spawnp(&child, argv[0], NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static inline int clean(void **state)
{
	files_remove();
	return 0;
}

/* Others may write there: the profile is written in a folder of its own. */
static inline int shared(void **state)
{
	files_remove();
	return chmod(folder, 01777);
}

static inline int own(void **state)
{
	return chmod(folder, 0700);
}

/* Names in the folder, but for those that begin with the profile's. */
static inline size_t others_count(void)
{
	DIR *names = opendir(folder);
	const struct dirent *entry;
	size_t count = 0;

	assert_non_null(names);
	while ((entry = readdir(names)))
		count += strncmp(entry->d_name, "assay.db", 8) && strcmp(entry->d_name, ".") &&
			 strcmp(entry->d_name, "..");
	closedir(names);
	return count;
}

static inline int folder_make(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/assay.db", folder);
	snprintf(old_path, sizeof(old_path), "%s.old", path);
	return 0;
}

static inline int folder_remove(void **state)
{
	files_remove();
	return rmdir(folder);
}

static inline void file_write(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static inline struct profile *load(const char *from)
{
	struct profile *profile = NULL;

	if (profile_load(from, DOMAIN_ALL & ~DOMAIN_PATHS, &profile))
		fail_msg("%s", err_text());
	return profile;
}

static inline struct store *create(void)
{
	struct store *store = NULL;

	if (store_create(path, &store))
		fail_msg("%s", err_text());
	return store;
}

/* The answer of SQLite itself to a query with one result. */
static inline char *ask(const char *sql)
{
	sqlite3 *db;
	sqlite3_stmt *statement;
	char *answer;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL))
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	answer = mem_strdup(sqlite3_step(statement) == SQLITE_ROW &&
					    sqlite3_column_text(statement, 0)
				    ? (const char *)sqlite3_column_text(statement, 0)
				    : "(none)");
	sqlite3_finalize(statement);
	sqlite3_close(db);
	return answer;
}

static inline void assert_answer(const char *sql, const char *expected)
{
	AUTO(free_ptr) char *answer = ask(sql);

	assert_string_equal(answer, expected);
}

/* Two processes, three modules, one stack main > work > [kernel], work being inlined into main. */
static inline void identities_put(struct store *store)
{
	const struct store_process shell = {
		.id.v = 1,
		.pid = 100,
		.ppid = 1,
		.uid = 0,
		.gid = 0,
		.euid = 0,
		.egid = 0,
		.comm = "sh",
	};
	const struct store_process program = {
		.id.v = 2,
		.parent.v = 1,
		.pid = 4000000000,
		.ppid = 100,
		.uid = UINT32_MAX,
		.gid = 1000,
		.euid = 1000,
		.egid = UINT32_MAX,
		.comm = "program",
		.exe = "/bin/program",
		.cgroup = "/a",
		.started = 5,
		.ended = 1ull << 62,
	};
	const struct store_thread thread = {
		.id.v = 1, .process.v = 2, .tid = 4000000001, .comm = "worker"
	};
	const struct store_module elf = {
		.id.v = 1,
		.kind = MODULE_ELF,
		.path = "/usr/bin/program",
		.build_id = "ab01ff",
	};
	const struct store_module kernel = { .id.v = 2, .kind = MODULE_KERNEL, .path = "[kernel]" };
	const struct store_module jit = {
		.id.v = 3, .kind = MODULE_JIT, .path = "[jit]", .process.v = 2, .deleted = true
	};
	const struct store_mapping mapping = {
		.process.v = 2, .module.v = 1, .start = 0x400000, .stop = 0x500000
	};

	assert_int_equal(store_process_put(store, &shell), 0);
	assert_int_equal(store_process_put(store, &program), 0);
	assert_int_equal(store_thread_put(store, &thread), 0);
	assert_int_equal(store_module_put(store, &elf), 0);
	assert_int_equal(store_module_put(store, &kernel), 0);
	assert_int_equal(store_module_put(store, &jit), 0);
	assert_int_equal(store_mapping_put(store, &mapping), 0);
}

static const struct thread_id thread_1 = { 1 };

static inline void stacks_put(struct store *store)
{
	assert_int_equal(store_location_put(
				 store, &(struct store_location){ .id = (struct location_id){ 1 },
								  .module = (struct module_id){ 1 },
								  .address = 0x1234 }),
			 0);
	assert_int_equal(store_location_put(
				 store, &(struct store_location){ .id = (struct location_id){ 2 },
								  .module = (struct module_id){ 2 },
								  .address = 0xffffffff81000010 }),
			 0);
	assert_int_equal(store_location_put(
				 store, &(struct store_location){ .id = (struct location_id){ 3 },
								  .module = (struct module_id){ 2 },
								  .address = 0xffffffff81000000 }),
			 0);
	assert_int_equal(store_stack_put(store, &(struct store_stack){ (struct stack_id){ 1 },
								       (struct stack_id){ 0 },
								       (struct location_id){ 1 } }),
			 0);
	assert_int_equal(store_stack_put(store, &(struct store_stack){ (struct stack_id){ 2 },
								       (struct stack_id){ 1 },
								       (struct location_id){ 2 } }),
			 0);
	assert_int_equal(store_samples_add(store, thread_1, (struct stack_id){ 2 }, 3, 3), 0);
	assert_int_equal(store_samples_add(store, thread_1, (struct stack_id){ 2 }, 4, 4), 0);
	assert_int_equal(store_samples_add(store, thread_1, (struct stack_id){ 1 }, 1, 0), 0);
	assert_int_equal(store_tick_add(store, 0, thread_1, 5), 0);
	assert_int_equal(store_tick_add(store, 0, thread_1, 3), 0);
	assert_int_equal(store_loss_set(store, RECORDING_SAMPLES, "ring_full", "ring was full", 1),
			 0);
	assert_int_equal(store_loss_set(store, RECORDING_SAMPLES, "ring_full", "ring was full", 2),
			 0);
	assert_int_equal(store_loss_set(store, RECORDING_SAMPLES, "nested", "nested", 0), 0);
	assert_int_equal(
		store_stack_end_put(store, &(struct store_stack_end){ .reason = "complete",
								      .text = "walked to its root",
								      .count = 8 }),
		0);
	assert_int_equal(store_seen_set(store, RECORDING_SAMPLES, 10), 0);
}

static inline void names_put(struct store *store)
{
	const struct store_symbol symbols[] = {
		{ .id.v = 1, .module.v = 1, .name = "main", .address = 0x1200, .size = 0x100 },
		{ .id.v = 2,
		  .module.v = 1,
		  .name = "work(int)",
		  .linkage = "_Z4worki",
		  .inlined = true },
		{ .id.v = 3,
		  .module.v = 2,
		  .name = "sys_read",
		  .address = 0xffffffff81000000,
		  .size = 64 },
	};
	const struct store_frame frames[] = {
		{ .location.v = 1, .depth = 0, .symbol.v = 2, .file.v = 1, .line = 7 },
		{ .location.v = 1, .depth = 1, .symbol.v = 1, .file.v = 1, .line = 20 },
		{ .location.v = 2, .depth = 0, .symbol.v = 3 },
	};

	for (int i = 0; i < 3; i++)
		assert_int_equal(store_symbol_put(store, &symbols[i]), 0);
	assert_int_equal(store_symbol_code_put(store, (struct symbol_id){ 1 }, "\x55\x00\xc3", 3),
			 0);
	/* Writing the row again keeps the code. */
	assert_int_equal(store_symbol_put(store, &symbols[0]), 0);
	assert_int_equal(store_file_put(store, &(struct store_file){ (struct file_id){ 1 },
								     "/src/program.c" }),
			 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(store_frame_put(store, &frames[i]), 0);
}

static inline void full_profile_write(void)
{
	struct store *store = create();

	assert_int_equal(store_fact_add(store, RECORDING_SAMPLES, "command", "program --fast"), 0);
	identities_put(store);
	stacks_put(store);
	assert_int_equal(store_commit(store), 0);
	names_put(store);
	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
}

#define SHARED(name) cmocka_unit_test_setup_teardown(name, shared, own)
