// SPDX-License-Identifier: BSD-2-Clause
/* Processes and threads: beginnings, ends, and what one does to another. */
#include "corner.h"

#include <linux/sched.h>
#include <spawn.h>
#include <sys/personality.h>
#include <sys/resource.h>

extern char **environ;

static char stack[65536] __attribute__((aligned(16)));
static volatile int shared;

static void core_off(void)
{
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

static void scene_fork(void)
{
	for (int i = 0; i < 40; i++) {
		int status;
		pid_t child = fork();

		if (!child) {
			shared = i;
			_exit(i);
		}
		waitpid(child, &status, 0);
		printf("%d %d\n", WEXITSTATUS(status), shared);
	}
}

static void scene_fork_tree(void)
{
	int depth = 0, status;

	while (depth < 12) {
		pid_t child = fork();

		if (child) {
			waitpid(child, &status, 0);
			_exit(WEXITSTATUS(status));
		}
		depth++;
	}
	printf("depth %d\n", depth);
	_exit(depth);
}

static void *forker(void *result)
{
	for (int i = 0; i < 25; i++) {
		int status;
		pid_t child = fork();

		if (!child)
			_exit(3);
		waitpid(child, &status, 0);
		*(int *)result += WEXITSTATUS(status);
	}
	return NULL;
}

static void scene_fork_threads(void)
{
	pthread_t threads[4];
	int sums[4] = {};

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, forker, &sums[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		printf("%d\n", sums[i]);
	}
}

static void scene_vfork(void)
{
	for (int i = 0; i < 50; i++) {
		int status;
		pid_t child = vfork();

		if (!child) {
			shared = i;
			_exit(i);
		}
		waitpid(child, &status, 0);
		printf("%d %d\n", WEXITSTATUS(status), shared);
	}
}

static void scene_vfork_exec(void)
{
	for (int i = 0; i < 10; i++) {
		int status;
		pid_t child = vfork();

		if (!child) {
			execl("/bin/echo", "echo", "through vfork", NULL);
			_exit(1);
		}
		waitpid(child, &status, 0);
		status_say("child", status);
	}
}

/* The child of a vfork is killed: the parent goes on. */
static void scene_vfork_killed(void)
{
	for (int i = 0; i < 5; i++) {
		int status;
		pid_t child = vfork();

		if (!child) {
			kill(getpid(), SIGKILL);
			for (;;)
				;
		}
		waitpid(child, &status, 0);
		status_say("child", status);
	}
}

static void scene_spawn(void)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t set;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 3, "out", O_WRONLY | O_CREAT, 0600);
	posix_spawn_file_actions_adddup2(&actions, 3, 1);
	posix_spawnattr_init(&attributes);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	posix_spawnattr_setsigmask(&attributes, &set);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	for (int i = 0; i < 5; i++) {
		char *argv[] = { "sh", "-c", "echo spawned; kill -TERM $$; echo alive; exit 4",
				 NULL };
		pid_t child;
		int status = 0;

		printf("%d\n", posix_spawnp(&child, "sh", &actions, &attributes, argv, environ));
		waitpid(child, &status, 0);
		status_say("child", status);
	}
	char *none[] = { "none", NULL };
	pid_t child;
	printf("%d\n", posix_spawn(&child, "/none", NULL, NULL, none, environ));
}

static int clone_body(void *argument)
{
	shared += *(int *)argument;
	return 7;
}

static void clone_try(const char *what, int flags)
{
	int amount = 5, status = 0;
	pid_t child;

	shared = 1;
	child = clone(clone_body, stack + sizeof(stack), flags | SIGCHLD, &amount);
	waitpid(child, &status, __WALL);
	printf("%s: %d\n", what, shared);
	status_say(what, status);
}

