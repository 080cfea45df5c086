// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts reads and writes of data that is marked, by the instruction that does them
 * (wire/mark_data.h).
 *
 *	in	tables of marks, and the instructions and modules of the program
 *	out	inline code at instructions that access memory, and ranges that are marked
 *	owner	the process; the caller holds the engine's lock where marks are applied
 *
 * mark_shadow.h finds ranges by address, mark_touch.h counts, and mark_allocations.h marks memory
 * that the program allocates. This file is the tool: it puts code into the program, and applies
 * marks as they come and go.
 */
#include "engine/stream.h"
#include "engine/sys.h"
#include "engine/tool.h"
#include "engine/tools/mark_allocations.h"
#include "engine/tools/mark_touch.h"
#include "engine/tools/marks.h"

enum {
	SITE_ALLOCATES = 1 << 21, /* a call that may be an allocation; the rest: the mark */
	SITE_BACK = 1 << 22, /* where it comes back */
	SITE_ALLOCATION = 1 << 23, /* a function that allocates; the rest: enum mark_allocation */
	SITE_RELEASE = 1 << 24,
	APPLIED_MAX = 1 << 12, /* modules */
};

static struct applied {
	const struct mark_table *table;
	uint64_t bias;
} applied[APPLIED_MAX]; /* modules whose data is marked */
static uint32_t applied_count;
/*
 * Only while some mark needs it: otherwise no code has anything put in, threads have no filter, and
 * nothing is read.
 */
static bool is_awake;
static uint32_t change; /* marks_generation() that was taken up last */

/* --- Calls of inline code ---------------------------------------------------------------- */

/* Registers that may be dead come as values: code that calls uses what is dead for itself. */
static void called(struct thread *thread, uint32_t number, const uint64_t *values)
{
	if (number & SITE_ALLOCATES)
		allocation_expect(thread, number & (SITE_ALLOCATES - 1));
	else if (number & SITE_BACK)
		allocation_end(thread, values[0]);
	else if (number & SITE_ALLOCATION)
		allocation_begin(thread, number & 3, values);
	else if (number & SITE_RELEASE)
		allocation_release(values[0]);
	else if (number & TOUCH_BEHIND)
		touch_compared(thread, number, values[0]);
	else if (number & TOUCH_COMPARES)
		touch_compares_keep(thread);
	else
		touch_count(thread, number, values[0], 1);
}

/* A string instruction that was interrupted: what it has not done; if it compares, what it has. */
static void taken_back(struct thread *thread, uint32_t number, const uint64_t *values)
{
	if (number & TOUCH_COMPARES)
		touch_compared(thread, number, thread->regs[RCX]);
	else if (number < TOUCH_COMPARES)
		touch_count(thread, number, values[0], (uint64_t)-1);
}

/* --- Places ------------------------------------------------------------------------------ */

static uint32_t number_of(const struct point *point)
{
	return touch_site_of(point) | (point->access.read ? TOUCH_READ : 0) |
	       (point->access.write ? TOUCH_WRITE : 0);
}

/* Instructions whose operand is no access: they move data between caches, or nothing. */
static bool is_hint(const ZydisDecodedInstruction *insn)
{
	return insn->meta.category == ZYDIS_CATEGORY_PREFETCH ||
	       insn->meta.category == ZYDIS_CATEGORY_NOP ||
	       insn->meta.category == ZYDIS_CATEGORY_WIDENOP ||
	       insn->mnemonic == ZYDIS_MNEMONIC_XLAT;
}

