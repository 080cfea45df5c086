// SPDX-License-Identifier: BSD-2-Clause
#include "calls/event_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct call_event_file {
	FILE *file;
	char *path;
	size_t amounts; /* bytes of the counters in each record */
	int error;
};

static void check(struct call_event_file *file, bool written)
{
	if (!written && !file->error)
		file->error = -errno;
}

int call_event_file_create(const char *path, const struct call_trace_head *head,
			   struct call_event_file **ret)
{
	struct call_event_file *file = mem_zalloc(sizeof(*file));
	int err;

	file->path = mem_strdup(path);
	file->amounts = head->metrics * sizeof(struct call_amount);
	file->file = fopen(path, "we");
	if (file->file) {
		call_event_file_bytes(file, head, sizeof(*head));
		*ret = file;
		return 0;
	}
	err = err_set(-errno, "cannot write events to %s: %s", path, strerror(errno));
	call_event_file_destroy(file);
	return err;
}

void call_event_file_destroy(struct call_event_file *file)
{
	if (!file)
		return;
	if (file->file)
		fclose(file->file);
	free(file->path);
	free(file);
}

void call_event_file_bytes(struct call_event_file *file, const void *bytes, size_t size)
{
	if (!file->error && size)
		check(file, fwrite(bytes, size, 1, file->file) == 1);
}

void call_event_file_put(struct call_event_file *file, const struct call_event *event,
			 const struct call_amount *now, const void *payload, size_t size)
{
	static const char zeroes[8];
	static const struct call_amount none[CALL_METRICS_MAX];
	size_t padded = (size + 7) / 8 * 8;
	struct call_event record = *event;

	record.size = (uint32_t)(sizeof(record) + file->amounts + padded);
	call_event_file_bytes(file, &record, sizeof(record));
	call_event_file_bytes(file, now ? now : none, file->amounts);
	call_event_file_bytes(file, payload, size);
	call_event_file_bytes(file, zeroes, padded - size);
}

void call_event_file_code(struct call_event_file *file, const struct call_event_code *code)
{
	const struct call_event event = { .major = CALL_MAJOR_CODE,
					  .minor = CALL_MINOR_LOAD,
					  .thread = code->pid,
					  .routine = code->start,
					  .sp = code->end - code->start };
	size_t length = strnlen(code->path, CALL_NAME_MAX - sizeof(code->bias));
	AUTO(free_ptr) char *payload = mem_alloc(sizeof(code->bias) + length);

	memcpy(payload, &code->bias, sizeof(code->bias));
	memcpy(payload + sizeof(code->bias), code->path, length);
	call_event_file_put(file, &event, NULL, payload, sizeof(code->bias) + length);
}

void call_event_file_flush(struct call_event_file *file)
{
	check(file, !fflush(file->file));
}

int call_event_file_error(const struct call_event_file *file)
{
	return file->error ? err_set(file->error, "cannot write events to %s: %s", file->path,
				     strerror(-file->error))
			   : 0;
}
