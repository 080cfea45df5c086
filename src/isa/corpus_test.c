// SPDX-License-Identifier: BSD-2-Clause
// Serves: V2, V5.
/*
 * Every lifted form against the processor: instructions made of random bytes, with random
 * registers, flags and memory, are run once by the interpreter and once for real, one step of a
 * traced child.
 *
 * The encodings are random below a table of opcode maps (corpus_bytes.h), so that all widths,
 * prefixes, addressing modes and odd encodings come up; the registers an address is made of are
 * then solved for, so that it falls into the data area. A mnemonic that has a rule and never ran
 * fails the test. Cases that once went wrong are in a table.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "isa/corpus_bytes.h"
#include "isa/lift.h"
#include "isa/lift_private.h"
#include "isa/oracle.h"

#define CODE_ADDRESS 0x20000000ull
#define DATA_ADDRESS 0x20100000ull

enum {
	CODE_SIZE = 4096,
	DATA_SIZE = 65536,
	CASES = 420000,
	ROUNDS_MAX = 6, /* of as many cases */
	RUNS_MIN = 12, /* of each mnemonic */
	MISMATCHES_SHOWN = 10,
	REPEAT_MAX = 100,
	OLD_ROUNDS = 50,
	SEED = 20260101,
	FLAGS_UNWANTED = 1 << 8 | 1 << 18, /* TF, AC */
};

/*
 * The code is taken for that of a module linked at address 0, lower or (modulo 2^64) higher than it
 * runs.
 */
static const uint64_t biases[] = { 0, CODE_ADDRESS, 0x1ffe1000, 0x7f1234567000 };

enum {
	BIAS_COUNT = sizeof(biases) / sizeof(biases[0]),
};

struct bench {
	pid_t child;
	uint8_t *code;
	uint8_t *data;
	uint8_t *before; /* data as it was */
	struct uop_machine *machine;
	uint64_t random;
	struct oracle_registers base; /* of the child, for segments and the like */
	uint32_t runs[ZYDIS_MNEMONIC_MAX_VALUE + 1]; /* that left nothing unknown */
	bool rare_only; /* cases of mnemonics that ran often enough are passed over */
	uint32_t refused[ZYDIS_MNEMONIC_MAX_VALUE + 1]; /* the processor does not know it */
	/* runs of what is computed that left a register or stored bytes unknown */
	uint32_t unknown;
	uint32_t total;
	uint32_t faults;
	uint32_t mismatches;
};

/* Values at the edges are where flags change. */
static uint64_t interesting(struct bench *bench)
{
	static const uint64_t edges[] = {
		0,	     1,		2,	    0x7f,	    0x80,	0xff,
		0x7fff,	     0x8000,	0xffff,	    0x7fffffff,	    0x80000000, 0xffffffff,
		0x100000000, INT64_MAX, 1ull << 63, UINT64_MAX - 1, UINT64_MAX, 0x123456789ab,
		0xff00ff00,  16
	};
	uint64_t random = corpus_random(&bench->random);

	switch (random & 7) {
	case 0:
	case 1:
	case 2:
		return edges[(random >> 8) % (sizeof(edges) / sizeof(edges[0]))];
	case 3:
		return random >> 8 & 0xff;
	case 4:
		return DATA_ADDRESS + (random >> 8) % DATA_SIZE;
	default:
		return corpus_random(&bench->random);
	}
}

static size_t read_memory(void *context, uint64_t address, void *ret, size_t size)
{
	struct bench *bench = context;

	if (address >= DATA_ADDRESS && address < DATA_ADDRESS + DATA_SIZE) {
		size_t left = DATA_ADDRESS + DATA_SIZE - address;

		size = size < left ? size : left;
		memcpy(ret, bench->data + (address - DATA_ADDRESS), size);
		return size;
	}
	if (address >= CODE_ADDRESS && address < CODE_ADDRESS + CODE_SIZE) {
		size_t left = CODE_ADDRESS + CODE_SIZE - address;

		size = size < left ? size : left;
		memcpy(ret, bench->code + (address - CODE_ADDRESS), size);
		return size;
	}
	return 0;
}

