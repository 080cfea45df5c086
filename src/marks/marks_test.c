// SPDX-License-Identifier: BSD-2-Clause
/* Serves: I2. Marks as text, and the tables that are made of them; the test looks itself up. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/mem.h"
#include "marks/marks.h"

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		enum mark_kind kind;
		const char *module, *name;
		uint64_t first, last;
		bool many;
	} cases[] = {
		{ "deflate", MARK_ROUTINE, NULL, "deflate", 0, 0, false },
		{ "def*", MARK_ROUTINE, NULL, "def*", 0, 0, true },
		{ "libz.so!inflate_fast+0x40", MARK_INSTRUCTION, "libz.so", "inflate_fast", 64, 0,
		  false },
		{ "main+16", MARK_INSTRUCTION, NULL, "main", 16, 0, false },
		{ "libz.so!0x5a10", MARK_INSTRUCTION, "libz.so", NULL, 0x5a10, 0, false },
		{ "libz.so!0x5a10-0x5A80", MARK_RANGE, "libz.so", NULL, 0x5a10, 0x5a80, false },
		{ "deflate.c:414-493", MARK_LINES, NULL, "deflate.c", 414, 493, false },
		{ "a!src/b.c:7", MARK_LINES, "a", "src/b.c", 7, 7, false },
		{ "insn:lock*", MARK_INSTRUCTIONS, NULL, "lock*", 0, 0, false },
		{ "operator!=", MARK_ROUTINE, NULL, "operator!=", 0, 0, false },
		{ "v::operator+(v, v)", MARK_ROUTINE, NULL, "v::operator+(v, v)", 0, 0, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mark_spec spec;

		assert_int_equal(mark_spec_parse(cases[i].text, &spec), 0);
		assert_int_equal(spec.kind, cases[i].kind);
		assert_int_equal(spec.many, cases[i].many);
		assert_int_equal(spec.first, cases[i].first);
		assert_int_equal(spec.last, cases[i].last);
		assert_string_equal(spec.module ? spec.module : "-",
				    cases[i].module ? cases[i].module : "-");
		assert_string_equal(spec.name ? spec.name : "-",
				    cases[i].name ? cases[i].name : "-");
		mark_spec_deinit(&spec);
	}
}

/* What follows a mark is its own only if it is known: names of C++ have commas. */
static void test_attributes(void **state)
{
	static const struct {
		const char *text, *name;
		bool timed, ns;
		uint64_t slower;
	} cases[] = {
		{ "f(int, char)", "f(int, char)", false, false, 0 },
		{ "f(int, char),time", "f(int, char)", true, false, 0 },
		{ "f,slower=50", "f", true, false, 50 },
		{ "f,slower=3us", "f", true, true, 3000 },
		{ "f,time,slower=2ms", "f", true, true, 2000000 },
		{ "f,times", "f,times", false, false, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mark_spec spec;

		assert_int_equal(mark_spec_parse(cases[i].text, &spec), 0);
		assert_string_equal(spec.text, cases[i].text);
		assert_string_equal(spec.name, cases[i].name);
		assert_int_equal(spec.timed, cases[i].timed);
		assert_int_equal(spec.slower, cases[i].slower);
		assert_int_equal(spec.slower_ns, cases[i].ns);
		mark_spec_deinit(&spec);
	}
}

/* The slowest visits of one routine: a share of them. */
static void test_tail(void **state)
{
	static const struct {
		const char *text;
		uint32_t permille;
	} good[] = { { "f,tail", 10 }, { "f(int, char),tail=5%", 50 }, { "l.so!f,tail=0.1%", 1 } };
	static const char *const bad[] = { "f*,tail",	    "f,tail=",	  "f,tail=5",
					   "f,tail=60%",    "f,tail=-1%", "f,time,tail",
					   "insn:nop,tail", "f.c:3,tail", "data:f,tail" };
	AUTO(marks_destroy_auto) struct marks *marks = marks_create();

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct mark_spec spec;

		assert_int_equal(mark_spec_parse(good[i].text, &spec), 0);
		assert_int_equal(spec.tail, good[i].permille);
		assert_false(spec.timed);
		mark_spec_deinit(&spec);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(marks_add(marks, bad[i]), -EINVAL);
	assert_int_equal(marks_add(marks, "f,tail"), 0);
	assert_int_equal(marks_add(marks, "g,tail"), -EINVAL);
	assert_int_equal(marks_add(marks, "g,time"), 0);
}

static void test_data(void **state)
{
	struct mark_spec spec;

	assert_int_equal(mark_spec_parse("libz.so!data:win*", &spec), 0);
	assert_int_equal(spec.kind, MARK_DATA);
	assert_int_equal(spec.data, MARK_DATA_SYMBOL);
	assert_true(spec.many);
	mark_spec_deinit(&spec);
	assert_int_equal(mark_spec_parse("data:0x1000+0x20", &spec), 0);
	assert_int_equal(spec.data, MARK_DATA_ADDRESS);
	assert_int_equal(spec.first, 0x1000);
	assert_int_equal(spec.last, 0x1020);
	mark_spec_deinit(&spec);
	assert_int_equal(mark_spec_parse("data:heap:malloc@src/a.c:7", &spec), 0);
	assert_int_equal(spec.data, MARK_DATA_HEAP);
	assert_string_equal(spec.name, "malloc");
	assert_true(mark_spec_takes_file(&spec, "/x/src/a.c"));
	assert_int_equal(spec.first, 7);
	mark_spec_deinit(&spec);
}

/* Each time is in its bucket, which is at most one part in 32 wide. */
static void test_buckets(void **state)
{
	unsigned last = 0;

	for (uint64_t ticks = 0; ticks < 1ull << MARK_TIMES_BITS; ticks += 1 + ticks / 97) {
		unsigned bucket = mark_times_bucket(ticks);
		uint64_t low = mark_times_bucket_low(bucket);

		assert_true(bucket >= last && bucket < MARK_TIMES_BUCKETS);
		assert_true(low <= ticks && ticks - low <= low / MARK_TIMES_PARTS);
		assert_int_equal(mark_times_bucket(low), bucket);
		last = bucket;
	}
	assert_int_equal(mark_times_bucket(UINT64_MAX), MARK_TIMES_BUCKETS - 1);
}

static void test_meant(void **state)
{
	struct mark_spec spec;

	assert_int_equal(mark_spec_parse("libz.so!f", &spec), 0);
	assert_true(mark_spec_takes_module(&spec, "/usr/lib/libz.so.1.3.1"));
	assert_true(mark_spec_takes_module(&spec, "/usr/lib/libz.so"));
	assert_false(mark_spec_takes_module(&spec, "/usr/lib/xlibz.so"));
	assert_false(mark_spec_takes_module(&spec, "/usr/lib/libz.sox"));
	assert_true(mark_spec_takes_symbol(&spec, "f(int)", "_Z1fi"));
	assert_false(mark_spec_takes_symbol(&spec, "ff", "ff"));
	mark_spec_deinit(&spec);
	assert_int_equal(mark_spec_parse("b/c.c:1", &spec), 0);
	assert_true(mark_spec_takes_file(&spec, "/a/b/c.c"));
	assert_true(mark_spec_takes_file(&spec, "b/c.c"));
	assert_false(mark_spec_takes_file(&spec, "/a/bb/c.c"));
	mark_spec_deinit(&spec);
}

/* Columns: a name as demanglers write it, a mark, whether the mark means it. */
static const struct meant {
	const char *name, *mark;
	bool expected;
} names_meant[] = {
	{ "ns::get(int) const", "ns::get", true },
	{ "ns::get(int) const", "ns::get(int) const", true },
	{ "ns::get(int)::{lambda(int)#1}::operator()(int) const", "ns::get", false },
	{ "ns::get(int)::{lambda(int)#1}::operator()(int) const",
	  "ns::get(int)::{lambda(int)#1}::operator()", true },
	{ "ns::A::operator()(int) const", "ns::A::operator()", true },
	{ "ns::A::operator unsigned long() const", "ns::A::operator unsigned long", true },
	{ "ns::A::operator unsigned long() const", "long", false },
	{ "(anonymous namespace)::f(char*)", "(anonymous namespace)::f", true },
	{ "int ns::A::most<int>(int)", "ns::A::most", true },
	{ "int ns::A::most<int>(int)", "ns::A::most<int>", true },
	{ "int ns::A::most<int>(int)", "ns::A::most<int>(int)", true },
	{ "int ns::A::most<int>(int)", "int ns::A::most<int>(int)", true },
	{ "int ns::A::most<int>(int)", "ns::A::most<char>", false },
	{ "int ns::A::most<int>(int)", "ns::*", true },
	{ "int ns::A::most<int>(int)", "A::*", false },
	{ "std::vector<int, std::allocator<int> > f<int (*)(char)>(int)", "f", true },
	{ "std::vector<int, std::allocator<int> >::size() const", "size", false },
	{ "ns::Box<int>::get()", "ns::Box<int>::get", true },
	{ "bool ns::operator< <int>(ns::B<int> const&)", "ns::operator<", false },
	{ "ns::operator<=>(ns::B const&)", "ns::operator<=>", true },
	{ "ns::B::operator->() const", "ns::B::operator->", true },
	{ "non-virtual thunk to ns::B::f()", "ns::B::f", false },
	{ "broken>>(", "broken", false },
	{ ")", ")", true },
	{ ">()", "", false },
	{ "main", "main", true },
};

static void test_names(void **state)
{
	for (size_t i = 0; i < sizeof(names_meant) / sizeof(names_meant[0]); i++) {
		const struct meant *row = &names_meant[i];
		struct mark_spec spec = { .name = (char *)row->mark,
					  .many = strchr(row->mark, '*') };

		if (mark_spec_takes_symbol(&spec, row->name, "_Z") != row->expected)
			fail_msg("%s and the mark %s", row->name, row->mark);
	}
}

/* --- Tables ----------------------------------------------------------------------------------- */

static uint32_t line_of_begin;

/* clang-format off */
__attribute__((noinline, used)) static int to_be_marked(int x)
{ line_of_begin = __LINE__;
	return x * 7 + (int)line_of_begin;
}
/* clang-format on */

/* This program as it is mapped, where a function of it lies. */
static struct stream_module *self_module(uint64_t *ret_offset)
{
	uint64_t wanted = (uint64_t)(uintptr_t)to_be_marked, start, end, offset;
	struct stream_module *module = NULL;
	FILE *maps = fopen("/proc/self/maps", "re");
	struct stat status;
	char line[4096];

	assert_non_null(maps);
	while (!module && fgets(line, sizeof(line), maps)) {
		char *path = strchr(line, '/');

		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) != 3 || !path ||
		    wanted - start >= end - start)
			continue;
		path[strcspn(path, "\n")] = '\0';
		module = mem_zalloc(sizeof(*module) + strlen(path) + 1);
		memcpy(module->path, path, strlen(path));
	}
	fclose(maps);
	assert_non_null(module);
	assert_int_equal(stat(module->path, &status), 0);
	module->start = start;
	module->end = end;
	module->offset = offset;
	module->inode = status.st_ino;
	module->device_major = major(status.st_dev);
	module->device_minor = minor(status.st_dev);
	*ret_offset = wanted - start + offset;
	return module;
}

