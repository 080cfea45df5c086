// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads a catalog record by record.
 *
 *	in	the records of one process
 *	out	calls to the sinks, and a table of segments
 *	owner	engine_source.c, one for each process
 *
 * 1. seen = kept + lost.
 * 2. A record of a wrong size breaks the catalog: it is not known where the next one begins. Any
 *    other fault costs one record.
 * 3. There is a table from the first record on, even if that is not the one that should come first.
 */
#include "recorder/engine/catalog.h"

#include <string.h>

/* As long as its type needs it; unknown types are not looked into. */
static size_t record_least(uint32_t type)
{
	static const size_t sizes[] = {
		[STREAM_RECORD_NONE] = sizeof(struct stream_record),
		[STREAM_RECORD_PROCESS] = sizeof(struct stream_process),
		[STREAM_RECORD_MODULE] = sizeof(struct stream_module) + 1,
		[STREAM_RECORD_SEGMENTS] = sizeof(struct stream_segments),
		[STREAM_RECORD_PARTIAL] = sizeof(struct stream_partial),
		[STREAM_RECORD_CODE] = sizeof(struct stream_code),
		[STREAM_RECORD_NATIVE] = sizeof(struct stream_native),
		[STREAM_RECORD_COUNTER] = sizeof(struct stream_counter) + 1,
		[STREAM_RECORD_MARKED] = sizeof(struct stream_marked),
		[STREAM_RECORD_EVENT] = sizeof(struct stream_event),
	};

	return type < STREAM_RECORD_TYPE_COUNT ? sizes[type] : 0;
}

static enum catalog_fault module_check(const struct stream_module *module)
{
	size_t room = module->record.size - sizeof(*module);

	return module->start < module->end && memchr(module->path, '\0', room) ? CATALOG_FINE
									       : CATALOG_RANGE;
}

static enum catalog_fault event_check(const struct stream_event *event)
{
	return event->stack_size <= event->record.size - sizeof(*event) ? CATALOG_FINE
									: CATALOG_SHORT;
}

static enum catalog_fault counter_check(const struct stream_counter *counter)
{
	size_t room = counter->record.size - sizeof(*counter);

	if (!memchr(counter->name, '\0', room) || counter->tool >= ENGINE_TOOLS_END)
		return CATALOG_COUNTER;
	return counter->index < engine_tool_row(counter->tool)->counters ? CATALOG_FINE
									 : CATALOG_COUNTER;
}

static enum catalog_fault marked_check(const struct catalog *catalog,
				       const struct stream_marked *marked)
{
	size_t room = (marked->record.size - sizeof(*marked)) / sizeof(struct stream_mark);
	const struct segment *segment;

	if (marked->count > room)
		return CATALOG_SHORT;
	/* A process may only mark its own segments; those of its parent stay as they are. */
	if (segment_table_find(catalog->table, marked->segment, &segment) != catalog->table)
		return CATALOG_NUMBER;
	return CATALOG_FINE;
}

static enum catalog_fault record_apply(struct catalog *catalog, const struct stream_record *record)
{
	switch (record->type) {
	case STREAM_RECORD_PROCESS:
		return CATALOG_ORDER;
	case STREAM_RECORD_MODULE:
		return module_check((const struct stream_module *)record);
	case STREAM_RECORD_SEGMENTS:
		return segment_table_add(catalog->table, (const struct stream_segments *)record);
	case STREAM_RECORD_PARTIAL:
		return segment_table_add_partial(catalog->table,
						 (const struct stream_partial *)record);
	case STREAM_RECORD_CODE:
		return ((const struct stream_code *)record)->length <=
				       record->size - sizeof(struct stream_code)
			       ? CATALOG_FINE
			       : CATALOG_SHORT;
	case STREAM_RECORD_NATIVE:
		return CATALOG_FINE;
	case STREAM_RECORD_COUNTER:
		return counter_check((const struct stream_counter *)record);
	case STREAM_RECORD_MARKED:
		return marked_check(catalog, (const struct stream_marked *)record);
	case STREAM_RECORD_EVENT:
		return event_check((const struct stream_event *)record);
	}
	return CATALOG_TYPE;
}

static void record_take(struct catalog *catalog, const struct catalog_handlers *handlers,
			const struct stream_record *record)
{
	uint32_t first = catalog->table ? (uint32_t)catalog->table->blocks.count : 0;
	enum catalog_fault fault = CATALOG_FINE;
	bool whole = record->size >= record_least(record->type);
	bool begins = !catalog->table && whole && record->type == STREAM_RECORD_PROCESS;

	if (!catalog->table)
		catalog->table =
			handlers->process(handlers->ctx, begins ? (const void *)record : NULL);
	if (!whole)
		fault = CATALOG_SHORT;
	else if (!begins)
		fault = record_apply(catalog, record);
	if (fault) {
		catalog->lost[fault]++;
		return;
	}
	catalog->kept++;
	handlers->record(handlers->ctx, record, first);
}

static bool size_fits(size_t size, size_t left)
{
	return size >= sizeof(struct stream_record) && size % sizeof(uint64_t) == 0 &&
	       size <= STREAM_RECORD_MAX && size <= left;
}

void catalog_parse(struct catalog *catalog, const struct catalog_handlers *handlers,
		   const void *bytes, size_t size)
{
	size_t at = 0;

	while (at < size && !catalog->broken) {
		const struct stream_record *record = (const void *)((const char *)bytes + at);

		catalog->seen++;
		if (size - at < sizeof(*record) || !size_fits(record->size, size - at)) {
			catalog->broken = true;
			catalog->lost[CATALOG_SIZE]++;
			return;
		}
		record_take(catalog, handlers, record);
		at += record->size;
	}
}

void catalog_deinit(struct catalog *catalog)
{
	segment_table_release(catalog->table);
	catalog->table = NULL;
}
