// SPDX-License-Identifier: BSD-2-Clause
#include "engine/tools/calltree_resources.h"

#include <asm/unistd.h>

#include "engine/sys.h"

enum {
	LOOKS = 5,
	RUSAGE_OF_THREAD = 1,
	/* words of struct rusage */
	RUSAGE_MINFLT = 8,
	RUSAGE_MAJFLT = 9,
	RUSAGE_NVCSW = 16,
	RUSAGE_NIVCSW = 17,
	RUSAGE_WORDS = 18,
	NO_SYSCALL = -1,
};

static void usage_read(uint64_t now[CALLTREE_USAGES])
{
	uint64_t usage[RUSAGE_WORDS] = {};

	sys_2(getrusage, RUSAGE_OF_THREAD, usage);
	now[CALLTREE_FAULTS_MINOR - CALLTREE_USAGE] = usage[RUSAGE_MINFLT];
	now[CALLTREE_FAULTS_MAJOR - CALLTREE_USAGE] = usage[RUSAGE_MAJFLT];
	now[CALLTREE_VOLUNTARY - CALLTREE_USAGE] = usage[RUSAGE_NVCSW];
	now[CALLTREE_INVOLUNTARY - CALLTREE_USAGE] = usage[RUSAGE_NIVCSW];
}

void resources_start(struct resources *resources)
{
	resources->look = UINT64_MAX;
	resources->number = (uint64_t)NO_SYSCALL;
	for (int i = 0; i < LOOKS; i++) {
		uint64_t begin = __builtin_ia32_rdtsc(), ticks;

		usage_read(resources->last);
		ticks = __builtin_ia32_rdtsc() - begin;
		if (ticks < resources->look)
			resources->look = ticks;
	}
}

static uint64_t *metric_of(struct call_node *node, enum calltree_resource resource)
{
	return &node->amounts[CALLTREE_METRICS_ALLOCATIONS + resource].base;
}

bool resources_charge(struct resources *resources, struct call_node *node)
{
	uint64_t now[CALLTREE_USAGES];
	bool switched = false;

	usage_read(now);
	for (unsigned i = 0; i < CALLTREE_USAGES; i++) {
		uint64_t change = now[i] - resources->last[i];

		resources->last[i] = now[i];
		*metric_of(node, CALLTREE_USAGE + i) += change;
		if (i + CALLTREE_USAGE >= CALLTREE_VOLUNTARY && change)
			switched = true;
	}
	return switched;
}

void resources_leave_out(struct resources *resources, struct calltree_memory *memory)
{
	uint64_t now[CALLTREE_USAGES];

	usage_read(now);
	for (unsigned i = 0; i < CALLTREE_USAGES; i++) {
		memory->own[i] += now[i] - resources->last[i];
		resources->last[i] = now[i];
	}
}

void resources_syscall(struct resources *resources, const struct thread *thread)
{
	resources->number = (uint32_t)thread->regs[RAX];
}

void resources_syscall_done(const struct resources *resources, const struct thread *thread,
			    struct call_node *node)
{
	uint64_t result = thread->regs[RAX];

	++*metric_of(node, CALLTREE_SYSTEM_CALLS);
	if (sys_failed((long)result))
		return;
	switch (resources->number) {
	case __NR_sendfile:
	case __NR_copy_file_range:
		*metric_of(node, CALLTREE_READ) += result;
		*metric_of(node, CALLTREE_WRITTEN) += result;
		break;
	case __NR_read:
	case __NR_pread64:
	case __NR_readv:
	case __NR_preadv:
	case __NR_preadv2:
		*metric_of(node, CALLTREE_READ) += result;
		break;
	case __NR_write:
	case __NR_pwrite64:
	case __NR_writev:
	case __NR_pwritev:
	case __NR_pwritev2:
		*metric_of(node, CALLTREE_WRITTEN) += result;
		break;
	case __NR_recvfrom:
	case __NR_recvmsg:
		*metric_of(node, CALLTREE_RECEIVED) += result;
		break;
	case __NR_sendto:
	case __NR_sendmsg:
		*metric_of(node, CALLTREE_SENT) += result;
		break;
	default:
		break;
	}
}
