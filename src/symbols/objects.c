// SPDX-License-Identifier: BSD-2-Clause
/*
 * Two tables: objects from the symbol tables, and the sections that hold data, which answer for
 * what no object covers.
 */
#include "symbols/objects.h"

#include "base/cleanup.h"
#include "base/mem.h"

void objects_deinit(struct objects *objects)
{
	symtab_deinit(&objects->table);
	symtab_deinit(&objects->sections);
}

/* Thread-local sections have addresses of their own kind, which overlap those of others. */
static bool holds_data(const GElf_Shdr *header)
{
	return (header->sh_flags & (SHF_ALLOC | SHF_EXECINSTR | SHF_TLS)) == SHF_ALLOC &&
	       header->sh_addr && header->sh_size;
}

void objects_sections(struct objects *objects, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names) != 0)
		return;
	while ((section = elf_nextscn(elf, section))) {
		AUTO(free_ptr) char *name = NULL;
		const char *text;

		if (!gelf_getshdr(section, &header) || !holds_data(&header))
			continue;
		text = elf_strptr(elf, names, header.sh_name);
		name = mem_printf("[%s]", text && *text ? text : "data");
		symtab_add(&objects->sections,
			   &(struct symtab_entry){ .start = header.sh_addr,
						   .size = header.sh_size },
			   name);
		symtab_border(&objects->table, header.sh_addr);
		symtab_border(&objects->table, header.sh_addr + header.sh_size);
	}
	symtab_finish(&objects->sections);
}

/* Linker warnings are objects at address 0 in sections that are not loaded. */
static bool is_loaded(const struct objects *objects, uint64_t address)
{
	struct symtab_hit section;

	return objects->sections.entries.count == 0 ||
	       symtab_find(&objects->sections, address, &section);
}

/*
 * A label without type and size is one end of something more often than its beginning: "_edata",
 * "__bss_start".
 */
void objects_add(struct objects *objects, const GElf_Sym *symbol, enum symtab_rank rank,
		 uint64_t address, const char *name)
{
	unsigned int type = GELF_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
	    !is_loaded(objects, address))
		return;
	if (type != STT_OBJECT && type != STT_COMMON && !(type == STT_NOTYPE && symbol->st_size))
		return;
	symtab_add(
		&objects->table,
		&(struct symtab_entry){ .start = address, .size = symbol->st_size, .rank = rank },
		name);
}

void objects_finish(struct objects *objects)
{
	symtab_finish(&objects->table);
}

bool objects_find(const struct objects *objects, uint64_t address, struct symtab_hit *ret)
{
	return symtab_find(&objects->table, address, ret) ||
	       symtab_find_unsized(&objects->table, address, ret) ||
	       symtab_find(&objects->sections, address, ret);
}
