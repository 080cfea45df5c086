// SPDX-License-Identifier: BSD-2-Clause
#include "recorder/record_queue.h"

#include <string.h>

void record_queue_add(struct record_queue *queue, const void *record, size_t size)
{
	static const char padding[8];

	strbuf_add(&queue->bytes, &size, sizeof(size));
	strbuf_add(&queue->bytes, record, size);
	strbuf_add(&queue->bytes, padding, -size & 7);
}

const struct sample_record *record_queue_take(const struct record_queue *queue, size_t *at)
{
	const char *record = queue->bytes.text + *at + sizeof(size_t);
	size_t size;

	if (*at >= queue->bytes.length)
		return NULL;
	memcpy(&size, queue->bytes.text + *at, sizeof(size));
	*at += sizeof(size) + ((size + 7) & ~(size_t)7);
	return (const struct sample_record *)record;
}

void record_queue_clear(struct record_queue *queue)
{
	queue->bytes.length = 0;
}

void record_queue_deinit(struct record_queue *queue)
{
	strbuf_deinit(&queue->bytes);
}
