// SPDX-License-Identifier: BSD-2-Clause
/*
 * Modules: which bytes a mapping shows.
 *
 * A module is known by its build-id and path. A mapping told without a build-id is first known by
 * device, inode and path; when its file can be opened and has a build-id, that leads to the module
 * known by it. The file stays open, so that its inode cannot come to mean another file, and so that
 * its symbols can be read after it was deleted.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "image/loadmap_internal.h"
#include "image/procfs.h"

#define DELETED " (deleted)"

enum { KEY_MAX = PATH_MAX + 128, PERF_MAP_PATH_MAX = 64 };

enum place {
	PLACE_FILE,
	PLACE_MEMFD, /* a program now and then, mostly translated code */
	PLACE_VDSO,
	PLACE_MEMORY,
};

static enum place place_of(const struct event_mmap *mmap)
{
	static const char *const memory[] = { "//anon", "/dev/zero",	  "/SYSV", "/anon_hugepage",
					      "/[",	"/drm mm object", "/i915" };
	const char *path = mmap->path;

	/* A 32-bit process has another vdso than we have. */
	if (strcmp(path, "[vdso]") == 0)
		return mmap->start >> 32 ? PLACE_VDSO : PLACE_MEMORY;
	if (strncmp(path, "/memfd:", 7) == 0)
		return PLACE_MEMFD;
	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		if (strncmp(path, memory[i], strlen(memory[i])) == 0)
			return PLACE_MEMORY;
	return path[0] == '/' ? PLACE_FILE : PLACE_MEMORY;
}

static struct loadmap_entry **slot_of(struct loadmap *map, const char *key)
{
	uint32_t id = strtab_add(&map->keys, key);

	while (map->keyed.count <= id)
		*array_push(&map->keyed) = NULL;
	return &map->keyed.items[id];
}

static struct loadmap_entry **build_id_slot(struct loadmap *map, const struct build_id *id,
					    const char *path)
{
	char key[KEY_MAX], hex[BUILD_ID_HEX_MAX];

	build_id_hex(id, hex);
	snprintf(key, sizeof(key), "build-id %s %s", hex, path);
	return slot_of(map, key);
}

static struct loadmap_entry **inode_slot(struct loadmap *map, const struct event_mmap *mmap,
					 const char *path)
{
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "inode %u:%u:%" PRIu64 " %s", mmap->major, mmap->minor,
		 mmap->inode, path);
	return slot_of(map, key);
}

static struct loadmap_entry *entry_create(struct loadmap *map, enum module_kind kind,
					  const char *path)
{
	struct loadmap_entry *entry = mem_zalloc(sizeof(*entry));

	entry->module.kind = kind;
	entry->module.path = mem_strdup(path);
	entry->module.fd = -1;
	entry->file.fd = -1;
	*array_push(&map->modules) = entry;
	entry->module.id.v = (uint32_t)map->modules.count;
	return entry;
}

void loadmap_modules_deinit(struct loadmap *map)
{
	array_each(&map->modules, slot) {
		struct loadmap_entry *entry = *slot;

		if (entry->module.fd >= 0 && entry->file.fd < 0)
			close(entry->module.fd);
		loadmap_file_deinit(&entry->file);
		unwind_table_deinit(&entry->module.table);
		free(entry->module.path);
		free(entry);
	}
	array_deinit(&map->modules);
	array_deinit(&map->keyed);
	strtab_deinit(&map->keys);
}

void loadmap_modules_finish(struct loadmap *map)
{
	array_each(&map->modules, slot) {
		struct loadmap_module *module = &(*slot)->module;
		struct stat info;

		if (module->kind != MODULE_ELF || module->deleted || module->fd < 0 ||
		    fstat(module->fd, &info) || info.st_nlink)
			continue;
		module->deleted = true;
		loadmap_module_row_put(map, module);
	}
}

/* Closes a file in which nothing was ever found when there are too many. */
static void fds_make_room(struct loadmap *map)
{
	if (map->fds_open < map->fds_max)
		return;
	array_each(&map->modules, slot) {
		struct loadmap_entry *entry = *slot;

		if (entry->sampled || entry->file.fd < 0)
			continue;
		close(entry->file.fd);
		entry->file.fd = entry->module.fd = -1;
		map->fds_open--;
		return;
	}
}

