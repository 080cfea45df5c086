// SPDX-License-Identifier: BSD-2-Clause
// Serves: S1.
/* ELF files: names, lines and inlines against addr2line, nm, objdump and readelf. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
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
#include "symbols/spawner.h"
#include "symbols/symbols.h"
#include "symbols/worker.h"

static const char c_source[] =
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"volatile int sink;\n"
	"static inline __attribute__((always_inline)) int innermost(int x)\n"
	"{\n"
	"	for (int i = 0; i < x; i++)\n"
	"		sink += i * x;\n"
	"	return sink;\n"
	"}\n"
	"static inline __attribute__((always_inline)) int middle(int x)\n"
	"{\n"
	"	if (x > 3) {\n"
	"		int y = innermost(x * 2);\n"
	"		sink = y;\n"
	"	}\n"
	"	return innermost(x) + innermost(x + 1);\n"
	"}\n"
	"__attribute__((noinline)) static int hidden(int x) { return middle(x) + sink; }\n"
	"__attribute__((noinline)) int visible(int x)\n"
	"{\n"
	"	if (__builtin_expect(x == 77, 0))\n"
	"		abort();\n"
	"	return hidden(x) * middle(sink);\n"
	"}\n"
	"__attribute__((noinline)) int around(int x)\n"
	"{\n"
	"	__attribute__((noinline)) int nested(int y) { return middle(y) + x; }\n"
	"	return nested(x) + nested(sink);\n"
	"}\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"	char *copy = strdup(argv[0]);\n"
	"	return visible(argc) + around((int)strlen(copy));\n"
	"}\n";

static const char cpp_source[] =
	"#include <algorithm>\n"
	"#include <map>\n"
	"#include <string>\n"
	"#include <vector>\n"
	"namespace shop {\n"
	"template <class T> struct Shelf {\n"
	"	std::vector<T> items;\n"
	"	void add(const T &item) { items.push_back(item); }\n"
	"	const T &best() const { return *std::max_element(items.begin(), items.end()); }\n"
	"};\n"
	"struct Order {\n"
	"	std::string name;\n"
	"	int price;\n"
	"	bool operator<(const Order &other) const { return price < other.price; }\n"
	"};\n"
	"int total(const std::map<std::string, int> &prices)\n"
	"{\n"
	"	int sum = 0;\n"
	"	for (auto &entry : prices)\n"
	"		sum += entry.second;\n"
	"	return sum;\n"
	"}\n"
	"}\n"
	"int main(int argc, char **argv)\n"
	"{\n"
	"	shop::Shelf<shop::Order> cache;\n"
	"	std::map<std::string, int> prices;\n"
	"	for (int i = 0; i < argc; i++) {\n"
	"		cache.add({argv[i], i});\n"
	"		prices[argv[i]] = i;\n"
	"	}\n"
	"	std::sort(cache.items.begin(), cache.items.end());\n"
	"	return cache.best().price + shop::total(prices);\n"
	"}\n";

static struct symbols *symbols_of(const char *path)
{
	AUTO(close_fd) int fd = fixture_open(path);
	struct symbols *symbols;

	assert_int_equal(symbols_open(fd, path, &symbols), 0);
	return symbols;
}

static uint64_t address_of(const char *path, const char *name)
{
	AUTO(close_file) FILE *output = fixture_output("nm %s | grep -E ' [tTwW] %s$'", path, name);
	char line[512];

	assert_non_null(fixture_line(output, line, sizeof(line)));
	return strtoull(line, NULL, 16);
}

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
	AUTO(symbols_destroy_auto) struct symbols *symbols = symbols_of(path);
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
	fixture_write("prog.c", c_source);
	c_agrees("-g -O2 -gdwarf-5");
	c_agrees("-g -O2 -gdwarf-4 -no-pie");
	c_agrees("-g -O2 -gz=zlib");
	c_agrees("-g -O3 -gdwarf-4 -flto");
	c_agrees("-g -O0");
}

/* addr2line cannot read split DWARF, so it is given the same code with DWARF in one piece. */
static void split_dwarf_agrees_with_addr2line(void **state)
{
	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -o whole prog.c && gcc -g -O2 -gsplit-dwarf -o prog prog.c");
	agrees_with_addr2line("prog", "whole", C_FUNCTIONS, 200);
}

