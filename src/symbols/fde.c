// SPDX-License-Identifier: BSD-2-Clause
/*
 * The header, by the LSB: version, three encodings, address of .eh_frame, number of entries, then entries of two
 * 4-byte offsets from the header: function and its FDE. An FDE: length, distance to its CIE, function (4 bytes,
 * relative to the field), size of the function (4 bytes). Linkers write no other form on x86-64; another is refused.
 */
#include "symbols/fde.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum {
	ENCODING_PCREL_SDATA4 = 0x1b,
	ENCODING_UDATA4 = 0x03,
	ENCODING_DATAREL_SDATA4 = 0x3b,
};

struct header {
	uint8_t version;
	uint8_t frame_encoding;
	uint8_t count_encoding;
	uint8_t table_encoding;
	int32_t frame;
	uint32_t count;
};

struct entry {
	int32_t function;
	int32_t fde;
};

struct fde {
	uint32_t length;
	uint32_t cie;
	int32_t function;
	uint32_t size;
};

static bool read_at(const struct elf_image *image, uint64_t address, void *ret, size_t size)
{
	return elf_image_read(image, address, ret, size) == (int)size;
}

static int header_find(const struct elf_image *image, uint64_t *ret_address, struct header *ret)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		if (image->segments[i].type != PT_GNU_EH_FRAME)
			continue;
		*ret_address = image->segments[i].address;
		if (!read_at(image, *ret_address, ret, sizeof(*ret)) || ret->version != 1 ||
		    ret->frame_encoding != ENCODING_PCREL_SDATA4 ||
		    ret->count_encoding != ENCODING_UDATA4 ||
		    ret->table_encoding != ENCODING_DATAREL_SDATA4)
			return -ENOENT;
		return 0;
	}
	return -ENOENT;
}

/* The last entry whose function starts at or below address. */
static int entry_find(const struct elf_image *image, uint64_t base, uint32_t count,
		      uint64_t address, struct entry *ret)
{
	uint32_t low = 0, high = count;
	struct entry entry;
	int err = -ENOENT;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (!read_at(image, base + sizeof(struct header) + middle * sizeof(entry), &entry,
			     sizeof(entry)))
			return -ENOENT;
		if (base + (uint64_t)(int64_t)entry.function > address) {
			high = middle;
			continue;
		}
		*ret = entry;
		err = 0;
		low = middle + 1;
	}
	return err;
}

int fde_find(const struct elf_image *image, uint64_t address, uint64_t *ret_start,
	     uint64_t *ret_size)
{
	struct header header;
	struct entry entry;
	struct fde fde;
	uint64_t base, start;

	if (header_find(image, &base, &header) ||
	    entry_find(image, base, header.count, address, &entry) ||
	    !read_at(image, base + (uint64_t)(int64_t)entry.fde, &fde, sizeof(fde)))
		return -ENOENT;
	start = base + (uint64_t)(int64_t)entry.function;
	/* That the FDE points back at the function shows that it has the form we assume. */
	if (base + (uint64_t)(int64_t)entry.fde + offsetof(struct fde, function) +
			    (uint64_t)(int64_t)fde.function !=
		    start ||
	    address - start >= fde.size)
		return -ENOENT;
	*ret_start = start;
	*ret_size = fde.size;
	return 0;
}
