// SPDX-License-Identifier: BSD-2-Clause
/*
 * Keeps single visits of a marked routine, usual ones and slow ones, with what each did
 * (wire/mark_visits.h): the calls that it led to as a tree with times, its system calls, which of
 * the routine's own blocks were executed, its arguments, and what the kernel counted meanwhile.
 *
 * Calls and returns anywhere have a test whether the thread is in a visit. In one, they come to the
 * functions here; only the routine's own blocks are counted inline.
 *
 * Invariants
 * 1. A visit's stack pointer is the address of its return address, and so is that of a call in it.
 *    A return belongs to the call with its own stack pointer.
 * 2. Only the outermost visit of a thread is kept: what the routine calls itself is part of it.
 * 3. Each function may be called twice in a row for the same instruction, if a signal arrives in
 *    front of it. A call replaces one with the same stack pointer, and a second return finds no
 *    call.
 */
#include "wire/mark_visits.h"

#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"
#include "engine/tools/marks.h"
#include "engine/tools/routines.h"

enum called { CALLED_BEGIN, CALLED_CALL, CALLED_JUMP, CALLED_RETURN, CALLED_MARK_SHIFT = 4 };

enum {
	STACK_REACH = 64 << 20, /* bytes between a frame and what is on the same stack */
	DEPTH = 256, /* calls within each other; deeper ones are part of their callers */
	RANGES_MAX = 16,
	NS_PER_S = 1000000000,
	LOOK_EVERY = 64, /* visits: where the slowest begin */
	LOOK_FROM = 128,
	PERMILLE = 1000,
	ADDRESS_LEAST = 1 << 16,
	RUSAGE_THREAD = 1,
	CLOCK_THREAD = 3,
	FUTEX = 202,
	OPS = 6, /* of a list */
};

/* A call that has not returned. */
struct frame {
	uint64_t sp, start; /* start: ticks */
	uint32_t node;
	uint32_t reserved;
};

/* What the kernel has counted for the thread. */
struct used {
	uint64_t cpu, faults_minor, faults_major, voluntary, involuntary;
};

struct private
{
	struct mark_visit visit; /* that has not ended */
	uint64_t sp, start;
	struct used used; /* at its beginning */
	uint64_t random;
	uint64_t call_start; /* of the system call in hand, in ticks; 0: none */
	uint64_t call_number, call_object;
	uint32_t depth;
	uint32_t blocks; /* whose counters are in before[] */
	struct frame frames[DEPTH];
	uint64_t priorities[MARK_VISITS_SLOW]; /* of the slow visits that are kept */
	uint64_t before[MARK_VISITS_BLOCKS_MAX];
};

_Static_assert(sizeof(struct private) <= MARK_VISITS_PRIVATE_BYTES, "it has its place");

/* Single visits are kept: otherwise no code has anything put in. */
static bool is_awake;
static uint32_t change; /* marks_generation() that was taken up last */

static uint64_t blocks[MARK_VISITS_BLOCKS_MAX]; /* where they begin */
static uint32_t block_count;

static uint32_t place(void)
{
	return (uint32_t)engine_tools_counters_at(engine_boot.tools, ENGINE_TOOL_MARK_VISITS,
						  STREAM_SEGMENTS_MAX);
}

static struct mark_visits_memory *memory_of(struct thread *thread)
{
	return (struct mark_visits_memory *)(stream_counts(thread) + place());
}

static void *at(struct mark_visits_memory *memory, uint32_t offset)
{
	return (uint8_t *)memory + offset;
}

static uint64_t ticks_now(void)
{
	return __builtin_ia32_rdtsc();
}

/* --- What a visit does ------------------------------------------------------------------- */

/* The node of something done there, once more; the parent itself where there is no room. */
static uint32_t node_find(struct mark_visit *visit, const struct mark_visit_node *wanted)
{
	for (uint32_t i = wanted->parent + 1; i < visit->node_count; i++) {
		const struct mark_visit_node *node = &visit->nodes[i];

		if (node->code == wanted->code && node->parent == wanted->parent &&
		    node->object == wanted->object && node->kind == wanted->kind)
			return i;
	}
	if (visit->node_count >= MARK_VISIT_NODES) {
		visit->folded++;
		return wanted->parent;
	}
	visit->nodes[visit->node_count] = *wanted;
	return visit->node_count++;
}

