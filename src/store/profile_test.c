// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/err.h"
#include "base/mem.h"
#include "store/profile.h"
#include "store/store.h"

enum {
	SEED = 21,
	FLIPS = 3000,
	STACKS = 150,
	KEPT = STACKS * (STACKS + 1) / 2, /* samples that rows_put() adds */
	NOBODY = 65534,
};

static char folder[] = "/tmp/assay-profile-test-XXXXXX";
static char path[sizeof(folder) + 16];

static void file_remove(const char *suffix)
{
	AUTO(free_ptr) char *name = mem_printf("%s%s", path, suffix);

	unlink(name);
}

static int clean(void **state)
{
	file_remove("");
	file_remove("-wal");
	file_remove("-shm");
	file_remove("-journal");
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

static void bytes_write(const char *to, const void *bytes, size_t size)
{
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	close(fd);
}

static void *bytes_read(const char *from, size_t *ret_size)
{
	int fd = open(from, O_RDONLY);
	struct stat info;
	void *bytes;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &info), 0);
	bytes = mem_alloc((size_t)info.st_size);
	assert_int_equal(read(fd, bytes, (size_t)info.st_size), info.st_size);
	close(fd);
	*ret_size = (size_t)info.st_size;
	return bytes;
}

static void values_put(struct store *store)
{
	static const uint8_t list[300] = { 1, 2, 3 };

	for (uint32_t i = 1; i <= 3; i++)
		store_value_item_put(store,
				     &(struct store_value_item){
					     .id.v = i, .text = "i", .class = "c", .words = i });
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct location_id location = { i };

		store_value_put(store, &(struct store_value){ .id.v = STACKS + 1 - i,
							      .location = location,
							      .caller.v = i % 2 ? i : 0,
							      .item.v = 1 + i % 3,
							      .owner = i % 5 ? (int64_t)i : -1,
							      .width = 1 + i % 64,
							      .total = 2 * i,
							      .runs = i,
							      .has_moments = i % 3,
							      .minimum = -1,
							      .maximum = i,
							      .mean = i * 0.5,
							      .list = list,
							      .list_size = i * 2 });
		store_value_name_put(store, &(struct store_value_name){ (uint64_t)i << 56, location,
									"[heap]" });
		store_parameter_put(store, &(struct store_parameter){ .symbol.v = i,
								      .argument = i % 6,
								      .name = "n",
								      .type = "int",
								      .encoding = "signed",
								      .size = 4 });
	}
	store_run_end_put(store, &(struct store_run_end){ .reason = "length",
							  .mnemonic = "",
							  .text = "reached the length",
							  .count = 5 });
	store_run_end_put(store, &(struct store_run_end){ .reason = "unknown",
							  .mnemonic = "cpuid",
							  .text = "unknown",
							  .count = 6 });
	store_loss_set(store, RECORDING_VALUES, "nested", "nested", 5);
}

