// SPDX-License-Identifier: BSD-2-Clause
#include "values/valuefn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum { WORD_BITS = 64 };

static const struct {
	const char *text;
	unsigned arguments;
} fns[] = {
#define X(name, text, arguments) [VALUEFN_##name] = { text, arguments },
	VALUEFNS(X)
#undef X
};

static uint64_t bits_low(uint64_t value, unsigned count)
{
	return count >= WORD_BITS ? value : value & ((UINT64_C(1) << count) - 1);
}

static uint64_t sign_extend(uint64_t value, unsigned width)
{
	uint64_t sign = UINT64_C(1) << (width - 1);

	return (bits_low(value, width) ^ sign) - sign;
}

static uint64_t sign_of(uint64_t value)
{
	return (int64_t)value < 0 ? UINT64_MAX : value != 0;
}

static unsigned bit_length(uint64_t value)
{
	return value ? WORD_BITS - (unsigned)__builtin_clzll(value) : 0;
}

uint64_t valuefn_apply(struct valuefn fn, unsigned width, uint64_t value, uint64_t second)
{
	assert(width >= 1 && width <= WORD_BITS);
	value = bits_low(value, width);
	switch (fn.kind) {
	case VALUEFN_SELF:
		return value;
	case VALUEFN_BITS:
		return bits_low(value >> fn.first_bit, fn.last_bit - fn.first_bit + 1u);
	case VALUEFN_LOW:
		return value & 1;
	case VALUEFN_SIGN:
		return sign_of(sign_extend(value, width));
	case VALUEFN_ALIGNMENT:
		return value ? (uint64_t)__builtin_ctzll(value) : width;
	case VALUEFN_DIFFERENCE:
		return sign_extend(value - second, width);
	case VALUEFN_LOG2:
		return bit_length(value);
	case VALUEFN_COUNT:
		break;
	}
	assert(!"a function of values");
	return 0;
}

unsigned valuefn_arguments(struct valuefn fn)
{
	return fns[fn.kind].arguments;
}

/* Reads two digits at most; returns the end of the number, or NULL. */
static const char *bit_parse(const char *text, uint8_t *ret)
{
	unsigned bit = 0;
	const char *at = text;

	while (*at >= '0' && *at <= '9' && at - text < 2)
		bit = bit * 10 + (unsigned)(*at++ - '0');
	if (at == text || bit >= WORD_BITS)
		return NULL;
	*ret = (uint8_t)bit;
	return at;
}

static int bits_parse(const char *text, struct valuefn *ret)
{
	struct valuefn fn = { .kind = VALUEFN_BITS };
	const char *at = bit_parse(text, &fn.first_bit);

	fn.last_bit = fn.first_bit;
	if (at && *at == '-')
		at = bit_parse(at + 1, &fn.last_bit);
	if (!at || *at || fn.last_bit < fn.first_bit)
		return err_set(
			-EINVAL,
			"bits:%s: give a bit or a range of bits from 0 to 63, as in bits:4-11",
			text);
	*ret = fn;
	return 0;
}

int valuefn_parse(const char *text, struct valuefn *ret)
{
	if (strncmp(text, "bits:", 5) == 0)
		return bits_parse(text + 5, ret);
	for (enum valuefn_kind kind = 0; kind < VALUEFN_COUNT; kind++)
		if (kind != VALUEFN_BITS && strcmp(text, fns[kind].text) == 0) {
			*ret = (struct valuefn){ .kind = kind };
			return 0;
		}
	return err_set(-EINVAL,
		       "%s: no such function of values; there are self, bits:4-11, low, sign, "
		       "alignment, difference and log2",
		       text);
}

void valuefn_print(struct valuefn fn, struct strbuf *buf)
{
	strbuf_puts(buf, fns[fn.kind].text);
	if (fn.kind != VALUEFN_BITS)
		return;
	strbuf_printf(buf, ":%u", fn.first_bit);
	if (fn.last_bit != fn.first_bit)
		strbuf_printf(buf, "-%u", fn.last_bit);
}

void valuefn_bucket(unsigned bucket, uint64_t *ret_low, uint64_t *ret_high)
{
	assert(bucket <= WORD_BITS);
	*ret_low = bucket ? UINT64_C(1) << (bucket - 1) : 0;
	*ret_high = bucket ? *ret_low - 1 + *ret_low : 0;
}

void moments_add(struct moments *moments, int64_t value)
{
	double distance = (double)value - moments->mean;

	if (!moments->count || value < moments->min)
		moments->min = value;
	if (!moments->count || value > moments->max)
		moments->max = value;
	moments->count++;
	moments->mean += distance / (double)moments->count;
	moments->squares += distance * ((double)value - moments->mean);
}

void moments_merge(struct moments *moments, const struct moments *from)
{
	double distance = from->mean - moments->mean;
	double ours = (double)moments->count, theirs = (double)from->count;

	if (!from->count)
		return;
	if (!moments->count) {
		*moments = *from;
		return;
	}
	if (from->min < moments->min)
		moments->min = from->min;
	if (from->max > moments->max)
		moments->max = from->max;
	moments->count += from->count;
	moments->mean += distance * theirs / (ours + theirs);
	moments->squares += from->squares + distance * distance * ours * theirs / (ours + theirs);
}

double moments_variance(const struct moments *moments)
{
	return moments->count > 1 ? moments->squares / (double)(moments->count - 1) : 0;
}
