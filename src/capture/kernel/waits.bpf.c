// SPDX-License-Identifier: Dual BSD/GPL
/*
 * What threads use and what they wait for, taken where the scheduler switches.
 *
 * A thread that leaves its processor is charged the time that it ran and what the kernel counted
 * for it meanwhile. Its stack is walked there, and what it waits for follows from its state and its
 * system call. The thread or interrupt that wakes it notes the time and its own stack. When the
 * thread is back, the time until it was woken goes to the cause, the time from there on to
 * `queued`, and the wait is counted by thread, cause, stack and waker.
 *
 * Invariants
 * 1. All time from a slot's `begun` is in its sums, or follows from running_since, off_since and
 *    woken.
 * 2. For each metric the sum over threads is the sum over processors: both are added to at once.
 * 3. A slot is written by the processor that switches its thread. Wakers write the waker's fields
 *    only, and before the thread can be back: the kernel makes it ready to run after that.
 * 4. A wait that has ended adds one to seen and one to counted or lost.
 * 5. Missed switches are compensated: if a thread leaves whose arrival was not seen, its running
 *    time is taken from the scheduler's own count.
 * 6. The programs that take stacks run with interrupts disabled, so that they do not nest.
 * 7. Notices of tasks may be interrupted by switches: they write no sum, and what they tell of a
 *    metric never exceeds what is charged in the end.
 */
#include "capture/kernel/kernel_types.h"
#include "capture/kernel/wait_cause.bpf.h"
#include "capture/kernel/wait_stacks.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set by the loader. */
const volatile __s64 preempt_place = 0; /* of the preemption count, from the run queue */

/* Threads are told of though they have not changed: recording has ended. */
volatile __u32 tell_all = 0;

/* Which of the two maps of counts is filled; the host drains the other. */
volatile __u32 waits_active = 0;

struct waits_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct wait_key);
	__type(value, struct wait_count);
};

struct waits_map waits_0 SEC(".maps");
struct waits_map waits_1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct thread_key);
	__type(value, struct thread_slot);
} threads SEC(".maps");

/* One entry for each CPU; mapped by the host. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct thread_cpu);
} thread_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_tally);
} wait_tallies SEC(".maps");

/*
 * Too large for a program's stack. The second one of a CPU is for begin_threads(), which a switch
 * may interrupt.
 */
struct wait_scratch {
	struct thread_slot fresh;
	struct wait_key key;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct wait_scratch);
} wait_scratches SEC(".maps");

/* --- Slots ------------------------------------------------------------------------------------ */

static __always_inline struct thread_key key_of(struct task_struct *task)
{
	struct task_struct___waits *more = (void *)task;

	return (struct thread_key){ .tid = (__u32)task->pid, .generation = more->start_time };
}

static __always_inline struct thread_slot *slot_find(struct task_struct *task)
{
	struct thread_key key = key_of(task);

	return key.tid ? bpf_map_lookup_elem(&threads, &key) : NULL;
}

/* The kernel's own counters, in the order of THREAD_COUNTERS. */
static __always_inline void counters_read(struct task_struct *task, __u64 *counters)
{
	struct task_struct___waits *more = (void *)task;

	counters[0] = more->nvcsw;
	counters[1] = more->nivcsw;
	counters[2] = more->min_flt;
	counters[3] = more->maj_flt;
	counters[4] = 0;
	counters[5] = 0;
	if (bpf_core_field_exists(more->ioac.rchar)) {
		counters[4] = more->ioac.rchar;
		counters[5] = more->ioac.wchar;
	}
}

