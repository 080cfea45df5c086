// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
/* ELF files: names, objects, stubs and build-ids, against nm, objdump and readelf. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "support/symbols_fixture.h"
#include "symbols/fde.h"
#include "symbols/symbols.h"

static void nothing_known(const char *path, uint64_t address)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = fixture_symbols(path);
	struct symbol_answer answer;

	assert_int_equal(symbols_resolve(symbols, address, &answer), -ENOENT);
}

/* Reads that this process has made; 0: the kernel does not say. */
static uint64_t reads_so_far(void)
{
	AUTO(close_file) FILE *file = fopen("/proc/self/io", "re");
	char line[128];
	uint64_t count = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "syscr: %" SCNu64, &count) == 1)
			break;
	return count;
}

/* The table of functions is read once, not an entry at a time: see fde.h. */
static void functions_are_found_with_few_reads(void **state)
{
	enum { LOOKUPS = 2000, SPARE = 100 };
	AUTO(fde_table_deinit) struct fde_table table = {};
	AUTO(elf_image_deinit) struct elf_image image = {};
	AUTO(close_fd) int fd = -1;
	uint64_t hidden, begin, size, before;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	hidden = fixture_address("prog", "hidden");
	fd = fixture_open("prog");
	assert_int_equal(elf_image_init(&image, fd, "prog"), 0);
	before = reads_so_far();
	for (size_t i = 0; i < LOOKUPS; i++) {
		assert_int_equal(fde_find(&table, &image, hidden + i % 2, &begin, &size), 0);
		assert_int_equal(begin, hidden);
	}
	assert_true(table.count > 4);
	assert_int_equal(fde_find(&table, &image, 1, &begin, &size), -ENOENT);
	assert_true(reads_so_far() - before <= LOOKUPS + SPARE);
}

/* In a mount namespace of its own, so that nothing is left in /usr/lib/debug. */
static int build_id_child(uint64_t hidden)
{
	struct symbol_answer answer;
	AUTO(close_fd) int fd = open("prog", O_RDONLY);
	struct symbols *symbols;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/usr/lib/debug", "tmpfs", 0, NULL) < 0)
		return 77;
	if (!fixture_try("id=$(readelf -n prog | sed -n 's/.*Build ID: //p');"
			 "d=/usr/lib/debug/.build-id/$(echo $id | cut -c1-2); mkdir -p $d;"
			 "cp kept $d/$(echo $id | cut -c3-).debug"))
		return 1;
	if (symbols_open(fd, "prog", &symbols) < 0 || symbols_resolve(symbols, hidden, &answer) < 0)
		return 2;
	return answer.frames[answer.frame_count - 1].line == 18 ? 0 : 3;
}

static void build_id_finds_the_debug_file(void **state)
{
	bool made = mkdir("/usr/lib/debug", 0755) == 0;
	uint64_t hidden;
	int status;
	pid_t pid;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -Wl,--build-id -o prog prog.c");
	hidden = fixture_address("prog", "hidden");
	fixture_run("objcopy --only-keep-debug prog kept && strip prog");
	fixture_resolves("prog", hidden, NULL, false);
	pid = fork();
	if (pid == 0)
		_exit(build_id_child(hidden));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (made)
		rmdir("/usr/lib/debug");
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* The recipe of the GDB manual. */
static void mini_debug_info_is_read(void **state)
{
	uint64_t hidden;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	hidden = fixture_address("prog", "hidden");
	fixture_run(
		"nm prog --format=posix --defined-only | awk '$2 ~ /[tT]/ { print $1 }' > keep &&"
		"objcopy --only-keep-debug prog debug &&"
		"objcopy -S --remove-section .comment --keep-symbols=keep debug mini &&"
		"rm -f mini.xz && xz mini && strip prog");
	fixture_resolves("prog", hidden, NULL, false);
	fixture_run("objcopy --add-section .gnu_debugdata=mini.xz prog");
	fixture_resolves("prog", hidden, "hidden", false);
}

/* Oracle: nm -D. The name must be one of those that nm gives for the address. */
static void dynamic_symbols_agree_with_nm(const char *path)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	AUTO(close_file) FILE *output = NULL;
	char line[4096], *name;
	uint64_t last = UINT64_MAX;
	bool matched = true;
	size_t checked = 0;

	fixture_run("objcopy -R .note.gnu.build-id -R .gnu_debuglink -R .gnu_debugaltlink %s bare "
		    "2>/dev/null",
		    path);
	symbols = fixture_symbols("bare");
	output = fixture_output("nm -Dn --defined-only --without-symbol-versions bare | grep -E ' "
				"[TWi] ' | grep -v data_start");
	while (fixture_line(output, line, sizeof(line))) {
		uint64_t address = strtoull(line, &name, 16);
		struct symbol_answer answer;

		if (address != last)
			assert_true(matched);
		matched = address == last && matched;
		last = address;
		assert_int_equal(symbols_resolve(symbols, address, &answer), 0);
		assert_int_equal(answer.address, address);
		matched |= strcmp(answer.frames[0].linkage, name + 3) == 0;
		checked++;
	}
	assert_true(matched);
	assert_true(checked > 1000);
}

