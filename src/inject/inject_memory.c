// SPDX-License-Identifier: BSD-2-Clause
/*
 * The files in memory (memfd_create) that the host makes for engines: one for each process, with
 * its mailbox and its slots (wire/stream.h); one that all processes can read and only the host can
 * write; and one with those pages of the engine's image that are never written. Each is sealed, so
 * that no process can change its size under those who have mapped it.
 */
#include "inject/inject_private.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/err.h"

/* 0: the tools record nothing. */
static uint64_t slot_bytes(uint64_t tools)
{
	uint64_t kept = engine_tools_counters_at(tools, ENGINE_TOOLS_END, STREAM_SEGMENTS_MAX);

	if (engine_tools_flags(tools) & ENGINE_TOOL_ALONE)
		return 0;
	return round_up(STREAM_COUNTS_OFFSET + kept);
}

static void area_init(struct engine_shared *shared, uint64_t tools, uint64_t bytes, uint32_t large)
{
	struct stream_area *area = (void *)((char *)shared + STREAM_AREA);

	area->version = STREAM_VERSION;
	area->slot_count = STREAM_SLOT_COUNT;
	area->slot_bytes = bytes;
	area->large = large;
	area->tools = tools;
}

/* RLIMIT_FSIZE also limits files in memory, so it is lifted while the file grows. */
int inject_memory_resize(int memory, uint64_t size)
{
	struct rlimit old, lifted;
	int err;

	if (getrlimit(RLIMIT_FSIZE, &old))
		return -errno;
	lifted = (struct rlimit){ size, old.rlim_max < size ? size : old.rlim_max };
	if (old.rlim_cur < size && setrlimit(RLIMIT_FSIZE, &lifted))
		return -EFBIG;
	err = ftruncate(memory, (off_t)size) ? -errno : 0;
	setrlimit(RLIMIT_FSIZE, &old);
	return err;
}

static int memory_fail(int err)
{
	if (err == -EFBIG)
		return err_set(
			err,
			"cannot create shared memory: the limit of file sizes holds for it, too; "
			"lift it with 'ulimit -f unlimited'");
	return err_set(err, "cannot create shared memory: %s", strerror(-err));
}

static int memory_map_here(int file, uint64_t size, void **ret)
{
	void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);

	if (bytes == MAP_FAILED)
		return err_set(-errno,
			       "cannot map %lu MB of shared memory: %s; if the address space is "
			       "limited (ulimit -v), raise the limit, or use --tool none",
			       (unsigned long)(size >> 20), strerror(errno));
	*ret = bytes;
	return 0;
}

/* Large rings for a few threads; where there are many processes, there are few for each. */
static uint32_t large_share(const struct inject *inject)
{
	return STREAM_LARGE_MAX / (uint32_t)(memories_count(inject->memories) + 1);
}

static void memory_retire(struct inject *inject, pid_t pid)
{
	struct memory *memory = memories_after(inject->memories, 0);

	for (; memory; memory = memories_after(inject->memories, memory->number))
		if (pid && memory->pid == pid)
			__atomic_store_n(&memory->ended, true, __ATOMIC_RELEASE);
}

/*
 * A command that reports a tree while it grows opens the file through our descriptor
 * (recorder/live_calls.h). There is one for each process, so they are kept only up to half of
 * RLIMIT_NOFILE.
 */
static int file_keep(const struct inject *inject, int file)
{
	struct rlimit limit;
	AUTO(close_fd) int kept = -1;

	if (!(inject->tools & ENGINE_TOOL_BIT(ENGINE_TOOL_CALLTREE)) ||
	    getrlimit(RLIMIT_NOFILE, &limit))
		return -1;
	kept = fcntl(file, F_DUPFD_CLOEXEC, 0);
	return kept >= 0 && (rlim_t)kept < limit.rlim_cur / 2 ? take_fd(kept) : -1;
}

