// SPDX-License-Identifier: BSD-2-Clause
/* Frames of a size known only at run time. */
#include <alloca.h>
#include <string.h>

#include "place.h"

APART static int varying(int size)
{
	char *room = alloca((size_t)size);

	memset(room, size, (size_t)size);
	if (size > 100)
		place_stay();
	else
		room[1] = (char)varying(size + 40);
	return room[0] + room[size / 2];
}

int main(int argc, char **argv)
{
	return varying(argc * 3) + (int)sink;
}
