// SPDX-License-Identifier: BSD-2-Clause
// Serves: V1.
/*
 * The host walker against libdwfl on a living process: a program is stepped through with ptrace,
 * and at thousands of stops its registers and a copy of its stack are walked here, and the process
 * itself by elfutils. Both must see the same frames.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <elfutils/libdwfl.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "unwind/unwind.h"

enum {
	FRAMES_MAX = 256,
	STACK_MAX = 256 * 1024,
	VDSO_MAX = 64 * 1024,
	STRIDE = 5, /* steps from one comparison to the next */
	SCENES = 5, /* of the victim */
	STOPS_MIN = 2000,
	MISMATCHES_SHOWN = 5,
	REGISTER_RBX = 3,
};

static const char *victim_path;

struct trace {
	uint64_t frames[FRAMES_MAX];
	size_t count;
};

struct victim {
	pid_t pid;
	uint64_t stack_end; /* of the thread that plays the scene */
	ARRAY(struct unwind_area) areas; /* rows belong to them */
	Dwfl *dwfl;
};

struct tally {
	size_t scenes, steps, stops, frames, deepest;
	size_t mismatches, oracle_failures, oracle_lost_rbx;
	size_t kinds[UNWIND_KIND_COUNT]; /* of the rows that the frames used */
	size_t ends[STACK_END_COUNT];
};

static size_t victim_read(pid_t pid, uint64_t address, void *ret, size_t size)
{
	struct iovec local = { ret, size }, remote = { (void *)address, size };
	ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return got < 0 ? 0 : (size_t)got;
}

/* The address that the file gives to what lies at offset in it. */
static uint64_t file_address(int fd, uint64_t offset)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	for (int i = 0; i < header.e_phnum; i++) {
		off_t at = (off_t)(header.e_phoff + (size_t)i * sizeof(segment));

		assert_int_equal(pread(fd, &segment, sizeof(segment), at), sizeof(segment));
		if (segment.p_type == PT_LOAD && offset + 4095 >= segment.p_offset &&
		    offset < segment.p_offset + segment.p_filesz)
			return segment.p_vaddr + offset - segment.p_offset;
	}
	fail_msg("no segment at file offset %#" PRIx64, offset);
	return 0;
}

static void area_add_file(struct victim *victim, struct unwind_area area, uint64_t offset,
			  const char *path)
{
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct unwind_table table;

	assert_true(fd >= 0);
	assert_int_equal(unwind_table_load(fd, NULL, NULL, &table), 0);
	area.rows = table.rows;
	area.row_count = table.count;
	area.bias = area.start - (file_address(fd, offset) - table.base);
	*array_push(&victim->areas) = area;
}

static void area_add_vdso(struct victim *victim, struct unwind_area area)
{
	static char image[VDSO_MAX] __attribute__((aligned(8)));
	size_t size = victim_read(victim->pid, area.start, image, area.end - area.start);
	struct unwind_table table;

	assert_int_equal(unwind_table_build(image, size, &table), 0);
	area.rows = table.rows;
	area.row_count = table.count;
	area.bias = area.start - table.base;
	*array_push(&victim->areas) = area;
}

static void areas_forget(struct victim *victim)
{
	array_each(&victim->areas, area)
		free((void *)area->rows);
	array_deinit(&victim->areas);
}

static void areas_read(struct victim *victim)
{
	char name[64], line[4500], path[4200];
	AUTO(close_file) FILE *maps = NULL;

	areas_forget(victim);
	snprintf(name, sizeof(name), "/proc/%d/maps", victim->pid);
	maps = fopen(name, "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		struct unwind_area area = {};
		uint64_t offset;
		char mode[8];

		path[0] = '\0';
		sscanf(line, "%" PRIx64 "-%" PRIx64 " %7s %" PRIx64 " %*s %*s %4199[^\n]",
		       &area.start, &area.end, mode, &offset, path);
		if (mode[2] != 'x')
			continue;
		if (path[0] == '/')
			area_add_file(victim, area, offset, path);
		else if (strcmp(path, "[vdso]") == 0)
			area_add_vdso(victim, area);
	}
}

