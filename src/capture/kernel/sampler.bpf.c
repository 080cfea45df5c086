// SPDX-License-Identifier: Dual BSD/GPL
/*
 * The sampler: what runs in the kernel at each sampling interrupt.
 *
 * A sample's way: take the kernel stack; take the user registers; walk the user stack with the tables the
 * host published (wire/unwind.h); hash everything; if the hash is new, send the stack through the ring; count
 * it. When the host has not published the process yet, the registers and the raw stack go through the ring
 * instead and the host walks them.
 *
 * Invariants
 * 1. Every run of the handler adds one to seen and one to exactly one of counted, dumped or lost[reason].
 * 2. A count exists only for a stack that was put into the ring before.
 * 3. Nothing of the interrupted program is written; reads cannot fault.
 * 4. The handler does not nest on one CPU, so per-CPU scratch memory needs no lock.
 *
 * Looking up unwind rows is a binary search over cold memory. Return addresses repeat, so a small direct-mapped
 * cache per CPU, keyed by address, process and generation of its mappings, answers nearly always.
 */
#include "capture/kernel/kernel_types.h"
#include "capture/kernel/sampler_common.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set by the loader before the programs are loaded. */
const volatile __u32 max_depth = SAMPLE_DEPTH_MAX;
const volatile __u8 everything = 0; /* every process is a target */

/* Which of the two counts maps the handler fills; the host drains the other. */
volatile __u32 counts_active = 0;

struct counts_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct sample_key);
	__type(value, struct sample_count);
};

struct counts_map counts_0 SEC(".maps");
struct counts_map counts_1 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u32);
} stacks_sent SEC(".maps");

struct identity_key {
	struct sample_image image;
	__u32 euid;
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct identity_key);
	__type(value, __u32);
} identities_sent SEC(".maps");

/* Thread groups that are profiled, with enum target_state; unused when everything is. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct sampler_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 << 20);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct unwind_row);
} rows SEC(".maps");

/* Four to a cache line. Generations are unique over all processes: their low bits and the address are key enough. */
struct row_cache_entry {
	__u64 key; /* generation << 48 ^ address */
	struct unwind_row row;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ROW_CACHE_ENTRIES); /* times the number of CPUs */
	__type(key, __u32);
	__type(value, struct row_cache_entry);
} row_cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_tally);
} tallies SEC(".maps");

enum { DWARF_REGISTERS = 16, DWARF_RBX = 3, DWARF_R12 = 12 };

enum { WINDOW_BYTES = 2048 };

#define WINDOW_EMPTY (1ull << 63)

/*
 * A walk in progress. It lies in per-CPU memory and not on the stack: the verifier does not follow values through
 * maps, and so sees one step of the walk instead of every history that may lead to it.
 */
struct walk {
	struct sampler_process process;
	__u64 registers[DWARF_REGISTERS]; /* at the interrupted user instruction, by DWARF number */
	__u64 user_ip; /* where user space was interrupted or called the kernel */
	__u64 ip, sp, bp; /* of the frame reached */
	__u64 rbx_place; /* see unwind_rbx_place() */
	__u64 hash;
	__u32 tgid;
	__u32 cache; /* first cache entry of this CPU */
	__u32 kernel_count;
	__u32 at; /* frames stored, kernel ones included */
	__u32 limit; /* of at */
	__u32 end; /* enum stack_end */
	__u8 exact; /* ip was interrupted: look it up as it is; otherwise it is a return address */
	__u8 leaf; /* still in the interrupted function: every register is known */
	__u8 caller; /* in its caller, by rows */
	__u8 unpublished; /* the host has not published what is needed */
	__u8 mapped; /* but it has published the mappings */
	__u64 window_start; /* address of what is in window; WINDOW_EMPTY */
	__u8 window[WINDOW_BYTES]; /* a part of the user stack */
	struct sample_stack stack; /* frames[] continues into the next field */
	__u64 frames[SAMPLE_FRAMES_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk);
} walks SEC(".maps");

struct dump_scratch {
	struct sample_dump dump; /* stack[] continues into the next field */
	__u8 stack[SAMPLE_DUMP_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dump_scratch);
} dump_scratches SEC(".maps");

