// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finds .eh_frame in an ELF image and lists its CIEs and FDEs.
 *
 * Theory of operation: the section is found by its header, or, in a file whose section headers were
 * cut off, through PT_GNU_EH_FRAME, whose header points at it. It is then walked once from front to
 * back. A CIE is read and its program run the first time it is passed; an FDE only notes its range
 * and where its program lies, because FDEs are run later, in the order of their addresses.
 *
 * Invariants:
 * 1. No byte is read without image_at() or a cursor having checked it.
 * 2. Each byte of the section is read a bounded number of times: an FDE may only name a CIE that
 *    the walk has passed as an entry of its own, and the program of a CIE is run once.
 * 3. Every FDE and stub kept has start < end, inside one executable segment, within 4 GB of the
 *    base.
 */
#include "unwind/ehframe.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/err.h"
#include "base/map.h"

enum {
	PAGE = 4096,
	SECTION_SIZE_MAX = 1 << 27, /* the largest known are near 30 MB */
	NAMES_SIZE_MAX = 1 << 22,
	STUB_SIZE_MAX = 256,
	REGISTER_RBX = 3,
	REGISTER_RBP = 6,
	REGISTER_RSP = 7,
};

enum {
	PE_OMIT = 0xff,
	PE_FORMAT = 0x0f,
	PE_APPLICATION = 0x70,
	PE_ABSPTR = 0x00,
	PE_ULEB128 = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SIGNED = 0x08,
	PE_SLEB128 = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_ALIGNED = 0x50,
};

static bool image_read(const struct image *image, uint64_t offset, uint64_t size)
{
	while (size) {
		ssize_t got = pread(image->fd, image->bytes + offset, size, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		offset += (uint64_t)got;
		size -= (uint64_t)got;
	}
	return true;
}

const void *image_at(const struct image *image, uint64_t offset, uint64_t size)
{
	if (offset > image->size || size > image->size - offset)
		return NULL;
	if (image->fd >= 0 && !image_read(image, offset, size))
		return NULL;
	return image->bytes + offset;
}

uint64_t cursor_uleb_long(struct cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	cursor->bad = true;
	return 0;
}

int64_t cursor_sleb(struct cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; cursor->at < cursor->end;) {
		uint8_t byte = *cursor->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (shift < 64 && (byte & 0x40))
			value |= ~UINT64_C(0) << shift;
		return (int64_t)value;
	}
	cursor->bad = true;
	return 0;
}

static uint64_t cursor_address(const struct cursor *cursor, const struct ehframe *frame)
{
	return frame->address + (uint64_t)(cursor->at - frame->bytes);
}

static uint64_t cursor_pointer_value(struct cursor *cursor, uint8_t format)
{
	switch (format) {
	case PE_ABSPTR:
	case PE_SIGNED:
	case PE_UDATA8:
	case PE_SDATA8:
		return cursor_fixed(cursor, 8);
	case PE_ULEB128:
		return cursor_uleb(cursor);
	case PE_SLEB128:
		return (uint64_t)cursor_sleb(cursor);
	case PE_UDATA2:
		return cursor_fixed(cursor, 2);
	case PE_SDATA2:
		return (uint64_t)(int64_t)(int16_t)cursor_fixed(cursor, 2);
	case PE_UDATA4:
		return cursor_fixed(cursor, 4);
	case PE_SDATA4:
		return (uint64_t)(int64_t)(int32_t)cursor_fixed(cursor, 4);
	}
	cursor->bad = true;
	return 0;
}

uint64_t cursor_pointer(struct cursor *cursor, const struct ehframe *frame, uint8_t encoding)
{
	uint64_t address = cursor_address(cursor, frame);

	if (encoding == PE_ALIGNED) {
		cursor_skip(cursor, -address & 7);
		return cursor_fixed(cursor, 8);
	}
	switch (encoding & ~PE_FORMAT) {
	case 0:
		return cursor_pointer_value(cursor, encoding & PE_FORMAT);
	case PE_PCREL:
		return address + cursor_pointer_value(cursor, encoding & PE_FORMAT);
	}
	cursor->bad = true;
	return 0;
}

