// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded into assay: a kernel that refuses some BPF programs. REFUSE is a list such as
 * "text_read:1 sample:3": so many times the program of that name is refused, once for each attempt
 * with a log. The log is the verifier's form.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROGRAMS = 8 };

static struct {
	char name[32];
	int left;
} refused[PROGRAMS];

__attribute__((constructor)) static void begin(void)
{
	const char *text = getenv("REFUSE");
	int used = 0, i = 0;

	while (text && i < PROGRAMS &&
	       sscanf(text, " %31[^:]:%d%n", refused[i].name, &refused[i].left, &used) == 2) {
		text += used;
		i++;
	}
}

/* libbpf tries without a log first, and once more with one. */
static int refuses(union bpf_attr *attr)
{
	for (int i = 0; i < PROGRAMS; i++) {
		if (!refused[i].left || strcmp(attr->prog_name, refused[i].name))
			continue;
		if (attr->log_level) {
			snprintf((char *)attr->log_buf, attr->log_size,
				 "0: (b7) r0 = 0\nthe test refuses %s\nprocessed 1 insns\n",
				 attr->prog_name);
			refused[i].left--;
		}
		return 1;
	}
	return 0;
}

long syscall(long number, ...)
{
	static long (*real)(long, long, long, long, long, long, long);
	va_list args;
	long a[6];

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!real)
		real = (long (*)(long, long, long, long, long, long, long))dlsym(RTLD_NEXT,
										 "syscall");
	if (number == SYS_bpf && a[0] == BPF_PROG_LOAD && refuses((union bpf_attr *)a[1])) {
		errno = EACCES;
		return -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
