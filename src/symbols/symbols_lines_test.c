// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
/* Lines and inlined functions, against addr2line. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/strbuf.h"
#include "support/symbols_fixture.h"
#include "symbols/symbols.h"

/* Clones, cold parts and numbered statics are the same function to DWARF. */
static void name_bare(char *name)
{
	static const char *const clones[] = { ".cold", ".part.", ".isra.", ".constprop.",
					      ".lto_priv." };
	char *cut = strstr(name, " [clone ");

	if (cut)
		*cut = '\0';
	for (size_t i = 0; i < sizeof(clones) / sizeof(clones[0]); i++)
		if ((cut = strstr(name, clones[i])))
			*cut = '\0';
	cut = strrchr(name, '.');
	if (cut && cut[1] && strspn(cut + 1, "0123456789") == strlen(cut + 1))
		*cut = '\0';
}

/* addr2line writes "dir/./file.c:12 (discriminator 3)" and "??:?". */
static void place_bare(char *place)
{
	char *cut = strstr(place, " (disc");

	if (cut)
		*cut = '\0';
	while ((cut = strstr(place, "/./")))
		memmove(cut, cut + 2, strlen(cut + 2) + 1);
	cut = strrchr(place, ':');
	if (cut && cut[1] == '?')
		cut[1] = '0';
}

/* What we say about an address, in the form of addr2line -afi. */
static void answer_print(struct symbols *symbols, uint64_t address, struct strbuf *ret)
{
	struct symbol_answer answer;
	char name[4096];

	strbuf_printf(ret, "0x%016lx\n", address);
	if (symbols_resolve(symbols, address, &answer) < 0) {
		strbuf_puts(ret, "??\n??:0\n");
		return;
	}
	assert_true(answer.address <= address && address - answer.address < answer.size);
	for (size_t i = 0; i < answer.frame_count; i++) {
		snprintf(name, sizeof(name), "%s", answer.frames[i].name);
		name_bare(name);
		strbuf_printf(ret, "%s\n%s:%u\n", name,
			      answer.frames[i].file ? answer.frames[i].file : "??",
			      answer.frames[i].line);
	}
}

struct addresses {
	ARRAY(uint64_t) list;
};

/* Every third byte of each function that nm gives a size for and whose name matches. */
static void addresses_collect(const char *path, const char *pattern, struct addresses *ret)
{
	AUTO(close_file)
	FILE *output = fixture_output("nm -nS --defined-only %s | grep -E '%s'", path, pattern);
	FILE *out = fopen("addresses", "w");
	char line[4096], type;
	unsigned long start, size;

	while (fixture_line(output, line, sizeof(line))) {
		if (sscanf(line, "%lx %lx %c", &start, &size, &type) != 3 || !strchr("tTwW", type))
			continue;
		for (unsigned long at = 0; at < size; at += 3) {
			*array_push(&ret->list) = start + at;
			fprintf(out, "%lx\n", start + at);
		}
	}
	fclose(out);
}

/* Fails at the first address where we and addr2line differ. */
static void agrees_with_addr2line(const char *path, const char *debug, const char *pattern,
				  size_t at_least)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = fixture_symbols(path);
	AUTO(close_file) FILE *output = NULL;
	struct addresses addresses = {};
	struct strbuf ours = {}, theirs = {};
	char line[8192];

	addresses_collect(debug, pattern, &addresses);
	if (addresses.list.count < at_least)
		fail_msg("%s: only %zu addresses to compare", path, addresses.list.count);
	array_each(&addresses.list, address)
		answer_print(symbols, *address, &ours);
	output = fixture_output("addr2line -afiC -e %s < addresses", debug);
	for (bool name = false; fixture_line(output, line, sizeof(line)); name = !name) {
		if (strncmp(line, "0x", 2) == 0)
			name = false;
		else if (name)
			name_bare(line);
		else
			place_bare(line);
		strbuf_printf(&theirs, "%s\n", line);
	}
	fixture_write("ours", strbuf_text(&ours));
	fixture_write("theirs", strbuf_text(&theirs));
	if (!fixture_try("diff -U3 theirs ours > difference"))
		fixture_run("head -40 difference; echo %s; false", path);
	strbuf_deinit(&ours);
	strbuf_deinit(&theirs);
	array_deinit(&addresses.list);
}

#define C_FUNCTIONS " (main|visible|hidden|around|nested)"

static void c_agrees(const char *flags)
{
	fixture_run("mkdir -p sub && cp prog.c sub/ && gcc %s -o prog sub/prog.c", flags);
	agrees_with_addr2line("prog", "prog", C_FUNCTIONS, 200);
}

