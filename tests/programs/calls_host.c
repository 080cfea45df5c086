// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program and, with PLUGIN, a library that it opens by a relative path: the library gives it a
 * function when it is initialised, so nothing is ever looked up in it. Then the program goes to
 * another folder. calls_host LIBRARY calls plugin_step 100 times by plugin_work, 50 times.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

void host_register(void (*work)(void));

#ifdef PLUGIN

static volatile int sink;

KEEP static void plugin_step(void)
{
	sink++;
}

KEEP static void plugin_work(void)
{
	plugin_step();
	plugin_step();
	sink--;
}

__attribute__((constructor)) static void plugin_begin(void)
{
	host_register(plugin_work);
	sink++;
}

#else

static void (*work_of_plugin)(void);

void host_register(void (*work)(void))
{
	work_of_plugin = work;
}

KEEP static void host_round(void)
{
	work_of_plugin();
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	if (argc < 2 || !dlopen(argv[1], RTLD_NOW) || !work_of_plugin || chdir("/"))
		return 1;
	for (int i = 0; i < 50; i++)
		host_round();
	return 3;
}

#endif