static void entry_take_file(struct loadmap *map, struct loadmap_entry *entry,
			    const struct loadmap_file *file)
{
	loadmap_file_deinit(&entry->file);
	entry->file = *file;
	entry->module.fd = file->fd;
	entry->module.base = file->base;
	entry->module.end = file->end;
	entry->module.build_id = file->build_id;
	map->fds_open++;
}

/* The event said that the name is gone, or only another file was found under it. */
static void entry_set_deleted(struct loadmap_entry *entry, bool deleted, int open_error)
{
	entry->module.deleted |= deleted || open_error == -ENOENT || open_error == -ESTALE;
}

/*
 * Trying all ways takes some 30 us, and a short program in a loop is mapped a thousand times a
 * second.
 */
static bool entry_try(struct loadmap_entry *entry)
{
	uint64_t now = clock_monotonic();

	if (entry->tried && now - entry->tried < NS_PER_S)
		return false;
	entry->tried = now;
	return true;
}

/* A module whose file could not be opened through one process may be open to us through another. */
static void entry_retry(struct loadmap *map, struct loadmap_entry *entry, uint32_t pid,
			const struct event_mmap *mmap)
{
	struct loadmap_file file;

	if (entry->module.fd >= 0 || !entry_try(entry))
		return;
	fds_make_room(map);
	if (loadmap_file_open(pid, mmap, entry->module.path, &file))
		return;
	entry_take_file(map, entry, &file);
	entry->module.deleted = false;
	loadmap_module_row_put(map, &entry->module);
}

static struct loadmap_entry *entry_for_build_id(struct loadmap *map, uint32_t pid,
						const struct event_mmap *mmap, const char *path,
						bool deleted)
{
	struct loadmap_entry **slot = build_id_slot(map, &mmap->build_id, path);
	struct loadmap_file file;
	int err;

	if (*slot) {
		entry_retry(map, *slot, pid, mmap);
		return *slot;
	}
	fds_make_room(map);
	err = loadmap_file_open(pid, mmap, path, &file);
	*slot = entry_create(map, MODULE_ELF, path);
	(*slot)->module.build_id = mmap->build_id;
	if (!err)
		entry_take_file(map, *slot, &file);
	else
		entry_try(*slot);
	entry_set_deleted(*slot, deleted, err);
	loadmap_module_row_put(map, &(*slot)->module);
	return *slot;
}

/* The module of an open file: one known by its build-id, or a new one. Takes the file over. */
static struct loadmap_entry *entry_for_file(struct loadmap *map, const char *path,
					    struct loadmap_file *file, bool deleted)
{
	struct loadmap_entry **slot = NULL, *entry;

	if (file->build_id.size)
		slot = build_id_slot(map, &file->build_id, path);
	if (slot && *slot && (*slot)->module.fd >= 0) {
		/* Same bytes by their build-id, whatever happened to the inode's time. */
		(*slot)->file.modified = file->modified;
		(*slot)->file.size = file->size;
		loadmap_file_deinit(file);
		return *slot;
	}
	entry = slot && *slot ? *slot : entry_create(map, MODULE_ELF, path);
	entry_take_file(map, entry, file);
	entry_set_deleted(entry, deleted, 0);
	if (slot)
		*slot = entry;
	loadmap_module_row_put(map, &entry->module);
	return entry;
}

static struct loadmap_entry *entry_for_inode(struct loadmap *map, uint32_t pid,
					     const struct event_mmap *mmap, const char *path,
					     bool deleted)
{
	struct loadmap_entry *entry = *inode_slot(map, mmap, path);
	struct loadmap_file file;
	int err;

	if (entry &&
	    (entry->module.fd >= 0 ? !loadmap_file_changed(&entry->file) : !entry_try(entry)))
		return entry;
	fds_make_room(map);
	err = loadmap_file_open(pid, mmap, path, &file);
	if (!err && entry && entry->module.fd < 0 && !entry->module.build_id.size &&
	    !file.build_id.size) {
		entry_take_file(map, entry, &file);
		return entry;
	}
	if (!err) {
		entry = entry_for_file(map, path, &file, deleted);
	} else if (!entry || entry->module.fd >= 0) {
		entry = entry_create(map, MODULE_ELF, path);
		entry_try(entry);
		entry_set_deleted(entry, deleted, err);
		loadmap_module_row_put(map, &entry->module);
	}
	*inode_slot(map, mmap, path) = entry;
	return entry;
}

