// SPDX-License-Identifier: BSD-2-Clause
/*
 * Calls about memory in the holes around the program's code, as /proc/self/maps shows them.
 * Natively nothing is there.
 */
#include "corner.h"

#include <sys/shm.h>

enum { PIECE = 32 << 20, PIECES_MAX = 64, AROUND = 1 << 30 };

static char *pieces[PIECES_MAX];
static int piece_count;

/* Pieces of the holes, lowest first. */
static void holes_find(void)
{
	uintptr_t here = (uintptr_t)holes_find, end = here - AROUND, start, next;
	FILE *file = fopen("/proc/self/maps", "r");
	char line[8192];

	while (fgets(line, sizeof(line), file) && sscanf(line, "%lx-%lx", &start, &next) == 2) {
		uintptr_t at = (end + PIECE - 1) & -(uintptr_t)PIECE;

		for (; at + PIECE < start && at < here + AROUND; at += PIECE)
			if (piece_count < PIECES_MAX)
				pieces[piece_count++] = (char *)at;
		if (next > end)
			end = next;
	}
	fclose(file);
}

/* Code that has not run before, each time: the engine has to make room for it. */
static void work(int round)
{
	char text[64];
	double value = round;
	struct tm day = { .tm_year = 70, .tm_mday = 1 };

	switch (round % 6) {
	case 0:
		snprintf(text, sizeof(text), "%a", value);
		break;
	case 1:
		strtod("1.5e3", NULL);
		break;
	case 2:
		setenv("SPACE", "x", 1);
		break;
	case 3:
		qsort(text, sizeof(text), 1, (int (*)(const void *, const void *))strcmp);
		break;
	case 4:
		strftime(text, sizeof(text), "%c", &day);
		break;
	default:
		strtoul("77", NULL, 8);
	}
}

static int pass_count;

static void expect(bool ok)
{
	pass_count += ok;
}

static void scene_say(void)
{
	printf("%s\n", piece_count > 10 && pass_count == piece_count ? "all" : "not all");
	if (pass_count != piece_count)
		printf("%d of %d: %s\n", pass_count, piece_count, strerror(errno));
}

static void each(void (*one)(char *))
{
	holes_find();
	for (int i = 0; i < piece_count; i++) {
		work(i);
		one(pieces[i]);
	}
	scene_say();
}

static bool is_usable(char *memory)
{
	memory[0] = memory[PIECE - 1] = 7;
	return memory[PIECE / 2] == 0 && memory[0] == 7;
}

static void one_mapped(char *at, int flags)
{
	char *got = mmap(at, PIECE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);

	work(3);
	expect(got == at && is_usable(got));
	if (got != MAP_FAILED)
		munmap(got, PIECE);
}

static void one_fixed(char *at)
{
	one_mapped(at, MAP_FIXED);
}

static void scene_fixed(void)
{
	each(one_fixed);
}

static void one_noreplace(char *at)
{
	one_mapped(at, MAP_FIXED_NOREPLACE);
}

static void scene_noreplace(void)
{
	each(one_noreplace);
}

static void one_hint(char *at)
{
	one_mapped(at, 0);
}

static void scene_hint(void)
{
	each(one_hint);
}

static void one_unmap(char *at)
{
	expect(!munmap(at, PIECE));
}

static void scene_unmap(void)
{
	each(one_unmap);
}

static void one_protect(char *at)
{
	expect(mprotect(at, PIECE, PROT_NONE) == -1 && errno == ENOMEM);
}

static void scene_protect(void)
{
	each(one_protect);
}

static void one_advice(char *at)
{
	expect(madvise(at, PIECE, MADV_DONTNEED) == -1 && errno == ENOMEM);
}

static void scene_advice(void)
{
	each(one_advice);
}

static void one_other(char *at)
{
	unsigned char there[PIECE / 4096];

	expect(mlock(at, PIECE) == -1 && errno == ENOMEM && munlock(at, PIECE) == -1 &&
	       errno == ENOMEM && msync(at, PIECE, MS_SYNC) == -1 && errno == ENOMEM &&
	       mincore(at, PIECE, there) == -1 && errno == ENOMEM);
}

static void scene_other(void)
{
	each(one_other);
}

/* From the first mapping of the program to there: its own memory in front changes all the same. */
static void scene_protect_across(void)
{
	char *own;

	holes_find();
	for (int i = 0; i + 1 < piece_count; i++) {
		own = mmap(pieces[i], 4096, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		work(i);
		if (own != pieces[i])
			continue;
		*own = 1;
		expect(mprotect(own, PIECE, PROT_READ) == -1 && errno == ENOMEM &&
		       read(0, own, 1) <= 0 && getcwd(own, 4096) == NULL && errno == EFAULT &&
		       madvise(own, PIECE, MADV_DONTNEED) == -1 && *own == 0 &&
		       munmap(own, PIECE) == 0);
	}
	pass_count++;
	scene_say();
}

static void one_moved(char *at)
{
	char *from = mmap(NULL, PIECE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *got = mremap(from, PIECE, PIECE, MREMAP_MAYMOVE | MREMAP_FIXED, at);

	expect(got == at && is_usable(at) && !munmap(at, PIECE) &&
	       mremap(at, PIECE, 2 * PIECE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT);
}

static void scene_remap(void)
{
	each(one_moved);
}

static void one_grown(char *at)
{
	char *from = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			  -1, 0);

	work(2);
	expect(mremap(from, 4096, PIECE, 0) == at && is_usable(at) && !munmap(at, PIECE));
}

static void scene_remap_grow(void)
{
	each(one_grown);
}

static void shared_at(char *at, int flags)
{
	int id = shmget(IPC_PRIVATE, PIECE, 0600 | IPC_CREAT);
	char *got = shmat(id, at, flags);

	shmctl(id, IPC_RMID, NULL);
	expect(got == at && is_usable(got) && !shmdt(got));
}

static void one_shared(char *at)
{
	shared_at(at, 0);
}

static void scene_shared(void)
{
	each(one_shared);
}

static void one_shared_over(char *at)
{
	shared_at(at, SHM_REMAP);
}

static void scene_shared_over(void)
{
	each(one_shared_over);
}

/* --- While others execute code of which there are copies in the holes ---------------------- */

static volatile bool done;

static void *busy(void *argument)
{
	unsigned long *count = argument;

	do {
		work((int)(*count % 6));
		++*count;
	} while (!done);
	return NULL;
}

static void *busy_in_one_loop(void *argument)
{
	unsigned long *count = argument;

	do
		++*count;
	while (!done);
	return NULL;
}

static void scene_threads(void)
{
	unsigned long counts[4] = {};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, i % 2 ? busy : busy_in_one_loop, &counts[i]);
	rest(20);
	each(one_fixed);
	done = true;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%d\n", counts[0] && counts[1] && counts[2] && counts[3]);
}

static const struct scene scenes[] = {
	{ "fixed", scene_fixed },     { "noreplace", scene_noreplace },
	{ "hint", scene_hint },	      { "unmap", scene_unmap },
	{ "protect", scene_protect }, { "protect-across", scene_protect_across },
	{ "advice", scene_advice },   { "other", scene_other },
	{ "remap", scene_remap },     { "remap-grow", scene_remap_grow },
	{ "shared", scene_shared },   { "shared-over", scene_shared_over },
	{ "threads", scene_threads },
};

SCENES_MAIN(scenes)
