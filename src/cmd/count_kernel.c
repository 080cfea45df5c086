// SPDX-License-Identifier: BSD-2-Clause
/*
 * assay count --by kernel and --by auto: marks of a process that runs by itself. A command is held
 * while its libraries are mapped, and goes on with all counters set.
 *
 * What is cheaper depends on how often marks are visited. A visit costs the kernel a trap, whose
 * time is measured here; the engine costs a share of the process's own time, however often marks
 * are visited.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/count.h"
#include "cmd/count_session.h"
#include "recorder/command.h"
#include "recorder/probes/probe_marks.h"
#include "recorder/probes/starting.h"
#include "recorder/recorder_thread.h"

enum { COMMIT_MS = 500, TRIAL_MS = 1000, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127 };

/* The share that the engine adds to the CPU time of a process (docs/measurements.md). */
static const double engine_share = 0.5;

/* --- Waiting ---------------------------------------------------------------------------------- */

/* Waits until the process ends, a signal interrupts, or the time is over. True: it has ended. */
static bool process_wait(int process, int signals, double seconds)
{
	struct pollfd fds[] = { { .fd = process, .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	uint64_t end = clock_monotonic() + (uint64_t)(seconds * NS_PER_S);

	for (;;) {
		uint64_t now = clock_monotonic();
		int left = seconds > 0 ? (now < end ? (int)((end - now) / NS_PER_MS) + 1 : 0) : -1;
		int found = poll(fds, 2, left);

		if (found >= 0 || errno != EINTR)
			return found > 0 && fds[0].revents;
	}
}

static int signals_open(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaddset(&set, ends[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static int process_open(pid_t pid, int *ret)
{
	int err = trace_process_check(pid);
	int fd = err ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);

	if (err)
		return err;
	if (fd < 0)
		return err_set(-errno, "process %d: %s", (int)pid, strerror(errno));
	*ret = fd;
	return 0;
}

/* --- Counting --------------------------------------------------------------------------------- */

struct counting {
	const struct count_options *given;
	struct marks *marks;
	struct marks_live *live;
	struct session *session;
	char *const *argv; /* the command; only a NULL: a process that runs */
	pid_t pid;
	struct command *command; /* NULL: none */
	struct probes *probes;
	struct recorder *recorder;
	struct recorder_thread *thread;
};

static int recording_make(const struct counting *counting, struct recorder **ret)
{
	const struct recorder_options how = { .output = counting->given->trace.output,
					      .command = counting->argv,
					      .commit_ms = COMMIT_MS,
					      .written = command_signals_allow };
	AUTO(recorder_destroy_auto) struct recorder *recorder = NULL;
	int err = recorder_create(&how, &recorder);

	if (err)
		return err;
	probe_marks_add(recorder, counting->marks, counting->live, counting->probes, counting->pid);
	err = recorder_start(recorder);
	err = err ? err : recorder_fact_set(recorder, RECORDING_MARKS, "counted_by", "kernel");
	if (err) {
		recorder_abandon(recorder);
		return err;
	}
	*ret = take_ptr(recorder);
	return 0;
}

static void uncertain_say(const struct probes *probes)
{
	if (probes_uncertain(probes))
		log_warn("%zu threads were created while probes were set, and may be counted "
			 "twice or not at all",
			 probes_uncertain(probes));
}

static int recording_begin(struct counting *counting)
{
	int err = recording_make(counting, &counting->recorder);

	return err ? err : recorder_thread_start(counting->recorder, &counting->thread);
}

static int recording_end(struct counting *counting)
{
	const char *output = counting->given->trace.output;
	int err;

	recorder_thread_stop(take_ptr(counting->thread));
	err = recorder_finish(counting->recorder);
	if (!err)
		log_info("profile: %s; see it with 'assay report marks -i %s'", output, output);
	return err;
}

static void counting_deinit(struct counting *counting)
{
	recorder_thread_stop(counting->thread);
	recorder_destroy(counting->recorder);
	probes_destroy(counting->probes);
	command_destroy(counting->command);
}

/* --- A process that runs ---------------------------------------------------------------------- */

static int process_count(struct counting *counting, int signals)
{
	const struct trace_marks hooks = session_hooks(counting->session);
	AUTO(close_fd) int process = -1;
	bool ended;
	int err = process_open(counting->pid, &process);

	err = err ? err : probes_create(counting->marks, counting->pid, &counting->probes);
	err = err ? err : recording_begin(counting);
	if (err)
		return err;
	uncertain_say(counting->probes);
	log_info("the kernel counts in process %d, which runs by itself; an interrupt (Ctrl-C) "
		 "ends it",
		 (int)counting->pid);
	hooks.begun(hooks.ctx, NULL, counting->pid);
	ended = process_wait(process, signals, counting->given->trace.duration);
	hooks.over(hooks.ctx);
	if (ended)
		log_info("process %d has ended", (int)counting->pid);
	return recording_end(counting);
}

/* --- A command -------------------------------------------------------------------------------- */

/* Counters are set before each instruction that they count is executed for the first time. */
static int command_prepare(struct counting *counting)
{
	pid_t pid = command_pid(counting->command);
	int err = starting_attach(pid);

	counting->pid = pid;
	err = err ? err : command_release(counting->command);
	err = err ? err : starting_stop(pid);
	err = err ? err : probes_create(counting->marks, pid, &counting->probes);
	err = err ? err : starting_follow(pid, counting->probes);
	return err ? err : recording_begin(counting);
}

/*
 * What a terminal sends the command has got as well; what was sent to us alone is handed on. True:
 * it was told twice, and goes on.
 */
static bool signal_take(struct counting *counting, int signals, unsigned *told)
{
	struct signalfd_siginfo info;

	if (read(signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return false;
	if (info.ssi_code == SI_USER)
		command_signal(counting->command, (int)info.ssi_signo);
	return ++*told > 1;
}

/* Returns its code. */
static int command_wait(struct counting *counting, int signals)
{
	struct pollfd fds[] = { { .fd = command_fd(counting->command), .events = POLLIN },
				{ .fd = signals, .events = POLLIN } };
	unsigned told = 0;
	int code = 0;

	while (!command_ended(counting->command, &code)) {
		if (poll(fds, 2, -1) < 0 || !(fds[1].revents & POLLIN))
			continue;
		if (!signal_take(counting, signals, &told))
			continue;
		log_warn("process %d was told twice and has not ended: it goes on by itself, and "
			 "is not counted any more",
			 (int)counting->pid);
		return EXIT_DONE;
	}
	return code;
}

/* A program that has not begun is not let go uncounted. */
static int command_count(struct counting *counting, int signals, int *ret_code)
{
	const struct trace_marks hooks = session_hooks(counting->session);
	int err = command_start(counting->argv, &counting->command);

	if (err == -ENOENT || err == -EACCES)
		*ret_code = err == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	err = err ? err : command_prepare(counting);
	if (err) {
		if (counting->command && !command_ended(counting->command, ret_code))
			command_signal(counting->command, SIGKILL);
		return err;
	}
	hooks.begun(hooks.ctx, NULL, counting->pid);
	starting_release(counting->pid);
	*ret_code = command_wait(counting, signals);
	hooks.over(hooks.ctx);
	return recording_end(counting);
}

int count_kernel(const struct count_options *given, struct marks *marks, struct marks_live *live,
		 struct session *session, char *const *command)
{
	AUTO(counting_deinit)
	struct counting counting = { .given = given,
				     .marks = marks,
				     .live = live,
				     .session = session,
				     .argv = command,
				     .pid = (pid_t)given->trace.pid };
	AUTO(close_fd) int signals = signals_open();
	int code = EXIT_DONE, err;

	command_signals_ignore();
	err = *command ? command_count(&counting, signals, &code)
		       : process_count(&counting, signals);
	if (!err)
		return code;
	log_error("%s", err_text());
	return code == EXIT_DONE ? EXIT_FAILED : code;
}

/* --- Choosing --------------------------------------------------------------------------------- */

static void visits_add(void *ctx, uint32_t mark, pid_t tid, enum probe_what what, uint64_t count)
{
	*(uint64_t *)ctx += count;
}

/* The CPU time of all its threads, ended ones included, in seconds. */
static double cpu_read(pid_t pid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/stat", (int)pid);
	AUTO(close_file) FILE *file = fopen(path, "re");
	unsigned long long user = 0, system = 0;
	char line[1024];
	const char *end = file && fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;

	if (!end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			   &system) != 2)
		return 0;
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Both are shares of a processor. */
static bool choice_say(double visits, double cost, double cpu, double seconds)
{
	double kernel = visits * cost / 1e9 / seconds, engine = engine_share * cpu / seconds;
	bool chosen = kernel <= engine || visits == 0;

	log_info("%.0f visits a second, at %.0f ns for a probe, are %.2f %% of a processor; the "
		 "engine would take about %.2f %%: the %s counts",
		 visits / seconds, cost, kernel * 100, engine * 100, chosen ? "kernel" : "engine");
	return chosen;
}

int count_choose(const struct count_options *given, struct marks *marks, bool *ret_kernel)
{
	AUTO(close_fd) int process = -1;
	AUTO(probes_destroy_auto) struct probes *probes = NULL;
	pid_t pid = (pid_t)given->trace.pid;
	uint64_t visits = 0, start;
	double cost = probes_cost(), cpu;
	int err = process_open(pid, &process);

	*ret_kernel = false;
	if (err)
		return err;
	err = probes_create(marks, pid, &probes);
	if (err) {
		log_info("the engine counts: %s", err_text());
		return 0;
	}
	cpu = cpu_read(pid);
	start = clock_monotonic();
	poll(&(struct pollfd){ .fd = process, .events = POLLIN }, 1, TRIAL_MS);
	probes_stop(probes);
	probes_read(probes, visits_add, &visits);
	*ret_kernel = choice_say((double)visits, cost, cpu_read(pid) - cpu,
				 (double)(clock_monotonic() - start) / NS_PER_S);
	return 0;
}
