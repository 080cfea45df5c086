// SPDX-License-Identifier: BSD-2-Clause
/*
 * Finds the instructions by which programs announce tasks (include/assay/client.h), in their files.
 * Only files that have the note of assay/client.h are searched, and only sections with code: seven
 * bytes of which four are a displacement that is never meant are then such an instruction. In front
 * of it is a nop, where a probe costs little: the kernel executes most others in a single step, and
 * nops not at all.
 */
#include "recorder/task_sites.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "symbols/elf_image.h"
#include "wire/call_tree.h"

enum { CHUNK = 1 << 16, SITE_SIZE = 7, NOTE_TYPE = 1 };

struct found {
	ARRAY(struct task_site) sites;
};

/* nopl displacement(%rax) */
static bool site_is(const uint8_t *code, uint32_t displacement)
{
	static const uint8_t opcode[] = { 0x0f, 0x1f, 0x80 };

	return !memcmp(code, opcode, sizeof(opcode)) &&
	       !memcmp(code + sizeof(opcode), &displacement, sizeof(displacement));
}

/* Of the nop in front of the place; 0: there is none, as in programs that were built before. */
static size_t nop_size(const uint8_t *code, size_t at)
{
	static const uint8_t nop[] = { 0x66, 0x66, 0x66, 0x90 };

	return at >= sizeof(nop) && !memcmp(code + at - sizeof(nop), nop, sizeof(nop)) ? sizeof(nop)
										       : 0;
}

static void code_search(const uint8_t *code, size_t size, uint64_t offset, struct found *found)
{
	for (size_t i = 0; i + SITE_SIZE <= size; i++) {
		bool begins = site_is(code + i, CALL_CLIENT_BEGIN);

		if (begins || site_is(code + i, CALL_CLIENT_END))
			*array_push(&found->sites) =
				(struct task_site){ offset + i - nop_size(code, i), begins };
	}
}

/* Chunks overlap by less than an instruction, so that each is found once. */
static void section_search(int file, const struct elf_segment *section, struct found *found)
{
	AUTO(free_ptr) uint8_t *code = mem_alloc(CHUNK);
	uint64_t at = 0;

	while (at < section->file_size && section->offset + at <= INT64_MAX) {
		uint64_t left = section->file_size - at;
		ssize_t got = pread(file, code, left < CHUNK ? left : CHUNK,
				    (off_t)(section->offset + at));

		if (got < SITE_SIZE)
			return;
		code_search(code, (size_t)got, section->offset + at, found);
		at += (uint64_t)got - (SITE_SIZE - 1);
	}
}

static void file_search(const struct elf_image *image, struct found *found)
{
	size_t count;
	AUTO(free_ptr) struct elf_segment *sections = elf_image_sections(image, &count);

	for (size_t i = 0; i < count; i++)
		if (sections[i].type == SHT_PROGBITS && sections[i].flags & SHF_EXECINSTR)
			section_search(image->fd, &sections[i], found);
}

size_t task_sites_find(int file, struct task_site **ret)
{
	struct found found = {};
	struct elf_image image;

	*ret = NULL;
	if (file < 0 || elf_image_init(&image, file, "module"))
		return 0;
	if (image.class == ELFCLASS64 && elf_image_has_note(&image, "Assay", NOTE_TYPE))
		file_search(&image, &found);
	elf_image_deinit(&image);
	*ret = found.sites.items;
	return found.sites.count;
}
