// SPDX-License-Identifier: BSD-2-Clause
/*
 * -fpatchable-function-entry=N,M: the compiler leaves N bytes of instructions that do nothing at
 * each function's entry, M of them in front of it, and a section with the address of the first.
 * They become a call of hooks_patched() before anything of the module runs, or at the first
 * dlsym() that asks for something in it.
 *
 * Where a function begins says the table of its unwind information, since the section does not say
 * M. If there are less than five bytes behind that, but two, they become a jump to a call in front
 * of the function.
 *
 * Code is changed only while the process has one thread: another one might be in the middle of it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hooks/entries.h"

enum {
	CALL_BYTES = 5,
	JUMP_BYTES = 2,
	FRONT_BYTES = CALL_BYTES + JUMP_BYTES, /* a call in front of a function, and a jump back */
	FRONT_MAX = 4096,
	PAGE = 4096,
	JUMP = 16, /* bytes of a jump out of reach of calls, with its target */
	REACH = 1 << 30, /* of a call, with room for the module itself */
};

/* A module as it lies in memory. */
struct module {
	uint64_t bias;
	uint64_t start; /* of its code */
	uint64_t end;
	const uint8_t *index; /* .eh_frame_hdr; NULL: there is none */
	uint64_t target; /* where calls from here lead; 0: nowhere */
	uint64_t target_front; /* and those in front of functions */
	bool is_new; /* what is not patched has not been counted */
	bool only_counts; /* it is too late to change code */
};

static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };

/* Bytes of the instruction there that does nothing; 0: it is another one. */
static size_t nop_length(const uint8_t *at)
{
	static const uint8_t more[4] = { 0, 1, 4, 0 }; /* of a displacement, by mod */
	size_t length = 0;
	uint8_t modrm;

	while ((at[length] == 0x66 || at[length] == 0x2e) && length < 8)
		length++;
	if (at[length] == 0x90)
		return length + 1;
	if (at[length] != 0x0f || at[length + 1] != 0x1f)
		return 0;
	modrm = at[length + 2];
	length += 3;
	if (modrm >> 6 == 3)
		return length;
	return length + ((modrm & 7) == 4) + more[modrm >> 6];
}

static size_t nops_length(const uint8_t *at, size_t most)
{
	size_t length = 0;
	size_t next;

	while (length < most && (next = nop_length(at + length)))
		length += next;
	return length;
}

/* Row of the table: a function's beginning and its unwind information, from the table's own. */
struct index_row {
	int32_t function;
	int32_t fde;
};

/* The first function that begins at the address or behind it; 0: there is none, or no table. */
static uint64_t function_from(const struct module *module, uint64_t address)
{
	enum { VERSION = 1, COUNT_UDATA4 = 0x03, TABLE_DATAREL = 0x3b, HEAD = 12 };
	const uint8_t *index = module->index;
	const struct index_row *rows;
	uint32_t low = 0;
	uint32_t high;

	if (!index || index[0] != VERSION || index[2] != COUNT_UDATA4 || index[3] != TABLE_DATAREL)
		return 0;
	memcpy(&high, index + 8, sizeof(high));
	rows = (const void *)(index + HEAD);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if ((uint64_t)index + (uint64_t)(int64_t)rows[middle].function < address)
			low = middle + 1;
		else
			high = middle;
	}
	memcpy(&high, index + 8, sizeof(high));
	return low < high ? (uint64_t)index + (uint64_t)(int64_t)rows[low].function : 0;
}

/* Where calls of a module lead that is too far away for calls of hooks. */
struct jumps {
	uint64_t module; /* where its code begins */
	uint64_t at;
};

static void jump_put(char *at, uint64_t target)
{
	memcpy(at, "\xff\x25\0\0\0\0", 6); /* jmp *(%rip) */
	memcpy(at + 6, &target, sizeof(target));
}

