// SPDX-License-Identifier: BSD-2-Clause
// Serves: V1.
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/mem.h"
#include "unwind/unwind.h"

static const struct build_id id = { .size = 4, .bytes = { 0xde, 0xad, 0xbe, 0xef } };

/* A cache folder and the file in it that loading this test itself leaves. */
struct fixture {
	char dir[32];
	char path[64];
	int module; /* this program's file */
	struct unwind_table expected;
};

static int fixture_setup(void **state)
{
	struct fixture *fixture = mem_zalloc(sizeof(*fixture));

	snprintf(fixture->dir, sizeof(fixture->dir), "/tmp/unwind_cache.XXXXXX");
	if (!mkdtemp(fixture->dir))
		return -1;
	snprintf(fixture->path, sizeof(fixture->path), "%s/deadbeef.unwind", fixture->dir);
	fixture->module = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	*state = fixture;
	return unwind_table_load(fixture->module, &id, NULL, &fixture->expected);
}

static int entry_remove(const char *path, const struct stat *info, int type, struct FTW *place)
{
	return remove(path);
}

static int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;

	nftw(fixture->dir, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
	unwind_table_deinit(&fixture->expected);
	close(fixture->module);
	free(fixture);
	return 0;
}

/* Loads through the cache; says whether the table came from it. */
static bool load(const struct fixture *fixture)
{
	struct unwind_table table = {};
	bool cached;

	assert_int_equal(unwind_table_load(fixture->module, &id, fixture->dir, &table), 0);
	assert_int_equal(table.count, fixture->expected.count);
	assert_int_equal(table.base, fixture->expected.base);
	assert_memory_equal(table.rows, fixture->expected.rows, table.count * sizeof(*table.rows));
	cached = table.mapped;
	unwind_table_deinit(&table);
	return cached;
}

static size_t entries_count(const char *path)
{
	DIR *dir = opendir(path);
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

static void the_second_load_is_from_the_cache(void **state)
{
	struct fixture *fixture = *state;

	assert_true(fixture->expected.count > 100);
	assert_false(load(fixture));
	assert_true(load(fixture));
	assert_int_equal(entries_count(fixture->dir), 1);
}

static void without_an_id_or_a_folder_nothing_is_cached(void **state)
{
	struct fixture *fixture = *state;
	const struct build_id none = {};
	struct unwind_table table;

	assert_int_equal(unwind_table_load(fixture->module, &none, fixture->dir, &table), 0);
	assert_int_equal(table.count, fixture->expected.count);
	unwind_table_deinit(&table);
	assert_int_equal(entries_count(fixture->dir), 0);
	assert_int_equal(unwind_table_load(fixture->module, &id, "/nonexistent", &table), 0);
	unwind_table_deinit(&table);
}

static void a_flipped_byte_is_noticed(void **state)
{
	struct fixture *fixture = *state;
	struct stat info;

	load(fixture);
	assert_int_equal(stat(fixture->path, &info), 0);
	for (off_t at = 0; at < info.st_size; at += at < 64 ? 1 : 997) {
		AUTO(close_fd) int fd = open(fixture->path, O_RDWR);
		uint8_t byte;

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x10;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		assert_false(load(fixture));
		assert_true(load(fixture));
	}
	assert_int_equal(entries_count(fixture->dir), 1);
}

static void a_cut_or_longer_file_is_noticed(void **state)
{
	struct fixture *fixture = *state;
	const off_t cuts[] = { 0, 1, 47, 48, 56, 60 };
	struct stat info;

	load(fixture);
	assert_int_equal(stat(fixture->path, &info), 0);
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		assert_int_equal(truncate(fixture->path, cuts[i]), 0);
		assert_false(load(fixture));
		assert_int_equal(truncate(fixture->path, info.st_size - cuts[i] - 1), 0);
		assert_false(load(fixture));
		assert_int_equal(truncate(fixture->path, info.st_size + cuts[i] + 1), 0);
		assert_false(load(fixture));
		assert_true(load(fixture));
	}
}

static void another_file_with_this_id_gets_its_own_table(void **state)
{
	struct fixture *fixture = *state;
	AUTO(close_fd) int other = open("/bin/sh", O_RDONLY | O_CLOEXEC);
	struct unwind_table table;

	load(fixture);
	assert_int_equal(unwind_table_load(other, &id, fixture->dir, &table), 0);
	assert_null(table.mapped);
	assert_int_not_equal(table.count, fixture->expected.count);
	unwind_table_deinit(&table);
	assert_false(load(fixture));
}

