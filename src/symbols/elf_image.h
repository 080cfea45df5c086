/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The few parts of an ELF file that the recorder reads in its own process: segments and notes,
 * with pread() and every size checked. The rest is libdw's, in a process of its own (worker.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buildid.h"

struct elf_segment {
	uint32_t type; /* PT_, or SHT_ for a section */
	uint64_t address, offset, file_size, align;
	uint64_t flags; /* PF_, or SHF_ for a section */
};

struct elf_image {
	int fd; /* the caller's */
	struct elf_segment *segments;
	size_t segment_count;
	uint64_t section_offset; /* of the section headers */
	uint32_t section_count;
	uint8_t class; /* ELFCLASS32 or ELFCLASS64 */
};

/* -ENOEXEC: no little-endian ELF file. path is for the message. */
int elf_image_init(struct elf_image *image, int fd, const char *path);
void elf_image_deinit(struct elf_image *image);
/* Whether there is a note of this name and type. */
bool elf_image_has_note(const struct elf_image *image, const char *name, uint32_t type);
/* All sections; a heap array. */
struct elf_segment *elf_image_sections(const struct elf_image *image, size_t *ret_count);
void elf_image_build_id(const struct elf_image *image, struct build_id *ret);
/* As symbols_code(). */
int elf_image_read(const struct elf_image *image, uint64_t address, void *ret, size_t size);

/*
 * What lies around the last address that was read, so that neighbours cost no system call. Zero at
 * first.
 */
enum { ELF_WINDOW = 16 << 10 };

struct elf_window {
	uint8_t *bytes;
	uint64_t address;
	size_t size; /* bytes from address on that are known */
};

void elf_window_deinit(struct elf_window *window);
/* As elf_image_read(); always of the same image. */
int elf_window_read(struct elf_window *window, const struct elf_image *image, uint64_t address,
		    void *ret, size_t size);
