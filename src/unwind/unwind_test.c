// SPDX-License-Identifier: BSD-2-Clause
// Serves: V1.
/*
 * Tables from call frame programs written here by hand (the rare instructions and encodings, gaps,
 * overlaps), and hostile images. What compilers emit is tested against elfutils.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "unwind/unwind.h"

enum {
	IMAGE_MAX = 4096,
	FRAME_OFFSET = 1024,
	CODE = 0x401000, /* address of the only segment, page-aligned: row pcs are relative to it */
	CODE_SIZE = 0x10000,
	FRAME_ADDRESS = CODE + FRAME_OFFSET,
	RIP = 16,
	STUB_MAX = 64,
	INIT_OFFSET = IMAGE_MAX - 2 * STUB_MAX,
	FINI_OFFSET = IMAGE_MAX - STUB_MAX,
};

/* DWARF instructions that are spelled with their operands. */
#define ADVANCE(n) (0x40 | (n))
#define OFFSET(reg, words) (0x80 | (reg)), (words)
#define RESTORE(reg) (0xc0 | (reg))
#define DEF_CFA(reg, offset) 0x0c, (reg), (offset)
#define DEF_CFA_REGISTER(reg) 0x0d, (reg)
#define DEF_CFA_OFFSET(offset) 0x0e, (offset)
#define REMEMBER 0x0a
#define RESTORE_STATE 0x0b

#define BYTES(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

/* What every compiled CIE starts with: cfa = rsp + 8, return address at cfa - 8. */
#define USUAL BYTES(DEF_CFA(7, 8), OFFSET(RIP, 1))

/* A section of code; none when empty. */
struct stub {
	uint32_t start; /* offset in the code */
	uint8_t code[STUB_MAX];
	size_t size;
};

struct elf {
	_Alignas(8) uint8_t bytes[IMAGE_MAX];
	size_t frame_size;
	size_t cie; /* offset of the last one in the section */
	uint64_t entry;
	struct stub init, fini;
};

static void put(struct elf *elf, const void *data, size_t size)
{
	assert_true(FRAME_OFFSET + elf->frame_size + size < INIT_OFFSET);
	memcpy(elf->bytes + FRAME_OFFSET + elf->frame_size, data, size);
	elf->frame_size += size;
}

static void put_number(struct elf *elf, uint64_t value, size_t size)
{
	put(elf, &value, size);
}

static void length_patch(struct elf *elf, size_t at)
{
	uint32_t length = (uint32_t)(elf->frame_size - at - 4);

	memcpy(elf->bytes + FRAME_OFFSET + at, &length, 4);
}

/* data: the augmentation's, after its length. */
static void cie_put(struct elf *elf, const char *augmentation, const uint8_t *data,
		    size_t data_size, const uint8_t *program, size_t program_size)
{
	elf->cie = elf->frame_size;
	put_number(elf, 0, 4);
	put_number(elf, 0, 4);
	put_number(elf, 1, 1);
	put(elf, augmentation, strlen(augmentation) + 1);
	put(elf, BYTES(1, 0x78, RIP)); /* code alignment 1, data alignment -8 */
	if (augmentation[0] == 'z') {
		put_number(elf, data_size, 1);
		put(elf, data, data_size);
	}
	put(elf, program, program_size);
	length_patch(elf, elf->cie);
}

/* An FDE of the last CIE, with addresses as udata4. start is an offset in the code. */
static void fde_put(struct elf *elf, uint32_t start, uint32_t size, const uint8_t *program,
		    size_t program_size)
{
	size_t at = elf->frame_size;

	put_number(elf, 0, 4);
	put_number(elf, elf->frame_size - elf->cie, 4);
	put_number(elf, CODE + start, 4);
	put_number(elf, size, 4);
	put_number(elf, 0, 1);
	put(elf, program, program_size);
	length_patch(elf, at);
}

static void elf_init(struct elf *elf)
{
	*elf = (struct elf){};
	cie_put(elf, "zR", BYTES(0x03), USUAL);
}

static Elf64_Shdr stub_finish(struct elf *elf, const struct stub *stub, uint32_t name,
			      uint32_t offset)
{
	if (!stub->size)
		return (Elf64_Shdr){};
	memcpy(elf->bytes + offset, stub->code, stub->size);
	return (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
			     .sh_name = name,
			     .sh_addr = CODE + stub->start,
			     .sh_offset = offset,
			     .sh_size = stub->size };
}

