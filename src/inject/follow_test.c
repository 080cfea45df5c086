// SPDX-License-Identifier: BSD-2-Clause
// Serves: W1.
/*
 * A child plays the engine: it asks in the mailbox as wire/engine.h says and execs. Whether the new
 * program was taken is asked of the program itself: grep finds the shared memory in its own maps,
 * or it does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "inject/follow.h"

enum { FOUND = 0, NOT_FOUND = 1 }; /* what grep says */

static struct inject *inject;
static struct engine_shared *shared_memory; /* of all processes here */
static struct engine_boot boot; /* in the child: a process that was taken has one */

static int setup(void **state)
{
	struct memory *memory;

	if (inject_create(ENGINE_TOOL_BIT(ENGINE_TOOL_NATIVE), 0, &inject))
		return -1;
	boot.session = inject_session(inject);
	if (inject_memory_make(inject, 0, &memory))
		return -1;
	shared_memory = memory->bytes;
	return 0;
}

static int teardown(void **state)
{
	inject_destroy(inject);
	return 0;
}

/* The engine's side of a request. */
static int ask(uint32_t kind, const char *path)
{
	struct engine_shared *shared = shared_memory;
	struct engine_request *slot = &shared->requests[getpid() % ENGINE_REQUESTS];
	uint32_t state;

	*slot = (struct engine_request){ .state = ENGINE_SLOT_TAKEN,
					 .kind = kind,
					 .pid = (uint32_t)getpid(),
					 .tid = (uint32_t)gettid(),
					 .directory = AT_FDCWD,
					 .path = (uint64_t)path,
					 .boot = (uint64_t)&boot };
	__atomic_store_n(&slot->state, ENGINE_SLOT_ASKED, __ATOMIC_RELEASE);
	__atomic_fetch_add(&shared->bell, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &shared->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
	while ((state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE)) != ENGINE_SLOT_ANSWERED)
		syscall(SYS_futex, &slot->state, FUTEX_WAIT, state, NULL, NULL, 0);
	slot->state = ENGINE_SLOT_FREE;
	return slot->answer;
}

static int follow(void (*child)(void), struct follow_result *ret)
{
	pid_t pid = fork();
	int err;

	if (pid == 0) {
		alarm(20);
		child();
		_exit(99);
	}
	err = follow_run(inject, pid, ret);
	sigprocmask(SIG_SETMASK, inject_mask(inject), NULL);
	return err;
}

static uint64_t native_total(const struct follow_result *result)
{
	uint64_t total = 0;

	for (size_t i = 0; i < PROGRAM_OBSTACLE_COUNT; i++)
		total += result->native[i];
	return total;
}

static void look_exec(const char *program)
{
	execl(program, "grep", "-q", "memfd:assay", "/proc/self/maps", NULL);
}

static bool is_traced(void)
{
	char text[4096];
	int fd = open("/proc/thread-self/status", O_RDONLY);
	ssize_t size = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[size < 0 ? 0 : size] = '\0';
	return !strstr(text, "TracerPid:\t0\n");
}

static void exec_child(void)
{
	if (ask(ENGINE_REQUEST_EXEC, "/bin/grep"))
		_exit(90);
	look_exec("/bin/grep");
}

static void test_exec(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(exec_child, &result), 0);
	assert_int_equal(result.exit_code, FOUND);
	assert_int_equal(result.taken, 1);
	assert_int_equal(native_total(&result), 0);
}

/* And the program that was taken is nobody's afterwards. */
static void traced_child(void)
{
	ask(ENGINE_REQUEST_EXEC, "/bin/grep");
	execl("/bin/grep", "grep", "-q", "TracerPid:.0", "/proc/self/status", NULL);
}

static void test_no_tracer(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(traced_child, &result), 0);
	assert_int_equal(result.exit_code, FOUND);
	assert_int_equal(result.taken, 1);
}

static void *thread_exec(void *argument)
{
	exec_child();
	return NULL;
}

static void thread_child(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_exec, NULL);
	for (;;)
		pause();
}

/* The thread disappears and the process goes on in its place. */
static void test_exec_of_thread(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(thread_child, &result), 0);
	assert_int_equal(result.exit_code, FOUND);
	assert_int_equal(result.taken, 1);
}

static void grandchild_child(void)
{
	int status;
	pid_t pid = vfork();

	if (pid == 0)
		exec_child();
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 91);
}

