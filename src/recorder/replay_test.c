// SPDX-License-Identifier: BSD-2-Clause
// Serves: V2, V6, V7, V8.
/*
 * Replay of runs: what is told of each kind of instruction, on records that the host's executor
 * made; and that damaged records are refused. replay_kernel_test.c has records of the kernel.
 */
#include "recorder/replay_test.h"

/* --- Instructions ----------------------------------------------------------------------------- */

static void results_and_operands(void **ctx)
{
	struct state *state = *ctx;
	uint64_t *regs = (uint64_t *)state->fixture.record->regs;

	regs[UOP_RAX] = 0x1122334455667788;
	regs[UOP_RBX] = 0x10;
	RUN(state,
	    "\x48\x01\xd8" /* add rax, rbx */
	    "\x8d\x48\x04" /* lea ecx, [rax + 4] */
	    "\xba\x05\x00\x00\x00" /* mov edx, 5 */
	    "\x48\x83\xf8\x07" /* cmp rax, 7 */
	    "\x0f\x97\xc3" /* seta bl */
	    "\x31\xf6" /* xor esi, esi */
	    "\x66\xff\xc2" /* inc dx */
	    "\x90",
	    8);
	assert_int_equal(count_of(state, SELECTION_INSTRUCTION), 8);
	expect(instruction(state, 0), SELECTION_RESULT, 0x1122334455667798, 64);
	expect(instruction(state, 0), SELECTION_OPERAND1, 0x1122334455667788, 64);
	expect(instruction(state, 0), SELECTION_OPERAND2, 0x10, 64);
	expect_none(instruction(state, 0), SELECTION_ADDRESS);
	expect(instruction(state, 1), SELECTION_RESULT, 0x5566779c, 32);
	expect_none(instruction(state, 1), SELECTION_ADDRESS);
	expect(instruction(state, 2), SELECTION_RESULT, 5, 32);
	expect(instruction(state, 2), SELECTION_OPERAND1, 5, 32);
	expect(instruction(state, 3), SELECTION_RESULT, 0x1122334455667798, 64);
	expect(instruction(state, 3), SELECTION_OPERAND1, 0x1122334455667798, 64);
	expect(instruction(state, 3), SELECTION_OPERAND2, 7, 64);
	expect(instruction(state, 4), SELECTION_RESULT, 1, 8);
	expect(instruction(state, 5), SELECTION_RESULT, 0, 32);
	expect(instruction(state, 6), SELECTION_RESULT, 6, 16);
	expect(instruction(state, 6), SELECTION_OPERAND1, 5, 16);
	expect_none(instruction(state, 7), SELECTION_RESULT);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(instruction(state, i)->place.number, i);
		assert_int_equal(instruction(state, i)->place.pc,
				 FIXTURE_CODE + instruction(state, i)->place.at);
		expect_none(instruction(state, i), SELECTION_TAKEN);
		expect_none(instruction(state, i), SELECTION_TARGET);
	}
	assert_int_equal(instruction(state, 7)->place.at, 23);
}

