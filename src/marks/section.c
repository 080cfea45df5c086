// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads the section of declared marks with pread() and every size checked. Beginnings and ends of
 * ranges are entries of their own: a range goes from its beginning to the last end of the same name
 * before the next beginning.
 */
#include "marks/section.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

enum {
	SECTION_MAX = 64 << 20, /* bytes */
	NAME_MAX_ = 255,
	ENTRY_HEAD = 16, /* address, kind, size of data or 0 */
};

static const char section_name[] = ".assay.marks";

struct entry {
	uint64_t address;
	uint32_t kind;
	uint32_t size; /* of data */
	size_t at; /* in the section */
	const char *name;
};

struct entries {
	ARRAY(struct entry) list;
};

static void entries_deinit(struct entries *entries)
{
	array_deinit(&entries->list);
}

void section_deinit(struct section *section)
{
	free(section->bytes);
	free(section->items);
	*section = (struct section){};
}

static int wrong(const char *path, size_t at, const char *what)
{
	return err_set(-EBADMSG, "%s: section %s, byte 0x%zx: %s", path, section_name, at, what);
}

/* --- Entries ---------------------------------------------------------------------------------- */

static bool name_is_sound(const char *name)
{
	for (; *name; name++)
		if (!(*name == '_' || (*name >= '0' && *name <= '9') ||
		      ((*name | 32) >= 'a' && (*name | 32) <= 'z')))
			return false;
	return true;
}

/* The entry at *at, which moves behind it and what fills up to the next. */
static int entry_take(const char *bytes, size_t size, size_t *at, const char *path,
		      struct entry *ret)
{
	const char *name = bytes + *at + ENTRY_HEAD, *end;

	if (size - *at <= ENTRY_HEAD)
		return wrong(path, *at, "an entry is cut short");
	*ret = (struct entry){ .at = *at, .name = name };
	memcpy(&ret->address, bytes + *at, sizeof(ret->address));
	memcpy(&ret->kind, bytes + *at + 8, sizeof(ret->kind));
	memcpy(&ret->size, bytes + *at + 12, sizeof(ret->size));
	if (ret->kind < DECLARED_PLACE || ret->kind > DECLARED_DATA ||
	    !ret->size != (ret->kind != DECLARED_DATA))
		return wrong(path, *at, "an entry of an unknown kind");
	end = memchr(name, '\0', size - *at - ENTRY_HEAD);
	if (!end || end == name || end - name > NAME_MAX_ || !name_is_sound(name))
		return wrong(path, *at, "an entry whose name is empty, too long or no word");
	*at = (size_t)(end + 1 - bytes + 7) & ~(size_t)7;
	return 0;
}

static int entry_compare(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	if (left->address != right->address)
		return left->address < right->address ? -1 : 1;
	return left->at < right->at ? -1 : left->at > right->at;
}

static int entries_take(const char *bytes, size_t size, const char *path, struct entries *entries)
{
	int err = 0;

	for (size_t at = 0; at < size && !err;) {
		struct entry entry;

		err = entry_take(bytes, size, &at, path, &entry);
		if (!err)
			*array_push(&entries->list) = entry;
	}
	if (!err && entries->list.count)
		qsort(entries->list.items, entries->list.count, sizeof(struct entry),
		      entry_compare);
	return err;
}

/* --- Ranges ----------------------------------------------------------------------------------- */

static uint64_t name_hash(const struct entry *entry)
{
	return hash_bytes(entry->name, strlen(entry->name));
}

/*
 * A compiler may copy the code at the beginning or the end of a range. Another beginning is one
 * more place where visits are counted; another end makes the range longer. begun: hash of a name to
 * the item of its last range, + 1.
 */
static void entry_apply(const struct entry *entry, struct map *begun, struct section *section)
{
	uint64_t *known = map_find(begun, name_hash(entry));
	struct declared *range = known ? &section->items[*known - 1] : NULL;
	bool fresh, is_open = range && !range->size;

	if (entry->kind == DECLARED_END) {
		if (range)
			range->size = entry->address - range->address;
		return;
	}
	if (entry->kind == DECLARED_DATA) {
		section->items[section->count++] =
			(struct declared){ entry->address, entry->size, entry->name, true };
		return;
	}
	section->items[section->count++] = (struct declared){ entry->address,
							      entry->kind == DECLARED_PLACE,
							      entry->name, false };
	if (entry->kind == DECLARED_BEGIN && !is_open)
		*map_at(begun, name_hash(entry), &fresh) = section->count;
}

