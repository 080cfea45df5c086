// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/value_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/names.h"
#include "profile/valuefn.h"

enum {
	WORD_BITS = 64,
	DECIMAL_LIMIT = 1000000, /* from here on a plain number is easier to read in hexadecimal */
	NEGATIVE_LIMIT =
		4096, /* a plain number that is at most so much below 0 is taken as negative */
	NAMED_FROM = 4096, /* no address lies below */
};

static uint64_t zero_extend(uint64_t value, unsigned width)
{
	return width >= WORD_BITS ? value : value & ((UINT64_C(1) << width) - 1);
}

static int64_t sign_extend(uint64_t value, unsigned width)
{
	uint64_t sign = UINT64_C(1) << (width - 1);

	return (int64_t)((zero_extend(value, width) ^ sign) - sign);
}

static const struct profile_value_name *name_find(const struct profile *profile, uint64_t value)
{
	size_t low = 0, high = profile->value_name_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (profile->value_names[middle].value < value)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < profile->value_name_count && profile->value_names[low].value == value)
		return &profile->value_names[low];
	return NULL;
}

static void place_put(const struct profile *profile, uint32_t location, bool brief,
		      struct strbuf *buf)
{
	const struct profile_location *row = &profile->locations[location];
	uint32_t symbol = location_function(profile, location);
	uint64_t base = symbol ? profile->symbols[symbol].address : 0;
	const char *name = symbol ? name_of_symbol(profile, symbol)
				  : name_of_module(profile, row->module);

	strbuf_add(buf, name, brief ? name_brief_length(name) : strlen(name));
	if (row->address != base)
		strbuf_printf(buf, "+0x%" PRIx64, row->address - base);
}

void value_place_text(const struct profile *profile, uint32_t location, struct strbuf *buf)
{
	place_put(profile, location, true, buf);
}

/* Whether anything was known and appended. */
static bool name_put(const struct profile *profile, uint64_t value, struct strbuf *buf)
{
	const struct profile_value_name *name = value >= NAMED_FROM ? name_find(profile, value)
								    : NULL;

	if (!name || (!name->location && !(name->text && *name->text)))
		return false;
	strbuf_printf(buf, "0x%" PRIx64 " ", value);
	if (name->location)
		place_put(profile, name->location, false, buf);
	else
		strbuf_puts(buf, name->text);
	return true;
}

bool value_is_on_stack(const struct profile *profile, uint64_t value)
{
	const struct profile_value_name *name = name_find(profile, value);

	return name && !name->location && name->text && !strcmp(name->text, "[stack]");
}

static void character_put(uint64_t value, struct strbuf *buf)
{
	if (value < 0x80 && isprint((int)value))
		strbuf_printf(buf, " '%s%c'", value == '\'' || value == '\\' ? "\\" : "",
			      (char)value);
}

static void unsigned_put(uint64_t value, struct strbuf *buf)
{
	strbuf_printf(buf, value < DECIMAL_LIMIT ? "%" PRIu64 : "0x%" PRIx64, value);
}

/* A byte with all bits set is 255 to most people, a word with all bits set is -1. */
static int64_t negative_limit(unsigned width)
{
	return width > 16 ? -NEGATIVE_LIMIT : width > 8 ? -NEGATIVE_LIMIT / 16 : 0;
}

static void plain_put(const struct profile *profile, struct value_type type, uint64_t value,
		      struct strbuf *buf)
{
	int64_t number = sign_extend(value, type.width);

	if (type.width == WORD_BITS && name_put(profile, value, buf))
		return;
	if (number < 0 && number >= negative_limit(type.width))
		strbuf_printf(buf, "%" PRId64, number);
	else
		unsigned_put(value, buf);
	if (type.width == 8)
		character_put(value, buf);
}

static void pointer_put(const struct profile *profile, uint64_t value, struct strbuf *buf)
{
	if (!value)
		strbuf_puts(buf, "NULL");
	else if (!name_put(profile, value, buf))
		strbuf_printf(buf, "0x%" PRIx64, value);
}

/* Of numbers up to here no digit is left out before the point. */
#define PLAIN_FLOAT 1e15

