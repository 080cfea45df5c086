// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs a fuzz target over files and directories of files, without libFuzzer: keeps old findings
 * found. Prints how many inputs it ran; a directory that cannot be read is a failure, so that a
 * lost corpus shows.
 */
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int input_run(const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(size ? size : 1);
	int err = -1;

	if (file && data && fread(data, 1, size, file) == size) {
		LLVMFuzzerTestOneInput(data, size);
		err = 0;
	}
	if (file)
		fclose(file);
	free(data);
	return err;
}

int main(int argc, char **argv)
{
	FTS *walk = argc > 1 ? fts_open(argv + 1, FTS_LOGICAL, NULL) : NULL;
	size_t count = 0;
	FTSENT *entry;

	if (!walk) {
		fprintf(stderr, "usage: %s FILE-OR-DIRECTORY...\n", argv[0]);
		return 2;
	}
	while ((entry = fts_read(walk))) {
		if (entry->fts_info == FTS_D || entry->fts_info == FTS_DP)
			continue;
		if (entry->fts_info != FTS_F ||
		    input_run(entry->fts_accpath, (size_t)entry->fts_statp->st_size) < 0) {
			fprintf(stderr, "%s: cannot read\n", entry->fts_path);
			return 1;
		}
		count++;
	}
	fts_close(walk);
	printf("%zu inputs\n", count);
	return count ? 0 : 1;
}
