// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
/* Names without DWARF: symbol tables, kallsyms, JIT maps, demangling. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/strbuf.h"
#include "support/symbols_fixture.h"
#include "symbols/symbols.h"
#include "symbols/symtab.h"

static void demangles(const char *name, const char *expected)
{
	AUTO(free_ptr) char *text = demangle(name);

	if (!expected) {
		assert_null(text);
		return;
	}
	assert_non_null(text);
	assert_string_equal(text, expected);
}

/*
 * The Rust samples are those of the v0 specification (RFC 2603) and of libiberty's own test suite.
 */
static void demangle_reads_cpp_and_rust(void **state)
{
	demangles("_ZNSt6vectorIiSaIiEE9push_backERKi",
		  "std::vector<int, std::allocator<int> >::push_back(int const&)");
	demangles("_Z3fooi.cold", "foo(int) [clone .cold]");
	demangles("_ZN4test1a2bcE", "test::a::bc");
	demangles("_ZN3foo3barE", "foo::bar");
	demangles("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad");
	demangles("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
		  "3bar17h930b740aa94f1d3aE",
		  "<Test + 'static as foo::Bar<Test>>::bar");
	demangles("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function");
	demangles("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>");
	demangles("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}");
	demangles("main", NULL);
	demangles("", NULL);
	demangles("_Z", NULL);
	demangles("_R", NULL);
}

/* 1024 bytes is where libiberty stops by itself; template code has longer names. */
static void demangle_reads_long_names(void **state)
{
	struct strbuf name = {};
	char *text;

	strbuf_puts(&name, "_Z1fI");
	for (int i = 0; i < 400; i++)
		strbuf_puts(&name, "5thing");
	strbuf_puts(&name, "EvT_");
	text = demangle(name.text);
	assert_non_null(text);
	assert_non_null(strstr(text, "thing, thing"));
	free(text);
	strbuf_deinit(&name);
}

/*
 * f(A<int, int>, A<A<int, int>, A<int, int>>, ...): each type is twice as long as the one before.
 */
static char *demangle_doubling(int levels)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct strbuf name = {};
	char *text;

	strbuf_puts(&name, "_Z1f1AIiiE");
	for (int i = 0; i < levels; i++)
		strbuf_printf(&name, "S_IS%c_S%c_E", digits[i], digits[i]);
	text = demangle(name.text);
	strbuf_deinit(&name);
	return text;
}

static void demangle_stops_at_names_that_explode(void **state)
{
	AUTO(free_ptr) char *ten = demangle_doubling(10);

	assert_non_null(ten);
	assert_true(strlen(ten) > 10000);
	assert_null(demangle_doubling(36));
}

static void demangle_survives_deep_names(void **state)
{
	char deep[4096] = "_Z1f";

	memset(deep + 4, 'P', sizeof(deep) - 6);
	deep[sizeof(deep) - 2] = 'i';
	free(demangle(deep));
	memset(deep + 4, 'F', sizeof(deep) - 6);
	free(demangle(deep));
	memcpy(deep, "_RI", 3);
	memset(deep + 3, 'T', sizeof(deep) - 5);
	free(demangle(deep));
}

static void finds(const struct symtab *table, uint64_t address, const char *expected)
{
	struct symtab_hit hit;

	if (!symtab_find(table, address, &hit) && !symtab_find_unsized(table, address, &hit))
		hit.name = "-";
	assert_string_equal(hit.name, expected);
}

static void add(struct symtab *table, uint64_t start, uint64_t size, enum symtab_rank rank,
		const char *name)
{
	symtab_add(table, &(struct symtab_entry){ .start = start, .size = size, .rank = rank },
		   name);
}

static void symtab_chooses_among_aliases(void **state)
{
	struct symtab table = {};

	add(&table, 100, 10, SYMTAB_WEAK, "write");
	add(&table, 100, 10, SYMTAB_LOCAL, "local_write");
	add(&table, 100, 10, SYMTAB_GLOBAL, "__write");
	add(&table, 200, 10, SYMTAB_GLOBAL, "__read");
	add(&table, 200, 10, SYMTAB_GLOBAL, "_read");
	add(&table, 300, 0, SYMTAB_GLOBAL, "no_size");
	add(&table, 300, 10, SYMTAB_WEAK, "has_size");
	add(&table, 400, 10, SYMTAB_GLOBAL + SYMTAB_RESOLVER, "memcpy");
	add(&table, 400, 10, SYMTAB_LOCAL, "memcpy_resolver");
	symtab_finish(&table);
	finds(&table, 105, "__write");
	finds(&table, 209, "_read");
	finds(&table, 300, "has_size");
	finds(&table, 400, "memcpy_resolver");
	finds(&table, 110, "-");
	finds(&table, 99, "-");
	assert_string_equal(symtab_alias(&table, 100, "write"), "write");
	assert_null(symtab_alias(&table, 100, "_read"));
	symtab_deinit(&table);
}