static size_t ranges_at(const char *area, int place, uint32_t offset, uint32_t mark)
{
	const struct mark_table *table = (const void *)(area + (size_t)place * MARKS_UNIT);
	size_t count = 0;

	for (uint32_t i = 0; i < table->count; i++) {
		const struct mark_range *range = &table->ranges[i];

		assert_true(range->start < range->end && range->reach >= range->end);
		assert_true(!i || range->start >= range[-1].start);
		count += range->mark == mark && offset >= range->start && offset < range->end;
	}
	return count;
}

static void test_self(void **state)
{
	AUTO(marks_destroy_auto) struct marks *marks = marks_create();
	AUTO(free_ptr) char *area = mem_zalloc(MARKS_BYTES);
	AUTO(free_ptr) char *lines = NULL;
	uint64_t offset;
	AUTO(free_ptr) struct stream_module *module = self_module(&offset);
	const struct marks_area *head = (const void *)area;
	int file, place;

	to_be_marked(1);
	lines = mem_printf("marks_test.c:%u-%u", line_of_begin - 1, line_of_begin + 1);
	assert_int_equal(marks_add(marks, "to_be_marked"), 0);
	assert_int_equal(marks_add(marks, lines), 0);
	assert_int_equal(marks_add(marks, "no_such_routine"), 0);
	assert_int_equal(marks_add(marks, "to_be_m*"), 0);
	assert_int_equal(marks_publish(marks, area), 0);
	file = marks_module(marks, getpid(), module);
	assert_true(file > 0);
	place = (int)head->tables[file];
	assert_true(place > 0);
	for (uint32_t number = 1; number <= 2; number++) {
		assert_int_equal(ranges_at(area, place, (uint32_t)offset, number << 1), 1);
		assert_int_equal(ranges_at(area, place, (uint32_t)offset, number << 1 | 1), 1);
		assert_int_equal(ranges_at(area, place, (uint32_t)offset + 1, number << 1 | 1), 0);
	}
	/* What the pattern found is a mark of its own. */
	assert_int_equal(ranges_at(area, place, (uint32_t)offset, 4 << 1), 0);
	assert_int_equal(ranges_at(area, place, (uint32_t)offset, 5 << 1), 1);
	assert_int_equal(marks_count(marks), 5);
	/* Once more, it is known. */
	assert_int_equal(marks_module(marks, getpid(), module), file);
	assert_int_equal(head->tables[file], place);
	assert_int_equal(marks_failed(marks), 0);
}

