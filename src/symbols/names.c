// SPDX-License-Identifier: BSD-2-Clause
/* Demangles a name once and keeps it in a table of strings. */
#include "symbols/names.h"

#include "base/cleanup.h"
#include "symbols/symbols.h"

const char *names_readable(struct strtab *table, const char *linkage)
{
	AUTO(free_ptr) char *readable = demangle(linkage);

	return strtab_get(table, strtab_add(table, readable ? readable : linkage));
}
