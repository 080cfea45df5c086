// SPDX-License-Identifier: Dual BSD/GPL
/*
 * The interpreter of runs without the sampler: from registers that a test chose, on the memory of
 * the test itself. A program at a perf event cannot be run by hand; one at a raw tracepoint can,
 * and is as unable to sleep.
 */
#include "capture/kernel/run.bpf.h"
#include "capture/kernel/run_test.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

_Static_assert(RUN_TEST_WORDS == OVERLAY_WORDS, "all of the overlay is told");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct run_test);
} tests SEC(".maps");

struct copy {
	struct run *run;
	struct run_test *test;
};

static long word_copy(__u32 index, struct copy *copy)
{
	struct overlay_word *word = &copy->run->overlay[index & (OVERLAY_WORDS - 1)];
	__u32 at = copy->test->word_count;

	if (word->serial != copy->run->serial || at >= RUN_TEST_WORDS)
		return 0;
	copy->test->words[at].address = word->address;
	copy->test->words[at].data = word->data;
	copy->test->words[at].present = word->present;
	copy->test->words[at].unknown = word->unknown;
	copy->test->word_count = at + 1;
	return 0;
}

static __always_inline void test_begin(struct run *run, const struct run_test *test)
{
	run->in_kernel = 0;
	run->limit = test->limit;
	run->process = test->process;
	run->record.record.time = test->time;
	run->record.pc = test->pc;
	run->record.rflags = test->rflags;
	run->record.fs_base = test->regs[UOP_FS_BASE];
	run->record.gs_base = test->regs[UOP_GS_BASE];
	for (int i = 0; i < 16; i++)
		run->record.regs[i] = test->regs[i];
	bpf_probe_read_kernel(run->state.regs, sizeof(run->state.regs), test->regs);
	state_begin(run, test->pc);
	__builtin_memcpy(run->state.unknown, test->unknown, sizeof(run->state.unknown));
}

static __always_inline void test_end(struct run *run, struct run_test *test)
{
	struct copy copy = { .run = run, .test = test };

	bpf_probe_read_kernel(&test->state, sizeof(test->state),
			      &run->state); /* too long to copy */
	test->first = run->first;
	test->count = run->count;
	test->end = run->end;
	test->begun = run->begun;
	test->word_count = 0;
	bpf_loop(OVERLAY_WORDS, word_copy, &copy, 0);
	test->sent = !run_send(run, test->skip);
}

SEC("raw_tp")
int run_once(void *ctx)
{
	struct run_test *test = bpf_map_lookup_elem(&tests, &(__u32){ 0 });
	struct run *run = bpf_map_lookup_elem(&runs, &(__u32){ 0 });

	if (!test || !run)
		return 1;
	test_begin(run, test);
	bpf_loop(RUN_UOPS_MAX + 1, run_step, &run, 0);
	test_end(run, test);
	return 0;
}