static void scene_clone(void)
{
	for (int i = 0; i < 20; i++) {
		clone_try("nothing shared", 0);
		clone_try("memory", CLONE_VM);
		clone_try("memory and vfork", CLONE_VM | CLONE_VFORK);
		clone_try("memory, files", CLONE_VM | CLONE_FS | CLONE_FILES);
		clone_try("memory, handlers", CLONE_VM | CLONE_SIGHAND);
	}
}

/* A child that shares memory but not handlers changes a handler. */
static void shared_handler(int number, siginfo_t *info, void *context)
{
	shared = 50 + number;
}

static int handler_body(void *argument)
{
	signal(SIGUSR1, SIG_IGN);
	raise(SIGUSR1);
	return 0;
}

static void scene_clone_handlers(void)
{
	int status;

	handle(SIGUSR1, shared_handler, 0);
	pid_t child = clone(handler_body, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	waitpid(child, &status, 0);
	status_say("child", status);
	raise(SIGUSR1);
	printf("%d\n", shared);
	child = clone(handler_body, stack + sizeof(stack), CLONE_VM | CLONE_SIGHAND | SIGCHLD,
		      NULL);
	waitpid(child, &status, 0);
	shared = 0;
	raise(SIGUSR1);
	printf("%d\n", shared);
}

/* Killed at any moment, while it makes code. */
static int busy_body(void *page)
{
	for (int i = 0;; i++) {
		uint8_t *code = page;

		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		code[0] = 0xb8;
		memcpy(code + 1, &i, 4);
		code[5] = 0xc3;
		mprotect(page, 4096, PROT_READ | PROT_EXEC);
		shared += ((int (*)(void))page)();
	}
	return 0;
}

static void scene_clone_killed(void)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = 0;

	for (int i = 0; i < 30; i++) {
		pid_t child = clone(busy_body, stack + sizeof(stack), CLONE_VM | SIGCHLD, page);

		rest(3);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		status_say("child", status);
	}
}

/* The child ends at once, on whatever stack it has. */
static long clone3_end(const void *args, size_t size)
{
	long result;

	__asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tmov $60, %%eax\n\t"
			 "mov $7, %%edi\n\tsyscall\n1:"
			 : "=a"(result)
			 : "a"(SYS_clone3), "D"(args), "S"(size)
			 : "rcx", "r11", "memory");
	return result;
}

/* Stacks that the kernel refuses, and arguments of a later kernel: longer than ours. */
static void scene_clone3_arguments(void)
{
	static char stack[65536];
	struct {
		struct clone_args args;
		uint64_t more[4];
	} given = { .args = { .exit_signal = SIGCHLD } };
	const struct {
		uint64_t flags, stack, size;
	} tried[] = {
		{ 0, (uint64_t)stack, 0 },	    { 0, 0, sizeof(stack) },
		{ CLONE_VM, (uint64_t)stack, 0 },   { CLONE_VM, 0, sizeof(stack) },
		{ 0, (uint64_t)stack, 1ull << 60 }, { CLONE_VM, 1ull << 62, sizeof(stack) },
	};
	int status = -1;

	for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
		struct clone_args args = { .flags = tried[i].flags,
					   .stack = tried[i].stack,
					   .stack_size = tried[i].size,
					   .exit_signal = SIGCHLD };

		printf("%ld\n", clone3_end(&args, sizeof(args)));
	}
	for (int vm = 0; vm < 2; vm++) {
		given.args.flags = vm ? CLONE_VM | CLONE_VFORK : 0;
		waitpid((pid_t)clone3_end(&given, sizeof(given)), &status, 0);
		status_say("longer", status);
	}
	given.more[3] = 1;
	printf("%ld\n", clone3_end(&given, sizeof(given)));
	printf("%ld\n", clone3_end(&given, 5000));
}