static void loads_and_stores(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->flags = RUN_OVERWRITTEN;
	record->regs[UOP_RDI] = FIXTURE_DATA + 16;
	record->regs[UOP_RCX] = 0xaabbccdd11223344;
	state->fixture.data[2] = 0x0102030405060708;
	state->fixture.data[3] = 0x1111111122222222;
	RUN(state,
	    "\x48\x8b\x47\x08" /* mov rax, [rdi + 8] */
	    "\x89\x0f" /* mov [rdi], ecx */
	    "\x00\x0f" /* add [rdi], cl */
	    "\x51" /* push rcx */
	    "\x5a" /* pop rdx */
	    "\x0f\xb6\x37" /* movzx esi, byte [rdi] */
	    "\x48\x3b\x47\x08", /* cmp rax, [rdi + 8] */
	    7);
	expect(instruction(state, 0), SELECTION_LOADED, 0x1111111122222222, 64);
	expect(instruction(state, 0), SELECTION_RESULT, 0x1111111122222222, 64);
	expect(instruction(state, 0), SELECTION_ADDRESS, FIXTURE_DATA + 24, 64);
	expect_none(instruction(state, 0), SELECTION_STORED);
	expect(instruction(state, 1), SELECTION_STORED, 0x11223344, 32);
	expect(instruction(state, 1), SELECTION_OVERWRITTEN, 0x05060708, 32);
	expect(instruction(state, 1), SELECTION_ADDRESS, FIXTURE_DATA + 16, 64);
	expect_none(instruction(state, 1), SELECTION_RESULT);
	expect(instruction(state, 2), SELECTION_LOADED, 0x44, 8);
	expect(instruction(state, 2), SELECTION_STORED, 0x88, 8);
	expect(instruction(state, 2), SELECTION_OVERWRITTEN, 0x44, 8); /* by the run itself */
	expect(instruction(state, 2), SELECTION_OPERAND1, 0x44, 8);
	expect(instruction(state, 2), SELECTION_OPERAND2, 0x44, 8);
	expect(instruction(state, 3), SELECTION_STORED, 0xaabbccdd11223344, 64);
	expect(instruction(state, 3), SELECTION_ADDRESS, record->regs[UOP_RSP] - 8, 64);
	expect_none(instruction(state, 3), SELECTION_RESULT); /* the stack pointer is none */
	expect(instruction(state, 4), SELECTION_LOADED, 0xaabbccdd11223344, 64);
	expect(instruction(state, 4), SELECTION_RESULT, 0xaabbccdd11223344, 64);
	expect(instruction(state, 5), SELECTION_LOADED, 0x88, 8);
	assert_int_equal(instruction(state, 5)->facts.values[SELECTION_RESULT], 0x88);
	expect(instruction(state, 6), SELECTION_RESULT, 0x1111111122222222, 64);
	expect(instruction(state, 6), SELECTION_OPERAND2, 0x1111111122222222, 64);
}

/* What is not known is not told, and neither is what follows from it. */
static void unknown_values_are_not_told(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->regs[UOP_RSI] = 0x1000; /* nothing is there */
	record->regs[UOP_RDI] = FIXTURE_DATA;
	RUN(state,
	    "\x48\x8b\x06" /* mov rax, [rsi] */
	    "\x48\xff\xc0" /* inc rax */
	    "\x48\x89\x07" /* mov [rdi], rax */
	    "\x48\x8b\x0f" /* mov rcx, [rdi] */
	    "\x8b\x10" /* mov edx, [rax] */
	    "\xb8\x01\x00\x00\x00", /* mov eax, 1 */
	    6);
	expect(instruction(state, 0), SELECTION_ADDRESS, 0x1000, 64);
	assert_int_equal(state->end.unread[RUN_UNREAD_ABSENT], 1); /* edx's address is not known */
	assert_int_equal(state->end.unread[RUN_UNREAD_NOT_RAM], 0);
	for (unsigned i = 0; i < 5; i++) {
		expect_none(instruction(state, i), SELECTION_LOADED);
		expect_none(instruction(state, i), SELECTION_STORED);
		expect_none(instruction(state, i), SELECTION_RESULT);
	}
	expect(instruction(state, 2), SELECTION_ADDRESS, FIXTURE_DATA, 64);
	expect_none(instruction(state, 4), SELECTION_ADDRESS);
	expect(instruction(state, 5), SELECTION_RESULT, 1, 32);
}

static void vectors(void **ctx)
{
	struct state *state = *ctx;

	state->fixture.record->regs[UOP_RDI] = FIXTURE_DATA;
	state->fixture.data[0] = 0x1111;
	state->fixture.data[1] = 0x2222;
	RUN(state,
	    "\x0f\x10\x07" /* movups xmm0, [rdi] */
	    "\x66\x48\x0f\x7e\xc0" /* movq rax, xmm0 */
	    "\x0f\x11\x47\x10" /* movups [rdi + 16], xmm0 */
	    "\x0f\x28\xd1", /* movaps xmm2, xmm1 */
	    4);
	expect(instruction(state, 0), SELECTION_LOADED, 0x1111, 64);
	expect(instruction(state, 0), SELECTION_RESULT, 0x1111, 64);
	expect(instruction(state, 1), SELECTION_RESULT, 0x1111, 64);
	expect(instruction(state, 2), SELECTION_STORED, 0x1111, 64);
	expect(instruction(state, 2), SELECTION_ADDRESS, FIXTURE_DATA + 16, 64);
	expect_none(instruction(state, 3), SELECTION_RESULT);
}

