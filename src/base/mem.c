// SPDX-License-Identifier: BSD-2-Clause
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_die(void *memory)
{
	if (memory)
		return memory;
	fputs("assay: out of memory\n", stderr);
	exit(1);
}

void *mem_alloc(size_t size)
{
	return or_die(malloc(size ? size : 1));
}

void *mem_zalloc(size_t size)
{
	return or_die(calloc(1, size ? size : 1));
}

void *mem_alloc_aligned(size_t size, size_t alignment)
{
	return or_die(aligned_alloc(alignment, size));
}

void *mem_zalloc_aligned(size_t size, size_t alignment)
{
	return memset(mem_alloc_aligned(size, alignment), 0, size);
}

void *mem_realloc(void *old, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX)
		or_die(NULL);
	return or_die(realloc(old, bytes ? bytes : 1));
}

void *mem_dup(const void *data, size_t size)
{
	void *copy = mem_alloc(size);

	if (size)
		memcpy(copy, data, size);
	return copy;
}

char *mem_strdup(const char *text)
{
	return mem_dup(text, strlen(text) + 1);
}

char *mem_strndup(const char *text, size_t max)
{
	size_t length = strnlen(text, max);
	char *copy = mem_alloc(length + 1);

	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

char *mem_printf(const char *format, ...)
{
	va_list args;
	char *text = NULL;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return or_die(text);
}
