// SPDX-License-Identifier: BSD-2-Clause
/*
 * Probes for what this machine and this user can do.
 *
 * Settings such as perf_event_paranoid, capabilities, containers, lockdown and kernel configuration
 * decide together, and differently in each kernel, so no setting is ever interpreted to reach an
 * answer: each probe does the thing itself, in the smallest form that the kernel checks in full,
 * and undoes it. Settings are only read to choose the words of a remedy.
 *
 * Invariants:
 * 1. A yes means that the system calls behind it succeeded a moment ago, as this user.
 * 2. A no always comes with the reason and a remedy.
 * 3. Nothing outlives a probe: descriptors are closed, children are waited for.
 */
#include "capture/ability.h"

#include <asm/hwcap2.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define RIGHTS "setcap cap_perfmon,cap_bpf,cap_sys_ptrace,cap_syslog,cap_checkpoint_restore+ep"

enum {
	PROBE_RATE = 4999, /* Hz; the highest rate the documentation recommends */
	RING_SMALLEST = 512 << 10, /* bytes; below this bursts are lost */
	RING_LARGEST = 16 << 20, /* bytes; more is never tried */
	UID_OTHER = 65534, /* "nobody" */
	FOREIGN_TRIES = 32, /* other users' processes to knock at */
};

#define PID_NAMESPACE_FIRST 0xeffffffcu /* the kernel's PROC_PID_INIT_INO */

