# SPDX-License-Identifier: BSD-2-Clause
# gdb debugs a small program: breakpoint, backtrace, step, watch, a signal, to its end.
cat > p.c <<END
#include <stdio.h>
#include <signal.h>
static int total;
static int add(int a, int b)
{
	total += a * b;
	return total;
}
int main(void)
{
	for (int i = 0; i < 5; i++)
		add(i, i + 1);
	raise(SIGUSR1);
	printf("%d\n", total);
	return 3;
}
END
gcc -g -O0 p.c -o p
gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'handle SIGUSR1 nostop noprint nopass' -ex 'break add' -ex run -ex bt -ex 'info args' -ex next -ex 'print total' -ex 'delete' \
	-ex 'watch total' -ex continue -ex continue -ex 'delete' -ex 'print add(10, 10)' -ex continue ./p 2>&1 |
	sed -E 's/0x[0-9a-f]+/ADDRESS/g; s/process [0-9]+/process PID/' | grep -v -E 'warning|debuginfod|libthread_db|Using host'
rm -f p
