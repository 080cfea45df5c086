// SPDX-License-Identifier: BSD-2-Clause
#include "capture/kernel/layout.h"

#include <bpf/btf.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"

/* Modules and generated code have this part of the address space for themselves (x86_64/mm.rst). */
#define MODULES_START UINT64_C(0xffffffffa0000000)
#define MODULES_END UINT64_C(0xffffffffff000000)

void kernel_layout_symbols(FILE *file, struct kernel_layout *ret)
{
	char line[512], name[256];
	uint64_t address;

	while (fgets(line, sizeof(line), file)) {
		if (strchr(line, '[') || sscanf(line, "%" SCNx64 " %*c %255s", &address, name) != 2)
			continue;
		if (!strcmp(name, "_text"))
			ret->image.start = ret->image.end = address;
		/*
		 * Used where /proc/iomem hides addresses: the image then ends with the code and
		 * excludes the kernel's data.
		 */
		else if (!strcmp(name, "_etext") && ret->image.start && address > ret->image.start)
			ret->image.end = address;
		else if (!strcmp(name, "page_offset_base"))
			ret->direct_map_variable = address;
		else if (!strcmp(name, "vmemmap_base"))
			ret->page_map_variable = address;
	}
}

/* Keeps the largest ranges if there are too many. */
static void ram_add(struct kernel_layout *layout, struct kernel_range range)
{
	struct kernel_range *smallest = &layout->ram[0];

	for (size_t i = 1; i < RUN_RAM_RANGES; i++)
		if (layout->ram[i].end - layout->ram[i].start < smallest->end - smallest->start)
			smallest = &layout->ram[i];
	if (range.end - range.start > smallest->end - smallest->start)
		*smallest = range;
}

void kernel_layout_memory(FILE *file, struct kernel_layout *ret)
{
	char line[512];
	struct kernel_range range;
	uint64_t code = 0;

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &range.start, &range.end) != 2 ||
		    range.end <= range.start)
			continue;
		range.end++;
		if (line[0] != ' ' && strstr(line, " : System RAM"))
			ram_add(ret, range);
		else if (strstr(line, " : Kernel code"))
			code = range.start;
		else if (strstr(line, " : Kernel bss") && code && range.end > code &&
			 ret->image.start)
			ret->image.end = ret->image.start + (range.end - code);
	}
	ret->modules = (struct kernel_range){ MODULES_START, MODULES_END };
	if (ret->image.end > ret->modules.start)
		ret->modules.start = ret->image.end;
}

/* Offset of a per-CPU variable in its section; -1: there is none. */
static int64_t percpu_offset(const struct btf *btf, const char *name)
{
	int32_t id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *section = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	const struct btf_var_secinfo *variable = section ? btf_var_secinfos(section) : NULL;

	for (uint32_t i = 0; section && i < btf_vlen(section); i++, variable++) {
		const struct btf_type *type = btf__type_by_id(btf, variable->type);
		const char *found = type ? btf__name_by_offset(btf, type->name_off) : NULL;

		if (found && !strcmp(found, name))
			return variable->offset;
	}
	return -1;
}

static int64_t distance(int64_t from, int64_t to)
{
	return from < 0 || to < 0 ? 0 : to - from;
}

static void percpu_get(struct kernel_layout *ret)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int64_t queue;

	if (!btf)
		return;
	queue = percpu_offset(btf, "runqueues");
	ret->percpu_base = distance(queue, percpu_offset(btf, "this_cpu_off"));
	ret->preempt_count = distance(queue, percpu_offset(btf, "__preempt_count"));
	btf__free(btf);
}

void kernel_layout_get(struct kernel_layout *ret)
{
	AUTO(close_file) FILE *names = fopen("/proc/kallsyms", "re");
	AUTO(close_file) FILE *memory = fopen("/proc/iomem", "re");

	memset(ret, 0, sizeof(*ret));
	if (names)
		kernel_layout_symbols(names, ret);
	if (memory)
		kernel_layout_memory(memory, ret);
	percpu_get(ret);
}
