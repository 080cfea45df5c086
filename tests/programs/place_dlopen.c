// SPDX-License-Identifier: BSD-2-Clause
/* In a library that was loaded at run time; its path is the argument. */
#include <dlfcn.h>

#include "place.h"

APART static int load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*enter)(int) = library ? (int (*)(int))dlsym(library, "library_enter") : NULL;

	return enter ? enter(1) + (int)sink : 1;
}

int main(int argc, char **argv)
{
	return load(argv[1]) + (int)sink;
}
