// SPDX-License-Identifier: BSD-2-Clause
/* Processes that are traced by ptrace, and filters of system calls (seccomp). */
#include "corner.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>

static volatile int shared;

static void shared_handler(int number, siginfo_t *info, void *context)
{
	shared = 50 + number;
}

static void core_off(void)
{
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
}

static void *thread_spin(void *unused)
{
	for (;;)
		shared++;
	return NULL;
}

static void *thread_nothing(void *argument)
{
	return argument;
}

static void traced_child(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	shared = 5;
	raise(SIGUSR1);
	_exit(shared);
}

static void scene_ptrace(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		traced_child();
	handle(SIGUSR1, shared_handler, 0);
	waitpid(child, &status, 0);
	printf("%d\n", WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
	long word = ptrace(PTRACE_PEEKDATA, child, &shared, NULL);
	printf("%ld\n", word & 0xffffffff);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	waitpid(child, &status, 0);
	printf("%d\n", WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
	word = ptrace(PTRACE_PEEKDATA, child, &shared, NULL);
	printf("%ld\n", word & 0xffffffff);
	ptrace(PTRACE_POKEDATA, child, &shared, (word & ~0xffffffffl) | 33);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	waitpid(child, &status, 0);
	status_say("child", status);
}

/* A tracer of an exec'd child, single-stepping and reading registers: what a debugger does. */
static void scene_ptrace_exec(void)
{
	int status, steps = 0, stops = 0;
	pid_t child = fork();

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl("/bin/true", "true", NULL);
		_exit(99);
	}
	waitpid(child, &status, 0);
	printf("%d\n", WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
	while (WIFSTOPPED(status) && steps < 500) {
		struct user_regs_struct regs;

		ptrace(PTRACE_GETREGS, child, NULL, &regs);
		ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
		waitpid(child, &status, 0);
		steps++;
	}
	printf("%d steps\n", steps);
	ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD);
	while (WIFSTOPPED(status)) {
		ptrace(PTRACE_SYSCALL, child, NULL, NULL);
		waitpid(child, &status, 0);
		stops++;
	}
	printf("%d\n", stops > 10);
	status_say("child", status);
}

static void filter_set(const struct sock_filter *filter, unsigned short count)
{
	struct sock_fprog program = { count, (struct sock_filter *)filter };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	printf("%d\n", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define IF(number, result)                                                                         \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, result)

static void trapped(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	printf("call %d arch %x, at syscall %d\n", info->si_syscall, info->si_arch,
	       *(uint16_t *)(uc->uc_mcontext.gregs[REG_RIP] - 2) == 0x050f);
	uc->uc_mcontext.gregs[REG_RAX] = 1234;
}

static void scene_seccomp_errno(void)
{
	struct sock_filter filter[] = { LOAD_NUMBER, IF(SYS_getppid, SECCOMP_RET_ERRNO | 42),
					ALLOW };

	filter_set(filter, 4);
	printf("%ld %d\n", syscall(SYS_getppid), errno);
	printf("%d\n", getpid() > 1);
	handle(SIGUSR1, shared_handler, 0);
	raise(SIGUSR1);
	printf("%d\n", shared);
	int status;
	pid_t child = fork();
	if (!child)
		_exit(5);
	waitpid(child, &status, 0);
	status_say("child", status);
}

static void scene_seccomp_trap(void)
{
	struct sock_filter filter[] = { LOAD_NUMBER, IF(SYS_getppid, SECCOMP_RET_TRAP), ALLOW };

	handle(SIGSYS, trapped, 0);
	filter_set(filter, 4);
	for (int i = 0; i < 5; i++)
		printf("%ld\n", syscall(SYS_getppid));
}

static void scene_seccomp_kill(void)
{
	struct sock_filter filter[] = { LOAD_NUMBER, IF(SYS_getppid, SECCOMP_RET_KILL_PROCESS),
					ALLOW };

	core_off();
	filter_set(filter, 4);
	printf("%ld\n", syscall(SYS_getppid));
}

/* Only what the program itself needs: no mmap, no open, nothing of ours. */
static void scene_seccomp_narrow(void)
{
	struct sock_filter filter[] = { LOAD_NUMBER,
					IF(SYS_write, SECCOMP_RET_ALLOW),
					IF(SYS_exit_group, SECCOMP_RET_ALLOW),
					IF(SYS_rt_sigreturn, SECCOMP_RET_ALLOW),
					IF(SYS_getppid, SECCOMP_RET_ALLOW),
					BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS) };
	static char text[] = "still here\n";

	core_off();
	filter_set(filter, 10);
	for (int i = 0; i < 100; i++)
		syscall(SYS_getppid);
	write(1, text, sizeof(text) - 1);
	_exit(3);
}

static void scene_seccomp_strict(void)
{
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	write(1, "strict\n", 7);
	syscall(SYS_exit, 4);
}

static void scene_seccomp_thread(void)
{
	struct sock_filter filter[] = { LOAD_NUMBER, IF(SYS_getppid, SECCOMP_RET_ERRNO | 9),
					ALLOW };
	struct sock_fprog program = { 4, filter };
	pthread_t thread;

	pthread_create(&thread, NULL, thread_spin, NULL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	printf("%ld\n",
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
	printf("%ld %d\n", syscall(SYS_getppid), errno);
	pthread_create(&thread, NULL, thread_nothing, NULL);
	pthread_join(thread, NULL);
	printf("done\n");
}

static const struct scene scenes[] = {
	{ "ptrace", scene_ptrace },
	{ "ptrace-exec", scene_ptrace_exec },
	{ "seccomp-errno", scene_seccomp_errno },
	{ "seccomp-trap", scene_seccomp_trap },
	{ "seccomp-kill", scene_seccomp_kill },
	{ "seccomp-narrow", scene_seccomp_narrow },
	{ "seccomp-strict", scene_seccomp_strict },
	{ "seccomp-thread", scene_seccomp_thread },
};

SCENES_MAIN(scenes)
