/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who runs where there are few CPUs.
 *
 * A thread of the program that waits for us leaves its CPU. A thread of ours whose work can wait, a reserve, takes it meanwhile, and wakes the
 * other when it stops. So no more threads want to run than there are CPUs, and none queues for one while another is idle: Linux
 * mends that only after some milliseconds.
 *
 *	a thread of the program, before it waits: adds 1 to *held, and wakes one of *reserves if there is any
 *
 *	relay_release(relay, wake)		it may go on. Who works in its place is to stop and wake it; if there is nobody, it is woken
 *	relay_hurry(relay)			... woken now, whoever works: we have nothing to do ourselves
 *
 *	seen = relay_look(relay)
 *	...					there is work
 *	relay_enter(relay, seen)		a reserve. True: works; false: slept until something changed after the look; look again
 *	relay_goes_on(relay)			may it work on?
 *	relay_leave(relay)
 *
 * A relay that is NULL has CPUs for everybody: who enters may work as long as he likes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct relay {
	uint32_t *held; /* futex: how often a thread began to wait; written by programs, which may write anything */
	uint32_t *reserves; /* how many sleep on held */
	uint32_t released; /* how often one of those was allowed to go on */
	uint32_t *turn; /* NULL: no reserve works; &nobody: one does; else what it wakes when it stops */
	uint32_t nobody;
	int cpu; /* of who calls relay_here(), and does not want to share it */
	bool over; /* no program is left */
};

/* held, reserves: shared with programs. */
void relay_init(struct relay *relay, uint32_t *held, uint32_t *reserves);
/* Called by the thread that reserves leave its CPU to, now and then. */
void relay_here(struct relay *relay);
void relay_release(struct relay *relay, uint32_t *wake);
void relay_hurry(struct relay *relay);
/* Whoever sleeps in relay_enter() returns. */
void relay_poke(struct relay *relay);
/* From now on reserves work as they like. */
void relay_end(struct relay *relay);

uint32_t relay_look(const struct relay *relay);
bool relay_enter(struct relay *relay, uint32_t seen);
bool relay_goes_on(const struct relay *relay);
void relay_leave(struct relay *relay);