static void symtab_extends_symbols_without_size(void **state)
{
	struct symtab table = {};

	add(&table, 100, 0, SYMTAB_GLOBAL, "asm_a");
	add(&table, 120, 0, SYMTAB_GLOBAL, "asm_b");
	add(&table, 200, 50, SYMTAB_GLOBAL, "outer");
	add(&table, 210, 10, SYMTAB_LOCAL, "inner");
	add(&table, 230, 0, SYMTAB_LOCAL, "label");
	symtab_border(&table, 150);
	symtab_finish(&table);
	finds(&table, 119, "asm_a");
	finds(&table, 149, "asm_b");
	finds(&table, 150, "-");
	finds(&table, 205, "outer");
	finds(&table, 215, "inner");
	finds(&table, 220, "outer");
	finds(&table, 240, "outer");
	symtab_deinit(&table);
}

/* Ranges against a scan of all of them. */
static void ranges_agree_with_a_scan(void **state)
{
	enum { COUNT = 300, SPACE = 1000 };
	struct ranges ranges = {};
	uint64_t seed = 7;

	for (uint32_t i = 0; i < COUNT; i++) {
		uint64_t start = (seed = hash64(seed + i)) % SPACE;

		ranges_add(&ranges, start, start + (seed >> 32) % 40, i);
	}
	ranges_sort(&ranges);
	for (uint64_t address = 0; address < SPACE + 50; address++) {
		const struct range *range = NULL;
		size_t found = 0, expected = 0;

		array_each(&ranges.list, each)
			expected += each->start <= address && address < each->end;
		while ((range = ranges_find(&ranges, address, range))) {
			assert_true(range->start <= address && address < range->end);
			found++;
		}
		assert_int_equal(found, expected);
	}
	ranges_deinit(&ranges);
}

static struct jitmap *jitmap_of(const char *text, size_t size)
{
	AUTO(close_fd) int fd = fixture_memory(text, size);
	struct jitmap *map;

	assert_int_equal(jitmap_open(fd, &map), 0);
	return map;
}

static void jit_finds(struct jitmap *map, uint64_t address, const char *expected)
{
	struct symbol_answer answer;
	int err = jitmap_resolve(map, address, &answer);

	assert_string_equal(err ? "-" : answer.frames[0].name, expected);
}

static void jitmap_skips_garbage_and_keeps_spaces(void **state)
{
	static const char text[] = "7f0000001000 20 Interpreter\n"
				   "\n \nnot a line\n7f00 zz bad size\n-5 10 sign\n10\n10 20\n"
				   "ffffffffffffffffff 10 too big\n7f0000003000 0 empty\n"
				   "0x7f0000002000 0x10 LazyCompile:*f g /a b.js:1\n"
				   "fffffffffffffff0 100 wraps\n"
				   "5000 10 _ZN3foo3barEv\n"
				   "6000 10 cut\0here\n"
				   "7f0000004000 10 last";
	AUTO(jitmap_destroy_auto) struct jitmap *map = jitmap_of(text, sizeof(text) - 1);
	struct symbol_answer answer;

	jit_finds(map, 0x7f000000101f, "Interpreter");
	jit_finds(map, 0x7f0000001020, "-");
	jit_finds(map, 0x7f0000000fff, "-");
	jit_finds(map, 0x7f0000002008, "LazyCompile:*f g /a b.js:1");
	jit_finds(map, 0x7f0000003000, "-");
	jit_finds(map, 0xfffffffffffffff5, "wraps");
	jit_finds(map, 0x5000, "foo::bar()");
	jit_finds(map, 0x6000, "cut");
	jit_finds(map, 0x7f0000004000, "last");
	jit_finds(map, 0x10, "-");
	jit_finds(map, 0, "-");
	assert_int_equal(jitmap_resolve(map, 0x5004, &answer), 0);
	assert_string_equal(answer.frames[0].linkage, "_ZN3foo3barEv");
	assert_int_equal(answer.address, 0x5000);
	assert_int_equal(answer.size, 0x10);
}

