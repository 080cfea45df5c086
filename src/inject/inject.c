// SPDX-License-Identifier: BSD-2-Clause
/*
 * The way in. The process is stopped at PTRACE_EVENT_EXEC, when the kernel has mapped the program
 * and its interpreter and has not run an instruction of them. In its name memory is mapped:
 *
 *	address		the image: engine and decoder, pages protected as their segments say
 *	boot		struct engine_boot, a page
 *	(a page)	not accessible: below it a stack that grows too far ends
 *	stack		of the first thread
 *	shared		aligned to STREAM_CHUNK, as is the whole: the mailbox and, if a tool
 *			records, its slots. The host has made it for this process alone; in its
 *			midst lies a part that is the same for all, and that they cannot write
 *
 * What of the image is never written comes from a file in memory that all processes share and
 * nobody can write; the rest is written from outside. Then the thread goes on at engine_entry and
 * the tracer lets go.
 *
 * The address is chosen at random once for all processes, so that all of it lies between
 * 0x7e80'0000'0000 and 0x7eff'0000'0000: below where the kernel puts libraries and stacks, so that
 * the addresses that a program sees are its usual ones; and in the part of the address space that
 * the sanitizers (address, memory, thread) leave to programs. If it is taken, the kernel chooses.
 * Where the user has turned randomisation off, the address is always the same.
 *
 * 1. No memory of the program is written.
 * 2. Either everything is in place, or the program goes on as if nothing had been tried.
 * 3. While the registers are not the program's, the death of the host kills the process (EXITKILL):
 *    the alternative would be a program that goes on with somebody else's registers. At all other
 *    times it survives.
 *
 *	in	a process that has just executed a program, stopped
 *	out	the same process, about to run in the engine, and its shared memory
 *	owner	the command that follows processes (src/inject/follow.c); the memory is freed at its
 *		end
 */
#include "inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/array.h"
#include "base/err.h"
#include "base/mem.h"
#include "inject/image.h"
#include "inject/inject_parts.h"
#include "inject/remote.h"
#include "inject/threads.h"
#include "wire/stream.h"

enum { FLAGS_INITIAL = 0x202 };

static const uint64_t room_at_first = 160 << 20; /* arenas of the program and its libraries */
static const uint64_t address_low = 0x7e8000000000;
static const uint64_t address_range = 0x007f00000000;
static const long held_options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

/* Offsets from the start of what is mapped. */
struct layout {
	uint64_t boot;
	uint64_t guard;
	uint64_t stack;
	uint64_t shared;
	uint64_t size;
};

struct inject {
	struct image *image;
	struct layout layout;
	uint64_t address;
	uint64_t tools; /* a set: ENGINE_TOOL_BIT */
	unsigned flags;
	uint64_t cache_bytes;
	uint64_t fails; /* for tests, as in struct engine_boot */
	uint64_t session;
	pid_t host; /* who serves the engines; the tracer may be another process (apart.h) */
	unsigned filters; /* seccomp filters that we have ourselves */
	int memory; /* file of the memory that the next process is to share with us */
	int public; /* file of what all processes can read, and only we can write */
	int code; /* file of the image as it is at our address, which nobody can write */
	bool present; /* we hold the lock there that says so */
	void *public_bytes;
	sigset_t mask;
	struct memories *memories; /* a piece for each process */
	uint64_t shared_size;
	struct inject_counts dropped; /* of pieces that are gone */
	inject_module *module_serve; /* NULL: nobody answers */
	void *module_ctx;
	inject_tick *tick; /* NULL: nobody */
	void *tick_ctx;
};

/* What a process gets descriptors of while the engine is put into it. */
enum passed { PASSED_OWN, PASSED_PUBLIC, PASSED_CODE, PASSED_END };
enum { SOCKETS = 2 };

/* Rings end where the low bits of an address are 0: inline code looks at nothing else. */
static uint64_t round_up(uint64_t value)
{
	return (value + STREAM_CHUNK - 1) & ~(uint64_t)(STREAM_CHUNK - 1);
}

/* 0: the tools record nothing. */
static uint64_t slot_bytes(uint64_t tools)
{
	uint64_t kept = engine_tools_counters_at(tools, ENGINE_TOOLS_END, STREAM_SEGMENTS_MAX);

	if (engine_tools_flags(tools) & ENGINE_TOOL_ALONE)
		return 0;
	return round_up(STREAM_COUNTS_OFFSET + kept);
}

