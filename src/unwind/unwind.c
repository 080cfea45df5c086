// SPDX-License-Identifier: BSD-2-Clause
/*
 * Builds unwind tables, searches them, and walks copied stacks with them.
 *
 *	in	the bytes of a module; a copy of registers and of the top of a stack
 *	out	rows by address (wire/unwind.h); the frames of the stack
 *	owner	the load map keeps the table of each module; publisher.c gives it to the kernel
 *
 * Theory of operation: the FDEs of a module are put in the order of their addresses and their
 * programs run one after the other, each appending rows, so that the table comes out sorted. What
 * lies between two FDEs has no rules and gets a row NONE, except where it is known what runs there:
 * at the entry point and in _init and _fini, where page faults make samples common.
 *
 * Invariants:
 * 1. Rows have rising pcs, and no two neighbours say the same.
 * 2. Where FDEs overlap, the one that starts last holds, and of those that start alike the longest:
 *    what a search through .eh_frame_hdr would find.
 * 3. At most 15 bytes that fill up to a 16-byte boundary after a function are padding, not a gap:
 *    nothing runs there, and a row for them would cost two (they keep equal rows of two functions
 *    from merging).
 */
#include "unwind/unwind.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "unwind/ehframe.h"

enum {
	FUNCTION_ALIGN = 16,
	ENTRY_STUB_SIZE = 64,
	ROWS_MAX = 1 << 24, /* 128 MB; the largest programs known have 3 million */
	WORD = 8,
	REGISTER_RBX = 3,
};

static const struct unwind_row row_none = { .kind = UNWIND_NONE };
static const struct unwind_row row_end = { .kind = UNWIND_END };

void unwind_table_deinit(struct unwind_table *table)
{
	if (table->mapped)
		munmap(table->mapped, table->mapped_size);
	else
		free(table->rows);
	*table = (struct unwind_table){};
}

static int fde_compare(const void *left, const void *right)
{
	const struct cfi_fde *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	if (a->program != b->program)
		return a->program < b->program ? -1 : 1;
	return 0;
}

static void fdes_sort(struct ehframe_index *index)
{
	for (size_t i = 1; i < index->fdes.count; i++)
		if (fde_compare(&index->fdes.items[i - 1], &index->fdes.items[i]) > 0) {
			qsort(index->fdes.items, index->fdes.count, sizeof(*index->fdes.items),
			      fde_compare);
			return;
		}
}

static bool gap_is_padding(uint32_t start, uint32_t end)
{
	return start % FUNCTION_ALIGN && end % FUNCTION_ALIGN == 0 && end - start < FUNCTION_ALIGN;
}

/* The entry point's offset, or UINT32_MAX when it lies in no code. */
static uint32_t entry_offset(const struct ehframe *frame, uint32_t *ret_limit)
{
	for (uint32_t i = 0; i < frame->segment_count; i++) {
		const struct ehframe_segment *segment = &frame->segments[i];

		if (frame->entry < segment->start || frame->entry >= segment->end ||
		    segment->end - frame->base > UINT32_MAX)
			continue;
		*ret_limit = (uint32_t)(segment->end - frame->base);
		return (uint32_t)(frame->entry - frame->base);
	}
	return UINT32_MAX;
}

static void stub_add(const struct ehframe_stub *stub, struct unwind_rows *out)
{
	static const struct unwind_row outside = { .kind = UNWIND_SP, .cfa = 1 };
	static const struct unwind_row inside = { .kind = UNWIND_SP, .cfa = 2 };

	unwind_rows_add(out, stub->start, outside);
	unwind_rows_add(out, stub->pushed, inside);
	unwind_rows_add(out, stub->popped, outside);
}

/*
 * Adds rows for a range without rules. Only the entry point is known: it has no caller, and
 * hand-written start code such as the dynamic linker's has no rules although every stack of a
 * starting program ends there.
 */
static void bare_gap_add(const struct ehframe *frame, uint32_t start, uint32_t end,
			 struct unwind_rows *out)
{
	uint32_t limit = 0, entry = entry_offset(frame, &limit);