static void answer_yes(struct ability *ability, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void answer_no(struct ability *ability, const char *remedy, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void answer_yes(struct ability *ability, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(ability->detail, sizeof(ability->detail), format, args);
	va_end(args);
	ability->remedy[0] = '\0';
	ability->yes = true;
}

static void answer_no(struct ability *ability, const char *remedy, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(ability->detail, sizeof(ability->detail), format, args);
	va_end(args);
	snprintf(ability->remedy, sizeof(ability->remedy), "%s", remedy);
	ability->yes = false;
}

/* A number from a one-line file of /proc/sys; fallback if it cannot be read. */
static long setting_read(const char *path, long fallback)
{
	AUTO(close_file) FILE *file = fopen(path, "re");
	char line[32], *end;
	long value;

	if (!file || !fgets(line, sizeof(line), file))
		return fallback;
	value = strtol(line, &end, 10);
	return end == line ? fallback : value;
}

static bool capability_has(unsigned int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	if (syscall(SYS_capget, &header, data) != 0)
		return false;
	return data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

static bool is_refusal(int code)
{
	return code == -EACCES || code == -EPERM;
}

/* ------------------------------------------------------------------ perf events */

static struct perf_event_attr event_attr(uint32_t type, uint64_t config)
{
	return (struct perf_event_attr){
		.type = type,
		.size = sizeof(struct perf_event_attr),
		.config = config,
		.sample_period = 1000000,
		.sample_type = PERF_SAMPLE_IP,
		.disabled = 1,
		.exclude_hv = 1,
	};
}

static struct perf_event_attr clock_attr(void)
{
	return event_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
}

/* A descriptor or a negative errno. pid 0: this process. */
static int event_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* paranoid: the highest value of the setting that would allow it to everybody. */
static void answer_event_refused(struct ability *ability, int code, int paranoid)
{
	const char *path = "/proc/sys/kernel/perf_event_paranoid";
	long now = setting_read(path, -1000);
	char remedy[sizeof(ability->remedy)];

	if (capability_has(CAP_PERFMON) || capability_has(CAP_SYS_ADMIN)) {
		answer_no(ability,
			  "you have CAP_PERFMON, so a container or a security module stands in the "
			  "way: "
			  "allow perf_event_open there (docker: --privileged)",
			  "perf_event_open: %s", strerror(-code));
		return;
	}
	snprintf(remedy, sizeof(remedy),
		 "run as root, or once as root: " RIGHTS
		 " assay, or for all users: sysctl kernel.perf_event_paranoid=%d",
		 paranoid);
	answer_no(ability, remedy, "perf_event_open: %s (kernel.perf_event_paranoid is %ld)",
		  strerror(-code), now);
}

static void answer_event(struct ability *ability, int code, int paranoid, const char *what)
{
	if (code >= 0)
		answer_yes(ability, "%s", what);
	else if (is_refusal(code))
		answer_event_refused(ability, code, paranoid);
	else if (code == -ENOSYS)
		answer_no(ability, "boot a kernel with CONFIG_PERF_EVENTS", "perf_event_open: %s",
			  strerror(-code));
	else
		answer_no(ability, "end other profilers, raise ulimit -n, and try again",
			  "perf_event_open: %s", strerror(-code));
}

static void probe_sample_own(struct ability *ability)
{
	struct perf_event_attr attr = clock_attr();

	attr.exclude_kernel = 1;
	AUTO(close_fd) int fd = event_open(&attr, 0, -1);
	answer_event(ability, fd, 2, "event cpu-clock, user code only");
}

static void probe_sample_kernel(struct ability *ability)
{
	struct perf_event_attr attr = clock_attr();
	AUTO(close_fd) int fd = event_open(&attr, 0, -1);

	answer_event(ability, fd, 1, "event cpu-clock, user and kernel code");
}

static void probe_sample_system(struct ability *ability)
{
	struct perf_event_attr attr = clock_attr();
	int cpu = sched_getcpu();
	AUTO(close_fd) int fd = event_open(&attr, -1, cpu < 0 ? 0 : cpu);

	answer_event(ability, fd, 0, "event cpu-clock on a CPU, all processes and the kernel");
}

static void probe_sample_rate(struct ability *ability)
{
	struct perf_event_attr attr = clock_attr();
	long limit = setting_read("/proc/sys/kernel/perf_event_max_sample_rate", 0);
	long percent = setting_read("/proc/sys/kernel/perf_cpu_time_max_percent", 0);

	attr.exclude_kernel = 1;
	attr.freq = 1;
	attr.sample_freq = PROBE_RATE;
	AUTO(close_fd) int fd = event_open(&attr, 0, -1);
	if (fd >= 0 && percent > 0 && percent < 100)
		answer_yes(ability,
			   "up to %ld Hz; lowered by the kernel when sampling takes over %ld %%",
			   limit, percent);
	else if (fd >= 0)
		answer_yes(ability, "up to %ld Hz; the kernel does not lower it", limit);
	else if (fd == -EINVAL)
		answer_no(ability,
			  "use a lower -F, or sysctl kernel.perf_event_max_sample_rate=100000",
			  "the limit is %ld Hz", limit);
	else
		answer_event(ability, fd, 2, "");
}

static void probe_hardware(struct ability *ability, uint64_t config)
{
	struct perf_event_attr attr = event_attr(PERF_TYPE_HARDWARE, config);

	attr.exclude_kernel = 1;
	AUTO(close_fd) int fd = event_open(&attr, 0, -1);
	if (fd == -ENOENT || fd == -EOPNOTSUPP || fd == -ENODEV || fd == -EINVAL)
		answer_no(ability,
			  "sample by time, which is the default; in a virtual machine, switch "
			  "on its "
			  "virtual PMU",
			  "this machine has no such counter: %s", strerror(-fd));
	else
		answer_event(ability, fd, 2, "counter on this process, with interrupts");
}

static void probe_cycles(struct ability *ability)
{
	probe_hardware(ability, PERF_COUNT_HW_CPU_CYCLES);
}

static void probe_instructions(struct ability *ability)
{
	probe_hardware(ability, PERF_COUNT_HW_INSTRUCTIONS);
}

/* Maps a ring of data_size bytes and unmaps it again. */
static int ring_try(int event, size_t data_size)
{
	size_t size = data_size + (size_t)getpagesize();
	void *ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);

	if (ring == MAP_FAILED)
		return -errno;
	munmap(ring, size);
	return 0;
}

static void probe_locked_memory(struct ability *ability)
{
	struct perf_event_attr attr = clock_attr();
	size_t size = RING_LARGEST;
	int err;

	attr.exclude_kernel = 1;
	AUTO(close_fd) int fd = event_open(&attr, 0, -1);
	if (fd < 0) {
		answer_event(ability, fd, 2, "");
		return;
	}
	while ((err = ring_try(fd, size)) != 0 && size > RING_SMALLEST)
		size /= 2;
	if (err == 0)
		answer_yes(ability, "a ring of %zu KB%s", size >> 10,
			   size == RING_LARGEST ? ", the most that was tried" : "");
	else
		answer_no(ability, "sysctl kernel.perf_event_mlock_kb=2048, or a higher ulimit -l",
			  "not even a ring of %zu KB: %s (kernel.perf_event_mlock_kb is %ld)",
			  size >> 10, strerror(-err),
			  setting_read("/proc/sys/kernel/perf_event_mlock_kb", 0));
}

/* ------------------------------------------------------------------ BPF */

#define INSN(c, d, s, o, i)                                                                        \
	{                                                                                          \
		.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)                \
	}

/* return 0; */
static const struct bpf_insn insns_nothing[] = {
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0),
	INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
};

