/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that threads hand to a loop, one at a time, and wait for the answer. */
#pragma once

struct mailbox;

/* closed: the answer to requests after mailbox_close(); must outlive the mailbox. */
int mailbox_create(const char *closed, struct mailbox **ret);
/* Called when no thread makes requests any more. */
void mailbox_destroy(struct mailbox *mailbox);

/* In any thread: a control_answer. The caller frees the text. */
char *mailbox_ask(void *mailbox, const char *request);

/* In the loop. Readable when a request waits. */
int mailbox_fd(const struct mailbox *mailbox);
/* NULL: there is none. The caller frees it, and answers it before it takes the next one. */
char *mailbox_take(struct mailbox *mailbox);
/* Takes the text. */
void mailbox_answer(struct mailbox *mailbox, char *text);
/* From now on no request is served; threads that wait get the answer `closed`. */
void mailbox_close(struct mailbox *mailbox);
