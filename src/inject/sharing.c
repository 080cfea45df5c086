// SPDX-License-Identifier: BSD-2-Clause
#include "inject/sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "inject/inject_private.h"
#include "inject/remote.h"
#include "wire/translations.h"

enum {
	SEEN_FIRST = 1 << 12,
	SEEN_MAX = 1 << 20, /* what is new beyond is not shared */
	ENOUGH = 64, /* that is wanted: worth a translator at once */
	/*
	 * Processes that have made a translation, when it becomes worth sharing. To share it costs
	 * about as much as to make it, and saves a later process half of that.
	 */
	THRESHOLD = 3,
};

static const uint64_t patience = NS_PER_S / 2; /* for less than that */

struct sharing {
	struct inject *inject;
	struct translations *shared;
	uint64_t used; /* of shared, in bytes */
	struct translation_module modules[TRANSLATION_MODULES];
	size_t module_count, last_module;
	struct seen {
		uint64_t key; /* 0: none */
		uint32_t memory; /* of the last process that had it */
		uint32_t count; /* of processes */
	} * seen;
	size_t seen_count, seen_size;
	uint32_t threshold;
	ARRAY(uint64_t) wanted; /* like hints, with our numbers of modules */
	uint64_t waited; /* since when there is something wanted */
	struct translation_exchange *exchange;
	int file; /* of the exchange */
	int go; /* the translator waits for a byte in this pipe; -1: not any more */
	pid_t pid; /* of the translator; 0: none runs */
};

/* For tests. */
static uint32_t threshold_read(const char *text)
{
	uint32_t number = text ? (uint32_t)strtoul(text, NULL, 10) : 0;

	return number ? number : THRESHOLD;
}

struct sharing *sharing_create(struct inject *inject)
{
	struct sharing *sharing = mem_zalloc(sizeof(*sharing));

	sharing->inject = inject;
	sharing->threshold = threshold_read(getenv("ASSAY_ENGINE_SHARES"));
	sharing->file = sharing->go = -1;
	sharing->shared = (void *)((char *)inject_public(inject) +
				   stream_translations_at(inject_shared_size(inject)));
	sharing->used = (sizeof(struct translations) + TRANSLATION_ALIGNMENT - 1) &
			~(uint64_t)(TRANSLATION_ALIGNMENT - 1);
	return sharing;
}

static void exchange_end(struct sharing *sharing)
{
	if (sharing->exchange)
		munmap(sharing->exchange, sizeof(*sharing->exchange));
	sharing->exchange = NULL;
	close_fd(&sharing->file);
	close_fd(&sharing->go);
	sharing->pid = 0;
}

/* Its stops come first, if it is held. */
static void translator_kill(pid_t pid)
{
	int status = 0;

	kill(pid, SIGKILL);
	while (remote_look(pid, true, &status) == REMOTE_STOPPED)
		remote_see(pid);
	remote_see(pid);
}

void sharing_destroy(struct sharing *sharing)
{
	if (!sharing)
		return;
	if (sharing->pid)
		translator_kill(sharing->pid);
	exchange_end(sharing);
	array_deinit(&sharing->wanted);
	free(sharing->seen);
	free(sharing);
}

/* --- Hints -------------------------------------------------------------------------------- */

static struct seen *seen_place(struct seen *seen, size_t size, uint64_t key)
{
	size_t at = key & (size - 1);

	while (seen[at].key && seen[at].key != key)
		at = (at + 1) & (size - 1);
	return &seen[at];
}

static void seen_grow(struct sharing *sharing)
{
	size_t size = sharing->seen_size ? sharing->seen_size * 2 : SEEN_FIRST;
	struct seen *more = mem_zalloc(size * sizeof(*more));

	for (size_t i = 0; i < sharing->seen_size; i++)
		if (sharing->seen[i].key)
			*seen_place(more, size, sharing->seen[i].key) = sharing->seen[i];
	free(sharing->seen);
	sharing->seen = more;
	sharing->seen_size = size;
}