static uint32_t node_innermost(const struct private *own)
{
	return own->depth ? own->frames[own->depth - 1].node : 0;
}

static bool is_gone(const struct frame *frame, uint64_t sp)
{
	return frame->sp <= sp && sp - frame->sp <= STACK_REACH;
}

static void call_enter(struct private *own, uint64_t routine, uint64_t sp)
{
	struct mark_visit_node wanted = { .code = routine, .kind = MARK_VISIT_CALL };
	struct frame *frame;

	while (own->depth && is_gone(&own->frames[own->depth - 1], sp))
		own->depth--;
	if (own->depth >= DEPTH) {
		own->visit.folded++;
		return;
	}
	wanted.parent = node_innermost(own);
	frame = &own->frames[own->depth];
	frame->sp = sp;
	frame->node = node_find(&own->visit, &wanted);
	if (frame->node != wanted.parent)
		own->visit.nodes[frame->node].count++;
	frame->start = ticks_now();
	own->depth++;
}

/* Those within it have been left by longjmp, or have no return of their own. */
static void call_leave(struct private *own, uint32_t depth)
{
	const struct frame *frame = &own->frames[depth];
	uint64_t now = ticks_now();
	bool folded = frame->node == (depth ? own->frames[depth - 1].node : 0);

	if (!folded && now > frame->start)
		own->visit.nodes[frame->node].ticks += now - frame->start;
	own->depth = depth;
}

static uint64_t clock_read(void)
{
	uint64_t now[2] = {};

	if (sys_failed(sys_2(clock_gettime, CLOCK_THREAD, now)))
		return 0;
	return now[0] * NS_PER_S + now[1];
}

/* struct rusage: two times, and 14 numbers. */
static void used_read(struct used *ret)
{
	uint64_t usage[18] = {};

	*ret = (struct used){};
	if (sys_failed(sys_2(getrusage, RUSAGE_THREAD, usage)))
		return;
	*ret = (struct used){ .faults_minor = usage[8],
			      .faults_major = usage[9],
			      .voluntary = usage[16],
			      .involuntary = usage[17],
			      .cpu = clock_read() };
}

static void pointed_read(struct mark_visit *visit)
{
	visit->readable = 0;
	for (unsigned i = 0; i < MARK_VISIT_POINTED; i++) {
		uint64_t address = visit->arguments[i];

		visit->pointed[i][0] = visit->pointed[i][1] = 0;
		if (address >= ADDRESS_LEAST && address < USER_ADDRESSES &&
		    user_read(visit->pointed[i], address, sizeof(visit->pointed[i])))
			visit->readable |= 1u << i;
	}
}

static void blocks_remember(struct mark_visits_memory *memory, struct private *own)
{
	const uint64_t *counts = at(memory, MARK_VISITS_BLOCKS);

	own->blocks = __atomic_load_n(&block_count, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < own->blocks; i++)
		own->before[i] = counts[i];
}

/* Blocks that were translated since had not been executed by this thread. */
static void blocks_take(struct mark_visits_memory *memory, struct private *own)
{
	const uint64_t *counts = at(memory, MARK_VISITS_BLOCKS);
	uint32_t count = __atomic_load_n(&block_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count && own->visit.node_count < MARK_VISIT_NODES; i++) {
		uint64_t grown = counts[i] - (i < own->blocks ? own->before[i] : 0);

		if (grown)
			own->visit.nodes[own->visit.node_count++] = (struct mark_visit_node){
				.code = blocks[i], .count = grown, .kind = MARK_VISIT_BLOCK
			};
	}
}

/* --- Visits ------------------------------------------------------------------------------ */

