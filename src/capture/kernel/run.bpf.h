/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's executor of micro-operations: runs ahead of the interrupted context without touching
 * it.
 *
 *	in	the registers of a sample, and the translations of code that the host has put into a
 *		map
 *	out	one record per run (wire/run.h) in the ring: what the host needs to do it once more
 *	owner	sampler.bpf.c includes it; what it keeps is memory of the processor it runs on
 *
 * Theory. A run goes from block to block. Entering one finds the module that pc lies in, the
 * translation by (module, address), and compares the code it was made of with the code that is
 * there, by their hashes. Then its micro-operations are stepped (isa/uop_exec.h). Loads read the
 * program's memory with helpers that cannot fault, stores go to the overlay, a small hash table of
 * aligned words. What the host cannot know, it finds in the log (wire/run.h).
 *
 * Invariants
 * 1. Nothing of the interrupted context is written, and memory that may be a device is not read.
 * 2. A translation runs only if the hash of its code is that of what is in memory now.
 * 3. A word of the overlay counts only if its serial number is that of the present run: nothing
 *    needs clearing.
 * 4. Everything lies in per-CPU memory: the verifier sees one step, not every history that leads to
 *    it.
 */
#pragma once

#include "capture/kernel/run_memory.bpf.h"
#include "capture/kernel/run_state.bpf.h"

#define UOP_CONTEXT struct run *
#define UOP_LOAD run_load
#define UOP_STORE run_store
#define UOP_POISON run_poison

#include "isa/uop_exec.h"

/* --- Blocks ----------------------------------------------------------------------------------- */

/* Finds the mapping that pc lies in. Global, so that it is verified once. */
__noinline int mapping_search(struct sampler_process *process, __u64 pc)
{
	struct search search = {};

	if (!process)
		return -1;
	search = (struct search){ .wanted = pc, .first = process->first, .high = process->count };
	return search_run(&search, mapping_step);
}

static __always_inline int run_locate(struct run *run, __u64 pc)
{
	struct unwind_mapping *mapping;
	int at;

	if (run->in_kernel) {
		run->module = RUN_MODULE_KERNEL;
		run->bias = 0;
		run->mapping_start = USER_END;
		run->mapping_size = -USER_END;
		return pc >= USER_END ? 0 : -1;
	}
	at = mapping_search(&run->process, pc);
	if (at < 0)
		return -1;
	mapping = bpf_map_lookup_elem(&mappings, &at);
	if (!mapping || !mapping->module)
		return -1;
	run->module = mapping->module;
	run->bias = mapping->bias;
	run->mapping_start = mapping->start;
	run->mapping_size = mapping->end - mapping->start;
	return 0;
}

/* Copies the slot of an instruction; 0: there is none. Global, so that it is verified once. */
__noinline int block_find(__u64 address, __u32 module, struct run_block *ret)
{
	__u64 hash = run_block_hash(address, module);

	if (!ret)
		return 0;
	for (int i = 0; i < RUN_PROBES; i++) {
		__u32 at = run_block_slot(hash, i) & blocks_mask;
		volatile struct run_block *slot = bpf_map_lookup_elem(&blocks, &at);
		__u32 serial;

		if (!slot)
			return 0;
		serial = slot->serial;
		if (!serial)
			return 0;
		if (slot->address != address || slot->module != module)
			continue;
		*ret = *slot;
		return slot->serial == serial;
	}
	return 0;
}

static __always_inline long code_read(const struct run *run, __u64 pc, void *ret, __u32 size)
{
	return run->in_kernel ? run_read(run, pc, ret, size)
			      : bpf_probe_read_user(ret, size, (void *)pc);
}

/*
 * The flag for the ring buffer: the recorder is woken once for several requests, and not more often
 * than every WAKE_AGAIN_NS.
 */
