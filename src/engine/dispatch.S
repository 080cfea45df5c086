/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ways between the cache and the engine. In the cache every register is the program's; gs points to its thread.
 */
#include "engine/offsets.h"

#define PROGRAM_RESTART 0x7fffffff

	.text

	.macro save_all
	mov	%rax, %gs:THREAD_RAX
	mov	%rcx, %gs:THREAD_RCX
	mov	%rdx, %gs:THREAD_RDX
	mov	%rbx, %gs:THREAD_RBX
	mov	%rsp, %gs:THREAD_RSP
	mov	%rbp, %gs:THREAD_RBP
	mov	%rsi, %gs:THREAD_RSI
	mov	%rdi, %gs:THREAD_RDI
	mov	%r8, %gs:THREAD_R8
	mov	%r9, %gs:THREAD_R9
	mov	%r10, %gs:THREAD_R10
	mov	%r11, %gs:THREAD_R11
	mov	%r12, %gs:THREAD_R12
	mov	%r13, %gs:THREAD_R13
	mov	%r14, %gs:THREAD_R14
	mov	%r15, %gs:THREAD_R15
	mov	%gs:THREAD_STACK, %rsp
	pushfq
	pop	%rax
	mov	%rax, %gs:THREAD_FLAGS
	push	$0x202			/* direction up, no alignment checks, no single steps */
	popfq
	mov	%gs:THREAD_SELF, %rdi
	.endm

/* Where the second tables have the target in rcx, to rdx: (target + 729 * bits 16 to 23) mod 2^16. */
	.macro second_index
	movzwl	%cx, %edx
	movzbl	%gs:THREAD_PC + 2, %ecx
	lea	(%rcx, %rcx, 8), %ecx
	lea	(%rcx, %rcx, 8), %ecx
	lea	(%rcx, %rcx, 8), %ecx
	lea	(%rcx, %rdx), %edx
	movzwl	%dx, %edx
	.endm

/* From an exit's stub, which has put its number into THREAD_EXIT. */
	.globl	engine_exit
	.hidden	engine_exit
	.type	engine_exit, @function
engine_exit:
	save_all
	call	engine_on_exit
	mov	%gs:THREAD_SELF, %rdi
	jmp	engine_resume

/*
 * From an indirect branch, whose place is in THREAD_EXIT: the target is in THREAD_PC, rcx and rdx are in their spill slots, whatever they hold here. That
 * stays so up to engine_miss_end, for signals.
 */
	.globl	engine_miss
	.hidden	engine_miss
	.type	engine_miss, @function
engine_miss:
	mov	%gs:THREAD_PC, %rcx	/* another target has its place in the first table: look into the second */
	second_index
	mov	%gs:THREAD_PC, %rcx
	mov	%gs:THREAD_TAGS2(, %rdx, 8), %rdx
	lea	1(%rcx, %rdx), %rcx
	jrcxz	1f
	mov	%gs:THREAD_SPILL0, %rcx
	mov	%gs:THREAD_SPILL1, %rdx
	jmp	2f
1:	mov	%gs:THREAD_PC, %rcx
	second_index
	jmp	*%gs:THREAD_PLACES2(, %rdx, 8)
	.globl	engine_miss_end
	.hidden	engine_miss_end
engine_miss_end:
2:	save_all
	call	engine_on_miss
	mov	%gs:THREAD_SELF, %rdi
	jmp	engine_resume

/* From the middle of a fragment, which is to go on at THREAD_NEXT with all registers as they are now. */
	.globl	engine_call
	.hidden	engine_call
	.type	engine_call, @function
engine_call:
	save_all
	call	engine_on_call
	mov	%gs:THREAD_SELF, %rdi
	/* falls through */

/*
 * Goes to THREAD_NEXT with the program's registers. A signal that comes on the way finds them all in the thread still.
 */
	.globl	engine_resume
	.hidden	engine_resume
	.type	engine_resume, @function
engine_resume:
	.globl	engine_resume_begin
	.hidden	engine_resume_begin
engine_resume_begin:
	cmpq	$0, %gs:THREAD_PENDING	/* a signal came too late for signal_check */
	jne	resume_late
	mov	%gs:THREAD_STACK, %rsp
	pushq	%gs:THREAD_FLAGS
	popfq
	mov	%gs:THREAD_RAX, %rax
	mov	%gs:THREAD_RCX, %rcx
	mov	%gs:THREAD_RDX, %rdx
	mov	%gs:THREAD_RBX, %rbx
	mov	%gs:THREAD_RBP, %rbp
	mov	%gs:THREAD_RSI, %rsi
	mov	%gs:THREAD_RDI, %rdi
	mov	%gs:THREAD_R8, %r8
	mov	%gs:THREAD_R9, %r9
	mov	%gs:THREAD_R10, %r10
	mov	%gs:THREAD_R11, %r11
	mov	%gs:THREAD_R12, %r12
	mov	%gs:THREAD_R13, %r13
	mov	%gs:THREAD_R14, %r14
	mov	%gs:THREAD_R15, %r15
	mov	%gs:THREAD_RSP, %rsp
	jmp	*%gs:THREAD_NEXT

/* void native_leave(thread): on in the program's own code. */
	.globl	native_leave
	.hidden	native_leave
	.type	native_leave, @function
