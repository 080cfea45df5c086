/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is captured along an interpreted run: `--values=WHAT` as data.
 *
 *	what := item [,item ...]
 *	item := term [+term ...] [@caller]
 *	term := source | function(source) | difference(source,source)
 *
 * An item gives one value, or a tuple of its terms, wherever all its sources exist: `result` at instructions that
 * compute something, `arg0` where a function is entered. With @caller each call site of the function has a list of its
 * own. Groups stand for several items: `default`, `operands`, `args`. `path:12` is a source too: the next 12 branches.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "profile/hotlist.h"
#include "profile/valuefn.h"

/* Columns: name, text, what a person reads. */
#define CAPTURE_CLASSES(X)                                                                         \
	X(CONTEXT, "context", "anywhere; the same for a whole run")                                \
	X(INSTRUCTION, "instruction", "at each instruction that has it")                           \
	X(ENTRY, "entry", "where a function is entered")                                           \
	X(RUN, "run", "once for a run, at its first instruction")

enum capture_class {
#define X(name, text, help) CAPTURE_##name,
	CAPTURE_CLASSES(X)
#undef X
		CAPTURE_CLASS_COUNT
};

/* Columns: name, text, class, what a person reads. */
#define CAPTURE_SOURCES(X)                                                                         \
	X(RESULT, "result", INSTRUCTION,                                                           \
	  "what the instruction computes; of a comparison its left side")                          \
	X(OPERAND1, "operand1", INSTRUCTION, "first source operand")                               \
	X(OPERAND2, "operand2", INSTRUCTION, "second source operand")                              \
	X(ADDRESS, "address", INSTRUCTION, "address of the memory that is read or written")        \
	X(LOADED, "loaded", INSTRUCTION, "value read from memory")                                 \
	X(STORED, "stored", INSTRUCTION, "value written to memory")                                \
	X(OVERWRITTEN, "overwritten", INSTRUCTION, "value that was there before")                  \
	X(TAKEN, "taken", INSTRUCTION, "1 where a conditional branch is taken")                    \
	X(TARGET, "target", INSTRUCTION, "where an indirect jump, call or return goes")            \
	X(ARG0, "arg0", ENTRY, "first integer argument")                                           \
	X(ARG1, "arg1", ENTRY, "second integer argument")                                          \
	X(ARG2, "arg2", ENTRY, "third integer argument")                                           \
	X(ARG3, "arg3", ENTRY, "fourth integer argument")                                          \
	X(ARG4, "arg4", ENTRY, "fifth integer argument")                                           \
	X(ARG5, "arg5", ENTRY, "sixth integer argument")                                           \
	X(PATH, "path", RUN, "directions of the conditional branches ahead")                       \
	X(GOAL1, "goal1", RUN, "first indirect target ahead; 0 none")                              \
	X(GOAL2, "goal2", RUN, "second indirect target ahead; 0 none")                             \
	X(GOAL3, "goal3", RUN, "third indirect target ahead; 0 none")                              \
	X(CALLER, "caller", CONTEXT, "return address of the function: its call site")              \
	X(PID, "pid", CONTEXT, "process")                                                          \
	X(TID, "tid", CONTEXT, "thread")                                                           \
	X(PPID, "ppid", CONTEXT, "parent process")                                                 \
	X(UID, "uid", CONTEXT, "user")                                                             \
	X(GID, "gid", CONTEXT, "group")                                                            \
	X(EUID, "euid", CONTEXT, "effective user")                                                 \
	X(EGID, "egid", CONTEXT, "effective group")                                                \
	X(TTY, "tty", CONTEXT, "controlling terminal, as device number; 0 none")                   \
	X(CGROUP, "cgroup", CONTEXT, "control group, by id")                                       \
	X(CPU, "cpu", CONTEXT, "processor")                                                        \
	X(PRIORITY, "priority", CONTEXT, "the scheduler's priority")                               \
	X(POLICY, "policy", CONTEXT, "scheduling policy")                                          \
	X(PENDING, "pending", CONTEXT, "pending signals, as a mask")                               \
	X(BLOCKED, "blocked", CONTEXT, "blocked signals, as a mask")                               \
	X(INTERRUPT, "interrupt", CONTEXT, "0 in a task, 1 in a soft interrupt")                   \
	X(SYSCALL, "syscall", CONTEXT, "number of the system call; only in the kernel")            \
	X(SYSARG0, "sysarg0", CONTEXT, "its first argument")                                       \
	X(SYSARG1, "sysarg1", CONTEXT, "its second argument")                                      \
	X(SYSARG2, "sysarg2", CONTEXT, "its third argument")                                       \
	X(SYSARG3, "sysarg3", CONTEXT, "its fourth argument")                                      \
	X(SYSARG4, "sysarg4", CONTEXT, "its fifth argument")                                       \
	X(SYSARG5, "sysarg5", CONTEXT, "its sixth argument")                                       \
	X(USERSITE, "usersite", CONTEXT, "return address of the function that called it")

