// SPDX-License-Identifier: BSD-2-Clause
/*
 * Any bytes as the catalog of a process: what is believed is sound, and all records are kept or
 * lost.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/engine/catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHECKED = 3000 }; /* segments of a table */

static void must(bool ok)
{
	if (!ok)
		abort();
}

static struct segment_table *on_process(void *ctx, const struct stream_process *record)
{
	return segment_table_create(ctx, record ? record->inherited : 0);
}

static void on_record(void *ctx, const struct stream_record *record, uint32_t first)
{
	must(record->size >= sizeof(*record) && record->type < STREAM_RECORD_TYPE_COUNT);
}

static void segment_check(const struct segment_table *segments, uint32_t number)
{
	const struct segment *segment;
	const struct segment_table *table = segment_table_find(segments, number, &segment);

	must(table || number == 0 || segment_table_has_gaps(segments));
	for (uint32_t i = 0; table && i <= segment->whole; i++) {
		const struct stream_block *block = &table->blocks.items[segment_block(segment, i)];

		must(segment_block(segment, i) < table->blocks.count);
		must(block->instructions <= STREAM_BLOCK_INSTRUCTIONS_MAX &&
		     block->instructions <= block->length);
	}
}

static void catalog_check(const struct catalog *catalog)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < CATALOG_FAULT_COUNT; i++)
		lost += catalog->lost[i];
	must(catalog->seen == catalog->kept + lost);
	must(!catalog->table || catalog->table->marks.count == catalog->table->blocks.count);
	for (uint32_t i = 0;
	     catalog->table && i < segment_table_limit(catalog->table) && i < CHECKED; i++)
		segment_check(catalog->table, i);
}

static void catalog_read(struct catalog *catalog, struct segment_table *parent, const uint8_t *data,
			 size_t size)
{
	const struct catalog_handlers handlers = { on_process, on_record, parent };
	void *bytes = malloc(size + 1); /* aligned, and just as long */

	memcpy(bytes, data, size);
	catalog_parse(catalog, &handlers, bytes, size);
	free(bytes);
	catalog_check(catalog);
}

/* A parent and its child. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 16 * 8;
	struct catalog parent = {}, child = {};

	catalog_read(&parent, NULL, data, half);
	catalog_read(&child, parent.table, data + half, size - half);
	catalog_deinit(&parent);
	catalog_check(&child);
	catalog_deinit(&child);
	return 0;
}