static void test_exec_of_vfork(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(grandchild_child, &result), 0);
	assert_int_equal(result.exit_code, FOUND);
	assert_int_equal(result.taken, 1);
}

static void failed_child(void)
{
	if (ask(ENGINE_REQUEST_EXEC, "/no/such/file") || !is_traced())
		_exit(90);
	look_exec("/no/such/file");
	if (ask(ENGINE_REQUEST_EXEC_FAILED, NULL))
		_exit(91);
	if (is_traced())
		_exit(92);
	if (ask(ENGINE_REQUEST_EXEC_FAILED, NULL) != -ESRCH)
		_exit(93);
	look_exec("/bin/grep");
}

static void test_exec_failed(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(failed_child, &result), 0);
	assert_int_equal(result.exit_code, NOT_FOUND);
	assert_int_equal(result.taken, 0);
}

static volatile sig_atomic_t arrived;

static void on_user(int signal)
{
	arrived++;
}

/* Signals and stops of a held thread are its own affair. */
static void signal_child(void)
{
	sigset_t set;
	pid_t pid = getpid(), waker;

	for (int number = 1; number < SIGRTMIN; number++)
		signal(number, SIG_DFL); /* whoever runs the tests may ignore some */
	signal(SIGUSR1, on_user);
	signal(SIGTRAP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (ask(ENGINE_REQUEST_EXEC, "/bin/grep"))
		_exit(90);
	kill(getpid(), SIGUSR1);
	if (!arrived)
		_exit(91);
	waker = fork();
	if (waker == 0) {
		char path[64], text[512] = "";

		snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
		while (!strstr(text, ") T ") && !strstr(text, ") t ")) {
			int fd = open(path, O_RDONLY);

			if (read(fd, text, sizeof(text) - 1) < 0)
				_exit(1);
			close(fd);
		}
		kill(pid, SIGCONT);
		_exit(0);
	}
	raise(SIGSTOP);
	waitpid(waker, NULL, 0);
	raise(SIGUSR2);
	/*
	 * Blocked and pending SIGUSR2 (12), ignored SIGTRAP (5); 32 and 33 are libc's own, and
	 * whoever runs the tests may ignore them.
	 */
	execl("/bin/grep", "grep", "-qzP",
	      "(?s)SigPnd:\\s0{13}800.*SigBlk:\\s0{13}800.*SigIgn:\\s0{7}[01][08]0{5}10",
	      "/proc/self/status", NULL);
}

static void test_signals(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(signal_child, &result), 0);
	assert_int_equal(result.exit_code, FOUND);
	assert_int_equal(result.taken, 1);
}

static void killed_child(void)
{
	ask(ENGINE_REQUEST_EXEC, "/bin/grep");
	kill(getpid(), SIGKILL);
}

static void test_killed(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(killed_child, &result), 0);
	assert_int_equal(result.exit_code, 128 + SIGKILL);
}

static void stranger_child(void)
{
	boot.session++;
	if (ask(ENGINE_REQUEST_EXEC, "/bin/grep") != -ESRCH || is_traced())
		_exit(90);
	look_exec("/bin/grep");
}

static void test_stranger(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(stranger_child, &result), 0);
	assert_int_equal(result.exit_code, NOT_FOUND);
	assert_int_equal(result.native[PROGRAM_OTHER], 1);
}

static void unknown_child(void)
{
	_exit(ask(77, NULL) != -EINVAL);
}

static void test_unknown(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(unknown_child, &result), 0);
	assert_int_equal(result.exit_code, 0);
}

static char privileged[] = "/tmp/follow_test.XXXXXX";

/*
 * Its effective user is the file's owner: the privilege had its effect, because nobody was
 * attached.
 */
static void privileged_child(void)
{
	if (ask(ENGINE_REQUEST_EXEC, privileged) != -EPERM || is_traced())
		_exit(90);
	execl(privileged, "grep", "-q", "Uid:.0.65534", "/proc/self/status", NULL);
}