/* Where the mapping that holds address ends. */
static uint64_t mapping_end(pid_t pid, uint64_t address)
{
	char name[64], line[4500];
	AUTO(close_file) FILE *maps = NULL;
	uint64_t start, end;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	maps = fopen(name, "r");
	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" PRIx64 "-%" PRIx64, &start, &end) == 2 && address >= start &&
		    address < end)
			return end;
	return 0;
}

static int debuginfo_none(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **ret)
{
	return -1;
}

static void oracle_open(struct victim *victim)
{
	static const Dwfl_Callbacks callbacks = { .find_elf = dwfl_linux_proc_find_elf,
						  .find_debuginfo = debuginfo_none };

	if (victim->dwfl)
		dwfl_end(victim->dwfl);
	victim->dwfl = dwfl_begin(&callbacks);
	assert_non_null(victim->dwfl);
	assert_int_equal(dwfl_linux_proc_report(victim->dwfl, victim->pid), 0);
	assert_int_equal(dwfl_report_end(victim->dwfl, NULL, NULL), 0);
	assert_true(dwfl_linux_proc_attach(victim->dwfl, victim->pid, true) >= 0);
}

static int oracle_frame(Dwfl_Frame *frame, void *data)
{
	struct trace *trace = data;
	bool exact;
	Dwarf_Addr pc;

	if (trace->count == FRAMES_MAX || !dwfl_frame_pc(frame, &pc, &exact))
		return DWARF_CB_ABORT;
	trace->frames[trace->count++] = pc | (exact ? UNWIND_EXACT : 0);
	return DWARF_CB_OK;
}

static void walk(const struct victim *victim, const struct user_regs_struct *user,
		 struct trace *ret, enum stack_end *ret_end)
{
	static uint8_t stack[STACK_MAX] __attribute__((aligned(8)));
	struct unwind_registers registers = {
		.ip = user->rip, .sp = user->rsp, .bp = user->rbp, .rbx = user->rbx
	};
	struct unwind_memory memory = { .address = user->rsp, .bytes = stack };
	uint64_t size = victim->stack_end - memory.address;

	memory.size = victim_read(victim->pid, memory.address, stack,
				  size < sizeof(stack) ? size : sizeof(stack));
	ret->count = unwind_walk(victim->areas.items, victim->areas.count, &registers, &memory,
				 ret->frames, FRAMES_MAX, ret_end);
}

static struct unwind_row frame_row(const struct victim *victim, uint64_t frame)
{
	uint64_t pc = frame & UNWIND_EXACT ? frame & ~UNWIND_EXACT : frame - 1;

	array_each(&victim->areas, area)
		if (pc >= area->start && pc < area->end) {
			const struct unwind_row *row = unwind_table_find(
				area->rows, area->row_count, (uint32_t)(pc - area->bias));

			return row ? *row : (struct unwind_row){};
		}
	return (struct unwind_row){};
}

static enum unwind_kind frame_kind(const struct victim *victim, uint64_t frame)
{
	return frame_row(victim, frame).kind;
}

static void mismatch_show(const struct victim *victim, const struct trace *expected,
			  const struct trace *got, enum stack_end end)
{
	print_message("mismatch, walk ended with %d:\n", end);
	for (size_t i = 0; i < expected->count || i < got->count; i++) {
		uint64_t ours = i < got->count ? got->frames[i] : 0;
		uint64_t theirs = i < expected->count ? expected->frames[i] : 0;
		uint64_t address = (theirs ? theirs : ours) & ~UNWIND_EXACT;
		Dwfl_Module *module = dwfl_addrmodule(victim->dwfl, address);
		const char *name = module ? dwfl_module_addrname(module, address) : NULL;

		print_message("  %2zu ours %#" PRIx64 " theirs %#" PRIx64 " kind %d %s\n", i, ours,
			      theirs, frame_kind(victim, ours), name ? name : "?");
	}
}

