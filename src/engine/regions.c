// SPDX-License-Identifier: BSD-2-Clause
/*
 * The executable mappings of the program's address space. The answer comes from /proc/self/maps and
 * is kept until a system call changes the mappings.
 *
 * The caller holds the engine's lock.
 */
#include "engine/engine.h"
#include "engine/sys.h"
#include "engine/tool.h"
#include "engine/translations.h"

enum {
	REGIONS_MAX = 1 << 14,
	/* guarded pages are mappings of their own */ LINE_MAX = 512,
	READ_SIZE = 4096
};

static struct region regions[REGIONS_MAX], before[REGIONS_MAX];
static size_t region_count, before_count;
static bool fresh;
static const struct region *last; /* that was asked for; NULL: look again */
static uint64_t brought_start = UINT64_MAX, brought_end;
static uint64_t last_mappings; /* memory_changes at that time */

/* A line of the file, piece by piece. */
struct reader {
	char line[LINE_MAX];
	size_t length;
};

static uint64_t number(const char **at)
{
	uint64_t value = 0;

	for (;; ++*at) {
		char c = **at;

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return value;
	}
}

static uint64_t decimal(const char **at)
{
	uint64_t value = 0;

	for (; **at >= '0' && **at <= '9'; ++*at)
		value = value * 10 + (uint64_t)(**at - '0');
	return value;
}

/* Whether the same mapping was there when the file was last read; tools know of it then. */
static bool is_known(const struct region *region)
{
	size_t low = 0, high = before_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct region *other = &before[middle];

		if (other->start == region->start)
			return other->end == region->end && other->offset == region->offset &&
			       other->inode == region->inode;
		if (region->start < other->start)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

/* Tools hear of the program's files only: the engine has functions with names, too. */
static void region_take(const struct region *region, const char *path)
{
	if (!region->executable || region_count == REGIONS_MAX)
		return;
	regions[region_count++] = *region;
	if (!memory_is_ours(region->start))
		translations_module(region, path);
	if (tools_any() && !is_known(region) && !memory_is_ours(region->start))
		tools_module(region, path);
}

/* "rwxp" */
static const char *protection_take(struct region *region, const char *at)
{
	region->readable = at[0] == 'r';
	region->writable = at[0] && at[1] == 'w';
	region->executable = at[0] && at[1] && at[2] == 'x';
	region->shared = region->executable && at[3] == 's';
	while (*at && *at != ' ')
		at++;
	return at;
}

/* "START-END rwxp OFFSET MAJOR:MINOR INODE   PATH" */
static void line_take(const struct reader *reader)
{
	const char *at = reader->line;
	struct region region = {};

	region.start = number(&at);
	at += *at == '-';
	region.end = number(&at);
	at += *at == ' ';
	at = protection_take(&region, at);
	at += *at == ' ';
	region.offset = number(&at);
	at += *at == ' ';
	region.device_major = (uint32_t)number(&at);
	at += *at == ':';
	region.device_minor = (uint32_t)number(&at);
	at += *at == ' ';
	region.inode = decimal(&at);
	while (*at == ' ')
		at++;
	region_take(&region, at);
}

static void piece_take(struct reader *reader, const char *piece, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (piece[i] == '\n') {
			reader->line[reader->length] = 0;
			line_take(reader);
			reader->length = 0;
		} else if (reader->length < LINE_MAX - 1) {
			reader->line[reader->length++] = piece[i];
		}
	}
}

/* The program may have used up its descriptors: for a moment it may have more. */
static long maps_open(void)
{
	enum { FILES = 7, TOO_MANY = -24, MORE = 64 };
	struct limit {
		uint64_t now, most;
	} limit, raised;
	long file = sys_3(open, "/proc/self/maps", 02000000 /* O_CLOEXEC */, 0);

	if (file != TOO_MANY || sys_4(prlimit64, 0, FILES, 0, &limit))
		return file;
	raised = (struct limit){ limit.now + MORE,
				 limit.most < limit.now + MORE ? limit.now + MORE : limit.most };
	if (sys_4(prlimit64, 0, FILES, &raised, 0))
		return file;
	file = sys_3(open, "/proc/self/maps", 02000000, 0);
	sys_4(prlimit64, 0, FILES, &limit, 0);
	return file;
}

static void regions_read(void)
{
	static struct reader reader;
	static char piece[READ_SIZE];
	long file = maps_open(), got;

	for (before_count = 0; before_count < region_count; before_count++)
		before[before_count] = regions[before_count];
	region_count = 0;
	last = NULL;
	reader.length = 0;
	fresh = true;
	if (sys_failed(file))
		return;
	while ((got = sys_3(read, file, piece, sizeof(piece))) > 0)
		piece_take(&reader, piece, (size_t)got);
	sys_1(close, file);
}

bool regions_change(uint64_t start, uint64_t end, bool executable)
{
	bool touched = !fresh || executable;

	for (size_t i = 0; i < region_count && !touched; i++)
		touched = start < regions[i].end && regions[i].start < end;
	if (touched) {
		fresh = false;
		dead_forget();
	}
	return touched;
}

static const struct region *region_find(uint64_t pc)
{
	size_t low = 0, high = region_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (pc < regions[middle].start)
			high = middle;
		else if (pc >= regions[middle].end)
			low = middle + 1;
		else
			return &regions[middle];
	}
	return NULL;
}

/* The answer is the same for all of a region that holds nothing of ours. */
static const struct region *last_set(const struct region *region)
{
	struct engine_mapping ours;

	last = region && !memory_first(region->start, region->end, &ours) ? region : NULL;
	last_mappings = memory_changes;
	return region;
}

/*
 * The engine's own mappings do not count. Bytes behind a branch that is never taken may decode as a
 * jump into the code cache, which must be neither translated nor guarded.
 */
const struct region *region_of(uint64_t pc)
{
	if (last && fresh && last_mappings == memory_changes && pc >= last->start && pc < last->end)
		return last;
	if (memory_is_ours(pc))
		return NULL;
	if (!fresh)
		regions_read();
	return last_set(region_find(pc));
}

static bool can_change(const struct region *region)
{
	return region_is_changing(region) || guard_knows(region->start);
}

void regions_brought(uint64_t start, uint64_t end)
{
	brought_start = start < brought_start ? start : brought_start;
	brought_end = end > brought_end ? end : brought_end;
}

/* The thread that brings it may wait for the lock that we hold. */
static bool is_brought(uint64_t pc, size_t size)
{
	return pc < brought_end && pc + size > brought_start;
}

/* It may be executable and not be there: guarded by advice, behind the end of its file. */
static size_t bytes_read(uint64_t pc, uint8_t *ret, size_t size)
{
	uint32_t rights = keys_open();

	size = memory_copy(ret, (const void *)pc, size);
	keys_close(rights);
	return size;
}

/* Neighbouring mappings hold one piece of code, unless one can change and the other cannot. */
size_t code_read(uint64_t pc, uint8_t *ret, size_t size)
{
	const struct region *region = region_of(pc);
	uint64_t end = pc;

	while (region && region->readable && end - pc < size) {
		const struct region *next = region + 1;
		bool same = next < regions + region_count && next->start == region->end &&
			    can_change(next) == can_change(region);

		end = region->end;
		region = same ? next : NULL;
	}
	if (end - pc < size)
		size = end - pc;
	fault_point(ENGINE_FAIL_LOAD);
	return is_brought(pc, size) ? 0 : bytes_read(pc, ret, size);
}
