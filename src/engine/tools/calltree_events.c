// SPDX-License-Identifier: BSD-2-Clause
/*
 * Events of trees of calls as records, in the ring of the thread (wire/calltree.h).
 *
 *	in	what is done with frames and nodes, told where it is done
 *	out	records of wire/call_events.h, with the counters as they were last charged
 *	owner	the thread; the host takes the records out
 *
 * The host fills in which thread it is, because only it has numbers that no other process has.
 */
#include "engine/sys.h"
#include "engine/tools/calltree_private.h"

enum { WAIT_NS = 100000 };

static bool has_room(const struct calltree_memory *memory, uint64_t size)
{
	uint64_t used = memory->written - __atomic_load_n(&memory->taken, __ATOMIC_ACQUIRE);

	return used + size <= CALLTREE_EVENT_BYTES;
}

/* The wait is no part of what the program takes. False: the host is gone. */
static bool room_wait(struct thread *thread, uint64_t size)
{
	static const uint64_t moment[2] = { 0, WAIT_NS };
	struct calltree_memory *memory = calltree_memory_of(thread);

	if (has_room(memory, size))
		return true;
	while (!has_room(memory, size)) {
		if (!host_alive())
			return false;
		stream_host_wake();
		sys_2(nanosleep, moment, NULL);
	}
	calltree_clocks_renew(thread);
	return true;
}

/* Positions and sizes are multiples of 8. */
static void ring_put(struct calltree_memory *memory, uint64_t at, const void *words, uint64_t size)
{
	uint64_t *ring = (uint64_t *)((uint8_t *)memory + CALLTREE_EVENTS);
	const uint64_t *from = words;

	for (uint64_t i = 0; i < size / 8; i++)
		ring[(at / 8 + i) % (CALLTREE_EVENT_BYTES / 8)] = from[i];
}

void calltree_event_put(struct thread *thread, const struct call_event *like, const void *payload,
			uint32_t size)
{
	struct calltree_memory *memory = calltree_memory_of(thread);
	uint32_t amounts = memory->head.metrics * (uint32_t)sizeof(struct call_amount);
	struct call_event event = *like;
	uint64_t at = memory->written;

	event.size = (uint32_t)sizeof(event) + amounts + size;
	if (!stream_is_read(thread) || !room_wait(thread, event.size)) {
		memory->dropped++;
		return;
	}
	ring_put(memory, at, &event, sizeof(event));
	ring_put(memory, at + sizeof(event), memory->now, amounts);
	ring_put(memory, at + sizeof(event) + amounts, payload, size);
	__atomic_store_n(&memory->written, at + event.size, __ATOMIC_RELEASE);
}

/* The path of a node, outermost routine first; 0: it is too deep for a record. */
static uint32_t path_of(const struct call_tree *tree, const struct call_node *node,
			uint64_t ret[CALLTREE_BACK_MAX])
{
	uint32_t count = node->level;

	if (!count || count > CALLTREE_BACK_MAX)
		return 0;
	for (uint32_t i = count; i-- > 0; node = call_tree_node(tree, node->parent))
		ret[i] = node->routine;
	return count;
}

void calltree_event_back(struct thread *thread, const struct call_frame *frame)
{
	struct calltree_state *own = calltree_state_of(thread);
	const struct call_event event = { .major = CALL_MAJOR_ENGINE,
					  .minor = CALL_MINOR_BACK,
					  .routine = frame->at->routine };
	uint32_t count = 0;

	if (!calltree_has_events())
		return;
	if (frame->at->parent != frame[-1].node)
		count = path_of(&own->tree, frame->at, own->path);
	calltree_event_put(thread, &event, own->path, count * (uint32_t)sizeof(uint64_t));
}