static void begin(struct thread *thread, uint32_t mark)
{
	static const enum register_number registers[] = { RDI, RSI, RDX, RCX, R8, R9 };
	struct mark_visits_memory *memory = memory_of(thread);
	struct private *own = at(memory, MARK_VISITS_PRIVATE);
	struct mark_visit *visit = &own->visit;
	uint64_t sp = thread->regs[RSP];

	if (memory->inside && sp < own->sp)
		return;
	if (memory->inside && sp != own->sp)
		memory->abandoned++;
	memory->mark = mark;
	own->sp = sp;
	own->depth = 0;
	own->call_start = 0;
	visit->node_count = 1;
	visit->folded = 0;
	visit->nodes[0] = (struct mark_visit_node){ .count = 1 };
	visit->asked = !host_is_filtered();
	for (unsigned i = 0; i < MARK_VISIT_ARGUMENTS; i++)
		visit->arguments[i] = thread->regs[registers[i]];
	if (visit->asked)
		pointed_read(visit);
	blocks_remember(memory, own);
	memory->inside = 1;
	if (visit->asked)
		used_read(&own->used);
	own->start = ticks_now();
}

/* The time from which on visits are among the slowest. */
static uint64_t threshold_find(const struct mark_timing *timing, uint64_t visits)
{
	uint64_t left = visits * marks_area()->slow_permille / PERMILLE, passed = 0;

	for (unsigned i = MARK_TIMES_BUCKETS; i-- > 0;) {
		passed += timing->buckets[i];
		if (passed > left)
			return mark_times_bucket_low(i + 1 < MARK_TIMES_BUCKETS ? i + 1 : i);
	}
	return 0;
}

static void timing_add(struct mark_visits_memory *memory, uint64_t ticks)
{
	struct mark_timing *timing = at(memory, MARK_VISITS_TIMING);
	uint64_t visits = memory->usual + memory->slow + 1;

	timing->sum += ticks;
	timing->buckets[mark_times_bucket(ticks)]++;
	timing->most = ticks > timing->most ? ticks : timing->most;
	timing->least = ~ticks > timing->least ? ~ticks : timing->least;
	if (visits % LOOK_EVERY == 0 && visits >= LOOK_FROM)
		memory->threshold = threshold_find(timing, visits);
}

/* xorshift64 */
static uint64_t random_next(struct private *own)
{
	own->random ^= own->random << 13;
	own->random ^= own->random >> 7;
	own->random ^= own->random << 17;
	return own->random;
}

/*
 * Reservoir sampling: the first visits are kept; the n-th one replaces one of them with probability
 * (size of the reservoir) / n.
 */
static uint32_t place_usual(struct mark_visits_memory *memory, struct private *own)
{
	uint64_t count = ++memory->usual;

	count = count <= MARK_VISITS_USUAL ? count - 1 : random_next(own) % count;
	return count < MARK_VISITS_USUAL ? (uint32_t)count : MARK_VISITS_USUAL;
}

/* The time divided by a random number from 0 to 1. */
static uint64_t priority_make(struct private *own, uint64_t ticks)
{
	const uint64_t one = 1 << 20, ticks_max = 1ull << 43;

	return (ticks < ticks_max ? ticks : ticks_max) * one / (random_next(own) % one + 1);
}

/*
 * Priority sampling: the visits with the highest priorities are kept. One that is a thousand times
 * slower than most is kept for certain, where a reservoir would lose it among ten thousand others.
 */
static uint32_t place_slow(struct mark_visits_memory *memory, struct private *own)
{
	uint64_t count = ++memory->slow, priority = priority_make(own, own->visit.ticks);
	uint32_t least = 0;

	if (count <= MARK_VISITS_SLOW)
		least = (uint32_t)count - 1;
	else
		for (uint32_t i = 1; i < MARK_VISITS_SLOW; i++)
			if (own->priorities[i] < own->priorities[least])
				least = i;
	if (count > MARK_VISITS_SLOW && priority <= own->priorities[least])
		return MARK_VISITS_SLOW;
	own->priorities[least] = priority;
	return least;
}

static void visit_keep(struct mark_visits_memory *memory, struct private *own, bool slow)
{
	struct mark_visit *kept = at(memory, MARK_VISITS_KEPT);
	uint32_t number = slow ? place_slow(memory, own) : place_usual(memory, own);

	if (number >= (slow ? MARK_VISITS_SLOW : MARK_VISITS_USUAL))
		return;
	kept += number + (slow ? MARK_VISITS_USUAL : 0);
	__atomic_store_n(&kept->valid, 0, __ATOMIC_SEQ_CST);
	*kept = own->visit;
	__atomic_store_n(&kept->valid, 1, __ATOMIC_SEQ_CST);
}

