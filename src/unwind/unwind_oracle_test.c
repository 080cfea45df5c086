// SPDX-License-Identifier: BSD-2-Clause
// Serves: V1.
/*
 * Unwind tables against elfutils: at the start, the middle and the end of every row of either side,
 * in files that Debian built, random registers and a random stack must give the same caller both
 * ways. Prints what the tables cost and cannot express.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <dwarf.h>
#include <elfutils/libdw.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "unwind/unwind.h"

enum { REGISTERS = 17, RBX = 3, RBP = 6, RSP = 7, RIP = 16, STACK_MAX = 32 };

/* A machine state for both sides: registers at random, memory a function of the address. */
struct machine {
	uint64_t regs[REGISTERS];
};

static struct machine machine_at(uint64_t pc)
{
	struct machine machine;

	for (int i = 0; i < REGISTERS; i++)
		machine.regs[i] = hash64_pair(pc, (uint64_t)i) & ~UINT64_C(7);
	machine.regs[RIP] = pc;
	return machine;
}

static uint64_t memory_at(uint64_t address)
{
	return hash64_pair(address, 0x5eed);
}

/*
 * What becomes of a register: known, or left undefined, or beyond this test's expression machine.
 */
enum outcome { KNOWN, UNDEFINED, BEYOND };

struct caller {
	uint64_t cfa, ip, sp, bp, rbx;
	bool ended, signal, beyond, rbx_lost;
};

struct stack {
	uint64_t items[STACK_MAX];
	int depth;
};

static void push(struct stack *stack, uint64_t value)
{
	assert_true(stack->depth < STACK_MAX);
	stack->items[stack->depth++] = value;
}

static uint64_t pop(struct stack *stack)
{
	assert_true(stack->depth > 0);
	return stack->items[--stack->depth];
}

static bool binary_run(struct stack *stack, uint8_t atom)
{
	uint64_t b = pop(stack), a = pop(stack);

	switch (atom) {
	case DW_OP_plus:
		push(stack, a + b);
		return true;
	case DW_OP_mul:
		push(stack, a * b);
		return true;
	case DW_OP_and:
		push(stack, a & b);
		return true;
	case DW_OP_shl:
		push(stack, a << b);
		return true;
	case DW_OP_ge:
		push(stack, (int64_t)a >= (int64_t)b);
		return true;
	}
	return false;
}

static bool op_run(struct stack *stack, const Dwarf_Op *op, const struct machine *machine,
		   uint64_t cfa)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg16)
		return push(stack, machine->regs[op->atom - DW_OP_breg0] + op->number), true;
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(stack, op->atom - DW_OP_lit0), true;
	switch (op->atom) {
	case DW_OP_bregx:
		assert_true(op->number < REGISTERS);
		push(stack, machine->regs[op->number] + op->number2);
		return true;
	case DW_OP_call_frame_cfa:
		push(stack, cfa);
		return true;
	case DW_OP_plus_uconst:
		push(stack, pop(stack) + op->number);
		return true;
	case DW_OP_deref:
		push(stack, memory_at(pop(stack)));
		return true;
	case DW_OP_plus:
	case DW_OP_mul:
	case DW_OP_and:
	case DW_OP_shl:
	case DW_OP_ge:
		return binary_run(stack, op->atom);
	}
	return false;
}

static enum outcome ops_run(const Dwarf_Op *ops, size_t count, const struct machine *machine,
			    uint64_t cfa, uint64_t *ret)
{
	struct stack stack = {};

	for (size_t i = 0; i < count; i++)
		if (!op_run(&stack, &ops[i], machine, cfa))
			return BEYOND;
	*ret = pop(&stack);
	return KNOWN;
}

static enum outcome register_run(Dwarf_Frame *frame, int reg, const struct machine *machine,
				 uint64_t cfa, uint64_t *ret)
{
	Dwarf_Op memory[3], *ops;
	size_t count;
	enum outcome outcome;

	assert_int_equal(dwarf_frame_register(frame, reg, memory, &ops, &count), 0);
	if (count == 0 && ops == memory)
		return UNDEFINED;
	if (count == 0) {
		*ret = machine->regs[reg];
		return KNOWN;
	}
	if (count == 1 && ops[0].atom == DW_OP_regx && ops[0].number < REGISTERS) {
		*ret = machine->regs[ops[0].number];
		return KNOWN;
	}
	if (ops[count - 1].atom == DW_OP_stack_value)
		return ops_run(ops, count - 1, machine, cfa, ret);
	outcome = ops_run(ops, count, machine, cfa, ret);
	*ret = memory_at(*ret);
	return outcome;
}

