/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which values are taken along an interpreted run: `--values=WHAT` as data.
 *
 *	what := item [,item ...]
 *	item := term [+term ...] [@caller]
 *	term := source | function(source) | difference(source,source)
 *
 * An item gives one value, or a tuple of its terms, wherever all its sources exist: `result` at
 * instructions that compute something, `arg0` where a function is entered. With @caller each call
 * site of the function has a list of its own. Groups stand for several items: `default`,
 * `operands`, `args`. `path:12` is a source too: the next 12 branches.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "values/hotlist.h"
#include "values/valuefn.h"

/* Columns: name, text, what a person reads. */
#define SELECTION_CLASSES(X)                                                                       \
	X(CONTEXT, "context", "anywhere; the same for a whole run")                                \
	X(INSTRUCTION, "instruction", "at each instruction that has it")                           \
	X(ENTRY, "entry", "where a function is entered")                                           \
	X(RUN, "run", "once for a run, at its first instruction")

enum selection_class {
#define X(name, text, help) SELECTION_##name,
	SELECTION_CLASSES(X)
#undef X
		SELECTION_CLASS_COUNT
};

/* Columns: name, text, class, what a person reads. */
#define SELECTION_SOURCES(X)                                                                       \
	X(RESULT, "result", INSTRUCTION,                                                           \
	  "what the instruction computes; of a comparison its left side")                          \
	X(RESULT2, "result2", INSTRUCTION,                                                         \
	  "second register written: upper half, remainder, what xchg gives in return")             \
	X(OPERAND1, "operand1", INSTRUCTION, "first source operand")                               \
	X(OPERAND2, "operand2", INSTRUCTION, "second source operand")                              \
	X(OPERAND3, "operand3", INSTRUCTION, "third source operand: rdx of div, count of shld")    \
	X(OPERAND4, "operand4", INSTRUCTION, "fourth source operand")                              \
	X(ADDRESS, "address", INSTRUCTION, "address of the memory that is read or written")        \
	X(ADDRESS2, "address2", INSTRUCTION, "second address: where movs writes, push [mem] too")  \
	X(LOADED, "loaded", INSTRUCTION, "value read from memory")                                 \
	X(LOADED2, "loaded2", INSTRUCTION, "second value read from memory, by cmps")               \
	X(STORED, "stored", INSTRUCTION, "value written to memory")                                \
	X(OVERWRITTEN, "overwritten", INSTRUCTION, "value that was there before")                  \
	X(TAKEN, "taken", INSTRUCTION, "1 where a conditional branch is taken")                    \
	X(TARGET, "target", INSTRUCTION,                                                           \
	  "where an indirect jump, call or return goes; in a tuple any branch")                    \
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
	X(INTERRUPT, "interrupt", CONTEXT, "0 in a task, 1 in a soft interrupt, 2 in a hard one")  \
	X(SYSCALL, "syscall", CONTEXT, "number of the system call; only in the kernel")            \
	X(SYSARG0, "sysarg0", CONTEXT, "its first argument")                                       \
	X(SYSARG1, "sysarg1", CONTEXT, "its second argument")                                      \
	X(SYSARG2, "sysarg2", CONTEXT, "its third argument")                                       \
	X(SYSARG3, "sysarg3", CONTEXT, "its fourth argument")                                      \
	X(SYSARG4, "sysarg4", CONTEXT, "its fifth argument")                                       \
	X(SYSARG5, "sysarg5", CONTEXT, "its sixth argument")                                       \
	X(USERSITE, "usersite", CONTEXT, "return address of the function that called it")

enum selection_source {
#define X(name, text, class, help) SELECTION_##name,
	SELECTION_SOURCES(X)
#undef X
		SELECTION_SOURCE_COUNT
};

_Static_assert(SELECTION_SOURCE_COUNT <= 62, "a mask, and two bits that are no sources");

enum {
	SELECTION_ARGS = 6,
	SELECTION_PATH_LENGTH = 8,
	SELECTION_PATH_MAX = 63,
	SELECTION_ITEMS_MAX = 64
};

#define SELECTION_BIT(source) (UINT64_C(1) << (source))
/*
 * In masks of what is needed and known: the targets of indirect branches, and those of all. A
 * direct branch has always the same ones, so that `target` alone is not taken there; with something
 * else of the instruction it is: taken+target.
 */
#define SELECTION_INDIRECT (UINT64_C(1) << 63)
#define SELECTION_ANY_BRANCH (UINT64_C(1) << 62)

struct selection_term {
	struct valuefn fn;
	uint8_t source; /* enum selection_source */
	uint8_t second; /* second source of a function of two */
};

struct selection_item {
	/* canonical text: selection_parse() takes it and gives it again */
	char *text;
	/* where: INSTRUCTION or ENTRY if any source is, else RUN, else CONTEXT */
	enum selection_class class;
	struct selection_term terms[HOTLIST_WORDS_MAX];
	unsigned term_count;
	/*
	 * sources of its terms, as a mask, and SELECTION_INDIRECT or SELECTION_ANY_BRANCH with
	 * TARGET; not CALLER for by_caller alone
	 */
	uint64_t needs;
	bool by_caller;
	unsigned path_length; /* conditional branches, if PATH is among the sources; else 0 */
};

struct selection {
	struct selection_item *items;
	size_t count;
	uint64_t needs; /* sources of all items, and CALLER if one of them is by_caller */
};

/*
 * "default" is result, stored, taken, target and args; "operands" is operand1 to operand4; "args"
 * is arg0@caller to arg5@caller. The same item twice is one. An error names what is wrong and what
 * there is. No item mixes sources of instructions with those of entries, or sources that no
 * instruction has together.
 */
int selection_parse(const char *what, struct selection *ret);
void selection_deinit(struct selection *selection);

/*
 * What is known at one instruction of a run. PATH differs from item to item: it follows the item's
 * path_length.
 */
struct selection_facts {
	uint64_t known; /* bit per source, and the two bits of branches */
	bool path_open; /* the run ended early: PATH and GOALs are only those it came to */
	uint64_t values[SELECTION_SOURCE_COUNT];
	uint8_t widths
		/* in bits, 1 to 64 where known; those above are ignored */
		[SELECTION_SOURCE_COUNT];
};

/*
 * The item's words here, one per term; false where a source is missing, and then nothing is
 * written. A source alone is zero-extended. difference() works in the larger of its sources'
 * widths.
 *
 * The width of the first word in bits: of a source alone its own. Of a function one that holds all
 * its results as signed numbers, so that extending the sign from there changes no word: 8 for log2
 * and alignment, 64 for sign and difference, 8, 16, 32 or 64 for bits. Width 1 is a bit and has no
 * sign: low, bits:3, and what TAKEN has.
 */
bool selection_words(const struct selection_item *item, const struct selection_facts *facts,
		     uint64_t words[static HOTLIST_WORDS_MAX], unsigned *ret_width);

const char *selection_source_text(enum selection_source source);
const char *selection_source_help(enum selection_source source);
enum selection_class selection_source_class(enum selection_source source);
const char *selection_class_text(enum selection_class class);

/* Tells a person what may be given to selection_parse(). */
void selection_help(struct strbuf *buf);

static inline void selection_deinit_auto(struct selection *selection)
{
	selection_deinit(selection);
}
