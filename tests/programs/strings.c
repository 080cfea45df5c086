// SPDX-License-Identifier: BSD-2-Clause
/* Calls the C library's string functions on a few texts, for so many seconds of CPU time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const texts[] = {
	"user:1001",
	"a text that is longer than one vector of 32 bytes, but not than two of them",
	"user:1002",
	"GET",
	"a text that is longer than one vector of 32 bytes, but not than two of thom",
	"a text of several vectors: the loop over them is entered, and left again when its end is "
	"found, which is here, or a little later, behind the second comma of the second line",
};

enum { TEXTS = sizeof(texts) / sizeof(texts[0]), ROUNDS = 1000 };

static unsigned visit(const char *text, const char *other)
{
	static char copy[256];
	size_t length = strlen(text);
	unsigned sum = (unsigned)length;

	memcpy(copy, text, length + 1); /* not read again soon: that would wait for it */
	sum = sum * 31 + (strchr(text, ',') != NULL);
	sum = sum * 31 + (strcmp(text, other) > 0);
	sum = sum * 31 + (memchr(text, 'h', length) != NULL);
	sum = sum * 31 + (memcmp(text, other, length) == 0);
	return sum * 31 + (strrchr(text, 'e') != NULL);
}

int main(int argc, char **argv)
{
	clock_t end = clock() + (clock_t)(atof(argc > 1 ? argv[1] : "1") * CLOCKS_PER_SEC);
	unsigned sum = 0;

	while (clock() < end) {
		sum = 0;
		for (unsigned i = 0; i < ROUNDS; i++)
			sum += visit(texts[i % TEXTS], texts[(i + 1) % TEXTS]) % 7;
	}
	printf("%u\n", sum);
	return 0;
}