static bool compares(const ZydisDecodedInstruction *insn)
{
	return insn->attributes & (ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
}

static void access(struct insert *insert, const struct point *point)
{
	uint32_t number;

	if (!is_awake || is_hint(point->insn) || !point->access.size)
		return;
	number = number_of(point);
	mark_only_counting(insert);
	if (!point->access.repeated) {
		inline_touch(insert, number, &point->access);
	} else if (compares(point->insn)) {
		inline_call(insert, ENGINE_TOOL_MARK_DATA, number | TOUCH_COMPARES, 0);
	} else {
		inline_address(insert, INLINE_A, point->access.operand);
		inline_call(insert, ENGINE_TOOL_MARK_DATA, number | TOUCH_STRING, 1);
	}
}

static void after(struct insert *insert, const struct point *point)
{
	struct point operand = *point;
	unsigned number = 0;

	if (!is_awake || !compares(point->insn))
		return;
	for (unsigned i = 0; i < point->insn->operand_count; i++) {
		if (!insert_is_access(point->insn, &point->operands[i]))
			continue;
		operand.access = (struct access){ .operand = (uint8_t)number++,
						  .read = true,
						  .size = point->operands[i].size / 8 };
		mark_only_counting(insert);
		inline_general(insert, INLINE_A, RCX);
		inline_call(insert, ENGINE_TOOL_MARK_DATA, number_of(&operand) | TOUCH_BEHIND, 1);
	}
}

/* Where a call that may be an allocation comes back. */
static uint64_t backs[1 << 10];
static uint32_t back_count;

static void back_note(uint64_t pc)
{
	const uint32_t room = sizeof(backs) / sizeof(backs[0]);

	for (uint32_t i = 0; i < back_count; i++)
		if (backs[i] == pc)
			return;
	if (back_count < room)
		backs[back_count++] = pc;
}

static void before(struct insert *insert, const struct point *point)
{
	enum { RANGES = 16 };
	const struct mark_module *module = is_awake ? mark_module_of(point->pc) : NULL;
	const struct mark_range *found[RANGES];
	unsigned count = module ? mark_ranges_at(module, point->pc, found, RANGES) : 0;

	for (uint32_t i = 0; i < back_count && is_awake; i++)
		if (backs[i] == point->pc) {
			inline_general(insert, INLINE_A, RAX);
			inline_call(insert, ENGINE_TOOL_MARK_DATA, SITE_BACK, 1);
		}
	for (unsigned i = 0; i < count; i++) {
		uint32_t number = mark_word_number(found[i]->mark);

		if (!insert_has_room(insert, 12))
			break;
		switch (mark_word_use(found[i]->mark)) {
		case MARK_USE_SITE:
			if (point->insn->meta.category != ZYDIS_CATEGORY_CALL ||
			    number >= SITE_ALLOCATES)
				break;
			inline_call(insert, ENGINE_TOOL_MARK_DATA, SITE_ALLOCATES | number, 0);
			back_note(point->pc + point->insn->length);
			break;
		case MARK_USE_ALLOCATE:
			inline_general(insert, INLINE_A, RDI);
			inline_general(insert, INLINE_B, RSI);
			inline_call(insert, ENGINE_TOOL_MARK_DATA, SITE_ALLOCATION | number, 2);
			break;
		case MARK_USE_RELEASE:
			inline_general(insert, INLINE_A, RDI);
			inline_call(insert, ENGINE_TOOL_MARK_DATA, SITE_RELEASE, 1);
			break;
		default:
			break;
		}
	}
}

/* --- Modules ----------------------------------------------------------------------------- */

/*
 * Objects for which there was no room when all marks were applied last; the most that there ever
 * were; and how many of these are in some thread's memory.
 */
static uint32_t unmarked, unmarked_most, unmarked_told;

static void unmarked_tell(struct thread *thread)
{
	mark_data_memory(thread)->unmarked += unmarked_most - unmarked_told;
	unmarked_told = unmarked_most;
}

static void unmarked_add(void)
{
	struct thread *thread = thread_next(NULL);

	if (++unmarked <= unmarked_most)
		return;
	unmarked_most = unmarked;
	while (thread && !mark_is_counting(thread))
		thread = thread_next(thread);
	if (thread)
		unmarked_tell(thread);
}

/* Modules are applied again, one by one. */
static void applied_forget(void)
{
	applied_count = 0;
	unmarked = 0;
}

static void data_apply(const struct mark_table *table, uint64_t bias, bool pinned)
{
	const struct mark_data_range *data = mark_table_data(table);

	shadow_make();
	for (uint32_t i = 0; i < table->data_count; i++) {
		uint64_t start = data[i].start + bias, end = data[i].end + bias;
		uint32_t index = SHADOW_RANGES_MAX;

		if (start >= end)
			continue;
		index = shadow_find(start, end, data[i].mark);
		if (index == SHADOW_RANGES_MAX)
			index = shadow_add(start, end, data[i].mark, false, data[i].event == 1);
		if (index == SHADOW_RANGES_MAX) {
			unmarked_add();
			continue;
		}
		mark_shadow.ranges[index].pinned = pinned;
		mark_shadow.ranges[index].wanted = change;
	}
}

static void module_apply(const struct mark_module *module)
{
	const struct mark_table *table = module ? marks_table(module->table) : NULL;
	uint64_t bias;

	if (!is_awake || !table || !table->data_count ||
	    table->code_offset - module->offset >= module->end - module->start)
		return;
	bias = module->start - module->offset + table->code_offset - table->code_address;
	for (uint32_t i = 0; i < applied_count; i++)
		if (applied[i].table == table && applied[i].bias == bias)
			return;
	if (applied_count == APPLIED_MAX)
		return;
	applied[applied_count++] = (struct applied){ table, bias };
	data_apply(table, bias, false);
}

/* When it is first seen, and when it is executed after it was gone. */
static void module(const struct region *region, const char *path)
{
	module_apply(mark_module_of(region->start));
}

static void block(struct insert *insert, const struct point *point)
{
	if (is_awake)
		module_apply(mark_module_of(point->pc));
}

/* Memory that is no more, or is something else now: of allocations, and of modules. */
static void unmapped(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < mark_shadow.range_count; i++) {
		if (!mark_shadow.ranges[i].end || mark_shadow.ranges[i].pinned ||
		    mark_shadow.ranges[i].end <= start || end <= mark_shadow.ranges[i].start)
			continue;
		shadow_remove(i);
		applied_forget();
	}
}

