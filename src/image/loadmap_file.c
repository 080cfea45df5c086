// SPDX-License-Identifier: BSD-2-Clause
/*
 * The file behind a mapping.
 *
 * Four ways lead to it, best first: /proc/PID/map_files/START-END is the mapped file itself, even
 * when it was deleted, replaced or lies in another mount namespace, but needs privilege and a
 * mapping that is still there; then the path below the process's root directory; then the path
 * below ours, for a process that has gone; then /proc/PID/exe. A name says nothing about bytes, so
 * each candidate is compared with what the kernel said about the mapping. Nothing but a regular
 * file is ever opened: opening a device can have effects, opening a pipe can block.
 */
#include "image/loadmap_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"

enum {
	PAGE = 4096,
	PROGRAM_HEADERS_MAX = 512,
	NOTE_BYTES_MAX = 65536,
	CANDIDATES = 4,
};

/* Opens for reading what an O_PATH descriptor stands for, if it is a regular file. */
static int reopen_regular(int handle)
{
	struct stat info;
	char path[64];
	int fd;

	if (handle < 0)
		return -errno;
	if (fstat(handle, &info))
		return -errno;
	if (!S_ISREG(info.st_mode))
		return -EINVAL;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* flags: O_NOFOLLOW, or 0 */
static int path_open(const char *path, int flags)
{
	AUTO(close_fd) int handle = open(path, O_PATH | O_CLOEXEC | flags);

	return reopen_regular(handle);
}

static int root_open(uint32_t pid, const char *path, int flags)
{
	/* Links inside must not lead out: in the process's eyes "/" is its own root. */
	struct open_how how = { .flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
				.resolve = RESOLVE_IN_ROOT };
	AUTO(close_fd) int root = -1, handle = -1;
	char name[64];

	if (pid == 0)
		return path_open(path, flags);
	snprintf(name, sizeof(name), "/proc/%u/root", pid);
	root = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	handle = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	return reopen_regular(handle);
}

int loadmap_root_open(uint32_t pid, const char *path)
{
	return root_open(pid, path, 0);
}

int loadmap_root_open_file(uint32_t pid, const char *path)
{
	return root_open(pid, path, O_NOFOLLOW);
}

static int candidate_open(int which, uint32_t pid, const struct event_mmap *mmap, const char *path)
{
	char name[128];

	switch (which) {
	case 0:
		snprintf(name, sizeof(name), "/proc/%u/map_files/%" PRIx64 "-%" PRIx64, pid,
			 mmap->start, mmap->end);
		return path_open(name, 0);
	case 1:
		return loadmap_root_open(pid, path);
	case 2:
		return loadmap_root_open(0, path);
	default:
		snprintf(name, sizeof(name), "/proc/%u/exe", pid);
		return path_open(name, 0);
	}
}

/* Files of these show another device to stat() than to mmap records. */
static bool device_is_vague(int fd)
{
	struct statfs info;

	return fstatfs(fd, &info) == 0 &&
	       (info.f_type == BTRFS_SUPER_MAGIC || info.f_type == OVERLAYFS_SUPER_MAGIC);
}

/* strict: a file of which nothing is known is not taken. */
static bool file_is_mapped(const struct loadmap_file *file, const struct event_mmap *mmap,
			   bool strict)
{
	struct stat info;

	if (mmap->build_id.size)
		return build_id_equal(&mmap->build_id, &file->build_id);
	if (!mmap->inode)
		return !strict;
	if (fstat(file->fd, &info) || info.st_ino != mmap->inode)
		return false;
	return info.st_dev == makedev(mmap->major, mmap->minor) || device_is_vague(file->fd);
}

int loadmap_file_open(uint32_t pid, const struct event_mmap *mmap, const char *path,
		      struct loadmap_file *ret)
{
	int err = -ENOENT;

	for (int which = 0; which < CANDIDATES; which++) {
		struct loadmap_file file;
		int fd = candidate_open(which, pid, mmap, path);

		if (fd == -EMFILE || fd == -ENFILE)
			return fd;
		if (fd < 0) {
			err = fd == -EACCES && err == -ENOENT ? fd : err;
			continue;
		}
		if (loadmap_file_read(fd, &file))
			continue;
		if (file_is_mapped(&file, mmap, which == CANDIDATES - 1)) {
			*ret = file;
			return 0;
		}
		loadmap_file_deinit(&file);
		err = which == CANDIDATES - 1 ? err : -ESTALE;
	}
	return err;
}

void loadmap_file_deinit(struct loadmap_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	free(file->segments);
	*file = (struct loadmap_file){ .fd = -1 };
}

static int64_t modification_time(const struct stat *info)
{
	return (int64_t)info->st_mtim.tv_sec * NS_PER_S + info->st_mtim.tv_nsec;
}

bool loadmap_file_changed(const struct loadmap_file *file)
{
	struct stat info;

	return file->fd >= 0 && fstat(file->fd, &info) == 0 &&
	       (modification_time(&info) != file->modified || (uint64_t)info.st_size != file->size);
}

uint64_t loadmap_file_identity(const struct loadmap_file *file)
{
	struct stat info;

	if (fstat(file->fd, &info))
		return 0;
	return hash64_pair(hash64_pair(info.st_dev, info.st_ino),
			   hash64_pair((uint64_t)file->modified, file->size));
}

static bool read_at(int fd, uint64_t offset, void *ret, size_t size)
{
	return offset <= INT64_MAX && pread(fd, ret, size, (off_t)offset) == (ssize_t)size;
}

/* Both classes in the form of the larger one. */
static bool header_read(int fd, Elf64_Ehdr *ret)
{
	Elf32_Ehdr small;

	if (!read_at(fd, 0, &small, sizeof(small)) || memcmp(small.e_ident, ELFMAG, SELFMAG) ||
	    small.e_ident[EI_DATA] != ELFDATA2LSB)
		return false;
	if (small.e_ident[EI_CLASS] == ELFCLASS64)
		return read_at(fd, 0, ret, sizeof(*ret)) && ret->e_phentsize == sizeof(Elf64_Phdr);
	*ret = (Elf64_Ehdr){ .e_phoff = small.e_phoff, .e_phnum = small.e_phnum };
	return small.e_ident[EI_CLASS] == ELFCLASS32 && small.e_phentsize == sizeof(Elf32_Phdr);
}

static bool program_header_read(int fd, const Elf64_Ehdr *header, size_t index, Elf64_Phdr *ret)
{
	bool large = header->e_ident[EI_CLASS] == ELFCLASS64;
	size_t size = large ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	Elf32_Phdr small;
	uint64_t offset;

	if (__builtin_add_overflow(header->e_phoff, index * size, &offset))
		return false;
	if (large)
		return read_at(fd, offset, ret, sizeof(*ret));
	if (!read_at(fd, offset, &small, sizeof(small)))
		return false;
	*ret = (Elf64_Phdr){
		.p_type = small.p_type,
		.p_flags = small.p_flags,
		.p_offset = small.p_offset,
		.p_vaddr = small.p_vaddr,
		.p_filesz = small.p_filesz,
		.p_memsz = small.p_memsz,
	};
	return true;
}

static size_t align4(size_t size)
{
	return (size + 3) & ~(size_t)3;
}

/* The build-id note among a segment of notes; ret stays empty when there is none. */
static void notes_search(const uint8_t *notes, size_t size, struct build_id *ret)
{
	Elf64_Nhdr note;

	while (size >= sizeof(note)) {
		const uint8_t *name = notes + sizeof(note);
		size_t name_size, total;

		memcpy(&note, notes, sizeof(note));
		name_size = align4(note.n_namesz);
		total = sizeof(note) + name_size + align4(note.n_descsz);
		if (total > size)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    memcmp(name, "GNU", 4) == 0 && note.n_descsz <= BUILD_ID_MAX) {
			ret->size = (uint8_t)note.n_descsz;
			memcpy(ret->bytes, name + name_size, note.n_descsz);
			return;
		}
		notes += total;
		size -= total;
	}
}