static void elf_finish(struct elf *elf)
{
	static const char names[] = "\0.eh_frame\0.init\0.fini";
	Elf64_Ehdr header = { .e_type = ET_DYN,
			      .e_machine = EM_X86_64,
			      .e_entry = elf->entry,
			      .e_phoff = sizeof(header),
			      .e_phentsize = sizeof(Elf64_Phdr),
			      .e_phnum = 1,
			      .e_shoff = 256,
			      .e_shentsize = sizeof(Elf64_Shdr),
			      .e_shnum = 5,
			      .e_shstrndx = 1 };
	Elf64_Phdr segment = { .p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_vaddr = CODE,
			       .p_filesz = IMAGE_MAX,
			       .p_memsz = CODE_SIZE };
	Elf64_Shdr sections[5] = {
		{},
		{ .sh_type = SHT_STRTAB, .sh_offset = 768, .sh_size = sizeof(names) },
		{ .sh_type = SHT_PROGBITS,
		  .sh_name = 1,
		  .sh_addr = FRAME_ADDRESS,
		  .sh_offset = FRAME_OFFSET,
		  .sh_size = elf->frame_size },
		stub_finish(elf, &elf->init, 11, INIT_OFFSET),
		stub_finish(elf, &elf->fini, 17, FINI_OFFSET),
	};

	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	memcpy(elf->bytes, &header, sizeof(header));
	memcpy(elf->bytes + sizeof(header), &segment, sizeof(segment));
	memcpy(elf->bytes + 256, sections, sizeof(sections));
	memcpy(elf->bytes + 768, names, sizeof(names));
}

static void rows_expect(struct elf *elf, const struct unwind_row *rows, size_t count)
{
	struct unwind_table table;

	elf_finish(elf);
	assert_int_equal(unwind_table_build(elf->bytes, sizeof(elf->bytes), &table), 0);
	for (size_t i = 0; i < table.count && i < count; i++) {
		assert_int_equal(table.rows[i].pc, rows[i].pc);
		assert_int_equal(table.rows[i].kind, rows[i].kind);
		assert_int_equal(table.rows[i].rbx, rows[i].rbx);
		assert_int_equal(table.rows[i].bp, rows[i].bp);
		assert_int_equal(table.rows[i].cfa, rows[i].cfa);
	}
	assert_int_equal(table.count, count);
	assert_int_equal(table.base, CODE);
	unwind_table_deinit(&table);
}

#define EXPECT_ROWS(elf, ...)                                                                      \
	rows_expect((elf), (const struct unwind_row[]){ __VA_ARGS__ },                             \
		    sizeof((const struct unwind_row[]){ __VA_ARGS__ }) /                           \
			    sizeof(struct unwind_row))

/* The first row of an FDE with this program at 0x100; the rest is gap. */
static void rule_expect(const uint8_t *program, size_t size, struct unwind_row rule)
{
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x100, 0x10, program, size);
	rule.pc = 0x100;
	EXPECT_ROWS(&elf, rule, { 0x110, UNWIND_NONE, 0, 0, 0 });
}

#define EXPECT_RULE(program, ...) rule_expect(program, (struct unwind_row){ 0, __VA_ARGS__ })

static void a_function_becomes_rows(void **state)
{
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x100, 0x40,
		BYTES(ADVANCE(1), DEF_CFA_OFFSET(16), OFFSET(6, 2), ADVANCE(3), DEF_CFA_REGISTER(6),
		      OFFSET(3, 3), ADVANCE(16), REMEMBER, DEF_CFA(7, 8), RESTORE(6), ADVANCE(1),
		      RESTORE_STATE));
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x101, UNWIND_SP, 0, -2, 2 },
		    { 0x104, UNWIND_BP, 3, -2, 2 }, { 0x114, UNWIND_SP, 3, 0, 1 },
		    { 0x115, UNWIND_BP, 3, -2, 2 }, { 0x140, UNWIND_NONE, 0, 0, 0 });
}