/* Begins to count a thread; it is neither running nor off until the caller says so. */
static __noinline int slot_make(struct task_struct *task, __u64 now, __u64 running_since,
				__u64 off_since, __u32 place)
{
	struct wait_scratch *scratch = bpf_map_lookup_elem(&wait_scratches, &place);
	struct wait_tally *tally = bpf_map_lookup_elem(&wait_tallies, &(__u32){ ZERO });
	struct thread_slot *fresh;
	struct thread_key key;

	if (!task || !scratch || !tally)
		return -1;
	key = key_of(task);
	fresh = &scratch->fresh;
	__builtin_memset(fresh, 0, sizeof(*fresh));
	fresh->record.kind = RECORD_THREAD;
	fresh->record.tid = key.tid;
	image_of(task, &fresh->record.image);
	fresh->generation = key.generation;
	fresh->cpu = bpf_get_smp_processor_id();
	fresh->begun = now;
	fresh->running_since = running_since;
	fresh->off_since = off_since;
	fresh->cause = WAIT_PREEMPTED;
	fresh->told = ~0ull;
	fresh->ran = task->se.sum_exec_runtime;
	counters_read(task, fresh->counters);
	__builtin_memcpy(fresh->comm, task->comm, sizeof(fresh->comm));
	if (!bpf_map_update_elem(&threads, &key, fresh, BPF_NOEXIST))
		return 0;
	if (!bpf_map_lookup_elem(&threads, &key))
		tally->threads_lost++;
	return -1;
}

static __always_inline int is_counted(struct task_struct *task)
{
	return task->pid && is_sampled((__u32)task->tgid);
}

static __always_inline struct thread_cpu *cpu_here(void)
{
	__u32 number = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&thread_cpus, &number);
}

static __always_inline void charge(struct thread_cpu *cpu, struct thread_slot *slot, __u32 metric,
				   __u64 amount)
{
	if (metric >= THREAD_METRIC_COUNT)
		return;
	cpu->sums[metric] += amount;
	slot->sums[metric] += amount;
}

static __always_inline void counters_charge(struct thread_cpu *cpu, struct thread_slot *slot,
					    struct task_struct *task)
{
	__u64 now[THREAD_COUNTER_COUNT];

	counters_read(task, now);
#pragma unroll
	for (int i = 0; i < THREAD_COUNTER_COUNT; i++) {
		charge(cpu, slot, THREAD_VOLUNTARY + i, now[i] - slot->counters[i]);
		slot->counters[i] = now[i];
	}
}

/* --- Counts ----------------------------------------------------------------------------------- */

static __always_inline void count_grow(struct wait_count *count, __u64 off, __u64 queued, __u64 now)
{
	__sync_fetch_and_add(&count->count, 1);
	__sync_fetch_and_add(&count->total, off);
	__sync_fetch_and_add(&count->queued, queued);
	if (off > count->longest)
		count->longest = off;
	count->last = now;
}

static __always_inline int count_add(void *map, const struct wait_key *key, __u64 off, __u64 queued,
				     __u64 now)
{
	struct wait_count fresh = {
		.count = 1, .total = off, .longest = off, .queued = queued, .last = now
	};
	struct wait_count *count = bpf_map_lookup_elem(map, key);

	if (!count) {
		if (!bpf_map_update_elem(map, key, &fresh, BPF_NOEXIST))
			return 0;
		count = bpf_map_lookup_elem(map, key); /* another CPU was first, or it is full */
	}
	if (!count)
		return -1;
	count_grow(count, off, queued, now);
	return 0;
}

static __noinline void wait_count_add(struct thread_slot *slot, __u64 off, __u64 queued, __u64 now)
{
	struct wait_scratch *scratch = bpf_map_lookup_elem(&wait_scratches, &(__u32){ ZERO });
	struct wait_tally *tally = bpf_map_lookup_elem(&wait_tallies, &(__u32){ ZERO });
	struct wait_key *key;
	int err;

	if (!slot || !scratch || !tally)
		return;
	key = &scratch->key;
	key->begun = slot->begun;
	key->tgid = slot->record.image.tgid;
	key->stack = slot->stack;
	key->object = slot->object;
	key->tid = slot->record.tid;
	key->cause = slot->cause;
	key->waker = slot->waker;
	key->waker_stack = slot->waker_stack;
	key->waker_tgid = slot->waker_tgid;
	key->waker_tid = slot->waker_tid;
	tally->seen++;
	err = waits_active & 1 ? count_add(&waits_1, key, off, queued, now)
			       : count_add(&waits_0, key, off, queued, now);
	if (err)
		tally->lost++;
	else
		tally->counted++;
}