	if (entry < start || entry >= end) {
		if (start && !gap_is_padding(start, end))
			unwind_rows_add(out, start, row_none);
		return;
	}
	if (start && start < entry)
		unwind_rows_add(out, start, row_none);
	unwind_rows_add(out, entry, row_end);
	if (limit > end)
		limit = end;
	if (limit - entry > ENTRY_STUB_SIZE)
		limit = entry + ENTRY_STUB_SIZE;
	unwind_rows_add(out, limit, row_none);
}

static void gap_add(const struct ehframe *frame, uint32_t start, uint32_t end,
		    struct unwind_rows *out)
{
	for (uint32_t i = 0; i < frame->stub_count; i++) {
		const struct ehframe_stub *stub = &frame->stubs[i];

		if (stub->start < start || stub->end > end)
			continue;
		if (start < stub->start)
			bare_gap_add(frame, start, stub->start, out);
		stub_add(stub, out);
		start = stub->end;
	}
	if (start < end)
		bare_gap_add(frame, start, end, out);
}

static int rows_build(const struct ehframe *frame, const struct ehframe_index *index,
		      struct unwind_rows *out)
{
	uint32_t covered = 0;

	for (size_t i = 0; i < index->fdes.count; i++) {
		const struct cfi_fde *fde = &index->fdes.items[i];
		uint32_t end = fde->end;

		if (i + 1 < index->fdes.count && fde[1].start < end)
			end = fde[1].start;
		if (end == fde->start)
			continue;
		if (covered < fde->start)
			gap_add(frame, covered, fde->start, out);
		cfi_fde_run(frame, &index->cies.items[fde->cie], fde, end, out);
		covered = end;
		if (out->rows.count > ROWS_MAX)
			return err_set(-EFBIG, "unwind table: more than %d rows in one file",
				       ROWS_MAX);
	}
	if (covered)
		gap_add(frame, covered, UINT32_MAX, out);
	return 0;
}

int ehframe_table(const struct ehframe *frame, struct unwind_table *ret)
{
	struct ehframe_index index;
	struct unwind_rows out = {};
	int err;

	ehframe_index_init(frame, &index);
	fdes_sort(&index);
	err = rows_build(frame, &index, &out);
	ehframe_index_deinit(&index);
	if (err) {
		array_deinit(&out.rows);
		return err;
	}
	if (out.rows.count)
		out.rows.items =
			mem_realloc(out.rows.items, out.rows.count, sizeof(*out.rows.items));
	*ret = (struct unwind_table){ .rows = out.rows.items,
				      .count = out.rows.count,
				      .base = frame->base };
	return 0;
}

int unwind_table_build(const void *bytes, size_t size, struct unwind_table *ret)
{
	/*
	 * ELF structures are read in place, and only a page or a heap block is sure to be aligned.
	 */
	AUTO(free_ptr) void *aligned = (uintptr_t)bytes % WORD ? mem_dup(bytes, size) : NULL;
	struct image image = { .bytes = aligned ? aligned : (void *)bytes, .size = size, .fd = -1 };
	struct ehframe frame;
	int err = ehframe_find(&image, &frame);

	return err ? err : ehframe_table(&frame, ret);
}

const struct unwind_row *unwind_table_find(const struct unwind_row *rows, size_t count, uint32_t pc)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rows[middle].pc <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &rows[low - 1] : NULL;
}

/* A walk in progress: the registers of the frame it has come to. */
struct walker {
	const struct unwind_area *areas;
	size_t area_count;
	const struct unwind_memory *memory;
	struct unwind_registers regs; /* rbx: the innermost frame's, always */
	uint64_t rbx_place; /* see unwind_rbx_place() */
	uint64_t *frames;
	size_t count; /* of frames */
	bool exact; /* ip was interrupted, not left by a call: it is looked up as it is */
	bool leaf; /* the innermost frame, which may have no room on the stack left */
};