static void every_kind_of_cfa_has_its_row(void **state)
{
	EXPECT_RULE(BYTES(DEF_CFA(7, 64)), UNWIND_SP, 0, 0, 8);
	EXPECT_RULE(BYTES(DEF_CFA(6, 16)), UNWIND_BP, 0, 0, 2);
	EXPECT_RULE(BYTES(DEF_CFA(10, 0)), UNWIND_REG, 0, 10, 0);
	EXPECT_RULE(BYTES(DEF_CFA(10, 0), OFFSET(6, 2)), UNWIND_REG, 0, 0x2a, 0);
	EXPECT_RULE(BYTES(DEF_CFA(1, 8), OFFSET(6, 15)), UNWIND_REG, 0, (int8_t)0xf1, 1);
	EXPECT_RULE(BYTES(0x12, 7, 0x7e), UNWIND_SP, 0, 0, 2); /* def_cfa_sf -2 * -8 */
	EXPECT_RULE(BYTES(0x13, 0x7d), UNWIND_SP, 0, 0, 3); /* def_cfa_offset_sf */
	EXPECT_RULE(BYTES(0x0f, 2, 0x77, 32), UNWIND_SP, 0, 0, 4); /* breg7 32 */
	EXPECT_RULE(BYTES(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22),
		    UNWIND_PLT, 0, 0, 11);
	EXPECT_RULE(BYTES(0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0), UNWIND_DRAP, 0, -1, 0);
	EXPECT_RULE(BYTES(0x0f, 5, 0x77, 40, 0x06, 0x23, 8, OFFSET(6, 3)), UNWIND_DEREF, 0, -3,
		    5 * 8 + 1);
	EXPECT_RULE(BYTES(0x0f, 5, 0x77, 0x78, 0x06, 0x23, 8), UNWIND_DEREF, 0, 0, -1 * 8 + 1);
	EXPECT_RULE(BYTES(0x09, RIP, 5), UNWIND_LINK, 0, 5, 1);
	EXPECT_RULE(BYTES(0x09, RIP, 1, DEF_CFA_OFFSET(0), OFFSET(6, 2)), UNWIND_LINK, 0, 0x21, 0);
	EXPECT_RULE(BYTES(0x07, RIP), UNWIND_END, 0, 0, 0);
}

static void what_a_row_cannot_say_is_hard(void **state)
{
	EXPECT_RULE(BYTES(DEF_CFA(7, 12)), UNWIND_HARD, 0, 0, 0); /* no multiple of 8 */
	EXPECT_RULE(BYTES(0x0c, 7, 0x80, 0x80, 0x10), UNWIND_HARD, 0, 0, 0); /* 256 KB */
	EXPECT_RULE(BYTES(0x0c, 7, 0xf8, 0xff, 0x0f), UNWIND_SP, 0, 0, 32767); /* a word less */
	EXPECT_RULE(BYTES(0x86, 0x81, 1), UNWIND_HARD, 0, 0, 0); /* bp 129 words off */
	EXPECT_RULE(BYTES(0x86, 0x80, 1), UNWIND_SP, 0, -128, 1);
	EXPECT_RULE(BYTES(0x11, 6, 0x7f), UNWIND_HARD, 0, 0, 0); /* bp at cfa + 8 */
	EXPECT_RULE(BYTES(DEF_CFA(10, 0), OFFSET(6, 16)), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(DEF_CFA(17, 0)), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(OFFSET(RIP, 2)), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x08, RIP), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x09, RIP, 16), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x09, RIP, 1, DEF_CFA(6, 16)), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x09, RIP, 1, OFFSET(6, 16)), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x09, 6, 3), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x07, 6), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x09, 7, 8), UNWIND_HARD, 0, 0, 0); /* sp in r8 */
	EXPECT_RULE(BYTES(0x14, 7, 1), UNWIND_HARD, 0, 0, 0); /* sp = cfa - 8 */
	EXPECT_RULE(BYTES(0x14, 7, 0), UNWIND_SP, 0, 0, 1);
	EXPECT_RULE(BYTES(0x16, 6, 2, 0x77, 0), UNWIND_HARD, 0, 0, 0); /* val_expression */
	EXPECT_RULE(BYTES(0x0f, 3, 0x76, 0x78, 0x06), UNWIND_HARD, 0, 0,
		    0); /* DRAP, bp elsewhere */
	EXPECT_RULE(BYTES(0x0f, 3, 0x73, 0, 0x06), UNWIND_HARD, 0, 0, 0); /* through rbx */
	EXPECT_RULE(BYTES(0x0f, 5, 0x77, 40, 0x06, 0x23, 64), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x3f), UNWIND_HARD, 0, 0, 0); /* no such instruction */
	EXPECT_RULE(BYTES(RESTORE_STATE), UNWIND_HARD, 0, 0, 0);
	EXPECT_RULE(BYTES(0x0f, 99, 0x77), UNWIND_HARD, 0, 0, 0); /* longer than its FDE */
}

