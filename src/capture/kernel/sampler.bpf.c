// SPDX-License-Identifier: Dual BSD/GPL
/*
 * The sampler: what runs in the kernel at each sampling interrupt.
 *
 *	in	an interrupt of a clock or an event, with the registers of what it interrupted
 *	out	records (wire/sample.h) in the ring, counts of stacks in the two counts maps
 *	owner	the kernel, as long as sampler.c holds the programs that it has loaded
 *
 * A sample's way: take the kernel stack; take the user registers; walk the user stack with the
 * tables the host published (wire/unwind.h); hash everything; if the hash is new, send the stack
 * through the ring; count it. When the host has not published the process yet, the registers and
 * the raw stack go through the ring instead and the host walks them.
 *
 * Invariants
 * 1. Every run of the handler adds one to seen. It adds its weight to exactly one of counted,
 *    dumped or lost[reason], or one to lost[LOSS_SKIPPED], which becomes a part of a later one's
 *    weight: seen is always the sum of these.
 * 2. A count exists only for a stack that was put into the ring before.
 * 3. Nothing of the interrupted program is written; reads cannot fault.
 * 4. The handler does not nest on one CPU, so per-CPU scratch memory needs no lock.
 */
#include "capture/kernel/kernel_types.h"
#include "capture/kernel/registers.bpf.h"
#include "capture/kernel/walk.bpf.h"
#include "capture/kernel/run.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set by the loader before the programs are loaded. */
const volatile __u8 kernel_code = 1; /* 0: only user code is interrupted */
const volatile __u8 interrupts = 1; /* 0: the event is a call from a place in the kernel */
const volatile __u64 sample_every = 1; /* events of the targets to a sample, in the mean */

/* Which of the two counts maps the handler fills; the host drains the other. */
volatile __u32 counts_active = 0;

/* A tracepoint cannot be switched off by itself, and occurs on all CPUs. */
volatile __u32 tracepoint_on = 0;
volatile __u64 tracepoint_cpus[SAMPLER_CPUS_MAX / 64] = {};

enum { THINNING_STEPS = 16 }; /* in a full ring, one of 2 to the power of so many is taken */

struct counts_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sample_key);
	__type(value, struct sample_count);
};

struct counts_map counts_0 SEC(".maps");
struct counts_map counts_1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_tally);
} tallies SEC(".maps");

/* Bytes in the ring from which on the recorder is behind: three quarters. */
#define RING_CROWDED (ring_wakeup + ring_wakeup / 2)

/* --- What a sample becomes -------------------------------------------------------------------- */

static __always_inline void count_grow(struct sample_count *count, const struct subject *subject)
{
	__sync_fetch_and_add(&count->count, subject->weight);
	if (subject->in_kernel)
		__sync_fetch_and_add(&count->kernel, subject->weight);
	count->last = subject->time;
}

static __always_inline int count_new(void *map, const struct sample_key *key,
				     const struct subject *subject)
{
	struct sample_count fresh = { .count = subject->weight,
				      .last = subject->time,
				      .kernel = subject->in_kernel ? subject->weight : 0 };
	struct sample_count *count;

	if (!bpf_map_update_elem(map, key, &fresh, BPF_NOEXIST))
		return 0;
	/* another CPU has just added it, or the map is full */
	count = bpf_map_lookup_elem(map, key);
	if (!count)
		return -1;
	count_grow(count, subject);
	return 0;
}

static __noinline void stack_keep(struct sample_tally *tally, const struct subject *subject,
				  struct walk *walk)
{
	struct sample_key key = {
		.hash = walk->hash, .image = subject->image, .tid = subject->tid, .end = walk->end
	};
	__u32 active = counts_active & 1, one = 1;
	struct sample_count *count;
	int err;

	count = active ? bpf_map_lookup_elem(&counts_1, &key)
		       : bpf_map_lookup_elem(&counts_0, &key);
	if (count) {
		count_grow(count, subject);
		tally->counted += subject->weight;
		return;
	}
	if (!bpf_map_lookup_elem(&stacks_sent, &key.hash)) {
		if (identity_send_once(subject))
			__sync_fetch_and_add(&tally->identities_lost, 1);
		if (stack_send(subject, walk)) {
			tally->lost[LOSS_RING_FULL] += subject->weight;
			return;
		}
		/* Where this fails the stack is sent once more. */
		bpf_map_update_elem(&stacks_sent, &key.hash, &one, BPF_ANY);
	}
	err = active ? count_new(&counts_1, &key, subject) : count_new(&counts_0, &key, subject);
	if (err)
		tally->lost[LOSS_COUNTS_FULL] += subject->weight;
	else
		tally->counted += subject->weight;
}

