// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where there is code of files, as far as it is known: that of modules that were there when the
 * program started or asked dlsym() for something, and of what was met since. The dynamic linker
 * tells of those without a lock (_dl_find_object() of glibc 2.35), also in the middle of dlopen().
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "hooks/entries.h"

enum {
	TEXTS = CALL_MODULES_MAX,
	NOWHERE = 256, /* addresses */
	LONGEST_CALL = 7,
};

struct text {
	uint64_t start;
	uint64_t end;
};

static struct text texts[TEXTS];
static uint32_t text_count;
static bool adding; /* a thread adds one */

/* Addresses that are in no file, by hash: what runs there is compiled while the program runs. */
static uint64_t nowhere[NOWHERE];

static int (*find_object)(void *address, struct dl_find_object *ret);

static uint64_t *nowhere_of(uint64_t address)
{
	return &nowhere[address * 0x9e3779b97f4a7c15 >> 56];
}

void hooks_texts_start(void)
{
	*(void **)&find_object = dlvsym(RTLD_DEFAULT, "_dl_find_object", "GLIBC_2.35");
}

bool hooks_text_has(uint64_t address)
{
	uint32_t count = __atomic_load_n(&text_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++)
		if (address >= texts[i].start + LONGEST_CALL && address < texts[i].end)
			return true;
	return false;
}

/* A range is filled in before it is counted. What is not added here is added when it is met. */
void hooks_text_add(uint64_t start, uint64_t end)
{
	uint32_t count;

	if (__atomic_exchange_n(&adding, true, __ATOMIC_ACQUIRE))
		return;
	count = text_count;
	for (uint32_t i = 0; i < count; i++)
		if (texts[i].start == start && texts[i].end == end)
			count = TEXTS;
	if (count < TEXTS) {
		texts[count] = (struct text){ start, end };
		__atomic_store_n(&text_count, count + 1, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&adding, false, __ATOMIC_RELEASE);
}

/* The headers of a file lie in the first page that is mapped of it, as linkers make files. */
static void object_add(const struct dl_find_object *object)
{
	const ElfW(Ehdr) *head = object->dlfo_map_start;
	const ElfW(Phdr) *headers = (const void *)((const char *)head + sizeof(*head));
	enum { PAGE = 4096, MOST = (PAGE - sizeof(*head)) / sizeof(*headers) };
	uint64_t bias = object->dlfo_link_map->l_addr;

	if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_phoff != sizeof(*head))
		return;
	for (int i = 0; i < head->e_phnum && i < MOST; i++)
		if (headers[i].p_type == PT_LOAD && headers[i].p_flags & PF_X)
			hooks_text_add(bias + headers[i].p_vaddr,
				       bias + headers[i].p_vaddr + headers[i].p_memsz);
}

bool hooks_text_is_new(uint64_t address)
{
	return find_object && *nowhere_of(address) != address && !hooks_text_has(address);
}

void hooks_text_find(uint64_t address)
{
	struct dl_find_object object;

	if (!find_object((void *)address, &object))
		object_add(&object);
	if (!hooks_text_has(address))
		*nowhere_of(address) = address;
}