/*
 * bpf_probe_read_kernel(fp - 8, 8, fp); return 0; lockdown forbids the helper, and so the sampler
 */
static const struct bpf_insn insns_read_kernel[] = {
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_1, BPF_REG_10, 0, 0),
	INSN(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_1, 0, 0, -8),
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, 8),
	INSN(BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_10, 0, 0),
	INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_probe_read_kernel),
	INSN(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0),
	INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
};

static void answer_bpf(struct ability *ability, int code, const char *call, const char *what)
{
	bool capable = capability_has(CAP_SYS_ADMIN) ||
		       (capability_has(CAP_BPF) && capability_has(CAP_PERFMON));

	if (code >= 0)
		answer_yes(ability, "%s", what);
	else if (is_refusal(code) && !capable)
		answer_no(ability, "run as root, or once as root: " RIGHTS " assay", "%s: %s", call,
			  strerror(-code));
	else if (is_refusal(code))
		answer_no(
			ability,
			"you have the rights, so a container, a security module or kernel lockdown "
			"stands in the way: allow bpf(2) there (docker: --privileged)",
			"%s: %s", call, strerror(-code));
	else
		answer_no(ability,
			  "boot a kernel of version 5.17 or later with CONFIG_BPF_SYSCALL, "
			  "CONFIG_BPF_EVENTS and CONFIG_DEBUG_INFO_BTF; Debian's own has them",
			  "%s: %s", call, strerror(-code));
}

/*
 * Programs see the machine's process numbers. In another PID namespace, as containers have, /proc
 * and the kernel's events have others, and nothing tells which is which.
 */
bool ability_sees_machine_pids(void)
{
	struct stat info;

	return stat("/proc/self/ns/pid", &info) != 0 || info.st_ino == PID_NAMESPACE_FIRST;
}

static void probe_bpf_sampler(struct ability *ability)
{
	struct perf_event_attr attr = clock_attr();

	if (!ability_sees_machine_pids()) {
		answer_no(ability,
			  "run it outside of the container, or give the container the machine's "
			  "process numbers (docker: --pid=host)",
			  "in a PID namespace of its own: programs see other process numbers");
		return;
	}
	AUTO(close_fd)
	int program = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, NULL, "Dual BSD/GPL",
				    insns_read_kernel, ARRAY_SIZE(insns_read_kernel), NULL);

	if (program < 0) {
		answer_bpf(ability, program, "loading a program", "");
		return;
	}
	AUTO(close_fd) int event = event_open(&attr, 0, -1);
	if (event < 0) {
		answer_event(ability, event, 1, "");
		return;
	}
	answer_bpf(ability, ioctl(event, PERF_EVENT_IOC_SET_BPF, program) == 0 ? 0 : -errno,
		   "attaching a program to cpu-clock",
		   "loaded a program and attached it to cpu-clock");
}

static void probe_bpf_ring(struct ability *ability)
{
	AUTO(close_fd)
	int map = bpf_map_create(BPF_MAP_TYPE_RINGBUF, NULL, 0, 0, (uint32_t)getpagesize(), NULL);

	answer_bpf(ability, map, "creating a ring buffer", "created one");
}

static void probe_btf(struct ability *ability)
{
	const char *path = "/sys/kernel/btf/vmlinux";
	const char *remedy = "boot a kernel with CONFIG_DEBUG_INFO_BTF; Debian's own has it";
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint16_t magic = 0;

	if (fd < 0)
		answer_no(ability, remedy, "%s: %s", path, strerror(errno));
	else if (read(fd, &magic, sizeof(magic)) != sizeof(magic) || magic != BTF_MAGIC)
		answer_no(ability, remedy, "%s: not BTF", path);
	else
		answer_yes(ability, "%s", path);
}

/*
 * Loads a tracing program for a kernel function or tracepoint, without attaching it. libbpf prints
 * what it could not find, which is ours to say.
 */
