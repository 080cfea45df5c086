// SPDX-License-Identifier: BSD-2-Clause
/* Serves I6: conditions over counters, and what is refused. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"
#include "marks/rules.h"

/* Marks a and b, at two moments. */
static void lookup(void *ctx, const char *mark, struct mark_sum *now, struct mark_sum *before)
{
	if (!strcmp(mark, "a")) {
		*now = (struct mark_sum){ .visits = 300,
					  .instructions = 9000,
					  .timed = 200,
					  .time_ns = 3000000000,
					  .slower = 7,
					  .reads = 20,
					  .writes = 10,
					  .p50 = 1000,
					  .p99 = 2500000 };
		*before = (struct mark_sum){
			.visits = 100, .instructions = 3000, .time_ns = 1000000000, .p99 = 1
		};
	}
	if (!strcmp(mark, "b"))
		*now = *before = (struct mark_sum){ .visits = 40, .instructions = 80 };
}

static double value_of(const char *condition)
{
	char text[256];
	AUTO(rule_destroy_auto) struct rule *rule = NULL;

	snprintf(text, sizeof(text), "%s -> print", condition);
	assert_int_equal(rule_parse(text, &rule), 0);
	return rule_value(rule, lookup, NULL, 2);
}

static void test_values(void **state)
{
	static const struct {
		const char *condition;
		double value;
	} cases[] = {
		{ "calls(a)", 300 },
		{ "visits( a )", 300 },
		{ "instructions(a)", 9000 },
		{ "rate(calls(a))", 100 },
		{ "delta(calls(a))", 200 },
		{ "rate(calls(b))", 0 },
		{ "2*calls(a) + 3*calls(b)", 720 },
		{ "2 * (calls(a) + 3) * calls(b) > 24239", 1 },
		{ "calls(a) - calls(b) - 60", 200 },
		{ "calls(a) / calls(b) / 2", 3.75 },
		{ "calls(a)/(calls(b)-40)", 0 },
		{ "calls(b) / calls(a) > 20%", 0 },
		{ "calls(b) / calls(a) > 13%", 1 },
		{ "calls(a) >= 0.3k && calls(b) < 1M", 1 },
		{ "calls(a) > 1e3 || !(calls(b) != 40)", 1 },
		{ "-calls(b) < -39 && calls(a) == 300", 1 },
		{ "1 + 2 * 3 == 7 && calls(a) <= 300", 1 },
		{ "rate(calls(a) + calls(b)) / rate(instructions(a))", 1.0 / 30 },
		{ "calls(unknown)", 0 },
		{ "calls(\"a\")", 300 },
		{ "time(a) / timed(a)", 0.015 },
		{ "rate(time(a)) > 99%", 1 },
		{ "rate(time(a)) > 1s", 0 },
		{ "p50(a) > 999ns && p50(a) < 1.1us && p99(a) > 2.4ms && p99(a) < 2600us && p90(a) "
		  "< 1ns",
		  1 },
		{ "slower(a) + reads(a) + writes(a) + accesses(a)", 67 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_true(value_of(cases[i].condition) - cases[i].value < 1e-9 &&
			    cases[i].value - value_of(cases[i].condition) < 1e-9);
}

/* Before there is an earlier moment nothing has grown. */
static void test_first(void **state)
{
	AUTO(rule_destroy_auto) struct rule *rule = NULL;

	assert_int_equal(rule_parse("rate(calls(a)) > 0 -> print", &rule), 0);
	assert_true(rule_value(rule, lookup, NULL, 0) == 0);
}

static void test_actions(void **state)
{
	AUTO(rule_destroy_auto) struct rule *rule = NULL;

	assert_int_equal(
		rule_parse("calls(libz.so!inflate_fast+0x40) > 1 every 250ms -> "
			   "start deflate.c:4-9; stop \"f(int)\"; event too slow ; values 2s; "
			   "snapshot;print; run echo a; echo b",
			   &rule),
		0);
	assert_int_equal(rule->interval, 250 * NS_PER_MS);
	assert_string_equal(rule->reads.items[0], "libz.so!inflate_fast+0x40");
	assert_int_equal(rule->actions.count, 7);
	assert_string_equal(rule->actions.items[0].text, "deflate.c:4-9");
	assert_string_equal(rule->actions.items[1].text, "f(int)");
	assert_string_equal(rule->actions.items[2].text, "too slow");
	assert_int_equal(rule->actions.items[3].kind, RULE_VALUES);
	assert_int_equal(rule->actions.items[3].time, 2 * (uint64_t)NS_PER_S);
	assert_string_equal(rule->actions.items[5].text, "");
	assert_string_equal(rule->actions.items[6].text, "echo a; echo b");
}

static void test_refused(void **state)
{
	static const struct {
		const char *rule, *where;
	} cases[] = {
		{ "", "character 1" },
		{ "calls(a) > 1", "'->'" },
		{ "calls(a) > -> print", "character 12" },
		{ "1 > 0 -> print", "no mark" },
		{ "misses(a) > 1 -> print", "no metric of that name" },
		{ "calls(a > 1 -> print", "')' is expected" },
		{ "calls() > 1 -> print", "a mark is expected" },
		{ "calls(\"a) > 1 -> print", "no end" },
		{ "(calls(a) > 1 -> print", "')' is expected" },
		{ "rate(rate(calls(a))) > 1 -> print", "of a rate" },
		{ "calls(a) > 1 -> explode", "an action is expected" },
		{ "calls(a) > 1 -> ", "an action is expected" },
		{ "calls(a) > 1 -> start", "a mark is expected" },
		{ "calls(a) > 1 -> run", "a command is expected" },
		{ "calls(a) > 1 -> values 2", "a time such as" },
		{ "calls(a) > 1 -> values 9999999s", "from 1ms to a day" },
		{ "calls(a) > 1 -> snapshot now", "';' or the end" },
		{ "calls(a) > 1 every x -> print", "is expected" },
		{ "calls(a) > 1..2 -> print", "not a number" },
		{ "calls(a) > nan -> print", "no metric of that name" },
		{ "calls(a.c:0-) > 1 -> print", "rule" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rule *rule = NULL;

		assert_int_equal(rule_parse(cases[i].rule, &rule), -EINVAL);
		if (!strstr(err_text(), cases[i].where))
			fail_msg("%s: %s", cases[i].rule, err_text());
	}
}

static void test_deep(void **state)
{
	char text[4000] = {};
	struct rule *rule = NULL;

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = i % 2 ? '!' : '(';
	assert_int_equal(rule_parse(text, &rule), -EINVAL);
	memset(text, '-', sizeof(text) - 1);
	assert_int_equal(rule_parse(text, &rule), -EINVAL);
	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = i % 2 ? '+' : '1';
	assert_int_equal(rule_parse(text, &rule), -EINVAL);
}

static int loop_of(const char *first, const char *second)
{
	struct rule *rules[2] = {};
	int err;

	assert_int_equal(rule_parse(first, &rules[0]), 0);
	assert_int_equal(rule_parse(second, &rules[1]), 0);
	err = rules_check(rules, 2);
	rule_destroy(rules[0]);
	rule_destroy(rules[1]);
	return err;
}

static void test_loops(void **state)
{
	assert_int_equal(loop_of("calls(a) > 1 -> start b", "calls(b) > 1 -> print"), 0);
	assert_int_equal(loop_of("calls(a) > 1 -> start b", "calls(b) > 1 -> stop b"), 0);
	assert_int_equal(loop_of("calls(a) > 1 -> start b", "calls(b) > 1 -> start a"), -ELOOP);
	assert_int_equal(loop_of("calls(a) > 1 -> start b", "calls(b) > 1 -> stop a"), -ELOOP);
	assert_int_equal(loop_of("calls(a) > 1 -> start a", "calls(b) > 1 -> print"), -ELOOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	cmocka_unit_test(test_first),
		cmocka_unit_test(test_actions), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_deep),	cmocka_unit_test(test_loops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
