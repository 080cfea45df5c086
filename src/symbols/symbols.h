/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From an address in a module to names and lines. Everything read here is hostile until checked: a broken
 * file gives fewer names, never a crash.
 */
#pragma once

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
};

/* ELF: .symtab, .dynsym, MiniDebugInfo, separate debug file by build-id, DWARF lines and inlines. */
struct symbols;

/* fd is duplicated. path is for messages and for finding debug files beside it. kind vdso: give the fd of a memfd holding its image. */
int symbols_open(int fd, const char *path, struct symbols **ret);
void symbols_destroy(struct symbols *symbols);
DEFINE_AUTO(struct symbols, symbols_destroy)
/*
 * address: as in the file (p_vaddr based). A function without a name is called sub_ADDRESS. -ENOENT: nothing known
 * there.
 */
int symbols_resolve(struct symbols *symbols, uint64_t address, struct symbol_answer *ret);
/* Copies at most size bytes of code from address on; returns how many, or a negative errno. */
int symbols_code(struct symbols *symbols, uint64_t address, void *ret, size_t size);

/* The kernel: /proc/kallsyms. Module part of an answer: "[kernel]" or "[ext4]". */
struct kallsyms;

/* path NULL: /proc/kallsyms. -EPERM when the kernel hides its addresses. */
int kallsyms_open(const char *path, struct kallsyms **ret);
void kallsyms_destroy(struct kallsyms *kallsyms);
DEFINE_AUTO(struct kallsyms, kallsyms_destroy)
int kallsyms_resolve(struct kallsyms *kallsyms, uint64_t address, struct symbol_answer *ret,
		     const char **ret_module);

/* JIT code: a perf map ("START SIZE name" lines, hexadecimal). Later entries hide earlier ones. */
struct jitmap;

int jitmap_open(int fd, struct jitmap **ret);
void jitmap_destroy(struct jitmap *map);
DEFINE_AUTO(struct jitmap, jitmap_destroy)
int jitmap_resolve(struct jitmap *map, uint64_t address, struct symbol_answer *ret);

/* C++ (Itanium) and Rust (legacy and v0) names; returns a heap string, or NULL when not mangled. */
char *demangle(const char *name);

/* The build-id note of an ELF file; size 0 when it has none. */
int elf_build_id(int fd, struct build_id *ret);
