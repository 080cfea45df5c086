/* SPDX-License-Identifier: Dual BSD/GPL */
/*
 * The walk of a user stack in the kernel, with the tables that the host published (wire/unwind.h),
 * and the records that hold the result. The BPF programs that take stacks share it.
 *
 * Looking up unwind rows is a binary search over cold memory. Return addresses repeat, so a small
 * direct-mapped cache per CPU, keyed by address, process and generation of its mappings, answers
 * nearly always.
 *
 * A program must not be interrupted by another one of the same object that takes stacks: memory in
 * which a walk is under way is one for each CPU and object.
 */
#pragma once

#include "capture/kernel/sampler_common.bpf.h"

/* Set by the loader before the programs are loaded. */
const volatile __u32 max_depth = SAMPLE_DEPTH_MAX;
const volatile __u8 everything = 0; /* every process is a target */

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

/*
 * Four to a cache line. Generations are unique over all processes: their low bits and the address
 * are key enough.
 */
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

enum { DWARF_REGISTERS = 16, DWARF_RBX = 3, DWARF_R12 = 12 };

enum { WINDOW_BYTES = 2048 };

#define WINDOW_EMPTY (1ull << 63)

/* The task that a record is about, and where it was interrupted. */
struct subject {
	struct sample_image image;
	__u64 time;
	__u64 ip; /* interrupted there, in the kernel or in user space */
	__u32 tid;
	__u32 in_kernel;
	__u64 weight; /* samples that it counts for; not of a wait */
};

/*
 * A walk in progress. It lies in per-CPU memory and not on the stack: the verifier does not follow
 * values through maps, and so sees one step of the walk instead of every history that may lead to
 * it.
 */
struct walk {
	struct subject subject;
	struct sampler_process process;
	__u64 registers[DWARF_REGISTERS]; /* at the interrupted user instruction, by DWARF number */
	struct pt_regs user_regs; /* as the kernel saved them, if it was interrupted */
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
	__u8 mapped; /* the host has published the mappings, at least */
	__u64 countdown; /* events of this CPU until the next sample; 0: yet to be drawn */
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
	ROW_UNPUBLISHED, /* the host has not published the tables for this code */
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
	struct unwind_row row = {}; /* kernels before 6.1 want it to have a value */

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
 * A word of the stack above sp. Reading user memory costs nearly the same for two thousand bytes as
 * for eight (some 80 ns), and frames lie close together: what is read once serves the frames
 * further out.
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
 * A scratch register that has no rule keeps its value: hand-written code that counts from one over
 * a call has made sure that what it calls leaves it alone. That holds for the innermost call only.
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

/* --- Records ---------------------------------------------------------------------------------- */

static __always_inline int is_sampled(__u32 tgid)
{
	__u32 *state;

	if (everything)
		return 1;
	state = bpf_map_lookup_elem(&targets, &tgid);
	return state && *state == TARGET_SAMPLED;
}

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

/* Sends the process's identity; not 0: there was no room. */
static __always_inline long identity_send(struct task_struct *task, const struct subject *subject)
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
	return ring_put(&identity, sizeof(identity));
}

/* Sends the identity of the interrupted task's process, unless that was done. */
static __always_inline long identity_send_once(const struct subject *subject)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct identity_key key = {
		.image = subject->image,
		.euid = task->cred->euid.val,
	};
	__u32 one = 1;

	if (bpf_map_lookup_elem(&identities_sent, &key))
		return 0;
	if (identity_send(task, subject))
		return -1; /* the next sample tries again */
	/* if this fails, it is only sent again */
	bpf_map_update_elem(&identities_sent, &key, &one, BPF_ANY);
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

enum { DUMP_CHUNK = 1024, DUMP_ABSENT_MAX = 32 * 1024 };

struct dump_copy {
	struct dump_scratch *dump;
	__u64 sp;
	__u32 absent; /* bytes left out before what is copied */
	__u32 size;
};

/*
 * A read that crosses into an absent page fails whole; chunks that end where pages end do not. A
 * function that has just made room for its frame may have its stack pointer in pages that it has
 * yet to touch: the stack begins above them.
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

/* Registers and memory of a stack that cannot be walked here. */
static __always_inline long dump_send(const struct subject *subject, struct walk *walk,
				      struct dump_scratch *dump)
{
	struct dump_copy copy = { .dump = dump, .sp = walk->registers[7] };

	record_fill(&dump->dump.record, RECORD_DUMP, subject);
	dump->dump.ip = walk->user_ip;
	dump->dump.sp = copy.sp;
	dump->dump.bp = walk->registers[6];
	dump->dump.bx = walk->registers[DWARF_RBX];
	dump->dump.kernel_count = (__u16)walk->kernel_count;
	dump->dump.weight = subject->weight;
	bpf_probe_read_kernel(dump->dump.frames, sizeof(dump->dump.frames), walk->frames);
	bpf_loop((DUMP_ABSENT_MAX + SAMPLE_DUMP_MAX) / DUMP_CHUNK + 2, dump_step, &copy, 0);
	if (copy.size > SAMPLE_DUMP_MAX)
		return -1;
	dump->dump.absent = (__u16)copy.absent;
	dump->dump.stack_size = copy.size;
	return ring_put(&dump->dump, sizeof(dump->dump) + copy.size);
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
