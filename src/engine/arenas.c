// SPDX-License-Identifier: BSD-2-Clause
/*
 * Arenas: executable memory near the code that it holds copies of, and the notes about these
 * copies.
 *
 *	in	addresses of the program near which room is needed, or where it maps something
 *	out	room for code and notes; exits by number; fragments by an address in their code
 *	owner	the process: all its threads share them, under the engine's lock
 *
 * An instruction that addresses memory relative to rip reaches two gigabytes far. A copy within one
 * gigabyte of the original, whose module is smaller than that, needs only another displacement. So
 * each region of the program has arenas near it. The descriptions of an arena's fragments (struct
 * fragment, exits, kept bytes) lie in notes that belong to the arena: both are mapped and unmapped
 * together, and the limit bounds both.
 *
 * Eviction. When a new arena would exceed the limit, the oldest one is given up, or before that one
 * whose code is mostly closed. Its fragments are closed: nothing leads to them any more, but a
 * thread may still be in one. It leaves at the next exit at the latest, which leads to the engine
 * or to a fragment that is not closed. The arena is unmapped when every thread has gone from the
 * engine to the cache since (thread->entered). A thread that stays in the cache for long is made to
 * come: all links are taken back (links_cut).
 *
 *	new arena needed	arena_new -> arenas_reclaim, arena_evict
 *	the program maps there	cache_yield -> arena_evict, arena_unmap
 *	a fault of our own	arenas_reset
 *
 * Invariants (the caller holds the engine's lock)
 * 1. An arena, with its notes, is there as long as a thread may be in it or in the engine with the
 *    number of one of its exits.
 * 2. Arenas are readable, writable and executable: they are private memory, so that fork() copies
 *    them, which two mappings of one file would not allow. docs/design/engine.md has the argument.
 */
#include <linux/mman.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	ARENAS_MAX = 1024,
	ARENA_BYTES = 32 << 20, /* large: later there may be no room near the code */
	ARENA_BYTES_MIN = 1 << 16,
	LIMIT = 256 << 20, /* all arenas */
	FRAGMENT_BYTES = 128, /* there is room for so many, on average */
	EXIT_BYTES = 128,
	EXIT_BITS = 20, /* of an exit's number: which of its arena */
	NOTES_ROOM = 16384, /* that a fragment may take */
	NOTES_ROOM_INSERTED = 30720, /* with what tools insert at instructions */
	EXITS_ROOM = 128,
	FRAGMENTS_ROOM = 64, /* that are taken over at once (translations.c) */
	STUCK_MAX = 3, /* arenas that were given up and are waited for */
	/* microseconds that threads are waited for, which adds up to 5 s */
	YIELD_PAUSE_MIN = 40,
	YIELD_PAUSE_MAX = 1000000,
	POPULATE_MIN = 16 << 10,
	POPULATE_MAX = 256 << 10,
	POPULATE_ROOM = 4 << 10, /* that fragments seldom exceed */
	PAGE_MASK = 4095,
};

/*
 * From code to the arena that holds its copy. Both reach data near the code with 32 bits, so what
 * is left of 2 GB is for data. Where nothing is free that near, as between the heaps of a large
 * java, less is left.
 */
#define REACH (1ull << 30)
#define REACH_MAX (REACH + (768ull << 20))
#define STEP_MAX (64ull << 20) /* between places that are tried for an arena */
#define STEP_MIN (256ull << 10)

struct arena {
	uint8_t *start, *next, *end; /* code; start NULL: there is none */
	size_t bytes; /* of code */
	struct fragment **fragments; /* by address */
	struct exit *exits;
	uint8_t *notes, *notes_next;
	uint8_t *ready[3]; /* up to here code, exits and notes have memory already */
	uint32_t fragment_count, exit_count, closed_count;
	uint64_t born; /* order of arenas */
	uint64_t given_up; /* epoch; 0: in use */
};

static struct arena arenas[ARENAS_MAX];
static size_t arena_count; /* slots that were ever used */
static struct arena *current; /* that room was taken from */
static uint64_t births;
static uint64_t epoch = 1;
static uint64_t crowded; /* the last code near which there was no room; 0: none yet */
static uint64_t heap_end; /* 0: the program's heap has not met an arena */

