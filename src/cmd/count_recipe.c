// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/count_recipe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

enum { RECIPE_BYTES_MAX = 1 << 20 };

/* Columns: the symbol, the name that people type. */
#define RECIPES(X)                                                                                 \
	X(recipe_tail, "tail")                                                                     \
	X(recipe_slow_calls, "slow-calls")                                                         \
	X(recipe_cost, "cost")

#define X(symbol, name) extern const char symbol[];
RECIPES(X)
#undef X

static const struct recipe {
	const char *name, *text;
} recipes[] = {
#define X(symbol, name) { name, symbol },
	RECIPES(X)
#undef X
};
enum { RECIPE_COUNT = sizeof(recipes) / sizeof(recipes[0]) };

void recipe_help(struct strbuf *out)
{
	for (size_t i = 0; i < RECIPE_COUNT; i++) {
		const char *about = recipes[i].text + strspn(recipes[i].text, "# ");

		strbuf_printf(out, "  %-12s %.*s\n", recipes[i].name, (int)strcspn(about, "\n"),
			      about);
	}
}

static int file_read(const char *path, char **ret)
{
	AUTO(close_file) FILE *file = fopen(path, "re");
	char *text;
	size_t size;

	if (!file)
		return err_set(-errno, "cannot open the recipe %s: %s", path, strerror(errno));
	text = mem_zalloc(RECIPE_BYTES_MAX + 1);
	size = fread(text, 1, RECIPE_BYTES_MAX, file);
	*ret = text;
	if (!ferror(file) && size < RECIPE_BYTES_MAX && !memchr(text, 0, size))
		return 0;
	return err_set(-EINVAL, "%s is not a recipe: it cannot be read, or is not text", path);
}

/* The recipe's text, which must be freed. */
static int recipe_read(const char *name, char **ret)
{
	const char *names[RECIPE_COUNT + 1] = {};
	const char *near;

	if (strchr(name, '/'))
		return file_read(name, ret);
	for (size_t i = 0; i < RECIPE_COUNT; i++) {
		names[i] = recipes[i].name;
		if (strcmp(recipes[i].name, name) != 0)
			continue;
		*ret = mem_strdup(recipes[i].text);
		return 0;
	}
	near = option_nearest(name, names);
	return err_set(-EINVAL, "there is no recipe '%s'%s%s%s; --recipe help lists them", name,
		       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* With the argument in the place of each $1; NULL: there is none, and one is needed. */
static char *text_fill(const char *text, const char *argument)
{
	struct strbuf filled = {};
	const char *at;

	for (; (at = strstr(text, "$1")); text = at + 2) {
		if (!argument) {
			strbuf_deinit(&filled);
			return NULL;
		}
		strbuf_add(&filled, text, (size_t)(at - text));
		strbuf_puts(&filled, argument);
	}
	strbuf_puts(&filled, text);
	return filled.text;
}

static int line_take(const char *recipe, unsigned number, char *line, const char *argument,
		     struct options *options)
{
	size_t length = strcspn(line, " \t");
	char *value = line + length + strspn(line + length, " \t"), *text;
	const struct option_row *row;

	line[length] = '\0';
	row = options_find(options->groups, line);
	if (!row || !strcmp(line, "recipe"))
		return err_set(-EINVAL,
			       "recipe %s, line %u: '%s' is not an option of assay count that a "
			       "recipe can have",
			       recipe, number, line);
	text = text_fill(value, argument);
	if (!text)
		return err_set(-EINVAL,
			       "the recipe %s needs an argument: --recipe %s=...; --recipe help "
			       "says what it is",
			       recipe, recipe);
	*array_push(&options->owned) = text;
	return options_take(options, row, *text ? text : NULL);
}

int recipe_take(const char *given, struct options *options)
{
	const char *equals = strchr(given, '=');
	AUTO(free_ptr)
	char *name = mem_strndup(given, equals ? (size_t)(equals - given) : strlen(given));
	AUTO(free_ptr) char *text = NULL;
	unsigned number = 0;
	int err = recipe_read(name, &text);
	char *rest = text;

	while (!err && rest) {
		char *line = strsep(&rest, "\n");

		number++;
		line += strspn(line, " \t");
		if (*line && *line != '#')
			err = line_take(name, number, line, equals ? equals + 1 : NULL, options);
	}
	return err;
}
