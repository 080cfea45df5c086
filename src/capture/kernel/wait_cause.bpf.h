/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds out what a thread waits for: from its state, from the kernel's flag for waits for a disk
 * (in_iowait), and from its system call; for calls that read and write, from the kind of file.
 */
#pragma once

#include "capture/kernel/kernel_types.h"
#include "wire/waits.h"

/* More of the kernel's structures; see kernel_types.h. */

struct task_io_accounting {
	unsigned long long rchar;
	unsigned long long wchar;
} CORE;

struct inode {
	unsigned short i_mode;
} CORE;

struct file {
	struct inode *f_inode;
} CORE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} CORE;

struct files_struct {
	struct fdtable *fdt;
} CORE;

struct thread_info {
	unsigned int status;
} CORE;

struct task_struct___waits {
	struct thread_info thread_info;
	unsigned int __state;
	int on_cpu;
	unsigned long long start_time;
	unsigned in_iowait : 1;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long min_flt;
	unsigned long maj_flt;
	struct task_io_accounting ioac;
	struct files_struct *files;
} CORE;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	void *key;
	void *value;
} CORE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

enum {
	MODE_TYPE = 0170000,
	MODE_PIPE = 0010000,
	MODE_SOCKET = 0140000,
	MODE_REGULAR = 0100000,
	MODE_DIRECTORY = 0040000,
	MODE_BLOCK = 0060000,
};

enum { STATE_STOPPED = 0x4, STATE_TRACED = 0x8 };
enum { STATUS_COMPAT = 0x2 }; /* in a 32-bit system call */

static __always_inline __u32 cause_of_mode(__u16 mode)
{
	switch (mode & MODE_TYPE) {
	case MODE_PIPE:
		return WAIT_PIPE;
	case MODE_SOCKET:
		return WAIT_SOCKET;
	case MODE_REGULAR:
	case MODE_DIRECTORY:
	case MODE_BLOCK:
		return WAIT_DISK;
	default:
		return WAIT_OTHER;
	}
}

