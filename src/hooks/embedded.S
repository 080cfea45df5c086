/* SPDX-License-Identifier: BSD-2-Clause */
/* The hooks' shared object as bytes, so that the binary is complete by itself. */
	.section .rodata
	.globl	hooks_embedded, hooks_embedded_end
	.balign	4096
hooks_embedded:
	.incbin	HOOKS
hooks_embedded_end:

	.section .note.GNU-stack, "", @progbits