static void rbx_is_followed_or_lost(void **state)
{
	EXPECT_RULE(BYTES(OFFSET(3, 2)), UNWIND_SP, 2, 0, 1);
	EXPECT_RULE(BYTES(OFFSET(3, 14)), UNWIND_SP, 14, 0, 1);
	EXPECT_RULE(BYTES(OFFSET(3, 15)), UNWIND_SP, UNWIND_RBX_LOST, 0, 1);
	EXPECT_RULE(BYTES(OFFSET(3, 60)), UNWIND_SP, UNWIND_RBX_LOST, 0, 1);
	EXPECT_RULE(BYTES(OFFSET(3, 2), RESTORE(3)), UNWIND_SP, 0, 0, 1);
	EXPECT_RULE(BYTES(OFFSET(3, 2), 0x08, 3), UNWIND_SP, 0, 0, 1); /* same_value */
	EXPECT_RULE(BYTES(DEF_CFA(3, 56), OFFSET(3, 7)), UNWIND_REG, 7, 3, 7);
	EXPECT_RULE(BYTES(DEF_CFA(6, 16), 0x10, 3, 2, 0x76, 0x78), UNWIND_BP, 3, 0, 2);
	EXPECT_RULE(BYTES(DEF_CFA(7, 16), 0x10, 3, 2, 0x76, 0x78), UNWIND_SP, UNWIND_RBX_LOST, 0,
		    2); /* counted from another register than the cfa */
	EXPECT_RULE(BYTES(0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0, 0x10, 3, 2, 0x76, 0x70),
		    UNWIND_DRAP, UNWIND_RBX_LOST, -1, 0);
	EXPECT_RULE(BYTES(0x07, 3), UNWIND_SP, UNWIND_RBX_LOST, 0, 1); /* undefined */
	EXPECT_RULE(BYTES(0x09, 3, 12), UNWIND_SP, UNWIND_RBX_LOST, 0, 1); /* in r12 */
	EXPECT_RULE(BYTES(0x14, 3, 2), UNWIND_SP, UNWIND_RBX_LOST, 0, 1); /* val_offset */
}

static void other_spellings_mean_the_same(void **state)
{
	EXPECT_RULE(BYTES(0x05, 6, 2), UNWIND_SP, 0, -2, 1); /* offset_extended */
	EXPECT_RULE(BYTES(0x11, 6, 2), UNWIND_SP, 0, -2, 1); /* offset_extended_sf */
	EXPECT_RULE(BYTES(0x2f, 6, 0x7e, 0x11, 6, 2), UNWIND_SP, 0, -2, 1);
	EXPECT_RULE(BYTES(0x08, 6), UNWIND_SP, 0, 0, 1); /* same_value */
	EXPECT_RULE(BYTES(OFFSET(6, 2), 0x06, 6), UNWIND_SP, 0, 0, 1); /* restore_extended */
	EXPECT_RULE(BYTES(0x2e, 32, 0x00), UNWIND_SP, 0, 0, 1); /* args_size, nop */
	EXPECT_RULE(BYTES(DEF_CFA(7, 32), 0x10, 6, 2, 0x77, 8), UNWIND_SP, 0, -3, 4);
	EXPECT_RULE(BYTES(DEF_CFA(6, 32), 0x10, 6, 2, 0x76, 0), UNWIND_BP, 0, -4, 4);
	EXPECT_RULE(BYTES(0x07, 2, 0x09, 12, 13, 0x16, 14, 1, 0x30), UNWIND_SP, 0, 0, 1);
}

static void every_way_to_advance_is_followed(void **state)
{
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x100, 0x8000,
		BYTES(0x02, 0x80, DEF_CFA_OFFSET(16), 0x03, 0x00, 0x01, DEF_CFA_OFFSET(24), 0x04, 0,
		      0x10, 0, 0, DEF_CFA_OFFSET(32), 0x01, 0, 0x30, 0x40, 0, DEF_CFA_OFFSET(40),
		      0x1d, 1, 0, 0, 0, 0, 0, 0, 0, DEF_CFA_OFFSET(48), ADVANCE(0),
		      DEF_CFA_OFFSET(56)));
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x180, UNWIND_SP, 0, 0, 2 },
		    { 0x280, UNWIND_SP, 0, 0, 3 }, { 0x1280, UNWIND_SP, 0, 0, 4 },
		    { 0x2000, UNWIND_SP, 0, 0, 5 }, { 0x2001, UNWIND_SP, 0, 0, 7 },
		    { 0x8100, UNWIND_NONE, 0, 0, 0 });
}