static uint64_t jumps_make(uint64_t from)
{
	for (uint64_t below = PAGE; below < REACH && below < from; below += 16 * PAGE) {
		char *page = mmap((void *)(from / PAGE * PAGE - below), PAGE,
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (page == MAP_FAILED)
			continue;
		jump_put(page, (uint64_t)hooks_patched);
		jump_put(page + JUMP, (uint64_t)hooks_patched_front);
		mprotect(page, PAGE, PROT_READ | PROT_EXEC);
		return (uint64_t)page;
	}
	return 0;
}

static void targets_find(struct module *module)
{
	static struct jumps all[CALL_MODULES_MAX];
	uint64_t here = (uint64_t)hooks_patched;
	struct jumps *jumps = all;

	module->target = here;
	module->target_front = (uint64_t)hooks_patched_front;
	if ((here > module->start ? here - module->start : module->end - here) < REACH)
		return;
	while (jumps < all + CALL_MODULES_MAX && jumps->at && jumps->module != module->start)
		jumps++;
	if (jumps < all + CALL_MODULES_MAX && !jumps->at)
		*jumps = (struct jumps){ module->start, jumps_make(module->start) };
	module->target = jumps < all + CALL_MODULES_MAX ? jumps->at : 0;
	module->target_front = module->target + JUMP;
}

static void call_put(uint8_t *at, uint64_t target)
{
	int32_t near = (int32_t)(target - ((uint64_t)at + CALL_BYTES));

	at[0] = 0xe8;
	memcpy(at + 1, &near, sizeof(near));
}

/* What is left of the last instruction that did nothing is none by itself. */
static void rest_put(uint8_t *at, size_t used, size_t room)
{
	enum { NOP = 0x90 };

	memset(at + used, NOP, room - used);
}

/* A jump to the function's third byte is the last thing in front of it. */
static void front_put(uint8_t *function, uint8_t *at, uint64_t target)
{
	uint8_t *front = function - FRONT_BYTES;

	call_put(front, target);
	front[CALL_BYTES] = 0xeb;
	front[CALL_BYTES + 1] = (uint8_t)(at + JUMP_BYTES - function);
	at[0] = 0xeb;
	at[1] = (uint8_t)(front - (at + JUMP_BYTES));
}

/* `place` is the first of the bytes. */
static bool entry_patch(const struct module *module, uint64_t place)
{
	uint64_t function = function_from(module, place - sizeof(endbr));
	size_t front = 0;
	uint8_t *at;
	size_t room;

	if (function + sizeof(endbr) != place ||
	    memcmp((void *)function, endbr, sizeof(endbr)) != 0) {
		function = function_from(module, place);
		front = function - place;
	}
	if (!function || front > FRONT_MAX || function >= module->end ||
	    nops_length((const uint8_t *)place, front) != front)
		return false;
	at = (uint8_t *)function;
	if (!memcmp(at, endbr, sizeof(endbr)))
		at += sizeof(endbr);
	room = nops_length(at, CALL_BYTES);
	if (room >= CALL_BYTES)
		call_put(at, module->target);
	else if (room >= JUMP_BYTES && front >= FRONT_BYTES)
		front_put((uint8_t *)function, at, module->target_front);
	else
		return false;
	rest_put(at, room >= CALL_BYTES ? CALL_BYTES : JUMP_BYTES, room);
	return true;
}

static bool is_patched(const struct module *module, uint64_t place)
{
	const uint8_t *at = (const uint8_t *)place;
	uint64_t target;
	int32_t near;

	for (int i = 0; i < 2 && !memcmp(at, endbr, sizeof(endbr)); i++)
		at += sizeof(endbr);
	at += nops_length(at, FRONT_MAX);
	if (at >= (const uint8_t *)module->end || at[0] != 0xe8)
		return false;
	memcpy(&near, at + 1, sizeof(near));
	target = (uint64_t)at + CALL_BYTES + (uint64_t)(int64_t)near;
	return target == module->target || target == module->target_front;
}

/* The section has been relocated in memory. */
static void section_patch(struct module *module, uint64_t at, uint64_t bytes, bool may)
{
	const uint64_t *places = (const uint64_t *)at;

	for (uint64_t i = 0; i < bytes / sizeof(*places); i++) {
		uint64_t place = places[i];

		if (place < module->start || place >= module->end || is_patched(module, place))
			continue;
		if (may && entry_patch(module, place))
			__atomic_add_fetch(&hooks_area->patched, 1, __ATOMIC_RELAXED);
		else if (module->is_new)
			__atomic_add_fetch(&hooks_area->unpatched, 1, __ATOMIC_RELAXED);
	}
}

static bool process_is_single(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	while (tasks && readdir(tasks))
		count++;
	if (tasks)
		closedir(tasks);
	return count == 3; /* with . and .. */
}

static void sections_patch(struct module *module, const ElfW(Shdr) * section)
{
	uint64_t first = module->start / PAGE * PAGE;
	size_t bytes = (module->end + PAGE - 1) / PAGE * PAGE - first;
	bool may = module->target && !module->only_counts && process_is_single() &&
		   !mprotect((void *)first, bytes, PROT_READ | PROT_WRITE | PROT_EXEC);

	section_patch(module, module->bias + section->sh_addr, section->sh_size, may);
	if (may)
		mprotect((void *)first, bytes, PROT_READ | PROT_EXEC);
}

/* A file of `size` bytes is what it was when it was mapped, or makes no sense. */
static void file_look(struct module *module, const char *file, size_t size)
{
	const ElfW(Ehdr) *head = (const void *)file;
	const ElfW(Shdr) *sections = (const void *)(file + head->e_shoff);
	const ElfW(Shdr) * names;

	if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_shoff >= size ||
	    head->e_shentsize != sizeof(*sections) ||
	    (size - head->e_shoff) / sizeof(*sections) < head->e_shnum ||
	    head->e_shstrndx >= head->e_shnum)
		return;
	names = &sections[head->e_shstrndx];
	if (names->sh_offset >= size || names->sh_size > size - names->sh_offset)
		return;
	for (int i = 0; i < head->e_shnum; i++) {
		static const char wanted[] = "__patchable_function_entries";
		const ElfW(Shdr) *section = &sections[i];

		if (section->sh_flags & SHF_ALLOC && section->sh_name < names->sh_size &&
		    names->sh_size - section->sh_name >= sizeof(wanted) &&
		    !memcmp(file + names->sh_offset + section->sh_name, wanted, sizeof(wanted)))
			sections_patch(module, section);
	}
}

