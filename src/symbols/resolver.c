// SPDX-License-Identifier: BSD-2-Clause
/*
 * Answers questions about one ELF file, in the worker: an address in; the symbol, the inlined
 * frames, the line and the parameters out. Names come from the symbol tables of the file and of its
 * separate debug file; DWARF adds frames and lines; data is looked up among objects and sections.
 */
#include "symbols/resolver.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <gelf.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "symbols/debuginfo.h"
#include "symbols/names.h"
#include "symbols/objects.h"
#include "symbols/parameters.h"
#include "symbols/plt.h"
#include "symbols/symtab.h"

struct resolver {
	Dwfl *dwfl;
	Dwfl_Module *module; /* NULL: nothing could be read */
	struct symtab table;
	struct symtab stubs;
	struct objects objects;
	struct ranges code; /* executable sections */
	struct debuginfo *info; /* NULL: no DWARF */
	uint64_t info_bias; /* address in the file - bias = address in its DWARF */
	struct parameters parameters;
	struct strtab names;
	struct map readable; /* address of a linkage name to address in names */
	struct symbol_frame frames[RESOLVER_FRAMES_MAX];
};

/*
 * Whether the library could find the debug link where it looks; a link with a directory is rare,
 * and its business.
 */
static bool link_present(const char *file, const char *link)
{
	static const char *const formats[] = { "%.*s/%s", "%.*s/.debug/%s",
					       "/usr/lib/debug%.*s/%s" };
	const char *slash = strrchr(file, '/');
	int length = slash ? (int)(slash - file) : 1;

	if (strchr(link, '/'))
		return true;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		AUTO(free_ptr)
		char *path = mem_printf(formats[i], length, slash ? file : ".", link);

		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

/*
 * Without link and build-id the library would take any "program.debug" unchecked. Where neither
 * leads to a file, it would load libdebuginfod with thirty more libraries, which takes longer than
 * all the rest, only to hear that no server is set.
 */
static int find_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **ret_path)
{
	const char *servers = getenv("DEBUGINFOD_URLS");
	const unsigned char *id;
	GElf_Addr place;
	int fd = dwfl_build_id_find_debuginfo(module, user, name, base, file, link, crc, ret_path);

	if (fd >= 0)
		return fd;
	if (!link && dwfl_module_build_id(module, &id, &place) <= 0)
		return -1;
	if (!(servers && *servers) && !(link && file && link_present(file, link)))
		return -1;
	return dwfl_standard_find_debuginfo(module, user, name, base, file, link, crc, ret_path);
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf,
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

/* Executable sections, whose ends are borders for symbols without size. */
static void code_collect(struct resolver *resolver, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR))
			continue;
		ranges_add(&resolver->code, header.sh_addr, header.sh_addr + header.sh_size, 0);
		symtab_border(&resolver->table, header.sh_addr);
		symtab_border(&resolver->table, header.sh_addr + header.sh_size);
	}
	ranges_sort(&resolver->code);
}

static enum symtab_rank rank_of(const GElf_Sym *symbol)
{
	unsigned int rank = SYMTAB_GLOBAL;

	if (GELF_ST_BIND(symbol->st_info) == STB_LOCAL)
		rank = SYMTAB_LOCAL;
	else if (GELF_ST_BIND(symbol->st_info) == STB_WEAK)
		rank = SYMTAB_WEAK;
	if (GELF_ST_TYPE(symbol->st_info) == STT_NOTYPE)
		rank += SYMTAB_LABEL;
	else if (GELF_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
		rank += SYMTAB_RESOLVER;
	return rank;
}

static bool names_code(const struct resolver *resolver, const GElf_Sym *symbol, uint64_t address)
{
	unsigned int type = GELF_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF)
		return false;
	if (resolver->code.list.count == 0)
		return type == STT_FUNC;
	return (type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC) &&
	       ranges_find(&resolver->code, address, NULL);
}

static void symbol_add(struct resolver *resolver, const char *name, const GElf_Sym *symbol,
		       uint64_t address)
{
	const char *version = name ? strchr(name, '@') : NULL;
	AUTO(free_ptr) char *bare = NULL;

	if (!name || !*name || version == name)
		return;
	if (version)
		name = bare = mem_strndup(name, (size_t)(version - name));
	if (names_code(resolver, symbol, address))
		symtab_add(&resolver->table,
			   &(struct symtab_entry){
				   .start = address,
				   .size = symbol->st_size,
				   .rank = rank_of(symbol),
			   },
			   name);
	else if (!ranges_find(&resolver->code, address, NULL))
		objects_add(&resolver->objects, symbol, rank_of(symbol), address, name);
}

