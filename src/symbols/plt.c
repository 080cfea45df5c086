// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names for the linkage table's stubs. A stub jumps through a slot of the global offset table, and
 * a relocation of that slot names the function: so the jump is read (jmp *disp(%rip), whatever
 * comes before it) instead of guessing the layout of each linker's table.
 */
#include "symbols/plt.h"

#include <gelf.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/mem.h"

enum { JUMP_SIZE = 6 };

/*
 * A heap string: the relocation's symbol, or for one without (IRELATIVE) what the file has at its
 * target.
 */
static char *slot_name(Elf *elf, const GElf_Shdr *header, const GElf_Rela *rela,
		       const struct symtab *names)
{
	Elf_Scn *section = elf_getscn(elf, header->sh_link);
	struct symtab_hit hit;
	GElf_Shdr linked;
	GElf_Sym symbol;
	const char *name;

	if (GELF_R_TYPE(rela->r_info) == R_X86_64_IRELATIVE) {
		if (!symtab_find(names, (uint64_t)rela->r_addend, &hit))
			return NULL;
		return mem_printf("%s@plt", hit.name);
	}
	if (!section || !gelf_getshdr(section, &linked) ||
	    !gelf_getsym(elf_getdata(section, NULL), (int)GELF_R_SYM(rela->r_info), &symbol))
		return NULL;
	name = elf_strptr(elf, linked.sh_link, symbol.st_name);
	return name && *name ? mem_printf("%s@plt", name) : NULL;
}

/* slots: address of a slot to the id of its name. */
static void slots_add(Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
		      const struct symtab *names, struct map *slots, struct strtab *ret)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Rela rela;

	for (int i = 0; data && gelf_getrela(data, i, &rela); i++) {
		unsigned int type = GELF_R_TYPE(rela.r_info);
		AUTO(free_ptr) char *name = NULL;

		if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT &&
		    type != R_X86_64_IRELATIVE)
			continue;
		name = slot_name(elf, header, &rela, names);
		if (name)
			*map_at(slots, rela.r_offset, NULL) = strtab_add(ret, name);
	}
}

static void stub_add(const uint8_t *code, size_t size, uint64_t address, const struct map *slots,
		     const struct strtab *strings, struct symtab *ret)
{
	for (size_t i = 0; i + JUMP_SIZE <= size; i++) {
		const uint64_t *name;
		int32_t offset;

		if (code[i] != 0xff || code[i + 1] != 0x25)
			continue;
		memcpy(&offset, code + i + 2, sizeof(offset));
		name = map_find(slots, address + i + JUMP_SIZE + (uint64_t)(int64_t)offset);
		if (!name)
			continue;
		symtab_add(ret, &(struct symtab_entry){ .start = address, .size = size },
			   strtab_get(strings, (uint32_t)*name));
		return;
	}
}

static void stubs_add(Elf_Scn *section, const GElf_Shdr *header, const struct map *slots,
		      const struct strtab *strings, struct symtab *ret)
{
	Elf_Data *data = elf_rawdata(section, NULL);
	size_t step = header->sh_entsize;

	if (step != 8 && step != 16)
		return;
	for (size_t at = 0; data && data->d_buf && at + step <= data->d_size; at += step)
		stub_add((uint8_t *)data->d_buf + at, step, header->sh_addr + at, slots, strings,
			 ret);
}

void plt_add(Elf *elf, const struct symtab *names, struct symtab *ret)
{
	struct map slots = {};
	struct strtab strings = {};
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t index;

	if (gelf_getclass(elf) != ELFCLASS64 || elf_getshdrstrndx(elf, &index) != 0)
		return;
	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_RELA)
			slots_add(elf, section, &header, names, &slots, &strings);
	while ((section = elf_nextscn(elf, section))) {
		const char *name;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS)
			continue;
		name = elf_strptr(elf, index, header.sh_name);
		if (name && strncmp(name, ".plt", 4) == 0)
			stubs_add(section, &header, &slots, &strings, ret);
	}
	symtab_finish(ret);
	map_deinit(&slots);
	strtab_deinit(&strings);
}