static __always_inline __u64 mix(__u64 hash, __u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ (hash >> 29);
}

/* --- Unwind rows ----------------------------------------------------------------------------- */

enum row_answer {
	ROW_FOUND,
	ROW_UNPUBLISHED, /* the host may know; the kernel does not */
};

/* Finds the last row with pc <= wanted: rows below low are, rows from high on are not. */
static long row_step(__u32 index, struct search *search)
{
	__u32 middle = (search->low + search->high) / 2, key = search->first + middle;
	struct unwind_row *row;

	if (search->low >= search->high)
		return 1;
	row = bpf_map_lookup_elem(&rows, &key);
	if (!row)
		return 1;
	if (row->pc <= search->wanted) {
		search->low = middle + 1;
		search->found = (__s32)key;
	} else {
		search->high = middle;
	}
	return 0;
}

/* Global, so that it is verified once and not on every way that leads here. */
__noinline int row_search(struct sampler_process *process, __u64 pc, struct unwind_row *ret)
{
	struct search search = {};
	struct unwind_mapping *mapping;
	struct unwind_row *row;
	__u64 offset;
	int at;

	if (!process || !ret)
		return ROW_UNPUBLISHED;
	*ret = (struct unwind_row){ .kind = UNWIND_NONE };
	search = (struct search){ .wanted = pc, .first = process->first, .high = process->count };
	at = search_run(&search, mapping_step);
	if (at < 0)
		return ROW_UNPUBLISHED;
	mapping = bpf_map_lookup_elem(&mappings, &at);
	if (!mapping || mapping->first_row == UNWIND_ROWS_ABSENT)
		return ROW_UNPUBLISHED;
	offset = pc - mapping->bias;
	if (!mapping->row_count || offset > 0xffffffffull)
		return ROW_FOUND;
	search = (struct search){ .wanted = offset,
				  .first = mapping->first_row,
				  .high = mapping->row_count };
	at = search_run(&search, row_step);
	if (at < 0)
		return ROW_FOUND;
	row = bpf_map_lookup_elem(&rows, &at);
	if (row)
		*ret = *row;
	return ROW_FOUND;
}

/* --- The walk -------------------------------------------------------------------------------- */

static __always_inline int walk_row(struct walk *walk, __u64 pc, struct unwind_row *ret)
{
	__u64 wanted = (__u64)walk->process.generation << 48 ^ pc;
	__u32 at = walk->cache + (pc ^ (pc >> 12)) % ROW_CACHE_ENTRIES;
	struct row_cache_entry *entry = bpf_map_lookup_elem(&row_cache, &at);
	struct unwind_row row;

	if (!entry)
		return ROW_UNPUBLISHED;
	if (entry->key == wanted) {
		*ret = entry->row;
		return ROW_FOUND;
	}
	if (row_search(&walk->process, pc, &row) != ROW_FOUND)
		return ROW_UNPUBLISHED;
	entry->key = wanted;
	entry->row = row;
	*ret = row;
	return ROW_FOUND;
}

static __always_inline long load(__u64 address, void *ret, __u32 size)
{
	return bpf_probe_read_user(ret, size, (void *)address);
}

/*
 * A word of the stack above sp. Reading user memory costs nearly the same for two thousand bytes as for eight (some
 * 80 ns), and frames lie close together: what is read once serves the frames further out.
 */
static __always_inline long load_near(struct walk *walk, __u64 address, __u64 *ret)
{
	__u64 offset = address - walk->window_start, start = walk->sp;

	if (offset > WINDOW_BYTES - 8) {
		if (address - start > WINDOW_BYTES / 2)
			start = address - 64; /* a large frame, or another stack */
		offset = address - start;
		walk->window_start = start;
		if (offset > WINDOW_BYTES - 8 || load(start, walk->window, WINDOW_BYTES)) {
			walk->window_start = WINDOW_EMPTY;
			return load(address, ret, 8);
		}
	}
	*ret = *(__u64 *)(walk->window + offset);
	return 0;
}

static __always_inline long walk_stop(struct walk *walk, __u32 end)
{
	walk->end = end;
	return 1;
}

