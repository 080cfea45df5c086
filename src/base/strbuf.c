// SPDX-License-Identifier: BSD-2-Clause
#include "base/strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void strbuf_deinit(struct strbuf *buf)
{
	free(buf->text);
	memset(buf, 0, sizeof(*buf));
}

static void strbuf_reserve(struct strbuf *buf, size_t more)
{
	size_t wanted = buf->length + more + 1;

	if (wanted <= buf->capacity)
		return;
	buf->capacity = wanted > buf->capacity * 2 ? wanted : buf->capacity * 2;
	buf->text = mem_realloc(buf->text, buf->capacity, 1);
}

void strbuf_add(struct strbuf *buf, const void *data, size_t size)
{
	strbuf_reserve(buf, size);
	if (size)
		memcpy(buf->text + buf->length, data, size);
	buf->length += size;
	buf->text[buf->length] = '\0';
}

void strbuf_puts(struct strbuf *buf, const char *text)
{
	strbuf_add(buf, text, strlen(text));
}

void strbuf_putc(struct strbuf *buf, char c)
{
	strbuf_add(buf, &c, 1);
}

void strbuf_printf(struct strbuf *buf, const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0)
		return;
	strbuf_reserve(buf, (size_t)length);
	va_start(args, format);
	vsnprintf(buf->text + buf->length, (size_t)length + 1, format, args);
	va_end(args);
	buf->length += (size_t)length;
}

const char *strbuf_text(const struct strbuf *buf)
{
	return buf->text ? buf->text : "";
}
