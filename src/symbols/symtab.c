// SPDX-License-Identifier: BSD-2-Clause
/*
 * A symbol table with one name per start address.
 *
 * Object files give many names to one address (aliases, versions, weak defaults), sizes that are
 * missing (hand-written assembly) and ranges that nest. symtab_finish() sorts the names of each
 * address best first and keeps the first: a size is better than none, then the rank, fewer leading
 * underscores, the longer name, the alphabet. perf decides in the same order, so both print the
 * same names.
 *
 * 1. After symtab_finish() each start address is in at most one of the two range lists.
 * 2. An unsized range ends where the next symbol or border begins, and begins outside all sized
 *    ranges.
 * 3. names begins with a NUL, so that offset 0 is no name.
 */
#include "symbols/symtab.h"

#include <string.h>

enum { PAGE = 4096 };

void symtab_deinit(struct symtab *table)
{
	array_deinit(&table->entries);
	strbuf_deinit(&table->names);
	ranges_deinit(&table->sized);
	ranges_deinit(&table->unsized);
}

void symtab_add(struct symtab *table, const struct symtab_entry *entry, const char *name)
{
	struct symtab_entry *added;

	if (table->names.length == 0)
		strbuf_putc(&table->names, '\0');
	if (table->names.length > UINT32_MAX)
		return;
	added = array_push(&table->entries);
	*added = *entry;
	added->name = (uint32_t)table->names.length;
	strbuf_add(&table->names, name, strlen(name) + 1);
}

void symtab_border(struct symtab *table, uint64_t address)
{
	*array_push(&table->entries) = (struct symtab_entry){ .start = address, .rank = UINT8_MAX };
}

static int name_compare(const char *a, const char *b)
{
	size_t under_a = strspn(a, "_"), under_b = strspn(b, "_");
	size_t length_a = strlen(a), length_b = strlen(b);

	if (under_a != under_b)
		return under_a < under_b ? -1 : 1;
	if (length_a != length_b)
		return length_a > length_b ? -1 : 1;
	return strcmp(a, b);
}

static int entry_compare(const void *left, const void *right, void *names)
{
	const struct symtab_entry *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (!a->size != !b->size)
		return a->size ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (!a->name || !b->name)
		return 0;
	return name_compare((char *)names + a->name, (char *)names + b->name);
}

static uint64_t end_of(const struct symtab_entry *entry)
{
	uint64_t end = entry->start + entry->size;

	return end < entry->start ? UINT64_MAX : end;
}

void symtab_finish(struct symtab *table)
{
	struct symtab_entry *items = table->entries.items;
	uint64_t covered = 0; /* end of the sized ranges so far */
	size_t next;

	if (table->entries.count == 0)
		return;
	qsort_r(items, table->entries.count, sizeof(*items), entry_compare, table->names.text);
	for (size_t i = 0; i < table->entries.count; i = next) {
		uint64_t end = (items[i].start | (PAGE - 1)) + 1;

		for (next = i + 1;
		     next < table->entries.count && items[next].start == items[i].start;)
			next++;
		if (next < table->entries.count)
			end = items[next].start;
		if (!items[i].name)
			continue;
		if (items[i].size) {
			ranges_add(&table->sized, items[i].start, end_of(&items[i]), (uint32_t)i);
			covered = end_of(&items[i]) > covered ? end_of(&items[i]) : covered;
		} else if (items[i].start >= covered) {
			ranges_add(&table->unsized, items[i].start, end, (uint32_t)i);
		}
	}
	ranges_sort(&table->sized);
	ranges_sort(&table->unsized);
}

static bool hit(const struct symtab *table, const struct range *range, struct symtab_hit *ret)
{
	const struct symtab_entry *entry;

	if (!range)
		return false;
	entry = &table->entries.items[range->value];
	*ret = (struct symtab_hit){
		.start = range->start,
		.size = range->end - range->start,
		.name = table->names.text + entry->name,
		.tag = entry->tag,
	};
	return true;
}

bool symtab_find(const struct symtab *table, uint64_t address, struct symtab_hit *ret)
{
	return hit(table, ranges_find(&table->sized, address, NULL), ret);
}

bool symtab_find_unsized(const struct symtab *table, uint64_t address, struct symtab_hit *ret)
{
	return hit(table, ranges_find(&table->unsized, address, NULL), ret);
}

static size_t entries_before(const struct symtab *table, uint64_t start)
{
	size_t low = 0, high = table->entries.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->entries.items[middle].start < start)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const char *symtab_alias(const struct symtab *table, uint64_t start, const char *name)
{
	for (size_t i = entries_before(table, start); i < table->entries.count; i++) {
		const struct symtab_entry *entry = &table->entries.items[i];

		if (entry->start != start)
			break;
		if (entry->name && strcmp(table->names.text + entry->name, name) == 0)
			return table->names.text + entry->name;
	}
	return NULL;
}
