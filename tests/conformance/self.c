// SPDX-License-Identifier: BSD-2-Clause
// options: -ldl -rdynamic -fno-omit-frame-pointer
/* What a program finds out about itself. */
#include "corner.h"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <linux/openat2.h>
#include <sys/auxv.h>
#include <sys/resource.h>

static int phdr_say(struct dl_phdr_info *info, size_t size, void *data)
{
	uintptr_t here = (uintptr_t)phdr_say;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD &&
		    here - info->dlpi_addr - header->p_vaddr < header->p_memsz)
			printf("this function is in module %d, segment flags %x\n", *(int *)data,
			       header->p_flags);
	}
	printf("%s: %d headers\n", info->dlpi_name, info->dlpi_phnum);
	++*(int *)data;
	return 0;
}

static void scene_phdr(void)
{
	int count = 0;

	dl_iterate_phdr(phdr_say, &count);
	printf("%d\n", count);
}

static void scene_exe(void)
{
	char path[4096] = "";
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	printf("%zd %s\n", length, strrchr(path, '/'));
	int fd = open("/proc/self/exe", O_RDONLY);
	printf("%zd %x\n", read(fd, path, 4), path[0]);
	printf("%s\n", strrchr((char *)getauxval(AT_EXECFN), '/'));
	printf("%s\n", program_invocation_short_name);
}

static void scene_auxv(void)
{
	static const unsigned long kinds[] = { AT_PAGESZ, AT_CLKTCK,	 AT_PHENT,  AT_PHNUM,
					       AT_FLAGS,  AT_UID,	 AT_SECURE, AT_HWCAP,
					       AT_HWCAP2, AT_MINSIGSTKSZ };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		printf("%lu %lx\n", kinds[i], getauxval(kinds[i]));
	printf("%d\n", getauxval(AT_ENTRY) - getauxval(AT_PHDR) < 1 << 20);
}

struct mapping {
	uintptr_t start, end, offset;
	char protection[5], path[4096];
};

static int maps_take(FILE *file, struct mapping *mappings, int most)
{
	char line[8192];
	int count = 0;

	while (count < most && fgets(line, sizeof(line), file)) {
		struct mapping *mapping = &mappings[count++];

		mapping->path[0] = 0;
		sscanf(line, "%lx-%lx %4s %lx %*s %*s %4095[^\n]", &mapping->start, &mapping->end,
		       mapping->protection, &mapping->offset, mapping->path);
	}
	fclose(file);
	return count;
}

static int maps_read(struct mapping *mappings, int most)
{
	return maps_take(fopen("/proc/self/maps", "r"), mappings, most);
}

static struct mapping mappings[4096];

/* Files and special areas, in their order; sizes of what belongs to a file. */
static void scene_maps(void)
{
	int count = maps_read(mappings, 4096);

	for (int i = 0; i < count; i++)
		if (mappings[i].path[0] == '/')
			printf("%lx %s %lx %s\n", mappings[i].end - mappings[i].start,
			       mappings[i].protection, mappings[i].offset,
			       strrchr(mappings[i].path, '/'));
		else if (mappings[i].path[0] == '[')
			printf("%s %s\n", mappings[i].protection, mappings[i].path);
}

/* Nothing is writable and executable, nothing is shared: security checks ask that. */
static void scene_maps_protection(void)
{
	int count = maps_read(mappings, 4096), rwx = 0, shared = 0, anonymous_exec = 0;

	for (int i = 0; i < count; i++) {
		rwx += !strncmp(mappings[i].protection, "rwx", 3);
		shared += mappings[i].protection[3] == 's';
		anonymous_exec += mappings[i].protection[2] == 'x' && !mappings[i].path[0];
	}
	printf("%d rwx, %d shared, %d anonymous and executable\n", rwx, shared, anonymous_exec);
}

