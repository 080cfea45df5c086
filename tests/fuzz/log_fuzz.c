// SPDX-License-Identifier: BSD-2-Clause
/* Any bytes as the log of a process: what is believed is sound, and all records are kept or lost. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHECKED = 3000 }; /* runs of a table */

static void must(bool ok)
{
	if (!ok)
		abort();
}

static struct runtable *on_process(void *ctx, const struct stream_process *record)
{
	return runtable_create(ctx, record ? record->inherited : 0);
}

static void on_record(void *ctx, const struct stream_record *record, uint32_t first)
{
	must(record->size >= sizeof(*record) && record->type < STREAM_RECORD_TYPE_COUNT);
}

static void run_check(const struct runtable *runs, uint32_t number)
{
	const struct runtable_run *run;
	const struct runtable *table = runtable_find(runs, number, &run);

	must(table || number == 0 || runtable_has_gaps(runs));
	for (uint32_t i = 0; table && i <= run->whole; i++) {
		const struct stream_piece *piece = &table->pieces.items[runtable_piece(run, i)];

		must(runtable_piece(run, i) < table->pieces.count);
		must(piece->instructions <= STREAM_BLOCK_MAX &&
		     piece->instructions <= piece->length);
	}
}

static void log_check(const struct log *log)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < LOG_FAULT_COUNT; i++)
		lost += log->lost[i];
	must(log->seen == log->kept + lost);
	must(!log->table || log->table->marks.count == log->table->pieces.count);
	for (uint32_t i = 0; log->table && i < runtable_limit(log->table) && i < CHECKED; i++)
		run_check(log->table, i);
}

static void log_read(struct log *log, struct runtable *parent, const uint8_t *data, size_t size)
{
	const struct log_handlers handlers = { on_process, on_record, parent };
	void *bytes = malloc(size + 1); /* aligned, and just as long */

	memcpy(bytes, data, size);
	log_parse(log, &handlers, bytes, size);
	free(bytes);
	log_check(log);
}

/* A parent and its child. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t half = size / 16 * 8;
	struct log parent = {}, child = {};

	log_read(&parent, NULL, data, half);
	log_read(&child, parent.table, data + half, size - half);
	log_deinit(&parent);
	log_check(&child);
	log_deinit(&child);
	return 0;
}