/* Some of everything, on enough pages that trees have inner nodes. */
static void rows_put(struct store *store)
{
	char text[256];

	for (uint32_t i = 1; i <= 3; i++) {
		store_process_put(store,
				  &(struct store_process){
					  .id.v = i, .parent.v = i - 1, .pid = i, .comm = "c" });
		store_thread_put(store, &(struct store_thread){
						.id.v = i, .process.v = i, .tid = i, .comm = "t" });
		store_module_put(store, &(struct store_module){
						.id.v = i, .kind = MODULE_ELF, .path = "/bin/m" });
	}
	for (uint32_t i = 1; i <= STACKS; i++) {
		struct location_id location = { i };

		snprintf(text, sizeof(text), "%0200u", i);
		store_symbol_put(store, &(struct store_symbol){
						.id.v = i, .module.v = 1 + i % 3, .name = text });
		store_file_put(store, &(struct store_file){ (struct file_id){ i }, text });
		store_location_put(
			store, &(struct store_location){ .id = location,
							 .module = (struct module_id){ 1 + i % 3 },
							 .address = i * 16 });
		store_frame_put(store, &(struct store_frame){
					       .location = location, .symbol.v = i, .file.v = i });
		store_frame_put(store, &(struct store_frame){
					       .location = location, .depth = 1, .symbol.v = 1 });
		store_stack_put(store,
				&(struct store_stack){ (struct stack_id){ i },
						       (struct stack_id){ i / 2 }, location });
		store_samples_add(store, (struct thread_id){ 1 + i % 3 }, (struct stack_id){ i }, i,
				  i / 2);
	}
	store_loss_set(store, RECORDING_SAMPLES, "nested", "nested", 5);
	store_stack_end_put(store, &(struct store_stack_end){ .reason = "complete",
							      .text = "walked to its root",
							      .count = 5 });
	values_put(store);
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

/*
 * The good profile as bytes, made once: what each damage starts from. It has recent samples as if
 * it were unfinished, one for each other row.
 */
static uint8_t *good;
static size_t good_size;

static int good_make(void **state)
{
	struct store *store = NULL;

	if (folder_make(state) || store_create(path, &store))
		return -1;
	rows_put(store);
	if (store_finish(store))
		return -1;
	store_destroy(store);
	sql_run("insert into recent select recording, stack, thread, 1, 1 from sample; "
		"update recording set kept = (select sum(count) from sample_all) where kind = "
		"'samples'");
	good = bytes_read(path, &good_size);
	return 0;
}

static int good_remove(void **state)
{
	free(good);
	return folder_remove(state);
}

static void profile_write(void)
{
	clean(NULL);
	bytes_write(path, good, good_size);
}

static void assert_text(const char *text)
{
	assert_non_null(text);
	assert_true(strlen(text) < 1 << 20);
}

static void assert_names_valid(const struct profile *p)
{
	for (size_t i = 0; i < p->module_count; i++) {
		assert_true(p->modules[i].kind < MODULE_KIND_COUNT);
		assert_text(p->modules[i].path);
		assert_text(p->modules[i].name);
		assert_text(p->modules[i].build_id);
	}
	for (size_t i = 0; i < p->symbol_count; i++) {
		assert_true(p->symbols[i].module < p->module_count);
		assert_text(p->symbols[i].name);
		assert_text(p->symbols[i].linkage);
	}
	for (size_t i = 0; i < p->file_count; i++)
		assert_text(p->files[i].path);
	for (size_t i = 0; i < p->frame_count; i++)
		assert_true(p->frames[i].symbol < p->symbol_count &&
			    p->frames[i].file < p->file_count);
	for (size_t i = 0; i < p->location_count; i++) {
		assert_true(p->locations[i].module < p->module_count);
		assert_true((uint64_t)p->locations[i].first_frame + p->locations[i].frame_count <=
			    p->frame_count);
	}
}

static void assert_tasks_valid(const struct profile *p)
{
	for (size_t i = 0; i < p->process_count; i++) {
		size_t steps = 0;

		assert_text(p->processes[i].comm);
		assert_text(p->processes[i].exe);
		assert_text(p->processes[i].cgroup);
		for (uint32_t at = (uint32_t)i; at; at = p->processes[at].parent)
			assert_true(at < p->process_count && steps++ < p->process_count);
	}
	for (size_t i = 0; i < p->thread_count; i++) {
		assert_true(p->threads[i].process < p->process_count);
		assert_text(p->threads[i].comm);
	}
}

static void assert_values_valid(const struct profile *p)
{
	for (size_t i = 1; i < p->value_item_count; i++) {
		assert_text(p->value_items[i].text);
		assert_text(p->value_items[i].class);
		assert_in_range(p->value_items[i].words, 0, STORE_VALUE_WORDS_MAX);
	}
	for (size_t i = 0; i < p->value_count; i++) {
		const struct profile_value *value = &p->values[i];

		assert_in_range(value->location, 1, p->location_count - 1);
		assert_true(value->caller < p->location_count);
		assert_in_range(value->item, 1, p->value_item_count - 1);
		assert_in_range(p->value_items[value->item].words, 1, STORE_VALUE_WORDS_MAX);
		assert_in_range(value->width, 1, 64);
		assert_true(value->owner >= -1 && value->owner <= UINT32_MAX);
		assert_true(value->list && value->list_size <= STORE_VALUE_LIST_MAX);
		assert_true(i == 0 || value[-1].location <= value->location);
		assert_true(value->minimum <= value->maximum && value->squares >= 0);
	}
	for (size_t i = 0; i < p->run_end_count; i++) {
		assert_text(p->run_ends[i].reason);
		assert_text(p->run_ends[i].mnemonic);
		assert_text(p->run_ends[i].text);
		assert_true(i == 0 || p->run_ends[i - 1].count >= p->run_ends[i].count);
	}
	for (size_t i = 0; i < p->value_name_count; i++) {
		assert_text(p->value_names[i].text);
		assert_true(p->value_names[i].location < p->location_count);
		assert_true(i == 0 || p->value_names[i - 1].value < p->value_names[i].value);
	}
	for (size_t i = 0; i < p->parameter_count; i++) {
		assert_in_range(p->parameters[i].symbol, 1, p->symbol_count - 1);
		assert_true(p->parameters[i].argument < STORE_ARGUMENTS);
		assert_text(p->parameters[i].encoding);
	}
}

static void assert_valid(const struct profile *p)
{
	uint64_t kept = 0, lost = 0;

	assert_names_valid(p);
	assert_tasks_valid(p);
	assert_values_valid(p);
	for (size_t i = 1; i < p->stack_count; i++) {
		assert_true(p->stacks[i].parent < i);
		assert_in_range(p->stacks[i].location, 1, p->location_count - 1);
	}
	for (size_t i = 0; i < p->sample_count; i++) {
		assert_in_range(p->samples[i].stack, 1, p->stack_count - 1);
		assert_in_range(p->samples[i].thread, 1, p->thread_count - 1);
		assert_true(p->samples[i].kernel <= p->samples[i].count);
		kept += p->samples[i].count;
	}
	for (size_t i = 0; i < p->loss_count; i++)
		lost += p->losses[i].count;
	assert_true(kept == p->kept && p->seen >= kept + lost);
}

static void assert_refused(int expected, const char *words)
{
	struct profile *p = NULL;

	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), expected);
	assert_null(p);
	if (strncmp(err_text(), path, strlen(path)) || !strstr(err_text(), words))
		fail_msg("\"%s\" does not say \"%s\"", err_text(), words);
}

