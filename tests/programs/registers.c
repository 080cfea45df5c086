// SPDX-License-Identifier: BSD-2-Clause
/*
 * Frames that are found from registers other than rsp and rbp, as cryptography, the dynamic linker
 * and vfork have them. The argument says which: scratch, rbx or vfork.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "burn.h"

#define APART __attribute__((noinline, noclone))

void counts_from_rax(unsigned long rounds);
void counts_from_rbx(void);
void saves_rbx(void);

/* Realigns its stack and counts from rax, which what it calls leaves alone. */
asm(".text\n"
    ".type counts_from_rax, @function\n"
    "counts_from_rax:\n"
    "	.cfi_startproc\n"
    "	lea (%rsp), %rax\n"
    "	.cfi_def_cfa %rax, 8\n"
    "	push %rbp\n"
    "	.cfi_offset %rbp, -16\n"
    "	mov $77, %ebp\n"
    "	and $-128, %rsp\n"
    "	call spins\n"
    "	mov -8(%rax), %rbp\n"
    "	.cfi_restore %rbp\n"
    "	lea (%rax), %rsp\n"
    "	.cfi_def_cfa %rsp, 8\n"
    "	ret\n"
    "	.cfi_endproc\n"
    ".size counts_from_rax, . - counts_from_rax\n"
    ".type spins, @function\n"
    "spins:\n"
    "	.cfi_startproc\n"
    "	sub $1, %rdi\n"
    "	jne spins\n"
    "	ret\n"
    "	.cfi_endproc\n"
    ".size spins, . - spins\n");

/* The same with rbx, which its callees save. */
asm(".text\n"
    ".type counts_from_rbx, @function\n"
    "counts_from_rbx:\n"
    "	.cfi_startproc\n"
    "	push %rbx\n"
    "	.cfi_def_cfa_offset 16\n"
    "	.cfi_offset %rbx, -16\n"
    "	mov %rsp, %rbx\n"
    "	.cfi_def_cfa_register %rbx\n"
    "	and $-64, %rsp\n"
    "	call saves_rbx\n"
    "	mov %rbx, %rsp\n"
    "	.cfi_def_cfa_register %rsp\n"
    "	pop %rbx\n"
    "	.cfi_def_cfa_offset 8\n"
    "	.cfi_restore %rbx\n"
    "	ret\n"
    "	.cfi_endproc\n"
    ".size counts_from_rbx, . - counts_from_rbx\n");

APART static void keeps_rbx(void)
{
	for (int i = 0; i < 1000; i++)
		sink = sink + (unsigned long)i;
}

APART void saves_rbx(void)
{
	asm volatile("xor %%ebx, %%ebx" ::: "rbx");
	for (int i = 0; i < 100; i++)
		keeps_rbx();
}

APART static void forks(void)
{
	pid_t child = vfork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
}

APART static void middle(const char *which)
{
	if (strcmp(which, "scratch") == 0)
		counts_from_rax(100000);
	else if (strcmp(which, "rbx") == 0)
		counts_from_rbx();
	else
		forks();
	sink = sink + 1;
}

int main(int argc, char **argv)
{
	for (double end = burnt() + 0.7; argc > 1 && burnt() < end;)
		middle(argv[1]);
	return 0;
}