static __noinline void dump_keep(struct sample_tally *tally, const struct subject *subject,
				 struct walk *walk)
{
	struct dump_scratch *dump = bpf_map_lookup_elem(&dump_scratches, &(__u32){ ZERO });

	if (!dump) {
		tally->lost[LOSS_BAD_RECORD] += subject->weight;
		return;
	}
	if (identity_send_once(subject))
		__sync_fetch_and_add(&tally->identities_lost, 1);
	if (dump_send(subject, walk, dump))
		tally->lost[LOSS_RING_FULL] += subject->weight;
	else
		tally->dumped += subject->weight;
}

/* The registers of the walk are those of user code that was interrupted, or are made so. */
static __always_inline int user_registers(const struct subject *subject, struct walk *walk)
{
	if (!subject->in_kernel) {
		walk->ip = subject->ip;
		return 0;
	}
	return kernel_code ? registers_saved(walk) : -1;
}

/* ctx: that of a perf event or of a tracepoint */
static __always_inline __u32 kernel_stack(void *ctx, struct subject *subject, struct walk *walk)
{
	long size;

	if (!kernel_code || !subject->in_kernel)
		return 0;
	size = bpf_get_stack(ctx, walk->frames, SAMPLE_KERNEL_DEPTH_MAX * 8, 0);
	if (size < 8) {
		walk->frames[0] = subject->ip;
		return subject->ip != 0;
	}
	if (!subject->ip) /* the context of a tracepoint has no instruction pointer */
		subject->ip = walk->frames[0];
	return (__u32)size / 8;
}

static __always_inline void walk_user(struct walk *walk, const struct subject *subject)
{
	if (user_registers(subject, walk))
		walk->end = STACK_END_NO_USER;
	else
		walk_from_registers(walk);
}

static long hash_kernel_step(__u32 index, struct walk **slot)
{
	struct walk *walk = *slot;

	if (index >= walk->kernel_count || index >= SAMPLE_KERNEL_DEPTH_MAX)
		return 1;
	walk->hash = mix(walk->hash, walk->frames[index]);
	return 0;
}

/*
 * --- Values ------------------------------------------------------------------------------------
 */

static __always_inline void callers_copy(struct run *run, const struct walk *walk)
{
	__u32 first = run->in_kernel ? 0 : walk->kernel_count;
	__u32 limit = run->in_kernel ? walk->kernel_count : walk->at;

	for (int i = 0; i < RUN_CALLERS; i++) {
		__u32 at = first + 1 + i;

		run->record.callers[i] = 0;
		if (at < limit && at < SAMPLE_FRAMES_MAX)
			run->record.callers[i] = walk->frames[at] & ~UNWIND_EXACT;
	}
}

/*
 * Where the function that made the system call was called from; a thin wrapper in libc makes most
 * of them.
 */
static __always_inline __u64 user_site(const struct walk *walk)
{
	__u32 at = walk->kernel_count + 1;

	if (walk->at > at && at < SAMPLE_FRAMES_MAX)
		return walk->frames[at] & ~UNWIND_EXACT;
	return walk->user_ip;
}

/*
 * Whether a run can begin with run->in_kernel and the pc, registers and flags of run->record; if
 * not, the reason is counted.
 */
static __always_inline int run_possible(struct run_tally *tally, const struct run *run,
					const struct walk *walk)
{
	if (!run->in_kernel && !walk->mapped) {
		tally->lost[RUN_LOSS_UNPUBLISHED]++;
		return 0;
	}
	if (!run->in_kernel && walk->process.device) {
		tally->lost[RUN_LOSS_DEVICE]++;
		return 0;
	}
	return 1;
}

static __always_inline void run_ahead(struct run_tally *tally, const struct subject *subject,
				      struct walk *walk, struct run *run)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 skip = bpf_get_prandom_u32() % (run_skip + 1);
	__u64 begun = bpf_ktime_get_ns();

	if (!run_possible(tally, run, walk))
		return;
	/* System values can be captured nevertheless. */
	run->user_hidden = !walk->mapped || walk->process.device;
	run->limit = skip + run_length;
	run->process = walk->process;
	record_fill(&run->record.record, RECORD_RUN, subject);
	run->record.owner = task->cred->euid.val;
	run->guard = guard_flag(task);
	registers_begin(run);
	run->stack_start = (__u64)task->stack;
	run->rsp_page = run->state.regs[UOP_RSP] & ~(PAGE - 1ull);
	segments_begin(task, run);
	state_begin(run, run->record.pc);
	callers_copy(run, walk);
	if (run_flags & RUN_SYSTEM)
		system_log(run, task, user_site(walk));
	bpf_loop(RUN_UOPS_MAX + 1, run_step, &run, 0);
	tally->steps += run->begun;
	if (run_send(run, skip))
		tally->lost[RUN_LOSS_RING_FULL]++;
	else
		tally->sent++;
	tally->nanoseconds += bpf_ktime_get_ns() - begun;
}