static void branch_expect(const struct told *told, uint64_t bits)
{
	assert_int_equal(told->facts.known & (SELECTION_ANY_BRANCH | SELECTION_INDIRECT), bits);
}

static void branches(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->regs[UOP_RDX] = FIXTURE_CODE + 14;
	record->regs[UOP_RCX] = 0;
	RUN(state,
	    "\x31\xc0" /*  0: xor eax, eax */
	    "\x75\x10" /*  2: jne: not taken */
	    "\x74\x02" /*  4: je 8 */
	    "\x0f\x0b" /*  6: ud2 */
	    "\xe3\x01" /*  8: jrcxz 11 */
	    "\xcc" /* 10 */
	    "\xff\xe2" /* 11: jmp rdx */
	    "\xcc" /* 13 */
	    "\x90", /* 14 */
	    6);
	expect(instruction(state, 1), SELECTION_TAKEN, 0, 1);
	expect(instruction(state, 2), SELECTION_TAKEN, 1, 1);
	expect(instruction(state, 3), SELECTION_TAKEN, 1, 1);
	/* A tuple has the targets of direct branches too. */
	expect(instruction(state, 1), SELECTION_TARGET, FIXTURE_CODE + 4, 64);
	expect(instruction(state, 2), SELECTION_TARGET, FIXTURE_CODE + 8, 64);
	expect(instruction(state, 4), SELECTION_TARGET, FIXTURE_CODE + 14, 64);
	branch_expect(instruction(state, 0), 0);
	branch_expect(instruction(state, 2), SELECTION_ANY_BRANCH);
	branch_expect(instruction(state, 4), SELECTION_ANY_BRANCH | SELECTION_INDIRECT);
	expect_none(instruction(state, 4), SELECTION_TAKEN);
	assert_int_equal(instruction(state, 5)->place.pc, FIXTURE_CODE + 14);
	/* Of the whole run: 0, 1, 1 below a marker, and one target. */
	assert_int_equal(state->told[0].place.class, SELECTION_RUN);
	expect(&state->told[0], SELECTION_PATH, 0xb, 64);
	expect(&state->told[0], SELECTION_GOAL1, FIXTURE_CODE + 14, 64);
	expect(&state->told[0], SELECTION_GOAL2, 0, 64);
}

/* loop is taken when it goes back, and is one branch whatever it looks at. */
static void loops(void **ctx)
{
	struct state *state = *ctx;

	state->fixture.record->regs[UOP_RCX] = 2;
	RUN(state,
	    "\x31\xc0" /* 0: xor eax, eax */
	    "\xe1\xfc" /* 2: loope 0 */
	    "\x90",
	    5);
	expect(instruction(state, 1), SELECTION_TAKEN, 1, 1);
	expect(instruction(state, 1), SELECTION_TARGET, FIXTURE_CODE, 64);
	expect(instruction(state, 3), SELECTION_TAKEN, 0, 1);
	expect(instruction(state, 3), SELECTION_TARGET, FIXTURE_CODE + 4, 64);
	expect(&state->told[0], SELECTION_PATH, 6, 64);
}

