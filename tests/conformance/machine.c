// SPDX-License-Identifier: BSD-2-Clause
/* The machine: segments, vector state, the kernel's pages, deep and small stacks. */
#include "corner.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <immintrin.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>

/* --- Segments --------------------------------------------------------------------------------- */

static uint64_t words[64];

static uint64_t gs_read(void)
{
	uint64_t value;

	__asm__ volatile("mov %%gs:8, %0" : "=r"(value));
	return value;
}

static void scene_gs_prctl(void)
{
	uint64_t base = 1;

	for (size_t i = 0; i < 64; i++)
		words[i] = i * 3;
	printf("%ld\n", syscall(SYS_arch_prctl, ARCH_GET_GS, &base));
	printf("%lu\n", base);
	printf("%ld\n", syscall(SYS_arch_prctl, ARCH_SET_GS, words));
	printf("%lu\n", gs_read());
	syscall(SYS_arch_prctl, ARCH_SET_GS, words + 8);
	printf("%lu\n", gs_read());
	syscall(SYS_arch_prctl, ARCH_GET_GS, &base);
	printf("%d\n", base == (uint64_t)(words + 8));
	printf("%ld %d\n", syscall(SYS_arch_prctl, ARCH_GET_GS, 8), errno);
	printf("%ld %d\n", syscall(SYS_arch_prctl, ARCH_SET_GS, ~0ul >> 1), errno);
	printf("%ld %d\n", syscall(SYS_arch_prctl, 0x7777, 0), errno);
}

static volatile int seen;

static void gs_handler(int number, siginfo_t *info, void *context)
{
	seen += gs_read() == 3;
}

static void *gs_thread(void *own)
{
	uint64_t before;

	syscall(SYS_arch_prctl, ARCH_GET_GS, &before);
	syscall(SYS_arch_prctl, ARCH_SET_GS, own);
	return (void *)(gs_read() + (before == (uint64_t)words));
}

static void scene_gs_threads(void)
{
	uint64_t other[4] = { 0, 70 };
	pthread_t thread;
	void *result;

	for (size_t i = 0; i < 64; i++)
		words[i] = i * 3;
	syscall(SYS_arch_prctl, ARCH_SET_GS, words);
	handle(SIGUSR1, gs_handler, 0);
	pthread_create(&thread, NULL, gs_thread, other);
	pthread_join(thread, &result);
	printf("%ld\n", (long)result);
	printf("%lu\n", gs_read());
	for (int i = 0; i < 10; i++)
		raise(SIGUSR1);
	printf("%d\n", seen);
	pid_t child = fork();
	int status;
	if (!child)
		_exit((int)gs_read());
	waitpid(child, &status, 0);
	printf("%d\n", WEXITSTATUS(status));
}

static void scene_wrgsbase(void)
{
	uint64_t base = 0;

	if (!(getauxval(AT_HWCAP2) & 2)) {
		printf("no fsgsbase\n");
		return;
	}
	for (size_t i = 0; i < 64; i++)
		words[i] = i * 5;
	for (int i = 0; i < 20; i++) {
		__asm__ volatile("wrgsbase %0" : : "r"(words + i));
		__asm__ volatile("rdgsbase %0" : "=r"(base));
		printf("%lu %ld\n", gs_read(), (uint64_t *)base - words);
	}
	__asm__ volatile("incq %%gs:8; addq $7, %%gs:(%0)" : : "r"(16l) : "memory");
	printf("%lu %lu\n", words[20], words[21]);
}

