// SPDX-License-Identifier: BSD-2-Clause
/* Faults: what a handler is told, and where it can send the program. */
#include "corner.h"

#include <sys/syscall.h>

static sigjmp_buf back;
static volatile uintptr_t fault_address, fault_pc;
static volatile int fault_number, fault_code;
static volatile unsigned long fault_error, fault_trap;
static volatile uint64_t fault_registers[8];

static void caught(int number, siginfo_t *info, void *context)
{
	const greg_t *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;

	fault_number = number;
	fault_code = info->si_code;
	fault_address = (uintptr_t)info->si_addr;
	fault_pc = (uintptr_t)gregs[REG_RIP];
	fault_error = (unsigned long)gregs[REG_ERR];
	fault_trap = (unsigned long)gregs[REG_TRAPNO];
	fault_registers[0] = (uint64_t)gregs[REG_RAX];
	fault_registers[1] = (uint64_t)gregs[REG_RCX];
	fault_registers[2] = (uint64_t)gregs[REG_RDX];
	fault_registers[3] = (uint64_t)gregs[REG_RBX];
	siglongjmp(back, 1);
}

static void handlers(void)
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		handle(numbers[i], caught, 0);
}

/* Where is the address: relative to what the scene knows. */
static void say(const char *what, uintptr_t pc, uintptr_t address)
{
	printf("%s: signal %d code %d trap %lu error %lu, pc +%ld, address +%ld\n", what,
	       fault_number, fault_code, fault_trap, fault_error, (long)(fault_pc - pc),
	       (long)(fault_address - address));
}

static volatile uintptr_t here;

/* An instruction whose address is known. */
#define TRY(what, address, text, ...)                                                              \
	do {                                                                                       \
		if (!sigsetjmp(back, 1)) {                                                         \
			__asm__ volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; 1: " text           \
					 : "=m"(here)                                              \
					 : __VA_ARGS__                                             \
					 : "rax", "rdx", "memory");                                \
			printf("%s: no fault\n", what);                                            \
		} else {                                                                           \
			say(what, here, (uintptr_t)(address));                                     \
		}                                                                                  \
	} while (0)

static void scene_memory(void)
{
	char *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	handlers();
	munmap(page + 4096, 4096);
	TRY("store to 0", 0, "movl $1, (%%rcx)", "c"(0));
	TRY("load from 8", 8, "mov 8(%%rcx), %%rdx", "c"(0));
	TRY("store to read-only", page + 5, "movb $1, 5(%%rcx)", "c"(page));
	TRY("load across an end", page + 4096, "mov (%%rcx), %%rdx", "c"(page + 4092));
	TRY("not canonical", 0, "mov (%%rcx), %%rdx", "c"(0x8000000000000000ull));
	TRY("vector load misaligned", 0, "movaps (%%rcx), %%xmm0", "c"(page + 4));
	TRY("kernel address", 0xffffffff81000000ull, "mov (%%rcx), %%rdx",
	    "c"(0xffffffff81000000ull));
	TRY("string store", page + 4096, "mov $8192, %%ecx; xor %%eax, %%eax; rep lodsb",
	    "S"(page));
	TRY("read-modify-write", page + 16, "lock incl 16(%%rcx)", "c"(page));
	TRY("compare and swap", page + 32, "lock cmpxchg16b 32(%%rcx)", "c"(page));
	TRY("masked", page + 4096,
	    "mov $-1, %%eax; vmovd %%eax, %%xmm0; vmaskmovps (%%rcx), %%xmm0, %%xmm1",
	    "c"(page + 4096));
}

static void scene_arithmetic(void)
{
	handlers();
	TRY("divide by 0", here, "xor %%edx, %%edx; div %%ecx", "c"(0));
	TRY("quotient too large", here, "mov $-1, %%edx; div %%ecx", "c"(2));
	TRY("idiv", here, "mov $0x80000000, %%eax; cdq; idiv %%ecx", "c"(-1));
}

static void scene_illegal(void)
{
	handlers();
	TRY("ud2", here, "ud2", "c"(0));
	TRY("ud1", here, ".byte 0x0f, 0xb9, 0xc0", "c"(0));
	TRY("hlt", 0, "hlt", "c"(0));
	TRY("cli", 0, "cli", "c"(0));
	TRY("in", 0, "in %%dx, %%al", "c"(0));
	TRY("rdmsr", 0, "rdmsr", "c"(0));
	TRY("mov cr0", 0, "mov %%cr0, %%rax", "c"(0));
	TRY("lock on a register", here, ".byte 0xf0, 0x01, 0xc8", "c"(0));
	TRY("push es in 64 bits", here, ".byte 0x06", "c"(0));
	TRY("into", here, ".byte 0xce", "c"(0));
	TRY("far jump by value", here, ".byte 0xea", "c"(0));
	TRY("wbinvd", 0, "wbinvd", "c"(0));
	TRY("swapgs", 0, "swapgs", "c"(0));
	TRY("sysret", 0, "sysretq", "c"(0));
	TRY("int 5", 0, "int $5", "c"(0));
	TRY("int 0", 0, "int $0", "c"(0));
}

static void scene_int3(void)
{
	handlers();
	TRY("int3", 0, "int3", "c"(0));
	TRY("int 3", 0, ".byte 0xcd, 3", "c"(0));
	TRY("int1", here, ".byte 0xf1", "c"(0));
}

static volatile int steps;

static void step(int number, siginfo_t *info, void *context)
{
	steps++;
}

static void scene_int3_go_on(void)
{
	handle(SIGTRAP, step, 0);
	for (int i = 0; i < 100; i++)
		__asm__ volatile("int3");
	printf("%d\n", steps);
}

static void scene_trap_flag(void)
{
	handle(SIGTRAP, step, 0);
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq; nop; nop; nop; mov $5, %%ecx; 1: dec "
			 "%%ecx; jnz 1b;"
			 "pushfq; andl $~0x100, (%%rsp); popfq; nop"
			 :
			 :
			 : "rcx", "cc", "memory");
	printf("%d\n", steps);
}

/* Jumps to where no code is. */
static void jump_to(uintptr_t where, const char *what)
{
	if (!sigsetjmp(back, 1)) {
		((void (*)(void))where)();
		printf("%s: came back\n", what);
	} else {
		say(what, where, where);
	}
}

static void scene_jumps(void)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	handlers();
	for (int i = 0; i < 3; i++) {
		jump_to(0, "0");
		jump_to((uintptr_t)page + 7, "data");
		jump_to((uintptr_t)none, "nothing readable");
		jump_to(0x1234567000, "nothing mapped");
		if (!sigsetjmp(back, 1))
			((void (*)(void))0x8000000000000000ull)();
		printf("not canonical: signal %d code %d\n", fault_number, fault_code);
		jump_to(0xffffffff81000000ull, "kernel");
	}
}