/* --- The switch ------------------------------------------------------------------------------- */

static __always_inline void waker_forget(struct thread_slot *slot)
{
	slot->woken = 0;
	slot->waker = WAKER_NONE;
	slot->waker_stack = 0;
	slot->waker_tgid = 0;
	slot->waker_tid = 0;
}

/* When a thread that is back now, and was off, began to queue. */
static __always_inline __u64 queued_since(const struct thread_slot *slot, __u64 now)
{
	__u64 woken = slot->woken;

	if (slot->cause == WAIT_PREEMPTED || !woken || woken > now)
		woken = now;
	return woken < slot->off_since ? slot->off_since : woken;
}

/* The thread that the processor switches to: what it waited for is over, and its time begins. */
static __always_inline void arrive(struct thread_cpu *cpu, struct thread_slot *slot, __u64 now)
{
	__u64 off = slot->off_since, woken;

	if (off) {
		woken = queued_since(slot, now);
		charge(cpu, slot, THREAD_OFF_PREEMPTED + slot->cause, woken - off);
		charge(cpu, slot, THREAD_QUEUED, now - woken);
		wait_count_add(slot, woken - off, now - woken, now);
	} else { /* it is new */
		charge(cpu, slot, THREAD_QUEUED, now - slot->begun);
	}
	waker_forget(slot);
	slot->off_since = 0;
	slot->guessed = 0;
	slot->running_since = now;
}

/*
 * When a thread came that goes now, and whose coming was not told: some kernels keep silent about
 * threads that a thread of theirs makes room for.
 */
static __always_inline __u64 arrival_guess(const struct thread_slot *slot, __u64 ran, __u64 now)
{
	__u64 earliest = slot->off_since ? slot->off_since : slot->begun;

	if (slot->guessed)
		return slot->guessed;
	if (slot->cause != WAIT_PREEMPTED && slot->woken > earliest && slot->woken < now)
		earliest = slot->woken;
	return ran < now - earliest ? now - ran : earliest;
}

/*
 * The thread that goes. A waker may have been here already: the kernel lets it as soon as the
 * thread no longer counts as ready, which is before the switch.
 */
static __always_inline void leave(void *ctx, struct thread_cpu *cpu, struct wait_tally *tally,
				  struct task_struct *task, struct thread_slot *slot, __u32 state,
				  __u64 now)
{
	__u64 ran = task->se.sum_exec_runtime;

	slot->writing++;
	if (!slot->running_since) {
		tally->missed++;
		arrive(cpu, slot, arrival_guess(slot, ran - slot->ran, now));
	}
	charge(cpu, slot, THREAD_ON_CPU, now - slot->running_since);
	counters_charge(cpu, slot, task);
	slot->ran = ran;
	slot->cpu = bpf_get_smp_processor_id();
	slot->running_since = 0;
	slot->guessed = 0;
	slot->off_since = now;
	slot->object = 0;
	if (!state)
		waker_forget(slot);
	slot->cause = state ? wait_cause_of(task, state, &slot->object) : WAIT_PREEMPTED;
	__builtin_memcpy(slot->comm, task->comm, sizeof(slot->comm));
	slot->stack = stack_here(ctx, task, slot->cause, now);
	if (!slot->stack)
		tally->stacks_lost++;
	slot->written++;
}

static __noinline void slot_end(struct task_struct *task, struct thread_cpu *cpu,
				struct wait_tally *tally, __u64 now)
{
	struct thread_slot *slot;
	struct thread_key key;

	if (!task || !cpu || !tally)
		return;
	key = key_of(task);
	slot = bpf_map_lookup_elem(&threads, &key);
	if (!slot)
		return;
	slot->writing++;
	if (!slot->running_since) {
		tally->missed++;
		arrive(cpu, slot, arrival_guess(slot, task->se.sum_exec_runtime - slot->ran, now));
	}
	charge(cpu, slot, THREAD_ON_CPU, now - slot->running_since);
	counters_charge(cpu, slot, task);
	slot->running_since = 0;
	slot->off_since = 0;
	slot->record.time = now;
	__builtin_memcpy(slot->comm, task->comm, sizeof(slot->comm));
	slot->written++;
	/* If it finds no room it stays, and the host finds it in the map. */
	if (!ring_put(slot, sizeof(*slot)))
		bpf_map_delete_elem(&threads, &key);
}