static void scene_fs(void)
{
	uint64_t base, again, value, fake[4] = { 0, 99 };

	syscall(SYS_arch_prctl, ARCH_GET_FS, &base);
	__asm__ volatile("rdfsbase %0" : "=r"(again));
	printf("%d\n", base == again);
	__asm__ volatile("wrfsbase %1; mov %%fs:8, %0; wrfsbase %2"
			 : "=&r"(value)
			 : "r"(fake), "r"(base));
	printf("%lu\n", value);
	uint16_t selectors[6];
	__asm__ volatile(
		"mov %%cs, %0; mov %%ss, %1; mov %%ds, %2; mov %%es, %3; mov %%fs, %4; mov %%gs, %5"
		: "=m"(selectors[0]), "=m"(selectors[1]), "=m"(selectors[2]), "=m"(selectors[3]),
		  "=m"(selectors[4]), "=m"(selectors[5]));
	for (int i = 0; i < 6; i++)
		printf("%x ", selectors[i]);
	printf("\n");
}

static void scene_shadow_stack(void)
{
	long result = syscall(SYS_arch_prctl, 0x5001, 1);

	printf("%d\n", result == 0 ? -1 : errno == EOPNOTSUPP || errno == EINVAL || errno == EPERM);
}

/* --- The kernel's pages ----------------------------------------------------------------------- */

static void scene_vdso(void)
{
	struct timespec first, second;
	struct timeval now;
	unsigned cpu, node;
	int wrong = 0;

	printf("%d\n", getauxval(AT_SYSINFO_EHDR) != 0);
	for (int i = 0; i < 100000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &first);
		clock_gettime(CLOCK_MONOTONIC, &second);
		wrong += second.tv_sec < first.tv_sec ||
			 (second.tv_sec == first.tv_sec && second.tv_nsec < first.tv_nsec);
	}
	printf("%d\n", wrong);
	gettimeofday(&now, NULL);
	clock_gettime(CLOCK_REALTIME, &first);
	printf("%d\n", first.tv_sec - now.tv_sec < 2 && time(NULL) - now.tv_sec < 2);
	printf("%d\n", getcpu(&cpu, &node));
	printf("%d\n", clock_gettime(99, &first));
}

static void scene_vsyscall(void)
{
	long (*page_time)(long *) = (void *)0xffffffffff600400;
	long (*page_gettimeofday)(struct timeval *, void *) = (void *)0xffffffffff600000;
	long (*page_getcpu)(unsigned *, unsigned *, void *) = (void *)0xffffffffff600800;
	struct timeval now = {};
	unsigned cpu = 999;

	for (int i = 0; i < 100; i++) {
		long stored = 0, result = page_time(&stored);

		if (result != stored || time(NULL) - result > 2)
			printf("wrong\n");
	}
	printf("%ld\n", page_gettimeofday(&now, NULL));
	printf("%d\n", time(NULL) - now.tv_sec < 2);
	printf("%ld %d\n", page_getcpu(&cpu, NULL, NULL), cpu < 999);
}

/* A registration that fails must fail the same way; one that works must work. */
/* There are barriers for rseq if there is rseq, and only then. */
static void scene_rseq_barriers(void)
{
	enum { QUERY = 0, EXPEDITED = 1 << 4, BARRIER = 1 << 7, REGISTER = 1 << 8 };
	bool there = syscall(SYS_rseq, 8, 32, 0, 0) == 0 || errno != ENOSYS;
	long known = syscall(SYS_membarrier, QUERY, 0, 0);

	printf("%d\n", there == !!(known & BARRIER));
	printf("%d\n", there == !!(known & REGISTER));
	printf("%d\n", there == !syscall(SYS_membarrier, REGISTER, 0, 0));
	printf("%ld %lx\n", syscall(SYS_membarrier, EXPEDITED, 0, 0),
	       known & ~(BARRIER | REGISTER));
}

static void scene_rseq(void)
{
	printf("%d\n", sched_getcpu() >= 0);
	printf("%ld %d\n", syscall(SYS_rseq, 8, 32, 0, 0),
	       errno == EINVAL || errno == ENOSYS || errno == EFAULT);
	for (int i = 0; i < 1000; i++)
		if (sched_getcpu() < 0)
			printf("wrong\n");
}

/* --- Vector state ----------------------------------------------------------------------------- */