/* A direct jump, from code near enough. */
static void scene_jump_null(void)
{
	/* mov $17, %ecx; mov $23, %edx; mov $42, %ebx; mov $4711, %eax; jmp 0 */
	static const uint8_t code[] = { 0xb9, 17, 0, 0, 0,    0xba, 23,	  0, 0, 0,   0xbb,
					42,   0,  0, 0, 0xb8, 0x67, 0x12, 0, 0, 0xe9 };
	uint8_t *low = mmap((void *)0x100000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int32_t distance = -(0x100000 + (int32_t)sizeof(code) + 4);

	handlers();
	memcpy(low, code, sizeof(code));
	memcpy(low + sizeof(code), &distance, sizeof(distance));
	if (!sigsetjmp(back, 1))
		((void (*)(void))(uintptr_t)low)();
	say("jump to 0", 0, 0);
	for (int i = 0; i < 4; i++)
		printf("%lu\n", (unsigned long)fault_registers[i]);
}

static void scene_return_nowhere(void)
{
	handlers();
	if (!sigsetjmp(back, 1))
		__asm__ volatile("push $0x1230; ret");
	say("return", 0x1230, 0x1230);
	if (!sigsetjmp(back, 1))
		__asm__ volatile("mov $0x1240, %%ecx; jmp *%%rcx" : : : "rcx");
	say("jump", 0x1240, 0x1240);
}

static void scene_registers(void)
{
	handlers();
	if (!sigsetjmp(back, 1))
		__asm__ volatile("mov $0x1111111111111111, %%rax; mov $0x22222222, %%ecx; mov $-3, "
				 "%%rdx; mov $4, %%ebx;"
				 "movl $0, (0x40)"
				 :
				 :
				 : "rax", "rcx", "rdx", "rbx");
	for (int i = 0; i < 4; i++)
		printf("%llx ", (unsigned long long)fault_registers[i]);
	printf("%lx\n", (unsigned long)fault_address);
}

/* An indirect branch through memory that is not there: registers are as before it. */
static void scene_branch_operands(void)
{
	handlers();
	if (!sigsetjmp(back, 1))
		__asm__ volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov $0x77, %%ecx; mov "
				 "$0x88, %%edx; 1: jmp *(%%rcx)"
				 : "=m"(here)
				 :
				 : "rax", "rcx", "rdx");
	say("jump through memory", here, 0x77);
	printf("%llx %llx\n", (unsigned long long)fault_registers[1],
	       (unsigned long long)fault_registers[2]);
	if (!sigsetjmp(back, 1))
		__asm__ volatile(
			"lea 1f(%%rip), %%rax; mov %%rax, %0; mov $0x77, %%ecx; mov $0x88, %%edx;"
			"1: call *8(%%rcx,%%rdx)"
			: "=m"(here)
			:
			: "rax", "rcx", "rdx");
	say("call through memory", here, 0x77 + 0x88 + 8);
	printf("%llx %llx\n", (unsigned long long)fault_registers[1],
	       (unsigned long long)fault_registers[2]);
}

