// SPDX-License-Identifier: BSD-2-Clause
/*
 * Makes one piece of memory from two shared objects, as a dynamic linker would in the process; but
 * here it is done once, in the host, and the process gets the result.
 *
 * The engine is a shared object without libc. It decodes with Zydis, which distributions have as a
 * shared library only. That library needs a few functions of libc, which the engine exports
 * (engine/runtime.c). So the two can be laid one behind the other and linked to each other without
 * any further library. What would need a real dynamic linker (thread-local storage, indirect
 * functions, other libraries) is refused by name. Constructors are not run: those of libZydis only
 * serve features of compilers that it does not use.
 *
 * 1. Each object keeps the distances within itself: the first byte of the file's memory image lies
 *    on a page of its own.
 * 2. A page belongs to one segment at most and is never both writable and executable. Pages of no
 *    segment are not accessible.
 * 3. Relocated words that the linker marks as read-only afterwards (RELRO) are.
 * 4. The only words that depend on the address of the image are in `fixes`, and each holds address
 *    + value.
 */
#include "inject/image.h"

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/err.h"
#include "base/mem.h"

enum { OBJECT_SIZE_MAX = 64 << 20 };

extern const uint8_t engine_embedded[], engine_embedded_end[];

struct object {
	const struct image_file *file;
	Elf *elf;
	uint64_t base; /* offset in the image */
	uint64_t size; /* whole pages */
	Elf_Data *symbols;
	size_t symbol_count;
	size_t strings; /* section of their names */
};

struct builder {
	struct image *image;
	struct object objects[2];
	ARRAY(struct image_fix) fixes;
};

static void builder_deinit(struct builder *builder)
{
	for (size_t i = 0; i < 2; i++)
		elf_end(builder->objects[i].elf);
	array_deinit(&builder->fixes);
	image_destroy(builder->image);
}

static uint64_t page_down(uint64_t address)
{
	return address & ~(uint64_t)(IMAGE_PAGE - 1);
}

static uint64_t page_up(uint64_t address)
{
	return page_down(address + IMAGE_PAGE - 1);
}

static int object_refuse(const struct object *object, const char *why)
{
	return err_set(-ENOEXEC, "%s cannot become part of the engine: %s", object->file->name,
		       why);
}

static int segment_check(const struct object *object, const GElf_Phdr *segment)
{
	if (segment->p_type == PT_TLS)
		return object_refuse(object, "it has thread-local storage");
	if (segment->p_type != PT_LOAD)
		return 0;
	if (segment->p_offset > object->file->size || segment->p_filesz > segment->p_memsz ||
	    segment->p_filesz > object->file->size - segment->p_offset)
		return object_refuse(object, "the file is shorter than its segments");
	if (segment->p_vaddr > OBJECT_SIZE_MAX || segment->p_memsz > OBJECT_SIZE_MAX)
		return object_refuse(object, "it is too large");
	if ((segment->p_flags & (PF_W | PF_X)) == (PF_W | PF_X))
		return object_refuse(object, "a segment is writable and executable");
	return 0;
}

static int object_measure(struct object *object)
{
	GElf_Phdr segment;
	size_t count;
	int err = 0;

	if (elf_getphdrnum(object->elf, &count))
		return object_refuse(object, elf_errmsg(-1));
	for (size_t i = 0; i < count && !err; i++) {
		if (!gelf_getphdr(object->elf, (int)i, &segment))
			return object_refuse(object, elf_errmsg(-1));
		err = segment_check(object, &segment);
		if (!err && segment.p_type == PT_LOAD &&
		    object->size < segment.p_vaddr + segment.p_memsz)
			object->size = page_up(segment.p_vaddr + segment.p_memsz);
	}
	if (!err && !object->size)
		return object_refuse(object, "it has no segments");
	return err;
}

static int object_symbols(struct object *object)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(object->elf, section))) {
		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_DYNSYM)
			continue;
		object->symbols = elf_getdata(section, NULL);
		if (!object->symbols || header.sh_entsize != sizeof(Elf64_Sym))
			return object_refuse(object, "its symbols cannot be read");
		object->symbol_count = object->symbols->d_size / sizeof(Elf64_Sym);
		object->strings = header.sh_link;
		return 0;
	}
	return object_refuse(object, "it has no dynamic symbols");
}

static int object_init(struct object *object, const struct image_file *file, uint64_t base)
{
	GElf_Ehdr header;
	int err;

	*object = (struct object){ .file = file, .base = base };
	elf_version(EV_CURRENT);
	/* libelf does not write through the pointer: nothing here asks it to. */
	object->elf = elf_memory((char *)(uintptr_t)file->bytes, file->size);
	if (!object->elf || elf_kind(object->elf) != ELF_K_ELF ||
	    !gelf_getehdr(object->elf, &header))
		return object_refuse(object, "it is not an ELF file");
	if (gelf_getclass(object->elf) != ELFCLASS64 || header.e_machine != EM_X86_64 ||
	    header.e_type != ET_DYN)
		return object_refuse(object, "it is not a shared object for x86-64");
	err = object_measure(object);
	return err ? err : object_symbols(object);
}

