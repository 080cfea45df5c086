/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks that a program declares itself: the section that include/assay/mark.h fills. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As in the section. */
enum declared_kind { DECLARED_PLACE = 1, DECLARED_BEGIN, DECLARED_END, DECLARED_DATA };

/* A place, or a range that begins there. */
struct declared {
	uint64_t address;
	uint64_t size; /* bytes; 1: a place; 0: only a beginning of a range is known */
	const char *name;
	bool data; /* an object in memory */
};

struct declared_halves {
	size_t count;
	const char *name; /* of one of them; valid if there is one */
};

struct section {
	char *bytes; /* names are in here */
	struct declared *items; /* by address */
	size_t count;
	struct declared_halves unended; /* ranges that begin but have no end */
	struct declared_halves unbegun; /* ends of ranges that begin nowhere */
};

/*
 * Reads the section of an ELF file; a file without has none. -EBADMSG: what is wrong, and where:
 * the file may be anything.
 */
int section_read(int fd, const char *path, struct section *ret);
/* The same of bytes that were read, which are the section's from now on, also on failure. */
int section_parse(char *bytes, size_t size, const char *path, struct section *ret);
void section_deinit(struct section *section);