static __always_inline __u64 want_wakeup(struct run *run, __u64 now)
{
	if (++run->waiting < WAKE_REQUESTS || now - run->woken < WAKE_AGAIN_NS)
		return BPF_RB_NO_WAKEUP;
	run->waiting = 0;
	run->woken = now;
	return BPF_RB_FORCE_WAKEUP;
}

static __noinline void block_want(struct run *run, __u64 address, __u64 pc, __u32 stale)
{
	struct block_key key = { .address = address, .module = run->module };
	__u64 *asked = bpf_map_lookup_elem(&blocks_wanted, &key);
	__u64 now = run->record.record.time;
	struct run_wanted *wanted = &run->wanted;
	__u32 part = PAGE - pc % PAGE;

	if (asked && now - *asked < WANT_AGAIN_NS)
		return;
	wanted->record = run->record.record;
	wanted->record.kind = RECORD_WANTED;
	wanted->key = key;
	wanted->pc = pc;
	wanted->stale = stale;
	wanted->code_size = RUN_CODE_BYTES;
	if (code_read(run, pc, wanted->code, RUN_CODE_BYTES)) {
		if (part >= RUN_CODE_BYTES || code_read(run, pc, wanted->code, part))
			return;
		wanted->code_size = part;
	}
	if (bpf_ringbuf_output(&ring, wanted, sizeof(*wanted), want_wakeup(run, now)))
		return;
	bpf_map_update_elem(&blocks_wanted, &key, &now, BPF_ANY);
}

/* Whether the code at pc is what the block was made of. */
static __always_inline int code_compare(struct run *run, const struct run_block *block, __u64 pc)
{
	__u32 length = block->length, offset = pc & (WINDOW_SIZE - 1);
	struct window *window;
	__u64 hash;

	if (length > UOP_CODE_MAX)
		return UOP_END_BAD_BLOCK;
	if (offset + length > WINDOW_SIZE) {
		if (!length || code_read(run, pc, run->code, length))
			return UOP_END_CODE_UNREADABLE;
		hash = run_code_hash(run->code, length);
	} else {
		window = window_at(run, pc);
		if (window->missing)
			return UOP_END_CODE_UNREADABLE;
		hash = run_code_hash(window->data + offset, length);
	}
	return hash == block->code_hash ? 0 : UOP_END_BLOCK_STALE;
}

static __always_inline int block_enter(struct run *run)
{
	__u64 pc = run->state.pc;
	struct run_block *block = &run->block;
	__u64 address;
	int end;

	if (pc - run->mapping_start >= run->mapping_size && run_locate(run, pc))
		return UOP_END_CODE_UNREADABLE;
	address = pc - run->bias;
	if (!block_find(address, run->module, block)) {
		block_want(run, address, pc, 0);
		return UOP_END_BLOCK_MISSING;
	}
	end = code_compare(run, block, pc);
	if (end) {
		if (end == UOP_END_BLOCK_STALE)
			block_want(run, address, pc, 1);
		return end;
	}
	log_word(run, pc, 0);
	log_word(run, (__u64)block->at << 32 | block->serial, 0);
	run->first = block->first;
	run->count = block->count;
	run->at = ~0u;
	run->state.next = block->next;
	run->state.regs[UOP_BIAS] = run->bias;
	return 0;
}

/* --- The run ---------------------------------------------------------------------------------- */

static __always_inline long run_stop(struct run *run, int end)
{
	run->end = (__u32)end;
	return 1;
}

/*
 * One micro-operation for each call: with four, the verifier of Linux 6.1 saw more than a million
 * states, and that of newer ones took four times as long.
 */