static void segment_add(struct ehframe *frame, const Elf64_Phdr *header)
{
	uint64_t end;

	if (!(header->p_flags & PF_X) || frame->segment_count == EHFRAME_SEGMENTS_MAX ||
	    __builtin_add_overflow(header->p_vaddr, header->p_memsz, &end))
		return;
	frame->segments[frame->segment_count++] =
		(struct ehframe_segment){ .start = header->p_vaddr, .end = end };
}

static const Elf64_Phdr *segments_read(const struct image *image, const Elf64_Ehdr *elf,
				       struct ehframe *frame)
{
	const Elf64_Phdr *headers;
	uint64_t lowest = UINT64_MAX;

	if (elf->e_phentsize != sizeof(*headers) || elf->e_phoff % 8)
		return NULL;
	headers = image_at(image, elf->e_phoff, (uint64_t)elf->e_phnum * sizeof(*headers));
	if (!headers)
		return NULL;
	for (const Elf64_Phdr *header = headers; header < headers + elf->e_phnum; header++) {
		if (header->p_type != PT_LOAD)
			continue;
		if (header->p_vaddr < lowest)
			lowest = header->p_vaddr;
		segment_add(frame, header);
	}
	frame->base = lowest == UINT64_MAX ? 0 : lowest & ~(uint64_t)(PAGE - 1);
	return headers;
}

static const Elf64_Shdr *section_named(const struct image *image, const Elf64_Ehdr *elf,
				       const char *name)
{
	const Elf64_Shdr *headers, *strings;
	const char *names;
	size_t length = strlen(name) + 1;

	if (elf->e_shentsize != sizeof(*headers) || elf->e_shstrndx >= elf->e_shnum ||
	    elf->e_shoff % 8)
		return NULL;
	headers = image_at(image, elf->e_shoff, (uint64_t)elf->e_shnum * sizeof(*headers));
	if (!headers)
		return NULL;
	strings = &headers[elf->e_shstrndx];
	if (strings->sh_size > NAMES_SIZE_MAX)
		return NULL;
	names = image_at(image, strings->sh_offset, strings->sh_size);
	if (!names)
		return NULL;
	for (const Elf64_Shdr *header = headers; header < headers + elf->e_shnum; header++) {
		if (header->sh_type == SHT_NOBITS || header->sh_name >= strings->sh_size ||
		    strings->sh_size - header->sh_name < length)
			continue;
		if (memcmp(names + header->sh_name, name, length) == 0)
			return header;
	}
	return NULL;
}

static bool find_by_section(const struct image *image, const Elf64_Ehdr *elf, struct ehframe *frame)
{
	const Elf64_Shdr *section = section_named(image, elf, ".eh_frame");

	if (!section || section->sh_size > SECTION_SIZE_MAX)
		return false;
	frame->bytes = image_at(image, section->sh_offset, section->sh_size);
	if (!frame->bytes)
		return false;
	frame->size = section->sh_size;
	frame->address = section->sh_addr;
	return true;
}

/* Cuts the range to its executable segment and makes it relative. False when nothing is left. */
static bool fde_range(const struct ehframe *frame, uint64_t start, uint64_t size,
		      struct cfi_fde *fde)
{
	for (uint32_t i = 0; i < frame->segment_count; i++) {
		const struct ehframe_segment *segment = &frame->segments[i];
		uint64_t end = segment->end;

		if (start < segment->start || start >= end)
			continue;
		if (size < end - start)
			end = start + size;
		if (end - frame->base > UINT32_MAX || start == end)
			return false;
		fde->start = (uint32_t)(start - frame->base);
		fde->end = (uint32_t)(end - frame->base);
		return true;
	}
	return false;
}

/*
 * The instructions that the linker finds between the ends of _init and _fini; none of them leaves
 * the stack changed.
 */
static size_t stub_instruction(const uint8_t *code, size_t left)
{
	static const struct {
		uint8_t size, known;
		uint8_t bytes[3];
	} instructions[] = {
		{ 7, 3, { 0x48, 0x8b, 0x05 } }, /* mov n(%rip),%rax */
		{ 7, 3, { 0x48, 0xc7, 0xc0 } }, /* mov $n,%rax */
		{ 3, 3, { 0x48, 0x85, 0xc0 } }, /* test %rax,%rax */
		{ 2, 1, { 0x74 } }, /* je */
		{ 2, 2, { 0xff, 0xd0 } }, /* call *%rax */
		{ 5, 1, { 0xe8 } }, /* call */
	};

	for (size_t i = 0; i < sizeof(instructions) / sizeof(instructions[0]); i++)
		if (left >= instructions[i].size &&
		    memcmp(code, instructions[i].bytes, instructions[i].known) == 0)
			return instructions[i].size;
	return 0;
}