/* NULL: there are too many. */
static struct seen *seen_get(struct sharing *sharing, uint64_t key)
{
	struct seen *seen;

	if (sharing->seen_count * 2 >= sharing->seen_size)
		seen_grow(sharing);
	seen = seen_place(sharing->seen, sharing->seen_size, key);
	if (seen->key)
		return seen;
	if (sharing->seen_count >= SEEN_MAX)
		return NULL;
	sharing->seen_count++;
	seen->key = key;
	return seen;
}

static bool file_same(const struct translation_file *a, const struct translation_file *b)
{
	return a->inode == b->inode && a->device_major == b->device_major &&
	       a->device_minor == b->device_minor;
}

/* TRANSLATION_MODULES: there are too many. */
static size_t module_get(struct sharing *sharing, const struct translation_module *module)
{
	size_t last = sharing->last_module;

	if (last < sharing->module_count && file_same(&sharing->modules[last].file, &module->file))
		return last;
	for (size_t i = 0; i < sharing->module_count; i++)
		if (file_same(&sharing->modules[i].file, &module->file))
			return sharing->last_module = i;
	if (sharing->module_count == TRANSLATION_MODULES)
		return TRANSLATION_MODULES;
	sharing->modules[sharing->module_count] = *module;
	sharing->modules[sharing->module_count].path[TRANSLATION_PATH - 1] = '\0';
	return sharing->module_count++;
}

static void hint_take(struct sharing *sharing, const struct memory *memory,
		      const struct translation_module *module, uint64_t offset)
{
	size_t number = module_get(sharing, module);
	struct seen *seen;

	if (number == TRANSLATION_MODULES)
		return;
	seen = seen_get(sharing, translation_key(&module->file, offset));
	if (!seen || (seen->count && seen->memory == memory->number))
		return;
	seen->memory = memory->number;
	if (++seen->count != sharing->threshold)
		return;
	if (!sharing->wanted.count)
		sharing->waited = clock_monotonic();
	*array_push(&sharing->wanted) = (uint64_t)number << TRANSLATION_HINT_SHIFT | offset;
}

/* The process can write anything there, at any time. */
static void hints_take(struct sharing *sharing, struct memory *memory)
{
	const struct translation_hints *hints =
		(const void *)((const char *)memory->bytes + TRANSLATION_HINTS);
	uint32_t count = __atomic_load_n(&hints->count, __ATOMIC_ACQUIRE);
	struct translation_module module;

	if (count > TRANSLATION_HINTS_MAX)
		return;
	for (; memory->hints < count; memory->hints++) {
		uint64_t hint = hints->hints[memory->hints];
		uint64_t number = hint >> TRANSLATION_HINT_SHIFT;

		if (number >= TRANSLATION_MODULES)
			continue;
		memcpy(&module, &hints->modules[number], sizeof(module));
		hint_take(sharing, memory, &module, hint & ((1ull << TRANSLATION_HINT_SHIFT) - 1));
	}
}

/* --- The translator ----------------------------------------------------------------------- */

/* Whether everybody can come to the file, by the folders that its path names. */
static bool path_is_public(const char *path)
{
	char folder[TRANSLATION_PATH];
	struct stat status;

	for (const char *end = strchr(path, '/'); end; end = strchr(end + 1, '/')) {
		memcpy(folder, path, (size_t)(end + 1 - path));
		folder[end + 1 - path] = '\0';
		if (stat(folder, &status) || !(status.st_mode & S_IXOTH))
			return false;
	}
	return *path == '/';
}

/*
 * Opens a file that processes execute. It must be the one that they mean, and one that everybody
 * may read, since all processes can read its translation. Nothing is opened that would notice it.
 */
static int file_open(const struct translation_module *module, uint64_t *ret_size)
{
	char name[64];
	struct stat status;
	int place = open(module->path, O_PATH | O_CLOEXEC);

	if (place < 0 || fstat(place, &status) || !S_ISREG(status.st_mode) ||
	    !(status.st_mode & S_IROTH) || status.st_ino != module->file.inode ||
	    major(status.st_dev) != module->file.device_major ||
	    minor(status.st_dev) != module->file.device_minor || !path_is_public(module->path))
		return -1;
	*ret_size = (uint64_t)status.st_size;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
	return open(name, O_RDONLY);
}

