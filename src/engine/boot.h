/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the fields of struct engine_boot lie, for assembly. runtime.c checks every number. */
#pragma once

#define BOOT_TOOLS 0x30
#define BOOT_RAX 0x48 /* the general registers, in x86's numbering */
#define BOOT_RCX 0x50
#define BOOT_RDX 0x58
#define BOOT_RBX 0x60
#define BOOT_RSP 0x68
#define BOOT_RBP 0x70
#define BOOT_RSI 0x78
#define BOOT_RDI 0x80
#define BOOT_R8 0x88
#define BOOT_R9 0x90
#define BOOT_R10 0x98
#define BOOT_R11 0xa0
#define BOOT_R12 0xa8
#define BOOT_R13 0xb0
#define BOOT_R14 0xb8
#define BOOT_R15 0xc0
#define BOOT_RIP 0xc8
#define BOOT_RFLAGS 0xd0
#define BOOT_FS_BASE 0xd8
#define BOOT_GS_BASE 0xe0

#define BOOT_TOOL_NATIVE 0 /* its number in the set of tools */
