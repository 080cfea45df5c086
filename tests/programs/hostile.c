// SPDX-License-Identifier: BSD-2-Clause
/*
 * A process that means ill. It forks a sibling that works for root, gives up its privileges, and
 * writes over all that it has of memory that it shares with somebody: at random, with what was
 * there at other places, and with plausible requests in the names of others. It also tries to reach
 * the sibling's and the host's files and memory.
 *
 *	hostile USER	says what it could reach, which is nothing, and "sibling 42"
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ROUNDS = 40,
	PART = 1 << 16,
	PID_WORD = 10, /* of a slot (wire/stream.h) */
};

#define REACH (1ull << 30)

static uint64_t state = 88172645463325252u;

static uint64_t random_word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Work that a sibling does meanwhile, with forks: it needs the host. */
static int sibling_run(void)
{
	volatile uint64_t sum = 0;
	int status;

	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(i == 7 ? 42 : 0);
		for (int j = 0; j < 100000; j++)
			sum = sum * 31 + (uint64_t)j;
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
		    WEXITSTATUS(status) != (i == 7 ? 42 : 0))
			return 1;
	}
	return 42;
}

/* Half of the time small numbers, which look like states, sizes and ids. */
static void part_scribble(uint64_t *at, size_t words, pid_t other)
{
	for (size_t i = 0; i < words; i++)
		switch (random_word() % 8) {
		case 0:
			at[i] = random_word();
			break;
		case 1:
			at[i] = random_word() % 4 | (random_word() % 5) << 32;
			break;
		case 2:
			at[i] = (uint64_t)other << 32 | (uint64_t)other;
			break;
		case 3:
			at[i] = at[random_word() % words];
			break;
		}
}

struct range {
	uint64_t start, end;
};

/* The kernel's own list: what the engine shows leaves out what is its own. */
static size_t shared_find(struct range *ret, size_t most)
{
	char name[64], line[512];
	size_t count = 0;
	FILE *file;
	pid_t pid = getpid(), reader;
	int ends[2];

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	if (pipe(ends))
		return 0;
	reader = fork();
	if (!reader) { /* another process: it gets the list as it is */
		dup2(ends[1], 1);
		execlp("cat", "cat", name, NULL);
		_exit(1);
	}
	close(ends[1]);
	file = fdopen(ends[0], "r");
	while (file && fgets(line, sizeof(line), file)) {
		struct range range;
		char rights[8];

		if (sscanf(line, "%lx-%lx %7s", &range.start, &range.end, rights) == 3 &&
		    strstr(line, "memfd:assay") && count < most)
			ret[count++] = range;
	}
	fclose(file);
	waitpid(reader, NULL, 0);
	return count;
}

/* Whether a page can be written, which must not end us. */
static int is_writable(uint64_t page)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)page, 1 };

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 &&
	       process_vm_writev(getpid(), &here, 1, &there, 1, 0) == 1;
}

/* Other processes' files that look like shared memory. */
static int others_reach(pid_t pid)
{
	char name[96], link[128];
	int reached = 0, fd;
	struct dirent *entry;
	DIR *folder;
	ssize_t size;

	snprintf(name, sizeof(name), "/proc/%d/fd", (int)pid);
	folder = opendir(name);
	while (folder && (entry = readdir(folder))) {
		snprintf(name, sizeof(name), "/proc/%d/fd/%.20s", (int)pid, entry->d_name);
		size = readlink(name, link, sizeof(link) - 1);
		if (size <= 0)
			continue;
		link[size] = '\0';
		fd = strstr(link, "memfd:assay") ? open(name, O_RDWR) : -1;
		reached += fd >= 0;
	}
	if (folder)
		closedir(folder);
	return reached;
}

/*
 * Where slots for threads and catalogs may begin, if this memory were everybody's: all but those
 * that say they are our own, so that we live to see the rest of it.
 */
static void slots_scribble(const struct range *range, pid_t other)
{
	for (uint64_t at = range->start; at < range->end && at - range->start < REACH;
	     at += 1 << 20) {
		uint32_t *words = (uint32_t *)at;

		if (is_writable(at) && words[PID_WORD] && words[PID_WORD] != (uint32_t)getpid())
			part_scribble((uint64_t *)at, 4096 / 8, other);
	}
}

static void scribble(const struct range *ranges, size_t count, pid_t other)
{
	for (size_t i = 0; i < count; i++)
		slots_scribble(&ranges[i], other);
	for (int round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < count; i++) {
			uint64_t size = ranges[i].end - ranges[i].start;
			uint64_t part = size < PART ? size : PART;
			uint64_t at = ranges[i].start;

			if (round % 2 && size > part)
				at += random_word() % (size - part) / 4096 * 4096;
			if (is_writable(at))
				part_scribble((uint64_t *)at, part / 8, other);
		}
}

int main(int argc, char **argv)
{
	struct range ranges[64];
	pid_t parent = getppid(), sibling, evil;
	int status;

	sibling = fork();
	if (!sibling)
		_exit(sibling_run());
	evil = fork();
	if (!evil) {
		uid_t user = (uid_t)atoi(argv[1]);
		size_t count = shared_find(ranges, 64);

		if (user && (setgid(user) || setuid(user)))
			_exit(1);
		if (user)
			printf("reached %d %d %d\n", others_reach(parent), others_reach(sibling),
			       others_reach(getppid()));
		printf("ranges %s\n", count ? "some" : "none");
		fflush(stdout);
		scribble(ranges, count, sibling);
		_exit(0);
	}
	waitpid(evil, NULL, 0); /* however it ends */
	waitpid(sibling, &status, 0);
	printf("sibling %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	return 0;
}
