// SPDX-License-Identifier: BSD-2-Clause
/*
 * Programs that tell entries only: -pg, -pg -mfentry, -fpatchable-function-entry. Exits are seen
 * since the return address of each entered function is exchanged for a way back: a few bytes of
 * code that call hooks_return() and then jump to where the function would have returned to.
 *
 *	way + 0		call hooks_return	; its return address lies where the function's lay
 *	way + 5		jmp *way + 16
 *	way + 16	.quad the return address
 *
 * 1. A way belongs to a return address, not to a frame: it needs no memory of who entered. So
 *    control goes on where it would have gone whatever happens to stacks meanwhile, by longjmp,
 *    exceptions, coroutines, on copies of stacks, in the child of a fork, after an exit that nobody
 *    saw.
 * 2. Ways are in the hooks' own module, with unwind information by which the return address is
 *    found behind the way's code. So exceptions and whoever else walks stacks find their way.
 * 3. A way is made once and never changes. It is filled in before its number is in the table.
 * 4. Only what lies in a program's code behind a call is exchanged.
 * 5. The child of a fork gets ways of its own, at the same place: it may come to be less trusted
 *    than its parent, and must not write code that its parent executes.
 *
 * What has no way back (none is left, code of no file, shadow stacks) keeps its return address. Its
 * frame is gone at the next entry or exit above it, as after a longjmp.
 */
#include "hooks/entries.h"

#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	WAY = 32,
	WAY_RETURN = 16, /* where in a way the return address is */
	WAYS_BYTES = 1 << 20, /* as in entry.S */
	WAYS = WAYS_BYTES / WAY,
	TABLE = 2 * WAYS,
	TABLE_BITS = 16,
	/* x87, SSE, AVX, AVX-512: what libc may use; not AMX, which is large */
	STATES = 0xe7,
	FRAME_MAX = 64 << 20, /* no function takes more of the stack */
};

_Static_assert(TABLE == 1 << TABLE_BITS, "the hash has so many bits");

/* Behind the ways. */
struct table {
	uint32_t made; /* ways that were ever taken; the first is not used */
	uint32_t reserved;
	uint32_t ways[TABLE]; /* by the hash of the return address; 0: none */
};

uint32_t hooks_states;

static char *ways; /* where they are written; NULL: none can be made */
static struct table *table;

_Static_assert(TABLE_BITS == 16, "hash() takes the uppermost 16");

static uint32_t hash(uint64_t address)
{
	return (uint32_t)(address * 0x9e3779b97f4a7c15 >> 48);
}

static uint64_t way_return(uint32_t number)
{
	return *(uint64_t *)(ways + (uint64_t)number * WAY + WAY_RETURN);
}

static bool is_way(uint64_t address)
{
	return address - (uint64_t)hooks_ways < WAYS_BYTES;
}

/* Whether a call ends there, rel32 or r/m in two to seven bytes, or a signal's handler returns. */
static bool is_behind_call(uint64_t address)
{
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	enum { LONGEST = 7, NEAR = 5, CALL_NEAR = 0xe8, GROUP = 0xff, WHICH = 0x38, CALL = 0x10 };
	const uint8_t *at = (const uint8_t *)address;

	if (!hooks_text_has(address))
		return false;
	if (at[-NEAR] == CALL_NEAR || !memcmp(at, sigreturn, sizeof(sigreturn)))
		return true;
	for (int length = 2; length <= LONGEST; length++)
		if (at[-length] == GROUP && (at[1 - length] & WHICH) == CALL)
			return true;
	return false;
}

static void way_fill(uint32_t number, uint64_t address)
{
	char *way = ways + (uint64_t)number * WAY;
	const char *code = hooks_ways + (uint64_t)number * WAY;
	int32_t near = (int32_t)((const char *)hooks_return - (code + 5));

	/* call hooks_return; jmp *5(%rip) */
	way[0] = (char)0xe8;
	memcpy(way + 1, &near, sizeof(near));
	memcpy(way + 5, "\xff\x25\x05\0\0\0", 6);
	memcpy(way + WAY_RETURN, &address, sizeof(address));
}

