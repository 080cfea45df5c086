// SPDX-License-Identifier: BSD-2-Clause
/*
 * Functions that walk the stack of the program, in the place of those of libc and libgcc. Programs
 * that look at their own stack see it as it is without hooks: the ways back (entries.c), which lie
 * between a function and its caller, and these functions themselves are left out.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#include "hooks/entries.h"

SEEN int backtrace(void **buffer, int size);

typedef _Unwind_Reason_Code walk(_Unwind_Trace_Fn step, void *argument);
typedef _Unwind_Ptr where(struct _Unwind_Context *context);

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_ours(uint64_t address)
{
	return address >= (uint64_t)__ehdr_start && address < (uint64_t)_end;
}

struct step {
	_Unwind_Trace_Fn step;
	void *argument;
	where *where;
};

static _Unwind_Reason_Code step_shown(struct _Unwind_Context *context, void *argument)
{
	const struct step *step = argument;

	return is_ours(step->where(context)) ? _URC_NO_REASON : step->step(context, step->argument);
}

/* Of the library that whoever asks has loaded. */
static void *unwinder(const char *name)
{
	void *found = dlvsym(RTLD_NEXT, name, "GCC_3.3");
	void *library = found ? NULL : dlopen("libgcc_s.so.1", RTLD_LAZY);

	found = !found && library ? dlvsym(library, name, "GCC_3.3") : found;
	return found || !library ? found : dlvsym(library, name, "GCC_3.0");
}

SEEN _Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn step, void *argument)
{
	struct step shown = { step, argument, NULL };
	void *real = unwinder("_Unwind_Backtrace");
	void *address = dlvsym(RTLD_NEXT, "_Unwind_GetIP", "GCC_3.0");

	address = address ? address : unwinder("_Unwind_GetIP");
	if (!real || !address)
		return _URC_FATAL_PHASE1_ERROR;
	shown.where = (where *)address;
	return ((walk *)real)(step_shown, &shown);
}

/* Twice as many, and this function. Where more are asked for than there is room here, some lack. */
int backtrace(void **buffer, int size)
{
	enum { ROOM = 8192 };
	int (*real)(void **, int) =
		(int (*)(void **, int))dlvsym(RTLD_NEXT, "backtrace", "GLIBC_2.2.5");
	void *found[ROOM];
	int count = real ? real(found, size < ROOM / 2 - 1 ? 2 * size + 2 : ROOM) : 0;
	int shown = 0;

	for (int i = 0; i < count && shown < size; i++)
		if (!is_ours((uint64_t)found[i]))
			buffer[shown++] = found[i];
	return shown;
}
