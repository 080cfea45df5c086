/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names come from processes, files and symbol tables: any bytes at all. Here they become text that
 * is safe where it goes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

/*
 * The code point at text and its length in bytes. Bytes that are not UTF-8 (overlong forms and
 * surrogates included) give length 1 and UTF8_BAD. At the end of the text the length is 0.
 */
enum { UTF8_BAD = UINT32_MAX };
size_t utf8_next(const char *text, uint32_t *ret);

/* Appends valid UTF-8: bad bytes become U+FFFD. */
void utf8_repair(struct strbuf *buf, const char *text);
/*
 * Appends text for a terminal: bad bytes, control characters (escape sequences, line feeds) and
 * those that change the direction of what follows become visible \x1b or \u202e. Returns the number
 * of terminal columns.
 */
size_t utf8_escape(struct strbuf *buf, const char *text);
/* Columns of text that went through utf8_escape(). */
size_t utf8_width(const char *text);
/*
 * Appends at most width columns of such text, leaving out the middle for the mark when it is
 * longer.
 */
void utf8_shorten(struct strbuf *buf, const char *text, size_t width, const char *mark);
/* The same, leaving out the end. */
void utf8_cut(struct strbuf *buf, const char *text, size_t width, const char *mark);
/* The same, leaving out the beginning. */
void utf8_cut_head(struct strbuf *buf, const char *text, size_t width, const char *mark);
