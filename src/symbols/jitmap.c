// SPDX-License-Identifier: BSD-2-Clause
/*
 * JIT maps: what /tmp/perf-PID.map, or a jitdump file, says about code that no file holds.
 *
 * A JIT appends a line whenever it places code, and never says when it frees any, so a later line
 * hides the earlier ones where they overlap. All starts and ends cut the address space into spans;
 * the lines are gone through from the last to the first, and each paints those of its spans that
 * have no owner yet. A union-find over spans ("the next one without owner") makes this O(n log n)
 * whatever the overlaps.
 *
 * 1. cuts is sorted and without doubles; span i is [cuts[i], cuts[i + 1]).
 * 2. owners[i] is the last line that covers span i, as an index into lines, or NOBODY.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "symbols/jitmap_private.h"

enum { FILE_MAX = 128 << 20 }; /* a busy JVM writes some 10 MB in a day */

#define NOBODY UINT32_MAX

void jitmap_destroy(struct jitmap *map)
{
	if (!map)
		return;
	free(map->text);
	array_deinit(&map->lines);
	free(map->cuts);
	free(map->owners);
	strtab_deinit(&map->names);
	free(map);
}

/* One hexadecimal number, 0x or not, and the space behind it. */
static bool take_number(char **at, uint64_t *ret)
{
	char *end;

	if (!strchr("0123456789abcdefABCDEF", **at) || !**at)
		return false;
	errno = 0;
	*ret = strtoull(*at, &end, 16);
	if (errno || (*end != ' ' && *end != '\t'))
		return false;
	*at = end + strspn(end, " \t");
	return true;
}

static void line_add(struct jitmap *map, char *line)
{
	struct jit_line added = {};
	uint64_t size;

	if (!take_number(&line, &added.start) || !take_number(&line, &size) || !size || !*line)
		return;
	if (__builtin_add_overflow(added.start, size, &added.end))
		added.end = UINT64_MAX;
	added.name = (uint32_t)(line - map->text);
	*array_push(&map->lines) = added;
}

static int cut_compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static void cuts_make(struct jitmap *map)
{
	size_t kept = 0;

	map->cuts = mem_realloc(NULL, 2 * map->lines.count + 1, sizeof(*map->cuts));
	array_each(&map->lines, line) {
		map->cuts[map->cut_count++] = line->start;
		map->cuts[map->cut_count++] = line->end;
	}
	qsort(map->cuts, map->cut_count, sizeof(*map->cuts), cut_compare);
	for (size_t i = 0; i < map->cut_count; i++)
		if (kept == 0 || map->cuts[i] != map->cuts[kept - 1])
			map->cuts[kept++] = map->cuts[i];
	map->cut_count = kept;
}

/* The number of cuts at or below the address. */
static size_t cuts_below(const struct jitmap *map, uint64_t address)
{
	size_t low = 0, high = map->cut_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (map->cuts[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The first span from i on without owner; free_from[i] is a shortcut on the way to it. */
static uint32_t span_free(uint32_t *free_from, uint32_t i)
{
	while (free_from[i] != i)
		i = free_from[i] = free_from[free_from[i]];
	return i;
}

static void spans_paint(struct jitmap *map)
{
	AUTO(free_ptr) uint32_t *free_from = NULL;

	map->owners = mem_realloc(NULL, map->cut_count + 1, sizeof(*map->owners));
	free_from = mem_realloc(NULL, map->cut_count + 1, sizeof(*free_from));
	for (size_t i = 0; i <= map->cut_count; i++) {
		map->owners[i] = NOBODY;
		free_from[i] = (uint32_t)i;
	}
	for (size_t line = map->lines.count; line-- > 0;) {
		size_t first = cuts_below(map, map->lines.items[line].start) - 1;
		uint32_t span = span_free(free_from, (uint32_t)first);

		while (span < map->cut_count && map->cuts[span] < map->lines.items[line].end) {
			map->owners[span] = (uint32_t)line;
			free_from[span] = span + 1;
			span = span_free(free_from, span);
		}
	}
}

static int text_read(int fd, char **ret, size_t *ret_size)
{
	AUTO(free_ptr) char *text = NULL;
	struct stat stat;
	size_t size = 0, wanted;
	ssize_t got = 1;

	if (fstat(fd, &stat) < 0)
		return err_set(-errno, "perf map: cannot read its size: %m");
	if (!S_ISREG(stat.st_mode))
		return err_set(-EINVAL, "perf map: not a regular file; ignored");
	if (stat.st_size > FILE_MAX)
		log_warn("perf map: only its first %d bytes are used", FILE_MAX);
	wanted = stat.st_size > FILE_MAX ? FILE_MAX : (size_t)stat.st_size;
	text = mem_alloc(wanted + 1);
	while (size < wanted && got > 0) {
		got = pread(fd, text + size, wanted - size, (off_t)size);
		if (got < 0 && errno != EINTR)
			return err_set(-errno, "perf map: cannot read: %m");
		size += got > 0 ? (size_t)got : 0;
		got = got < 0 ? 1 : got;
	}
	text[size] = '\0';
	*ret_size = size;
	*ret = take_ptr(text);
	return 0;
}

static void lines_read(struct jitmap *map, size_t size)
{
	char *line, *end, *stop = map->text + size;

	for (line = map->text; line < stop; line = end + 1) {
		end = memchr(line, '\n', (size_t)(stop - line));
		end = end ? end : stop;
		*end = '\0';
		line_add(map, line);
	}
}

int jitmap_open(int fd, struct jitmap **ret)
{
	AUTO(jitmap_destroy_auto) struct jitmap *map = mem_zalloc(sizeof(*map));
	size_t size = 0;
	int err = text_read(fd, &map->text, &size);

	if (err)
		return err;
	if (jitdump_is(map->text, size))
		jitdump_read(map, size);
	else
		lines_read(map, size);
	cuts_make(map);
	spans_paint(map);
	*ret = take_ptr(map);
	return 0;
}

/* NULL: none. */
static const struct jit_line *line_at(const struct jitmap *map, uint64_t address)
{
	size_t below = cuts_below(map, address);

	return below && map->owners[below - 1] != NOBODY ? &map->lines.items[map->owners[below - 1]]
							 : NULL;
}

size_t jitmap_code(const struct jitmap *map, uint64_t address, void *ret, size_t size)
{
	const struct jit_line *line = line_at(map, address);

	if (!line || !line->code)
		return 0;
	if (size > line->end - address)
		size = line->end - address;
	memcpy(ret, map->text + line->code + (address - line->start), size);
	return size;
}

int jitmap_resolve(struct jitmap *map, uint64_t address, struct symbol_answer *ret)
{
	const struct jit_line *line = line_at(map, address);

	if (!line)
		return -ENOENT;
	map->frame = (struct symbol_frame){
		.name = names_readable(&map->names, map->text + line->name),
		.linkage = map->text + line->name,
	};
	*ret = (struct symbol_answer){ line->start, line->end - line->start, 1, &map->frame };
	return 0;
}
