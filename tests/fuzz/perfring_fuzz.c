// SPDX-License-Identifier: BSD-2-Clause
/*
 * libFuzzer: any bytes as a perf ring's contents.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc \
 *		tests/fuzz/perfring_fuzz.c src/recorder/perfrecord.c -o perfring_fuzz
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/perfrecord.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte that the event points to. */
static uint64_t event_touch(const struct event *event)
{
	uint64_t sum = 0;

	if (event->kind == EVENT_MMAP)
		sum += strlen(event->mmap.path);
	if (event->kind == EVENT_COMM || event->kind == EVENT_EXEC)
		sum += strlen(event->comm);
	if (event->kind == EVENT_SAMPLE)
		for (size_t i = 0; i < event->sample.kernel_count; i++)
			sum += event->sample.kernel_frames[i];
	if (event->kind == EVENT_SAMPLE)
		for (size_t i = 0; i < event->sample.stack.size; i++)
			sum += event->sample.stack.bytes[i];
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static volatile uint64_t sum;
	size_t offset = 0, record;

	while ((record = perfrecord_size(data + offset, size - offset))) {
		uint8_t *copy = malloc(record); /* exactly as long, so that reading on is seen */
		struct event event;

		memcpy(copy, data + offset, record);
		if (perfrecord_parse(copy, record, &event) == 1)
			sum += event_touch(&event);
		free(copy);
		offset += record;
	}
	return 0;
}