static __always_inline int run_wanted_here(void)
{
	__u32 every = run_every;

	return run_values && (every <= 1 || bpf_get_prandom_u32() % every == 0);
}

/*
 * An event of the kernel itself comes without the kernel's registers. If an interrupt took the
 * thread out of user code, that goes on with the registers that were saved; after a system call it
 * goes on with what the call returns, which is not known.
 */
static __always_inline int run_resumes(struct run_tally *tally, const struct walk *walk,
				       struct run *run)
{
	const struct pt_regs *regs = &walk->user_regs;

	if (!walk->user_ip || (__s64)regs->orig_rax >= 0) {
		tally->lost[RUN_LOSS_IN_KERNEL]++;
		return 0;
	}
	RUN_REGISTERS_COPY(run, FROM_COPY);
	run->in_kernel = 0;
	run->record.pc = walk->user_ip;
	return 1;
}

/* Begins a run from the interrupted registers; ctx is NULL for an event of the kernel itself. */
static __always_inline void run_begin(struct bpf_perf_event_data *ctx,
				      const struct subject *subject, struct walk *walk)
{
	struct run_tally *tally = bpf_map_lookup_elem(&run_tallies, &(__u32){ ZERO });
	struct run *run = bpf_map_lookup_elem(&runs, &(__u32){ ZERO });

	if (!tally)
		return;
	tally->seen++;
	if (!run) {
		tally->lost[RUN_LOSS_BAD_RECORD]++;
		return;
	}
	if (ctx && interrupts) {
#define FROM_CONTEXT(name) ctx->regs.name
		RUN_REGISTERS_COPY(run, FROM_CONTEXT);
		run->in_kernel = subject->in_kernel;
		run->record.pc = subject->ip;
	} else if (!run_resumes(tally, walk, run)) {
		return;
	}
	run_ahead(tally, subject, walk, run);
}

/*
 * Raw stacks take a thousand times the room of a counted one. While the recorder is behind, a
 * stack that cannot be walked here is cut to what was reached, rather than lost for want of room.
 */
static __always_inline int ring_is_crowded(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) + sizeof(struct dump_scratch) >
	       RING_CROWDED;
}

static __always_inline void walk_cut(struct walk *walk)
{
	__u32 at = walk->at;

	if (at == walk->kernel_count && at < SAMPLE_FRAMES_MAX) {
		walk->frames[at] = walk->user_ip | UNWIND_EXACT;
		walk->at = at + 1;
		walk->hash = mix(walk->hash, walk->user_ip);
	}
	walk->end = STACK_END_CROWDED;
	walk->hash = mix(walk->hash, walk->end);
}

/*
 * Out of line, as what it calls to keep the sample: then its frame is gone when the run begins,
 * whose own chain of calls takes most of the 512 bytes of stack that a program has.
 */
static __noinline void stack_take(void *ctx, struct sample_tally *tally, struct subject *subject,
				  struct walk *walk)
{
	walk_begin(walk, &subject->image, kernel_stack(ctx, subject, walk));
	if (kernel_code && subject->in_kernel)
		bpf_loop(SAMPLE_KERNEL_DEPTH_MAX, hash_kernel_step, &walk, 0);
	walk_user(walk, subject);
	if (walk->unpublished && !ring_is_crowded()) {
		dump_keep(tally, subject, walk);
		return;
	}
	if (walk->unpublished)
		walk_cut(walk);
	stack_keep(tally, subject, walk);
}

/*
 * Used if the kernel cannot count up to a random period by itself: the number of events until the
 * next sample is drawn anew each time, between 1 and twice the mean less 1.
 */
static __always_inline int sample_is_due(struct walk *walk)
{
	__u64 drawn;

	if (sample_every <= 1)
		return 1;
	if (!walk->countdown) {
		drawn = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
		walk->countdown = 1 + drawn % (2 * sample_every - 1);
	}
	return --walk->countdown == 0;
}

/*
 * While more than three quarters of the ring are full, fewer samples are taken: the fuller it is
 * the fewer, down to what cannot fill the rest before a recorder that stands still goes on. One
 * that is taken counts for itself and for those that this CPU skipped before it, so nothing is
 * lost, and shares stay right in the mean. 0: skip this one.
 */
