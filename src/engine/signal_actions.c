// SPDX-License-Identifier: BSD-2-Clause
/*
 * The program's signal handlers, masks and alternate stack. The kernel has the engine's handler in
 * the place of each of the program's, and the engine's stack; the program's own are kept here, and
 * system calls that query them return these.
 */
#include "engine/signal_parts.h"
#include "engine/sys.h"

enum { EPERM_ = 1, ENOMEM_ = 12, EFAULT_ = 14, EINVAL_ = 22 };

uint64_t signal_block(void)
{
	uint64_t all = ALL, before = 0;

	sys_4(rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
	return before;
}

void signal_unblock(uint64_t mask)
{
	sys_4(rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
}

void signal_stay_blocked(struct thread *thread)
{
	thread->closed = 0;
}

/* A program that has just begun inherits only which signals are ignored. */
static struct sighand *handlers_inherit(void)
{
	struct sighand *sighand = memory_take(sizeof(*sighand));
	struct kernel_action action = {};

	for (uint64_t i = 0; i < SIGNALS; i++)
		if (!sys_4(rt_sigaction, i + 1, 0, &action, 8))
			sighand->handlers[i].handler = action.handler;
	return sighand;
}

void signal_faults_open(void)
{
	uint64_t faults = SIGNAL_FAULTS;

	sys_4(rt_sigprocmask, SIG_UNBLOCK, &faults, 0, 8);
}

bool signal_start(struct thread *thread)
{
	struct kernel_stack stack;

	if (!thread->signal_stack)
		thread->signal_stack = (uint64_t)memory_map(SIGNAL_STACK);
	if (!thread->signal_stack)
		return false;
	stack = (struct kernel_stack){ .start = thread->signal_stack, .size = SIGNAL_STACK };
	sys_2(sigaltstack, &stack, 0);
	if (!thread->sighand) {
		thread->sighand = handlers_inherit();
		signal_faults_take(thread->sighand);
	} else if (thread->cleared) {
		signal_faults_take(thread->sighand);
	}
	signal_faults_open();
	return true;
}

bool handler_is_called(uint64_t handler)
{
	return handler > 1; /* neither SIG_DFL nor SIG_IGN */
}

static void handlers_clear(struct sighand *sighand)
{
	for (size_t i = 0; i < SIGNALS; i++)
		if (handler_is_called(sighand->handlers[i].handler))
			sighand->handlers[i] = (struct handler){};
}

void signal_handlers_copy(struct thread *thread, const struct sighand *from, bool clear)
{
	if (!thread->handlers)
		thread->handlers = memory_take(sizeof(*thread->handlers));
	*thread->handlers = *from;
	thread->sighand = thread->handlers;
	if (clear)
		handlers_clear(thread->handlers);
}

void signal_handlers_clear(struct thread *thread)
{
	handlers_clear(thread->sighand);
	signal_faults_take(thread->sighand);
}

/* Another thread may be changing it. */
struct handler handler_get(const struct sighand *sighand, uint64_t number)
{
	struct handler handler;
	uint32_t version;

	do {
		version = __atomic_load_n(&sighand->version, __ATOMIC_ACQUIRE);
		handler = sighand->handlers[number - 1];
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (version & 1 || version != __atomic_load_n(&sighand->version, __ATOMIC_RELAXED));
	return handler;
}

/* The caller holds the engine's lock and has all signals blocked. */
void handler_set(struct sighand *sighand, uint64_t number, const struct handler *handler)
{
	__atomic_add_fetch(&sighand->version, 1, __ATOMIC_ACQ_REL);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	sighand->handlers[number - 1] = *handler;
	__atomic_add_fetch(&sighand->version, 1, __ATOMIC_RELEASE);
}

/* --- What the program asks for ----------------------------------------------------------- */

long action_install(uint64_t number, const struct handler *wanted)
{
	struct kernel_action action = {
		.handler = wanted->handler,
		.flags = wanted->flags,
		.restorer = wanted->restorer,
		.mask = wanted->mask,
	};

	if (handler_is_called(wanted->handler) || signal_is_taken(number)) {
		action.handler = (uint64_t)signal_entry;
		action.flags = (wanted->flags & (SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT)) |
			       SA_SIGINFO | SA_ONSTACK | SA_RESTORER;
		if (!handler_is_called(wanted->handler))
			action.flags |= SA_RESTART; /* ignored: the program does not notice */
		action.restorer = (uint64_t)signal_restorer;
		action.mask = ALL;
	}
	return sys_4(rt_sigaction, number, &action, 0, 8);
}

void signal_take_traps(void)
{
	static const struct handler ours = { .handler = (uint64_t)-1 };

	action_install(SIGTRAP, &ours);
}

void signal_give_traps(struct thread *thread)
{
	struct handler wanted = handler_get(thread->sighand, SIGTRAP);

	action_install(SIGTRAP, &wanted);
}

/* False: there is no memory for it. */
static bool handler_tell(uint64_t to, const struct handler *handler)
{
	struct kernel_action action = { handler->handler, handler->flags, handler->restorer,
					handler->mask };

	return !to || user_write(to, &action, sizeof(action));
}

/*
 * A handler is noted here before the kernel can call it, and until it no longer can. The former
 * handler is written to the program first: if the engine has a fault after that, the call is not
 * repeated.
 */
static long handler_change(struct thread *thread, uint64_t number, const struct handler *next,
			   uint64_t old)
{
	struct sighand *sighand = thread->sighand;
	struct handler before;
	uint64_t mask = signal_close();
	long result;

	engine_lock();
	before = sighand->handlers[number - 1];
	if (handler_is_called(next->handler))
		handler_set(sighand, number, next);
	result = action_install(number, next);
	handler_set(sighand, number, result ? &before : next);
	if (!result && !handler_tell(old, &before))
		result = -EFAULT_;
	syscall_note(thread, result);
	engine_unlock();
	signal_open(mask);
	return result;
}

long signal_action(struct thread *thread)
{
	uint64_t number = (uint32_t)thread->regs[RDI], wanted = thread->regs[RSI];
	uint64_t old = thread->regs[RDX];
	struct kernel_action given;
	struct handler handler;

	if (thread->regs[R10] != 8)
		return -EINVAL_;
	if (wanted && !user_read(&given, wanted, sizeof(given)))
		return -EFAULT_;
	if (number < 1 || number > SIGNALS)
		return -EINVAL_;
	if (wanted) {
		handler =
			(struct handler){ given.handler, given.flags, given.restorer, given.mask };
		return handler_change(thread, number, &handler, old);
	}
	handler = handler_get(thread->sighand, number);
	return handler_tell(old, &handler) ? 0 : -EFAULT_;
}

/* --- Faults, which may be the engine's own ------------------------------------------------ */

static const uint64_t taken[] = { SIGSEGV, SIGBUS };
enum { TAKEN = sizeof(taken) / sizeof(taken[0]) };

bool signal_is_taken(uint64_t number)
{
	for (size_t i = 0; i < TAKEN; i++)
		if (taken[i] == number)
			return true;
	return false;
}

void signal_faults_take(const struct sighand *sighand)
{
	for (size_t i = 0; i < TAKEN; i++)
		action_install(taken[i], &sighand->handlers[taken[i] - 1]);
}

static void ignored_install(const struct thread *thread, bool ours)
{
	for (size_t i = 0; i < TAKEN; i++) {
		struct handler handler = handler_get(thread->sighand, taken[i]);
		struct kernel_action action = { .handler = handler.handler };

		if (handler.handler != (uint64_t)SIG_IGN)
			continue;
		if (ours)
			action_install(taken[i], &handler);
		else
			sys_4(rt_sigaction, taken[i], &action, 0, 8);
	}
}

void signal_ignored_give(const struct thread *thread)
{
	ignored_install(thread, false);
}

void signal_ignored_take(const struct thread *thread)
{
	ignored_install(thread, true);
}

void signal_handlers_settle(struct sighand *sighand)
{
	if (sighand && sighand->version & 1)
		__atomic_add_fetch(&sighand->version, 1, __ATOMIC_RELEASE);
}

static uint64_t mask_after(uint64_t how, uint64_t before, uint64_t set)
{
	switch (how) {
	case SIG_BLOCK:
		return before | set;
	case SIG_UNBLOCK:
		return before & ~set;
	default:
		return set;
	}
}

/*
 * The kernel has changed the mask. SIGSEGV has to be unblocked again if pages are guarded or may be
 * later; another signal may have been held back since.
 */
static void mask_note(struct thread *thread)
{
	uint64_t mask = signal_close();

	if (thread->pending) {
		thread->mask = guard_mask_kernel(thread, thread->mask);
		signal_stay_blocked(thread);
	} else {
		signal_open(guard_mask_kernel(thread, mask));
	}
}

/* Changes the mask, except that SIGSEGV stays unblocked in the kernel if guard.c needs it. */
static long mask_change(struct thread *thread, uint64_t how, const uint64_t *set,
			uint64_t *ret_before)
{
	uint64_t kernel = signal_close();

	if (thread->pending) {
		signal_stay_blocked(thread);
		return PROGRAM_RESTART;
	}
	*ret_before = guard_mask_program(thread, kernel);
	if (set)
		kernel = guard_mask_kernel(thread, mask_after(how, *ret_before, *set));
	signal_open(kernel);
	return 0;
}

long signal_mask(struct thread *thread)
{
	uint64_t how = (uint32_t)thread->regs[RDI], set = thread->regs[RSI];
	uint64_t old = thread->regs[RDX];
	uint64_t given = 0, before;
	long result;

	if (thread->regs[R10] != 8 || !guard_is_hiding()) {
		result = program_syscall(thread);
		if (!result && set)
			mask_note(thread);
		return result;
	}
	if (set && !user_read(&given, set, sizeof(given)))
		return -EFAULT_;
	if (set && how > SIG_SETMASK)
		return -EINVAL_;
	result = mask_change(thread, how, set ? &given : NULL, &before);
	if (!result && old && !user_write(old, &before, sizeof(before)))
		return -EFAULT_;
	return result;
}

bool alternate_holds(const struct thread *thread, uint64_t stack)
{
	const struct alternate *alternate = &thread->alternate;

	return stack > alternate->start && stack - alternate->start <= alternate->size;
}

bool alternate_has(const struct thread *thread, uint64_t stack)
{
	return !(thread->alternate.flags & SS_AUTODISARM) && alternate_holds(thread, stack);
}

static bool alternate_is_in_use(const struct thread *thread)
{
	return alternate_has(thread, thread->regs[RSP]);
}

uint32_t alternate_flags(const struct thread *thread)
{
	if (!thread->alternate.size)
		return SS_DISABLE;
	return thread->alternate.flags | (alternate_is_in_use(thread) ? SS_ONSTACK : 0);
}

long alternate_set(struct thread *thread, const struct kernel_stack *wanted)
{
	uint32_t mode = wanted->flags & ~(uint32_t)SS_AUTODISARM;

	if (alternate_is_in_use(thread))
		return -EPERM_;
	if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE)
		return -EINVAL_;
	if (mode != SS_DISABLE && wanted->size < MINSIGSTKSZ)
		return -ENOMEM_;
	thread->alternate = (struct alternate){ .flags = wanted->flags & SS_AUTODISARM };
	if (mode != SS_DISABLE) {
		thread->alternate.start = wanted->start;
		thread->alternate.size = wanted->size;
	}
	return 0;
}

long signal_alternate(struct thread *thread)
{
	uint64_t wanted = thread->regs[RDI], old = thread->regs[RSI];
	struct kernel_stack given, before = {
		.start = thread->alternate.start,
		.size = thread->alternate.size,
		.flags = alternate_flags(thread),
	};
	long result = 0;

	if (wanted && !user_read(&given, wanted, sizeof(given)))
		return -EFAULT_;
	if (wanted)
		result = alternate_set(thread, &given);
	if (!result && old && !user_write(old, &before, sizeof(before)))
		return -EFAULT_;
	return result;
}

/* --- Coming into a process that runs, and leaving it ------------------------------------- */

struct sighand *signal_handlers_take(void)
{
	struct sighand *sighand = memory_take(sizeof(*sighand));

	for (uint64_t number = 1; number <= SIGNALS; number++) {
		struct handler *handler = &sighand->handlers[number - 1];
		struct kernel_action action;

		if (sys_4(rt_sigaction, number, 0, &action, 8))
			continue;
		*handler = (struct handler){ action.handler, action.flags, action.restorer,
					     action.mask };
		if (handler_is_called(handler->handler) || signal_is_taken(number))
			action_install(number, handler);
	}
	return sighand;
}

void signal_handlers_give(const struct sighand *sighand)
{
	for (uint64_t number = 1; number <= SIGNALS; number++) {
		const struct handler *handler = &sighand->handlers[number - 1];
		struct kernel_action action = { handler->handler, handler->flags, handler->restorer,
						handler->mask };

		if (handler_is_called(handler->handler) || signal_is_taken(number))
			sys_4(rt_sigaction, number, &action, 0, 8);
	}
}

void signal_alternate_take(struct thread *thread)
{
	struct kernel_stack stack;

	if (sys_2(sigaltstack, 0, &stack) || stack.flags & SS_DISABLE)
		return;
	thread->alternate.start = stack.start;
	thread->alternate.size = stack.size;
	thread->alternate.flags = stack.flags & SS_AUTODISARM;
}

void signal_alternate_give(const struct thread *thread)
{
	struct kernel_stack stack = {
		.start = thread->alternate.start,
		.size = thread->alternate.size,
		.flags = thread->alternate.size ? thread->alternate.flags : SS_DISABLE,
	};

	sys_2(sigaltstack, &stack, 0);
}