static void scene_clone3(void)
{
	struct clone_args args = { .flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD };
	int status, pidfd = -1;

	handle(SIGUSR1, shared_handler, 0);
	args.flags |= CLONE_PIDFD;
	args.pidfd = (uint64_t)&pidfd;
	long child = syscall(SYS_clone3, &args, sizeof(args));
	if (!child) {
		struct sigaction now;

		sigaction(SIGUSR1, NULL, &now);
		_exit(now.sa_handler == SIG_DFL ? 11 : 12);
	}
	waitpid((pid_t)child, &status, 0);
	status_say("child", status);
	printf("%d\n", pidfd > 2);
	printf("%ld %d\n", syscall(SYS_clone3, &args, 8), errno);
	printf("%ld %d\n", syscall(SYS_clone3, 8, sizeof(args)), errno);
	args.flags = CLONE_SIGHAND;
	printf("%ld %d\n", syscall(SYS_clone3, &args, sizeof(args)), errno);
	printf("%ld %d\n", syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0), errno);
}

/* --- Exec ------------------------------------------------------------------------------------- */

static void scene_exec_fails(void)
{
	char *argv[] = { "x", NULL };
	int fd = open("text", O_WRONLY | O_CREAT, 0755);

	write(fd, "no program\n", 11);
	close(fd);
	for (int i = 0; i < 5; i++) {
		printf("%d %d\n", execv("/none", argv), errno);
		printf("%d %d\n", execv("/", argv), errno);
		printf("%d %d\n", execv("text", argv), errno);
		printf("%d %d\n", execv("/etc/passwd", argv), errno);
		printf("%ld %d\n", syscall(SYS_execve, 8, argv, environ), errno);
		printf("%ld %d\n", syscall(SYS_execve, "/bin/true", 8, environ), errno);
		printf("%d %d\n", fexecve(99, argv, environ), errno);
	}
	fd = open("/bin/echo", O_RDONLY | O_CLOEXEC);
	char *echo[] = { "echo", "by descriptor", NULL };
	fexecve(fd, echo, environ);
}

static void *thread_exec(void *unused)
{
	execl("/bin/sh", "sh", "-c", "echo new program; exit 6", NULL);
	return NULL;
}

static void *thread_sleep(void *unused)
{
	for (;;)
		sleep(1);
	return NULL;
}

static void *thread_spin(void *unused)
{
	for (;;)
		shared++;
	return NULL;
}

static void scene_exec_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_sleep, NULL);
	pthread_create(&thread, NULL, thread_spin, NULL);
	pthread_create(&thread, NULL, thread_exec, NULL);
	pthread_join(thread, NULL);
	pause();
}

/* What an exec keeps: masks, ignored and pending signals, descriptors, directory. */
static void scene_exec_keeps(void)
{
	mask_set(SIG_BLOCK, SIGUSR1);
	signal(SIGUSR2, SIG_IGN);
	handle(SIGHUP, shared_handler, 0);
	raise(SIGUSR1);
	chdir("/usr");
	execl("/bin/grep", "grep", "-E", "^Sig(Blk|Ign|Cgt)|^ShdPnd|^SigPnd", "/proc/self/status",
	      NULL);
}

/* --- Ends ------------------------------------------------------------------------------------- */

static void scene_killed_by_each(void)
{
	core_off();
	for (int number = 1; number < 65; number++) {
		int status;
		pid_t child;

		if (number == 32 || number == 33)
			continue;
		child = fork();
		if (!child) {
			if (number != SIGKILL && number != SIGSTOP)
				signal(number, SIG_DFL);
			kill(getpid(), number);
			_exit(100);
		}
		waitpid(child, &status, WUNTRACED);
		if (WIFSTOPPED(status)) {
			printf("%d stopped by %d\n", number, WSTOPSIG(status));
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
		}
		printf("%d ", number);
		status_say("child", status);
	}
}