/* What is not the only one of its kind: results, addresses, operands. */
static void second_ones(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->regs[UOP_RAX] = 0x1000000000000005;
	record->regs[UOP_RCX] = 0x30;
	record->regs[UOP_RBX] = 7;
	RUN(state,
	    "\x48\xf7\xe1" /* mul rcx */
	    "\x48\xf7\xf1" /* div rcx */
	    "\x48\x87\xd9" /* xchg rcx, rbx */
	    "\x48\x0f\xa4\xcb\x04" /* shld rbx, rcx, 4 */
	    "\xf6\xe3", /* mul bl */
	    5);
	expect(instruction(state, 0), SELECTION_RESULT, 0xf0, 64);
	expect(instruction(state, 0), SELECTION_RESULT2, 3, 64);
	expect(instruction(state, 0), SELECTION_OPERAND1, 0x30, 64);
	expect(instruction(state, 0), SELECTION_OPERAND2, 0x1000000000000005, 64);
	expect(instruction(state, 1), SELECTION_RESULT, 0x1000000000000005, 64);
	expect(instruction(state, 1), SELECTION_RESULT2, 0, 64);
	expect(instruction(state, 1), SELECTION_OPERAND1, 0x30, 64);
	expect(instruction(state, 1), SELECTION_OPERAND2, 0xf0, 64);
	expect(instruction(state, 1), SELECTION_OPERAND3, 3, 64);
	expect(instruction(state, 2), SELECTION_RESULT, 7, 64);
	expect(instruction(state, 2), SELECTION_RESULT2, 0x30, 64);
	expect(instruction(state, 2), SELECTION_OPERAND1, 0x30, 64);
	expect(instruction(state, 2), SELECTION_OPERAND2, 7, 64);
	expect(instruction(state, 3), SELECTION_RESULT, 0x300, 64);
	expect_none(instruction(state, 3), SELECTION_RESULT2);
	expect(instruction(state, 3), SELECTION_OPERAND1, 0x30, 64);
	expect(instruction(state, 3), SELECTION_OPERAND2, 7, 64);
	expect(instruction(state, 3), SELECTION_OPERAND3, 4, 64);
	expect(instruction(state, 4), SELECTION_RESULT, 0, 8);
	expect(instruction(state, 4), SELECTION_RESULT2, 0, 8);
}

static void second_addresses(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->regs[UOP_RSI] = FIXTURE_DATA;
	record->regs[UOP_RDI] = FIXTURE_DATA + 256;
	record->regs[UOP_RCX] = 3;
	memcpy(state->fixture.data, "assayedX", 8);
	state->fixture.data[32] = 'z';
	RUN(state,
	    "\xa6" /* cmpsb */
	    "\xf3\xa4" /* rep movsb */
	    "\xff\x36" /* push [rsi] */
	    "\xff\x06", /* inc dword [rsi] */
	    4);
	expect(instruction(state, 0), SELECTION_ADDRESS, FIXTURE_DATA, 64);
	expect(instruction(state, 0), SELECTION_ADDRESS2, FIXTURE_DATA + 256, 64);
	expect(instruction(state, 0), SELECTION_LOADED, 'a', 8);
	expect(instruction(state, 0), SELECTION_LOADED2, 'z', 8);
	expect(instruction(state, 0), SELECTION_OPERAND1, 'a', 8);
	expect(instruction(state, 0), SELECTION_OPERAND2, 'z', 8);
	expect(instruction(state, 1), SELECTION_ADDRESS, FIXTURE_DATA + 1, 64);
	expect(instruction(state, 1), SELECTION_ADDRESS2, FIXTURE_DATA + 257, 64);
	expect_none(instruction(state, 1), SELECTION_LOADED2);
	expect(instruction(state, 2), SELECTION_ADDRESS, FIXTURE_DATA + 4, 64);
	expect(instruction(state, 2), SELECTION_ADDRESS2, record->regs[UOP_RSP] - 8, 64);
	expect(instruction(state, 3), SELECTION_ADDRESS, FIXTURE_DATA + 4, 64);
	expect_none(instruction(state, 3), SELECTION_ADDRESS2);
}

/* A string instruction is one, however often it repeats. */
static void strings(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->regs[UOP_RSI] = FIXTURE_DATA;
	record->regs[UOP_RDI] = FIXTURE_DATA + 256;
	record->regs[UOP_RCX] = 5;
	memcpy(state->fixture.data, "assayed", 8);
	RUN(state,
	    "\xf3\xa4" /* rep movsb */
	    "\x8a\x47\xff", /* mov al, [rdi - 1] */
	    2);
	assert_int_equal(count_of(state, SELECTION_INSTRUCTION), 2);
	expect(instruction(state, 0), SELECTION_LOADED, 'a', 8);
	expect(instruction(state, 0), SELECTION_STORED, 'a', 8);
	expect(instruction(state, 1), SELECTION_RESULT, 'y', 8);
}