/*
 * In the child. It opens the files, and not the host, because a path may lead to where opening
 * takes for ever. Then it executes what is least likely not to be there; not an instruction of that
 * runs.
 */
static _Noreturn void translator_begin(struct sharing *sharing, int go)
{
	static char name[] = "assay-translator";
	struct translation_exchange *exchange = sharing->exchange;
	char *arguments[] = { name, NULL }, *nothing[] = { NULL };
	int nowhere = open("/dev/null", O_RDWR);
	char byte;

	if (nowhere < 0 || read(go, &byte, 1) != 1)
		_exit(1);
	for (uint32_t i = 0; i < exchange->module_count; i++)
		exchange->modules[i].fd =
			file_open(&exchange->modules[i].module, &exchange->modules[i].size);
	for (int i = 0; i <= STDERR_FILENO; i++)
		dup2(nowhere, i);
	fcntl(sharing->file, F_SETFD, 0);
	execve("/proc/self/exe", arguments, nothing);
	_exit(1);
}

static int exchange_make(struct sharing *sharing)
{
	size_t count = sharing->wanted.count;
	struct translation_exchange *exchange;

	sharing->file = memfd_create("assay-exchange", MFD_CLOEXEC);
	if (sharing->file < 0 || inject_memory_resize(sharing->file, sizeof(*exchange)))
		return -EFBIG;
	exchange =
		mmap(NULL, sizeof(*exchange), PROT_READ | PROT_WRITE, MAP_SHARED, sharing->file, 0);
	if (exchange == MAP_FAILED)
		return -errno;
	if (count > TRANSLATION_OFFSETS)
		count = TRANSLATION_OFFSETS;
	memcpy(exchange->offsets, sharing->wanted.items, count * sizeof(uint64_t));
	exchange->offset_count = (uint32_t)count;
	exchange->module_count = (uint32_t)sharing->module_count;
	for (size_t i = 0; i < sharing->module_count; i++)
		exchange->modules[i].module = sharing->modules[i];
	sharing->wanted.count -= count;
	memmove(sharing->wanted.items, sharing->wanted.items + count,
		sharing->wanted.count * sizeof(uint64_t));
	sharing->waited = clock_monotonic();
	sharing->exchange = exchange;
	return 0;
}

static bool translator_start(struct sharing *sharing)
{
	int go[2];

	if (exchange_make(sharing) || pipe2(go, O_CLOEXEC)) {
		exchange_end(sharing);
		return false;
	}
	sharing->go = go[1];
	sharing->pid = fork();
	if (!sharing->pid) {
		close(go[1]);
		translator_begin(sharing, go[0]);
	}
	close(go[0]);
	if (sharing->pid > 0)
		return true;
	exchange_end(sharing);
	return false;
}

pid_t sharing_attach(struct sharing *sharing)
{
	pid_t pid = sharing->pid;
	int err = 0;

	if (ptrace(PTRACE_SEIZE, pid, NULL, inject_held_options | PTRACE_O_EXITKILL) ||
	    write(sharing->go, "", 1) != 1)
		err = -errno;
	close_fd(&sharing->go); /* without a byte in it, the child ends */
	return err ? err : pid;
}

void sharing_take(struct sharing *sharing, pid_t pid)
{
	struct inject *inject = sharing->inject;
	unsigned flags = inject->flags;
	uint64_t fails = inject->fails;
	enum program_obstacle obstacle;

	inject->flags = (flags & ~(unsigned)ENGINE_SHARES) | ENGINE_TRANSLATES;
	inject->fails = 0;
	inject->exchange = sharing->file;
	if (inject_take(inject, pid, &obstacle)) {
		log_debug("no translations are shared: %s", err_text());
		kill(pid, SIGKILL);
	}
	inject->flags = flags;
	inject->fails = fails;
}