static void die_by(int kind)
{
	switch (kind) {
	case 0:
		*(volatile int *)0 = 1;
		break;
	case 1:
		__asm__ volatile("ud2");
		break;
	case 2:
		__asm__ volatile("xor %%ecx, %%ecx; div %%ecx" : : : "rax", "rcx", "rdx");
		break;
	case 3:
		abort();
	case 4:
		__asm__ volatile("int3");
		break;
	case 5:
		((void (*)(void))8)();
		break;
	case 6:
		__asm__ volatile("hlt");
		break;
	case 7:
		__asm__ volatile("mov $0x1000, %%esp; push %%rax; call abort" : : : "memory");
		break;
	}
}

static void scene_faults_end(void)
{
	core_off();
	for (int kind = 0; kind < 8; kind++) {
		int status;
		pid_t child = fork();

		if (!child) {
			die_by(kind);
			_exit(100);
		}
		waitpid(child, &status, 0);
		printf("%d ", kind);
		status_say("child", status);
	}
}

static void *thread_die(void *kind)
{
	die_by((int)(intptr_t)kind);
	return NULL;
}

static void scene_thread_faults_end(void)
{
	core_off();
	for (int kind = 0; kind < 8; kind++) {
		int status;
		pid_t child = fork();

		if (!child) {
			pthread_t thread;

			pthread_create(&thread, NULL, thread_spin, NULL);
			pthread_create(&thread, NULL, thread_die, (void *)(intptr_t)kind);
			for (;;)
				pause();
		}
		waitpid(child, &status, 0);
		printf("%d ", kind);
		status_say("child", status);
	}
}

static void scene_exit_running(void)
{
	pthread_t thread;

	for (int i = 0; i < 8; i++)
		pthread_create(&thread, NULL, i % 2 ? thread_spin : thread_sleep, NULL);
	rest(20);
	exit(9);
}

static void *thread_exit(void *unused)
{
	rest(20);
	exit(12);
}

static void scene_exit_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_spin, NULL);
	pthread_create(&thread, NULL, thread_exit, NULL);
	for (;;)
		pause();
}

/* The main thread ends, the others go on. */
static void *thread_last(void *unused)
{
	char state[512] = "";

	rest(50);
	int fd = open("/proc/self/stat", O_RDONLY);
	read(fd, state, sizeof(state) - 1);
	char *end = strrchr(state, ')');
	printf("leader is %c\n", end ? end[2] : '?');
	exit(21);
}

static void scene_zombie_leader(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_last, NULL);
	pthread_exit(NULL);
}

static void *thread_nothing(void *argument)
{
	return argument;
}

static void scene_many_threads(void)
{
	long sum = 0;

	for (int round = 0; round < 40; round++) {
		pthread_t threads[50];

		for (long i = 0; i < 50; i++)
			pthread_create(&threads[i], NULL, thread_nothing, (void *)i);
		for (long i = 0; i < 50; i++) {
			void *result;

			pthread_join(threads[i], &result);
			sum += (long)result;
		}
	}
	printf("%ld\n", sum);
}

static void scene_detached_threads(void)
{
	for (int i = 0; i < 1500; i++) {
		pthread_t thread;

		while (pthread_create(&thread, NULL, thread_nothing, NULL))
			rest(1);
		pthread_detach(thread);
	}
	printf("done\n");
}

static pthread_mutex_t robust;

static void *thread_robust(void *unused)
{
	pthread_mutex_lock(&robust);
	return NULL;
}

static void scene_robust(void)
{
	pthread_mutexattr_t attributes;
	pthread_t thread;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attributes);
	pthread_create(&thread, NULL, thread_robust, NULL);
	pthread_join(thread, NULL);
	printf("%d\n", pthread_mutex_lock(&robust) == EOWNERDEAD);
}

/* --- The rest --------------------------------------------------------------------------------- */