static __always_inline long step_signal(struct walk *walk)
{
	__u64 frame = walk->sp;

	if (load(frame + UCONTEXT_RBP, &walk->bp, 8) || load(frame + UCONTEXT_RIP, &walk->ip, 8) ||
	    load(frame + UCONTEXT_RSP, &walk->sp, 8))
		return walk_stop(walk, STACK_END_UNREADABLE);
	walk->rbx_place = frame + UCONTEXT_RBX;
	walk->exact = 1;
	walk->leaf = 0;
	walk->caller = 0;
	return 0;
}

/* Goes to the caller, whose stack pointer is cfa and whose bp and return address are given. */
static __always_inline long step_to(struct walk *walk, __u64 cfa, __u64 bp, __u64 ip)
{
	if (cfa < walk->sp || (cfa == walk->sp && !walk->leaf))
		return walk_stop(walk, STACK_END_BAD_CFA);
	walk->sp = cfa;
	walk->bp = bp;
	walk->ip = ip;
	walk->exact = 0;
	walk->caller = walk->leaf;
	walk->leaf = 0;
	return ip ? 0 : walk_stop(walk, STACK_END_COMPLETE);
}

/* A chain may lead to another stack, as Go's does from the system stack to the goroutine's. */
static __always_inline long step_frame_pointer(struct walk *walk)
{
	__u64 frame = walk->bp, bp, ip;

	if (!frame)
		return walk_stop(walk, STACK_END_COMPLETE);
	if (frame % 8 || load_near(walk, frame, &bp) || load_near(walk, frame + 8, &ip))
		return walk_stop(walk, STACK_END_FRAME_POINTER);
	walk->rbx_place = UNWIND_RBX_NOWHERE;
	walk->leaf = 0; /* what this code does with registers is not known */
	if (frame < walk->sp)
		walk->sp = frame;
	return step_to(walk, frame + 16, bp, ip);
}

static __always_inline long step_drap(struct walk *walk, const struct unwind_row *row)
{
	__u64 cfa, bp, ip;

	if (load(walk->bp + row->bp * 8, &cfa, 8) || load(walk->bp, &bp, 8) ||
	    load(cfa - 8, &ip, 8))
		return walk_stop(walk, STACK_END_UNREADABLE);
	walk->rbx_place = unwind_rbx_place(walk->rbx_place, row, cfa);
	return step_to(walk, cfa, bp, ip);
}

/*
 * A scratch register that has no rule keeps its value: hand-written code that counts from one over a call has made sure
 * that what it calls leaves it alone. Further out nobody can have.
 */
static __always_inline int register_known(const struct walk *walk, __u32 reg)
{
	if (reg == DWARF_RBX)
		return walk->rbx_place != UNWIND_RBX_NOWHERE;
	return walk->leaf || (walk->caller && reg < DWARF_R12);
}

static __always_inline long register_cfa(struct walk *walk, const struct unwind_row *row,
					 __u64 *ret)
{
	__u32 reg = row->bp & (DWARF_REGISTERS - 1);
	__u64 value = walk->registers[reg];

	if (!register_known(walk, reg))
		return walk_stop(walk, STACK_END_HARD_RULE);
	if (reg == DWARF_RBX && walk->rbx_place && load(walk->rbx_place, &value, 8))
		return walk_stop(walk, STACK_END_UNREADABLE);
	*ret = value + (__s64)row->cfa * 8;
	return 0;
}

static __always_inline long step_link(struct walk *walk, const struct unwind_row *row)
{
	__u64 cfa = walk->sp + (__s64)row->cfa * 8, bp = walk->bp;
	int saved = (__u8)row->bp >> 4;

	if (!walk->leaf)
		return walk_stop(walk, STACK_END_HARD_RULE);
	if (saved && load(cfa - saved * 8, &bp, 8))
		return walk_stop(walk, STACK_END_UNREADABLE);
	walk->rbx_place = unwind_rbx_place(walk->rbx_place, row, cfa);
	return step_to(walk, cfa, bp, walk->registers[row->bp & (DWARF_REGISTERS - 1)]);
}

