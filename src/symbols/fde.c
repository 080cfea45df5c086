// SPDX-License-Identifier: BSD-2-Clause
/*
 * The header, by the LSB: version, three encodings, address of .eh_frame, number of entries, then
 * entries of two 4-byte offsets from the header: function and its FDE. An FDE: length, distance to
 * its CIE, function (4 bytes, relative to the field), size of the function (4 bytes). Linkers write
 * no other form on x86-64; another is refused.
 */
#include "symbols/fde.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"

enum {
	ENCODING_PCREL_SDATA4 = 0x1b,
	ENCODING_UDATA4 = 0x03,
	ENCODING_DATAREL_SDATA4 = 0x3b,
	ENTRIES_MAX = 1 << 23, /* eight times those of the largest programs */
};

struct header {
	uint8_t version;
	uint8_t frame_encoding;
	uint8_t count_encoding;
	uint8_t table_encoding;
	int32_t frame;
	uint32_t count;
};

struct fde_entry {
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

/*
 * The number of entries in the header may be wrong: memory is reserved for as many as its segment
 * can hold.
 */
static size_t entries_room(const struct elf_image *image, uint32_t count)
{
	size_t room = count < ENTRIES_MAX ? count : ENTRIES_MAX;

	for (size_t i = 0; i < image->segment_count; i++)
		if (image->segments[i].type == PT_GNU_EH_FRAME &&
		    image->segments[i].file_size / sizeof(struct fde_entry) < room)
			room = image->segments[i].file_size / sizeof(struct fde_entry);
	return room;
}

static void table_read(struct fde_table *table, const struct elf_image *image)
{
	struct header header;
	size_t room;
	int got;

	table->known = true;
	if (header_find(image, &table->base, &header))
		return;
	room = entries_room(image, header.count);
	if (!room)
		return;
	table->entries = mem_alloc(room * sizeof(*table->entries));
	got = elf_image_read(image, table->base + sizeof(header), table->entries,
			     room * sizeof(*table->entries));
	table->count = got > 0 ? (size_t)got / sizeof(*table->entries) : 0;
}

void fde_table_deinit(struct fde_table *table)
{
	free(table->entries);
	elf_window_deinit(&table->window);
	*table = (struct fde_table){};
}

static uint64_t entry_address(const struct fde_table *table, int32_t offset)
{
	return table->base + (uint64_t)(int64_t)offset;
}

/* The last entry whose function starts at or below address; NULL: none does. */
static const struct fde_entry *entry_find(const struct fde_table *table, uint64_t address)
{
	size_t low = 0, high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (entry_address(table, table->entries[middle].function) > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low ? &table->entries[low - 1] : NULL;
}

/* That the FDE points back at the function shows that it has the form we assume. */
static bool fde_read(struct fde_table *table, const struct elf_image *image,
		     const struct fde_entry *entry, uint64_t *ret_start, uint64_t *ret_size)
{
	uint64_t at = entry_address(table, entry->fde);
	struct fde fde;

	if (elf_window_read(&table->window, image, at, &fde, sizeof(fde)) != (int)sizeof(fde))
		return false;
	*ret_start = entry_address(table, entry->function);
	*ret_size = fde.size;
	return at + offsetof(struct fde, function) + (uint64_t)(int64_t)fde.function == *ret_start;
}

int fde_find(struct fde_table *table, const struct elf_image *image, uint64_t address,
	     uint64_t *ret_start, uint64_t *ret_size)
{
	const struct fde_entry *entry;
	uint64_t start, size;

	if (!table->known)
		table_read(table, image);
	entry = entry_find(table, address);
	if (!entry || !fde_read(table, image, entry, &start, &size) || address - start >= size)
		return -ENOENT;
	*ret_start = start;
	*ret_size = size;
	return 0;
}

void fde_each(struct fde_table *table, const struct elf_image *image,
	      bool (*tell)(void *ctx, uint64_t start, uint64_t size), void *ctx)
{
	uint64_t start, size;

	if (!table->known)
		table_read(table, image);
	for (size_t i = 0; i < table->count; i++)
		if (fde_read(table, image, &table->entries[i], &start, &size) &&
		    !tell(ctx, start, size))
			return;
}