static void cpp_inlines_agree_with_addr2line(void **state)
{
	/*
	 * DWARF 4, because binutils 2.40 takes the wrong file of DWARF 5 at the start of a
	 * sequence.
	 */
	fixture_write("prog.cc", cpp_source);
	fixture_run("g++ -g -O2 -gdwarf-4 -o prog $PWD/prog.cc");
	agrees_with_addr2line("prog", "prog", " (main|_ZN)", 1000);
}

/* Clang leaves out .debug_aranges and DW_AT_sibling. */
static void clang_agrees_with_addr2line(void **state)
{
	if (!fixture_try("clang --version > /dev/null 2>&1"))
		skip();
	fixture_write("prog.c", c_source);
	fixture_run("sed 's/nested(x) + nested(sink)/middle(x)/; /nested/d' prog.c > flat.c");
	fixture_run("clang -g -O2 -o prog flat.c");
	agrees_with_addr2line("prog", "prog", C_FUNCTIONS, 200);
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

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	start = address_of("prog", "hidden");
	symbols = symbols_of("prog");
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

static void nothing_known(const char *path, uint64_t address)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = symbols_of(path);
	struct symbol_answer answer;

	assert_int_equal(symbols_resolve(symbols, address, &answer), -ENOENT);
}

static void resolves(const char *path, uint64_t address, const char *name, uint32_t has_line)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = symbols_of(path);
	struct symbol_answer answer;
	int err = symbols_resolve(symbols, address, &answer);

	char unnamed[32];

	/* stripped: only the unwind information still knows where the function begins */
	if (!name) {
		snprintf(unnamed, sizeof(unnamed), "sub_%llx", (unsigned long long)address);
		name = unnamed;
	}
	assert_int_equal(err, 0);
	assert_string_equal(answer.frames[answer.frame_count - 1].name, name);
	assert_int_equal(answer.frames[answer.frame_count - 1].line != 0, has_line);
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

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	hidden = address_of("prog", "hidden");
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

static void debug_link_is_followed(void **state)
{
	uint64_t hidden;

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -Wl,--build-id=none -o prog prog.c && cp prog whole");
	hidden = address_of("prog", "hidden");
	fixture_run("objcopy --only-keep-debug prog prog.debug && strip prog");
	/* Not without link or build-id, although libdw would take it by its name. */
	resolves("prog", hidden, NULL, false);
	fixture_run("objcopy --add-gnu-debuglink=prog.debug prog");
	agrees_with_addr2line("prog", "whole", C_FUNCTIONS, 200);
	fixture_run("rm prog.debug");
	resolves("prog", hidden, NULL, false);
}

/* dwz moves what two files have in common to a third one. */
static void a_shared_debug_file_is_followed(void **state)
{
	if (!fixture_try("dwz --version > /dev/null 2>&1"))
		skip();
	fixture_write("prog.cc", cpp_source);
	fixture_run(
		"g++ -g -O2 -gdwarf-4 -o whole $PWD/prog.cc && cp whole prog && cp whole other");
	fixture_run("dwz -m shared prog other && readelf -SW prog | grep -q gnu_debugaltlink");
	agrees_with_addr2line("prog", "whole", " (main|_ZN)", 1000);
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

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -Wl,--build-id -o prog prog.c");
	hidden = address_of("prog", "hidden");
	fixture_run("objcopy --only-keep-debug prog kept && strip prog");
	resolves("prog", hidden, NULL, false);
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

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	hidden = address_of("prog", "hidden");
	fixture_run(
		"nm prog --format=posix --defined-only | awk '$2 ~ /[tT]/ { print $1 }' > keep &&"
		"objcopy --only-keep-debug prog debug &&"
		"objcopy -S --remove-section .comment --keep-symbols=keep debug mini &&"
		"rm -f mini.xz && xz mini && strip prog");
	resolves("prog", hidden, NULL, false);
	fixture_run("objcopy --add-section .gnu_debugdata=mini.xz prog");
	resolves("prog", hidden, "hidden", false);
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
	symbols = symbols_of("bare");
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
	AUTO(symbols_destroy_auto) struct symbols *symbols = symbols_of(path);
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
	fixture_write("prog.c", c_source);
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
	first = address_of("asm", "first");
	resolves("asm", first + 2, "first", false);
	resolves("asm", first + 4, "second", false);
	nothing_known("asm", first + 100);
}