static __always_inline void next_arrives(struct thread_cpu *cpu, struct wait_tally *tally,
					 struct task_struct *task, __u64 now)
{
	struct thread_slot *slot = slot_find(task);

	if (!slot)
		return;
	slot->writing++;
	slot->cpu = bpf_get_smp_processor_id();
	if (slot->guessed) /* neither was its coming */
		arrive(cpu, slot, slot->guessed);
	if (slot->running_since) { /* its leaving was not told */
		tally->missed++;
		if (slot->noticed > slot->running_since && slot->noticed < now) {
			charge(cpu, slot, THREAD_ON_CPU, slot->noticed - slot->running_since);
			slot->running_since = slot->noticed;
		}
		charge(cpu, slot, THREAD_OFF_OTHER, now - slot->running_since);
		slot->running_since = now;
	} else {
		arrive(cpu, slot, now);
	}
	slot->written++;
}

enum { TASK_IS_DEAD = 0x80 };

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct wait_tally *tally = bpf_map_lookup_elem(&wait_tallies, &(__u32){ ZERO });
	struct thread_cpu *cpu = cpu_here();
	__u64 now = bpf_ktime_get_ns();
	struct thread_slot *slot;
	__u32 state = preempt ? 0 : prev_state;

	if (!cpu || !tally)
		return 0;
	slot = slot_find(prev);
	if (!slot && is_counted(prev) && !(state & TASK_IS_DEAD)) {
		slot_make(prev, now, now, 0, 0);
		slot = slot_find(prev);
	}
	if (slot && state & TASK_IS_DEAD)
		slot_end(prev, cpu, tally, now);
	else if (slot)
		leave(ctx, cpu, tally, prev, slot, state, now);
	tally->runs += slot != NULL;
	next_arrives(cpu, tally, next, now);
	tally->nanoseconds += slot ? bpf_ktime_get_ns() - now : 0;
	return 0;
}

/* --- Wakers ----------------------------------------------------------------------------------- */

/* Bits of the kernel's preemption count. */
enum { PREEMPT_HARD_INTERRUPT = 0xf0000, PREEMPT_SOFT_INTERRUPT = 0x100 };

/* 0 where the kernel does not say where it lies. */
static __always_inline __u32 preempt_count_read(struct task_struct *task)
{
	__u64 queue = 0; /* a number: pointers are not computed with */
	__u32 count = 0;

	if (!preempt_place || !bpf_core_field_exists(task->se.cfs_rq->rq))
		return 0;
	bpf_core_read(&queue, sizeof(queue), &task->se.cfs_rq->rq);
	if (queue)
		bpf_probe_read_kernel(&count, sizeof(count), (void *)(queue + preempt_place));
	return count;
}

/* Whether user code entered the kernel by an exception or an interrupt. */
static __always_inline int entered_by_interrupt(struct task_struct *task)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
	__s64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), &registers->orig_rax);
	return number < 0;
}

/*
 * A soft interrupt may run in the middle of what the thread itself does, as when it sends to a
 * socket of the same machine: then the thread is the waker. It is not if an interrupt came in.
 */
static __always_inline int is_interrupt(struct task_struct *task, __u32 context, __u32 interrupted)
{
	if (!task->pid || interrupted || context & PREEMPT_HARD_INTERRUPT)
		return 1;
	return context & PREEMPT_SOFT_INTERRUPT && task->mm && entered_by_interrupt(task);
}

/* A system call wakes: the stack of the kernel would say no more than that of the user. */
static __always_inline int wakes_by_call(struct task_struct *task, __u32 context)
{
	return preempt_place && task->mm &&
	       !(context & (PREEMPT_HARD_INTERRUPT | PREEMPT_SOFT_INTERRUPT)) &&
	       !entered_by_interrupt(task);
}

/*
 * A program whose tables the kernel does not have is shown down to its system call: it need not be
 * one that is recorded.
 */
