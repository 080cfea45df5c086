/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper class as bytes, which the agent gives to the virtual machine. */
	.section .rodata
	.globl	java_helper, java_helper_end
	.hidden	java_helper, java_helper_end
java_helper:
	.incbin	HELPER
java_helper_end:

	.section .note.GNU-stack, "", @progbits