static long run_step(__u32 index, struct run **slot)
{
	struct run *run = *slot; /* bpf_loop() passes only pointers to the stack */
	struct uop *uop;
	__u32 key;
	int end;

	if (!run->count) {
		if (run->begun >= run->limit)
			return run_stop(run, UOP_END_NONE);
		end = block_enter(run);
		if (end)
			return run_stop(run, end);
	}
	key = run->first + run->state.next;
	uop = bpf_map_lookup_elem(&uops, &key);
	if (!uop || run->state.next >= run->count)
		return run_stop(run, UOP_END_BAD_BLOCK);
	if (uop->at != run->at) {
		if (run->begun >= run->limit)
			return run_stop(run, UOP_END_NONE);
		run->at = uop->at;
		run->begun++;
	}
	end = UOP_END_LOG_FULL;
	if (index >= RUN_UOPS_MAX)
		end = UOP_END_STRING_LONG;
	else if (run->log_count <= RUN_LOG_MAX - 4)
		end = uop_step(&run->state, uop, run);
	if (end == UOP_LEFT) {
		run->count = 0;
	} else if (end) {
		run->begun--;
		return run_stop(run, end);
	}
	return 0;
}

/* The registers from which a run begins, from a pt_regs of either kind. */
#define RUN_REGISTERS_COPY(run, read)                                                              \
	do {                                                                                       \
		__u64 *registers_ = (run)->record.regs;                                            \
		registers_[0] = read(rax);                                                         \
		registers_[1] = read(rcx);                                                         \
		registers_[2] = read(rdx);                                                         \
		registers_[3] = read(rbx);                                                         \
		registers_[4] = read(rsp);                                                         \
		registers_[5] = read(rbp);                                                         \
		registers_[6] = read(rsi);                                                         \
		registers_[7] = read(rdi);                                                         \
		registers_[8] = read(r8);                                                          \
		registers_[9] = read(r9);                                                          \
		registers_[10] = read(r10);                                                        \
		registers_[11] = read(r11);                                                        \
		registers_[12] = read(r12);                                                        \
		registers_[13] = read(r13);                                                        \
		registers_[14] = read(r14);                                                        \
		registers_[15] = read(r15);                                                        \
		(run)->record.rflags = read(flags);                                                \
	} while (0)

static __always_inline void registers_begin(struct run *run)
{
	for (int i = 0; i < 16; i++)
		run->state.regs[i] = run->record.regs[i];
}

/*
 * The kernel's gs base, without a symbol table: a task knows the run queue of its CPU, and that
 * lies at a known distance from the per-CPU variable that holds the base.
 */
static __always_inline __u64 percpu_address(struct task_struct *task, __s64 place)
{
	__u64 queue = 0; /* a number: pointers are not computed with */

	if (bpf_core_field_exists(task->se.cfs_rq->rq))
		bpf_core_read(&queue, sizeof(queue), &task->se.cfs_rq->rq);
	return queue && place ? queue + place : 0;
}

static __always_inline long percpu_read(struct task_struct *task, __s64 place, void *ret,
					__u32 size)
{
	__u64 address = percpu_address(task, place);

	return address ? bpf_probe_read_kernel(ret, size, (void *)address) : -1;
}

/*
 * User code runs with a preemption count of 0, so the count that a handler sees there is what our
 * own interrupt has added. The same holds for how many read-side sections of RCU the task is in.
 */
static __always_inline void preempt_learn(struct task_struct *task)
{
	__u32 count = 0;

	if (bpf_core_field_exists(task->rcu_read_lock_nesting))
		rcu_ours = (__u32)task->rcu_read_lock_nesting;
	if (preempt_known || percpu_read(task, preempt_count_place, &count, sizeof(count)))
		return;
	preempt_ours = count & ~NEED_RESCHED;
	preempt_known = 1;
}

