// SPDX-License-Identifier: BSD-2-Clause
// Serves: V2.
/*
 * The interpreter against the processor on real programs.
 *
 * A program is stopped at many places. At each the interpreter runs ahead from the stopped
 * registers, reading the program's memory, and writes down what it claims after each instruction.
 * Then the program itself is stepped through the same instructions, and each claim is held against
 * its registers, flags, memory and next pc. No claim may be wrong. Between places the program runs
 * freely for a moment, so that all its phases are seen. One run in eight knows the vector registers
 * from its start; the others, as in the kernel, do not.
 *
 *	step_test [--steps N] [--ahead N] [--victim C++-PROGRAM | PROGRAM ARGUMENT...]
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "isa/lift.h"
#include "isa/oracle.h"

enum {
	AHEAD_MAX = 64,
	AHEAD_DEFAULT = 16,
	STEPS_DEFAULT = 102000, /* over all programs */
	RUNS_AT_ONCE = 24, /* from place to place without running freely */
	STRING_STEPS_MAX = 4096,
	MISMATCHES_SHOWN = 10,
	MNEMONICS = 2048,
	LISTED = 6, /* mnemonics that ended runs most often */
	STARTS_MAX = 200, /* of one program */
};

static long steps_wanted = STEPS_DEFAULT;
static int ahead = AHEAD_DEFAULT;
static char *victim; /* the C++ program */

/* One claimed instruction, with the memory it claims to have written. */
struct prediction {
	struct oracle_claim claim;
	struct uop_stored stores[4]; /* of a string instruction the last ones */
	unsigned store_count;
};

/* Of every other run: it is as if the module had been linked for addresses so much lower. */
#define BIAS 0x3c4d5e6f7000ull

struct tally {
	uint64_t compared;
	uint64_t runs;
	uint64_t whole_runs; /* that reached their length */
	uint64_t unknown_results; /* instructions that left something unknown anew */
	uint64_t stores;
	uint64_t misses;
	uint64_t ends[UOP_END_COUNT];
	uint64_t mnemonics[MNEMONICS]; /* of give-ups by the lifter */
	/* of what first made something unknown before an end for that */
	uint64_t culprits[MNEMONICS];
	uint64_t mismatches;
};

struct tracee {
	pid_t pid;
	bool ended;
	struct uop_machine *machine;
	struct tally tally;
	uint64_t random;
};

static size_t read_tracee(void *context, uint64_t address, void *ret, size_t size)
{
	const struct tracee *tracee = context;
	struct iovec here = { .iov_base = ret, .iov_len = size };
	struct iovec there = { .iov_base = (void *)address, .iov_len = size };
	size_t left = 4096 - (address & 4095);
	ssize_t got = process_vm_readv(tracee->pid, &here, 1, &there, 1, 0);

	/* A transfer that crosses into a missing page can fail as a whole. */
	if (got < 0 && left < size) {
		here.iov_len = there.iov_len = left;
		got = process_vm_readv(tracee->pid, &here, 1, &there, 1, 0);
	}
	return got < 0 ? 0 : got;
}

static void spawn(struct tracee *tracee, char *const *command)
{
	int status;

	tracee->ended = false;
	tracee->pid = fork();
	if (tracee->pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		/* Meson's, to find mistakes in tests: the programs would only fill memory. */
		unsetenv("MALLOC_PERTURB_");
		raise(SIGSTOP);
		execvp(command[0], command);
		_exit(127);
	}
	assert_true(tracee->pid > 0);
	assert_int_equal(waitpid(tracee->pid, &status, WUNTRACED), tracee->pid);
	assert_int_equal(
		ptrace(PTRACE_SEIZE, tracee->pid, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL), 0);
	kill(tracee->pid, SIGCONT);
}

/*
 * Waits for the next stop; the signal to hand on, 0 for stops of our own, or -1 if the program is
 * gone.
 */
static int wait_stop(struct tracee *tracee)
{
	int status;

	if (waitpid(tracee->pid, &status, __WALL) != tracee->pid || !WIFSTOPPED(status)) {
		tracee->ended = true;
		return -1;
	}
	if (status >> 16 || WSTOPSIG(status) == SIGTRAP)
		return 0;
	return WSTOPSIG(status);
}

