// SPDX-License-Identifier: BSD-2-Clause
/*
 * dead_registers ROUNDS [signals]: ways to write a register, at the target of a branch where flags
 * are dead. Each is executed ROUNDS times with the same values in all registers, and must leave the
 * same in them each time. One of them faults. Prints a hash of what each has left. With "signals" a
 * timer interrupts all of that, and its handler checks that it sees an instruction of this program.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

/* Those that keep something of what the register held; then those that do not. */
#define WAYS(X)                                                                                    \
	X("movb $7, %al")                                                                          \
	X("movb $7, %ch")                                                                          \
	X("movw $7, %dx")                                                                          \
	X("xor %si, %si")                                                                          \
	X("cmovnz %r14, %rsi")                                                                     \
	X("setc %dil")                                                                             \
	X("bsf %r14, %rcx")                                                                        \
	X("bsr %r14d, %edx")                                                                       \
	X("lea 1(%r9), %r9")                                                                       \
	X("lea (%rax, %r10), %r10")                                                                \
	X("movzwl %r11w, %r11d")                                                                   \
	X("movsbq %al, %rax")                                                                      \
	X("mov %ecx, %ecx")                                                                        \
	X("mov (%rdi), %rdi")                                                                      \
	X("mov bytes(%rax), %rax")                                                                 \
	X("mov %rdx, bytes(%rip); mov $1, %edx; mov bytes(%rip), %rax")                            \
	X("push %rsi; pop %rax; mov $1, %esi")                                                     \
	X("xchg %rax, %rdx")                                                                       \
	X("xadd %rax, %r8")                                                                        \
	X("mul %rcx")                                                                              \
	X("imul %rdx, %r8")                                                                        \
	X("div %r15; mov $1, %eax")                                                                \
	X("shl %cl, %r9; mov $1, %ecx")                                                            \
	X("cltq")                                                                                  \
	X("xor %rax, %rcx; mov $1, %eax")                                                          \
	X("sub %r8, %r9; sub %r8, %r8")                                                            \
	X("cpuid")                                                                                 \
	X("mov $bytes + 8, %esi; rep movsb")                                                       \
	X("mov $9, %eax; rep stosb")                                                               \
	X("cmpxchg %rcx, %r14; mov %r14, %rdx; mov $1, %eax")                                      \
	X("movq %r10, %xmm0; mov $1, %r10d; movq %xmm0, %rax")                                     \
	X("mov (%r15), %r14; mov $1, %eax; mov $1, %r9d")                                          \
	X("jmp 3f; mov $1, %eax; 3: mov %rax, %rcx")                                               \
	X("mov $1, %eax")                                                                          \
	X("mov %rax, %rcx")                                                                        \
	X("mov bytes(%rip), %rdx")                                                                 \
	X("movzbl %al, %esi")                                                                      \
	X("xor %edi, %edi")                                                                        \
	X("sub %r8, %r8")                                                                          \
	X("lea 1(%rax), %r9")                                                                      \
	X("push %rax; pop %r10")                                                                   \
	X("movslq %eax, %r11")

#define MIX(reg) "imul $31, %r13\n\tadd %" #reg ", %r13\n\t"

enum { LOAD_BYTES = 3 }; /* mov (%r15), %r14 */

extern const char __executable_start[], etext[];
uint64_t bytes[2048];

/* As a function of the rounds; gives the hash. */
#define WAY_FUNCTION(text)                                                                         \
	"	.balign 16\n"                                                                            \
	"	push %rbx; push %r12; push %r13; push %r14; push %r15\n"                                 \
	"	mov %rdi, %r12\n"                                                                        \
	"	xor %r13d, %r13d\n"                                                                      \
	"1:	xor %eax, %eax; mov $0x202, %ecx; mov $0x303, %edx; mov $bytes + 64, %esi\n"           \
	"	mov $bytes + 4096, %edi; mov $0x606, %r8d; mov $0x707, %r9d; mov $0x808, %r10d\n"        \
	"	movabs $0x909090909090, %r11; mov $0x12345, %r15d\n"                                     \
	"	test %r12, %r12\n"                                                                       \
	"	jnz 2f\n"                                                                                \
	"	ud2\n"                                                                                   \
	"2:	xor %r14d, %r14d\n"                                                                    \
	"	" text "\n\t" MIX(rax) MIX(rcx) MIX(rdx) MIX(rsi) MIX(rdi) MIX(r8) MIX(r9)         \
		MIX(r10) MIX(r11) "	sub $1, %r12\n"                                                \
				  "	jnz 1b\n"                                                      \
				  "	mov %r13, %rax\n"                                              \
				  "	pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx\n"            \
				  "	ret\n"

#define WAY_CODE(text)                                                                             \
	"	.section .rodata\n"                                                                      \
	"	.quad 9f\n"                                                                              \
	"	.text\n"                                                                                 \
	"9:\n" WAY_FUNCTION(text)

__asm__("	.section .rodata\n"
	"	.balign 8\n"
	"ways:\n" WAYS(WAY_CODE) "	.text\n");
extern uint64_t (*const ways[])(uint64_t rounds);

#define WAY_TEXT(text) text,
static const char *const texts[] = { WAYS(WAY_TEXT) };

/* Of the one load that cannot be done, which is left out. What it sees becomes part of the hash. */
static void on_fault(int number, siginfo_t *info, void *context)
{
	static const int seen[] = { REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
				    REG_R8,  REG_R9,  REG_R10, REG_R11 };
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t hash = 0;

	for (unsigned i = 0; i < sizeof(seen) / sizeof(*seen); i++)
		hash = hash * 31 + (uint64_t)registers[seen[i]];
	registers[REG_R13] ^= (greg_t)hash;
	registers[REG_RIP] += LOAD_BYTES;
}

static void on_timer(int number, siginfo_t *info, void *context)
{
	uint64_t rip = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	if (rip < (uint64_t)__executable_start || rip >= (uint64_t)etext)
		_exit(3);
}

int main(int argc, char **argv)
{
	uint64_t rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
	struct sigaction timer = { .sa_sigaction = on_timer, .sa_flags = SA_SIGINFO };
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = {};
	uint64_t hashes[sizeof(texts) / sizeof(*texts)];

	sigaction(SIGALRM, &timer, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	if (argc > 2 && !strcmp(argv[2], "signals"))
		setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		memset(bytes, 0, sizeof(bytes));
		hashes[i] = ways[i](rounds);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		printf("%016lx %s\n", hashes[i], texts[i]);
	return 0;
}
