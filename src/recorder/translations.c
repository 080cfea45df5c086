// SPDX-License-Identifier: BSD-2-Clause
/*
 * Translations on request.
 *
 *	in	requests of runs, which met code without a translation, with the bytes of that code
 *	out	translations in the kernel's table (block_table.c), and for replay.c
 *	owner	the source of samples (sampler_source.c)
 *
 * 1. A serial number stands for one translation for ever: a record in flight names what really ran.
 * 2. When the kernel's maps are full, all of them are emptied at once and fill again with what is
 *    hot. Translations of the time before are kept for the runs that are still under way
 *    (translations_settle()).
 */
#include "recorder/translations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "isa/lift.h"

enum {
	FOLLOW_MAX = 128, /* blocks translated per request */
	FOLLOW_BUSY = 2, /* the same when translating takes too much time */
	FOLLOW_AHEAD = 32, /* the same for code that was not requested yet */
	FAR_MAX = 16, /* jumps through memory that are followed per request */
	BUDGET_PERCENT = 3, /* of a CPU, for what was not asked for */
	BUDGET_NS =
		800 * NS_PER_MS, /* that may be saved up: code is cold when a recording begins */
	READ_MAX = UOP_CODE_MAX + 16, /* bytes that a block can need */
	WINDOWS = 4,
	WINDOW_SIZE = 1024, /* a power of two */
};

struct translations {
	struct sampler *sampler;
	struct loadmap *loadmap;
	ARRAY(struct translation *) all; /* serial - first_serial */
	uint64_t budget_at; /* when budget_left was right */
	uint64_t budget_left;
	uint32_t first_serial;
	uint32_t current_from; /* serials below are of the time before the maps were emptied */
	uint32_t needed_from; /* what current_from was at the last translations_settle() */
};

/* A window of code that was read: the blocks after a block mostly lie close to it. */
struct code_window {
	uint64_t start;
	size_t size; /* 0: nothing */
	uint8_t code[WINDOW_SIZE];
};

/* Where code comes from. */
struct code_source {
	struct code_window windows[WINDOWS];
	unsigned next_window; /* the oldest */
	struct sampler *sampler; /* reads the kernel's */
	const struct run_wanted *wanted;
	int fd; /* -1: only the bytes of the request */
	uint64_t start, end; /* module addresses that the file has */
	uint64_t offset; /* of start in the file */
};

/* Addresses in the module to translate. */
struct agenda {
	uint64_t addresses[FOLLOW_MAX];
	bool called[FOLLOW_MAX]; /* by a call of the code that is translated */
	size_t count;
	size_t limit;
	uint64_t slots[FAR_MAX]; /* of the module, which hold where code of others begins */
	size_t slot_count;
};

uint32_t translations_module_number(struct module_id module)
{
	return module.v ? RUN_MODULE_FIRST + module.v : RUN_MODULE_NONE;
}

struct module_id translations_module_id(uint32_t number)
{
	if (number <= RUN_MODULE_FIRST || number & RUN_MODULE_PRIVATE)
		return (struct module_id){ 0 };
	return (struct module_id){ number - RUN_MODULE_FIRST };
}

void translations_create(struct sampler *sampler, struct loadmap *loadmap,
			 struct translations **ret)
{
	struct translations *translations = mem_zalloc(sizeof(*translations));

	translations->sampler = sampler;
	translations->loadmap = loadmap;
	translations->first_serial = translations->current_from = translations->needed_from = 1;
	translations->budget_at = clock_monotonic();
	translations->budget_left = BUDGET_NS;
	*ret = translations;
}

/* Without the operations that the block does not have. */
static struct translation *translation_create(const struct block_key *key, uint32_t serial,
					      const struct uop_block *block)
{
	size_t size = offsetof(struct uop_block, uops) + block->count * sizeof(struct uop);
	struct translation *translation = mem_alloc(offsetof(struct translation, block) + size);

	translation->key = *key;
	translation->serial = serial;
	translation->follower = NULL;
	translation->notes = NULL;
	translation->operands = NULL;
	translation->called = false;
	memcpy(&translation->block, block, size);
	return translation;
}

static void translation_destroy(struct translation *translation)
{
	free(translation->notes);
	free(translation->operands);
	free(translation);
}

struct translation_note *translations_note(struct translation *translation, uint32_t number)
{
	if (!translation->notes)
		translation->notes = mem_zalloc((translation->block.instructions + 1u) *
						sizeof(*translation->notes));
	return &translation->notes[number];
}

