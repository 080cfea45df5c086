// SPDX-License-Identifier: BSD-2-Clause
/*
 * Instructions whose copy would behave differently from the original, and programs that single-step
 * themselves.
 *
 * Some are emulated here: wrgsbase, popf that sets the trap flag, xbegin. The others are
 * single-stepped natively, in the program's own code and with the program's gs: the trap flag is
 * set, and the trap that follows brings the thread back into the engine. That is done for far
 * jumps, iretq, loads of gs, and instructions that the decoder does not know. If the instruction
 * faults instead, the signal of the fault brings the thread back.
 *
 * A program that has set the trap flag itself is run natively, instruction by instruction, as the
 * processor would: each trap is a signal for the program, whose handler runs in the cache. A system
 * call it makes is done by the engine all the same.
 *
 * Invariants
 * 1. The trap flag is never set in the cache or in the engine.
 * 2. While a thread is stepped (STEPPING), the kernel has all signals blocked but those of faults,
 *    and a handler of ours for SIGTRAP. The program's mask is thread->step_mask.
 */
#include "engine/build.h"
#include "engine/sys.h"

enum {
	INSTRUCTION_BYTES = 15,
	FLAGS_POPPED = 0x244dd5, /* that popf changes in user mode */
	FLAG_ALIGNMENT = 0x40000,
	RTM = 1 << 11, /* cpuid 7, ebx */
};

/* The kernel's headers of signals do not go together with those that Zydis includes. */
enum { BREAK_TRAP = 1, TRACE_TRAP = 2, ILL = 4, TRAP = 5, BUS = 7, FPE = 8, SEGV = 11 };

#define SYNCHRONOUS                                                                                \
	(1ull << (SEGV - 1) | 1ull << (BUS - 1) | 1ull << (ILL - 1) | 1ull << (FPE - 1) |          \
	 1ull << (TRAP - 1))

static uint32_t steppers; /* threads for which SIGTRAP has our handler */

/* The instruction at thread->pc. */
struct instruction {
	uint64_t pc;
	uint8_t bytes[INSTRUCTION_BYTES];
	size_t size; /* bytes that there are */
	bool known;
	ZydisDecodedInstruction decoded;
};

static long decode(void *context, void *unused)
{
	struct instruction *insn = context;

	insn->known = instruction_decode(insn->bytes, insn->size, &insn->decoded);
	return 0;
}

/* False: there is no code, or it cannot be read. */
static bool instruction_read(uint64_t pc, struct instruction *ret)
{
	*ret = (struct instruction){ .pc = pc };
	engine_lock();
	ret->size = code_read(pc, ret->bytes, sizeof(ret->bytes));
	if (ret->size)
		guarded_call(decode, ret, NULL);
	engine_unlock();
	return ret->size > 0;
}

/* --- Steps ------------------------------------------------------------------------------- */

static void traps_take(void)
{
	engine_lock();
	if (!steppers++)
		signal_take_traps();
	engine_unlock();
}

static void traps_give(struct thread *thread)
{
	engine_lock();
	if (!--steppers)
		signal_give_traps(thread);
	engine_unlock();
}

static bool is_iret(const struct instruction *insn)
{
	return insn->known && insn->decoded.opcode == 0xcf &&
	       insn->decoded.meta.category == ZYDIS_CATEGORY_RET;
}

/* Runs one instruction natively. Comes back here only if a signal is waiting. */
static void step(struct thread *thread, const struct instruction *insn)
{
	uint64_t during = ~SYNCHRONOUS;

	thread->step_mask = signal_close();
	if (thread->pending) {
		signal_stay_blocked(thread);
		return;
	}
	traps_take();
	thread->step_breaks = insn->known && insn->decoded.mnemonic == ZYDIS_MNEMONIC_INT1;
	thread_become(thread, is_iret(insn) ? THREAD_STEPPING_RETURN : THREAD_STEPPING);
	signal_open(during);
	native_enter(thread, thread->flags | FLAG_TRAP);
}

/*
 * Some hypervisors lose the bit by which the kernel knows a step, when an interrupt comes at the
 * same time: the trap then has the code of int1, which only int1 itself should have.
 */
static bool is_step_code(const struct thread *thread, int code)
{
	return code == TRACE_TRAP || (code == BREAK_TRAP && !thread->step_breaks);
}

bool step_end(struct thread *thread, int number, int code)
{
	bool over = number == TRAP && is_step_code(thread, code);

	if (!thread_is_stepping(thread))
		return false;
	/*
	 * Flags that a return took from the stack are the program's, with the trap flag or without.
	 */
	if (thread->state == THREAD_STEPPING || !over)
		thread->flags &= ~(uint64_t)FLAG_TRAP;
	thread_become(thread, THREAD_INSIDE);
	traps_give(thread);
	return over;
}

/* The program's own trap flag is set. Comes back after a system call. */
void step_program(struct thread *thread)
{
	struct instruction insn;

	if (instruction_read(thread->pc, &insn) && insn.known &&
	    insn.decoded.mnemonic == ZYDIS_MNEMONIC_SYSCALL) {
		thread->pc += insn.decoded.length;
		syscall_run(thread, (uint32_t)insn.decoded.length);
		signal_check(thread);
		return;
	}
	native_go(thread, ENGINE_LEAVE_INSTRUCTION);
}

/* --- Instructions ------------------------------------------------------------------------ */

static unsigned register_of(const ZydisDecodedInstruction *insn)
{
	return insn->raw.modrm.rm | (unsigned)insn->raw.rex.B << 3;
}

bool special_is_address(uint64_t number)
{
	return (uint64_t)((int64_t)(number << 16) >> 16) == number;
}