/*
 * An rbx without a rule is unchanged, the ABI says. elfutils (0.188: backends/x86_64_cfi.c) means
 * to say so and gives the number of rax.
 */
static enum outcome rbx_run(Dwarf_Frame *frame, const struct machine *machine, uint64_t cfa,
			    uint64_t *ret)
{
	enum outcome outcome = register_run(frame, RBX, machine, cfa, ret);

	if (outcome != UNDEFINED)
		return outcome;
	*ret = machine->regs[RBX];
	return KNOWN;
}

/* The caller as elfutils has it. */
static struct caller oracle_run(Dwarf_Frame *frame, const struct machine *machine)
{
	struct caller caller = {};
	int ra = dwarf_frame_info(frame, NULL, NULL, &caller.signal);
	Dwarf_Op *ops;
	size_t count;
	enum outcome ip, sp, bp;

	if (register_run(frame, ra, machine, 0, &caller.ip) == UNDEFINED) {
		caller.ended = true;
		return caller;
	}
	if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0 ||
	    ops_run(ops, count, machine, 0, &caller.cfa) != KNOWN) {
		caller.beyond = true;
		return caller;
	}
	ip = register_run(frame, ra, machine, caller.cfa, &caller.ip);
	sp = register_run(frame, RSP, machine, caller.cfa, &caller.sp);
	bp = register_run(frame, RBP, machine, caller.cfa, &caller.bp);
	caller.beyond = ip != KNOWN || sp != KNOWN || bp != KNOWN;
	caller.rbx_lost = rbx_run(frame, machine, caller.cfa, &caller.rbx) != KNOWN;
	return caller;
}

/* The caller as wire/unwind.h explains the row. */
static struct caller row_run(const struct unwind_row *row, const struct machine *machine)
{
	uint64_t sp = machine->regs[RSP], bp = machine->regs[RBP];
	int64_t offset = (int64_t)row->cfa * 8;
	struct caller caller = { .bp = bp, .rbx = machine->regs[RBX] };
	int saved = row->bp;

	switch (row->kind) {
	case UNWIND_END:
		return (struct caller){ .ended = true };
	case UNWIND_SIGNAL:
		return (struct caller){ .signal = true,
					.cfa = memory_at(sp + UCONTEXT_RSP),
					.sp = memory_at(sp + UCONTEXT_RSP),
					.ip = memory_at(sp + UCONTEXT_RIP),
					.bp = memory_at(sp + UCONTEXT_RBP),
					.rbx = memory_at(sp + UCONTEXT_RBX) };
	case UNWIND_SP:
		caller.cfa = sp + offset;
		break;
	case UNWIND_BP:
		caller.cfa = bp + offset;
		break;
	case UNWIND_PLT:
		caller.cfa = sp + 8 + ((int)(machine->regs[RIP] & 15) >= row->cfa ? 8 : 0);
		break;
	case UNWIND_DRAP:
		caller.cfa = memory_at(bp + (int64_t)row->bp * 8);
		caller.bp = memory_at(bp);
		saved = 0;
		break;
	case UNWIND_REG:
		caller.cfa = machine->regs[row->bp & 15] + offset;
		saved = -((uint8_t)row->bp >> 4);
		break;
	case UNWIND_LINK:
		caller.cfa = sp + offset;
		saved = -((uint8_t)row->bp >> 4);
		break;
	case UNWIND_DEREF:
		caller.cfa = memory_at(sp + (int64_t)(row->cfa >> 3) * 8) + (row->cfa & 7) * 8;
		break;
	}
	if (saved)
		caller.bp = memory_at(caller.cfa + (int64_t)saved * 8);
	if (row->rbx)
		caller.rbx = memory_at(caller.cfa - row->rbx * 8u);
	caller.rbx_lost = row->rbx == UNWIND_RBX_LOST;
	caller.sp = caller.cfa;
	caller.ip = row->kind == UNWIND_LINK ? machine->regs[row->bp & 15]
					     : memory_at(caller.cfa - 8);
	return caller;
}