static uint8_t segment_protection(const GElf_Phdr *segment)
{
	return (uint8_t)((segment->p_flags & PF_R ? PROT_READ : 0) |
			 (segment->p_flags & PF_W ? PROT_WRITE : 0) |
			 (segment->p_flags & PF_X ? PROT_EXEC : 0));
}

static int segment_load(struct image *image, const struct object *object, const GElf_Phdr *segment)
{
	uint64_t start = object->base + segment->p_vaddr;
	uint64_t end = page_up(start + segment->p_memsz);

	for (uint64_t at = page_down(start); at < end; at += IMAGE_PAGE) {
		uint8_t *protection = &image->protection[at / IMAGE_PAGE];

		if (*protection)
			return object_refuse(object, "two segments share a page");
		*protection = segment_protection(segment);
	}
	memcpy(image->bytes + start, object->file->bytes + segment->p_offset, segment->p_filesz);
	return 0;
}

static int relro_seal(struct image *image, const struct object *object, const GElf_Phdr *segment)
{
	uint64_t start = segment->p_vaddr, end = start + segment->p_memsz;

	if (start > object->size || end > object->size || end < start)
		return object_refuse(object, "its read-only data lies outside of it");
	for (uint64_t at = page_down(start); at + IMAGE_PAGE <= end; at += IMAGE_PAGE)
		image->protection[(object->base + at) / IMAGE_PAGE] &= (uint8_t)~PROT_WRITE;
	return 0;
}

static int object_load(struct image *image, const struct object *object)
{
	GElf_Phdr segment;
	size_t count = 0;
	int err = 0;

	elf_getphdrnum(object->elf, &count);
	for (size_t i = 0; i < count && !err; i++)
		if (gelf_getphdr(object->elf, (int)i, &segment) && segment.p_type == PT_LOAD)
			err = segment_load(image, object, &segment);
	for (size_t i = 0; i < count && !err; i++)
		if (gelf_getphdr(object->elf, (int)i, &segment) && segment.p_type == PT_GNU_RELRO)
			err = relro_seal(image, object, &segment);
	return err;
}

/* The value in the image of a symbol that the object defines; false if it does not. */
static bool symbol_value(const struct object *object, const GElf_Sym *symbol, uint64_t *ret)
{
	int type = GELF_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE ||
	    type == STT_GNU_IFUNC || type == STT_TLS || symbol->st_value >= object->size)
		return false;
	*ret = object->base + symbol->st_value;
	return true;
}

static bool object_find(const struct object *object, const char *name, uint64_t *ret)
{
	for (size_t i = 1; i < object->symbol_count; i++) {
		GElf_Sym symbol;
		const char *other;

		if (!gelf_getsym(object->symbols, (int)i, &symbol))
			return false;
		other = elf_strptr(object->elf, object->strings, symbol.st_name);
		if (other && !strcmp(name, other) && symbol_value(object, &symbol, ret))
			return true;
	}
	return false;
}

/*
 * Finds the symbol that a relocation names. A weak symbol that neither object defines is NULL:
 * *ret_null.
 */
static int symbol_resolve(const struct builder *builder, const struct object *object, size_t number,
			  uint64_t *ret, bool *ret_null)
{
	const struct object *other = &builder->objects[object == &builder->objects[0]];
	GElf_Sym symbol;
	const char *name;

	if (!gelf_getsym(object->symbols, (int)number, &symbol))
		return object_refuse(object, "a relocation names no symbol");
	if (symbol_value(object, &symbol, ret))
		return 0;
	name = elf_strptr(object->elf, object->strings, symbol.st_name);
	if (name && object_find(other, name, ret))
		return 0;
	*ret_null = symbol.st_shndx == SHN_UNDEF && GELF_ST_BIND(symbol.st_info) == STB_WEAK;
	if (*ret_null)
		return 0;
	return err_set(-ENOEXEC, "%s cannot become part of the engine: it needs '%s'",
		       object->file->name, name ? name : "?");
}

static int relocation_type_refuse(const struct object *object, const GElf_Rela *relocation)
{
	return err_set(-ENOEXEC,
		       "%s cannot become part of the engine: relocation of type %llu at %#llx",
		       object->file->name, (unsigned long long)GELF_R_TYPE(relocation->r_info),
		       (unsigned long long)relocation->r_offset);
}

static int relocation_value(const struct builder *builder, const struct object *object,
			    const GElf_Rela *relocation, uint64_t *ret, bool *ret_null)
{
	uint64_t addend = (uint64_t)relocation->r_addend;
	int err;

	switch (GELF_R_TYPE(relocation->r_info)) {
	case R_X86_64_RELATIVE:
		*ret = object->base + addend;
		return 0;
	case R_X86_64_64:
		err = symbol_resolve(builder, object, GELF_R_SYM(relocation->r_info), ret,
				     ret_null);
		if (!err)
			*ret += addend;
		return err;
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
		return symbol_resolve(builder, object, GELF_R_SYM(relocation->r_info), ret,
				      ret_null);
	}
	return relocation_type_refuse(object, relocation);
}