static void real_files_agree_with_nm(void **state)
{
	dynamic_symbols_agree_with_nm("/usr/bin/python3");
	dynamic_symbols_agree_with_nm("/lib/x86_64-linux-gnu/libc.so.6");
}

/* Oracle: objdump's names for the stubs. */
static void stubs_agree_with_objdump(const char *path, size_t at_least)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = fixture_symbols(path);
	AUTO(close_file)
	FILE *output = fixture_output("objdump -d --no-show-raw-insn %s | sed -nE 's/^([0-9a-f]+) "
				      "<([^*>]*@plt)>:/\\1 \\2/p'",
				      path);
	char line[512], *name;
	size_t checked = 0;

	while (fixture_line(output, line, sizeof(line))) {
		uint64_t address = strtoull(line, &name, 16);
		struct symbol_answer answer;

		if (strcmp(name, " .plt@plt") == 0 || strstr(name, "-0x"))
			continue;
		assert_int_equal(symbols_resolve(symbols, address + 4, &answer), 0);
		assert_string_equal(answer.frames[0].linkage, name + 1);
		assert_int_equal(answer.address, address);
		checked++;
	}
	assert_true(checked >= at_least);
}

static void stubs_have_names(void **state)
{
	fixture_write("prog.c", fixture_c_source);
	fixture_run(
		"gcc -O2 -o prog prog.c && gcc -O2 -fcf-protection -Wl,-z,ibtplt -o ibt prog.c");
	stubs_agree_with_objdump("prog", 3);
	stubs_agree_with_objdump("ibt", 3);
	stubs_agree_with_objdump("/usr/bin/python3", 300);
}

static void assembly_without_sizes_is_named(void **state)
{
	uint64_t first;

	fixture_write("part.S", ".globl first\n.text\nfirst: nop\nnop\nnop\nsecond: nop\nnop\n"
				".globl _start\n_start: nop\n.section .note.GNU-stack\n");
	fixture_run("gcc -nostdlib -static -o asm part.S");
	first = fixture_address("asm", "first");
	fixture_resolves("asm", first + 2, "first", false);
	fixture_resolves("asm", first + 4, "second", false);
	nothing_known("asm", first + 100);
}

/* Below are offsets of thread-local variables. */
enum { FIRST_ADDRESS = 0x1000 };

/* Oracle: nm. Asked for inside of each object. */
static void objects_agree_with_nm(const char *path, const char *flags, size_t at_least)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = fixture_symbols(path);
	AUTO(close_file)
	FILE *output = fixture_output("nm %s -nS --defined-only --without-symbol-versions %s",
				      flags, path);
	size_t checked = 0, same = 0, named = 0;
	char line[4096], name[4096], type;
	unsigned long start, size;

	while (fixture_line(output, line, sizeof(line))) {
		struct symbol_answer answer;

		if (sscanf(line, "%lx %lx %c %4095s", &start, &size, &type, name) != 4 ||
		    !strchr("bBdDrRuVv", type) || !size || start < FIRST_ADDRESS)
			continue;
		if (symbols_resolve(symbols, start + size / 2, &answer) < 0 || !answer.data ||
		    answer.frame_count != 1 || answer.frames[0].line)
			fail_msg("%s: %s is no object", path, line);
		checked++;
		same += answer.address == start && answer.size == size;
		named += strcmp(answer.frames[0].linkage, name) == 0;
	}
	assert_true(checked >= at_least);
	/* There are aliases, some of them with another size. */
	assert_true(same >= checked - checked / 5);
	assert_true(named >= checked / 2);
}

