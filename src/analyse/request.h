/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request: which view of a profile, of which code and threads, by which metric, sorted by what,
 * how many rows, in which format. It is built from the words of a command line or from one text:
 *
 *	functions?symbol=deflate*&sort=self&limit=20
 *
 * A text is the name of a view (none: functions), then after a '?' options as of `assay report`,
 * without their dashes, separated by '&'. In names and values %20 stands for the byte 0x20 and so
 * on; a '+' is a plus. Both ways go through the same rows, so that both take the same values and
 * refuse the same.
 */
#pragma once

#include "analyse/views.h"
#include "base/option.h"

enum request_format { FORMAT_TEXT, FORMAT_JSON };

/* Not to be moved once initialised: its options point to it. */
struct request {
	struct view_request wish;
	const struct view *view;
	enum request_format format;
	struct options options; /* what was given */
};

/* The options of requests. Fields are those of struct request. */
extern const struct option_row request_rows[];
/* Words for enum call_cost. */
extern const struct option_choice request_costs[];
/* For option groups of request_rows: the views that take a row. */
void request_takers(const struct option_row *row, struct strbuf *ret);

/*
 * groups: the options of a command that begins with those of a request, for a struct that begins
 * with the request; NULL: those of a request alone.
 */
void request_init(struct request *request, const struct option_group *groups);
void request_deinit(struct request *request);

/* Takes a text in, in addition to what was given before. -EINVAL: it is wrong, and why. */
int request_take(struct request *request, const char *text);
/* The same of a new request, with what its options need and its view takes checked. */
int request_parse(const char *text, struct request *ret);
/* Checks that the view takes every option that was given, and that each has an effect. */
int request_check(const struct request *request);
/* Appends the text that gives the same request. */
void request_print(const struct request *request, struct strbuf *ret);