#define HARD_REASONS(X)                                                                            \
	X(SIGNAL, "signal frame of another shape")                                                 \
	X(CFA_EXPRESSION, "cfa by another expression")                                             \
	X(CFA_REGISTER_BP, "cfa in a scratch register and bp saved far off")                       \
	X(CFA_RANGE, "cfa offset out of range")                                                    \
	X(RA, "return address not at cfa - 8")                                                     \
	X(SP, "sp is not the cfa")                                                                 \
	X(BP, "bp by expression, in a register, or far off")

enum hard_reason {
#define X(name, text) HARD_##name,
	HARD_REASONS(X)
#undef X
		HARD_REASON_COUNT
};

static const char *const hard_reason_text[] = {
#define X(name, text) text,
	HARD_REASONS(X)
#undef X
};

static bool ra_in_register(const struct machine *machine, uint64_t ra)
{
	for (int i = 0; i < RIP; i++)
		if (machine->regs[i] == ra)
			return true;
	return false;
}

/*
 * Why the row of this frame could only be HARD, from elfutils' view. HARD_REASON_COUNT: no reason
 * seen.
 */
static enum hard_reason hard_reason(Dwarf_Frame *frame, uint64_t pc)
{
	struct machine machine = machine_at(pc);
	struct caller caller = oracle_run(frame, &machine);
	Dwarf_Op memory[3], *ops, *bp;
	size_t count, bp_count;

	if (caller.signal)
		return HARD_SIGNAL;
	if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0)
		return HARD_CFA_EXPRESSION;
	dwarf_frame_register(frame, RBP, memory, &bp, &bp_count);
	if (caller.beyond && register_run(frame, RBP, &machine, 0, &caller.bp) == BEYOND)
		return HARD_BP;
	if (caller.beyond && register_run(frame, RSP, &machine, 0, &caller.sp) == BEYOND)
		return HARD_SP;
	if (caller.beyond)
		return HARD_RA;
	if (caller.sp != caller.cfa)
		return HARD_SP;
	if (caller.ip != memory_at(caller.cfa - 8))
		return ra_in_register(&machine, caller.ip) && ops[0].atom == DW_OP_bregx &&
				       ops[0].number == RSP && !bp_count
			       ? HARD_REASON_COUNT
			       : HARD_RA;
	if (ops[0].atom != DW_OP_bregx || count > 1)
		return HARD_CFA_EXPRESSION;
	if (ops[0].number != RSP && ops[0].number != RBP && bp_count)
		return HARD_CFA_REGISTER_BP;
	if ((int64_t)ops[0].number2 % 8 || (int64_t)ops[0].number2 > 32767 * 8)
		return HARD_CFA_RANGE;
	return bp_count ? HARD_BP : HARD_REASON_COUNT;
}

struct report {
	size_t points, mismatches, lost;
	uint64_t covered, hard; /* bytes of code */
	uint64_t reasons[HARD_REASON_COUNT];
};

/* A row may lose rbx where it is not one of the 14 words below the return address's slot. */
static bool rbx_right(const struct caller *expected, const struct caller *got)
{
	if (!got->rbx_lost)
		return !expected->rbx_lost && expected->rbx == got->rbx;
	for (uint64_t i = 1; i < UNWIND_RBX_LOST && !expected->rbx_lost; i++)
		if (expected->rbx == memory_at(expected->cfa - i * 8))
			return false;
	return true;
}

static bool caller_right(const struct caller *expected, const struct caller *got)
{
	if (expected->ended || got->ended)
		return expected->ended == got->ended;
	return !expected->beyond && !got->beyond && expected->signal == got->signal &&
	       expected->cfa == got->cfa && expected->ip == got->ip && expected->sp == got->sp &&
	       expected->bp == got->bp && rbx_right(expected, got);
}

static const Elf64_Shdr *section_find(Elf *elf, const char *name)
{
	Elf_Scn *section = NULL;
	size_t strings;

	elf_getshdrstrndx(elf, &strings);
	while ((section = elf_nextscn(elf, section))) {
		Elf64_Shdr *header = elf64_getshdr(section);

		if (strcmp(elf_strptr(elf, strings, header->sh_name), name) == 0)
			return header;
	}
	return NULL;
}

static bool section_holds(Elf *elf, const char *name, uint64_t pc)
{
	const Elf64_Shdr *header = section_find(elf, name);

	return header && pc >= header->sh_addr && pc - header->sh_addr < header->sh_size;
}

/*
 * Where elfutils has nothing, so may we have: nothing, the entry point's end, or padding after a
 * function. _init and _fini always have a row; unwind_live_test.c sees whether it is right.
 */
