// SPDX-License-Identifier: BSD-2-Clause
// Serves: V2, V6, V9, V20.
#include "values/selection.h"

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

static void joined(const struct selection *selection, struct strbuf *buf)
{
	for (size_t i = 0; i < selection->count; i++)
		strbuf_printf(buf, "%s%s", i ? "," : "", selection->items[i].text);
}

static void texts_check(const char *what, const char *wanted)
{
	AUTO(selection_deinit_auto) struct selection selection = {};
	AUTO(strbuf_deinit) struct strbuf buf = {};

	assert_int_equal(selection_parse(what, &selection), 0);
	joined(&selection, &buf);
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
		{ "operands", "operand1,operand2,operand3,operand4" },
		{ "args", ARGS },
		{ "default", "result,stored,taken,target," ARGS },
		{ "pid,operands,uid", "pid,operand1,operand2,operand3,operand4,uid" },
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

static void source_check(enum selection_source source)
{
	AUTO(strbuf_deinit) struct strbuf what = {}, again = {};
	AUTO(selection_deinit_auto) struct selection selection = {};
	char text[16];

	snprintf(text, sizeof(text), "%s%s", selection_source_text(source),
		 source == SELECTION_PATH ? ":8" : "");
	strbuf_printf(&what, "%s,%s@caller,low(%s),sign(%s),log2(%s),alignment(%s),", text, text,
		      text, text, text, text);
	strbuf_printf(&what, "bits:1-2(%s),difference(%s,pid)", text, text);
	assert_int_equal(selection_parse(strbuf_text(&what), &selection), 0);
	assert_int_equal(selection.count, 8);
	joined(&selection, &again);
	assert_string_equal(strbuf_text(&again), strbuf_text(&what));
	for (size_t i = 0; i < selection.count; i++)
		assert_int_equal(selection.items[i].class, selection_source_class(source));
}

/* Each source alone and in each function comes out as it went in. */
static void test_sources(void **state)
{
	for (enum selection_source source = 0; source < SELECTION_SOURCE_COUNT; source++)
		source_check(source);
	assert_string_equal(selection_source_text(SELECTION_OVERWRITTEN), "overwritten");
	assert_string_equal(selection_source_help(SELECTION_PPID), "parent process");
	assert_int_equal(selection_source_class(SELECTION_TARGET), SELECTION_INSTRUCTION);
	assert_int_equal(selection_source_class(SELECTION_USERSITE), SELECTION_CONTEXT);
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
		  "log2(operands): 'operands' stands for several items (operand1,operand2,operand3,"
		  "operand4) and "
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
		/* What no instruction has. */
		{ "taken+stored",
		  "taken+stored: no instruction has taken and stored: a conditional "
		  "branch neither reads nor writes memory; make it two items" },
		{ "pid+target+log2(overwritten)",
		  "pid+target+log2(overwritten): no instruction has target and overwritten: what a "
		  "branch or call stores is only where to return; make it two items" },
		{ "loaded2+stored",
		  "loaded2+stored: no instruction has loaded2 and stored: only "
		  "cmps reads two places, and it writes none; make it two items" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct selection selection = { .count = UNWRITTEN };

		assert_int_equal(selection_parse(cases[i].what, &selection), -EINVAL);
		assert_string_equal(err_text(), cases[i].message);
		assert_int_equal(selection.count, UNWRITTEN);
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
		struct selection selection;

		strbuf_printf(&what, "pid,log2(%s)", parts[i]);
		strbuf_printf(&start,
			      "log2(%s): '%s' is not a source of values; there are result, ",
			      parts[i], parts[i]);
		assert_int_equal(selection_parse(strbuf_text(&what), &selection), -EINVAL);
		assert_memory_equal(err_text(), strbuf_text(&start), start.length);
		assert_non_null(strstr(err_text(), ", target, arg0, "));
		assert_non_null(
			strstr(err_text(), ", usersite, and the groups args, operands, default"));
	}
}

/*
 * Of the 64 functions bits:N(result) none is too many; a known one is not one more, a new one is.
 */
static void test_limit(void **state)
{
	AUTO(strbuf_deinit) struct strbuf what = {};
	AUTO(selection_deinit_auto) struct selection selection = {};
	struct selection none;

	for (unsigned i = 0; i < SELECTION_ITEMS_MAX; i++)
		strbuf_printf(&what, "bits:%u(result),", i);
	strbuf_puts(&what, "bits:7(result)");
	assert_int_equal(selection_parse(strbuf_text(&what), &selection), 0);
	assert_int_equal(selection.count, SELECTION_ITEMS_MAX);
	strbuf_puts(&what, ",result");
	assert_int_equal(selection_parse(strbuf_text(&what), &none), -E2BIG);
	assert_string_equal(err_text(), "result is one item too many; there may be 64");
}

static void test_items(void **state)
{
	static const struct {
		const char *what;
		enum selection_class class;
		uint64_t needs, all;
		unsigned terms, path_length;
		bool by_caller;
	} cases[] = {
#define BIT(name) SELECTION_BIT(SELECTION_##name)
		{ "result", SELECTION_INSTRUCTION, BIT(RESULT), BIT(RESULT), 1, 0, false },
		{ "caller+arg0", SELECTION_ENTRY, BIT(CALLER) | BIT(ARG0), BIT(CALLER) | BIT(ARG0),
		  2, 0, false },
		{ "arg0@caller", SELECTION_ENTRY, BIT(ARG0), BIT(CALLER) | BIT(ARG0), 1, 0, true },
		{ "path:12", SELECTION_RUN, BIT(PATH), BIT(PATH), 1, 12, false },
		{ "path+caller", SELECTION_RUN, BIT(PATH) | BIT(CALLER), BIT(PATH) | BIT(CALLER), 2,
		  8, false },
		{ "path+result", SELECTION_INSTRUCTION, BIT(PATH) | BIT(RESULT),
		  BIT(PATH) | BIT(RESULT), 2, 8, false },
		{ "path+arg5", SELECTION_ENTRY, BIT(PATH) | BIT(ARG5), BIT(PATH) | BIT(ARG5), 2, 8,
		  false },
		{ "pid+sysarg0+syscall", SELECTION_CONTEXT, BIT(PID) | BIT(SYSARG0) | BIT(SYSCALL),
		  BIT(PID) | BIT(SYSARG0) | BIT(SYSCALL), 3, 0, false },
		{ "difference(stored,overwritten)", SELECTION_INSTRUCTION,
		  BIT(STORED) | BIT(OVERWRITTEN), BIT(STORED) | BIT(OVERWRITTEN), 1, 0, false },
#undef BIT
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		AUTO(selection_deinit_auto) struct selection selection = {};

		assert_int_equal(selection_parse(cases[i].what, &selection), 0);
		assert_int_equal(selection.count, 1);
		assert_int_equal(selection.items->class, cases[i].class);
		assert_int_equal(selection.items->needs, cases[i].needs);
		assert_int_equal(selection.needs, cases[i].all);
		assert_int_equal(selection.items->term_count, cases[i].terms);
		assert_int_equal(selection.items->path_length, cases[i].path_length);
		assert_int_equal(selection.items->by_caller, cases[i].by_caller);
	}
	assert_string_equal(selection_class_text(SELECTION_CONTEXT), "context");
	assert_string_equal(selection_class_text(SELECTION_INSTRUCTION), "instruction");
	assert_string_equal(selection_class_text(SELECTION_ENTRY), "entry");
	assert_string_equal(selection_class_text(SELECTION_RUN), "run");
}

/* The group is what its items are, all of them needed. */
static void test_needs(void **state)
{
	AUTO(selection_deinit_auto) struct selection selection = {};
	uint64_t needs = SELECTION_BIT(SELECTION_RESULT) | SELECTION_BIT(SELECTION_STORED) |
			 SELECTION_BIT(SELECTION_TAKEN) | SELECTION_BIT(SELECTION_TARGET) |
			 SELECTION_BIT(SELECTION_CALLER) | SELECTION_INDIRECT;

	for (unsigned i = 0; i < SELECTION_ARGS; i++)
		needs |= SELECTION_BIT(SELECTION_ARG0 + i);
	assert_int_equal(selection_parse("default", &selection), 0);
	assert_int_equal(selection.needs, needs);
	selection_deinit(&selection);
	assert_null(selection.items);
	assert_int_equal(selection.count, 0);
	/* With something else of the instruction, the targets of direct branches are wanted too. */
	assert_int_equal(selection_parse("taken+target,target+pid", &selection), 0);
	assert_int_equal(selection.items[0].needs, SELECTION_BIT(SELECTION_TAKEN) |
							   SELECTION_BIT(SELECTION_TARGET) |
							   SELECTION_ANY_BRANCH);
	assert_int_equal(selection.items[1].needs, SELECTION_BIT(SELECTION_PID) |
							   SELECTION_BIT(SELECTION_TARGET) |
							   SELECTION_INDIRECT);
}

static const struct selection_facts facts = {
	.known = SELECTION_BIT(SELECTION_RESULT) | SELECTION_BIT(SELECTION_ADDRESS) |
		 SELECTION_BIT(SELECTION_LOADED) | SELECTION_BIT(SELECTION_STORED) |
		 SELECTION_BIT(SELECTION_OVERWRITTEN) | SELECTION_BIT(SELECTION_TAKEN) |
		 SELECTION_BIT(SELECTION_PID) | SELECTION_BIT(SELECTION_PATH),
	.values = { [SELECTION_RESULT] = UINT64_C(0xdeadbeeffffffffe),
		    [SELECTION_ADDRESS] = UINT64_C(0x7ffff7dd1240),
		    [SELECTION_LOADED] = 0xff80,
		    [SELECTION_STORED] = 0x1005,
		    [SELECTION_OVERWRITTEN] = 0x1107,
		    [SELECTION_TAKEN] = 1,
		    [SELECTION_PID] = 4711,
		    [SELECTION_PATH] = 0x2d },
	.widths = { [SELECTION_RESULT] = 32,
		    [SELECTION_ADDRESS] = 64,
		    [SELECTION_LOADED] = 8,
		    [SELECTION_STORED] = 8,
		    [SELECTION_OVERWRITTEN] = 8,
		    [SELECTION_TAKEN] = 1,
		    [SELECTION_PID] = 32,
		    [SELECTION_PATH] = 9 },
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
		{ "low(pid)+pid+result+path+loaded+stored+overwritten+address",
		  1,
		  { 1, 4711, 0xfffffffe, 0x2d, 0x80, 5, 7, UINT64_C(0x7ffff7dd1240) } },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		AUTO(selection_deinit_auto) struct selection selection = {};
		uint64_t words[HOTLIST_WORDS_MAX] = {};
		unsigned width = 0;

		assert_int_equal(selection_parse(cases[i].what, &selection), 0);
		assert_true(selection_words(selection.items, &facts, words, &width));
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
		AUTO(selection_deinit_auto) struct selection selection = {};
		uint64_t words[HOTLIST_WORDS_MAX] = { UNWRITTEN };
		unsigned width = UNWRITTEN;

		assert_int_equal(selection_parse(cases[i], &selection), 0);
		assert_false(selection_words(selection.items, &facts, words, &width));
		assert_int_equal(words[0], UNWRITTEN);
		assert_int_equal(width, UNWRITTEN);
	}
}