static __always_inline __u64 weight_take(struct sample_tally *tally)
{
	__u64 used = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	__u64 skipped = tally->lost[LOSS_SKIPPED], every = 1;

	if (used > RING_CROWDED)
		every <<= (used - RING_CROWDED) * THINNING_STEPS / (ring_wakeup / 2) & 31;
	if (skipped + 1 < every) {
		tally->lost[LOSS_SKIPPED]++;
		return 0;
	}
	tally->lost[LOSS_SKIPPED] = 0;
	tally->thinned += skipped;
	return skipped + 1;
}

static __always_inline void subject_begin(struct subject *subject, struct task_struct *task)
{
	subject->time = bpf_ktime_get_ns();
	subject->tid = (__u32)bpf_get_current_pid_tgid();
	image_of(task, &subject->image);
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sample_tally *tally = bpf_map_lookup_elem(&tallies, &(__u32){ ZERO });
	struct walk *walk = bpf_map_lookup_elem(&walks, &(__u32){ ZERO });
	struct subject *subject;

	if (!tally || !walk || !is_sampled((__u32)task->tgid) || !sample_is_due(walk))
		return 0;
	tally->seen++;
	subject = &walk->subject;
	subject->weight = weight_take(tally);
	if (!subject->weight)
		return 0;
	subject_begin(subject, task);
	subject->ip = ctx->regs.rip;
	subject->in_kernel = !(ctx->regs.cs & 3);
	if (!subject->in_kernel)
		REGISTERS_COPY(walk, FROM_CONTEXT);
	stack_take(ctx, tally, subject, walk);
	if (run_wanted_here())
		run_begin(ctx, subject, walk);
	return 0;
}

static __always_inline int tracepoint_is_on(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return tracepoint_on && cpu < SAMPLER_CPUS_MAX &&
	       tracepoint_cpus[cpu / 64 % (SAMPLER_CPUS_MAX / 64)] >> (cpu % 64) & 1;
}

/* The same at a tracepoint, which is a place in the kernel. */
SEC("tracepoint")
int sample_tracepoint(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sample_tally *tally = bpf_map_lookup_elem(&tallies, &(__u32){ ZERO });
	struct walk *walk = bpf_map_lookup_elem(&walks, &(__u32){ ZERO });
	struct subject *subject;

	if (!tally || !walk || !tracepoint_is_on() || !is_sampled((__u32)task->tgid) ||
	    !sample_is_due(walk))
		return 0;
	tally->seen++;
	subject = &walk->subject;
	subject->weight = weight_take(tally);
	if (!subject->weight)
		return 0;
	subject_begin(subject, task);
	subject->ip = 0;
	subject->in_kernel = 1;
	stack_take(ctx, tally, subject, walk);
	if (run_wanted_here())
		run_begin(NULL, subject, walk);
	return 0;
}

/* --- Processes -------------------------------------------------------------------------------- */

/* A forked child runs with its parent's mappings until it execs: it needs no wait for the host. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = (__u32)parent->tgid, to = (__u32)child->tgid, state = TARGET_SAMPLED;
	struct sample_tally *tally = bpf_map_lookup_elem(&tallies, &(__u32){ ZERO });
	struct sampler_process *process;
	struct subject subject = { .time = bpf_ktime_get_ns(), .tid = to };

	if (!tally || child->pid != child->tgid || !is_sampled(from))
		return 0;
	if (!everything && bpf_map_update_elem(&targets, &to, &state, BPF_ANY)) {
		__sync_fetch_and_add(&tally->children_lost, 1);
		return 0;
	}
	process = bpf_map_lookup_elem(&processes, &from);
	if (process) /* where this fails its first samples are walked by the recorder */
		bpf_map_update_elem(&processes, &to, process, BPF_ANY);
	image_of(child, &subject.image);
	if (identity_send(child, &subject))
		__sync_fetch_and_add(&tally->identities_lost, 1);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	__u32 tgid = (__u32)task->tgid, state = TARGET_SAMPLED;
	struct sample_tally *tally = bpf_map_lookup_elem(&tallies, &(__u32){ ZERO });
	struct subject subject = { .time = bpf_ktime_get_ns(), .tid = tgid };

	/* BPF_EXIST fails for all that are no targets. */
	if (!tally)
		return 0;
	if (!everything && bpf_map_update_elem(&targets, &tgid, &state, BPF_EXIST))
		return 0;
	bpf_map_delete_elem(&processes, &tgid);
	image_of(task, &subject.image);
	if (identity_send(task, &subject))
		__sync_fetch_and_add(&tally->identities_lost, 1);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 tgid = (__u32)task->tgid;

	if (everything || task->signal->live.counter)
		return 0; /* other threads go on */
	bpf_map_delete_elem(&targets, &tgid);
	return 0;
}