static bool wrgsbase_do(struct thread *thread, const ZydisDecodedInstruction *insn)
{
	uint64_t base = thread->regs[register_of(insn)];

	if (!insn->raw.rex.W)
		base = (uint32_t)base;
	if (!special_is_address(base))
		return false; /* let it have its fault */
	thread->gs = base;
	return true;
}

/*
 * The fragment has found the trap flag on the stack. False: it faults, and comes back with its
 * signal.
 */
static bool popf_do(struct thread *thread, const ZydisDecodedInstruction *insn)
{
	size_t size = insn->operand_width == 16 ? 2 : 8;
	uint64_t popped = 0, changed = size == 2 ? FLAGS_POPPED & 0xffff : FLAGS_POPPED;

	if (thread->flags & FLAG_ALIGNMENT && thread->regs[RSP] % size)
		return false;
	if (!user_read(&popped, thread->regs[RSP], size))
		return false;
	thread->flags = (thread->flags & ~changed) | (popped & changed);
	thread->regs[RSP] += size;
	return true;
}

/* A transaction may always fail; this one does, at once. */
static bool xbegin_do(struct thread *thread, const ZydisDecodedInstruction *insn)
{
	uint32_t a = 7, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	if (!(b & RTM))
		return false;
	thread->regs[RAX] = 0;
	thread->pc += (uint64_t)insn->raw.imm[0].value.s;
	return true;
}

static bool emulate(struct thread *thread, const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_WRGSBASE:
		return wrgsbase_do(thread, insn);
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
		return popf_do(thread, insn);
	case ZYDIS_MNEMONIC_XBEGIN:
		return xbegin_do(thread, insn);
	default:
		return false;
	}
}

/* System calls that take the thread elsewhere: stepping over them would lose it. */
static bool is_departure(const struct instruction *insn)
{
	return insn->known && (insn->decoded.mnemonic == ZYDIS_MNEMONIC_SYSENTER ||
			       insn->decoded.mnemonic == ZYDIS_MNEMONIC_POPF ||
			       insn->decoded.mnemonic == ZYDIS_MNEMONIC_POPFQ ||
			       insn->decoded.mnemonic == ZYDIS_MNEMONIC_INT);
}

void special_run(struct thread *thread)
{
	struct instruction insn;

	if (!instruction_read(thread->pc, &insn))
		native_go(thread, ENGINE_LEAVE_NOWHERE);
	else if (insn.known && emulate(thread, &insn.decoded))
		thread->pc += insn.decoded.length;
	else if (is_departure(&insn))
		native_go(thread, ENGINE_LEAVE_INSTRUCTION);
	else
		step(thread, &insn);
}

/* --- Branches that lead nowhere ---------------------------------------------------------- */

struct branch {
	const struct fragment *fragment;
	unsigned block; /* that it ends */
	struct instruction insn;
};

/* The code of the block, as it was when it was translated. */
static const uint8_t *block_code(const struct fragment *fragment, unsigned block)
{
	const uint8_t *code = fragment->bytes;

	if (!code)
		return (const uint8_t *)fragment->blocks[block].pc;
	for (unsigned i = 0; i < block; i++)
		code += fragment->blocks[i].length;
	return code;
}

static long branch_find(void *context, void *unused)
{
	struct branch *branch = context;
	const struct block *block = &branch->fragment->blocks[branch->block];
	const uint8_t *code = block_code(branch->fragment, branch->block);
	struct instruction *insn = &branch->insn;

	for (uint32_t at = 0; at < block->length; at += insn->decoded.length) {
		insn->pc = block->pc + at;
		if (!instruction_decode(code + at, block->length - at, &insn->decoded))
			break;
	}
	return 0;
}

/*
 * On a branch to an address that is not canonical, the processor faults at the branch itself,
 * before it has changed anything. Calls are not handled here, because their copies check the
 * address before they push.
 */
void branch_undo(struct thread *thread, const struct fragment *fragment, unsigned block)
{
	struct branch branch = { .fragment = fragment, .block = block };
	const ZydisDecodedInstruction *insn = &branch.insn.decoded;

	guarded_call(branch_find, &branch, NULL);
	thread->pc = branch.insn.pc;
	if (insn->meta.category == ZYDIS_CATEGORY_RET)
		thread->regs[RSP] -= 8 + (insn->opcode == 0xc2 ? insn->raw.imm[0].value.u : 0);
}

void branch_undo_at(struct thread *thread, uint64_t at)
{
	const struct fragment *fragment = cache_holder(at);

	branch_undo(thread, fragment, translate_block(thread, fragment, at));
}

/* --- int 0x80 ---------------------------------------------------------------------------- */

bool special_is_harmless(uint32_t number)
{
	static const uint16_t others[] = {
		1 /* exit */,		2 /* fork */,
		11 /* execve */,	26 /* ptrace */,
		48 /* signal */,	67 /* sigaction */,
		72 /* sigsuspend */,	90 /* mmap */,
		91 /* munmap */,	119 /* sigreturn */,
		120 /* clone */,	123 /* modify_ldt */,
		125 /* mprotect */,	126 /* sigprocmask */,
		163 /* mremap */,	172 /* prctl */,
		173 /* rt_sigreturn */, 174 /* rt_sigaction */,
		186 /* sigaltstack */,	190 /* vfork */,
		192 /* mmap2 */,	243 /* set_thread_area */,
		252 /* exit_group */,	354 /* seccomp */,
		358 /* execveat */,	380 /* pkey_mprotect */,
		384 /* arch_prctl */,	386 /* rseq */,
		397 /* shmat */,	398 /* shmdt */,
		435 /* clone3 */,
	};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i] == number)
			return false;
	return true;
}
