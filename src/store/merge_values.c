// SPDX-License-Identifier: BSD-2-Clause
/*
 * Merges the values of one site: totals are added, moments are combined by the formula of Chan,
 * Golub and LeVeque, and lists by the caller's lists_merge(). Lists that cannot be one stay two
 * rows of the site.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "store/merge_private.h"

static void moments_unite(struct profile_value *into, const struct profile_value *from)
{
	double a = (double)into->total, b = (double)from->total, distance = from->mean - into->mean;

	into->has_moments &= from->has_moments;
	if (!into->has_moments || a + b == 0)
		return;
	if (from->minimum < into->minimum)
		into->minimum = from->minimum;
	if (from->maximum > into->maximum)
		into->maximum = from->maximum;
	into->squares += from->squares + distance * distance * a * b / (a + b);
	into->mean += distance * b / (a + b);
}

/* false: the lists cannot be one; nothing has changed. */
static bool value_unite(struct merge *merge, struct profile_value *into,
			const struct profile_value *from)
{
	uint8_t *list = mem_alloc(STORE_VALUE_LIST_MAX);
	size_t size = 0;

	if (into->total + from->total > INT64_MAX || into->runs + from->runs > INT64_MAX ||
	    merge->options->lists_merge(into->list, into->list_size, from->list, from->list_size,
					list, &size)) {
		free(list);
		return false;
	}
	moments_unite(into, from);
	into->total += from->total;
	into->runs += from->runs;
	free((void *)into->list);
	into->list = mem_realloc(list, size ? size : 1, 1);
	into->list_size = size;
	return true;
}

static uint64_t *value_place(struct merge *merge, const struct profile_value *value)
{
	struct strbuf key = {};
	uint64_t *place;

	strbuf_printf(&key, "%d:%u,%u,%u,%" PRId64 ",%u", STORE_TABLE_value, value->location,
		      value->caller, value->item, value->owner, value->width);
	place = map_at(&merge->values_by_key, strtab_add(&merge->keys, strbuf_text(&key)), NULL);
	strbuf_deinit(&key);
	return place;
}

/* Whether one of the site's rows, of which the last is at place, has taken the row in. */
static bool site_unite(struct merge *merge, uint64_t place, const struct profile_value *row)
{
	while (place) {
		struct merge_value *value = &merge->values.items[place - 1];

		if (value_unite(merge, &value->row, row))
			return true;
		place = value->other;
	}
	return false;
}

void merge_values_take(struct merge *merge, const struct part *part)
{
	for (size_t i = 0; i < part->profile->value_count; i++) {
		struct profile_value row;
		uint64_t *place;

		merge_translate(part, STORE_TABLE_value, &part->profile->values[i], &row);
		place = value_place(merge, &row);
		if (site_unite(merge, *place, &row))
			continue;
		row.list = mem_dup(row.list, row.list_size);
		*array_push(&merge->values) = (struct merge_value){ row, *place };
		*place = merge->values.count;
	}
}

int merge_values_write(struct merge *merge)
{
	int err = 0;

	for (uint32_t i = 0; i < merge->values.count && !err; i++) {
		merge->values.items[i].row.id = i + 1;
		err = store_put(merge->store, STORE_TABLE_value, &merge->values.items[i].row);
	}
	return err;
}

/* An address that is different things in different parts has no name. */
void merge_names_take(struct merge *merge, const struct part *part)
{
	for (size_t i = 0; i < part->profile->value_name_count; i++) {
		struct profile_value_name row;
		struct merge_name *known;
		uint64_t *place;

		merge_translate(part, STORE_TABLE_value_name, &part->profile->value_names[i], &row);
		place = map_at(&merge->names_by_value, row.value, NULL);
		if (!*place) {
			*array_push(&merge->names) =
				(struct merge_name){ .row = row, .text = mem_strdup(row.text) };
			*place = merge->names.count;
		}
		known = &merge->names.items[*place - 1];
		known->ambiguous |= known->row.location != row.location ||
				    strcmp(known->text, row.text) != 0;
	}
}

int merge_names_write(struct merge *merge)
{
	int err = 0;

	array_each(&merge->names, name) {
		name->row.text = name->text;
		if (!err && !name->ambiguous)
			err = store_put(merge->store, STORE_TABLE_value_name, &name->row);
	}
	return err;
}