/* This program's file in memory, and where its section .init lies in it. */
static uint8_t *module_read(const struct fixture *fixture, size_t *ret_size, size_t *ret_init)
{
	const Elf64_Ehdr *header;
	const Elf64_Shdr *sections;
	struct stat info;
	uint8_t *bytes;

	assert_int_equal(fstat(fixture->module, &info), 0);
	*ret_size = (size_t)info.st_size;
	bytes = mem_alloc(*ret_size);
	assert_int_equal(pread(fixture->module, bytes, *ret_size, 0), info.st_size);
	header = (const void *)bytes;
	sections = (const void *)(bytes + header->e_shoff);
	*ret_init = 0;
	for (int i = 0; i < header->e_shnum; i++) {
		size_t name = sections[header->e_shstrndx].sh_offset + sections[i].sh_name;

		if (strcmp((const char *)bytes + name, ".init") == 0)
			*ret_init = sections[i].sh_offset;
	}
	assert_true(*ret_init);
	return bytes;
}

/* Its .eh_frame is the same, but not the code that has rows without being in it. */
static void a_file_with_another_init_gets_its_own_table(void **state)
{
	struct fixture *fixture = *state;
	size_t size, init;
	AUTO(free_ptr) uint8_t *bytes = module_read(fixture, &size, &init);
	AUTO(free_ptr) char *path = mem_printf("%s/module", fixture->dir);
	AUTO(close_fd) int other = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct unwind_table table;

	load(fixture);
	bytes[init] ^= 1;
	assert_int_equal(write(other, bytes, size), (ssize_t)size);
	assert_int_equal(unwind_table_load(other, &id, fixture->dir, &table), 0);
	assert_null(table.mapped);
	assert_true(table.count < fixture->expected.count);
	unwind_table_deinit(&table);
}

static void a_file_that_others_may_write_is_not_believed(void **state)
{
	struct fixture *fixture = *state;

	load(fixture);
	assert_int_equal(chmod(fixture->path, 0622), 0);
	assert_false(load(fixture));
	assert_true(load(fixture));
}

static void what_is_no_module_is_refused(void **state)
{
	struct fixture *fixture = *state;
	AUTO(close_fd) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	AUTO(close_fd) int text = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	struct unwind_table table;

	assert_int_equal(unwind_table_load(null, &id, fixture->dir, &table), -ENOEXEC);
	assert_int_equal(unwind_table_load(text, &id, fixture->dir, &table), -ENOEXEC);
	assert_int_equal(unwind_table_load(-1, &id, fixture->dir, &table), -EBADF);
	assert_int_equal(entries_count(fixture->dir), 0);
}

/* A file so large that reading what its headers claim would exhaust memory: it is empty. */
static void a_huge_hollow_file_costs_nothing(void **state)
{
	struct fixture *fixture = *state;
	AUTO(close_fd) int hollow = open(fixture->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char header[64];
	struct unwind_table table;

	assert_int_equal(pread(fixture->module, header, sizeof(header), 0), sizeof(header));
	assert_int_equal(pwrite(hollow, header, sizeof(header), 0), sizeof(header));
	assert_int_equal(ftruncate(hollow, (off_t)1 << 40), 0);
	assert_int_equal(unwind_table_load(hollow, NULL, NULL, &table), 0);
	assert_int_equal(table.count, 0);
	unwind_table_deinit(&table);
}

static void the_folder_is_found_and_made(void **state)
{
	struct fixture *fixture = *state;
	AUTO(free_ptr) char *chosen = mem_printf("%s/a/b", fixture->dir);
	AUTO(free_ptr) char *home = mem_printf("%s/home/.cache/assay", fixture->dir);
	AUTO(free_ptr) char *xdg = mem_printf("%s/xdg/assay", fixture->dir);
	char root[64];

	setenv("ASSAY_CACHE_DIR", chosen, 1);
	snprintf(root, sizeof(root), "%s/xdg", fixture->dir);
	setenv("XDG_CACHE_HOME", root, 1);
	snprintf(root, sizeof(root), "%s/home", fixture->dir);
	setenv("HOME", root, 1);
	assert_string_equal(unwind_cache_dir(), chosen);
	assert_int_equal(access(chosen, W_OK), 0);
	unsetenv("ASSAY_CACHE_DIR");
	assert_string_equal(unwind_cache_dir(), xdg);
	unsetenv("XDG_CACHE_HOME");
	assert_string_equal(unwind_cache_dir(), home);
	setenv("ASSAY_CACHE_DIR", "/proc/none", 1);
	assert_null(unwind_cache_dir());
	setenv("ASSAY_CACHE_DIR", "", 1);
	assert_null(unwind_cache_dir());
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(the_second_load_is_from_the_cache),
		WITH_FIXTURE(without_an_id_or_a_folder_nothing_is_cached),
		WITH_FIXTURE(a_flipped_byte_is_noticed),
		WITH_FIXTURE(a_cut_or_longer_file_is_noticed),
		WITH_FIXTURE(another_file_with_this_id_gets_its_own_table),
		WITH_FIXTURE(a_file_with_another_init_gets_its_own_table),
		WITH_FIXTURE(a_file_that_others_may_write_is_not_believed),
		WITH_FIXTURE(what_is_no_module_is_refused),
		WITH_FIXTURE(a_huge_hollow_file_costs_nothing),
		WITH_FIXTURE(the_folder_is_found_and_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
