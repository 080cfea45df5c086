// SPDX-License-Identifier: BSD-2-Clause
/*
 * Memory of the program that the engine reads or writes for it, as the kernel would: what is not
 * there is an error, not a fault of the engine.
 */
#include "engine/engine.h"
#include "engine/sys.h"

enum { EFAULT = 14, PAGE = 4096 };

struct piece_of_memory {
	uint64_t start, size;
};

static bool copied(long result, void *to, const void *from, size_t size)
{
	if (result == (long)size)
		return true;
	if (result == -EFAULT || !sys_failed(result))
		return false;
	/*
	 * A filter, or a kernel without the call: as long as the program is right, this is as good.
	 */
	for (size_t i = 0; i < size; i++)
		((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
	return true;
}

bool user_read(void *to, uint64_t from, size_t size)
{
	struct piece_of_memory here = { (uint64_t)to, size }, there = { from, size };
	long result = sys_6(process_vm_readv, sys_0(getpid), &here, 1, &there, 1, 0);

	return copied(result, to, (const void *)from, size);
}

bool user_write(uint64_t to, const void *from, size_t size)
{
	struct piece_of_memory here = { (uint64_t)from, size }, there = { to, size };
	long result = sys_6(process_vm_writev, sys_0(getpid), &here, 1, &there, 1, 0);

	return copied(result, (void *)to, from, size);
}

/*
 * The kernel itself writes a word to each page: that makes a stack grow, which the calls above do
 * not.
 */
bool user_touch(uint64_t start, size_t size)
{
	uint64_t at = start;

	while (at < start + size) {
		if (sys_4(rt_sigprocmask, 0, 0, at, 8) == -EFAULT)
			return false;
		at = (at & ~(uint64_t)(PAGE - 1)) + PAGE;
	}
	return sys_4(rt_sigprocmask, 0, 0, start + size - 8, 8) != -EFAULT;
}
