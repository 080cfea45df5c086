// SPDX-License-Identifier: BSD-2-Clause
#include "profile/capture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/err.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define ARGS "arg0@caller,arg1@caller,arg2@caller,arg3@caller,arg4@caller,arg5@caller"

enum { UNWRITTEN = 77 };

static void joined(const struct capture *capture, struct strbuf *buf)
{
	for (size_t i = 0; i < capture->count; i++)
		strbuf_printf(buf, "%s%s", i ? "," : "", capture->items[i].text);
}

static void texts_check(const char *what, const char *wanted)
{
	AUTO(capture_deinit_auto) struct capture capture = {};
	AUTO(strbuf_deinit) struct strbuf buf = {};

	assert_int_equal(capture_parse(what, &capture), 0);
	joined(&capture, &buf);
	assert_string_equal(strbuf_text(&buf), wanted);
}

static void test_texts(void **state)
{
	static const struct {
		const char *what, *texts;
	} cases[] = {
		{ "result", "result" },
		{ "result,taken", "result,taken" },
		{ "caller+arg0", "caller+arg0" },
		{ "arg0+arg1@caller", "arg0+arg1@caller" },
		{ "difference(stored,overwritten),bits:4-11(result)",
		  "difference(stored,overwritten),bits:4-11(result)" },
		{ "log2(loaded)+alignment(address)+sign(result)+low(result)",
		  "log2(loaded)+alignment(address)+sign(result)+low(result)" },
		{ "difference(result,operand1)+difference(result,operand2)@caller",
		  "difference(result,operand1)+difference(result,operand2)@caller" },
		{ "self(result)", "result" },
		{ "self(path)", "path:8" },
		{ "bits:3-3(pid)", "bits:3(pid)" },
		{ "path", "path:8" },
		{ "path:08", "path:8" },
		{ "path:1,path:63", "path:1,path:63" },
		{ "low(path:5)+path:5", "low(path:5)+path:5" },
		{ "result+result", "result+result" },
		{ "pid+tid+uid+gid+cpu+tty+cgroup+ppid", "pid+tid+uid+gid+cpu+tty+cgroup+ppid" },
		{ "operands", "operand1,operand2" },
		{ "args", ARGS },
		{ "default", "result,stored,taken,target," ARGS },
		{ "pid,operands,uid", "pid,operand1,operand2,uid" },
		/* The same item twice, in other words too. */
		{ "result,result", "result" },
		{ "result,self(result),result@caller", "result,result@caller" },
		{ "path,path:8,path:9", "path:8,path:9" },
		{ "bits:2-2(pid),bits:2(pid)", "bits:2(pid)" },
		{ "arg3@caller,args,args", "arg3@caller,arg0@caller,arg1@caller,arg2@caller,"
					   "arg4@caller,arg5@caller" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		texts_check(cases[i].what, cases[i].texts);
		texts_check(cases[i].texts, cases[i].texts);
	}
}

static void source_check(enum capture_source source)
{
	AUTO(strbuf_deinit) struct strbuf what = {}, again = {};
	AUTO(capture_deinit_auto) struct capture capture = {};
	char text[16];

	snprintf(text, sizeof(text), "%s%s", capture_source_text(source),
		 source == CAPTURE_PATH ? ":8" : "");
	strbuf_printf(&what, "%s,%s@caller,low(%s),sign(%s),log2(%s),alignment(%s),", text, text,
		      text, text, text, text);
	strbuf_printf(&what, "bits:1-2(%s),difference(%s,pid)", text, text);
	assert_int_equal(capture_parse(strbuf_text(&what), &capture), 0);
	assert_int_equal(capture.count, 8);
	joined(&capture, &again);
	assert_string_equal(strbuf_text(&again), strbuf_text(&what));
	for (size_t i = 0; i < capture.count; i++)
		assert_int_equal(capture.items[i].class, capture_source_class(source));
}

/* Each source alone and in each function comes out as it went in. */
static void test_sources(void **state)
{
	for (enum capture_source source = 0; source < CAPTURE_SOURCE_COUNT; source++)
		source_check(source);
	assert_string_equal(capture_source_text(CAPTURE_OVERWRITTEN), "overwritten");
	assert_string_equal(capture_source_help(CAPTURE_PPID), "parent process");
	assert_int_equal(capture_source_class(CAPTURE_TARGET), CAPTURE_INSTRUCTION);
	assert_int_equal(capture_source_class(CAPTURE_USERSITE), CAPTURE_CONTEXT);
}

/* Every part that the messages name, and what they offer. */
static void test_refusals(void **state)
{
	static const struct {
		const char *what, *message;
	} cases[] = {
		{ "", "there is an empty item; name one, such as result" },
		{ "result,,taken", "there is an empty item; name one, such as result" },
		{ "result,", "there is an empty item; name one, such as result" },
		{ "result+", "result+: a source of values is missing; name one, such as result" },
		{ "@caller", "@caller: a source of values is missing; name one, such as result" },
		{ "log2()", "log2(): a source of values is missing; name one, such as result" },
		{ "default@caller",
		  "default@caller: 'default' stands for several items (result,stored,taken,target,"
		  "args) and cannot be part of one" },
		{ "pid,log2(operands)",
		  "log2(operands): 'operands' stands for several items (operand1,operand2) and "
		  "cannot be part of one" },
		{ "log2", "log2: 'log2' is a function; say of what, as in log2(result)" },
		{ "pid+bits:4-11", "pid+bits:4-11: 'bits:4-11' is a function; say of what, as in "
				   "bits:4-11(result)" },
		{ "difference", "difference: 'difference' is a function; say of what, as in "
				"difference(stored,overwritten)" },
		{ "path:0", "path:0: a path has 1 to 63 branches, as in path:12, not '0'" },
		{ "path:64", "path:64: a path has 1 to 63 branches, as in path:12, not '64'" },
		{ "low(path:)", "low(path:): a path has 1 to 63 branches, as in path:12, not ''" },
		{ "path:1x", "path:1x: a path has 1 to 63 branches, as in path:12, not '1x'" },
		{ "path:-1", "path:-1: a path has 1 to 63 branches, as in path:12, not '-1'" },
		{ "path:4294967297",
		  "path:4294967297: a path has 1 to 63 branches, as in path:12, not '4294967297'" },
		{ "path+path:9",
		  "path+path:9: an item has one path, not path:8 and path:9; make it "
		  "two items" },
		{ "log2(result", "log2(result: 'log2(result' does not end with the ) of its (" },
		{ "log2(result,taken",
		  "log2(result,taken: 'log2(result,taken' does not end with the ) of its (" },
		{ "log2(result)x",
		  "log2(result)x: 'log2(result)x' does not end with the ) of its (" },
		{ "cosine(result)",
		  "cosine(result): cosine: no such function of values; there are self, bits:4-11, "
		  "low, sign, alignment, difference and log2" },
		{ "(result)", "(result): : no such function of values; there are self, bits:4-11, "
			      "low, sign, alignment, difference and log2" },
		{ "bits:9-4(pid)",
		  "bits:9-4(pid): bits:9-4: give a bit or a range of bits from 0 to 63, as in "
		  "bits:4-11" },
		{ "difference(pid)", "difference(pid): difference takes 2 sources, not 1" },
		{ "difference(pid,tid,uid)",
		  "difference(pid,tid,uid): difference takes 2 sources, not 3" },
		{ "log2(pid,tid)", "log2(pid,tid): log2 takes 1 source, not 2" },
		{ "pid+pid+pid+pid+pid+pid+pid+pid+tid",
		  "pid+pid+pid+pid+pid+pid+pid+pid+tid: a tuple has at most 8 terms" },
		{ "arg0@callee", "arg0@callee: '@callee': only @caller may be there, at the end of "
				 "an item" },
		{ "arg0@caller+arg1",
		  "arg0@caller+arg1: '@caller+arg1': only @caller may be there, "
		  "at the end of an item" },
		{ "arg0@caller@caller", "arg0@caller@caller: '@caller@caller': only @caller may be "
					"there, at the end of an item" },
		{ "low(arg0@caller)", "low(arg0@caller): '@caller)': only @caller may be there, at "
				      "the end of an item" },
		{ "pid,arg2+taken",
		  "arg2+taken: taken exists at instructions and arg2 where a function is entered, "
		  "never together; make it two items" },
		{ "difference(arg1,loaded)", "difference(arg1,loaded): loaded exists at "
					     "instructions and arg1 where a function "
					     "is entered, never together; make it two items" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct capture capture = { .count = UNWRITTEN };

		assert_int_equal(capture_parse(cases[i].what, &capture), -EINVAL);
		assert_string_equal(err_text(), cases[i].message);
		assert_int_equal(capture.count, UNWRITTEN);
	}
}

/* All that is not a source is told with all that is one. */
static void test_unknown(void **state)
{
	static const char *const
		parts[] = { "results", "RESULT", "result ", " result",	  "path8",
			    "pid:3",   "arg6",	 "pid)",    "low(result)" /* of a function */ };

	for (size_t i = 0; i < COUNT(parts); i++) {
		AUTO(strbuf_deinit) struct strbuf what = {}, start = {};
		struct capture capture;

		strbuf_printf(&what, "pid,log2(%s)", parts[i]);
		strbuf_printf(&start,
			      "log2(%s): '%s' is not a source of values; there are result, ",
			      parts[i], parts[i]);
		assert_int_equal(capture_parse(strbuf_text(&what), &capture), -EINVAL);
		assert_memory_equal(err_text(), strbuf_text(&start), start.length);
		assert_non_null(strstr(err_text(), ", target, arg0, "));
		assert_non_null(
			strstr(err_text(), ", usersite, and the groups args, operands, default"));
	}
}

/* Of the 64 functions bits:N(result) none is too many; a known one is not one more, a new one is. */
static void test_limit(void **state)
{
	AUTO(strbuf_deinit) struct strbuf what = {};
	AUTO(capture_deinit_auto) struct capture capture = {};
	struct capture none;

	for (unsigned i = 0; i < CAPTURE_ITEMS_MAX; i++)
		strbuf_printf(&what, "bits:%u(result),", i);
	strbuf_puts(&what, "bits:7(result)");
	assert_int_equal(capture_parse(strbuf_text(&what), &capture), 0);
	assert_int_equal(capture.count, CAPTURE_ITEMS_MAX);
	strbuf_puts(&what, ",result");
	assert_int_equal(capture_parse(strbuf_text(&what), &none), -E2BIG);
	assert_string_equal(err_text(), "result is one item too many; there may be 64");
}

static void test_items(void **state)
{
	static const struct {
		const char *what;
		enum capture_class class;
		uint64_t needs, all;
		unsigned terms, path_length;
		bool by_caller;
	} cases[] = {
#define BIT(name) CAPTURE_BIT(CAPTURE_##name)
		{ "result", CAPTURE_INSTRUCTION, BIT(RESULT), BIT(RESULT), 1, 0, false },
		{ "caller+arg0", CAPTURE_ENTRY, BIT(CALLER) | BIT(ARG0), BIT(CALLER) | BIT(ARG0), 2,
		  0, false },
		{ "arg0@caller", CAPTURE_ENTRY, BIT(ARG0), BIT(CALLER) | BIT(ARG0), 1, 0, true },
		{ "path:12", CAPTURE_RUN, BIT(PATH), BIT(PATH), 1, 12, false },
		{ "path+caller", CAPTURE_RUN, BIT(PATH) | BIT(CALLER), BIT(PATH) | BIT(CALLER), 2,
		  8, false },
		{ "path+result", CAPTURE_INSTRUCTION, BIT(PATH) | BIT(RESULT),
		  BIT(PATH) | BIT(RESULT), 2, 8, false },
		{ "path+arg5", CAPTURE_ENTRY, BIT(PATH) | BIT(ARG5), BIT(PATH) | BIT(ARG5), 2, 8,
		  false },
		{ "pid+sysarg0+syscall", CAPTURE_CONTEXT, BIT(PID) | BIT(SYSARG0) | BIT(SYSCALL),
		  BIT(PID) | BIT(SYSARG0) | BIT(SYSCALL), 3, 0, false },
		{ "difference(stored,overwritten)", CAPTURE_INSTRUCTION,
		  BIT(STORED) | BIT(OVERWRITTEN), BIT(STORED) | BIT(OVERWRITTEN), 1, 0, false },
#undef BIT
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		AUTO(capture_deinit_auto) struct capture capture = {};

		assert_int_equal(capture_parse(cases[i].what, &capture), 0);
		assert_int_equal(capture.count, 1);
		assert_int_equal(capture.items->class, cases[i].class);
		assert_int_equal(capture.items->needs, cases[i].needs);
		assert_int_equal(capture.needs, cases[i].all);
		assert_int_equal(capture.items->term_count, cases[i].terms);
		assert_int_equal(capture.items->path_length, cases[i].path_length);
		assert_int_equal(capture.items->by_caller, cases[i].by_caller);
	}
	assert_string_equal(capture_class_text(CAPTURE_CONTEXT), "context");
	assert_string_equal(capture_class_text(CAPTURE_INSTRUCTION), "instruction");
	assert_string_equal(capture_class_text(CAPTURE_ENTRY), "entry");
	assert_string_equal(capture_class_text(CAPTURE_RUN), "run");
}

/* The group is what its items are, all of them needed. */
static void test_needs(void **state)
{
	AUTO(capture_deinit_auto) struct capture capture = {};
	uint64_t needs = CAPTURE_BIT(CAPTURE_RESULT) | CAPTURE_BIT(CAPTURE_STORED) |
			 CAPTURE_BIT(CAPTURE_TAKEN) | CAPTURE_BIT(CAPTURE_TARGET) |
			 CAPTURE_BIT(CAPTURE_CALLER);

	for (unsigned i = 0; i < CAPTURE_ARGS; i++)
		needs |= CAPTURE_BIT(CAPTURE_ARG0 + i);
	assert_int_equal(capture_parse("default", &capture), 0);
	assert_int_equal(capture.needs, needs);
	capture_deinit(&capture);
	assert_null(capture.items);
	assert_int_equal(capture.count, 0);
}

static const struct capture_facts facts = {
	.known = CAPTURE_BIT(CAPTURE_RESULT) | CAPTURE_BIT(CAPTURE_ADDRESS) |
		 CAPTURE_BIT(CAPTURE_LOADED) | CAPTURE_BIT(CAPTURE_STORED) |
		 CAPTURE_BIT(CAPTURE_OVERWRITTEN) | CAPTURE_BIT(CAPTURE_TAKEN) |
		 CAPTURE_BIT(CAPTURE_PID) | CAPTURE_BIT(CAPTURE_PATH),
	.values = { [CAPTURE_RESULT] = UINT64_C(0xdeadbeeffffffffe),
		    [CAPTURE_ADDRESS] = UINT64_C(0x7ffff7dd1240),
		    [CAPTURE_LOADED] = 0xff80,
		    [CAPTURE_STORED] = 0x1005,
		    [CAPTURE_OVERWRITTEN] = 0x1107,
		    [CAPTURE_TAKEN] = 1,
		    [CAPTURE_PID] = 4711,
		    [CAPTURE_PATH] = 0x2d },
	.widths = { [CAPTURE_RESULT] = 32,
		    [CAPTURE_ADDRESS] = 64,
		    [CAPTURE_LOADED] = 8,
		    [CAPTURE_STORED] = 8,
		    [CAPTURE_OVERWRITTEN] = 8,
		    [CAPTURE_TAKEN] = 1,
		    [CAPTURE_PID] = 32,
		    [CAPTURE_PATH] = 9 },
};

static void test_words(void **state)
{
	static const struct {
		const char *what;
		unsigned width;
		uint64_t words[HOTLIST_WORDS_MAX];
	} cases[] = {
		{ "result", 32, { 0xfffffffe } },
		{ "address", 64, { UINT64_C(0x7ffff7dd1240) } },
		{ "taken", 1, { 1 } },
		{ "path", 9, { 0x2d } },
		{ "loaded@caller", 8, { 0x80 } }, /* although the caller is not known */
		{ "sign(result)", 64, { UINT64_MAX } },
		{ "sign(address)", 64, { 1 } },
		{ "low(result)", 1, { 0 } },
		{ "low(path)", 1, { 1 } },
		{ "log2(loaded)", 8, { 8 } },
		{ "alignment(address)", 8, { 6 } },
		{ "alignment(loaded)", 8, { 7 } },
		{ "bits:6(address)", 1, { 1 } },
		{ "bits:4-10(address)", 8, { 0x24 } },
		{ "bits:4-11(address)", 16, { 0x24 } },
		{ "bits:0-14(address)", 16, { 0x1240 } },
		{ "bits:0-15(address)", 32, { 0x1240 } },
		{ "bits:0-30(address)", 32, { 0x77dd1240 } },
		{ "bits:0-31(address)", 64, { 0xf7dd1240 } },
		{ "bits:0-63(address)", 64, { UINT64_C(0x7ffff7dd1240) } },
		{ "bits:28-39(result)", 16, { 0xf } },
		{ "difference(stored,overwritten)", 64, { (uint64_t)-2 } },
		{ "difference(overwritten,stored)", 64, { 2 } },
		{ "difference(stored,pid)", 64, { (uint64_t)(5 - 4711) } },
		{ "difference(pid,stored)", 64, { 4706 } },
		{ "difference(address,result)", 64, { UINT64_C(0x7ffff7dd1240) - 0xfffffffe } },
		{ "pid+result+log2(pid)", 32, { 4711, 0xfffffffe, 13 } },
		{ "low(pid)+pid+taken+path+loaded+stored+overwritten+address",
		  1,
		  { 1, 4711, 1, 0x2d, 0x80, 5, 7, UINT64_C(0x7ffff7dd1240) } },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		AUTO(capture_deinit_auto) struct capture capture = {};
		uint64_t words[HOTLIST_WORDS_MAX] = {};
		unsigned width = 0;

		assert_int_equal(capture_parse(cases[i].what, &capture), 0);
		assert_true(capture_words(capture.items, &facts, words, &width));
		assert_memory_equal(words, cases[i].words, sizeof(words));
		assert_int_equal(width, cases[i].width);
	}
}

/* A second argument or the last term counts as much as the first. */
static void test_missing(void **state)
{
	static const char *const cases[] = { "operand1", "difference(result,operand1)",
					     "difference(operand1,result)", "result+taken+operand1",
					     "caller" };

	for (size_t i = 0; i < COUNT(cases); i++) {
		AUTO(capture_deinit_auto) struct capture capture = {};
		uint64_t words[HOTLIST_WORDS_MAX] = { UNWRITTEN };
		unsigned width = UNWRITTEN;

		assert_int_equal(capture_parse(cases[i], &capture), 0);
		assert_false(capture_words(capture.items, &facts, words, &width));
		assert_int_equal(words[0], UNWRITTEN);
		assert_int_equal(width, UNWRITTEN);
	}
}

/* A line for every source, once, under its class, and every group. */
static void test_help(void **state)
{
	static const char *const headings[] = {
		[CAPTURE_INSTRUCTION] = "\nSources that exist at each instruction that has it:\n",
		[CAPTURE_ENTRY] = "\nSources that exist where a function is entered:\n",
		[CAPTURE_RUN] = "\nSources that exist once for a run, at its first instruction:\n",
		[CAPTURE_CONTEXT] = "\nSources that exist anywhere; the same for a whole run:\n",
	};
	AUTO(strbuf_deinit) struct strbuf help = {};

	capture_help(&help);
	for (enum capture_source source = 0; source < CAPTURE_SOURCE_COUNT; source++) {
		const char *heading = strstr(help.text, headings[capture_source_class(source)]);
		char line[128];
		const char *at;

		assert_non_null(heading);
		snprintf(line, sizeof(line), "\n  %-12s %s\n", capture_source_text(source),
			 capture_source_help(source));
		at = strstr(heading + 1, line);
		assert_non_null(at);
		assert_null(strstr(at + 1, line));
		/* A section ends at an empty line. */
		assert_true(!strstr(heading + 1, "\n\n") || at < strstr(heading + 1, "\n\n"));
	}
	assert_non_null(strstr(help.text, "\n  args         " ARGS "\n"));
	assert_non_null(strstr(help.text, "\n  operands     operand1,operand2\n"));
	assert_non_null(strstr(help.text, "\n  default      result,stored,taken,target,args\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),	 cmocka_unit_test(test_sources),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_limit),	 cmocka_unit_test(test_items),
		cmocka_unit_test(test_needs),	 cmocka_unit_test(test_words),
		cmocka_unit_test(test_missing),	 cmocka_unit_test(test_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
