/* SPDX-License-Identifier: BSD-2-Clause */
/* How the System V ABI of x86-64 passes a value of a type. Runs only in a worker (worker.h). */
#pragma once

#include <elfutils/libdw.h>
#include <stdbool.h>

/* Classes of eight bytes, as the ABI has them. UNSURE: DWARF does not tell. */
enum passing_class {
	PASSING_NONE,
	PASSING_SSE,
	PASSING_X87,
	PASSING_INTEGER,
	PASSING_MEMORY,
	PASSING_UNSURE,
};

struct passing {
	enum passing_class classes[2];
	uint64_t size; /* bytes of the value itself */
	bool reference; /* a pointer is passed instead */
	bool aggregate; /* structure, class or union */
};

/* cpp: whether classes may need more than copying their bytes. */
void calling_convention_of(Dwarf_Die *type, bool cpp, struct passing *ret);
/* How many integer registers it takes as an argument, if there are as many. */
unsigned int passing_integers(const struct passing *passing);
/*
 * 1: such a value is returned through a pointer that the caller passes first; 0: it is not;
 * -ENOENT: unsure.
 */
int passing_return(const struct passing *passing);
bool passing_unsure(const struct passing *passing);
