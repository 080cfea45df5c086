// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which parts of the sampler are left out when a kernel refuses, and what is read from its words.
 * S7.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "capture/kernel/parts.h"

#define ALL (PART_BIT(USER) | PART_BIT(KERNEL) | PART_BIT(KERNEL_TEXT) | PART_BIT(VALUES))

/* A kernel that refuses whatever has one of these parts, by this program. */
struct kernel {
	unsigned refused;
	const char *program;
	unsigned tries;
};

static int kernel_load(void *ctx, unsigned parts, struct sampler_refusal *ret)
{
	struct kernel *kernel = ctx;

	kernel->tries++;
	if (!(parts & kernel->refused))
		return 0;
	snprintf(ret->program, sizeof(ret->program), "%s", kernel->program);
	return -EACCES;
}

static unsigned settle(unsigned refused, const char *program, size_t *ret_count, int *ret_err)
{
	struct kernel kernel = { .refused = refused, .program = program };
	struct sampler_refusal refusals[SAMPLER_PART_COUNT];
	unsigned parts = ALL;

	*ret_err = parts_settle(&parts, kernel_load, &kernel, refusals, ret_count);
	for (size_t i = 0; i < *ret_count; i++)
		assert_int_equal(refusals[i].err, -EACCES);
	assert_int_equal(kernel.tries, *ret_count + (*ret_err ? 0 : 1));
	return parts;
}

static void nothing_is_left_out_without_need(void **state)
{
	size_t count;
	int err;

	assert_int_equal(settle(0, "", &count, &err), ALL);
	assert_int_equal(count, 0);
	assert_int_equal(err, 0);
}

static void one_part_at_a_time_is_left_out(void **state)
{
	size_t count;
	int err;

	assert_int_equal(settle(PART_BIT(VALUES), "sample", &count, &err), ALL & ~PART_BIT(VALUES));
	assert_int_equal(count, 1);
	assert_int_equal(settle(PART_BIT(KERNEL_TEXT), "text_read", &count, &err),
			 ALL & ~PART_BIT(KERNEL_TEXT));
	assert_int_equal(count, 1);
	assert_int_equal(settle(PART_BIT(KERNEL), "sample", &count, &err), PART_BIT(USER));
	assert_int_equal(count, 2);
	assert_int_equal(err, 0);
}

static void without_user_code_there_is_no_sampler(void **state)
{
	size_t count;
	int err;

	settle(PART_BIT(USER), "sample", &count, &err);
	assert_int_equal(err, -EACCES);
	assert_int_equal(count, 3);
	settle(PART_BIT(USER), "", &count, &err); /* not even a program was named */
	assert_int_equal(err, -EACCES);
}

static void the_reason_is_read_from_the_log(void **state)
{
	static const char said[] =
		"libbpf: prog 'sample': BPF program load failed: Permission denied\n"
		"libbpf: prog 'sample': -- BEGIN PROG LOAD LOG --\n"
		"0: (b7) r0 = 0\n"
		"1: (95) exit\n"
		"combined stack size of 2 calls is 640. Too large\n"
		"verification time 13491951 usec\n"
		"stack depth 360+56\n"
		"processed 541372 insns (limit 1000000)\n"
		"-- END PROG LOAD LOG --\n"
		"libbpf: prog 'sample': failed to load: -13\n";
	struct sampler_refusal refusal;

	refusal_read(said, &refusal);
	assert_string_equal(refusal.program, "sample");
	assert_string_equal(refusal.reason, "combined stack size of 2 calls is 640. Too large");
	assert_string_equal(refusal.lines, "0: (b7) r0 = 0\n"
					   "1: (95) exit\n"
					   "combined stack size of 2 calls is 640. Too large\n"
					   "verification time 13491951 usec\n"
					   "stack depth 360+56\n"
					   "processed 541372 insns (limit 1000000)\n");
}

static void words_of_any_length_are_read(void **state)
{
	char said[4096];
	struct sampler_refusal refusal;

	refusal_read("", &refusal);
	assert_string_equal(refusal.program, "");
	assert_string_equal(refusal.reason, "");
	refusal_read("libbpf: prog 'x': -- BEGIN PROG LOAD LOG --\n-- END PROG LOAD LOG --\n",
		     &refusal);
	assert_string_equal(refusal.lines, "");
	snprintf(said, sizeof(said),
		 "prog 'on_fork': BPF program load failed: x\n"
		 "prog 'on_fork': -- BEGIN PROG LOAD LOG --\n%0*d\nend\n-- END PROG LOAD LOG --\n",
		 2000, 7);
	refusal_read(said, &refusal);
	assert_string_equal(refusal.program, "on_fork");
	assert_string_equal(refusal.reason, "end");
	assert_string_equal(refusal.lines, "end\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_left_out_without_need),
		cmocka_unit_test(one_part_at_a_time_is_left_out),
		cmocka_unit_test(without_user_code_there_is_no_sampler),
		cmocka_unit_test(the_reason_is_read_from_the_log),
		cmocka_unit_test(words_of_any_length_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