static __always_inline __u64 waker_stack(struct walk *walk, __u32 count, int interrupt)
{
	if (interrupt) {
		walk->subject.image = (struct sample_image){};
		walk->subject.tid = 0;
	}
	walk_start(walk, count);
	walk->end = STACK_END_NO_USER;
	if (!interrupt)
		user_frames(walk);
	if (walk->unpublished) {
		walk->at = walk->kernel_count;
		walk->end = STACK_END_NO_USER;
	}
	return stack_tell(walk);
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct wait_tally *tally = bpf_map_lookup_elem(&wait_tallies, &(__u32){ ZERO });
	struct walk *walk = bpf_map_lookup_elem(&walks, &(__u32){ ZERO });
	struct task_struct *current = bpf_get_current_task_btf();
	struct thread_slot *slot = slot_find(task);
	__u32 count = 0, context;
	__u64 now;
	int interrupt;

	/*
	 * A thread that wakes itself has not slept; and interrupts are enabled here. What a notice
	 * said of the last waker must stay.
	 */
	if (!slot || !tally || !walk || current->pid == task->pid || slot->guessed)
		return 0;
	now = bpf_ktime_get_ns();
	subject_is(walk, current, now);
	context = preempt_count_read(current);
	if (!wakes_by_call(current, context))
		count = waker_frames(ctx, walk);
	interrupt = is_interrupt(current, context, count & INTERRUPTED);
	slot->woken = now;
	slot->waker = interrupt ? WAKER_INTERRUPT : WAKER_TASK;
	slot->waker_tgid = interrupt ? 0 : (__u32)current->tgid;
	slot->waker_tid = interrupt ? 0 : (__u32)current->pid;
	slot->waker_stack = waker_stack(walk, count & ~INTERRUPTED, interrupt);
	tally->nanoseconds += bpf_ktime_get_ns() - now;
	return 0;
}

/* --- Threads that come and change ------------------------------------------------------------- */

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	if (is_counted(task))
		slot_make(task, bpf_ktime_get_ns(), 0, 0, 0);
	return 0;
}

/* What the thread used so far belongs to the program that it was. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	struct wait_tally *tally = bpf_map_lookup_elem(&wait_tallies, &(__u32){ ZERO });
	struct thread_cpu *cpu = cpu_here();
	__u64 now;

	if (!cpu || !tally || !is_counted(task))
		return 0;
	now = bpf_ktime_get_ns();
	slot_end(task, cpu, tally, now);
	slot_make(task, now, now, 0, 0);
	return 0;
}

/*
 * Threads that are there when the recording begins. One that is switched at this very moment may be
 * taken for running when it is not, or the other way round: it counts as a missed switch.
 */
SEC("iter/task")
int begin_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct___waits *more = (void *)task;
	struct thread_slot *slot;
	__u64 now, unused = 0;
	__u32 state;

	if (!task || !is_counted(task))
		return 0;
	now = bpf_ktime_get_ns();
	state = more->__state;
	if (more->on_cpu) {
		slot_make(task, now, now, 0, 1);
		return 0;
	}
	if (slot_make(task, now, 0, now, 1))
		return 0;
	slot = slot_find(task);
	if (slot && state)
		slot->cause = wait_cause_of(task, state, &unused);
	return 0;
}

/*
 * Hands out the threads that have changed since the last time, in one reading. One that is written
 * meanwhile is told again: the count that is noted here is the one from before.
 */
SEC("iter/bpf_map_elem")
int changed_threads(struct bpf_iter__bpf_map_elem *ctx)
{
	struct thread_slot *slot = ctx->value;
	__u64 written;

	if (!slot)
		return 0;
	written = slot->written;
	if (written == slot->told && !tell_all)
		return 0;
	if (!bpf_seq_write(ctx->meta->seq, slot, sizeof(*slot))) /* else it comes once more */
		slot->told = written;
	return 0;
}

/*
 * Nothing is attached any more, and these threads go on: what the kernel has counted for them since
 * they last left is charged, too. Their times are completed by who reads them.
 */
