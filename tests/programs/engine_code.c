// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code that changes, in every way that programs do it. Prints what it computed; says so and ends
 * with 1 if that is wrong.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, FUNCTION = 16 };

typedef int (*function)(void);

static void check(int is, int should, const char *what)
{
	if (is == should)
		return;
	printf("%s: %d instead of %d\n", what, is, should);
	exit(1);
}

static void *map(size_t size, int protection, int flags, int fd)
{
	void *memory = mmap(NULL, size, protection, flags, fd, 0);

	if (memory == MAP_FAILED) {
		printf("mmap: %s\n", strerror(errno));
		exit(1);
	}
	return memory;
}

static uint8_t *map_code(size_t size)
{
	return map(size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* mov $value, %eax; add $1, %eax; ret */
static void function_make(uint8_t *at, int value)
{
	uint8_t code[FUNCTION] = { 0xb8, 0, 0, 0, 0, 0x83, 0xc0, 0x01, 0xc3 };

	memcpy(code + 1, &value, sizeof(value));
	memcpy(at, code, sizeof(code));
}

static int call(const void *code)
{
	__asm__ volatile("" ::: "memory");
	return ((function)(uintptr_t)code)();
}

/* One function at one place, written again and again; at every alignment. */
static void rewrite(void)
{
	uint8_t *code = map_code(PAGE);

	for (int i = 0; i < 20000; i++) {
		uint8_t *at = code + i % 13;

		function_make(at, i);
		check(call(at), i + 1, "rewritten");
		check(call(at), i + 1, "called again");
	}
}

/* As careful programs do it: never writable and executable at once. */
static void toggle(void)
{
	uint8_t *code = map_code(PAGE);

	for (int i = 0; i < 1000; i++) {
		mprotect(code, PAGE, PROT_READ | PROT_WRITE);
		function_make(code + i % 3 * FUNCTION, i);
		mprotect(code, PAGE, PROT_READ | PROT_EXEC);
		check(call(code + i % 3 * FUNCTION), i + 1, "toggled");
		if (i > 2)
			check(call(code + (i - 1) % 3 * FUNCTION), i, "left as it was");
	}
}

/* Two views of the same memory. */
static void views(void)
{
	int fd = memfd_create("code", 0);
	uint8_t *writable, *executable;

	if (ftruncate(fd, PAGE))
		exit(1);
	writable = map(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	executable = map(PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, fd);
	for (int i = 0; i < 20000; i++) {
		function_make(writable + i % 7, i);
		check(call(executable + i % 7), i + 1, "other view");
	}
	for (int i = 0; i < 100; i++) {
		uint8_t bytes[FUNCTION];

		function_make(bytes, i);
		check((int)pwrite(fd, bytes, FUNCTION, 0), FUNCTION, "pwrite");
		check(call(executable), i + 1, "file");
	}
}

/* Another process writes the code. */
static void processes(void)
{
	uint8_t *code =
		map(PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1);
	int ask[2], answer[2], number;
	pid_t child;

	if (pipe(ask) || pipe(answer))
		exit(1);
	child = fork();
	if (!child) {
		close(ask[1]);
		while (read(ask[0], &number, sizeof(number)) == sizeof(number)) {
			function_make(code, number);
			if (write(answer[1], "", 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	for (int i = 0; i < 500; i++) {
		char byte;

		if (write(ask[1], &i, sizeof(i)) != sizeof(i) || read(answer[0], &byte, 1) != 1)
			exit(1);
		check(call(code), i + 1, "from another process");
	}
	close(ask[1]);
	waitpid(child, NULL, 0);
}

/* An instruction changes the one behind it; then one that is far behind, and one in front. */
static void self(void)
{
	static const uint8_t next[] = {
		0x40, 0x88, 0x3d, 0x01, 0x00, 0x00, 0x00, /* mov %dil, 1(%rip): into the next one */
		0xb8, 0x00, 0x00, 0x00, 0x00, /* mov $0, %eax */
		0xc3,
	};
	static const uint8_t loop[] = {
		0x31, 0xc0, /* xor %eax, %eax */
		0x83, 0xc0, 0x01, /* 1: add $1, %eax */
		0xfe, 0x05, 0xf9, 0xff, 0xff, 0xff, /* incb -7(%rip): what is added */
		0x83, 0xef, 0x01, /* sub $1, %edi */
		0x75, 0xf2, /* jnz 1b */
		0xc3,
	};
	uint8_t *code = map_code(PAGE);

	for (int i = 0; i < 5000; i++) {
		memcpy(code, next, sizeof(next));
		check(((int (*)(int))(uintptr_t)code)(i % 100), i % 100, "next instruction");
	}
	for (int i = 0; i < 500; i++) {
		int count = i % 20 + 1;

		memcpy(code + 64, loop, sizeof(loop));
		check(((int (*)(int))(uintptr_t)(code + 64))(count), count * (count + 1) / 2,
		      "loop");
	}
}

static _Atomic int turn;
static uint8_t *common;

static void *writer(void *unused)
{
	for (int i = 0; i < 3000; i++) {
		while (atomic_load(&turn) != 2 * i)
			sched_yield();
		function_make(common, i);
		atomic_store(&turn, 2 * i + 1);
	}
	return unused;
}

static void threads(void)
{
	pthread_t thread;

	common = map_code(PAGE);
	pthread_create(&thread, NULL, writer, NULL);
	for (int i = 0; i < 3000; i++) {
		while (atomic_load(&turn) != 2 * i + 1)
			sched_yield();
		check(call(common), i + 1, "from another thread");
		atomic_store(&turn, 2 * i + 2);
	}
	pthread_join(thread, NULL);
}

/* The kernel writes the code. */
static void kernel(void)
{
	uint8_t *code = map_code(2 * PAGE), bytes[FUNCTION];
	uint8_t *across = code + PAGE - 4;
	struct iovec pieces[] = { { across, 3 }, { across + 3, FUNCTION - 3 } };
	int ends[2];

	if (pipe(ends))
		exit(1);
	for (int i = 0; i < 500; i++) {
		function_make(bytes, i);
		check((int)write(ends[1], bytes, FUNCTION), FUNCTION, "write");
		check((int)(i % 2 ? read(ends[0], across, FUNCTION) : readv(ends[0], pieces, 2)),
		      FUNCTION, "read");
		check(call(across), i + 1, "read by the kernel");
	}
}

static void forks(void)
{
	uint8_t *code = map_code(PAGE);
	int status;

	for (int i = 0; i < 20; i++) {
		pid_t child;

		function_make(code, i);
		check(call(code), i + 1, "before the fork");
		child = fork();
		if (!child) {
			check(call(code), i + 1, "in the child");
			function_make(code, 1000 + i);
			check(call(code), 1001 + i, "changed by the child");
			_exit(7);
		}
		check(call(code), i + 1, "in the parent");
		waitpid(child, &status, 0);
		check(WEXITSTATUS(status), 7, "child");
		check(call(code), i + 1, "afterwards");
	}
}

/* Mapped anew, discarded, moved. */
static void mappings(void)
{
	uint8_t *code = map_code(128 * PAGE); /* so that nobody else is where it goes */

	for (int i = 0; i < 300; i++) {
		uint8_t *moved;

		function_make(code, i);
		check(call(code), i + 1, "mapped");
		madvise(code, PAGE, MADV_DONTNEED);
		check(code[0], 0, "discarded");
		function_make(code, i + 1);
		check(call(code), i + 2, "after it was discarded");
		moved = mremap(code, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, code + 64 * PAGE);
		check(call(moved), i + 2, "moved");
		function_make(moved, i + 2);
		check(call(moved), i + 3, "written after it was moved");
		munmap(moved, PAGE);
		code = mmap(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
}

/* Code that reads flags which were set before it was entered, by a jump into it. */
static void flags(void)
{
	static const uint8_t adds[] = {
		0x31, 0xc0, /* xor %eax, %eax */
		0x83, 0xff, 0x0a, /* cmp $10, %edi */
		0xeb, 0x00, /* jmp behind */
		0x83, 0xd0, 0x00, /* adc $0, %eax */
		0x72, 0x01, /* jc: never, behind adc */
		0xc3, 0xc3,
	};
	static const uint8_t jumps[] = {
		0x83, 0xff, 0x0a, /* cmp $10, %edi */
		0xeb, 0x00, 0x72, 0x06, /* jb */
		0xb8, 0x01, 0x00, 0x00, 0x00, 0xc3, /* mov $1, %eax; ret */
		0x0f, 0x92, 0xc0, /* setb %al */
		0x0f, 0xb6, 0xc0, /* movzbl %al, %eax */
		0x83, 0xc0, 0x01, /* add $1, %eax */
		0xc3,
	};
	uint8_t *code = map_code(PAGE);

	memcpy(code, adds, sizeof(adds));
	memcpy(code + 64, jumps, sizeof(jumps));
	for (int i = 0; i < 20000; i++) {
		check(((int (*)(int))(uintptr_t)code)(i % 20), i % 20 < 10, "adc");
		check(((int (*)(int))(uintptr_t)(code + 64))(i % 20), i % 20 < 10 ? 2 : 1, "jb");
	}
}

/*
 * Code that overwrites the flags before it reads them becomes code that reads those which were set
 * before, and back: what the old code made of the flags says nothing about the new.
 */
static void flags_change(void)
{
	static const uint8_t head[] = {
		0x83, 0xff, 0x0a, /* cmp $10, %edi */
		0xeb, 0x00, /* jmp behind */
	};
	static const uint8_t kills[] = {
		0x31, 0xc0, /* xor %eax, %eax */
		0x83, 0xc0, 0x07, /* add $7, %eax */
		0xc3, 0x90, 0x90, /* ret */
	};
	static const uint8_t reads[] = {
		0x0f, 0x92, 0xc0, /* setb %al */
		0x0f, 0xb6, 0xc0, /* movzbl %al, %eax */
		0xc3, 0x90, /* ret */
	};
	uint8_t *code = map_code(PAGE);

	memcpy(code, head, sizeof(head));
	for (int i = 0; i < 20000; i++) {
		int read = i % 3 != 0;

		memcpy(code + sizeof(head), read ? reads : kills, sizeof(reads));
		check(((int (*)(int))(uintptr_t)code)(i % 20), read ? i % 20 < 10 : 7,
		      "flags of other code");
	}
}

static uint8_t *watched;
static volatile int seen, wrong;

/* The code below keeps 11, 22 and 33 in rcx, rdx and rbx, up to where it gives rbx back. */
static void look(int number, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t offset = (uint64_t)registers[REG_RIP] - (uint64_t)watched;

	if (offset < 17 || offset > 31)
		return;
	seen++;
	wrong += registers[REG_RCX] != 11 || registers[REG_RDX] != 22 || registers[REG_RBX] != 33;
}

static void signals(void)
{
	static const uint8_t code[] = {
		0x53, /* push %rbx */
		0xb9, 11,   0,	  0,	0, /* mov $11, %ecx */
		0xba, 22,   0,	  0,	0, /* mov $22, %edx */
		0xbb, 33,   0,	  0,	0, /* mov $33, %ebx */
		0x90, 0x83, 0xef, 0x01, /* 17: sub $1, %edi */
		0x75, 0xfb, /* jnz 17 */
		0x83, 0xee, 0x01, /* 22: sub $1, %esi */
		0xeb, 0x00, /* jmp, with live flags */
		0x75, 0xf9, /* jnz 22 */
		0x31, 0xc0, 0x5b, 0xc3, /* xor %eax, %eax; 31: pop %rbx; ret */
	};
	struct sigaction action = { .sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct itimerval every = { { 0, 1000 }, { 0, 1000 } };

	watched = map_code(PAGE);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (int i = 0; seen < 50; i++) {
		memcpy(watched, code, sizeof(code));
		check(((int (*)(int, int))(uintptr_t)watched)(200000, 200000), 0, "watched");
	}
	check(wrong, 0, "registers in a handler");
}

/*
 * With alignment checks on, an access that is not aligned is a fault: whoever else reads must not
 * make one.
 */
static void alignment(void)
{
	static const uint8_t code[] = {
		0x9c, /* pushf */
		0x81, 0x0c, 0x24, 0x00, 0x00, 0x04, 0x00, /* orl $AC, (%rsp) */
		0x9d, /* popf */
		0xeb, 0x00, /* jmp */
		0x90, 0x90, 0x90, 0xeb, 0x00, 0xb8, 0x05, 0x00, 0x00,
		0x00, /* nops; jmp; mov $5, %eax */
		0x9c, 0x81, 0x24, 0x24, 0xff, 0xff, 0xfb, 0xff, 0x9d, /* and off again */
		0xc3,
	};
	uint8_t *at = map_code(PAGE);

	for (int i = 0; i < 1000; i++) {
		memcpy(at + i % 9, code, sizeof(code));
		check(call(at + i % 9), 5, "with alignment checks");
	}
}

/* Code on the stack, as nested functions have it. */
static void stack(void)
{
	uint8_t here[3 * FUNCTION];
	uint8_t *code = (uint8_t *)(((uintptr_t)here + FUNCTION - 1) & ~(uintptr_t)(FUNCTION - 1));

	mprotect((void *)((uintptr_t)here & ~(uintptr_t)(PAGE - 1)), 2 * PAGE,
		 PROT_READ | PROT_WRITE | PROT_EXEC);
	for (int i = 0; i < 5000; i++) {
		function_make(code, i);
		check(call(code), i + 1, "on the stack");
	}
}

/* Code is written while every signal is blocked, or in a handler that blocks them all. */
static uint8_t *handled;

static void rewrite_handled(int number)
{
	static int calls;

	function_make(handled, ++calls);
	check(call(handled), calls + 1, "written in a handler");
}

static void blocked(void)
{
	struct sigaction action = { .sa_handler = rewrite_handled };
	sigset_t all, before, now;
	uint8_t *code = map_code(PAGE);

	handled = map_code(PAGE);
	sigfillset(&all);
	sigfillset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	function_make(code, 0);
	check(call(code), 1, "first"); /* unblocked: from here on pages may be guarded */
	sigprocmask(SIG_BLOCK, &all, &before);
	for (int i = 0; i < 6; i++) {
		function_make(code, i);
		check(call(code), i + 1, "with everything blocked");
	}
	sigprocmask(SIG_SETMASK, NULL, &now);
	check(sigismember(&now, SIGSEGV), 1, "SIGSEGV is blocked");
	kill(getpid(), SIGSEGV); /* waits */
	raise(SIGUSR1);
	signal(SIGSEGV, SIG_IGN);
	sigprocmask(SIG_SETMASK, &before, NULL);
	sigprocmask(SIG_SETMASK, NULL, &now);
	check(sigismember(&now, SIGSEGV), 0, "SIGSEGV is not blocked");
	for (int i = 0; i < 6; i++)
		raise(SIGUSR1);
	signal(SIGSEGV, SIG_DFL);
}

static jmp_buf back;
static void *volatile fault_at;

static void on_fault(int number, siginfo_t *info, void *context)
{
	fault_at = info->si_addr;
	siglongjmp(back, 1);
}

/* Faults that are the program's own, among those that are not. */
static void faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	uint8_t *code = map_code(2 * PAGE);

	sigaction(SIGSEGV, &action, NULL);
	for (int i = 0; i < 100; i++) {
		function_make(code, i + 1);
		check(call(code), i + 2, "before");
		function_make(code, i);
		check(call(code), i + 1, "written once more");
		if (!sigsetjmp(back, 1)) {
			*(volatile int *)(uintptr_t)(i * 8) = 0;
			check(0, 1, "no fault");
		}
		check(fault_at == (void *)(uintptr_t)(i * 8), 1, "address");
		mprotect(code, PAGE, PROT_READ | PROT_EXEC);
		check(call(code), i + 1, "read-only");
		fault_at = NULL;
		if (!sigsetjmp(back, 1)) {
			function_make(code, 7);
			check(0, 1, "no fault where it was made read-only");
		}
		check(fault_at == code, 1, "address of what is read-only");
		mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	}
}

static void *volatile nowhere;

/* Ends by a signal. */
static void crash(void)
{
	uint8_t *code = map_code(PAGE);

	function_make(code, 1);
	check(call(code), 2, "before the end");
	memset(nowhere, 0, 1);
}

/*
 * Much code, each piece for a short while. Argument: megabytes. The memory that this takes is
 * bounded.
 */
static void churn(long megabytes)
{
	enum { AREA = 1 << 20, STEP = 64 };
	uint8_t *area = map_code(AREA);
	FILE *status;
	char line[256];
	long peak = 0, sum = 0;

	for (long i = 0; i < megabytes * (1 << 20) / STEP; i++) {
		uint8_t *at = area + i * STEP % AREA;

		function_make(at, (int)i);
		sum += call(at);
	}
	status = fopen("/proc/self/status", "r");
	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "VmHWM: %ld", &peak);
	printf("%ld\n", sum);
	fprintf(stderr, "%ld\n", peak);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "rewrite", rewrite },
		{ "toggle", toggle },
		{ "views", views },
		{ "processes", processes },
		{ "self", self },
		{ "threads", threads },
		{ "kernel", kernel },
		{ "forks", forks },
		{ "mappings", mappings },
		{ "flags", flags },
		{ "flags_change", flags_change },
		{ "signals", signals },
		{ "alignment", alignment },
		{ "stack", stack },
		{ "blocked", blocked },
		{ "faults", faults },
	};

	if (argc == 2 && !strcmp(argv[1], "crash"))
		crash();
	if (argc == 3 && !strcmp(argv[1], "churn"))
		churn(atol(argv[2]));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (argc == 1 || !strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			printf("%s\n", cases[i].name);
		}
	return 0;
}
