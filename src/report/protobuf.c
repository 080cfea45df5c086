// SPDX-License-Identifier: BSD-2-Clause
#include "report/protobuf.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

void protobuf_varint(struct strbuf *buf, uint64_t value)
{
	while (value >= 0x80) {
		strbuf_putc(buf, (char)(value | 0x80));
		value >>= 7;
	}
	strbuf_putc(buf, (char)value);
}

void protobuf_number(struct strbuf *buf, uint32_t field, uint64_t value)
{
	if (!value)
		return;
	protobuf_varint(buf, field << 3 | WIRE_VARINT);
	protobuf_varint(buf, value);
}

void protobuf_bytes(struct strbuf *buf, uint32_t field, const void *data, size_t size)
{
	protobuf_varint(buf, field << 3 | WIRE_BYTES);
	protobuf_varint(buf, size);
	strbuf_add(buf, data, size);
}

void protobuf_message(struct strbuf *buf, uint32_t field, struct strbuf *message)
{
	protobuf_bytes(buf, field, message->text, message->length);
	message->length = 0;
}
