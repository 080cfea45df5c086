/* SPDX-License-Identifier: BSD-2-Clause */
/* The file behind a mapping: finding the very one that was mapped, and what its ELF headers say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "image/events.h"

struct loadmap_segment {
	uint64_t offset, size, address; /* p_offset, p_filesz, p_vaddr */
	bool executable;
};

struct loadmap_file {
	int fd;
	uint64_t size;
	int64_t modified; /* mtime, ns */
	bool elf;
	struct build_id build_id;
	struct loadmap_segment *segments; /* PT_LOAD; heap */
	size_t segment_count;
	uint64_t base; /* lowest p_vaddr, page-aligned down */
	uint64_t end; /* highest p_vaddr + p_memsz */
};

/*
 * Opens the file that pid mapped, wherever it is now. path: without " (deleted)". What the event
 * says about it (build-id, else device and inode) has to hold. -ESTALE: only another file was found
 * under its name.
 */
int loadmap_file_open(uint32_t pid, const struct event_mmap *mmap, const char *path,
		      struct loadmap_file *ret);
/* Takes over fd also on failure. A file that is not ELF is no error. */
int loadmap_file_read(int fd, struct loadmap_file *ret);
/* Closes fd and frees. */
void loadmap_file_deinit(struct loadmap_file *file);
/* The bytes were changed in place since loadmap_file_open(). */
bool loadmap_file_changed(const struct loadmap_file *file);
/* The same for each opening of one version of a file; 0: not to be found out. */
uint64_t loadmap_file_identity(const struct loadmap_file *file);
/* run-time address - bias = p_vaddr; for a file that is not ELF, the place in the file. */
uint64_t loadmap_file_bias(const struct loadmap_file *file, uint64_t start, uint64_t offset);
/* A regular file below the root directory of pid, never a device or a pipe; pid 0: of our own. */
int loadmap_root_open(uint32_t pid, const char *path);
/*
 * The same, but a symbolic link is not followed, because any user who may write in the folder may
 * have made it.
 */
int loadmap_root_open_file(uint32_t pid, const char *path);
