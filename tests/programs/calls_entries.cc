// SPDX-License-Identifier: BSD-2-Clause
/*
 * What happens to stacks in C++: exceptions, longjmp, threads that are cancelled or exit, walks,
 * coroutines, signals, tail calls, floating-point arguments; and a plugin, if one is named. What it
 * prints is the same in each run. Ends with 3.
 */
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <ucontext.h>
#include <unwind.h>

#define NOINLINE __attribute__((noinline))

static volatile int sink; /* written behind calls, so that they are no tail calls */
static int cleaned;
static jmp_buf place;
static ucontext_t main_context, coroutine_context;

struct Guard {
	~Guard()
	{
		cleaned++;
	}
};

NOINLINE void thrower(int depth)
{
	Guard guard;

	if (!depth)
		throw std::runtime_error("thrown");
	thrower(depth - 1);
	sink++;
}

NOINLINE void catcher(int depth)
{
	try {
		thrower(depth);
	} catch (std::exception &) {
		sink++;
	}
}

NOINLINE void jumper(int depth)
{
	if (!depth)
		longjmp(place, 1);
	jumper(depth - 1);
	sink++;
}

NOINLINE void lands()
{
	if (!setjmp(place))
		jumper(5);
	sink++;
}

/* Where each frame is, within its module; those of libc may differ from run to run. */
NOINLINE void walk_leaf()
{
	void *frames[64];
	int count = backtrace(frames, 64);

	for (int i = 0; i < count; i++) {
		Dl_info info;

		if (dladdr(frames[i], &info) && !strstr(info.dli_fname, "libc"))
			printf("%s %lx\n", info.dli_fname,
			       (long)((char *)frames[i] - (char *)info.dli_fbase));
	}
	printf("%d frames\n", count);
	sink++;
}

NOINLINE void walk_middle()
{
	walk_leaf();
	sink++;
}

static _Unwind_Reason_Code count_step(struct _Unwind_Context *, void *argument)
{
	++*(int *)argument;
	return _URC_NO_REASON;
}

NOINLINE void walk_unwinder()
{
	int count = 0;

	_Unwind_Backtrace(count_step, &count);
	printf("%d steps\n", count);
}

NOINLINE void wait_for_cancel()
{
	for (;;)
		pthread_testcancel();
}

NOINLINE void *cancelled(void *)
{
	Guard guard;

	wait_for_cancel();
	return NULL;
}

NOINLINE void exit_leaf()
{
	pthread_exit((void *)7);
}

NOINLINE void *exits(void *)
{
	Guard guard;

	exit_leaf();
	return NULL;
}

static void threads()
{
	pthread_t thread;
	void *result;

	for (int i = 0; i < 20; i++) {
		pthread_create(&thread, NULL, cancelled, NULL);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		sink += result == PTHREAD_CANCELED;
		pthread_create(&thread, NULL, exits, NULL);
		pthread_join(thread, &result);
		sink += (long)result == 7;
	}
}

NOINLINE void yield()
{
	swapcontext(&coroutine_context, &main_context);
	sink++;
}

NOINLINE void coroutine_step(int step)
{
	yield();
	sink += step;
}

NOINLINE void coroutine()
{
	for (int i = 0; i < 10; i++)
		coroutine_step(i);
}

NOINLINE void resume()
{
	swapcontext(&main_context, &coroutine_context);
	sink++;
}

static void coroutines()
{
	static char stack[64 << 10];

	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = stack;
	coroutine_context.uc_stack.ss_size = sizeof(stack);
	coroutine_context.uc_link = &main_context;
	makecontext(&coroutine_context, coroutine, 0);
	for (int i = 0; i < 11; i++)
		resume();
}

NOINLINE double floats(double a, float b, long double c, int d, ...)
{
	sink++;
	return a * b + (double)c + d;
}

NOINLINE void handler(int)
{
	sink++;
}

NOINLINE int tail_end(int value)
{
	sink++;
	return value + 1;
}

NOINLINE int tail_begin(int value)
{
	sink++;
	return tail_end(value);
}

static void plugin(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*work)() = library ? (void (*)())dlsym(library, "plugin_work") : NULL;

	if (!work)
		exit(1);
	for (int i = 0; i < 30; i++)
		work();
}

int main(int argc, char **argv)
{
	for (int i = 0; i < 100; i++)
		catcher(i % 7);
	for (int i = 0; i < 100; i++)
		lands();
	walk_middle();
	walk_unwinder();
	threads();
	coroutines();
	printf("%f\n", floats(1.5, 2.5f, 3.25L, 4, 1.0));
	signal(SIGUSR1, handler);
	for (int i = 0; i < 50; i++)
		raise(SIGUSR1);
	for (int i = 0; i < 100; i++)
		sink += tail_begin(i);
	if (argc > 1)
		plugin(argv[1]);
	printf("%d %d\n", sink, cleaned);
	return 3;
}
