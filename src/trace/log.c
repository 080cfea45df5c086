// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads a log record by record.
 *
 * 1. seen = kept + lost.
 * 2. A record of a wrong size breaks the log: nobody knows where the next one begins. Any other fault costs one record.
 * 3. There is a table from the first record on, even if that is not the one that should come first.
 */
#include "trace/log.h"

#include <string.h>

/* As long as its type needs it; unknown types are not looked into. */
static size_t record_least(uint32_t type)
{
	static const size_t sizes[] = {
		[STREAM_RECORD_NONE] = sizeof(struct stream_record),
		[STREAM_RECORD_PROCESS] = sizeof(struct stream_process),
		[STREAM_RECORD_MODULE] = sizeof(struct stream_module) + 1,
		[STREAM_RECORD_RUNS] = sizeof(struct stream_runs),
		[STREAM_RECORD_PARTIAL] = sizeof(struct stream_partial),
		[STREAM_RECORD_CODE] = sizeof(struct stream_code),
		[STREAM_RECORD_NATIVE] = sizeof(struct stream_native),
	};

	return type < STREAM_RECORD_TYPE_COUNT ? sizes[type] : 0;
}

static enum log_fault module_check(const struct stream_module *module)
{
	size_t room = module->record.size - sizeof(*module);

	return module->start < module->end && memchr(module->path, '\0', room) ? LOG_FINE
									       : LOG_RANGE;
}

static enum log_fault record_apply(struct log *log, const struct stream_record *record)
{
	switch (record->type) {
	case STREAM_RECORD_PROCESS:
		return LOG_ORDER;
	case STREAM_RECORD_MODULE:
		return module_check((const struct stream_module *)record);
	case STREAM_RECORD_RUNS:
		return runtable_add_runs(log->table, (const struct stream_runs *)record);
	case STREAM_RECORD_PARTIAL:
		return runtable_add_partial(log->table, (const struct stream_partial *)record);
	case STREAM_RECORD_CODE:
		return ((const struct stream_code *)record)->length <=
				       record->size - sizeof(struct stream_code)
			       ? LOG_FINE
			       : LOG_SHORT;
	case STREAM_RECORD_NATIVE:
		return LOG_FINE;
	}
	return LOG_TYPE;
}

static void record_take(struct log *log, const struct log_handlers *handlers,
			const struct stream_record *record)
{
	uint32_t first = log->table ? (uint32_t)log->table->pieces.count : 0;
	enum log_fault fault = LOG_FINE;
	bool whole = record->size >= record_least(record->type);
	bool begins = !log->table && whole && record->type == STREAM_RECORD_PROCESS;

	if (!log->table)
		log->table = handlers->process(handlers->ctx, begins ? (const void *)record : NULL);
	if (!whole)
		fault = LOG_SHORT;
	else if (!begins)
		fault = record_apply(log, record);
	if (fault) {
		log->lost[fault]++;
		return;
	}
	log->kept++;
	handlers->record(handlers->ctx, record, first);
}

static bool size_fits(size_t size, size_t left)
{
	return size >= sizeof(struct stream_record) && size % sizeof(uint64_t) == 0 &&
	       size <= STREAM_RECORD_MAX && size <= left;
}

void log_parse(struct log *log, const struct log_handlers *handlers, const void *bytes, size_t size)
{
	size_t at = 0;

	while (at < size && !log->broken) {
		const struct stream_record *record = (const void *)((const char *)bytes + at);

		log->seen++;
		if (size - at < sizeof(*record) || !size_fits(record->size, size - at)) {
			log->broken = true;
			log->lost[LOG_SIZE]++;
			return;
		}
		record_take(log, handlers, record);
		at += record->size;
	}
}

void log_deinit(struct log *log)
{
	runtable_release(log->table);
	log->table = NULL;
}
