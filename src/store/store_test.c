// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1, S2.
/* Profiles that are written and read back, and what may happen to the file in between. */
#include "store/store_test.h"

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
		SHARED(shared_folder_has_a_link_only),
		SHARED(finish_leaves_one_private_file),
		SHARED(existing_profile_is_kept),
		SHARED(abandoned_recording_leaves_what_was_there),
		SHARED(foreign_files_are_left_alone),
		SHARED(empty_file_is_replaced),
		SHARED(second_writer_is_refused),
		SHARED(reader_sees_the_last_commit_of_a_running_writer),
		SHARED(unfinished_profile_is_completed),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
