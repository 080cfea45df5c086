// SPDX-License-Identifier: BSD-2-Clause
// Serves: W1.
/*
 * Children that wait in system calls are stopped and let go: the calls are known, and go on as if
 * nothing had been.
 */
#include "inject/threads.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

enum { SHORT_MS = 300, THREADS = 5 };

/* What a child does: 0 if the result is what it has to be. */
static int sleep_run(int input)
{
	struct timespec wanted = { .tv_nsec = SHORT_MS * 1000000l };

	return nanosleep(&wanted, NULL);
}

static int poll_run(int input)
{
	struct pollfd event = { .fd = input, .events = POLLIN };

	return poll(&event, 1, SHORT_MS) == 0 ? 0 : 1;
}

static int read_run(int input)
{
	char byte;

	return read(input, &byte, 1) == 1 ? 0 : 1;
}

static int epoll_run(int input)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	epoll_ctl(fd, EPOLL_CTL_ADD, input, &event);
	return epoll_wait(fd, &event, 1, -1) == 1 ? 0 : 1;
}

static void *thread_run(void *input)
{
	return (void *)(intptr_t)read_run((int)(intptr_t)input);
}

static int threads_run(int input)
{
	pthread_t threads[THREADS];
	void *result;
	int wrong = 0;

	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, thread_run, (void *)(intptr_t)input);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		wrong |= result != NULL;
	}
	return wrong;
}

static int stopped(struct threads *threads, struct task *task, int status)
{
	task->done = true;
	return remote_registers_get(&task->remote);
}

static void wait_until_asleep(pid_t pid, size_t count)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (task_status(pid, pid, "Threads", 10) < count ||
	       task_status(pid, pid, "voluntary_ctxt_switches", 10) == 0)
		nanosleep(&moment, NULL);
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
}

/* settle: the registers are set as for a thread that is sent elsewhere and back. */
static void check(int (*run)(int), uint64_t number, size_t count, bool settle)
{
	struct threads threads = { .request = PTRACE_CONT };
	char bytes[THREADS] = {};
	int input[2], status;

	assert_int_equal(pipe(input), 0);
	threads.pid = fork();
	if (!threads.pid)
		_exit(run(input[0]));
	wait_until_asleep(threads.pid, count);
	assert_int_equal(threads_collect(&threads, stopped), 0);
	assert_int_equal(threads.tasks.count, count);
	array_each(&threads.tasks, task) {
		struct user_regs_struct *registers = &task->remote.registers;
		uint64_t rip = registers->rip;

		if (count > 1 && task->tid == threads.pid)
			continue;
		assert_true(task_is_interrupted(registers));
		assert_int_equal(task_again_number(registers), number);
		task_settle(registers);
		assert_int_equal(registers->rax, number);
		assert_int_equal(registers->rip, rip - 2);
		assert_false(task_is_interrupted(registers));
		if (settle)
			assert_int_equal(remote_registers_set(&task->remote, registers), 0);
	}
	threads_deinit(&threads);
	assert_int_equal(write(input[1], bytes, sizeof(bytes)), sizeof(bytes));
	assert_int_equal(waitpid(threads.pid, &status, 0), threads.pid);
	assert_int_equal(status, 0);
	close(input[0]);
	close(input[1]);
}

static void test_sleep(void **state)
{
	check(sleep_run, SYS_restart_syscall, 1, false);
	check(sleep_run, SYS_restart_syscall, 1, true);
}

static void test_read(void **state)
{
	check(read_run, SYS_read, 1, false);
	check(read_run, SYS_read, 1, true);
}

static void test_epoll(void **state)
{
	check(epoll_run, SYS_epoll_wait, 1, false);
	check(epoll_run, SYS_epoll_wait, 1, true);
}

static void test_threads(void **state)
{
	check(threads_run, SYS_read, THREADS + 1, false);
	check(threads_run, SYS_read, THREADS + 1, true);
}

/* Its end cannot come from the bytes that the others wait for. */
static void test_poll(void **state)
{
	struct threads threads = { .request = PTRACE_CONT };
	int input[2], status;

	assert_int_equal(pipe(input), 0);
	threads.pid = fork();
	if (!threads.pid)
		_exit(poll_run(input[0]));
	wait_until_asleep(threads.pid, 1);
	assert_int_equal(threads_collect(&threads, stopped), 0);
	assert_int_equal(task_again_number(&threads.tasks.items[0].remote.registers),
			 SYS_restart_syscall);
	threads_deinit(&threads);
	assert_int_equal(waitpid(threads.pid, &status, 0), threads.pid);
	assert_int_equal(status, 0);
}

static void test_ended(void **state)
{
	struct threads threads = { .request = PTRACE_CONT };

	threads.pid = fork();
	if (!threads.pid)
		_exit(0);
	assert_int_equal(waitpid(threads.pid, NULL, 0), threads.pid);
	assert_int_equal(threads_collect(&threads, stopped), -ESRCH);
	threads_deinit(&threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sleep),	cmocka_unit_test(test_poll),
		cmocka_unit_test(test_read),	cmocka_unit_test(test_epoll),
		cmocka_unit_test(test_threads), cmocka_unit_test(test_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
