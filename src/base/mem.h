/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host allocation. Running out of memory in the host ends the command with a message: no caller
 * could do better, and the profile on disk is whole up to its last transaction.
 */
#pragma once

#include <stddef.h>

void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *mem_zalloc(size_t size) __attribute__((malloc, returns_nonnull));
/* alignment is a power of two that divides size. */
void *mem_alloc_aligned(size_t size, size_t alignment) __attribute__((malloc, returns_nonnull));
void *mem_zalloc_aligned(size_t size, size_t alignment) __attribute__((malloc, returns_nonnull));
/* count * size is checked for overflow. */
void *mem_realloc(void *old, size_t count, size_t size) __attribute__((returns_nonnull));
void *mem_dup(const void *data, size_t size) __attribute__((returns_nonnull));
char *mem_strdup(const char *text) __attribute__((returns_nonnull));
char *mem_strndup(const char *text, size_t max) __attribute__((returns_nonnull));
char *mem_printf(const char *format, ...) __attribute__((returns_nonnull, format(printf, 1, 2)));
