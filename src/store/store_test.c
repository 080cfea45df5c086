// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1, S2.
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

enum { SEED = 20, KILLS = 50, ENDLESS = 1 << 30 };

static char folder[] = "/tmp/assay-store-test-XXXXXX";
static char path[sizeof(folder) + 16];
static char old_path[sizeof(path) + 4];

static bool is_there(const char *suffix)
{
	AUTO(free_ptr) char *name = mem_printf("%s%s", path, suffix);

	return access(name, F_OK) == 0;
}

/* All that is in the folder. */
static void files_remove(void)
{
	char *const argv[] = { "find", folder, "-mindepth", "1", "-delete", NULL };
	pid_t child;
	int status;

	assert_int_equal(posix_spawnp(&child, argv[0], NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static int clean(void **state)
{
	files_remove();
	return 0;
}

/* Others may write there: the profile is written in a folder of its own. */
static int shared(void **state)
{
	files_remove();
	return chmod(folder, 01777);
}

static int own(void **state)
{
	return chmod(folder, 0700);
}

/* Names in the folder, but for those that begin with the profile's. */
static size_t others_count(void)
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

static int folder_make(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/assay.db", folder);
	snprintf(old_path, sizeof(old_path), "%s.old", path);
	return 0;
}

static int folder_remove(void **state)
{
	files_remove();
	return rmdir(folder);
}

static void file_write(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static struct profile *load(const char *from)
{
	struct profile *profile = NULL;

	if (profile_load(from, DOMAIN_ALL & ~DOMAIN_PATHS, &profile))
		fail_msg("%s", err_text());
	return profile;
}

static struct store *create(void)
{
	struct store *store = NULL;

	if (store_create(path, &store))
		fail_msg("%s", err_text());
	return store;
}

/* The answer of SQLite itself to a query with one result. */
static char *ask(const char *sql)
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

static void assert_answer(const char *sql, const char *expected)
{
	AUTO(free_ptr) char *answer = ask(sql);

	assert_string_equal(answer, expected);
}

/* Two processes, three modules, one stack main > work > [kernel], work being inlined into main. */
static void identities_put(struct store *store)
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

static void stacks_put(struct store *store)
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

static void names_put(struct store *store)
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

static void full_profile_write(void)
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

static void identities_come_back(void **state)
{
	struct profile *p;

	full_profile_write();
	p = load(path);
	assert_true(p->finished);
	assert_string_equal(profile_meta(p, "command"), "program --fast");
	assert_null(profile_meta(p, "absent"));
	assert_int_equal(p->process_count, 3);
	assert_int_equal(p->processes[1].parent, 0);
	assert_string_equal(p->processes[1].exe, "");
	assert_int_equal(p->processes[2].parent, 1);
	assert_true(p->processes[2].pid == 4000000000 && p->processes[2].ppid == 100);
	assert_true(p->processes[2].uid == -1 && p->processes[2].gid == 1000);
	assert_true(p->processes[2].euid == 1000 && p->processes[2].egid == -1);
	assert_string_equal(p->processes[2].cgroup, "/a");
	assert_true(p->processes[2].started == 5 && p->processes[2].ended == 1ull << 62);
	assert_int_equal(p->thread_count, 2);
	assert_true(p->threads[1].tid == 4000000001 && p->threads[1].process == 2);
	assert_string_equal(p->threads[1].comm, "worker");
	assert_int_equal(p->module_count, 4);
	assert_string_equal(p->modules[1].name, "program");
	assert_string_equal(p->modules[1].build_id, "ab01ff");
	assert_int_equal(p->modules[2].kind, MODULE_KERNEL);
	assert_string_equal(p->modules[2].name, "[kernel]");
	assert_string_equal(p->modules[2].build_id, "");
	profile_destroy(p);
}

static void samples_come_back(void **state)
{
	struct profile *p;

	full_profile_write();
	p = load(path);
	assert_int_equal(p->location_count, 4);
	assert_true(p->locations[2].address == 0xffffffff81000010 && p->locations[2].module == 2);
	assert_int_equal(p->stack_count, 3);
	assert_true(p->stacks[2].parent == 1 && p->stacks[2].location == 2);
	assert_int_equal(p->sample_count, 2);
	assert_true(p->samples[1].stack == 2 && p->samples[1].thread == 1);
	assert_true(p->samples[1].count == 7 && p->samples[1].kernel == 7);
	assert_true(p->kept == 8 && p->seen == 10);
	assert_int_equal(p->loss_count, 1);
	assert_string_equal(p->losses[0].name, "ring_full");
	assert_int_equal(p->losses[0].count, 2);
	assert_int_equal(p->stack_end_count, 1);
	assert_int_equal(p->stack_ends[0].count, 8);
	profile_destroy(p);
}

static void names_come_back(void **state)
{
	struct profile *p;

	full_profile_write();
	p = load(path);
	assert_int_equal(p->symbol_count, 4);
	assert_string_equal(p->symbols[1].linkage, "main");
	assert_string_equal(p->symbols[2].linkage, "_Z4worki");
	assert_true(p->symbols[2].inlined && !p->symbols[1].inlined);
	assert_true(p->symbols[3].address == 0xffffffff81000000);
	assert_int_equal(p->locations[1].frame_count, 2);
	assert_int_equal(p->locations[3].frame_count, 0);
	assert_int_equal(p->frames[p->locations[1].first_frame].symbol, 2);
	assert_int_equal(p->frames[p->locations[1].first_frame + 1].line, 20);
	assert_string_equal(p->files[p->frames[p->locations[1].first_frame].file].path,
			    "/src/program.c");
	assert_int_equal(p->frames[p->locations[2].first_frame].file, 0);
	profile_destroy(p);
}

static void code_comes_back(void **state)
{
	AUTO(profile_code_destroy_auto) struct profile_code *code = NULL;

	full_profile_write();
	assert_int_equal(profile_code_create(path, &code), 0);
	for (int i = 0; i < 2; i++) {
		AUTO(free_ptr) void *bytes = NULL;
		size_t size = 0;

		assert_int_equal(profile_code_get(code, 2, &bytes, &size), -ENOENT);
		assert_int_equal(profile_code_get(code, 1, &bytes, &size), 0);
		assert_int_equal(size, 3);
		assert_memory_equal(bytes, "\x55\x00\xc3", 3);
		assert_int_equal(profile_code_get(code, 99, &bytes, &size), -ENOENT);
	}
}

static void sqlite_finds_nothing_wrong(void **state)
{
	full_profile_write();
	assert_answer("pragma integrity_check", "ok");
	assert_answer("select count(*) from pragma_foreign_key_check", "0");
	assert_answer("pragma application_id", "1098085241");
	assert_answer("pragma user_version", "10");
	assert_answer("pragma journal_mode", "delete");
}

static void views_agree_with_what_was_written(void **state)
{
	full_profile_write();
	assert_answer("select group_concat(symbol || ' ' || module || ' ' || self || ' ' || share, "
		      "'; ') from functions",
		      "sys_read [kernel] 7 0.7; work(int) program 1 0.1");
	assert_answer("select file || ':' || line || ' ' || symbol || ' ' || self from lines where "
		      "file is not null",
		      "/src/program.c:7 work(int) 1");
	assert_answer(
		"select group_concat(module || ' ' || self || ' ' || kind, '; ') from modules",
		"[kernel] 7 kernel; program 1 elf");
	assert_answer("select group_concat(pid || ' ' || comm || ' ' || self || ' ' || share, '; "
		      "') from processes",
		      "4000000000 program 8 0.8; 100 sh 0 0.0");
	assert_answer("select pid || ' ' || tid || ' ' || comm || ' ' || self || ' ' || share from "
		      "threads",
		      "4000000000 4000000001 worker 8 0.8");
	assert_answer("select pid || ' ' || comm || ' ' || module || ' ' || count || ' ' || kernel "
		      "from samples "
		      "where address = '0xffffffff81000010' and symbol = 'sys_read'",
		      "4000000000 worker [kernel] 7 7");
	assert_answer(
		"select group_concat(reason || ' ' || count || ' ' || share, '; ') from losses",
		"ring_full 2 0.2");
	assert_answer("select second || ' ' || tid || ' ' || count from timeline",
		      "0 4000000001 8");
	assert_answer("select seen || ' ' || kept || ' ' || lost from totals", "10 8 2");
	assert_answer("select group_concat(caller || ' > ' || callee || ' ' || count || ' ' || "
		      "share, '; ') from edges",
		      "main > work(int) 8 0.8; work(int) > sys_read 7 0.7");
}

static void finish_leaves_one_private_file(void **state)
{
	struct stat info;

	full_profile_write();
	assert_false(is_there("-wal") || is_there("-shm") || is_there("-journal"));
	assert_int_equal(lstat(path, &info), 0);
	assert_int_equal(info.st_mode, S_IFREG | 0600);
	assert_int_equal(others_count(), 0);
}

static void existing_profile_is_kept(void **state)
{
	struct profile *p;

	full_profile_write();
	full_profile_write();
	assert_true(is_there(".old"));
	store_destroy(create());
	p = load(old_path);
	assert_int_equal(p->kept, 8);
	profile_destroy(p);
	p = load(path);
	assert_true(p->kept == 0 && !p->finished);
	profile_destroy(p);
}

static void abandoned_recording_leaves_what_was_there(void **state)
{
	struct profile *p;

	store_abandon(create());
	assert_false(is_there(""));
	full_profile_write();
	store_abandon(create());
	assert_false(is_there(".old") || is_there("-wal") || is_there("-shm"));
	assert_int_equal(others_count(), 0);
	p = load(path);
	assert_true(p->kept == 8 && p->finished);
	profile_destroy(p);
}

static void foreign_files_are_left_alone(void **state)
{
	struct store *store = NULL;
	struct stat info;

	file_write("my thesis");
	assert_int_equal(store_create(path, &store), -EEXIST);
	assert_non_null(strstr(err_text(), "not an Assay profile"));
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_size, 9);
	assert_int_equal(store_create(folder, &store), -EISDIR);
	assert_int_equal(store_create("/dev/null", &store), -EINVAL);
	assert_int_equal(store_create("/nonexistent/assay.db", &store), -ENOENT);
	assert_non_null(
		strstr(err_text(), "/nonexistent/assay.db: cannot be written: No such file"));
	assert_null(store);
}

static void empty_file_is_replaced(void **state)
{
	file_write("");
	full_profile_write();
	assert_false(is_there(".old"));
}

static void second_writer_is_refused(void **state)
{
	struct store *first = create(), *second = NULL;

	assert_int_equal(store_create(path, &second), -EBUSY);
	assert_int_equal(store_reopen(path, &second), -EBUSY);
	assert_false(is_there(".old"));
	store_destroy(first);
	assert_int_equal(store_reopen(path, &second), 0);
	store_destroy(second);
}

static void reader_sees_the_last_commit_of_a_running_writer(void **state)
{
	struct store *store = create();
	struct profile *p;

	identities_put(store);
	stacks_put(store);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(store_samples_add(store, thread_1, (struct stack_id){ 1 }, 100, 0), 0);
	p = load(path);
	assert_int_equal(p->kept, 8);
	assert_false(p->finished);
	profile_destroy(p);
	store_destroy(store);
}

static void unfinished_profile_is_completed(void **state)
{
	struct store *store = create();
	struct store_unnamed *unnamed = NULL;
	size_t count = 0;

	identities_put(store);
	stacks_put(store);
	assert_int_equal(store_commit(store), 0);
	store_destroy(store);
	assert_int_equal(store_reopen(path, &store), 0);
	assert_int_equal(store_unnamed_list(store, &unnamed, &count), 0);
	assert_int_equal(count, 3);
	assert_true(unnamed[0].location.v == 1 && unnamed[0].self == 1);
	/* By address, where it exceeds the signed range too. */
	assert_true(unnamed[1].location.v == 3 && unnamed[1].self == 0 && unnamed[1].module.v == 2);
	assert_true(unnamed[2].location.v == 2 && unnamed[2].self == 7);
	assert_true(unnamed[2].address == 0xffffffff81000010);
	free(unnamed);
	names_put(store);
	assert_int_equal(store_unnamed_list(store, &unnamed, &count), 0);
	assert_int_equal(count, 1);
	free(unnamed);
	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
	assert_int_equal(store_reopen(path, &store), -EALREADY);
	assert_answer("select value from meta where key = 'finished'", "1");
	assert_answer("select group_concat(total) from stack_total", "8,7");
}

static void module_is_read_back(void **state)
{
	struct store *store = create();
	struct store_module module;
	char *module_path = NULL;

	identities_put(store);
	assert_int_equal(store_module_get(store, (struct module_id){ 1 }, &module, &module_path),
			 0);
	assert_int_equal(module.kind, MODULE_ELF);
	assert_string_equal(module_path, "/usr/bin/program");
	assert_string_equal(module.build_id, "ab01ff");
	free(module_path);
	assert_int_equal(store_module_get(store, (struct module_id){ 3 }, &module, &module_path),
			 0);
	assert_true(module.kind == MODULE_JIT && module.process.v == 2 && module.deleted);
	assert_string_equal(module.build_id, "");
	free(module_path);
	assert_int_equal(store_module_get(store, (struct module_id){ 9 }, &module, &module_path),
			 -ENOENT);
	store_destroy(store);
}

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

static void next_module_is_free(void **state)
{
	AUTO(store_destroy_auto) struct store *store = create();
	struct store_module row = { .id = { 7 }, .kind = MODULE_KERNEL, .path = "[ext4]" };
	struct module_id next;

	assert_int_equal(store_module_next(store, &next), 0);
	assert_int_equal(next.v, 1);
	assert_int_equal(store_module_put(store, &row), 0);
	assert_int_equal(store_module_next(store, &next), 0);
	assert_int_equal(next.v, 8);
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

/* Of a long recording the last seconds stay, whatever order the samples of a commit come in. */
static void moments_of_the_last_seconds_stay(void **state)
{
	const uint32_t end = 2 * STORE_MOMENTS_KEPT;
	struct store *store = NULL;
	char text[16];

	assert_int_equal(store_create(path, &store), 0);
	identities_put(store);
	for (uint32_t second = 0; second < end; second++) {
		store_samples_add(store, thread_1, (struct stack_id){ 1 }, 2, 1);
		store_moment_add(store, second, thread_1, (struct stack_id){ 1 }, 2, 1);
		assert_int_equal(store_commit(store), 0);
	}
	store_destroy(store);
	snprintf(text, sizeof(text), "%d", STORE_MOMENTS_KEPT);
	assert_answer("select count(*) from moment", text);
	snprintf(text, sizeof(text), "%d", STORE_MOMENTS_KEPT);
	assert_answer("select min(second) from moment", text);
	assert_answer("select max(count) from moment", "2");
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

/* While it is written, nobody else can reach the file or its log. */
static void shared_folder_has_a_link_only(void **state)
{
	struct store *store = create();
	struct stat info;

	identities_put(store);
	assert_int_equal(store_commit(store), 0);
	assert_int_equal(lstat(path, &info), 0);
	assert_true(S_ISLNK(info.st_mode));
	assert_false(is_there("-wal") || is_there("-shm") || is_there("-journal"));
	AUTO(free_ptr) char *real = realpath(path, NULL);
	*strrchr(real, '/') = 0;
	assert_int_equal(stat(real, &info), 0);
	assert_int_equal(info.st_mode, S_IFDIR | 0700);
	assert_int_equal(store_finish(store), 0);
	store_destroy(store);
	assert_int_equal(lstat(path, &info), 0);
	assert_int_equal(info.st_mode, S_IFREG | 0600);
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

#define SHARED(name) cmocka_unit_test_setup_teardown(name, shared, own)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(moments_of_the_last_seconds_stay, clean),
		cmocka_unit_test_setup(identities_come_back, clean),
		cmocka_unit_test_setup(samples_come_back, clean),
		cmocka_unit_test_setup(names_come_back, clean),
		cmocka_unit_test_setup(code_comes_back, clean),
		cmocka_unit_test_setup(sqlite_finds_nothing_wrong, clean),
		cmocka_unit_test_setup(views_agree_with_what_was_written, clean),
		cmocka_unit_test_setup(finish_leaves_one_private_file, clean),
		cmocka_unit_test_setup(existing_profile_is_kept, clean),
		cmocka_unit_test_setup(abandoned_recording_leaves_what_was_there, clean),
		cmocka_unit_test_setup(foreign_files_are_left_alone, clean),
		cmocka_unit_test_setup(empty_file_is_replaced, clean),
		cmocka_unit_test_setup(second_writer_is_refused, clean),
		cmocka_unit_test_setup(reader_sees_the_last_commit_of_a_running_writer, clean),
		cmocka_unit_test_setup(unfinished_profile_is_completed, clean),
		cmocka_unit_test_setup(module_is_read_back, clean),
		cmocka_unit_test_setup(next_module_is_free, clean),
		cmocka_unit_test_setup(killed_writer_loses_no_commit, clean),
		cmocka_unit_test_setup(killed_while_finishing_loses_nothing, clean),
		cmocka_unit_test_setup(killed_creator_blocks_nothing, clean),
		cmocka_unit_test_setup(log_of_a_killed_writer_is_kept, clean),
		cmocka_unit_test_setup(full_disk_undoes_the_whole_transaction, clean),
		cmocka_unit_test_setup(file_that_cannot_grow_keeps_what_was_committed, clean),
		SHARED(shared_folder_has_a_link_only),
		SHARED(finish_leaves_one_private_file),
		SHARED(existing_profile_is_kept),
		SHARED(abandoned_recording_leaves_what_was_there),
		SHARED(foreign_files_are_left_alone),
		SHARED(empty_file_is_replaced),
		SHARED(second_writer_is_refused),
		SHARED(reader_sees_the_last_commit_of_a_running_writer),
		SHARED(unfinished_profile_is_completed),
		SHARED(killed_writer_loses_no_commit),
		SHARED(killed_while_finishing_loses_nothing),
		SHARED(log_of_a_killed_writer_is_kept),
		SHARED(full_disk_undoes_the_whole_transaction),
	};

	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