__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))) static void scene_avx512(void)
{
	static float a[4096], b[4096];
	__m512i state = _mm512_set1_epi32(12345);
	double sum = 0;

	for (int i = 0; i < 4096; i++) {
		a[i] = (float)i * 0.5f;
		b[i] = (float)(i % 17);
	}
	for (int round = 0; round < 200; round++)
		for (int i = 0; i < 4096; i += 16) {
			__m512 x = _mm512_loadu_ps(a + i), y = _mm512_loadu_ps(b + i);
			__mmask16 mask = _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ);

			x = _mm512_mask_add_ps(x, mask, x, y);
			x = _mm512_sub_ps(x, _mm512_permutexvar_ps(state, y));
			state = _mm512_add_epi32(state, _mm512_castps_si512(x));
			state = _mm512_ternarylogic_epi32(state, _mm512_set1_epi32(round),
							  _mm512_rol_epi32(state, 5), 0x96);
			sum += _mm512_reduce_add_ps(x);
		}
	printf("%a %08x\n", sum, _mm512_reduce_add_epi32(state));
}

/* Vector registers across signals, up to zmm31 and k7. */
static void vector_handler(int number, siginfo_t *info, void *context)
{
	seen++;
	__asm__ volatile("vpxorq %%zmm31, %%zmm31, %%zmm31; vpxorq %%zmm0, %%zmm0, %%zmm0; kxorw "
			 "%%k7, %%k7, %%k7"
			 :
			 :
			 : "xmm0");
}

static void scene_avx512_signals(void)
{
	static uint8_t before[64], after[64];
	struct sigaction action = { .sa_sigaction = vector_handler, .sa_flags = SA_SIGINFO };
	uint32_t mask_after = 0;

	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 64; i++)
		before[i] = (uint8_t)(i * 7);
	for (int i = 0; i < 50; i++) {
		__asm__ volatile("vmovdqu64 (%1), %%zmm31; vmovdqu64 (%1), %%zmm0; mov $0x5a5a, "
				 "%%eax; kmovw %%eax, %%k7;"
				 "mov $39, %%eax; syscall; mov %%eax, %%edi; mov $10, %%esi; mov "
				 "$62, %%eax; syscall;"
				 "vmovdqu64 %%zmm31, (%2); vpxorq %%zmm0, %%zmm31, %%zmm1; "
				 "vptestmb %%zmm1, %%zmm1, %%k1;"
				 "kmovw %%k7, %0"
				 : "=r"(mask_after)
				 : "r"(before), "r"(after)
				 : "rax", "rcx", "rdi", "rsi", "r11", "memory", "xmm0", "xmm1");
		if (memcmp(before, after, 64) || mask_after != 0x5a5a)
			printf("wrong at %d\n", i);
	}
	printf("%d\n", seen);
}

/* What a handler finds in the frame: size and place of the extended state. */
static void frame_handler(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	const uint8_t *state = (const uint8_t *)uc->uc_mcontext.fpregs;
	uint32_t eax, ebx, ecx, edx, magic, size;

	__cpuid_count(0xd, 0, eax, ebx, ecx, edx);
	memcpy(&magic, state + 464, 4);
	memcpy(&size, state + 468, 4);
	printf("magic %x, size of cpuid %d, aligned %lu, flags %lx\n", magic, size == ebx + 4,
	       (uintptr_t)state % 64, uc->uc_flags);
	memcpy(&magic, state + size - 4, 4);
	printf("end %x, xmm5 %x, mxcsr %x\n", magic, *(const uint32_t *)(state + 160 + 5 * 16),
	       uc->uc_mcontext.fpregs->mxcsr);
	*(uint32_t *)(uintptr_t)(state + 160 + 5 * 16) = 4711;
}

