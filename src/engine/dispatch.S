/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ways between the cache and the engine. In the cache every register is the program's; gs
 * points to its thread.
 *
 *	in	a jump out of the cache, or the place in a fragment where a thread is to go on
 *	out	all registers in struct thread, or all of them back in the processor
 *	owner	the thread, whose registers these are
 */
#include "engine/offsets.h"

#define SIGNALS_BUT_FAULTS ~0x440 /* SIGSEGV, SIGBUS */

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

/*
 * Where the second tables have the target in rcx, to rdx: (target + 729 * bits 16 to 23) mod 2^16.
 */
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
 * From an indirect branch, whose place is in THREAD_EXIT: the target is in THREAD_PC, rcx and rdx
 * are in their spill slots, whatever they hold here. That stays so up to engine_miss_end, for
 * signals.
 */
	.globl	engine_miss
	.hidden	engine_miss
	.type	engine_miss, @function
engine_miss:
	/* Another target may have its place in the first table: look into the second. */
	mov	%gs:THREAD_DISPLACED, %rcx
	jrcxz	3f
	mov	%gs:THREAD_PC, %rcx
	second_index
	mov	%gs:THREAD_PC, %rcx
	mov	%gs:THREAD_TAGS2(, %rdx, 8), %rdx
	lea	1(%rcx, %rdx), %rcx
	jrcxz	1f
3:	mov	%gs:THREAD_SPILL0, %rcx
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

/* From inserted code: a tool's function is called. As engine_call below. */
	.globl	engine_tool
	.hidden	engine_tool
	.type	engine_tool, @function
engine_tool:
	save_all
	call	engine_on_tool
	mov	%gs:THREAD_SELF, %rdi
	jmp	engine_resume

/*
 * From the middle of a fragment, which is to go on at THREAD_NEXT with all registers as they are
 * now.
 */
	.globl	engine_call
	.hidden	engine_call
	.type	engine_call, @function
engine_call:
	save_all
	call	engine_on_call
	mov	%gs:THREAD_SELF, %rdi
	/* falls through */

/*
 * Goes to THREAD_NEXT with the program's registers. A signal that comes on the way finds them all
 * in the thread still.
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

/*
 * What the kernel calls. The stack is ours, all signals are blocked, flags are as the kernel makes
 * them.
 */
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
	.globl	signal_return_end
	.hidden	signal_return_end
signal_return_end:
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
 * uint64_t signal_close(void): from here to signal_open() no signal comes but those of faults,
 * which the engine may have itself. Gives the mask before. A fault signal that was sent by kill()
 * is held back: the thread says that it is closed, or is at one of the labels.
 */
	.globl	signal_close
	.hidden	signal_close
	.type	signal_close, @function
signal_close:
	sub	$24, %rsp
	movq	$SIGNALS_BUT_FAULTS, (%rsp)
	movq	$0, 8(%rsp)
	mov	$2, %edi
	mov	%rsp, %rsi
	lea	8(%rsp), %rdx
	mov	$8, %r10d
	mov	$14, %eax
	syscall
	.globl	signal_close_done
	.hidden	signal_close_done
signal_close_done:
	mov	8(%rsp), %rax
	mov	%rax, %gs:THREAD_CLOSED_MASK
	movq	$1, %gs:THREAD_CLOSED
	.globl	signal_close_end
	.hidden	signal_close_end
signal_close_end:
	add	$24, %rsp
	ret

/* void signal_open(mask): the thread is not closed any more, and has this mask. */
	.globl	signal_open
	.hidden	signal_open
	.type	signal_open, @function
signal_open:
	push	%rdi
	mov	%rsp, %rsi
	mov	$2, %edi
	xor	%edx, %edx
	mov	$8, %r10d
	mov	$14, %eax
	movq	$0, %gs:THREAD_CLOSED
	.globl	signal_open_insn
	.hidden	signal_open_insn
signal_open_insn:
	syscall
	pop	%rdi
	ret

/*
 * long program_syscall(thread). Between the two labels a signal that came cannot have been seen:
 * the handler sends us to the end instead. If the kernel wants the call restarted, it goes back to
 * the instruction itself.
 *
 * Registers that the kernel does not look at are the program's as well, the stack included: who
 * stops the thread there (a debugger, or LeakSanitizer, which looks for pointers in them and on the
 * stack) finds what it would without us. Signals come on a stack of ours.
 */
	.globl	program_syscall
	.hidden	program_syscall
	.type	program_syscall, @function
program_syscall:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, %gs:THREAD_CALL_STACK
	.globl	program_syscall_begin
	.hidden	program_syscall_begin
program_syscall_begin:
	mov	$PROGRAM_RESTART, %rax
	cmpq	$0, %gs:THREAD_PENDING
	jne	program_syscall_done
	mov	%gs:THREAD_RBX, %rbx
	mov	%gs:THREAD_RBP, %rbp
	mov	%gs:THREAD_R12, %r12
	mov	%gs:THREAD_R13, %r13
	mov	%gs:THREAD_R14, %r14
	mov	%gs:THREAD_R15, %r15
	mov	%gs:THREAD_RAX, %rax
	mov	%gs:THREAD_RDI, %rdi
	mov	%gs:THREAD_RSI, %rsi
	mov	%gs:THREAD_RDX, %rdx
	mov	%gs:THREAD_R10, %r10
	mov	%gs:THREAD_R8, %r8
	mov	%gs:THREAD_R9, %r9
	mov	%gs:THREAD_RSP, %rsp
	.globl	program_syscall_insn
	.hidden	program_syscall_insn
program_syscall_insn:
	syscall
	.globl	program_syscall_done
	.hidden	program_syscall_done
program_syscall_done:
	mov	%gs:THREAD_CALL_STACK, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
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
	mov	%rbx, %gs:THREAD_GUARDED_FS
	mov	%rsp, %gs:THREAD_GUARDED
	mov	%gs:THREAD_FS_ENGINE, %rax
	wrfsbase %rax
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	call	*%rax
	movq	$0, %gs:THREAD_GUARDED
	wrfsbase %rbx
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	\n*16(%rsp), %xmm\n
	.endr
	add	$256, %rsp
	pop	%rbx
	pop	%rbx
	pop	%rbp
	ret

/* void fault_unwind(thread): out of whatever the engine was doing, a guarded call perhaps. */
	.globl	fault_unwind
	.hidden	fault_unwind
	.type	fault_unwind, @function
fault_unwind:
	mov	%gs:THREAD_GUARDED, %rax
	test	%rax, %rax
	jz	1f
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	\n*16(%rax), %xmm\n
	.endr
	mov	%gs:THREAD_GUARDED_FS, %rax
	wrfsbase %rax
	movq	$0, %gs:THREAD_GUARDED
1:	mov	%gs:THREAD_STACK, %rsp
	mov	%gs:THREAD_SELF, %rdi
	xor	%ebp, %ebp
	call	fault_recover
	hlt

/*
 * long clone_thread(number, a, b, c, d, e, child): a system call of the clone family. The child
 * finds itself on the stack that the call was given, whose top word is its thread.
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
