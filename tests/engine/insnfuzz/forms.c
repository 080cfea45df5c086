// SPDX-License-Identifier: BSD-2-Clause
/*
 * Pieces of sequences that random bytes would hardly ever make: transfers of control, stacks,
 * flags, segments.
 */
#include <string.h>

#include "insnfuzz.h"

/* Bytes with a displacement that leads to a later instruction. */
static struct item *branch_add(struct sequence *sequence, const void *bytes, size_t length,
			       unsigned fix_offset)
{
	struct item *item = item_add(sequence, bytes, length);

	item->fix_offset = (uint8_t)fix_offset;
	item->fix_size = (uint8_t)(length - fix_offset);
	item->target = TARGET_LATER;
	return item;
}

static unsigned any_register(struct random *random)
{
	unsigned reg = (unsigned)random_below(random, 16);

	return reg == 4 ? 0 : reg; /* rsp stays the stack */
}

static void load_ecx(struct sequence *sequence, uint32_t value)
{
	uint8_t load[] = { 0xb9, 0, 0, 0, 0 };

	memcpy(load + 1, &value, 4);
	item_add(sequence, load, sizeof(load));
}

static void load_eax(struct sequence *sequence, uint32_t value)
{
	uint8_t load[] = { 0xb8, 0, 0, 0, 0 };

	memcpy(load + 1, &value, 4);
	item_add(sequence, load, sizeof(load));
}

static void load_label(struct sequence *sequence, unsigned reg)
{
	uint8_t lea[] = {
		(uint8_t)(0x48 | (reg & 8) >> 1), 0x8d, (uint8_t)((reg & 7) << 3 | 5), 0, 0, 0, 0
	};

	branch_add(sequence, lea, sizeof(lea), 3);
}

static void push(struct sequence *sequence, unsigned reg)
{
	uint8_t code[] = { (uint8_t)(0x40 | reg >> 3), (uint8_t)(0x50 | (reg & 7)) };

	item_add(sequence, code, sizeof(code));
}

/* --- Forms ------------------------------------------------------------------------------------ */

static void form_jump(struct random *random, struct sequence *sequence)
{
	uint8_t condition = (uint8_t)random_below(random, 16);
	const struct {
		uint8_t bytes[10], length, fix;
	} jumps[] = {
		{ { 0x70 | condition }, 2, 1 },
		{ { 0x70 | condition }, 2, 1 },
		{ { 0x0f, 0x80 | condition }, 6, 2 },
		{ { 0x0f, 0x80 | condition }, 6, 2 },
		{ { 0x2e, 0x70 | condition }, 3, 2 },
		{ { 0x3e, 0x0f, 0x80 | condition }, 7, 3 },
		{ { 0xf2, 0x70 | condition }, 3, 2 },
		{ { 0x67, 0x70 | condition }, 3, 2 },
		{ { 0x64, 0x70 | condition }, 3, 2 },
		{ { 0x65, 0x0f, 0x80 | condition }, 7, 3 },
		{ { 0xeb }, 2, 1 },
		{ { 0xe9 }, 5, 1 },
		{ { 0xf2, 0xe9 }, 6, 2 },
		{ { 0x67, 0x2e, 0xe9 }, 7, 3 },
		{ { 0x48, 0xe9 }, 6, 2 },
		{ { 0xe8 }, 5, 1 },
		{ { 0xe8 }, 5, 1 },
		{ { 0x66, 0x66, 0x48, 0xe8 }, 8, 4 },
		{ { 0xf2, 0xe8 }, 6, 2 },
		{ { 0x65, 0xe8 }, 6, 2 },
		{ { 0xe0 }, 2, 1 },
		{ { 0xe1 }, 2, 1 },
		{ { 0xe2 }, 2, 1 },
		{ { 0xe3 }, 2, 1 },
		{ { 0x67, 0xe2 }, 3, 2 },
		{ { 0x67, 0xe3 }, 3, 2 },
		{ { 0x67, 0x48, 0xe0 }, 4, 3 },
	};
	size_t kind = random_below(random, sizeof(jumps) / sizeof(jumps[0]));

	branch_add(sequence, jumps[kind].bytes, jumps[kind].length, jumps[kind].fix);
}