static struct loadmap_entry *entry_for_path(struct loadmap *map, uint32_t pid,
					    const struct event_mmap *mmap)
{
	char path[PATH_MAX];
	size_t length = strnlen(mmap->path, sizeof(path) - 1);
	size_t suffix = strlen(DELETED);
	struct loadmap_entry *entry;
	bool deleted;

	memcpy(path, mmap->path, length);
	path[length] = '\0';
	deleted = length > suffix && strcmp(path + length - suffix, DELETED) == 0;
	if (deleted)
		path[length - suffix] = '\0';
	entry = mmap->build_id.size ? entry_for_build_id(map, pid, mmap, path, deleted)
				    : entry_for_inode(map, pid, mmap, path, deleted);
	if (deleted && !entry->module.deleted) {
		entry->module.deleted = true;
		loadmap_module_row_put(map, &entry->module);
	}
	return entry;
}

/* Whether a memfd holds a program. The kernel gives build-ids of ELF files only. */
static bool memfd_is_elf(uint32_t pid, const struct event_mmap *mmap)
{
	struct loadmap_file file;
	bool elf;

	if (mmap->build_id.size)
		return true;
	if (loadmap_file_open(pid, mmap, mmap->path, &file))
		return false;
	elf = file.elf;
	loadmap_file_deinit(&file);
	return elf;
}

/* A copy of our own vdso: every 64-bit process under this kernel has the same. */
static int vdso_copy(void)
{
	AUTO(close_file) FILE *maps = fopen("/proc/self/maps", "re");
	AUTO(close_fd) int fd = memfd_create("vdso", MFD_CLOEXEC);
	unsigned long wanted = getauxval(AT_SYSINFO_EHDR), start, end;
	char line[512];

	while (maps && fd >= 0 && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || start != wanted)
			continue;
		return write(fd, (const void *)start, end - start) == (ssize_t)(end - start)
			       ? take_fd(fd)
			       : -EIO;
	}
	return -ENOENT;
}

static struct loadmap_entry *entry_for_vdso(struct loadmap *map)
{
	struct loadmap_entry **slot = slot_of(map, "vdso");
	struct loadmap_file file;
	int fd;

	if (*slot)
		return *slot;
	*slot = entry_create(map, MODULE_VDSO, "[vdso]");
	fd = vdso_copy();
	if (fd >= 0 && loadmap_file_read(fd, &file) == 0)
		entry_take_file(map, *slot, &file);
	(*slot)->sampled = true; /* could not be opened again by name */
	loadmap_module_row_put(map, &(*slot)->module);
	return *slot;
}

struct loadmap_module *loadmap_module_of(struct loadmap *map, uint32_t pid,
					 const struct event_mmap *mmap)
{
	enum place place = place_of(mmap);

	if (place == PLACE_VDSO)
		return &entry_for_vdso(map)->module;
	if (place == PLACE_FILE || (place == PLACE_MEMFD && memfd_is_elf(pid, mmap)))
		return &entry_for_path(map, pid, mmap)->module;
	return &map->memory;
}

uint64_t loadmap_module_bias(const struct loadmap_module *module, const struct event_mmap *mmap)
{
	if (module->kind == MODULE_VDSO)
		return loadmap_file_bias(&loadmap_entry_of(module)->file, mmap->start, 0);
	if (module->kind != MODULE_ELF)
		return 0;
	return loadmap_file_bias(&loadmap_entry_of(module)->file, mmap->start, mmap->offset);
}

/*
 * Any user can make a file in /tmp: only one of the process's user or of root is used. A file with
 * a second hard link is refused, because another user may have linked it there.
 */
static bool perf_map_trusted(int fd, const struct loadmap_image *image)
{
	struct stat info;

	if (fstat(fd, &info) || info.st_nlink > 1)
		return false;
	return info.st_uid == 0 || info.st_uid == image->euid || info.st_uid == image->uid ||
	       image->euid == UINT32_MAX;
}

/* -1: there is none, or it is not safe to use. */
static int perf_map_open(const struct loadmap_image *image, char ret_path[PERF_MAP_PATH_MAX])
{
	uint32_t pid = image->process.pid;
	bool runs = image->process.to == UINT64_MAX;
	AUTO(close_fd) int fd = -1;

	snprintf(ret_path, PERF_MAP_PATH_MAX, "/tmp/perf-%d.map",
		 (int)(runs ? procfs_namespace_pid((pid_t)pid) : (pid_t)pid));
	fd = loadmap_root_open_file(runs ? pid : 0, ret_path);
	return fd >= 0 && perf_map_trusted(fd, image) ? take_fd(fd) : -1;
}

