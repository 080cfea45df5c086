/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that may not be there. A fault between memory_copy_begin and memory_copy_end is no fault
 * of the engine: signal_arrive() goes on at memory_copy_end, with what was copied before.
 */
	.text

/* size_t memory_copy(void *to, const void *from, size_t size): bytes that were copied. */
	.globl	memory_copy
	.hidden	memory_copy
	.type	memory_copy, @function
memory_copy:
	xor	%eax, %eax
	.globl	memory_copy_begin
	.hidden	memory_copy_begin
memory_copy_begin:
	lea	8(%rax), %rcx
	cmp	%rdx, %rcx
	ja	2f
	mov	(%rsi,%rax), %r8
	mov	%r8, (%rdi,%rax)
	mov	%rcx, %rax
	jmp	memory_copy_begin
1:	movb	(%rsi,%rax), %r8b
	movb	%r8b, (%rdi,%rax)
	inc	%rax
2:	cmp	%rdx, %rax
	jb	1b
	.globl	memory_copy_end
	.hidden	memory_copy_end
memory_copy_end:
	ret

	.section .note.GNU-stack, "", @progbits
