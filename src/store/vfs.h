/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How SQLite reaches the files of a profile: by descriptors that were opened and checked before, so
 * that no other file can be put under a name in between. Private to store/.
 */
#pragma once

/*
 * "/proc/self/fd/DIR/NAME", taken as it is: the links of /proc in it lead to the folder that is
 * open.
 */
extern const char vfs_in_folder[];
/* The same without locks, for folders that cannot be written. */
extern const char vfs_in_folder_unlocked[];
/*
 * The name is the number of a descriptor that is open for reading. The file is treated as
 * immutable, with no log, no journal and no locks. It is shown as one without a log even if its
 * recorder was killed before it had one.
 */
extern const char vfs_descriptor[];

/* 0, or SQLite's result code. More than once does nothing. */
int vfs_register(void);