/* --- Marks that come and go -------------------------------------------------------------- */

/* Whether calls from somewhere are to be marked with it. */
static bool is_site(uint32_t mark)
{
	const struct mark_module *module;

	for (uint32_t i = 0; (module = mark_module_number(i)); i++) {
		const struct mark_table *table = marks_table(module->table);

		for (uint32_t at = 0; table && at < table->count; at++)
			if (mark_word_use(table->ranges[at].mark) == MARK_USE_SITE &&
			    mark_word_number(table->ranges[at].mark) == mark)
				return true;
	}
	return false;
}

/* What was allocated at the same mark follows each other, mostly. */
static void unwanted_remove(void)
{
	uint32_t asked = 0;
	bool stays = false;

	for (uint32_t i = 0; i < mark_shadow.range_count; i++) {
		if (!mark_shadow.ranges[i].end)
			continue;
		if (mark_shadow.ranges[i].heap && mark_shadow.ranges[i].mark != asked) {
			asked = mark_shadow.ranges[i].mark;
			stays = is_site(asked);
		}
		if (mark_shadow.ranges[i].heap ? !stays : mark_shadow.ranges[i].wanted != change)
			shadow_remove(i);
	}
}

/* All that is marked in modules that are there, and at addresses; and nothing else. */
static void marks_apply(void)
{
	const struct mark_table *absolute = marks_table(marks_area()->data);
	const struct mark_module *module;

	applied_forget();
	for (uint32_t i = 0; (module = mark_module_number(i)); i++)
		module_apply(module);
	if (absolute)
		data_apply(absolute, 0, true);
	unwanted_remove();
}

static void thread_prepare(struct thread *thread)
{
	shadow_thread_start(thread);
	unmarked_tell(thread);
	__atomic_store_n(&mark_data_memory(thread)->ready, 1, __ATOMIC_RELEASE);
}

/* Every access is tested from now on, by code that is translated anew. */
static void wake(void)
{
	shadow_make();
	touch_make();
	is_awake = true;
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		if (mark_is_counting(thread))
			thread_prepare(thread);
	cache_forget(0, UINT64_MAX);
}

/* Code that was translated before, and is left at its next exit, finds nothing that is marked. */
static void sleep(void)
{
	is_awake = false;
	cache_forget(0, UINT64_MAX);
}

static void renew(void)
{
	bool needed = mark_tool_is_needed(ENGINE_TOOL_MARK_DATA);

	if (marks_generation() == change)
		return;
	change = marks_generation();
	if (needed && !is_awake)
		wake();
	if (is_awake)
		marks_apply();
	if (!needed && is_awake)
		sleep();
}

/* --- Threads ----------------------------------------------------------------------------- */

static void thread_start(struct thread *thread)
{
	if (is_awake)
		thread_prepare(thread);
}

static void forked(struct thread *thread)
{
	mark_data_forget();
	unmarked_told = 0;
	thread_start(thread);
}

const struct tool tool_mark_data = {
	.block = block,
	.before = before,
	.access = access,
	.after = after,
	.called = called,
	.taken_back = taken_back,
	.module = module,
	.unmapped = unmapped,
	.thread_start = thread_start,
	.thread_end = mark_data_thread_end,
	.forked = forked,
	.renew = renew,
};
