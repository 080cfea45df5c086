// SPDX-License-Identifier: BSD-2-Clause
/* Code that changes: unmapped, mapped anew, overwritten, generated. */
#include "corner.h"

typedef int (*function)(void);

static sigjmp_buf back;

static void caught(int number, siginfo_t *info, void *context)
{
	siglongjmp(back, number);
}

/* mov $value, %eax; ret */
static void put(uint8_t *at, int value)
{
	at[0] = 0xb8;
	memcpy(at + 1, &value, 4);
	at[5] = 0xc3;
}

static uint8_t *pages(size_t size, int protection)
{
	return mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

#define RW (PROT_READ | PROT_WRITE)
#define RX (PROT_READ | PROT_EXEC)
#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)

/* Written, then made executable, over and over. */
static void scene_protect(void)
{
	uint8_t *code = pages(4096, RW);
	long sum = 0;

	for (int i = 0; i < 2000; i++) {
		mprotect(code, 4096, RW);
		put(code, i);
		mprotect(code, 4096, RX);
		sum += ((function)code)();
		sum += ((function)code)();
	}
	printf("%ld\n", sum);
}

/* Writable and executable at once, changed without a word to anyone. */
static void scene_rwx(void)
{
	uint8_t *code = pages(4096, RWX);
	long sum = 0;

	for (int i = 0; i < 100000; i++) {
		put(code + i % 7 * 16, i);
		sum += ((function)(code + i % 7 * 16))();
	}
	printf("%ld\n", sum);
}

/* Code that changes the instruction behind itself. */
static void scene_self(void)
{
	static const uint8_t text[] = {
		0xc7, 0x05, 0x01, 0x00, 0x00, 0x00, 0x2a, 0x00, 0x00, 0x00, /* movl $42, 1(%rip) */
		0xb8, 0x01, 0x00, 0x00, 0x00, /* mov $1, %eax */
		0xc3,
	};
	uint8_t *code = pages(4096, RWX);

	memcpy(code, text, sizeof(text));
	printf("%d\n", ((function)code)());
	printf("%d\n", ((function)code)());
}

/* Two mappings of one file: written in one, executed in the other. */
static void scene_two_views(void)
{
	int fd = memfd_create("code", 0);
	long sum = 0;

	ftruncate(fd, 4096);
	uint8_t *write_view = mmap(NULL, 4096, RW, MAP_SHARED, fd, 0);
	uint8_t *run_view = mmap(NULL, 4096, RX, MAP_SHARED, fd, 0);
	for (int i = 0; i < 2000; i++) {
		put(write_view, i);
		sum += ((function)run_view)();
	}
	printf("%ld\n", sum);
}

/* write() and pwrite() to a file whose pages are mapped to run. */
static void scene_file_write(void)
{
	char name[] = "codeXXXXXX";
	int fd = mkstemp(name);
	uint8_t bytes[6];
	long sum = 0;

	ftruncate(fd, 4096);
	uint8_t *run_view = mmap(NULL, 4096, RX, MAP_SHARED, fd, 0);
	for (int i = 0; i < 500; i++) {
		put(bytes, i);
		pwrite(fd, bytes, 6, 0);
		sum += ((function)run_view)();
	}
	unlink(name);
	printf("%ld\n", sum);
}

/* read() straight into executable memory. */
static void scene_read_into(void)
{
	uint8_t *code = pages(4096, RWX), bytes[6];
	int ends[2];
	long sum = 0;

	pipe(ends);
	for (int i = 0; i < 500; i++) {
		put(bytes, i);
		write(ends[1], bytes, 6);
		read(ends[0], code, 6);
		sum += ((function)code)();
	}
	printf("%ld\n", sum);
}

static void scene_unmap(void)
{
	handle(SIGSEGV, caught, 0);
	for (volatile int i = 0; i < 50; i++) {
		uint8_t *code = mmap((void *)0x200000000, 4096, RW,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		put(code, i);
		mprotect(code, 4096, RX);
		printf("%d ", ((function)code)());
		munmap(code, 4096);
		int number = sigsetjmp(back, 1);
		if (!number)
			((function)code)();
		printf("%d\n", number);
	}
}

/* Other code at the same place, without munmap. */
static void scene_map_over(void)
{
	for (int i = 0; i < 300; i++) {
		uint8_t *code = mmap((void *)0x200000000, 4096, RW,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		put(code, i);
		mprotect(code, 4096, RX);
		if (((function)code)() != i)
			printf("wrong at %d\n", i);
	}
	printf("done\n");
}

static void scene_mremap(void)
{
	uint8_t *code = pages(4096, RW), *other;

	handle(SIGSEGV, caught, 0);
	put(code, 7);
	mprotect(code, 4096, RX);
	printf("%d\n", ((function)code)());
	other = mremap(code, 4096, 8192, MREMAP_MAYMOVE);
	printf("%d\n", ((function)other)());
	uint8_t *place = pages(8192, RW);
	put(place, 8);
	mprotect(place, 8192, RX);
	printf("%d\n", ((function)place)());
	mremap(other, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	printf("%d\n", ((function)place)());
	int number = sigsetjmp(back, 1);
	if (!number)
		((function)other)();
	printf("%d\n", number);
}

/* PROT_EXEC is taken away, and given back. */
static void scene_no_exec(void)
{
	uint8_t *code = pages(4096, RW);
	volatile int faults = 0;

	handle(SIGSEGV, caught, 0);
	put(code, 5);
	for (volatile int i = 0; i < 20; i++) {
		mprotect(code, 4096, i % 2 ? RX : PROT_READ);
		if (!sigsetjmp(back, 1))
			printf("%d ", ((function)code)());
		else
			faults++;
	}
	printf("%d\n", faults);
}

/* A block that crosses from one page into another that is then changed. */
static void scene_across(void)
{
	uint8_t *code = pages(8192, RW);
	long sum = 0;

	for (int i = 0; i < 500; i++) {
		mprotect(code + 4096, 4096, RW);
		if (!i) {
			memset(code, 0x90, 4096);
			put(code + 4096 - 2, 0);
		}
		memcpy(code + 4096 - 1, &i, 1);
		memcpy(code + 4096, (char *)&i + 1, 3);
		if (!i)
			mprotect(code, 4096, RW);
		mprotect(code, 8192, RX);
		sum += ((function)(code + 4000))();
		mprotect(code, 8192, RW);
	}
	printf("%ld\n", sum);
}

/* Several threads run what one of them generates. */
static uint8_t *shared_code;
static pthread_barrier_t barrier;

static void *runner(void *result)
{
	for (int i = 0; i < 300; i++) {
		pthread_barrier_wait(&barrier);
		*(long *)result += ((function)shared_code)();
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void threads_run(bool protect)
{
	pthread_t threads[4];
	long sums[4] = {};

	shared_code = pages(4096, protect ? RW : RWX);
	pthread_barrier_init(&barrier, NULL, 5);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, runner, &sums[i]);
	for (int i = 0; i < 300; i++) {
		if (protect)
			mprotect(shared_code, 4096, RW);
		put(shared_code, i);
		if (protect)
			mprotect(shared_code, 4096, RX);
		pthread_barrier_wait(&barrier);
		pthread_barrier_wait(&barrier);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		printf("%ld\n", sums[i]);
	}
}

static void scene_threads_protect(void)
{
	threads_run(true);
}

static void scene_threads_rwx(void)
{
	threads_run(false);
}

/* Generated code that calls back into the program, which changes it while it is running. */
static uint8_t *caller;

static void change_caller(void)
{
	caller[13] = 0xb8;
	*(int *)(caller + 14) = 99;
}

static void scene_change_running(void)
{
	caller = pages(4096, RWX);
	uint8_t *at = caller;
	uint64_t target = (uint64_t)change_caller;

	*at++ = 0x50; /* push %rax */
	*at++ = 0x48; /* movabs $target, %rax */
	*at++ = 0xb8;
	memcpy(at, &target, 8);
	at += 8;
	*at++ = 0xff; /* call *%rax */
	*at++ = 0xd0;
	put(at, 1); /* mov $1, %eax */
	at += 5;
	*at++ = 0x59; /* pop %rcx */
	*at++ = 0xc3;
	printf("%d\n", ((function)caller)());
	printf("%d\n", ((function)caller)());
}

static void scene_stack_code(void)
{
	uint8_t code[64] __attribute__((aligned(64)));
	uintptr_t page = (uintptr_t)code & ~4095ul;

	printf("%d\n", mprotect((void *)page, 4096, RWX));
	for (int i = 0; i < 5; i++) {
		put(code, i * 11);
		printf("%d\n", ((function)(void *)code)());
	}
}

static void scene_generate_much(void)
{
	size_t size = 16 << 20;
	uint8_t *code = pages(size, RW);
	long sum = 0;

	for (size_t i = 0; i < size / 64; i++)
		put(code + i * 64, (int)i);
	mprotect(code, size, RX);
	for (size_t i = 0; i < size / 64; i++)
		sum += ((function)(code + i * 64))();
	printf("%ld\n", sum);
}

static void scene_fork_change(void)
{
	uint8_t *code = pages(4096, RWX);
	int status;

	put(code, 1);
	printf("%d\n", ((function)code)());
	pid_t child = fork();
	put(code, child ? 2 : 3);
	if (!child)
		_exit(((function)code)());
	waitpid(child, &status, 0);
	printf("%d %d\n", ((function)code)(), WEXITSTATUS(status));
}

int seven(void);

__asm__(".globl seven; seven: mov $7, %eax; ret");

/* /proc/self/mem, where protection does not count: into generated code, and into the program's. */
static void scene_memory_file(void)
{
	int fd = open("/proc/self/mem", O_RDWR);
	uint8_t *code = pages(4096, RW), bytes[6];
	function volatile own = seven;
	long sum = 0;

	put(code, 1);
	mprotect(code, 4096, RX);
	for (int i = 0; i < 200; i++) {
		put(bytes, i);
		pwrite(fd, bytes, 6, (off_t)(i % 2 ? code : (uint8_t *)own));
		sum += ((function)code)() * 3 + own();
	}
	lseek(fd, (off_t)own, SEEK_SET);
	put(bytes, 1000);
	write(fd, bytes, 6);
	printf("%ld %d\n", sum, own());
}

static const struct scene scenes[] = {
	{ "protect", scene_protect },
	{ "rwx", scene_rwx },
	{ "self", scene_self },
	{ "two-views", scene_two_views },
	{ "file-write", scene_file_write },
	{ "read-into", scene_read_into },
	{ "unmap", scene_unmap },
	{ "map-over", scene_map_over },
	{ "mremap", scene_mremap },
	{ "no-exec", scene_no_exec },
	{ "across", scene_across },
	{ "threads-protect", scene_threads_protect },
	{ "threads-rwx", scene_threads_rwx },
	{ "change-running", scene_change_running },
	{ "stack-code", scene_stack_code },
	{ "generate-much", scene_generate_much },
	{ "fork-change", scene_fork_change },
	{ "memory-file", scene_memory_file },
};

SCENES_MAIN(scenes)
