/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of the kernel's ring, between the look at them and their delivery. */
#pragma once

#include <stddef.h>

#include "base/strbuf.h"
#include "wire/sample.h"

struct record_queue {
	struct strbuf bytes; /* of each record: size_t, then as many bytes, padded to 8 */
};

void record_queue_add(struct record_queue *queue, const void *record, size_t size);
/*
 * The record at a place of the queue, which begins with 0; *at is then the place of the next one.
 * NULL: there are no more.
 */
const struct sample_record *record_queue_take(const struct record_queue *queue, size_t *at);
void record_queue_clear(struct record_queue *queue);
void record_queue_deinit(struct record_queue *queue);
