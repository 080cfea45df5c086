// SPDX-License-Identifier: BSD-2-Clause
#include "analyse/names.h"

#include "wire/unwind.h"

const char *name_of_symbol(const struct profile *profile, uint32_t symbol)
{
	const char *name = symbol ? profile->symbols[symbol].name : NULL;

	return name && *name ? name : NAME_UNKNOWN;
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
	const char *path = file ? profile->files[file] : NULL;

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
