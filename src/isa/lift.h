/* SPDX-License-Identifier: BSD-2-Clause */
/* From x86-64 code to micro-operations, one basic block at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/uop.h"

/*
 * Translates the block that begins at pc in its module, of whose code size bytes are at hand. There
 * is always a block: one that begins with something that cannot be interpreted gives up at once and
 * says why.
 */
void lift_block(const void *code, size_t size, uint64_t pc, struct uop_block *ret);

/* The mnemonic of the instruction that the bytes begin with; 0 if they are none. */
unsigned lift_mnemonic_of(const void *code, size_t size);
/* The name of a mnemonic; never NULL. */
const char *lift_mnemonic(unsigned mnemonic);
