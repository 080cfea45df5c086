// SPDX-License-Identifier: BSD-2-Clause
/* An exception is in flight and has met a function that lets none through: the runtime's frames are on the stack. */
#include <exception>

#include "place.h"

APART static void handler(void)
{
	place_stay();
	__builtin_trap();
}

APART static int thrower(int a)
{
	if (a)
		throw a;
	return (int)sink;
}

APART static int barrier(int a) noexcept
{
	return thrower(a) + 1;
}

int main(int argc, char **argv)
{
	std::set_terminate(handler);
	return barrier(argc) + (int)sink;
}
