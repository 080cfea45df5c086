// SPDX-License-Identifier: BSD-2-Clause
/* What is put on the shelf is there once, and not more than fits. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "symbols/shelf.h"

static struct symbols *module_open(void)
{
	AUTO(close_fd) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct symbols *symbols = NULL;

	assert_int_equal(symbols_open(fd, "itself", &symbols), 0);
	return symbols;
}

static void test_take(void **state)
{
	AUTO(shelf_deinit) struct shelf shelf = {};
	struct symbols *first = module_open(), *second = module_open();

	assert_null(shelf_take(&shelf, 7));
	shelf_put(&shelf, 7, first);
	shelf_put(&shelf, 0, second);
	shelf_put(&shelf, 8, NULL);
	assert_null(shelf_take(&shelf, 8));
	assert_ptr_equal(shelf_take(&shelf, 7), first);
	assert_null(shelf_take(&shelf, 7));
	assert_ptr_equal(shelf_take(&shelf, 0), second);
	shelf_put(&shelf, 7, second);
	assert_ptr_equal(shelf_take(&shelf, 7), second);
	shelf_put(&shelf, 7, first);
	shelf_put(&shelf, 7, second); /* in its place: the first is closed */
	assert_int_equal(shelf.count, 1);
}

static void test_full(void **state)
{
	AUTO(shelf_deinit) struct shelf shelf = {};

	for (uint64_t i = 0; i < SHELF_MAX + 2; i++)
		shelf_put(&shelf, i, module_open());
	assert_null(shelf_take(&shelf, SHELF_MAX));
	symbols_destroy(shelf_take(&shelf, 3));
	shelf_put(&shelf, SHELF_MAX, module_open());
	symbols_destroy(shelf_take(&shelf, SHELF_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
