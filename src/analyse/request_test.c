// SPDX-License-Identifier: BSD-2-Clause
/* Requests as text: what they ask for, what is refused, and that their own text gives the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "analyse/request.h"
#include "base/err.h"

static void assert_text(const char *text, const char *again)
{
	struct strbuf buf = {};
	struct request request;

	if (request_parse(text, &request))
		fail_msg("%s: %s", text, err_text());
	request_print(&request, &buf);
	assert_string_equal(strbuf_text(&buf), again);
	request_deinit(&request);
	strbuf_deinit(&buf);
}

static void assert_refused(const char *text, const char *sentence)
{
	struct request request;

	assert_int_equal(request_parse(text, &request), -EINVAL);
	assert_string_equal(err_text(), sentence);
}

static void a_text_says_everything(void **state)
{
	struct request request;

	assert_int_equal(request_parse("functions?symbol=deflate*&sort=self&limit=20&pid=1,2&"
				       "metric=blocks&min-share=5%25&module=a%26b&json",
				       &request),
			 0);
	assert_string_equal(request.view->name, "functions");
	assert_string_equal(request.wish.filter.symbols.items[0], "deflate*");
	assert_string_equal(request.wish.filter.modules.items[0], "a&b");
	assert_string_equal(request.wish.sort, "self");
	assert_int_equal(request.wish.limit, 20);
	assert_int_equal(request.wish.filter.pids.items[1], 2);
	assert_int_equal(request.wish.metric, METRIC_BLOCKS);
	assert_true(request.wish.min_share == 0.05);
	assert_int_equal(request.format, FORMAT_JSON);
	request_deinit(&request);
}

static void what_is_not_said_is_the_default(void **state)
{
	struct request request;

	assert_int_equal(request_parse("", &request), 0);
	assert_string_equal(request.view->name, "functions");
	assert_int_equal(request.wish.limit, 0);
	assert_true(request.wish.min_share < 0 && request.wish.min_invariance < 0);
	assert_int_equal(request.wish.metric, METRIC_AUTO);
	assert_int_equal(request.format, FORMAT_TEXT);
	assert_int_equal(request.wish.at, AT_NOTHING);
	request_deinit(&request);
}

static void its_own_text_gives_the_same(void **state)
{
	assert_text("?", "functions");
	assert_text("tree?bottom-up&limit=3", "tree?bottom-up&limit=3");
	assert_text("args?symbol=operator+&top=2&symbol=b",
		    "args?top=2&symbol=operator%2b&symbol=b");
	assert_text("values?item=result,log2(a,b)", "values?item=result&item=log2(a,b)");
	/* The last one counts, and comes last again. */
	assert_text("at?path=5&instruction=7", "at?path=7&instruction=7");
	assert_text("lines?json&format=text", "lines?json&format=text");
	assert_text("paths?heat=loads&min-share=0.5",
		    "paths?heat=loads&min-share=0.50000000000000000");
}

static void what_is_wrong_is_said(void **state)
{
	struct request request;

	assert_refused("functions?limit=0", "--limit 0: takes a whole number from 1 on");
	assert_refused("functions?limit", "--limit: needs a value, N");
	assert_refused("functions?json=1", "--json 1: takes no value");
	assert_refused("functions?frequency=9", "frequency: there is no such option of a request");
	assert_refused("functions?output=x", "output: there is no such option of a request");
	assert_refused("functions?symbol=%zz",
		       "symbol: after a % come the two digits of a byte, not 00");
	assert_refused("functions?symbol=%00",
		       "symbol: after a % come the two digits of a byte, not 00");
	assert_int_equal(request_parse("heap?limit=1", &request), -EINVAL);
	assert_non_null(strstr(err_text(), "'heap' is not a view; there are functions, lines"));
}

/* An option that would change nothing is refused, and who takes it is said. */
static void views_take_what_they_use(void **state)
{
	assert_refused("functions?bottom-up",
		       "--bottom-up: the view functions does not take it; it is for tree");
	assert_refused("tree?by-callsite",
		       "--by-callsite: the view tree does not take it; it is for callgraph");
	assert_refused(
		"args?tid=1",
		"--tid: the view args does not take it, because what it shows is not kept "
		"by process or thread; it is for all views but cpus, losses, coverage, invariants, "
		"args, blocks, values, runs and marktime");
	assert_refused("layers?heat=loads",
		       "--heat: the view layers does not take it; it is for executed, paths and "
		       "strata");
	assert_refused("losses?symbol=a",
		       "--symbol: the view losses does not take it; it is for functions, lines, "
		       "modules, processes, threads, waits, callgraph, tree, executed, paths, "
		       "mix, invariants, args, blocks and values");
	assert_refused("callgraph?sort=self",
		       "--sort: the view callgraph does not take it, because its rows belong "
		       "together; it is for all views but callgraph, tree, executed, paths, "
		       "strata, course, at, phases, timeline, args and blocks");
	assert_refused("args?metric=blocks",
		       "--metric: the view args does not take it; it is for functions, lines, "
		       "modules, processes, threads, callgraph and tree");
}

/* Every option is taken by some view, and every view takes --limit and --json. */
static void no_option_is_idle(void **state)
{
	for (const struct option_row *row = request_rows; row->name; row++) {
		size_t count = 0;

		for (const struct view *view = views; view->name; view++)
			count += !row->only || view->takes & row->only;
		assert_true(count > 0);
		assert_true(row->type == OPTION_FLAG || row->argument);
	}
	for (const struct view *view = views; view->name; view++) {
		AUTO(free_ptr) char *text = mem_printf("%s?limit=1&json", view->name);
		struct request request;

		assert_int_equal(request_parse(text, &request), 0);
		request_deinit(&request);
	}
}

static void takers_are_listed(void **state)
{
	struct strbuf text = {};

	for (const struct option_row *row = request_rows; row->name; row++) {
		request_takers(row, &text);
		strbuf_putc(&text, '\n');
	}
	assert_non_null(strstr(strbuf_text(&text), "\ntree\n"));
	assert_non_null(strstr(strbuf_text(&text), "\ninvariants and args\n"));
	assert_non_null(
		strstr(strbuf_text(&text), "all views but callgraph, tree, executed, paths, "));
	strbuf_deinit(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_text_says_everything),
		cmocka_unit_test(what_is_not_said_is_the_default),
		cmocka_unit_test(its_own_text_gives_the_same),
		cmocka_unit_test(what_is_wrong_is_said),
		cmocka_unit_test(views_take_what_they_use),
		cmocka_unit_test(no_option_is_idle),
		cmocka_unit_test(takers_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
