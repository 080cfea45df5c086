// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads the tables of values. What a list holds is for hotlist_decode() to judge; here it is bytes,
 * and not too many.
 *
 * Rows are read in the order of their keys, as profile_reader.c wants them, and brought into the
 * order that profile.h promises afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include "store/container.h"
#include "store/profile_reader.h"

enum { WIDTH_MAX = 64 };

/* From 1 on. */
static unsigned size_read(struct reader *reader, int column, unsigned max)
{
	unsigned size = (unsigned)reader_number(reader, column, max);

	if (size == 0)
		reader_wrong(reader, "a number is out of range");
	return size;
}

/* 0 for NULL. */
static uint32_t optional_location(struct reader *reader, int column)
{
	struct profile *p = reader->profile;

	return reader_is_null(reader, column)
		       ? 0
		       : reader_reference(reader, column, p->locations, p->location_count, module);
}

static void value_item_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	uint32_t id = reader_id(reader);
	struct profile_value_item *item = entry_at(p->value_items, p->value_item_count, id);

	item->text = reader_text(reader, 1);
	item->class = reader_text(reader, 2);
	item->words = size_read(reader, 3, STORE_VALUE_WORDS_MAX);
}

/* In the columns from `first` on; either all of them are there or none. */
static void moments_read(struct reader *reader, int first, struct profile_value *value)
{
	int missing = 0;

	for (int i = 0; i < 4; i++)
		missing += reader_is_null(reader, first + i);
	if (missing == 4)
		return;
	value->has_moments = true;
	value->minimum = (int64_t)reader_bits(reader, first);
	value->maximum = (int64_t)reader_bits(reader, first + 1);
	value->mean = reader_real(reader, first + 2);
	value->squares = reader_real(reader, first + 3);
	if (value->minimum > value->maximum || value->squares < 0)
		reader_wrong(reader, "a range is empty");
}

static void value_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_value *value = entry_at(p->values, p->value_count, p->value_count);

	reader_key_check(reader, reader_number32(reader, 0), 0);
	value->location = reader_reference(reader, 1, p->locations, p->location_count, module);
	value->caller = optional_location(reader, 2);
	value->item = reader_reference(reader, 3, p->value_items, p->value_item_count, text);
	value->owner = reader_user_id(reader, 4);
	value->width = size_read(reader, 5, WIDTH_MAX);
	value->total = reader_count(reader, 6);
	value->runs = reader_count(reader, 7);
	reader_sum(reader, 0, value->total);
	reader_sum(reader, 1, value->runs);
	moments_read(reader, 8, value);
	value->list = reader_blob(reader, 12, STORE_VALUE_LIST_MAX, &value->list_size);
}

static void run_end_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_run_end *end = entry_at(p->run_ends, p->run_end_count, p->run_end_count);
	int order = -1;

	end->reason = reader_text(reader, 0);
	end->mnemonic = reader_text(reader, 1);
	end->text = reader_text(reader, 2);
	end->count = reader_count(reader, 3);
	reader_sum(reader, 0, end->count);
	if (reader->rows > 1)
		order = strcmp(end[-1].reason, end->reason);
	if (order > 0 || (order == 0 && strcmp(end[-1].mnemonic, end->mnemonic) >= 0))
		reader_wrong(reader, "rows are out of order");
}

static void run_loss_read(struct reader *reader)
{
	struct profile *p = reader->profile;

	reader_named_count(reader, &p->run_losses, &p->run_loss_count);
	reader_sum(reader, 0, p->run_losses[p->run_loss_count - 1].count);
}

/* The file has them in the order of signed numbers. */
static void value_name_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_value_name *name =
		entry_at(p->value_names, p->value_name_count, p->value_name_count);

	name->value = reader_bits(reader, 0);
	name->location = optional_location(reader, 1);
	name->text = reader_optional_text(reader, 2);
	reader_key_check(reader, name->value ^ (uint64_t)INT64_MIN, 0);
}

static void parameter_read(struct reader *reader)
{
	struct profile *p = reader->profile;
	struct profile_parameter *parameter =
		entry_at(p->parameters, p->parameter_count, p->parameter_count);

	parameter->symbol = reader_reference(reader, 0, p->symbols, p->symbol_count, name);
	parameter->argument = (unsigned)reader_number(reader, 1, STORE_ARGUMENTS - 1);
	parameter->name = reader_text(reader, 2);
	parameter->type = reader_text(reader, 3);
	parameter->encoding = reader_text(reader, 4);
	parameter->size = reader_number32(reader, 5);
	reader_key_check(reader, parameter->symbol, parameter->argument);
}

/* As TABLES in profile.c. */
#define VALUE_TABLES(X)                                                                            \
	X(value_item, "select id, text, class, words from value_item not indexed order by id")     \
	X(value, "select id, location, caller, item, owner, width, total, runs, minimum, "         \
		 "maximum, mean, squares, list from value not indexed order by id")                \
	X(run_end, "select reason, mnemonic, text, count "                                         \
		   "from run_end not indexed order by reason, mnemonic")                           \
	X(run_loss, "select reason, text, count from run_loss not indexed "                        \
		    "where count <> 0 order by reason")                                            \
	X(value_name, "select value, location, text from value_name not indexed order by value")   \
	X(parameter, "select symbol, argument, name, type, encoding, size "                        \
		     "from parameter not indexed order by symbol, argument")

#define compare(a, b) (((a) > (b)) - ((a) < (b)))

static int value_compare(const void *left, const void *right)
{
	const struct profile_value *a = left, *b = right;

	if (a->location != b->location)
		return compare(a->location, b->location);
	if (a->item != b->item)
		return compare(a->item, b->item);
	if (a->caller != b->caller)
		return compare(a->caller, b->caller);
	return compare(a->owner, b->owner);
}

static int run_end_compare(const void *left, const void *right)
{
	const struct profile_run_end *a = left, *b = right;
	int order = compare(b->count, a->count);

	order = order ? order : strcmp(a->reason, b->reason);
	return order ? order : strcmp(a->mnemonic, b->mnemonic);
}

static int value_name_compare(const void *left, const void *right)
{
	const struct profile_value_name *a = left, *b = right;

	return compare(a->value, b->value);
}

/* An empty array is NULL, which qsort() may not be given. */
static void sort(void *array, size_t count, size_t size, int (*order)(const void *, const void *))
{
	if (count)
		qsort(array, count, size, order);
}

int reader_values(struct reader *reader)
{
	static const struct reader_table tables[] = {
#define X(name, sql) { #name, sql, name##_read },
		VALUE_TABLES(X)
#undef X
	};
	struct profile *p = reader->profile;
	int err = reader_tables(reader, tables, sizeof(tables) / sizeof(*tables));

	if (err)
		return err;
	sort(p->values, p->value_count, sizeof(*p->values), value_compare);
	sort(p->run_ends, p->run_end_count, sizeof(*p->run_ends), run_end_compare);
	sort(p->value_names, p->value_name_count, sizeof(*p->value_names), value_name_compare);
	return 0;
}