/* The same through a call that libc does not use. */
static void scene_maps_openat2(void)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC };
	long fd = syscall(SYS_openat2, AT_FDCWD, "/proc/self/maps", &how, sizeof(how));
	int count = maps_take(fdopen((int)fd, "r"), mappings, 4096), rwx = 0;

	for (int i = 0; i < count; i++)
		rwx += !strncmp(mappings[i].protection, "rwx", 3);
	printf("%d rwx\n", rwx);
	printf("%ld\n", syscall(SYS_openat2, AT_FDCWD, "/proc/self/maps", NULL, sizeof(how)));
}

static int exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static void scene_maps_files(void)
{
	int count = maps_read(mappings, 4096);

	for (int i = 0; i < count; i++)
		if (mappings[i].path[0] == '/' && !exists(mappings[i].path))
			printf("%s is in the way\n", mappings[i].path);
	printf("done\n");
}

/* What numa_maps has and maps has not. */
static void scene_maps_numa(void)
{
	int count = maps_read(mappings, 4096), strange = 0, known = 0;
	FILE *file = fopen("/proc/self/numa_maps", "r");
	char line[8192];

	while (file && fgets(line, sizeof(line), file)) {
		uintptr_t start = strtoul(line, NULL, 16);
		bool found = false;

		for (int i = 0; i < count; i++)
			found |= mappings[i].start == start;
		strange += !found;
		known += found && strstr(line, "file=") != NULL;
	}
	printf("%d %d\n", strange, known);
}

/* Where am I, by the maps; my stack; the heap. */
static void scene_maps_find(void)
{
	int count = maps_read(mappings, 4096), local;
	uintptr_t wanted[] = { (uintptr_t)scene_maps_find, (uintptr_t)&local, (uintptr_t)mappings,
			       (uintptr_t)printf };

	for (size_t w = 0; w < 4; w++)
		for (int i = 0; i < count; i++)
			if (wanted[w] - mappings[i].start < mappings[i].end - mappings[i].start) {
				char *name = strrchr(mappings[i].path, '/');

				printf("%s %s\n", mappings[i].protection,
				       name ? name : mappings[i].path);
			}
}

static void scene_backtrace(void)
{
	void *addresses[32];
	int count = backtrace(addresses, 32);

	for (int i = 0; i < count && i < 3; i++) {
		Dl_info info;

		if (dladdr(addresses[i], &info))
			printf("%s %s\n", strrchr(info.dli_fname, '/'),
			       info.dli_sname ? info.dli_sname : "-");
	}
	printf("%d\n", (uintptr_t)__builtin_return_address(0) - (uintptr_t)scenes_run < 4096);
}

static void in_handler(int number, siginfo_t *info, void *context)
{
	void *addresses[32];
	int count = backtrace(addresses, 32);

	for (int i = 0; i < count && i < 5; i++) {
		Dl_info info_of = {};

		dladdr(addresses[i], &info_of);
		printf("%d %s\n", i, info_of.dli_fname ? strrchr(info_of.dli_fname, '/') : "-");
	}
}

static void scene_backtrace_signal(void)
{
	handle(SIGSEGV, in_handler, SA_RESETHAND);
	handle(SIGUSR1, in_handler, 0);
	raise(SIGUSR1);
}

static void scene_dlopen(void)
{
	for (int i = 0; i < 10; i++) {
		void *library = dlopen("libm.so.6", RTLD_NOW);
		double (*cosine)(double) = dlsym(library, "cos");

		printf("%.10f\n", cosine(i));
		dlclose(library);
		library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
		const char *(*version)(void) = library ? dlsym(library, "sqlite3_libversion")
						       : NULL;
		printf("%s\n", version ? version() : dlerror());
		if (library)
			dlclose(library);
	}
}

static void scene_status(void)
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "r");

	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "Name", 4) || !strncmp(line, "State", 5) ||
		    !strncmp(line, "TracerPid", 9) || !strncmp(line, "Threads", 7) ||
		    !strncmp(line, "Seccomp:", 8) || !strncmp(line, "SigCgt", 6) ||
		    !strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6))
			printf("%s", line);
	fclose(file);
}

