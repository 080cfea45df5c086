// SPDX-License-Identifier: BSD-2-Clause
/*
 * The tables in which engines look marks up (wire/marks.h).
 *
 *	in	marks with their ranges: of a file, of kinds of instructions, of addresses
 *	out	tables, timers, and names that programs look up, in memory shared with engines
 *	owner	struct marks: its area is filled from the beginning to the end
 *
 * Tables lie one behind the other in the shared memory and are never changed, so that no engine can
 * see half of one. A table that replaces another one is written behind it.
 */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/glob.h"
#include "marks/marks_private.h"
#include "wire/tools.h"

enum {
	NAMES_MAX = 1 << 16, /* of marks that programs can read */
	EVENT_LIMIT = 100, /* of a process, in MARKS_EVENT_TICKS */
};

static int range_compare(const void *a, const void *b)
{
	const struct mark_range *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	if (left->end != right->end)
		return left->end < right->end ? -1 : 1;
	return left->mark < right->mark ? -1 : left->mark > right->mark;
}

/* The same twice counts once: an object file has several names for one routine. */
static size_t ranges_settle(struct mark_range *ranges, size_t count)
{
	size_t kept = 0;
	uint32_t reach = 0;

	qsort(ranges, count, sizeof(*ranges), range_compare);
	for (size_t i = 0; i < count; i++)
		if (!kept || range_compare(&ranges[kept - 1], &ranges[i]))
			ranges[kept++] = ranges[i];
	for (size_t i = 0; i < kept; i++) {
		reach = ranges[i].end > reach ? ranges[i].end : reach;
		ranges[i].reach = reach;
	}
	return kept;
}

int mark_table_write(struct marks *marks, const char *what, struct ranges_list *list)
{
	size_t count = list->items.count =
		list->items.count ? ranges_settle(list->items.items, list->items.count) : 0;
	size_t data_size = list->data.count * sizeof(struct mark_data_range);
	size_t size = sizeof(struct mark_table) + count * sizeof(struct mark_range) + data_size;
	struct mark_table *table = (void *)(marks->area + marks->used);
	int place = (int)(marks->used / MARKS_UNIT);

	if (!count && !data_size)
		return 0;
	if (size > MARKS_BYTES - marks->used)
		return err_set(-ENOSPC, "there is no room for the %zu ranges that are marked in %s",
			       count, what);
	table->count = (uint32_t)count;
	table->data_count = (uint32_t)list->data.count;
	table->code_offset = list->code_offset;
	table->code_address = list->code_address;
	if (count)
		memcpy(table->ranges, list->items.items, count * sizeof(struct mark_range));
	if (data_size)
		memcpy(table->ranges + count, list->data.items, data_size);
	marks->used += size;
	return place;
}

/* --- Kinds of instructions -------------------------------------------------------------------- */

static bool code_matches(const char *pattern, enum mark_prefix prefix, const char *name)
{
	static const char *const prefixes[] = { "", "lock ", "rep ", "repe ", "repne " };
	char text[64];

	snprintf(text, sizeof(text), "%s%s", prefixes[prefix], name);
	return glob_match(pattern, text) || glob_match(pattern, name);
}

static void range_add(struct ranges_list *list, uint32_t start, uint32_t end, uint32_t number)
{
	*array_push(&list->items) = (struct mark_range){ start, end, 0, number << 1 };
	*array_push(&list->items) = (struct mark_range){ start, end, 0, number << 1 | 1 };
}

/* Neighbouring codes are one range. Returns how many codes the pattern has. */
static size_t codes_add(struct ranges_list *list, const char *pattern, uint32_t number)
{
	size_t total = 0;

	for (unsigned prefix = 0; prefix < MARK_PREFIX_COUNT; prefix++) {
		uint32_t start = 0, count = 0;

		for (uint32_t i = 1; i <= ZYDIS_MNEMONIC_MAX_VALUE + 1u; i++) {
			const char *name = i <= ZYDIS_MNEMONIC_MAX_VALUE
						   ? ZydisMnemonicGetString((ZydisMnemonic)i)
						   : NULL;

			if (name && code_matches(pattern, (enum mark_prefix)prefix, name)) {
				start = count++ ? start : mark_code((enum mark_prefix)prefix, i);
				continue;
			}
			if (count)
				range_add(list, start, start + count, number);
			total += count;
			count = 0;
		}
	}
	return total;
}