static void a_program_that_breaks_off_is_hard_from_there(void **state)
{
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x100, 0x20, BYTES(ADVANCE(4), DEF_CFA_OFFSET(16), ADVANCE(4), 0x0e));
	fde_put(&elf, 0x120, 0x20, BYTES(0x00));
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x104, UNWIND_SP, 0, 0, 2 },
		    { 0x108, UNWIND_HARD, 0, 0, 0 }, { 0x120, UNWIND_SP, 0, 0, 1 },
		    { 0x140, UNWIND_NONE, 0, 0, 0 });
}

static void gaps_are_rows_and_padding_is_not(void **state)
{
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x100, 0x0d, BYTES(0x00));
	fde_put(&elf, 0x110, 0x10, BYTES(0x00)); /* after three bytes of padding */
	fde_put(&elf, 0x130, 0x0d, BYTES(0x00)); /* after 16 bytes of something */
	fde_put(&elf, 0x13f, 0x01, BYTES(0x00)); /* at no boundary */
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x120, UNWIND_NONE, 0, 0, 0 },
		    { 0x130, UNWIND_SP, 0, 0, 1 }, { 0x13d, UNWIND_NONE, 0, 0, 0 },
		    { 0x13f, UNWIND_SP, 0, 0, 1 }, { 0x140, UNWIND_NONE, 0, 0, 0 });
}

static void overlaps_and_disorder_are_settled(void **state)
{
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x200, 0x20, BYTES(DEF_CFA_OFFSET(48)));
	fde_put(&elf, 0x100, 0x40, BYTES(DEF_CFA_OFFSET(16), ADVANCE(0x30), DEF_CFA_OFFSET(24)));
	fde_put(&elf, 0x120, 0x08, BYTES(DEF_CFA_OFFSET(32)));
	fde_put(&elf, 0x200, 0x30, BYTES(DEF_CFA_OFFSET(56)));
	fde_put(&elf, CODE_SIZE - 0x10, 0x100, BYTES(DEF_CFA_OFFSET(64))); /* beyond the segment */
	fde_put(&elf, CODE_SIZE, 0x100, BYTES(DEF_CFA_OFFSET(72))); /* outside it */
	fde_put(&elf, 0x300, 0, BYTES(DEF_CFA_OFFSET(80))); /* empty */
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 2 }, { 0x120, UNWIND_SP, 0, 0, 4 },
		    { 0x128, UNWIND_NONE, 0, 0, 0 }, { 0x200, UNWIND_SP, 0, 0, 7 },
		    { 0x230, UNWIND_NONE, 0, 0, 0 }, { CODE_SIZE - 0x10, UNWIND_SP, 0, 0, 8 },
		    { CODE_SIZE, UNWIND_NONE, 0, 0, 0 });
}

static void an_entry_point_without_rules_ends_stacks(void **state)
{
	struct elf elf;

	elf_init(&elf);
	elf.entry = CODE + 0x20;
	fde_put(&elf, 0x100, 0x10, BYTES(0x00));
	EXPECT_ROWS(&elf, { 0x20, UNWIND_END, 0, 0, 0 }, { 0x60, UNWIND_NONE, 0, 0, 0 },
		    { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x110, UNWIND_NONE, 0, 0, 0 });
	elf.entry = CODE + 0xf0;
	EXPECT_ROWS(&elf, { 0xf0, UNWIND_END, 0, 0, 0 }, { 0x100, UNWIND_SP, 0, 0, 1 },
		    { 0x110, UNWIND_NONE, 0, 0, 0 });
	elf.entry = CODE + 0x110;
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x110, UNWIND_END, 0, 0, 0 },
		    { 0x150, UNWIND_NONE, 0, 0, 0 });
	elf.entry = CODE + 0x108;
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x110, UNWIND_NONE, 0, 0, 0 });
}

#define STUB(start, ...)                                                                           \
	{                                                                                          \
		start, { __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })                   \
	}
#define LANDING 0xf3, 0x0f, 0x1e, 0xfa
#define PUSH 0x48, 0x83, 0xec, 0x08
#define POP 0x48, 0x83, 0xc4, 0x08
#define GMON 0x48, 0x8b, 0x05, 1, 2, 3, 4, 0x48, 0x85, 0xc0, 0x74, 2, 0xff, 0xd0
#define RETURN 0xc3

