// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/names.h"

#include <string.h>

#include "wire/unwind.h"

const char *name_of_symbol(const struct profile *profile, uint32_t symbol)
{
	const char *name = symbol ? profile->symbols[symbol].name : NULL;

	return name && *name ? name : NAME_UNKNOWN;
}

static bool ends_with(const char *name, size_t length, const char *end)
{
	size_t size = strlen(end);

	return length >= size && !memcmp(name + length - size, end, size);
}

/* The length without what may come after the parameters: " const", " [clone .cold]". */
static size_t qualifiers_skip(const char *name, size_t length)
{
	static const char *const qualifiers[] = { " &&", " &", " volatile", " const" };
	const char *clone = strstr(name, " [clone ");

	if (clone)
		length = (size_t)(clone - name);
	for (size_t i = 0; i < sizeof(qualifiers) / sizeof(qualifiers[0]); i++)
		if (ends_with(name, length, qualifiers[i]))
			length -= strlen(qualifiers[i]);
	return length;
}

size_t name_brief_length(const char *name)
{
	size_t length = qualifiers_skip(name, strlen(name)), depth = 0;

	if (!ends_with(name, length, ")"))
		return strlen(name);
	while (length--) {
		depth += name[length] == ')';
		depth -= name[length] == '(';
		if (!depth)
			break;
	}
	/* "(anonymous namespace)" alone, or brackets that do not match */
	return depth || !length ? strlen(name) : length;
}

bool name_is_thunk(const char *name)
{
	static const char *const parts[] = { "__x86_indirect_", "__x86_return_thunk", "srso_",
					     "retbleed_" };

	if (!strncmp(name, "__pi_", 5))
		name += 5;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (!strncmp(name, parts[i], strlen(parts[i])))
			return true;
	return false;
}

const char *name_of_module(const struct profile *profile, uint32_t module)
{
	const struct profile_module *row = &profile->modules[module];

	if (!module)
		return NAME_UNKNOWN;
	if (row->name && *row->name)
		return row->name;
	return row->path && *row->path ? row->path : NAME_UNKNOWN;
}

const char *name_of_file(const struct profile *profile, uint32_t file)
{
	const char *path = file ? profile->files[file].path : NULL;

	return path && *path ? path : NULL;
}

const char *name_of_mark(uint64_t address)
{
	static const char *const names[] = {
#define X(name, json, text) [STACK_END_##name] = "[stack cut: " text "]",
		STACK_ENDS(X)
#undef X
	};

	return address < STACK_END_COUNT ? names[address] : "[stack cut]";
}

uint32_t location_function(const struct profile *profile, uint32_t location)
{
	const struct profile_location *row = &profile->locations[location];

	return row->frame_count ? profile->frames[row->first_frame + row->frame_count - 1].symbol
				: 0;
}
