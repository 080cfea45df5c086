// SPDX-License-Identifier: BSD-2-Clause
/*
 * A system call in another process: set the registers, let it run into a system call instruction,
 * stop it behind.
 *
 * The instruction is one in the vdso, which the kernel maps into every process; so no byte of the
 * program is changed. The stops are those at entry and exit of a system call (PTRACE_SYSCALL). A
 * single step would need one stop less, but it comes as a SIGTRAP, and where the program ignores or
 * blocks that signal, the kernel would set it back to its default.
 *
 * 1. Between remote_init() and remote_release() the thread is in the stop at the exit of a system
 *    call; there all registers can be set and none is changed by the kernel afterwards. At
 *    PTRACE_EVENT_EXEC itself it still would: rax.
 * 2. All signals are blocked meanwhile, so that none is delivered with registers that are not the
 *    program's. They stay pending. Only SIGKILL and SIGSTOP get through; the second is kept and
 *    sent again at the end.
 */
#include "inject/remote.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

enum { MASK_SIZE = 8, FLAG_TRAP = 0x100, SYSCALL_STOP = SIGTRAP | 0x80 };

static int status_make(const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		return (info->si_status & 0xff) << 8;
	if (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED)
		return info->si_status & 0x7f;
	return info->si_status << 8 | 0x7f;
}

enum remote_event remote_look(pid_t tid, bool wait, int *ret_status)
{
	int flags = WEXITED | WSTOPPED | WNOWAIT | __WALL | (wait ? 0 : WNOHANG);
	siginfo_t info = {};
	int got;

	do
		got = waitid(P_PID, (id_t)tid, &info, flags);
	while (got && errno == EINTR);
	if (got || !info.si_pid)
		return REMOTE_NONE;
	*ret_status = status_make(&info);
	return WIFSTOPPED(*ret_status) ? REMOTE_STOPPED : REMOTE_ENDED;
}

void remote_see(pid_t tid)
{
	siginfo_t info;

	waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | __WALL | WNOHANG);
}