static void init_and_fini_have_rows(void **state)
{
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x100, 0x10, BYTES(0x00));
	elf.init = (struct stub)STUB(0x20, PUSH, GMON, 0xe8, 1, 2, 3, 4, POP, RETURN);
	elf.fini = (struct stub)STUB(0x204, LANDING, PUSH, POP, RETURN);
	EXPECT_ROWS(&elf, { 0x20, UNWIND_SP, 0, 0, 1 }, { 0x24, UNWIND_SP, 0, 0, 2 },
		    { 0x3b, UNWIND_SP, 0, 0, 1 }, { 0x3c, UNWIND_NONE, 0, 0, 0 },
		    { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x110, UNWIND_NONE, 0, 0, 0 },
		    { 0x204, UNWIND_SP, 0, 0, 1 }, { 0x20c, UNWIND_SP, 0, 0, 2 },
		    { 0x210, UNWIND_SP, 0, 0, 1 }, { 0x211, UNWIND_NONE, 0, 0, 0 });
	/* In the other order, both before the first FDE; and where an FDE has rules already. */
	elf.init.start = 0x80;
	elf.fini.start = 0x40;
	EXPECT_ROWS(&elf, { 0x40, UNWIND_SP, 0, 0, 1 }, { 0x48, UNWIND_SP, 0, 0, 2 },
		    { 0x4c, UNWIND_SP, 0, 0, 1 }, { 0x4d, UNWIND_NONE, 0, 0, 0 },
		    { 0x80, UNWIND_SP, 0, 0, 1 }, { 0x84, UNWIND_SP, 0, 0, 2 },
		    { 0x9b, UNWIND_SP, 0, 0, 1 }, { 0x9c, UNWIND_NONE, 0, 0, 0 },
		    { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x110, UNWIND_NONE, 0, 0, 0 });
	elf.init.start = elf.fini.start = 0xf8;
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x110, UNWIND_NONE, 0, 0, 0 });
}

static void init_of_another_shape_is_a_gap(void **state)
{
	static const struct stub others[] = {
		STUB(0x204, PUSH, POP),
		STUB(0x204, PUSH, RETURN),
		STUB(0x204, PUSH, POP, RETURN, RETURN),
		STUB(0x204, LANDING),
		STUB(0x204, LANDING, LANDING, PUSH, POP, RETURN),
		STUB(0x204, PUSH, 0x53, POP, RETURN), /* pushes rbx */
		STUB(0x204, PUSH, 0xe8, 1, 2, 3, POP, RETURN), /* a call that ends too late */
		STUB(0x204, POP, RETURN),
		STUB(CODE_SIZE - 5, PUSH, POP, RETURN), /* half outside the segment */
		STUB(CODE_SIZE, PUSH, POP, RETURN),
	};
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x100, 0x10, BYTES(0x00));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		elf.init = elf.fini = others[i];
		EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 1 }, { 0x110, UNWIND_NONE, 0, 0, 0 });
	}
}

static void a_signal_frame_needs_the_kernels_shape(void **state)
{
	static const uint8_t rules[] = {
		0x0f, 4,  0x77, 0xa0, 1,    0x06, /* cfa: breg7 160, deref */
		0x10, 3,  3,	0x77, 0x80, 1, /* rbx at rsp + 128 */
		0x10, 6,  3,	0x77, 0xf8, 0, /* rbp at rsp + 120 */
		0x10, 7,  3,	0x77, 0xa0, 1, /* rsp at rsp + 160 */
		0x10, 16, 3,	0x77, 0xa8, 1, /* rip at rsp + 168 */
	};
	struct elf elf = {};

	cie_put(&elf, "zRS", BYTES(0x03), USUAL);
	fde_put(&elf, 0x100, 0x10, rules, sizeof(rules));
	fde_put(&elf, 0x110, 0x10, BYTES(0x00));
	fde_put(&elf, 0x120, 0x10, rules, sizeof(rules));
	elf.bytes[FRAME_OFFSET + elf.frame_size - sizeof(rules) + 7] = 12; /* rbx's rule */
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SIGNAL, 0, 0, 0 }, { 0x110, UNWIND_HARD, 0, 0, 0 },
		    { 0x130, UNWIND_NONE, 0, 0, 0 });
}