/* The usual rows: return address at cfa - 8, bp possibly saved at cfa + saved * 8. */
static __always_inline long step_cfa(struct walk *walk, const struct unwind_row *row, __u64 cfa,
				     int saved)
{
	__u64 ip, bp = walk->bp;

	if ((saved && load_near(walk, cfa + saved * 8, &bp)) || load_near(walk, cfa - 8, &ip))
		return walk_stop(walk, STACK_END_UNREADABLE);
	walk->rbx_place = unwind_rbx_place(walk->rbx_place, row, cfa);
	return step_to(walk, cfa, bp, ip);
}

static __always_inline long step_by_row(struct walk *walk, const struct unwind_row *row)
{
	int saved = row->bp;
	__u64 cfa;

	switch (row->kind) {
	case UNWIND_SP:
		cfa = walk->sp + (__s64)row->cfa * 8;
		break;
	case UNWIND_BP:
		cfa = walk->bp + (__s64)row->cfa * 8;
		break;
	case UNWIND_PLT:
		cfa = walk->sp + 8 + ((walk->ip & 15) >= (__u64)row->cfa ? 8 : 0);
		break;
	case UNWIND_DEREF:
		if (load(walk->sp + (row->cfa >> 3) * 8, &cfa, 8))
			return walk_stop(walk, STACK_END_UNREADABLE);
		cfa += (row->cfa & 7) * 8;
		break;
	case UNWIND_REG:
		if (register_cfa(walk, row, &cfa))
			return 1;
		saved = -((__u8)row->bp >> 4);
		break;
	case UNWIND_LINK:
		return step_link(walk, row);
	case UNWIND_DRAP:
		return step_drap(walk, row);
	case UNWIND_SIGNAL:
		return step_signal(walk);
	case UNWIND_END:
		return walk_stop(walk, STACK_END_COMPLETE);
	case UNWIND_NONE:
		return step_frame_pointer(walk);
	default:
		return walk_stop(walk, STACK_END_HARD_RULE);
	}
	return step_cfa(walk, row, cfa, saved);
}

static long walk_step(__u32 index, struct walk **slot)
{
	struct walk *walk = *slot; /* bpf_loop() passes only pointers to the stack */
	struct unwind_row row = {};
	__u32 at = walk->at;

	if (at >= walk->limit || at >= SAMPLE_FRAMES_MAX)
		return walk_stop(walk, STACK_END_TOO_DEEP);
	walk->frames[at] = walk->ip | (walk->exact ? UNWIND_EXACT : 0);
	walk->at = at + 1;
	walk->hash = mix(walk->hash, walk->ip);
	if (walk_row(walk, walk->ip - !walk->exact, &row) != ROW_FOUND) {
		walk->unpublished = 1;
		return 1;
	}
	if (row.kind == UNWIND_SIGNAL)
		walk->frames[at] |= UNWIND_EXACT;
	return step_by_row(walk, &row);
}

#include "capture/kernel/run.bpf.h"

/* --- What a sample becomes -------------------------------------------------------------------- */

static __always_inline int is_sampled(__u32 tgid)
{
	__u32 *state;

	if (everything)
		return 1;
	state = bpf_map_lookup_elem(&targets, &tgid);
	return state && *state == TARGET_SAMPLED;
}

struct subject {
	struct task_struct *task;
	struct sample_image image;
	__u64 time;
	__u64 ip; /* interrupted there, in the kernel or in user space */
	__u32 tid;
	__u32 in_kernel;
};

static __always_inline void image_of(struct task_struct *task, struct sample_image *ret)
{
	ret->tgid = (__u32)task->tgid;
	ret->reserved = 0;
	ret->exec_id = task->self_exec_id;
}

static __always_inline void record_fill(struct sample_record *record, __u32 kind,
					const struct subject *subject)
{
	record->kind = kind;
	record->tid = subject->tid;
	record->time = subject->time;
	record->image = subject->image;
}

static __always_inline void identity_send(struct task_struct *task, const struct subject *subject)
{
	struct sample_identity identity = {};

	record_fill(&identity.record, RECORD_IDENTITY, subject);
	identity.parent = (__u32)task->real_parent->tgid;
	identity.uid = task->cred->uid.val;
	identity.gid = task->cred->gid.val;
	identity.euid = task->cred->euid.val;
	identity.egid = task->cred->egid.val;
	identity.cgroup = bpf_get_current_cgroup_id();
	bpf_probe_read_kernel(identity.comm, sizeof(identity.comm), &task->comm);
	ring_put(&identity, sizeof(identity));
}

