// SPDX-License-Identifier: BSD-2-Clause
// Serves: V14.
/* Hotlists as bytes: there and back, the bytes themselves, and damage. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "values/hotlist.h"
#include "values/hotlist_private.h"

static void list_make(struct hotlist *list, enum hotlist_kind kind, unsigned words, unsigned values)
{
	struct hotlist_config config = { .kind = kind, .words = words, .seed = 11 };
	uint64_t tuple[HOTLIST_WORDS_MAX];
	struct rng rng;

	rng_init(&rng, 12);
	hotlist_init(list, &config);
	for (unsigned i = 0; i < 3000; i++) {
		uint64_t value = rng_next(&rng) % values * (rng_next(&rng) % values);

		for (unsigned word = 0; word < words; word++)
			tuple[word] = word ? value * 0x123456789abcdef : value - 5;
		if (i % 7 < 3)
			hotlist_add_grouped(list, tuple);
		else
			hotlist_add(list, tuple);
	}
}

static void lists_equal(const struct hotlist *a, const struct hotlist *b)
{
	assert_int_equal(a->total, b->total);
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->words, b->words);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->factor, b->factor);
	assert_int_equal(a->slack, b->slack);
	assert_int_equal(a->squares, b->squares);
	assert_int_equal(a->saturation, b->saturation);
	assert_int_equal(a->concise, b->concise);
	assert_true(a->probability == b->probability);
	assert_true(a->variance == b->variance);
	assert_int_equal(a->count, b->count);
	if (a->count)
		assert_memory_equal(a->entries, b->entries,
				    a->count * entry_size(a) * sizeof(*a->entries));
	for (size_t i = 0; i < a->count; i++)
		assert_int_equal(hotlist_find(b, entry_at(a, i) + ENTRY_WORDS), i);
}

static void round_trip(const struct hotlist *list)
{
	uint8_t bytes[HOTLIST_BLOB_MAX], again[HOTLIST_BLOB_MAX];
	size_t size = hotlist_encode(list, bytes);
	AUTO(hotlist_deinit_auto) struct hotlist back = {};

	assert_true(size <= HOTLIST_BLOB_MAX);
	assert_int_equal(hotlist_decode(bytes, size, &back), 0);
	lists_equal(list, &back);
	assert_int_equal(hotlist_encode(&back, again), size);
	assert_memory_equal(bytes, again, size);
}

static void test_round_trips(void **state)
{
	for (enum hotlist_kind kind = 0; kind < HOTLIST_KIND_COUNT; kind++)
		for (unsigned words = 1; words <= HOTLIST_WORDS_MAX; words++)
			for (unsigned values = 1; values < 100; values *= 3) {
				AUTO(hotlist_deinit_auto) struct hotlist list = {}, other = {};

				list_make(&list, kind, words, values);
				round_trip(&list);
				list_make(&other, kind, words, values + 1);
				assert_int_equal(hotlist_merge(&list, &other), 0);
				round_trip(&list);
			}
}

static void test_empty(void **state)
{
	for (enum hotlist_kind kind = 0; kind < HOTLIST_KIND_COUNT; kind++) {
		struct hotlist_config config = { .kind = kind, .size = 256, .factor = 65535 };
		struct hotlist list;

		hotlist_init(&list, &config);
		round_trip(&list);
	}
}

/* The format of docs/design/hotlists.md, byte by byte. */
static void test_bytes(void **state)
{
	static const uint8_t expected[] = {
		1,    0,  0,	1, 0, 16, 16, 2, 0xac, 2, 0, /* 300 values, two different */
		0xc8, 1,  0xab, 2, 1, 0, /* 200 times -1, first at 1 of 300 */
		100,  99, 0xd8, 4, 0, /* 100 times 300, first at 201 */
	};
	struct hotlist_config config = {};
	uint8_t bytes[HOTLIST_BLOB_MAX];
	struct hotlist list;

	hotlist_init(&list, &config);
	for (unsigned i = 0; i < 300; i++)
		hotlist_add(&list, &(uint64_t){ i < 200 ? UINT64_MAX : 300 });
	assert_int_equal(hotlist_encode(&list, bytes), sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));
	hotlist_deinit(&list);
}

static void test_bytes_of_groups(void **state)
{
	static const uint8_t expected[] = {
		1,  0, 8,  1, 0, 16, 16, 1, 6, 0, /* 6 values */
		14, /* in groups of 3, 1 and 2 */
		6,  5, 18, 0, /* 6 times 9 */
	};
	struct hotlist_config config = {};
	uint8_t bytes[HOTLIST_BLOB_MAX];
	struct hotlist list;

	hotlist_init(&list, &config);
	for (const char *at = "n++nn+"; *at; at++)
		(*at == 'n' ? hotlist_add : hotlist_add_grouped)(&list, &(uint64_t){ 9 });
	assert_int_equal(hotlist_encode(&list, bytes), sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));
	hotlist_deinit(&list);
}

/* The largest one fits into what callers provide. */
static void test_longest(void **state)
{
	struct hotlist_config config = { .kind = HOTLIST_SPACE_SAVING, .size = 256, .words = 8 };
	struct hotlist list;

	hotlist_init(&list, &config);
	for (uint64_t i = 0; i < 1000; i++) {
		uint64_t tuple[8];

		for (uint64_t word = 0; word < 8; word++)
			tuple[word] = UINT64_MAX / 2 + 1 + i * 8 + word;
		hotlist_add(&list, tuple);
	}
	round_trip(&list);
	hotlist_deinit(&list);
}

