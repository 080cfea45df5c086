// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts every value that a program computes, by stepping it through one call of a function.
 *
 *	values_counter count PROGRAM FUNCTION-ADDRESS	counts during the second call of the function
 *	values_counter run PROGRAM			becomes the program, in the same surroundings
 *
 * The program is started without an environment and at fixed addresses, so that pointers are the
 * same in each run. What an instruction writes is decoded with Zydis; what it wrote is read from
 * the registers and the memory of the program. Nothing of what is to be tested is used. Prints one
 * line for each value of each place:
 *
 *	item address caller value count		hexadecimal but for the item and the count
 *
 * address and caller are those of the file. The items:
 *	result		the first general or vector register written, but for the stack pointer, cut to its width; where
 *			nothing but flags is written, the first operand
 *	stored		what is written to memory, but for return addresses
 *	taken, target	of conditional branches; of indirect jumps, calls and returns
 *	arg0 .. arg5	registers where a function is entered, by the last byte of the call
 */
#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <Zydis/Zydis.h>

enum { SLOTS = 1 << 21, TEXT_MAX = 1 << 20, BREAKPOINT = 0xcc, ARGS = 6 };

enum item { RESULT, STORED, TAKEN, TARGET, ARG0, ITEMS = ARG0 + ARGS };

static const char *const item_names[ITEMS] = { "result", "stored", "taken", "target", "arg0",
					       "arg1",	 "arg2",   "arg3",  "arg4",   "arg5" };

struct count {
	uint64_t address, caller, value, count; /* count 0: free */
	enum item item;
};

/* What is to be looked at when an instruction has been stepped. */
struct plan {
	bool known;
	uint8_t length;
	const ZydisDecodedOperand *result; /* written */
	const ZydisDecodedOperand *left; /* of what only sets flags */
	const ZydisDecodedOperand *stored;
	bool conditional, indirect, call;
	ZydisDecodedInstruction instruction;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

struct registers {
	struct user_regs_struct general;
	struct user_fpregs_struct vector; /* only where a plan needs them */
};

static pid_t pid;
static uint64_t bias, text_start, text_end;
static struct plan *plans[TEXT_MAX]; /* by distance from text_start */
static struct count *counts;
static size_t counts_used;

static void die(const char *what)
{
	error(1, errno, "%s", what);
}

/* --- The program ------------------------------------------------------------------------------ */

static void become(char *program)
{
	char *arguments[] = { program, NULL }, *environment[] = { NULL };

	if (personality(ADDR_NO_RANDOMIZE) < 0)
		die("personality");
	execve(program, arguments, environment);
	die(program);
}

/* Stepping is several times faster when nobody has to be woken on another CPU. */
static void stay_here(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
}

static void wait_trap(void)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
		error(1, 0, "the program ended or got a signal: status %x", status);
}

static void start(char *program)
{
	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		become(program);
	}
	wait_trap();
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL);
}

static void maps_read(const char *program)
{
	char path[64], real[PATH_MAX], line[PATH_MAX + 128];
	bool first = true;
	FILE *maps;

	if (!realpath(program, real))
		die(program);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	if (!maps)
		die(path);
	while (fgets(line, sizeof(line), maps)) {
		uint64_t from, to, offset;
		char mode[8];

		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64, &from, &to, mode,
			   &offset) != 4 ||
		    !strstr(line, real))
			continue;
		if (first)
			bias = from - offset;
		first = false;
		if (mode[2] == 'x') {
			text_start = from;
			text_end = to;
		}
	}
	fclose(maps);
	if (text_end - text_start - 1 >= TEXT_MAX)
		error(1, 0, "%s has no text or too much of it", program);
}

static void memory_read(uint64_t address, void *ret, size_t size)
{
	struct iovec here = { ret, size }, there = { (void *)address, size };

	if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)size)
		die("memory of the program");
}

static void registers_read(struct registers *ret, bool vector)
{
	ptrace(PTRACE_GETREGS, pid, NULL, &ret->general);
	if (vector)
		ptrace(PTRACE_GETFPREGS, pid, NULL, &ret->vector);
}

static void step(void)
{
	if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL))
		die("step");
	wait_trap();
}