/* A call or return whose stack is bad. */
static void scene_bad_stack(void)
{
	static char alternate[65536];
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };

	sigaltstack(&stack, NULL);
	for (int i = 0; i < 2; i++)
		handle(i ? SIGBUS : SIGSEGV, caught, SA_ONSTACK);
	if (!sigsetjmp(back, 1))
		__asm__ volatile(
			"lea 1f(%%rip), %%rax; mov %%rax, %0; mov $0x1000, %%esp; 1: call exit"
			: "=m"(here)
			:
			: "rax");
	say("call", here, 0xff8);
	if (!sigsetjmp(back, 1))
		__asm__ volatile("lea 1f(%%rip), %%rax; mov %%rax, %0; mov $0x1000, %%esp; 1: ret"
				 : "=m"(here)
				 :
				 : "rax");
	say("return", here, 0x1000);
	if (!sigsetjmp(back, 1))
		__asm__ volatile(
			"lea 1f(%%rip), %%rax; mov %%rax, %0; mov $0x1000, %%esp; 1: call *%%rax"
			: "=m"(here)
			:
			: "rax");
	say("indirect call", here, 0xff8);
	if (!sigsetjmp(back, 1))
		__asm__ volatile(
			"lea 1f(%%rip), %%rax; mov %%rax, %0; mov $0x1000, %%esp; 1: push %%rcx"
			: "=m"(here)
			:
			: "rax");
	say("push", here, 0xff8);
}

static void scene_bus(void)
{
	char name[] = "busXXXXXX";
	int fd = mkstemp(name);
	char *page;

	unlink(name);
	ftruncate(fd, 4096);
	page = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	handlers();
	TRY("behind a file's end", page + 4100, "mov 4100(%%rcx), %%rdx", "c"(page));
}

/* A handler that repairs: the instruction is done again. */
static char *repair_page;

static void repair(int number, siginfo_t *info, void *context)
{
	steps++;
	mprotect(repair_page, 4096, PROT_READ | PROT_WRITE);
}

static void scene_repair(void)
{
	repair_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(SIGSEGV, repair, 0);
	for (int i = 0; i < 200; i++) {
		repair_page[i] = (char)i;
		mprotect(repair_page, 4096, i % 2 ? PROT_READ : PROT_NONE);
	}
	mprotect(repair_page, 4096, PROT_READ);
	printf("%d %d %d\n", steps, repair_page[7], repair_page[199]);
}

static void *fault_loop(void *result)
{
	for (int i = 0; i < 300; i++) {
		*(volatile char *)repair_page = 1;
		mprotect(repair_page, 4096, PROT_NONE);
	}
	return NULL;
}

static void scene_repair_threads(void)
{
	pthread_t threads[4];

	repair_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle(SIGSEGV, repair, 0);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, fault_loop, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%d\n", steps > 3);
}

static const struct scene scenes[] = {
	{ "memory", scene_memory },
	{ "arithmetic", scene_arithmetic },
	{ "illegal", scene_illegal },
	{ "int3", scene_int3 },
	{ "int3-go-on", scene_int3_go_on },
	{ "trap-flag", scene_trap_flag },
	{ "jumps", scene_jumps },
	{ "jump-null", scene_jump_null },
	{ "return-nowhere", scene_return_nowhere },
	{ "registers", scene_registers },
	{ "branch-operands", scene_branch_operands },
	{ "bad-stack", scene_bad_stack },
	{ "bus", scene_bus },
	{ "repair", scene_repair },
	{ "repair-threads", scene_repair_threads },
};

SCENES_MAIN(scenes)