/* A few times round. */
static void form_loop(struct random *random, struct sequence *sequence)
{
	struct item *back;

	item_add(sequence, "\x83\xe1\x07",
		 3); /* and $7, %ecx: who jumps here comes to an end, too */
	item_add(sequence, "\x48\x8d\x40\x01", 4); /* lea 1(%rax), %rax */
	back = branch_add(sequence, random_percent(random, 50) ? "\xe2\0" : "\xe1\0", 2, 1);
	back->target = (uint8_t)(sequence->count - 3);
}

/* jmp, call through a register. reg: opcode extension 4 or 2. */
static void jump_register(struct random *random, struct sequence *sequence, unsigned reg)
{
	static const uint8_t prefixes[] = { 0x3e, 0xf2, 0x2e, 0x67, 0x65, 0x64 };
	uint8_t code[4], *at = code;

	if (random_percent(random, 50))
		*at++ = prefixes[random_below(random, sizeof(prefixes))];
	*at++ = (uint8_t)(0x40 | reg >> 3);
	*at++ = 0xff;
	*at++ = (uint8_t)((random_percent(random, 50) ? 0xe0 : 0xd0) | (reg & 7));
	item_add(sequence, code, (size_t)(at - code));
}

/* Stores a register into memory and jumps or calls through it. */
static void jump_memory(struct random *random, struct sequence *sequence, unsigned reg)
{
	uint8_t way = random_percent(random, 50) ? 4 : 2;
	uint32_t offset = 8 * (uint32_t)random_below(random, 100);
	uint8_t near_store[] = {
		(uint8_t)(0x48 | (reg & 8) >> 1), 0x89, (uint8_t)((reg & 7) << 3 | 5), 0, 0, 0, 0
	};
	uint8_t near_jump[] = { 0xff, (uint8_t)(way << 3 | 5), 0, 0, 0, 0 };
	uint8_t segment = random_percent(random, 50) ? 0x64 : 0x65;
	uint8_t far_store[] = {
		segment, near_store[0], 0x89, (uint8_t)((reg & 7) << 3 | 4), 0x25, 0, 0, 0, 0
	};
	uint8_t far_jump[] = { segment, 0xff, (uint8_t)(way << 3 | 4), 0x25, 0, 0, 0, 0 };

	if (random_percent(random, 50)) {
		memcpy(near_store + 3, &offset, 4);
		memcpy(near_jump + 2, &offset, 4);
		item_add(sequence, near_store, sizeof(near_store));
		item_add(sequence, near_jump, sizeof(near_jump));
	} else {
		memcpy(far_store + 5, &offset, 4);
		memcpy(far_jump + 4, &offset, 4);
		item_add(sequence, far_store, sizeof(far_store));
		item_add(sequence, far_jump, sizeof(far_jump));
	}
}

static void jump_return(struct random *random, struct sequence *sequence, unsigned reg)
{
	static const char *const returns[] = { "\xc3",	   "\xc3",     "\xf3\xc3",
					       "\xf2\xc3", "\x48\xc3", "\x65\xc3" };
	static const uint8_t lengths[] = { 1, 1, 2, 2, 2, 2 };
	size_t kind = random_below(random, sizeof(lengths));
	uint8_t drop[] = { 0xc2, (uint8_t)random_next(random), 0 };

	push(sequence, reg);
	if (random_percent(random, 10))
		drop[2] = 0xff;
	if (random_percent(random, 30))
		item_add(sequence, drop, sizeof(drop));
	else
		item_add(sequence, returns[kind], lengths[kind]);
}

static void form_indirect(struct random *random, struct sequence *sequence)
{
	unsigned reg = any_register(random);

	load_label(sequence, reg);
	switch (random_below(random, 3)) {
	case 0:
		jump_register(random, sequence, reg);
		break;
	case 1:
		jump_memory(random, sequence, reg);
		break;
	default:
		jump_return(random, sequence, reg);
	}
}

