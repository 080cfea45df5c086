/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an address in a module to names and lines. Everything read here is hostile until checked: a
 * broken file gives fewer names, never a crash.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buildid.h"
#include "base/cleanup.h"

/* One source-level frame. Strings belong to the resolver and live until it is destroyed. */
struct symbol_frame {
	const char *name; /* demangled */
	const char *linkage; /* as in the object file */
	const char *file; /* NULL: unknown */
	uint32_t line; /* 0: unknown */
};

struct symbol_answer {
	uint64_t address; /* start of the function that holds the address; 0 when unknown */
	uint64_t size;
	size_t frame_count; /* >= 1: inlined functions innermost first, the real function last */
	const struct symbol_frame *frames; /* valid until the next call */
	bool data; /* no function but an object, or a section: "[.rodata]" */
};

/* From this address on, up to that of the next one, code belongs to the line. */
struct symbol_line {
	uint64_t address;
	const char *file; /* NULL: unknown. Belongs to who was asked */
	uint32_t line; /* 0: of no line, or behind the last code */
};

/* How to read the bits of a parameter. */
#define SYMBOL_ENCODINGS(X)                                                                        \
	X(SIGNED, "signed")                                                                        \
	X(UNSIGNED, "unsigned")                                                                    \
	X(POINTER, "pointer")                                                                      \
	X(BOOL, "bool")                                                                            \
	X(CHAR, "char")                                                                            \
	X(ENUM, "enum")

enum symbol_encoding {
#define X(name, text) SYMBOL_ENCODING_##name,
	SYMBOL_ENCODINGS(X)
#undef X
		SYMBOL_ENCODING_COUNT
};

/* rdi, rsi, rdx, rcx, r8, r9 */
enum { SYMBOL_PARAMETERS_MAX = 6 };

struct symbol_parameter {
	unsigned int argument; /* number of the register */
	const char *name; /* "" when it has none; "pair+8": the second half of a structure */
	const char *type; /* as in C or C++ */
	enum symbol_encoding encoding;
	unsigned int size; /* bytes */
	/* ENUM: "RED=0\nGREEN=5\n", the first SYMBOL_ENUMERATORS_MAX; NULL: not known */
	const char *enumerators;
};

enum { SYMBOL_ENUMERATORS_MAX = 256 };

/*
 * ELF: .symtab, .dynsym, MiniDebugInfo, separate debug file by build-id, DWARF lines and inlines.
 */
struct symbols;

/*
 * fd is duplicated. path is for messages and for finding debug files beside it. kind vdso: give the
 * fd of a memfd holding its image.
 */
int symbols_open(int fd, const char *path, struct symbols **ret);
void symbols_destroy(struct symbols *symbols);
DEFINE_AUTO(struct symbols, symbols_destroy)
/*
 * address: as in the file (p_vaddr based). A function without a name is called sub_ADDRESS; data
 * without one by its section. -ENOENT: nothing known there.
 */
int symbols_resolve(struct symbols *symbols, uint64_t address, struct symbol_answer *ret);
enum { SYMBOLS_BATCH_MAX = 512 };

/*
 * The same for at most SYMBOLS_BATCH_MAX addresses, which costs each a tenth, and less in ascending
 * order. frame_count 0: nothing known there. The frames of all answers are valid until the next
 * call.
 */
void symbols_resolve_many(struct symbols *symbols, const uint64_t *addresses, size_t count,
			  struct symbol_answer *ret);
/*
 * Begins to read the file, in a process of its own: the first question is then answered sooner. Not
 * needed.
 */
void symbols_prepare(struct symbols *symbols);
/*
 * Where the same addresses would get the same answer from symbols_resolve_many(), *ret has the same
 * number: the question whose answer costs least. Numbers of different calls compare, except that
 * equal places may have different ones where the worker died in between.
 */
void symbols_places(struct symbols *symbols, const uint64_t *addresses, size_t count,
		    uint64_t *ret);
/*
 * The parameters that a function gets in integer registers, by DWARF. address: where it begins. A
 * parameter of which it is not certain how it is passed ends the list. -ENOENT: DWARF knows no
 * function that begins there, or one whose parameters the compiler may have changed. Strings live
 * as long as symbols.
 */
int symbols_parameters(struct symbols *symbols, uint64_t address,
		       struct symbol_parameter ret[static SYMBOL_PARAMETERS_MAX],
		       size_t *ret_count);
struct symbol_parameters {
	size_t count; /* 0: none, or not known */
	struct symbol_parameter items[SYMBOL_PARAMETERS_MAX];
};
/* The same for at most SYMBOLS_BATCH_MAX functions, in one question. */
void symbols_parameters_many(struct symbols *symbols, const uint64_t *addresses, size_t count,
			     struct symbol_parameters *ret);
/*
 * The tables of lines, all units one after the other, each in ascending order. *ret is the caller's
 * to free. Without debug information there are none.
 */
void symbols_lines(struct symbols *symbols, struct symbol_line **ret, size_t *ret_count);
/* A name of a symbol table. Several may begin at one address. */
struct symbol_name {
	const char *name; /* demangled */
	const char *linkage; /* as in the object file */
	uint64_t address; /* as in the file */
	uint64_t size; /* bytes; 0: unknown */
};

enum symbol_names { SYMBOL_FUNCTIONS, SYMBOL_OBJECTS };

/*
 * All functions, or all objects, of the symbol tables, by address. *ret is the caller's to free,
 * texts live as long as symbols. Functions that only choose an implementation are left out.
 */
void symbols_names(struct symbols *symbols, enum symbol_names which, struct symbol_name **ret,
		   size_t *ret_count);
/*
 * Where functions begin and end by the unwind information that even stripped files carry, by
 * address. *ret is the caller's to free.
 */
struct symbol_extent {
	uint64_t address, size; /* as in the file; bytes */
};
void symbols_extents(struct symbols *symbols, struct symbol_extent **ret, size_t *ret_count);
const char *symbol_encoding_text(enum symbol_encoding encoding);
/* Copies at most size bytes of code from address on; returns how many, or a negative errno. */
int symbols_code(struct symbols *symbols, uint64_t address, void *ret, size_t size);

/*
 * The kernel: /proc/kallsyms, functions and objects. Module part of an answer: "[kernel]" or
 * "[ext4]".
 */
struct kallsyms;

/* path NULL: /proc/kallsyms. -EPERM when the kernel hides its addresses. */
int kallsyms_open(const char *path, struct kallsyms **ret);
void kallsyms_destroy(struct kallsyms *kallsyms);
DEFINE_AUTO(struct kallsyms, kallsyms_destroy)
int kallsyms_resolve(struct kallsyms *kallsyms, uint64_t address, struct symbol_answer *ret,
		     const char **ret_module);

/*
 * JIT code: a perf map ("START SIZE name" lines, hexadecimal) or a jitdump file, which has the code
 * as well. Later entries hide earlier ones.
 */
struct jitmap;

int jitmap_open(int fd, struct jitmap **ret);
void jitmap_destroy(struct jitmap *map);
DEFINE_AUTO(struct jitmap, jitmap_destroy)
int jitmap_resolve(struct jitmap *map, uint64_t address, struct symbol_answer *ret);
/* Copies at most size bytes of code from address on; returns how many. */
size_t jitmap_code(const struct jitmap *map, uint64_t address, void *ret, size_t size);

/* C++ (Itanium) and Rust (legacy and v0) names; returns a heap string, or NULL when not mangled. */
char *demangle(const char *name);

/* The build-id note of an ELF file; size 0 when it has none. */
int elf_build_id(int fd, struct build_id *ret);
