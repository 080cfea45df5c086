// SPDX-License-Identifier: BSD-2-Clause
/*
 * Serves: T6, T7. Kernel threads that use up something and threads of a language that take turns on
 * them: what each is charged, in the cases of a start, a reuse and an end that comes in time, late,
 * twice or from elsewhere; and at random, where nothing may be lost or counted twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "calls/reuse.h"

enum { KERNEL_THREADS = 5, THREADS = 40, STEPS = 20000 };

/* A thread of the language: what it was charged, and what it really used. */
struct node {
	struct reuse_thread thread; /* first */
	uint64_t base, used;
	bool over;
};

/* A kernel thread, of one generation of its tid. */
struct kernel_thread {
	struct reuse_entry entry;
	struct node own;
	uint64_t pending; /* the change since the last notice: reading it resets it */
	struct node *runs; /* in truth; NULL: itself */
};

struct world {
	struct kernel_thread kernel[KERNEL_THREADS];
	struct node nodes[THREADS];
	uint64_t used; /* by all */
	uint64_t gone; /* charged to kernel threads that have ended */
	uint64_t unpaid; /* of kernel threads that ended and had nobody */
};

static void turn_apply(struct kernel_thread *kernel, struct reuse_turn turn)
{
	struct node *payee = (struct node *)turn.payee, *over = (struct node *)turn.over;

	if (payee) {
		assert_false(payee->over);
		payee->base += kernel->pending;
		kernel->pending = 0;
	}
	if (over) {
		assert_false(over->over);
		over->over = true;
	}
}

static void start(struct kernel_thread *kernel, struct node *node)
{
	turn_apply(kernel, reuse_start(&kernel->entry, &node->thread));
}

static void stop(struct kernel_thread *kernel, struct node *node)
{
	turn_apply(kernel, reuse_stop(&kernel->entry, &node->thread));
}

static void end(struct kernel_thread *kernel, struct node *node)
{
	turn_apply(kernel, reuse_end(&kernel->entry, &node->thread));
}

/* --- Cases ------------------------------------------------------------------------------------ */

/* A new thread on a kernel thread that is not in the table gets what is pending. */
static void test_start(void **state)
{
	struct kernel_thread kernel = { .pending = 7 };
	struct node node = {};

	start(&kernel, &node);
	assert_int_equal(node.base, 7);
	kernel.pending = 5;
	start(&kernel, &node); /* it is known: an event of its own */
	assert_int_equal(node.base, 12);
}

/* ... unless the kernel thread has a thread of its own, as a carrier is one. */
static void test_start_on_carrier(void **state)
{
	struct kernel_thread kernel = { .pending = 7 };
	struct node node = {};

	kernel.entry.own = &kernel.own.thread;
	start(&kernel, &node);
	assert_int_equal(node.base, 0);
	assert_int_equal(kernel.own.base, 7);
}

/* A thread on a kernel thread whose last one was not told to have ended: that one gets it. */
static void test_reuse(void **state)
{
	struct kernel_thread kernel = {};
	struct node old = {}, fresh = {};

	start(&kernel, &old);
	kernel.pending = 9;
	start(&kernel, &fresh);
	assert_int_equal(old.base, 9);
	assert_int_equal(fresh.base, 0);
	assert_null(old.thread.on);
	assert_ptr_equal(reuse_current(&kernel.entry), &fresh.thread);
}

static void test_end(void **state)
{
	struct kernel_thread kernel = {};
	struct node node = {};

	start(&kernel, &node);
	kernel.pending = 4;
	end(&kernel, &node);
	assert_int_equal(node.base, 4);
	assert_true(node.thread.terminated && node.over);
	kernel.pending = 3;
	end(&kernel, &node); /* told twice: it stays for who comes */
	assert_int_equal(node.base, 4);
	assert_int_equal(kernel.pending, 3);
}

/* The end is told when another one runs already: what has been used since is the other's. */
static void test_end_late(void **state)
{
	struct kernel_thread kernel = {};
	struct node old = {}, fresh = {};

	start(&kernel, &old);
	kernel.pending = 9;
	start(&kernel, &fresh);
	kernel.pending = 2;
	end(&kernel, &old);
	assert_int_equal(old.base, 9);
	assert_int_equal(fresh.base, 2);
	assert_true(old.over);
	assert_false(fresh.over);
	assert_ptr_equal(reuse_current(&kernel.entry), &fresh.thread);
	kernel.pending = 1;
	start(&kernel, &old); /* it cannot come back */
	assert_int_equal(fresh.base, 3);
}

/* The end is told by another kernel thread, while it still runs: its own one charges the rest. */
static void test_end_elsewhere(void **state)
{
	struct kernel_thread one = {}, two = {};
	struct node node = {}, other = {};

	start(&one, &node);
	start(&two, &other);
	one.pending = 6;
	two.pending = 1;
	end(&two, &node);
	assert_int_equal(other.base, 1);
	assert_int_equal(node.base, 0);
	assert_false(node.over);
	turn_apply(&one, reuse_exit(&one.entry));
	assert_int_equal(node.base, 6);
	assert_true(node.over);
}