static void form_flags(struct random *random, struct sequence *sequence)
{
	uint8_t load[] = { 0x68, 0, 0, 0, 0 };
	uint32_t flags = 0x202 | (random_next(random) & 0x8d5);

	if (random_percent(random, 25))
		flags |= FLAG_TRAP;
	if (random_percent(random, 10))
		flags |= FLAG_ALIGNMENT | 0x400 /* direction */ | 0x200000 /* identification */;
	memcpy(load + 1, &flags, 4);
	if (random_percent(random, 20)) {
		item_add(sequence, "\x9c", 1); /* pushfq */
		return;
	}
	item_add(sequence, load, sizeof(load));
	if (random_percent(random, 80))
		item_add(sequence, "\x9d", 1);
	else
		item_add(sequence, "\x66\x9d", 2);
}

static void form_string(struct random *random, struct sequence *sequence)
{
	static const uint8_t opcodes[] = { 0xa4, 0xa5, 0xa6, 0xa7, 0xaa,
					   0xab, 0xac, 0xad, 0xae, 0xaf };
	static const uint8_t prefixes[] = { 0xf3, 0xf2, 0x67, 0x65, 0x64, 0x66, 0xf3, 0xf2 };
	uint8_t code[8], *at = code;

	load_ecx(sequence, (uint32_t)random_below(random, 40));
	for (uint64_t i = random_below(random, 4); i; i--)
		*at++ = prefixes[random_below(random, sizeof(prefixes))];
	if (random_percent(random, 40))
		*at++ = 0x48;
	*at++ = opcodes[random_below(random, sizeof(opcodes))];
	item_add(sequence, code, (size_t)(at - code));
}

static void form_stack(struct random *random, struct sequence *sequence)
{
	uint8_t any = (uint8_t)random_next(random), rex = 0x40 | (any & 1);
	const struct {
		uint8_t bytes[8], length;
	} forms[] = {
		{ { rex, (uint8_t)(0x50 | (any >> 1 & 7)) }, 2 },
		{ { rex, (uint8_t)(0x58 | (any >> 1 & 7)) }, 2 },
		{ { 0x66, (uint8_t)(0x50 | (any >> 1 & 7)) }, 2 },
		{ { 0x66, (uint8_t)(0x58 | (any >> 1 & 7)) }, 2 },
		{ { 0x6a, any }, 2 },
		{ { 0xff, 0x35, any, 1 }, 6 }, /* push any(%rip) */
		{ { 0x8f, 0x05, any, 2 }, 6 },
		{ { 0x8f, 0x44, 0x24, any }, 4 }, /* pop any(%rsp) */
		{ { 0xff, 0x74, 0x24, any }, 4 },
		{ { 0x65, 0x8f, 0x44, 0x24, any }, 5 },
		{ { 0x65, 0xff, 0x34, 0x25, any, 1 }, 8 },
		{ { 0x65, 0x8f, 0x04, 0x25, any, 1 }, 8 },
		{ { 0xc8, any, 0, (uint8_t)(any & 3) }, 4 },
		{ { 0xc9 }, 1 },
		{ { 0x0f, 0xa0 }, 2 },
		{ { 0x0f, 0xa8 }, 2 },
		{ { 0x6a, 0 }, 2 },
	};
	size_t kind = random_below(random, sizeof(forms) / sizeof(forms[0]));

	item_add(sequence, forms[kind].bytes, forms[kind].length);
}

static void form_far(struct random *random, struct sequence *sequence)
{
	uint64_t kind = detects_split_locks() ? 1 + random_below(random, 2)
					      : random_below(random, 3);

	if (kind == 0) {
		item_add(sequence, "\x8c\xd0", 2); /* mov %ss, %eax */
		item_add(sequence, "\x50", 1); /* push %rax */
		item_add(sequence, "\x54", 1); /* push %rsp */
		item_add(sequence, "\x9c", 1); /* pushfq */
	}
	item_add(sequence, "\x8c\xc8", 2); /* mov %cs, %eax */
	item_add(sequence, "\x50", 1);
	load_label(sequence, 0);
	if (kind == 2) { /* ljmp *, through the stack */
		item_add(sequence, "\x50", 1);
		item_add(sequence, "\x48\xff\x2c\x24", 4)->inner = true;
		return;
	}
	item_add(sequence, "\x50", 1);
	item_add(sequence, kind ? "\x48\xcb" : "\x48\xcf", 2)->inner = true;
}