static bool address_mapped(const struct victim *victim, uint64_t address)
{
	array_each(&victim->areas, area)
		if (address >= area->start && address < area->end)
			return true;
	return false;
}

/*
 * The last frame that elfutils has counts from rbx, of which it forgets that it is unchanged (see
 * unwind_oracle_test.c).
 */
static bool oracle_lost_rbx(const struct victim *victim, const struct trace *expected)
{
	struct unwind_row row = frame_row(victim, expected->frames[expected->count - 1]);

	return row.kind == UNWIND_REG && (row.bp & 15) == REGISTER_RBX;
}

/* elfutils ends at the same frame, or goes on to an address that is none. */
static bool oracle_astray(const struct victim *victim, const struct trace *expected,
			  const struct trace *got)
{
	return expected->count == got->count ||
	       (expected->count == got->count + 1 &&
		!address_mapped(victim, expected->frames[got->count]));
}

/*
 * A walk that stopped at a rule beyond the tables is right as far as it goes, if it stopped at such
 * a rule. While an exception is being delivered, the runtime overwrites return addresses on its own
 * stack: elfutils then goes astray, and so do we.
 */
static bool backtraces_agree(const struct victim *victim, const struct trace *expected,
			     const struct trace *got, enum stack_end end)
{
	enum unwind_kind last = frame_kind(victim, got->frames[got->count - 1]);

	if (expected->count < got->count)
		return false;
	for (size_t i = 0; i < got->count; i++)
		if (expected->frames[i] != got->frames[i])
			return false;
	if (end == STACK_END_HARD_RULE)
		return last == UNWIND_REG || last == UNWIND_LINK || last == UNWIND_HARD;
	if (end == STACK_END_NO_MAPPING || end == STACK_END_DUMP_SHORT)
		return oracle_astray(victim, expected, got);
	return end == STACK_END_COMPLETE && expected->count == got->count;
}

static void stop_compare(struct victim *victim, pid_t tid, struct tally *tally)
{
	struct trace expected = {}, got = {};
	struct user_regs_struct user;
	enum stack_end end;
	int err;

	assert_int_equal(ptrace(PTRACE_GETREGS, tid, NULL, &user), 0);
	walk(victim, &user, &got, &end);
	err = dwfl_getthread_frames(victim->dwfl, tid, oracle_frame, &expected);
	tally->stops++;
	tally->ends[end]++;
	tally->frames += got.count;
	tally->deepest = got.count > tally->deepest ? got.count : tally->deepest;
	for (size_t i = 0; i < got.count; i++)
		tally->kinds[frame_kind(victim, got.frames[i])]++;
	tally->oracle_failures += err != 0;
	if (expected.count < got.count && oracle_lost_rbx(victim, &expected)) {
		tally->oracle_lost_rbx++;
		got.count = expected.count;
		end = STACK_END_COMPLETE;
	}
	if (backtraces_agree(victim, &expected, &got, end))
		return;
	if (tally->mismatches++ < MISMATCHES_SHOWN)
		mismatch_show(victim, &expected, &got, end);
}

static bool stopped_at_mark(pid_t tid, int status)
{
	siginfo_t info;

	return WIFSTOPPED(status) && status >> 8 == SIGTRAP &&
	       ptrace(PTRACE_GETSIGINFO, tid, NULL, &info) == 0 && info.si_code == SI_KERNEL;
}

/* From one mark to the next, one instruction at a time. */
static void scene_run(struct victim *victim, pid_t tid, struct tally *tally)
{
	struct user_regs_struct user;
	long signal_number = 0;
	int status;

	assert_int_equal(ptrace(PTRACE_GETREGS, tid, NULL, &user), 0);
	victim->stack_end = mapping_end(victim->pid, user.rsp);
	areas_read(victim);
	oracle_open(victim);
	tally->scenes++;
	for (size_t step = 0;; step++) {
		if (step % STRIDE == 0)
			stop_compare(victim, tid, tally);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, tid, NULL, signal_number), 0);
		assert_int_equal(waitpid(tid, &status, __WALL), tid);
		assert_true(WIFSTOPPED(status));
		if (stopped_at_mark(tid, status))
			return;
		signal_number = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		tally->steps++;
	}
}