static void *map_at_address(uint64_t address, size_t size, int protection)
{
	void *place = mmap((void *)address, size, protection,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	assert_ptr_equal(place, (void *)address);
	return place;
}

static void bench_init(struct bench *bench)
{
	int status;

	memset(bench, 0, sizeof(*bench));
	bench->random = SEED;
	bench->code = map_at_address(CODE_ADDRESS, CODE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC);
	bench->data = map_at_address(DATA_ADDRESS, DATA_SIZE, PROT_READ | PROT_WRITE);
	bench->before = calloc(1, DATA_SIZE);
	bench->machine = uop_machine_create(read_memory, bench);
	bench->child = fork();
	if (bench->child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		for (;;)
			raise(SIGSTOP);
	}
	assert_int_equal(waitpid(bench->child, &status, 0), bench->child);
	assert_int_equal(oracle_registers_get(bench->child, &bench->base), 0);
}

static void bench_deinit(struct bench *bench)
{
	kill(bench->child, SIGKILL);
	waitpid(bench->child, NULL, 0);
	uop_machine_destroy(bench->machine);
	free(bench->before);
	munmap(bench->code, CODE_SIZE);
	munmap(bench->data, DATA_SIZE);
}

static void registers_random(struct bench *bench, struct user_regs_struct *regs)
{
	*regs = bench->base.general;
	regs->orig_rax = -1;
	regs->rax = interesting(bench);
	regs->rbx = interesting(bench);
	regs->rcx = interesting(bench);
	regs->rdx = interesting(bench);
	regs->r8 = interesting(bench);
	regs->r9 = interesting(bench);
	regs->r10 = interesting(bench);
	regs->r11 = interesting(bench);
	regs->r12 = interesting(bench);
	regs->r13 = interesting(bench);
	regs->r14 = interesting(bench);
	regs->r15 = interesting(bench);
	regs->rsp = DATA_ADDRESS + DATA_SIZE / 2 + corpus_random(&bench->random) % 1024;
	regs->rbp = DATA_ADDRESS + DATA_SIZE / 2 + corpus_random(&bench->random) % 1024;
	regs->rsi = DATA_ADDRESS + DATA_SIZE / 2 + corpus_random(&bench->random) % 1024;
	regs->rdi = DATA_ADDRESS + DATA_SIZE / 2 + corpus_random(&bench->random) % 1024;
	regs->fs_base = corpus_random(&bench->random) % 4096;
	regs->gs_base = corpus_random(&bench->random) % 4096;
	regs->eflags =
		(bench->base.general.eflags & ~(uint64_t)(UOP_STATUS | UOP_DF | FLAGS_UNWANTED)) |
		(corpus_random(&bench->random) & (UOP_STATUS | UOP_DF));
}

/* Words of vectors are often those of another: lanes are to be equal now and then. */
static void vectors_random(struct bench *bench, struct oracle_registers *regs)
{
	memcpy(regs->xsave, bench->base.xsave, bench->base.xsave_size);
	regs->xsave_size = bench->base.xsave_size;
	regs->features = bench->base.features;
	for (unsigned i = 0; i < 32; i++) {
		uint64_t random = corpus_random(&bench->random);

		for (unsigned k = 0; k < UOP_VECTOR_WORDS; k++)
			regs->vectors[i][k] = i && random >> k & 1
						      ? regs->vectors[(random >> 8) % i][k]
						      : interesting(bench);
	}
	for (unsigned i = 0; i < 8; i++)
		regs->masks[i] = interesting(bench);
}

static unsigned long long *register_of(struct user_regs_struct *regs, ZydisRegister reg)
{
	unsigned long long *const all[16] = { &regs->rax, &regs->rcx, &regs->rdx, &regs->rbx,
					      &regs->rsp, &regs->rbp, &regs->rsi, &regs->rdi,
					      &regs->r8,  &regs->r9,  &regs->r10, &regs->r11,
					      &regs->r12, &regs->r13, &regs->r14, &regs->r15 };

	return all[lift_gpr(reg)];
}

/*
 * Changes registers, or the displacement in the code, so that the operand's address lies within the
 * data.
 */
static void aim(struct bench *bench, struct user_regs_struct *regs,
		const ZydisDecodedInstruction *insn, const ZydisDecodedOperandMem *mem,
		uint8_t *code)
{
	uint64_t random = corpus_random(&bench->random);
	uint64_t offset = random & 0x10000 ? random % 4096 : random % 4096 & ~15ull;
	uint64_t target = DATA_ADDRESS + DATA_SIZE / 2 + offset;
	uint64_t scale = mem->scale ? mem->scale : 1, place = target - mem->disp.value;
	bool has_index = lift_is_gpr(mem->index);

	if (lift_is_gpr(mem->base) && has_index && lift_gpr(mem->base) == lift_gpr(mem->index)) {
		*register_of(regs, mem->base) = place / (scale + 1);
	} else if (lift_is_gpr(mem->base)) {
		uint64_t index = corpus_random(&bench->random) % 128 - 64;

		if (has_index)
			*register_of(regs, mem->index) = index;
		*register_of(regs, mem->base) = place - (has_index ? index * scale : 0);
	} else if (has_index) {
		*register_of(regs, mem->index) = place / scale;
	} else {
		int32_t disp = target;

		if (mem->base == ZYDIS_REGISTER_RIP || mem->base == ZYDIS_REGISTER_EIP)
			disp = target - (regs->rip + insn->length);
		if (insn->raw.disp.size == 32)
			memcpy(code + insn->raw.disp.offset, &disp, sizeof(disp));
	}
}

/* Values without which an instruction would nearly always fault, or run for ever. */
static void tame(struct bench *bench, struct user_regs_struct *regs,
		 const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operands)
{
	uint64_t random = corpus_random(&bench->random);

	if (insn->meta.category == ZYDIS_CATEGORY_STRINGOP)
		regs->rcx = random % 24;
	if (insn->meta.category == ZYDIS_CATEGORY_COND_BR && random & 1)
		regs->rcx = random >> 1 & 3;
	if ((insn->mnemonic == ZYDIS_MNEMONIC_DIV || insn->mnemonic == ZYDIS_MNEMONIC_IDIV) &&
	    random % 4) {
		regs->rdx = random % 4 == 1 ? 0 : random % 4 == 2 ? (uint64_t)-1 : regs->rdx % 1000;
		if (insn->operand_width == 8)
			regs->rax &= ~0xf000ull;
	}
	if (insn->mnemonic == ZYDIS_MNEMONIC_XLAT)
		regs->rbx = regs->rsi;
	if (insn->mnemonic >= ZYDIS_MNEMONIC_BT && insn->mnemonic <= ZYDIS_MNEMONIC_BTS &&
	    operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER && lift_is_gpr(operands[1].reg.value))
		*register_of(regs, operands[1].reg.value) = random % 32768 - 16384;
	if ((insn->mnemonic == ZYDIS_MNEMONIC_CMPXCHG8B ||
	     insn->mnemonic == ZYDIS_MNEMONIC_CMPXCHG16B) &&
	    random & 1)
		memset(bench->data + DATA_SIZE / 2, 0, 8192);
	if (insn->mnemonic == ZYDIS_MNEMONIC_CMPXCHG && random & 1)
		regs->rax = *register_of(regs, operands[1].reg.value);
}

/* Not run: what would take the child out of our hands. */
static bool is_dangerous(const ZydisDecodedInstruction *insn)
{
	return insn->mnemonic == ZYDIS_MNEMONIC_TPAUSE || insn->mnemonic == ZYDIS_MNEMONIC_UMWAIT ||
	       insn->meta.isa_ext == ZYDIS_ISA_EXT_X87;
}

/* Steps the child over the instruction at regs; the signal that stopped it. */
static int step_child(struct bench *bench, const struct oracle_registers *regs, bool repeats,
		      struct oracle_registers *ret)
{
	int status;

	assert_int_equal(oracle_registers_set(bench->child, regs), 0);
	for (int i = 0; i < REPEAT_MAX; i++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, bench->child, NULL, NULL), 0);
		assert_int_equal(waitpid(bench->child, &status, 0), bench->child);
		assert_true(WIFSTOPPED(status));
		assert_int_equal(oracle_registers_get(bench->child, ret), 0);
		if (WSTOPSIG(status) != SIGTRAP || ret->general.rip != regs->general.rip ||
		    !repeats)
			break;
	}
	return WSTOPSIG(status);
}

