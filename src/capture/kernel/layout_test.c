// SPDX-License-Identifier: BSD-2-Clause
// Serves: V4.
/*
 * What is read of the kernel's symbols and memory, on texts in the formats of /proc/kallsyms and
 * /proc/iomem.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "capture/kernel/layout.h"

#define GARBAGE "x\n\n : System RAM\n-\n1-\nzz-yy : System RAM\n00001000 : System RAM\n"

static const char symbols[] = "ffffffff8b000000 T startup_64\n"
			      "ffffffff8a200000 T _text\n"
			      "ffffffff8c345678 D page_offset_base\n"
			      "ffffffff8c345680 D vmemmap_base\n"
			      "ffffffffc0000000 t _text\t[ext4]\n"
			      "ffffffffc0000010 d page_offset_base\t[ext4]\n";

static const char memory[] = "00000000-00000fff : Reserved\n"
			     "00001000-0009fbff : System RAM\n"
			     "000f0000-000fffff : System ROM\n"
			     "00100000-7ffdffff : System RAM\n"
			     "  02200000-030fffff : Kernel code\n"
			     "  03200000-03dfffff : Kernel rodata\n"
			     "  03e00000-041fffff : Kernel data\n"
			     "  04600000-049fffff : Kernel bss\n"
			     "  10000000-10000fff : System RAM (kexec)\n"
			     "80000000-8fffffff : PCI Bus 0000:00\n"
			     "100000000-27fffffff : System RAM\n";

static void layout_read(const char *names, const char *ranges, struct kernel_layout *ret)
{
	AUTO(close_file) FILE *first = fmemopen((void *)names, strlen(names), "r");
	AUTO(close_file) FILE *second = fmemopen((void *)ranges, strlen(ranges), "r");

	memset(ret, 0, sizeof(*ret));
	if (first)
		kernel_layout_symbols(first, ret);
	if (second)
		kernel_layout_memory(second, ret);
}

static bool has_ram(const struct kernel_layout *layout, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < RUN_RAM_RANGES; i++)
		if (layout->ram[i].start == start && layout->ram[i].end == end)
			return true;
	return false;
}

static unsigned ram_count(const struct kernel_layout *layout)
{
	unsigned count = 0;

	for (size_t i = 0; i < RUN_RAM_RANGES; i++)
		count += layout->ram[i].end > layout->ram[i].start;
	return count;
}

static void a_usual_machine(void **state)
{
	struct kernel_layout layout;

	layout_read(symbols, memory, &layout);
	assert_int_equal(layout.image.start, 0xffffffff8a200000);
	assert_int_equal(layout.image.end, 0xffffffff8a200000 + 0x2800000);
	assert_int_equal(layout.direct_map_variable, 0xffffffff8c345678);
	assert_int_equal(layout.page_map_variable, 0xffffffff8c345680);
	assert_int_equal(ram_count(&layout), 3);
	assert_true(has_ram(&layout, 0x1000, 0x9fc00));
	assert_true(has_ram(&layout, 0x100000, 0x7ffe0000));
	assert_true(has_ram(&layout, 0x100000000, 0x280000000));
	assert_true(layout.modules.start >= layout.image.end);
	assert_true(layout.modules.end > layout.modules.start);
}

/* An image that lies in the modules' part of the address space does not count twice. */
static void modules_begin_after_the_image(void **state)
{
	struct kernel_layout layout;

	layout_read("ffffffff9f000000 T _text\n", memory, &layout);
	assert_int_equal(layout.image.end, 0xffffffff9f000000 + 0x2800000);
	assert_int_equal(layout.modules.start, layout.image.end);
}

/* The memory map shows zeros to all but root: the code is known by its symbols all the same. */
static void hidden_memory_leaves_the_code(void **state)
{
	struct kernel_layout layout;

	layout_read("ffffffff81000000 T _text\nffffffff82206fc8 T _etext\n",
		    "00000000-00000000 : System RAM\n"
		    "  00000000-00000000 : Kernel code\n"
		    "  00000000-00000000 : Kernel bss\n",
		    &layout);
	assert_int_equal(layout.image.start, 0xffffffff81000000);
	assert_int_equal(layout.image.end, 0xffffffff82206fc8);
	assert_int_equal(ram_count(&layout), 0);
}

/* Of too many ranges the largest stay: what is left out is not read, which is safe. */
static void too_many_ranges(void **state)
{
	static char text[4096];
	struct kernel_layout layout;
	size_t used = 0;

	for (unsigned i = 0; i < 2 * RUN_RAM_RANGES; i++) {
		unsigned pages = 1 + i * 5 % (2 * RUN_RAM_RANGES); /* each number once */

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%x-%x : System RAM\n",
					 i << 24, (i << 24) + pages * 4096 - 1);
	}
	layout_read(symbols, text, &layout);
	assert_int_equal(ram_count(&layout), RUN_RAM_RANGES);
	for (size_t i = 0; i < RUN_RAM_RANGES; i++)
		assert_true(layout.ram[i].end - layout.ram[i].start > RUN_RAM_RANGES * 4096);
}

/* Users who may not see addresses see zeros. */
static void hidden_addresses(void **state)
{
	struct kernel_layout layout;

	layout_read("0000000000000000 T _text\n0000000000000000 D page_offset_base\n",
		    "00000000-00000000 : System RAM\n  00000000-00000000 : Kernel code\n"
		    "  00000000-00000000 : Kernel bss\n",
		    &layout);
	assert_int_equal(layout.image.start, layout.image.end);
	assert_int_equal(layout.direct_map_variable, 0);
	assert_int_equal(ram_count(&layout), 0);
}

static void garbage(void **state)
{
	struct kernel_layout layout;

	layout_read("\n \nT\nffff\nffffffff81000000 T\nnot a line _text\n", GARBAGE, &layout);
	assert_int_equal(layout.image.start, 0);
	assert_int_equal(ram_count(&layout), 0);
	/* Out of order: the image would end before it begins, and everything would lie in it. */
	layout_read(symbols,
		    "02200000-030fffff : Kernel code\n00100000-001fffff : Kernel bss\n" GARBAGE,
		    &layout);
	assert_int_equal(layout.image.start, layout.image.end);
	layout_read(symbols, "00100000-001fffff : Kernel bss\n", &layout);
	assert_int_equal(layout.image.start, layout.image.end);
	layout_read("", "", &layout);
	assert_int_equal(layout.image.end, 0);
}

/* Whatever the machine is, nothing empty or backwards comes out. */
static void this_machine(void **state)
{
	struct kernel_layout layout;

	kernel_layout_get(&layout);
	assert_true(layout.image.end >= layout.image.start);
	assert_true(layout.modules.end >= layout.modules.start);
	for (size_t i = 0; i < RUN_RAM_RANGES; i++)
		assert_true(layout.ram[i].end >= layout.ram[i].start);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_usual_machine),
		cmocka_unit_test(modules_begin_after_the_image),
		cmocka_unit_test(hidden_memory_leaves_the_code),
		cmocka_unit_test(too_many_ranges),
		cmocka_unit_test(hidden_addresses),
		cmocka_unit_test(garbage),
		cmocka_unit_test(this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
