// SPDX-License-Identifier: BSD-2-Clause
/* Makes data, compresses it with zlib and then with bzip2: three phases with known boundaries. */
#include <bzlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

int main(int argc, char **argv)
{
	size_t size = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned char *in = malloc(size + 1), *out = malloc(2 * size + 100000);
	unsigned seed = 1, bzipped = (unsigned)(2 * size + 100000);
	uLongf zipped = 2 * size + 100000;

	if (!size || !in || !out)
		return 2;
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525 + 1013904223;
		in[i] = (unsigned char)"etaoin shrdlu\ncm"[(seed >> 24) * (seed >> 16 & 255) >> 12 &
							   15];
	}
	if (compress2(out, &zipped, in, size, 6) != Z_OK)
		return 1;
	if (BZ2_bzBuffToBuffCompress((char *)out, &bzipped, (char *)in, (unsigned)size, 9, 0, 0) !=
	    BZ_OK)
		return 1;
	printf("%lu %u\n", zipped, bzipped);
	return 0;
}