/* A line for every source, once, under its class, and every group. */
static void test_help(void **state)
{
	static const char *const headings[] = {
		[SELECTION_INSTRUCTION] = "\nSources that exist at each instruction that has it:\n",
		[SELECTION_ENTRY] = "\nSources that exist where a function is entered:\n",
		[SELECTION_RUN] =
			"\nSources that exist once for a run, at its first instruction:\n",
		[SELECTION_CONTEXT] = "\nSources that exist anywhere; the same for a whole run:\n",
	};
	AUTO(strbuf_deinit) struct strbuf help = {};

	selection_help(&help);
	for (enum selection_source source = 0; source < SELECTION_SOURCE_COUNT; source++) {
		const char *heading = strstr(help.text, headings[selection_source_class(source)]);
		char line[128];
		const char *at;

		assert_non_null(heading);
		snprintf(line, sizeof(line), "\n  %-12s %s\n", selection_source_text(source),
			 selection_source_help(source));
		at = strstr(heading + 1, line);
		assert_non_null(at);
		assert_null(strstr(at + 1, line));
		/* A section ends at an empty line. */
		assert_true(!strstr(heading + 1, "\n\n") || at < strstr(heading + 1, "\n\n"));
	}
	assert_non_null(strstr(help.text, "\n  args         " ARGS "\n"));
	assert_non_null(
		strstr(help.text, "\n  operands     operand1,operand2,operand3,operand4\n"));
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