static void good_profile_is_valid(void **state)
{
	struct profile *p = NULL;

	profile_write();
	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), 0);
	assert_valid(p);
	assert_int_equal(p->sample_count, STACKS);
	assert_int_equal(p->kept, KEPT + STACKS);
	assert_int_equal(p->seen, p->kept + 5);
	assert_true(p->value_count == STACKS && p->value_name_count == STACKS);
	profile_destroy(p);
}

static void empty_profile_has_its_entries_0(void **state)
{
	struct store *store = NULL;
	struct profile *p = NULL;

	assert_int_equal(store_create(path, &store), 0);
	store_destroy(store);
	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), 0);
	assert_valid(p);
	assert_true(p->process_count == 1 && p->stack_count == 1 && p->file_count == 1);
	profile_destroy(p);
}

static void files_that_are_no_profiles_are_told_apart(void **state)
{
	struct profile *p = NULL;

	assert_refused(-ENOENT, "no such profile");
	assert_int_equal(profile_load(folder, DOMAIN_ALL & ~DOMAIN_PATHS, &p), -EISDIR);
	assert_int_equal(profile_load("/dev/null", DOMAIN_ALL & ~DOMAIN_PATHS, &p), -EINVAL);
	bytes_write(path, "", 0);
	assert_refused(-ENODATA, "empty");
	bytes_write(path, "x", 1);
	assert_refused(-EINVAL, "not an Assay profile, nor any SQLite file");
	bytes_write(path, "PERFILE2, more than sixteen bytes of it", 39);
	assert_refused(-EINVAL, "not an Assay profile, nor any SQLite file");
	bytes_write(path, "SQLite format 3", 16);
	assert_refused(-EBADMSG, "truncated");
	clean(state);
	sql_run("create table stack (id integer)");
	assert_refused(-EINVAL, "of another program");
}

