// SPDX-License-Identifier: BSD-2-Clause
/*
 * Unwind tables of files, kept on disk by build-id.
 *
 * Theory of operation: <dir>/<build-id>.unwind is a header and the rows as they are in memory,
 * mapped and used in place. It is written under a temporary name and renamed, so that a reader sees
 * a whole file or none. Anything wrong with it means that the table is built again and the file
 * replaced.
 *
 * Invariants:
 * 1. A cache file is used only if it is ours and no other user can write to it, its checksum holds,
 *    its rows are in order, and its digest is that of the file at hand: a program that carries
 *    another's build-id neither gets the other's table nor spoils it for good.
 * 2. The module itself is read, not mapped: it may belong to any user, and a mapped file that is
 *    cut short would end the recorder with SIGBUS.
 * 3. Failing to write the cache is no error.
 */
#include "unwind/unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "unwind/ehframe.h"

enum { CACHE_VERSION = 3 }; /* to be raised when rows are built otherwise */

static const char cache_magic[8] = "assayuwt";

struct cache_header {
	char magic[8];
	uint32_t version;
	uint32_t row_size;
	uint64_t count;
	uint64_t base;
	uint64_t source; /* ehframe_digest() of the module */
	uint64_t checksum; /* of what is before it and of the rows */
};

_Static_assert(sizeof(struct cache_header) == 48, "no padding, rows stay aligned");

static uint64_t cache_checksum(const struct cache_header *header, const struct unwind_row *rows)
{
	uint64_t head = XXH3_64bits(header, offsetof(struct cache_header, checksum));

	return XXH3_64bits_withSeed(rows, header->count * sizeof(*rows), head);
}

static bool rows_in_order(const struct unwind_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].kind >= UNWIND_KIND_COUNT || (i && rows[i].pc <= rows[i - 1].pc))
			return false;
	return true;
}

static bool cache_holds(const struct cache_header *header, size_t size, uint64_t source)
{
	const struct unwind_row *rows = (const void *)(header + 1);

	return memcmp(header->magic, cache_magic, sizeof(cache_magic)) == 0 &&
	       header->version == CACHE_VERSION && header->row_size == sizeof(*rows) &&
	       header->source == source &&
	       header->count == (size - sizeof(*header)) / sizeof(*rows) &&
	       (size - sizeof(*header)) % sizeof(*rows) == 0 &&
	       header->checksum == cache_checksum(header, rows) &&
	       rows_in_order(rows, header->count);
}

static bool cache_open(const char *path, uint64_t source, struct unwind_table *ret)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct cache_header *header;
	struct stat info;

	if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
	    (info.st_mode & (S_IWGRP | S_IWOTH)) || info.st_size < (off_t)sizeof(*header))
		return false;
	header = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (header == MAP_FAILED)
		return false;
	if (!cache_holds(header, (size_t)info.st_size, source)) {
		munmap(header, (size_t)info.st_size);
		return false;
	}
	*ret = (struct unwind_table){ .rows = (void *)(header + 1),
				      .count = header->count,
				      .base = header->base,
				      .mapped = header,
				      .mapped_size = (size_t)info.st_size };
	return true;
}

static bool file_write(int fd, const void *data, size_t size)
{
	while (size) {
		ssize_t put = write(fd, data, size);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return false;
		data = (const char *)data + put;
		size -= (size_t)put;
	}
	return true;
}

static void cache_write(const char *path, uint64_t source, const struct unwind_table *table)
{
	AUTO(free_ptr) char *draft = mem_printf("%s.XXXXXX", path);
	AUTO(close_fd) int fd = mkostemp(draft, O_CLOEXEC);
	struct cache_header header = { .version = CACHE_VERSION,
				       .row_size = sizeof(*table->rows),
				       .count = table->count,
				       .base = table->base,
				       .source = source };

	if (fd < 0) {
		log_debug("unwind cache: %s: %s", draft, strerror(errno));
		return;
	}
	memcpy(header.magic, cache_magic, sizeof(cache_magic));
	header.checksum = cache_checksum(&header, table->rows);
	if (file_write(fd, &header, sizeof(header)) &&
	    file_write(fd, table->rows, table->count * sizeof(*table->rows)) &&
	    rename(draft, path) == 0)
		return;
	log_debug("unwind cache: %s: %s", path, strerror(errno));
	unlink(draft);
}

static void image_unmap(struct image *image)
{
	if (image->bytes)
		munmap(image->bytes, image->size);
}

/* Room for the whole file, of which only the pages that image_at() reads ever become memory. */
static int image_open(int fd, struct image *ret)
{
	struct stat info;
	void *room;

	if (fstat(fd, &info) < 0)
		return err_set(-errno, "unwind table: cannot stat the module: %s", strerror(errno));
	if (!S_ISREG(info.st_mode) || info.st_size <= 0)
		return err_set(-ENOEXEC, "unwind table: the module is not a file with contents");
	room = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return err_set(-errno, "unwind table: no room for a module of %lld bytes: %s",
			       (long long)info.st_size, strerror(errno));
	*ret = (struct image){ .bytes = room, .size = (size_t)info.st_size, .fd = fd };
	return 0;
}

int unwind_table_load(int fd, const struct build_id *id, const char *cache_dir,
		      struct unwind_table *ret)
{
	AUTO(image_unmap) struct image image = {};
	AUTO(free_ptr) char *path = NULL;
	char hex[BUILD_ID_HEX_MAX];
	struct ehframe frame;
	uint64_t source = 0;
	int err;

	err = image_open(fd, &image);
	if (!err)
		err = ehframe_find(&image, &frame);
	if (err)
		return err;
	if (cache_dir && id && id->size) {
		build_id_hex(id, hex);
		path = mem_printf("%s/%s.unwind", cache_dir, hex);
		source = ehframe_digest(&frame);
		if (cache_open(path, source, ret))
			return 0;
	}
	err = ehframe_table(&frame, ret);
	if (!err && path)
		cache_write(path, source, ret);
	return err;
}

/* Creates the folder and those above it; false when it cannot be used. */
static bool directory_make(const char *path)
{
	AUTO(free_ptr) char *copy = mem_strdup(path);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(copy, 0755);
		*slash = '/';
	}
	mkdir(copy, 0700);
	return access(path, R_OK | W_OK | X_OK) == 0;
}

static const char *directory_try(const char *root, const char *rest)
{
	static _Thread_local char path[PATH_MAX];

	if (!root || !*root ||
	    (size_t)snprintf(path, sizeof(path), "%s%s", root, rest) >= sizeof(path))
		return NULL;
	return directory_make(path) ? path : NULL;
}

const char *unwind_cache_dir(void)
{
	const char *chosen = getenv("ASSAY_CACHE_DIR"), *found;

	if (chosen)
		return directory_try(chosen, "");
	found = directory_try(getenv("XDG_CACHE_HOME"), "/assay");
	if (!found)
		found = directory_try(getenv("HOME"), "/.cache/assay");
	return found ? found : directory_try("/var/cache", "/assay");
}
