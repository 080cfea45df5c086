/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of a profile's tables as structs, made from tables.def: struct store_NAME for who
 * writes, with ids that cannot be mixed up, and struct profile_NAME for who reads, in which ids are
 * indexes of arrays. Both have the same layout.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "store/recording_kinds.h"

enum {
	STORE_VALUE_WORDS_MAX = 8,
	STORE_VALUE_LIST_MAX = 64 << 10, /* bytes of a list */
	STORE_ARGUMENTS = 6,
	STORE_BLOCK_INSTRUCTIONS_MAX = 256,
	STORE_BYTES_MAX = 256 << 20, /* of a row of the order of execution */
	STORE_LEVELS_MAX = 64,
	STORE_ROW_MAX = 256, /* bytes of a row in memory */
};

#define MODULE_KINDS(X)                                                                            \
	X(ELF, "elf") /* a mapped ELF file; addresses are its own (p_vaddr) */                     \
	X(KERNEL, "kernel") /* vmlinux and kernel modules; addresses as run */                     \
	X(VDSO, "vdso") /* addresses are its own */                                                \
	X(JIT, "jit") /* named by a /tmp/perf-PID.map; one module per process; as run */           \
	X(ANON, "anon") /* executable memory without a file; as run */                             \
	X(MARK, "mark") /* not code: entries such as "[stack cut: ...]"; address = enum value */

enum module_kind {
#define X(name, text) MODULE_##name,
	MODULE_KINDS(X)
#undef X
		MODULE_KIND_COUNT
};

/* What a mark is on. */
#define MARK_KINDS(X)                                                                              \
	X(ROUTINE, "routine") /* a function, from its entry to its last byte */                    \
	X(LINES, "lines") /* source lines */                                                       \
	X(INSTRUCTION, "instruction") /* the one at an address */                                  \
	X(RANGE, "range") /* from one address to another */                                        \
	X(INSTRUCTIONS, "instructions") /* all of a kind */                                        \
	X(DECLARED, "declared") /* by the program itself: include/assay/mark.h */                  \
	X(DATA, "data") /* an object, addresses, or what is allocated somewhere */

enum mark_kind {
#define X(name, text) MARK_##name,
	MARK_KINDS(X)
#undef X
		MARK_KIND_COUNT
};

struct profile_named_count {
	const char *name;
	const char *text;
	uint64_t count;
};

/* The fields of columns whose types are the same on both sides. */
#define ROW_U32(name, argument) uint32_t name;
#define ROW_FROM_ONE(name, argument) uint32_t name;
#define ROW_COUNT(name, argument) uint64_t name;
#define ROW_SUM(name, argument) uint64_t name;
#define ROW_MOST(name, argument) uint64_t name;
#define ROW_BITS(name, argument) uint64_t name;
#define ROW_FLAG(name, argument) bool name;
#define ROW_USER(name, argument) int64_t name;
#define ROW_TEXT(name, argument) const char *name;
#define ROW_TEXT_OR_NULL(name, argument) const char *name;
#define ROW_LAST_PART(name, argument) const char *name;
#define ROW_NAMED(name, argument) enum argument name;
#define ROW_SIGNED_IF(name, argument) int64_t name;
#define ROW_REAL_IF(name, argument) double name;
#define ROW_LATER(name, argument)

#define STORE_ROW_ID(name, argument) struct argument##_id name;
#define STORE_ROW_REF(name, argument) struct argument##_id name;
#define STORE_ROW_BYTES(name, argument)                                                            \
	const void *name;                                                                          \
	size_t argument;

#define PROFILE_ROW_ID(name, argument) uint32_t name;
#define PROFILE_ROW_REF(name, argument) uint32_t name;
#define PROFILE_ROW_BYTES(name, argument)                                                          \
	const uint8_t *name;                                                                       \
	size_t argument;

#define ROW_ID(name, argument) ROW_SIDE(ID)(name, argument)
#define ROW_REF(name, argument) ROW_SIDE(REF)(name, argument)
#define ROW_OF(name, argument) ROW_SIDE(REF)(name, recording)
#define ROW_REF_OR_NULL(name, argument) ROW_SIDE(REF)(name, argument)
#define ROW_REF_OR_ZERO(name, argument) ROW_SIDE(REF)(name, argument)
#define ROW_PARENT(name, argument) ROW_SIDE(REF)(name, argument)
#define ROW_ABOVE(name, argument) ROW_SIDE(REF)(name, argument)
#define ROW_HERE(name, argument) ROW_SIDE(REF)(name, argument)
#define ROW_BYTES(name, argument) ROW_SIDE(BYTES)(name, argument)
#define ROW_LIST(name, argument) ROW_SIDE(BYTES)(name, argument)

// clang-format off
#define ROW_SIDE(type) STORE_ROW_##type
#define TABLE(name, array, count, style, keys, domain, text) struct store_##name {
#define COLUMN(type, name, argument, text) ROW_##type(name, argument)
#define FIELD(type, name, text) type name;
#define END };
#include "store/tables.def"
#undef ROW_SIDE

#define ROW_SIDE(type) PROFILE_ROW_##type
#define TABLE(name, array, count, style, keys, domain, text) struct profile_##name {
#define COLUMN(type, name, argument, text) ROW_##type(name, argument)
#define FIELD(type, name, text) type name;
#define END };
#include "store/tables.def"
#undef ROW_SIDE
// clang-format on
