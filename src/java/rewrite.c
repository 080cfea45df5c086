// SPDX-License-Identifier: BSD-2-Clause
/*
 * A class is copied part by part: the constants, to which some are added; everything up to the
 * methods; the methods, with new code (code.c); the rest.
 */
#include "java/rewrite.h"

#include <errno.h>

#include "java/code.h"

enum { MAGIC = 0xcafebabe, POOL_MAX = 65535 };

enum constant {
	CONSTANT_UTF8 = 1,
	CONSTANT_INTEGER = 3,
	CONSTANT_LONG = 5,
	CONSTANT_DOUBLE = 6,
	CONSTANT_CLASS = 7,
	CONSTANT_METHOD = 10,
	CONSTANT_NAME_AND_TYPE = 12,
};

/* Bytes behind the tag; 0: there is no such tag, or Utf8. */
static const unsigned char constant_bytes[] = {
	[3] = 4,  [4] = 4,  [5] = 8,  [6] = 8,	[7] = 2,  [8] = 2,  [9] = 4,  [10] = 4,
	[11] = 4, [12] = 4, [15] = 3, [16] = 2, [17] = 4, [18] = 4, [19] = 2, [20] = 2,
};

struct class
{
	struct java_constants constants;
	const struct java_rewriting *how;
	struct java_text name;
	struct java_writer methods;
	struct java_rewritten *ret;
};

/* --- Constants -------------------------------------------------------------------------------- */

static int constants_read(struct java_constants *constants, struct java_reader *from)
{
	constants->pool = *from;
	constants->count = java_take_2(from);
	constants->next = constants->count;
	constants->at = calloc(constants->count + 1, sizeof(*constants->at));
	if (!constants->at)
		return -ENOMEM;
	for (uint32_t i = 1; i < constants->count && !from->bad; i++) {
		uint32_t tag;

		constants->at[i] = (uint32_t)from->at;
		tag = java_take_1(from);
		if (tag == CONSTANT_UTF8)
			java_take(from, java_take_2(from));
		else if (tag < sizeof(constant_bytes) && constant_bytes[tag])
			java_take(from, constant_bytes[tag]);
		else
			from->bad = true;
		if (tag == CONSTANT_LONG || tag == CONSTANT_DOUBLE)
			i++; /* takes two numbers */
	}
	return from->bad ? -EINVAL : 0;
}

static bool text_at(const struct java_constants *constants, uint32_t number, struct java_text *ret)
{
	struct java_reader pool = constants->pool;

	if (number >= constants->count || !constants->at[number])
		return false;
	pool.at = constants->at[number];
	if (java_take_1(&pool) != CONSTANT_UTF8)
		return false;
	ret->size = java_take_2(&pool);
	ret->bytes = java_take(&pool, ret->size);
	return ret->bytes;
}

static bool texts_equal(struct java_text a, struct java_text b)
{
	return a.size == b.size && !memcmp(a.bytes, b.bytes, a.size);
}

bool java_constant_is(const struct java_constants *constants, uint32_t number, const char *text)
{
	struct java_text found;

	return text_at(constants, number, &found) && found.size == strlen(text) &&
	       !memcmp(found.bytes, text, found.size);
}

static uint32_t text_add(struct java_constants *constants, const char *text)
{
	java_put_1(&constants->added, CONSTANT_UTF8);
	java_put_2(&constants->added, (uint32_t)strlen(text));
	java_put(&constants->added, text, strlen(text));
	return constants->next++;
}

static uint32_t pair_add(struct java_constants *constants, enum constant tag, uint32_t a,
			 uint32_t b)
{
	java_put_1(&constants->added, tag);
	java_put_2(&constants->added, a);
	java_put_2(&constants->added, b);
	return constants->next++;
}

static uint32_t class_add(struct java_constants *constants, const char *name)
{
	uint32_t text = text_add(constants, name);

	java_put_1(&constants->added, CONSTANT_CLASS);
	java_put_2(&constants->added, text);
	return constants->next++;
}

uint32_t java_constant_int(struct java_constants *constants, uint32_t value)
{
	if (constants->next >= POOL_MAX)
		return 0;
	java_put_1(&constants->added, CONSTANT_INTEGER);
	java_put_4(&constants->added, value);
	return constants->next++;
}

enum { CONSTANTS_ADDED = 16 };

static int constants_add(struct java_constants *constants, const char *helper)
{
	uint32_t class, type, enter, leave, caught;

	if (constants->count + CONSTANTS_ADDED > POOL_MAX)
		return -ENOSPC;
	class = class_add(constants, helper);
	type = text_add(constants, "(I)V");
	enter = pair_add(constants, CONSTANT_NAME_AND_TYPE, text_add(constants, "enter"), type);
	leave = pair_add(constants, CONSTANT_NAME_AND_TYPE, text_add(constants, "leave"), type);
	caught = pair_add(constants, CONSTANT_NAME_AND_TYPE, text_add(constants, "caught"), type);
	constants->enter = pair_add(constants, CONSTANT_METHOD, class, enter);
	constants->leave = pair_add(constants, CONSTANT_METHOD, class, leave);
	constants->caught = pair_add(constants, CONSTANT_METHOD, class, caught);
	constants->throwable = class_add(constants, "java/lang/Throwable");
	constants->frames = text_add(constants, "StackMapTable");
	return 0;
}

/* --- Methods ---------------------------------------------------------------------------------- */

static void attributes_skip(struct java_reader *from)
{
	uint32_t count = java_take_2(from);

	for (uint32_t i = 0; i < count && !from->bad; i++) {
		java_take_2(from);
		java_take(from, java_take_4(from));
	}
}

