// SPDX-License-Identifier: BSD-2-Clause
/*
 * Accesses the program's memory on its behalf, as the kernel would: an address that is not mapped
 * gives an error, and is no fault of the engine.
 */
#include "engine/engine.h"
#include "engine/sys.h"

enum { EFAULT = 14, PAGE = 4096, SET = 8 /* bytes of a set of signals */ };

struct piece_of_memory {
	uint64_t start, size;
};

/*
 * Both calls reach the memory that they take for another process's without its mapping, which does
 * not work where memory is nobody's but the process's own (memfd_secret). What they take for the
 * caller's they access as any system call does. So where the one fails, the other is asked, with
 * the program's memory in the caller's place. Neither can fault, whatever other threads map
 * meanwhile, which matters where signals are blocked.
 */
static long copy_run(long call, const struct piece_of_memory *callers,
		     const struct piece_of_memory *others)
{
	return sys6(call, sys_0(getpid), (long)callers, 1, (long)others, 1, 0);
}

/* A filter may forbid the calls, or the kernel not have them. */
static bool copied(long result, void *to, const void *from, size_t size)
{
	if (result == (long)size)
		return true;
	return result != -EFAULT && sys_failed(result) && memory_copy(to, from, size) == size;
}

bool user_read(void *to, uint64_t from, size_t size)
{
	struct piece_of_memory ours = { (uint64_t)to, size }, programs = { from, size };
	long result = copy_run(__NR_process_vm_readv, &ours, &programs);

	if (result == -EFAULT)
		result = copy_run(__NR_process_vm_writev, &programs, &ours);
	return copied(result, to, (const void *)from, size);
}

bool user_write(uint64_t to, const void *from, size_t size)
{
	struct piece_of_memory ours = { (uint64_t)from, size }, programs = { to, size };
	long result = copy_run(__NR_process_vm_writev, &ours, &programs);

	if (result == -EFAULT)
		result = copy_run(__NR_process_vm_readv, &programs, &ours);
	return copied(result, (void *)to, from, size);
}

/*
 * The kernel itself writes a word to each page: that makes a stack grow, which the calls above do
 * not.
 */
bool user_touch(uint64_t start, size_t size)
{
	uint64_t at = start, last = start + size - SET;

	while (at < last) {
		if (sys_4(rt_sigprocmask, 0, 0, at, SET) == -EFAULT)
			return false;
		at = (at & ~(uint64_t)(PAGE - 1)) + PAGE;
	}
	return sys_4(rt_sigprocmask, 0, 0, last, SET) != -EFAULT;
}
