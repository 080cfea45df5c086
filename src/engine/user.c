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
 * Not by that call: a filter forbids it, the kernel does not have it, or the memory is nobody's but
 * the process's own (memfd_secret).
 */
static bool copied(long result, bool there, void *to, const void *from, size_t size)
{
	if (result == (long)size)
		return true;
	return (there || (result != -EFAULT && sys_failed(result))) &&
	       memory_copy(to, from, size) == size;
}

/*
 * Whether the kernel can read all pages of it. It reads a set of signals, and then refuses to do
 * anything with it.
 */
static bool is_readable(uint64_t start, size_t size)
{
	enum { NOTHING = 99 };
	uint64_t at = start;

	while (at + SET <= start + size) {
		if (sys_4(rt_sigprocmask, NOTHING, at, 0, SET) == -EFAULT)
			return false;
		at = (at & ~(uint64_t)(PAGE - 1)) + PAGE;
	}
	return size >= SET && sys_4(rt_sigprocmask, NOTHING, start + size - SET, 0, SET) != -EFAULT;
}

bool user_read(void *to, uint64_t from, size_t size)
{
	struct piece_of_memory here = { (uint64_t)to, size }, there = { from, size };
	long result = sys_6(process_vm_readv, sys_0(getpid), &here, 1, &there, 1, 0);

	return copied(result, result == -EFAULT && is_readable(from, size), to, (const void *)from,
		      size);
}

bool user_write(uint64_t to, const void *from, size_t size)
{
	struct piece_of_memory here = { (uint64_t)from, size }, there = { to, size };
	long result = sys_6(process_vm_writev, sys_0(getpid), &here, 1, &there, 1, 0);

	return copied(result, result == -EFAULT && size >= SET && user_touch(to, size), (void *)to,
		      from, size);
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
