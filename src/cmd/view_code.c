// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/view_code.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/mem.h"

enum { CODE_MAX = 1 << 20 };

/* A part of a module's memory. */
struct view_code_segment {
	uint64_t start, size;
	bool constant;
};

struct view_code_module {
	struct symbols *symbols; /* NULL: not there */
	ARRAY(struct view_code_segment) segments; /* what is protected later comes first */
	bool tried;
};

void view_code_init(struct view_code *code, const char *path, const struct profile *profile)
{
	*code = (struct view_code){ .path = path, .profile = profile };
}

static void module_deinit(struct view_code_module *module)
{
	symbols_destroy(module->symbols);
	array_deinit(&module->segments);
}

void view_code_deinit(struct view_code *code)
{
	for (size_t i = 0; code->modules && i < code->profile->module_count; i++)
		module_deinit(&code->modules[i]);
	free(code->modules);
	profile_code_destroy(code->stored);
}

/*
 * Reads the segments of a module. PT_GNU_RELRO comes first: data that is relocated at the start is
 * protected before the program runs.
 */
static void segments_read(int fd, struct view_code_module *module)
{
	static const GElf_Word passes[] = { PT_GNU_RELRO, PT_LOAD };
	Elf *elf = NULL;
	GElf_Phdr header;
	size_t count = 0;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && elf_getphdrnum(elf, &count))
		count = 0;
	for (size_t pass = 0; pass < sizeof(passes) / sizeof(passes[0]); pass++)
		for (size_t i = 0; i < count; i++)
			if (gelf_getphdr(elf, (int)i, &header) && header.p_type == passes[pass])
				*array_push(&module->segments) = (struct view_code_segment){
					header.p_vaddr, header.p_memsz,
					header.p_type == PT_GNU_RELRO || !(header.p_flags & PF_W)
				};
	elf_end(elf);
}

static int module_open(const struct profile_module *module, struct view_code_module *ret)
{
	AUTO(close_fd) int fd = -1;
	char hex[BUILD_ID_HEX_MAX];
	struct build_id id;
	struct stat status;

	if (module->kind != MODULE_ELF || !module->build_id || !*module->build_id)
		return -ENOENT;
	fd = open(module->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) || elf_build_id(fd, &id))
		return -ENOENT;
	build_id_hex(&id, hex);
	if (strcmp(hex, module->build_id))
		return -ENOENT;
	segments_read(fd, ret);
	return symbols_open(fd, module->path, &ret->symbols);
}

static struct view_code_module *module_get(struct view_code *code, uint32_t module)
{
	struct view_code_module *slot;

	if (!code->modules)
		code->modules =
			mem_zalloc((code->profile->module_count + 1) * sizeof(*code->modules));
	slot = &code->modules[module];
	if (!slot->tried) {
		slot->tried = true;
		if (module_open(&code->profile->modules[module], slot))
			slot->symbols = NULL;
	}
	return slot;
}

struct symbols *view_code_symbols(struct view_code *code, uint32_t module)
{
	return module_get(code, module)->symbols;
}

static int code_from_file(struct view_code *code, const struct profile_symbol *symbol, void **ret,
			  size_t *ret_size)
{
	size_t size = symbol->size < CODE_MAX ? (size_t)symbol->size : CODE_MAX;
	struct symbols *symbols = size ? view_code_symbols(code, symbol->module) : NULL;
	AUTO(free_ptr) void *bytes = NULL;
	int got;

	if (!symbols)
		return -ENOENT;
	bytes = mem_alloc(size);
	got = symbols_code(symbols, symbol->address, bytes, size);
	if (got <= 0)
		return -ENOENT;
	*ret = take_ptr(bytes);
	*ret_size = (size_t)got;
	return 0;
}

int view_code_get(struct view_code *code, uint32_t symbol, void **ret, size_t *ret_size)
{
	int err = code->stored ? 0 : profile_code_create(code->path, &code->stored);

	err = err ? err : profile_code_get(code->stored, symbol, ret, ret_size);
	if (err == -ENOENT)
		err = code_from_file(code, &code->profile->symbols[symbol], ret, ret_size);
	return err;
}

static int code_for_analysis(void *ctx, uint32_t symbol, void **ret, size_t *ret_size)
{
	return view_code_get(ctx, symbol, ret, ret_size);
}

static const char *object_for_analysis(void *ctx, uint32_t module, uint64_t address,
				       uint64_t *ret_start)
{
	struct symbols *symbols = view_code_symbols(ctx, module);
	struct symbol_answer answer;

	if (!symbols || symbols_resolve(symbols, address, &answer) || !answer.frame_count)
		return NULL;
	*ret_start = answer.address;
	return answer.frames[answer.frame_count - 1].name;
}

static enum code_memory memory_for_analysis(void *ctx, uint32_t module, uint64_t address)
{
	const struct view_code_module *slot = module_get(ctx, module);

	array_each(&slot->segments, segment)
		if (address - segment->start < segment->size)
			return segment->constant ? CODE_MEMORY_CONSTANT : CODE_MEMORY_VARIABLE;
	return CODE_MEMORY_UNKNOWN;
}

struct code_source view_code_source(struct view_code *code)
{
	return (struct code_source){ code_for_analysis, code, object_for_analysis,
				     memory_for_analysis };
}

bool view_code_line(void *ctx, uint64_t address, const char **ret_file, uint32_t *ret_line)
{
	struct symbol_answer answer;

	if (symbols_resolve(ctx, address, &answer) || !answer.frame_count || !answer.frames[0].file)
		return false;
	*ret_file = answer.frames[0].file;
	*ret_line = answer.frames[0].line;
	return true;
}