/* Against an array that each line overwrites. */
static void jitmap_later_lines_hide_earlier_ones(void **state)
{
	enum { LINES = 2000, SPACE = 4096 };
	static uint32_t model[SPACE];
	struct strbuf text = {};
	uint64_t seed = 3;
	struct jitmap *map;

	memset(model, 0, sizeof(model));
	for (uint32_t line = 1; line <= LINES; line++) {
		uint64_t start = (seed = hash64(seed + line)) % SPACE;
		uint64_t size = 1 + (seed >> 32) % (line % 50 ? 8 : 300);

		strbuf_printf(&text, "%lx %lx f %u\n", start, size, line);
		for (uint64_t i = start; i < start + size && i < SPACE; i++)
			model[i] = line;
	}
	map = jitmap_of(text.text, text.length);
	for (uint64_t address = 0; address < SPACE; address++) {
		char expected[32] = "-";

		if (model[address])
			snprintf(expected, sizeof(expected), "f %u", model[address]);
		jit_finds(map, address, expected);
	}
	jitmap_destroy(map);
	strbuf_deinit(&text);
}

struct dump {
	uint8_t bytes[1024];
	size_t size;
};

static void dump_put(struct dump *dump, const void *data, size_t size)
{
	memcpy(dump->bytes + dump->size, data, size);
	dump->size += size;
}

static void dump_begin(struct dump *dump, uint32_t machine)
{
	const uint32_t header[] = { 0x4a695444, 1, 40, machine, 0, 77, 0, 0, 0, 0 };

	dump->size = 0;
	dump_put(dump, header, sizeof(header));
}

static void dump_record(struct dump *dump, uint32_t kind, const void *data, size_t size)
{
	const uint32_t head[] = { kind, 16 + (uint32_t)size, 0, 0 };

	dump_put(dump, head, sizeof(head));
	dump_put(dump, data, size);
}

/* code: as many bytes as are in the file, which may be less than size says. */
static void dump_load(struct dump *dump, uint64_t address, uint64_t size, const char *name,
		      const char *code)
{
	const uint64_t fields[] = { 77 | 78ull << 32, address, address, size, address };
	uint8_t data[256];
	size_t length = strlen(name) + 1, bytes = strlen(code);

	memcpy(data, fields, sizeof(fields));
	memcpy(data + sizeof(fields), name, length);
	memcpy(data + sizeof(fields) + length, code, bytes);
	dump_record(dump, 0, data, sizeof(fields) + length + bytes);
}

static size_t jit_code(struct jitmap *map, uint64_t address, size_t size, char ret[16])
{
	memset(ret, 0, 16);
	return jitmap_code(map, address, ret, size);
}

static void jitdump_is_read(void **state)
{
	const uint64_t move[] = { 77 | 78ull << 32, 0x1000, 0x1000, 0x9000, 4, 0x1000 };
	struct dump dump;
	struct jitmap *map;
	char code[16];

	dump_begin(&dump, 62);
	dump_load(&dump, 0x1000, 8, "JS:*f /a b.js:1", "ABCDEFGH");
	dump_record(&dump, 2, "debug information", 17); /* another kind, of an odd size */
	dump_load(&dump, 0x2000, 100, "_ZN3foo3barEv", "short");
	dump_record(&dump, 1, move, sizeof(move));
	dump_load(&dump, 0x1004, 2, "later", "xy");
	map = jitmap_of((char *)dump.bytes, dump.size);
	jit_finds(map, 0x1003, "JS:*f /a b.js:1");
	jit_finds(map, 0x1004, "later");
	jit_finds(map, 0x1006, "JS:*f /a b.js:1");
	jit_finds(map, 0x1008, "-");
	jit_finds(map, 0x2063, "foo::bar()");
	jit_finds(map, 0x9003, "JS:*f /a b.js:1");
	jit_finds(map, 0x9004, "-");
	assert_int_equal(jit_code(map, 0x1000, 16, code), 8);
	assert_string_equal(code, "ABCDEFGH");
	assert_int_equal(jit_code(map, 0x1005, 16, code), 1);
	assert_string_equal(code, "y");
	assert_int_equal(jit_code(map, 0x9001, 2, code), 2);
	assert_string_equal(code, "BC");
	assert_int_equal(jit_code(map, 0x2000, 4, code), 0); /* not all of it is there */
	assert_int_equal(jit_code(map, 0x5000, 4, code), 0);
	jitmap_destroy(map);
	for (size_t size = 40; size < dump.size; size++) /* one that is being written */
		jitmap_destroy(jitmap_of((char *)dump.bytes, size));
}

