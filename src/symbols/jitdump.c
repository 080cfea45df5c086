// SPDX-License-Identifier: BSD-2-Clause
/*
 * Jitdump files: what `node --perf-prof`, LLVM and agents of Java machines write for `perf inject`.
 *
 * A header is followed by records, each with its kind and size. One says that code was placed:
 * where, its name, and its bytes. Another says that code was moved. A record that makes no sense
 * ends the reading: the file may still be written, and nothing says where the next one would begin.
 *
 * 1. Every field is copied out of the text only after its place was compared with the size.
 */
#include <string.h>

#include "base/map.h"
#include "symbols/jitmap_private.h"

enum {
	MAGIC = 0x4a695444,
	MACHINE = 62, /* x86-64, as in ELF files */
	LOAD = 0,
	MOVE = 1,
	CLOSE = 3,
};

struct jitdump_header {
	uint32_t magic, version, size, machine, padding, pid;
	uint64_t time, flags;
};

struct jitdump_record {
	uint32_t kind, size;
	uint64_t time;
};

/* Behind it the name, a NUL, and the code. */
struct jitdump_load {
	uint32_t pid, tid;
	uint64_t address_in_file, address, size, index;
};

struct jitdump_move {
	uint32_t pid, tid;
	uint64_t address_in_file, from, to, size, index;
};

_Static_assert(sizeof(struct jitdump_header) == 40, "as in the file");
_Static_assert(sizeof(struct jitdump_record) == 16, "as in the file");
_Static_assert(sizeof(struct jitdump_load) == 40, "as in the file");
_Static_assert(sizeof(struct jitdump_move) == 48, "as in the file");

bool jitdump_is(const char *text, size_t size)
{
	struct jitdump_header header;

	if (size < sizeof(header))
		return false;
	memcpy(&header, text, sizeof(header));
	return header.magic == MAGIC;
}

static void line_push(struct jitmap *map, struct jit_line line, uint64_t size)
{
	if (!size)
		return;
	if (__builtin_add_overflow(line.start, size, &line.end))
		line.end = UINT64_MAX;
	*array_push(&map->lines) = line;
}

/* at, end: of what follows the record's head. */
static void load_read(struct jitmap *map, size_t at, size_t end, struct map *by_index)
{
	struct jitdump_load load;
	const char *name, *stop;
	struct jit_line line = {};

	if (end - at < sizeof(load))
		return;
	memcpy(&load, map->text + at, sizeof(load));
	name = map->text + at + sizeof(load);
	stop = memchr(name, '\0', end - at - sizeof(load));
	if (!stop || stop == name)
		return;
	line.start = load.address;
	line.name = (uint32_t)(name - map->text);
	if ((size_t)(map->text + end - stop - 1) >= load.size)
		line.code = (uint32_t)(stop + 1 - map->text);
	*map_at(by_index, load.index, NULL) = map->lines.count;
	line_push(map, line, load.size);
}

static void move_read(struct jitmap *map, size_t at, size_t end, struct map *by_index)
{
	struct jitdump_move move;
	struct jit_line line;
	uint64_t *place;

	if (end - at < sizeof(move))
		return;
	memcpy(&move, map->text + at, sizeof(move));
	place = map_find(by_index, move.index);
	if (!place || *place >= map->lines.count)
		return;
	line = map->lines.items[*place];
	if (move.size > line.end - line.start)
		line.code = 0;
	line.start = move.to;
	line_push(map, line, move.size);
}

void jitdump_read(struct jitmap *map, size_t size)
{
	AUTO(map_deinit) struct map by_index = {};
	struct jitdump_header header;
	struct jitdump_record record;
	size_t at;

	memcpy(&header, map->text, sizeof(header));
	if (header.machine != MACHINE || header.size < sizeof(header))
		return;
	for (at = header.size; at < size && size - at >= sizeof(record); at += record.size) {
		memcpy(&record, map->text + at, sizeof(record));
		if (record.size < sizeof(record) || record.size > size - at || record.kind == CLOSE)
			break;
		if (record.kind == LOAD)
			load_read(map, at + sizeof(record), at + record.size, &by_index);
		else if (record.kind == MOVE)
			move_read(map, at + sizeof(record), at + record.size, &by_index);
	}
}
