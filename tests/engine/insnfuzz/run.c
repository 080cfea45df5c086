// SPDX-License-Identifier: BSD-2-Clause
/*
 * One sequence: from a random state to what it leaves behind. A signal ends it, unless it steps
 * itself, or is the timer's. Every second signal goes back through sigreturn to machine_leave,
 * which has to find the state that the frame had.
 */
#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/ucontext.h>
#include <xxhash.h>

#include "insnfuzz.h"

enum {
	HUNG_TICKS =
		/*
		 * 0.4 seconds of CPU time: no sequence that ends takes a quarter of that, even
		 * stepped
		 */
	8,
	VECTORS_HEADER = 512,
	X87_ADDRESS = 8,
	XMM_OFFSET = 160,
	PARTS = 20, /* of an xsave area */
	WORD_SIGNAL = 0,
	WORD_CODE,
	WORD_ADDRESS,
	WORD_TRAP,
	WORD_ERROR,
	WORD_CR2,
	WORD_STEPS, /* hash of where it stepped */
	WORD_SELECTORS,
	WORD_RIP,
	WORD_GENERAL,
	WORD_FLAGS = WORD_GENERAL + 16,
	WORD_FS,
	WORD_GS,
	WORD_SEGMENTS,
	WORD_HUNG,
	WORD_X87, /* the last x87 instruction, as a frame has it */
	WORD_COUNT,
};

static const char *const word_names[] = {
	"signal", "code",  "address", "trap", "error",	  "cr2",  "steps", "selectors",
	"rip",	  "rax",   "rcx",     "rdx",  "rbx",	  "rsp",  "rbp",   "rsi",
	"rdi",	  "r8",	   "r9",      "r10",  "r11",	  "r12",  "r13",   "r14",
	"r15",	  "flags", "fs",      "gs",   "segments", "hung", "x87"
};
_Static_assert(sizeof(word_names) / sizeof(word_names[0]) == WORD_COUNT, "names");

static uint8_t pristine_low[LOW_SIZE], pristine_near[NEAR_SIZE];
static uint32_t part_offset[PARTS], part_size[PARTS];
static uint8_t initial_vectors[VECTORS_SIZE] __attribute__((aligned(64)));

/* The sequence that runs. */
static struct {
	uint64_t start, size;
	const uint64_t *starts;
	unsigned steps, ticks;
	bool goes_back;
	struct outcome *outcome;
	bool running;
} now;
static uint64_t interrupts;

static void map(uint64_t address, size_t size, int protection)
{
	void *place = mmap((void *)address, size, protection,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	if (place != (void *)address)
		err(1, "mmap of %#lx", (unsigned long)address);
}

static void parts_init(void)
{
	for (uint32_t i = 2; i < PARTS; i++) {
		uint32_t a = 13, b, c = i, d;

		__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
		part_size[i] = b + a <= VECTORS_SIZE ? a : 0;
		part_offset[i] = b;
	}
}

static void signals_init(void)
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGALRM, SIGPROF };
	static uint8_t stack[128 * 1024] __attribute__((aligned(64)));
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	if (sigaltstack(&alternate, NULL))
		err(1, "sigaltstack");
	action.sa_sigaction = (void (*)(int, siginfo_t *, void *))machine_signal;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

/* Notices a sequence that never ends. */
static void watch_init(void)
{
	const struct itimerval tick = { { 0, 50000 }, { 0, 50000 } };

	setitimer(ITIMER_PROF, &tick, NULL);
}

/* lsl and rdpid tell the number of the CPU. */
static void cpu_pin(void)
{
	cpu_set_t all, one;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(all), &all))
		err(1, "sched_getaffinity");
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		err(1, "sched_setaffinity");
}