/* [endbr64] sub $8,%rsp ... add $8,%rsp; ret. Offsets relative to code. */
static bool stub_match(const uint8_t *code, size_t size, struct ehframe_stub *ret)
{
	static const uint8_t landing[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const uint8_t head[] = { 0x48, 0x83, 0xec, 0x08 };
	static const uint8_t tail[] = { 0x48, 0x83, 0xc4, 0x08, 0xc3 };
	size_t at = 0, end;

	if (size >= sizeof(landing) && memcmp(code, landing, sizeof(landing)) == 0)
		at = sizeof(landing);
	if (size - at < sizeof(head) + sizeof(tail) || memcmp(code + at, head, sizeof(head)) != 0)
		return false;
	at += sizeof(head);
	end = size - sizeof(tail);
	*ret = (struct ehframe_stub){ .pushed = (uint32_t)at,
				      .popped = (uint32_t)size - 1,
				      .end = (uint32_t)size };
	while (at < end) {
		size_t step = stub_instruction(code + at, end - at);

		if (!step)
			return false;
		at += step;
	}
	return memcmp(code + end, tail, sizeof(tail)) == 0;
}

static void stub_find(const struct image *image, const Elf64_Ehdr *elf, const char *name,
		      struct ehframe *frame)
{
	const Elf64_Shdr *section = section_named(image, elf, name);
	const uint8_t *code;
	struct ehframe_stub stub;
	struct cfi_fde range;

	if (!section || section->sh_size > STUB_SIZE_MAX)
		return;
	code = image_at(image, section->sh_offset, section->sh_size);
	if (!code || !stub_match(code, section->sh_size, &stub) ||
	    !fde_range(frame, section->sh_addr, section->sh_size, &range) ||
	    range.end - range.start != section->sh_size)
		return;
	stub.start += range.start;
	stub.pushed += range.start;
	stub.popped += range.start;
	stub.end += range.start;
	frame->stubs[frame->stub_count++] = stub;
}

static void stubs_find(const struct image *image, const Elf64_Ehdr *elf, struct ehframe *frame)
{
	struct ehframe_stub *stubs = frame->stubs, first = {};

	stub_find(image, elf, ".init", frame);
	stub_find(image, elf, ".fini", frame);
	if (frame->stub_count == 2 && stubs[1].start < stubs[0].start) {
		first = stubs[1];
		stubs[1] = stubs[0];
		stubs[0] = first;
	}
}

static const Elf64_Phdr *segment_holding(const Elf64_Phdr *headers, size_t count, uint64_t address)
{
	for (const Elf64_Phdr *header = headers; header < headers + count; header++)
		if (header->p_type == PT_LOAD && address >= header->p_vaddr &&
		    address - header->p_vaddr < header->p_filesz)
			return header;
	return NULL;
}

/* The address of .eh_frame as its search table's header gives it; 0 when it does not. */
static uint64_t frame_address(const struct image *image, const Elf64_Phdr *header)
{
	enum { HEAD = 4, POINTER_MAX = 10 };
	uint64_t size = header->p_filesz < HEAD + POINTER_MAX ? header->p_filesz
							      : HEAD + POINTER_MAX;
	const uint8_t *bytes = image_at(image, header->p_offset, size);
	struct ehframe table = { .bytes = bytes, .address = header->p_vaddr };
	struct cursor cursor;
	uint64_t result, relative = 0;
	uint8_t encoding;

	if (!bytes || size < HEAD || bytes[0] != 1 || bytes[1] == PE_OMIT)
		return 0;
	cursor = cursor_of(&table, HEAD, size);
	encoding = bytes[1];
	if ((encoding & PE_APPLICATION) == PE_DATAREL) {
		encoding &= (uint8_t)~PE_APPLICATION;
		relative = header->p_vaddr;
	}
	result = cursor_pointer(&cursor, &table, encoding) + relative;
	return cursor.bad ? 0 : result;
}

static void find_by_segment(const struct image *image, const Elf64_Ehdr *elf,
			    const Elf64_Phdr *headers, struct ehframe *frame)
{
	const Elf64_Phdr *table = NULL, *segment;
	uint64_t address, skip, size;

	for (const Elf64_Phdr *header = headers; header < headers + elf->e_phnum && !table;
	     header++)
		if (header->p_type == PT_GNU_EH_FRAME)
			table = header;
	if (!table)
		return;
	address = frame_address(image, table);
	segment = segment_holding(headers, elf->e_phnum, address);
	if (!address || !segment)
		return;
	skip = address - segment->p_vaddr;
	size = segment->p_filesz - skip;
	if (size > SECTION_SIZE_MAX)
		size = SECTION_SIZE_MAX;
	frame->bytes = image_at(image, segment->p_offset + skip, size);
	if (!frame->bytes)
		return;
	frame->size = size;
	frame->address = address;
	frame->open_ended = true;
}

int ehframe_find(const struct image *image, struct ehframe *ret)
{
	const Elf64_Ehdr *elf = image_at(image, 0, sizeof(*elf));
	const Elf64_Phdr *headers;
	struct ehframe frame = {};

	if (!elf || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_ident[EI_DATA] != ELFDATA2LSB ||
	    elf->e_machine != EM_X86_64)
		return err_set(-ENOEXEC,
			       "unwind table: not an x86-64 ELF file; give a program or library");
	headers = segments_read(image, elf, &frame);
	frame.entry = elf->e_entry;
	if (headers && !find_by_section(image, elf, &frame))
		find_by_segment(image, elf, headers, &frame);
	if (headers)
		stubs_find(image, elf, &frame);
	*ret = frame;
	return 0;
}

uint64_t ehframe_digest(const struct ehframe *frame)
{
	uint64_t digest = XXH3_64bits(frame->bytes, frame->size);
	uint64_t words[] = { digest, frame->size, frame->address, frame->base, frame->entry };

	digest = XXH3_64bits(words, sizeof(words));
	digest = XXH3_64bits_withSeed(frame->segments,
				      frame->segment_count * sizeof(frame->segments[0]), digest);
	return XXH3_64bits_withSeed(frame->stubs, sizeof(frame->stubs), digest);
}

/* Where the walk of the section is. */
struct walk {
	const struct ehframe *frame;
	struct ehframe_index *index;
	struct map cies; /* offset of an entry to its index */
	uint64_t last_offset; /* of the CIE found last: FDEs of one object file share it */
	uint32_t last_cie;
};

/* Only its size matters here. */
static void personality_skip(const struct ehframe *frame, struct cursor *cursor)
{
	uint8_t encoding = cursor_u8(cursor);

	if (encoding == PE_ALIGNED)
		cursor_pointer(cursor, frame, encoding);
	else if (encoding != PE_OMIT)
		cursor_pointer_value(cursor, encoding & PE_FORMAT);
}

/* Augmentation "z...": the letters say what the data holds. Others than these end the reading. */
static void cie_augmentation(const struct ehframe *frame, struct cursor *cursor,
			     const char *letters, struct cfi_cie *cie)
{
	uint64_t size = cursor_uleb(cursor);
	struct cursor data = *cursor;

	cursor_skip(cursor, size);
	data.end = cursor->at;
	for (; *letters && !data.bad; letters++)
		switch (*letters) {
		case 'R':
			cie->encoding = cursor_u8(&data);
			break;
		case 'L':
			cursor_u8(&data);
			break;
		case 'P':
			personality_skip(frame, &data);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B':
			break;
		default:
			return;
		}
	cursor->bad |= data.bad;
}

/* What comes before the program. False when even the FDEs' addresses cannot be read. */
static bool cie_header(const struct ehframe *frame, struct cursor *cursor, struct cfi_cie *cie)
{
	uint8_t version = cursor_u8(cursor);
	const char *letters = (const char *)cursor->at;

	if (version != 1 && version != 3 && version != 4)
		return false;
	if (!memchr(letters, '\0', cursor_left(cursor)))
		return false;
	cursor_skip(cursor, strlen(letters) + 1);
	if (version == 4 && (cursor_u8(cursor) != 8 || cursor_u8(cursor) != 0))
		return false;
	cie->code_align = cursor_uleb(cursor);
	cie->data_align = cursor_sleb(cursor);
	cie->ra_column = (uint16_t)(version == 1 ? cursor_u8(cursor) : cursor_uleb(cursor));
	cie->augmented = letters[0] == 'z';
	if (cie->augmented)
		cie_augmentation(frame, cursor, letters + 1, cie);
	else if (letters[0])
		return false;
	return !cursor->bad;
}

static void cie_add(struct walk *walk, uint64_t offset, struct cursor *cursor)
{
	const struct ehframe *frame = walk->frame;
	struct cfi_cie cie = { .encoding = PE_ABSPTR };

	if (!cie_header(frame, cursor, &cie))
		return;
	cie.readable = cie.ra_column != REGISTER_RBX && cie.ra_column != REGISTER_RBP &&
		       cie.ra_column != REGISTER_RSP &&
		       cfi_cie_run(frame, &cie, (uint32_t)(cursor->at - frame->bytes),
				   (uint32_t)(cursor->end - frame->bytes));
	*map_at(&walk->cies, offset, NULL) = walk->index->cies.count;
	*array_push(&walk->index->cies) = cie;
}

static bool fde_cie(struct walk *walk, uint64_t offset, uint32_t *ret)
{
	const uint64_t *found;

	if (offset != walk->last_offset) {
		found = map_find(&walk->cies, offset);
		if (!found)
			return false;
		walk->last_offset = offset;
		walk->last_cie = (uint32_t)*found;
	}
	*ret = walk->last_cie;
	return true;
}

static void fde_add(struct walk *walk, uint64_t cie_offset, struct cursor *cursor)
{
	const struct ehframe *frame = walk->frame;
	const struct cfi_cie *cie;
	struct cfi_fde fde = {};
	uint64_t start, size;

	if (!fde_cie(walk, cie_offset, &fde.cie))
		return;
	cie = &walk->index->cies.items[fde.cie];
	start = cursor_pointer(cursor, frame, cie->encoding);
	size = cursor_pointer_value(cursor, cie->encoding & PE_FORMAT);
	if (cie->augmented)
		cursor_skip(cursor, cursor_uleb(cursor));
	if (cursor->bad || !fde_range(frame, start, size, &fde))
		return;
	fde.program = (uint32_t)(cursor->at - frame->bytes);
	fde.program_end = (uint32_t)(cursor->end - frame->bytes);
	*array_push(&walk->index->fdes) = fde;
}

/* An entry after its length: a CIE says 0, an FDE how far back its CIE lies. */
static void entry_add(struct walk *walk, uint64_t offset, struct cursor *cursor)
{
	uint64_t here = (uint64_t)(cursor->at - walk->frame->bytes);
	uint64_t back = cursor_fixed(cursor, 4);

	if (cursor->bad)
		return;
	if (back == 0)
		cie_add(walk, offset, cursor);
	else if (back <= here)
		fde_add(walk, here - back, cursor);
}

void ehframe_index_init(const struct ehframe *frame, struct ehframe_index *index)
{
	struct walk walk = { .frame = frame, .index = index, .last_offset = UINT64_MAX };
	struct cursor cursor;

	*index = (struct ehframe_index){};
	if (!frame->size)
		return;
	cursor = cursor_of(frame, 0, frame->size);
	while (cursor_left(&cursor) >= 4) {
		uint64_t offset = (uint64_t)(cursor.at - frame->bytes);
		uint64_t length = cursor_fixed(&cursor, 4);
		struct cursor entry;

		if (length == 0 && frame->open_ended)
			break;
		if (length == UINT32_MAX)
			length = cursor_fixed(&cursor, 8);
		if (cursor.bad || length > cursor_left(&cursor))
			break;
		entry = cursor;
		cursor_skip(&cursor, length);
		entry.end = cursor.at;
		if (length)
			entry_add(&walk, offset, &entry);
	}
	map_deinit(&walk.cies);
}

void ehframe_index_deinit(struct ehframe_index *index)
{
	array_deinit(&index->cies);
	array_deinit(&index->fdes);
}
