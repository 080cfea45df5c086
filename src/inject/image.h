/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine and its decoder as one piece of memory, ready to be put at any address of any process.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

enum { IMAGE_PAGE = 4096 };

/* An ELF file in memory; name is for messages. */
struct image_file {
	const char *name;
	const uint8_t *bytes;
	size_t size;
};

/* A word that holds an address. */
struct image_fix {
	uint64_t offset;
	uint64_t value; /* offset of what it points to */
};

struct image {
	uint8_t *bytes;
	size_t size; /* whole pages */
	uint8_t *protection; /* PROT_ bits of each page */
	bool *empty; /* of each page: it holds zeros only */
	struct image_fix *fixes;
	size_t fix_count;
	uint64_t entry; /* offset of engine_entry */
	uint64_t attach; /* of engine_attach */
	uint64_t address; /* where the words point to now */
};

/* Joins the two objects; each finds what it needs in itself or in the other. */
int image_create(const struct image_file *engine, const struct image_file *library,
		 struct image **ret);
/* The engine in this binary, and the libZydis that this process uses itself. */
int image_create_own(struct image **ret);
void image_destroy(struct image *image);
DEFINE_AUTO(struct image, image_destroy)

/* Makes the bytes right for an address, which is that of a page. */
void image_place(struct image *image, uint64_t address);
