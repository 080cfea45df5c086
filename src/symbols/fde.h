/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a function without a symbol begins and ends, from the unwind information that even stripped files carry:
 * .eh_frame_hdr is a table of all functions sorted by address.
 */
#pragma once

#include <stdint.h>

#include "symbols/elf_image.h"

/* The function that holds address; -ENOENT: none, or the file's table is not the usual kind. */
int fde_find(const struct elf_image *image, uint64_t address, uint64_t *ret_start,
	     uint64_t *ret_size);
