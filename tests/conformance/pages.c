// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code and data in memory of unusual kinds: that may be executed but not read, that has a key, that
 * another thread brings, that no other call can reach, that may not be changed any more.
 */
#include "corner.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>

enum {
	PAGE = 4096,
	ADVISE_GUARD_INSTALL = 102,
	ADVISE_GUARD_REMOVE = 103,
	CALL_SEAL = 462,
	CALL_SECRET = 447,
};

typedef int function_t(void);

/* mov $value, %eax; ret */
static void code_put(uint8_t *at, int value)
{
	at[0] = 0xb8;
	memcpy(at + 1, &value, sizeof(value));
	at[5] = 0xc3;
}

/* add $1, %edi in a loop; eax counts: some blocks, and one more page of them. */
static uint8_t *code_map(int value)
{
	uint8_t *at =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(at, 0x90, 2 * PAGE);
	code_put(at, value);
	code_put(at + 2 * PAGE - 6, value + 1);
	return at;
}

static sigjmp_buf back;
static volatile uintptr_t fault_at;
static volatile int fault_code;

static void faulted(int number, siginfo_t *info, void *context)
{
	(void)context;
	fault_at = (uintptr_t)info->si_addr;
	fault_code = info->si_code;
	siglongjmp(back, number);
}

static void call_say(const char *what, uint8_t *code)
{
	int number = sigsetjmp(back, 1);

	if (number)
		printf("%s: signal %d, code %d, at %ld\n", what, number, fault_code,
		       (long)(fault_at - (uintptr_t)code));
	else
		printf("%s: %d\n", what, ((function_t *)code)());
}

static void faults_handle(void)
{
	handle(SIGSEGV, faulted, 0);
	handle(SIGBUS, faulted, 0);
}

/* With keys, the kernel makes this memory that cannot be read. */
static void scene_execute_only(void)
{
	uint8_t *code = code_map(11);

	faults_handle();
	printf("%d\n", mprotect(code, 2 * PAGE, PROT_EXEC));
	call_say("first", code);
	call_say("across", code + PAGE);
	if (!sigsetjmp(back, 1))
		printf("read %d\n", *(volatile uint8_t *)code);
	else
		printf("not read: code %d\n", fault_code);
	mprotect(code, 2 * PAGE, PROT_READ | PROT_WRITE);
	code_put(code, 12);
	mprotect(code, 2 * PAGE, PROT_EXEC);
	call_say("changed", code);
}

