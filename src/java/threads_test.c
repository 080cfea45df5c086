// SPDX-License-Identifier: BSD-2-Clause
/*
 * Serves: T7, T9. Threads as a virtual machine would tell of them, by a script: mounts and unmounts
 * of virtual threads on carriers, ends, numbers that fall on the same place of the table, pauses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "java/agent.h"

enum { NODES = 4096, DEPTH = 64, SLOTS = 4 };

static size_t slot_bytes(void)
{
	return (CALL_SLOT_NODES + call_tree_capacity(NODES) * call_node_size(CALL_JAVA_METRICS) +
		4095) /
	       4096 * 4096;
}

static int area_begin(void **state)
{
	struct call_area limits = { .magic = CALL_AREA_MAGIC,
				    .version = CALL_AREA_VERSION,
				    .slot_count = SLOTS,
				    .timed = 1,
				    .ticks_per_ms = 1000000,
				    .slot_bytes = slot_bytes(),
				    .node_limit = NODES,
				    .depth_limit = DEPTH,
				    .prune_permille = 100,
				    .java_metrics = 1 };
	size_t bytes = CALL_AREA_SLOTS + SLOTS * slot_bytes();
	int fd = memfd_create("area", 0);
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (ftruncate(fd, (off_t)bytes) ||
	    pwrite(fd, &limits, offsetof(struct call_area, modules), 0) < 0)
		return -1;
	hooks_java_begin();
	return hooks_area_open(path) && java_table() ? 0 : -1;
}

static uint64_t used(const struct hooks_thread *thread)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < thread->tree.head->count; i++)
		sum += call_tree_node(&thread->tree, i)->amounts[CALL_JAVA_TIME].elapsed;
	return sum;
}

static void work(void)
{
	uint64_t end = hooks_clock_ns() + 2000000;

	while (hooks_clock_ns() < end)
		;
}

static struct call_slot *slot_number(uint32_t number)
{
	return (struct call_slot *)((char *)hooks_area + CALL_AREA_SLOTS +
				    number * hooks_area->slot_bytes);
}

/*
 * Two virtual threads on one carrier, in turns. All that passes between the first mount and the
 * last unmount is one's, the other's or the carrier's, and nothing is counted twice.
 */
static void test_mounts(void **state)
{
	struct hooks_thread *first, *second, *carrier;
	uint64_t begin, end, unmounted;

	assert_non_null(hooks_thread_start(0));
	carrier = hooks_self;
	begin = carrier->last;
	first = java_thread_begin(100, true);
	assert_ptr_equal(java_thread_current(), first);
	java_enter(first, 7);
	work();
	java_virtual_unmount(100);
	unmounted = used(first);
	assert_true(unmounted >= 2000000);
	assert_ptr_equal(java_thread_current(), carrier);
	work(); /* the carrier's own */
	second = java_thread_begin(101, true);
	assert_ptr_not_equal(first, second);
	work();
	java_virtual_unmount(101);
	assert_int_equal(used(first), unmounted); /* others ran */
	java_virtual_mount(100);
	work();
	java_leave(first, 7);
	java_virtual_unmount(100);
	hooks_charge(carrier);
	end = carrier->last;
	assert_true(used(first) >= unmounted + 2000000);
	assert_true(used(second) >= 2000000);
	assert_true(used(carrier) >= 2000000);
	assert_true(used(first) + used(second) + used(carrier) <= end - begin);
	assert_int_equal(call_tree_node(&first->tree, 1)->calls, 1);
}

/* An end frees the slot's thread, once; a number that comes again is another thread. */
static void test_ends(void **state)
{
	struct hooks_thread *again;

	java_virtual_mount(100);
	java_virtual_end(100);
	assert_ptr_equal(java_thread_current(), hooks_self);
	java_virtual_end(100);
	assert_int_equal(slot_number(1)->state, CALL_SLOT_ENDED);
	assert_true(slot_number(1)->ended != 0);
	assert_int_equal(slot_number(2)->state, CALL_SLOT_LIVE);
	java_virtual_mount(100); /* it is not known any more */
	assert_ptr_equal(java_thread_current(), hooks_self);
	slot_number(1)->state = CALL_SLOT_FREE; /* as the host does */
	again = java_thread_begin(100, true);
	assert_int_equal(again->tree.head->count, 1);
	java_virtual_end(100);
	java_virtual_end(101);
}

/*
 * Notices that are missing or late: who ran until the next mount is charged, once, and what
 * the new one uses is not taken by an unmount or an end of the old one.
 */
