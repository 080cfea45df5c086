/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The few kernel structures the BPF programs read. Only the fields named here are used; their
 * offsets are taken from the running kernel's BTF when the program is loaded (CO-RE), so the order
 * here means nothing.
 */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define CORE __attribute__((preserve_access_index))

/* Registers of an interrupted context. The order is ABI (asm/ptrace.h, 64-bit). */
struct pt_regs {
	__u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8;
	__u64 rax, rcx, rdx, rsi, rdi, orig_rax, rip, cs, flags, rsp, ss;
};

/* Context of a perf_event program (linux/bpf_perf_event.h). */
struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

typedef struct {
	unsigned int val;
} kuid_t;

typedef struct {
	unsigned int val;
} kgid_t;

struct cred {
	kuid_t uid;
	kgid_t gid;
	kuid_t euid;
	kgid_t egid;
	kuid_t suid;
	kgid_t sgid;
} CORE;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	unsigned long sig[1];
} sigset_t;

struct sigpending {
	sigset_t signal;
} CORE;

struct tty_driver {
	int major;
	int minor_start;
} CORE;

struct tty_struct {
	struct tty_driver *driver;
	int index;
} CORE;

struct signal_struct {
	atomic_t live;
	struct tty_struct *tty;
	struct sigpending shared_pending;
} CORE;

struct thread_struct {
	unsigned long fsbase;
	unsigned long gsbase;
} CORE;

typedef struct {
	unsigned long __mm_flags[1];
} mm_flags_t;

struct mm_struct {
	mm_flags_t flags;
} CORE;

/* The same before Linux 6.18. */
struct mm_struct___number {
	unsigned long flags;
} CORE;

struct rq;

struct cfs_rq {
	struct rq *rq;
} CORE;

struct sched_entity {
	struct cfs_rq *cfs_rq;
	unsigned long long sum_exec_runtime;
} CORE;

struct task_struct {
	int pid;
	int tgid;
	unsigned int in_execve : 1;
	unsigned long long self_exec_id;
	struct task_struct *real_parent;
	const struct cred *cred;
	struct mm_struct *mm;
	struct signal_struct *signal;
	void *stack;
	int prio;
	int rcu_read_lock_nesting;
	unsigned int policy;
	sigset_t blocked;
	struct sigpending pending;
	struct sched_entity se;
	struct thread_struct thread;
	char comm[16];
} CORE;