static void notes_read(int fd, const Elf64_Phdr *segment, struct build_id *ret)
{
	size_t size = segment->p_filesz < NOTE_BYTES_MAX ? segment->p_filesz : NOTE_BYTES_MAX;
	AUTO(free_ptr) uint8_t *notes = mem_alloc(size);

	if (read_at(fd, segment->p_offset, notes, size))
		notes_search(notes, size, ret);
}

static void segments_read(int fd, const Elf64_Ehdr *header, struct loadmap_file *ret)
{
	ARRAY(struct loadmap_segment) segments = {};
	uint64_t lowest = UINT64_MAX, end;

	for (size_t i = 0; i < header->e_phnum && i < PROGRAM_HEADERS_MAX; i++) {
		Elf64_Phdr segment;

		if (!program_header_read(fd, header, i, &segment))
			break;
		if (segment.p_type == PT_NOTE && !ret->build_id.size)
			notes_read(fd, &segment, &ret->build_id);
		if (segment.p_type != PT_LOAD)
			continue;
		*array_push(&segments) = (struct loadmap_segment){
			.offset = segment.p_offset,
			.size = segment.p_filesz,
			.address = segment.p_vaddr,
			.executable = segment.p_flags & PF_X,
		};
		lowest = segment.p_vaddr < lowest ? segment.p_vaddr : lowest;
		if (!__builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &end) &&
		    end > ret->end)
			ret->end = end;
	}
	ret->segments = segments.items;
	ret->segment_count = segments.count;
	ret->base = segments.count ? lowest & ~(uint64_t)(PAGE - 1) : 0;
}

int loadmap_file_read(int fd, struct loadmap_file *ret)
{
	struct stat info;
	Elf64_Ehdr header;

	*ret = (struct loadmap_file){ .fd = fd };
	if (fstat(fd, &info)) {
		int err = -errno;

		loadmap_file_deinit(ret);
		return err;
	}
	ret->size = (uint64_t)info.st_size;
	ret->modified = modification_time(&info);
	ret->elf = header_read(fd, &header);
	if (ret->elf)
		segments_read(fd, &header, ret);
	return 0;
}

/* Segments are mapped by whole pages, so that two of them may hold the same page of the file. */
static bool segment_holds(const struct loadmap_segment *segment, uint64_t offset)
{
	uint64_t first = segment->offset & ~(uint64_t)(PAGE - 1);

	return offset >= first &&
	       (offset < segment->offset || offset - segment->offset < segment->size);
}

uint64_t loadmap_file_bias(const struct loadmap_file *file, uint64_t start, uint64_t offset)
{
	const struct loadmap_segment *best = NULL;

	for (size_t i = 0; i < file->segment_count; i++) {
		const struct loadmap_segment *segment = &file->segments[i];

		if (segment_holds(segment, offset) &&
		    (!best || (segment->executable && !best->executable)))
			best = segment;
	}
	return start - offset + (best ? best->offset - best->address : 0);
}
