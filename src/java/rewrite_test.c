// SPDX-License-Identifier: BSD-2-Clause
/* Serves: T9. What a virtual machine thinks of rewritten classes is tested by tests/e2e/java.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "java/bytes.h"
#include "java/rewrite.h"

enum { NUMBER = 0x1234, LARGE = 0x12345 };

static void text_put(struct java_writer *out, const char *text)
{
	java_put_1(out, 1);
	java_put_2(out, (uint32_t)strlen(text));
	java_put(out, text, strlen(text));
}

/* A class T with one method m()V of this code; its handlers and frames follow the code. */
static struct java_writer class_make(const void *code, size_t size, const void *tail, size_t rest)
{
	struct java_writer out = {};

	java_put_4(&out, 0xcafebabe);
	java_put_4(&out, 55);
	java_put_2(&out, 7);
	text_put(&out, "T"); /* 1 */
	java_put_1(&out, 7); /* 2: class T */
	java_put_2(&out, 1);
	text_put(&out, "m"); /* 3 */
	text_put(&out, "()V"); /* 4 */
	text_put(&out, "Code"); /* 5 */
	text_put(&out, "StackMapTable"); /* 6 */
	java_put_2(&out, 0x21);
	java_put_2(&out, 2);
	java_put_2(&out, 2);
	java_put_4(&out, 0); /* no interface, no field */
	java_put_2(&out, 1);
	java_put_2(&out, 9);
	java_put_2(&out, 3);
	java_put_2(&out, 4);
	java_put_2(&out, 1);
	java_put_2(&out, 5);
	java_put_4(&out, (uint32_t)(8 + size + rest));
	java_put_4(&out, 0x00020003); /* stack, variables */
	java_put_4(&out, (uint32_t)size);
	java_put(&out, code, size);
	java_put(&out, tail, rest);
	java_put_2(&out, 0);
	return out;
}

static uint32_t number_of(void *ctx, const struct java_method *method)
{
	assert_memory_equal(method->name.bytes, "m", 1);
	assert_memory_equal(method->class_name.bytes, "T", 1);
	assert_int_equal(method->overloaded, 0);
	return *(uint32_t *)ctx;
}

static int rewrite(struct java_writer class, uint32_t number, struct java_rewritten *ret)
{
	const struct java_rewriting how = { "H", number_of, &number };

	return java_rewrite(class.bytes, class.size, &how, ret);
}

/* Where the code of the only method is: behind the first bytes that look like it. */
static const unsigned char *code_of(const struct java_rewritten *made, uint32_t size)
{
	for (size_t i = 8; i + size < made->size; i++) {
		struct java_reader from = { made->bytes, made->size, i - 8 };

		if (java_take_4(&from) == 0x00030003 && java_take_4(&from) == size)
			return made->bytes + i;
	}
	return NULL;
}

/* 0: goto 0. A branch to the beginning does not enter again. */
static void test_branch_to_the_beginning(void **state)
{
	static const unsigned char code[] = { 167, 0, 0 };
	static const unsigned char tail[] = { 0, 0, 0, 1, 0, 6, 0, 0, 0, 3, 0, 1, 0 };
	struct java_writer class = class_make(code, sizeof(code), tail, sizeof(tail));
	struct java_rewritten made = {};
	const unsigned char *found;

	assert_int_equal(rewrite(class, NUMBER, &made), 0);
	assert_int_equal(made.methods, 1);
	found = code_of(&made, 6 + 3 + 7);
	assert_non_null(found);
	assert_memory_equal(found, ((unsigned char[]){ 17, 0x12, 0x34, 184 }), 4);
	assert_memory_equal(found + 6, code, sizeof(code)); /* to itself, behind the entry */
	assert_int_equal(found[9], 17); /* the handler: leave, throw */
	assert_int_equal(found[15], 191);
	/* one handler, from behind the entry on */
	assert_memory_equal(found + 16, ((unsigned char[]){ 0, 1, 0, 6, 0, 9, 0, 9, 0, 0 }), 10);
	/* frames: the one at 0, now at 6, and the handler's at 9 */
	assert_memory_equal(found + 34, ((unsigned char[]){ 0, 2, 6, 255, 0, 2, 0, 0, 0, 1, 7 }),
			    11);
	free(made.bytes);
	free(class.bytes);
}

