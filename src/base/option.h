/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options as data. A row says what an option is called, what it takes, within which range, what it
 * is for, and which field of a struct it fills. From the rows come the parsing of command lines and
 * of requests as text, the help of each command, the completion of shells, and the option lists of
 * the manual (base/option_text.h).
 *
 * A command has groups of rows, and one struct that all of them fill. Fields get the values that
 * the rows call initial first. Every failure is -EINVAL with a sentence of one form:
 *
 *	--limit many: takes a whole number from 1 on
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/strbuf.h"

/* The type of the field is behind each. */
enum option_type {
	OPTION_FLAG, /* bool; takes no value */
	OPTION_NUMBER, /* unsigned, 4 or 8 bytes: a whole number from low to high */
	OPTION_SIZE, /* uint64_t, bytes: a number of units, or with K, M or G behind it */
	OPTION_DURATION, /* double, seconds: 10, 1.5, 500ms, 2m, 1h; more than 0 */
	OPTION_SHARE, /* double, 0 to 1: 0.01 or 1% */
	OPTION_TEXT, /* const char * */
	OPTION_FILE, /* const char *, a path */
	OPTION_CHOICE, /* enum: the number of one of choices */
	OPTION_CHOICES, /* uint64_t: bits of some of choices, separated by commas */
	OPTION_NUMBERS, /* struct option_numbers: 1,2,5 and, where ranges are taken, 3-7 */
	OPTION_PATTERN, /* struct option_texts: each time the option is given adds one */
	OPTION_LIST, /* struct option_texts: separated by commas that are not in parentheses */
};

struct option_numbers {
	int64_t *items;
	size_t count, capacity;
};

struct option_texts {
	const char **items;
	size_t count, capacity;
};

struct option_choice {
	const char *name;
	const char *help;
	/* understood only to be refused with a reason; neither help nor completion offers it */
	bool hidden;
};

struct option_row {
	const char *name; /* without the dashes; NULL: the end of the rows */
	char letter; /* 0: none */
	enum option_type type;
	size_t at, size; /* the field; OPTION_FIELD() */
	size_t also_at, also_size; /* a field that is set to `also` when the option is given */
	uint64_t also; /* also_size 0: there is none */
	const char *argument; /* what the help calls the value: "N" */
	const char *initial; /* the value if the option is not given; NULL: the field stays 0 */
	const char *otherwise; /* instead of initial, for people: "a random number" */
	const char *implied; /* the value may be left out, and is then this; NULL: it may not */
	uint64_t low, high; /* NUMBER, NUMBERS; SIZE in bytes; high 0: no limit */
	uint64_t unit; /* SIZE: bytes that a number without a letter counts */
	bool ranges; /* NUMBERS */
	const struct option_choice *choices; /* CHOICE, CHOICES; ended by an entry without a name */
	const char
		*needs; /* "values": of use only with that option; "tool=paths": with that choice */
	/* bits: a view or format takes the option if it has one of them; 0: all of them take it */
	unsigned only;
	/* why the others do not take it; NULL: it would change nothing there */
	const char *refusal;
	bool hidden; /* for tests: neither in the help nor in the manual */
	const char *help; /* one sentence without its full stop; `words` like this are literal */
	const char *more; /* further sentences, for the manual; NULL: none */
};

#define OPTION_FIELD(type, member) .at = offsetof(type, member), .size = sizeof(((type *)0)->member)
#define OPTION_ALSO(type, member, value)                                                           \
	.also_at = offsetof(type, member), .also_size = sizeof(((type *)0)->member), .also = (value)

struct option_group {
	const char *title; /* NULL: none */
	const struct option_row *rows; /* NULL: the end of the groups */
	const char *const *taken; /* the names of those that count here, ended by NULL; NULL: all */
	/*
	 * Appends the names of those that take the row ("tree", "paths and strata"), nothing if all
	 * do; NULL: all do.
	 */
	void (*takers)(const struct option_row *row, struct strbuf *ret);
};

/* The options that were given to one command. */
struct options {
	const struct option_group *groups;
	void *target;
	ARRAY(const struct option_row *) given; /* each once, in the order of their last time */
	ARRAY(char *) owned; /* what fields point to, other than the texts given */
	bool help; /* --help or -h was given: nothing after it was looked at */
};

/*
 * The groups and what they fill must outlive the options. Sets the fields that rows have a value
 * for.
 */
void options_init(struct options *options, const struct option_group *groups, void *target);
/* Frees what lists in the target hold as well. */
void options_deinit(struct options *options);

enum option_order {
	OPTIONS_ANYWHERE, /* options may follow arguments */
	OPTIONS_FIRST, /* the first argument ends the options: it is a command */
};

/*
 * Takes the options in; argv[*ret] and what follows are the arguments. What an option needs is
 * checked at the end, unless help was asked for.
 */
int options_parse(struct options *options, enum option_order order, int argc, char **argv,
		  int *ret);
/*
 * Takes one option in. text NULL: it was given without a value. The text must outlive the options.
 */
int options_take(struct options *options, const struct option_row *row, const char *text);
/* Checks that every option that was given has the other option that it needs. */
int options_needs_check(const struct options *options);

/*
 * Checks that a view or an export format takes every option that was given. takes: its bits of
 * option_row.only; who: its name in messages, "the view tree".
 */
int options_takes_check(const struct options *options, unsigned takes, const char *who);

/* NULL: there is none with exactly this name. */
const struct option_row *options_find(const struct option_group *groups, const char *name);
bool options_given(const struct options *options, const char *name);
/* Whether the group takes the row (`taken`). */
bool option_is_taken(const struct option_group *group, const struct option_row *row);
/* Whether the option has a value that must be given. */
bool option_has_value(const struct option_row *row);

/* The choice, or the next one behind it that is offered; at the end the entry without a name. */
const struct option_choice *option_choice_offered(const struct option_choice *choice);

/* The names of the choices that are offered: "`red`, `green` or `blue`" with the quote "`". */
void option_choices_join(const struct option_row *row, const char *quote, const char *between,
			 const char *last, struct strbuf *ret);
/*
 * How often an option must be given to say what the target holds: more than once for lists of
 * texts.
 */
size_t option_value_count(const struct option_row *row, const void *target);
/* Appends the text that gives what the target holds, the index-th time that it is given. */
void option_value_print(const struct option_row *row, const void *target, size_t index,
			struct strbuf *ret);

/* The name that is most like the one given; NULL: none is near. names ends with NULL. */
const char *option_nearest(const char *name, const char *const *names);
