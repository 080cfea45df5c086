// SPDX-License-Identifier: BSD-2-Clause
/* Reads program headers, notes and the bytes at an address with pread(), without any library. */
#include "symbols/elf_image.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "symbols/symbols.h"

enum { NOTES_MAX = 1 << 20 };

/* How many bytes were there. */
static size_t read_at(int fd, uint64_t offset, void *ret, size_t size)
{
	size_t done = 0;

	while (done < size && offset + done <= INT64_MAX) {
		ssize_t got = pread(fd, (char *)ret + done, size - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

/* The table's whole entries that are in the file; a heap array. */
static void *table_read(int fd, uint64_t offset, size_t entry_size, size_t *count)
{
	void *table = mem_realloc(NULL, *count, entry_size);

	*count = read_at(fd, offset, table, *count * entry_size) / entry_size;
	return table;
}

#define SEGMENT_OF(header)                                                                         \
	((struct elf_segment){ (header)->p_type, (header)->p_vaddr, (header)->p_offset,            \
			       (header)->p_filesz, (header)->p_align, (header)->p_flags })

static void segments_read(struct elf_image *image, uint64_t offset, size_t count)
{
	bool wide = image->class == ELFCLASS64;
	AUTO(free_ptr)
	void *table = table_read(image->fd, offset, wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr),
				 &count);

	image->segments = mem_realloc(NULL, count, sizeof(*image->segments));
	image->segment_count = count;
	for (size_t i = 0; i < count; i++)
		image->segments[i] = wide ? SEGMENT_OF((Elf64_Phdr *)table + i)
					  : SEGMENT_OF((Elf32_Phdr *)table + i);
}

union elf_header {
	unsigned char ident[EI_NIDENT];
	Elf32_Ehdr narrow;
	Elf64_Ehdr wide;
};

static bool header_usable(const union elf_header *header, size_t got)
{
	if (got < sizeof(Elf32_Ehdr) || memcmp(header->ident, ELFMAG, SELFMAG) != 0 ||
	    header->ident[EI_DATA] != ELFDATA2LSB)
		return false;
	if (header->ident[EI_CLASS] == ELFCLASS64)
		return got == sizeof(Elf64_Ehdr) &&
		       (!header->wide.e_phnum || header->wide.e_phentsize == sizeof(Elf64_Phdr));
	return header->ident[EI_CLASS] == ELFCLASS32 &&
	       (!header->narrow.e_phnum || header->narrow.e_phentsize == sizeof(Elf32_Phdr));
}

int elf_image_init(struct elf_image *image, int fd, const char *path)
{
	union elf_header header = {};
	size_t got = read_at(fd, 0, &header, sizeof(header));

	if (!header_usable(&header, got))
		return err_set(-ENOEXEC, "%s: not an ELF file that this machine could run", path);
	*image = (struct elf_image){ .fd = fd, .class = header.ident[EI_CLASS] };
	if (image->class == ELFCLASS64) {
		image->section_offset = header.wide.e_shoff;
		image->section_count = header.wide.e_shnum;
		segments_read(image, header.wide.e_phoff, header.wide.e_phnum);
	} else {
		image->section_offset = header.narrow.e_shoff;
		image->section_count = header.narrow.e_shnum;
		segments_read(image, header.narrow.e_phoff, header.narrow.e_phnum);
	}
	return 0;
}

void elf_image_deinit(struct elf_image *image)
{
	free(image->segments);
	memset(image, 0, sizeof(*image));
}

static uint64_t padded(uint64_t size, uint64_t align)
{
	return (size + align - 1) & ~(align - 1);
}

struct note_wanted {
	const char *name;
	uint32_t type;
};

/*
 * Goes through notes laid out with the given padding; true when the one wanted was among them, with
 * no more bytes than a build-id may have.
 */
static bool notes_search(const uint8_t *notes, size_t size, uint64_t align,
			 const struct note_wanted *wanted, struct build_id *ret)
{
	size_t name_size = strlen(wanted->name) + 1;
	uint64_t at = 0;

	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name = at + sizeof(note), data, end;

		memcpy(&note, notes + at, sizeof(note));
		data = padded(name + note.n_namesz, align);
		end = data + note.n_descsz;
		if (end > size)
			return false;
		if (note.n_type == wanted->type && note.n_namesz == name_size &&
		    memcmp(notes + name, wanted->name, name_size) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= BUILD_ID_MAX) {
			ret->size = (uint8_t)note.n_descsz;
			memcpy(ret->bytes, notes + data, note.n_descsz);
			return true;
		}
		at = padded(end, align);
		if (at > size)
			return false;
	}
	return false;
}

static bool notes_read(const struct elf_image *image, const struct elf_segment *place,
		       const struct note_wanted *wanted, struct build_id *ret)
{
	AUTO(free_ptr) uint8_t *notes = NULL;
	size_t size = place->file_size > NOTES_MAX ? NOTES_MAX : place->file_size;

	notes = mem_alloc(size);
	size = read_at(image->fd, place->offset, notes, size);
	return notes_search(notes, size, place->align == 8 ? 8 : 4, wanted, ret);
}

#define SECTION_OF(header)                                                                         \
	((struct elf_segment){ (header)->sh_type, (header)->sh_addr, (header)->sh_offset,          \
			       (header)->sh_size, (header)->sh_addralign, (header)->sh_flags })

struct elf_segment *elf_image_sections(const struct elf_image *image, size_t *ret_count)
{
	bool wide = image->class == ELFCLASS64;
	size_t count = image->section_count;
	AUTO(free_ptr)
	void *table = table_read(image->fd, image->section_offset,
				 wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr), &count);
	struct elf_segment *sections = mem_realloc(NULL, count, sizeof(*sections));

	for (size_t i = 0; i < count; i++)
		sections[i] = wide ? SECTION_OF((Elf64_Shdr *)table + i)
				   : SECTION_OF((Elf32_Shdr *)table + i);
	*ret_count = count;
	return sections;
}