static bool is_stop_signal(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

void remote_resume(pid_t tid, int status)
{
	int signal = WSTOPSIG(status);

	if (status >> 16 == PTRACE_EVENT_STOP && is_stop_signal(signal))
		ptrace(PTRACE_LISTEN, tid, NULL, NULL);
	else
		ptrace(PTRACE_CONT, tid, NULL, (long)(status >> 16 ? 0 : signal));
}

static int remote_gone(const struct remote *remote)
{
	return err_set(-ESRCH, "process %d ended while it was being prepared", (int)remote->tid);
}

/* To the next entry or exit of a system call. */
static int remote_step(struct remote *remote)
{
	int status = 0;

	do {
		if (ptrace(PTRACE_SYSCALL, remote->tid, NULL, NULL) ||
		    remote_look(remote->tid, true, &status) != REMOTE_STOPPED)
			return remote_gone(remote);
		remote_see(remote->tid);
		if (status >> 16 == 0 && WSTOPSIG(status) == SIGSTOP)
			remote->stop = SIGSTOP;
	} while (status >> 16 || WSTOPSIG(status) != SYSCALL_STOP);
	return 0;
}

static int auxiliary_read(pid_t pid, uint64_t *ret_vdso, bool *ret_secure)
{
	AUTO(free_ptr) char *path = mem_printf("/proc/%d/auxv", (int)pid);
	AUTO(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_auxv_t entries[64];
	ssize_t size = fd < 0 ? -1 : read(fd, entries, sizeof(entries));

	if (size < 0)
		return err_set(-errno, "cannot read %s: %s", path, strerror(errno));
	*ret_vdso = 0;
	*ret_secure = false;
	for (size_t i = 0; i < (size_t)size / sizeof(entries[0]); i++) {
		if (entries[i].a_type == AT_SYSINFO_EHDR)
			*ret_vdso = entries[i].a_un.a_val;
		if (entries[i].a_type == AT_SECURE)
			*ret_secure = entries[i].a_un.a_val;
	}
	return 0;
}

/* The same in every process: looked for in our own. 0: there is none. */
static uint64_t vdso_syscall_offset(void)
{
	static const uint8_t instruction[] = { 0x0f, 0x05 };
	const uint8_t *vdso = (const uint8_t *)(uintptr_t)getauxval(AT_SYSINFO_EHDR), *found;
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)vdso;
	const Elf64_Phdr *segment;

	if (!vdso)
		return 0;
	segment = (const Elf64_Phdr *)(vdso + header->e_phoff);
	for (size_t i = 0; i < header->e_phnum; i++, segment++) {
		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		found = memmem(vdso + segment->p_offset, segment->p_filesz, instruction,
			       sizeof(instruction));
		return found ? (uint64_t)(found - vdso) : 0;
	}
	return 0;
}

static int syscall_find(struct remote *remote, bool may_not_be_secure)
{
	uint64_t vdso, offset = vdso_syscall_offset();
	bool secure;
	int err = auxiliary_read(remote->tid, &vdso, &secure);

	if (err)
		return err;
	if (secure && may_not_be_secure) {
		remote->obstacle = PROGRAM_PRIVILEGED;
		return err_set(-EPERM, "process %d has changed its user, group or capabilities",
			       (int)remote->tid);
	}
	if (!vdso || !offset)
		return err_set(-ENOSYS, "this kernel gives processes no vdso (vdso=0?), which the "
					"way into them needs");
	remote->syscall = vdso + offset;
	return 0;
}

int remote_registers_get(struct remote *remote)
{
	struct iovec area = { &remote->registers, sizeof(remote->registers) };

	if (ptrace(PTRACE_GETREGSET, remote->tid, (void *)NT_PRSTATUS, &area))
		return remote_gone(remote);
	/* The registers of a 32-bit program are a smaller set. */
	if (area.iov_len != sizeof(remote->registers)) {
		remote->obstacle = PROGRAM_FOREIGN;
		return err_set(-ENOEXEC, "process %d does not run 64-bit code", (int)remote->tid);
	}
	return 0;
}

int remote_registers_set(const struct remote *remote, const struct user_regs_struct *registers)
{
	struct iovec area = { (void *)(uintptr_t)registers, sizeof(*registers) };

	return ptrace(PTRACE_SETREGSET, remote->tid, (void *)NT_PRSTATUS, &area)
		       ? remote_gone(remote)
		       : 0;
}

/*
 * In a call with a mask of its own, such as ppoll(), what is shown and set is the mask before the
 * call.
 */
static int signals_block(struct remote *remote)
{
	uint64_t all = ~0ull;

	if (ptrace(PTRACE_GETSIGMASK, remote->tid, (void *)MASK_SIZE, &remote->mask))
		return remote_gone(remote);
	remote->blocked = true;
	return ptrace(PTRACE_SETSIGMASK, remote->tid, (void *)MASK_SIZE, &all) ? remote_gone(remote)
									       : 0;
}

int remote_init(struct remote *remote)
{
	int err = signals_block(remote);

	err = err ? err : remote_step(remote);
	err = err ? err : remote_registers_get(remote);
	return err ? err : syscall_find(remote, true);
}

int remote_init_running(struct remote *remote)
{
	int err = remote_registers_get(remote);

	err = err ? err : syscall_find(remote, false);
	return err ? err : signals_block(remote);
}

int remote_call(struct remote *remote, long number, const uint64_t arguments[6], int64_t *ret)
{
	struct user_regs_struct registers = remote->registers;
	int err;

	registers.rip = remote->syscall;
	registers.rax = (unsigned long long)number;
	registers.eflags &= ~(unsigned long long)FLAG_TRAP;
	registers.orig_rax = ~0ull; /* not in a system call that could be restarted */
	registers.rdi = arguments[0];
	registers.rsi = arguments[1];
	registers.rdx = arguments[2];
	registers.r10 = arguments[3];
	registers.r8 = arguments[4];
	registers.r9 = arguments[5];
	err = remote_registers_set(remote, &registers);
	err = err ? err : remote_step(remote);
	err = err ? err : remote_step(remote);
	if (err)
		return err;
	errno = 0;
	*ret = ptrace(PTRACE_PEEKUSER, remote->tid, offsetof(struct user_regs_struct, rax), NULL);
	return 0;
}

int remote_read(pid_t pid, uint64_t address, void *data, size_t size)
{
	struct iovec here = { data, size }, there = { (void *)address, size };

	if (process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)size)
		return 0;
	return err_set(errno == ESRCH ? -ESRCH : -EFAULT,
		       "cannot read memory of process %d at %#llx: %s", (int)pid,
		       (unsigned long long)address, strerror(errno));
}

int remote_write(pid_t pid, uint64_t address, const void *data, size_t size)
{
	struct iovec here = { (void *)(uintptr_t)data, size }, there = { (void *)address, size };

	if (process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)size)
		return 0;
	return err_set(errno == ESRCH ? -ESRCH : -EFAULT,
		       "cannot write memory of process %d at %#llx: %s", (int)pid,
		       (unsigned long long)address, strerror(errno));
}

int remote_release(struct remote *remote, const struct user_regs_struct *registers)
{
	int err = remote_registers_set(remote, registers);

	if (!err && (ptrace(PTRACE_SETSIGMASK, remote->tid, (void *)MASK_SIZE, &remote->mask) ||
		     ptrace(PTRACE_DETACH, remote->tid, NULL, (long)remote->stop)))
		err = remote_gone(remote);
	return err;
}

void remote_abandon(struct remote *remote)
{
	/*
	 * Without a place for system calls none was made: the registers are untouched, perhaps not
	 * even known.
	 */
	if (remote->syscall)
		remote_registers_set(remote, &remote->registers);
	if (remote->blocked)
		ptrace(PTRACE_SETSIGMASK, remote->tid, (void *)MASK_SIZE, &remote->mask);
	ptrace(PTRACE_DETACH, remote->tid, NULL, (long)remote->stop);
}
