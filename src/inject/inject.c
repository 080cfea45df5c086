// SPDX-License-Identifier: BSD-2-Clause
/*
 * The state of the engine's host for one command (struct inject), and the start of that command:
 * it is forked, and stopped at PTRACE_EVENT_EXEC, when the kernel has mapped the program and its
 * interpreter and has not run an instruction of them. install.c puts the engine into it then.
 *
 * The engine's address is chosen at random once for all processes, so that all of it lies between
 * 0x7e80'0000'0000 and 0x7eff'0000'0000: below where the kernel puts libraries and stacks, so that
 * the addresses that a program sees are its usual ones; and in the part of the address space that
 * the sanitizers (address, memory, thread) leave to programs. If it is taken in a process, the
 * kernel chooses another one there. Where the user has turned randomisation off, the address is
 * always the same.
 *
 *	in	the command and its arguments, the tools that are to be in the engine
 *	out	the command's process, running in the engine
 *	owner	the command of Assay that follows processes (src/inject/follow.c)
 */
#include "inject/inject_private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/mem.h"

static const uint64_t address_low = 0x7e8000000000;
static const uint64_t address_range = 0x007f00000000;

static struct layout layout_make(const struct image *image, uint64_t shared_size)
{
	struct layout layout = { .boot = image->size };

	layout.shared = round_up(layout.boot + 2 * IMAGE_PAGE + ENGINE_STACK_SIZE);
	layout.stack = layout.shared - ENGINE_STACK_SIZE;
	layout.guard = layout.stack - IMAGE_PAGE;
	layout.size = layout.shared + shared_size;
	return layout;
}

/*
 * With the privileges of this binary (file capabilities, setuid) we could trace processes that our
 * user may not trace.
 */
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
	err = err ? err : inject_public_create(inject);
	err = err ? err : image_create_own(&inject->image);
	if (err)
		return err;
	inject->filters = user.filters;
	inject->layout = layout_make(inject->image, inject->shared_size);
	err = numbers_choose(inject);
	if (err)
		return err;
	image_place(inject->image, inject->address);
	err = inject_code_create(inject);
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
		pthread_mutex_unlock(inject_presence(inject));
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

/* The program can write anything there: a number that is too large counts as 0. */
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

bool inject_shares(const struct inject *inject)
{
	return inject->flags & ENGINE_SHARES;
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

/* Runs in the child, where nothing was changed since the fork that would have to be restored. */
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
 * Whether the child has reached its exec; otherwise it has ended, and its status is left to be
 * waited for.
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

	if (ptrace(PTRACE_SEIZE, pid, NULL, inject_held_options | PTRACE_O_EXITKILL))
		return err_set(-errno, "cannot attach to '%s': %s", name, strerror(errno));
	if (write(go, "", 1) != 1)
		return err_set(-EPIPE, "'%s' ended before it was started", name);
	if (child_await_exec(pid))
		return inject_take_stopped(inject, &remote);
	if (read(failure, &reason, sizeof(reason)) != sizeof(reason))
		return 0; /* a signal was faster */
	return err_set(-reason, "cannot run '%s': %s", name, strerror(reason));
}

/* A command that the engine cannot be put into is not started. */
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
 * Called after the fork, so that the child does not inherit the mask, and before the child can do
 * anything that shows that it runs.
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

/* What other tools insert depends on more than the code. */
static bool may_share(uint64_t tools)
{
	const uint64_t simple =
		ENGINE_TOOL_BIT(ENGINE_TOOL_NONE) | ENGINE_TOOL_BIT(ENGINE_TOOL_COUNT) |
		ENGINE_TOOL_BIT(ENGINE_TOOL_BLOCKS) | ENGINE_TOOL_BIT(ENGINE_TOOL_PATHS) |
		ENGINE_TOOL_BIT(ENGINE_TOOL_COVERAGE);

	const char *tests = getenv("ASSAY_ENGINE_SHARES"); /* sharing.c has its other values */

	return !(tools & ~simple) && (!tests || strcmp(tests, "0") != 0);
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
	if (may_share(inject->tools) && !(inject->flags & ENGINE_NO_CHILDREN))
		inject->flags |= ENGINE_SHARES;
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
