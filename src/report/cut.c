// SPDX-License-Identifier: BSD-2-Clause
#include "report/cut.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/utf8.h"

enum {
	HEAD_MIN = 4, /* columns of a name in front of what is kept of its end */
};

/* Text without its first `from` bytes, and without what comes after the first `to`. */
static char *part_of(const char *text, size_t from, size_t to)
{
	char *part = mem_alloc(to - from + 1);

	memcpy(part, text + from, to - from);
	part[to - from] = '\0';
	return part;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
	size_t size = strlen(end);

	return length >= size && !memcmp(text + length - size, end, size);
}

/* The length of the text without " [module]" at its end. Names in brackets with blanks are none. */
static size_t without_module(const char *text, size_t length)
{
	size_t start = length;

	if (!length || text[length - 1] != ']' || ends_with(text, length, "[unknown]"))
		return length;
	while (start && text[start - 1] != '[' && text[start - 1] != ' ')
		start--;
	return start > 2 && text[start - 1] == '[' && text[start - 2] == ' ' ? start - 2 : length;
}

/* The place of "+0x4e" at the end of the text; the text's length if there is none. */
static size_t offset_begin(const char *text, size_t length)
{
	size_t start = length;

	while (start && strchr("0123456789abcdef", text[start - 1]))
		start--;
	return start >= 3 && start < length && !memcmp(text + start - 3, "+0x", 3) ? start - 3
										   : length;
}

/* The head in what the tail leaves, then the tail; a tail that leaves too little is no help. */
static void two_parts_put(struct strbuf *buf, const char *head, const char *tail, size_t width,
			  const char *mark)
{
	size_t tail_width = utf8_width(tail);

	if (tail_width + HEAD_MIN > width) {
		utf8_cut_head(buf, tail, width, mark);
		return;
	}
	if (*tail)
		utf8_cut(buf, head, width - tail_width, mark);
	else
		utf8_shorten(buf, head, width, mark);
	strbuf_puts(buf, tail);
}

static void name_put(struct strbuf *buf, const char *text, size_t width, const char *mark)
{
	static const char inlined[] = " (inlined)";
	size_t length = without_module(text, strlen(text)), offset;
	AUTO(free_ptr) char *bare = part_of(text, 0, length);
	AUTO(free_ptr) char *head = NULL;

	if (utf8_width(bare) > width && ends_with(bare, length, inlined))
		bare[length -= sizeof(inlined) - 1] = '\0';
	offset = offset_begin(bare, length);
	head = part_of(bare, 0, offset);
	if (utf8_width(bare) <= width)
		strbuf_puts(buf, bare);
	else
		two_parts_put(buf, head, bare + offset, width, mark);
}

/* Whole folders go first, then the end of the file's name. */
static void place_put(struct strbuf *buf, const char *text, size_t width, const char *mark)
{
	size_t mark_width = utf8_width(mark);
	const char *name = strrchr(text, '/'), *line = strrchr(text, ':');
	AUTO(free_ptr) char *head = NULL;

	for (const char *at = text; name && (at = strchr(at, '/')) && at < name; at++) {
		if (mark_width + utf8_width(at) > width)
			continue;
		strbuf_puts(buf, mark);
		strbuf_puts(buf, at);
		return;
	}
	name = name ? name + 1 : text;
	line = line && line > name ? line : name + strlen(name);
	head = part_of(name, 0, (size_t)(line - name));
	if (utf8_width(name) <= width)
		strbuf_puts(buf, name);
	else
		two_parts_put(buf, head, line, width, mark);
}

void cut_put(struct strbuf *buf, const char *text, size_t width, enum column_cut cut,
	     const char *mark)
{
	if (utf8_width(text) <= width)
		strbuf_puts(buf, text);
	else if (cut == CUT_NAME)
		name_put(buf, text, width, mark);
	else if (cut == CUT_PLACE)
		place_put(buf, text, width, mark);
	else
		utf8_shorten(buf, text, width, mark);
}
