// SPDX-License-Identifier: BSD-2-Clause
/* Writes a profile that is in memory: every row of every table that is loaded. */
#include "store/store_profile.h"

#define field(base, offset, type) (*(const type *)((const char *)(base) + (offset)))

/* meta is the store's own; recent was added to samples; store_finish() makes what is derived. */
static bool is_written(enum store_table_id table)
{
	return table != STORE_TABLE_meta && table != STORE_TABLE_recent &&
	       store_tables[table].domain != DOMAIN_DERIVED;
}

static bool has_sums(const struct store_table *table)
{
	for (const struct store_column *column = table->columns(); column->name; column++)
		if (column->type == STORE_SUM)
			return true;
	return false;
}

int store_row_merge(struct store *store, enum store_table_id which, const void *row)
{
	const struct store_table *table = &store_tables[which];

	return table->style == STORE_KEYED && has_sums(table) ? store_add(store, which, row)
							      : store_put(store, which, row);
}

static int rows_put(struct store *store, const struct profile *profile, enum store_table_id which)
{
	const struct store_table *table = &store_tables[which];
	const char *rows = field(profile, table->array, const char *);
	size_t count = field(profile, table->array_count, size_t);
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		const char *row = rows + i * table->row_size;

		/* Entry 0, and ids that were not given. */
		if (store_style_has_ids(table->style) &&
		    !field(row, table->columns()->offset, uint32_t))
			continue;
		err = store_row_merge(store, which, row);
	}
	return err;
}

int store_profile_put(struct store *store, const struct profile *profile)
{
	int err = 0;

	for (int i = 0; i < STORE_TABLE_COUNT && !err; i++)
		if (is_written((enum store_table_id)i))
			err = rows_put(store, profile, (enum store_table_id)i);
	return err;
}
