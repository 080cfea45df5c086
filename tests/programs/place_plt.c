// SPDX-License-Identifier: BSD-2-Clause
/* Calls almost empty functions of a library: much of the time is spent in the stubs of the PLT. */
#include "place.h"

void tiny_a(void), tiny_b(void), tiny_c(void), tiny_d(void);

static void all(void)
{
	tiny_a();
	tiny_b();
	tiny_c();
	tiny_d();
}

APART static unsigned long caller(unsigned long a)
{
	all(); /* bound lazily: the dynamic linker is done with them afterwards */
	place_ready();
	while (stay)
		all();
	return a + sink;
}

int main(int argc, char **argv)
{
	return (int)caller((unsigned long)argc) + (int)sink;
}
