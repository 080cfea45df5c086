// SPDX-License-Identifier: BSD-2-Clause
#include "values/selection.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

static const struct {
	const char *text;
	enum selection_class class;
	const char *help;
} sources[] = {
#define X(name, text, class, help) [SELECTION_##name] = { text, SELECTION_##class, help },
	SELECTION_SOURCES(X)
#undef X
};

static const struct {
	const char *text;
	const char *help;
} classes[] = {
#define X(name, text, help) [SELECTION_##name] = { text, help },
	SELECTION_CLASSES(X)
#undef X
};

static const struct {
	const char *text;
	const char *items; /* may name groups above */
} groups[] = {
	{ "args", "arg0@caller,arg1@caller,arg2@caller,arg3@caller,arg4@caller,arg5@caller" },
	{ "operands", "operand1,operand2,operand3,operand4" },
	{ "default", "result,stored,taken,target,args" },
};

enum { GROUP_COUNT = sizeof(groups) / sizeof(*groups), ARGUMENTS_MAX = 2, TEXT_WIDTH = 12 };

const char *selection_source_text(enum selection_source source)
{
	return sources[source].text;
}

const char *selection_source_help(enum selection_source source)
{
	return sources[source].help;
}

enum selection_class selection_source_class(enum selection_source source)
{
	return sources[source].class;
}

const char *selection_class_text(enum selection_class class)
{
	return classes[class].text;
}

static void item_deinit(struct selection_item *item)
{
	free(item->text);
}

void selection_deinit(struct selection *selection)
{
	for (size_t i = 0; i < selection->count; i++)
		item_deinit(&selection->items[i]);
	free(selection->items);
	*selection = (struct selection){};
}

/* Like strsep(), but separators in parentheses belong to the part. */
static char *part_take(char **rest, char separator)
{
	char *part = *rest;
	unsigned depth = 0;

	*rest = NULL;
	for (char *at = part; at && *at; at++) {
		if (*at == separator && !depth) {
			*at = '\0';
			*rest = at + 1;
			break;
		}
		if (*at == '(')
			depth++;
		else if (*at == ')' && depth)
			depth--;
	}
	return part;
}

static const char *group_find(const char *text)
{
	for (size_t i = 0; i < GROUP_COUNT; i++)
		if (strcmp(text, groups[i].text) == 0)
			return groups[i].items;
	return NULL;
}

/* Fails with what the text is instead, if it is something, or else with a list of all sources. */
static int source_refuse(const char *text)
{
	AUTO(strbuf_deinit) struct strbuf names = {};
	struct valuefn fn;

	if (!*text)
		return err_set(-EINVAL, "a source of values is missing; name one, such as result");
	if (group_find(text))
		return err_set(-EINVAL,
			       "'%s' stands for several items (%s) and cannot be part of one", text,
			       group_find(text));
	if (valuefn_parse(text, &fn) == 0)
		return err_set(-EINVAL, "'%s' is a function; say of what, as in %s(%s)", text, text,
			       valuefn_arguments(fn) == 2 ? "stored,overwritten" : "result");
	for (size_t i = 0; i < SELECTION_SOURCE_COUNT; i++)
		strbuf_printf(&names, "%s, ", sources[i].text);
	for (size_t i = 0; i < GROUP_COUNT; i++)
		strbuf_printf(&names, "%s%s", i ? ", " : "and the groups ", groups[i].text);
	return err_set(-EINVAL, "'%s' is not a source of values; there are %s", text,
		       strbuf_text(&names));
}

static int path_set(struct selection_item *item, unsigned length)
{
	if (item->path_length && item->path_length != length)
		return err_set(-EINVAL,
			       "an item has one path, not path:%u and path:%u; make it two items",
			       item->path_length, length);
	item->path_length = length;
	return 0;
}

static int path_parse(const char *text, struct selection_item *item)
{
	unsigned length = 0;
	const char *at = text;

	while (*at >= '0' && *at <= '9' && length <= SELECTION_PATH_MAX)
		length = length * 10 + (unsigned)(*at++ - '0');
	if (*at || length < 1 || length > SELECTION_PATH_MAX)
		return err_set(-EINVAL, "a path has 1 to %d branches, as in path:12, not '%s'",
			       SELECTION_PATH_MAX, text);
	return path_set(item, length);
}

