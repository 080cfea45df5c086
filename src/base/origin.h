/* SPDX-License-Identifier: BSD-2-Clause */
/* Who can have put something where it lies, and who may read it anyway. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Root, the caller, or who became root by sudo to be the caller. */
bool origin_is_ours(uid_t user);
/* Whether no other user can change what the folder holds, put anything into it or take it away. */
bool origin_folder_is_ours(const struct stat *folder);
/*
 * Whether no other user can have put the file at that absolute path. A path with a symbolic link in
 * it is not ours. -ENOENT: nothing lies there; other errors stand for files that cannot be judged.
 */
int origin_of_path(const char *path, bool *ret_ours);
/* Whether everybody may read the file that is open, through all the folders in which it lies. */
bool origin_is_public(int fd);