static const struct unwind_area *area_find(const struct walker *walker)
{
	uint64_t address = walker->regs.ip - !walker->exact;
	size_t low = 0, high = walker->area_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (walker->areas[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address >= walker->areas[low - 1].end)
		return NULL;
	return &walker->areas[low - 1];
}

static bool memory_load(const struct unwind_memory *memory, uint64_t address, uint64_t *ret)
{
	if (address < memory->address || memory->size < WORD ||
	    address - memory->address > memory->size - WORD)
		return false;
	memcpy(ret, memory->bytes + (address - memory->address), WORD);
	return true;
}

static void walker_move(struct walker *walker, uint64_t ip, uint64_t sp, uint64_t bp, bool exact)
{
	walker->regs.ip = ip;
	walker->regs.sp = sp;
	walker->regs.bp = bp;
	walker->exact = exact;
}

/* Each step returns STACK_END_COUNT to go on, or why the walk ends. */
static enum stack_end step_frame_pointer(struct walker *walker)
{
	struct unwind_registers *regs = &walker->regs;
	uint64_t bp, ra;

	if (regs->bp == 0)
		return STACK_END_COMPLETE;
	if (regs->bp % WORD || regs->bp < regs->sp)
		return STACK_END_FRAME_POINTER;
	if (!memory_load(walker->memory, regs->bp + WORD, &ra) ||
	    !memory_load(walker->memory, regs->bp, &bp))
		return STACK_END_DUMP_SHORT;
	walker->rbx_place = UNWIND_RBX_NOWHERE;
	walker_move(walker, ra, regs->bp + 2 * WORD, bp, false);
	return ra ? STACK_END_COUNT : STACK_END_COMPLETE;
}

static enum stack_end step_signal(struct walker *walker)
{
	uint64_t ip, sp, bp, frame = walker->regs.sp;

	walker->frames[walker->count - 1] |= UNWIND_EXACT;
	if (!memory_load(walker->memory, frame + UCONTEXT_RIP, &ip) ||
	    !memory_load(walker->memory, frame + UCONTEXT_RSP, &sp) ||
	    !memory_load(walker->memory, frame + UCONTEXT_RBP, &bp))
		return STACK_END_DUMP_SHORT;
	walker->rbx_place = frame + UCONTEXT_RBX;
	walker_move(walker, ip, sp, bp, true);
	return STACK_END_COUNT;
}

static bool rbx_load(const struct walker *walker, uint64_t *ret)
{
	if (walker->rbx_place)
		return memory_load(walker->memory, walker->rbx_place, ret);
	*ret = walker->regs.rbx;
	return true;
}

/* The cfa of the kinds that have one. False when its word is not in the copy. */
static bool row_cfa(const struct walker *walker, const struct unwind_row *row, uint64_t *ret)
{
	const struct unwind_registers *regs = &walker->regs;
	uint64_t offset = (uint64_t)(row->cfa * WORD);

	switch (row->kind) {
	case UNWIND_SP:
		*ret = regs->sp + offset;
		return true;
	case UNWIND_BP:
		*ret = regs->bp + offset;
		return true;
	case UNWIND_PLT:
		*ret = regs->sp + WORD + ((int)(regs->ip & 15) >= row->cfa ? WORD : 0);
		return true;
	case UNWIND_DRAP:
		return memory_load(walker->memory, regs->bp + (uint64_t)(row->bp * WORD), ret);
	case UNWIND_REG:
		if (!rbx_load(walker, ret))
			return false;
		*ret += offset;
		return true;
	}
	if (!memory_load(walker->memory, regs->sp + (uint64_t)((row->cfa >> 3) * WORD), ret))
		return false;
	*ret += (uint64_t)(row->cfa & 7) * WORD;
	return true;
}

/*
 * Compilers do not say in an epilogue that a register has been popped; the rule still names its
 * place, now below the stack pointer, where a copy has nothing. The register itself has the value
 * again.
 */
static bool popped(const struct walker *walker, uint64_t place)
{
	return walker->leaf && place < walker->regs.sp;
}

/* The caller's bp. */
static bool row_bp(const struct walker *walker, const struct unwind_row *row, uint64_t cfa,
		   uint64_t *ret)
{
	int words = row->kind == UNWIND_REG ? -((uint8_t)row->bp >> 4) : row->bp;
	uint64_t place = cfa + (uint64_t)(words * WORD);

	if (row->kind == UNWIND_DRAP)
		return memory_load(walker->memory, walker->regs.bp, ret);
	if (words && !popped(walker, place))
		return memory_load(walker->memory, place, ret);
	*ret = walker->regs.bp;
	return true;
}

static enum stack_end step_row(struct walker *walker, const struct unwind_row *row)
{
	uint64_t cfa, ra, bp, rbx_place, sp = walker->regs.sp;

	if (!row_cfa(walker, row, &cfa))
		return STACK_END_DUMP_SHORT;
	if (cfa < sp || (cfa == sp && !walker->leaf))
		return STACK_END_BAD_CFA;
	if (!row_bp(walker, row, cfa, &bp) || !memory_load(walker->memory, cfa - WORD, &ra))
		return STACK_END_DUMP_SHORT;
	rbx_place = unwind_rbx_place(walker->rbx_place, row, cfa);
	if (!popped(walker, rbx_place))
		walker->rbx_place = rbx_place;
	walker_move(walker, ra, cfa, bp, false);
	return STACK_END_COUNT;
}

/*
 * Of the registers that may hold a cfa only rbx is known here, unless a place that no row can say
 * holds it.
 */
static enum stack_end step_register(struct walker *walker, const struct unwind_row *row)
{
	if ((row->bp & 15) != REGISTER_RBX || walker->rbx_place == UNWIND_RBX_NOWHERE)
		return STACK_END_HARD_RULE;
	return step_row(walker, row);
}

static enum stack_end step(struct walker *walker, const struct unwind_area *area)
{
	uint64_t pc = walker->regs.ip - !walker->exact - area->bias;
	const struct unwind_row *row = NULL;

	if (pc <= UINT32_MAX)
		row = unwind_table_find(area->rows, area->row_count, (uint32_t)pc);
	if (!row || row->kind == UNWIND_NONE)
		return step_frame_pointer(walker);
	switch (row->kind) {
	case UNWIND_END:
		return STACK_END_COMPLETE;
	case UNWIND_SIGNAL:
		return step_signal(walker);
	case UNWIND_SP:
	case UNWIND_BP:
	case UNWIND_PLT:
	case UNWIND_DRAP:
	case UNWIND_DEREF:
		return step_row(walker, row);
	case UNWIND_REG:
		return step_register(walker, row);
	}
	return STACK_END_HARD_RULE;
}

size_t unwind_walk(const struct unwind_area *areas, size_t area_count,
		   const struct unwind_registers *registers, const struct unwind_memory *memory,
		   uint64_t *ret_frames, size_t max, enum stack_end *ret_end)
{
	struct walker walker = { .areas = areas,
				 .area_count = area_count,
				 .memory = memory,
				 .regs = *registers,
				 .frames = ret_frames,
				 .exact = true,
				 .leaf = true };
	enum stack_end end = STACK_END_COUNT;

	while (end == STACK_END_COUNT) {
		const struct unwind_area *area = area_find(&walker);

		if (!walker.exact && walker.regs.ip == 0)
			end = STACK_END_COMPLETE;
		else if (!walker.exact && !area)
			end = STACK_END_NO_MAPPING;
		else if (walker.count == max)
			end = STACK_END_TOO_DEEP;
		else
			walker.frames[walker.count++] = walker.regs.ip |
							(walker.exact ? UNWIND_EXACT : 0);
		if (end == STACK_END_COUNT)
			end = area ? step(&walker, area) : STACK_END_NO_MAPPING;
		walker.leaf = false;
	}
	*ret_end = end;
	return walker.count;
}