void run_init(void)
{
	struct random random = { 1 };

	cpu_pin();
	map(0x10000, LOW_RESERVED - 0x10000, PROT_NONE);
	map(LOW_BASE, LOW_SIZE, PROT_READ | PROT_WRITE);
	map(CODE_BASE, NEAR_BASE - CODE_BASE, PROT_READ | PROT_WRITE);
	map(NEAR_BASE, NEAR_SIZE, PROT_READ | PROT_WRITE);
	map(HOLE_BASE, HOLE_SIZE, PROT_NONE);
	map(CODE_BASE - HOLE_SIZE, HOLE_SIZE, PROT_NONE);
	map(LEAVE_BASE, LEAVE_SIZE, PROT_READ | PROT_WRITE);
	*(uint64_t *)LEAVE_BASE = (uint64_t)machine_leave;
	if (mprotect((void *)LEAVE_BASE, LEAVE_SIZE, PROT_READ))
		err(1, "mprotect");
	for (size_t i = 0; i < LOW_SIZE; i++)
		pristine_low[i] = (uint8_t)random_next(&random);
	for (size_t i = 0; i < NEAR_SIZE; i++)
		pristine_near[i] = (uint8_t)random_next(&random);
	__asm__ volatile("rdfsbase %0" : "=r"(host_fs));
	parts_init();
	__asm__ volatile("xsave64 %0" : "=m"(initial_vectors) : "a"(VECTORS_KEPT), "d"(0));
	signals_init();
	watch_init();
}

void run_timer(unsigned microseconds)
{
	const struct itimerval tick = { { 0, microseconds }, { 0, microseconds } };

	setitimer(ITIMER_REAL, &tick, NULL);
}

uint64_t run_interrupts(void)
{
	return interrupts;
}

void run_code(uint8_t *code, size_t size)
{
	if (mprotect(code, size, PROT_READ | PROT_EXEC))
		err(1, "mprotect");
}

void run_code_edit(void)
{
	if (mprotect((void *)CODE_BASE, NEAR_BASE - CODE_BASE, PROT_READ | PROT_WRITE))
		err(1, "mprotect");
}

/* --- States ----------------------------------------------------------------------------------- */

static uint64_t random_value(struct random *random)
{
	uint64_t kind = random_below(random, 100), any = random_next(random);

	if (kind < 64)
		return LOW_BASE + 256 + any % (LOW_SIZE - 512);
	if (kind < 76)
		return any % 64;
	if (kind < 84)
		return NEAR_BASE + 256 + any % (NEAR_SIZE - 512);
	if (kind < 90)
		return (uint64_t)(int8_t)any;
	if (kind < 93)
		return 1ull << any % 64;
	return any;
}

static void vectors_random(struct random *random, uint8_t *vectors)
{
	uint64_t *header = (uint64_t *)(vectors + VECTORS_HEADER);

	memset(vectors, 0, VECTORS_SIZE);
	for (size_t i = 32; i < 512 - 96; i += 8)
		*(uint64_t *)(vectors + i) = random_percent(random, 70) ? random_next(random) : 0;
	for (size_t i = 32; i < XMM_OFFSET; i += 16)
		memset(vectors + i + 10, 0, 6); /* ten bytes each */
	*(uint16_t *)vectors =
		random_percent(random, 85) ? 0x37f : (uint16_t)(random_next(random) & 0x0f7f);
	vectors[4] = (uint8_t)random_next(random); /* tags */
	*(uint16_t *)(vectors + 2) = (uint16_t)(random_next(random) & 0x7f00);
	*(uint32_t *)(vectors + 24) = random_percent(random, 85)
					      ? 0x1f80 | (random_next(random) & 0xe07f)
					      : random_next(random) & 0xffff;
	*header = 7; /* x87, SSE, AVX */
	for (size_t part = 2; part < 8; part++) {
		if (part > 2 && part < 5)
			continue; /* MPX */
		if (!part_size[part] || random_percent(random, 20))
			continue;
		*header |= 1ull << part;
		for (size_t i = 0; i < part_size[part]; i += 8)
			*(uint64_t *)(vectors + part_offset[part] + i) = random_next(random);
	}
	*header &= *(const uint64_t *)(initial_vectors + VECTORS_HEADER) | 0xe7;
}

static void machine_random(struct random *random)
{
	for (size_t i = 0; i < 16; i++)
		machine_in.general[i] = random_value(random);
	machine_in.general[4] = LOW_BASE + LOW_SIZE / 4 + random_below(random, LOW_SIZE / 2);
	if (random_percent(random, 80))
		machine_in.general[4] &= ~15ull;
	machine_in.flags = 0x202 | (random_next(random) & 0x8d5);
	if (random_percent(random, 10))
		machine_in.flags |= 0x400;
	machine_in.fs = LOW_BASE + 8 * random_below(random, LOW_SIZE / 8);
	machine_in.gs = LOW_BASE + 8 * random_below(random, LOW_SIZE / 8);
	vectors_random(random, machine_in.vectors);
	memcpy((void *)LOW_BASE, pristine_low, LOW_SIZE);
	memcpy((void *)NEAR_BASE, pristine_near, NEAR_SIZE);
}