/* One instruction of the program; false if something else than it happened. */
static bool step(struct tracee *tracee, struct oracle_registers *ret)
{
	int signal;

	ptrace(PTRACE_SINGLESTEP, tracee->pid, NULL, NULL);
	signal = wait_stop(tracee);
	if (signal < 0)
		return false;
	if (signal > 0) {
		ptrace(PTRACE_SINGLESTEP, tracee->pid, NULL, (void *)(intptr_t)signal);
		wait_stop(tracee);
		return false;
	}
	return oracle_registers_get(tracee->pid, ret) == 0;
}

/* Within a system call the registers are not yet those that the program will see. */
static void leave_kernel(struct tracee *tracee)
{
	struct oracle_registers regs;

	if (!tracee->ended)
		step(tracee, &regs);
}

/* Lets the program run for some time, then stops it. */
static void run_freely(struct tracee *tracee, long nanoseconds)
{
	struct timespec pause = { .tv_nsec = nanoseconds };
	int signal;

	ptrace(PTRACE_CONT, tracee->pid, NULL, NULL);
	nanosleep(&pause, NULL);
	ptrace(PTRACE_INTERRUPT, tracee->pid, NULL, NULL);
	while ((signal = wait_stop(tracee)) > 0)
		ptrace(PTRACE_CONT, tracee->pid, NULL, (void *)(intptr_t)signal);
	leave_kernel(tracee);
}

/* To the first instruction of the program that the command names. */
static void run_to_exec(struct tracee *tracee)
{
	int status;

	while (waitpid(tracee->pid, &status, __WALL) == tracee->pid && WIFSTOPPED(status)) {
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
			leave_kernel(tracee);
			return;
		}
		ptrace(PTRACE_CONT, tracee->pid, NULL, NULL);
	}
	tracee->ended = true;
}

/* Bits of general registers, and above them of the flag that most branches are on. */
static uint64_t unknown_now(const struct uop_machine *machine)
{
	uint64_t flags = UOP_ZF & ~machine->state.flags_known, unknown = 0;

	for (unsigned i = 0; i < 16; i++)
		unknown |= (uint64_t) !!machine->state.unknown[i] << i;
	return unknown | flags << 16;
}

static void tally_end(struct tracee *tracee, enum uop_end end, uint64_t culprit)
{
	struct tally *tally = &tracee->tally;
	uint8_t code[16] = { 0 };

	tally->ends[end]++;
	if (tracee->machine->give_up_mnemonic < MNEMONICS)
		tally->mnemonics[tracee->machine->give_up_mnemonic]++;
	if (end == UOP_END_UNKNOWN_BRANCH || end == UOP_END_UNKNOWN_ADDRESS) {
		read_tracee(tracee, culprit, code, sizeof(code));
		tally->culprits[oracle_mnemonic(code, sizeof(code)) % MNEMONICS]++;
	}
}

static int predict(struct tracee *tracee, struct prediction predictions[AHEAD_MAX])
{
	struct uop_machine *machine = tracee->machine;
	uint64_t unknown = 0, culprit = 0;
	int count;

	for (count = 0; count < ahead; count++) {
		struct prediction *prediction = &predictions[count];
		uint64_t pc = machine->state.pc;
		enum uop_end end = uop_machine_next(machine);

		if (end != UOP_END_NONE) {
			tally_end(tracee, end, culprit);
			return count;
		}
		oracle_claim_take(machine, pc, &prediction->claim);
		prediction->store_count = machine->store_count < 4 ? machine->store_count : 4;
		memcpy(prediction->stores,
		       machine->stores + machine->store_count - prediction->store_count,
		       prediction->store_count * sizeof(prediction->stores[0]));
		if (unknown_now(machine) & ~unknown) {
			tracee->tally.unknown_results++;
			culprit = unknown ? culprit : pc;
		}
		unknown = unknown_now(machine);
	}
	tracee->tally.whole_runs++;
	return count;
}

static bool stores_hold(struct tracee *tracee, const struct prediction *prediction,
			char text[ORACLE_TEXT_MAX])
{
	for (unsigned i = 0; i < prediction->store_count; i++) {
		const struct uop_stored *stored = &prediction->stores[i];
		uint64_t value = 0;
		uint64_t mask = ~0ull >> (64 - stored->size * 8);

		tracee->tally.stores++;
		if (stored->unknown)
			continue;
		if (read_tracee(tracee, stored->address, &value, stored->size) == stored->size &&
		    value == (stored->value & mask))
			continue;
		snprintf(text, ORACLE_TEXT_MAX,
			 "stored %" PRIx64 " at %" PRIx64 ", claimed %" PRIx64, value,
			 stored->address, stored->value & mask);
		return false;
	}
	return true;
}

