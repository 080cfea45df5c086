// SPDX-License-Identifier: BSD-2-Clause
/* same_again: does the same in each run, in two paths that take turns. */
static volatile int sum;

__attribute__((noinline)) static void work_once(int i)
{
	if (i % 3)
		sum += i;
	else
		sum -= 1;
}

int main(void)
{
	for (int i = 0; i < 30000; i++)
		work_once(i);
	return 0;
}