static void objects_have_names(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	AUTO(close_file) FILE *output = NULL;
	struct symbol_answer answer;
	unsigned long start, size;
	uint64_t sink;
	char line[512];

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	objects_agree_with_nm("prog", "", 3);
	objects_agree_with_nm("/lib/x86_64-linux-gnu/libc.so.6", "-D", 50);
	output = fixture_output(
		"nm prog | sed -n 's/ B sink$//p'; readelf -SW prog | sed -nE "
		"'s/.* \\.bss +NOBITS +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+).*/\\1 \\2/p'");
	assert_non_null(fixture_line(output, line, sizeof(line)));
	sink = strtoull(line, NULL, 16);
	assert_non_null(fixture_line(output, line, sizeof(line)));
	assert_int_equal(sscanf(line, "%lx %lx", &start, &size), 2);
	fixture_resolves("prog", sink + 1, "sink", false);
	/* Without symbols there is still the section. */
	fixture_run("strip prog");
	symbols = fixture_symbols("prog");
	assert_int_equal(symbols_resolve(symbols, sink, &answer), 0);
	assert_string_equal(answer.frames[0].name, "[.bss]");
	assert_true(answer.data);
	assert_int_equal(answer.address, start);
	assert_int_equal(answer.size, size);
	assert_int_equal(symbols_resolve(symbols, start + size + 0x10000, &answer), -ENOENT);
	nothing_known("/lib/x86_64-linux-gnu/libc.so.6", 0x10);
}

/* Each answer of many is the one that the address alone gets. */
static void many_are_answered_like_one(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *many = NULL;
	AUTO(symbols_destroy_auto) struct symbols *one = NULL;
	struct symbol_answer answers[SYMBOLS_BATCH_MAX], answer;
	uint64_t addresses[SYMBOLS_BATCH_MAX], start;
	size_t known = 0;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	start = fixture_address("prog", "hidden") - 200;
	many = fixture_symbols("prog");
	one = fixture_symbols("prog");
	for (size_t i = 0; i < SYMBOLS_BATCH_MAX; i++)
		addresses[i] = start + i * 7 % SYMBOLS_BATCH_MAX;
	symbols_resolve_many(many, addresses, SYMBOLS_BATCH_MAX, answers);
	for (size_t i = 0; i < SYMBOLS_BATCH_MAX; i++) {
		int err = symbols_resolve(one, addresses[i], &answer);

		assert_int_equal(err ? 0 : answer.frame_count, answers[i].frame_count);
		known += !err;
		for (size_t frame = 0; !err && frame < answer.frame_count; frame++) {
			assert_string_equal(answer.frames[frame].linkage,
					    answers[i].frames[frame].linkage);
			assert_int_equal(answer.frames[frame].line, answers[i].frames[frame].line);
		}
	}
	assert_true(known > SYMBOLS_BATCH_MAX / 2);
}

static bool frames_equal(const struct symbol_answer *a, const struct symbol_answer *b)
{
	if (a->address != b->address || a->frame_count != b->frame_count)
		return false;
	for (size_t i = 0; i < a->frame_count; i++)
		if (strcmp(a->frames[i].name, b->frames[i].name) ||
		    a->frames[i].line != b->frames[i].line ||
		    (a->frames[i].file != b->frames[i].file &&
		     (!a->frames[i].file || !b->frames[i].file ||
		      strcmp(a->frames[i].file, b->frames[i].file))))
			return false;
	return true;
}

/* Places tell the same neighbours apart as whole answers; the worker was at work before. */
static void places_tell_answers_apart(const char *path, uint64_t start)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = fixture_symbols(path);
	struct symbol_answer answers[SYMBOLS_BATCH_MAX];
	uint64_t addresses[SYMBOLS_BATCH_MAX], places[SYMBOLS_BATCH_MAX];
	size_t borders = 0;

	symbols_prepare(symbols);
	symbols_prepare(symbols);
	for (size_t i = 0; i < SYMBOLS_BATCH_MAX; i++)
		addresses[i] = start + i;
	symbols_places(symbols, addresses, SYMBOLS_BATCH_MAX, places);
	symbols_resolve_many(symbols, addresses, SYMBOLS_BATCH_MAX, answers);
	for (size_t i = 1; i < SYMBOLS_BATCH_MAX; i++) {
		bool same = frames_equal(&answers[i - 1], &answers[i]);

		assert_int_equal(places[i - 1] == places[i], same);
		borders += !same;
	}
	assert_true(borders > 2);
}

static void places_differ_where_answers_do(void **state)
{
	uint64_t start;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o prog prog.c && strip -o bare prog");
	start = fixture_address("prog", "hidden") - 200;
	places_tell_answers_apart("prog", start);
	places_tell_answers_apart("bare", start);
}

