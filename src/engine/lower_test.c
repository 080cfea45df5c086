// SPDX-License-Identifier: BSD-2-Clause
/*
 * Serves: W1.
 *
 * Lists of random operations are lowered and executed one instruction at a time. At each
 * instruction the state is translated back: the program's registers and flags must be what they
 * were before, but for those that are dead. What has happened so far can be taken back, and what
 * has not can be done; both by the interpreter, which shares nothing with the code. At the end
 * memory must be what the interpreter makes of it.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/translations.h"
#include "engine/build.h"
#include "engine/stream.h"

enum {
	LISTS = 6000,
	COUNTERS = 8,
	WORDS = 8, /* of memory that is loaded and stored by address */
	SET_GS = 0x1001,
	TRAP_FLAG = 0x100,
	STATUS = 0x8d5,
	PAGE = 4096,
	MEMORY = THREAD_COUNTS + PAGE,
};

/* What operations change. */
struct effects {
	uint64_t counters[COUNTERS];
	uint64_t words[WORDS];
	uint64_t addresses[2];
	uint64_t calls, values[3];
};

static struct thread *thread;
static uint64_t words[WORDS];
static uint64_t calls, values[3];
static uint8_t *code;
static sigjmp_buf done;
static uint64_t seed = 20260101;

/* The list in hand. */
static struct {
	struct inserted head;
	struct inline_op ops[INSERT_OPS_MAX];
} list;
static struct build forward;
static struct place place;
static uint64_t regs[16], flags, target;
static const uint8_t *instruction;
static struct effects at_first, at_last;
static char failure[200];

static uint64_t random_word(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 33 ^ seed << 17;
}

static unsigned random_below(unsigned limit)
{
	return (unsigned)(random_word() >> 7) % limit;
}

/* --- What the engine has elsewhere ------------------------------------------------------- */

struct engine_boot engine_boot;
static void called(struct thread *who, uint32_t number, const uint64_t *given)
{
	calls++;
	for (size_t i = 0; i < number; i++)
		values[i] = given[i];
}
static const struct tool tool_test = { .called = called };

uint64_t fault_countdown;

void fault_step(enum engine_failure what)
{
}

void engine_die(const char *what)
{
	print_error("%s\n", what);
	abort();
}
const struct tool *tool_of(unsigned number)
{
	return &tool_test;
}
uint8_t *stream_counts(struct thread *who)
{
	return (uint8_t *)who + THREAD_COUNTS;
}
const struct stream_gates *stream_gates(struct thread *who)
{
	return (const struct stream_gates *)((uint8_t *)who + THREAD_GATES);
}
void stream_append(struct thread *who, uint32_t segment)
{
}
void stream_unappend(struct thread *who, uint32_t segment)
{
}
void tools_segment_list(struct insert *ret, uint32_t segment)
{
}
size_t code_read(uint64_t pc, uint8_t *ret, size_t size)
{
	return 0;
}
bool translator_runs;

void translator_word(const struct build *build, const uint8_t *at, enum translation_word_kind kind)
{
}

void translator_refuse(void)
{
}

bool put_lea(struct build *build, const struct gs_lea *lea)
{
	put_bytes(build, lea->bytes, lea->length);
	return true;
}

/* --- Effects ----------------------------------------------------------------------------- */

static void effects_take(struct effects *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->counters, stream_counts(thread), sizeof(ret->counters));
	memcpy(ret->words, words, sizeof(words));
	memcpy(ret->addresses, thread->addresses, sizeof(ret->addresses));
	ret->calls = calls;
	memcpy(ret->values, values, sizeof(values));
}

static void effects_give(const struct effects *from)
{
	memcpy(stream_counts(thread), from->counters, sizeof(from->counters));
	memcpy(words, from->words, sizeof(words));
	memcpy(thread->addresses, from->addresses, sizeof(from->addresses));
	calls = from->calls;
	memcpy(values, from->values, sizeof(values));
}

static struct inline_values inline_values_now(void)
{
	return (struct inline_values){ target, { regs[RBX] + regs[R12] * 4 + 16, 0 } };
}

static bool can_be_undone(void)
{
	for (unsigned i = 0; i < list.head.count; i++)
		if (list.ops[i].kind == INLINE_STORE || list.ops[i].kind == INLINE_STORE_AT ||
		    list.ops[i].kind == INLINE_CALL || list.ops[i].kind == INLINE_MARK ||
		    list.ops[i].kind == INLINE_KEEP || list.ops[i].kind == INLINE_LOAD ||
		    list.ops[i].kind == INLINE_LOAD_AT)
			return false;
	return true;
}

