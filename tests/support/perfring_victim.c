// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program that does what a load map must notice, and says on stdout what it did and when:
 * "what TIME ADDRESS NUMBER". Ways to call it: all DSO, threads COUNT, spin MILLISECONDS.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void say(const char *what, uint64_t address, uint64_t number)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%s %lld %llx %lld\n", what, now.tv_sec * 1000000000ll + now.tv_nsec,
	       (unsigned long long)address, (long long)number);
}

static void *renamed(void *unused)
{
	prctl(PR_SET_NAME, "renamed");
	say("thread", 0, (uint64_t)gettid());
	return NULL;
}

static void library_use(const char *path)
{
	void *library = dlopen(path, RTLD_NOW),
	     *symbol = library ? dlsym(library, "dso_answer") : NULL;
	struct link_map *map = NULL;

	if (!symbol || dlinfo(library, RTLD_DI_LINKMAP, &map))
		exit(1);
	say("library", (uintptr_t)symbol, (uintptr_t)symbol - map->l_addr);
	dlclose(library);
	say("closed", (uintptr_t)symbol, 0);
}

static int do_all(const char *path)
{
	pthread_t thread;
	void *page;
	pid_t child;

	say("start", (uintptr_t)do_all, (uint64_t)getpid());
	library_use(path);
	pthread_create(&thread, NULL, renamed, NULL);
	pthread_join(thread, NULL);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	say("page", (uintptr_t)page, 0);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	say("child", 0, (uint64_t)child);
	return 0;
}

static void *nothing(void *unused)
{
	return NULL;
}

static int do_threads(int count)
{
	for (int i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, nothing, NULL))
			return 1;
		pthread_join(thread, NULL);
	}
	return 0;
}

static int do_spin(long milliseconds)
{
	struct timespec used;

	do {
		for (volatile int i = 0; i < 100000; i++)
			;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	} while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < milliseconds);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	if (strcmp(argv[1], "all") == 0)
		return do_all(argv[2]);
	if (strcmp(argv[1], "threads") == 0)
		return do_threads((int)strtol(argv[2], NULL, 10));
	return do_spin(strtol(argv[2], NULL, 10));
}