/* A part that is not in use has its initial value, whatever the memory says. */
static uint64_t vectors_hash(const uint8_t *vectors)
{
	uint64_t in_use = *(const uint64_t *)(vectors + VECTORS_HEADER), hash = 0;
	uint8_t legacy[416] = { 0 };

	*(uint16_t *)legacy = 0x37f;
	if (in_use & 1)
		memcpy(legacy, vectors, XMM_OFFSET);
	memcpy(legacy + 24, vectors + 24, 4);
	memset(legacy + 28, 0, 4); /* which bits of mxcsr there are */
	if (in_use & 2)
		memcpy(legacy + XMM_OFFSET, vectors + XMM_OFFSET, 256);
	memset(legacy + X87_ADDRESS, 0, 8); /* see the design page */
	hash = XXH3_64bits(legacy, sizeof(legacy));
	for (size_t part = 2; part < 8; part++) {
		static const uint8_t zero[1024];
		const uint8_t *from = in_use >> part & 1 ? vectors + part_offset[part] : zero;

		if (part_size[part] && part_size[part] <= sizeof(zero))
			hash = XXH3_64bits_withSeed(from, part_size[part], hash);
	}
	return hash;
}

static uint64_t x87_address(const uint8_t *vectors)
{
	bool in_use = vectors[VECTORS_HEADER] & 1;

	return in_use ? *(const uint64_t *)(vectors + X87_ADDRESS) : 0;
}

/* --- Signals ---------------------------------------------------------------------------------- */

static void general_take(const greg_t *from, uint64_t *ret)
{
	static const int order[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
				       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
				       REG_R12, REG_R13, REG_R14, REG_R15 };

	for (size_t i = 0; i < 16; i++)
		ret[i] = (uint64_t)from[order[i]];
}

static bool is_in_sequence(uint64_t rip)
{
	return rip - now.start < now.size;
}

static bool is_in_code(uint64_t rip)
{
	return rip >= CODE_BASE && rip < NEAR_BASE;
}

/* From both timers: where they expire at once, only one of their handlers sees the sequence. */
static void hang_check(const greg_t *registers)
{
	if (!now.running || now.ticks < HUNG_TICKS || !is_in_code((uint64_t)registers[REG_RIP]))
		return;
	now.outcome->words[WORD_HUNG] = 1;
	machine_escape();
}

static void on_timer(const greg_t *registers)
{
	uint64_t rip = (uint64_t)registers[REG_RIP], offset = rip - now.start;

	if (!now.running || !is_in_code(rip))
		return;
	interrupts++;
	if (!now.starts || (is_in_sequence(rip) && now.starts[offset / 64] >> offset % 64 & 1))
		return;
	printf("interrupted at %#lx, which is no instruction of the sequence at %#lx\n",
	       (unsigned long)rip, (unsigned long)now.start);
	exit(1);
}

/* Where the loader has put this program is random. */
static uint64_t place(uint64_t address)
{
	uint64_t offset = address - (uint64_t)machine_leave;

	return offset < 4096 ? offset : address;
}

static void signal_take(int number, const siginfo_t *info, const ucontext_t *context)
{
	const greg_t *registers = context->uc_mcontext.gregs;
	uint64_t *words = now.outcome->words;

	words[WORD_SIGNAL] = (uint64_t)number;
	words[WORD_CODE] = (uint64_t)info->si_code;
	words[WORD_ADDRESS] = place((uint64_t)info->si_addr);
	words[WORD_TRAP] = (uint64_t)registers[REG_TRAPNO];
	words[WORD_ERROR] = (uint64_t)registers[REG_ERR];
	words[WORD_CR2] = registers[REG_TRAPNO] == 14 ? (uint64_t)registers[REG_CR2] : 0;
	words[WORD_SELECTORS] = (uint64_t)registers[REG_CSGSFS];
	words[WORD_RIP] = place((uint64_t)registers[REG_RIP]);
	general_take(registers, words + WORD_GENERAL);
	words[WORD_FLAGS] = (uint64_t)registers[REG_EFL];
	now.outcome->vectors = vectors_hash((const uint8_t *)context->uc_mcontext.fpregs);
	words[WORD_X87] = x87_address((const uint8_t *)context->uc_mcontext.fpregs);
}