/* Serves I3: marks come and go while programs run, and a mark that comes back is the same. */
static void test_change(void **state)
{
	AUTO(marks_destroy_auto) struct marks *marks = marks_create();
	AUTO(free_ptr) char *area = mem_zalloc(MARKS_BYTES);
	const struct marks_area *head = (const void *)area;
	uint64_t offset;
	AUTO(free_ptr) struct stream_module *module = self_module(&offset);
	uint32_t file, before, generation;

	assert_int_equal(marks_add(marks, "no_such_routine"), 0);
	assert_int_equal(marks_publish(marks, area), 0);
	file = (uint32_t)marks_module(marks, getpid(), module);
	assert_int_equal(head->tables[file], 0);
	generation = head->generation;
	assert_int_equal(marks_change_add(marks, "to_be_m*"), 0);
	assert_true(head->generation > generation);
	assert_int_equal(marks_active(marks), 2);
	assert_int_equal(ranges_at(area, (int)head->tables[file], (uint32_t)offset, 3 << 1), 1);
	/* What was written is never changed: engines may be reading it. */
	before = head->tables[file];
	assert_int_equal(marks_change_add(marks, "to_be_marked"), 0);
	assert_int_not_equal(head->tables[file], before);
	assert_int_equal(ranges_at(area, (int)before, (uint32_t)offset, 4 << 1), 0);
	assert_int_equal(ranges_at(area, (int)head->tables[file], (uint32_t)offset, 3 << 1), 1);
	assert_int_equal(ranges_at(area, (int)head->tables[file], (uint32_t)offset, 4 << 1), 1);
	assert_int_equal(marks_change_add(marks, "to_be_marked"), -EEXIST);
	assert_int_equal(marks_change_remove(marks, "to_be_m*"), 0);
	assert_int_equal(ranges_at(area, (int)head->tables[file], (uint32_t)offset, 3 << 1), 0);
	assert_int_equal(ranges_at(area, (int)head->tables[file], (uint32_t)offset, 4 << 1), 1);
	assert_int_equal(marks_change_remove(marks, "to_be_m*"), -ENOENT);
	assert_int_equal(marks_change_remove(marks, "to_be_marked"), 0);
	assert_int_equal(head->tables[file], 0);
	assert_int_equal(marks_change_add(marks, "to_be_m*"), 0);
	assert_int_equal(ranges_at(area, (int)head->tables[file], (uint32_t)offset, 3 << 1), 1);
	assert_int_equal(marks_count(marks), 4);
	assert_int_equal(marks_change_add(marks, "insn:lock*"), 0);
	assert_true(head->instructions);
	assert_int_equal(marks_change_add(marks, "insn:nosuch"), -EINVAL);
	assert_int_equal(marks_change_add(marks, "deflate.c:"), -EINVAL);
	assert_int_equal(marks_change_remove(marks, "insn:lock*"), 0);
	assert_int_equal(head->instructions, 0);
	assert_int_equal(marks_active(marks), 2);
}