/* Reads a source; if it is a path, the item takes its length. */
static int source_parse(const char *text, struct selection_item *item, uint8_t *ret)
{
	enum selection_source source = 0;
	int err = 0;

	if (strncmp(text, "path:", 5) == 0) {
		source = SELECTION_PATH;
		err = path_parse(text + 5, item);
	} else {
		while (source < SELECTION_SOURCE_COUNT && strcmp(text, sources[source].text) != 0)
			source++;
		if (source == SELECTION_SOURCE_COUNT)
			err = source_refuse(text);
		else if (source == SELECTION_PATH)
			err = path_set(item, SELECTION_PATH_LENGTH);
	}
	if (err)
		return err;
	item->needs |= SELECTION_BIT(source);
	*ret = (uint8_t)source;
	return 0;
}

static int arguments_parse(const char *name, char *arguments, struct selection_item *item,
			   struct selection_term *term)
{
	uint8_t *const slots[ARGUMENTS_MAX] = { &term->source, &term->second };
	unsigned wanted = valuefn_arguments(term->fn), count = 0;
	char *part;

	while ((part = part_take(&arguments, ','))) {
		int err = count < wanted ? source_parse(part, item, slots[count]) : 0;

		if (err)
			return err;
		count++;
	}
	if (count == wanted)
		return 0;
	return err_set(-EINVAL, "%s takes %u source%s, not %u", name, wanted, wanted > 1 ? "s" : "",
		       count);
}

/* Splits "name(arguments)". */
static int call_parse(char *text, struct selection_item *item, struct selection_term *term)
{
	char *open = strchr(text, '(');
	size_t last = strlen(text) - 1;
	int err;

	if (text[last] != ')')
		return err_set(-EINVAL, "'%s' does not end with the ) of its (", text);
	text[last] = '\0';
	*open = '\0';
	err = valuefn_parse(text, &term->fn);
	return err ? err : arguments_parse(text, open + 1, item, term);
}

static int term_parse(char *text, struct selection_item *item)
{
	struct selection_term *term = &item->terms[item->term_count];
	int err = strchr(text, '(') ? call_parse(text, item, term)
				    : source_parse(text, item, &term->source);

	if (err)
		return err;
	item->term_count++;
	return 0;
}

static int terms_parse(char *text, struct selection_item *item)
{
	char *part;
	int err;

	while ((part = part_take(&text, '+'))) {
		if (item->term_count == HOTLIST_WORDS_MAX)
			return err_set(-EINVAL, "a tuple has at most %d terms", HOTLIST_WORDS_MAX);
		err = term_parse(part, item);
		if (err)
			return err;
	}
	return 0;
}

/* Cuts "@caller" off. */
static int by_caller_parse(char *text, struct selection_item *item)
{
	char *at = strchr(text, '@');

	if (!at)
		return 0;
	if (strcmp(at, "@caller") != 0)
		return err_set(-EINVAL, "'%s': only @caller may be there, at the end of an item",
			       at);
	item->by_caller = true;
	*at = '\0';
	return 0;
}

/*
 * Returns the first of the item's sources that is of the class; SELECTION_SOURCE_COUNT if none is.
 */
static enum selection_source item_source_of(const struct selection_item *item,
					    enum selection_class class)
{
	enum selection_source source = 0;

	while (source < SELECTION_SOURCE_COUNT &&
	       (sources[source].class != class || !(item->needs & SELECTION_BIT(source))))
		source++;
	return source;
}

/*
 * Sources that no instruction has together. Of branches only loop computes anything, none stores
 * what is taken as data, and only indirect ones and returns load.
 */
static const struct {
	enum selection_source source;
	uint64_t others;
	const char *why;
} strangers[] = {
	{ SELECTION_TAKEN,
	  SELECTION_BIT(SELECTION_STORED) | SELECTION_BIT(SELECTION_OVERWRITTEN) |
		  SELECTION_BIT(SELECTION_LOADED) | SELECTION_BIT(SELECTION_LOADED2) |
		  SELECTION_BIT(SELECTION_ADDRESS) | SELECTION_BIT(SELECTION_ADDRESS2) |
		  SELECTION_BIT(SELECTION_RESULT2),
	  "a conditional branch neither reads nor writes memory" },
	{ SELECTION_TARGET,
	  SELECTION_BIT(SELECTION_STORED) | SELECTION_BIT(SELECTION_OVERWRITTEN) |
		  SELECTION_BIT(SELECTION_LOADED2) | SELECTION_BIT(SELECTION_RESULT2),
	  "what a branch or call stores is only where to return" },
	{ SELECTION_LOADED2, SELECTION_BIT(SELECTION_STORED) | SELECTION_BIT(SELECTION_OVERWRITTEN),
	  "only cmps reads two places, and it writes none" },
};