/* --- Functions -------------------------------------------------------------------------------- */

static void arguments_set(struct run_record *record)
{
	static const uint8_t registers[] = { UOP_RDI, UOP_RSI, UOP_RDX, UOP_RCX, UOP_R8, 9 };

	for (unsigned i = 0; i < sizeof(registers); i++)
		record->regs[registers[i]] = 100 + i;
}

static void arguments_expect(const struct told *told)
{
	for (unsigned i = 0; i < SELECTION_ARGS; i++)
		expect(told, SELECTION_ARG0 + i, 100 + i, 64);
}

static void calls_and_returns(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;
	uint64_t above = FIXTURE_CODE + 0x40;

	arguments_set(record);
	record->callers[0] = above;
	record->callers[1] = 0x777;
	state->fixture.data[FIXTURE_DATA_SIZE / 16] = above; /* at rsp */
	memcpy(state->fixture.code + 0x40, "\x90\x90", 2);
	memcpy(state->fixture.code + 0x20, "\x31\xc0\xc3", 3); /* xor eax, eax; ret */
	RUN(state,
	    "\xe8\x1b\x00\x00\x00" /* 0: call 0x20 */
	    "\x90" /* 5 */
	    "\xc3", /* 6: ret to 0x40 */
	    6);
	assert_int_equal(count_of(state, SELECTION_ENTRY), 1);
	assert_int_equal(entry(state, 0)->place.pc, FIXTURE_CODE + 0x20);
	assert_int_equal(entry(state, 0)->place.caller, FIXTURE_CODE + 5);
	arguments_expect(entry(state, 0));
	expect_none(entry(state, 0), SELECTION_RESULT);
	expect_none(instruction(state, 0), SELECTION_STORED); /* where to return is no datum */
	expect_none(instruction(state, 0), SELECTION_ARG0);
	assert_int_equal(instruction(state, 0)->place.caller, above);
	assert_int_equal(instruction(state, 1)->place.caller, FIXTURE_CODE + 5);
	assert_int_equal(instruction(state, 2)->place.caller, FIXTURE_CODE + 5);
	expect(instruction(state, 2), SELECTION_TARGET, FIXTURE_CODE + 5, 64);
	expect(instruction(state, 2), SELECTION_CALLER, FIXTURE_CODE + 5, 64);
	assert_int_equal(instruction(state, 3)->place.caller, above);
	expect(instruction(state, 4), SELECTION_TARGET, above, 64);
	assert_int_equal(instruction(state, 5)->place.pc, above);
	assert_int_equal(instruction(state, 5)->place.caller, 0x777);
}

/* Where some call goes a function begins; who jumps there at its own end calls it, too. */
static void tail_calls(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	arguments_set(record);
	memcpy(state->fixture.code + 0x20, "\xff\xc0\xeb\x1c", 4); /* inc eax; jmp 0x40 */
	memcpy(state->fixture.code + 0x40, "\x31\xc0\xeb\x0c", 4); /* xor eax, eax; jmp 0x50 */
	memcpy(state->fixture.code + 0x50, "\x74\xee\x90", 3); /* jz 0x40; nop */
	RUN(state, "\xe8\x1b\x00\x00\x00", 7); /* call 0x20 */
	assert_int_equal(count_of(state, SELECTION_ENTRY), 1);
	array_each(&state->translations.all, translation) {
		bool first = (*translation)->key.address == FIXTURE_CODE + 0x20 - FIXTURE_BIAS;

		assert_int_equal((*translation)->called, first); /* the run has called it */
		if ((*translation)->key.address == FIXTURE_CODE + 0x40 - FIXTURE_BIAS)
			(*translation)->called = true;
	}
	assert_int_equal(replay(state, record), 0);
	assert_int_equal(count_of(state, SELECTION_ENTRY), 2); /* not at the branch back */
	assert_int_equal(entry(state, 1)->place.pc, FIXTURE_CODE + 0x40);
	assert_int_equal(entry(state, 1)->place.caller, FIXTURE_CODE + 5);
	arguments_expect(entry(state, 1));
}