static void jitdump_without_sense_is_left_out(void **state)
{
	const uint32_t endless[] = { 0, 0, 0, 0 }, huge[] = { 0, UINT32_MAX, 0, 0 };
	struct dump dump;
	struct jitmap *map;

	dump_begin(&dump, 183); /* of another processor */
	dump_load(&dump, 0x1000, 8, "arm", "ABCDEFGH");
	map = jitmap_of((char *)dump.bytes, dump.size);
	jit_finds(map, 0x1000, "-");
	jitmap_destroy(map);
	dump_begin(&dump, 62);
	dump_load(&dump, 0x1000, 8, "", "ABCDEFGH");
	dump_record(&dump, 0, "no name and no size", 19);
	dump_load(&dump, UINT64_MAX - 3, 8, "wraps", "ABCDEFGH");
	dump_put(&dump, huge, sizeof(huge));
	dump_load(&dump, 0x2000, 8, "behind", "ABCDEFGH");
	map = jitmap_of((char *)dump.bytes, dump.size);
	jit_finds(map, 0x1000, "-");
	jit_finds(map, UINT64_MAX - 2, "wraps");
	jit_finds(map, 0x2000, "-");
	jitmap_destroy(map);
	dump_begin(&dump, 62);
	dump_put(&dump, endless, sizeof(endless));
	jitmap_destroy(jitmap_of((char *)dump.bytes, dump.size));
}

static void jitmap_refuses_what_is_no_file(void **state)
{
	int fds[2];
	struct jitmap *map;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(jitmap_open(fds[0], &map), -EINVAL);
	close(fds[0]);
	close(fds[1]);
}

static void kallsyms_reads_every_kind_of_line(void **state)
{
	AUTO(kallsyms_destroy_auto) struct kallsyms *kallsyms = NULL;
	struct symbol_answer answer;
	const char *module;

	fixture_write("kallsyms",
		      "0000000000000000 A fixed_percpu_data\n"
		      "ffffffff81000100 t helper\n"
		      "ffffffff81000000 T _stext\n"
		      "ffffffff81000000 T startup_64\n"
		      "ffffffff81000000 W weak_start\n"
		      "garbage\n"
		      "ffffffff81000180 D data_begins\n"
		      "ffffffff810001c0 A absolute\n"
		      "ffffffff810001e0 T text_ends\n"
		      "ffffffff810001e0 R rodata_begins\n"
		      "ffffffffc0000000 t ext4_iget\t[ext4]\n"
		      "ffffffffc0000030 b ext4_count\t[ext4]\n"
		      "ffffffffc0000040 t _RNvCskwGfYPst2Cb_3foo16example_function\t[rust]\n");
	assert_int_equal(kallsyms_open("kallsyms", &kallsyms), 0);
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffff810000ff, &answer, &module), 0);
	assert_string_equal(answer.frames[0].name, "startup_64");
	assert_string_equal(module, "[kernel]");
	assert_int_equal(answer.size, 0x100);
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffff8100017f, &answer, &module), 0);
	assert_string_equal(answer.frames[0].name, "helper");
	assert_false(answer.data);
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffff81000190, &answer, &module), 0);
	assert_string_equal(answer.frames[0].name, "data_begins");
	assert_true(answer.data && answer.size == 0x40);
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffff810001c0, &answer, &module), -ENOENT);
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffff810001e0, &answer, &module), 0);
	assert_string_equal(answer.frames[0].name, "text_ends");
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffffc0000031, &answer, &module), 0);
	assert_string_equal(answer.frames[0].name, "ext4_count");
	assert_true(answer.data && !strcmp(module, "[ext4]"));
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffffc0000001, &answer, &module), 0);
	assert_string_equal(module, "[ext4]");
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffffc0000050, &answer, &module), 0);
	assert_string_equal(answer.frames[0].name, "foo::example_function");
	assert_string_equal(module, "[rust]");
	assert_int_equal(kallsyms_resolve(kallsyms, 0x1000, &answer, &module), -ENOENT);
}

