/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scope cleanup for host code: a variable declared with AUTO(type_fn) is released when its scope
 * ends.
 *
 *	AUTO(free_ptr) char *path = NULL;
 *	AUTO(close_fd) int fd = -1;
 *
 * take_ptr() and take_fd() hand the resource on and disarm the cleanup.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AUTO(fn) __attribute__((cleanup(fn)))

static inline void free_ptr(void *slot)
{
	free(*(void **)slot);
}

static inline void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void close_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

/* Defines name_cleanup() for AUTO() from a destructor that takes the pointer. */
#define DEFINE_AUTO(type, destroy)                                                                 \
	static inline void destroy##_auto(type **slot)                                             \
	{                                                                                          \
		if (*slot)                                                                         \
			destroy(*slot);                                                            \
	}

#define take_ptr(slot)                                                                             \
	({                                                                                         \
		__auto_type taken_ = (slot);                                                       \
		(slot) = NULL;                                                                     \
		taken_;                                                                            \
	})

#define take_fd(slot)                                                                              \
	({                                                                                         \
		int taken_ = (slot);                                                               \
		(slot) = -1;                                                                       \
		taken_;                                                                            \
	})
