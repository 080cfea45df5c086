// SPDX-License-Identifier: BSD-2-Clause
/*
 * The running kernel's symbols: /proc/kallsyms in, names by address out. It lists code and data of
 * the kernel and of its modules, without sizes: a symbol reaches to the next one.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "symbols/names.h"
#include "symbols/symbols.h"
#include "symbols/symtab.h"

enum {
	DATA = 1 << 15,
	CODE_PER_DATA_MAX =
		100, /* without CONFIG_KALLSYMS_ALL, the bounds of sections are all the data */
};

struct kallsyms {
	struct symtab table; /* tag: id of the module's name in strings, and DATA */
	struct strtab strings; /* id 0: "[kernel]" */
	struct symbol_frame frame; /* of the last answer */
	size_t hidden; /* code symbols with address 0 */
	size_t code, data; /* symbols */
};

void kallsyms_destroy(struct kallsyms *kallsyms)
{
	if (!kallsyms)
		return;
	symtab_deinit(&kallsyms->table);
	strtab_deinit(&kallsyms->strings);
	free(kallsyms);
}

static bool is_code(char type)
{
	return strchr("tTwW", type);
}

/* Per-CPU variables are told by their place in the section. */
static bool is_data(char type, uint64_t address)
{
	return strchr("bBdDrR", type) && address >> 63;
}

/* Where a section's end has the same address as what comes next, functions win. */
static unsigned int rank_of(char type)
{
	unsigned int rank = isupper(type) ? SYMTAB_GLOBAL : SYMTAB_LOCAL;

	if (tolower(type) == 'w')
		return SYMTAB_WEAK;
	return is_code(type) ? rank : SYMTAB_LABEL + rank;
}

/* "ffffffff81000000 T _stext" and, in a module, a tab and "[ext4]"; anything else is left out. */
static void line_add(struct kallsyms *kallsyms, const char *line)
{
	struct symtab_entry entry = {};
	char name[512], module[72] = "[kernel]", type;
	unsigned long long address;
	uint32_t tag;

	if (sscanf(line, "%llx %c %511s %71s", &address, &type, name, module) < 3)
		return;
	if (!is_code(type) && !is_data(type, address)) {
		symtab_border(&kallsyms->table, address);
		return;
	}
	if (address == 0) {
		kallsyms->hidden++;
		return;
	}
	tag = strtab_add(&kallsyms->strings, module);
	entry.start = address;
	entry.tag = tag >= DATA ? 0 : (uint16_t)tag;
	if (!is_code(type))
		entry.tag |= DATA;
	kallsyms->code += is_code(type);
	kallsyms->data += !is_code(type);
	entry.rank = (uint8_t)rank_of(type);
	symtab_add(&kallsyms->table, &entry, name);
}

static int kallsyms_read(struct kallsyms *kallsyms, FILE *file, const char *path)
{
	AUTO(free_ptr) char *line = NULL;
	size_t capacity = 0;

	strtab_add(&kallsyms->strings, "[kernel]");
	while (getline(&line, &capacity, file) >= 0)
		line_add(kallsyms, line);
	symtab_finish(&kallsyms->table);
	if (kallsyms->table.unsized.list.count)
		return 0;
	if (kallsyms->hidden)
		return err_set(-EPERM,
			       "%s: the kernel hides its addresses from this user; run as root or "
			       "set kernel.kptr_restrict=0",
			       path);
	return err_set(-ENOENT, "%s: holds no kernel symbols; is CONFIG_KALLSYMS off?", path);
}

int kallsyms_open(const char *path, struct kallsyms **ret)
{
	AUTO(kallsyms_destroy_auto) struct kallsyms *kallsyms = mem_zalloc(sizeof(*kallsyms));
	AUTO(close_file) FILE *file = NULL;
	int err;

	path = path ? path : "/proc/kallsyms";
	file = fopen(path, "re");
	if (!file)
		return err_set(-errno, "%s: cannot open: %m; kernel functions have no names", path);
	err = kallsyms_read(kallsyms, file, path);
	if (err)
		return err;
	*ret = take_ptr(kallsyms);
	return 0;
}

int kallsyms_resolve(struct kallsyms *kallsyms, uint64_t address, struct symbol_answer *ret,
		     const char **ret_module)
{
	struct symtab_hit hit;

	if (!symtab_find_unsized(&kallsyms->table, address, &hit))
		return -ENOENT;
	if (hit.tag & DATA && kallsyms->code / CODE_PER_DATA_MAX > kallsyms->data)
		return -ENOENT;
	kallsyms->frame = (struct symbol_frame){
		.name = names_readable(&kallsyms->strings, hit.name),
		.linkage = hit.name,
	};
	*ret = (struct symbol_answer){
		.address = hit.start,
		.size = hit.size,
		.frame_count = 1,
		.frames = &kallsyms->frame,
		.data = hit.tag & DATA,
	};
	*ret_module = strtab_get(&kallsyms->strings, hit.tag & ~DATA);
	return 0;
}