static int tracing_load(const char *target, enum bpf_attach_type type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = type);
	libbpf_print_fn_t printer = libbpf_set_print(NULL);
	int id = libbpf_find_vmlinux_btf_id(target, type);

	libbpf_set_print(printer);
	if (id < 0)
		return id;
	options.attach_btf_id = (uint32_t)id;
	return bpf_prog_load(BPF_PROG_TYPE_TRACING, NULL, "Dual BSD/GPL", insns_nothing,
			     ARRAY_SIZE(insns_nothing), &options);
}

static void probe_tracing(struct ability *ability, const char *target, enum bpf_attach_type type)
{
	AUTO(close_fd) int program = tracing_load(target, type);
	char what[64];

	if (program < 0) {
		answer_bpf(ability, program, "loading a program", "");
		return;
	}
	AUTO(close_fd) int link = bpf_raw_tracepoint_open(NULL, program);
	snprintf(what, sizeof(what), "attached one to %s", target);
	answer_bpf(ability, link, "attaching a program", what);
}

static void probe_bpf_tracepoint(struct ability *ability)
{
	probe_tracing(ability, "sched_process_exec", BPF_TRACE_RAW_TP);
}

static void probe_bpf_fentry(struct ability *ability)
{
	probe_tracing(ability, "wake_up_new_task", BPF_TRACE_FENTRY);
}

/* ------------------------------------------------------------------ /proc */

static void probe_kernel_symbols(struct ability *ability)
{
	AUTO(close_file) FILE *file = fopen("/proc/kallsyms", "re");
	char line[512];
	long long address = 0;
	int lines = 0;

	if (!file) {
		answer_no(ability, "boot a kernel with CONFIG_KALLSYMS", "/proc/kallsyms: %s",
			  strerror(errno));
		return;
	}
	/* The first symbols are per-CPU offsets, which may be zero for everybody. */
	while (address >= 0 && lines++ < 10000 && fgets(line, sizeof(line), file))
		address = (long long)strtoull(line, NULL, 16);
	if (address < 0)
		answer_yes(ability, "/proc/kallsyms shows them");
	else
		answer_no(ability,
			  "run as root, or once as root: " RIGHTS " assay, or for all users: "
			  "sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
			  "/proc/kallsyms shows zeros (kernel.kptr_restrict is %ld)",
			  setting_read("/proc/sys/kernel/kptr_restrict", -1));
}

static void child_end(pid_t child)
{
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

/*
 * A child that sleeps until child_end(). uid other than ours: becomes that user first, or is not
 * there.
 */
static pid_t child_start(uid_t uid)
{
	int ready[2];
	char byte;
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) != 0)
		return -1;
	child = fork();
	if (child == 0) {
		if (uid != geteuid() && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
			_exit(1);
		/*
		 * Both are undone by a change of user. A binary with setcap rights hides its /proc
		 * files.
		 */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_DUMPABLE, 1);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (child > 0 && read(ready[0], &byte, 1) != 1) {
		child_end(child);
		child = -1;
	}
	close(ready[0]);
	return child;
}

/* Attaches from a process that is not an ancestor, as a profiler would. 0 or an errno. */
static int attach_try(pid_t target)
{
	int status;
	pid_t tracer = fork();

	if (tracer == 0)
		_exit(ptrace(PTRACE_SEIZE, target, NULL, NULL) == 0 ? 0 : errno);
	if (tracer < 0 || waitpid(tracer, &status, 0) != tracer || !WIFEXITED(status))
		return ECHILD;
	return WEXITSTATUS(status);
}

static void probe_attach_own(struct ability *ability)
{
	pid_t target = child_start(geteuid());
	int err = target < 0 ? ECHILD : attach_try(target);

	child_end(target);
	if (err == 0)
		answer_yes(ability, "attached to a process that is no descendant");
	else
		answer_no(ability, "run as root, or sysctl kernel.yama.ptrace_scope=0",
			  "ptrace: %s (kernel.yama.ptrace_scope is %ld)", strerror(err),
			  setting_read("/proc/sys/kernel/yama/ptrace_scope", 0));
}

/*
 * Asks for exactly the right to attach, without disturbing the process: the right is checked first,
 * then the address, which is never mapped. 0 or an errno.
 */
