// SPDX-License-Identifier: BSD-2-Clause
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>
#include <wchar.h>

static bool is_tail(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

static size_t sequence_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

size_t utf8_next(const char *text, uint32_t *ret)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	static const unsigned char first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	const unsigned char *bytes = (const unsigned char *)text;
	size_t length = sequence_length(bytes[0]);
	uint32_t point = bytes[0] & first_bits[length];

	*ret = UTF8_BAD;
	if (!bytes[0])
		return 0;
	if (!length)
		return 1;
	for (size_t i = 1; i < length; i++) {
		if (!is_tail(bytes[i]))
			return 1;
		point = point << 6 | (bytes[i] & 0x3f);
	}
	if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 1;
	*ret = point;
	return length;
}

void utf8_repair(struct strbuf *buf, const char *text)
{
	uint32_t point;
	size_t length;

	for (; (length = utf8_next(text, &point)); text += length) {
		if (point == UTF8_BAD)
			strbuf_puts(buf, "\xef\xbf\xbd");
		else
			strbuf_add(buf, text, length);
	}
}

/* Format characters that hide or reorder what is shown. */
static bool is_deceptive(uint32_t point)
{
	return point == 0x61c || (point >= 0x200b && point <= 0x200f) ||
	       (point >= 0x2028 && point <= 0x202e) || (point >= 0x2060 && point <= 0x206f) ||
	       point == 0xfeff || (point >= 0xe0000 && point <= 0xe007f);
}

static size_t point_width(uint32_t point)
{
	int width = point < 0x80 ? 1 : wcwidth((wchar_t)point);

	return width < 0 ? 1 : (size_t)width;
}

static size_t escape_point(struct strbuf *buf, const char *bytes, size_t length, uint32_t point)
{
	size_t before = buf->length;

	if (point == UTF8_BAD || point < 0x20 || point == 0x7f)
		strbuf_printf(buf, "\\x%02x", (unsigned char)*bytes);
	else if ((point >= 0x80 && point < 0xa0) || is_deceptive(point))
		strbuf_printf(buf, point > 0xffff ? "\\U%08x" : "\\u%04x", point);
	else {
		strbuf_add(buf, bytes, length);
		return point_width(point);
	}
	return buf->length - before;
}

size_t utf8_escape(struct strbuf *buf, const char *text)
{
	size_t length, width = 0;
	uint32_t point;

	for (; (length = utf8_next(text, &point)); text += length)
		width += escape_point(buf, text, length, point);
	return width;
}

size_t utf8_width(const char *text)
{
	size_t length, width = 0;
	uint32_t point;

	for (; (length = utf8_next(text, &point)); text += length)
		width += point_width(point);
	return width;
}

/* The place in text after as many characters as fit into width columns. */
static const char *skip_columns(const char *text, size_t width)
{
	size_t length, used = 0;
	uint32_t point;

	for (; (length = utf8_next(text, &point)); text += length) {
		used += point_width(point);
		if (used > width)
			break;
	}
	return text;
}

void utf8_shorten(struct strbuf *buf, const char *text, size_t width, const char *mark)
{
	size_t full = utf8_width(text), mark_width = utf8_width(mark), room, head;
	const char *cut;

	if (full <= width) {
		strbuf_puts(buf, text);
		return;
	}
	if (mark_width >= width) {
		strbuf_add(buf, text, (size_t)(skip_columns(text, width) - text));
		return;
	}
	room = width - mark_width;
	head = (room + 1) / 2;
	cut = skip_columns(text, head);
	strbuf_add(buf, text, (size_t)(cut - text));
	strbuf_puts(buf, mark);
	cut = skip_columns(text, full - (room - head));
	strbuf_puts(buf, cut);
}

void utf8_cut(struct strbuf *buf, const char *text, size_t width, const char *mark)
{
	size_t mark_width = utf8_width(mark);

	if (utf8_width(text) <= width) {
		strbuf_puts(buf, text);
		return;
	}
	if (mark_width > width) {
		mark = "";
		mark_width = 0;
	}
	strbuf_add(buf, text, (size_t)(skip_columns(text, width - mark_width) - text));
	strbuf_puts(buf, mark);
}

void utf8_cut_head(struct strbuf *buf, const char *text, size_t width, const char *mark)
{
	size_t full = utf8_width(text), mark_width = utf8_width(mark);

	if (full <= width) {
		strbuf_puts(buf, text);
		return;
	}
	if (mark_width > width) {
		mark = "";
		mark_width = 0;
	}
	strbuf_puts(buf, mark);
	strbuf_puts(buf, skip_columns(text, full - (width - mark_width)));
}
