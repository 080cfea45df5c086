/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Growable arrays.
 *
 *	ARRAY(struct row) rows = {};
 *	*array_push(&rows) = (struct row){...};
 *	array_each(&rows, row) row->count++;
 *	array_deinit(&rows);
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define ARRAY(type)                                                                                \
	struct {                                                                                   \
		type *items;                                                                       \
		size_t count;                                                                      \
		size_t capacity;                                                                   \
	}

#define array_reserve(array, wanted)                                                               \
	do {                                                                                       \
		size_t wanted_ = (wanted);                                                         \
		if (wanted_ > (array)->capacity) {                                                 \
			size_t grown_ = (array)->capacity * 2;                                     \
			(array)->capacity = wanted_ > grown_ ? wanted_ : grown_;                   \
			if ((array)->capacity < 8)                                                 \
				(array)->capacity = 8;                                             \
			(array)->items = mem_realloc((array)->items, (array)->capacity,            \
						     sizeof(*(array)->items));                     \
		}                                                                                  \
	} while (0)

/* The address of a new last element, not initialised. */
#define array_push(array)                                                                          \
	({                                                                                         \
		array_reserve((array), (array)->count + 1);                                        \
		&(array)->items[(array)->count++];                                                 \
	})

#define array_each(array, it)                                                                      \
	for (__typeof__((array)->items + 0) it = (array)->items;                                   \
	     it && it < (array)->items + (array)->count; it++)

#define array_deinit(array)                                                                        \
	do {                                                                                       \
		free((array)->items);                                                              \
		memset((array), 0, sizeof(*(array)));                                              \
	} while (0)