static __always_inline void identity_send_once(const struct subject *subject)
{
	struct identity_key key = {
		.image = subject->image,
		.euid = subject->task->cred->euid.val,
	};
	__u32 one = 1;

	if (bpf_map_lookup_elem(&identities_sent, &key))
		return;
	bpf_map_update_elem(&identities_sent, &key, &one, BPF_ANY);
	identity_send(subject->task, subject);
}

static __always_inline void count_grow(struct sample_count *count, const struct subject *subject)
{
	__sync_fetch_and_add(&count->count, 1);
	if (subject->in_kernel)
		__sync_fetch_and_add(&count->kernel, 1);
	count->last = subject->time;
}

static __always_inline int count_new(void *map, const struct sample_key *key,
				     const struct subject *subject)
{
	struct sample_count fresh = { .count = 1,
				      .last = subject->time,
				      .kernel = subject->in_kernel };
	struct sample_count *count;

	if (!bpf_map_update_elem(map, key, &fresh, BPF_NOEXIST))
		return 0;
	count = bpf_map_lookup_elem(map, key); /* another CPU was first, or the map is full */
	if (!count)
		return -1;
	count_grow(count, subject);
	return 0;
}

static __always_inline int stack_send(const struct subject *subject, struct walk *walk)
{
	__u32 frames = walk->at;

	if (frames > SAMPLE_FRAMES_MAX)
		return -1;
	record_fill(&walk->stack.record, RECORD_STACK, subject);
	walk->stack.hash = walk->hash;
	walk->stack.kernel_count = (__u16)walk->kernel_count;
	walk->stack.user_count = (__u16)(frames - walk->kernel_count);
	walk->stack.end = walk->end;
	return (int)ring_put(&walk->stack, sizeof(walk->stack) + frames * 8);
}

static __always_inline void stack_keep(struct sample_tally *tally, const struct subject *subject,
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
		tally->counted++;
		return;
	}
	if (!bpf_map_lookup_elem(&stacks_sent, &key.hash)) {
		identity_send_once(subject);
		if (stack_send(subject, walk)) {
			tally->lost[LOSS_RING_FULL]++;
			return;
		}
		bpf_map_update_elem(&stacks_sent, &key.hash, &one, BPF_ANY);
	}
	err = active ? count_new(&counts_1, &key, subject) : count_new(&counts_0, &key, subject);
	if (err)
		tally->lost[LOSS_COUNTS_FULL]++;
	else
		tally->counted++;
}

enum { DUMP_CHUNK = 1024, DUMP_ABSENT_MAX = 32 * 1024 };

struct dump_copy {
	struct dump_scratch *dump;
	__u64 sp;
	__u32 absent; /* bytes left out before what is copied */
	__u32 size;
};

/*
 * A read that crosses into an absent page fails whole; chunks that end where pages end do not. A function that has just
 * made room for its frame may have its stack pointer in pages that it has yet to touch: the stack begins above them.
 */
static long dump_step(__u32 index, struct dump_copy *copy)
{
	__u64 from = copy->sp + copy->absent + copy->size;
	__u32 chunk = DUMP_CHUNK - from % DUMP_CHUNK;
	__u32 size = copy->size;

	if (size > SAMPLE_DUMP_MAX - DUMP_CHUNK || chunk > DUMP_CHUNK)
		return 1;
	if (!load(from, copy->dump->stack + size, chunk))
		copy->size = size + chunk;
	else if (!size && copy->absent + chunk <= DUMP_ABSENT_MAX)
		copy->absent += chunk;
	else
		return 1;
	return 0;
}

static __always_inline void dump_keep(struct sample_tally *tally, const struct subject *subject,
				      struct walk *walk)
{
	struct dump_scratch *dump = bpf_map_lookup_elem(&dump_scratches, &(__u32){ ZERO });
	struct dump_copy copy = { .dump = dump, .sp = walk->registers[7] };