/* The shortest decimal number that is this one and no other; with an exponent only where the number is large or small. */
static void float_put(unsigned width, uint64_t value, struct strbuf *buf)
{
	char text[40];
	double number;
	float single;
	uint32_t bits = (uint32_t)value;

	memcpy(&number, &value, sizeof(number));
	memcpy(&single, &bits, sizeof(single));
	if (width == 32)
		number = (double)single;
	for (int digits = 1; digits <= 17; digits++) {
		double back;

		snprintf(text, sizeof(text), "%.*g", digits, number);
		back = strtod(text, NULL);
		if (width == 32 ? (float)back == single : back == number)
			break;
	}
	if (strchr(text, 'e') && fabs(number) >= 1 && fabs(number) < PLAIN_FLOAT)
		snprintf(text, sizeof(text), "%.0f", strtod(text, NULL));
	strbuf_puts(buf, text);
	if (isfinite(number) && !strpbrk(text, ".e"))
		strbuf_puts(buf, ".0");
}

static void bucket_put(uint64_t value, struct strbuf *buf)
{
	uint64_t low, high;

	if (value > WORD_BITS) {
		unsigned_put(value, buf);
		return;
	}
	valuefn_bucket((unsigned)value, &low, &high);
	unsigned_put(low, buf);
	if (low == high)
		return;
	strbuf_puts(buf, "..");
	unsigned_put(high, buf);
}

/* "TNN": taken, not taken, not taken. */
static void path_put(uint64_t value, struct strbuf *buf)
{
	unsigned branches = value ? WORD_BITS - 1 - (unsigned)__builtin_clzll(value) : 0;

	if (!branches)
		strbuf_puts(buf, "no branch");
	while (branches--)
		strbuf_putc(buf, value >> branches & 1 ? 'T' : 'N');
}

/* 0 and 1 by their names; anything else is no such thing. */
static void choice_put(uint64_t value, const char *const names[2], struct strbuf *buf)
{
	if (value < 2)
		strbuf_puts(buf, names[value]);
	else
		unsigned_put(value, buf);
}

void value_text(const struct profile *profile, struct value_type type, uint64_t value,
		struct strbuf *buf)
{
	static const char *const truth[] = { "false", "true" }, *const directions[] = { "no",
											"yes" };
	uint64_t low;

	if (type.width < 1 || type.width > WORD_BITS)
		type.width = WORD_BITS;
	low = zero_extend(value, type.width);
	switch (type.kind) {
	case VALUE_PLAIN:
		plain_put(profile, type, low, buf);
		break;
	case VALUE_SIGNED:
		strbuf_printf(buf, "%" PRId64, sign_extend(value, type.width));
		break;
	case VALUE_UNSIGNED:
		unsigned_put(low, buf);
		break;
	case VALUE_POINTER:
		pointer_put(profile, low, buf);
		break;
	case VALUE_BOOL:
		choice_put(low, truth, buf);
		break;
	case VALUE_CHAR:
		unsigned_put(low, buf);
		character_put(low, buf);
		break;
	case VALUE_FLOAT:
		float_put(type.width, low, buf);
		break;
	case VALUE_TAKEN:
		choice_put(low, directions, buf);
		break;
	case VALUE_BUCKET:
		bucket_put(low, buf);
		break;
	case VALUE_PATH:
		path_put(low, buf);
		break;
	}
}

struct value_type value_type_of_parameter(const struct profile_parameter *parameter)
{
	static const struct {
		const char *encoding;
		enum value_kind kind;
	} kinds[] = {
		{ "signed", VALUE_SIGNED },   { "unsigned", VALUE_UNSIGNED },
		{ "pointer", VALUE_POINTER }, { "bool", VALUE_BOOL },
		{ "char", VALUE_CHAR },	      { "enum", VALUE_SIGNED },
		{ "float", VALUE_FLOAT },
	};
	unsigned bytes = parameter->size;
	struct value_type type = { VALUE_PLAIN, bytes >= 1 && bytes <= 8 ? bytes * 8 : WORD_BITS };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(parameter->encoding, kinds[i].encoding))
			type.kind = kinds[i].kind;
	return type;
}
