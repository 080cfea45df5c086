// SPDX-License-Identifier: BSD-2-Clause
#include "calls/reuse.h"

struct reuse_thread *reuse_current(const struct reuse_entry *entry)
{
	return entry->thread && entry->thread->on == entry ? entry->thread : NULL;
}

/* A notice after which the same thread runs. */
static struct reuse_turn turn_as_it_is(const struct reuse_entry *entry)
{
	struct reuse_thread *current = reuse_current(entry);

	return (struct reuse_turn){ .payee = current ? current : entry->own };
}

/* The thread that ran until now is charged the change, and stops running. */
static struct reuse_turn current_leaves(struct reuse_entry *entry)
{
	struct reuse_thread *current = reuse_current(entry);
	struct reuse_turn turn = turn_as_it_is(entry);

	entry->thread = NULL;
	if (current) {
		current->on = NULL;
		turn.over = current->terminated ? current : NULL;
	}
	return turn;
}

struct reuse_turn reuse_start(struct reuse_entry *entry, struct reuse_thread *thread)
{
	struct reuse_turn turn;

	if (thread->terminated || reuse_current(entry) == thread)
		return turn_as_it_is(entry);
	turn = current_leaves(entry);
	if (!turn.payee)
		turn.payee = thread;
	entry->thread = thread;
	thread->on = entry;
	return turn;
}

struct reuse_turn reuse_stop(struct reuse_entry *entry, struct reuse_thread *thread)
{
	return reuse_current(entry) == thread ? current_leaves(entry) : turn_as_it_is(entry);
}

struct reuse_turn reuse_end(struct reuse_entry *entry, struct reuse_thread *thread)
{
	struct reuse_turn turn;

	if (thread->terminated)
		return turn_as_it_is(entry);
	thread->terminated = true;
	if (thread->on == entry)
		return current_leaves(entry);
	turn = turn_as_it_is(entry);
	if (!thread->on)
		turn.over = thread;
	return turn;
}

struct reuse_turn reuse_exit(struct reuse_entry *entry)
{
	return current_leaves(entry);
}
