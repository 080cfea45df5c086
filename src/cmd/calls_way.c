// SPDX-License-Identifier: BSD-2-Clause
/* How calls of a program are seen best: by what it asks of the dynamic linker. */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "cmd/calls.h"

static int program_open(const char *name)
{
	const char *path = getenv("PATH");
	AUTO(free_ptr) char *folders = NULL;
	int fd = -1;

	if (strchr(name, '/') || !path)
		return open(name, O_RDONLY | O_CLOEXEC);
	folders = mem_strdup(path);
	for (char *rest = folders, *folder; fd < 0 && (folder = strsep(&rest, ":"));) {
		AUTO(free_ptr) char *full = mem_printf("%s/%s", *folder ? folder : ".", name);

		if (!access(full, X_OK))
			fd = open(full, O_RDONLY | O_CLOEXEC);
	}
	return fd;
}

/* Functions that only such programs call, and a section that only they have. */
static const struct {
	const char *name;
	struct calls_kind kind;
} signs[] = {
	{ "__cyg_profile_func_enter", { CALLS_HOOKS, false } },
	{ "JLI_Launch", { CALLS_JAVA, false } },
	{ "mcount", { CALLS_HOOKS, true } },
	{ "_mcount", { CALLS_HOOKS, true } },
	{ "__fentry__", { CALLS_HOOKS, true } },
	{ "__patchable_function_entries", { CALLS_HOOKS, true } },
};

enum { SIGNS = sizeof(signs) / sizeof(signs[0]) };

struct file {
	const char *bytes;
	size_t size;
	const Elf64_Shdr *sections;
	unsigned count;
};

static bool file_has(const struct file *file, uint64_t at, uint64_t size)
{
	return at <= file->size && size <= file->size - at;
}

static bool name_is(const struct file *file, unsigned strings, uint32_t at, const char *name)
{
	const Elf64_Shdr *section = &file->sections[strings];
	size_t size = strlen(name) + 1;

	return strings < file->count && file_has(file, section->sh_offset, section->sh_size) &&
	       at <= section->sh_size && size <= section->sh_size - at &&
	       !memcmp(file->bytes + section->sh_offset + at, name, size);
}

static bool imports(const struct file *file, const char *name)
{
	for (unsigned i = 0; i < file->count; i++) {
		const Elf64_Shdr *section = &file->sections[i];
		const Elf64_Sym *symbols = (const void *)(file->bytes + section->sh_offset);

		if (section->sh_type != SHT_DYNSYM ||
		    !file_has(file, section->sh_offset, section->sh_size))
			continue;
		for (size_t at = 0; at < section->sh_size / sizeof(*symbols); at++)
			if (symbols[at].st_shndx == SHN_UNDEF &&
			    name_is(file, section->sh_link, symbols[at].st_name, name))
				return true;
	}
	return false;
}

static bool has_section(const struct file *file, const char *name)
{
	const Elf64_Ehdr *head = (const void *)file->bytes;

	for (unsigned i = 0; i < file->count; i++)
		if (name_is(file, head->e_shstrndx, file->sections[i].sh_name, name))
			return true;
	return false;
}

/* Hooks are preloaded by the dynamic linker, which the program has to ask for. */
static bool is_dynamic(const struct file *file)
{
	for (unsigned i = 0; i < file->count; i++)
		if (file->sections[i].sh_type == SHT_DYNAMIC)
			return has_section(file, ".interp");
	return false;
}

static struct calls_kind kind_of(struct file *file)
{
	const struct calls_kind engine = { CALLS_ENGINE, false };
	const Elf64_Ehdr *head = (const void *)file->bytes;

	if (file->size < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
	    head->e_shentsize != sizeof(*file->sections) ||
	    !file_has(file, head->e_shoff, head->e_shnum * sizeof(*file->sections)) ||
	    head->e_shoff % sizeof(uint64_t))
		return engine;
	file->sections = (const void *)(file->bytes + head->e_shoff);
	file->count = head->e_shnum;
	if (!is_dynamic(file))
		return engine;
	for (int i = 0; i < SIGNS; i++)
		if (imports(file, signs[i].name) || has_section(file, signs[i].name))
			return signs[i].kind;
	return engine;
}

struct calls_kind calls_kind_of(const char *command)
{
	struct calls_kind kind = { CALLS_ENGINE, false };
	AUTO(close_fd) int fd = program_open(command);
	struct stat info;
	void *bytes;

	if (fd < 0 || fstat(fd, &info) || !info.st_size)
		return kind;
	bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return kind;
	kind = kind_of(&(struct file){ .bytes = bytes, .size = (size_t)info.st_size });
	munmap(bytes, (size_t)info.st_size);
	return kind;
}
