/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs call that tell entries only (-pg, -pg -mfentry, patched entries), and what their
 * functions return to. No register but the flags is changed: neither by an entry, where arguments
 * may be anywhere, nor by a return, where a caller may rely on whatever the callee left alone.
 *
 * How exits are seen is told in entries.c.
 */

#define KEPT 24 /* bytes that KEEP3 pushes */
#define XSAVE_BYTES 2816 /* as large as all of HOOKS_STATES gets, in the standard format */
#define XSAVE_HEADER 512

.macro KEEP register
	push	%\register
	.cfi_adjust_cfa_offset 8
.endm

.macro TAKE register
	pop	%\register
	.cfi_adjust_cfa_offset -8
.endm

.macro SAVE
	KEEP	rax
	KEEP	rcx
	KEEP	rdx
	KEEP	rsi
	KEEP	rdi
	KEEP	r8
	KEEP	r9
	KEEP	r10
	KEEP	r11
.endm

.macro RESTORE
	TAKE	r11
	TAKE	r10
	TAKE	r9
	TAKE	r8
	TAKE	rdi
	TAKE	rsi
	TAKE	rdx
	TAKE	rcx
	TAKE	rax
.endm

.macro KEEP3
	KEEP	rax
	KEEP	rdi
	KEEP	rsi
.endm

.macro TAKE3
	TAKE	rsi
	TAKE	rdi
	TAKE	rax
.endm

/* Arguments stay in %rdi and %rsi. */
.macro TELL quickly, fully
	call	\quickly
	test	%eax, %eax
	je	5f
	SAVE
	call	\fully
	RESTORE
5:
.endm

.macro FUNCTION name
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
.endm

.macro END name
	.cfi_endproc
	.size	\name, . - \name
.endm

	.text

/* fast(%rdi, %rsi), on an aligned stack; if it says so, slow() with all other registers kept. */
.macro CALLER name, fast, slow
	.type	\name, @function
\name:
	.cfi_startproc
	push	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset rbp, -16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	push	%rbx
	push	%r12
	.cfi_offset rbx, -24
	.cfi_offset r12, -32
	mov	%rdi, %rbx
	mov	%rsi, %r12
	and	$-64, %rsp
	call	\fast
	test	%eax, %eax
	jne	1f
2:	lea	-16(%rbp), %rsp
	pop	%r12
	pop	%rbx
	pop	%rbp
	.cfi_remember_state
	.cfi_def_cfa rsp, 8
	ret
	.cfi_restore_state
1:	sub	$XSAVE_BYTES, %rsp
	mov	hooks_states(%rip), %eax
	test	%eax, %eax
	je	3f
	xor	%edx, %edx
	.irp	word, 0, 8, 16, 24, 32, 40, 48, 56
	mov	%rdx, XSAVE_HEADER + \word(%rsp)
	.endr
	xsave64	(%rsp)
	mov	%rbx, %rdi
	mov	%r12, %rsi
	call	\slow
	mov	hooks_states(%rip), %eax
	xor	%edx, %edx
	xrstor64 (%rsp)
	jmp	2b
3:	fxsave64 (%rsp)
	mov	%rbx, %rdi
	mov	%r12, %rsi
	call	\slow
	fxrstor64 (%rsp)
	jmp	2b
	END	\name
.endm

	CALLER	entered, hooks_entered, hooks_entered_slow
	CALLER	returned, hooks_returned, hooks_returned_slow

/* -pg: after the prologue, so that the return address is above the saved frame pointer. */
	.globl	_mcount
	.set	_mcount, mcount
	FUNCTION mcount
	KEEP3
	mov	KEPT(%rsp), %rdi
	lea	8(%rbp), %rsi
	TELL	hooks_enter_quickly, entered
	TAKE3
	ret
	END	mcount

/* -pg -mfentry, and what entries are patched to call: the function's first instruction. */
	.globl	hooks_patched
	.hidden	hooks_patched
	.set	hooks_patched, __fentry__
	FUNCTION __fentry__
	KEEP3
	mov	KEPT(%rsp), %rdi
	lea	KEPT + 8(%rsp), %rsi
	TELL	hooks_enter_quickly, entered
	TAKE3
	ret
	END	__fentry__

/* The same from in front of a function, where two bytes follow the call. */
	.hidden	hooks_patched_front
	FUNCTION hooks_patched_front
	KEEP3
	mov	KEPT(%rsp), %rdi
	add	$3, %rdi
	lea	KEPT + 8(%rsp), %rsi
	TELL	hooks_enter_quickly, entered
	TAKE3
	ret
	END	hooks_patched_front

/* From a way back: what it pushed lies where the return address lay. */
	.hidden	hooks_return
	FUNCTION hooks_return
	KEEP3
	lea	KEPT(%rsp), %rdi
	TELL	hooks_return_quickly, returned
	TAKE3
	ret
	END	hooks_return

/* A function that only enters and returns, for measuring. */
	.hidden	hooks_nothing
	FUNCTION hooks_nothing
	call	__fentry__
	ret
	END	hooks_nothing

/* dlsym() itself must see who calls it. */
	FUNCTION dlsym
	SAVE
	KEEP	rbp
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	and	$-16, %rsp
	call	hooks_looked_up
	mov	%rbp, %rsp
	.cfi_def_cfa_register rsp
	TAKE	rbp
	RESTORE
	jmp	*hooks_dlsym(%rip)
	END	dlsym

/*
 * The ways back are made while the program runs, over this. Whoever walks the stack finds the
 * return address behind the way's code: way back = what lies below the stack pointer, rounded down.
 * A walker looks at the byte in front of a return address, which is in front of the first way for
 * that one, so that place is not used. The canonical frame address is the stack pointer - 1, and
 * the stack pointer stays: exceptions tell frames apart by that address, and the one of the
 * function that returns here is the stack pointer.
 */
	.section .text.hooks_ways, "ax", @progbits
	.globl	hooks_ways
	.hidden	hooks_ways
	.balign	4096
	.type	hooks_ways, @function
hooks_ways:
	.cfi_startproc
	.cfi_escape 0x0f, 2, 0x77, 0x7f /* breg7 - 1 */
	.cfi_escape 0x16, 7, 2, 0x77, 0 /* breg7 */
	/* at breg7 - 8: deref, & -32, + 16 */
	.cfi_escape 0x10, 16, 8, 0x77, 0x78, 0x06, 0x09, 0xe0, 0x1a, 0x23, 0x10
	.zero	1 << 20
	.cfi_endproc
	.size	hooks_ways, . - hooks_ways

	.section .note.GNU-stack, "", @progbits
