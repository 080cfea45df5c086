/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: instructions made of random bytes, such that all widths, prefixes, addressing modes
 * and odd encodings of what the lifter knows come up.
 *
 *	in	the state of a generator of random numbers, which the caller seeds
 *	out	bytes that begin like an instruction; what follows is random
 */
#pragma once

#include <stdint.h>

/* The next random number. */
uint64_t corpus_random(uint64_t *state);
/* Random bytes that begin with prefixes and an opcode of one of the maps the lifter knows. */
void corpus_bytes(uint64_t *state, uint8_t code[16]);
