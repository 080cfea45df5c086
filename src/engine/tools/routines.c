// SPDX-License-Identifier: BSD-2-Clause
/*
 * Modules that were mapped, and their tables of routines.
 *
 * 1. Entries are only added, each is filled in before it is counted, and one whose code is gone
 *    becomes empty: so who looks needs no lock.
 */
#include "engine/tools/routines.h"

enum { MODULES = 1 << 12 };

static struct module {
	uint64_t start, end, offset;
	uint32_t table;
} modules[MODULES];
static uint32_t module_count;

const struct routines_area *routines_area(void)
{
	return (const struct routines_area *)(engine_boot.shared + STREAM_MARKS);
}

/* Forgets modules in a range where something else is mapped now. */
static void modules_forget(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < module_count; i++)
		if (modules[i].end > start && end > modules[i].start)
			__atomic_store_n(&modules[i].end, modules[i].start, __ATOMIC_RELAXED);
}

void routines_module_seen(const struct region *region, const char *path)
{
	int table;

	modules_forget(region->start, region->end);
	if (!routines_area()->asks || !region->inode || module_count == MODULES)
		return;
	table = host_ask_module(region, path);
	if (table <= 0 || table >= ROUTINES_BYTES / ROUTINES_UNIT)
		return;
	modules[module_count] =
		(struct module){ region->start, region->end, region->offset, (uint32_t)table };
	__atomic_store_n(&module_count, module_count + 1, __ATOMIC_RELEASE);
}

static const struct module *module_of(uint64_t pc)
{
	for (uint32_t i = __atomic_load_n(&module_count, __ATOMIC_ACQUIRE); i-- > 0;)
		if (pc >= modules[i].start &&
		    pc < __atomic_load_n(&modules[i].end, __ATOMIC_RELAXED))
			return &modules[i];
	return NULL;
}

bool routine_find(uint64_t pc, struct routine_found *ret)
{
	const struct module *module = module_of(pc);
	const struct routine_table *table;
	const struct routine *found;
	uint32_t low = 0, high, offset;

	if (!module)
		return false;
	table = (const struct routine_table *)((const uint8_t *)routines_area() +
					       (uint64_t)module->table * ROUTINES_UNIT);
	offset = (uint32_t)(pc - module->start + module->offset);
	high = table->count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (table->routines[middle].start <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	found = &table->routines[low - 1];
	if (offset != found->start &&
	    offset - found->start >= found->size_flags >> ROUTINE_FLAG_BITS)
		return false;
	ret->start = pc - (offset - found->start);
	ret->flags = found->size_flags & ((1u << ROUTINE_FLAG_BITS) - 1);
	return true;
}

bool routine_is_skipped(uint64_t pc)
{
	struct routine_found found;

	if (!routine_find(pc, &found))
		return routines_area()->only;
	return found.flags & ROUTINE_SKIPPED;
}

/* --- Stubs ------------------------------------------------------------------------------- */

/* jmp *place(%rip), which compilers use for nothing but to go to another function. */
static bool is_stub_jump(const uint8_t *code)
{
	return code[0] == 0xff && code[1] == 0x25;
}

/* endbr64 and a prefix may come first. */
bool code_is_stub(uint64_t pc)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const uint8_t *code = (const uint8_t *)pc;
	unsigned at = 0;

	while (at < sizeof(endbr64) && code[at] == endbr64[at])
		at++;
	if (at != sizeof(endbr64))
		at = 0;
	return is_stub_jump(code + at) || (code[at] == 0xf2 && is_stub_jump(code + at + 1));
}