/* Also if no call to it was seen, where it begins as only functions do. */
static void tail_calls_to_marked_functions(void **ctx)
{
	struct state *state = *ctx;

	arguments_set(state->fixture.record);
	memcpy(state->fixture.code + 0x40, "\xf3\x0f\x1e\xfa\xeb\x0a", 6); /* endbr64; jmp */
	memcpy(state->fixture.code + 0x50, "\x66\x90\xeb\x15", 4); /* nop; jmp 0x69 */
	memcpy(state->fixture.code + 0x69, "\xf3\x0f\x1e\xfa\x90", 5); /* not where functions are */
	RUN(state, "\xeb\x3e", 6); /* jmp 0x40 */
	assert_int_equal(count_of(state, SELECTION_ENTRY), 1);
	assert_int_equal(entry(state, 0)->place.pc, FIXTURE_CODE + 0x40);
	arguments_expect(entry(state, 0));
}

/* With nothing but the return address on the stack, a jump leaves the function. */
static void tail_calls_by_pointers(void **ctx)
{
	static const struct {
		const char *code; /* at 0x20 */
		unsigned steps;
		size_t entries;
	} cases[] = {
		{ "\xff\xc1\xff\xe0", 4, 2 }, /* inc ecx; jmp rax */
		{ "\xff\xc1\x53\xff\xe0", 5, 1 }, /* inc ecx; push rbx; jmp rax */
		{ "\x48\x01\xd0\xff\xe0", 4, 1 }, /* add rax, rdx; jmp rax */
		{ "\xff\xc1\xeb\x1c", 4, 1 }, /* inc ecx; jmp 0x40: it may be a loop */
		{ "\xff\xc1\xeb\xec", 4, 2 }, /* inc ecx; jmp 0x10: before the function */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		void *fresh;
		struct state *state;
		struct run_record *record;

		setup(&fresh);
		state = fresh;
		record = state->fixture.record;
		memset(state->fixture.code, 0x90, 0x60);
		memcpy(state->fixture.code + 0x20, cases[i].code, strlen(cases[i].code));
		arguments_set(record);
		record->regs[UOP_RAX] = FIXTURE_CODE + 0x40;
		record->regs[UOP_RDX] = 0;
		RUN(state, "\xe8\x1b\x00\x00\x00", cases[i].steps); /* call 0x20 */
		assert_int_equal(count_of(state, SELECTION_ENTRY), cases[i].entries);
		teardown(&fresh);
	}
}

/*
 * The caller of a function that the run did not enter may be unknown; that of another is not taken
 * for it.
 */
static void unknown_callers(void **ctx)
{
	struct state *state = *ctx;

	memcpy(state->fixture.code + 0x20, "\xc3", 1);
	RUN(state, "\xe8\x1b\x00\x00\x00\x90", 3); /* call 0x20; nop */
	expect_none(instruction(state, 0), SELECTION_CALLER);
	expect(instruction(state, 1), SELECTION_CALLER, FIXTURE_CODE + 5, 64);
	expect_none(instruction(state, 2), SELECTION_CALLER);
	assert_int_equal(instruction(state, 2)->place.caller, 0);
}

/*
 * Through a jump that loads its target, as in a procedure linkage table, the function is entered
 * too.
 */
