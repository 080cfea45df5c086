// SPDX-License-Identifier: BSD-2-Clause
#include "cmd/view_code.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

enum { CODE_MAX = 1 << 20 };

struct view_code_module {
	struct symbols *symbols; /* NULL: not there */
	bool tried;
};

void view_code_init(struct view_code *code, const char *path, const struct profile *profile)
{
	*code = (struct view_code){ .path = path, .profile = profile };
}

void view_code_deinit(struct view_code *code)
{
	for (size_t i = 0; code->modules && i < code->profile->module_count; i++)
		symbols_destroy(code->modules[i].symbols);
	free(code->modules);
}

static int module_open(const struct profile_module *module, struct symbols **ret)
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
	return symbols_open(fd, module->path, ret);
}

struct symbols *view_code_symbols(struct view_code *code, uint32_t module)
{
	struct view_code_module *slot;

	if (!code->modules)
		code->modules =
			mem_zalloc((code->profile->module_count + 1) * sizeof(*code->modules));
	slot = &code->modules[module];
	if (!slot->tried) {
		slot->tried = true;
		if (module_open(&code->profile->modules[module], &slot->symbols))
			slot->symbols = NULL;
	}
	return slot->symbols;
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
	int err = profile_symbol_code(code->path, symbol, ret, ret_size);

	if (err == -ENOENT)
		err = code_from_file(code, &code->profile->symbols[symbol], ret, ret_size);
	return err;
}

static int code_for_analysis(void *ctx, uint32_t symbol, void **ret, size_t *ret_size)
{
	return view_code_get(ctx, symbol, ret, ret_size);
}

struct code_source view_code_source(struct view_code *code)
{
	return (struct code_source){ code_for_analysis, code };
}