static int relocation_apply(struct builder *builder, const struct object *object,
			    const GElf_Rela *relocation)
{
	struct image_fix fix = { .offset = object->base + relocation->r_offset };
	bool null = false;
	int err = relocation_value(builder, object, relocation, &fix.value, &null);

	if (err)
		return err;
	if (relocation->r_offset > object->size - sizeof(uint64_t))
		return object_refuse(object, "a relocation lies outside of it");
	if (null)
		memset(builder->image->bytes + fix.offset, 0, sizeof(uint64_t));
	else
		*array_push(&builder->fixes) = fix;
	return 0;
}

static int section_link(struct builder *builder, const struct object *object, Elf_Scn *section)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Rela relocation;
	int err = 0;

	for (int i = 0; !err && gelf_getrela(data, i, &relocation); i++)
		err = relocation_apply(builder, object, &relocation);
	return err;
}

static int object_link(struct builder *builder, const struct object *object)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int err = 0;

	while (!err && (section = elf_nextscn(object->elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC))
			continue;
		if (header.sh_type == SHT_REL || header.sh_type == SHT_RELR)
			return object_refuse(object, "it has relocations of another format");
		if (header.sh_type == SHT_RELA)
			err = section_link(builder, object, section);
	}
	return err;
}

static int builder_run(struct builder *builder, const struct image_file *engine,
		       const struct image_file *library)
{
	struct object *objects = builder->objects;
	struct image *image = builder->image;
	int err = object_init(&objects[0], engine, 0);

	err = err ? err : object_init(&objects[1], library, objects[0].size);
	if (err)
		return err;
	image->size = objects[0].size + objects[1].size;
	image->bytes = mem_zalloc(image->size);
	image->protection = mem_zalloc(image->size / IMAGE_PAGE);
	image->empty = mem_zalloc(image->size / IMAGE_PAGE);
	for (size_t i = 0; i < 2 && !err; i++)
		err = object_load(image, &objects[i]);
	for (size_t i = 0; i < 2 && !err; i++)
		err = object_link(builder, &objects[i]);
	if (!err && !object_find(&objects[0], "engine_entry", &image->entry))
		err = object_refuse(&objects[0], "it has no engine_entry");
	if (!err && !object_find(&objects[0], "engine_attach", &image->attach))
		err = object_refuse(&objects[0], "it has no engine_attach");
	return err;
}

int image_create(const struct image_file *engine, const struct image_file *library,
		 struct image **ret)
{
	AUTO(builder_deinit) struct builder builder = { .image = mem_zalloc(sizeof(struct image)) };
	int err = builder_run(&builder, engine, library);

	if (err)
		return err;
	builder.image->fixes = take_ptr(builder.fixes.items);
	builder.image->fix_count = builder.fixes.count;
	image_place(builder.image, 0);
	*ret = take_ptr(builder.image);
	return 0;
}

void image_destroy(struct image *image)
{
	if (!image)
		return;
	free(image->bytes);
	free(image->protection);
	free(image->empty);
	free(image->fixes);
	free(image);
}

static bool page_is_empty(const uint8_t *page)
{
	return !*page && !memcmp(page, page + 1, IMAGE_PAGE - 1);
}

void image_place(struct image *image, uint64_t address)
{
	for (size_t i = 0; i < image->fix_count; i++) {
		uint64_t value = address + image->fixes[i].value;

		memcpy(image->bytes + image->fixes[i].offset, &value, sizeof(value));
	}
	image->address = address;
	for (size_t i = 0; i < image->size / IMAGE_PAGE; i++)
		image->empty[i] = page_is_empty(image->bytes + i * IMAGE_PAGE);
}

int image_create_own(struct image **ret)
{
	const struct image_file engine = { "the engine", engine_embedded,
					   (size_t)(engine_embedded_end - engine_embedded) };
	struct image_file library = {};
	AUTO(close_fd) int fd = -1;
	Dl_info info;
	struct stat status;
	void *bytes;
	int err;

	if (!dladdr((void *)(uintptr_t)ZydisDecoderInit, &info) || !info.dli_fname)
		return err_set(-ENOENT, "libZydis, of which the engine consists in part, was not "
					"found; install libzydis4.0");
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		return err_set(-errno, "cannot read %s: %s", info.dli_fname, strerror(errno));
	bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return err_set(-errno, "cannot read %s: %s", info.dli_fname, strerror(errno));
	library = (struct image_file){ info.dli_fname, bytes, (size_t)status.st_size };
	err = image_create(&engine, &library, ret);
	munmap(bytes, library.size);
	return err;
}