/* The file's size is sealed: no process that has it can truncate it while we have it mapped. */
int inject_memory_make(struct inject *inject, pid_t pid, struct memory **ret)
{
	uint64_t bytes = slot_bytes(inject->tools);
	AUTO(close_fd) int file = memfd_create("assay-own", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = file < 0 ? -errno : inject_memory_resize(file, inject->shared_size);
	struct memory *memory;
	struct engine_shared *shared;
	struct stat status;
	void *mapped = NULL;

	if (!err && (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
		     fstat(file, &status)))
		err = -errno;
	if (err)
		return memory_fail(err);
	err = memory_map_here(file, inject->shared_size, &mapped);
	if (err)
		return err;
	shared = mapped;
	memory_retire(inject, pid);
	if (bytes)
		area_init(shared, inject->tools, bytes, large_share(inject));
	memory = memories_add(inject->memories, mapped, inject->shared_size, pid, status.st_ino);
	memory->file = file_keep(inject, file);
	__atomic_store_n(&shared->serial, memory->number, __ATOMIC_RELEASE);
	close_fd(&inject->memory);
	inject->memory = file;
	file = -1;
	*ret = memory;
	return 0;
}

pthread_mutex_t *inject_presence(const struct inject *inject)
{
	return (pthread_mutex_t *)((char *)inject->public_bytes + STREAM_HOST);
}

/* From here on the kernel tells all processes when this thread ends. */
static int presence_begin(struct inject *inject)
{
	pthread_mutexattr_t attributes;
	int err = pthread_mutexattr_init(&attributes);

	_Static_assert(sizeof(pthread_mutex_t) <= STREAM_HOST_BYTES, "it has this room");
	_Static_assert(sizeof(struct stream_gates) <= STREAM_HOST, "it lies in front of it");
	if (!err) {
		pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
		pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
		err = pthread_mutex_init(inject_presence(inject), &attributes);
		pthread_mutexattr_destroy(&attributes);
	}
	err = err ? err : pthread_mutex_lock(inject_presence(inject));
	inject->present = !err;
	return err ? err_set(-err, "cannot take a lock in shared memory: %s", strerror(err)) : 0;
}

/* Only pages that are written to take memory, whatever the size. */
int inject_public_create(struct inject *inject)
{
	uint64_t bytes = slot_bytes(inject->tools), size;
	void *trial = NULL;
	int err;

	inject->shared_size = bytes ? STREAM_SLOTS + STREAM_SLOT_COUNT * bytes : STREAM_ALONE_SIZE;
	size = stream_public_size(inject->shared_size);
	inject->public = memfd_create("assay", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	err = inject->public < 0 ? -errno
				 : inject_memory_resize(inject->public, inject->shared_size);
	if (err)
		return memory_fail(err);
	/* What does not fit into our own memory is refused before anything is started. */
	err = memory_map_here(inject->public, inject->shared_size, &trial);
	if (err)
		return err;
	munmap(trial, inject->shared_size);
	err = inject_memory_resize(inject->public, size);
	if (err)
		return memory_fail(err);
	err = memory_map_here(inject->public, size, &inject->public_bytes);
	if (err)
		return err;
	if (fcntl(inject->public, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		return memory_fail(-errno);
	return presence_begin(inject);
}

static int code_fill(const struct inject *inject, int file)
{
	const struct image *image = inject->image;
	void *bytes = NULL;
	int err = memory_map_here(file, image->size, &bytes);

	if (err)
		return err;
	for (size_t i = 0; i < image->size / IMAGE_PAGE; i++)
		if (!(image->protection[i] & PROT_WRITE) && !image->empty[i])
			memcpy((char *)bytes + i * IMAGE_PAGE, image->bytes + i * IMAGE_PAGE,
			       IMAGE_PAGE);
	munmap(bytes, image->size);
	return 0;
}

/* After image_place(): the words in it are right for one address only. */
int inject_code_create(struct inject *inject)
{
	int err;

	inject->code = memfd_create("assay-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	err = inject->code < 0 ? -errno : inject_memory_resize(inject->code, inject->image->size);
	if (err)
		return memory_fail(err);
	err = code_fill(inject, inject->code);
	if (err)
		return err;
	if (fcntl(inject->code, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
		return memory_fail(-errno);
	return 0;
}
