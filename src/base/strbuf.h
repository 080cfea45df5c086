/* SPDX-License-Identifier: BSD-2-Clause */
/* A growing string, always NUL-terminated; the length excludes the NUL. */
#pragma once

#include <stddef.h>

struct strbuf {
	char *text;
	size_t length;
	size_t capacity;
};

void strbuf_deinit(struct strbuf *buf);
void strbuf_add(struct strbuf *buf, const void *data, size_t size);
void strbuf_puts(struct strbuf *buf, const char *text);
void strbuf_putc(struct strbuf *buf, char c);
void strbuf_printf(struct strbuf *buf, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The string, "" while empty. */
const char *strbuf_text(const struct strbuf *buf);