static void newer_profile_is_refused(void **state)
{
	profile_write();
	sql_run("pragma user_version = 11");
	assert_refused(-ENOTSUP, "format 11");
	sql_run("pragma user_version = 0");
	assert_refused(-EBADMSG, "version");
}

static void rows_that_lie_are_refused(void **state)
{
	static const struct {
		const char *sql, *words;
	} lies[] = {
		{ "update stack set parent = 9 where id = 9",
		  "table stack, row 9: a row comes before its parent" },
		{ "update stack set parent = 10 where id = 9", "before its parent" },
		{ "update stack set parent = -1 where id = 9", "out of range" },
		{ "update stack set location = 9999 where id = 9", "points nowhere" },
		{ "update stack set location = 0 where id = 9", "points nowhere" },
		{ "update stack set location = -1 where id = 9", "points nowhere" },
		{ "update stack set location = 4294967297 where id = 9", "points nowhere" },
		{ "delete from stack where id = 9", "table stack, row 9: an id is missing" },
		{ "delete from location where id = 9", "table location, row 9: an id is missing" },
		{ "update location set module = 4 where id = 9", "points nowhere" },
		{ "insert into stack values (0, 0, 1)",
		  "table stack, row 1: an id is out of range" },
		{ "insert into stack values (-5, 0, 1)", "out of range" },
		{ "insert into sample values (1, 9999, 1, 1, 0)",
		  "table sample, row 151: a reference points nowhere" },
		{ "insert into sample values (1, 1, 7, 1, 0)",
		  "table sample, row 2: a reference points nowhere" },
		{ "update sample set count = -1 where stack = 9", "out of range" },
		{ "update sample set kernel = count + 1 where stack = 9", "out of range" },
		{ "update sample set count = 0x7fffffffffffffff", "the counts are too large" },
		{ "insert into recent values (1, 9999, 1, 1, 0)",
		  "table recent, row 151: a reference points nowhere" },
		{ "insert into recent values (1, 1, 7, 1, 0)", "points nowhere" },
		{ "update recent set count = -1 where stack = 9", "out of range" },
		{ "update recent set kernel = 2 where stack = 9",
		  "table recent, row 9: a number is out of range" },
		{ "update recent set rowid = -1 where rowid = 9", "out of range" },
		{ "update recent set count = 0x7fffffffffffffff", "the counts are too large" },
		{ "update loss set count = 0x7fffffffffffffff", "the counts are too large" },
		{ "update loss set count = -1", "out of range" },
		{ "update recording set seen = -1", "out of range" },
		{ "update recording set kept = kept + 1 where kind = 'samples'",
		  "not as many as were kept" },
		{ "delete from recording where kind = 'samples'",
		  "table loss, row 1: a reference points nowhere" },
		{ "update recording set kind = 'simples'", "of no known kind" },
		{ "insert into recording values (9, 'samples', 'samples', 0, 0, 0, 0, 1)",
		  "two recordings of one kind" },
		{ "update sample set recording = (select id from recording where kind = 'values') "
		  "where stack = 9",
		  "a recording is of another kind" },
		{ "update process set machine = 7", "points nowhere" },
		{ "update process set parent = 3 where id = 1", "descends from itself" },
		{ "update process set parent = 2 where id = 2", "descends from itself" },
		{ "update process set pid = 4294967296", "out of range" },
		{ "update process set uid = -1", "out of range" },
		{ "update thread set process = 4", "points nowhere" },
		{ "delete from process where id = 2",
		  "table thread, row 2: a reference points nowhere" },
		{ "insert into thread select 2000000, 1, 1, 'x', 0, 0", "an id is out of range" },
		{ "insert into thread select 5000000000, 1, 1, 'x', 0, 0", "out of range" },
		{ "update module set kind = 'elk'", "of no known kind" },
		{ "delete from module where id = 2", "points nowhere" },
		{ "update frame set symbol = 0 where location = 1", "points nowhere" },
		{ "update frame set file = 151 where location = 1", "points nowhere" },
		{ "update frame set file = -1 where location = 1", "points nowhere" },
		{ "update frame set line = -1 where location = 1", "out of range" },
		{ "update frame set depth = 2 where location = 9 and depth = 1",
		  "a frame is missing" },
		{ "insert into frame values (9999, 0, 1, 1, 1)", "points nowhere" },
		{ "update symbol set module = 0 where id = 9", "points nowhere" },
		{ "update symbol set inlined = 2 where id = 9", "out of range" },
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		profile_write();
		sql_run(lies[i].sql);
		assert_refused(-EBADMSG, lies[i].words);
	}
}