/* 0: ifeq 4; 3: return; 4: return. A branch to a return leads to the call before it. */
static void test_branch_to_a_return(void **state)
{
	static const unsigned char code[] = { 3, 153, 0, 4, 177, 177 };
	static const unsigned char tail[] = { 0, 0, 0, 1, 0, 6, 0, 0, 0, 3, 0, 1, 5 };
	struct java_writer class = class_make(code, sizeof(code), tail, sizeof(tail));
	struct java_rewritten made = {};
	const unsigned char *found;

	assert_int_equal(rewrite(class, LARGE, &made), 0);
	found = code_of(&made, 6 + 6 + 2 * 6 + 7);
	assert_non_null(found);
	assert_int_equal(found[0], 19); /* a number above 32767 is a constant */
	assert_memory_equal(found + 7, ((unsigned char[]){ 153, 0, 10 }), 3);
	assert_int_equal(found[10], 19);
	assert_int_equal(found[16], 177);
	assert_int_equal(found[17], 19);
	assert_int_equal(found[23], 177);
	free(made.bytes);
	free(class.bytes);
}

/* 0: iconst_0; 1: tableswitch 0..0 to 20, otherwise 20; 20: return. The padding changes. */
static void test_switch(void **state)
{
	/* padding of two bytes; otherwise, low, high, one target: each offset is from 1 to 20 */
	static const unsigned char code[] = { 3, 170, 0, 0, 0, 0, 0, 19, 0,  0,	 0,
					      0, 0,   0, 0, 0, 0, 0, 0,	 19, 177 };
	static const unsigned char tail[] = { 0, 0, 0, 1, 0, 6, 0, 0, 0, 3, 0, 1, 20 };
	struct java_writer class = class_make(code, sizeof(code), tail, sizeof(tail));
	struct java_rewritten made = {};
	const unsigned char *found;

	assert_int_equal(rewrite(class, NUMBER, &made), 0);
	/* at 7 there is no padding: two bytes less */
	found = code_of(&made, 6 + sizeof(code) - 2 + 6 + 7);
	assert_non_null(found);
	assert_int_equal(found[7], 170);
	assert_memory_equal(found + 8, ((unsigned char[]){ 0, 0, 0, 17 }), 4);
	assert_memory_equal(found + 20, ((unsigned char[]){ 0, 0, 0, 17 }), 4);
	assert_int_equal(found[24], 17);
	assert_int_equal(found[30], 177);
	free(made.bytes);
	free(class.bytes);
}

/* What is no class is refused; what is cut off is never read. */
static void test_refusals(void **state)
{
	static const unsigned char code[] = { 167, 0, 0 }, wild[] = { 167, 0x7f, 0 },
				   cut[] = { 167 };
	static const unsigned char tail[] = { 0, 0, 0, 0 };
	struct java_writer class = class_make(code, sizeof(code), tail, sizeof(tail));
	struct java_writer bad[] = { class_make(wild, sizeof(wild), tail, sizeof(tail)),
				     class_make(cut, sizeof(cut), tail, sizeof(tail)) };
	struct java_rewritten made = {};
	uint32_t number = NUMBER;
	const struct java_rewriting how = { "H", number_of, &number };

	for (size_t size = 0; size + 2 < class.size; size++) {
		void *copy = malloc(size + 1);

		memcpy(copy, class.bytes, size);
		assert_int_equal(java_rewrite(copy, size, &how, &made), -EINVAL);
		free(copy);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rewrite(bad[i], NUMBER, &made), -EINVAL);
		free(bad[i].bytes);
	}
	assert_null(made.bytes);
	assert_int_equal(rewrite(class, 0, &made), 0); /* nobody wants it */
	assert_null(made.bytes);
	free(class.bytes);
}

/* A branch that would lead too far leaves the method as it is. */
static void test_too_long(void **state)
{
	enum { RETURNS = 5500, SIZE = RETURNS + 3 };
	unsigned char *code = malloc(SIZE);
	static const unsigned char tail[] = { 0, 0, 0, 0 };
	struct java_rewritten made = {};
	struct java_writer class;

	memset(code, 177, SIZE);
	code[0] = 167;
	code[1] = (SIZE - 1) >> 8;
	code[2] = (SIZE - 1) & 0xff;
	class = class_make(code, SIZE, tail, sizeof(tail));
	assert_int_equal(rewrite(class, NUMBER, &made), 0);
	assert_null(made.bytes);
	assert_int_equal(made.refused, 1);
	free(class.bytes);
	free(code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_branch_to_the_beginning),
		cmocka_unit_test(test_branch_to_a_return),
		cmocka_unit_test(test_switch),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
