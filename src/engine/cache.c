// SPDX-License-Identifier: BSD-2-Clause
/*
 * The code cache: arenas of executable memory near the code they hold copies of, and what is known about the copies.
 *
 * An instruction that addresses memory relative to rip reaches two gigabytes far. A copy within one gigabyte of the
 * original, whose module is smaller than that, needs only another displacement. So each region of the program has an arena.
 *
 * Invariants (the caller holds the engine's lock)
 * 1. A fragment never moves. Its code changes only in displacements of exits, which lie in one cache line each.
 * 2. Arenas are readable, writable and executable: they are private memory, so that fork() copies them, which two
 *    mappings of one file would not allow. docs/design/engine.md has the argument.
 */
#include <linux/mman.h>

#include "engine/engine.h"
#include "engine/sys.h"

enum {
	ARENAS_MAX = 64,
	ARENA_BYTES = 32 << 20,
	ARENA_FRAGMENTS = ARENA_BYTES / 64, /* no fragment is smaller */
	BUCKETS = 1 << 16,
	EXITS_PER_CHUNK = 1 << 14,
	EXIT_CHUNKS = 1 << 10,
};

#define REACH (1ull << 30)
#define STRIDE (64ull << 20) /* between places that are tried for an arena */

struct arena {
	uint8_t *start, *next, *end;
	struct fragment **fragments; /* by address */
	size_t fragment_count;
};

static struct arena arenas[ARENAS_MAX];
static size_t arena_count;
static struct arena *current; /* that room was taken from */
static struct fragment *buckets[BUCKETS];
static struct exit *exits[EXIT_CHUNKS];
static uint32_t exit_count;

static bool is_near(const struct arena *arena, uint64_t pc)
{
	uint64_t start = (uint64_t)arena->start;

	return start > pc ? start - pc < REACH : pc - start < REACH;
}

static uint8_t *map_at(uint64_t address)
{
	long result = sys_6(mmap, address, ARENA_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			    0);

	if (sys_failed(result))
		return NULL;
	if ((uint64_t)result == address)
		return (uint8_t *)result;
	sys_2(munmap, result, ARENA_BYTES); /* a kernel that does not know the flag */
	return NULL;
}

/* Below the code first: above an executable its heap grows. */
static uint8_t *map_near(uint64_t pc)
{
	uint64_t base = pc & ~(STRIDE - 1);
	uint8_t *found = NULL;

	for (uint64_t i = 1; i < REACH / STRIDE && !found; i++)
		if (base > (i + 1) * STRIDE)
			found = map_at(base - i * STRIDE);
	for (uint64_t i = REACH / STRIDE - 1; i > 0 && !found; i--)
		found = map_at(base + i * STRIDE);
	return found;
}

static struct arena *arena_new(uint64_t pc)
{
	struct arena *arena = &arenas[arena_count];

	if (arena_count == ARENAS_MAX)
		return NULL;
	arena->start = arena->next = map_near(pc);
	if (!arena->start)
		return NULL;
	arena->end = arena->start + ARENA_BYTES;
	arena->fragments = memory_map(ARENA_FRAGMENTS * sizeof(*arena->fragments));
	if (!arena->fragments)
		return NULL;
	arena_count++;
	return arena;
}

uint8_t *cache_room(uint64_t pc, size_t size)
{
	current = NULL;
	for (size_t i = 0; i < arena_count; i++)
		if (is_near(&arenas[i], pc) && (size_t)(arenas[i].end - arenas[i].next) >= size)
			current = &arenas[i];
	if (!current)
		current = arena_new(pc);
	return current ? current->next : NULL;
}

void cache_keep(uint8_t *end)
{
	current->next = end;
}

static struct fragment **bucket(uint64_t pc)
{
	return &buckets[(pc ^ pc >> 16) % BUCKETS];
}

struct fragment *cache_find(uint64_t pc)
{
	struct fragment *fragment = *bucket(pc);

	while (fragment && fragment->pc != pc)
		fragment = fragment->older;
	return fragment;
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

			if (at < (uint64_t)fragment->indirect)
				high = middle;
			else if (at >= (uint64_t)fragment->end)
				low = middle + 1;
			else
				return fragment;
		}
	}
	return NULL;
}

void cache_add(struct fragment *fragment)
{
	struct fragment **place = bucket(fragment->pc);

	if (current->fragment_count == ARENA_FRAGMENTS)
		engine_die("too many fragments");
	current->fragments[current->fragment_count] = fragment;
	__atomic_store_n(&current->fragment_count, current->fragment_count + 1, __ATOMIC_RELEASE);

	fragment->older = *place;
	*place = fragment;
}

static void bucket_remove(struct fragment *fragment)
{
	struct fragment **place = bucket(fragment->pc);

	while (*place && *place != fragment)
		place = &(*place)->older;
	if (*place)
		*place = fragment->older;
}

static bool is_made_of(const struct fragment *fragment, uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < fragment->piece_count; i++) {
		const struct piece *piece = &fragment->pieces[i];

		/* A piece of no length stands for an instruction that could not be copied. */
		if (piece->pc < end && piece->pc + piece->length + !piece->length > start)
			return true;
	}
	return false;
}

void cache_forget(uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < arena_count; i++)
		for (size_t j = 0; j < arenas[i].fragment_count; j++) {
			struct fragment *fragment = arenas[i].fragments[j];

			if (fragment->closed || !is_made_of(fragment, start, end))
				continue;
			fragment->closed = true;
			bucket_remove(fragment);
			fragment_close(fragment);
		}
}

struct exit *cache_exit(uint32_t number)
{
	return &exits[number / EXITS_PER_CHUNK][number % EXITS_PER_CHUNK];
}

uint32_t cache_exit_new(struct exit **ret)
{
	uint32_t number = exit_count++, chunk = number / EXITS_PER_CHUNK;

	if (chunk >= EXIT_CHUNKS)
		engine_die("too many exits");
	if (!exits[chunk]) {
		exits[chunk] = memory_map(EXITS_PER_CHUNK * sizeof(struct exit));
		if (!exits[chunk])
			engine_die("no memory");
	}
	*ret = cache_exit(number);
	return number;
}