/* Whether the data is as it was, but for what the machine stored. */
static bool memory_holds(struct bench *bench, bool *ret_unknown, char text[ORACLE_TEXT_MAX])
{
	const struct uop_machine *machine = bench->machine;

	for (size_t i = 0; i < machine->overlay_count; i++) {
		const struct uop_word *word = &machine->overlay[i];

		for (int at = 0; at < 8; at++) {
			size_t offset = word->address + at - DATA_ADDRESS;

			if (!(word->present >> at & 1) || offset >= DATA_SIZE)
				continue;
			*ret_unknown |= word->unknown >> at & 1;
			bench->before[offset] = word->unknown >> at & 1 ? bench->data[offset]
									: word->data >> at * 8;
		}
	}
	for (size_t i = memcmp(bench->before, bench->data, DATA_SIZE) ? 0 : DATA_SIZE;
	     i < DATA_SIZE; i++) {
		if (bench->before[i] == bench->data[i])
			continue;
		snprintf(text, ORACLE_TEXT_MAX, "byte at %llx is %x, claimed %x", DATA_ADDRESS + i,
			 bench->data[i], bench->before[i]);
		return false;
	}
	return true;
}

static void report(struct bench *bench, const uint8_t *code, uint64_t pc, const char *what)
{
	char text[ORACLE_TEXT_MAX];

	if (bench->mismatches++ >= MISMATCHES_SHOWN)
		return;
	oracle_describe(code, 16, pc, text);
	print_message("%s: %s\n", text, what);
}