static void module_patch(struct module *module, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat info;
	void *file = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &info) && info.st_size > (off_t)sizeof(ElfW(Ehdr)))
		file = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (file == MAP_FAILED)
		return;
	file_look(module, file, (size_t)info.st_size);
	munmap(file, (size_t)info.st_size);
}

/* Modules that were looked at, by their bias. */
static unsigned long long loads; /* as the dynamic linker counts them */
static uint64_t looked[CALL_MODULES_MAX];
static uint32_t looked_count;

static bool is_looked_at(uint64_t bias)
{
	for (uint32_t i = 0; i < looked_count; i++)
		if (looked[i] == bias)
			return true;
	if (looked_count < CALL_MODULES_MAX)
		looked[looked_count++] = bias;
	return false;
}

static int module_look(struct dl_phdr_info *info, size_t size, void *context)
{
	struct module module = { .bias = info->dlpi_addr,
				 .start = UINT64_MAX,
				 .only_counts = *(const bool *)context };
	char path[sizeof(hooks_area->modules[0].path)] = "/proc/self/exe";
	uint64_t first = UINT64_MAX;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + header->p_vaddr;

		if (header->p_type == PT_LOAD && start < first)
			first = start;
		if (header->p_type == PT_GNU_EH_FRAME)
			module.index = (const void *)start;
		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		hooks_text_add(start, start + header->p_memsz);
		module.start = start < module.start ? start : module.start;
		if (start + header->p_memsz > module.end)
			module.end = start + header->p_memsz;
	}
	if (!hooks_area->entries || !module.end)
		return 0;
	module.is_new = !is_looked_at(info->dlpi_addr);
	targets_find(&module);
	if (*info->dlpi_name) {
		memset(path, 0, sizeof(path));
		hooks_module_path(info->dlpi_name, first, path, sizeof(path));
	}
	module_patch(&module, path);
	return 0;
}

static int loads_look(struct dl_phdr_info *info, size_t size, void *context)
{
	unsigned long long *found = context;

	*found = info->dlpi_adds;
	return 1;
}

static void modules_look(bool only_counts)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	unsigned long long now = 0;
	int before;

	if (pthread_mutex_trylock(&lock))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* dlsym() is no place for it */
	dl_iterate_phdr(loads_look, &now);
	if (now != loads) {
		loads = now;
		dl_iterate_phdr(module_look, &only_counts);
		hooks_modules_tell();
	}
	pthread_setcancelstate(before, NULL);
	pthread_mutex_unlock(&lock);
}

void hooks_patches_look(void)
{
	modules_look(false);
}

/* Libraries in which nothing was looked up ran without being patched. */
void hooks_patches_count(void)
{
	modules_look(true);
}

/* The program's function, to which dlsym() in entry.S goes on. */
void *(*hooks_dlsym)(void *library, const char *name);

/* What is looked up in a library may be called next, so the library is patched now. */
void hooks_looked_up(const void *library)
{
	if (!hooks_dlsym) {
		void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

		found = found ? found : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
		hooks_dlsym = (void *(*)(void *, const char *))found;
	}
	if (hooks_area && library != RTLD_NEXT && library != RTLD_DEFAULT)
		hooks_patches_look();
}