/* A view could yield rows without end, a looser table values of any type. */
static void tables_that_are_not_ours_are_refused(void **state)
{
	static const char *const tricks[] = {
		"drop table stack; create view stack as with recursive r (id) as "
		"(select 1 union all select id + 1 from r) select id, 0 as parent, 1 as location "
		"from r",
		"drop table meta",
		"alter table sample add column more text",
		"drop table file; create table file (id integer primary key, path)",
	};

	for (size_t i = 0; i < sizeof(tricks) / sizeof(*tricks); i++) {
		profile_write();
		sql_run(tricks[i]);
		assert_refused(-EBADMSG, "missing or not laid out");
	}
}

static void tables_and_indexes_of_the_user_do_not_matter(void **state)
{
	struct profile *p = NULL;

	profile_write();
	sql_run("create table mine (x); create index i on stack (location, parent); create index j "
		"on sample "
		"(count, kernel); analyze; delete from file where id = 500; insert into file "
		"values (900, 'far')");
	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), 0);
	assert_valid(p);
	assert_int_equal(p->file_count, 901);
	assert_string_equal(p->files[899].path, "");
	assert_string_equal(p->files[900].path, "far");
	profile_destroy(p);
}

static void long_texts_come_whole(void **state)
{
	struct profile *p = NULL;

	profile_write();
	sql_run("update file set path = hex(zeroblob(100000)) where id = 1");
	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), 0);
	assert_int_equal(strlen(p->files[1].path), 200000);
	profile_destroy(p);
}

/* Either outcome is right for damage in mere values, but what loads is valid. */
static bool damaged_loads(void)
{
	struct profile *p = NULL;
	int err = profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p);

	if (err) {
		assert_true(err < 0);
		assert_int_equal(strncmp(err_text(), path, strlen(path)), 0);
		return false;
	}
	assert_valid(p);
	profile_destroy(p);
	return true;
}

static void flipped_bytes_never_give_an_invalid_profile(void **state)
{
	AUTO(free_ptr) uint8_t *bad = mem_alloc(good_size);
	size_t loaded = 0;

	srandom(SEED);
	for (int i = 0; i < FLIPS; i++) {
		memcpy(bad, good, good_size);
		for (long flips = 1 + random() % 8; flips > 0; flips--)
			bad[(size_t)random() % good_size] ^= (uint8_t)(1 + random() % 255);
		bytes_write(path, bad, good_size);
		loaded += damaged_loads();
	}
	assert_in_range(loaded, FLIPS / 100, FLIPS - FLIPS / 100);
}

static void truncation_is_noticed_everywhere(void **state)
{
	for (size_t keep = 1; keep < good_size; keep += 509) {
		bytes_write(path, good, keep);
		assert_refused(-EBADMSG, "truncated");
	}
}

/* A log beside the file hides the size that the header tells; SQLite itself has to notice. */
static void truncation_beside_a_log_is_harmless(void **state)
{
	AUTO(free_ptr) char *log = mem_printf("%s-wal", path);

	for (size_t keep = 100; keep < good_size; keep += 509) {
		bytes_write(path, good, keep);
		bytes_write(log, good, 50);
		damaged_loads();
	}
}

