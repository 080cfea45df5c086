/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program can tell `assay calls` and `assay record --off-cpu` about itself: which task of
 * its own a thread works on.
 *
 *	assay_task_begin("name");	from here on this thread works on a task
 *	assay_task_end();		and here the task is over
 *
 * A pool of threads runs many tasks on few threads of the kernel. With these two calls each task is
 * a thread of its own in the profile, with its name and its own tree of calls, and what it costs is
 * charged to it and not to the thread that happened to run it. Tasks may lie within each other. The
 * name is copied, up to 63 bytes.
 *
 * And what it can ask of `assay count`: what a mark has counted so far.
 *
 *	struct assay_mark_counts counts;
 *
 *	if (assay_mark_read("mark:parse", &counts))
 *		... counts.visits, counts.instructions
 *	if (assay_mark_read("data:window", &counts))
 *		... counts.reads, counts.writes
 *
 * The text is that of the mark as it was given (-m 'mark:parse'), or of what a pattern found, the
 * routine's name. No system call is made. Where nobody counts such a mark, or some access to marked
 * data was lost, it returns 0, and all counts are 0.
 *
 * If the program is not being recorded, each of the two is a load, a branch and two instructions
 * that do nothing. Nothing has to be linked. For GCC and Clang on x86-64, in C and C++; elsewhere,
 * and with ASSAY_NO_CLIENT defined, the functions are empty.
 *
 * How it works: hooks that are preloaded find the two pointers by a note of the object file, which
 * is comdat: one for each program or library. The engine knows the instruction that does nothing by
 * its displacement; rdi has the name. `record` has the kernel put a probe on the one in front of
 * it, which the kernel need not execute in a single step. A mark is known by a hash of its text,
 * which compilers compute where the text is a constant.
 */
#ifndef ASSAY_CLIENT_H
#define ASSAY_CLIENT_H

struct assay_mark_counts {
	unsigned long long visits, instructions, reads, writes; /* of all threads of the process */
	/* of the thread that asks */
	unsigned long long thread_visits, thread_instructions, thread_reads, thread_writes;
	unsigned long long counted; /* 1: the mark is counted; otherwise 0, as all are */
};

static inline void assay_mark_counts_clear_(struct assay_mark_counts *counts)
{
	counts->visits = counts->instructions = counts->reads = counts->writes = 0;
	counts->thread_visits = counts->thread_instructions = 0;
	counts->thread_reads = counts->thread_writes = 0;
	counts->counted = 0;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(ASSAY_NO_CLIENT)

#ifdef __cplusplus
extern "C" {
#endif

struct assay_client {
	void (*volatile task_begin)(const char *name);
	void (*volatile task_end)(void);
};

__attribute__((weak, visibility("hidden"), used)) struct assay_client assay_client_;

#ifdef __cplusplus
}
#endif

__asm__(".pushsection .note.assay.client, \"aG\", @note, assay_client_note, comdat\n\t"
	".balign 4\n\t"
	".long 6, 4, 1\n\t"
	".asciz \"Assay\"\n\t"
	".balign 4\n\t"
	".long assay_client_ - .\n\t"
	".popsection");

static __inline__ __attribute__((always_inline, no_instrument_function)) void
assay_task_begin(const char *name)
{
	void (*begin)(const char *) = assay_client_.task_begin;

	if (__builtin_expect(begin != 0, 0))
		begin(name);
	else /* nopl 0x59534101(%rax) */
		__asm__ volatile(".byte 0x66, 0x66, 0x66, 0x90\n\t"
				 ".byte 0x0f, 0x1f, 0x80, 0x01, 0x41, 0x53, 0x59"
				 :
				 : "D"(name));
}

static __inline__ __attribute__((always_inline, no_instrument_function)) void assay_task_end(void)
{
	void (*end)(void) = assay_client_.task_end;

	if (__builtin_expect(end != 0, 0))
		end();
	else /* nopl 0x59534102(%rax) */
		__asm__ volatile(".byte 0x66, 0x66, 0x66, 0x90\n\t"
				 ".byte 0x0f, 0x1f, 0x80, 0x02, 0x41, 0x53, 0x59"
				 :
				 :);
}

static __inline__ __attribute__((always_inline, no_instrument_function)) int
assay_mark_read(const char *mark, struct assay_mark_counts *ret)
{
	unsigned long long hash = 0xcbf29ce484222325ull;

	for (; *mark; mark++)
		hash = (hash ^ (unsigned char)*mark) * 0x100000001b3ull;
	assay_mark_counts_clear_(ret);
	/* nopl 0x59534104(%rax) */
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80, 0x04, 0x41, 0x53, 0x59"
			 :
			 : "D"(hash), "S"(ret)
			 : "memory");
	return ret->counted != 0;
}

#else

static inline int assay_mark_read(const char *mark, struct assay_mark_counts *ret)
{
	(void)mark;
	assay_mark_counts_clear_(ret);
	return 0;
}

static inline void assay_task_begin(const char *name)
{
	(void)name;
}

static inline void assay_task_end(void)
{
}

#endif

#endif