/* Runs to an address, from anywhere but there. */
static void run_to(uint64_t address)
{
	struct user_regs_struct regs;
	long word = ptrace(PTRACE_PEEKTEXT, pid, (void *)address, NULL);

	ptrace(PTRACE_POKETEXT, pid, (void *)address, (void *)((word & ~0xffL) | BREAKPOINT));
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	wait_trap();
	ptrace(PTRACE_POKETEXT, pid, (void *)address, (void *)word);
	ptrace(PTRACE_GETREGS, pid, NULL, &regs);
	regs.rip = address;
	ptrace(PTRACE_SETREGS, pid, NULL, &regs);
}

/* --- Counting --------------------------------------------------------------------------------- */

static void count(enum item item, uint64_t pc, uint64_t caller, uint64_t value)
{
	struct count wanted = { pc - bias, caller ? caller - bias : 0, value, 0, item };
	uint64_t slot = (pc * 31 + caller * 17 + item) * 0x9e3779b97f4a7c15u + value;

	for (slot = slot * 0x9e3779b97f4a7c15u >> 40;; slot++) {
		struct count *at = &counts[slot % SLOTS];

		if (!at->count) {
			if (++counts_used > SLOTS / 4 * 3)
				error(1, 0, "too many different values");
			*at = wanted;
		}
		if (at->address == wanted.address && at->caller == wanted.caller &&
		    at->value == value && at->item == item) {
			at->count++;
			return;
		}
	}
}

static bool is_vector(const ZydisDecodedOperand *operand)
{
	return operand && operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ZydisRegisterGetClass(operand->reg.value) == ZYDIS_REGCLASS_XMM;
}

/* A register that values are told of. */
static bool is_plain_register(const ZydisDecodedOperand *operand)
{
	ZydisRegister whole =
		ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand->reg.value);

	return ZydisRegisterGetClass(whole) == ZYDIS_REGCLASS_GPR64 && whole != ZYDIS_REGISTER_RSP;
}

static void operand_plan(struct plan *plan, const ZydisDecodedOperand *operand)
{
	bool written = operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;

	if (!written)
		return;
	if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && !plan->result &&
	    (is_plain_register(operand) || is_vector(operand)))
		plan->result = operand;
	if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY && !plan->stored)
		plan->stored = operand;
}

static const struct plan *plan_at(uint64_t pc)
{
	struct plan **slot = &plans[pc - text_start];
	uint8_t code[ZYDIS_MAX_INSTRUCTION_LENGTH];
	ZydisDecoder decoder;
	struct plan *plan = *slot;

	if (plan)
		return plan;
	plan = *slot = calloc(1, sizeof(*plan));
	memory_read(pc, code, sizeof(code));
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, sizeof(code), &plan->instruction,
						 plan->operands)))
		error(1, 0, "%" PRIx64 " cannot be decoded", pc);
	plan->known = true;
	plan->length = plan->instruction.length;
	plan->call = plan->instruction.meta.category == ZYDIS_CATEGORY_CALL;
	plan->conditional = plan->instruction.meta.category == ZYDIS_CATEGORY_COND_BR;
	plan->indirect =
		plan->instruction.meta.category == ZYDIS_CATEGORY_RET ||
		((plan->call || plan->instruction.meta.category == ZYDIS_CATEGORY_UNCOND_BR) &&
		 plan->operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE);
	if (plan->instruction.meta.category == ZYDIS_CATEGORY_STRINGOP)
		return plan; /* counted for none of the items */
	for (int i = 0; i < plan->instruction.operand_count; i++)
		operand_plan(plan, &plan->operands[i]);
	if (plan->call)
		plan->stored = NULL;
	if (!plan->result && !plan->stored && plan->instruction.cpu_flags &&
	    plan->instruction.cpu_flags->modified && plan->instruction.operand_count_visible)
		plan->left = &plan->operands[0];
	return plan;
}

static uint64_t register_get(const struct registers *registers, ZydisRegister reg)
{
	const struct user_regs_struct *general = &registers->general;
	const uint64_t numbered[] = { general->rax, general->rcx, general->rdx, general->rbx,
				      general->rsp, general->rbp, general->rsi, general->rdi,
				      general->r8,  general->r9,  general->r10, general->r11,
				      general->r12, general->r13, general->r14, general->r15 };
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
	uint64_t value = numbered[ZydisRegisterGetId(whole) & 15];

	return reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH ? value >> 8 : value;
}