static void scene_key(void)
{
	uint8_t *code = code_map(21), *data = code_map(0);
	int key = pkey_alloc(0, 0);

	faults_handle();
	if (key < 0) {
		printf("no keys\n");
		return;
	}
	printf("%d\n", pkey_mprotect(code, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, key));
	pkey_mprotect(data, PAGE, PROT_READ | PROT_WRITE, key);
	call_say("open", code);
	mprotect(code, 2 * PAGE, PROT_READ | PROT_EXEC);
	pkey_set(key, PKEY_DISABLE_WRITE);
	call_say("not writable", code);
	pkey_set(key, PKEY_DISABLE_ACCESS);
	call_say("closed", code);
	call_say("closed, new", code + PAGE);
	if (!sigsetjmp(back, 1))
		printf("read %d\n", *(volatile uint8_t *)data);
	else
		printf("not read: code %d\n", fault_code);
	/* the kernel opens only what it has to in a handler */
	printf("rights %d\n", pkey_get(key));
	pkey_set(key, 0);
	mprotect(code, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	code_put(code, 22);
	call_say("changed", code);
	pkey_set(key, PKEY_DISABLE_ACCESS);
	raise(0);
	printf("write %ld\n", (long)write(1, data, 1) < 0 ? (long)errno : 0);
}

static volatile int interruptions;

static void interrupt(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	interruptions++;
}

/* Signals come while code runs that nobody may read, in a handler least of all. */
static void scene_key_signals(void)
{
	static const uint8_t loop[] = { 0x31, 0xc0, /* xor %eax, %eax */
					0xff, 0xc0, /* 1: inc %eax */
					0x89, 0xc1, /* mov %eax, %ecx */
					0x3d, 0x40, 0x4b, 0x4c, 0x00, /* cmp $5000000, %eax */
					0x75, 0xf5, /* jne 1b */
					0xc3 };
	struct itimerval every = { { 0, 500 }, { 0, 500 } };
	uint8_t *code = code_map(1);
	int key = pkey_alloc(0, 0), wrong = 0;

	if (key < 0) {
		printf("no keys\n");
		return;
	}
	memcpy(code, loop, sizeof(loop));
	pkey_mprotect(code, 2 * PAGE, PROT_READ | PROT_EXEC, key);
	pkey_set(key, PKEY_DISABLE_ACCESS);
	handle(SIGALRM, interrupt, 0);
	setitimer(ITIMER_REAL, &every, NULL);
	while (interruptions < 40)
		wrong += ((function_t *)code)() != 5000000;
	printf("%d wrong, rights %d\n", wrong, pkey_get(key));
}

/* Only the process itself can reach it, not the calls that read memory of a process. */
static void scene_secret(void)
{
	int file = (int)syscall(CALL_SECRET, 0);
	struct sigaction *action, before;
	struct timespec *time;
	uint8_t *memory;

	if (file < 0 || ftruncate(file, 4 * PAGE)) {
		printf("no secret memory\n");
		return;
	}
	memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	action = (struct sigaction *)memory;
	action->sa_sigaction = faulted;
	action->sa_flags = SA_SIGINFO;
	printf("%d\n", sigaction(SIGUSR1, action, NULL));
	printf("%d\n", sigaction(SIGUSR1, NULL, (struct sigaction *)(memory + 1024)));
	printf("%d\n", sigaction(SIGUSR1, NULL, &before));
	printf("%d\n", before.sa_sigaction == faulted);
	if (!sigsetjmp(back, 1))
		raise(SIGUSR1);
	else
		printf("handled\n");
	time = (struct timespec *)(memory + 512);
	*time = (struct timespec){ 0, 1000 };
	printf("%d\n", nanosleep(time, time));
	printf("%d\n", clock_gettime(CLOCK_REALTIME, time));
	printf("%ld\n", (long)read(open("/dev/zero", O_RDONLY), memory + 2 * PAGE, 100));
	memcpy(memory + 3 * PAGE, "/bin/true", 10);
	printf("%d\n", access((char *)memory + 3 * PAGE, X_OK));
	stack_t stack = { .ss_sp = memory + PAGE, .ss_size = 3 * PAGE };
	*(stack_t *)(memory + 2048) = stack;
	printf("%d\n", sigaltstack((stack_t *)(memory + 2048), NULL));
	handle(SIGUSR2, faulted, SA_ONSTACK);
	if (!sigsetjmp(back, 1))
		raise(SIGUSR2);
	else
		printf("handled on a secret stack\n");
	if (!fork()) {
		char **arguments = (char **)(memory + 256);

		arguments[0] = (char *)memory + 3 * PAGE;
		arguments[1] = NULL;
		execve(arguments[0], arguments, environ);
		_exit(9);
	}
	int status;

	wait(&status);
	status_say("exec", status);
}

static void scene_secret_code(void)
{
	int file = (int)syscall(CALL_SECRET, 0);
	uint8_t *code;

	if (file < 0 || ftruncate(file, 2 * PAGE)) {
		printf("no secret memory\n");
		return;
	}
	faults_handle();
	code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, file, 0);
	if (code == MAP_FAILED) {
		printf("not executable\n");
		return;
	}
	code_put(code, 31);
	call_say("secret", code);
	code_put(code, 32);
	call_say("changed", code);
}

/* A thread of this process brings the pages of code when they are touched. */
static int faults_of_others;
static uint8_t *brought;

static void *bring(void *argument)
{
	static uint8_t page[PAGE] __attribute__((aligned(4096)));
	struct uffd_msg message;

	(void)argument;
	while (read(faults_of_others, &message, sizeof(message)) == sizeof(message)) {
		uint64_t at = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
		struct uffdio_copy copy = { .dst = at, .src = (uint64_t)page, .len = PAGE };
		char text[64];

		memset(page, 0x90, PAGE);
		code_put(page + PAGE - 6, 40 + (int)((at - (uint64_t)brought) / PAGE));
		snprintf(text, sizeof(text), "page %d\n", (int)((at - (uint64_t)brought) / PAGE));
		if (write(1, text, strlen(text)) < 0)
			abort();
		ioctl(faults_of_others, UFFDIO_COPY, &copy);
	}
	return NULL;
}

