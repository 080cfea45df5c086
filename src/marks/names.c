// SPDX-License-Identifier: BSD-2-Clause
#include "marks/names.h"

#include <stdbool.h>
#include <string.h>

static const char operator_word[] = "operator";

static bool is_open(char c)
{
	return c == '(' || c == '<' || c == '{' || c == '[';
}

static bool is_close(char c)
{
	return c == ')' || c == '>' || c == '}' || c == ']';
}

/* Where the brackets begin whose last one stands in front of end; end: they are not balanced. */
static size_t brackets_begin(const char *name, size_t end)
{
	size_t depth = 0;

	for (size_t i = end; i-- > 0;) {
		depth += is_close(name[i]);
		if (is_open(name[i]) && !--depth)
			return i;
	}
	return end;
}

/* The parameters are the last thing in parentheses: `const` and the like stand behind them. */
static size_t parameters_begin(const char *name)
{
	const char *end = strrchr(name, ')');

	return end ? brackets_begin(name, (size_t)(end - name) + 1) : strlen(name);
}

static bool is_operator(const char *name, size_t at)
{
	return !strncmp(name + at, operator_word, sizeof(operator_word) - 1) &&
	       (!at || name[at - 1] == ':' || name[at - 1] == ' ');
}

/* Behind the last space that is in no brackets, but `operator` has its own. */
static size_t result_end(const char *name, size_t bare)
{
	size_t depth = 0, start = 0;

	for (size_t i = 0; i < bare && (depth || !is_operator(name, i)); i++) {
		depth += is_open(name[i]);
		depth -= is_close(name[i]) && depth;
		if (name[i] == ' ' && !depth)
			start = i + 1;
	}
	return start;
}

static bool ends_with_operator(const char *name, size_t end)
{
	const size_t length = sizeof(operator_word) - 1;

	return end >= length && is_operator(name, end - length);
}

struct name_parts name_parts_of(const char *name)
{
	size_t length = strlen(name), bare = parameters_begin(name), stem;

	if (bare == length || !bare || name[bare - 1] != '>')
		return (struct name_parts){ 0, bare, bare };
	stem = brackets_begin(name, bare);
	if (!stem || stem == bare || ends_with_operator(name, stem))
		return (struct name_parts){ 0, bare, bare };
	return (struct name_parts){ result_end(name, bare), stem, bare };
}
