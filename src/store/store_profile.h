/* SPDX-License-Identifier: BSD-2-Clause */
#pragma once

#include "store/profile.h"
#include "store/store.h"

/* Writes a row, or adds it to the row of the same key if it has columns that add up. */
int store_row_merge(struct store *store, enum store_table_id table, const void *row);
/*
 * Writes everything that is loaded of a profile, under the same ids; the store is new. Code is not
 * part of a profile.
 */
int store_profile_put(struct store *store, const struct profile *profile);
