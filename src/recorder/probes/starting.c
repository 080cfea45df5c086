// SPDX-License-Identifier: BSD-2-Clause
/*
 * Holds a command while its libraries are mapped, so that its marks are counted from the beginning.
 * The process is stopped at the entry and the exit of each system call. Behind a mapping of code
 * its marks are looked up. The dynamic linker has done its work when the first system call comes
 * that is made elsewhere, or that no dynamic linker makes (where it is the C library as well); what
 * libraries open later is not looked at.
 */
#include "recorder/probes/starting.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "image/procfs.h"

enum { OPTIONS = PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD, SYSCALL_STOP = SIGTRAP | 0x80 };

/* The file that the kernel has mapped as the dynamic linker. */
struct linker {
	uint64_t base; /* 0: there is none */
	uint64_t inode, start, end;
};

int starting_attach(pid_t pid)
{
	if (ptrace(PTRACE_SEIZE, pid, NULL, OPTIONS))
		return err_set(-errno,
			       "the command cannot be held in front of its first "
			       "instruction (ptrace): %s",
			       strerror(errno));
	return 0;
}

/* An end stays to be seen. */
static int wait_stop(pid_t pid, int *ret_status)
{
	siginfo_t info = {};

	while (waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL))
		if (errno != EINTR)
			return -errno;
	if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
		return -ESRCH;
	return waitpid(pid, ret_status, __WALL) == pid ? 0 : -ESRCH;
}

/* With the signal that it has stopped for, if it is one. */
static int step(pid_t pid, int status, int request)
{
	int signal = status >> 16 || WSTOPSIG(status) == SYSCALL_STOP ? 0 : WSTOPSIG(status);

	return ptrace(request, pid, NULL, (long)signal) ? -errno : 0;
}

static int gone(pid_t pid)
{
	return err_set(-ESRCH, "process %d has ended before its program began", (int)pid);
}

int starting_stop(pid_t pid)
{
	int status = 0;

	while (!wait_stop(pid, &status)) {
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
			return 0;
		if (step(pid, status, PTRACE_CONT))
			break;
	}
	return gone(pid);
}

/* --- The dynamic linker ----------------------------------------------------------------------- */

static uint64_t base_read(pid_t pid)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/auxv", (int)pid);
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_auxv_t entries[64];
	ssize_t size = fd < 0 ? -1 : read(fd, entries, sizeof(entries));

	for (size_t i = 0; size > 0 && i < (size_t)size / sizeof(entries[0]); i++)
		if (entries[i].a_type == AT_BASE)
			return entries[i].a_un.a_val;
	return 0;
}

static void area_look(void *ctx, const struct event_mmap *area, bool executable)
{
	struct linker *linker = ctx;

	if (linker->base - area->start < area->end - area->start)
		linker->inode = area->inode;
	if (!linker->inode || area->inode != linker->inode)
		return;
	linker->start = linker->start ? linker->start : area->start;
	linker->end = area->end;
}

static bool is_linkers(uint64_t number)
{
	static const uint16_t calls[] = {
		SYS_mmap,
		SYS_mprotect,
		SYS_munmap,
		SYS_open,
		SYS_openat,
		SYS_read,
		SYS_pread64,
		SYS_close,
		SYS_fstat,
		SYS_stat,
		SYS_newfstatat,
		SYS_statx,
		SYS_access,
		SYS_brk,
		SYS_readlink,
		SYS_set_tid_address,
		SYS_set_robust_list,
		SYS_arch_prctl,
		SYS_rseq,
		SYS_prlimit64,
		SYS_getrandom,
		SYS_uname,
		SYS_fcntl,
		SYS_lseek,
		SYS_getcwd,
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (calls[i] == number)
			return true;
	return false;
}

static bool has_ended(const struct linker *linker, const struct user_regs_struct *registers)
{
	return registers->rip - linker->start >= linker->end - linker->start ||
	       !is_linkers(registers->orig_rax);
}

static bool has_mapped_code(const struct user_regs_struct *registers)
{
	return registers->orig_rax == SYS_mmap && registers->rdx & PROT_EXEC &&
	       registers->rax < -4095ull;
}

int starting_follow(pid_t pid, struct probes *probes)
{
	struct linker linker = { .base = base_read(pid) };
	struct user_regs_struct registers;
	struct __ptrace_syscall_info info;
	int status = SIGTRAP << 8 | PTRACE_EVENT_EXEC << 16, err = 0;
	bool entry;

	if (linker.base)
		procfs_areas(pid, area_look, &linker);
	while (linker.base && !err) {
		if (step(pid, status, PTRACE_SYSCALL) || wait_stop(pid, &status))
			return gone(pid);
		if (status >> 16 || WSTOPSIG(status) != SYSCALL_STOP)
			continue;
		if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) ||
		    ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0)
			return gone(pid);
		entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
		if (entry && has_ended(&linker, &registers))
			break;
		if (!entry && has_mapped_code(&registers))
			err = probes_look(probes);
	}
	return err;
}

void starting_release(pid_t pid)
{
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
}
