// SPDX-License-Identifier: BSD-2-Clause
/*
 * A recursive parser of arithmetic in a text that it wrote itself: characters, branches, calls from
 * several places.
 */
#include "values_work.h"

enum { TEXT = 2000, DEEP = 3 };

struct parser {
	const char *at;
	uint32_t line;
	uint32_t names;
	uint32_t errors;
};

static char text[TEXT + 64];
static int32_t variables[26];
volatile int64_t result;

static int32_t sum_parse(struct parser *parser, int depth);

static APART int is_kind(int c, int kind)
{
	if (kind == 0)
		return c == ' ' || c == '\t';
	if (kind == 1)
		return c >= '0' && c <= '9';
	return c >= 'a' && c <= 'z';
}

static APART void blanks_skip(struct parser *parser)
{
	while (is_kind(*parser->at, 0))
		parser->at++;
}

static APART int32_t number_parse(struct parser *parser, int base)
{
	int32_t value = 0;

	while (is_kind(*parser->at, 1))
		value = value * base + (*parser->at++ - '0');
	return value;
}

static APART int32_t factor_parse(struct parser *parser, int depth)
{
	int32_t value = 0;

	blanks_skip(parser);
	if (is_kind(*parser->at, 1))
		return number_parse(parser, 10);
	if (is_kind(*parser->at, 2)) {
		parser->names++;
		return variables[*parser->at++ - 'a'];
	}
	if (*parser->at == '#') {
		parser->at++;
		return number_parse(parser, 8);
	}
	if (*parser->at != '(') {
		parser->errors++;
		return 0;
	}
	parser->at++;
	value = sum_parse(parser, depth + 1);
	blanks_skip(parser);
	if (*parser->at == ')')
		parser->at++;
	return value;
}

static APART int32_t product_parse(struct parser *parser, int depth)
{
	int32_t value = factor_parse(parser, depth);

	for (blanks_skip(parser); *parser->at == '*' || *parser->at == '/'; blanks_skip(parser)) {
		char sign = *parser->at++;
		int32_t right = factor_parse(parser, depth);

		if (sign == '*')
			value = (int32_t)((uint32_t)value * (uint32_t)right);
		else
			value = right > 0 ? value / right : value;
	}
	return value;
}

static APART int32_t sum_parse(struct parser *parser, int depth)
{
	int32_t value = product_parse(parser, depth);

	for (blanks_skip(parser); *parser->at == '+' || *parser->at == '-'; blanks_skip(parser))
		value = (int32_t)((uint32_t)value +
				  (*parser->at++ == '+' ? (uint32_t)product_parse(parser, depth)
							: -(uint32_t)product_parse(parser, depth)));
	return value;
}

void work(void)
{
	struct parser parser = { .at = text, .line = 1 };
	int64_t total = 0;

	while (*parser.at) {
		total += sum_parse(&parser, 0);
		if (*parser.at == '\n')
			parser.line++;
		if (*parser.at)
			parser.at++;
	}
	result = total + parser.line;
}

static char *factor_write(char *at, uint64_t *state, int depth)
{
	uint32_t bits = random_next(state);

	if (bits % 10 < 5) {
		for (unsigned digits = bits / 10 % 3 + 1; digits; digits--)
			*at++ = (char)('0' + random_next(state) % 10);
	} else if (bits % 10 < 8 || depth >= DEEP) {
		*at++ = bits / 10 % 5 ? 'x' : (char)('a' + bits / 50 % 26);
	} else if (bits % 10 == 8) {
		*at++ = '#';
		*at++ = (char)('0' + bits / 10 % 8);
	} else {
		*at++ = '(';
		at = factor_write(at, state, depth + 1);
		*at++ = '+';
		at = factor_write(at, state, depth + 1);
		*at++ = ')';
	}
	return at;
}

int main(void)
{
	uint64_t state = 3;
	char *at = text;

	for (int i = 0; i < 26; i++)
		variables[i] = i % 7 - 2;
	while (at < text + TEXT) {
		uint32_t bits = random_next(&state);

		at = factor_write(at, &state, 0);
		if (bits % 4 == 0)
			*at++ = ' ';
		*at++ = "+++*+-+/\n+"[bits / 4 % 10];
		if (bits % 8 == 0)
			*at++ = ' ';
	}
	*at = 0;
	for (;;)
		work();
}