SEC("iter/task")
int end_threads(struct bpf_iter__task *ctx)
{
	struct thread_cpu *cpu = cpu_here();
	struct task_struct *task = ctx->task;
	struct thread_slot *slot;

	if (!task || !cpu)
		return 0;
	slot = slot_find(task);
	if (slot && !slot->record.time)
		counters_charge(cpu, slot, task);
	return 0;
}

/* May be interrupted by a switch: its own metric, in single additions. */
SEC("tp_btf/sys_enter")
int BPF_PROG(on_system_call, struct pt_regs *registers, long id)
{
	struct thread_slot *slot = slot_find(bpf_get_current_task_btf());
	struct thread_cpu *cpu = cpu_here();

	if (!slot || !cpu)
		return 0;
	__sync_fetch_and_add(&cpu->sums[THREAD_SYSTEM_CALLS], 1);
	__sync_fetch_and_add(&slot->sums[THREAD_SYSTEM_CALLS], 1);
	return 0;
}

/* --- Tasks ------------------------------------------------------------------------------------ */

/* What the slot does not have yet: of the time since it was last written, and of counters. */
static __always_inline void open_read(struct thread_slot *slot, struct task_struct *task, __u64 now,
				      struct task_notice *notice)
{
	__u64 came = slot->running_since ? slot->running_since : slot->guessed;
	__u64 off = slot->off_since ? slot->off_since : slot->begun;
	__u64 queued = slot->off_since ? queued_since(slot, came) : off;

	notice->cause = slot->cause;
	notice->off = notice->queued = 0;
	notice->on_cpu = came && now > came ? now - came : 0;
	if (came && !slot->running_since) {
		notice->off = queued - off;
		notice->queued = came - queued;
	}
	counters_read(task, notice->counters);
#pragma unroll
	for (int i = 0; i < THREAD_COUNTER_COUNT; i++)
		notice->counters[i] -= slot->counters[i];
}

/* Its coming was not told: what a notice says of it must be what is charged when it leaves. */
static __always_inline void arrival_note(struct thread_slot *slot, struct task_struct *task,
					 __u64 now)
{
	if (!slot->running_since && !slot->guessed)
		slot->guessed = arrival_guess(slot, task->se.sum_exec_runtime - slot->ran, now);
}

/*
 * What the current thread has used up to now. Sums are read before what is added to them next: if a
 * switch comes between each time, something is missing, which the next notice has.
 */
static __always_inline void sums_read(struct thread_slot *slot, struct task_struct *task,
				      struct task_notice *notice)
{
#pragma clang loop unroll(disable)
	for (int tries = 0; tries < 4; tries++) {
		__u64 written = *(volatile __u64 *)&slot->written, now = bpf_ktime_get_ns();

		arrival_note(slot, task, now);
		__builtin_memcpy(notice->sums, slot->sums, sizeof(notice->sums));
		asm volatile("" ::: "memory");
		open_read(slot, task, now, notice);
		notice->record.time = now;
		if (written == *(volatile __u64 *)&slot->written)
			break;
	}
}

/* On the stack: a record that is reserved in the ring would hold up all others during a switch. */
static __always_inline int task_tell(__u32 begins, const char *name)
{
	struct wait_tally *tally = bpf_map_lookup_elem(&wait_tallies, &(__u32){ ZERO });
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_slot *slot = slot_find(task);
	struct task_notice notice = { .begins = begins };

	if (!slot || !tally)
		return 0;
	notice.record = slot->record;
	notice.record.kind = RECORD_TASK;
	notice.begun = slot->begun;
	if (begins)
		bpf_probe_read_user_str(notice.name, sizeof(notice.name), name);
	sums_read(slot, task, &notice);
	slot->noticed = notice.record.time;
	if (ring_put(&notice, sizeof(notice)))
		__sync_fetch_and_add(&tally->notices_lost, 1);
	return 0;
}

SEC("uprobe")
int on_task_begin(struct pt_regs *registers)
{
	return task_tell(1, (const char *)registers->rdi);
}

SEC("uprobe")
int on_task_end(struct pt_regs *registers)
{
	return task_tell(0, NULL);
}
