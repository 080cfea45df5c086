/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of protobuf's wire format that writing needs: varints, and bytes with their length
 * before them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

void protobuf_varint(struct strbuf *buf, uint64_t value);
/* A varint field; 0, the default of every field, is left out. */
void protobuf_number(struct strbuf *buf, uint32_t field, uint64_t value);
/* A string or message; also when empty. */
void protobuf_bytes(struct strbuf *buf, uint32_t field, const void *data, size_t size);
/* Appends message as a field and empties it. */
void protobuf_message(struct strbuf *buf, uint32_t field, struct strbuf *message);
