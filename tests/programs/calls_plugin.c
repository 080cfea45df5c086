// SPDX-License-Identifier: BSD-2-Clause
/* A library that programs load while they run. */
static volatile int sink;

__attribute__((noinline)) static void plugin_part(void)
{
	sink++;
}

void plugin_work(void);

void plugin_work(void)
{
	plugin_part();
	plugin_part();
	sink++;
}
