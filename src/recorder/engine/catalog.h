/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The catalog of a process: records in, a table of segments and calls of handlers out. Every field
 * of a record is checked.
 */
#pragma once

#include "recorder/engine/segment_table.h"

struct catalog_handlers {
	/*
	 * The first record of the catalog; NULL if another came first. Returns the process's table,
	 * which the catalog then holds.
	 */
	struct segment_table *(*process)(void *ctx, const struct stream_process *record);
	/* A record that is right and has been applied; first: of the blocks that it added. */
	void (*record)(void *ctx, const struct stream_record *record, uint32_t first);
	void *ctx;
};

struct catalog {
	struct segment_table *table; /* NULL until the first record */
	bool broken; /* what comes cannot be read */
	uint64_t seen; /* records; of a broken catalog the rest is one */
	uint64_t kept;
	uint64_t lost[CATALOG_FAULT_COUNT];
};

/*
 * bytes: private memory, aligned to 8. Records are whole: what is left over at the end is a fault.
 */
void catalog_parse(struct catalog *catalog, const struct catalog_handlers *handlers,
		   const void *bytes, size_t size);
void catalog_deinit(struct catalog *catalog);