static __always_inline void segments_begin(struct task_struct *task, struct run *run)
{
	__u8 *unknown = run->state.unknown;

	__builtin_memset(unknown, 0, UOP_VECTORS);
	uop_vectors_forget(unknown);
	if (run->in_kernel) {
		memory_find();
		run->record.fs_base = 0;
		run->record.gs_base = 0;
		percpu_read(task, percpu_base_place, &run->record.gs_base, 8);
		run->preempt_count = percpu_address(task, preempt_count_place);
		run->rcu_depth = 0;
		if (bpf_core_field_exists(task->rcu_read_lock_nesting))
			run->rcu_depth =
				(__u64)task + bpf_core_field_offset(task->rcu_read_lock_nesting);
		unknown[UOP_FS_BASE] = UOP_UNKNOWN;
		unknown[UOP_GS_BASE] = run->record.gs_base ? 0 : UOP_UNKNOWN;
	} else {
		preempt_learn(task);
		run->record.fs_base = task->thread.fsbase;
		run->record.gs_base = task->thread.gsbase;
	}
	run->state.regs[UOP_FS_BASE] = run->record.fs_base;
	run->state.regs[UOP_GS_BASE] = run->record.gs_base;
}

static __always_inline void state_begin(struct run *run, __u64 pc)
{
	__u64 generation = run->in_kernel ? KERNEL_GENERATION : run->process.generation;

	run->state.pc = pc;
	run->state.flags = (__u32)run->record.rflags;
	run->state.flags_known = UOP_TRACKED;
	run->state.lazy_mask = 0;
	run->state.next = 0;
	run->state.again = 0;
	run->state.misses = 0;
	run->serial++;
	run->stored = 0;
	if (run->mapping_generation != generation)
		run->mapping_size = 0;
	run->mapping_generation = generation;
	run->count = 0;
	run->begun = 0;
	run->log_count = 0;
	run->end = UOP_END_NONE;
}

/*
 * Logs 1 in a soft interrupt and 2 in a hard one, our own not counted. Only a non-maskable
 * interrupt can arrive within a hard one.
 */
static __always_inline void interrupt_log(struct run *run, struct task_struct *task)
{
	__u32 count = 0;
	long missing = percpu_read(task, preempt_count_place, &count, sizeof(count));

	count -= preempt_ours;
	log_word(run,
		 missing || !run->in_kernel ? 0
		 : count & HARD_MASK	    ? 2
		 : count & SOFTIRQ_SERVED   ? 1
					    : 0,
		 missing && run->in_kernel);
}

/*
 * Logs 0 if the process has no terminal, and "missing" if its signal structure is gone because the
 * task is ending.
 */
static __always_inline void terminal_log(struct run *run, struct signal_struct *signal)
{
	struct tty_struct *tty = signal ? signal->tty : 0;
	struct tty_driver *driver = tty ? tty->driver : 0;
	__u64 number = 0;

	if (driver)
		number = (__u64)driver->major << 20 | (__u32)(driver->minor_start + tty->index);
	log_word(run, number, !signal || (tty && !driver));
}

static __always_inline void parent_log(struct run *run, struct task_struct *parent)
{
	log_word(run, parent ? (__u32)parent->tgid : 0, !parent);
}

static __always_inline void pending_log(struct run *run, struct task_struct *task,
					struct signal_struct *signal)
{
	__u64 shared = signal ? signal->shared_pending.signal.sig[0] : 0;

	log_word(run, signal ? task->pending.signal.sig[0] | shared : 0, !signal);
}

/* Logs the system call in progress and its call site; both are missing outside of system calls. */
static __always_inline void system_call_log(struct run *run, struct task_struct *task,
					    __u64 usersite)
{
	struct pt_regs *regs = &run->user_regs;
	__u32 missing =
		!run->in_kernel || !task->mm ||
		bpf_probe_read_kernel(regs, sizeof(*regs), (void *)bpf_task_pt_regs(task)) ||
		!(regs->cs & 3) || (__s64)regs->orig_rax < 0;

	log_word(run, missing ? 0 : regs->orig_rax, missing);
	log_word(run, missing ? 0 : regs->rdi, missing);
	log_word(run, missing ? 0 : regs->rsi, missing);
	log_word(run, missing ? 0 : regs->rdx, missing);
	log_word(run, missing ? 0 : regs->r10, missing);
	log_word(run, missing ? 0 : regs->r8, missing);
	log_word(run, missing ? 0 : regs->r9, missing);
	log_word(run, missing ? 0 : usersite, missing || !usersite);
}