static void scene_brought(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;

	faults_of_others = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (faults_of_others < 0 || ioctl(faults_of_others, UFFDIO_API, &api)) {
		printf("no userfaultfd\n");
		return;
	}
	brought = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (uint64_t)brought;
	range.range.len = 4 * PAGE;
	printf("%d\n", ioctl(faults_of_others, UFFDIO_REGISTER, &range));
	pthread_create(&thread, NULL, bring, NULL);
	rest(20);
	for (int i = 3; i >= 0; i--)
		printf("%d\n", ((function_t *)(brought + i * PAGE))());
}

/* From 6.13 on; other kernels say EINVAL. */
static void scene_guard(void)
{
	uint8_t *code = code_map(51);

	faults_handle();
	mprotect(code, 2 * PAGE, PROT_READ | PROT_EXEC);
	call_say("first", code);
	if (madvise(code, PAGE, ADVISE_GUARD_INSTALL)) {
		printf("no guards\n");
		return;
	}
	call_say("guarded", code);
	call_say("beside", code + PAGE);
	madvise(code, PAGE, ADVISE_GUARD_REMOVE);
	call_say("zeros", code);
}

/* From 6.10 on. */
static void scene_seal(void)
{
	uint8_t *code = code_map(61), *data = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
						   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	faults_handle();
	memset(data, 0x90, PAGE);
	code_put(data, 63);
	mprotect(code, 2 * PAGE, PROT_READ | PROT_EXEC);
	call_say("code", code);
	call_say("writable", data);
	if (syscall(CALL_SEAL, code, 2 * PAGE, 0) || syscall(CALL_SEAL, data, PAGE, 0)) {
		printf("no seals\n");
		return;
	}
	call_say("sealed", code);
	call_say("sealed, other", code + PAGE);
	for (int i = 0; i < 40; i++) {
		code_put(data, 64 + i);
		call_say("written", data);
	}
	printf("%d", mprotect(code, PAGE, PROT_READ | PROT_WRITE));
	printf(" %d\n", munmap(data, PAGE));
}

/* Sealed first, executed then; and in a new place of a page that was executed before. */
static void scene_seal_first(void)
{
	uint8_t *data = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	faults_handle();
	memset(data, 0x90, PAGE);
	code_put(data, 1);
	if (syscall(CALL_SEAL, data, PAGE, 0)) {
		printf("no seals\n");
		return;
	}
	for (int i = 0; i < 60; i++) {
		code_put(data + i * 16, 64 + i);
		call_say("written", data + i * 16);
		code_put(data + i * 16, 65 + i);
		call_say("again", data + i * 16);
	}
}

/* What was written to a private mapping of a file goes, and the file's code is back. */
static void scene_back_to_file(void)
{
	uint8_t page[PAGE], *code;
	int file = memfd_create("code", 0);

	faults_handle();
	memset(page, 0x90, PAGE);
	code_put(page, 71);
	if (write(file, page, PAGE) != PAGE)
		abort();
	code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, file, 0);
	call_say("file", code);
	code_put(code, 72);
	call_say("own", code);
	madvise(code, PAGE, MADV_DONTNEED);
	call_say("file again", code);
	code_put(code, 73);
	mprotect(code, PAGE, PROT_READ | PROT_EXEC);
	call_say("own, read only", code);
	madvise(code, PAGE, MADV_DONTNEED);
	call_say("file again", code);
}

/* Executable, and behind the end of its file: nothing of it was executed before. */
static void scene_no_file(void)
{
	int file = memfd_create("code", 0);
	uint8_t *code;

	faults_handle();
	if (ftruncate(file, 2 * PAGE))
		abort();
	code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (ftruncate(file, 0))
		abort();
	call_say("no file", code);
	call_say("once more", code + PAGE);
}

