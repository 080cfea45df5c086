// SPDX-License-Identifier: BSD-2-Clause
/* Requests to the host: wire/engine.h has the protocol. A host that is gone is noticed, and the program goes on alone. */
#include <asm/errno.h>
#include <asm/poll.h>
#include <linux/futex.h>
#include <linux/uio.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum { PATIENCE_MS = 50 };

static struct engine_shared *shared(void)
{
	return (struct engine_shared *)engine_boot.shared;
}

/* It has ended, and nobody has asked how. Where that cannot be told, it has not. */
static bool is_zombie(uint64_t pid)
{
	struct pollfd end = { .events = POLLIN };
	long fd = sys_2(pidfd_open, pid, 0), ended;

	if (sys_failed(fd))
		return false;
	end.fd = (int)fd;
	ended = sys_3(poll, &end, 1, 0);
	sys_1(close, fd);
	return ended == 1;
}

/*
 * Who has ended has no memory, whether or not somebody has waited for it. Others have, but not at 0. The answer may be that we must not
 * look (yama does not allow a child to).
 */
bool host_exists(void)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { NULL, 1 };
	long result = sys_6(process_vm_readv, engine_boot.host_pid, &here, 1, &there, 1, 0);

	if (result == -ESRCH || result == -EFAULT)
		return result == -EFAULT;
	return sys_2(kill, engine_boot.host_pid, 0) != -ESRCH && !is_zombie(engine_boot.host_pid);
}

bool host_alive(void)
{
	return !__atomic_load_n(&shared()->closed, __ATOMIC_ACQUIRE) && host_exists();
}

void host_left(enum engine_leave reason, int change)
{
	if (engine_boot.shared)
		__atomic_add_fetch(&shared()->left[reason], (uint32_t)change, __ATOMIC_RELAXED);
}

static struct engine_request *slot_take(void)
{
	for (size_t i = 0; i < ENGINE_REQUESTS; i++) {
		uint32_t state = ENGINE_SLOT_FREE;
		struct engine_request *slot = &shared()->requests[i];

		if (__atomic_compare_exchange_n(&slot->state, &state, ENGINE_SLOT_TAKEN, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return slot;
	}
	return NULL;
}

static int answer_wait(struct engine_request *slot)
{
	int answer;

	while (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != ENGINE_SLOT_ANSWERED) {
		if (!host_alive() || attach_is_leaving())
			return -1;
		engine_wait(&slot->state, ENGINE_SLOT_ASKED, FUTEX_WAIT, PATIENCE_MS);
	}
	answer = slot->answer;
	__atomic_store_n(&slot->state, ENGINE_SLOT_FREE, __ATOMIC_RELEASE);
	return answer;
}

void host_count(enum engine_count count)
{
	if (engine_boot.shared)
		__atomic_add_fetch(&shared()->counts[count], 1, __ATOMIC_RELAXED);
}

int host_ask(const struct engine_request *request)
{
	struct engine_request *slot;

	if (!engine_boot.shared || !host_alive() || attach_is_leaving())
		return -1;
	slot = slot_take();
	if (!slot)
		return -1;
	slot->kind = request->kind;
	slot->directory = request->directory;
	slot->path = request->path;
	slot->boot = (uint64_t)engine_boot_place;
	slot->pid = (uint32_t)sys_0(getpid);
	slot->tid = (uint32_t)sys_0(gettid);
	__atomic_store_n(&slot->state, ENGINE_SLOT_ASKED, __ATOMIC_RELEASE);
	__atomic_add_fetch(&shared()->bell, 1, __ATOMIC_RELEASE);
	sys_3(futex, &shared()->bell, FUTEX_WAKE, 1);
	return answer_wait(slot);
}