enum capture_source {
#define X(name, text, class, help) CAPTURE_##name,
	CAPTURE_SOURCES(X)
#undef X
		CAPTURE_SOURCE_COUNT
};

_Static_assert(CAPTURE_SOURCE_COUNT <= 64, "a mask");

enum { CAPTURE_ARGS = 6, CAPTURE_PATH_LENGTH = 8, CAPTURE_PATH_MAX = 63, CAPTURE_ITEMS_MAX = 64 };

#define CAPTURE_BIT(source) (UINT64_C(1) << (source))

struct capture_term {
	struct valuefn fn;
	uint8_t source; /* enum capture_source */
	uint8_t second; /* of a function of two */
};

struct capture_item {
	char *text; /* canonical: capture_parse() takes it and gives it again; one text, one item */
	enum capture_class class; /* where: INSTRUCTION or ENTRY if any source is, else RUN, else CONTEXT */
	struct capture_term terms[HOTLIST_WORDS_MAX];
	unsigned term_count;
	uint64_t needs; /* sources of its terms, as a mask; not CALLER for by_caller alone */
	bool by_caller;
	unsigned path_length; /* conditional branches, if PATH is among the sources; else 0 */
};

struct capture {
	struct capture_item *items;
	size_t count;
	uint64_t needs; /* of all items, and CALLER if one of them is by_caller */
};

/*
 * "default" is result, stored, taken, target and args; "operands" is operand1 and operand2; "args" is arg0@caller to
 * arg5@caller. The same item twice is one. An error names what is wrong and what there is. No item mixes sources of
 * instructions with those of entries.
 */
int capture_parse(const char *what, struct capture *ret);
void capture_deinit(struct capture *capture);

/* What is known at one instruction of a run. PATH differs from item to item: it follows the item's path_length. */
struct capture_facts {
	uint64_t known; /* bit per source */
	uint64_t values[CAPTURE_SOURCE_COUNT];
	uint8_t widths[CAPTURE_SOURCE_COUNT]; /* in bits, 1 to 64 where known; those above are ignored */
};

/*
 * The item's words here, one per term; false where a source is missing, and then nothing is written. A source alone is
 * zero-extended. difference() works in the larger of its sources' widths.
 *
 * The width of the first word in bits: of a source alone its own. Of a function one that holds all its results as
 * signed numbers, so that extending the sign from there changes no word: 8 for log2 and alignment, 64 for sign and
 * difference, 8, 16, 32 or 64 for bits. Width 1 is a bit and has no sign: low, bits:3, and what TAKEN has.
 */
bool capture_words(const struct capture_item *item, const struct capture_facts *facts,
		   uint64_t words[static HOTLIST_WORDS_MAX], unsigned *ret_width);

const char *capture_source_text(enum capture_source source);
const char *capture_source_help(enum capture_source source);
enum capture_class capture_source_class(enum capture_source source);
const char *capture_class_text(enum capture_class class);

/* What may be given to capture_parse(), for a person. */
void capture_help(struct strbuf *buf);

static inline void capture_deinit_auto(struct capture *capture)
{
	capture_deinit(capture);
}