/* Steps over one claimed instruction, all repetitions included, and judges it. */
static bool verify(struct tracee *tracee, const struct prediction *prediction)
{
	char what[ORACLE_TEXT_MAX], where[ORACLE_TEXT_MAX];
	struct oracle_registers regs;
	uint8_t code[16] = { 0 };
	int steps = 0;

	do {
		if (!step(tracee, &regs))
			return false;
	} while (regs.general.rip == prediction->claim.pc &&
		 prediction->claim.next != prediction->claim.pc && ++steps < STRING_STEPS_MAX);
	tracee->tally.compared++;
	if (oracle_claim_holds(&prediction->claim, &regs, what) &&
	    stores_hold(tracee, prediction, what))
		return true;
	if (tracee->tally.mismatches++ < MISMATCHES_SHOWN) {
		read_tracee(tracee, prediction->claim.pc, code, sizeof(code));
		oracle_describe(code, sizeof(code), prediction->claim.pc, where);
		print_message("%s: %s\n", where, what);
	}
	return false;
}

/*
 * One run ahead and its verification. An instruction that cannot be interpreted is stepped over;
 * false if it is still there, as a long string instruction is, which would take millions of steps.
 */
static bool compare_run(struct tracee *tracee)
{
	struct prediction predictions[AHEAD_MAX];
	struct oracle_registers regs;
	int count;

	if (oracle_registers_get(tracee->pid, &regs) < 0) {
		tracee->ended = true;
		return false;
	}
	tracee->machine->bias = tracee->tally.runs & 1 ? BIAS : 0;
	oracle_start(tracee->machine, &regs, tracee->tally.runs % 8 == 2);
	tracee->tally.runs++;
	count = predict(tracee, predictions);
	tracee->tally.misses += tracee->machine->state.misses;
	for (int i = 0; i < count; i++)
		if (!verify(tracee, &predictions[i]))
			return true;
	if (count == ahead)
		return true;
	step(tracee, &regs);
	return !tracee->ended && regs.general.rip != tracee->machine->give_up_pc;
}

static void compare_program(struct tracee *tracee, char *const *command, uint64_t wanted)
{
	for (int starts = 0; starts < STARTS_MAX && tracee->tally.compared < wanted; starts++) {
		spawn(tracee, command);
		run_to_exec(tracee);
		while (!tracee->ended && tracee->tally.compared < wanted) {
			for (int i = 0; i < RUNS_AT_ONCE && !tracee->ended && compare_run(tracee);)
				i++;
			tracee->random = hash64(tracee->random + 1);
			if (!tracee->ended)
				run_freely(tracee, tracee->random % 400000);
		}
		if (!tracee->ended) {
			kill(tracee->pid, SIGKILL);
			waitpid(tracee->pid, NULL, __WALL);
		}
	}
}

/*
 * The next mnemonic in order of give-ups: *bound is count * MNEMONICS + mnemonic of the one before.
 */
static bool most_frequent(const uint64_t counts[MNEMONICS], uint64_t *bound)
{
	uint64_t best = 0;

	for (int i = 1; i < MNEMONICS; i++) {
		uint64_t rank = counts[i] * MNEMONICS + i;

		if (counts[i] && rank < *bound && rank > best)
			best = rank;
	}
	*bound = best;
	return best != 0;
}

static void print_frequent(const char *what, const uint64_t counts[MNEMONICS])
{
	uint64_t bound = UINT64_MAX;

	for (int i = 0; i < LISTED && most_frequent(counts, &bound); i++)
		print_message("    %6" PRIu64 " %s %s\n", bound / MNEMONICS, what,
			      lift_mnemonic(bound % MNEMONICS));
}

static void print_ends(const struct tally *tally)
{
	for (int end = 1; end < UOP_END_COUNT; end++)
		if (tally->ends[end])
			print_message("    %6" PRIu64 " runs ended (1 in %" PRIu64 " steps): %s\n",
				      tally->ends[end], tally->compared / tally->ends[end],
				      uop_end_text(end));
	print_frequent("at", tally->mnemonics);
	print_frequent("made unknown by", tally->culprits);
}

