// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts at every insertion point and uses every kind of operation: what it says must agree with
 * what other tools say, which tests the interface. It also shows how each of them is used.
 */
#include "engine/tool.h"

#include "engine/stream.h"

enum { LINE = 64 };

/* Columns: name, what the counter is called. */
#define PROBES(X)                                                                                  \
	X(BLOCK, "block")                                                                          \
	X(BEFORE, "before")                                                                        \
	X(AFTER, "after")                                                                          \
	X(ACCESS, "access")                                                                        \
	X(CROSSED, "crossed") /* accesses that cross a cache line */                               \
	X(CROSSED_AFTER, "crossed, looked at afterwards")                                          \
	X(CALL, "call")                                                                            \
	X(CALL_TARGETS, "sum of call targets")                                                     \
	X(RETURN, "return")                                                                        \
	X(RETURN_TARGETS, "sum of return targets")                                                 \
	X(BRANCH, "branch")                                                                        \
	X(SEGMENT, "segment")                                                                      \
	X(SYSTEM_CALL, "system call")                                                              \
	X(THREAD_START, "thread start")                                                            \
	X(THREAD_END, "thread end")                                                                \
	X(MODULE, "module")

enum probe {
#define X(name, text) PROBE_##name,
	PROBES(X)
#undef X
};

static uint64_t modules;

static uint32_t counter(enum probe probe)
{
	static const char *const names[] = {
#define X(name, text) text,
		PROBES(X)
#undef X
	};

	return counter_named(ENGINE_TOOL_PROBE, probe, names[probe]);
}

static void block(struct insert *insert, const struct point *point)
{
	inline_count(insert, counter(PROBE_BLOCK), 1);
}

static void before(struct insert *insert, const struct point *point)
{
	inline_count(insert, counter(PROBE_BEFORE), 1);
}

/* Counts if the last byte of the operand is in another line than its first. */
static void crossing_count(struct insert *insert, unsigned operand, uint32_t size, enum probe probe)
{
	if (size < 2 || size > LINE)
		return;
	inline_address(insert, INLINE_A, operand);
	inline_and(insert, INLINE_A, LINE - 1);
	inline_only_if(insert, INLINE_A, INLINE_NOT_BELOW, (int32_t)(LINE - size + 1));
	inline_count(insert, counter(probe), 1);
}

static void access(struct insert *insert, const struct point *point)
{
	inline_count(insert, counter(PROBE_ACCESS), 1);
	crossing_count(insert, point->access.operand, point->access.size, PROBE_CROSSED);
}

static void after(struct insert *insert, const struct point *point)
{
	unsigned number = 0;

	inline_count(insert, counter(PROBE_AFTER), 1);
	for (unsigned i = 0; i < point->insn->operand_count; i++)
		if (insert_is_access(point->insn, &point->operands[i]))
			crossing_count(insert, number++, point->operands[i].size / 8,
				       PROBE_CROSSED_AFTER);
}

/* The engine is called with the target. */
static void call(struct insert *insert, const struct point *point)
{
	counter(PROBE_CALL);
	inline_target(insert, INLINE_A);
	inline_call(insert, ENGINE_TOOL_PROBE, counter(PROBE_CALL_TARGETS), 1);
}

static void called(struct thread *thread, uint32_t number, const uint64_t *values)
{
	*counter_value(thread, number) += values[0];
	++*counter_value(thread, counter(PROBE_CALL));
}

/* The same without a call. */
static void back(struct insert *insert, const struct point *point)
{
	uint32_t sum = counter(PROBE_RETURN_TARGETS);

	inline_count(insert, counter(PROBE_RETURN), 1);
	inline_target(insert, INLINE_A);
	inline_load(insert, INLINE_B, sum);
	inline_sum(insert, INLINE_A, INLINE_B);
	inline_store(insert, sum, INLINE_A);
}

static void branch(struct insert *insert, const struct point *point)
{
	inline_count(insert, counter(PROBE_BRANCH), 1);
}

static void segment_end(struct insert *insert, const struct point *point)
{
	inline_gate(insert, ENGINE_TOOL_PROBE);
	inline_count(insert, counter(PROBE_SEGMENT), 1);
}

static void on_syscall(struct thread *thread)
{
	++*counter_value(thread, counter(PROBE_SYSTEM_CALL));
}

static void thread_start(struct thread *thread)
{
	++*counter_value(thread, counter(PROBE_THREAD_START));
	counter(PROBE_SYSTEM_CALL);
	counter(PROBE_THREAD_END);
	counter(PROBE_MODULE);
}

static void thread_end(struct thread *thread)
{
	++*counter_value(thread, counter(PROBE_THREAD_END));
	*counter_value(thread, counter(PROBE_MODULE)) = modules;
}

static void module(const struct region *region, const char *path)
{
	modules++;
}

const struct tool tool_probe = {
	.block = block,
	.before = before,
	.access = access,
	.call = call,
	.back = back,
	.branch = branch,
	.after = after,
	.segment_end = segment_end,
	.called = called,
	.thread_start = thread_start,
	.thread_end = thread_end,
	.module = module,
	.syscall = on_syscall,
};