/* Leaves a profile whose rows are only in the log, as kill -9 does, and no -shm. */
static void killed_profile_write(void)
{
	AUTO(free_ptr) char *log = mem_printf("%s-wal", path);
	AUTO(free_ptr) void *main_bytes = NULL;
	AUTO(free_ptr) void *log_bytes = NULL;
	size_t main_size, log_size;
	struct store *store = NULL;

	assert_int_equal(store_create(path, &store), 0);
	rows_put(store);
	assert_int_equal(store_commit(store), 0);
	main_bytes = bytes_read(path, &main_size);
	log_bytes = bytes_read(log, &log_size);
	store_destroy(store);
	clean(NULL);
	bytes_write(path, main_bytes, main_size);
	bytes_write(log, log_bytes, log_size);
}

static int load_as_nobody(uint64_t kept)
{
	struct profile *p = NULL;

	if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY)))
		return 2;
	if (profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p)) {
		print_error("%s\n", err_text());
		return 3;
	}
	return p->kept == kept ? 0 : 4;
}

static int status_of_load_as_nobody(uint64_t kept)
{
	pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (child == 0)
		_exit(load_as_nobody(kept));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Where neither the file nor anything beside it may be written, the log is read all the same. */
static void log_is_read_from_a_folder_that_cannot_be_written(void **state)
{
	AUTO(free_ptr) char *log = mem_printf("%s-wal", path);
	int with_log, without_log;

	killed_profile_write();
	assert_int_equal(chmod(path, 0444) | chmod(log, 0444) | chmod(folder, 0555), 0);
	with_log = status_of_load_as_nobody(KEPT);
	assert_int_equal(chmod(folder, 0755), 0);
	profile_write();
	assert_int_equal(chmod(path, 0444) | chmod(folder, 0555), 0);
	without_log = status_of_load_as_nobody(KEPT + STACKS);
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(with_log, 0);
	assert_int_equal(without_log, 0);
}

static void reading_changes_nothing(void **state)
{
	AUTO(free_ptr) char *log = mem_printf("%s-wal", path);
	AUTO(free_ptr) void *before = NULL;
	AUTO(free_ptr) void *after = NULL;
	size_t size_before, size_after;
	struct profile *p = NULL;

	killed_profile_write();
	before = bytes_read(log, &size_before);
	assert_int_equal(profile_load(path, DOMAIN_ALL & ~DOMAIN_PATHS, &p), 0);
	assert_int_equal(p->kept, KEPT);
	profile_destroy(p);
	after = bytes_read(log, &size_after);
	assert_int_equal(size_before, size_after);
	assert_memory_equal(before, after, size_before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(good_profile_is_valid, clean),
		cmocka_unit_test_setup(empty_profile_has_its_entries_0, clean),
		cmocka_unit_test_setup(files_that_are_no_profiles_are_told_apart, clean),
		cmocka_unit_test_setup(newer_profile_is_refused, clean),
		cmocka_unit_test_setup(rows_that_lie_are_refused, clean),
		cmocka_unit_test_setup(tables_that_are_not_ours_are_refused, clean),
		cmocka_unit_test_setup(tables_and_indexes_of_the_user_do_not_matter, clean),
		cmocka_unit_test_setup(long_texts_come_whole, clean),
		cmocka_unit_test_setup(flipped_bytes_never_give_an_invalid_profile, clean),
		cmocka_unit_test_setup(truncation_is_noticed_everywhere, clean),
		cmocka_unit_test_setup(truncation_beside_a_log_is_harmless, clean),
		cmocka_unit_test_setup(log_is_read_from_a_folder_that_cannot_be_written, clean),
		cmocka_unit_test_setup(reading_changes_nothing, clean),
	};

	print_message("seed %d\n", SEED);
	return cmocka_run_group_tests(tests, good_make, good_remove);
}