static bool uncovered_right(Elf *elf, const struct unwind_row *row, uint64_t pc)
{
	uint64_t entry = elf64_getehdr(elf)->e_entry;

	if (section_holds(elf, ".init", pc) || section_holds(elf, ".fini", pc))
		return row && row->kind == UNWIND_SP;
	return !row || row->kind == UNWIND_NONE ||
	       (row->kind == UNWIND_END && pc >= entry && pc - entry < 64) || pc % 16;
}

static void point_check(Dwarf_Frame *frame, const struct unwind_row *row, uint64_t pc,
			struct report *report)
{
	struct machine machine = machine_at(pc);
	struct caller expected = oracle_run(frame, &machine), got;

	report->points++;
	if (row && row->kind == UNWIND_HARD)
		return;
	if (row && row->kind != UNWIND_NONE) {
		got = row_run(row, &machine);
		report->lost += got.rbx_lost;
		if (caller_right(&expected, &got))
			return;
	}
	if (report->mismatches++ < 10)
		print_message("  %#" PRIx64 ": kind %d bp %d cfa %d\n", pc, row ? row->kind : -1,
			      row ? row->bp : 0, row ? row->cfa : 0);
}

/* One stretch of code in which neither side has a boundary. */
static void stretch_check(Dwarf_CFI *cfi, const struct unwind_row *row, uint64_t pc, uint64_t end,
			  struct report *report)
{
	const uint64_t points[] = { pc, pc + (end - pc) / 2, end - 1 };
	Dwarf_Frame *frame;

	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		assert_int_equal(dwarf_cfi_addrframe(cfi, points[i], &frame), 0);
		point_check(frame, row, points[i], report);
		if (i == 0)
			report->covered += end - pc;
		if (i == 0 && row && row->kind == UNWIND_HARD) {
			enum hard_reason reason = hard_reason(frame, pc);

			report->hard += end - pc;
			if (reason == HARD_REASON_COUNT && report->mismatches++ < 10)
				print_message("  %#" PRIx64 ": HARD without need\n", pc);
			else
				report->reasons[reason] += end - pc;
		}
		free(frame);
	}
}

static void segment_check(Elf *elf, Dwarf_CFI *cfi, const struct unwind_table *table,
			  const Elf64_Phdr *segment, struct report *report)
{
	uint64_t pc = segment->p_vaddr, limit = segment->p_vaddr + segment->p_memsz;

	while (pc < limit) {
		const struct unwind_row *row =
			unwind_table_find(table->rows, table->count, (uint32_t)(pc - table->base));
		const struct unwind_row *next = row ? row + 1 : table->rows;
		Dwarf_Addr start, end = pc + 1;
		Dwarf_Frame *frame;

		if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0) {
			if (table->count && !uncovered_right(elf, row, pc) &&
			    report->mismatches++ < 10)
				print_message("  %#" PRIx64 ": a row where there is no FDE\n", pc);
			pc++;
			continue;
		}
		dwarf_frame_info(frame, &start, &end, NULL);
		free(frame);
		if (next < table->rows + table->count && next->pc + table->base < end)
			end = next->pc + table->base;
		stretch_check(cfi, row, pc, end, report);
		pc = end;
	}
}

static double build_time(const void *image, size_t size)
{
	enum { RUNS = 5 };
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < RUNS; i++) {
		struct unwind_table table;
		uint64_t start = clock_monotonic(), took;

		assert_int_equal(unwind_table_build(image, size, &table), 0);
		took = clock_monotonic() - start;
		best = took < best ? took : best;
		unwind_table_deinit(&table);
	}
	return (double)best / NS_PER_MS;
}

static void report_print(const char *name, Elf *elf, const struct unwind_table *table, double ms,
			 const struct report *report)
{
	const Elf64_Shdr *frame = section_find(elf, ".eh_frame");

	print_message("%-24s eh_frame %7zu  rows %6zu (%7zu bytes)  build %6.2f ms  points %7zu  "
		      "rbx lost at %4zu  hard %.4f %% of %" PRIu64 " code bytes\n",
		      name, frame ? frame->sh_size : 0, table->count,
		      table->count * sizeof(struct unwind_row), ms, report->points, report->lost,
		      report->covered ? 100.0 * (double)report->hard / (double)report->covered
				      : 0.0,
		      report->covered);
	for (int i = 0; i < HARD_REASON_COUNT; i++)
		if (report->reasons[i])
			print_message("    %8" PRIu64 " bytes: %s\n", report->reasons[i],
				      hard_reason_text[i]);
}