/* --- Sizes ------------------------------------------------------------------------------- */

static uint64_t limit_bytes(void)
{
	return engine_boot.cache_bytes ? engine_boot.cache_bytes : LIMIT;
}

/* A small cache has small arenas: there must be something to give up. */
static size_t arena_bytes(void)
{
	uint64_t wanted = limit_bytes() / 8 & ~(uint64_t)(ARENA_BYTES_MIN - 1);

	if (wanted > ARENA_BYTES)
		return ARENA_BYTES;
	return wanted < ARENA_BYTES_MIN ? ARENA_BYTES_MIN : wanted;
}

static size_t fragments_max(size_t bytes)
{
	return bytes / FRAGMENT_BYTES;
}

static size_t exits_max(size_t bytes)
{
	return bytes / EXIT_BYTES;
}

/* Lists that are kept of what tools insert are as long as the code. */
static size_t notes_share(size_t bytes)
{
	return tools_insert() ? bytes : bytes / 2;
}

static size_t notes_room(void)
{
	return tools_insert() ? NOTES_ROOM_INSERTED : NOTES_ROOM;
}

/* Fragments by address, exits, notes: one mapping, touched as it is used. */
static size_t notes_bytes(size_t bytes)
{
	return fragments_max(bytes) * sizeof(struct fragment *) +
	       exits_max(bytes) * sizeof(struct exit) + notes_share(bytes);
}

/* --- Arenas ------------------------------------------------------------------------------ */

static bool is_near(const struct arena *arena, uint64_t pc, uint64_t reach)
{
	uint64_t start = (uint64_t)arena->start;

	return start > pc ? start - pc < reach : pc - start < reach;
}

static bool is_heaps(uint64_t address)
{
	return address >= heap_end && address < heap_end + 2 * REACH;
}

static uint8_t *map_at(uint64_t address, size_t bytes)
{
	long result;

	if ((heap_end && is_heaps(address + bytes)) || memory_wanted(address, bytes))
		return NULL;
	result = memory_map_raw(address, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
				MAP_FIXED_NOREPLACE);
	if (sys_failed(result))
		return NULL;
	if ((uint64_t)result == address) {
		memory_note(address, bytes);
		return (uint8_t *)result;
	}
	sys_2(munmap, result, bytes); /* a kernel that does not know the flag */
	return NULL;
}

/* Looks below the code first, because a program's heap grows above the executable. */
static uint8_t *map_in_steps(uint64_t pc, uint64_t reach, uint64_t step, size_t bytes)
{
	uint64_t base = pc & ~(step - 1);
	uint8_t *found = NULL;

	for (uint64_t i = 1; i < reach / step && !found; i++)
		if (base > (i + 1) * step)
			found = map_at(base - i * step, bytes);
	for (uint64_t i = reach / step - 1; i > 0 && !found; i--)
		found = map_at(base + i * step, bytes);
	return found;
}

/*
 * In a crowded address space, such as that of a program with many heaps, it takes smaller steps to
 * find a gap.
 */
static uint8_t *map_near(uint64_t pc, uint64_t reach, size_t bytes)
{
	uint8_t *found = NULL;

	for (uint64_t step = STEP_MAX; step >= STEP_MIN && !found; step /= 16)
		found = map_in_steps(pc, reach, step, bytes);
	return found;
}

static struct arena *arena_slot(void)
{
	for (size_t i = 0; i < arena_count; i++)
		if (!arenas[i].start)
			return &arenas[i];
	return arena_count < ARENAS_MAX ? &arenas[arena_count++] : NULL;
}

static void arena_evict(struct arena *arena)
{
	arena->given_up = ++epoch;
	for (uint32_t i = 0; i < arena->fragment_count; i++)
		fragment_close(arena->fragments[i]);
	if (current == arena)
		current = NULL;
	host_count(ENGINE_COUNT_EVICTIONS);
}