static int incompatible_refuse(const struct selection_item *item)
{
	for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
		uint64_t others = item->needs & strangers[i].others;

		if (item->needs & SELECTION_BIT(strangers[i].source) && others)
			return err_set(-EINVAL,
				       "no instruction has %s and %s: %s; make it two items",
				       sources[strangers[i].source].text,
				       sources[__builtin_ctzll(others)].text, strangers[i].why);
	}
	return 0;
}

static void target_classify(struct selection_item *item)
{
	uint64_t others = 0;

	if (!(item->needs & SELECTION_BIT(SELECTION_TARGET)))
		return;
	for (size_t i = 0; i < SELECTION_SOURCE_COUNT; i++)
		if (i != SELECTION_TARGET && sources[i].class == SELECTION_INSTRUCTION)
			others |= SELECTION_BIT(i);
	item->needs |= item->needs & others ? SELECTION_ANY_BRANCH : SELECTION_INDIRECT;
}

static int item_classify(struct selection_item *item)
{
	static const enum selection_class order[] = { SELECTION_INSTRUCTION, SELECTION_ENTRY,
						      SELECTION_RUN, SELECTION_CONTEXT };
	enum selection_source instruction = item_source_of(item, SELECTION_INSTRUCTION);
	enum selection_source entry = item_source_of(item, SELECTION_ENTRY);
	size_t i = 0;

	if (instruction < SELECTION_SOURCE_COUNT && entry < SELECTION_SOURCE_COUNT)
		return err_set(
			-EINVAL,
			"%s exists at instructions and %s where a function is entered, never "
			"together; make it two items",
			sources[instruction].text, sources[entry].text);
	while (item_source_of(item, order[i]) == SELECTION_SOURCE_COUNT)
		i++;
	item->class = order[i];
	return 0;
}

static void source_print(const struct selection_item *item, uint8_t source, struct strbuf *buf)
{
	strbuf_puts(buf, sources[source].text);
	if (source == SELECTION_PATH)
		strbuf_printf(buf, ":%u", item->path_length);
}

static void term_print(const struct selection_item *item, const struct selection_term *term,
		       struct strbuf *buf)
{
	if (term->fn.kind == VALUEFN_SELF) {
		source_print(item, term->source, buf);
		return;
	}
	valuefn_print(term->fn, buf);
	strbuf_putc(buf, '(');
	source_print(item, term->source, buf);
	if (valuefn_arguments(term->fn) == ARGUMENTS_MAX) {
		strbuf_putc(buf, ',');
		source_print(item, term->second, buf);
	}
	strbuf_putc(buf, ')');
}

static char *item_print(const struct selection_item *item)
{
	AUTO(strbuf_deinit) struct strbuf buf = {};

	for (unsigned i = 0; i < item->term_count; i++) {
		if (i)
			strbuf_putc(&buf, '+');
		term_print(item, &item->terms[i], &buf);
	}
	if (item->by_caller)
		strbuf_puts(&buf, "@caller");
	return mem_strdup(strbuf_text(&buf));
}

static int item_parse(const char *text, struct selection_item *ret)
{
	AUTO(free_ptr) char *copy = mem_strdup(text);
	struct selection_item item = {};
	int err;

	if (!*text)
		return err_set(-EINVAL, "there is an empty item; name one, such as result");
	err = by_caller_parse(copy, &item);
	if (!err)
		err = terms_parse(copy, &item);
	if (!err)
		err = item_classify(&item);
	if (!err)
		err = incompatible_refuse(&item);
	if (err)
		return err_wrap(err, "%.80s", text);
	target_classify(&item);
	item.text = item_print(&item);
	*ret = item;
	return 0;
}

static bool item_is_known(const struct selection *selection, const struct selection_item *item)
{
	for (size_t i = 0; i < selection->count; i++)
		if (strcmp(selection->items[i].text, item->text) == 0)
			return true;
	return false;
}

static int item_add(struct selection *selection, const char *text)
{
	struct selection_item item;
	int err = item_parse(text, &item);

	if (err)
		return err;
	if (item_is_known(selection, &item)) {
		item_deinit(&item);
		return 0;
	}
	if (selection->count == SELECTION_ITEMS_MAX) {
		item_deinit(&item);
		return err_set(-E2BIG, "%.80s is one item too many; there may be %d", text,
			       SELECTION_ITEMS_MAX);
	}
	selection->items = mem_realloc(selection->items, selection->count + 1, sizeof(item));
	selection->items[selection->count++] = item;
	selection->needs |= item.needs | (item.by_caller ? SELECTION_BIT(SELECTION_CALLER) : 0);
	return 0;
}