/* Below are offsets of thread-local variables. */
enum { FIRST_ADDRESS = 0x1000 };

/* Oracle: nm. Asked for inside of each object. */
static void objects_agree_with_nm(const char *path, const char *flags, size_t at_least)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = symbols_of(path);
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

	fixture_write("prog.c", c_source);
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
	resolves("prog", sink + 1, "sink", false);
	/* Without symbols there is still the section. */
	fixture_run("strip prog");
	symbols = symbols_of("prog");
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

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	start = address_of("prog", "hidden") - 200;
	many = symbols_of("prog");
	one = symbols_of("prog");
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
	AUTO(symbols_destroy_auto) struct symbols *symbols = symbols_of(path);
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

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -o prog prog.c && strip -o bare prog");
	start = address_of("prog", "hidden") - 200;
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

	fixture_write("prog.c", c_source);
	fixture_run("gcc -O2 -o prog prog.c && objcopy -O binary --only-section=.text prog text");
	output = fixture_output(
		"readelf -SW prog | sed -nE 's/.* \\.text +PROGBITS +([0-9a-f]+).*/\\1/p'");
	assert_non_null(fixture_line(output, line, sizeof(line)));
	start = strtoull(line, NULL, 16);
	text = fopen("text", "r");
	assert_int_equal(fread(expected, 1, 300, text), 300);
	fclose(text);
	symbols = symbols_of("prog");
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

	fixture_write("prog.c", c_source);
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

static pid_t only_child(void)
{
	AUTO(close_file) FILE *file = fopen("/proc/thread-self/children", "r");
	int pid;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	return pid;
}

/*
 * A reader that dies takes the lines with it, a second one the names; the asking process goes on.
 */
static void death_of_the_reader_costs_names_only(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_answer answer;
	uint64_t hidden;

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	hidden = address_of("prog", "hidden");
	symbols = symbols_of("prog");
	assert_int_equal(symbols_resolve(symbols, hidden, &answer), 0);
	assert_true(answer.frames[0].line > 0);
	kill(only_child(), SIGSEGV);
	assert_int_equal(symbols_resolve(symbols, hidden, &answer), 0);
	assert_string_equal(answer.frames[0].name, "hidden");
	assert_int_equal(answer.frames[0].line, 0);
	kill(only_child(), SIGBUS);
	assert_int_equal(symbols_resolve(symbols, hidden + 1, &answer), 0);
	assert_int_equal(answer.address, hidden);
	assert_memory_equal(answer.frames[0].name, "sub_", 4);
}

static pid_t parent_of(pid_t pid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/stat", (int)pid);
	AUTO(close_file) FILE *file = fopen(path, "r");
	int parent;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %d", &parent), 1);
	return parent;
}

/* The end of a reader that another process forked is learnt as that of one's own child. */
static void readers_come_from_a_small_process(void **state)
{
	AUTO(close_fd) int fd = -1;
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	const struct worker_limits limits = { 10, 10, 4ull << 30 };
	struct worker worker;
	pid_t spawner;

	spawner_begin();
	spawner = only_child();
	fd = fixture_open("/bin/true");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(worker_start(&worker, fd, "/bin/true", true, &limits), 0);
		assert_int_equal(parent_of(worker.pid), getpid());
		assert_int_not_equal(worker.pid, spawner);
		worker_load(&worker);
		assert_int_equal(worker_ask(&worker, WORKER_NAMES, (uint64_t[2]){}, 2, &reply), 0);
		free(take_ptr(reply));
		kill(worker.pid, SIGSEGV);
		assert_int_equal(worker_ask(&worker, WORKER_NAMES, (uint64_t[2]){}, 2, &reply),
				 -EPIPE);
		assert_int_equal(worker_stop(&worker), SIGSEGV);
	}
	/* Without it they are forked as usual. */
	kill(spawner, SIGKILL);
	assert_int_equal(worker_start(&worker, fd, "/bin/true", true, &limits), 0);
	assert_int_equal(worker_ask(&worker, WORKER_NAMES, (uint64_t[2]){}, 2, &reply), 0);
	assert_int_equal(worker_stop(&worker), SIGKILL);
	spawner_end();
	assert_int_equal(waitpid(-1, NULL, 0), -1);
}