static void calls_through_a_table(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	arguments_set(record);
	record->regs[UOP_RBX] = FIXTURE_DATA;
	state->fixture.data[0] = FIXTURE_CODE + 0x60;
	memcpy(state->fixture.code + 0x60, "\x01\xfe\xeb\x00\x90", 5); /* add esi, edi; jmp */
	memcpy(state->fixture.code + 0x20, "\xf3\x0f\x1e\xfa\xff\x23", 6); /* endbr64; jmp [rbx] */
	RUN(state, "\xe8\x1b\x00\x00\x00", 6);
	assert_int_equal(count_of(state, SELECTION_ENTRY), 2);
	assert_int_equal(entry(state, 0)->place.pc, FIXTURE_CODE + 0x20);
	assert_int_equal(entry(state, 1)->place.pc, FIXTURE_CODE + 0x60);
	assert_int_equal(entry(state, 1)->place.caller, FIXTURE_CODE + 5);
	arguments_expect(entry(state, 1));
	expect(instruction(state, 2), SELECTION_TARGET, FIXTURE_CODE + 0x60, 64);
	/* Where the function jumps after it has done something, nothing is entered. */
	assert_int_equal(instruction(state, 5)->place.pc, FIXTURE_CODE + 0x64);
	run_fixture_begin(&state->fixture);
	record->regs[UOP_RCX] = 5;
	memcpy(state->fixture.code + 0x20, "\xe2\x00\x90", 3); /* loop: changes rcx */
	RUN(state, "\xe8\x1b\x00\x00\x00", 3);
	assert_int_equal(count_of(state, SELECTION_ENTRY), 1);
}

/* --- Parts of runs ---------------------------------------------------------------------------- */

static void skipped_instructions_are_not_told(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->skipped = 2;
	record->regs[UOP_RAX] = 1;
	RUN(state,
	    "\x48\xff\xc0" /* inc rax */
	    "\x74\x00" /* je: not taken, not told */
	    "\x48\xff\xc0"
	    "\x75\x00" /* jne: taken */
	    "\x48\xff\xc0",
	    5);
	assert_int_equal(count_of(state, SELECTION_INSTRUCTION), 3);
	assert_int_equal(state->told[0].place.class, SELECTION_RUN);
	assert_int_equal(state->told[0].place.pc, FIXTURE_CODE + 5);
	expect(&state->told[0], SELECTION_PATH, 3, 64);
	expect(instruction(state, 0), SELECTION_RESULT, 3, 64);
	assert_int_equal(state->end.end, UOP_END_NONE);
	record->skipped = 5;
	assert_int_equal(replay(state, record), 0);
	assert_int_equal(state->count, 0);
}

static void unfinished_instructions_are_not_told(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->regs[UOP_RAX] = 1;
	RUN(state,
	    "\x48\xff\xc0" /* inc rax */
	    "\x48\xf7\xf1", /* div rcx */
	    5);
	assert_int_equal(state->end.end, UOP_END_DIVIDE);
	assert_string_equal(lift_mnemonic(state->end.mnemonic), "div");
	assert_int_equal(count_of(state, SELECTION_INSTRUCTION), 1);
	assert_true(state->told[0].facts.path_open); /* cut short */
	run_fixture_begin(&state->fixture);
	RUN(state, "\x48\xff\xc0\xf4", 5); /* inc rax; hlt */
	assert_int_equal(state->end.end, UOP_END_PRIVILEGED);
	assert_string_equal(lift_mnemonic(state->end.mnemonic), "hlt");
	assert_int_equal(count_of(state, SELECTION_INSTRUCTION), 1);
	run_fixture_begin(&state->fixture);
	RUN(state, "\xf4", 5);
	assert_int_equal(state->end.end, UOP_END_PRIVILEGED);
	assert_int_equal(state->count, 0);
}

static void the_context_is_told(void **ctx)
{
	struct state *state = *ctx;
	struct run_record *record = state->fixture.record;

	record->flags = RUN_SYSTEM;
	record->record.image.tgid = 77;
	record->record.tid = 78;
	RUN(state, "\x48\xff\xc0\x90", 2);
	for (size_t i = 0; i < state->count; i++) {
		const struct told *told = &state->told[i];

		assert_int_equal(told->facts.values[SELECTION_PID], 77);
		assert_int_equal(told->facts.values[SELECTION_TID], 78);
		expect(told, SELECTION_PPID, 1000 + RUN_SYSTEM_PPID, 64);
		expect(told, SELECTION_BLOCKED, 1000 + RUN_SYSTEM_BLOCKED, 64);
		expect_none(told, SELECTION_SYSCALL); /* not in the kernel */
		expect_none(told, SELECTION_USERSITE);
		expect_none(told, SELECTION_CALLER);
	}
	assert_int_equal(state->count, 3);
}