static void test_notices(void **state)
{
	struct hooks_thread *carrier = hooks_self, *old, *fresh;
	uint64_t begin, before, carried;

	slot_number(1)->state = slot_number(2)->state = CALL_SLOT_FREE;
	hooks_charge(carrier);
	begin = carrier->last;
	carried = used(carrier);
	old = java_thread_begin(200, true);
	work();
	java_charge(old); /* by an event of its own: it is not the carrier's as well */
	work();
	fresh = java_thread_begin(201, true); /* no unmount was told */
	before = used(old);
	assert_true(before >= 4000000);
	assert_ptr_equal(java_thread_current(), fresh);
	work();
	java_virtual_unmount(200); /* late: nothing happens */
	assert_ptr_equal(java_thread_current(), fresh);
	java_virtual_end(200);
	assert_ptr_equal(java_thread_current(), fresh);
	assert_int_equal(slot_number(1)->state, CALL_SLOT_ENDED);
	java_virtual_unmount(201);
	assert_true(used(fresh) >= 2000000);
	hooks_charge(carrier);
	assert_true(before + used(fresh) + used(carrier) - carried <= carrier->last - begin);
	java_virtual_end(201);
}

static void *end_elsewhere(void *argument)
{
	java_virtual_end(300);
	return argument;
}

/* The end is told by another kernel thread while it still runs: its memory stays until it left. */
static void test_end_elsewhere(void **state)
{
	struct hooks_thread *thread;
	pthread_t other;

	slot_number(1)->state = slot_number(2)->state = CALL_SLOT_FREE;
	thread = java_thread_begin(300, true);
	assert_int_equal(pthread_create(&other, NULL, end_elsewhere, NULL), 0);
	pthread_join(other, NULL);
	assert_ptr_equal(java_thread_current(), thread);
	assert_int_equal(thread->slot->state, CALL_SLOT_LIVE);
	work();
	java_virtual_unmount(300);
	assert_int_equal(slot_number(1)->state, CALL_SLOT_ENDED);
	assert_ptr_equal(java_thread_current(), hooks_self);
	assert_true(used(thread) >= 2000000); /* charged before its end; memory is never unmapped */
}

/* Numbers that fall on the same place take turns there; each finds its own memory. */
static void test_same_place(void **state)
{
	struct hooks_thread **table = java_table();
	struct hooks_thread *platform, *other;

	slot_number(1)->state = slot_number(2)->state = CALL_SLOT_FREE;
	platform = java_thread_begin(5, false);
	assert_ptr_equal(platform, hooks_self);
	assert_ptr_equal(table[5], platform);
	other = java_thread_begin(5 + JAVA_TABLE_SIZE, true);
	assert_ptr_equal(table[5], other);
	assert_ptr_equal(java_thread_begin(5, false), platform);
	assert_ptr_equal(java_thread_begin(5 + JAVA_TABLE_SIZE, true), other);
	java_virtual_end(5 + JAVA_TABLE_SIZE);
	assert_true(table[5] != other);
	java_thread_end();
	assert_null(hooks_self);
	assert_null(java_thread_begin(6, false)); /* over, until the machine says so */
	java_thread_renew();
	assert_non_null(java_thread_begin(6, false));
}

/* Pauses are a node below the thread, and no part of what ran. */
static void test_pauses(void **state)
{
	struct hooks_thread *self = hooks_self;
	uint64_t before;

	java_enter(self, 9);
	java_charge(self);
	before = call_tree_current(&self->tree)->amounts[CALL_JAVA_TIME].elapsed;
	work();
	java_pauses.ns += 1500000;
	java_pauses.count += 3;
	java_charge(self);
	assert_true(call_tree_find(&self->tree, CALL_ROOT, CALL_JAVA_GC)->calls == 3);
	assert_int_equal(call_tree_find(&self->tree, CALL_ROOT, CALL_JAVA_GC)
				 ->amounts[CALL_JAVA_TIME]
				 .elapsed,
			 1500000);
	assert_true(call_tree_current(&self->tree)->amounts[CALL_JAVA_TIME].elapsed - before >=
		    500000);
	java_leave(self, 9);
}

/* A constructor that was left without an exit is dropped by who catches. */
static void test_caught(void **state)
{
	struct hooks_thread *self = hooks_self;

	java_enter(self, 20);
	java_enter(self, 21);
	java_enter(self, 22);
	java_caught(self, 20);
	assert_int_equal(call_tree_current(&self->tree)->routine, 20);
	java_caught(self, 99); /* nobody's: nothing happens */
	assert_int_equal(call_tree_current(&self->tree)->routine, 20);
	java_leave(self, 20);
	assert_int_equal(self->tree.head->repairs[CALL_REPAIR_ABANDONED], 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mounts),	   cmocka_unit_test(test_ends),
		cmocka_unit_test(test_notices),	   cmocka_unit_test(test_end_elsewhere),
		cmocka_unit_test(test_same_place), cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_caught),
	};

	return cmocka_run_group_tests(tests, area_begin, NULL);
}