static void scene_frame(void)
{
	uint32_t value;

	handle(SIGUSR1, frame_handler, 0);
	__asm__ volatile("mov $0x1234, %%eax; movd %%eax, %%xmm5; mov $39, %%eax; syscall; mov "
			 "%%eax, %%edi; mov $10, %%esi;"
			 "mov $62, %%eax; syscall; movd %%xmm5, %0"
			 : "=r"(value)
			 :
			 : "rax", "rcx", "rdi", "rsi", "r11", "memory", "xmm5");
	printf("%u\n", value);
}

static void mxcsr_handler(int number, siginfo_t *info, void *context)
{
	uint16_t control;

	__asm__ volatile("fnstcw %0" : "=m"(control));
	printf("in handler: mxcsr %x, control %x\n", _mm_getcsr(), control);
	_mm_setcsr(0x1f80);
}

static void scene_rounding(void)
{
	uint16_t control = 0x0f7f;

	handle(SIGUSR1, mxcsr_handler, 0);
	_mm_setcsr(0x7f80);
	__asm__ volatile("fldcw %0" : : "m"(control));
	raise(SIGUSR1);
	__asm__ volatile("fnstcw %0" : "=m"(control));
	printf("after: mxcsr %x, control %x\n", _mm_getcsr(), control);
}

static void fpe_handler(int number, siginfo_t *info, void *context)
{
	printf("code %d\n", info->si_code);
	_exit(7);
}

static void scene_float_trap(void)
{
	volatile double zero = 0;

	handle(SIGFPE, fpe_handler, 0);
	_mm_setcsr(0x1d80);
	printf("%f\n", 1 / zero);
}

/* xsave and xrstor by the program itself. */
__attribute__((target("xsave"))) static void scene_xsave(void)
{
	static uint8_t area[16384] __attribute__((aligned(64)));
	uint32_t value = 0;

	__asm__ volatile("mov $0x77, %%eax; movd %%eax, %%xmm9" : : : "rax", "xmm9");
	_xsave64(area, 7);
	__asm__ volatile("pxor %%xmm9, %%xmm9" : : : "xmm9");
	_xrstor64(area, 7);
	__asm__ volatile("movd %%xmm9, %0" : "=r"(value));
	printf("%x %d\n", value, _xgetbv(0) > 1);
}

static void scene_x87(void)
{
	long double x = 1;

	for (int i = 1; i < 2000; i++)
		x += 1.0L / i - (long double)i / 100000;
	printf("%La\n", x);
}

static sigjmp_buf clock_back;

static void on_clock(int number)
{
	siglongjmp(clock_back, number);
}

/* It forbids itself to read the time stamp counter, and executes code that it has not before. */
static void scene_clock(void)
{
	int number;

	signal(SIGSEGV, on_clock);
	printf("%d\n", prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
	number = sigsetjmp(clock_back, 1);
	if (!number)
		printf("%d\n", __rdtsc() != 0);
	printf("signal %d, %g\n", number, strtod("1.5e3", NULL));
	printf("%d\n", prctl(PR_SET_TSC, PR_TSC_ENABLE));
	printf("%d\n", __rdtsc() != 0);
}

static void scene_cpuid(void)
{
	uint32_t eax, ebx, ecx, edx;

	__cpuid(0, eax, ebx, ecx, edx);
	printf("%x %x %x %x\n", eax, ebx, ecx, edx);
	__cpuid_count(7, 0, eax, ebx, ecx, edx);
	printf("%x %x %x\n", ebx, ecx, edx);
	uint64_t first = __rdtsc(), second = __rdtsc();
	printf("%d\n", second >= first);
}

/* --- Stacks ----------------------------------------------------------------------------------- */

static long depth_sum(long depth)
{
	volatile char space[200];

	space[0] = (char)depth;
	return depth ? depth_sum(depth - 1) + space[0] : 0;
}

static void *deep(void *unused)
{
	return (void *)depth_sum(2000000);
}

static void scene_deep(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *result;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 1ul << 30);
	printf("%d\n", pthread_create(&thread, &attributes, deep, NULL));
	pthread_join(thread, &result);
	printf("%ld\n", (long)result);
}

