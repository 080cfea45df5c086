// SPDX-License-Identifier: BSD-2-Clause
/*
 * Everything that a program finds at its first instruction, in text: registers, flags, bases,
 * floating-point control, and the stack from rsp to its end, which holds arguments, environment and
 * auxiliary vector. No libc, so that nothing comes before.
 *
 * Built with -nostdlib -static or -static-pie. What differs between any two runs, AT_RANDOM's
 * bytes, is left out.
 */
#include <asm/prctl.h>
#include <asm/unistd.h>
#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* No pointers: nobody would relocate them. */
static const char names[][6] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",  "r8",
				 "r9",	"r10", "r11", "r12", "r13", "r14", "r15", "flags" };
__attribute__((visibility("hidden"))) uint64_t registers[17];

void state_print(void);

__asm__(".globl _start\n"
	"_start:\n"
	"mov %rax, registers(%rip)\n"
	"mov %rcx, registers+8(%rip)\n"
	"mov %rdx, registers+16(%rip)\n"
	"mov %rbx, registers+24(%rip)\n"
	"mov %rsp, registers+32(%rip)\n"
	"mov %rbp, registers+40(%rip)\n"
	"mov %rsi, registers+48(%rip)\n"
	"mov %rdi, registers+56(%rip)\n"
	"mov %r8, registers+64(%rip)\n"
	"mov %r9, registers+72(%rip)\n"
	"mov %r10, registers+80(%rip)\n"
	"mov %r11, registers+88(%rip)\n"
	"mov %r12, registers+96(%rip)\n"
	"mov %r13, registers+104(%rip)\n"
	"mov %r14, registers+112(%rip)\n"
	"mov %r15, registers+120(%rip)\n"
	"lea own_stack(%rip), %rsp\n"
	"pushfq\n"
	"pop registers+128(%rip)\n"
	"and $-16, %rsp\n"
	"call state_print\n"
	".local own_stack_low\n"
	".comm own_stack_low, 65536, 16\n"
	".set own_stack, own_stack_low + 65536\n");

static long call(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static void line(const char *name, uint64_t value)
{
	static const char digits[] = "0123456789abcdef";
	char text[64];
	size_t length = 0;

	while (name[length]) {
		text[length] = name[length];
		length++;
	}
	text[length++] = ' ';
	for (int shift = 60; shift >= 0; shift -= 4)
		text[length++] = digits[value >> shift & 15];
	text[length++] = '\n';
	call(__NR_write, 1, (long)text, (long)length);
}

/* The place of the 16 bytes that are random. */
static const uint64_t *random_find(const uint64_t *word)
{
	word += *word + 2; /* the arguments and their end */
	while (*word++)
		;
	for (; *word; word += 2)
		if (*word == AT_RANDOM)
			return (const uint64_t *)(word[1] & ~7ull);
	return NULL;
}

/* The file's name is the last of what the kernel puts there. */
static const uint64_t *stack_end(const uint64_t *word)
{
	word += *word + 2;
	while (*word++)
		;
	for (; *word; word += 2)
		if (*word == AT_EXECFN)
			return (const uint64_t *)((word[1] + 4095) & ~4095ull);
	return word;
}

void state_print(void)
{
	const uint64_t *stack = (const uint64_t *)registers[4];
	const uint64_t *random = random_find(stack), *end = stack_end(stack);
	uint64_t base = 1;
	uint32_t vector;
	uint16_t x87;

	for (size_t i = 0; i < 17; i++)
		line(names[i], registers[i]);
	call(__NR_arch_prctl, ARCH_GET_FS, (long)&base, 0);
	line("fs", base);
	call(__NR_arch_prctl, ARCH_GET_GS, (long)&base, 0);
	line("gs", base);
	__asm__ volatile("stmxcsr %0" : "=m"(vector));
	line("mxcsr", vector);
	__asm__ volatile("fnstcw %0" : "=m"(x87));
	line("x87", x87);
	line("program", (uint64_t)&state_print);
	/* They need not be aligned. */
	for (const uint64_t *word = stack; word < end; word++)
		if (word < random || word > random + 2)
			line("stack", *word);
	call(__NR_exit_group, 0, 0, 0);
}