static void members_skip(struct java_reader *from)
{
	uint32_t count = java_take_2(from);

	for (uint32_t i = 0; i < count && !from->bad; i++) {
		java_take(from, 6);
		attributes_skip(from);
	}
}

static int is_overloaded(const struct class *class, struct java_reader methods,
			 struct java_text name)
{
	uint32_t count = java_take_2(&methods), found = 0;

	for (uint32_t i = 0; i < count && !methods.bad; i++) {
		struct java_text other;

		java_take_2(&methods);
		found += text_at(&class->constants, java_take_2(&methods), &other) &&
			 texts_equal(name, other);
		java_take_2(&methods);
		attributes_skip(&methods);
	}
	return found > 1;
}

/* The contents of an attribute Code, new if that can be. */
static int code_put(struct class *class, const struct java_method *method, struct java_reader part)
{
	size_t place = class->methods.size;
	uint32_t number;
	int err = -E2BIG;

	java_put_4(&class->methods, 0);
	number = class->how->number(class->how->ctx, method);
	if (number)
		err = java_code_rewrite(&class->constants, part, number,
					method->name.size == 6 &&
						!memcmp(method->name.bytes, "<init>", 6),
					&class->methods);
	if (err && err != -E2BIG)
		return err;
	if (err) {
		class->methods.size = place + 4;
		java_put(&class->methods, part.bytes, part.size);
		class->ret->refused += number != 0;
	} else {
		class->ret->methods++;
	}
	java_patch(&class->methods, place, (uint32_t)(class->methods.size - place - 4), 4);
	return 0;
}

static int method_put(struct class *class, struct java_reader all, struct java_reader *from)
{
	const unsigned char *head = java_take(from, 6);
	struct java_reader fields = { .bytes = head, .size = 6, .at = 2 };
	struct java_method method = { .class_name = class->name };
	uint32_t count = java_take_2(from);
	int err = 0;

	if (from->bad || !text_at(&class->constants, java_take_2(&fields), &method.name) ||
	    !text_at(&class->constants, java_take_2(&fields), &method.descriptor))
		return -EINVAL;
	java_put(&class->methods, head, 6);
	java_put_2(&class->methods, count);
	for (uint32_t i = 0; i < count && !err; i++) {
		uint32_t name = java_take_2(from);
		struct java_reader part = java_take_part(from, java_take_4(from));

		if (part.bad)
			return -EINVAL;
		java_put_2(&class->methods, name);
		if (java_constant_is(&class->constants, name, "Code")) {
			method.overloaded = is_overloaded(class, all, method.name);
			err = code_put(class, &method, part);
		} else {
			java_put_4(&class->methods, (uint32_t)part.size);
			java_put(&class->methods, part.bytes, part.size);
		}
	}
	return err;
}

static int methods_put(struct class *class, struct java_reader *from)
{
	struct java_reader all = *from;
	uint32_t count = java_take_2(from);
	int err = 0;

	java_put_2(&class->methods, count);
	for (uint32_t i = 0; i < count && !err; i++)
		err = method_put(class, all, from);
	return err;
}

/* --- Class ------------------------------------------------------------------------------------ */

static int name_read(struct class *class, struct java_reader from)
{
	struct java_reader pool = class->constants.pool;
	uint32_t number;

	java_take_2(&from);
	number = java_take_2(&from);
	if (number >= class->constants.count || !class->constants.at[number])
		return -EINVAL;
	pool.at = class->constants.at[number] + 1;
	return text_at(&class->constants, java_take_2(&pool), &class->name) ? 0 : -EINVAL;
}

static int class_assemble(struct class *class, struct java_reader whole, size_t constants_end,
			  size_t methods_begin, size_t methods_end)
{
	const struct java_constants *constants = &class->constants;
	struct java_writer out = {};

	java_put(&out, whole.bytes, constants->pool.at);
	java_put_2(&out, constants->next);
	java_put(&out, whole.bytes + constants->pool.at + 2,
		 constants_end - constants->pool.at - 2);
	java_put(&out, constants->added.bytes, constants->added.size);
	java_put(&out, whole.bytes + constants_end, methods_begin - constants_end);
	java_put(&out, class->methods.bytes, class->methods.size);
	java_put(&out, whole.bytes + methods_end, whole.size - methods_end);
	if (out.failed || constants->added.failed || class->methods.failed) {
		free(out.bytes);
		return -ENOMEM;
	}
	class->ret->bytes = out.bytes;
	class->ret->size = out.size;
	return 0;
}

static int class_rewrite(struct class *class, struct java_reader *from)
{
	size_t constants_end, methods_begin;
	int err;

	if (java_take_4(from) != MAGIC)
		return -EINVAL;
	java_take_2(from);
	class->constants.major = java_take_2(from);
	err = constants_read(&class->constants, from);
	constants_end = from->at;
	err = err ? err : constants_add(&class->constants, class->how->helper);
	err = err ? err : name_read(class, *from);
	if (err)
		return err;
	java_take(from, 6);
	java_take(from, (size_t)java_take_2(from) * 2);
	members_skip(from);
	methods_begin = from->at;
	err = from->bad ? -EINVAL : methods_put(class, from);
	if (err || from->bad)
		return err ? err : -EINVAL;
	return class->ret->methods
		       ? class_assemble(class, *from, constants_end, methods_begin, from->at)
		       : 0;
}

int java_rewrite(const void *bytes, size_t size, const struct java_rewriting *how,
		 struct java_rewritten *ret)
{
	struct java_rewritten made = {};
	struct class class = { .how = how, .ret = &made };
	struct java_reader from = { .bytes = bytes, .size = size };
	int err = class_rewrite(&class, &from);

	free(class.constants.at);
	free(class.constants.added.bytes);
	free(class.methods.bytes);
	if (!err)
		*ret = made;
	return err;
}