static void end(struct mark_visits_memory *memory, struct private *own)
{
	uint64_t now = ticks_now();
	struct mark_visit *visit = &own->visit;
	struct used used = {};

	memory->inside = 0;
	if (visit->asked)
		used_read(&used);
	visit->ticks = now > own->start ? now - own->start : 1;
	visit->nodes[0].ticks = visit->ticks;
	visit->cpu_ns = used.cpu - own->used.cpu;
	visit->faults_minor = used.faults_minor - own->used.faults_minor;
	visit->faults_major = used.faults_major - own->used.faults_major;
	visit->voluntary = used.voluntary - own->used.voluntary;
	visit->involuntary = used.involuntary - own->used.involuntary;
	blocks_take(memory, own);
	timing_add(memory, visit->ticks);
	visit_keep(memory, own, memory->threshold && visit->ticks >= memory->threshold);
}

/* One that belongs to no call is of a caller of the routine, if it is further out. */
static void leave(struct mark_visits_memory *memory, struct private *own, uint64_t sp)
{
	uint32_t depth = own->depth;

	if (sp == own->sp) {
		end(memory, own);
		return;
	}
	while (depth && own->frames[depth - 1].sp != sp)
		depth--;
	if (depth) {
		call_leave(own, depth - 1);
	} else if (sp > own->sp && sp - own->sp <= STACK_REACH) {
		memory->abandoned++;
		memory->inside = 0;
	}
}

static void called(struct thread *thread, uint32_t number, const uint64_t *values)
{
	struct mark_visits_memory *memory = memory_of(thread);
	struct private *own = at(memory, MARK_VISITS_PRIVATE);
	uint64_t sp = thread->regs[RSP];

	switch ((enum called)(number & ((1 << CALLED_MARK_SHIFT) - 1))) {
	case CALLED_BEGIN:
		begin(thread, number >> CALLED_MARK_SHIFT);
		break;
	case CALLED_CALL:
		call_enter(own, values[0], sp - 8);
		break;
	case CALLED_JUMP:
		call_enter(own, values[0], sp);
		break;
	default:
		leave(memory, own, sp);
	}
}

/* --- System calls ------------------------------------------------------------------------ */

static void call_begin(struct thread *thread)
{
	struct mark_visits_memory *memory = memory_of(thread);
	struct private *own = at(memory, MARK_VISITS_PRIVATE);

	if (!memory->inside)
		return;
	own->call_number = (uint32_t)thread->regs[RAX];
	own->call_object = own->call_number == FUTEX ? thread->regs[RDI] : 0;
	own->call_start = ticks_now();
}

static void call_done(struct thread *thread)
{
	struct mark_visits_memory *memory = memory_of(thread);
	struct private *own = at(memory, MARK_VISITS_PRIVATE);
	uint64_t now = ticks_now();
	struct mark_visit_node wanted = { .code = own->call_number,
					  .object = own->call_object,
					  .kind = MARK_VISIT_SYSTEM_CALL };
	uint32_t node;

	if (!memory->inside || !own->call_start)
		return;
	wanted.parent = node_innermost(own);
	node = node_find(&own->visit, &wanted);
	if (node != wanted.parent) {
		own->visit.nodes[node].count++;
		own->visit.nodes[node].ticks += now > own->call_start ? now - own->call_start : 0;
	}
	own->call_start = 0;
}

/* --- Places ------------------------------------------------------------------------------ */

static void only_inside(struct insert *insert)
{
	inline_load(insert, INLINE_D, place());
	inline_only_if(insert, INLINE_D, INLINE_DIFFERENT, 0);
}

static void call(struct insert *insert, const struct point *point)
{
	if (!is_awake || (point->target && code_is_stub(point->target)))
		return;
	if (!insert_has_room(insert, OPS))
		return;
	only_inside(insert);
	inline_target(insert, INLINE_A);
	inline_call(insert, ENGINE_TOOL_MARK_VISITS, CALLED_CALL, 1);
}