void translations_destroy(struct translations *translations)
{
	if (!translations)
		return;
	array_each(&translations->all, translation)
		translation_destroy(*translation);
	array_deinit(&translations->all);
	free(translations);
}

struct translation *translations_get(const struct translations *translations, uint32_t serial)
{
	if (serial < translations->first_serial ||
	    serial - translations->first_serial >= translations->all.count)
		return NULL;
	return translations->all.items[serial - translations->first_serial];
}

/* Finds the translation by any of its instructions, as the kernel does. */
static struct translation *find(const struct translations *translations,
				const struct block_key *key)
{
	return translations_get(translations, sampler_find_block(translations->sampler, key));
}

/* --- Translating ------------------------------------------------------------------------------ */

static void start_over(struct translations *translations)
{
	log_debug("translations fill the kernel's maps: starting over");
	translations->current_from = translations->first_serial + (uint32_t)translations->all.count;
	sampler_forget_blocks(translations->sampler);
}

static void drop_until(struct translations *translations, uint32_t serial)
{
	uint32_t dropped = serial - translations->first_serial;

	if (!dropped)
		return;
	for (uint32_t i = 0; i < dropped; i++)
		translation_destroy(translations->all.items[i]);
	memmove(translations->all.items, translations->all.items + dropped,
		(translations->all.count - dropped) * sizeof(*translations->all.items));
	translations->all.count -= dropped;
	array_each(&translations->all, translation)
		(*translation)->follower = NULL; /* it may be one that was dropped */
	translations->first_serial = serial;
}

void translations_settle(struct translations *translations)
{
	drop_until(translations, translations->needed_from);
	translations->needed_from = translations->current_from;
}

static int publish(struct translations *translations, const struct block_key *key,
		   const struct uop_block *block)
{
	uint32_t serial = translations->first_serial + (uint32_t)translations->all.count;
	int err = sampler_publish_block(translations->sampler, key, block, serial);

	if (err == -ENOSPC) {
		start_over(translations);
		err = sampler_publish_block(translations->sampler, key, block, serial);
	}
	if (err)
		return err;
	*array_push(&translations->all) = translation_create(key, serial, block);
	return 0;
}

/* There is no more than the bytes of the request. */
static bool is_all(const struct code_source *source)
{
	return source->fd < 0 && source->wanted->key.module != RUN_MODULE_KERNEL;
}

static size_t code_read(const struct code_source *source, uint64_t address, void *ret, size_t size)
{
	ssize_t got;

	if (source->wanted->key.module == RUN_MODULE_KERNEL)
		return sampler_kernel_text(source->sampler, address, ret, size);
	if (source->fd < 0 || address < source->start || address >= source->end)
		return 0;
	got = pread(source->fd, ret, size, (off_t)(address - source->start + source->offset));
	return got > 0 ? (size_t)got : 0;
}

/* The window that has what a block at the address can need; NULL: there is not so much. */
static const struct code_window *window_at(struct code_source *source, uint64_t address)
{
	struct code_window *window;

	for (size_t i = 0; i < WINDOWS; i++) {
		window = &source->windows[i];
		if (address - window->start < window->size &&
		    window->size - (address - window->start) >= READ_MAX)
			return window;
	}
	window = &source->windows[source->next_window++ % WINDOWS];
	window->start = address & ~(WINDOW_SIZE / 2 - 1ull);
	window->size = code_read(source, window->start, window->code, WINDOW_SIZE);
	return window->size >= address - window->start + READ_MAX ? window : NULL;
}

/* Code at a module address; how many bytes there are. */
static size_t source_read(struct code_source *source, uint64_t address,
			  uint8_t ret[static READ_MAX])
{
	uint64_t into = address - source->wanted->key.address;
	const struct code_window *window;

	if (into < source->wanted->code_size) {
		size_t size = source->wanted->code_size - into;

		if (size >= READ_MAX || is_all(source)) {
			size = size < READ_MAX ? size : READ_MAX;
			memcpy(ret, source->wanted->code + into, size);
			return size;
		}
	}
	window = window_at(source, address);
	if (!window)
		return code_read(source, address, ret, READ_MAX);
	memcpy(ret, window->code + (address - window->start), READ_MAX);
	return READ_MAX;
}

static void source_begin(struct translations *translations, const struct run_wanted *wanted,
			 struct code_source *ret)
{
	uint64_t bias = wanted->pc - wanted->key.address;
	struct loadmap_process *process;
	struct loadmap_mapping mapping;

