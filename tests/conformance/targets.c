// SPDX-License-Identifier: BSD-2-Clause
/*
 * Indirect jumps, calls and returns that go elsewhere than they did before, or than they are
 * expected to: through words at a fixed address, as in procedure linkage tables, and to return
 * addresses that were changed.
 */
#include "corner.h"

#include <sys/time.h>

void *slot;
extern long jump_through(long), call_through(long), call_register(long);
extern long return_by(long), leaf_twice(long);
extern const char call_through_insn[], call_register_insn[];

__asm__(".text\n"
	".balign 16\n"
	"jump_through: jmp *slot(%rip)\n"
	".balign 16\n"
	"call_through: sub $8, %rsp\n"
	"call_through_insn: call *slot(%rip)\n"
	"add $8, %rsp\n"
	"lea 1(%rax), %rax\n"
	"ret\n"
	"call_register: sub $8, %rsp\n"
	"mov slot(%rip), %rax\n"
	"call_register_insn: call *%rax\n"
	"add $8, %rsp\n"
	"lea 1(%rax), %rax\n"
	"ret\n"
	/* A function that returns behind the instruction where it should, if it is told to. */
	"return_by: call 1f\n"
	"2: lea 1(%rax), %rax\n"
	"3: lea 10(%rax), %rax\n"
	"ret\n"
	"1: mov %rdi, %rax\n"
	"test $1, %edi\n"
	"jz 4f\n"
	"lea 3b(%rip), %rcx\n"
	"mov %rcx, (%rsp)\n"
	"4: ret\n"
	/* Flags and all registers outlive a return that is expected. */
	"leaf_twice: mov $3, %ecx\n"
	"mov $5, %edx\n"
	"call 5f\n"
	"adc $0, %rax\n"
	"call 5f\n"
	"adc %rcx, %rax\n"
	"lea (%rax,%rdx), %rax\n"
	"ret\n"
	"5: lea 7(%rdi), %rax\n"
	"bt $0, %rdi\n"
	"ret\n");

static long plus_one(long value)
{
	return value + 1;
}

static long times_three(long value)
{
	return value * 3;
}

/* --- Words that change ------------------------------------------------------------------- */

static void scene_slot(void)
{
	long (*const functions[])(long) = { plus_one, times_three, labs };
	long sum = 0;

	for (long i = 0; i < 3000; i++) {
		slot = (void *)functions[i / 7 % 3];
		sum = sum % 1000003 + jump_through(i) + call_through(-i) + call_register(i);
	}
	printf("%ld\n", sum);
}