/* Some hypervisors lose the bit by which the kernel knows a step: it then has the code of int1. */
static bool is_step(int number, const siginfo_t *info, const greg_t *registers)
{
	bool traced = info->si_code == TRAP_TRACE ||
		      (info->si_code == TRAP_BRKPT && registers[REG_EFL] & FLAG_TRAP);

	return number == SIGTRAP && traced && now.steps < STEPS_MAX;
}

void on_signal(int number, void *info_given, void *context_given)
{
	ucontext_t *context = context_given;
	greg_t *registers = context->uc_mcontext.gregs;
	const siginfo_t *info = info_given;

	if (number == SIGALRM) {
		on_timer(registers);
		hang_check(registers);
		return;
	}
	if (number == SIGPROF) {
		now.ticks++;
		hang_check(registers);
		return;
	}
	if (!now.running)
		errx(1, "signal %d at %#llx outside of a sequence", number, registers[REG_RIP]);
	if (is_step(number, info, registers) && is_in_sequence((uint64_t)registers[REG_RIP])) {
		uint64_t *hash = &now.outcome->words[WORD_STEPS];

		now.steps++;
		*hash = *hash * 31 + (uint64_t)registers[REG_RIP] + (uint64_t)registers[REG_EFL];
		return;
	}
	signal_take(number, info, context);
	if (!now.goes_back)
		machine_escape();
	registers[REG_RIP] = (greg_t)machine_leave;
	registers[REG_CSGSFS] = (registers[REG_CSGSFS] & ~0xffffll) |
				0x33; /* it may have been 32-bit code */
	registers[REG_EFL] &= ~FLAG_TRAP;
}

/* --- Running ---------------------------------------------------------------------------------- */

static void outcome_take(struct outcome *outcome)
{
	uint64_t *words = outcome->words;

	if (!words[WORD_SIGNAL] || now.goes_back) {
		memcpy(words + WORD_GENERAL, machine_out.general, sizeof(machine_out.general));
		words[WORD_FLAGS] = machine_out.flags;
		words[WORD_FS] = machine_out.fs;
		outcome->vectors = vectors_hash(machine_out.vectors);
	}
	words[WORD_GS] = machine_out.gs;
	words[WORD_SEGMENTS] = machine_out.segments &
			       ~0x3000300030003ull; /* task switches forget them */
	outcome->memory = XXH3_64bits_withSeed((const void *)LOW_BASE, LOW_SIZE,
					       XXH3_64bits((const void *)NEAR_BASE, NEAR_SIZE));
	if (words[WORD_HUNG])
		*outcome = (struct outcome){ .words[WORD_HUNG] = 1 };
}

void run_one(struct random *random, uint64_t code, size_t size, const uint64_t *starts,
	     struct outcome *ret)
{
	memset(ret, 0, sizeof(*ret));
	machine_random(random);
	machine_in.rip = code;
	now.start = code;
	now.size = size;
	now.starts = starts;
	now.steps = now.ticks = 0;
	now.goes_back = random_percent(random, 50);
	now.outcome = ret;
	now.running = true;
	machine_enter();
	now.running = false;
	outcome_take(ret);
}

uint64_t outcome_hash(const struct outcome *outcome)
{
	return XXH3_64bits(outcome, sizeof(*outcome));
}

int outcome_signal(const struct outcome *outcome)
{
	return (int)outcome->words[WORD_SIGNAL];
}

bool outcome_hung(const struct outcome *outcome)
{
	return outcome->words[WORD_HUNG];
}

void outcome_print(const struct outcome *outcome)
{
	for (size_t i = 0; i < WORD_COUNT; i++)
		printf("%s %#lx%s", word_names[i], (unsigned long)outcome->words[i],
		       i % 4 == 3 ? "\n" : ", ");
	printf("vectors %#lx, memory %#lx\n", (unsigned long)outcome->vectors,
	       (unsigned long)outcome->memory);
}