static void test_privileged(void **state)
{
	struct follow_result result;
	int status;
	pid_t pid;

	if (getuid())
		skip();
	close(mkstemp(privileged));
	pid = fork();
	if (pid == 0) {
		execl("/bin/cp", "cp", "/bin/grep", privileged, NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(chown(privileged, 65534, 65534), 0);
	assert_int_equal(chmod(privileged, 04755), 0);
	assert_int_equal(follow(privileged_child, &result), 0);
	unlink(privileged);
	assert_int_equal(result.exit_code, FOUND);
	assert_int_equal(result.taken, 0);
	assert_int_equal(result.native[PROGRAM_PRIVILEGED], 1);
}

/*
 * A filter that lets everything pass; a stricter one could kill for a call that is not the
 * program's own.
 */
static void filtered_child(void)
{
	struct sock_filter pass = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct sock_fprog program = { 1, &pass };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(89);
	exec_child();
}

static void test_filtered(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(filtered_child, &result), 0);
	assert_int_equal(result.exit_code, NOT_FOUND);
	assert_int_equal(result.native[PROGRAM_FILTERED], 1);
}

/* Another user's process may not look into the host, but the host into it. */
static void nobody_child(void)
{
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		_exit(89);
	exec_child();
}

static void test_other_user(void **state)
{
	struct follow_result result;

	if (getuid())
		skip();
	assert_int_equal(follow(nobody_child, &result), 0);
	assert_int_equal(result.exit_code, FOUND);
	assert_int_equal(result.taken, 1);
}

/*
 * No room for the engine: the program goes on as if nothing had been tried, its limits being its
 * own.
 */
static void poor_child(void)
{
	const struct rlimit limit = { 1 << 20, 1 << 20 };

	setrlimit(RLIMIT_DATA, &limit);
	exec_child();
}

static void test_no_memory(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(poor_child, &result), 0);
	assert_int_equal(result.exit_code, NOT_FOUND);
	assert_int_equal(result.native[PROGRAM_LIMITED], 1);
}

/*
 * No descriptors for the way of the shared memory: what was mapped is gone again. The kernel does
 * not choose addresses at random, or one in fifty programs would have libraries there.
 */
static void fileless_child(void)
{
	const struct rlimit limit = { 4, 4 };

	personality(ADDR_NO_RANDOMIZE);
	closefrom(3);
	setrlimit(RLIMIT_NOFILE, &limit);
	if (ask(ENGINE_REQUEST_EXEC, "/bin/grep"))
		_exit(90);
	execl("/bin/grep", "grep", "-q", "^7e[89abcdef]", "/proc/self/maps", NULL);
}

static void test_no_files(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(fileless_child, &result), 0);
	assert_int_equal(result.exit_code, NOT_FOUND);
	assert_int_equal(result.native[PROGRAM_OTHER], 1);
}

/* A name that ends with the last byte of its mapping. */
static void edge_child(void)
{
	static const char name[] = "/bin/grep";
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *place = pages + 4096 - sizeof(name);

	munmap(pages + 4096, 4096);
	memcpy(place, name, sizeof(name));
	if (ask(ENGINE_REQUEST_EXEC, place))
		_exit(90);
	look_exec(place);
}

static void test_name_at_edge(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(edge_child, &result), 0);
	assert_int_equal(result.exit_code, FOUND);
}

static void orphan_child(void)
{
	if (fork() == 0) {
		struct engine_shared *shared = shared_memory;

		while (!__atomic_load_n(&shared->closed, __ATOMIC_SEQ_CST))
			usleep(1000);
		_exit(0);
	}
	_exit(3);
}

/* Who outlives the command learns that nobody listens. */
static void test_closed(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(orphan_child, &result), 0);
	assert_int_equal(result.exit_code, 3);
	assert_int_equal(shared_memory->closed, 1);
}

static void late_child(void)
{
	shared_memory->requests[7] =
		(struct engine_request){ .state = ENGINE_SLOT_TAKEN, .kind = ENGINE_REQUEST_EXEC };
	_exit(0);
}

/* A request that comes while the host leaves is answered; one that is only being written is not. */
static void test_late_request(void **state)
{
	struct follow_result result;

	assert_int_equal(follow(late_child, &result), 0);
	assert_int_equal(shared_memory->requests[7].state, ENGINE_SLOT_TAKEN);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_exec),	  CASE(test_no_tracer),	   CASE(test_exec_of_thread),
		CASE(test_exec_of_vfork), CASE(test_exec_failed),  CASE(test_signals),
		CASE(test_killed),	  CASE(test_stranger),	   CASE(test_unknown),
		CASE(test_privileged),	  CASE(test_filtered),	   CASE(test_name_at_edge),
		CASE(test_other_user),	  CASE(test_no_memory),	   CASE(test_no_files),
		CASE(test_closed),	  CASE(test_late_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
