/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Into a sequence with every register set, and out of it with every register kept. No stack but the
 * sequence's own is used.
 */

#define GENERAL(n) (8 * (n))
#define FLAGS 128
#define RIP 136
#define FS 144
#define GS 152
#define SEGMENTS 160
#define VECTORS 192
#define VECTORS_KEPT 0xfff9ffff /* insnfuzz.h */

	.text

	.macro restore_host
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	.endm

	.globl	machine_enter
	.type	machine_enter, @function
machine_enter:
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, host_rsp(%rip)
	mov	$VECTORS_KEPT, %eax
	xor	%edx, %edx
	xrstor64 machine_in + VECTORS(%rip)
	mov	machine_in + FS(%rip), %rax
	wrfsbase %rax
	mov	machine_in + GS(%rip), %rax
	wrgsbase %rax
	pushq	machine_in + FLAGS(%rip)
	popfq
	mov	machine_in + GENERAL(0)(%rip), %rax
	mov	machine_in + GENERAL(1)(%rip), %rcx
	mov	machine_in + GENERAL(2)(%rip), %rdx
	mov	machine_in + GENERAL(3)(%rip), %rbx
	mov	machine_in + GENERAL(4)(%rip), %rsp
	mov	machine_in + GENERAL(5)(%rip), %rbp
	mov	machine_in + GENERAL(6)(%rip), %rsi
	mov	machine_in + GENERAL(7)(%rip), %rdi
	mov	machine_in + GENERAL(8)(%rip), %r8
	mov	machine_in + GENERAL(9)(%rip), %r9
	mov	machine_in + GENERAL(10)(%rip), %r10
	mov	machine_in + GENERAL(11)(%rip), %r11
	mov	machine_in + GENERAL(12)(%rip), %r12
	mov	machine_in + GENERAL(13)(%rip), %r13
	mov	machine_in + GENERAL(14)(%rip), %r14
	mov	machine_in + GENERAL(15)(%rip), %r15
	jmp	*machine_in + RIP(%rip)

	.globl	machine_leave
	.type	machine_leave, @function
machine_leave:
	mov	%rax, machine_out + GENERAL(0)(%rip)
	mov	%rcx, machine_out + GENERAL(1)(%rip)
	mov	%rdx, machine_out + GENERAL(2)(%rip)
	mov	%rbx, machine_out + GENERAL(3)(%rip)
	mov	%rsp, machine_out + GENERAL(4)(%rip)
	mov	%rbp, machine_out + GENERAL(5)(%rip)
	mov	%rsi, machine_out + GENERAL(6)(%rip)
	mov	%rdi, machine_out + GENERAL(7)(%rip)
	mov	%r8, machine_out + GENERAL(8)(%rip)
	mov	%r9, machine_out + GENERAL(9)(%rip)
	mov	%r10, machine_out + GENERAL(10)(%rip)
	mov	%r11, machine_out + GENERAL(11)(%rip)
	mov	%r12, machine_out + GENERAL(12)(%rip)
	mov	%r13, machine_out + GENERAL(13)(%rip)
	mov	%r14, machine_out + GENERAL(14)(%rip)
	mov	%r15, machine_out + GENERAL(15)(%rip)
	mov	host_rsp(%rip), %rsp
	pushfq
	popq	machine_out + FLAGS(%rip)
	pushq	$0x202
	popfq
	rdfsbase %rax
	mov	%rax, machine_out + FS(%rip)
	mov	host_fs(%rip), %rax
	wrfsbase %rax
	rdgsbase %rax
	mov	%rax, machine_out + GS(%rip)
	mov	$VECTORS_KEPT, %eax
	xor	%edx, %edx
	xsave64	machine_out + VECTORS(%rip)
	fninit
	pushq	$0x1f80
	ldmxcsr	(%rsp)
	pop	%rax
	call	segments_take
	restore_host
	ret

/* From a signal handler of ours, whose frame is not needed any more. */
	.globl	machine_escape
	.type	machine_escape, @function
machine_escape:
	mov	host_rsp(%rip), %rsp
	rdgsbase %rax
	mov	%rax, machine_out + GS(%rip)
	call	segments_take
	restore_host
	ret

/*
 * Selectors are kept, and made 0 again where they are not. fs is set anew: some processors clear
 * its base.
 */
segments_take:
	xor	%eax, %eax
	mov	%ds, machine_out + SEGMENTS(%rip)
	mov	%es, machine_out + SEGMENTS + 2(%rip)
	mov	%fs, machine_out + SEGMENTS + 4(%rip)
	mov	%gs, machine_out + SEGMENTS + 6(%rip)
	cmpq	$0, machine_out + SEGMENTS(%rip)
	je	1f
	mov	%eax, %ds
	mov	%eax, %es
	mov	%eax, %fs
	mov	%eax, %gs
	mov	host_fs(%rip), %rax
	wrfsbase %rax
1:	ret

/* What the kernel calls: neither fs nor the alignment flag are libc's. */
	.globl	machine_signal
	.type	machine_signal, @function
machine_signal:
	pushfq
	andq	$~0x40000, (%rsp)
	popfq
	push	%rbx
	rdfsbase %rbx
	mov	host_fs(%rip), %rax
	wrfsbase %rax
	call	on_signal
	wrfsbase %rbx
	pop	%rbx
	ret

	.bss
	.balign	64
	.globl	machine_in
machine_in:
	.zero	192 + 4096
	.balign	64
	.globl	machine_out
machine_out:
	.zero	192 + 4096
	.globl	host_fs
host_fs:
	.zero	8
host_rsp:
	.zero	8

	.section .note.GNU-stack, "", @progbits