/* An FDE at offset 0x100 of the code with 0x10 bytes in each pointer encoding. */
static void pointer_encodings_are_read(void **state)
{
	static const struct {
		uint8_t encoding;
		size_t size; /* 0: LEB128 of three bytes */
	} cases[] = {
		{ 0x00, 8 }, { 0x04, 8 }, { 0x0c, 8 }, { 0x03, 4 }, { 0x0b, 4 }, { 0x1b, 4 },
		{ 0x13, 4 }, { 0x1c, 8 }, { 0x14, 8 }, { 0x10, 8 }, { 0x1a, 2 }, { 0x12, 2 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct elf elf = {};
		uint64_t relative;
		size_t at;

		cie_put(&elf, "zR", &cases[i].encoding, 1, USUAL);
		at = elf.frame_size;
		put_number(&elf, 0, 4);
		put_number(&elf, elf.frame_size - elf.cie, 4);
		relative = cases[i].encoding & 0x10 ? FRAME_ADDRESS + elf.frame_size : 0;
		/* Two bytes reach only forward here, so this one lies behind the section. */
		put_number(&elf, CODE + 0x800 - relative, cases[i].size);
		put_number(&elf, 0x10, cases[i].size);
		put_number(&elf, 0, 1);
		length_patch(&elf, at);
		EXPECT_ROWS(&elf, { 0x800, UNWIND_SP, 0, 0, 1 }, { 0x810, UNWIND_NONE, 0, 0, 0 });
	}
}

static void augmentations_and_long_lengths_are_read(void **state)
{
	struct elf elf = {};
	size_t at, program;

	/*
	 * Personality as indirect pcrel sdata4, LSDA encoding, FDE encoding, B for pointer
	 * authentication.
	 */
	cie_put(&elf, "zPLRB", BYTES(0x9b, 1, 2, 3, 4, 0x1b, 0x03), USUAL);
	fde_put(&elf, 0x100, 0x10, BYTES(DEF_CFA_OFFSET(16)));
	put_number(&elf, 0, 4); /* a terminator in the middle, as crtend.o may leave it */
	at = elf.frame_size;
	put_number(&elf, UINT32_MAX, 4);
	put_number(&elf, 0, 8);
	put_number(&elf, elf.frame_size - elf.cie, 4);
	put_number(&elf, CODE + 0x110, 4);
	put_number(&elf, 0x10, 4);
	put_number(&elf, 0, 1);
	put(&elf, BYTES(DEF_CFA_OFFSET(24)));
	program = elf.frame_size - at - 12;
	memcpy(elf.bytes + FRAME_OFFSET + at + 4, &program, 8);
	EXPECT_ROWS(&elf, { 0x100, UNWIND_SP, 0, 0, 2 }, { 0x110, UNWIND_SP, 0, 0, 3 },
		    { 0x120, UNWIND_NONE, 0, 0, 0 });
}

static void an_image_that_is_none_is_refused(void **state)
{
	struct unwind_table table;
	struct elf elf;

	elf_init(&elf);
	fde_put(&elf, 0x100, 0x10, BYTES(0x00));
	elf_finish(&elf);
	assert_int_equal(unwind_table_build(elf.bytes, 0, &table), -ENOEXEC);
	assert_int_equal(unwind_table_build(elf.bytes, 63, &table), -ENOEXEC);
	elf.bytes[EI_CLASS] = ELFCLASS32;
	assert_int_equal(unwind_table_build(elf.bytes, IMAGE_MAX, &table), -ENOEXEC);
	elf.bytes[EI_CLASS] = ELFCLASS64;
	assert_int_equal(unwind_table_build(elf.bytes, 64 + 56, &table), 0);
	assert_int_equal(table.count, 0);
}

static void find_gives_the_row_that_holds(void **state)
{
	static const struct unwind_row rows[] = { { .pc = 10 }, { .pc = 20 }, { .pc = 30 } };

	assert_null(unwind_table_find(rows, 0, 5));
	assert_null(unwind_table_find(rows, 3, 9));
	assert_ptr_equal(unwind_table_find(rows, 3, 10), &rows[0]);
	assert_ptr_equal(unwind_table_find(rows, 3, 19), &rows[0]);
	assert_ptr_equal(unwind_table_find(rows, 3, 20), &rows[1]);
	assert_ptr_equal(unwind_table_find(rows, 3, UINT32_MAX), &rows[2]);
}

static uint8_t *file_read(const char *path, size_t *ret_size)
{
	AUTO(close_file) FILE *file = fopen(path, "rb");
	struct stat info;
	uint8_t *bytes;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &info), 0);
	bytes = mem_alloc((size_t)info.st_size);
	*ret_size = fread(bytes, 1, (size_t)info.st_size, file);
	return bytes;
}

/*
 * Without section headers, _init and _fini are a gap; all else is the same. Bytes between a
 * function and _fini are padding, which continues the row before, only where _fini is known.
 */
