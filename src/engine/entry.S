/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the host lets a process go on: rdi points to struct engine_boot, rsp to the top of a stack
 * of the engine's.
 */
#include <asm/prctl.h>
#include <asm/unistd.h>

#include "engine/boot.h"

	.hidden	engine_main

	.text
	.globl	engine_entry
	.type	engine_entry, @function
engine_entry:
	xor	%ebp, %ebp
	btq	$BOOT_TOOL_NATIVE, BOOT_TOOLS(%rdi)
	jnc	2f

/*
 * The program goes on by itself, as if nothing had been. Nothing is pushed on its stack, not even
 * below rsp: what lies there is the program's. So the last step is a jump through memory of the
 * engine's.
 */
	mov	%rdi, %rbx
	mov	$ARCH_SET_FS, %edi
	mov	BOOT_FS_BASE(%rbx), %rsi
	mov	$__NR_arch_prctl, %eax
	syscall
	mov	$ARCH_SET_GS, %edi
	mov	BOOT_GS_BASE(%rbx), %rsi
	mov	$__NR_arch_prctl, %eax
	syscall
	mov	BOOT_RIP(%rbx), %rax
	mov	%rax, program_rip(%rip)
	mov	BOOT_RAX(%rbx), %rax
	mov	BOOT_RCX(%rbx), %rcx
	mov	BOOT_RDX(%rbx), %rdx
	mov	BOOT_RBP(%rbx), %rbp
	mov	BOOT_RSI(%rbx), %rsi
	mov	BOOT_RDI(%rbx), %rdi
	mov	BOOT_R8(%rbx), %r8
	mov	BOOT_R9(%rbx), %r9
	mov	BOOT_R10(%rbx), %r10
	mov	BOOT_R11(%rbx), %r11
	mov	BOOT_R12(%rbx), %r12
	mov	BOOT_R13(%rbx), %r13
	mov	BOOT_R14(%rbx), %r14
	mov	BOOT_R15(%rbx), %r15
	pushq	BOOT_RFLAGS(%rbx)
	popfq
	mov	BOOT_RSP(%rbx), %rsp
	mov	BOOT_RBX(%rbx), %rbx
	jmp	*program_rip(%rip)

2:	mov	engine_main@GOTPCREL(%rip), %rax
	call	*%rax
	ud2
	.size	engine_entry, . - engine_entry

	.local	program_rip
	.comm	program_rip, 8, 8

	.section .note.GNU-stack, "", @progbits