/* --- What it has made --------------------------------------------------------------------- */

static bool bundle_is_sound(const struct translation_bundle *bundle, uint64_t left)
{
	return left >= sizeof(*bundle) && bundle->size <= left &&
	       bundle->size % TRANSLATION_ALIGNMENT == 0 && bundle->fragment_count &&
	       bundle->fragment_count <= TRANSLATION_FRAGMENTS &&
	       bundle->exit_count <= TRANSLATION_EXITS &&
	       bundle->block_count <= TRANSLATION_BLOCKS &&
	       bundle->range_count <= TRANSLATION_RANGES &&
	       bundle->word_count <= TRANSLATION_WORDS && bundle->code_size <= TRANSLATION_CODE &&
	       translation_parts(bundle) + bundle->code_size <= bundle->size;
}

/* Where several bundles begin with the same code, the first one is found. */
static void slot_fill(struct translations *shared, const struct translation_file *file,
		      uint64_t offset, uint64_t at)
{
	uint64_t key = translation_key(file, offset);

	for (unsigned probe = 0; probe < TRANSLATION_PROBES; probe++) {
		struct translation_slot *slot =
			&shared->slots[translation_slot_index(file, offset, probe)];

		if (slot->key == key)
			return;
		if (slot->key)
			continue;
		slot->at = at;
		__atomic_store_n(&slot->key, key, __ATOMIC_RELEASE);
		return;
	}
}

static void bundle_publish(struct sharing *sharing, const struct translation_bundle *from)
{
	const struct translation_bundle *bundle;
	const struct translation_fragment *fragments;

	if (sharing->used + from->size > STREAM_TRANSLATIONS_BYTES)
		return;
	bundle = memcpy((char *)sharing->shared + sharing->used, from, from->size);
	fragments = (const void *)(bundle + 1);
	for (uint32_t i = 0; i < bundle->fragment_count; i++)
		slot_fill(sharing->shared, &bundle->file, bundle->base + fragments[i].pc,
			  sharing->used);
	sharing->used += bundle->size;
	__atomic_store_n(&sharing->shared->count, sharing->shared->count + 1, __ATOMIC_RELEASE);
}

static void results_take(struct sharing *sharing)
{
	const struct translation_exchange *exchange = sharing->exchange;
	const struct translation_bundle *bundle;

	if (!__atomic_load_n(&exchange->done, __ATOMIC_ACQUIRE) ||
	    exchange->used > TRANSLATION_RESULTS) {
		log_debug("a translator has ended without results");
		return;
	}
	for (uint64_t at = 0; at < exchange->used; at += bundle->size) {
		bundle = (const void *)(exchange->results + at);
		if (!bundle_is_sound(bundle, exchange->used - at))
			break;
		bundle_publish(sharing, bundle);
	}
	log_debug("translations of %u places are shared: %llu KB", exchange->offset_count,
		  (unsigned long long)sharing->used >> 10);
}

static bool is_worth(const struct sharing *sharing)
{
	return !sharing->pid && sharing->used + (1 << 20) < STREAM_TRANSLATIONS_BYTES &&
	       (sharing->wanted.count >= ENOUGH ||
		(sharing->wanted.count && clock_monotonic() - sharing->waited > patience));
}

/* Who has held it may have waited for its end already. */
static bool translator_has_ended(const struct sharing *sharing)
{
	int status;

	if (remote_look(sharing->pid, false, &status) != REMOTE_ENDED)
		return kill(sharing->pid, 0) && errno == ESRCH;
	remote_see(sharing->pid);
	return true;
}

bool sharing_serve(struct sharing *sharing)
{
	struct memories *memories = inject_memories(sharing->inject);
	struct memory *memory = memories_after(memories, 0);

	for (; memory; memory = memories_after(memories, memory->number))
		hints_take(sharing, memory);
	if (sharing->pid && translator_has_ended(sharing)) {
		results_take(sharing);
		exchange_end(sharing);
	}
	return is_worth(sharing) && translator_start(sharing);
}
