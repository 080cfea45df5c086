/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by signal_actions.c (handlers and masks) and signal.c (delivery). */
#pragma once

#include <asm/signal.h>
#include <linux/signal.h>

#include "engine/engine.h"

enum { SIGNAL_STACK = 64 * 1024, SIGNALS = 64 };

#define ALL (~0ull)
/* Not blocked even while a signal is held back, because the engine may have a fault of its own. */
#define SIGNAL_FAULTS (1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1))

/* As the kernel wants them. */
struct kernel_action {
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	uint64_t mask;
};

struct kernel_stack {
	uint64_t start;
	uint32_t flags;
	uint32_t reserved;
	uint64_t size;
};

/* Neither SIG_DFL nor SIG_IGN. */
bool handler_is_called(uint64_t handler);
/* Another thread may be changing it. */
struct handler handler_get(const struct sighand *sighand, uint64_t number);
/* The caller holds the engine's lock and has all signals blocked. */
void handler_set(struct sighand *sighand, uint64_t number, const struct handler *handler);
/* Tells the kernel: our handler in the place of the program's. */
long action_install(uint64_t number, const struct handler *wanted);
/* Whether an address lies on the alternate stack. */
bool alternate_holds(const struct thread *thread, uint64_t stack);
/* Whether the alternate stack is in use there, by the kernel's rule: with SS_AUTODISARM never. */
bool alternate_has(const struct thread *thread, uint64_t stack);
uint32_t alternate_flags(const struct thread *thread);
long alternate_set(struct thread *thread, const struct kernel_stack *wanted);