static void tables_read(struct resolver *resolver)
{
	GElf_Addr bias, address;
	Elf *elf = dwfl_module_getelf(resolver->module, &bias);
	int count = dwfl_module_getsymtab(resolver->module);
	GElf_Sym symbol;

	if (elf)
		code_collect(resolver, elf);
	objects_sections(&resolver->objects, elf);
	for (int i = 1; i < count; i++) {
		const char *name = dwfl_module_getsym_info(resolver->module, i, &symbol, &address,
							   NULL, NULL, NULL);

		symbol_add(resolver, name, &symbol, address);
	}
	symtab_finish(&resolver->table);
	objects_finish(&resolver->objects);
	if (elf)
		plt_add(elf, &resolver->table, &resolver->stubs);
}

/* Libdwfl takes the descriptor it is given when it succeeds. */
static void module_report(struct resolver *resolver, int fd, const char *path)
{
	int copy = dup(fd);

	resolver->dwfl = dwfl_begin(&callbacks);
	if (!resolver->dwfl || copy < 0)
		return;
	dwfl_report_begin(resolver->dwfl);
	resolver->module = dwfl_report_elf(resolver->dwfl, path, path, copy, 0, true);
	dwfl_report_end(resolver->dwfl, NULL, NULL);
	if (!resolver->module)
		close(copy);
}

struct resolver *resolver_create(int fd, const char *path, bool with_dwarf)
{
	struct resolver *resolver = mem_zalloc(sizeof(*resolver));
	Dwarf *dwarf;

	module_report(resolver, fd, path);
	if (!resolver->module)
		return resolver;
	tables_read(resolver);
	dwarf = with_dwarf ? dwfl_module_getdwarf(resolver->module, &resolver->info_bias) : NULL;
	if (dwarf)
		resolver->info = debuginfo_create(dwarf);
	return resolver;
}

void resolver_destroy(struct resolver *resolver)
{
	if (!resolver)
		return;
	debuginfo_destroy(resolver->info);
	symtab_deinit(&resolver->table);
	symtab_deinit(&resolver->stubs);
	objects_deinit(&resolver->objects);
	ranges_deinit(&resolver->code);
	parameters_deinit(&resolver->parameters);
	strtab_deinit(&resolver->names);
	map_deinit(&resolver->readable);
	if (resolver->dwfl)
		dwfl_end(resolver->dwfl);
	free(resolver);
}

/*
 * Linkage names lie in the file or in a table and stay there, so that the address tells one from
 * the other.
 */
static void frame_finish(struct resolver *resolver, struct symbol_frame *frame)
{
	uint64_t *readable;
	bool fresh;

	if (!frame->linkage)
		frame->linkage = frame->name ? frame->name : "??";
	readable = map_at(&resolver->readable, (uintptr_t)frame->linkage, &fresh);
	if (fresh)
		*readable = (uintptr_t)names_readable(&resolver->names, frame->linkage);
	frame->name = (const char *)(uintptr_t)*readable;
}

static int data_resolve(struct resolver *resolver, uint64_t address, struct symbol_answer *ret)
{
	struct symtab_hit hit;

	if (ranges_find(&resolver->code, address, NULL) ||
	    !objects_find(&resolver->objects, address, &hit))
		return -ENOENT;
	resolver->frames[0] = (struct symbol_frame){ .linkage = hit.name };
	frame_finish(resolver, &resolver->frames[0]);
	*ret = (struct symbol_answer){ hit.start, hit.size, 1, resolver->frames, true };
	return 0;
}

/*
 * The name that the source gave to the function when it is an alias of the symbol that was chosen.
 */
static const char *outer_linkage(const struct resolver *resolver, const struct symbol_frame *frame,
				 const struct symtab_hit *hit)
{
	const char *source = frame->linkage ? frame->linkage : frame->name;
	const char *alias = source ? symtab_alias(&resolver->table, hit->start, source) : NULL;

	return alias ? alias : hit->name;
}

