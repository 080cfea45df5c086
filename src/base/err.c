// SPDX-License-Identifier: BSD-2-Clause
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERR_TEXT_MAX = 2048 };

static _Thread_local char last_text[ERR_TEXT_MAX];

int err_set_at(int code, const char *format, ...)
{
	char text[ERR_TEXT_MAX]; /* the arguments may point into last_text */
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memcpy(last_text, text, sizeof(last_text));
	return code;
}

int err_wrap(int code, const char *format, ...)
{
	char text[ERR_TEXT_MAX];
	va_list args;
	size_t length, inner;

	va_start(args, format);
	vsnprintf(text, sizeof(text) - 2, format, args);
	va_end(args);
	length = strlen(text);
	memcpy(text + length, ": ", 2);
	length += 2;
	inner = strnlen(last_text, sizeof(text) - length - 1);
	memcpy(text + length, last_text, inner);
	text[length + inner] = '\0';
	memcpy(last_text, text, sizeof(last_text));
	return code;
}

const char *err_text(void)
{
	return last_text;
}
