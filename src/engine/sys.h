/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls without libc. Results below 0 and above -4096 are errors, as the kernel gives them.
 */
#pragma once

#include <asm/unistd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline long sys6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define sys_0(n) sys6(__NR_##n, 0, 0, 0, 0, 0, 0)
#define sys_1(n, a) sys6(__NR_##n, (long)(a), 0, 0, 0, 0, 0)
#define sys_2(n, a, b) sys6(__NR_##n, (long)(a), (long)(b), 0, 0, 0, 0)
#define sys_3(n, a, b, c) sys6(__NR_##n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define sys_4(n, a, b, c, d) sys6(__NR_##n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define sys_6(n, a, b, c, d, e, f)                                                                 \
	sys6(__NR_##n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline bool sys_failed(long result)
{
	return result < 0 && result > -4096;
}