static void code_is_what_objcopy_extracts(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	AUTO(close_file) FILE *output = NULL;
	uint8_t expected[1000], code[1000];
	char line[512];
	FILE *text;
	uint64_t start;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -O2 -o prog prog.c && objcopy -O binary --only-section=.text prog text");
	output = fixture_output(
		"readelf -SW prog | sed -nE 's/.* \\.text +PROGBITS +([0-9a-f]+).*/\\1/p'");
	assert_non_null(fixture_line(output, line, sizeof(line)));
	start = strtoull(line, NULL, 16);
	text = fopen("text", "r");
	assert_int_equal(fread(expected, 1, 300, text), 300);
	fclose(text);
	symbols = fixture_symbols("prog");
	assert_int_equal(symbols_code(symbols, start, code, 300), 300);
	assert_memory_equal(code, expected, 300);
	assert_int_equal(symbols_code(symbols, start + 7, code, 16), 16);
	assert_memory_equal(code, expected + 7, 16);
	assert_int_equal(symbols_code(symbols, 0x7000000000, code, 16), -ENOENT);
}

static void build_id_agrees_with_readelf(void **state)
{
	static const char *const paths[] = { "prog", "prog.debug", "part.o", "/usr/bin/python3",
					     "/lib/x86_64-linux-gnu/libc.so.6" };

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -Wl,--build-id=0x0123456789abcdef -o prog prog.c &&"
		    "objcopy --only-keep-debug prog prog.debug && gcc -c -o one.o prog.c && ld -r "
		    "--build-id -o part.o one.o");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		AUTO(close_fd) int fd = fixture_open(paths[i]);
		AUTO(close_file)
		FILE *output = fixture_output(
			"readelf -n %s 2>/dev/null | sed -n 's/.*Build ID: //p'", paths[i]);
		char line[512] = "", hex[BUILD_ID_HEX_MAX];
		struct build_id id;

		fixture_line(output, line, sizeof(line));
		assert_int_equal(elf_build_id(fd, &id), 0);
		build_id_hex(&id, hex);
		assert_string_equal(hex, line);
		assert_true(i > 0 || id.size == 8);
	}
	fixture_run("gcc -Wl,--build-id=none -o prog prog.c");
	{
		AUTO(close_fd) int fd = fixture_open("prog");
		struct build_id id = { .size = 3 };

		assert_int_equal(elf_build_id(fd, &id), 0);
		assert_int_equal(id.size, 0);
	}
}

static void vdso_is_read_from_memory(void **state)
{
	const Elf64_Ehdr *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	AUTO(close_file) FILE *output = NULL;
	struct symbol_answer answer;
	char line[512];
	size_t size;
	int fd;

	if (!image)
		skip();
	size = image->e_shoff + (size_t)image->e_shnum * image->e_shentsize;
	fd = fixture_memory(image, size);
	assert_int_equal(symbols_open(fd, "[vdso]", &symbols), 0);
	output = fixture_output("nm -D /proc/%d/fd/%d | grep 'T __vdso_clock_gettime'", getpid(),
				fd);
	assert_non_null(fixture_line(output, line, sizeof(line)));
	assert_int_equal(symbols_resolve(symbols, strtoull(line, NULL, 16) + 1, &answer), 0);
	assert_string_equal(answer.frames[0].name, "__vdso_clock_gettime");
	close(fd);
}

static void what_is_no_elf_is_refused(void **state)
{
	struct symbols *symbols = NULL;
	struct build_id id;
	int fd = fixture_memory("#!/bin/sh\necho hello, this is a script of some length\n\n\n\n",
				56);

	assert_int_equal(symbols_open(fd, "script", &symbols), -ENOEXEC);
	assert_null(symbols);
	assert_int_equal(elf_build_id(fd, &id), -ENOEXEC);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_found_with_few_reads),
		cmocka_unit_test(build_id_finds_the_debug_file),
		cmocka_unit_test(mini_debug_info_is_read),
		cmocka_unit_test(real_files_agree_with_nm),
		cmocka_unit_test(stubs_have_names),
		cmocka_unit_test(assembly_without_sizes_is_named),
		cmocka_unit_test(objects_have_names),
		cmocka_unit_test(many_are_answered_like_one),
		cmocka_unit_test(places_differ_where_answers_do),
		cmocka_unit_test(code_is_what_objcopy_extracts),
		cmocka_unit_test(build_id_agrees_with_readelf),
		cmocka_unit_test(vdso_is_read_from_memory),
		cmocka_unit_test(what_is_no_elf_is_refused),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