/* Units that have happened, taken back; the others, done. */
static void settle_check(unsigned happened, uint64_t rip)
{
	struct inline_values now = inline_values_now();
	struct effects before, after;

	effects_take(&before);
	inline_do(thread, list.ops, list.head.count, happened, &now);
	effects_take(&after);
	if (memcmp(&after, &at_last, sizeof(after)) && !*failure)
		snprintf(failure, sizeof(failure), "at %#llx: the rest was not done as it should",
			 (unsigned long long)(rip - (uint64_t)code));
	effects_give(&before);
	if (!can_be_undone())
		return;
	inline_undo(thread, list.ops, list.head.count, happened, &now);
	effects_take(&after);
	if (memcmp(&after, &at_first, sizeof(after)) && !*failure)
		snprintf(failure, sizeof(failure), "at %#llx: not taken back",
			 (unsigned long long)(rip - (uint64_t)code));
	effects_give(&before);
}

/* --- Execution --------------------------------------------------------------------------- */

static const int order[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
			       REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
			       REG_R12, REG_R13, REG_R14, REG_R15 };

static void list_back(uint64_t rip, struct build *ret)
{
	struct place back_place = place;

	*ret = forward;
	ret->at = code;
	ret->back = true;
	ret->wanted = (const uint8_t *)rip;
	back_place.happened = &ret->before[0];
	inserted_put(ret, &list.head, &back_place);
}

static void registers_check(const struct build *back, uint64_t rip)
{
	uint64_t live_flags = list.head.flags_dead ? 0 : STATUS;

	for (unsigned i = 0; i < 16; i++)
		if (thread->regs[i] != regs[i] && !(list.head.dead >> i & 1) && !*failure)
			snprintf(failure, sizeof(failure), "at %#llx: register %u",
				 (unsigned long long)(rip - (uint64_t)code), i);
	if ((thread->flags ^ flags) & live_flags && !*failure)
		snprintf(failure, sizeof(failure), "at %#llx: flags %#llx",
			 (unsigned long long)(rip - (uint64_t)code),
			 (unsigned long long)thread->flags);
	settle_check(back->state_before[0].units, rip);
}

static void step(greg_t *context)
{
	uint64_t rip = (uint64_t)context[REG_RIP], saved[16];
	struct build back;

	if (rip == thread->on_tool) { /* a call: everything must be clean */
		for (unsigned i = 0; i < 16; i++)
			thread->regs[i] = (uint64_t)context[order[i]];
		called(thread, (uint32_t)thread->called, thread->arguments);
		context[REG_RIP] = (greg_t)thread->next;
		rip = thread->next;
	}
	memcpy(saved, thread->regs, sizeof(saved));
	list_back(rip, &back);
	for (unsigned i = 0; i < 16; i++)
		thread->regs[i] = (uint64_t)context[order[i]];
	thread->flags = (uint64_t)context[REG_EFL];
	registers_back(thread, &back);
	registers_check(&back, rip);
}

static void on_trap(int number, siginfo_t *info, void *given)
{
	greg_t *context = ((ucontext_t *)given)->uc_mcontext.gregs;

	step(context);
	if ((uint64_t)context[REG_RIP] == (uint64_t)forward.at || *failure)
		siglongjmp(done, 1);
}

static void on_start(int number, siginfo_t *info, void *given)
{
	greg_t *to = ((ucontext_t *)given)->uc_mcontext.gregs;

	for (unsigned i = 0; i < 16; i++)
		to[order[i]] = (greg_t)regs[i];
	if (place.state & STATE_SPILLED) {
		thread->spill[0] = regs[RCX];
		thread->spill[1] = regs[RDX];
		to[REG_RCX] = 0x1234;
		to[REG_RDX] = (greg_t)target;
	}
	to[REG_EFL] = (greg_t)(flags | TRAP_FLAG);
	to[REG_RIP] = (greg_t)(uint64_t)code;
}

/* --- Lists ------------------------------------------------------------------------------- */

static struct inline_op value_random(bool spilled, unsigned reg)
{
	struct inline_op op = { .to = (uint8_t)reg, .from = (uint8_t)random_below(reg + 1) };

	switch (random_below(10)) {
	case 0:
		op.kind = INLINE_GENERAL;
		op.from = (uint8_t)random_below(16);
		break;
	case 1:
		op.kind = spilled ? INLINE_TARGET : INLINE_ADDRESS;
		break;
	case 2:
		op.kind = INLINE_ADD;
		op.value = (int32_t)random_word();
		break;
	case 3:
		op.kind = INLINE_SUM;
		break;
	case 4:
		op.kind = INLINE_AND;
		op.value = (int32_t)random_word();
		break;
	case 5:
		op.kind = INLINE_SHIFT;
		op.value = (int32_t)random_below(63) - 31;
		break;
	case 7:
		op.kind = INLINE_COMPLEMENT;
		break;
	case 6:
		op.kind = INLINE_LOAD;
		op.value = (int32_t)random_below(COUNTERS) * 8;
		break;
	default:
		op.kind = INLINE_CONST;
		op.value = (int32_t)random_word();
	}
	return op;
}