	for (size_t i = 0; i < WINDOWS; i++)
		ret->windows[i].size = 0;
	ret->next_window = 0;
	ret->sampler = translations->sampler;
	ret->wanted = wanted;
	ret->fd = -1;
	if (!translations_module_id(wanted->key.module).v)
		return;
	process = loadmap_process_at(translations->loadmap, wanted->record.image.tgid,
				     wanted->record.time);
	if (!loadmap_find(translations->loadmap, process, wanted->pc, wanted->record.time,
			  &mapping))
		return;
	ret->fd = mapping.module->fd;
	ret->start = mapping.start - bias;
	ret->end = mapping.end - bias;
	ret->offset = mapping.offset;
}

static void agenda_add(struct agenda *agenda, uint64_t address, bool called)
{
	size_t at = 0;

	while (at < agenda->count && agenda->addresses[at] != address)
		at++;
	if (at == agenda->limit)
		return;
	if (at == agenda->count) {
		agenda->addresses[agenda->count++] = address;
		agenda->called[at] = false;
	}
	agenda->called[at] |= called;
}

/*
 * A jump by way of a fixed place in memory: what calls functions of other modules. Nothing else
 * tells before it is executed where they are.
 */
static void slot_add(const struct uop_block *block, unsigned at, struct agenda *agenda)
{
	const struct uop *jump = &block->uops[at], *load = at ? jump - 1 : jump;

	for (unsigned i = 0; i < at; i++)
		if (block->uops[i].op == UOP_OP_LOAD && block->uops[i].dst == jump->a)
			load = &block->uops[i];
	if (load->op == UOP_OP_LOAD && load->dst == jump->a && load->a == UOP_BIAS &&
	    load->b == UOP_NONE && load->size == 8 && load->at == jump->at &&
	    agenda->slot_count < FAR_MAX)
		agenda->slots[agenda->slot_count++] = (uint64_t)load->imm;
}

/* Where a block can go on, as far as its code tells. */
static void successors_add(const struct uop_block *block, struct agenda *agenda)
{
	for (unsigned i = 0; i < block->count; i++) {
		const struct uop *uop = &block->uops[i];

		if (uop->op == UOP_OP_BRANCH || uop->op == UOP_OP_BRANCH_ZERO ||
		    uop->op == UOP_OP_JUMP)
			agenda_add(agenda, (uint64_t)uop->imm, uop->flags & UOP_CALL);
		if (uop->flags & UOP_CALL && (uop->op == UOP_OP_JUMP || uop->op == UOP_OP_JUMP_TO))
			agenda_add(agenda, block->pc + block->length, false);
		if (uop->op == UOP_OP_JUMP_TO && !(uop->flags & UOP_RET))
			slot_add(block, i, agenda);
	}
}

static int translate(struct translations *translations, struct code_source *source,
		     uint64_t address, struct agenda *agenda)
{
	struct block_key key = { .address = address, .module = source->wanted->key.module };
	bool asked = address == source->wanted->key.address;
	struct translation *known = find(translations, &key);
	uint8_t code[READ_MAX];
	struct uop_block block;
	size_t size;

	if (known && !(asked && source->wanted->stale)) {
		successors_add(&known->block, agenda);
		return 0;
	}
	size = source_read(source, address, code);
	if (!size)
		return 0;
	lift_block(code, size, address, &block);
	if (!block.length) /* bytes were lacking; they may be there the next time */
		return 0;
	/* Translations of what the bytes at hand cut off would be replaced at once. */
	if (!asked && size < READ_MAX && block.length + 16u > size)
		return 0;
	successors_add(&block, agenda);
	return publish(translations, &key, &block);
}

/* Code that never repeats, a compiler's say, is not worth following. */
static size_t follow_limit(struct translations *translations, uint64_t now)
{
	translations->budget_left += (now - translations->budget_at) * BUDGET_PERCENT / 100;
	translations->budget_at = now;
	if (translations->budget_left > BUDGET_NS)
		translations->budget_left = BUDGET_NS;
	return translations->budget_left ? FOLLOW_MAX : FOLLOW_BUSY;
}

/* since: of clock_thread(). On a busy machine time passes without anything being done. */
static void budget_spend(struct translations *translations, uint64_t since)
{
	uint64_t spent = clock_thread() - since;

	translations->budget_left -= spent < translations->budget_left ? spent
								       : translations->budget_left;
}

