/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file that appears under its name only when it is whole, in a folder where others may write too.
 *
 *	err = newfile_open(&file, path, 0666);		write to file.fd, or to newfile_stream()
 *	err = newfile_finish(&file);			it is whole: it has its name now
 *	newfile_drop(&file);				it is not: nothing is left behind
 *
 * What other users have put there is not trusted, whatever the kernel's fs.protected_* settings
 * are: a symbolic link is followed only if it is root's or the caller's own, a device or a pipe is
 * written to only then, and an ordinary file is replaced and never written into.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

struct newfile {
	int dir; /* the folder, looked up once; O_PATH */
	int fd;
	char *path; /* as the caller gave it, for messages */
	char *name; /* in dir */
	char *temporary; /* its name in dir while it is written; NULL: it has none yet */
	int leftover; /* of the temporary name; 0: none (leftover.h) */
	bool in_place; /* a device or a pipe, which is written to and not replaced */
};

/*
 * mode: of a file that is new, less the umask; one that replaces the caller's own file, in a folder
 * where no other user may write, keeps its mode.
 */
int newfile_open(struct newfile *file, const char *path, mode_t mode);
/* A stream onto the file, which the caller closes before newfile_finish(); NULL with errno. */
FILE *newfile_stream(const struct newfile *file);
/*
 * Finds the folder of path in the same way and opens it with O_PATH; also returns the last
 * component, which is not looked at. For callers that create sockets and other files there by
 * themselves.
 */
int newfile_folder(const char *path, int *ret_dir, char **ret_name);
/* ".NAME.0123456789abcdef"; the digits are random. */
char *newfile_random_name(const char *name);
/* Both end the use of the file. */
int newfile_finish(struct newfile *file);
void newfile_drop(struct newfile *file);