static struct layout layout_make(const struct image *image, uint64_t shared_size)
{
	struct layout layout = { .boot = image->size };

	layout.shared = round_up(layout.boot + 2 * IMAGE_PAGE + ENGINE_STACK_SIZE);
	layout.stack = layout.shared - ENGINE_STACK_SIZE;
	layout.guard = layout.stack - IMAGE_PAGE;
	layout.size = layout.shared + shared_size;
	return layout;
}

/* With privileges of its own a tracer would be obeyed where its user would not. */
static int privileges_drop(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};

	if (!getauxval(AT_SECURE))
		return 0;
	if (setresgid(getgid(), getgid(), getgid()) || setresuid(getuid(), getuid(), getuid()) ||
	    syscall(SYS_capset, &header, none) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
		return err_set(-errno, "cannot give up the privileges of this binary: %s",
			       strerror(errno));
	return 0;
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

/* A limit of the size of files (RLIMIT_FSIZE) holds for memory, too: it is lifted meanwhile. */
static int memory_resize(int memory, uint64_t size)
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

static int memory_map_here(const struct inject *inject, int file, uint64_t size, void **ret)
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
 * Whoever reports a tree while it grows opens the file by our descriptor (recorder/live_calls.h).
 * There are as many as processes: no more are kept than leave half of what we may have open.
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

/* Its size cannot change: nobody who has it can take a page away from under us. */
int inject_memory_make(struct inject *inject, pid_t pid, struct memory **ret)
{
	uint64_t bytes = slot_bytes(inject->tools);
	AUTO(close_fd) int file = memfd_create("assay-own", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = file < 0 ? -errno : memory_resize(file, inject->shared_size);
	struct memory *memory;
	struct engine_shared *shared;
	struct stat status;
	void *mapped = NULL;

	if (!err && (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
		     fstat(file, &status)))
		err = -errno;
	if (err)
		return memory_fail(err);
	err = memory_map_here(inject, file, inject->shared_size, &mapped);
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

static pthread_mutex_t *presence(const struct inject *inject)
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
		err = pthread_mutex_init(presence(inject), &attributes);
		pthread_mutexattr_destroy(&attributes);
	}
	err = err ? err : pthread_mutex_lock(presence(inject));
	inject->present = !err;
	return err ? err_set(-err, "cannot take a lock in shared memory: %s", strerror(err)) : 0;
}

/* However large, it costs what is written to. */
static int public_create(struct inject *inject)
{
	uint64_t bytes = slot_bytes(inject->tools), size;
	void *trial = NULL;
	int err;

	inject->shared_size = bytes ? STREAM_SLOTS + STREAM_SLOT_COUNT * bytes : ENGINE_SHARED_SIZE;
	size = stream_public_size(inject->shared_size);
	inject->public = memfd_create("assay", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	err = inject->public < 0 ? -errno : memory_resize(inject->public, inject->shared_size);
	if (err)
		return memory_fail(err);
	/* What does not fit into our own memory is refused before anything is started. */
	err = memory_map_here(inject, inject->public, inject->shared_size, &trial);
	if (err)
		return err;
	munmap(trial, inject->shared_size);
	err = memory_resize(inject->public, size);
	if (err)
		return memory_fail(err);
	err = memory_map_here(inject, inject->public, size, &inject->public_bytes);
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
	int err = memory_map_here(inject, file, image->size, &bytes);

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
static int code_create(struct inject *inject)
{
	int err;

	inject->code = memfd_create("assay-code", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	err = inject->code < 0 ? -errno : memory_resize(inject->code, inject->image->size);
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

static int numbers_choose(struct inject *inject)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_set(-errno, "no random numbers: %s", strerror(errno));
	inject->session = random[0];
	inject->address = address_low;
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE))
		inject->address += random[1] %
				   ((address_range - inject->layout.size) / STREAM_CHUNK) *
				   STREAM_CHUNK;
	return 0;
}

/* For tests: "store:1000" makes the thousandth store of the translator fault. */
static uint64_t fails_read(const char *text)
{
	static const char *const words[] = {
#define X(name, word, text) word,
		ENGINE_FAILURES(X)
#undef X
	};

	for (uint64_t i = 0; text && i < sizeof(words) / sizeof(words[0]); i++) {
		size_t length = strlen(words[i]);

		if (!strncmp(text, words[i], length) && text[length] == ':')
			return (i + 1) << 32 | (uint32_t)strtoul(text + length + 1, NULL, 10);
	}
	return 0;
}

int inject_create(uint64_t tools, unsigned flags, struct inject **ret)
{
	AUTO(inject_destroy_auto) struct inject *inject = mem_zalloc(sizeof(*inject));
	struct program_user user = {};
	int err = privileges_drop();

	if (getenv("ASSAY_ENGINE_CHECKS"))
		flags |= ENGINE_CHECKS;
	*inject = (struct inject){ .tools = tools,
				   .flags = flags,
				   .fails = fails_read(getenv("ASSAY_ENGINE_FAILS")),
				   .host = getpid(),
				   .memory = -1,
				   .public = -1,
				   .code = -1,
				   .memories = memories_create() };
	sigprocmask(SIG_SETMASK, NULL, &inject->mask);
	err = err ? err : program_user_get(getpid(), &user);
	err = err ? err : public_create(inject);
	err = err ? err : image_create_own(&inject->image);
	if (err)
		return err;
	inject->filters = user.filters;
	inject->layout = layout_make(inject->image, inject->shared_size);
	err = numbers_choose(inject);
	if (err)
		return err;
	image_place(inject->image, inject->address);
	err = code_create(inject);
	if (err)
		return err;
	*ret = take_ptr(inject);
	return 0;
}

void inject_destroy(struct inject *inject)
{
	if (!inject)
		return;
	if (inject->present)
		pthread_mutex_unlock(presence(inject));
	if (inject->public_bytes)
		munmap(inject->public_bytes, stream_public_size(inject->shared_size));
	memories_destroy(inject->memories);
	close_fd(&inject->public);
	close_fd(&inject->code);
	close_fd(&inject->memory);
	image_destroy(inject->image);
	free(inject);
}

void inject_cache_limit(struct inject *inject, uint64_t bytes)
{
	inject->cache_bytes = bytes;
}

void inject_modules_serve(struct inject *inject, inject_module *serve, void *ctx)
{
	inject->module_serve = serve;
	inject->module_ctx = ctx;
}

void inject_tick_serve(struct inject *inject, inject_tick *tick, void *ctx)
{
	inject->tick = tick;
	inject->tick_ctx = ctx;
}

void inject_tick_call(const struct inject *inject)
{
	if (inject->tick)
		inject->tick(inject->tick_ctx);
}

int inject_module_ask(const struct inject *inject, pid_t pid, const struct stream_module *module)
{
	if (!inject->module_serve)
		return err_set(-ENOTSUP,
			       "process %d asks about its code, which nobody wants to know",
			       (int)pid);
	return inject->module_serve(inject->module_ctx, pid, module);
}

struct memories *inject_memories(const struct inject *inject)
{
	return inject->memories;
}

void *inject_public(const struct inject *inject)
{
	return (char *)inject->public_bytes - stream_public_at(inject->shared_size);
}

/* The program can write what it likes there. */
static uint64_t number_believe(uint32_t number)
{
	enum { MOST = 1 << 30 };

	return number < MOST ? number : 0;
}

static void counts_add(void *ctx, const struct memory *memory)
{
	struct inject_counts *sum = ctx;
	const struct engine_shared *shared = memory->bytes;
	struct engine_fault fault = shared->fault;

	for (size_t i = 0; i < ENGINE_LEAVES_END; i++)
		sum->left[i] += number_believe(shared->left[i]);
	for (size_t i = 0; i < ENGINE_COUNTS_END; i++)
		sum->counts[i] += number_believe(shared->counts[i]);
	if (!sum->fault.at)
		sum->fault = fault;
}

struct inject_counts inject_counts(const struct inject *inject)
{
	struct inject_counts sum = inject->dropped;
	const struct memory *memory = memories_after(inject->memories, 0);

	for (; memory; memory = memories_after(inject->memories, memory->number))
		counts_add(&sum, memory);
	return sum;
}

void inject_memories_collect(struct inject *inject)
{
	memories_collect(inject->memories, counts_add, &inject->dropped);
}

void inject_close(struct inject *inject)
{
	struct memory *memory = memories_after(inject->memories, 0);

	for (; memory; memory = memories_after(inject->memories, memory->number))
		__atomic_store_n(&((struct engine_shared *)memory->bytes)->closed, 1,
				 __ATOMIC_SEQ_CST);
}

uint64_t inject_shared_size(const struct inject *inject)
{
	return inject->shared_size;
}

uint64_t inject_session(const struct inject *inject)
{
	return inject->session;
}

uint64_t inject_address(const struct inject *inject)
{
	return inject->address;
}

struct inject_places inject_places(const struct inject *inject)
{
	return (struct inject_places){
		.attach = inject->image->attach,
		.code_size = inject->image->size,
		.boot = inject->layout.boot,
		.shared = inject->layout.shared,
		.size = inject->layout.size,
	};
}

pid_t inject_host(const struct inject *inject)
{
	return inject->host;
}

int inject_public_file(const struct inject *inject)
{
	return inject->public;
}

const sigset_t *inject_mask(const struct inject *inject)
{
	return &inject->mask;
}

/* A system call that must not fail, in a process; what: for the message. */
int inject_call(struct remote *remote, const char *what, long number, const uint64_t arguments[6],
		uint64_t *ret)
{
	int64_t result = 0;
	int err = remote_call(remote, number, arguments, &result);

	if (err)
		return err;
	if (result < 0 && result > -4096)
		return err_set((int)result, "process %d cannot %s: %s", (int)remote->tid, what,
			       strerror((int)-result));
	if (ret)
		*ret = (uint64_t)result;
	return 0;
}

static void memory_unmap(struct remote *remote, uint64_t size, uint64_t address)
{
	int64_t ignored;

	remote_call(remote, SYS_munmap, (uint64_t[6]){ address, size }, &ignored);
}

static int memory_map(struct remote *remote, uint64_t size, uint64_t wanted, uint64_t *ret)
{
	uint64_t flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	uint64_t protection = PROT_READ | PROT_WRITE;
	uint64_t place;
	uint64_t arguments[] = { wanted, size, protection, flags | MAP_FIXED_NOREPLACE, ~0ull, 0 };
	int err = inject_call(remote, "map memory", SYS_mmap, arguments, ret);

	if (err != -EEXIST)
		return err;
	arguments[0] = 0;
	arguments[1] = size + STREAM_CHUNK;
	arguments[3] = flags;
	err = inject_call(remote, "map memory", SYS_mmap, arguments, &place);
	if (err)
		return err;
	*ret = round_up(place);
	if (*ret > place)
		memory_unmap(remote, *ret - place, place);
	if (place + STREAM_CHUNK > *ret)
		memory_unmap(remote, place + STREAM_CHUNK - *ret, *ret + size);
	return 0;
}

/*
 * A message with files, as the kernel has to find it in the process; it is written to where the
 * stack will be. The host's copy is only there to be measured and filled in.
 */
struct parcel {
	int pair[SOCKETS];
	char byte;
	struct iovec area;
	struct msghdr message;
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(PASSED_END * sizeof(int))];
};

static struct msghdr parcel_message(struct parcel *parcel, uint64_t at, size_t files)
{
	uint64_t start = at ? at : (uint64_t)parcel;

	parcel->area = (struct iovec){ (void *)(start + offsetof(struct parcel, byte)), 1 };
	return (struct msghdr){
		.msg_iov = (void *)(start + offsetof(struct parcel, area)),
		.msg_iovlen = 1,
		.msg_control = (void *)(start + offsetof(struct parcel, control)),
		.msg_controllen = CMSG_SPACE(files * sizeof(int)),
	};
}

/*
 * Sends files of ours into a socket of the process's: we may take one out of it, as it may not one
 * of ours.
 */
static int parcel_send(pid_t pid, int socket, const int *files, size_t count)
{
	AUTO(close_fd) int process = (int)syscall(SYS_pidfd_open, pid, 0);
	AUTO(close_fd) int copy = (int)syscall(SYS_pidfd_getfd, process, socket, 0);
	struct parcel parcel = {};
	struct msghdr message = parcel_message(&parcel, 0, count);
	struct cmsghdr *control = CMSG_FIRSTHDR(&message);

	if (copy < 0)
		return err_set(-errno, "cannot reach into process %d: %s", (int)pid,
			       strerror(errno));
	control->cmsg_level = SOL_SOCKET;
	control->cmsg_type = SCM_RIGHTS;
	control->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(control), files, count * sizeof(int));
	if (sendmsg(copy, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		return err_set(-errno, "cannot send shared memory to process %d: %s", (int)pid,
			       strerror(errno));
	return 0;
}

static int parcel_receive(struct remote *remote, uint64_t at, int socket, int ret[PASSED_END],
			  size_t *ret_count)
{
	struct parcel parcel = {};
	struct msghdr message = parcel_message(&parcel, at, PASSED_END);
	const struct cmsghdr *control = (const struct cmsghdr *)parcel.control;
	int err;

	parcel.message = message;
	err = remote_write(remote->tid, at, &parcel, sizeof(parcel));
	if (!err)
		err = inject_call(remote, "receive shared memory", SYS_recvmsg,
				  (uint64_t[6]){ (uint64_t)socket,
						 at + offsetof(struct parcel, message),
						 MSG_CMSG_CLOEXEC | MSG_DONTWAIT },
				  NULL);
	err = err ? err : remote_read(remote->tid, at, &parcel, sizeof(parcel));
	if (err)
		return err;
	/* Fewer have arrived if the process may not have that many open. */
	*ret_count = 0;
	while (*ret_count < PASSED_END &&
	       control->cmsg_len >= CMSG_LEN((*ret_count + 1) * sizeof(int)))
		++*ret_count;
	memcpy(ret, parcel.control + CMSG_LEN(0), *ret_count * sizeof(int));
	return *ret_count == PASSED_END
		       ? 0
		       : err_set(-EMFILE, "process %d cannot receive shared memory: %s",
				 (int)remote->tid, strerror(EMFILE));
}

/* As a rule they follow each other, and one call does. */
static int files_close(struct remote *remote, const int *files, size_t count)
{
	bool row = count > 1;
	int64_t result;
	int err = 0;

	for (size_t i = 1; i < count; i++)
		row = row && files[i] == files[i - 1] + 1;
	if (row &&
	    !remote_call(remote, SYS_close_range,
			 (uint64_t[6]){ (uint64_t)files[0], (uint64_t)files[count - 1] },
			 &result) &&
	    !result)
		return 0;
	for (size_t i = 0; i < count; i++) {
		int failed = inject_call(remote, "close a file", SYS_close,
					 (uint64_t[6]){ (uint64_t)files[i] }, NULL);

		err = err ? err : failed;
	}
	return err;
}

/*
 * The process has descriptors of the files that we share with it, behind those of a pair of
 * sockets. It need not be allowed to open them by itself, nor see our pid.
 */
struct passage {
	int files[SOCKETS + PASSED_END];
	size_t count; /* that are open */
};

static int files_pass(struct remote *remote, const struct inject *inject, uint64_t at,
		      struct passage *passage)
{
	const int files[] = { [PASSED_OWN] = inject->memory,
			      [PASSED_PUBLIC] = inject->public,
			      [PASSED_CODE] = inject->code };
	size_t received = 0;
	int err = inject_call(remote, "open a pair of sockets", SYS_socketpair,
			      (uint64_t[6]){ AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, at }, NULL);

	err = err ? err
		  : remote_read(remote->tid, at, passage->files, SOCKETS * sizeof(*passage->files));
	if (err)
		return err;
	passage->count = SOCKETS;
	err = parcel_send(remote->tid, passage->files[1], files, PASSED_END);
	err = err ? err
		  : parcel_receive(remote, at, passage->files[0], passage->files + SOCKETS,
				   &received);
	passage->count += received;
	return err;
}

static int piece_map(struct remote *remote, int fd, uint64_t at, uint64_t size, uint64_t protection,
		     uint64_t offset)
{
	if (!size)
		return 0;
	return inject_call(remote, "map the memory it is to share with us", SYS_mmap,
			   (uint64_t[6]){ at, size, protection,
					  MAP_SHARED | MAP_FIXED | MAP_NORESERVE, (uint64_t)fd,
					  offset },
			   NULL);
}

static int shared_map(struct remote *remote, const struct inject *inject, const int *files,
		      uint64_t shared)
{
	uint64_t at = stream_public_at(inject->shared_size);
	uint64_t size = stream_public_size(inject->shared_size), behind = at + size;
	uint64_t protection = PROT_READ | PROT_WRITE;
	int err = piece_map(remote, files[PASSED_OWN], shared, at, protection, 0);

	err = err ? err
		  : piece_map(remote, files[PASSED_OWN], shared + behind,
			      inject->shared_size - behind, protection, behind);
	return err ? err : piece_map(remote, files[PASSED_PUBLIC], shared + at, size, PROT_READ, 0);
}

static int pages_protect(struct remote *remote, uint64_t address, uint64_t size,
			 uint64_t protection)
{
	if (protection == (PROT_READ | PROT_WRITE))
		return 0;
	return inject_call(remote, "protect memory", SYS_mprotect,
			   (uint64_t[6]){ address, size, protection }, NULL);
}

/* A stretch of pages with the same protection. */
static size_t stretch_end(const struct image *image, size_t first)
{
	size_t end = first + 1;

	while (end < image->size / IMAGE_PAGE && image->protection[end] == image->protection[first])
		end++;
	return end;
}

static int image_protect(struct remote *remote, const struct image *image, bool from_file)
{
	size_t end;
	int err = 0;

	for (size_t at = 0; at < image->size / IMAGE_PAGE && !err; at = end) {
		end = stretch_end(image, at);
		if (!from_file || image->protection[at] != PROT_READ)
			err = pages_protect(remote, image->address + at * IMAGE_PAGE,
					    (end - at) * IMAGE_PAGE, image->protection[at]);
	}
	return err;
}

/*
 * What nobody writes is mapped from the file, to be read; what is to be executed is protected
 * afterwards, as everywhere, so that a process which may not do that is found here.
 */
static int image_map(struct remote *remote, const struct image *image, int file)
{
	size_t pages = image->size / IMAGE_PAGE, end;
	int err = 0;

	for (size_t at = 0; at < pages && !err; at = end) {
		for (end = at; end < pages && !(image->protection[end] & PROT_WRITE); end++)
			;
		if (end > at)
			err = inject_call(remote, "map the engine", SYS_mmap,
					  (uint64_t[6]){ image->address + at * IMAGE_PAGE,
							 (end - at) * IMAGE_PAGE, PROT_READ,
							 MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
							 (uint64_t)file, at * IMAGE_PAGE },
					  NULL);
		else
			end++;
	}
	return err;
}

/* The memory is fresh: pages of zeros are there already, and most of what is written are. */
static int image_write(struct remote *remote, const struct image *image, bool from_file)
{
	size_t pages = image->size / IMAGE_PAGE, end;
	int err = 0;

	for (size_t at = 0; at < pages && !err; at = end) {
		for (end = at; end < pages && !image->empty[end] &&
			       (!from_file || image->protection[end] & PROT_WRITE);
		     end++)
			;
		if (end > at)
			err = remote_write(remote->tid, image->address + at * IMAGE_PAGE,
					   image->bytes + at * IMAGE_PAGE, (end - at) * IMAGE_PAGE);
		else
			end++;
	}
	return err;
}

struct engine_registers inject_registers(const struct user_regs_struct *from)
{
	return (struct engine_registers){
		.general = { from->rax, from->rcx, from->rdx, from->rbx, from->rsp, from->rbp,
			     from->rsi, from->rdi, from->r8, from->r9, from->r10, from->r11,
			     from->r12, from->r13, from->r14, from->r15 },
		.rip = from->rip,
		.rflags = from->eflags,
		.fs_base = from->fs_base,
		.gs_base = from->gs_base,
	};
}

static int boot_write(struct remote *remote, const struct inject *inject, uint64_t address)
{
	const struct engine_boot boot = {
		.version = ENGINE_BOOT_VERSION,
		.image_start = address,
		.image_size = inject->layout.size,
		.stack_start = address + inject->layout.stack,
		.shared = address + inject->layout.shared,
		.host_pid = (uint64_t)inject->host,
		.tools = inject->tools,
		.flags = inject->flags,
		.cache_bytes = inject->cache_bytes,
		.fails = inject->fails,
		.session = inject->session,
		.registers = inject_registers(&remote->registers),
		.shared_size = inject->shared_size,
	};

	return remote_write(remote->tid, address + inject->layout.boot, &boot, sizeof(boot));
}

static int pieces_map(struct remote *remote, const struct inject *inject, const int *files,
		      bool from_file)
{
	const struct image *image = inject->image;
	int err = shared_map(remote, inject, files, image->address + inject->layout.shared);

	return err || !from_file ? err : image_map(remote, image, files[PASSED_CODE]);
}

static int engine_install(struct remote *remote, struct inject *inject, uint64_t address)
{
	bool from_file = address == inject->address;
	struct passage passage = {};
	int closed, err;

	if (address != inject->image->address)
		image_place(inject->image, address);
	err = files_pass(remote, inject, address + inject->layout.stack, &passage);
	err = err ? err : pieces_map(remote, inject, passage.files + SOCKETS, from_file);
	closed = files_close(remote, passage.files, passage.count);
	err = err ? err : closed;
	err = err ? err : image_write(remote, inject->image, from_file);
	err = err ? err : boot_write(remote, inject, address);
	err = err ? err : image_protect(remote, inject->image, from_file);
	return err ? err
		   : pages_protect(remote, address + inject->layout.guard, IMAGE_PAGE, PROT_NONE);
}

static int engine_go(struct remote *remote, const struct inject *inject, uint64_t address)
{
	struct user_regs_struct registers = remote->registers;

	registers.rip = address + inject->image->entry;
	registers.rdi = address + inject->layout.boot;
	registers.rsp = address + inject->layout.shared; /* right above the stack */
	registers.eflags = FLAGS_INITIAL;
	registers.orig_rax = ~0ull;
	return remote_release(remote, &registers);
}

int inject_install(struct inject *inject, struct remote *remote, uint64_t *ret_address)
{
	uint64_t address = 0;
	int err = memory_map(remote, inject->layout.size, inject->address, &address);

	if (err)
		return err;
	err = engine_install(remote, inject, address);
	if (err)
		inject_remove(inject, remote, address);
	else
		*ret_address = address;
	return err;
}

void inject_remove(const struct inject *inject, struct remote *remote, uint64_t address)
{
	memory_unmap(remote, inject->layout.size, address);
}

static int process_take(struct remote *remote, struct inject *inject)
{
	uint64_t address = 0;
	int err = remote_init(remote);

	err = err ? err : inject_install(inject, remote, &address);
	if (err)
		return err;
	err = engine_go(remote, inject, address);
	if (err)
		inject_remove(inject, remote, address);
	return err;
}

int inject_filters_check(const struct inject *inject, struct remote *remote)
{
	struct program_user user;
	int err = program_user_get(remote->tid, &user);

	if (!err && user.filters > inject->filters) {
		remote->obstacle = PROGRAM_FILTERED;
		err = err_set(-EPERM, "process %d filters its system calls", (int)remote->tid);
	}
	return err;
}

static int limit_check(struct remote *remote, int resource, const char *count, const char *what,
		       uint64_t needed)
{
	struct rlimit limit;
	uint64_t used;

	if (prlimit(remote->tid, (enum __rlimit_resource)resource, NULL, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY)
		return 0;
	used = task_status(remote->tid, remote->tid, count, 10) << 10;
	if (limit.rlim_cur >= used + needed)
		return 0;
	remote->obstacle = PROGRAM_LIMITED;
	return err_set(-ENOMEM,
		       "process %d may have %lu MB of %s, and the engine with this tool needs %lu "
		       "MB besides the program's own; raise the limit, or use --tool none",
		       (int)remote->tid, (unsigned long)(limit.rlim_cur >> 20), what,
		       (unsigned long)(needed >> 20));
}

/* The limits in which the engine and what it needs at first have to fit, above what is there. */
int inject_room_check(const struct inject *inject, struct remote *remote)
{
	uint64_t needed = inject->layout.size + room_at_first;
	int err = limit_check(remote, RLIMIT_AS, "VmSize", "address space (ulimit -v)", needed);

	return err ? err : limit_check(remote, RLIMIT_DATA, "VmData", "data (ulimit -d)", needed);
}

/* On failure the thread is still stopped. */
static int take(struct inject *inject, struct remote *remote)
{
	struct memory *memory;
	int err = inject_memory_make(inject, remote->tid, &memory);

	if (err)
		return err;
	ptrace(PTRACE_SETOPTIONS, remote->tid, NULL, held_options | PTRACE_O_EXITKILL);
	err = inject_filters_check(inject, remote);
	err = err ? err : inject_room_check(inject, remote);
	err = err ? err : process_take(remote, inject);
	if (err)
		__atomic_store_n(&memory->ended, true, __ATOMIC_RELEASE);
	return err;
}

int inject_fork(struct inject *inject, pid_t pid, int socket)
{
	struct memory *memory;
	int err = inject_memory_make(inject, pid, &memory);

	if (err)
		return err;
	err = parcel_send(pid, socket, &inject->memory, 1);
	if (err)
		__atomic_store_n(&memory->ended, true, __ATOMIC_RELEASE);
	return err;
}

int inject_take(struct inject *inject, pid_t pid, enum program_obstacle *ret_obstacle)
{
	struct remote remote = { .tid = pid, .obstacle = PROGRAM_OTHER };
	sigset_t children, before;
	int err;

	/* Each stop on the way sends a signal: one at the end is enough for who waits for them. */
	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, &before);
	err = take(inject, &remote);
	if (err) {
		remote_abandon(&remote);
		*ret_obstacle = remote.obstacle;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err;
}

/* In the child. Nothing was changed since the fork that would have to be put back. */
static void child_run(char *const *argv, int go, int failure)
{
	char byte;
	int err;

	if (read(go, &byte, 1) != 1)
		_exit(127); /* the parent gave up */
	execvp(argv[0], argv);
	err = errno;
	if (write(failure, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

static int child_start(char *const *argv, pid_t *ret_pid, int *ret_go, int *ret_failure)
{
	int go[2], failure[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) || pipe2(failure, O_CLOEXEC))
		return err_set(-errno, "cannot start %s: %s", argv[0], strerror(errno));
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		child_run(argv, go[0], failure[1]);
	}
	close(go[0]);
	close(failure[1]);
	if (signal(SIGCHLD, SIG_DFL) ==
	    SIG_ERR) /* ignored, the child's end would be lost; the child itself keeps it */
		return err_set(-errno, "cannot watch %s: %s", argv[0], strerror(errno));
	*ret_go = go[1];
	*ret_failure = failure[0];
	if (pid < 0)
		return err_set(-errno, "cannot start %s: %s", argv[0], strerror(errno));
	*ret_pid = pid;
	return 0;
}

/*
 * Whether it has come to the exec; if not, it has ended, and that is left for whoever waits for it.
 */
static bool child_await_exec(pid_t pid)
{
	int status = 0;

	while (remote_look(pid, true, &status) == REMOTE_STOPPED) {
		remote_see(pid);
		if (status >> 16 == PTRACE_EVENT_EXEC)
			return true;
		remote_resume(pid, status);
	}
	return false;
}

static int child_release(struct inject *inject, pid_t pid, const char *name, int go, int failure)
{
	struct remote remote = { .tid = pid };
	int reason = 0;

	if (ptrace(PTRACE_SEIZE, pid, NULL, held_options | PTRACE_O_EXITKILL))
		return err_set(-errno, "cannot attach to '%s': %s", name, strerror(errno));
	if (write(go, "", 1) != 1)
		return err_set(-EPIPE, "'%s' ended before it was started", name);
	if (child_await_exec(pid))
		return take(inject, &remote);
	if (read(failure, &reason, sizeof(reason)) != sizeof(reason))
		return 0; /* a signal was faster */
	return err_set(-reason, "cannot run '%s': %s", name, strerror(reason));
}

/* What cannot be taken is not started either. */
static int command_check(const char *name)
{
	AUTO(free_ptr) char *path = NULL;
	struct program_user user;
	enum program_obstacle obstacle;
	int err = program_find(name, &path);

	err = err ? err : program_user_get(getpid(), &user);
	if (err)
		return err;
	obstacle = program_check(path, "", &user);
	if (obstacle)
		return err_set(-EPERM, "cannot run '%s' in the engine, which leaves alone %s", name,
			       program_obstacle_text(obstacle));
	return 0;
}

/*
 * After the fork, so that the child is not concerned, and before it can do anything by which
 * somebody sees that it runs.
 */
void inject_signals_block(void)
{
	sigset_t set;

	sigemptyset(&set);
#define X(number) sigaddset(&set, number);
	INJECT_SIGNALS(X)
#undef X
	sigprocmask(SIG_BLOCK, &set, NULL);
}

int inject_start(struct inject *inject, char *const *argv, pid_t *ret)
{
	AUTO(close_fd) int go = -1, failure = -1;
	pid_t pid = -1;
	int status, err = command_check(argv[0]);

	err = err ? err : child_start(argv, &pid, &go, &failure);
	if (err)
		return err;
	inject_signals_block();
	err = child_release(inject, pid, argv[0], go, failure);
	if (err) {
		sigprocmask(SIG_SETMASK, &inject->mask, NULL);
		kill(pid, SIGKILL);
		remote_look(pid, true, &status);
		remote_see(pid);
		return err;
	}
	*ret = pid;
	return 0;
}
