/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions of values, applied before they are stored, and running moments of them.
 *
 * A value has a width of 1 to 64 bits, those above it are ignored. Words that stand for signed
 * numbers are sign-extended.
 */
#pragma once

#include <stdint.h>

#include "base/strbuf.h"

/* name, text, number of arguments */
#define VALUEFNS(X)                                                                                \
	X(SELF, "self", 1) /* the value */                                                         \
	X(BITS, "bits", 1) /* the chosen bits, moved down; "bits:4-11" or "bits:3" */              \
	X(LOW, "low", 1) /* the lowest bit */                                                      \
	X(SIGN, "sign", 1) /* -1, 0 or 1 */                                                        \
	X(ALIGNMENT, "alignment", 1) /* how many low bits are 0; the width if all are */           \
	X(DIFFERENCE, "difference", 2) /* first - second, modulo 2^width, sign-extended */         \
	X(LOG2, "log2", 1) /* histogram bucket: 0 for 0, k + 1 for 2^k to 2^(k+1) - 1 */

enum valuefn_kind {
#define X(name, text, arguments) VALUEFN_##name,
	VALUEFNS(X)
#undef X
		VALUEFN_COUNT,
};

struct valuefn {
	enum valuefn_kind kind;
	uint8_t first_bit; /* BITS only; 0 is the lowest */
	uint8_t last_bit; /* BITS only; included */
};

/* Only functions of two arguments use `second`. */
uint64_t valuefn_apply(struct valuefn fn, unsigned width, uint64_t value, uint64_t second);
unsigned valuefn_arguments(struct valuefn fn);

/* Texts are as in VALUEFNS. What print gives, parse takes. */
int valuefn_parse(const char *text, struct valuefn *ret);
void valuefn_print(struct valuefn fn, struct strbuf *buf);

/* The values of bucket k of LOG2 are ret_low to ret_high. */
void valuefn_bucket(unsigned bucket, uint64_t *ret_low, uint64_t *ret_high);

/* Moments of values taken as signed numbers, in one pass (Welford, 1962); all zero is the start. */
struct moments {
	uint64_t count;
	int64_t min; /* min, max and mean are valid if count > 0 */
	int64_t max;
	double mean;
	double squares; /* sum of squared distances to the mean */
};

void moments_add(struct moments *moments, int64_t value);
/* Merges as if the values of both had been added one by one (Chan, Golub, LeVeque, 1979). */
void moments_merge(struct moments *moments, const struct moments *from);
/*
 * The variance of the population that the values are a sample of: divides by count - 1; 0 below two
 * values.
 */
double moments_variance(const struct moments *moments);
