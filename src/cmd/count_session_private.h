/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of a session share (count_session.h): its state, and orders for the thread that
 * follows the process.
 *
 *	count_session.c		orders, changes of marks, beginning and end
 *	count_rules.c		rules, and what they do
 *	count_answers.c		what is printed, and the answers of the socket
 */
#pragma once

#include <pthread.h>

#include "base/array.h"
#include "cmd/control.h"
#include "cmd/count_session.h"

enum order_kind { ORDER_ADD, ORDER_REMOVE, ORDER_VALUES, ORDER_PATHS };

struct order;

/* A rule, and when it fired. */
struct ruled {
	uint64_t last; /* CLOCK_MONOTONIC; 0: never */
	uint64_t fired;
};

struct session {
	struct session_options given;
	struct ruled *ruled; /* by rule */
	struct control *control; /* NULL: none */
	struct inject *inject; /* while the process is followed; under lock */
	pid_t pid;
	pthread_mutex_t lock; /* of orders and inject */
	pthread_cond_t served; /* an order was done */
	ARRAY(struct order *) orders;
	bool over;
	/* The fields from here on belong to the thread that follows the process. */
	bool native; /* the process is not in the engine */
	uint64_t changed; /* when marks changed and engines have not all seen it; 0: they have */
	uint64_t page; /* of the sweep: the next one */
	char *page_mark; /* what is marked of it; NULL: nothing yet */
	bool page_due; /* a turn is over */
	ARRAY(pid_t) children; /* commands of rules; under lock */
};

/* --- count_session.c -------------------------------------------------------------------------- */
/* Gives the thread that follows the process something to do; text: the mark, or NULL. */
struct order *session_order(struct session *session, enum order_kind kind, const char *text,
			    uint64_t time, bool waited_for);
/*
 * Waits until an order with waited_for has been served, and frees it. Returns what it has led to;
 * -ETIMEDOUT: the process is over, or its threads do not come by.
 */
int session_order_wait(struct session *session, struct order *order);

/* --- count_rules.c ---------------------------------------------------------------------------- */
/* Does what rules say that hold now, in the thread that records. */
void session_rules_look(struct session *session, const struct marks_reading *reading);

/* --- count_answers.c -------------------------------------------------------------------------- */
/* The seconds since the reading before; 0: there was none. */
double session_seconds(const struct marks_reading *reading);
/* Prints what marks have counted, as a table. */
void session_print(struct session *session, const struct marks_reading *reading);
/* Answers a request of the socket, in its thread; the caller frees the text. */
char *session_answer(void *session, const char *request);
