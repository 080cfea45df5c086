/* SPDX-License-Identifier: BSD-2-Clause */
/* Types as a C or C++ programmer writes them, from DWARF. Runs only in a worker (worker.h). */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "base/array.h"
#include "base/map.h"
#include "base/strbuf.h"

struct typenames {
	struct map around; /* address of a type's DIE to index in scopes */
	ARRAY(Dwarf_Die) scopes; /* namespaces and classes */
	struct map units; /* addresses of the units whose types are in around */
};

void typenames_deinit(struct typenames *names);
/*
 * Appends the type in the spelling of gdb. type NULL: void. cpp: with namespaces, without "struct".
 */
void typename_print(struct typenames *names, Dwarf_Die *type, bool cpp, struct strbuf *ret);