static void test_instructions(void **state)
{
	AUTO(marks_destroy_auto) struct marks *marks = marks_create();
	AUTO(free_ptr) char *area = mem_zalloc(MARKS_BYTES);
	const struct marks_area *head = (const void *)area;
	uint32_t code = 0;

	assert_int_equal(marks_add(marks, "insn:lock xadd"), 0);
	assert_int_equal(marks_publish(marks, area), 0);
	assert_true(head->instructions);
	code = ((const struct mark_table *)(area + head->instructions * MARKS_UNIT))
		       ->ranges[0]
		       .start;
	assert_int_equal(code >> 16, MARK_PREFIX_LOCK);
	assert_int_equal(ranges_at(area, (int)head->instructions, code, 1 << 1 | 1), 1);
	assert_int_equal(ranges_at(area, (int)head->instructions, code & 0xffff, 1 << 1 | 1), 0);
}

/* More than there is room for is refused, and said. */
static void test_full(void **state)
{
	AUTO(marks_destroy_auto) struct marks *marks = marks_create();
	AUTO(free_ptr) char *area = mem_zalloc(MARKS_BYTES);
	uint64_t offset;
	AUTO(free_ptr) struct stream_module *module = self_module(&offset);
	enum { MANY = MARKS_BYTES / MARKS_UNIT };

	for (int i = 0; i < MANY; i++)
		assert_int_equal(marks_add(marks, "to_be_marked"), 0);
	assert_int_equal(marks_publish(marks, area), 0);
	assert_int_equal(marks_module(marks, getpid(), module), 1);
	assert_int_equal(((const struct marks_area *)(const void *)area)->tables[1], 0);
	assert_int_equal(marks_failed(marks), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),	     cmocka_unit_test(test_meant),
		cmocka_unit_test(test_names),	     cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_tail),	     cmocka_unit_test(test_data),
		cmocka_unit_test(test_buckets),	     cmocka_unit_test(test_self),
		cmocka_unit_test(test_instructions), cmocka_unit_test(test_full),
		cmocka_unit_test(test_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
