// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that wait for 0.2 s in system calls which are used less often; each has the name of its
 * cause. wait_calls FOLDER: the lock of a file, a semaphore of System V, a child that has yet to
 * execute its program. wait_calls: a 32-bit system call that sleeps, whose number means something
 * else in 64-bit ones.
 */
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_NS = 200000000, NANOSLEEP_32 = 162 };

extern char **environ;

static char file[512], fifo[512];
static int semaphore;

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = WAIT_NS }, NULL);
}

static void *file_lock(void *unused)
{
	int fd = open(file, O_RDWR);

	pthread_setname_np(pthread_self(), "file-lock");
	flock(fd, LOCK_EX);
	close(fd);
	return unused;
}

static void *record_lock(void *unused)
{
	struct flock range = { .l_type = F_WRLCK, .l_len = 1 };
	int fd = open(file, O_RDWR);

	pthread_setname_np(pthread_self(), "record-lock");
	fcntl(fd, F_OFD_SETLKW, &range);
	close(fd);
	return unused;
}

static void *take(void *unused)
{
	struct sembuf down = { .sem_op = -1 };

	pthread_setname_np(pthread_self(), "semaphore-lock");
	semop(semaphore, &down, 1);
	return unused;
}

/* The child opens the other end before it executes a program, and its parent waits for that. */
static void *spawn(void *unused)
{
	char *const arguments[] = { "true", NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	pthread_setname_np(pthread_self(), "spawn-child");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, fifo, O_RDONLY, 0);
	if (!posix_spawnp(&pid, "true", &actions, NULL, arguments, environ))
		waitpid(pid, NULL, 0);
	return unused;
}

static void all_wait(const char *folder)
{
	static void *(*const what[])(void *) = { file_lock, record_lock, take, spawn };
	enum { COUNT = sizeof(what) / sizeof(what[0]) };
	struct flock range = { .l_type = F_WRLCK, .l_len = 1 };
	struct sembuf up = { .sem_op = 1 };
	pthread_t threads[COUNT];
	int fd;

	snprintf(file, sizeof(file), "%s/locked", folder);
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	fd = open(file, O_RDWR | O_CREAT, 0600);
	semaphore = semget(IPC_PRIVATE, 1, 0600);
	if (fd < 0 || semaphore < 0 || mkfifo(fifo, 0600) || flock(fd, LOCK_EX) ||
	    fcntl(fd, F_OFD_SETLK, &range))
		exit(1);
	for (int i = 0; i < COUNT; i++)
		pthread_create(&threads[i], NULL, what[i], NULL);
	nap();
	close(open(fifo, O_WRONLY));
	semop(semaphore, &up, 1);
	close(fd);
	for (int i = 0; i < COUNT; i++)
		pthread_join(threads[i], NULL);
	semctl(semaphore, 0, IPC_RMID);
}

static void sleep_32(void)
{
	unsigned *time = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	long result = NANOSLEEP_32;

	if (time == MAP_FAILED)
		exit(1);
	time[1] = WAIT_NS;
	__asm__ volatile("int $0x80"
			 : "+a"(result)
			 : "b"(time), "c"(0)
			 : "r8", "r9", "r10", "r11", "memory");
	exit(result != 0);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		sleep_32();
	all_wait(argv[1]);
	return 0;
}
