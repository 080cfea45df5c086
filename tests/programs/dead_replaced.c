// SPDX-License-Identifier: BSD-2-Clause
/*
 * Code of two files, mapped at the same place in turn. Where the conditional jump leads to, one
 * writes all flags, and the other reads one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACE ((void *)0x200000000)

enum { TURNS = 4, PAGE = 4096, TARGET = 10 };

static int file_make(const unsigned char *target, size_t size)
{
	static const unsigned char head[TARGET] = {
		0x85, 0xff, /* test %edi, %edi */
		0x74, 0x06, /* jz TARGET */
		0xb8, 0x07, 0x00, 0x00, 0x00, /* mov $7, %eax */
		0xc3, /* ret */
	};
	int fd = memfd_create("code", 0);

	if (fd < 0 || ftruncate(fd, PAGE) || pwrite(fd, head, sizeof(head), 0) != sizeof(head) ||
	    pwrite(fd, target, size, TARGET) != (ssize_t)size)
		exit(1);
	return fd;
}

int main(void)
{
	static const unsigned char writes[] = { 0x31, 0xc0, 0xc3 }; /* xor %eax, %eax; ret */
	static const unsigned char reads[] = {
		0x0f, 0x94, 0xc0, /* sete %al */
		0x0f, 0xb6, 0xc0, /* movzbl %al, %eax */
		0xc3,
	};
	int files[] = { file_make(writes, sizeof(writes)), file_make(reads, sizeof(reads)) };

	for (int i = 0; i < TURNS; i++) {
		int (*function)(int) = (int (*)(int))PLACE;

		if (mmap(PLACE, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, files[i % 2],
			 0) != PLACE)
			return 1;
		printf("%d %d\n", function(0), function(1));
	}
	return 0;
}
