// SPDX-License-Identifier: BSD-2-Clause
/*
 * Time in trees of calls.
 *
 *	in	intervals in ticks between two events of a thread
 *	out	the time of the innermost routine, and how much of it the thread was off a processor
 *	owner	the thread, in its memory of the tool
 *
 * Inline code charges intervals that are short. In a long one the kernel may have been entered, so
 * the clocks of the thread and of the machine are read: where they disagree the thread was off.
 */
#include "engine/sys.h"
#include "engine/tools/calltree_private.h"

enum {
	CALIBRATION = 101, /* odd */
	CALIBRATION_EVENTS = 32,
	LOOKS = 5,
	NS_PER_S = 1000000000,
	INTERVAL_LONG = 1 << CALLTREE_LONG_BITS,
};

static uint64_t clock_read(long clock)
{
	uint64_t now[2] = {};

	if (sys_failed(sys_2(clock_gettime, clock, now)))
		return 0;
	return now[0] * NS_PER_S + now[1];
}

/* value * part / whole, of which part is no more than whole: there is no library to divide by. */
static uint64_t share_of(uint64_t value, uint64_t part, uint64_t whole)
{
	uint64_t high;

	__asm__("mul %[part]\n\tdiv %[whole]"
		: "+a"(value), "=&d"(high)
		: [part] "r"(part), [whole] "r"(whole)
		: "cc");
	return value;
}

/*
 * The thread may lose its processor at each of the two system calls, and often does at the first:
 * there the kernel finds that its time is up. So the ticks come last, and go with the clocks.
 */
static void clocks_look(struct calltree_state *own)
{
	own->cpu = clock_read(3); /* CLOCK_THREAD_CPUTIME_ID */
	own->wall = clock_read(1); /* CLOCK_MONOTONIC */
	own->checked = calltree_ticks();
}

/* Measures how long that takes: the minimum of some tries. */
void calltree_look_measure(struct calltree_state *own)
{
	own->look = UINT64_MAX;
	for (int i = 0; i < LOOKS; i++) {
		uint64_t begin = calltree_ticks();

		clocks_look(own);
		if (own->checked - begin < own->look)
			own->look = own->checked - begin;
	}
}

/* off: of the interval, what the thread did not use itself. */
static void node_charge(struct calltree_memory *memory, struct call_node *node, uint64_t interval,
			uint64_t off)
{
	node->amounts[0].elapsed += interval;
	node->amounts[0].base -= off;
	memory->now[0].elapsed += interval;
	memory->now[0].base += interval - off;
}

/*
 * Charges an interval in which the thread may have been off a processor. The time off is how much
 * further the wall clock went than the thread's own clock since both were last read. It all belongs
 * to this interval, because every interval that is long enough is checked.
 */
static void charge_clocks(struct thread *thread, uint64_t interval)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct calltree_state *own = calltree_state_of(thread);
	uint64_t cpu = own->cpu, wall = own->wall, ticks = own->checked;
	uint64_t off = 0;

	clocks_look(own);
	interval += own->checked - memory->last;
	memory->last = own->checked;
	ticks = own->checked - ticks;
	cpu = own->cpu - cpu;
	wall = own->wall - wall;
	if (wall && cpu < wall)
		off = share_of(ticks, wall - cpu, wall);
	off += own->look;
	node_charge(memory, calltree_innermost(thread), interval, off < interval ? off : interval);
}

/*
 * Charges an interval in which the kernel may have been entered. The time that reading the clocks
 * takes is charged to no routine.
 */
void calltree_charge_long(struct thread *thread, uint64_t interval)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct calltree_state *own = calltree_state_of(thread);
	struct call_node *node = calltree_innermost(thread);
	uint64_t now, look;
	bool switched;

	if (!calltree_has_resources()) {
		charge_clocks(thread, interval);
		return;
	}
	switched = resources_charge(&own->resources, node);
	now = calltree_ticks();
	interval += now - memory->last;
	memory->last = now;
	look = own->resources.look < interval ? own->resources.look : interval;
	node->amounts[0].base -= look;
	if (switched || interval >= INTERVAL_LONG)
		charge_clocks(thread, interval);
	else
		node->amounts[0].elapsed += interval;
}

/* Charges the time up to now, for entries and exits that inline code does not handle. */
void calltree_charge_now(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	uint64_t now = calltree_ticks(), interval = now - memory->last;

	if (!memory->timed)
		return;
	memory->last = now;
	if (interval >> calltree_interval_bits())
		calltree_charge_long(thread, interval);
	else
		node_charge(memory, calltree_innermost(thread), interval, 0);
}

void calltree_clocks_renew(struct thread *thread)
{
	struct calltree_state *own = calltree_state_of(thread);

	if (!calltree_memory_of(thread)->timed)
		return;
	clocks_look(own);
	calltree_memory_of(thread)->last = own->checked;
}

/* In so long an interval the thread may have lost its processor. */
void calltree_time_skip(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	uint64_t now;

	if (!memory->timed)
		return;
	now = calltree_ticks();
	if (now - memory->last >= INTERVAL_LONG)
		calltree_clocks_renew(thread);
	else
		memory->last = now;
}

/*
 * Measures the ticks between two time stamps of inline code, with the same stores and loads. The
 * median stands for the usual state of branch predictors and caches.
 */
uint64_t calltree_calibrate(struct thread *thread)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	struct call_frame *top = (struct call_frame *)memory->top;
	struct call_node *node = top->at;
	uint64_t samples[CALIBRATION];

	for (int i = 0; i < CALIBRATION; i++) {
		uint64_t begin = calltree_ticks(), sample;
		int at = i;

		for (int event = 0; event < CALIBRATION_EVENTS; event++) {
			uint64_t now = calltree_ticks();

			node->amounts[0].elapsed += now - memory->last;
			*(volatile uint64_t *)&memory->last = now;
			*(volatile uint64_t *)&memory->top = (uint64_t)top;
		}
		sample = (calltree_ticks() - begin) / CALIBRATION_EVENTS;
		for (; at > 0 && samples[at - 1] > sample; at--)
			samples[at] = samples[at - 1];
		samples[at] = sample;
	}
	node->amounts[0].elapsed = 0;
	return samples[CALIBRATION / 2];
}