static uint64_t cut(uint64_t value, unsigned bits)
{
	return bits < 64 ? value & ~(~0ull << bits) : value;
}

/* regs: before the instruction, since it may change what its address is made of. */
static uint64_t address_of(const struct plan *plan, const ZydisDecodedOperand *operand,
			   const struct registers *regs)
{
	const ZydisDecodedOperandMem *memory = &operand->mem;
	uint64_t address = memory->disp.has_displacement ? (uint64_t)memory->disp.value : 0;

	if (memory->base == ZYDIS_REGISTER_RIP)
		address += regs->general.rip + plan->length;
	else if (memory->base != ZYDIS_REGISTER_NONE)
		address += register_get(regs, memory->base);
	if (memory->index != ZYDIS_REGISTER_NONE)
		address += register_get(regs, memory->index) * memory->scale;
	if (plan->instruction.meta.category == ZYDIS_CATEGORY_PUSH)
		address -= operand->size / 8;
	return address;
}

static uint64_t operand_get(const struct plan *plan, const ZydisDecodedOperand *operand,
			    const struct registers *then, const struct registers *before)
{
	uint64_t value = 0;

	if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY)
		memory_read(address_of(plan, operand, before), &value,
			    operand->size > 64 ? 8 : operand->size / 8);
	else if (is_vector(operand))
		memcpy(&value, &then->vector.xmm_space[4 * ZydisRegisterGetId(operand->reg.value)],
		       8);
	else
		value = cut(register_get(then, operand->reg.value), operand->size);
	return value;
}

static void entry_count(uint64_t caller, const struct user_regs_struct *regs)
{
	const uint64_t arguments[ARGS] = { regs->rdi, regs->rsi, regs->rdx,
					   regs->rcx, regs->r8,	 regs->r9 };

	for (int i = 0; i < ARGS; i++)
		count(ARG0 + i, regs->rip, caller, arguments[i]);
}

/* One instruction of the program's own. */
static void step_count(struct registers *regs)
{
	uint64_t pc = regs->general.rip;
	const struct plan *plan = plan_at(pc);
	struct registers before;

	if (is_vector(plan->left))
		registers_read(regs, true);
	before = *regs;
	if (plan->left)
		count(RESULT, pc, 0, operand_get(plan, plan->left, &before, &before));
	step();
	registers_read(regs, is_vector(plan->result));
	if (plan->result)
		count(RESULT, pc, 0, operand_get(plan, plan->result, regs, &before));
	if (plan->stored)
		count(STORED, pc, 0, operand_get(plan, plan->stored, regs, &before));
	if (plan->conditional)
		count(TAKEN, pc, 0, regs->general.rip != pc + plan->length);
	if (plan->indirect)
		count(TARGET, pc, 0, regs->general.rip);
	if (plan->call)
		entry_count(pc + plan->length - 1, &regs->general);
}

/* The call that has just been entered, to its return. */
static uint64_t call_count(void)
{
	struct registers regs;
	uint64_t stack, steps;

	registers_read(&regs, false);
	stack = regs.general.rsp;
	for (steps = 0; regs.general.rsp <= stack; steps++) {
		if (regs.general.rip - text_start < text_end - text_start) {
			step_count(&regs);
		} else {
			step();
			registers_read(&regs, false);
		}
	}
	return steps;
}

static void counts_print(void)
{
	for (size_t i = 0; i < SLOTS; i++) {
		const struct count *at = &counts[i];

		if (at->count)
			printf("%s %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIu64 "\n",
			       item_names[at->item], at->address, at->caller, at->value, at->count);
	}
}

int main(int argc, char **argv)
{
	uint64_t function;

	if (argc == 3 && !strcmp(argv[1], "run"))
		become(argv[2]);
	if (argc != 4 || strcmp(argv[1], "count"))
		error(2, 0, "usage: values_counter count PROGRAM ADDRESS | run PROGRAM");
	counts = calloc(SLOTS, sizeof(*counts));
	if (!counts)
		die("memory");
	stay_here();
	start(argv[2]);
	maps_read(argv[2]);
	function = strtoull(argv[3], NULL, 16) + bias;
	run_to(function);
	step();
	run_to(function);
	fprintf(stderr, "%" PRIu64 " steps\n", call_count());
	counts_print();
	return 0;
}
