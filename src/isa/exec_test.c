// SPDX-License-Identifier: BSD-2-Clause
// Serves: V2.
/*
 * The arithmetic of isa/uop_exec.h that has no loops, against the compiler's 128 bits and against
 * loops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"

#define UOP_CONTEXT void *
#define UOP_LOAD(context, address, size, ret) UOP_LOAD_MISSING
#define UOP_STORE(context, address, size, value, unknown) UOP_END_OVERLAY_FULL
#define UOP_POISON(context, address, size) UOP_END_OVERLAY_FULL

#include "isa/uop_exec.h"

enum {
	ROUNDS = 500000,
};

/* Runs of ones and zeros of random lengths: guesses at digits go wrong there. */
static uint64_t runs_of_bits(uint64_t seed)
{
	uint64_t random = hash64(seed), value = hash64(seed + 1);

	if (random & 1)
		value |= ~0ull << (random >> 8 & 63);
	if (random & 2)
		value &= ~0ull << (random >> 16 & 63);
	if (random & 4)
		value >>= random >> 24 & 63;
	return value;
}

static void divides_as_the_compiler(void **state)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t high = runs_of_bits(i * 7), low = runs_of_bits(i * 7 + 2);
		uint64_t divisor = runs_of_bits(i * 7 + 4) | 1;
		unsigned __int128 dividend;
		wire_u64 quotient, remainder;

		high %= divisor;
		dividend = (unsigned __int128)high << 64 | low;
		remainder = uop_divide_long(high, low, divisor, &quotient);
		assert_int_equal(quotient, (uint64_t)(dividend / divisor));
		assert_int_equal(remainder, (uint64_t)(dividend % divisor));
	}
}

static void multiplies_as_the_compiler(void **state)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t a = runs_of_bits(i * 5), b = runs_of_bits(i * 5 + 2);

		assert_int_equal(uop_multiply_high(a, b),
				 (uint64_t)((unsigned __int128)a * b >> 64));
	}
}

static void gathers_as_a_loop(void **state)
{
	for (uint64_t i = 0; i < ROUNDS / 8; i++) {
		uint64_t value = runs_of_bits(i * 3), mask = runs_of_bits(i * 3 + 1);
		uint64_t gathered = 0, deposited = 0;

		for (int bit = 0, place = 0; bit < 64; bit++) {
			if (!(mask >> bit & 1))
				continue;
			gathered |= (value >> bit & 1) << place;
			deposited |= (value >> place & 1) << bit;
			place++;
		}
		assert_int_equal(uop_gather(value, mask, 0), gathered);
		assert_int_equal(uop_gather(value, mask, 1), deposited);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(divides_as_the_compiler),
		cmocka_unit_test(multiplies_as_the_compiler),
		cmocka_unit_test(gathers_as_a_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
