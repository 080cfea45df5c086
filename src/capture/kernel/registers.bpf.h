/* SPDX-License-Identifier: Dual BSD/GPL */
/* The user registers of the current thread, and the walk of the user's stack from them. */
#pragma once

#include "capture/kernel/walk.bpf.h"

/* The user registers by DWARF number, from a pt_regs of either kind. */
#define REGISTERS_COPY(walk, read)                                                                 \
	do {                                                                                       \
		__u64 *registers_ = (walk)->registers;                                             \
		registers_[0] = read(rax);                                                         \
		registers_[1] = read(rdx);                                                         \
		registers_[2] = read(rcx);                                                         \
		registers_[3] = read(rbx);                                                         \
		registers_[4] = read(rsi);                                                         \
		registers_[5] = read(rdi);                                                         \
		registers_[6] = read(rbp);                                                         \
		registers_[7] = read(rsp);                                                         \
		registers_[8] = read(r8);                                                          \
		registers_[9] = read(r9);                                                          \
		registers_[10] = read(r10);                                                        \
		registers_[11] = read(r11);                                                        \
		registers_[12] = read(r12);                                                        \
		registers_[13] = read(r13);                                                        \
		registers_[14] = read(r14);                                                        \
		registers_[15] = read(r15);                                                        \
	} while (0)

/* The user registers of a thread in the kernel, as it saved them on entry. -1: it has none. */
static __always_inline int registers_saved(struct walk *walk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = &walk->user_regs;

	/* In the middle of exec the old user stack is gone and the new one not begun. */
	if (!task->mm || BPF_CORE_READ_BITFIELD(task, in_execve))
		return -1;
	if (bpf_probe_read_kernel(regs, sizeof(*regs), (void *)bpf_task_pt_regs(task)))
		return -1;
	if (!(regs->cs & 3)) /* a kernel thread that borrows an address space */
		return -1;
#define FROM_COPY(name) regs->name
	REGISTERS_COPY(walk, FROM_COPY);
	walk->ip = regs->rip;
	return 0;
}

/* Walks the user's stack; ip and registers are set. */
static __always_inline void walk_from_registers(struct walk *walk)
{
	struct sampler_process *process;

	walk->user_ip = walk->ip;
	walk->sp = walk->registers[7];
	walk->bp = walk->registers[6];
	process = bpf_map_lookup_elem(&processes, &walk->tgid);
	if (!process) {
		walk->unpublished = 1;
		return;
	}
	walk->process = *process;
	walk->mapped = 1;
	walk->hash = mix(walk->hash, process->epoch);
	bpf_loop(SAMPLE_DEPTH_MAX + 1, walk_step, &walk, 0);
}