/* The pushed trap flag is the tracer's doing. */
static void pushed_trap_flag_clear(struct bench *bench, ZydisMnemonic mnemonic,
				   const struct user_regs_struct *after)
{
	if (mnemonic == ZYDIS_MNEMONIC_PUSHF || mnemonic == ZYDIS_MNEMONIC_PUSHFQ)
		bench->data[after->rsp + 1 - DATA_ADDRESS] &= ~1;
}

static bool is_privileged(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED ||
	       insn->mnemonic == ZYDIS_MNEMONIC_CLI || insn->mnemonic == ZYDIS_MNEMONIC_STI;
}

/*
 * A fault must be a division's that the machine saw too, or be due to an access or a target
 * outside.
 */
static void judge_fault(struct bench *bench, uint64_t pc, const uint8_t *code,
			const ZydisDecodedInstruction *insn, int signal, enum uop_end end,
			uint64_t next)
{
	if (insn->meta.isa_ext != ZYDIS_ISA_EXT_BASE || is_privileged(insn))
		return;
	if ((signal == SIGFPE) != (end == UOP_END_DIVIDE))
		report(bench, code, pc, "divides otherwise");
	else if (signal == SIGSEGV && next < 1ull << 47 && bench->machine->state.misses == 0 &&
		 bench->machine->overlay_count == 0)
		report(bench, code, pc, "faults");
}

/* Whether the instruction's results are to be known. */
static bool computes(const ZydisDecodedInstruction *insn)
{
	struct lift_rule rule = lift_rule_get(insn->mnemonic);

	return rule.lift && rule.lift != lift_opaque;
}

static unsigned unknown_count(const struct oracle_claim *claim, unsigned registers)
{
	unsigned count = 0;

	for (unsigned i = 0; i < registers; i++)
		count += claim->unknown[i] && !(i >= UOP_T0 && i <= UOP_T_LAST);
	return count;
}

/* Runs one instruction both ways. */
static void run_case(struct bench *bench, const struct oracle_registers *regs, const uint8_t *code,
		     const ZydisDecodedInstruction *insn)
{
	const uint64_t pc = regs->general.rip;
	static struct oracle_registers after; /* large */
	struct oracle_claim claim;
	char text[ORACLE_TEXT_MAX];
	bool unknown = false;
	enum uop_end end;
	int signal;

	bench->machine->bias = biases[corpus_random(&bench->random) % BIAS_COUNT];
	oracle_start(bench->machine, regs, true);
	end = uop_machine_next(bench->machine);
	if (end != UOP_END_NONE && end != UOP_END_DIVIDE)
		return;
	oracle_claim_take(bench->machine, pc, &claim);
	memcpy(bench->before, bench->data, DATA_SIZE);
	signal = step_child(bench, regs, insn->meta.category == ZYDIS_CATEGORY_STRINGOP, &after);
	bench->total++;
	/*
	 * Of the system's flags ptrace sets only some: the others are as the last popf left them.
	 */
	bench->base.general.eflags = after.general.eflags;
	if (signal != SIGTRAP || end == UOP_END_DIVIDE) {
		bench->faults++;
		bench->refused[insn->mnemonic] += signal == SIGILL || is_privileged(insn);
		judge_fault(bench, pc, code, insn, signal, end, claim.next);
		return;
	}
	pushed_trap_flag_clear(bench, insn->mnemonic, &after.general);
	if (!oracle_claim_holds(&claim, &after, text))
		report(bench, code, pc, text);
	else if (!memory_holds(bench, &unknown, text))
		report(bench, code, pc, text);
	bench->runs[insn->mnemonic] += !unknown && !unknown_count(&claim, UOP_VECTORS_END);
	if (computes(insn))
		bench->unknown += unknown || unknown_count(&claim, UOP_T0);
}