/* Where calls go functions begin, and who jumps there calls them, too. */
static void called_note(struct translations *translations, const struct run_wanted *wanted,
			const struct agenda *agenda)
{
	struct block_key key = { .module = wanted->key.module };

	for (size_t i = 0; i < agenda->count; i++) {
		struct translation *translation;

		if (!agenda->called[i])
			continue;
		key.address = agenda->addresses[i];
		translation = find(translations, &key);
		if (translation && translation->key.address == key.address)
			translation->called = true;
	}
}

static int follow(struct translations *translations, const struct run_wanted *wanted,
		  struct agenda *agenda)
{
	struct code_source source;
	int err = 0;

	agenda->count = 0;
	agenda_add(agenda, wanted->key.address, false);
	source_begin(translations, wanted, &source);
	for (size_t i = 0; i < agenda->count && !err; i++)
		err = translate(translations, &source, agenda->addresses[i], agenda);
	if (!err)
		called_note(translations, wanted, agenda);
	return err;
}

/* --- Ahead ------------------------------------------------------------------------------------ */

/* A request that the kernel has not made, for code at a run-time address; false: there is none. */
static bool wanted_make(struct translations *translations, struct loadmap_process *process,
			uint64_t pc, struct run_wanted *wanted)
{
	struct loadmap_mapping mapping;

	wanted->pc = wanted->key.address = pc;
	wanted->key.module = RUN_MODULE_KERNEL;
	if (pc >> 63)
		return true;
	if (!process ||
	    !loadmap_find(translations->loadmap, process, pc, wanted->record.time, &mapping))
		return false;
	wanted->key.module = translations_module_number(mapping.module->id);
	wanted->key.address = pc - mapping.bias - mapping.module->base;
	return wanted->key.module != RUN_MODULE_NONE;
}

static int ahead(struct translations *translations, struct loadmap_process *process, uint64_t pc,
		 struct run_wanted *wanted)
{
	struct agenda agenda = { .limit = FOLLOW_AHEAD };

	if (!wanted_make(translations, process, pc, wanted) || find(translations, &wanted->key))
		return 0;
	return follow(translations, wanted, &agenda);
}

/* Code of other modules that the translated code goes to, as the process has bound it. */
static int far_follow(struct translations *translations, const struct run_wanted *wanted,
		      const struct agenda *agenda)
{
	uint64_t bias = wanted->pc - wanted->key.address;
	struct run_wanted other = { .record = wanted->record };
	struct loadmap_process *process;
	int err = 0;

	if (!agenda->slot_count || wanted->key.module == RUN_MODULE_KERNEL)
		return 0;
	process = loadmap_process_at(translations->loadmap, wanted->record.image.tgid,
				     wanted->record.time);
	for (size_t i = 0; i < agenda->slot_count && !err; i++) {
		uint64_t target = 0;
		struct iovec here = { &target, sizeof(target) };
		struct iovec there = { (void *)(bias + agenda->slots[i]), sizeof(target) };

		if (process_vm_readv((pid_t)wanted->record.image.tgid, &here, 1, &there, 1, 0) ==
			    sizeof(target) &&
		    !(target >> 63))
			err = ahead(translations, process, target, &other);
	}
	return err;
}

int translations_want(struct translations *translations, const struct run_wanted *wanted)
{
	uint64_t begun = clock_thread();
	struct agenda agenda = { .limit = follow_limit(translations, clock_monotonic()) };
	int err;

	if (wanted->code_size > RUN_CODE_BYTES)
		return 0;
	err = follow(translations, wanted, &agenda);
	if (!err && agenda.limit > FOLLOW_BUSY)
		err = far_follow(translations, wanted, &agenda);
	budget_spend(translations, begun);
	return err;
}

int translations_ahead(struct translations *translations, const struct sample_stack *stack)
{
	uint64_t begun = clock_thread();
	struct run_wanted wanted = { .record = stack->record };
	struct loadmap_process *process = NULL;
	unsigned count = stack->kernel_count + stack->user_count;
	int err = 0;

	if (follow_limit(translations, clock_monotonic()) == FOLLOW_BUSY)
		return 0;
	if (stack->user_count)
		process = loadmap_process_at(translations->loadmap, stack->record.image.tgid,
					     stack->record.time);
	for (unsigned i = 0; i < count && !err; i++)
		err = ahead(translations, process, stack->frames[i], &wanted);
	budget_spend(translations, begun);
	return err;
}
