// SPDX-License-Identifier: BSD-2-Clause
// Serves: S3, S4.
#include "serve/route.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/mem.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static int parse(const char *method, const char *target, struct route *ret)
{
	return route_parse(method, target, TOKEN, ret);
}

static void things_are_found(void **state)
{
	struct route route;

	assert_int_equal(parse("GET", "/" TOKEN "/", &route), 0);
	assert_int_equal(route.kind, ROUTE_PAGE);
	assert_int_equal(parse("HEAD", "/" TOKEN "/data", &route), 0);
	assert_int_equal(route.kind, ROUTE_DATA);
	assert_int_equal(parse("GET", "/" TOKEN "/report/functions?symbol=a%20b&limit=3", &route),
			 0);
	assert_int_equal(route.kind, ROUTE_REPORT);
	assert_string_equal(route.request, "functions?symbol=a%20b&limit=3");
	assert_int_equal(parse("POST", "/" TOKEN "/start", &route), 0);
	assert_int_equal(route.kind, ROUTE_START);
}

/* Whatever is asked for, without the token nothing tells what there is. */
static void the_token_comes_first(void **state)
{
	static const char *const targets[] = {
		"",
		"/",
		"/state",
		"/" TOKEN, /* not below it */
		"//" TOKEN "/",
		"/0123456789abcdef0123456789abcdee/",
		"/0123456789abcdef0123456789abcde/",
		"/" TOKEN "0/",
		"/%30123456789abcdef0123456789abcdef/",
		"http://127.0.0.1/" TOKEN "/",
		TOKEN "/",
	};
	struct route route;

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		assert_int_equal(parse("GET", targets[i], &route), -EACCES);
}

static void there_are_no_files(void **state)
{
	static const char *const targets[] = {
		"/" TOKEN "/..",	  "/" TOKEN "/../../etc/passwd",
		"/" TOKEN "//etc/passwd", "/" TOKEN "/%2e%2e%2fetc",
		"/" TOKEN "/data/",	  "/" TOKEN "/data?x",
		"/" TOKEN "/State",	  "/" TOKEN "/report",
		"/" TOKEN "/./",
	};
	struct route route;

	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		assert_int_equal(parse("GET", targets[i], &route), -ENOENT);
}

static void methods_are_few(void **state)
{
	struct route route;

	assert_int_equal(parse("POST", "/" TOKEN "/data", &route), -EOPNOTSUPP);
	assert_int_equal(parse("DELETE", "/" TOKEN "/", &route), -EOPNOTSUPP);
	assert_int_equal(parse("GET", "/" TOKEN "/start", &route), -EOPNOTSUPP);
}

static void lengths_are_limited(void **state)
{
	AUTO(free_ptr) char *target = mem_zalloc(ROUTE_TARGET_MAX + 2);
	struct route route;

	memset(target, 'a', ROUTE_TARGET_MAX + 1);
	memcpy(target, "/" TOKEN "/report/", 41);
	assert_int_equal(parse("GET", target, &route), -E2BIG);
	target[ROUTE_TARGET_MAX] = '\0';
	assert_int_equal(parse("GET", target, &route), 0);
}

static void tokens_differ(void **state)
{
	char one[2 * ROUTE_TOKEN_BYTES + 1], other[2 * ROUTE_TOKEN_BYTES + 1];

	assert_int_equal(route_token_make(one), 0);
	assert_int_equal(route_token_make(other), 0);
	assert_int_equal(strlen(one), 2 * ROUTE_TOKEN_BYTES);
	assert_int_equal(strspn(one, "0123456789abcdef"), 2 * ROUTE_TOKEN_BYTES);
	assert_string_not_equal(one, other);
}

static void hosts_are_local(void **state)
{
	assert_true(route_host_is_local("127.0.0.1:80", "127.0.0.1", 80));
	assert_true(route_host_is_local("localhost:80", "127.0.0.1", 80));
	assert_true(route_host_is_local("[::1]:80", "[::1]", 80));
	assert_true(route_host_is_local("127.0.0.9:80", "127.0.0.9", 80));
	assert_false(route_host_is_local("127.0.0.1", "127.0.0.1", 80));
	assert_false(route_host_is_local("127.0.0.1:8080", "127.0.0.1", 80));
	assert_false(route_host_is_local("evil.example:80", "127.0.0.1", 80));
	assert_false(route_host_is_local("localhost.evil.example:80", "127.0.0.1", 80));
	assert_false(route_host_is_local("", "127.0.0.1", 80));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(things_are_found),    cmocka_unit_test(the_token_comes_first),
		cmocka_unit_test(there_are_no_files),  cmocka_unit_test(methods_are_few),
		cmocka_unit_test(lengths_are_limited), cmocka_unit_test(tokens_differ),
		cmocka_unit_test(hosts_are_local),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