static void form_system(struct random *random, struct sequence *sequence)
{
	static const uint32_t harmless[] = { 0xfff, 102 /* getuid */, 104 /* getgid */,
					     0x7fffffff };
	static const uint32_t harmless_32[] = { 0xfff, 199 /* getuid32 */, 24 /* getuid */, 20000 };
	size_t kind = random_below(random, 4);

	if (random_percent(random, 70)) {
		load_eax(sequence, harmless[kind]);
		item_add(sequence, "\x0f\x05", 2)->inner = true;
	} else {
		load_eax(sequence, harmless_32[kind]);
		item_add(sequence, "\xcd\x80", 2)->inner = true;
	}
}

static void form_segment(struct random *random, struct sequence *sequence)
{
	uint8_t reg = (uint8_t)random_below(random, 8), rex = (uint8_t)random_below(random, 2);
	uint8_t base[] = { 0xf3, (uint8_t)(0x40 | random_below(random, 2) << 3 | rex), 0x0f, 0xae,
			   (uint8_t)(0xc0 | random_below(random, 4) << 3 | reg) };
	uint8_t move[] = { 0x65,
			   (uint8_t)(0x48 | rex << 2),
			   random_percent(random, 50) ? 0x8b : 0x03,
			   (uint8_t)(reg << 3 | 4),
			   0x25,
			   (uint8_t)random_next(random),
			   0,
			   0,
			   0 };

	if (random_percent(random, 40)) {
		item_add(sequence, base, sizeof(base));
	} else if (random_percent(random, 90)) {
		item_add(sequence, move, sizeof(move));
	} else {
		load_eax(sequence, random_percent(random, 50) ? 0 : 0x2b);
		item_add(sequence, random_percent(random, 70) ? "\x8e\xe8" : "\x8e\xe0", 2);
	}
}

/* x87, MMX, SSE and BMI, with registers or memory that is there. */
static void form_vector(struct random *random, struct sequence *sequence)
{
	static const uint8_t starts[][4] = {
		{ 0 }, { 0x0f }, { 0x66, 0x0f }, { 0xf3, 0x0f }, { 0xf2, 0x0f }
	};
	static const uint8_t lengths[] = { 0, 1, 2, 2, 2 };
	size_t kind = random_below(random, 8);
	uint8_t code[10] = { 0 };
	size_t at;

	kind = kind > 4 ? 0 : kind;
	at = lengths[kind];
	memcpy(code, starts[kind], at);
	code[at++] = (uint8_t)(kind ? 0x51 + random_below(random, 0x1f)
				    : 0xd8 + random_below(random, 8));
	code[at++] = (uint8_t)(0xc0 | random_below(random, 64));
	if (random_percent(random, 40)) { /* memory: (%rip) */
		uint32_t offset = 8 * (uint32_t)random_below(random, 256);

		code[at - 1] = (uint8_t)((code[at - 1] & 0x38) | 5);
		memcpy(code + at, &offset, 4);
		at += 4;
	}
	if (kind && code[lengths[kind]] == 0x70)
		return; /* has an immediate */
	if (!sequence_allows(code))
		return;
	item_add(sequence, code, at);
}

void form_add(struct random *random, struct sequence *sequence)
{
	static void (*const forms[])(struct random *, struct sequence *) = {
		form_jump,    form_jump,   form_jump,	form_indirect, form_indirect, form_loop,
		form_flags,   form_string, form_stack,	form_stack,    form_far,      form_system,
		form_segment, form_vector, form_vector, form_vector,
	};

	unsigned first = sequence->count;

	if (first > ITEMS_MAX / 2)
		return;
	forms[random_below(random, sizeof(forms) / sizeof(forms[0]))](random, sequence);
	for (unsigned i = first; i < sequence->count; i++)
		sequence->items[i].behind = (uint8_t)sequence->count;
}

void targets_choose(struct random *random, struct sequence *sequence)
{
	for (unsigned i = 0; i < sequence->count; i++) {
		struct item *item = &sequence->items[i];
		unsigned least = item->behind ? item->behind : i + 1, to, distance = 0;

		if (item->target != TARGET_LATER)
			continue;
		to = least + (unsigned)random_below(random, sequence->count - least);
		while (sequence->items[to].inner)
			to++;
		for (unsigned j = i + 1; j < to; j++)
			distance += sequence->items[j].length;
		item->target = (uint8_t)(item->fix_size == 1 && distance > 127 ? least : to);
	}
}
