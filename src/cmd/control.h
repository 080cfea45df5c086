/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket by which commands reach an assay that records or counts; its name tells which one.
 * Only its own user and root are served. Clients check the server in the same way, because any user
 * can take such a name. A request is a line, the answer is a JSON object.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct control;

enum { CONTROL_REQUEST_MAX = 8192 }; /* bytes */

/* Answers a request, which has no line feed; the caller frees the text. In a thread of its own. */
typedef char *control_answer(void *ctx, const char *request);

/* name: "count.1234". -EADDRINUSE: another process has that name already. */
int control_create(const char *name, control_answer *answer, void *ctx, struct control **ret);
/* No request is served any more when this has returned. */
void control_destroy(struct control *control);
DEFINE_AUTO(struct control, control_destroy)

/* Which process or user has to be the server, besides being trusted. */
struct control_peer {
	pid_t pid; /* 0: any */
	bool owned; /* it has to be that user: */
	uid_t user;
};

/*
 * -ESRCH: no process has that name; -EPERM: the process that has it is not trusted, or is not the
 * peer. The caller frees the text.
 */
int control_ask(const char *name, const struct control_peer *peer, const char *request, char **ret);
