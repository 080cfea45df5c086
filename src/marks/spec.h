/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a user marks, as text:
 *
 *	deflate				a routine; * and ? stand for any text and any one byte
 *	libz.so!inflate_fast+0x40	the instruction 0x40 bytes behind its beginning
 *	libz.so!0x5a10			the instruction at an address, as in the file
 *	libz.so!0x5a10-0x5a80		from one address to before another
 *	deflate.c:414-493		source lines
 *	insn:lock*			instructions of a kind, wherever they are
 *	mark:parse			what the program declares itself (include/assay/mark.h); may
 *					be a pattern
 *	data:window			an object in memory, by its symbol; may be a pattern
 *	data:0x7f0012345000+64		memory at an address: so many bytes
 *	data:heap:malloc@parse.c:88	memory that this function allocates for calls from that line
 *
 * Behind any that is code, separated by commas:
 *
 *	time				how long visits take
 *	slower=50			the same, and how many took that many cycles or more;
 *					or 300ns, 20us, 5ms, 1s
 *
 * With `,tail` behind a routine, single visits of it are kept, usual ones and the slowest
 * hundredth, or with `,tail=5%` another share of them.
 *
 * With `,event` behind it, a visit raises an event. With `,start` a thread counts from a visit on,
 * and with `,stop` it does not: where anything starts, threads begin without counting.
 *
 * In front of `!` is the module: the file's name, with or without what follows its first `.so`, or
 * the end of its path, or a pattern.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "store/rows.h"

enum { MARK_TEXT_MAX = 4096 }; /* bytes of a mark */

enum mark_data_kind { MARK_DATA_SYMBOL, MARK_DATA_ADDRESS, MARK_DATA_HEAP };

struct mark_spec {
	enum mark_kind kind;
	enum mark_data_kind data; /* DATA */
	bool timed;
	uint64_t slower; /* 0: there is no threshold */
	bool slower_ns; /* it is in nanoseconds, otherwise in cycles */
	bool event; /* visits raise events */
	/* Single visits are kept: so many permille, the slowest, and some usual ones. 0: none */
	uint32_t tail;
	bool starts, stops; /* visits start or stop that the thread counts */
	char *text; /* as it was given */
	char *module; /* NULL: any */
	/*
	 * ROUTINE and INSTRUCTION: the symbol, NULL: first is an address; LINES: the file;
	 * INSTRUCTIONS and DECLARED: the pattern; DATA: the symbol, or the function that
	 * allocates.
	 */
	char *name;
	char *file; /* DATA: where it is called; first: the line */
	/* The name is a pattern, and what it finds are marks of their own. */
	bool many;
	/*
	 * LINES: the first and the last; INSTRUCTION: the offset, or an address; RANGE: both;
	 * DATA: the address, and behind it
	 */
	uint64_t first, last;
};

/* -EINVAL: what is wrong, and where. */
int mark_spec_parse(const char *text, struct mark_spec *ret);
void mark_spec_deinit(struct mark_spec *spec);

/* Whether a module with that path is meant. */
bool mark_spec_takes_module(const struct mark_spec *spec, const char *path);
/* Whether a routine is meant; names as in struct symbol_name. */
bool mark_spec_takes_symbol(const struct mark_spec *spec, const char *name, const char *linkage);
/* Whether a source file is meant: it is the path, or the end of it. */
bool mark_spec_takes_file(const struct mark_spec *spec, const char *path);
