/* SPDX-License-Identifier: BSD-2-Clause */
/* The log of a process: records in, a table of runs and calls to who wants to know out. Nothing in a log is believed unchecked. */
#pragma once

#include "trace/runtable.h"

struct log_handlers {
	/* The first record of the log; NULL if another came first. Returns the process's table, which the log then holds. */
	struct runtable *(*process)(void *ctx, const struct stream_process *record);
	/* A record that is right and has been applied; first: of the pieces that it added. */
	void (*record)(void *ctx, const struct stream_record *record, uint32_t first);
	void *ctx;
};

struct log {
	struct runtable *table; /* NULL until the first record */
	bool broken; /* what comes cannot be read */
	uint64_t seen; /* records; of a broken log the rest is one */
	uint64_t kept;
	uint64_t lost[LOG_FAULT_COUNT];
};

/* bytes: private memory, aligned to 8. Records are whole: what is left over at the end is a fault. */
void log_parse(struct log *log, const struct log_handlers *handlers, const void *bytes,
	       size_t size);
void log_deinit(struct log *log);