static int access_try(pid_t pid)
{
	char byte;
	struct iovec local = { .iov_base = &byte, .iov_len = 1 };
	struct iovec remote = { .iov_base = NULL, .iov_len = 1 };

	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) >= 0)
		return 0;
	return errno == EFAULT ? 0 : errno;
}

/* Kernel threads have no command line, and no memory to open. */
static bool process_is_foreign(const char *pid)
{
	char path[300], byte;
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%s", pid);
	if (stat(path, &status) != 0 || status.st_uid == geteuid())
		return false;
	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, &byte, 1) == 1;
}

/*
 * Tries other users' processes until one lets us in. 0, or the errno of the last one, whose pid is
 * left in *ret; ESRCH: there is none. Process 1 says nothing about the others: some machines guard
 * it even from root.
 */
static int foreign_try(pid_t *ret)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int err = ESRCH, tries = FOREIGN_TRIES;

	while (proc && err != 0 && tries > 0 && (entry = readdir(proc))) {
		long pid = strtol(entry->d_name, NULL, 10);

		if (pid > 1 && process_is_foreign(entry->d_name)) {
			err = access_try((pid_t)pid);
			*ret = (pid_t)pid;
			tries--;
		}
	}
	if (proc)
		closedir(proc);
	return err;
}

static void probe_attach_others(struct ability *ability)
{
	const char *remedy = "run as root, or once as root: " RIGHTS " assay";
	pid_t target = child_start(geteuid() == UID_OTHER ? UID_OTHER - 1 : UID_OTHER);
	int err;

	if (target > 0) {
		err = access_try(target);
		child_end(target);
	} else {
		err = foreign_try(&target);
	}
	if (err == 0)
		answer_yes(ability, "allowed to read the memory of one");
	else if (err == ESRCH)
		answer_no(ability, remedy, "no other user's process can be seen");
	else
		answer_no(ability, remedy, "process_vm_readv, process %d: %s", target,
			  strerror(err));
}

/*
 * The engine changes the base of %fs at every turn; a system call for that would take most of its
 * time.
 */
static void probe_engine(struct ability *ability)
{
	if (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE)
		answer_yes(ability, "the processor and the kernel have FSGSBASE");
	else
		answer_no(ability,
			  "use a processor of 2013 or later and Linux 5.9 or later, without "
			  "nofsgsbase",
			  "the processor or the kernel has no FSGSBASE");
}

/* Opens the first file in the folder. 0 or an errno. */
static int folder_try(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry = NULL;
	int fd = -1, err;

	while (folder && (entry = readdir(folder)) && entry->d_name[0] == '.')
		;
	if (entry)
		fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC);
	err = fd >= 0 ? 0 : errno;
	close_fd(&fd);
	if (folder)
		closedir(folder);
	return err;
}

static void probe_map_files(struct ability *ability)
{
	pid_t child = child_start(geteuid());
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/map_files", child);
	err = child > 0 ? folder_try(path) : ECHILD;
	child_end(child);
	if (err == 0)
		answer_yes(ability, "opened one of another process");
	else
		answer_no(ability, "run as root, or once as root: " RIGHTS " assay", "%s: %s", path,
			  strerror(err));
}

static void probe_debuginfod(struct ability *ability)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *library = dlopen("libdebuginfod.so.1", RTLD_LAZY);

	if (library)
		dlclose(library);
	if (!library)
		answer_no(ability, "apt-get install libdebuginfod1",
			  "libdebuginfod.so.1 is not installed");
	else if (!urls || !urls[0])
		answer_no(ability, "export DEBUGINFOD_URLS=https://debuginfod.debian.net",
			  "DEBUGINFOD_URLS is not set");
	else
		answer_yes(ability, "DEBUGINFOD_URLS=%s", urls);
}

/* ------------------------------------------------------------------ the table */

static const struct {
	const char *name;
	const char *title;
	void (*probe)(struct ability *ability);
} abilities[] = {
#define X(id, json, text) [ABILITY_##id] = { #json, text, probe_##json },
	ABILITIES(X)
#undef X
};

int ability_probe(enum ability_id id, struct ability *ret)
{
	if ((unsigned int)id >= ABILITY_COUNT)
		return -EINVAL;
	ret->id = id;
	ret->name = abilities[id].name;
	ret->title = abilities[id].title;
	abilities[id].probe(ret);
	return 0;
}
