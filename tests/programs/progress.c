// SPDX-License-Identifier: BSD-2-Clause
/*
 * progress FILE: takes steps for ever, and keeps how many of them in the first eight bytes of FILE, so
 * that everybody sees how far it has come. It ends with 42 when the file that it is given gets a
 * ninth byte that is not 0.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) uint64_t step(uint64_t value)
{
	return value % 3 ? value * 7 + 1 : value / 3;
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CREAT, 0600);
	volatile uint64_t *words;
	uint64_t value = 1;

	if (ftruncate(file, 4096))
		return 1;
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	while (!words[1]) {
		value = step(value);
		words[0]++;
	}
	return value ? 42 : 43;
}