	if (!dump)
		return;
	identity_send_once(subject);
	record_fill(&dump->dump.record, RECORD_DUMP, subject);
	dump->dump.ip = walk->user_ip;
	dump->dump.sp = copy.sp;
	dump->dump.bp = walk->registers[6];
	dump->dump.bx = walk->registers[DWARF_RBX];
	dump->dump.kernel_count = (__u16)walk->kernel_count;
	bpf_probe_read_kernel(dump->dump.frames, sizeof(dump->dump.frames), walk->frames);
	bpf_loop((DUMP_ABSENT_MAX + SAMPLE_DUMP_MAX) / DUMP_CHUNK + 2, dump_step, &copy, 0);
	if (copy.size > SAMPLE_DUMP_MAX)
		return;
	dump->dump.absent = (__u16)copy.absent;
	dump->dump.stack_size = copy.size;
	if (ring_put(&dump->dump, sizeof(dump->dump) + copy.size))
		tally->lost[LOSS_RING_FULL]++;
	else
		tally->dumped++;
}

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

static __always_inline int user_registers(struct bpf_perf_event_data *ctx,
					  const struct subject *subject, struct walk *walk)
{
	struct pt_regs regs;

	if (!subject->in_kernel) {
#define FROM_CONTEXT(name) ctx->regs.name
		REGISTERS_COPY(walk, FROM_CONTEXT);
		walk->ip = subject->ip;
		return 0;
	}
	/* In the middle of exec the old user stack is gone and the new one not begun. */
	if (!subject->task->mm || BPF_CORE_READ_BITFIELD(subject->task, in_execve))
		return -1;
	if (bpf_probe_read_kernel(&regs, sizeof(regs), (void *)bpf_task_pt_regs(subject->task)))
		return -1;
	if (!(regs.cs & 3)) /* a kernel thread that borrows an address space */
		return -1;
#define FROM_COPY(name) regs.name
	REGISTERS_COPY(walk, FROM_COPY);
	walk->ip = regs.rip;
	return 0;
}

static __always_inline __u32 kernel_stack(struct bpf_perf_event_data *ctx,
					  const struct subject *subject, struct walk *walk)
{
	long size;

	if (!subject->in_kernel)
		return 0;
	size = bpf_get_stack(ctx, walk->frames, SAMPLE_KERNEL_DEPTH_MAX * 8, 0);
	if (size < 8) {
		walk->frames[0] = subject->ip;
		return 1;
	}
	return (__u32)size / 8;
}