static void scene_descriptors(void)
{
	for (int i = 0; i < 1024; i++)
		if (fcntl(i, F_GETFD) >= 0)
			printf("%d ", i);
	printf("\n%d\n", open("/dev/null", O_RDONLY));
}

static jmp_buf places[3];

static void scene_setjmp(void)
{
	volatile int count = 0;

	if (setjmp(places[0]) < 5) {
		count++;
		if (!setjmp(places[1]))
			longjmp(places[1], 3);
		longjmp(places[0], count + 1);
	}
	printf("%d\n", count);
}

static long qsort_calls;

static int compare(const void *a, const void *b)
{
	qsort_calls++;
	return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

static void scene_callbacks(void)
{
	int numbers[5000];
	unsigned x = 1;

	for (int i = 0; i < 5000; i++)
		numbers[i] = (int)(x = x * 1103515245 + 12345);
	qsort(numbers, 5000, sizeof(int), compare);
	printf("%ld %d %d\n", qsort_calls, numbers[0], numbers[4999]);
}

static void scene_sbrk(void)
{
	char *before = sbrk(0);

	printf("%d\n", sbrk(1 << 20) == before);
	memset(before, 1, 1 << 20);
	printf("%ld\n", (char *)sbrk(0) - before);
	printf("%d\n", brk(before));
}

/* A call may give any number that is no error; it is done once. */
static void scene_numbers(void)
{
	const long tried[] = { 0x7ffffffe, 0x7fffffff, 0xfffffffe, 0x7ffffffffffffffe };
	int file = memfd_create("numbers", 0);

	for (size_t i = 0; i < sizeof(tried) / sizeof(tried[0]); i++) {
		lseek(file, tried[i] - 1, SEEK_SET);
		long first = lseek(file, 1, SEEK_CUR);

		printf("%lx %lx\n", first, lseek(file, 0, SEEK_CUR));
		alarm((unsigned)tried[i]);
		printf("%x\n", alarm(0));
	}
}

static void scene_address_space(void)
{
	struct rlimit limit = { 200 << 20, 300 << 20 };

	setrlimit(RLIMIT_AS, &limit);
	void *large = malloc(1 << 30);
	printf("%d\n", large == NULL);
	void *small = malloc(1 << 20);
	printf("%d\n", small != NULL);
	int count = 0;
	while (malloc(10 << 20))
		count++;
	printf("%d\n", count);
	getrlimit(RLIMIT_AS, &limit);
	printf("%lu %lu\n", limit.rlim_cur >> 20, limit.rlim_max >> 20);
	limit.rlim_cur = 250 << 20;
	printf("%d\n", prlimit(0, RLIMIT_AS, &limit, &limit));
	printf("%lu %lu\n", limit.rlim_cur >> 20, limit.rlim_max >> 20);
	while (malloc(10 << 20))
		count++;
	printf("%d\n", count);
	limit.rlim_cur = 301 << 20;
	printf("%d %d\n", setrlimit(RLIMIT_AS, &limit), errno);
	printf("%d\n", setrlimit(RLIMIT_AS, (void *)8));
}

static const struct scene scenes[] = {
	{ "phdr", scene_phdr },
	{ "exe", scene_exe },
	{ "auxv", scene_auxv },
	{ "maps", scene_maps },
	{ "maps-protection", scene_maps_protection },
	{ "maps-openat2", scene_maps_openat2 },
	{ "maps-files", scene_maps_files },
	{ "maps-find", scene_maps_find },
	{ "maps-numa", scene_maps_numa },
	{ "backtrace", scene_backtrace },
	{ "backtrace-signal", scene_backtrace_signal },
	{ "dlopen", scene_dlopen },
	{ "status", scene_status },
	{ "numbers", scene_numbers },
	{ "descriptors", scene_descriptors },
	{ "setjmp", scene_setjmp },
	{ "callbacks", scene_callbacks },
	{ "sbrk", scene_sbrk },
	{ "address-space", scene_address_space },
};

SCENES_MAIN(scenes)