static void try_case(struct bench *bench, const uint8_t bytes[16])
{
	uint64_t pc = CODE_ADDRESS + corpus_random(&bench->random) % (CODE_SIZE - 64);
	uint8_t *code = bench->code + (pc - CODE_ADDRESS);
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	static struct oracle_registers regs; /* large */
	ZydisDecoder decoder;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, 16, &insn, operands)) ||
	    is_dangerous(&insn))
		return;
	if (bench->rare_only && bench->runs[insn.mnemonic] >= RUNS_MIN)
		return;
	for (int i = 0; i < insn.operand_count; i++)
		lift_repair(&insn, &operands[i]);
	memcpy(code, bytes, 16);
	for (int i = 0; i < 64; i++) {
		uint64_t value = interesting(bench);

		memcpy(bench->data + DATA_SIZE / 2 + corpus_random(&bench->random) % 8192, &value,
		       8);
	}
	vectors_random(bench, &regs);
	registers_random(bench, &regs.general);
	regs.general.rip = pc;
	tame(bench, &regs.general, &insn, operands);
	for (int i = 0; i < insn.operand_count_visible; i++)
		if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			aim(bench, &regs.general, &insn, &operands[i].mem, code);
	run_case(bench, &regs, code, &insn);
}

/*
 * Mnemonics with a rule that computes something, and how many of them did not run often enough. A
 * mnemonic that this CPU refuses does not count: which they are differs from CPU to CPU.
 */
static unsigned rules_missed(struct bench *bench, bool say, unsigned *ret_rules)
{
	unsigned missed = 0;

	*ret_rules = 0;
	for (unsigned i = 1; i <= ZYDIS_MNEMONIC_MAX_VALUE; i++) {
		struct lift_rule rule = lift_rule_get(i);

		if (!rule.lift || rule.lift == lift_end || rule.lift == lift_opaque ||
		    rule.lift == lift_nop)
			continue;
		++*ret_rules;
		if (bench->runs[i] >= RUNS_MIN || bench->refused[i])
			continue;
		if (say)
			print_message("%s was followed %u times only\n", lift_mnemonic(i),
				      bench->runs[i]);
		missed++;
	}
	return missed;
}

static void random_forms(void **state)
{
	struct bench *bench = *state;
	uint8_t bytes[16];
	unsigned rules, missed;

	/* Rare encodings need more cases on the CPUs that have them. */
	for (int round = 0; round < ROUNDS_MAX; round++) {
		for (int i = 0; i < CASES; i++) {
			corpus_bytes(&bench->random, bytes);
			try_case(bench, bytes);
		}
		if (!rules_missed(bench, false, &rules))
			break;
		bench->rare_only = true;
	}
	missed = rules_missed(bench, true, &rules);
	print_message("seed %d: %u instructions of %u mnemonics compared, %u faulted, %u left "
		      "something unknown, %u mismatches\n",
		      SEED, bench->total - bench->faults, rules, bench->faults, bench->unknown,
		      bench->mismatches);
	assert_int_equal(bench->mismatches, 0);
	assert_int_equal(missed, 0);
	assert_true(bench->unknown < bench->total / 50);
}

/* Each was wrong once. What went wrong is said beside it. */
static const struct {
	const char *why;
	uint8_t bytes[16];
} old_cases[] = {
	{ "AMD's branches with an operand-size prefix go to 16 bits",
	  { 0x66, 0x0f, 0x84, 0x13, 0xf1 } },
	{ "so do its returns", { 0x66, 0xc2, 0xec, 0x91 } },
	{ "but not with REX.W", { 0x66, 0x66, 0x48, 0xe8, 0x10, 0, 0, 0 } },
	{ "a repeat prefix replaces the condition", { 0xf2, 0xe1, 0xc6 } },
	{ "bsf of 0 keeps the upper half on AMD", { 0x0f, 0xbc, 0xca } },
	{ "cmpxchg of a register that differs keeps its upper half", { 0x0f, 0xb1, 0xeb } },
	{ "the destination is the accumulator", { 0x0f, 0xb0, 0xf0 } },
	{ "pause with REX.B is xchg r8, rax", { 0xf3, 0x4f, 0x90 } },
	{ "vtestpd clears the flags that it does not compute", { 0xc4, 0xe2, 0x79, 0x0f, 0xc0 } },
	{ "no vector is written, but a mask", { 0x62, 0xf1, 0x7d, 0x08, 0x75, 0xc0 } },
	{ "no base, although REX.B is set",
	  { 0x67, 0x4d, 0x8b, 0x0c, 0xbd, 0x93, 0x9c, 0x30, 0x45 } },
};

static void old_mistakes(void **state)
{
	struct bench *bench = *state;

	for (size_t i = 0; i < sizeof(old_cases) / sizeof(old_cases[0]); i++) {
		uint32_t before = bench->mismatches;

		for (int round = 0; round < OLD_ROUNDS; round++)
			try_case(bench, old_cases[i].bytes);
		if (bench->mismatches != before)
			print_message("again: %s\n", old_cases[i].why);
	}
	assert_int_equal(bench->mismatches, 0);
}

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	bench_init(bench);
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	bench_deinit(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(old_mistakes),
		cmocka_unit_test(random_forms),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