static void half_note(struct declared_halves *halves, const char *name)
{
	halves->name = name;
	halves->count++;
}

/*
 * A compiler drops the end of a range that it sees is never reached, and a linker the function that
 * holds one of the two. What is left of such a range is the places where it begins. Code that is
 * rarely executed may lie below: an end there is fine if the range begins anywhere.
 */
static void halves_find(const struct entries *entries, const struct map *begun,
			struct section *section)
{
	array_each(&entries->list, entry)
		if (entry->kind == DECLARED_END && !map_find(begun, name_hash(entry)))
			half_note(&section->unbegun, entry->name);
	map_each(begun, slot)
		if (!section->items[slot->value - 1].size)
			half_note(&section->unended, section->items[slot->value - 1].name);
}

static void ranges_make(const struct entries *entries, struct section *section)
{
	struct map begun = {};

	section->items = mem_zalloc((entries->list.count + 1) * sizeof(*section->items));
	array_each(&entries->list, entry)
		entry_apply(entry, &begun, section);
	halves_find(entries, &begun, section);
	map_deinit(&begun);
}

int section_parse(char *bytes, size_t size, const char *path, struct section *ret)
{
	AUTO(entries_deinit) struct entries entries = {};
	struct section section = { .bytes = bytes };
	int err = entries_take(bytes, size, path, &entries);

	if (err) {
		section_deinit(&section);
		return err;
	}
	ranges_make(&entries, &section);
	*ret = section;
	return 0;
}

/* --- Files ------------------------------------------------------------------------------------ */

static bool read_at(int fd, uint64_t offset, void *ret, size_t size)
{
	size_t done = 0;

	if (offset > INT64_MAX - size)
		return false;
	while (done < size) {
		ssize_t got = pread(fd, (char *)ret + done, size - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

static bool header_is_named(int fd, const Elf64_Shdr *names, const Elf64_Shdr *header)
{
	char name[sizeof(section_name)];

	return header->sh_name < names->sh_size &&
	       names->sh_size - header->sh_name >= sizeof(name) &&
	       names->sh_offset <= UINT64_MAX - header->sh_name &&
	       read_at(fd, names->sh_offset + header->sh_name, name, sizeof(name)) &&
	       !memcmp(name, section_name, sizeof(name));
}

/*
 * Finds the section's header; a file without the section is no error, whatever its other headers
 * are.
 */
static bool header_find(int fd, Elf64_Shdr *ret)
{
	Elf64_Ehdr elf;
	Elf64_Shdr names;

	if (!read_at(fd, 0, &elf, sizeof(elf)) || memcmp(elf.e_ident, ELFMAG, SELFMAG) ||
	    elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_shentsize != sizeof(Elf64_Shdr) ||
	    elf.e_shstrndx >= elf.e_shnum ||
	    !read_at(fd, elf.e_shoff + elf.e_shstrndx * sizeof(names), &names, sizeof(names)))
		return false;
	for (size_t i = 0; i < elf.e_shnum; i++)
		if (read_at(fd, elf.e_shoff + i * sizeof(*ret), ret, sizeof(*ret)) &&
		    header_is_named(fd, &names, ret))
			return true;
	return false;
}

int section_read(int fd, const char *path, struct section *ret)
{
	Elf64_Shdr header;
	char *bytes;

	*ret = (struct section){};
	if (!header_find(fd, &header) || !header.sh_size)
		return 0;
	if (header.sh_type != SHT_PROGBITS || header.sh_flags & SHF_COMPRESSED ||
	    header.sh_size > SECTION_MAX)
		return err_set(-EBADMSG,
			       "%s: section %s is compressed, too large or holds no bytes", path,
			       section_name);
	bytes = mem_alloc(header.sh_size);
	if (!read_at(fd, header.sh_offset, bytes, header.sh_size)) {
		free(bytes);
		return err_set(-EBADMSG, "%s: section %s lies outside of the file", path,
			       section_name);
	}
	return section_parse(bytes, header.sh_size, path, ret);
}