static bool is_jitdump(const char *path)
{
	const char *name = strrchr(path, '/');
	unsigned int pid;
	int length = 0;

	return name && sscanf(name, "/jit-%u.dump%n", &pid, &length) == 1 && length &&
	       !name[length];
}

/*
 * A process that writes a jitdump file maps a page of it, so that recorders learn its path. -1:
 * there is none, or it is not safe to use.
 */
static int jitdump_open(const struct loadmap_image *image, char *ret_path, size_t size)
{
	bool runs = image->process.to == UINT64_MAX;

	for (size_t i = image->process.mapping_count; i-- > 0;) {
		const struct loadmap_module *module = image->process.mappings[i].module;
		AUTO(close_fd) int fd = -1;

		if (!module->path || !is_jitdump(module->path))
			continue;
		snprintf(ret_path, size, "%s", module->path);
		fd = loadmap_root_open_file(runs ? image->process.pid : 0, ret_path);
		if (fd >= 0 && perf_map_trusted(fd, image))
			return take_fd(fd);
	}
	return -1;
}

static int names_open(const struct loadmap_image *image, char ret_path[PATH_MAX])
{
	int fd = perf_map_open(image, ret_path);

	return fd >= 0 ? fd : jitdump_open(image, ret_path, PATH_MAX);
}

static struct loadmap_module *jit_open(struct loadmap *map, struct loadmap_image *image)
{
	AUTO(close_fd) int fd = -1;
	struct loadmap_entry *entry;
	char path[PATH_MAX];

	fd = names_open(image, path);
	if (fd < 0)
		return NULL;
	entry = entry_create(map, MODULE_JIT, path);
	entry->module.process = loadmap_image_id(map, image);
	entry->module.fd = take_fd(fd);
	loadmap_process_row_put(map, image);
	loadmap_module_row_put(map, &entry->module);
	return &entry->module;
}

struct module_id loadmap_named_module(struct loadmap *map, struct loadmap_process *process,
				      const char *path, int perf_map)
{
	struct loadmap_image *image = loadmap_image_of(process);
	struct loadmap_entry *entry;

	if (!image->named) {
		entry = entry_create(map, MODULE_JIT, path);
		entry->module.process = loadmap_image_id(map, image);
		entry->module.fd = fcntl(perf_map, F_DUPFD_CLOEXEC, 3);
		loadmap_process_row_put(map, image);
		loadmap_module_row_put(map, &entry->module);
		image->named = &entry->module;
	}
	return image->named->id;
}

static struct loadmap_module *anon_module(struct loadmap *map, struct loadmap_image *image)
{
	struct loadmap_entry *entry;

	if (image->anon)
		return image->anon;
	entry = entry_create(map, MODULE_ANON, "[anon]");
	entry->module.process = loadmap_image_id(map, image);
	loadmap_process_row_put(map, image);
	loadmap_module_row_put(map, &entry->module);
	image->anon = &entry->module;
	return image->anon;
}

/* How to get a map from programs that are known to make code and no map. */
static void map_advise(struct loadmap_image *image)
{
	static const struct {
		const char *comm, *advice;
	} known[] = {
		{ "java", "'jcmd %u Compiler.perfmap' writes them while the process runs, the "
			  "option -XX:+DumpPerfMapAtExit when it ends" },
		{ "node",
		  "the option --perf-basic-prof writes them, --perf-prof the code as well" },
	};
	char advice[160];

	if (image->advised)
		return;
	image->advised = true;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(image->comm, known[i].comm))
			continue;
		snprintf(advice, sizeof(advice), known[i].advice, image->process.pid);
		log_info("process %u (%s): code that it made has no names; %s", image->process.pid,
			 image->comm, advice);
	}
}

/*
 * Some programs write their map when they end, or on request, in the middle of a recording.
 * Addresses that were found in their memory before get their names then.
 */
