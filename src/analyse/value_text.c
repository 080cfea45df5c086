// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/value_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/names.h"
#include "values/valuefn.h"

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

/* The text that was found at an address, in its quotes; NULL: none. */
static const char *string_of(const struct profile_value_name *name)
{
	return name->text ? strchr(name->text, '"') : NULL;
}

/* Whether anything was known and appended. strings: texts that lie there are shown. */
static bool name_put(const struct profile *profile, uint64_t value, bool strings,
		     struct strbuf *buf)
{
	const struct profile_value_name *name = value >= NAMED_FROM ? name_find(profile, value)
								    : NULL;
	const char *string = name && strings ? string_of(name) : NULL;
	size_t length;

	if (!name || (!name->location && !(name->text && *name->text)))
		return false;
	strbuf_printf(buf, "0x%" PRIx64 " ", value);
	if (name->location && (!string || location_function(profile, name->location))) {
		place_put(profile, name->location, false, buf);
		if (string)
			strbuf_putc(buf, ' ');
	}
	if (string) {
		strbuf_puts(buf, string);
	} else if (!name->location) {
		length = string_of(name) ? (size_t)(string_of(name) - name->text)
					 : strlen(name->text);
		while (length && name->text[length - 1] == ' ')
			length--;
		strbuf_add(buf, name->text, length);
	}
	return true;
}

bool value_is_on_stack(const struct profile *profile, uint64_t value)
{
	static const char stack[] = "[stack]";
	const struct profile_value_name *name = name_find(profile, value);

	return name && !name->location && name->text &&
	       !strncmp(name->text, stack, sizeof(stack) - 1);
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

	if (type.width == WORD_BITS && name_put(profile, value, true, buf))
		return;
	if (number < 0 && number >= negative_limit(type.width))
		strbuf_printf(buf, "%" PRId64, number);
	else
		unsigned_put(value, buf);
	if (type.width == 8)
		character_put(value, buf);
}

static void pointer_put(const struct profile *profile, struct value_type type, uint64_t value,
			struct strbuf *buf)
{
	if (!value)
		strbuf_puts(buf, "NULL");
	else if (!name_put(profile, value, !type.structured, buf))
		strbuf_printf(buf, "0x%" PRIx64, value);
}

/* Of numbers up to here no digit is left out before the point. */
#define PLAIN_FLOAT 1e15

/*
 * The shortest decimal number that is this one and no other; with an exponent only where the number
 * is large or small.
 */
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

static const char *enumerator_find(struct value_type type, int64_t number)
{
	for (size_t i = 0; i < type.enumerator_count; i++)
		if ((int64_t)type.enumerators[i].value == number)
			return type.enumerators[i].name;
	return NULL;
}

/* Whether all bits have names of their own: "READ|RUN". */
static bool flags_put(struct value_type type, uint64_t bits, struct strbuf *buf)
{
	const char *separator = "";

	for (uint64_t left = bits; left; left &= left - 1)
		if (!enumerator_find(type, (int64_t)(left & -left)))
			return false;
	for (uint64_t left = bits; left; left &= left - 1, separator = "|")
		strbuf_printf(buf, "%s%s", separator,
			      enumerator_find(type, (int64_t)(left & -left)));
	return bits;
}

static void enumerator_put(struct value_type type, uint64_t value, struct strbuf *buf)
{
	int64_t number = sign_extend(value, type.width);
	uint64_t bits = zero_extend(value, type.width);
	const char *name = enumerator_find(type, number);

	if (!name)
		name = enumerator_find(type, (int64_t)bits);
	if (name)
		strbuf_puts(buf, name);
	else if (!flags_put(type, bits, buf))
		strbuf_printf(buf, "%" PRId64, number);
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
	case VALUE_ENUM:
		enumerator_put(type, value, buf);
		break;
	case VALUE_SIGNED:
		strbuf_printf(buf, "%" PRId64, sign_extend(value, type.width));
		break;
	case VALUE_UNSIGNED:
		unsigned_put(low, buf);
		break;
	case VALUE_POINTER:
		pointer_put(profile, type, low, buf);
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

/* A pointer to something else than characters or bytes, by the name of its type. */
static bool is_structured(const char *type)
{
	static const char *const plain[] = { "char", "void", "int8_t", "u8", "Byte", "byte" };
	const char *star = strpbrk(type, "*&");
	size_t length = star ? (size_t)(star - type) : 0;

	if (!star)
		return false; /* a name that may stand for anything */
	while (length && type[length - 1] == ' ')
		length--;
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		size_t end = strlen(plain[i]);

		if (length >= end && !strncmp(type + length - end, plain[i], end) &&
		    !strcmp(star, "*"))
			return false;
	}
	return true;
}

/* Rows come sorted. */
static void enumerators_find(const struct profile *profile,
			     const struct profile_parameter *parameter, struct value_type *type)
{
	size_t low = 0, high = profile->enumerator_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct profile_enumerator *row = &profile->enumerators[middle];

		if (row->symbol < parameter->symbol ||
		    (row->symbol == parameter->symbol && row->argument < parameter->argument))
			low = middle + 1;
		else
			high = middle;
	}
	type->enumerators = &profile->enumerators[low];
	while (low < profile->enumerator_count &&
	       profile->enumerators[low].symbol == parameter->symbol &&
	       profile->enumerators[low].argument == parameter->argument) {
		type->enumerator_count++;
		low++;
	}
}

struct value_type value_type_of_parameter(const struct profile *profile,
					  const struct profile_parameter *parameter)
{
	static const struct {
		const char *encoding;
		enum value_kind kind;
	} kinds[] = {
		{ "signed", VALUE_SIGNED },   { "unsigned", VALUE_UNSIGNED },
		{ "pointer", VALUE_POINTER }, { "bool", VALUE_BOOL },
		{ "char", VALUE_CHAR },	      { "enum", VALUE_ENUM },
		{ "float", VALUE_FLOAT },
	};
	unsigned bytes = parameter->size;
	struct value_type type = { VALUE_PLAIN, bytes >= 1 && bytes <= 8 ? bytes * 8 : WORD_BITS };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(parameter->encoding, kinds[i].encoding))
			type.kind = kinds[i].kind;
	if (type.kind == VALUE_ENUM)
		enumerators_find(profile, parameter, &type);
	type.structured = type.kind == VALUE_POINTER && parameter->type &&
			  is_structured(parameter->type);
	return type;
}
