// SPDX-License-Identifier: BSD-2-Clause
/*
 * Limits in which the engine's memory counts as well, with tools that record gigabytes: of the
 * address space (RLIMIT_AS), and of private memory that can be written (RLIMIT_DATA). Once the
 * program has set one, or the engine has met it, the kernel has a higher one, by what the engine
 * has mapped; the program sees its own.
 *
 * A process that lowers its hard limit may not be able to raise it again. So the kernel's hard
 * limit stays higher from the beginning, by as much as the engine may ever need (RESERVE).
 */
#include <asm/errno.h>
#include <asm/resource.h>

#include "engine/engine.h"
#include "engine/sys.h"

#define RESERVE (64ull << 30)
#define NONE (~0ull)

struct limit {
	uint64_t now, most;
};

static struct bound {
	unsigned resource;
	bool known; /* the program's limit is not the kernel's */
	struct limit program;
} bounds[] = { { .resource = RLIMIT_AS }, { .resource = RLIMIT_DATA } };

enum { BOUNDS = sizeof(bounds) / sizeof(bounds[0]) };

static uint64_t add(uint64_t limit, uint64_t bytes)
{
	return limit > NONE - bytes ? NONE : limit + bytes;
}

/*
 * What the engine has of it, or a little more. Memory that is shared with the host does not count
 * as data; the size of the threads' own mappings of it is not kept.
 */
static uint64_t used(const struct bound *bound)
{
	return memory_total() - (bound->resource == RLIMIT_DATA ? engine_boot.shared_size : 0);
}

static long kernel_get(const struct bound *bound, struct limit *ret)
{
	return sys_4(prlimit64, 0, bound->resource, 0, ret);
}

static long kernel_set(const struct bound *bound, struct limit limit)
{
	return sys_4(prlimit64, 0, bound->resource, &limit, 0);
}

/* The soft limit, for that many more bytes than there are now. */
static bool kernel_follow(const struct bound *bound, uint64_t more)
{
	struct limit kernel;

	if (kernel_get(bound, &kernel))
		return false;
	kernel.now = add(bound->program.now, used(bound) + more);
	if (kernel.now > kernel.most)
		kernel.most = kernel.now;
	return !kernel_set(bound, kernel);
}

static bool bound_raise(struct bound *bound, uint64_t size)
{
	if (!bound->known) {
		if (kernel_get(bound, &bound->program) || bound->program.now == NONE)
			return false;
		bound->known = true;
	}
	return kernel_follow(bound, size);
}

bool limits_raise(uint64_t size)
{
	bool any = false;

	for (size_t i = 0; i < BOUNDS; i++)
		any |= bound_raise(&bounds[i], size);
	return any;
}

void limits_follow(void)
{
	for (size_t i = 0; i < BOUNDS; i++)
		if (bounds[i].known)
			kernel_follow(&bounds[i], 0);
}

void limits_exec(bool failed)
{
	struct limit kernel;

	for (size_t i = 0; i < BOUNDS; i++) {
		struct bound *bound = &bounds[i];

		if (!bound->known || kernel_get(bound, &kernel))
			continue;
		kernel.now = failed ? add(bound->program.now, used(bound)) : bound->program.now;
		kernel_set(bound, kernel);
	}
}

/* The kernel decides whether the hard limit may be raised. */
static long limit_change(struct bound *bound, struct limit wanted, const struct limit *before)
{
	struct limit kernel,
		next = { add(wanted.now, used(bound)), add(wanted.most, used(bound) + RESERVE) };
	long result = kernel_get(bound, &kernel);

	if (wanted.now > wanted.most)
		return -EINVAL;
	if (wanted.most > before->most && kernel.most != NONE && next.most <= kernel.most)
		next.most = kernel.most + 1;
	else if (wanted.most <= before->most && next.most > kernel.most)
		next.most = kernel.most;
	if (next.now > next.most)
		next.now = next.most;
	result = result ? result : kernel_set(bound, next);
	if (!result) {
		bound->program = wanted;
		bound->known = true;
	}
	return result;
}

/* getrlimit, setrlimit and prlimit as one. */
static long limit_run(struct bound *bound, uint64_t new_at, uint64_t old_at)
{
	struct limit before, wanted;
	long result = 0;

	if (new_at && !user_read(&wanted, new_at, sizeof(wanted)))
		return -EFAULT;
	engine_lock();
	if (bound->known)
		before = bound->program;
	else
		result = kernel_get(bound, &before);
	if (!result && new_at)
		result = limit_change(bound, wanted, &before);
	engine_unlock();
	if (!result && old_at && !user_write(old_at, &before, sizeof(before)))
		return -EFAULT;
	return result;
}

static struct bound *bound_find(uint32_t resource)
{
	for (size_t i = 0; i < BOUNDS; i++)
		if (bounds[i].resource == resource)
			return &bounds[i];
	return NULL;
}

bool limits_run(struct thread *thread, long *ret)
{
	const uint64_t *regs = thread->regs;
	bool of_any = regs[RAX] == __NR_prlimit64;
	struct bound *bound = bound_find((uint32_t)(of_any ? regs[RSI] : regs[RDI]));

	if (!bound)
		return false;
	if (of_any && (uint32_t)regs[RDI] && (long)(uint32_t)regs[RDI] != sys_0(getpid))
		return false;
	if (of_any)
		*ret = limit_run(bound, regs[RDX], regs[R10]);
	else if (regs[RAX] == __NR_setrlimit)
		*ret = limit_run(bound, regs[RSI], 0);
	else
		*ret = limit_run(bound, 0, regs[RSI]);
	return true;
}