/* Stopped before its first instruction. */
static pid_t victim_start(bool bind_now)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		unsetenv("LD_BIND_NOW");
		if (bind_now)
			setenv("LD_BIND_NOW", "1", 1);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(victim_path, victim_path, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, __WALL), pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(
		ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE), 0);
	return pid;
}

/* What a thread stopped for is passed on, unless the stop was ptrace's own. */
static int stop_signal(int status)
{
	if (!WIFSTOPPED(status) || WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP)
		return 0;
	return WSTOPSIG(status);
}

static void victim_run(struct victim *victim, struct tally *tally)
{
	int status;
	pid_t tid;

	assert_int_equal(ptrace(PTRACE_CONT, victim->pid, NULL, NULL), 0);

	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		if (tid == victim->pid && WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			return;
		}
		if (!WIFSTOPPED(status))
			continue;
		if (stopped_at_mark(tid, status))
			scene_run(victim, tid, tally);
		ptrace(PTRACE_CONT, tid, NULL, stop_signal(status));
	}
}

static void tally_print(const struct tally *tally)
{
	static const char *const kinds[] = {
#define X(name) #name,
		UNWIND_KINDS(X)
#undef X
	};
	static const char *const ends[] = {
#define X(name, json, text) json,
		STACK_ENDS(X)
#undef X
	};

	print_message("%zu steps, %zu stops, %zu frames, deepest %zu, %zu mismatches, elfutils "
		      "failed at %zu, lost rbx at %zu\n",
		      tally->steps, tally->stops, tally->frames, tally->deepest, tally->mismatches,
		      tally->oracle_failures, tally->oracle_lost_rbx);
	for (int i = 0; i < UNWIND_KIND_COUNT; i++)
		print_message("  %s %zu", kinds[i], tally->kinds[i]);
	print_message("\n");
	for (int i = 0; i < STACK_END_COUNT; i++)
		if (tally->ends[i])
			print_message("  %s %zu", ends[i], tally->ends[i]);
	print_message("\n");
}

static struct tally victim_compare(bool bind_now)
{
	struct victim victim = { .pid = victim_start(bind_now) };
	struct tally tally = {};

	victim_run(&victim, &tally);
	tally_print(&tally);
	areas_forget(&victim);
	if (victim.dwfl)
		dwfl_end(victim.dwfl);
	assert_int_equal(tally.mismatches, 0);
	assert_int_equal(tally.scenes, SCENES);
	assert_true(tally.oracle_lost_rbx * 100 < tally.stops);
	assert_true(tally.stops > STOPS_MIN);
	/* The victim is worth its name only if it shows the walker all these. */
	assert_true(tally.kinds[UNWIND_SP] && tally.kinds[UNWIND_BP] && tally.kinds[UNWIND_PLT] &&
		    tally.kinds[UNWIND_DRAP] && tally.kinds[UNWIND_SIGNAL] &&
		    tally.kinds[UNWIND_END]);
	return tally;
}

static void roots_reached(const struct tally *tally)
{
	assert_true((tally->stops - tally->ends[STACK_END_COMPLETE]) * 200 < tally->stops);
}

static void stops_agree_with_libdwfl(void **state)
{
	struct tally tally = victim_compare(true);

	roots_reached(&tally);
}

/* The dynamic linker's trampoline keeps its cfa in rbx. */
static void stops_while_binding_agree_with_libdwfl(void **state)
{
	struct tally tally = victim_compare(false);

	assert_true(tally.kinds[UNWIND_REG] * 10 > tally.stops);
	roots_reached(&tally);
}

/* A function of crti.o in the victim's own file. */
struct stub {
	uint64_t start, size; /* start is a run-time address */
	long code; /* what the breakpoint at its start replaced */
};

static struct stub stub_find(const struct victim *victim, const char *name)
{
	AUTO(close_fd) int fd = open(victim_path, O_RDONLY | O_CLOEXEC);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	Elf_Scn *section = NULL;
	struct stub stub = {};
	size_t strings;