static void headerless_expect(const struct unwind_table *with, const struct unwind_table *without,
			      uint32_t pc)
{
	const struct unwind_row *full = unwind_table_find(with->rows, with->count, pc);
	const struct unwind_row *bare = unwind_table_find(without->rows, without->count, pc);

	if (bare && bare->kind != UNWIND_NONE) {
		assert_memory_equal(bare, full, sizeof(*bare));
	} else if (full && full->pc == pc && full->kind != UNWIND_NONE) {
		assert_int_equal(full->kind, UNWIND_SP);
		assert_in_range(full->cfa, 1, 2);
	}
}

static void section_headers_are_not_needed(void **state)
{
	size_t size;
	AUTO(free_ptr) uint8_t *bytes = file_read("/proc/self/exe", &size);
	Elf64_Ehdr *header = (void *)bytes;
	struct unwind_table with, without;

	assert_int_equal(unwind_table_build(bytes, size, &with), 0);
	header->e_shoff = header->e_shnum = header->e_shstrndx = 0;
	assert_int_equal(unwind_table_build(bytes, size, &without), 0);
	assert_true(with.count > 100);
	assert_in_range(with.count - without.count, 4, 8);
	for (size_t i = 0; i < with.count; i++)
		headerless_expect(&with, &without, with.rows[i].pc);
	for (size_t i = 0; i < without.count; i++)
		headerless_expect(&with, &without, without.rows[i].pc);
	unwind_table_deinit(&with);
	unwind_table_deinit(&without);
}

static void table_check(const struct unwind_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct unwind_row *row = &table->rows[i];

		assert_true(row->kind < UNWIND_KIND_COUNT);
		if (!i)
			continue;
		assert_true(row->pc > row[-1].pc);
		assert_true(row->kind != row[-1].kind || row->rbx != row[-1].rbx ||
			    row->bp != row[-1].bp || row->cfa != row[-1].cfa);
	}
}

/* Bytes of a real file changed at random, a few at a time, most of them where they are read. */
static void damaged_files_give_sound_tables(void **state)
{
	enum { ROUNDS = 20000, CHANGES = 4 };
	size_t size;
	AUTO(free_ptr) uint8_t *bytes = file_read("/proc/self/exe", &size);
	const Elf64_Ehdr *header = (const void *)bytes;
	const Elf64_Phdr *segments = (const void *)(bytes + header->e_phoff);
	uint64_t seed = 20240229, frame = 0;

	for (int i = 0; i < header->e_phnum; i++)
		if (segments[i].p_type == PT_GNU_EH_FRAME)
			frame = segments[i].p_offset;
	assert_true(frame && frame + 4096 < size);
	for (int round = 0; round < ROUNDS; round++) {
		size_t places[CHANGES];
		uint8_t saved[CHANGES];
		struct unwind_table table;

		for (int i = 0; i < CHANGES; i++) {
			seed = hash64(seed + 1);
			places[i] = seed % 8 == 0 ? (seed >> 8) % 1024 : frame + (seed >> 8) % 4096;
			saved[i] = bytes[places[i]];
			bytes[places[i]] = (uint8_t)(seed >> 56);
		}
		if (unwind_table_build(bytes, size, &table) == 0) {
			table_check(&table);
			unwind_table_deinit(&table);
		}
		for (int i = CHANGES; i-- > 0;)
			bytes[places[i]] = saved[i];
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_becomes_rows),
		cmocka_unit_test(every_kind_of_cfa_has_its_row),
		cmocka_unit_test(what_a_row_cannot_say_is_hard),
		cmocka_unit_test(rbx_is_followed_or_lost),
		cmocka_unit_test(other_spellings_mean_the_same),
		cmocka_unit_test(every_way_to_advance_is_followed),
		cmocka_unit_test(a_program_that_breaks_off_is_hard_from_there),
		cmocka_unit_test(gaps_are_rows_and_padding_is_not),
		cmocka_unit_test(overlaps_and_disorder_are_settled),
		cmocka_unit_test(an_entry_point_without_rules_ends_stacks),
		cmocka_unit_test(init_and_fini_have_rows),
		cmocka_unit_test(init_of_another_shape_is_a_gap),
		cmocka_unit_test(a_signal_frame_needs_the_kernels_shape),
		cmocka_unit_test(pointer_encodings_are_read),
		cmocka_unit_test(augmentations_and_long_lengths_are_read),
		cmocka_unit_test(an_image_that_is_none_is_refused),
		cmocka_unit_test(find_gives_the_row_that_holds),
		cmocka_unit_test(section_headers_are_not_needed),
		cmocka_unit_test(damaged_files_give_sound_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