native_leave:
	cmpq	$0, THREAD_PENDING(%rdi)
	jne	signal_resume
	lea	THREAD_IRET(%rdi), %rsp
	mov	THREAD_RCX(%rdi), %rcx
	mov	THREAD_RDX(%rdi), %rdx
	mov	THREAD_RBX(%rdi), %rbx
	mov	THREAD_RBP(%rdi), %rbp
	mov	THREAD_RSI(%rdi), %rsi
	mov	THREAD_R8(%rdi), %r8
	mov	THREAD_R9(%rdi), %r9
	mov	THREAD_R10(%rdi), %r10
	mov	THREAD_R11(%rdi), %r11
	mov	THREAD_R12(%rdi), %r12
	mov	THREAD_R13(%rdi), %r13
	mov	THREAD_R14(%rdi), %r14
	mov	THREAD_R15(%rdi), %r15
	mov	THREAD_GS(%rdi), %rax
	wrgsbase %rax
	mov	THREAD_RAX(%rdi), %rax
	mov	THREAD_RDI(%rdi), %rdi
	iretq
	.globl	engine_resume_end
	.hidden	engine_resume_end
engine_resume_end:

/* A signal waits: what THREAD_NEXT stands for is translated back first. */
resume_late:
	mov	%gs:THREAD_STACK, %rsp
	mov	%gs:THREAD_SELF, %rdi
	call	engine_on_late
	jmp	engine_resume

/* Where a signal handler of ours goes on when the program's registers are all in the thread. */
	.globl	signal_resume
	.hidden	signal_resume
	.type	signal_resume, @function
signal_resume:
	mov	%gs:THREAD_STACK, %rsp
	mov	%gs:THREAD_SELF, %rdi
	call	engine_on_resume
	jmp	engine_resume

/* What the kernel calls. The stack is ours, all signals are blocked, flags are as the kernel makes them. */
	.globl	signal_entry
	.hidden	signal_entry
	.type	signal_entry, @function
signal_entry:
	push	$0x202			/* alignment checks are the program's business */
	popfq
	jmp	signal_arrive

	.globl	signal_restorer
	.hidden	signal_restorer
	.type	signal_restorer, @function
signal_restorer:
	mov	$15, %eax		/* rt_sigreturn */
	syscall
	hlt

/* void signal_return_raw(context): rt_sigreturn from a context that lies anywhere. */
	.globl	signal_return_raw
	.hidden	signal_return_raw
	.type	signal_return_raw, @function
signal_return_raw:
	mov	%rdi, %rsp
	mov	$15, %eax
	syscall
	hlt

/* void signal_let(mask): rt_sigprocmask(SIG_SETMASK, mask, NULL, 8) */
	.globl	signal_let
	.hidden	signal_let
	.type	signal_let, @function
signal_let:
	mov	%rdi, %rsi
	mov	$2, %edi
	xor	%edx, %edx
	mov	$8, %r10d
	mov	$14, %eax
	syscall
	ret

/*
 * long program_syscall(thread). Between the two labels a signal that came cannot have been seen: the handler sends
 * us to the end instead. If the kernel wants the call restarted, it goes back to the instruction itself.
 */
	.globl	program_syscall
	.hidden	program_syscall
	.type	program_syscall, @function
program_syscall:
	push	%rbx
	.globl	program_syscall_begin
	.hidden	program_syscall_begin
program_syscall_begin:
	mov	%rdi, %rbx
	mov	$PROGRAM_RESTART, %eax
	cmpq	$0, THREAD_PENDING(%rbx)
	jne	program_syscall_done
	mov	THREAD_RAX(%rbx), %rax
	mov	THREAD_RDI(%rbx), %rdi
	mov	THREAD_RSI(%rbx), %rsi
	mov	THREAD_RDX(%rbx), %rdx
	mov	THREAD_R10(%rbx), %r10
	mov	THREAD_R8(%rbx), %r8
	mov	THREAD_R9(%rbx), %r9
	.globl	program_syscall_insn
	.hidden	program_syscall_insn
program_syscall_insn:
	syscall
	.globl	program_syscall_done
	.hidden	program_syscall_done
program_syscall_done:
	pop	%rbx
	ret

/* long guarded_call(function, a, b) */
	.globl	guarded_call
	.hidden	guarded_call
	.type	guarded_call, @function
guarded_call:
	push	%rbp
	mov	%rsp, %rbp
	push	%rbx
	push	%rbx
	sub	$256, %rsp
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	%xmm\n, \n*16(%rsp)
	.endr
	rdfsbase %rbx
	mov	%gs:THREAD_FS_ENGINE, %rax
	wrfsbase %rax
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	call	*%rax
	wrfsbase %rbx
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	\n*16(%rsp), %xmm\n
	.endr
	add	$256, %rsp
	pop	%rbx
	pop	%rbx
	pop	%rbp
	ret

/*
 * long clone_thread(number, a, b, c, d, e, child): a system call of the clone family. The child finds itself on the
 * stack that the call was given, whose top word is its thread.
 */
	.globl	clone_thread
	.hidden	clone_thread
	.type	clone_thread, @function
clone_thread:
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rcx, %rdx
	mov	%r8, %r10
	mov	%r9, %r8
	xor	%r9d, %r9d
	syscall
	test	%rax, %rax
	jz	1f
	ret
1:	pop	%rdi
	and	$-16, %rsp
	wrgsbase %rdi
	xor	%ebp, %ebp
	call	thread_begin
	hlt

	.section .note.GNU-stack, "", @progbits