/*
 * The outermost name comes from the symbol table where a sized symbol covers the address: it tells
 * clones and cold parts from their originals, and is what every other tool prints. DWARF knows
 * static functions of stripped files, and is better than a symbol that merely stands nearest below.
 */
int resolver_resolve(struct resolver *resolver, uint64_t address, struct symbol_answer *ret)
{
	uint64_t start = 0, end = 0;
	struct symbol_frame *frames = resolver->frames;
	struct symtab_hit hit;
	size_t count = 0;
	bool symbol;

	if (resolver->info)
		count = debuginfo_frames(resolver->info, address - resolver->info_bias, frames,
					 RESOLVER_FRAMES_MAX, &start, &end);
	symbol = symtab_find(&resolver->table, address, &hit) ||
		 symtab_find(&resolver->stubs, address, &hit) ||
		 (start == end && symtab_find_unsized(&resolver->table, address, &hit));
	if (!symbol && start == end)
		return data_resolve(resolver, address, ret);
	if (count == 0)
		frames[count++] = (struct symbol_frame){};
	if (symbol)
		frames[count - 1].linkage = outer_linkage(resolver, &frames[count - 1], &hit);
	else
		hit = (struct symtab_hit){ start + resolver->info_bias, end - start };
	for (size_t i = 0; i < count; i++)
		frame_finish(resolver, &frames[i]);
	*ret = (struct symbol_answer){ hit.start, hit.size, count, frames, false };
	return 0;
}

/*
 * GCC's names for copies of a function whose parameters it changed, and for parts that are no
 * functions.
 */
static bool name_changed(const char *name)
{
	static const char *const clones[] = { ".constprop.", ".isra.", ".part.", ".cold" };

	for (size_t i = 0; i < sizeof(clones) / sizeof(clones[0]); i++)
		if (strstr(name, clones[i]))
			return true;
	return false;
}

int resolver_parameters(struct resolver *resolver, uint64_t address,
			struct symbol_parameter ret[static SYMBOL_PARAMETERS_MAX],
			size_t *ret_count)
{
	struct symtab_hit hit;
	Dwarf_Die function;

	if (!resolver->info ||
	    !debuginfo_function(resolver->info, address - resolver->info_bias, &function))
		return -ENOENT;
	if (symtab_find(&resolver->table, address, &hit) &&
	    (hit.start != address || name_changed(hit.name)))
		return -ENOENT;
	return parameters_read(&resolver->parameters, &function, address - resolver->info_bias, ret,
			       ret_count);
}

size_t resolver_lines(struct resolver *resolver, size_t unit, size_t first, size_t max,
		      struct symbol_line *ret, size_t *ret_units)
{
	size_t count;

	*ret_units = 0;
	if (!resolver->info)
		return 0;
	count = debuginfo_lines(resolver->info, unit, first, max, ret, ret_units);
	for (size_t i = 0; i < count; i++)
		ret[i].address += resolver->info_bias;
	return count;
}

/* Borders and functions that only choose an implementation are none. */
static bool is_name(const struct symtab_entry *entry)
{
	return entry->name && entry->rank < SYMTAB_RESOLVER;
}

static struct symbol_name name_of(struct resolver *resolver, const struct symtab *table,
				  const struct symtab_entry *entry)
{
	struct symbol_frame frame = { .linkage = table->names.text + entry->name };
	struct symtab_hit hit;
	uint64_t size = entry->size;

	if (!size && symtab_find_unsized(table, entry->start, &hit) && hit.start == entry->start)
		size = hit.size;
	frame_finish(resolver, &frame);
	return (struct symbol_name){ frame.name, frame.linkage, entry->start, size };
}

size_t resolver_names(struct resolver *resolver, enum symbol_names which, size_t first, size_t max,
		      struct symbol_name *ret)
{
	const struct symtab *table = which == SYMBOL_OBJECTS ? &resolver->objects.table
							     : &resolver->table;
	size_t count = 0;

	for (size_t i = 0; i < table->entries.count && count < max; i++) {
		if (!is_name(&table->entries.items[i]))
			continue;
		if (first)
			first--;
		else
			ret[count++] = name_of(resolver, table, &table->entries.items[i]);
	}
	return count;
}
