// SPDX-License-Identifier: BSD-2-Clause
/*
 * Shows the program /proc/self/maps, smaps, numa_maps and status as they would be without the
 * engine, and watches /proc/self/mem, through which it may change its code.
 *
 * A program that opens one of its maps gets a file in memory with the same lines, less what is
 * the engine's. The kernel joins neighbouring mappings, so a line may be the program's in part:
 * that part is left. In status, handlers of faults and blocked signals are as the program believes
 * them to be. The file holds what was true when it was opened; a program that reads the real file
 * in pieces cannot rely on more.
 *
 * Invariants
 * 1. A file that cannot be filtered is passed to the program unchanged: an open() that works
 *    without the engine works in it.
 * 2. The descriptor has the number and the flags that the program would have got.
 */
#include <linux/fcntl.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	LINE_MAX = 8192,
	READ_SIZE = 4096,
	NAME_MAX = 64, /* of what is looked at: "/proc/PID/task/TID/numa_maps" is shorter */
	CLOSE_ON_EXEC = 02000000,
	SIGNALS = 64,
};

static struct filter {
	char piece[READ_SIZE], line[LINE_MAX];
	size_t length;
	long to;
	bool keep; /* what follows a line of addresses in smaps belongs to it */
	bool failed;
	const struct sighand *handlers; /* it is status; NULL: maps */
	uint64_t tid; /* of status: the thread that it tells of */
} filter;

static bool memory_is_open; /* /proc/self/mem was opened to be written */

static bool text_ends(const char *text, const char *end)
{
	size_t length = 0, end_length = 0;

	while (text[length])
		length++;
	while (end[end_length])
		end_length++;
	if (length < end_length)
		return false;
	for (size_t i = 0; i < end_length; i++)
		if (text[length - end_length + i] != end[i])
			return false;
	return true;
}

/* "/proc/PID/" with our own number; then what is behind it. */
static const char *own_folder(const char *path)
{
	static const char proc[] = "/proc/";
	long pid = 0;

	for (size_t i = 0; proc[i]; i++)
		if (*path++ != proc[i])
			return NULL;
	for (; *path >= '0' && *path <= '9'; path++)
		pid = pid * 10 + (*path - '0');
	return *path == '/' && pid == sys_0(getpid) ? path : NULL;
}

static char *number_put(char *at, uint64_t value, unsigned base, unsigned digits)
{
	char text[24];
	unsigned count = 0;

	do {
		text[count++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value || count < digits);
	while (count)
		*at++ = text[--count];
	return at;
}

static void fd_path(long fd, char ret[NAME_MAX])
{
	static const char folder[] = "/proc/self/fd/";
	char *at = ret;

	for (size_t i = 0; folder[i]; i++)
		*at++ = folder[i];
	*number_put(at, (uint64_t)fd, 10, 1) = 0;
}

enum kind { KIND_OTHER, KIND_MAPS, KIND_STATUS, KIND_MEMORY };

static enum kind kind_of(const char *name)
{
	if (text_ends(name, "maps"))
		return KIND_MAPS;
	if (text_ends(name, "mem"))
		return KIND_MEMORY;
	return text_ends(name, "status") ? KIND_STATUS : KIND_OTHER;
}

/* The kind of file that was opened, by the name that the kernel gives for the descriptor. */
static enum kind own_kind(long fd)
{
	char name[NAME_MAX], path[NAME_MAX];
	const char *rest;
	long length;

	fd_path(fd, name);
	length = sys_3(readlink, name, path, sizeof(path) - 1);
	if (length <= 0 || length == sizeof(path) - 1)
		return KIND_OTHER;
	path[length] = 0;
	rest = own_folder(path);
	if (rest && (text_ends(rest, "/maps") || text_ends(rest, "/smaps") ||
		     text_ends(rest, "/numa_maps")))
		return KIND_MAPS;
	if (rest && text_ends(rest, "/mem"))
		return KIND_MEMORY;
	return rest && text_ends(rest, "/status") ? KIND_STATUS : KIND_OTHER;
}

static uint64_t decimal_read(const char *text)
{
	uint64_t value = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		value = value * 10 + (uint64_t)(*text - '0');
	return value;
}

/* --- Lines ------------------------------------------------------------------------------- */

static bool hex_take(const char **at, uint64_t *ret)
{
	const char *start = *at;
	uint64_t value = 0;

	for (;; ++*at) {
		char c = **at;

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			break;
	}
	*ret = value;
	return *at != start;
}

static void text_write(const char *text, size_t size)
{
	while (size) {
		long put = sys_3(write, filter.to, text, size);

		if (put <= 0) {
			filter.failed = true;
			return;
		}
		text += put;
		size -= (size_t)put;
	}
}

static void part_write(uint64_t start, uint64_t end, const char *rest, size_t size)
{
	char addresses[40], *at = addresses;

	at = number_put(at, start, 16, 8);
	*at++ = '-';
	at = number_put(at, end, 16, 8);
	text_write(addresses, (size_t)(at - addresses));
	text_write(rest, size);
	filter.keep = true;
}

/*
 * A line, with its end. Those of one mapping in smaps follow the line with its addresses; numa_maps
 * has one address in a line, so what the kernel has joined there is whose the first page is.
 */
static void line_filter(const char *line, size_t size)
{
	struct engine_mapping ours = {};
	uint64_t start, end;
	const char *at = line;

	if (hex_take(&at, &start) && *at == ' ') {
		if (!memory_is_ours(start))
			text_write(line, size);
		return;
	}
	if (at == line || *at++ != '-' || !hex_take(&at, &end) || *at != ' ') {
		if (filter.keep)
			text_write(line, size);
		return;
	}
	filter.keep = false;
	size -= (size_t)(at - line);
	while (start < end && memory_first(start, end, &ours)) {
		if (start < ours.start)
			part_write(start, ours.start, at, size);
		start = ours.start + ours.size;
	}
	if (start < end)
		part_write(start, end, at, size);
}

static bool handles(uint64_t number)
{
	return filter.handlers->handlers[number - 1].handler > 1;
}

/* Faults come to the engine, whether or not the program handles them. */
static uint64_t caught_correct(uint64_t set)
{
	for (uint64_t number = 1; number <= SIGNALS; number++)
		if (signal_is_taken(number) && !handles(number))
			set &= ~(1ull << (number - 1));
	return set;
}

/* The signals that the thread of the status file believes to have blocked. */
static uint64_t blocked_correct(uint64_t set)
{
	for (const struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		if (thread->tid == filter.tid)
			return guard_mask_program(thread, set);
	return set;
}

static bool text_begins(const char *text, const char *begin, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] != begin[i])
			return false;
	return true;
}