static void c_inlines_agree_with_addr2line(void **state)
{
	fixture_write("prog.c", fixture_c_source);
	c_agrees("-g -O2 -gdwarf-5");
	c_agrees("-g -O2 -gdwarf-4 -no-pie");
	c_agrees("-g -O2 -gz=zlib");
	c_agrees("-g -O3 -gdwarf-4 -flto");
	c_agrees("-g -O0");
}

/* addr2line cannot read split DWARF, so it is given the same code with DWARF in one piece. */
static void split_dwarf_agrees_with_addr2line(void **state)
{
	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o whole prog.c && gcc -g -O2 -gsplit-dwarf -o prog prog.c");
	agrees_with_addr2line("prog", "whole", C_FUNCTIONS, 200);
}

static void cpp_inlines_agree_with_addr2line(void **state)
{
	/*
	 * DWARF 4, because binutils 2.40 takes the wrong file of DWARF 5 at the start of a
	 * sequence.
	 */
	fixture_write("prog.cc", fixture_cpp_source);
	fixture_run("g++ -g -O2 -gdwarf-4 -o prog $PWD/prog.cc");
	agrees_with_addr2line("prog", "prog", " (main|_ZN)", 1000);
}

/* Clang leaves out .debug_aranges and DW_AT_sibling. */
static void clang_agrees_with_addr2line(void **state)
{
	if (!fixture_try("clang --version > /dev/null 2>&1"))
		skip();
	fixture_write("prog.c", fixture_c_source);
	fixture_run("sed 's/nested(x) + nested(sink)/middle(x)/; /nested/d' prog.c > flat.c");
	fixture_run("clang -g -O2 -o prog flat.c");
	agrees_with_addr2line("prog", "prog", C_FUNCTIONS, 200);
}

static void debug_link_is_followed(void **state)
{
	uint64_t hidden;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -Wl,--build-id=none -o prog prog.c && cp prog whole");
	hidden = fixture_address("prog", "hidden");
	fixture_run("objcopy --only-keep-debug prog prog.debug && strip prog");
	/* Not without link or build-id, although libdw would take it by its name. */
	fixture_resolves("prog", hidden, NULL, false);
	fixture_run("objcopy --add-gnu-debuglink=prog.debug prog");
	agrees_with_addr2line("prog", "whole", C_FUNCTIONS, 200);
	fixture_run("rm prog.debug");
	fixture_resolves("prog", hidden, NULL, false);
}

/* dwz moves what two files have in common to a third one. */
static void a_shared_debug_file_is_followed(void **state)
{
	if (!fixture_try("dwz --version > /dev/null 2>&1"))
		skip();
	fixture_write("prog.cc", fixture_cpp_source);
	fixture_run(
		"g++ -g -O2 -gdwarf-4 -o whole $PWD/prog.cc && cp whole prog && cp whole other");
	fixture_run("dwz -m shared prog other && readelf -SW prog | grep -q gnu_debugaltlink");
	agrees_with_addr2line("prog", "whole", " (main|_ZN)", 1000);
}

static bool frame_is(const struct symbol_frame *frame, const char *name, uint32_t line)
{
	return strcmp(frame->name, name) == 0 && frame->line == line &&
	       strstr(frame->file, "/prog.c") && frame->file[0] == '/';
}

/*
 * Without an oracle: some address of hidden() is in innermost(), in middle() line 13, in hidden().
 */
static void frames_are_innermost_first(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	uint64_t start;
	size_t found = 0;

	fixture_write("prog.c", fixture_c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	start = fixture_address("prog", "hidden");
	symbols = fixture_symbols("prog");
	for (uint64_t at = start; at < start + 200; at++) {
		struct symbol_answer answer;

		if (symbols_resolve(symbols, at, &answer) == 0 && answer.address == start &&
		    answer.frame_count == 3 && frame_is(&answer.frames[0], "innermost", 7) &&
		    frame_is(&answer.frames[1], "middle", 13) &&
		    frame_is(&answer.frames[2], "hidden", 18))
			found++;
	}
	assert_true(found > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c_inlines_agree_with_addr2line),
		cmocka_unit_test(split_dwarf_agrees_with_addr2line),
		cmocka_unit_test(cpp_inlines_agree_with_addr2line),
		cmocka_unit_test(clang_agrees_with_addr2line),
		cmocka_unit_test(debug_link_is_followed),
		cmocka_unit_test(a_shared_debug_file_is_followed),
		cmocka_unit_test(frames_are_innermost_first),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