/*
 * Linkers write rules for the stubs they make; that they are right is checked where all rules are.
 */
static void stubs_check(Elf *elf, const struct unwind_table *table)
{
	static const char *const names[] = { ".plt", ".plt.got", ".plt.sec" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const Elf64_Shdr *section = section_find(elf, names[i]);

		for (uint64_t at = 0; section && at < section->sh_size; at++) {
			const struct unwind_row *row =
				unwind_table_find(table->rows, table->count,
						  (uint32_t)(section->sh_addr + at - table->base));

			assert_true(row && (row->kind == UNWIND_SP || row->kind == UNWIND_PLT));
		}
	}
}

static void image_check(const char *name, char *image, size_t size, double hard_max)
{
	Elf *elf = elf_memory(image, size);
	Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
	const Elf64_Ehdr *header = (const void *)image;
	const Elf64_Phdr *segments = (const void *)(image + header->e_phoff);
	struct unwind_table table;
	struct report report = {};

	if (!cfi && hard_max >= 1) {
		print_message("%s: no call frame information\n", name);
		elf_end(elf);
		return;
	}
	assert_non_null(cfi);
	assert_int_equal(unwind_table_build(image, size, &table), 0);
	for (int i = 0; i < header->e_phnum; i++)
		if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_X))
			segment_check(elf, cfi, &table, &segments[i], &report);
	report_print(name, elf, &table, build_time(image, size), &report);
	if (hard_max < 1)
		stubs_check(elf, &table);
	assert_int_equal(report.mismatches, 0);
	assert_int_equal(report.covered > 0, table.count > 0);
	assert_true((double)report.hard <= hard_max * (double)report.covered);
	unwind_table_deinit(&table);
	dwarf_cfi_end(cfi);
	elf_end(elf);
}

static void file_check(const char *path, double hard_max)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	const char *name = strrchr(path, '/') + 1;
	struct stat info;
	char *image;

	if (fd < 0) {
		print_message("%s: not on this machine\n", path);
		return;
	}
	assert_int_equal(fstat(fd, &info), 0);
	image = mmap(NULL, (size_t)info.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(image, MAP_FAILED);
	image_check(name, image, (size_t)info.st_size, hard_max);
	munmap(image, (size_t)info.st_size);
}

/* Share of code that may be HARD: hardly any where a compiler wrote it, some where people did. */
#define COMPILED 0.001
#define CRYPTOGRAPHY 0.01

static void files_agree_with_elfutils(void **state)
{
	static const struct {
		const char *path;
		double hard_max;
	} files[] = {
		{ "/lib/x86_64-linux-gnu/libc.so.6", COMPILED },
		{ "/lib64/ld-linux-x86-64.so.2", COMPILED },
		{ "/lib/x86_64-linux-gnu/libm.so.6", COMPILED },
		{ "/lib/x86_64-linux-gnu/liblzma.so.5", COMPILED },
		{ "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", COMPILED },
		{ "/usr/lib/x86_64-linux-gnu/libdw.so.1", COMPILED },
		{ "/usr/bin/python3.11", COMPILED },
		{ "/usr/bin/povray", COMPILED },
		{ "/proc/self/exe", COMPILED },
		{ "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", CRYPTOGRAPHY },
		{ "/usr/lib/x86_64-linux-gnu/libgcrypt.so.20", CRYPTOGRAPHY },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		file_check(files[i].path, files[i].hard_max);
}

static void vdso_agrees_with_elfutils(void **state)
{
	char *image = (char *)getauxval(AT_SYSINFO_EHDR);
	const Elf64_Ehdr *header = (const void *)image;

	if (!image)
		skip();
	image_check("vdso", image, header->e_shoff + (size_t)header->e_shnum * header->e_shentsize,
		    COMPILED);
}

/* Files named on the command line are compared too, whatever share is HARD. */
static char **more_files;

static void named_files_agree_with_elfutils(void **state)
{
	for (char **file = more_files; *file; file++)
		file_check(*file, 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_agree_with_elfutils),
		cmocka_unit_test(vdso_agrees_with_elfutils),
		cmocka_unit_test(named_files_agree_with_elfutils),
	};

	more_files = argv + 1;
	elf_version(EV_CURRENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