static __always_inline void walk_user(struct bpf_perf_event_data *ctx, struct walk *walk,
				      const struct subject *subject)
{
	struct sampler_process *process;

	if (user_registers(ctx, subject, walk)) {
		walk->end = STACK_END_NO_USER;
		return;
	}
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

static long hash_kernel_step(__u32 index, struct walk **slot)
{
	struct walk *walk = *slot;

	if (index >= walk->kernel_count || index >= SAMPLE_KERNEL_DEPTH_MAX)
		return 1;
	walk->hash = mix(walk->hash, walk->frames[index]);
	return 0;
}

static __always_inline void walk_begin(struct walk *walk, const struct sample_image *image,
				       __u32 kernel_count)
{
	walk->tgid = image->tgid;
	walk->user_ip = 0;
	walk->cache = bpf_get_smp_processor_id() * ROW_CACHE_ENTRIES;
	walk->kernel_count = kernel_count;
	walk->at = kernel_count;
	walk->limit = kernel_count + max_depth;
	walk->rbx_place = 0;
	walk->exact = 1;
	walk->leaf = 1;
	walk->caller = 0;
	walk->unpublished = 0;
	walk->mapped = 0;
	walk->window_start = WINDOW_EMPTY;
	walk->end = STACK_END_TOO_DEEP;
	walk->hash = mix(image->exec_id, image->tgid);
}

/* --- Values ------------------------------------------------------------------------------------ */

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

/* Where the function that made the system call was called from; a thin wrapper in libc makes most of them. */
static __always_inline __u64 user_site(const struct walk *walk)
{
	__u32 at = walk->kernel_count + 1;

	if (walk->at > at && at < SAMPLE_FRAMES_MAX)
		return walk->frames[at] & ~UNWIND_EXACT;
	return walk->user_ip;
}

static __always_inline void run_ahead(struct bpf_perf_event_data *ctx,
				      const struct subject *subject, struct walk *walk)
{
	struct run_tally *tally = bpf_map_lookup_elem(&run_tallies, &(__u32){ ZERO });
	struct run *run = bpf_map_lookup_elem(&runs, &(__u32){ ZERO });
	__u32 skip = run_skip ? bpf_get_prandom_u32() % (run_skip + 1) : 0;
	__u64 begun = bpf_ktime_get_ns();

	if (!tally || !run)
		return;
	tally->seen++;
	if (!subject->in_kernel && !walk->mapped) {
		tally->lost[RUN_LOSS_UNPUBLISHED]++;
		return;
	}
	if (!subject->in_kernel && walk->process.device) {
		tally->lost[RUN_LOSS_DEVICE]++;
		return;
	}
	/* The kernel's own values are there all the same. */
	run->user_hidden = !walk->mapped || walk->process.device;
	run->in_kernel = subject->in_kernel;
	run->limit = skip + run_length;
	run->process = walk->process;
	record_fill(&run->record.record, RECORD_RUN, subject);
	run->record.pc = subject->ip;
	run->record.owner = subject->task->cred->euid.val;
	registers_begin(ctx, run);
	run->stack_start = (__u64)subject->task->stack;
	run->rsp_page = run->state.regs[UOP_RSP] & ~(PAGE - 1ull);
	segments_begin(subject->task, run);
	state_begin(run, subject->ip);
	callers_copy(run, walk);
	if (run_flags & RUN_SYSTEM)
		system_log(run, subject->task, user_site(walk));
	bpf_loop(RUN_UOPS_MAX / UOPS_PER_CALL + 1, run_step, &run, 0);
	tally->steps += run->begun;
	if (run_send(run, skip))
		tally->lost[RUN_LOSS_RING_FULL]++;
	else
		tally->sent++;
	tally->nanoseconds += bpf_ktime_get_ns() - begun;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct subject subject = { .task = task, .time = bpf_ktime_get_ns() };
	struct sample_tally *tally = bpf_map_lookup_elem(&tallies, &(__u32){ ZERO });
	struct walk *walk = bpf_map_lookup_elem(&walks, &(__u32){ ZERO });

	if (!tally || !walk || !is_sampled((__u32)task->tgid))
		return 0;
	tally->seen++;
	subject.tid = (__u32)bpf_get_current_pid_tgid();
	subject.ip = ctx->regs.rip;
	subject.in_kernel = !(ctx->regs.cs & 3);
	image_of(task, &subject.image);

	walk_begin(walk, &subject.image, kernel_stack(ctx, &subject, walk));
	if (subject.in_kernel)
		bpf_loop(SAMPLE_KERNEL_DEPTH_MAX, hash_kernel_step, &walk, 0);
	walk_user(ctx, walk, &subject);
	if (walk->unpublished)
		dump_keep(tally, &subject, walk);
	else
		stack_keep(tally, &subject, walk);
	if (run_length && (run_every <= 1 || bpf_get_prandom_u32() % run_every == 0))
		run_ahead(ctx, &subject, walk);
	return 0;
}

/* --- Processes -------------------------------------------------------------------------------- */

/* A forked child runs with its parent's mappings until it execs: it needs no wait for the host. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 from = (__u32)parent->tgid, to = (__u32)child->tgid, state = TARGET_SAMPLED;
	struct sampler_process *process;
	struct subject subject = { .task = child, .time = bpf_ktime_get_ns(), .tid = to };

	if (child->pid != child->tgid || !is_sampled(from))
		return 0;
	if (!everything)
		bpf_map_update_elem(&targets, &to, &state, BPF_ANY);
	process = bpf_map_lookup_elem(&processes, &from);
	if (process)
		bpf_map_update_elem(&processes, &to, process, BPF_ANY);
	image_of(child, &subject.image);
	identity_send(child, &subject);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	__u32 tgid = (__u32)task->tgid, state = TARGET_SAMPLED;
	struct subject subject = { .task = task, .time = bpf_ktime_get_ns(), .tid = tgid };

	if (!everything && bpf_map_update_elem(&targets, &tgid, &state, BPF_EXIST))
		return 0;
	bpf_map_delete_elem(&processes, &tgid);
	image_of(task, &subject.image);
	identity_send(task, &subject);
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