	assert_int_equal(elf_getshdrstrndx(elf, &strings), 0);
	while ((section = elf_nextscn(elf, section))) {
		const Elf64_Shdr *header = elf64_getshdr(section);

		if (strcmp(elf_strptr(elf, strings, header->sh_name), name) == 0)
			stub = (struct stub){ victim->areas.items[0].bias + header->sh_addr,
					      header->sh_size, 0 };
	}
	elf_end(elf);
	assert_true(stub.size > 0);
	return stub;
}

static void breakpoint_set(pid_t pid, struct stub *stub)
{
	enum { INT3 = 0xcc };

	errno = 0;
	stub->code = ptrace(PTRACE_PEEKTEXT, pid, stub->start, NULL);
	assert_int_equal(errno, 0);
	assert_int_equal(ptrace(PTRACE_POKETEXT, pid, stub->start, (stub->code & ~0xffl) | INT3),
			 0);
}

/* Runs all threads until one comes to the breakpoint, which it takes away. */
static void breakpoint_reach(pid_t pid, const struct stub *stub)
{
	struct user_regs_struct user;
	pid_t tid = pid;
	long pass = 0;
	int status;

	do {
		ptrace(PTRACE_CONT, tid, NULL, pass);
		tid = waitpid(-1, &status, __WALL);
		assert_true(tid > 0 && (tid != pid || WIFSTOPPED(status)));
		pass = stop_signal(status);
		assert_true(ptrace(PTRACE_GETREGS, tid, NULL, &user) == 0 || tid != pid);
	} while (tid != pid || user.rip != stub->start + 1);
	user.rip--;
	assert_int_equal(ptrace(PTRACE_SETREGS, pid, NULL, &user), 0);
	assert_int_equal(ptrace(PTRACE_POKETEXT, pid, stub->start, stub->code), 0);
}

/* The walk at each instruction must name the caller that the last one then returns to. */
static void stub_step(struct victim *victim, const struct stub *stub)
{
	struct user_regs_struct user;
	struct trace trace;
	uint64_t caller = 0;
	size_t steps = 0;
	enum stack_end end;
	int status;

	areas_read(victim);
	while (ptrace(PTRACE_GETREGS, victim->pid, NULL, &user) == 0 &&
	       user.rip - stub->start < stub->size) {
		victim->stack_end = mapping_end(victim->pid, user.rsp);
		walk(victim, &user, &trace, &end);
		assert_int_equal(end, STACK_END_COMPLETE);
		assert_true(trace.count > 2);
		assert_true(steps == 0 || trace.frames[1] == caller);
		caller = trace.frames[1];
		steps++;
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, victim->pid, NULL, NULL), 0);
		assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
	}
	assert_true(steps >= 3);
	assert_int_equal(user.rip, caller);
}

static void init_and_fini_return_to_the_callers_that_walks_name(void **state)
{
	struct victim victim = { .pid = victim_start(true) };
	struct stub init, fini;
	int status;

	areas_read(&victim);
	init = stub_find(&victim, ".init");
	fini = stub_find(&victim, ".fini");
	breakpoint_set(victim.pid, &init);
	breakpoint_set(victim.pid, &fini);
	breakpoint_reach(victim.pid, &init);
	stub_step(&victim, &init);
	breakpoint_reach(victim.pid, &fini);
	stub_step(&victim, &fini);
	assert_int_equal(ptrace(PTRACE_CONT, victim.pid, NULL, NULL), 0);
	while (waitpid(-1, &status, __WALL) != victim.pid)
		; /* a process does not end before its threads were waited for */
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	areas_forget(&victim);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stops_agree_with_libdwfl),
		cmocka_unit_test(stops_while_binding_agree_with_libdwfl),
		cmocka_unit_test(init_and_fini_return_to_the_callers_that_walks_name),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s VICTIM\n", argv[0]);
		return 2;
	}
	victim_path = argv[1];
	elf_version(EV_CURRENT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