static void print_tally(const char *name, const struct tally *tally)
{
	print_message("%s: %" PRIu64 " instructions and %" PRIu64 " stores compared, %" PRIu64
		      " mismatches; %" PRIu64
		      " runs, %.2f%% whole; %.2f%% of results unknown; %" PRIu64
		      " loads of missing pages\n",
		      name, tally->compared, tally->stores, tally->mismatches, tally->runs,
		      100.0 * tally->whole_runs / (tally->runs ? tally->runs : 1),
		      100.0 * tally->unknown_results / (tally->compared ? tally->compared : 1),
		      tally->misses);
	print_ends(tally);
}

static void compare_command(char *const *command, uint64_t wanted)
{
	AUTO(free_ptr) struct tracee *tracee = mem_zalloc(sizeof(*tracee));
	uint64_t unsupported;

	tracee->random = 1;
	tracee->machine = uop_machine_create(read_tracee, tracee);
	compare_program(tracee, command, wanted);
	uop_machine_destroy(tracee->machine);
	print_tally(command[0], &tracee->tally);
	assert_int_equal(tracee->tally.mismatches, 0);
	assert_true(tracee->tally.compared >= wanted);
	unsupported =
		tracee->tally.ends[UOP_END_UNSUPPORTED] + tracee->tally.ends[UOP_END_UNDECODABLE];
	assert_true(unsupported * 100 <= tracee->tally.runs);
	assert_int_equal(tracee->tally.ends[UOP_END_BAD_BLOCK], 0);
}

/* Columns: name of the test, command line. */
#define PROGRAMS(X)                                                                                \
	X(xz, "xz", "-T1", "-9", "-c", "/proc/self/exe")                                           \
	X(gzip, "gzip", "-9", "-c", "/proc/self/exe")                                              \
	X(python, "/usr/bin/python3", "-c",                                                        \
	  "import json,re\n"                                                                       \
	  "for i in range(3000):\n"                                                                \
	  " d={str(k):[k*1.5,'x'*k] for k in range(40)}\n"                                         \
	  " re.sub('[0-9]+',lambda m:m[0][::-1],json.dumps(d,sort_keys=True))\n")                  \
	X(bash, "bash", "-c",                                                                      \
	  "for ((i=0;i<90000;i++)); do a[i%97]=\"${a[(i*7)%97]:0:9}$((i*i%1001))\"; "              \
	  "[[ ${a[i%97]} =~ ^[0-9]+5 ]] && s=${s:0:20}x; done")                                    \
	X(sqlite, "sqlite3", ":memory:",                                                           \
	  "create table t(a integer primary key,b text,c real);"                                   \
	  "with recursive n(i) as (select 1 union all select i+1 from n where i<90000) "           \
	  "insert into t select i,hex(i*77777),i/7.0 from n; create index x on t(b);"              \
	  "select count(*),sum(c),max(b) from t where b like '%7%' group by a%13 order by 2;")     \
	X(cxx, victim)

enum {
#define X(name, ...) PROGRAM_##name,
	PROGRAMS(X)
#undef X
		PROGRAM_COUNT
};

#define X(name, ...)                                                                               \
	static void name##_agrees(void **state)                                                    \
	{                                                                                          \
		char *command[] = { __VA_ARGS__, NULL };                                           \
                                                                                                   \
		if (!command[0])                                                                   \
			skip();                                                                    \
		compare_command(command, steps_wanted / PROGRAM_COUNT);                            \
	}
PROGRAMS(X)
#undef X

static char *const *command_given;

static void given_agrees(void **state)
{
	compare_command(command_given, steps_wanted);
}

static int read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "steps", required_argument, NULL, 's' },
		{ "ahead", required_argument, NULL, 'a' },
		{ "victim", required_argument, NULL, 'v' },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (option == 's')
			steps_wanted = strtol(optarg, NULL, 0);
		else if (option == 'a')
			ahead = strtol(optarg, NULL, 0);
		else if (option == 'v')
			victim = optarg;
		else
			return -EINVAL;
	}
	if (steps_wanted < 1 || ahead < 1 || ahead > AHEAD_MAX)
		return -EINVAL;
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define X(name, ...) cmocka_unit_test(name##_agrees),
		PROGRAMS(X)
#undef X
	};
	const struct CMUnitTest given[] = { cmocka_unit_test(given_agrees) };

	if (read_options(argc, argv) < 0) {
		fprintf(stderr, "step_test [--steps N] [--ahead 1..%d] [PROGRAM ARGUMENT...]\n",
			AHEAD_MAX);
		return 2;
	}
	if (optind == argc)
		return cmocka_run_group_tests(tests, NULL, NULL);
	command_given = argv + optind;
	return cmocka_run_group_tests(given, NULL, NULL);
}
