/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unwinding on the host: tables from .eh_frame, their cache, and a walker over copied stack memory
 * that follows the same rows as the BPF sampler does in the kernel. See wire/unwind.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buildid.h"
#include "base/cleanup.h"
#include "wire/unwind.h"

struct unwind_table {
	struct unwind_row *rows; /* sorted by pc, no two alike next to each other */
	size_t count;
	uint64_t base; /* lowest PT_LOAD p_vaddr, page-aligned down: row.pc = p_vaddr - base */
	void *mapped; /* cache file mapping, or NULL when rows is on the heap */
	size_t mapped_size;
};

void unwind_table_deinit(struct unwind_table *table);

/*
 * Builds the table of an ELF image (the file's bytes, or the vdso's). An image without .eh_frame
 * gives an empty table. Hostile input gives an error or fewer rows, never a crash or a runaway.
 */
int unwind_table_build(const void *image, size_t size, struct unwind_table *ret);

/*
 * The table of a file: from the cache directory when it is there by build-id, built and cached
 * otherwise. cache_dir NULL: no cache. A cache file is checked before use and replaced atomically.
 */
int unwind_table_load(int fd, const struct build_id *id, const char *cache_dir,
		      struct unwind_table *ret);

/*
 * $ASSAY_CACHE_DIR, $XDG_CACHE_HOME/assay, ~/.cache/assay or /var/cache/assay; created if missing.
 * NULL: none.
 */
const char *unwind_cache_dir(void);

/* The row that holds for pc (an offset from base), or NULL below the first. */
const struct unwind_row *unwind_table_find(const struct unwind_row *rows, size_t count,
					   uint32_t pc);

struct unwind_registers {
	uint64_t ip, sp, bp, rbx;
};

/* A copy of the stack, from address on. */
struct unwind_memory {
	uint64_t address;
	const uint8_t *bytes;
	size_t size;
};

/* A process's executable mappings, sorted; rows by pointer instead of by place in a map. */
struct unwind_area {
	uint64_t start, end;
	uint64_t bias;
	const struct unwind_row *rows;
	size_t row_count;
};

/*
 * Walks from the registers. Frames innermost first into ret_frames (max of them): frame 0 is ip
 * itself, the others are return addresses, except that those with UNWIND_EXACT (frame 0, a signal's
 * trampoline and what the signal interrupted) are addresses as they are. A return address outside
 * every area ends the walk and is no frame. Returns the number of frames, why it ended in *ret_end.
 */
size_t unwind_walk(const struct unwind_area *areas, size_t area_count,
		   const struct unwind_registers *registers, const struct unwind_memory *memory,
		   uint64_t *ret_frames, size_t max, enum stack_end *ret_end);
