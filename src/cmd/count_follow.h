/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --follow-callers: callers of routines that raise events are marked, and theirs, up to a level.
 *
 *	follow_visit()	the thread that records: an event was raised
 *	follow_next()	the thread that follows the process: what is to be marked next
 *	follow_end()	what was found, as events of the profile and for a person
 */
#pragma once

#include "marks/live.h"

struct follow;

/* levels: how far up. The marks must outlive it. */
struct follow *follow_create(struct marks *marks, unsigned levels);
void follow_destroy(struct follow *follow);
DEFINE_AUTO(struct follow, follow_destroy)

/* Of type marks_live_visit. */
void follow_visit(void *follow, uint32_t pid, uint32_t mark, uint64_t site);
/* The text of a mark, which is to be added, told of with follow_marked(), and freed; or NULL. */
char *follow_next(struct follow *follow);
void follow_marked(struct follow *follow, const char *text);
void follow_end(struct follow *follow, struct marks_live *live, bool quiet);