static uint8_t *code_make(void *at, uint8_t value)
{
	const uint8_t code[] = { 0xb8, value, 0, 0, 0, 0xc3 }; /* mov $value, %eax; ret */
	uint8_t *memory = mmap(at, 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	memcpy(memory, code, sizeof(code));
	mprotect(memory, 4096, PROT_READ | PROT_EXEC);
	return memory;
}

/* Near the program, and as far from it as libraries are; other code takes the place. */
static void scene_code_replaced(void)
{
	uint8_t *places[] = { NULL, (uint8_t *)(((uintptr_t)&slot + (64 << 20)) & -4096ul) };

	for (int i = 0; i < 2; i++) {
		slot = code_make(places[i], 0);
		for (uint8_t value = 1; value < 50; value++) {
			long first = call_through(0), second = jump_through(0);

			if (first != value || second != value - 1)
				printf("%d: %ld %ld\n", value, first, second);
			if (value % 2)
				munmap(slot, 4096);
			code_make(slot, value);
		}
		printf("%ld\n", call_through(0));
	}
}

/* --- Returns ----------------------------------------------------------------------------- */

static void scene_return_changed(void)
{
	long sum = 0;

	for (long i = 0; i < 3000; i++)
		sum += return_by(i / 5) * (i % 3 + 1) + leaf_twice(i);
	printf("%ld\n", sum);
}

static sigjmp_buf back;

static __attribute__((noinline)) long leave(long depth)
{
	if (!depth)
		siglongjmp(back, 1);
	return leave(depth - 1) + depth;
}

static void scene_return_never(void)
{
	volatile long count = 0;

	for (volatile long i = 0; i < 500; i++)
		if (sigsetjmp(back, 0))
			count++;
		else
			leave(i % 20);
	printf("%ld\n", count);
}

/* --- Calls that fault -------------------------------------------------------------------- */

static long call_stack;
static const char *call_insn;

static void faulted(int number, siginfo_t *info, void *context)
{
	const greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	printf("%d %d, at the call: %d, stack: %ld, rcx %lld rdx %lld\n", number, info->si_code,
	       regs[REG_RIP] == (greg_t)call_insn,
	       call_stack ? (long)regs[REG_RSP] - call_stack : 0, regs[REG_RCX], regs[REG_RDX]);
	siglongjmp(back, 1);
}

static void call_on(void *stack, void *target, long (*function)(long))
{
	slot = target;
	call_stack = (long)stack;
	call_insn = function == call_through ? call_through_insn : call_register_insn;
	if (sigsetjmp(back, 1))
		return;
	__asm__ volatile("mov %0, %%rbx; mov %%rsp, %%rbp; mov %0, %%rsp; mov $11, %%ecx;"
			 "mov $22, %%edx; mov $33, %%edi; jmp *%1"
			 :
			 : "r"(stack), "r"(function)
			 : "rbx", "rcx", "rdx", "rdi", "memory");
}

static void scene_call_faults(void)
{
	static uint8_t other[65536];
	stack_t alternate = { .ss_sp = other, .ss_size = sizeof(other) };
	uint8_t *pages =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sigaltstack(&alternate, NULL);
	handle(SIGSEGV, faulted, SA_ONSTACK);
	mprotect(pages, 4096, PROT_NONE);
	slot = (void *)plus_one;
	for (int i = 0; i < 100; i++)
		call_through(i), call_register(i);
	for (int i = 0; i < 6; i++) {
		long (*const call)(long) = i % 2 ? call_through : call_register;

		call_on(pages + 8192, (void *)0x1234567800000000, call);
		call_on(pages + 4096 + 8, (void *)plus_one, call); /* no room for the push */
		call_on(pages + 4096 + 8, (void *)times_three, call);
	}
}

/* --- Signals ----------------------------------------------------------------------------- */

static volatile long ticks, strange;

/* Where there is code of the program, or of a library. */
static void ticked(int number, siginfo_t *info, void *context)
{
	uint64_t rip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	uint8_t byte = *(const uint8_t *)rip;

	ticks++;
	strange += byte == 0xcc;
}

static void scene_signals(void)
{
	long (*const functions[])(long) = { plus_one, times_three, labs };
	struct itimerval timer = { { 0, 500 }, { 0, 500 } };
	long wrong = 0;

	handle(SIGALRM, ticked, SA_RESTART);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (long i = 0; ticks < 400; i++) {
		long value = i % 1000, which = value / 10 % 3, carry = value & 1;
		long expected = which == 1 ? value * 3 : value + !which;

		slot = (void *)functions[which];
		wrong += jump_through(value) != expected || call_through(value) != expected + 1;
		wrong += return_by(value) != value + 10 + !carry;
		wrong += leaf_twice(value) != value + 15 + carry;
		wrong += call_register(value) != expected + 1;
	}
	timer = (struct itimerval){};
	setitimer(ITIMER_REAL, &timer, NULL);
	printf("wrong %ld, strange %ld\n", wrong, strange);
}

static const struct scene scenes[] = {
	{ "slot", scene_slot },
	{ "code-replaced", scene_code_replaced },
	{ "return-changed", scene_return_changed },
	{ "return-never", scene_return_never },
	{ "call-faults", scene_call_faults },
	{ "signals", scene_signals },
};

SCENES_MAIN(scenes)