/* From memory of exactly that size, so that reading on is seen. */
static int decode_copy(const uint8_t *bytes, size_t size, struct hotlist *ret)
{
	uint8_t *copy = mem_dup(bytes, size ? size : 1);
	int err = hotlist_decode(copy, size, ret);

	free(copy);
	return err;
}

/* Whatever decodes has this one encoding: every byte matters, and nothing is missing. */
static void test_damage(void **state)
{
	uint8_t bytes[HOTLIST_BLOB_MAX], again[HOTLIST_BLOB_MAX];
	unsigned accepted = 0;

	for (enum hotlist_kind kind = 0; kind < HOTLIST_KIND_COUNT; kind++) {
		AUTO(hotlist_deinit_auto) struct hotlist list = {};
		size_t size;

		list_make(&list, kind, 2, 30);
		size = hotlist_encode(&list, bytes);
		for (size_t cut = 0; cut < size; cut++)
			assert_int_equal(decode_copy(bytes, cut, &(struct hotlist){}), -EBADMSG);
		bytes[size] = 0;
		assert_int_equal(decode_copy(bytes, size + 1, &(struct hotlist){}), -EBADMSG);
		for (size_t at = 0; at < size * 8; at++) {
			AUTO(hotlist_deinit_auto) struct hotlist back = {};

			bytes[at / 8] ^= (uint8_t)(1 << at % 8);
			if (decode_copy(bytes, size, &back) == 0) {
				assert_int_equal(hotlist_encode(&back, again), size);
				assert_memory_equal(bytes, again, size);
				accepted++;
			}
			bytes[at / 8] ^= (uint8_t)(1 << at % 8);
		}
	}
	assert_true(accepted > 100); /* values may be any */
}

static void refused(const uint8_t *bytes, size_t size, int err)
{
	struct hotlist list = { .total = 77 };

	assert_int_equal(decode_copy(bytes, size, &list), err);
	assert_int_equal(list.total, 77);
}

#define REFUSED(err, ...)                                                                          \
	refused((const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }), err)

static void test_refused(void **state)
{
	AUTO(hotlist_deinit_auto) struct hotlist list = {};
	static const uint8_t good[] = { 1, 0, 0, 1, 0, 16, 16, 1, 3, 0, 3, 2, 9, 0 };

	assert_int_equal(decode_copy(good, sizeof(good), &list), 0);
	REFUSED(-EPROTONOSUPPORT, 2, 0, 0, 1, 0, 16, 16, 1, 3, 0, 3, 2, 9, 0);
	REFUSED(-EBADMSG, 1, 4, 0, 1, 0, 16, 16, 1, 3, 0, 3, 2, 9, 0); /* kind */
	REFUSED(-EBADMSG, 1, 0, 16, 1, 0, 16, 16, 1, 3, 0, 3, 2, 9, 0); /* flags */
	REFUSED(-EBADMSG, 1, 0, 8, 1, 0, 16, 16, 1, 3, 0, 3, 3, 2, 9, 0); /* groups of one */
	REFUSED(-EBADMSG, 1, 0, 8, 1, 0, 16, 16, 1, 3, 0, 10, 3, 2, 9, 0); /* groups above 3 * 3 */
	REFUSED(-EBADMSG, 1, 0, 1, 1, 0, 16, 16, 1, 3, 0, 3, 2, 9, 0); /* concise, but is not */
	REFUSED(-EBADMSG, 1, 0, 0, 0, 0, 16, 16, 1, 3, 0, 3, 2, 0); /* no words */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 1, 16, 16, 1, 3, 0, 3, 2, 9, 0); /* saturation */
	REFUSED(-EBADMSG, 1, 3, 0, 1, 51, 16, 16, 1, 3, 0, 3, 2, 9); /* saturation too high */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 1, 16, 1, 3, 0, 3, 2, 9, 0); /* size */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 0x81, 2, 16, 1, 3, 0, 3, 2, 9, 0); /* size 257 */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 16, 1, 1, 3, 0, 3, 2, 9, 0); /* factor */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 16, 16, 17, 3, 0, 3, 2, 9, 0); /* more than fit */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 16, 16, 1, 3, 4, 3, 2, 9, 0); /* slack above total */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 16, 16, 1, 3, 0, 2, 2, 9, 0); /* counts are not total */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 16, 16, 1, 3, 0, 3, 3, 9, 0); /* first is 0 */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 16, 16, 1, 3, 0, 0x83, 0, 2, 9, 0); /* long-winded */
	REFUSED(-EBADMSG, 1, 0, 0, 1, 0, 16, 16, 2, 4, 0, 2, 2, 9, 0, 0, 2, 9, 0); /* 9 twice */
	REFUSED(-EBADMSG, 1, 1, 0, 1, 0, 16, 16, 1, 3, 1, 3, 2, 9); /* slack of counting */
	REFUSED(-EBADMSG, 1, 1, 2, 1, 0, 16, 16, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 3, 2,
		9); /* p = 1 written out */
	REFUSED(-EBADMSG, 1, 1, 2, 1, 0, 16, 16, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, 3, 2,
		9); /* p is not a number */
	REFUSED(-EBADMSG, 1, 2, 1, 1, 0, 16, 16, 1, 3, 0, 4, 2, 9); /* concise: more than total */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips), cmocka_unit_test(test_empty),
		cmocka_unit_test(test_bytes),	    cmocka_unit_test(test_bytes_of_groups),
		cmocka_unit_test(test_longest),	    cmocka_unit_test(test_damage),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
