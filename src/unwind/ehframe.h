/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading .eh_frame, for unwind.c only: where it lies in an ELF image (ehframe.c), its CIEs and
 * FDEs (ehframe.c), and the rows that the program of an FDE comes down to (cfi.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "unwind/unwind.h"

/* An ELF file's bytes: all of them in memory, or read into place as they are asked for. */
struct image {
	uint8_t *bytes;
	size_t size;
	int fd; /* -1: all bytes are in memory; otherwise image_at() reads them from here */
};

/* The bytes of [offset, offset + size), or NULL when the image does not have them. */
const void *image_at(const struct image *image, uint64_t offset, uint64_t size);

enum { EHFRAME_SEGMENTS_MAX = 16 };

struct ehframe_segment {
	uint64_t start, end;
};

/*
 * A function of crti.o, which has no rules: the parts before, between and after moving the stack
 * pointer by a word.
 */
struct ehframe_stub {
	uint32_t start, pushed, popped, end; /* offsets from base */
};

enum { EHFRAME_STUBS_MAX = 2 };

/* What an image says about its code. Addresses are the file's own (p_vaddr). */
struct ehframe {
	const uint8_t *bytes;
	size_t size; /* 0: there is no .eh_frame */
	uint64_t address; /* of bytes[0] */
	uint64_t base; /* lowest PT_LOAD, page-aligned down */
	uint64_t entry;
	bool open_ended; /* found without a section header: a terminator marks the end, not size */
	uint32_t segment_count;
	struct ehframe_segment segments[EHFRAME_SEGMENTS_MAX]; /* executable ones */
	uint32_t stub_count;
	struct ehframe_stub stubs[EHFRAME_STUBS_MAX]; /* by start */
};

/* -ENOEXEC for an image that is not x86-64 ELF; one without .eh_frame is fine. */
int ehframe_find(const struct image *image, struct ehframe *ret);

/* Distinguishes frames whose tables would differ. */
uint64_t ehframe_digest(const struct ehframe *frame);

enum cfi_rule_kind {
	CFI_UNSET, /* as the ABI has it: rsp is the cfa, rbp is unchanged */
	CFI_SAME,
	CFI_UNDEFINED,
	CFI_OFFSET, /* saved at cfa + value */
	CFI_VAL_OFFSET, /* is cfa + value */
	CFI_REGISTER, /* is in reg; for the cfa: is reg + value */
	/* saved at what size bytes at value of the section compute; for the cfa: is it */
	CFI_EXPRESSION,
	CFI_VAL_EXPRESSION,
};

struct cfi_rule {
	int64_t value;
	uint32_t size;
	uint16_t reg;
	uint8_t kind; /* enum cfi_rule_kind */
};

enum cfi_slot { CFI_CFA, CFI_BX, CFI_BP, CFI_SP, CFI_RA, CFI_SLOT_COUNT };

/*
 * The rules of the registers that decide how to go on to the caller; the others are not followed.
 */
struct cfi_state {
	struct cfi_rule slots[CFI_SLOT_COUNT];
};

struct cfi_cie {
	uint64_t code_align;
	int64_t data_align;
	uint16_t ra_column;
	uint8_t encoding; /* DW_EH_PE_ of its FDEs' addresses */
	bool augmented; /* FDEs carry augmentation data */
	bool signal;
	bool readable; /* initial is valid; otherwise its FDEs are HARD */
	struct cfi_state initial;
};

struct cfi_fde {
	uint32_t start, end; /* pc range, offsets from base */
	uint32_t program, program_end; /* offsets in the section */
	uint32_t cie; /* index */
};

struct ehframe_index {
	ARRAY(struct cfi_cie) cies;
	ARRAY(struct cfi_fde)
	fdes; /* in the order of the section, all inside executable segments */
};

void ehframe_index_deinit(struct ehframe_index *index);
/* Stops at what cannot be read, keeping what came before. */
void ehframe_index_init(const struct ehframe *frame, struct ehframe_index *index);

struct unwind_rows {
	ARRAY(struct unwind_row) rows;
};

/*
 * Appends a row, rule.pc aside; pcs never fall. Equal neighbours merge, the later of one pc stays.
 */
static inline void unwind_rows_add(struct unwind_rows *out, uint32_t pc, struct unwind_row rule)
{
	if (out->rows.count && out->rows.items[out->rows.count - 1].pc == pc)
		out->rows.count--;
	if (out->rows.count) {
		const struct unwind_row *last = &out->rows.items[out->rows.count - 1];

		if (last->kind == rule.kind && last->rbx == rule.rbx && last->bp == rule.bp &&
		    last->cfa == rule.cfa)
			return;
	}
	rule.pc = pc;
	*array_push(&out->rows) = rule;
}

/* Runs a CIE's program, [program, program_end) of the section, into its initial state. */
bool cfi_cie_run(const struct ehframe *frame, struct cfi_cie *cie, uint32_t program,
		 uint32_t program_end);

/* The rows of an FDE up to end, which is at most its own end. */
void cfi_fde_run(const struct ehframe *frame, const struct cfi_cie *cie, const struct cfi_fde *fde,
		 uint32_t end, struct unwind_rows *out);

/* The table of a frame; rows on the heap. */
int ehframe_table(const struct ehframe *frame, struct unwind_table *ret);

/* Reading forward through the section. After a read past the end, bad is set and reads give 0. */
struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static inline struct cursor cursor_of(const struct ehframe *frame, uint64_t start, uint64_t end)
{
	return (struct cursor){ .at = frame->bytes + start, .end = frame->bytes + end };
}

static inline size_t cursor_left(const struct cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

/* size bytes, little-endian, or 0. */
static inline uint64_t cursor_fixed(struct cursor *cursor, size_t size)
{
	uint64_t value = 0;

	if (cursor_left(cursor) < size) {
		cursor->bad = true;
		cursor->at = cursor->end;
		return 0;
	}
	memcpy(&value, cursor->at, size);
	cursor->at += size;
	return value;
}

static inline uint8_t cursor_u8(struct cursor *cursor)
{
	return (uint8_t)cursor_fixed(cursor, 1);
}

static inline void cursor_skip(struct cursor *cursor, uint64_t size)
{
	if (cursor_left(cursor) < size) {
		cursor->bad = true;
		cursor->at = cursor->end;
		return;
	}
	cursor->at += size;
}

uint64_t cursor_uleb_long(struct cursor *cursor);

static inline uint64_t cursor_uleb(struct cursor *cursor)
{
	if (cursor->at < cursor->end && *cursor->at < 0x80)
		return *cursor->at++;
	return cursor_uleb_long(cursor);
}

int64_t cursor_sleb(struct cursor *cursor);

/* An address in a DW_EH_PE_ encoding; bad when the encoding needs what a file does not hold. */
uint64_t cursor_pointer(struct cursor *cursor, const struct ehframe *frame, uint8_t encoding);
