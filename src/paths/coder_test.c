// SPDX-License-Identifier: BSD-2-Clause
// Serves: W4.
/*
 * What is written is read back, whatever it is; what programs do becomes short; damage is noticed
 * or harmless.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "paths/coder_private.h"
#include "base/rng.h"

enum { COUNT = 50000 };

/* Writes and reads; numbers in between. Returns the size. */
static size_t round_trip(const uint32_t *symbols, size_t count)
{
	AUTO(coder_deinit) struct coder writer, reader;
	uint32_t symbol;
	uint64_t number;

	coder_init(&writer, count);
	coder_init(&reader, count);
	coder_write(&writer);
	for (size_t i = 0; i < count; i++) {
		coder_put(&writer, symbols[i]);
		if (i % 1000 == 0)
			coder_put_number(&writer, 1, (uint64_t)symbols[i] << (i / 1000 % 33));
	}
	coder_end(&writer);
	coder_read(&reader, writer.out.items, writer.out.count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(coder_get(&reader, &symbol), 0);
		assert_int_equal(symbol, symbols[i]);
		if (i % 1000 == 0) {
			assert_int_equal(coder_get_number(&reader, 1, &number), 0);
			assert_int_equal(number, (uint64_t)symbols[i] << (i / 1000 % 33));
		}
	}
	return writer.out.count;
}

static void test_round_trip(void **state)
{
	const uint32_t ranges[] = { 1, 2, 10, 1000, 65536, 70000, 1 << 20, CODER_SYMBOL_MAX };
	static uint32_t symbols[COUNT];
	struct rng rng;

	for (size_t range = 0; range < sizeof(ranges) / sizeof(*ranges); range++) {
		rng_init(&rng, range);
		for (size_t i = 0; i < COUNT; i++)
			symbols[i] = (uint32_t)(rng_next(&rng) % ranges[range]);
		round_trip(symbols, COUNT);
		round_trip(symbols, 0);
		round_trip(symbols, 1);
	}
	symbols[0] = CODER_SYMBOL_MAX;
	round_trip(symbols, 2);
}

/* The bytes do not depend on what the processor can do: small symbols, and some beyond 16 bits. */
static void test_steps(void **state)
{
	static uint32_t symbols[COUNT];
	AUTO(coder_deinit) struct coder plain, wide;
	struct rng rng;

	if (!coder_is_wide())
		skip();
	for (uint32_t range = 50; range < 1 << 24; range *= 8) {
		rng_init(&rng, range);
		coder_init(&plain, COUNT);
		coder_init(&wide, COUNT);
		plain.steps = &coder_steps_plain;
		assert_ptr_equal(wide.steps, &coder_steps_wide);
		for (size_t i = 0; i < COUNT; i++)
			symbols[i] = (uint32_t)(rng_next(&rng) % (i % 3 ? 20 : range));
		coder_write(&plain);
		coder_write(&wide);
		coder_put_all(&plain, symbols, COUNT);
		coder_put_all(&wide, symbols, COUNT);
		coder_end(&plain);
		coder_end(&wide);
		assert_int_equal(plain.out.count, wide.out.count);
		assert_memory_equal(plain.out.items, wide.out.items, wide.out.count);
		coder_deinit(&plain);
		coder_deinit(&wide);
	}
}

/* A bit for each random choice, and next to nothing for what always follows. */
static void test_size(void **state)
{
	static uint32_t symbols[COUNT];
	struct rng rng;
	size_t flips = 0;

	rng_init(&rng, 1);
	for (size_t i = 0; i < COUNT; i++)
		symbols[i] = (uint32_t)(i % 100);
	assert_true(round_trip(symbols, COUNT) < 600);
	for (size_t i = 0; i < COUNT; i++) {
		bool flip = i % 10 == 0 && rng_next(&rng) % 2;

		flips += i % 10 == 0;
		symbols[i] = (uint32_t)(i % 10 + (flip ? 100 : 0));
	}
	assert_in_range(round_trip(symbols, COUNT), flips / 8, flips / 8 * 3 / 2);
}

/* The model lives on from one piece to the next, or not. */
static void test_pieces(void **state)
{
	AUTO(coder_deinit) struct coder writer;
	size_t sizes[3];
	uint32_t symbol = 12345;

	coder_init(&writer, 1000);
	for (unsigned piece = 0; piece < 3; piece++) {
		if (piece == 2)
			coder_forget(&writer, 1000);
		coder_write(&writer);
		for (size_t i = 0; i < 500; i++) {
			symbol = i ? symbol * 5 % 9973 : 1;
			coder_put(&writer, symbol);
		}
		coder_end(&writer);
		sizes[piece] = writer.out.count;
	}
	assert_true(sizes[1] * 5 < sizes[0]);
	assert_int_equal(sizes[2], sizes[0]);
}

