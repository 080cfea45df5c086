// SPDX-License-Identifier: BSD-2-Clause
/* An exception is in flight: in a destructor on its way up. */
#include "place.h"

struct guard {
	unsigned long value;
	APART ~guard()
	{
		if (value == 3)
			place_stay();
		sink = sink + value;
	}
};

APART static unsigned long dive(unsigned long depth)
{
	guard kept = { depth };

	if (depth == 0)
		throw depth;
	return dive(depth - 1) + kept.value;
}

int main(int argc, char **argv)
{
	try {
		return (int)dive(6);
	} catch (unsigned long) {
		return (int)sink;
	}
}