int marks_instructions_find(struct marks *marks, size_t index)
{
	const struct mark_spec *spec = &marks->specs.items[index];
	struct entry *entry = &marks->entries.items[marks->spec_numbers.items[index] - 1];

	if (spec->kind != MARK_INSTRUCTIONS)
		return 0;
	entry->places = (uint32_t)codes_add(&marks->instructions, spec->name, entry->number);
	return entry->places
		       ? 0
		       : err_set(-EINVAL, "mark '%s': no instruction has such a name", spec->text);
}

int marks_instructions_publish(struct marks *marks)
{
	struct marks_area *area = (void *)marks->area;
	int place = mark_table_write(marks, "the instructions", &marks->instructions);

	if (place >= 0)
		__atomic_store_n(&area->instructions, (uint32_t)place, __ATOMIC_RELEASE);
	return place < 0 ? place : 0;
}

/* --- Timers ----------------------------------------------------------------------------------- */

/* Ticks of the time stamp counter in a nanosecond. */
static double ticks_per_ns(void)
{
	enum { MEASURED_NS = 5000000 };
	static double known;
	uint64_t ns = clock_monotonic(), ticks = __rdtsc(), now = ns;

	if (known > 0)
		return known;
	while (now - ns < MEASURED_NS)
		now = clock_monotonic();
	known = (double)(__rdtsc() - ticks) / (double)(now - ns);
	return known;
}

static uint64_t slower_ticks(const struct mark_spec *spec)
{
	double ticks = spec->slower_ns ? (double)spec->slower * ticks_per_ns()
				       : (double)spec->slower;

	return !spec->slower ? 0 : ticks < 1 ? 1 : ticks > 1e18 ? (uint64_t)1e18 : (uint64_t)ticks;
}

/* A routine ends with the stack pointer of its beginning. Whatever lies in it may move it. */
static uint32_t timer_flags(const struct mark_spec *spec)
{
	return (spec->kind == MARK_ROUTINE ? MARK_TIMER_EXACT : 0) |
	       (spec->event && spec->slower ? MARK_TIMER_EVENT : 0);
}

bool marks_timer(struct marks *marks, uint32_t number, uint32_t *ret)
{
	struct entry *entry = &marks->entries.items[number - 1];
	const struct mark_spec *spec = &marks->specs.items[entry->spec];

	if (!entry->timer && marks->timer_count == MARK_TIMERS_MAX) {
		marks->untimed++;
		return false;
	}
	if (!entry->timer) {
		marks->timers[marks->timer_count] = (struct mark_timer){
			.slower = slower_ticks(spec), .mark = number, .flags = timer_flags(spec)
		};
		entry->timer = ++marks->timer_count;
	}
	*ret = entry->timer - 1;
	return true;
}

uint64_t marks_untimed(const struct marks *marks)
{
	return marks->untimed;
}

uint32_t marks_timed_by(const struct marks *marks, uint32_t timer)
{
	return timer < marks->timer_count ? marks->timers[timer].mark : 0;
}

static int timers_publish(struct marks *marks, struct marks_area *area)
{
	size_t size = MARK_TIMERS_MAX * sizeof(struct mark_timer);

	if (size > MARKS_BYTES - marks->used)
		return err_set(-ENOSPC, "there is no room for timers");
	area->timers = (uint32_t)(marks->used / MARKS_UNIT);
	marks->timers = (void *)(marks->area + marks->used);
	marks->used += size;
	return 0;
}