/*
 * For objects without program headers, and for debug files, whose program headers point at nothing.
 */
static bool section_notes_read(const struct elf_image *image, const struct note_wanted *wanted,
			       struct build_id *ret)
{
	size_t count;
	AUTO(free_ptr) struct elf_segment *sections = elf_image_sections(image, &count);

	for (size_t i = 0; i < count; i++)
		if (sections[i].type == SHT_NOTE && notes_read(image, &sections[i], wanted, ret))
			return true;
	return false;
}

static bool segment_notes_read(const struct elf_image *image, const struct note_wanted *wanted,
			       struct build_id *ret)
{
	for (size_t i = 0; i < image->segment_count; i++)
		if (image->segments[i].type == PT_NOTE &&
		    notes_read(image, &image->segments[i], wanted, ret))
			return true;
	return false;
}

bool elf_image_has_note(const struct elf_image *image, const char *name, uint32_t type)
{
	struct build_id unused;

	return segment_notes_read(image, &(struct note_wanted){ name, type }, &unused);
}

void elf_image_build_id(const struct elf_image *image, struct build_id *ret)
{
	static const struct note_wanted wanted = { ELF_NOTE_GNU, NT_GNU_BUILD_ID };

	memset(ret, 0, sizeof(*ret));
	if (!segment_notes_read(image, &wanted, ret))
		section_notes_read(image, &wanted, ret);
}

int elf_build_id(int fd, struct build_id *ret)
{
	struct elf_image image;
	int err = elf_image_init(&image, fd, "module");

	if (err)
		return err;
	elf_image_build_id(&image, ret);
	elf_image_deinit(&image);
	return 0;
}

int elf_image_read(const struct elf_image *image, uint64_t address, void *ret, size_t size)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct elf_segment *segment = &image->segments[i];
		uint64_t into = address - segment->address;

		if (segment->type != PT_LOAD || address < segment->address ||
		    into >= segment->file_size || segment->offset > INT64_MAX - into)
			continue;
		size = size > segment->file_size - into ? segment->file_size - into : size;
		size = size > INT_MAX ? INT_MAX : size;
		size = read_at(image->fd, segment->offset + into, ret, size);
		if (size)
			return (int)size;
	}
	return -ENOENT;
}

int elf_window_read(struct elf_window *window, const struct elf_image *image, uint64_t address,
		    void *ret, size_t size)
{
	uint64_t into = address - window->address;
	int got;

	if (size > ELF_WINDOW / 2)
		return elf_image_read(image, address, ret, size);
	if (into >= window->size || window->size - into < size) {
		if (!window->bytes)
			window->bytes = mem_alloc(ELF_WINDOW);
		window->size = 0;
		got = elf_image_read(image, address, window->bytes, ELF_WINDOW);
		if (got <= 0)
			return got;
		window->address = address;
		window->size = (size_t)got;
		into = 0;
	}
	size = size < window->size - into ? size : window->size - into;
	memcpy(ret, window->bytes + into, size);
	return (int)size;
}

void elf_window_deinit(struct elf_window *window)
{
	free(window->bytes);
	*window = (struct elf_window){};
}