/* A thread that goes on elsewhere, without notice that it left. */
static void test_moved(void **state)
{
	struct kernel_thread one = {}, two = {};
	struct node node = {}, next = {};

	one.entry.own = &one.own.thread;
	start(&one, &node);
	start(&two, &node);
	one.pending = 8;
	start(&one, &next);
	assert_int_equal(one.own.base, 8);
	assert_ptr_equal(reuse_current(&two.entry), &node.thread);
	two.pending = 5;
	stop(&two, &node);
	assert_int_equal(node.base, 5);
}

/* A tid that comes again has an entry of its own: nothing of the old one is there. */
static void test_tid_again(void **state)
{
	struct kernel_thread kernel = {};
	struct node old = {}, fresh = {};

	start(&kernel, &old);
	kernel.pending = 3;
	turn_apply(&kernel, reuse_exit(&kernel.entry));
	assert_int_equal(old.base, 3);
	kernel = (struct kernel_thread){ .pending = 2 };
	end(&kernel, &old); /* told now: nobody is there */
	assert_int_equal(old.base, 3);
	start(&kernel, &fresh);
	assert_int_equal(fresh.base, 2);
}

/* --- At random -------------------------------------------------------------------------------- */

static uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return rng_next(rng) % n;
}

static void uses(struct world *world, struct kernel_thread *kernel, uint64_t amount)
{
	kernel->pending += amount;
	(kernel->runs ? kernel->runs : &kernel->own)->used += amount;
	world->used += amount;
}

static uint64_t charged(const struct world *world)
{
	uint64_t sum = world->gone + world->unpaid;

	for (int i = 0; i < KERNEL_THREADS; i++)
		sum += world->kernel[i].own.base + world->kernel[i].pending;
	for (int i = 0; i < THREADS; i++)
		sum += world->nodes[i].base;
	return sum;
}

/* The kernel thread ends, and another one gets its tid. */
static void kernel_thread_again(struct world *world, struct kernel_thread *kernel, bool own)
{
	turn_apply(kernel, reuse_exit(&kernel->entry));
	world->gone += kernel->own.base;
	world->unpaid += kernel->pending;
	*kernel = (struct kernel_thread){};
	kernel->entry.own = own ? &kernel->own.thread : NULL;
}

/* Any notice about any thread, told by any kernel thread, in any order. */
static void test_any_order(void **state)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct world world = {};
		uint64_t over = 0;
		struct rng rng;

		rng_init(&rng, seed);
		for (int i = 0; i < STEPS; i++) {
			struct kernel_thread *kernel =
				&world.kernel[rng_below(&rng, KERNEL_THREADS)];
			struct node *node = &world.nodes[rng_below(&rng, THREADS)];

			uses(&world, kernel, rng_below(&rng, 1000));
			switch (rng_below(&rng, 8)) {
			case 0: /* rarely: most threads live for a while */
				if (!rng_below(&rng, 8))
					end(kernel, node);
				break;
			case 1:
				if (!rng_below(&rng, 8))
					kernel_thread_again(&world, kernel, rng_below(&rng, 2));
				break;
			case 2:
			case 3:
				stop(kernel, node);
				break;
			default:
				start(kernel, node);
			}
			assert_int_equal(charged(&world), world.used);
			if (node->over) { /* its memory may be another's from now on */
				world.gone += node->base;
				*node = (struct node){};
				over++;
			}
		}
		assert_true(over > 10);
	}
}

/* Notices in time: each is charged exactly what it used, wherever it ran. */
static void test_in_time(void **state)
{
	struct world world = {};
	struct rng rng;

	rng_init(&rng, 42);
	for (int i = 0; i < KERNEL_THREADS; i++)
		world.kernel[i].entry.own = &world.kernel[i].own.thread;
	for (int i = 0; i < STEPS; i++) {
		struct kernel_thread *kernel = &world.kernel[rng_below(&rng, KERNEL_THREADS)];
		struct node *node = &world.nodes[rng_below(&rng, THREADS)];

		uses(&world, kernel, rng_below(&rng, 1000));
		if (kernel->runs) {
			if (rng_below(&rng, 200))
				stop(kernel, kernel->runs);
			else
				end(kernel, kernel->runs);
			kernel->runs = NULL;
		} else if (!node->thread.on && !node->thread.terminated) {
			start(kernel, node);
			kernel->runs = node;
		}
	}
	for (int i = 0; i < KERNEL_THREADS; i++) {
		turn_apply(&world.kernel[i], reuse_exit(&world.kernel[i].entry));
		assert_int_equal(world.kernel[i].own.base, world.kernel[i].own.used);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(world.nodes[i].base, world.nodes[i].used);
	assert_int_equal(charged(&world), world.used);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),	  cmocka_unit_test(test_start_on_carrier),
		cmocka_unit_test(test_reuse),	  cmocka_unit_test(test_end),
		cmocka_unit_test(test_end_late),  cmocka_unit_test(test_end_elsewhere),
		cmocka_unit_test(test_moved),	  cmocka_unit_test(test_tid_again),
		cmocka_unit_test(test_any_order), cmocka_unit_test(test_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