static void scene_wiped_on_fork(void)
{
	uint8_t *code = code_map(81), *kept = code_map(83);
	int status;

	faults_handle();
	mprotect(code, 2 * PAGE, PROT_READ | PROT_EXEC);
	mprotect(kept, 2 * PAGE, PROT_READ | PROT_EXEC);
	call_say("parent", code);
	call_say("parent", kept);
	printf("%d %d\n", madvise(code, 2 * PAGE, MADV_WIPEONFORK),
	       madvise(kept, 2 * PAGE, MADV_DONTFORK));
	if (!fork()) {
		call_say("wiped", code);
		call_say("not there", kept);
		_exit(0);
	}
	wait(&status);
	status_say("child", status);
	call_say("parent", code);
}

/* The time stamp counter faults: in the program's code only. */
static void scene_no_counter(void)
{
	volatile unsigned long sum = 0;

	handle(SIGSEGV, faulted, 0);
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) {
		printf("cannot be denied\n");
		return;
	}
	for (int i = 0; i < 1000; i++)
		sum += (unsigned long)strlen("counted") + (unsigned long)getppid();
	if (!sigsetjmp(back, 1))
		printf("%llu\n", __builtin_ia32_rdtsc());
	else
		printf("denied: code %d\n", fault_code);
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	printf("%d\n", __builtin_ia32_rdtsc() != 0);
}

/* A limit on queued signals, set when the timer has its place in the queue already. */
static volatile int ticks;

static void tick(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	if (info->si_code == SI_TIMER && info->si_value.sival_int == 7)
		ticks++;
}

static void scene_no_queue(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
				  .sigev_signo = SIGRTMIN + 3,
				  .sigev_value.sival_int = 7 };
	struct itimerspec every = { { 0, 300000 }, { 0, 300000 } };
	struct rlimit none = { 0, 0 };
	timer_t timer;

	handle(SIGRTMIN + 3, tick, 0);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	setrlimit(RLIMIT_SIGPENDING, &none);
	timer_settime(timer, 0, &every, NULL);
	while (ticks < 200) {
		char text[32];

		snprintf(text, sizeof(text), "%d", ticks);
		getppid();
		if (strtol(text, NULL, 10) < 0)
			break;
	}
	timer_delete(timer);
	printf("%d\n", ticks >= 200);
}

static char *const no_arguments[] = { "pages", "end", NULL };

static void scene_end(void)
{
	printf("executed from memory\n");
}

/* The program is copied into memory and executed from there. */
static void scene_memory_exec(void)
{
	int from = open("/proc/self/exe", O_RDONLY), to = memfd_create("copy", MFD_CLOEXEC), status;
	char buffer[PAGE];
	ssize_t size;

	while ((size = read(from, buffer, sizeof(buffer))) > 0)
		if (write(to, buffer, (size_t)size) != size)
			abort();
	if (!fork()) {
		fexecve(to, no_arguments, environ);
		_exit(9);
	}
	wait(&status);
	status_say("fexecve", status);
	if (!fork()) {
		syscall(SYS_execveat, from, "", no_arguments, environ, AT_EMPTY_PATH);
		_exit(9);
	}
	wait(&status);
	status_say("execveat", status);
}

/* Nothing that the kernel puts into a handler's frame depends on what is done meanwhile. */
static __thread char much[32 << 20];

static void *much_use(void *argument)
{
	much[sizeof(much) - 1] = 5;
	much[(long)argument] = 1;
	return (void *)(long)(much[0] + much[1] + much[sizeof(much) - 1]);
}

static void scene_much_of_a_thread(void)
{
	pthread_t threads[8];
	void *result;

	for (long i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, much_use, (void *)i);
	for (long i = 0; i < 8; i++) {
		pthread_join(threads[i], &result);
		printf("%ld\n", (long)result);
	}
}

static const struct scene scenes[] = {
	{ "execute-only", scene_execute_only },
	{ "key", scene_key },
	{ "key-signals", scene_key_signals },
	{ "secret", scene_secret },
	{ "secret-code", scene_secret_code },
	{ "brought", scene_brought },
	{ "guard", scene_guard },
	{ "seal", scene_seal },
	{ "seal-first", scene_seal_first },
	{ "back-to-file", scene_back_to_file },
	{ "no-file", scene_no_file },
	{ "wiped-on-fork", scene_wiped_on_fork },
	{ "no-counter", scene_no_counter },
	{ "no-queue", scene_no_queue },
	{ "memory-exec", scene_memory_exec },
	{ "end", scene_end },
	{ "much-of-a-thread", scene_much_of_a_thread },
};

SCENES_MAIN(scenes)