/* Those that some mark needs now. */
static uint64_t tools_needed(const struct marks *marks)
{
	uint64_t tools = ENGINE_TOOL_BIT(ENGINE_TOOL_MARKS);

	for (size_t i = 0; i < marks->specs.count; i++) {
		const struct mark_spec *spec = &marks->specs.items[i];

		if (marks_spec_removed(marks, i))
			continue;
		if (spec->timed)
			tools |= ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_TIMES);
		if (spec->kind == MARK_DATA)
			tools |= ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_DATA);
		if (spec->tail)
			tools |= ENGINE_TOOL_BIT(ENGINE_TOOL_MARK_VISITS);
	}
	return tools;
}

/* Of a mark that comes and one that goes: the share is that of the one that is there. */
void marks_tools_publish(struct marks *marks)
{
	struct marks_area *area = (void *)marks->area;

	for (size_t i = 0; i < marks->specs.count; i++)
		if (marks->specs.items[i].tail && !marks_spec_removed(marks, i))
			area->slow_permille = marks->specs.items[i].tail;
	__atomic_store_n(&area->tools, (uint32_t)tools_needed(marks), __ATOMIC_RELEASE);
}

/* --- Addresses of data ------------------------------------------------------------------------ */

int marks_addresses_publish(struct marks *marks)
{
	struct marks_area *area = (void *)marks->area;
	struct ranges_list list = {};
	int place;

	array_each(&marks->entries, entry) {
		const struct mark_spec *spec = &marks->specs.items[entry->spec];

		if (spec->kind != MARK_DATA || spec->data != MARK_DATA_ADDRESS || entry->removed)
			continue;
		*array_push(&list.data) = (struct mark_data_range){ .start = spec->first,
								    .end = spec->last,
								    .mark = entry->number,
								    .event = spec->event };
		entry->places = 1;
	}
	place = mark_table_write(marks, "the addresses", &list);
	array_deinit(&list.data);
	if (place >= 0)
		__atomic_store_n(&area->data, (uint32_t)place, __ATOMIC_RELEASE);
	return place < 0 ? place : 0;
}

/* --- Names ------------------------------------------------------------------------------------ */

void marks_name_publish(struct marks *marks, const struct entry *entry)
{
	struct mark_names *names = marks->names;
	uint32_t of = entry->spec < marks->spec_numbers.count
			      ? marks->spec_numbers.items[entry->spec]
			      : entry->number;

	if (names->count == names->room)
		return;
	names->items[names->count] =
		(struct mark_name){ mark_name_hash(entry->text), entry->number, of };
	__atomic_store_n(&names->count, names->count + 1, __ATOMIC_RELEASE);
}

static void names_publish(struct marks *marks, struct marks_area *area)
{
	area->names = (uint32_t)(marks->used / MARKS_UNIT);
	marks->names = (void *)(marks->area + marks->used);
	marks->names->room = NAMES_MAX;
	marks->used += sizeof(struct mark_names) + NAMES_MAX * sizeof(struct mark_name);
	array_each(&marks->entries, entry)
		marks_name_publish(marks, entry);
}

/* --- The beginning ---------------------------------------------------------------------------- */

static uint32_t regions_of(const struct marks *marks)
{
	uint32_t regions = 0;

	array_each(&marks->specs, spec)
		regions |= spec->starts	 ? MARK_REGIONS | MARK_REGIONS_OFF
			   : spec->stops ? MARK_REGIONS
					 : 0;
	return regions;
}

int marks_publish(struct marks *marks, void *area)
{
	struct marks_area *head = area;
	int err;

	marks->area = area;
	marks->used = sizeof(*head);
	head->asks = 1;
	head->event_limit = EVENT_LIMIT;
	head->accesses_max = marks->accesses_max;
	head->regions = regions_of(marks);
	marks_tools_publish(marks);
	names_publish(marks, head);
	err = timers_publish(marks, head);
	err = err ? err : marks_addresses_publish(marks);
	for (size_t i = 0; i < marks->specs.count && !err; i++)
		err = marks_spec_removed(marks, i) ? 0 : marks_instructions_find(marks, i);
	err = err ? err : marks_instructions_publish(marks);
	__atomic_store_n(&head->generation, 1, __ATOMIC_RELEASE);
	return err;
}
