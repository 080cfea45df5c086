// SPDX-License-Identifier: BSD-2-Clause
/* What is put on the cache is there once, and not more than fits. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "symbols/module_cache.h"

static struct symbols *module_open(void)
{
	AUTO(close_fd) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct symbols *symbols = NULL;

	assert_int_equal(symbols_open(fd, "itself", &symbols), 0);
	return symbols;
}

static void test_take(void **state)
{
	AUTO(module_cache_deinit) struct module_cache cache = {};
	struct symbols *first = module_open(), *second = module_open();

	assert_null(module_cache_take(&cache, 7));
	module_cache_put(&cache, 7, first);
	module_cache_put(&cache, 0, second);
	module_cache_put(&cache, 8, NULL);
	assert_null(module_cache_take(&cache, 8));
	assert_ptr_equal(module_cache_take(&cache, 7), first);
	assert_null(module_cache_take(&cache, 7));
	assert_ptr_equal(module_cache_take(&cache, 0), second);
	module_cache_put(&cache, 7, second);
	assert_ptr_equal(module_cache_take(&cache, 7), second);
	module_cache_put(&cache, 7, first);
	module_cache_put(&cache, 7, second); /* in its place: the first is closed */
	assert_int_equal(cache.count, 1);
}

static void test_full(void **state)
{
	AUTO(module_cache_deinit) struct module_cache cache = {};

	for (uint64_t i = 0; i < MODULE_CACHE_MAX + 2; i++)
		module_cache_put(&cache, i, module_open());
	assert_null(module_cache_take(&cache, MODULE_CACHE_MAX));
	symbols_destroy(module_cache_take(&cache, 3));
	module_cache_put(&cache, MODULE_CACHE_MAX, module_open());
	symbols_destroy(module_cache_take(&cache, MODULE_CACHE_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