/* Registers of the language are set before anything else uses them. */
static void unit_random(struct insert *insert, bool spilled)
{
	static const uint8_t sizes[] = { 1, 2, 4, 8 };
	unsigned size = sizes[random_below(4)], count = 1 + random_below(INLINE_REGISTERS);
	uint64_t word = (uint64_t)&words[random_below(WORDS)];

	if (!random_below(3))
		inline_gate(insert, (enum engine_tool)random_below(ENGINE_TOOLS_END));
	for (unsigned i = 0; i < count; i++)
		inline_const(insert, (enum inline_register)i, random_word());
	for (unsigned i = 0; i < 2; i++)
		insert->ops[insert->count++] = value_random(spilled, random_below(count));
	if (!random_below(3))
		inline_only_if(insert, (enum inline_register)random_below(count),
			       (enum inline_condition)random_below(4), (int32_t)random_word());
	switch (random_below(8)) {
	case 0:
		inline_mark(insert, random_below(COUNTERS * 8));
		break;
	case 1:
		inline_store(insert, random_below(COUNTERS) * 8,
			     (enum inline_register)random_below(count));
		break;
	case 2:
		inline_const(insert, INLINE_D, word);
		inline_load_at(insert, INLINE_C, INLINE_D, size);
		inline_store_at(insert, INLINE_D, INLINE_A, size);
		break;
	case 3:
		count = count < 3 ? count : 3;
		inline_call(insert, ENGINE_TOOL_CALLS, count, count);
		break;
	default:
		inline_count(insert, random_below(COUNTERS) * 8, 1 + random_below(1000));
	}
}

static void count_random(struct insert *insert)
{
	if (!random_below(2))
		inline_gate(insert, (enum engine_tool)random_below(ENGINE_TOOLS_END));
	inline_count(insert, random_below(COUNTERS) * 8, 1 + random_below(2));
}

static void list_random(void)
{
	static const uint8_t access[] = { 0x4a, 0x8b, 0x44, 0xa3,
					  0x10 }; /* mov 16(%rbx,%r12,4), %rax */
	bool spilled = !random_below(3), simple = !random_below(3);
	struct insert insert = {};

	for (unsigned i = 0, units = 1 + random_below(2); i < units; i++)
		simple ? count_random(&insert) : unit_random(&insert, spilled);
	memset(&list, 0, sizeof(list));
	list.head.count = (uint8_t)insert.count;
	list.head.dead = (uint16_t)(random_word() & random_word() & ~(1u << RSP));
	list.head.flags_dead = random_below(2);
	list.head.point = spilled ? POINT_TRANSFER : POINT_BEFORE;
	memcpy(list.ops, insert.ops, sizeof(insert.ops));
	instruction = access;
	forward = (struct build){ .at = code, .pc = 0x1000, .code = instruction };
	forward.insn.length = sizeof(access);
	place = (struct place){ 0x1000, spilled ? STATE_SPILLED : 0, &forward.before[0] };
	if (spilled)
		list.head.dead &= (uint16_t) ~(1u << RDX | 1u << RCX);
}

static void state_random(void)
{
	for (unsigned i = 0; i < 16; i++)
		regs[i] = random_word();
	regs[RSP] = (uint64_t)thread + THREAD_ENGINE_STACK + 0x8000;
	flags = 0x202 | (random_word() & STATUS);
	target = random_word();
	for (unsigned i = 0; i < ENGINE_TOOLS_END; i++)
		((struct stream_gates *)stream_gates(thread))->closed[i] = random_below(2);
	for (unsigned i = 0; i < WORDS; i++)
		words[i] = random_word();
	for (unsigned i = 0; i < COUNTERS; i++)
		((uint64_t *)stream_counts(thread))[i] = random_word();
}

static void last_find(void)
{
	struct inline_values now = inline_values_now();

	effects_take(&at_first);
	memcpy(thread->regs, regs, sizeof(regs));
	inline_do(thread, list.ops, list.head.count, 0, &now);
	effects_take(&at_last);
	effects_give(&at_first);
}

static void list_test(unsigned number)
{
	struct effects end;

	list_random();
	state_random();
	last_find();
	inserted_put(&forward, &list.head, &place);
	*failure = 0;
	if (!sigsetjmp(done, 1))
		raise(SIGUSR1);
	effects_take(&end);
	if (!*failure && memcmp(&end, &at_last, sizeof(end)))
		snprintf(failure, sizeof(failure), "other effects");
	if (*failure)
		fail_msg("list %u: %s", number, failure);
}

static void test_random_lists(void **state)
{
	for (unsigned i = 0; i < LISTS; i++)
		list_test(i);
}

static int setup(void **state)
{
	static uint8_t stack[1 << 16];
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };

	thread = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (thread == MAP_FAILED || code == MAP_FAILED)
		return -1;
	memset(code + PAGE, 0x90, PAGE);
	thread->on_tool = (uint64_t)code + PAGE;
	sigaltstack(&alternate, NULL);
	action.sa_sigaction = on_trap;
	sigaction(SIGTRAP, &action, NULL);
	action.sa_sigaction = on_start;
	sigaction(SIGUSR1, &action, NULL);
	return (int)syscall(SYS_arch_prctl, SET_GS, thread);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_lists) };

	return cmocka_run_group_tests(tests, setup, NULL);
}
