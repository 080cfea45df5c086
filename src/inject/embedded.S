/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's shared object as bytes, so that the binary is complete by itself. */
	.section .rodata
	.globl	engine_embedded, engine_embedded_end
	.balign	4096
engine_embedded:
	.incbin	ENGINE
engine_embedded_end:

	.section .note.GNU-stack, "", @progbits
