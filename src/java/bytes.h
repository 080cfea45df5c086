/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading and writing of the big-endian bytes of class files, with a flag instead of errors. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct java_reader {
	const unsigned char *bytes;
	size_t size;
	size_t at;
	bool bad; /* something was read behind the end */
};

struct java_writer {
	unsigned char *bytes;
	size_t size;
	size_t capacity;
	bool failed; /* there was no memory */
};

static inline const unsigned char *java_take(struct java_reader *reader, size_t count)
{
	const unsigned char *found = reader->bytes + reader->at;

	if (reader->bad || count > reader->size - reader->at) {
		reader->bad = true;
		return NULL;
	}
	reader->at += count;
	return found;
}

static inline uint32_t java_take_number(struct java_reader *reader, size_t count)
{
	const unsigned char *bytes = java_take(reader, count);
	uint32_t number = 0;

	for (size_t i = 0; bytes && i < count; i++)
		number = number << 8 | bytes[i];
	return number;
}

static inline uint32_t java_take_1(struct java_reader *reader)
{
	return java_take_number(reader, 1);
}

static inline uint32_t java_take_2(struct java_reader *reader)
{
	return java_take_number(reader, 2);
}

static inline uint32_t java_take_4(struct java_reader *reader)
{
	return java_take_number(reader, 4);
}

/* A part of what is left, to be read by itself. */
static inline struct java_reader java_take_part(struct java_reader *reader, size_t count)
{
	const unsigned char *bytes = java_take(reader, count);

	return (struct java_reader){ .bytes = bytes, .size = bytes ? count : 0, .bad = !bytes };
}

static inline void java_put(struct java_writer *writer, const void *bytes, size_t count)
{
	if (writer->failed || !count)
		return;
	if (count > writer->capacity - writer->size) {
		size_t capacity = (writer->size + count) * 2;
		void *grown = realloc(writer->bytes, capacity);

		if (!grown) {
			writer->failed = true;
			return;
		}
		writer->bytes = grown;
		writer->capacity = capacity;
	}
	memcpy(writer->bytes + writer->size, bytes, count);
	writer->size += count;
}

static inline void java_put_number(struct java_writer *writer, uint32_t number, size_t count)
{
	unsigned char bytes[4];

	for (size_t i = 0; i < count; i++)
		bytes[i] = (unsigned char)(number >> (8 * (count - 1 - i)));
	java_put(writer, bytes, count);
}

static inline void java_put_1(struct java_writer *writer, uint32_t number)
{
	java_put_number(writer, number, 1);
}

static inline void java_put_2(struct java_writer *writer, uint32_t number)
{
	java_put_number(writer, number, 2);
}

static inline void java_put_4(struct java_writer *writer, uint32_t number)
{
	java_put_number(writer, number, 4);
}

/* Puts a number over one that was put before. */
static inline void java_patch(struct java_writer *writer, size_t at, uint32_t number, size_t count)
{
	struct java_writer place = { .bytes = writer->bytes + at, .capacity = count };

	if (!writer->failed)
		java_put_number(&place, number, count);
}