static void scene_prctl(void)
{
	char name[17] = "";
	int value = -1;

	prctl(PR_SET_NAME, "another name");
	prctl(PR_GET_NAME, name);
	printf("%s\n", name);
	printf("%d\n", prctl(PR_GET_DUMPABLE));
	printf("%d\n", prctl(PR_SET_DUMPABLE, 0));
	printf("%d\n", prctl(PR_GET_DUMPABLE));
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_GET_PDEATHSIG, &value);
	printf("%d\n", value);
	printf("%d\n", prctl(PR_GET_TIMERSLACK) > 0);
	printf("%d %d\n", prctl(PR_GET_SECCOMP), prctl(PR_GET_NO_NEW_PRIVS));
	prctl(PR_GET_TSC, &value);
	printf("%d\n", value);
	printf("%d\n", prctl(9999));
	int fd = open("/proc/self/comm", O_RDONLY);
	printf("%zd\n", read(fd, name, 16));
}

static void scene_personality(void)
{
	int status;

	printf("%x\n", personality(0xffffffff));
	printf("%x\n", personality(ADDR_NO_RANDOMIZE));
	printf("%x\n", personality(0xffffffff));
	pid_t child = fork();
	if (!child) {
		execl("/bin/sh", "sh", "-c",
		      "cat /proc/self/personality; grep -c stack /proc/self/maps", NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	status_say("child", status);
}

/* READ_IMPLIES_EXEC: memory is executable without being asked to be. */
static void scene_read_implies_exec(void)
{
	personality(READ_IMPLIES_EXEC);
	uint8_t *code =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	code[0] = 0xb8;
	code[1] = 77;
	code[5] = 0xc3;
	printf("%d\n", ((int (*)(void))code)());
}

static void without_descriptors(bool for_good)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 0;
	if (for_good)
		limit.rlim_max = 0;
	setrlimit(RLIMIT_NOFILE, &limit);
	printf("%d %d\n", open("/etc/passwd", O_RDONLY), errno);
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	printf("%d\n", code != MAP_FAILED);
	handle(SIGUSR1, shared_handler, 0);
	raise(SIGUSR1);
	printf("%d\n", shared);
}

static void scene_limits(void)
{
	without_descriptors(false);
}

static void scene_limits_for_good(void)
{
	without_descriptors(true);
}

/* All descriptors are closed, also those that are nobody's. */
static void scene_close_all(void)
{
	for (int i = 3; i < 2000; i++)
		close(i);
	syscall(SYS_close_range, 3, ~0u, 0);
	int status;
	pid_t child = fork();
	if (!child) {
		execl("/bin/echo", "echo", "after closing", NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	status_say("child", status);
}

static const struct scene scenes[] = {
	{ "fork", scene_fork },
	{ "fork-tree", scene_fork_tree },
	{ "fork-threads", scene_fork_threads },
	{ "vfork", scene_vfork },
	{ "vfork-exec", scene_vfork_exec },
	{ "vfork-killed", scene_vfork_killed },
	{ "spawn", scene_spawn },
	{ "clone", scene_clone },
	{ "clone-handlers", scene_clone_handlers },
	{ "clone-killed", scene_clone_killed },
	{ "clone3", scene_clone3 },
	{ "clone3-arguments", scene_clone3_arguments },
	{ "exec-fails", scene_exec_fails },
	{ "exec-thread", scene_exec_thread },
	{ "exec-keeps", scene_exec_keeps },
	{ "killed-by-each", scene_killed_by_each },
	{ "faults-end", scene_faults_end },
	{ "thread-faults-end", scene_thread_faults_end },
	{ "exit-running", scene_exit_running },
	{ "exit-thread", scene_exit_thread },
	{ "zombie-leader", scene_zombie_leader },
	{ "many-threads", scene_many_threads },
	{ "detached-threads", scene_detached_threads },
	{ "robust", scene_robust },
	{ "prctl", scene_prctl },
	{ "personality", scene_personality },
	{ "read-implies-exec", scene_read_implies_exec },
	{ "limits", scene_limits },
	{ "limits-for-good", scene_limits_for_good },
	{ "close-all", scene_close_all },
};

SCENES_MAIN(scenes)
