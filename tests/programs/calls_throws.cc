// SPDX-License-Identifier: BSD-2-Clause
/* Exceptions through frames that have nothing to clean up; compiled with -finstrument-functions. */
static volatile int sink;

__attribute__((noinline)) static void thrower(int depth)
{
	if (!depth)
		throw 1;
	thrower(depth - 1);
	sink++;
}

__attribute__((noinline)) static void after()
{
	sink++;
}

__attribute__((noinline)) static void attempt()
{
	try {
		thrower(4);
	} catch (int) {
		after();
	}
}

int main()
{
	for (int i = 0; i < 50; i++)
		attempt();
	return 0;
}