/* 0: it has none. */
static __attribute__((noinline)) uint32_t way_make(uint64_t address)
{
	uint32_t number = 0;

	if (!ways || !is_behind_call(address))
		return 0;
	for (uint32_t i = hash(address);; i = (i + 1) % TABLE) {
		uint32_t there = __atomic_load_n(&table->ways[i], __ATOMIC_ACQUIRE);

		if (there && way_return(there) == address)
			return there;
		if (there)
			continue;
		if (!number) {
			if (__atomic_load_n(&table->made, __ATOMIC_RELAXED) >= WAYS)
				return 0;
			number = __atomic_fetch_add(&table->made, 1, __ATOMIC_RELAXED);
			if (number >= WAYS)
				return 0;
			way_fill(number, address);
		}
		if (__atomic_compare_exchange_n(&table->ways[i], &there, number, 0,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return number;
		/* another thread has taken the place: compare with what it put there */
		i = (i + TABLE - 1) % TABLE;
	}
}

/* The way that was made for the address, if it is the first one with that hash; otherwise 0. */
static inline uint32_t way_known(uint64_t address)
{
	uint32_t number = ways ? __atomic_load_n(&table->ways[hash(address)], __ATOMIC_ACQUIRE) : 0;

	return number && way_return(number) == address ? number : 0;
}

static inline void exchange(uint64_t *slot)
{
	uint64_t address = *slot;
	uint32_t number;

	if (is_way(address)) /* a tail call: it is the way of whoever made it */
		return;
	number = way_known(address);
	if (__builtin_expect(!number, 0)) {
		number = way_make(address);
		if (!number) {
			__atomic_add_fetch(&hooks_area->no_exits, 1, __ATOMIC_RELAXED);
			return;
		}
	}
	*slot = (uint64_t)(hooks_ways + (uint64_t)number * WAY);
}

/* A frame pointer that is none must not lead astray. */
static bool is_frame(const uint64_t *slot)
{
	uint64_t here = (uint64_t)__builtin_dwarf_cfa();

	return (uint64_t)slot % sizeof(*slot) == 0 && (uint64_t)slot - here < FRAME_MAX;
}

static inline void enter(struct hooks_thread *thread, uint64_t routine, uint64_t *slot)
{
	call_tree_enter(&thread->tree, routine, (uint64_t)slot);
	exchange(slot);
	hooks_event_end(thread);
}

/* Neither says anything of the program's: what is usual can be done at once. */
static inline bool is_quiet(const struct hooks_thread *thread)
{
	return thread && !thread->busy && !thread->events;
}

/*
 * Time goes to the node, if there was nothing that has to be asked for. As hooks_charge() does it;
 * false: nothing is done.
 */
static inline bool charge_quickly(struct hooks_thread *thread)
{
	struct call_amount *amount;
	uint64_t interval;
	uint32_t lock;
	uint64_t now;

	if (!thread->timed)
		return true;
	amount = call_tree_current(&thread->tree)->amounts;
	now = hooks_ticks(thread, &lock);
	if (lock != thread->page_lock)
		return false;
	interval = now - thread->last;
	thread->last = now;
	amount->elapsed += interval;
	amount->base += interval;
	thread->tree.head->total += interval;
	return true;
}

/* The usual case: the same function was called here before, from where it is called now. */
QUICK int hooks_enter_quickly(uint64_t routine, uint64_t *slot)
{
	struct hooks_thread *thread = hooks_self;
	struct call_frame *top;
	struct call_node *node;
	uint64_t address;
	uint32_t number;

	if (!is_quiet(thread) || !ways)
		return 1;
	top = thread->tree.top;
	node = top[1].at;
	if (top->sp <= (uint64_t)slot || top == thread->tree.deepest || !is_frame(slot) || !node ||
	    node->routine != routine - 1 || node->parent != top->node)
		return 1;
	address = *slot;
	number = table->ways[hash(address)];
	if (!number || way_return(number) != address || !hooks_area->entries)
		return 1;
	thread->busy = 1;
	__asm__ volatile("" ::: "memory");
	if (charge_quickly(thread)) {
		call_tree_push(&thread->tree, (uint64_t)slot);
		*slot = (uint64_t)(hooks_ways + (uint64_t)number * WAY);
		number = 0;
	}
	hooks_event_end(thread);
	return number != 0;
}

/* Whether the dynamic linker has to be asked where that is. */
static bool is_unknown(uint64_t address)
{
	return !is_way(address) && !way_known(address) && ways && hooks_text_is_new(address);
}

int hooks_entered(uint64_t routine, uint64_t *slot)
{
	struct hooks_thread *thread = hooks_self;

	routine--; /* in the function for certain, also where it ends with this call */
	if (__builtin_expect(!thread, 0))
		return hooks_area && hooks_area->entries && hooks_phase == PHASE_NEW;
	if (__builtin_expect(thread->events, 0))
		return 1;
	if (__builtin_expect(!hooks_area->entries || !is_frame(slot), 0))
		return 0;
	if (__builtin_expect(is_unknown(*slot), 0))
		return 1;
	if (!hooks_event_begin(thread))
		return 0;
	enter(thread, routine, slot);
	return 0;
}

void hooks_entered_slow(uint64_t routine, uint64_t *slot)
{
	struct hooks_thread *thread = hooks_self;
	int error = errno; /* the program's */

	if (!thread) {
		thread = hooks_thread_start(0);
		if (thread)
			thread->slot->overhead = hooks_area->overhead =
				hooks_area->entries_overhead;
	}
	if (thread && hooks_area->entries && is_frame(slot) && hooks_event_begin(thread)) {
		if (thread->events)
			hooks_event_write(thread, CALL_MAJOR_COMPILED, CALL_MINOR_ENTRY,
					  routine - 1, (uint64_t)slot, NULL, 0);
		if (is_unknown(*slot))
			hooks_text_find(*slot);
		enter(thread, routine - 1, slot);
	}
	errno = error;
}

/* The routine whose return address lay there; 0: none that is known. */
static inline uint64_t routine_at(const struct call_tree *tree, uint64_t slot)
{
	const struct call_frame *frame = tree->top;

	while (frame > tree->frames && frame->sp < slot)
		frame--;
	return frame > tree->frames && frame->sp == slot ? frame->at->routine : 0;
}

/* The usual case: it is the innermost frame, and nothing is to be pruned. */
QUICK int hooks_return_quickly(uint64_t *slot)
{
	struct hooks_thread *thread = hooks_self;
	const struct call_tree *tree;
	bool done;

	if (!is_quiet(thread))
		return 1;
	tree = &thread->tree;
	if (tree->top->sp != (uint64_t)slot || tree->deep || tree->head->used > tree->head->limit)
		return 1;
	thread->busy = 1;
	__asm__ volatile("" ::: "memory");
	done = charge_quickly(thread);
	if (done)
		call_tree_take_off(&thread->tree);
	hooks_event_end(thread);
	return !done;
}

int hooks_returned(uint64_t *slot)
{
	struct hooks_thread *thread = hooks_self;

	if (!thread)
		return 0;
	if (__builtin_expect(thread->events, 0))
		return 1;
	if (!hooks_event_begin(thread))
		return 0;
	call_tree_leave(&thread->tree, routine_at(&thread->tree, (uint64_t)slot), (uint64_t)slot);
	hooks_event_end(thread);
	return 0;
}

void hooks_returned_slow(uint64_t *slot)
{
	struct hooks_thread *thread = hooks_self;
	int error = errno; /* the program's */
	uint64_t routine;

	if (!hooks_event_begin(thread))
		return;
	routine = routine_at(&thread->tree, (uint64_t)slot);
	hooks_event_write(thread, CALL_MAJOR_COMPILED, CALL_MINOR_EXIT, routine, (uint64_t)slot,
			  NULL, 0);
	call_tree_leave(&thread->tree, routine, (uint64_t)slot);
	hooks_event_end(thread);
	errno = error;
}

/* The processor keeps return addresses of its own, which must be the same. */
static bool has_shadow_stack(void)
{
	uint64_t pointer = 0;

	__asm__ volatile("rdsspq %0" : "+r"(pointer)); /* does nothing where there is none */
	return pointer != 0;
}

static uint32_t states_of(void)
{
	uint32_t a, b, c, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return 0;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low & STATES;
}

/* Written through one mapping and executed through the other; no page is both. */
static bool ways_map(int fd, char *at, int fixed)
{
	size_t bytes = WAYS_BYTES + sizeof(*table);
	char *memory = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | fixed, fd, 0);

	if (memory == MAP_FAILED || mmap(hooks_ways, WAYS_BYTES, PROT_READ | PROT_EXEC,
					 MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		return false;
	table = (struct table *)(memory + WAYS_BYTES);
	ways = memory;
	return true;
}

/* -1: there is none. */
static int ways_memory(void)
{
	int fd = memfd_create("assay-ways", MFD_CLOEXEC);

	if (fd < 0 || !ftruncate(fd, (off_t)(WAYS_BYTES + sizeof(*table))))
		return fd;
	close(fd);
	return -1;
}

void hooks_entries_start(void)
{
	int fd = has_shadow_stack() ? -1 : ways_memory();

	hooks_states = states_of();
	hooks_texts_start();
	if (fd < 0)
		return;
	if (ways_map(fd, NULL, 0))
		table->made = 1;
	close(fd);
}

static bool copy_into(int fd, const void *from, size_t bytes, off_t at)
{
	return pwrite(fd, from, bytes, at) == (ssize_t)bytes;
}

void hooks_entries_forked(void)
{
	size_t made;
	int fd;

	if (!ways)
		return;
	made = table->made < WAYS ? table->made : WAYS;
	fd = ways_memory();
	if (fd >= 0 && copy_into(fd, ways, made * WAY, 0) &&
	    copy_into(fd, table, sizeof(*table), WAYS_BYTES) && ways_map(fd, ways, MAP_FIXED)) {
		close(fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	munmap(ways, WAYS_BYTES + sizeof(*table));
	ways = NULL;
}

enum { ROUNDS = 1001, ROUND = 16 };

uint64_t hooks_entries_calibrate(void)
{
	static uint64_t ticks[ROUNDS];
	uint32_t entries = hooks_area->entries;

	hooks_area->entries = 1;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t begin = __rdtsc();

		for (int call = 0; call < ROUND; call++)
			hooks_nothing();
		ticks[i] = (__rdtsc() - begin) / (2 * ROUND);
	}
	hooks_area->entries = entries;
	return hooks_median(ticks, ROUNDS);
}

/* What gprof's own start and end call: its file would have no calls in it. */
SEEN void __monstartup(unsigned long low, unsigned long high);
SEEN void monstartup(unsigned long low, unsigned long high);
SEEN void moncontrol(int mode);
SEEN void _mcleanup(void);

void __monstartup(unsigned long low, unsigned long high)
{
}

void monstartup(unsigned long low, unsigned long high)
{
}

void moncontrol(int mode)
{
}

void _mcleanup(void)
{
}