static void back(struct insert *insert, const struct point *point)
{
	if (!is_awake || !insert_has_room(insert, OPS))
		return;
	only_inside(insert);
	inline_call(insert, ENGINE_TOOL_MARK_VISITS, CALLED_RETURN, 0);
}

/*
 * Handles the jump of a stub of the procedure linkage table: a call of the stub counts as one of
 * its target.
 */
static void branch(struct insert *insert, const struct point *point)
{
	if (!is_awake || point->operands[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    point->operands[0].mem.base != ZYDIS_REGISTER_RIP || !insert_has_room(insert, OPS))
		return;
	only_inside(insert);
	inline_target(insert, INLINE_A);
	inline_call(insert, ENGINE_TOOL_MARK_VISITS, CALLED_JUMP, 1);
}

static const struct mark_range *range_at(uint64_t pc, bool begins)
{
	const struct mark_module *module = is_awake ? mark_module_of(pc) : NULL;
	const struct mark_range *ranges[RANGES_MAX];
	unsigned count = module ? mark_ranges_at(module, pc, ranges, RANGES_MAX) : 0;

	for (unsigned i = 0; i < count; i++)
		if (mark_word_use(ranges[i]->mark) == MARK_USE_VISITS &&
		    (ranges[i]->mark & 1) == begins)
			return ranges[i];
	return NULL;
}

static uint32_t block_number(uint64_t pc)
{
	uint32_t i = 0;

	while (i < block_count && blocks[i] != pc)
		i++;
	if (i == block_count && i < MARK_VISITS_BLOCKS_MAX) {
		blocks[i] = pc;
		__atomic_store_n(&block_count, i + 1, __ATOMIC_RELEASE);
	}
	return i;
}

static void block(struct insert *insert, const struct point *point)
{
	uint32_t number;

	if (!range_at(point->pc, false) || !insert_has_room(insert, OPS))
		return;
	number = block_number(point->pc);
	if (number < MARK_VISITS_BLOCKS_MAX)
		inline_count(insert, place() + MARK_VISITS_BLOCKS + number * 8, 1);
}

static void before(struct insert *insert, const struct point *point)
{
	const struct mark_range *range = range_at(point->pc, true);

	if (!range || !insert_has_room(insert, OPS))
		return;
	mark_only_counting(insert);
	inline_call(insert, ENGINE_TOOL_MARK_VISITS,
		    mark_word_number(range->mark) << CALLED_MARK_SHIFT | CALLED_BEGIN, 0);
}

/* --- Threads ----------------------------------------------------------------------------- */

/* In a child of fork, what its parent did is not its own. */
static void thread_start(struct thread *thread)
{
	struct mark_visits_memory *memory = memory_of(thread);
	struct private *own = at(memory, MARK_VISITS_PRIVATE);

	*memory = (struct mark_visits_memory){};
	own->random = ticks_now() | 1;
	own->call_start = 0;
	__atomic_store_n(&memory->ready, 1, __ATOMIC_RELEASE);
}

/*
 * Calls and returns are everywhere, so all code is translated anew when the mark comes or goes. A
 * visit that had not ended when it went is nobody's.
 */
static void renew(void)
{
	bool needed = mark_tool_is_needed(ENGINE_TOOL_MARK_VISITS);

	if (marks_generation() == change)
		return;
	change = marks_generation();
	if (needed == is_awake)
		return;
	is_awake = needed;
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		memory_of(thread)->inside = 0;
	cache_forget(0, UINT64_MAX);
}

/* What the engine takes to translate code is nobody's time. */
static void paused(struct thread *thread, uint64_t ticks)
{
	struct mark_visits_memory *memory = memory_of(thread);
	struct private *own = at(memory, MARK_VISITS_PRIVATE);

	if (!memory->inside)
		return;
	own->start += ticks;
	for (uint32_t i = 0; i < own->depth && i < DEPTH; i++)
		own->frames[i].start += ticks;
}

const struct tool tool_mark_visits = {
	.block = block,
	.before = before,
	.call = call,
	.back = back,
	.branch = branch,
	.called = called,
	.syscall = call_begin,
	.syscall_done = call_done,
	.thread_start = thread_start,
	.forked = thread_start,
	.renew = renew,
	.paused = paused,
};
