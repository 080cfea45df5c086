// SPDX-License-Identifier: BSD-2-Clause
// Serves: W2, W7.
/*
 * The assembler writes the code; what it does was counted by hand, from the manual of the
 * processor.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "isa/effects.h"
#include "phases/heat.h"

/* Never executed. */
#define CODE(name, text)                                                                           \
	extern const uint8_t name[], name##_end[];                                                 \
	__asm__(".pushsection .rodata\n.globl " #name "\n" #name ":\n" text "\n.globl " #name      \
		"_end\n" #name "_end:\n.popsection")

CODE(code_memory, "mov (%rax), %rbx\n mov %rbx, (%rax)\n add %rbx, (%rax)\n lea 8(%rax), %rbx\n"
		  "push %rax\n pop %rax\n push (%rax)\n rep movsb\n nopw 0(%rax,%rax)\n"
		  "prefetcht0 (%rax)\n cmpb $0, (%rax)");
CODE(code_flow, "jne .\n jmp .\n call .\n ret\n jmp *%rax\n call *(%rax)\n syscall\n loop .\n"
		"lock incl (%rax)\n xchg %rax, (%rbx)\n xchg %rax, %rbx");
CODE(code_vector, "paddd %xmm0, %xmm1\n addpd %xmm0, %xmm1\n addsd %xmm0, %xmm1\n"
		  "movups (%rax), %xmm0\n movsd (%rax), %xmm0\n xorps %xmm0, %xmm0\n"
		  "vfmadd231ps %ymm0, %ymm1, %ymm2\n vfmadd231sd %xmm0, %xmm1, %xmm2\n"
		  "fadd %st(1), %st\n cvtsi2sd %eax, %xmm0\n add %rax, %rbx");
CODE(code_bad, ".byte 0x06, 0x06, 0x06");

static struct heat heat_check(const uint8_t *code, const uint8_t *end, uint32_t instructions)
{
	struct heat heat;

	assert_true(heat_of_block(code, (size_t)(end - code), instructions, &heat));
	assert_int_equal(heat.of[HEAT_INSTRUCTIONS], instructions);
	return heat;
}

static void test_memory(void **state)
{
	struct heat heat = heat_check(code_memory, code_memory_end, 11);

	/* mov, add, pop, push of memory, movsb, cmp; mov, add, push, push, movsb */
	assert_int_equal(heat.of[HEAT_LOADS], 6);
	assert_int_equal(heat.of[HEAT_STORES], 5);
	assert_int_equal(heat.of[HEAT_BRANCHES], 0);
}

static void test_flow(void **state)
{
	struct heat heat = heat_check(code_flow, code_flow_end, 11);

	assert_int_equal(heat.of[HEAT_BRANCHES], 2);
	assert_int_equal(heat.of[HEAT_JUMPS], 2);
	assert_int_equal(heat.of[HEAT_CALLS], 2);
	assert_int_equal(heat.of[HEAT_INDIRECT], 2);
	assert_int_equal(heat.of[HEAT_RETURNS], 1);
	assert_int_equal(heat.of[HEAT_SYSTEM], 1);
	assert_int_equal(heat.of[HEAT_ATOMIC], 2);
}

static void test_vector(void **state)
{
	struct heat heat = heat_check(code_vector, code_vector_end, 11);

	/* paddd, addpd, movups, xorps, the packed fma */
	assert_int_equal(heat.of[HEAT_VECTOR], 5);
	/* addpd, addsd, both fma, fadd, the conversion */
	assert_int_equal(heat.of[HEAT_FLOATING], 6);
}

static void test_not_code(void **state)
{
	struct heat heat;

	assert_false(heat_of_block(code_bad, 3, 3, &heat));
	assert_int_equal(heat.of[HEAT_INSTRUCTIONS], 3);
	assert_int_equal(heat.of[HEAT_LOADS], 0);
	/* Fewer instructions than bytes. */
	assert_false(heat_of_block(code_memory, (size_t)(code_memory_end - code_memory), 3, &heat));
	assert_int_equal(heat.of[HEAT_INSTRUCTIONS], 3);
	assert_int_equal(heat.of[HEAT_STORES], 0);
	assert_false(heat_of_block(code_memory, 2, 1, &heat));
}

static void test_sums(void **state)
{
	struct heat block = heat_check(code_memory, code_memory_end, 11), path = {};

	heat_add(&path, &block, 3);
	heat_add(&path, &block, 1);
	assert_int_equal(path.of[HEAT_LOADS], 24);
	assert_int_equal(heat_hot(&path, HEAT_STORES, 10), 200);
	assert_true(heat_hot(&path, HEAT_STORES, UINT64_MAX / 2) == UINT64_MAX);
}

static void test_names(void **state)
{
	for (enum heat_kind i = 0; i < HEAT_KIND_COUNT; i++) {
		enum heat_kind kind;

		assert_int_equal(heat_kind_parse(heat_kind_text(i), &kind), 0);
		assert_int_equal(kind, i);
		assert_true(strlen(heat_kind_what(i)) > 0);
	}
	assert_int_equal(heat_kind_parse("warmth", &(enum heat_kind){ 0 }), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory), cmocka_unit_test(test_flow),
		cmocka_unit_test(test_vector), cmocka_unit_test(test_not_code),
		cmocka_unit_test(test_sums),   cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