static int items_add(struct selection *selection, const char *what)
{
	AUTO(free_ptr) char *copy = mem_strdup(what);
	char *rest = copy, *part;

	while ((part = part_take(&rest, ','))) {
		const char *group = group_find(part);
		int err = group ? items_add(selection, group) : item_add(selection, part);

		if (err)
			return err;
	}
	return 0;
}

int selection_parse(const char *what, struct selection *ret)
{
	struct selection selection = {};
	int err = items_add(&selection, what);

	if (err) {
		selection_deinit(&selection);
		return err;
	}
	*ret = selection;
	return 0;
}

static unsigned width_max(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

static uint64_t source_value(const struct selection_facts *facts, unsigned source)
{
	return valuefn_apply((struct valuefn){ .kind = VALUEFN_SELF }, facts->widths[source],
			     facts->values[source], 0);
}

static uint64_t term_word(const struct selection_term *term, const struct selection_facts *facts)
{
	unsigned width = facts->widths[term->source];

	if (valuefn_arguments(term->fn) < ARGUMENTS_MAX)
		return valuefn_apply(term->fn, width, facts->values[term->source], 0);
	return valuefn_apply(term->fn, width_max(width, facts->widths[term->second]),
			     source_value(facts, term->source), source_value(facts, term->second));
}

static unsigned bits_width(struct valuefn fn)
{
	unsigned count = fn.last_bit - fn.first_bit + 1u, width = 8;

	if (count == 1)
		return 1;
	while (width < 64 && width <= count)
		width *= 2;
	return width;
}

static unsigned term_width(const struct selection_term *term, const struct selection_facts *facts)
{
	switch (term->fn.kind) {
	case VALUEFN_SELF:
		return facts->widths[term->source];
	case VALUEFN_BITS:
		return bits_width(term->fn);
	case VALUEFN_LOW:
		return 1;
	case VALUEFN_ALIGNMENT:
	case VALUEFN_LOG2:
		return 8;
	case VALUEFN_SIGN:
	case VALUEFN_DIFFERENCE:
		return 64;
	case VALUEFN_COUNT:
		break;
	}
	assert(!"a function of values");
	return 0;
}

bool selection_words(const struct selection_item *item, const struct selection_facts *facts,
		     uint64_t words[static HOTLIST_WORDS_MAX], unsigned *ret_width)
{
	const struct selection_term *first = &item->terms[0];

	if (item->needs & ~facts->known)
		return false;
	*ret_width = term_width(first, facts);
	if (first->fn.kind == VALUEFN_SELF && item->term_count == 1) { /* nearly all items are */
		words[0] = facts->values[first->source] & ~0ull >> (64 - *ret_width);
		return true;
	}
	for (unsigned i = 0; i < item->term_count; i++)
		words[i] = term_word(&item->terms[i], facts);
	return true;
}

static void sources_help(enum selection_class class, struct strbuf *buf)
{
	strbuf_printf(buf, "\nSources that exist %s:\n", classes[class].help);
	for (size_t i = 0; i < SELECTION_SOURCE_COUNT; i++)
		if (sources[i].class == class)
			strbuf_printf(buf, "  %-*s %s\n", TEXT_WIDTH, sources[i].text,
				      sources[i].help);
}

void selection_help(struct strbuf *buf)
{
	strbuf_puts(buf, "--values=ITEM,ITEM... takes items such as\n"
			 "  result                 a source\n"
			 "  log2(loaded)           a function of a source\n"
			 "  arg0+arg1              both as one value; up to 8 terms\n"
			 "  arg0@caller            each call site of a function by itself\n"
			 "  path:12                the directions of 12 branches; 8 if not said\n"
			 "\nFunctions: bits:4-11, low, sign, alignment, log2 and "
			 "difference(SOURCE,SOURCE).\n"
			 "\nGroups:\n");
	for (size_t i = 0; i < GROUP_COUNT; i++)
		strbuf_printf(buf, "  %-*s %s\n", TEXT_WIDTH, groups[i].text, groups[i].items);
	sources_help(SELECTION_INSTRUCTION, buf);
	sources_help(SELECTION_ENTRY, buf);
	sources_help(SELECTION_RUN, buf);
	sources_help(SELECTION_CONTEXT, buf);
}