/* Sets of signals in hexadecimal digits, and the number of the thread, which stands above them. */
static void status_filter(const char *line, size_t size)
{
	static const char number[] = "Pid:\t", blocked[] = "SigBlk:\t", caught[] = "SigCgt:\t";
	enum { NAME = sizeof(caught) - 1, DIGITS = 16 };
	const char *at = line + NAME;
	char digits[DIGITS];
	uint64_t set;

	if (text_begins(line, number, sizeof(number) - 1))
		filter.tid = decimal_read(line + sizeof(number) - 1);
	if (!text_begins(line, blocked, NAME) && !text_begins(line, caught, NAME)) {
		text_write(line, size);
		return;
	}
	hex_take(&at, &set);
	set = text_begins(line, blocked, NAME) ? blocked_correct(set) : caught_correct(set);
	number_put(digits, set, 16, DIGITS);
	text_write(line, NAME);
	text_write(digits, DIGITS);
	text_write(at, size - (size_t)(at - line));
}

static void piece_filter(size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (filter.length == LINE_MAX - 1)
			filter.failed = true;
		else
			filter.line[filter.length++] = filter.piece[i];
		if (filter.piece[i] != '\n')
			continue;
		filter.line[filter.length] = 0;
		if (filter.handlers)
			status_filter(filter.line, filter.length);
		else
			line_filter(filter.line, filter.length);
		filter.length = 0;
	}
}

/* --- Files ------------------------------------------------------------------------------- */

/* A file to read, with what the other one says; or an error. */
static long file_filter(long from)
{
	char name[NAME_MAX];
	long got, file = sys_2(memfd_create, "maps", 0);

	if (sys_failed(file))
		return file;
	filter.length = 0;
	filter.to = file;
	filter.failed = filter.keep = false;
	while ((got = sys_3(read, from, filter.piece, READ_SIZE)) > 0)
		piece_filter((size_t)got);
	fd_path(file, name);
	got = filter.failed || got ? -1 : sys_3(open, name, O_RDONLY | CLOSE_ON_EXEC, 0);
	sys_1(close, file);
	return got;
}

static void own_replace(long fd, uint64_t flags, const struct sighand *handlers)
{
	long file, rewound;

	engine_lock();
	filter.handlers = handlers;
	file = file_filter(fd);
	engine_unlock();
	rewound = sys_3(lseek, fd, 0, 0);
	if (sys_failed(file) || rewound)
		return;
	sys_3(dup3, file, fd, flags & CLOSE_ON_EXEC);
	sys_1(close, file);
}

/* The open has worked, so the name is there to be read. */
void maps_opened(const struct thread *thread, long fd, uint64_t path, uint64_t flags)
{
	enum kind kind = kind_of((const char *)path);
	bool reads = (flags & O_ACCMODE) == O_RDONLY;

	if (kind == KIND_OTHER || reads == (kind == KIND_MEMORY) || own_kind(fd) != kind)
		return;
	if (kind == KIND_MEMORY)
		__atomic_store_n(&memory_is_open, true, __ATOMIC_RELAXED);
	else
		own_replace(fd, flags, kind == KIND_STATUS ? thread->sighand : NULL);
}

/*
 * Page protection does not apply to writes through /proc/self/mem. They can change code that the
 * engine does not check, and code whose liveness was used by fragments elsewhere, of which there is
 * no list.
 */
void maps_written(long fd)
{
	if (!__atomic_load_n(&memory_is_open, __ATOMIC_RELAXED) || own_kind(fd) != KIND_MEMORY)
		return;
	engine_lock();
	cache_forget(0, UINT64_MAX);
	engine_unlock();
}