/* In the order of RUN_SYSTEM_WORDS. */
static __always_inline void system_log(struct run *run, struct task_struct *task, __u64 usersite)
{
	struct signal_struct *signal = task->signal;
	__u64 cgroup = bpf_get_current_cgroup_id();

	parent_log(run, task->real_parent);
	log_word(run, task->cred->uid.val, 0);
	log_word(run, task->cred->gid.val, 0);
	log_word(run, task->cred->euid.val, 0);
	log_word(run, task->cred->egid.val, 0);
	terminal_log(run, signal);
	log_word(run, cgroup, !cgroup);
	log_word(run, bpf_get_smp_processor_id(), 0);
	log_word(run, (__u64)task->prio, 0);
	log_word(run, task->policy, 0);
	pending_log(run, task, signal);
	log_word(run, task->blocked.sig[0], 0);
	interrupt_log(run, task);
	system_call_log(run, task, usersite);
}

/*
 * A run that ends early skips a proportional part of what it executed, so that it still yields
 * values.
 */
static __always_inline __u32 skip_kept(const struct run *run, __u32 skip)
{
	return run->limit ? skip * run->begun / run->limit : 0;
}

/*
 * RUN_GUARDED if the kernel would refuse the process to its own user: a program that is setuid or
 * setgid, has capabilities of its own or cannot be read, or a process that asked for it. Which of
 * its user numbers is in effect at the moment says nothing.
 */
static __always_inline __u16 guard_flag(struct task_struct *task)
{
	const struct cred *cred = task->cred;
	struct mm_struct *mm = task->mm;
	struct mm_struct___number *older = (void *)mm;
	__u64 flags = 0;

	if (cred->uid.val != cred->euid.val || cred->suid.val != cred->euid.val ||
	    cred->gid.val != cred->egid.val || cred->sgid.val != cred->egid.val)
		return RUN_GUARDED;
	if (!mm)
		return 0;
	if (bpf_core_field_exists(older->flags))
		bpf_core_read(&flags, sizeof(flags), &older->flags);
	else
		bpf_core_read(&flags, sizeof(flags), &mm->flags);
	return (flags & DUMPABLE_MASK) == DUMPABLE_BY_USER ? 0 : RUN_GUARDED;
}

/* skip: instructions that were to be passed over */
static __always_inline int run_send(struct run *run, __u32 skip)
{
	__u32 words = run->log_count;

	if (words > RUN_LOG_MAX)
		return -1;
	run->record.record.kind = RECORD_RUN;
	run->record.flags = run_flags | run->guard | (run->in_kernel ? RUN_IN_KERNEL : 0);
	run->record.instructions = (__u16)run->begun;
	run->record.skipped = (__u16)skip_kept(run, skip);
	run->record.log_count = (__u16)words;
	run->record.end = (__u8)run->end;
	run->record.state_hash = run_state_hash(&run->state);
	for (__u32 i = 0; i < RUN_LOG_MAX / 64 && i * 64 < words; i++)
		run->log[words + i] = run->missing[i];
	return (int)ring_put(&run->record, run_record_size(words));
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct run_text);
} texts SEC(".maps");

/*
 * Reads the kernel's own code for the host. No file has it as it runs, because alternatives and
 * static keys are patched. The host asks for code only.
 */
SEC("syscall")
int text_read(void *ctx)
{
	struct run_text *text = bpf_map_lookup_elem(&texts, &(__u32){ ZERO });
	__u32 size;

	if (!text)
		return 0;
	size = text->size;
	text->size = 0;
	if (!size)
		return 0;
	/*
	 * Two conditions that the compiler merged would bound a copy of the size, which older
	 * kernels do not follow.
	 */
	barrier_var(size);
	if (size > RUN_TEXT_BYTES)
		return 0;
	if (!bpf_probe_read_kernel(text->code, size, (void *)text->address))
		text->size = size;
	return 0;
}
