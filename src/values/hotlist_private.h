/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of hotlists: their entries. An entry is count, first, the words of the value,
 * and in space-saving lists how much of the count was counted for others.
 */
#pragma once

#include <assert.h>

#include "values/hotlist.h"

enum { ENTRY_COUNT, ENTRY_FIRST, ENTRY_WORDS };

static inline size_t entry_size(const struct hotlist *list)
{
	return ENTRY_WORDS + (size_t)list->words + (list->kind == HOTLIST_SPACE_SAVING);
}

static inline uint64_t *entry_at(const struct hotlist *list, size_t index)
{
	return list->entries + index * entry_size(list);
}

/* Space-saving lists only. */
static inline uint64_t *entry_foreign(const struct hotlist *list, uint64_t *entry)
{
	return entry + ENTRY_WORDS + list->words;
}

/* Returns the entry's index, or list->count. */
size_t hotlist_find(const struct hotlist *list, const uint64_t *words);
/* Adds a new last entry, without regard to size and order. */
void hotlist_append(struct hotlist *list, const uint64_t *words, uint64_t count, uint64_t first);
/* Makes room for so many entries, at least as many as are in use. */
void hotlist_room_set(struct hotlist *list, size_t room);
/* Removes entries whose count is 0 and puts the others in order; equal counts keep theirs. */
void hotlist_tidy(struct hotlist *list);
/* Divides p and what it stands for, where ratio < 1 is the new p against the old. */
void hotlist_thin(struct hotlist *list, double ratio);
/* Lowers p until the entries fit. */
void hotlist_evict(struct hotlist *list);
/*
 * Switches between concise and counting samples: converts the counts to what the other method means
 * by them.
 */
void hotlist_switch(struct hotlist *list, bool concise);