/*
 * Pieces that are too short for a group of ranks: probabilities change all the same, as many as
 * there are.
 */
static void test_small_pieces(void **state)
{
	AUTO(coder_deinit) struct coder writer, reader;
	struct rng rng;

	coder_init(&writer, 1000);
	coder_init(&reader, 1000);
	rng_init(&rng, 3);
	for (size_t piece = 0; piece < 100000; piece++) {
		size_t count = piece % 50000 ? 1 + piece % 2 : 5000;
		uint32_t symbols[5000], symbol;

		coder_write(&writer);
		for (size_t i = 0; i < count; i++) {
			symbols[i] = (uint32_t)(rng_next(&rng) % (piece < 50000 ? 2 : 300));
			coder_put(&writer, symbols[i]);
		}
		coder_end(&writer);
		coder_read(&reader, writer.out.items, writer.out.count);
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(coder_get(&reader, &symbol), 0);
			assert_int_equal(symbol, symbols[i]);
		}
	}
	for (size_t i = 0; i < 16; i++)
		assert_true(writer.counts[i] < INT16_MAX);
}

/* A context that names a symbol by its lower part means the last symbol that had it. */
static void test_lower_parts(void **state)
{
	static uint32_t symbols[COUNT];
	struct rng rng;

	rng_init(&rng, 8);
	for (size_t i = 0; i < COUNT; i++)
		symbols[i] = (uint32_t)(i % 7 + (rng_next(&rng) % 8 ? 0 : 1 + i % 3) * UINT16_MAX);
	assert_true(round_trip(symbols, COUNT) < COUNT);
	for (size_t i = 0; i < COUNT; i++)
		symbols[i] = (uint32_t)(UINT16_MAX - 3 + i % 7);
	assert_true(round_trip(symbols, COUNT) < 600);
}

/* The fast way writes the same bytes, wherever the sequence is divided. */
static void test_all(void **state)
{
	static uint32_t symbols[COUNT];
	AUTO(coder_deinit) struct coder one, all;
	struct rng rng;
	size_t at = 0;

	rng_init(&rng, 5);
	for (size_t i = 0; i < COUNT; i++)
		symbols[i] = (uint32_t)(rng_next(&rng) % (i % 5 ? 20 : 1000));
	coder_init(&one, COUNT);
	coder_init(&all, COUNT);
	coder_write(&one);
	coder_write(&all);
	for (size_t i = 0; i < COUNT; i++)
		coder_put(&one, symbols[i]);
	for (size_t some = 1; at < COUNT; at += some) {
		some = rng_next(&rng) % (at < 1000 ? 20 : 5000);
		some = some < COUNT - at ? some : COUNT - at;
		coder_put_all(&all, symbols + at, some);
	}
	coder_end(&one);
	coder_end(&all);
	assert_int_equal(one.out.count, all.out.count);
	assert_memory_equal(one.out.items, all.out.items, one.out.count);
}

static void test_numbers(void **state)
{
	static const uint64_t numbers[] = { 0,	 1,	     2,		 254,		255,
					    256, UINT32_MAX, 1ull << 63, UINT64_MAX - 1 };
	AUTO(coder_deinit) struct coder coder, reader;
	uint64_t number;

	coder_init(&coder, 0);
	coder_init(&reader, 0);
	coder_write(&coder);
	for (size_t i = 0; i < 9; i++)
		for (unsigned kind = 0; kind < CODER_KINDS; kind++)
			coder_put_number(&coder, kind, numbers[i]);
	coder_end(&coder);
	coder_read(&reader, coder.out.items, coder.out.count);
	for (size_t i = 0; i < 9; i++)
		for (unsigned kind = 0; kind < CODER_KINDS; kind++) {
			assert_int_equal(coder_get_number(&reader, kind, &number), 0);
			assert_true(number == numbers[i]);
		}
}

/* Any bytes can be read without harm, and their end is noticed. */
static void test_damage(void **state)
{
	uint8_t bytes[256];
	AUTO(coder_deinit) struct coder coder;
	struct rng rng;

	coder_init(&coder, 1000);
	rng_init(&rng, 3);
	for (unsigned round = 0; round < 200; round++) {
		unsigned got = 0;
		uint32_t symbol;

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)rng_next(&rng);
		coder_forget(&coder, 1000);
		coder_read(&coder, bytes, sizeof(bytes));
		while (!coder_get(&coder, &symbol))
			assert_true(++got < 1000000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_size),
		cmocka_unit_test(test_steps),	    cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_numbers),	    cmocka_unit_test(test_damage),
		cmocka_unit_test(test_all),	    cmocka_unit_test(test_small_pieces),
		cmocka_unit_test(test_lower_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