static void failures_of_the_callback_are_handed_on(void **ctx)
{
	struct state *state = *ctx;

	RUN(state, "\x48\xff\xc0\x90\x90", 3);
	assert_int_equal(state->count, 4);
	state->stop_after = 2;
	assert_int_equal(replay(state, state->fixture.record), -EPIPE);
	assert_int_equal(state->count, 2);
}

/* --- Damage ----------------------------------------------------------------------------------- */

static struct run_record *record_copy(const struct run_record *record)
{
	size_t size = RUN_RECORD_MAX;
	struct run_record *copy = mem_alloc(size);

	memcpy(copy, record, size);
	return copy;
}

static void refused(struct state *state, const struct run_record *damaged, const char *what)
{
	if (replay(state, damaged) != -EBADMSG)
		fail_msg("taken although %s", what);
	assert_int_equal(state->count, 0);
	assert_int_equal(state->end.mnemonic, 12345); /* untouched */
}

#define DAMAGE(what, change)                                                                       \
	do {                                                                                       \
		AUTO(free_ptr) struct run_record *damaged = record_copy(state->fixture.record);    \
		change;                                                                            \
		refused(state, damaged, what);                                                     \
	} while (0)

static void damaged_records_are_refused(void **ctx)
{
	struct state *state = *ctx;

	state->fixture.record->regs[UOP_RDI] = FIXTURE_DATA;
	state->fixture.data[0] = 7;
	/* mov rax, [rdi]; add rax, rcx; jmp; mov rdx, rax; inc rdx */
	RUN(state, "\x48\x8b\x07\x48\x01\xc8\xeb\x00\x48\x89\xc2\x48\xff\xc2", 4);
	DAMAGE("the hash is another", damaged->state_hash ^= 1);
	DAMAGE("a register is another", damaged->regs[UOP_RCX] ^= 1);
	DAMAGE("what was loaded is another", damaged->log[2] ^= 1);
	DAMAGE("what was loaded is missing", damaged->log[damaged->log_count] |= 4);
	DAMAGE("the log is cut", damaged->log_count--);
	DAMAGE("the log is cut", damaged->log_count = 1);
	DAMAGE("the log is empty", damaged->log_count = 0);
	DAMAGE("the log is too long", damaged->log_count++);
	DAMAGE("there is no such translation", damaged->log[1] = 99);
	DAMAGE("there is no such translation", damaged->log[1] = 0);
	DAMAGE("no instruction is there", damaged->log[1] |= 1ull << 32);
	DAMAGE("the instruction is another", damaged->log[1] |= 3ull << 32);
	DAMAGE("the block is elsewhere", damaged->log[0]++);
	DAMAGE("the run is elsewhere", damaged->pc++);
	DAMAGE("the run is longer", damaged->instructions++);
	DAMAGE("the run is shorter", damaged->instructions--);
	DAMAGE("it ended otherwise", damaged->end = UOP_END_DIVIDE);
	DAMAGE("it is said to have system values", damaged->flags |= RUN_SYSTEM);
	assert_int_equal(replay(state, state->fixture.record), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(results_and_operands),
		TEST(loads_and_stores),
		TEST(unknown_values_are_not_told),
		TEST(vectors),
		TEST(branches),
		TEST(loops),
		TEST(second_ones),
		TEST(second_addresses),
		TEST(strings),
		TEST(calls_and_returns),
		TEST(tail_calls),
		TEST(tail_calls_by_pointers),
		TEST(tail_calls_to_marked_functions),
		TEST(unknown_callers),
		TEST(calls_through_a_table),
		TEST(skipped_instructions_are_not_told),
		TEST(unfinished_instructions_are_not_told),
		TEST(the_context_is_told),
		TEST(failures_of_the_callback_are_handed_on),
		TEST(damaged_records_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
