/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sites: what values are kept by. A site is a place in the code, what is captured there, the call
 * site where that is wanted, and whose data it is.
 *
 *	site_table_begin(table, run, process);
 *	value = site_table_add(table, &key, hint);	as often as there are values
 *	site_table_settle(table);		before a hint goes away
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/ids.h"
#include "recorder/pointers.h"
#include "values/selection.h"
#include "store/store.h"

#define SITE_OWNER_KERNEL (-1)

struct site_key {
	struct location_id location, caller;
	uint32_t item;
	int64_t owner;
};

/* A value on its way. */
struct site_value {
	struct site_key key;
	/* Remembers a site for the next value of its kind; any number may be there, 0 for none. */
	uint32_t *hint;
	unsigned width;
	uint64_t words[HOTLIST_WORDS_MAX];
};

struct site_table_options {
	const struct selection *selection;
	struct hotlist_config list; /* kind and size */
	size_t max_sites;
};

struct site_table;

void site_table_create(const struct site_table_options *options, struct site_table **ret);
void site_table_destroy(struct site_table *table);
DEFINE_AUTO(struct site_table, site_table_destroy)

/*
 * Whose values come next. run: a number that differs from run to run; process: 0 if its mappings
 * are not known.
 */
void site_table_begin(struct site_table *table, uint64_t run, struct process_id process);
/*
 * The value's width and words are the caller's to set, before the next call. Its hint may be used
 * until site_table_settle().
 */
struct site_value *site_table_add(struct site_table *table, const struct site_key *key,
				  uint32_t *hint);
/* Puts what was added into the lists. */
void site_table_settle(struct site_table *table);

/* Values added, and those that a site was found for. */
uint64_t site_table_seen(const struct site_table *table);
uint64_t site_table_kept(const struct site_table *table);

/* Writes what changed since the last time. */
int site_table_flush(struct site_table *table, struct store *store);
/* Names the frequent values that are addresses. */
void site_table_name(struct site_table *table, struct pointers *pointers);
/*
 * Looks for the texts that arguments point to, at some of the sites that changed since they were
 * last written: as many as cost next to nothing. Before site_table_flush().
 */
void site_table_texts(struct site_table *table, struct pointers *pointers);