static void scene_deep_main(void)
{
	printf("%ld\n", depth_sum(25000));
}

/* rsp as a general register; nothing may be written below it but by the program. */
static void scene_no_stack(void)
{
	static uint64_t memory[512];
	uint64_t sum;

	for (int i = 0; i < 512; i++)
		memory[i] = (uint64_t)i;
	__asm__ volatile(
		"mov %%rsp, %%rbx; mov %1, %%rsp; xor %0, %0; mov $512, %%ecx;"
		"1: add (%%rsp), %0; lea 8(%%rsp), %%rsp; dec %%ecx; jnz 1b; mov %%rbx, %%rsp"
		: "=&r"(sum)
		: "r"(memory)
		: "rbx", "rcx", "cc", "memory");
	for (int i = 0; i < 512; i++)
		if (memory[i] != (uint64_t)i)
			printf("written at %d\n", i);
	printf("%lu\n", sum);
}

/* The red zone and everything below the stack pointer stay as they are. */
static void scene_red_zone(void)
{
	uint64_t wrong;

	__asm__ volatile(
		"movq $0x1234, -8(%%rsp); movq $0x5678, -128(%%rsp); movq $0x9abc, -4000(%%rsp); "
		"mov $200, %%ecx;"
		"1: jmp 2f; nop; 2: lea 3f(%%rip), %%rax; jmp *%%rax; nop; 3: dec %%ecx; jnz 1b;"
		"mov -8(%%rsp), %0; xor $0x1234, %0; mov -128(%%rsp), %%rax; xor $0x5678, %%rax; "
		"or %%rax, %0;"
		"mov -4000(%%rsp), %%rax; xor $0x9abc, %%rax; or %%rax, %0"
		: "=r"(wrong)
		:
		: "rax", "rcx", "cc", "memory");
	printf("%lu\n", wrong);
}

/* Return addresses are the program's own. */
static void scene_call_pop(void)
{
	uintptr_t popped, label;

	__asm__ volatile("call 1f; 1: pop %0; lea 1b(%%rip), %1" : "=r"(popped), "=r"(label));
	printf("%d\n", popped == label);
	__asm__ volatile("lea 1f(%%rip), %%rax; push %%rax; ret; ud2; 1: nop" : : : "rax");
	__asm__ volatile("lea 1f(%%rip), %%rax; push $0; push %%rax; ret $8; ud2; 1: nop"
			 :
			 :
			 : "rax");
	__asm__ volatile("lea 1f(%%rip), %%rax; push %%rax; mov %%rsp, %%rcx; call *(%%rcx); ud2; "
			 "1: add $16, %%rsp"
			 :
			 :
			 : "rax", "rcx");
	printf("done\n");
}

static const struct scene scenes[] = {
	{ "gs-prctl", scene_gs_prctl },
	{ "gs-threads", scene_gs_threads },
	{ "wrgsbase", scene_wrgsbase },
	{ "fs", scene_fs },
	{ "shadow-stack", scene_shadow_stack },
	{ "vdso", scene_vdso },
	{ "vsyscall", scene_vsyscall },
	{ "rseq", scene_rseq },
	{ "rseq-barriers", scene_rseq_barriers },
	{ "avx512", scene_avx512 },
	{ "avx512-signals", scene_avx512_signals },
	{ "frame", scene_frame },
	{ "rounding", scene_rounding },
	{ "float-trap", scene_float_trap },
	{ "xsave", scene_xsave },
	{ "x87", scene_x87 },
	{ "cpuid", scene_cpuid },
	{ "clock", scene_clock },
	{ "deep", scene_deep },
	{ "deep-main", scene_deep_main },
	{ "no-stack", scene_no_stack },
	{ "red-zone", scene_red_zone },
	{ "call-pop", scene_call_pop },
};

SCENES_MAIN(scenes)