static __always_inline __u32 cause_of_file(struct task_struct *task, __u64 fd)
{
	struct task_struct___waits *more = (void *)task;
	struct fdtable *table = BPF_CORE_READ(more, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	struct file *file = NULL;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return WAIT_OTHER;
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return cause_of_mode(BPF_CORE_READ(file, f_inode, i_mode));
}

static __always_inline __u32 cause_of_call(__u64 number)
{
	switch (number) {
	case 34: /* pause */
	case 35: /* nanosleep */
	case 128: /* rt_sigtimedwait */
	case 130: /* rt_sigsuspend */
	case 230: /* clock_nanosleep */
		return WAIT_SLEEP;
	case 7: /* poll */
	case 23: /* select */
	case 232: /* epoll_wait */
	case 270: /* pselect6 */
	case 271: /* ppoll */
	case 281: /* epoll_pwait */
	case 426: /* io_uring_enter */
	case 441: /* epoll_pwait2 */
		return WAIT_POLL;
	case 42: /* connect */
	case 43: /* accept */
	case 44: /* sendto */
	case 45: /* recvfrom */
	case 46: /* sendmsg */
	case 47: /* recvmsg */
	case 288: /* accept4 */
	case 299: /* recvmmsg */
	case 307: /* sendmmsg */
		return WAIT_SOCKET;
	case 56: /* clone, as vfork: until the child executes a program */
	case 58: /* vfork */
	case 61: /* wait4 */
	case 247: /* waitid */
	case 435: /* clone3 */
		return WAIT_CHILD;
	case 65: /* semop */
	case 72: /* fcntl: F_SETLKW */
	case 73: /* flock */
	case 220: /* semtimedop */
		return WAIT_LOCK;
	case 26: /* msync */
	case 74: /* fsync */
	case 75: /* fdatasync */
	case 162: /* sync */
	case 187: /* readahead */
	case 208: /* io_getevents */
	case 277: /* sync_file_range */
	case 285: /* fallocate */
	case 306: /* syncfs */
	case 333: /* io_pgetevents */
		return WAIT_DISK;
	default:
		return WAIT_OTHER;
	}
}

static __always_inline int call_has_file(__u64 number)
{
	switch (number) {
	case 0: /* read */
	case 1: /* write */
	case 17: /* pread64 */
	case 18: /* pwrite64 */
	case 19: /* readv */
	case 20: /* writev */
	case 40: /* sendfile: to that file */
	case 77: /* ftruncate */
	case 217: /* getdents64 */
	case 275: /* splice */
	case 276: /* tee */
	case 278: /* vmsplice */
	case 295: /* preadv */
	case 296: /* pwritev */
	case 326: /* copy_file_range */
	case 327: /* preadv2 */
	case 328: /* pwritev2 */
		return 1;
	default:
		return 0;
	}
}

/* Numbers of 32-bit system calls are others; read and the like have the file in rbx. */
static __always_inline __u32 cause_of_compat(struct task_struct *task, __u64 number, __u64 file)
{
	switch (number) {
	case 3: /* read */
	case 4: /* write */
	case 145: /* readv */
	case 146: /* writev */
	case 180: /* pread64 */
	case 181: /* pwrite64 */
		return cause_of_file(task, file);
	case 7: /* waitpid */
	case 114: /* wait4 */
	case 190: /* vfork */
	case 284: /* waitid */
		return WAIT_CHILD;
	case 29: /* pause */
	case 162: /* nanosleep */
	case 179: /* rt_sigsuspend */
	case 267: /* clock_nanosleep */
	case 407: /* clock_nanosleep_time64 */
		return WAIT_SLEEP;
	case 142: /* select */
	case 168: /* poll */
	case 256: /* epoll_wait */
	case 308: /* pselect6 */
	case 309: /* ppoll */
	case 319: /* epoll_pwait */
	case 413: /* pselect6_time64 */
	case 414: /* ppoll_time64 */
		return WAIT_POLL;
	case 117: /* ipc: semaphores, mostly */
	case 143: /* flock */
	case 221: /* fcntl64 */
	case 240: /* futex */
	case 422: /* futex_time64 */
		return WAIT_LOCK;
	case 102: /* socketcall */
	case 362: /* connect */
	case 364: /* accept4 */
	case 369: /* sendto */
	case 370: /* sendmsg */
	case 371: /* recvfrom */
	case 372: /* recvmsg */
		return WAIT_SOCKET;
	case 36: /* sync */
	case 118: /* fsync */
	case 148: /* fdatasync */
		return WAIT_DISK;
	default:
		return WAIT_OTHER;
	}
}

static __always_inline int call_is_futex(__u64 number)
{
	return number == 202 || number == 449 || number == 455; /* futex, _waitv, futex_wait */
}

/*
 * The cause of the wait of a thread that is off its processor, or about to leave it. The registers
 * at the end of its kernel stack tell the number of its system call, or -1 after an exception.
 * *ret_object: the address of a futex.
 */
static __noinline __u32 wait_cause_of(struct task_struct *task, __u32 state, __u64 *ret_object)
{
	struct task_struct___waits *more = (void *)task;
	struct pt_regs *registers;
	__u64 number = 0, first = 0;

	if (!task || !ret_object)
		return WAIT_OTHER;
	if (state & (STATE_STOPPED | STATE_TRACED))
		return WAIT_STOPPED;
	if (!task->mm)
		return BPF_CORE_READ_BITFIELD(more, in_iowait) ? WAIT_DISK : WAIT_OTHER;
	registers = (struct pt_regs *)bpf_task_pt_regs(task);
	bpf_probe_read_kernel(&number, sizeof(number), &registers->orig_rax);
	bpf_probe_read_kernel(&first, sizeof(first), &registers->rdi);
	if ((__s64)number < 0)
		return WAIT_FAULT;
	if (BPF_CORE_READ_BITFIELD(more, in_iowait))
		return WAIT_DISK;
	if (more->thread_info.status & STATUS_COMPAT) {
		bpf_probe_read_kernel(&first, sizeof(first), &registers->rbx);
		return cause_of_compat(task, number, first);
	}
	if (call_is_futex(number)) {
		if (number != 449)
			*ret_object = first;
		return WAIT_LOCK;
	}
	if (call_has_file(number))
		return cause_of_file(task, first);
	return cause_of_call(number);
}