void loadmap_memory_settle(struct loadmap *map, struct loadmap_image *image)
{
	char path[PATH_MAX];
	struct loadmap_module *module = image->anon;
	int fd;

	if (!module || module->kind != MODULE_ANON)
		return;
	fd = names_open(image, path);
	if (fd < 0) {
		map_advise(image);
		return;
	}
	free(module->path);
	module->path = mem_strdup(path);
	module->kind = MODULE_JIT;
	module->fd = fd;
	loadmap_module_row_put(map, module);
}

void loadmap_names_give(struct loadmap *map, struct loadmap_process *process, int fd)
{
	struct loadmap_module *module = anon_module(map, loadmap_image_of(process));

	if (module->kind != MODULE_ANON) {
		close(fd);
		return;
	}
	free(module->path);
	module->path = mem_strdup("[names]");
	module->kind = MODULE_JIT;
	module->fd = fd;
	loadmap_module_row_put(map, module);
}

static struct loadmap_module *memory_module(struct loadmap *map, struct loadmap_image *image)
{
	uint64_t now = clock_monotonic();

	if (!image->jit && (!image->jit_checked || now - image->jit_checked >= NS_PER_S)) {
		image->jit_checked = now;
		image->jit = jit_open(map, image);
	}
	if (image->jit)
		return image->jit;
	return image->parent_jit ? image->parent_jit : anon_module(map, image);
}

void loadmap_resolve(struct loadmap *map, struct loadmap_process *process, uint64_t address,
		     uint64_t time, struct module_id *ret_module, uint64_t *ret_address)
{
	struct loadmap_image *image = loadmap_image_of(process);
	struct loadmap_mapping found;

	if (!loadmap_find(map, process, address, time, &found)) {
		*ret_module = anon_module(map, image)->id;
		*ret_address = address;
	} else if (found.module == &map->memory) {
		*ret_module = memory_module(map, image)->id;
		*ret_address = address;
	} else {
		loadmap_entry_of(found.module)->sampled = true;
		*ret_module = found.module->id;
		*ret_address = address - found.bias;
	}
}

const struct unwind_table *loadmap_module_table(struct loadmap *map, struct loadmap_module *module)
{
	bool has_code = module->kind == MODULE_ELF || module->kind == MODULE_VDSO;

	if (module->table_loaded || !has_code || module->fd < 0)
		return &module->table;
	module->table_loaded = true;
	if (unwind_table_load(module->fd, &module->build_id, map->cache_dir, &module->table))
		log_debug("%s: no unwind table: %s", module->path, err_text());
	return &module->table;
}

struct loadmap_module *loadmap_module_get(struct loadmap *map, struct module_id id)
{
	return id.v && id.v <= map->modules.count ? &map->modules.items[id.v - 1]->module : NULL;
}

/*
 * Where code lies is said by a file that the process's user may have written, and the recorder's
 * file may have more rights than its user: a program that is setuid is not read for that user.
 */
static bool may_be_read(pid_t pid)
{
	return geteuid() == 0 || procfs_is_own(pid);
}

size_t loadmap_memory_read(struct loadmap *map, struct module_id id, uint64_t address, void *ret,
			   size_t size)
{
	const struct loadmap_module *module = loadmap_module_get(map, id);
	struct iovec to = { ret, size }, from = { (void *)(uintptr_t)address, size };
	ssize_t got = 0;

	if (!module || module->kind != MODULE_JIT || !module->process.v)
		return 0;
	map_each(&map->pids, slot) {
		const struct loadmap_image *image = (void *)(uintptr_t)slot->value;

		if (image->process.id.v == module->process.v && image->process.to == UINT64_MAX &&
		    may_be_read((pid_t)image->process.pid))
			got = process_vm_readv((pid_t)image->process.pid, &to, 1, &from, 1, 0);
	}
	return got > 0 ? (size_t)got : 0;
}

static struct module_id named_module(struct loadmap *map, enum module_kind kind, const char *name)
{
	struct loadmap_entry **slot;
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "kind %d %s", kind, name);
	slot = slot_of(map, key);
	if (!*slot) {
		*slot = entry_create(map, kind, name);
		loadmap_module_row_put(map, &(*slot)->module);
	}
	return (*slot)->module.id;
}

struct module_id loadmap_kernel_module(struct loadmap *map, const char *name)
{
	return named_module(map, MODULE_KERNEL, name);
}

struct module_id loadmap_mark_module(struct loadmap *map)
{
	return named_module(map, MODULE_MARK, "[assay]");
}