/* One that was killed while it loaded the file: the next one answers. */
static void death_while_loading_costs_lines_only(void **state)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct symbol_answer answer;
	uint64_t hidden;

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -O2 -o prog prog.c");
	hidden = address_of("prog", "hidden");
	symbols = symbols_of("prog");
	symbols_prepare(symbols);
	kill(only_child(), SIGKILL);
	assert_int_equal(symbols_resolve(symbols, hidden, &answer), 0);
	assert_string_equal(answer.frames[0].name, "hidden");
	assert_int_equal(answer.frames[0].line, 0);
}

static int killed_by(const char *path, const struct worker_limits *limits)
{
	AUTO(close_fd) int fd = fixture_open(path);
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	struct worker worker;

	assert_int_equal(worker_start(&worker, fd, path, true, limits), 0);
	assert_int_equal(worker_ask(&worker, WORKER_FRAMES, &(uint64_t){ 0x1234 }, 1, &reply),
			 -EPIPE);
	return worker_stop(&worker);
}

/* Split DWARF whose other half is a pipe that nobody writes to. */
static void a_stalled_read_is_ended(void **state)
{
	const struct worker_limits limits = { .cpu_seconds = 60,
					      .wall_seconds = 1,
					      .memory = 4ull << 30 };

	fixture_write("prog.c", c_source);
	fixture_run("gcc -g -gsplit-dwarf -c -o split.o prog.c && gcc -o split split.o");
	fixture_run("rm split.dwo && mkfifo split.dwo");
	assert_int_equal(killed_by("split", &limits), SIGALRM);
}

/* 20,000 units that share one list of 100,000 address ranges: work that grows with the product. */
static void a_runaway_is_ended(void **state)
{
	const struct worker_limits limits = { .cpu_seconds = 1,
					      .wall_seconds = 60,
					      .memory = 4ull << 30 };

	fixture_write("bomb.S",
		      ".globl _start\n_start: nop\n"
		      ".section .debug_abbrev\n.byte 1, 0x11, 0, 0x55, 0x17, 0, 0, 0\n"
		      ".section .debug_ranges\n.rept 100000\n.quad 1, 1\n.endr\n.quad 0, 0\n"
		      ".section .debug_info\n.rept 20000\n.long 12\n.short 4\n.long 0\n"
		      ".byte 8, 1\n.long 0\n.endr\n.section .note.GNU-stack\n");
	fixture_run("gcc -nostdlib -static -o bomb bomb.S");
	assert_int_equal(killed_by("bomb", &limits), SIGPROF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(c_inlines_agree_with_addr2line),
		cmocka_unit_test(split_dwarf_agrees_with_addr2line),
		cmocka_unit_test(cpp_inlines_agree_with_addr2line),
		cmocka_unit_test(clang_agrees_with_addr2line),
		cmocka_unit_test(frames_are_innermost_first),
		cmocka_unit_test(functions_are_found_with_few_reads),
		cmocka_unit_test(debug_link_is_followed),
		cmocka_unit_test(a_shared_debug_file_is_followed),
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
		cmocka_unit_test(death_of_the_reader_costs_names_only),
		cmocka_unit_test(readers_come_from_a_small_process),
		cmocka_unit_test(death_while_loading_costs_lines_only),
		cmocka_unit_test(a_stalled_read_is_ended),
		cmocka_unit_test(a_runaway_is_ended),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
