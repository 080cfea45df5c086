/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a profile that is written lies, in a folder where other users may write too. Private to
 * store/.
 *
 * In a folder of the caller's own SQLite works at the place itself. Elsewhere it works in a private
 * folder beside it, which no other user can enter, so that neither the file nor its log can be put
 * there by others or kept open by them. While it is written, a link at the place leads to it:
 *
 *	assay.db -> .assay.db.0123456789abcdef/assay.db
 *
 * and at the end the file itself takes the place of the link. After a kill the link stays, so the
 * profile is found by its name all the same.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/cleanup.h"

struct place {
	char *path; /* as the user gave it, for messages */
	char *name; /* of the profile, in either folder */
	int dir; /* where SQLite works; O_PATH */
	int outer; /* where the user looks for the profile, if that is another folder; or -1 */
	char *inner; /* the name of dir in outer */
};

#define PLACE_NONE ((struct place){ .dir = -1, .outer = -1 })

/*
 * Finds the folder of path, which exists, without following links of other users; and the private
 * folder, if a recording has left one there.
 */
int place_open(struct place *place, const char *path);
void place_close(struct place *place);
/* The name of the file, or of one beside it, for SQLite and for who opens it. */
char *place_file(const struct place *place, const char *suffix);
/* -1 with errno: there is none. A link is looked at, not followed. */
int place_stat(const struct place *place, const char *suffix, struct stat *ret);
/* Whether only the caller and root can write in the folder. */
bool place_folder_is_safe(int dir);
/* Moves into a new private folder, if the folder is not safe. */
int place_enter(struct place *place);
/* Makes the link. -EEXIST: another process was faster. */
int place_publish(struct place *place);
/* The file is complete: replaces the link by it, and removes the private folder. */
int place_settle(struct place *place);
/* Removes the private folder, which has no profile any more, and the link to it. */
void place_leave(struct place *place);
/*
 * Has the profile and all that belongs to it removed if a signal ends the process. ret: for
 * leftover_forget(), when the profile is elsewhere or has gone.
 */
enum { PLACE_LEFTOVERS = 6 };
void place_leftovers(const struct place *place, int ret[PLACE_LEFTOVERS]);
/* Removes what SQLite may have left beside the profile. */
void place_companions_remove(int dir, const char *name);
