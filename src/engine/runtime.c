// SPDX-License-Identifier: BSD-2-Clause
/*
 * What compilers and Zydis expect to find in a C library. Exported, because the host resolves the
 * imports of libZydis here (inject/image.c).
 *
 * The string instructions are used for two reasons: they are as fast as anything on a processor of
 * the last ten years, and a compiler that recognises the loop of a memcpy would otherwise replace
 * it by a call of memcpy.
 */
#include <stddef.h>

#include "engine/boot.h"
#include "wire/engine.h"

#define EXPORTED __attribute__((visibility("default"), used))

EXPORTED void *memcpy(void *restrict to, const void *restrict from, size_t size);
EXPORTED void *memset(void *to, int byte, size_t size);
EXPORTED size_t strlen(const char *text);
EXPORTED _Noreturn void __assert_fail(const char *what, const char *file, unsigned line,
				      const char *function);
EXPORTED _Noreturn void __stack_chk_fail(void);

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	void *at = to;

	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(size) : : "memory");
	return to;
}

void *memset(void *to, int byte, size_t size)
{
	void *at = to;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(size) : "a"(byte) : "memory");
	return to;
}

size_t strlen(const char *text)
{
	size_t length = 0;

	for (; text[length]; length++)
		__asm__ volatile("");
	return length;
}

/* Called by Zydis when an assertion fails. */
void __assert_fail(const char *what, const char *file, unsigned line, const char *function)
{
	__builtin_trap();
}

void __stack_chk_fail(void)
{
	__builtin_trap();
}

#define BOOT_CHECK(offset, field)                                                                  \
	_Static_assert(offsetof(struct engine_boot, field) == (offset), #field)
BOOT_CHECK(BOOT_TOOLS, tools);
BOOT_CHECK(BOOT_RAX, registers.general[0]);
BOOT_CHECK(BOOT_RSP, registers.general[4]);
BOOT_CHECK(BOOT_R15, registers.general[15]);
BOOT_CHECK(BOOT_RIP, registers.rip);
BOOT_CHECK(BOOT_RFLAGS, registers.rflags);
BOOT_CHECK(BOOT_FS_BASE, registers.fs_base);
BOOT_CHECK(BOOT_GS_BASE, registers.gs_base);
_Static_assert(BOOT_TOOL_NATIVE == ENGINE_TOOL_NATIVE, "tool");