/* Without CONFIG_KALLSYMS_ALL. */
static void kallsyms_takes_no_section_for_an_object(void **state)
{
	AUTO(kallsyms_destroy_auto) struct kallsyms *kallsyms = NULL;
	struct strbuf lines = {};
	struct symbol_answer answer;
	const char *module;

	for (int i = 0; i < 1000; i++)
		strbuf_printf(&lines, "ffffffff81%06x t function%d\n", i * 16, i);
	strbuf_puts(&lines, "ffffffff82000000 D __start_rodata\n");
	fixture_write("functions", strbuf_text(&lines));
	strbuf_deinit(&lines);
	assert_int_equal(kallsyms_open("functions", &kallsyms), 0);
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffff81000011, &answer, &module), 0);
	assert_string_equal(answer.frames[0].name, "function1");
	assert_int_equal(kallsyms_resolve(kallsyms, 0xffffffff82000010, &answer, &module), -ENOENT);
}

static void kallsyms_says_when_addresses_are_hidden(void **state)
{
	struct kallsyms *kallsyms;

	fixture_write("hidden", "0000000000000000 T _stext\n0000000000000000 t helper\n");
	assert_int_equal(kallsyms_open("hidden", &kallsyms), -EPERM);
	fixture_write("empty", "");
	assert_int_equal(kallsyms_open("empty", &kallsyms), -ENOENT);
	assert_int_equal(kallsyms_open("missing", &kallsyms), -ENOENT);
}

/*
 * Oracle: grep. Every 50th function of the running kernel; its name must be one that grep finds
 * there. Programs of BPF, which others load and unload meanwhile, are left out.
 */
static void kallsyms_agrees_with_grep(void **state)
{
	AUTO(kallsyms_destroy_auto) struct kallsyms *kallsyms = NULL;
	AUTO(close_file) FILE *output = NULL;
	char line[512], wanted[600];
	size_t checked = 0;
	int err = kallsyms_open(NULL, &kallsyms);

	if (err == -EPERM || err == -ENOENT)
		skip();
	assert_int_equal(err, 0);
	output = fixture_output("grep -E '^[0-9a-f]+ [tT] ' /proc/kallsyms | grep -v 'bpf\\]$' | "
				"awk 'NR %% 50 == 0'");
	while (fixture_line(output, line, sizeof(line))) {
		uint64_t address = strtoull(line, NULL, 16);
		struct symbol_answer answer;
		const char *module;

		assert_int_equal(kallsyms_resolve(kallsyms, address, &answer, &module), 0);
		assert_int_equal(answer.address, address);
		snprintf(wanted, sizeof(wanted), "^%016lx [tTwW] %s\\s*%s%s", address,
			 answer.frames[0].linkage, module[1] == 'k' ? "" : "\\",
			 module[1] == 'k' ? "$" : module);
		if (++checked % 40 == 0)
			fixture_run("grep -q '%s' /proc/kallsyms", wanted);
	}
	assert_true(checked > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(demangle_reads_cpp_and_rust),
		cmocka_unit_test(demangle_reads_long_names),
		cmocka_unit_test(demangle_stops_at_names_that_explode),
		cmocka_unit_test(demangle_survives_deep_names),
		cmocka_unit_test(symtab_chooses_among_aliases),
		cmocka_unit_test(symtab_extends_symbols_without_size),
		cmocka_unit_test(ranges_agree_with_a_scan),
		cmocka_unit_test(jitmap_skips_garbage_and_keeps_spaces),
		cmocka_unit_test(jitmap_later_lines_hide_earlier_ones),
		cmocka_unit_test(jitdump_is_read),
		cmocka_unit_test(jitdump_without_sense_is_left_out),
		cmocka_unit_test(jitmap_refuses_what_is_no_file),
		cmocka_unit_test(kallsyms_reads_every_kind_of_line),
		cmocka_unit_test(kallsyms_takes_no_section_for_an_object),
		cmocka_unit_test(kallsyms_says_when_addresses_are_hidden),
		cmocka_unit_test(kallsyms_agrees_with_grep),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