static bool is_drained(const struct arena *arena)
{
	for (const struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		if (thread->entered && thread->entered < arena->given_up)
			return false;
	return true;
}

static void arena_unmap(struct arena *arena)
{
	for (uint32_t i = 0; i < arena->exit_count; i++)
		exit_unlink(&arena->exits[i]);
	memory_unmap(arena->start, arena->bytes);
	memory_unmap(arena->fragments, notes_bytes(arena->bytes));
	*arena = (struct arena){};
}

/* Takes back all links between fragments, so that every thread soon enters the engine. */
static void links_cut(void)
{
	for (size_t i = 0; i < arena_count; i++)
		for (uint32_t j = 0; j < arenas[i].exit_count; j++)
			exit_unlink(&arenas[i].exits[j]);
	for (struct thread *thread = thread_next(NULL); thread; thread = thread_next(thread))
		thread_targets_clear(thread);
}

/*
 * Unmaps arenas that were given up and that no thread can be in any more. Most threads enter the
 * engine by themselves before the next arena is needed.
 */
static void arenas_reclaim(void)
{
	size_t stuck = 0;

	for (size_t i = 0; i < arena_count; i++)
		if (arenas[i].given_up && is_drained(&arenas[i]))
			arena_unmap(&arenas[i]);
		else
			stuck += arenas[i].given_up != 0;
	if (stuck >= STUCK_MAX)
		links_cut();
}

/* --- Memory that the program wants ------------------------------------------------------- */

static bool is_in_range(const struct arena *arena, uint64_t start, uint64_t end)
{
	uint64_t code = (uint64_t)arena->start, notes = (uint64_t)arena->fragments;

	return arena->start && ((code < end && start < code + arena->bytes) ||
				(notes < end && start < notes + notes_bytes(arena->bytes)));
}

enum yield { YIELD_DONE, YIELD_WAIT, YIELD_NEVER };

/*
 * Gives up the arenas in the range and unmaps those that no thread is in. YIELD_WAIT: there is one.
 */
static enum yield range_yield(uint64_t start, uint64_t end)
{
	struct engine_mapping ours;
	bool stuck = false;

	for (size_t i = 0; i < arena_count; i++) {
		struct arena *arena = &arenas[i];

		if (!is_in_range(arena, start, end))
			continue;
		if (!arena->given_up)
			arena_evict(arena);
		if (is_drained(arena))
			arena_unmap(arena);
		else
			stuck = true;
	}
	if (!stuck)
		return memory_first(start, end, &ours) ? YIELD_NEVER : YIELD_DONE;
	links_cut(); /* each time: threads that entered the engine meanwhile have made new links */
	return YIELD_WAIT;
}

bool cache_yield(uint64_t start, uint64_t end)
{
	enum yield result = YIELD_WAIT;

	for (uint32_t pause = YIELD_PAUSE_MIN; pause < YIELD_PAUSE_MAX; pause += pause / 4) {
		engine_lock();
		result = range_yield(start, end);
		engine_unlock();
		if (result != YIELD_WAIT)
			break;
		engine_pause(pause);
	}
	return result == YIELD_DONE;
}

void cache_avoid_heap(uint64_t end)
{
	engine_lock();
	heap_end = end;
	engine_unlock();
}

static struct arena *arena_victim(uint64_t *ret_bytes)
{
	struct arena *oldest = NULL;

	*ret_bytes = 0;
	for (size_t i = 0; i < arena_count; i++) {
		struct arena *arena = &arenas[i];

		if (!arena->start)
			continue;
		*ret_bytes += arena->bytes;
		if (!arena->given_up && (!oldest || arena->born < oldest->born))
			oldest = arena;
	}
	return oldest;
}

/* Three quarters of its code are closed, and it is not the one that is being filled. */
static bool is_waste(const struct arena *arena)
{
	return arena->start && !arena->given_up &&
	       (size_t)(arena->end - arena->next) < arena->bytes / 4 &&
	       arena->closed_count > arena->fragment_count / 4 * 3;
}

/* One more arena is about to be made: keeps them all below the limit, with one on its way out. */
static void room_make(void)
{
	struct arena *victim;
	uint64_t bytes;

	arenas_reclaim();
	for (size_t i = 0; i < arena_count; i++)
		if (is_waste(&arenas[i]))
			arena_evict(&arenas[i]);
	victim = arena_victim(&bytes);
	if (victim && bytes + 2 * arena_bytes() > limit_bytes())
		arena_evict(victim);
}

static uint8_t *page_down(void *address)
{
	return (uint8_t *)((uint64_t)address & ~(uint64_t)PAGE_MASK);
}

/* False: there is no gap of that size near pc, or no memory for the notes. */
static bool arena_map(struct arena *arena, uint64_t pc, uint64_t reach, size_t bytes)
{
	uint8_t *memory = memory_map(notes_bytes(bytes));

	if (!memory)
		return false;
	*arena = (struct arena){ .born = ++births, .bytes = bytes };
	arena->fragments = (struct fragment **)memory;
	arena->exits = (struct exit *)(memory + fragments_max(bytes) * sizeof(struct fragment *));
	arena->notes = arena->notes_next = (uint8_t *)(arena->exits + exits_max(bytes));
	arena->start = arena->next = map_near(pc, reach, bytes);
	if (arena->start) {
		arena->end = arena->start + bytes;
		arena->ready[0] = arena->start;
		arena->ready[1] = page_down(arena->exits);
		arena->ready[2] = page_down(arena->notes);
		return true;
	}
	memory_unmap(memory, notes_bytes(bytes));
	return false;
}

/*
 * In large Java processes the heaps leave only small gaps near libraries; the arena is smaller
 * there.
 */
static struct arena *arena_new(uint64_t pc, uint64_t reach)
{
	struct arena *arena;

	room_make();
	arena = arena_slot();
	for (size_t bytes = arena_bytes(); arena && bytes >= ARENA_BYTES_MIN; bytes /= 8)
		if (arena_map(arena, pc, reach, bytes))
			return arena;
	return NULL;
}

static bool has_room(const struct arena *arena, size_t size)
{
	return (size_t)(arena->end - arena->next) >= size &&
	       (size_t)(arena->notes_next - arena->notes) + notes_room() <=
		       notes_share(arena->bytes) &&
	       arena->exit_count + EXITS_ROOM <= exits_max(arena->bytes) &&
	       arena->fragment_count + FRAGMENTS_ROOM <= fragments_max(arena->bytes);
}

static struct arena *arena_find(uint64_t pc, uint64_t reach, size_t size)
{
	struct arena *found = NULL;

	for (size_t i = 0; i < arena_count; i++)
		if (arenas[i].start && !arenas[i].given_up && is_near(&arenas[i], pc, reach) &&
		    has_room(&arenas[i], size))
			found = &arenas[i];
	return found;
}

/*
 * Finding out that nothing is free near pc takes thousands of system calls, so the result is
 * remembered.
 */
static bool is_crowded(uint64_t pc)
{
	return (pc > crowded ? pc - crowded : crowded - pc) < STEP_MAX;
}

/*
 * Populates memory that is about to be written, piece by piece, because a fault for each page would
 * take several times as long: half as much as there is already. Old kernels do not support it.
 */
static void populate(uint8_t **ready, const uint8_t *start, const uint8_t *next, const uint8_t *end)
{
	size_t before = *ready > start ? (size_t)(*ready - start) : 0;
	size_t size = before / 2 & ~(size_t)PAGE_MASK;

	if (next + POPULATE_ROOM <= *ready || *ready >= end)
		return;
	size = size < POPULATE_MIN ? POPULATE_MIN : size > POPULATE_MAX ? POPULATE_MAX : size;
	if (size > (size_t)(end - *ready))
		size = (size_t)(end - *ready);
	sys_3(madvise, *ready, size, MADV_POPULATE_WRITE);
	*ready += size;
}

static uint8_t *room_of(struct arena *arena)
{
	populate(&arena->ready[0], arena->start, arena->next, arena->end);
	populate(&arena->ready[1], (uint8_t *)arena->exits,
		 (uint8_t *)(arena->exits + arena->exit_count), arena->notes);
	populate(&arena->ready[2], arena->notes, arena->notes_next,
		 arena->notes + notes_share(arena->bytes));
	return arena->next;
}

uint8_t *cache_room(uint64_t pc, size_t size)
{
	if (current && is_near(current, pc, REACH) && has_room(current, size))
		return room_of(current);
	current = arena_find(pc, REACH, size);
	if (!current && !is_crowded(pc)) {
		current = arena_new(pc, REACH);
		crowded = current ? crowded : pc;
	}
	if (!current)
		current = arena_find(pc, REACH_MAX, size);
	if (!current)
		current = arena_new(pc, REACH_MAX);
	return current ? room_of(current) : NULL;
}

void *cache_notes(size_t size)
{
	uint8_t *taken = current->notes_next;

	current->notes_next += (size + 7) & ~(size_t)7;
	return taken;
}

void cache_enter(struct thread *thread, const struct fragment *fragment)
{
	thread->entered = epoch;
	thread->next = (uint64_t)fragment->entry;
}

/* --- Fragments --------------------------------------------------------------------------- */

struct fragment *cache_fragment(uint64_t pc)
{
	struct fragment *fragment = (struct fragment *)current->notes_next;

	*fragment = (struct fragment){ .pc = pc, .arena = (uint32_t)(current - arenas) };
	return fragment;
}

void arena_add(struct fragment *fragment)
{
	current->next = fragment->end;
	current->fragments[current->fragment_count] = fragment;
	/* in this order: cache_reset() may come in between */
	__atomic_store_n(&current->fragment_count, current->fragment_count + 1, __ATOMIC_RELEASE);
}

void arena_note_closed(const struct fragment *fragment)
{
	arenas[fragment->arena].closed_count++;
}

/* Fragments of an arena lie in it in the order they were made. */
struct fragment *cache_holder(uint64_t at)
{
	for (size_t i = 0; i < arena_count; i++) {
		size_t low = 0, high = arenas[i].fragment_count;

		if (at < (uint64_t)arenas[i].start || at >= (uint64_t)arenas[i].next)
			continue;
		while (low < high) {
			size_t middle = (low + high) / 2;
			struct fragment *fragment = arenas[i].fragments[middle];

			if (at < (uint64_t)fragment->start)
				high = middle;
			else if (at >= (uint64_t)fragment->end)
				low = middle + 1;
			else
				return fragment;
		}
	}
	return NULL;
}

struct exit *cache_exit(uint32_t number)
{
	return &arenas[number >> EXIT_BITS].exits[number & ((1u << EXIT_BITS) - 1)];
}

uint32_t cache_exit_next(void)
{
	return (uint32_t)(current - arenas) << EXIT_BITS | current->exit_count;
}

uint8_t *cache_align(uint64_t pc)
{
	enum { ROOM = 32768, LINE = 64 };

	if (!cache_room(pc, ROOM + LINE))
		return NULL;
	current->next = (uint8_t *)(((uintptr_t)current->next + LINE - 1) & ~(uintptr_t)(LINE - 1));
	return current->next;
}

uint32_t cache_exit_new(struct exit **ret)
{
	uint32_t number = current->exit_count++;

	*ret = &current->exits[number];
	**ret = (struct exit){};
	return (uint32_t)(current - arenas) << EXIT_BITS | number;
}

/* --- After a fault of the engine itself --------------------------------------------------- */

static void arena_reset(struct arena *arena)
{
	for (uint32_t i = 0; i < arena->exit_count; i++)
		exit_reset(&arena->exits[i]);
	for (uint32_t i = 0; i < arena->fragment_count; i++) {
		arena->fragments[i]->closed = true;
		arena->fragments[i]->incoming = NULL;
		arena->fragments[i]->uses = NULL;
	}
	arena->closed_count = arena->fragment_count;
	if (!arena->given_up)
		arena->given_up = epoch;
}

void arenas_reset(void)
{
	epoch++;
	for (size_t i = 0; i < arena_count; i++)
		if (arenas[i].start)
			arena_reset(&arenas[i]);
	current = NULL;
}
