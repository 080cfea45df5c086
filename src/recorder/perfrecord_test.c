// SPDX-License-Identifier: BSD-2-Clause
// Serves: V16.
/*
 * Records by hand and by accident. Each lies right before an unreadable page, so that reading on is
 * fatal.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/map.h"
#include "recorder/perfrecord.h"

enum { PAGE = 4096, RECORD_MAX = 1024 };

static uint8_t *fence; /* the unreadable page */

static int setup(void **state)
{
	uint8_t *memory =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	fence = memory + PAGE;
	return memory == MAP_FAILED || mprotect(fence, PAGE, PROT_NONE);
}

struct record {
	uint8_t bytes[RECORD_MAX];
	size_t size;
};

static void put(struct record *record, const void *data, size_t size)
{
	memcpy(record->bytes + record->size, data, size);
	record->size += size;
}

static void put_u32(struct record *record, uint32_t value)
{
	put(record, &value, sizeof(value));
}

static void put_u64(struct record *record, uint64_t value)
{
	put(record, &value, sizeof(value));
}

/* With its NUL, padded to 8. */
static void put_text(struct record *record, const char *text)
{
	put(record, text, strlen(text) + 1);
	while (record->size % 8)
		put(record, "", 1);
}

static struct record record_begin(uint32_t type, uint16_t misc)
{
	struct record record = {};
	struct perf_event_header header = { .type = type, .misc = misc };

	put(&record, &header, sizeof(header));
	return record;
}

static void record_end(struct record *record)
{
	uint16_t size = (uint16_t)record->size;

	memcpy(record->bytes + 6, &size, sizeof(size));
}

static void put_id(struct record *record)
{
	put_u32(record, 91);
	put_u32(record, 92);
	put_u64(record, 93);
	record_end(record);
}

/* Parses what perfrecord_size() makes of it, right before the fence. */
static int parse(const struct record *record, struct event *ret)
{
	uint8_t *at = fence - record->size;
	size_t size;

	memcpy(at, record->bytes, record->size);
	size = perfrecord_size(at, record->size);
	return size ? perfrecord_parse(at, size, ret) : -EBADMSG;
}

static struct record mmap2_record(uint16_t misc, uint32_t prot)
{
	struct record record = record_begin(PERF_RECORD_MMAP2, misc);
	static const uint8_t build_id[24] = { 20, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8 };

	put_u32(&record, 11);
	put_u32(&record, 12);
	put_u64(&record, 0x1000);
	put_u64(&record, 0x500);
	put_u64(&record, 0x300);
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		put(&record, build_id, sizeof(build_id));
	} else {
		put_u32(&record, 8);
		put_u32(&record, 1);
		put_u64(&record, 777);
		put_u64(&record, 0);
	}
	put_u32(&record, prot);
	put_u32(&record, 2);
	put_text(&record, "/usr/lib/x");
	put_id(&record);
	return record;
}

static void mmap_is_read(void **state)
{
	struct record record = mmap2_record(0, PROT_EXEC);
	struct event event;

	assert_int_equal(parse(&record, &event), 1);
	assert_int_equal(event.kind, EVENT_MMAP);
	assert_int_equal(event.pid, 11);
	assert_int_equal(event.tid, 12);
	assert_int_equal(event.time, 93);
	assert_int_equal(event.mmap.start, 0x1000);
	assert_int_equal(event.mmap.end, 0x1500);
	assert_int_equal(event.mmap.offset, 0x300);
	assert_int_equal(event.mmap.major, 8);
	assert_int_equal(event.mmap.minor, 1);
	assert_int_equal(event.mmap.inode, 777);
	assert_int_equal(event.mmap.build_id.size, 0);
	assert_string_equal(event.mmap.path, "/usr/lib/x");
	record = mmap2_record(0, PROT_READ);
	assert_int_equal(parse(&record, &event), 0);
}

static void mmap_with_build_id_is_read(void **state)
{
	struct record record = mmap2_record(PERF_RECORD_MISC_MMAP_BUILD_ID, PROT_EXEC);
	struct event event;

	assert_int_equal(parse(&record, &event), 1);
	assert_int_equal(event.mmap.inode, 0);
	assert_int_equal(event.mmap.build_id.size, 20);
	assert_int_equal(event.mmap.build_id.bytes[7], 8);
	record.bytes[8 + 32] = 21; /* longer than the field */
	assert_int_equal(parse(&record, &event), -EBADMSG);
}

static void mmap_beyond_the_address_space_is_refused(void **state)
{
	struct record record = mmap2_record(0, PROT_EXEC);
	struct event event;

	memset(record.bytes + 24, 0xff, 8); /* length */
	assert_int_equal(parse(&record, &event), -EBADMSG);
	memset(record.bytes + 24, 0, 8);
	assert_int_equal(parse(&record, &event), -EBADMSG);
}

static void unended_path_is_refused(void **state)
{
	struct record record = mmap2_record(0, PROT_EXEC);
	struct event event;

	memset(record.bytes + record.size - 16 - 16, 'x', 16);
	assert_int_equal(parse(&record, &event), -EBADMSG);
}

static void comm_and_exec_are_told_apart(void **state)
{
	struct event event;

	for (int exec = 0; exec < 2; exec++) {
		struct record record =
			record_begin(PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);

		put_u32(&record, 11);
		put_u32(&record, 12);
		put_text(&record, "cat");
		put_id(&record);
		assert_int_equal(parse(&record, &event), 1);
		assert_int_equal(event.kind, exec ? EVENT_EXEC : EVENT_COMM);
		assert_int_equal(event.pid, 11);
		assert_int_equal(event.tid, 12);
		assert_string_equal(event.comm, "cat");
	}
}

static void fork_and_exit_are_read(void **state)
{
	struct event event;

	for (int fork = 0; fork < 2; fork++) {
		struct record record = record_begin(fork ? PERF_RECORD_FORK : PERF_RECORD_EXIT, 0);

		for (uint32_t i = 1; i <= 4; i++)
			put_u32(&record, i);
		put_u64(&record, 5);
		put_id(&record);
		assert_int_equal(parse(&record, &event), 1);
		assert_int_equal(event.kind, fork ? EVENT_FORK : EVENT_EXIT);
		assert_int_equal(event.pid, 1);
		assert_int_equal(event.fork.ppid, 2);
		assert_int_equal(event.tid, 3);
		assert_int_equal(event.fork.ptid, 4);
	}
}

static void losses_are_counted(void **state)
{
	struct record lost = record_begin(PERF_RECORD_LOST, 0);
	struct record samples = record_begin(PERF_RECORD_LOST_SAMPLES, 0);
	struct record throttle = record_begin(PERF_RECORD_THROTTLE, 0);
	struct event event;

	put_u64(&lost, 1);
	put_u64(&lost, 5);
	put_id(&lost);
	assert_int_equal(parse(&lost, &event), 1);
	assert_int_equal(event.kind, EVENT_LOST);
	assert_int_equal(event.lost, 5);
	put_u64(&samples, 6);
	put_id(&samples);
	assert_int_equal(parse(&samples, &event), 1);
	assert_int_equal(event.lost, 6);
	for (int i = 0; i < 3; i++)
		put_u64(&throttle, 0);
	put_id(&throttle);
	assert_int_equal(parse(&throttle, &event), 1);
	assert_int_equal(event.kind, EVENT_THROTTLE);
}

/* frames: of the kernel, from 0xf00 on. */
static struct record sample_record_of(uint16_t mode, uint64_t frames, uint64_t abi, uint64_t stack,
				      uint64_t valid)
{
	struct record record = record_begin(PERF_RECORD_SAMPLE, mode);

	put_u64(&record, 0x7777);
	put_u32(&record, 11);
	put_u32(&record, 12);
	put_u64(&record, 13);
	put_u64(&record, frames ? frames + 2 : 0);
	if (frames)
		put_u64(&record, (uint64_t)PERF_CONTEXT_KERNEL);
	for (uint64_t i = 0; i < frames; i++)
		put_u64(&record, 0xf00 + i);
	if (frames)
		put_u64(&record, (uint64_t)PERF_CONTEXT_USER);
	put_u64(&record, abi);
	for (uint64_t i = 0; abi && i < 4; i++)
		put_u64(&record, 0xb00 + i);
	put_u64(&record, stack);
	for (uint64_t i = 0; i < stack / 8; i++)
		put_u64(&record, i);
	if (stack)
		put_u64(&record, valid);
	record_end(&record);
	return record;
}

static struct record sample_record(uint16_t mode, uint64_t abi, uint64_t stack, uint64_t valid)
{
	return sample_record_of(mode, 0, abi, stack, valid);
}

static void kernel_frames_are_read(void **state)
{
	struct record record = sample_record_of(PERF_RECORD_MISC_KERNEL, 3, 2, 8, 8);
	struct event event;
	uint64_t many = UINT64_MAX / 8 + 2;

	assert_int_equal(parse(&record, &event), 1);
	assert_true(event.sample.in_kernel);
	assert_int_equal(event.sample.kernel_count, 3); /* without the marks around them */
	assert_int_equal(event.sample.kernel_frames[0], 0xf00);
	assert_int_equal(event.sample.kernel_frames[2], 0xf02);
	assert_int_equal(event.sample.registers.ip, 0xb03);
	assert_int_equal(event.sample.stack.size, 8);
	record = sample_record(PERF_RECORD_MISC_KERNEL, 0, 0, 0);
	assert_int_equal(parse(&record, &event), 1);
	assert_int_equal(event.sample.kernel_count, 0);
	memcpy(record.bytes + 32, &many, sizeof(many)); /* more than there can be */
	assert_int_equal(parse(&record, &event), -EBADMSG);
	record = sample_record_of(PERF_RECORD_MISC_KERNEL, 60, 2, 8, 8);
	assert_int_equal(parse(&record, &event), 1);
	assert_int_equal(event.sample.kernel_count, 60);
}

static void sample_is_read(void **state)
{
	struct record record = sample_record(PERF_RECORD_MISC_USER, 2, 64, 40);
	struct event event;
	uint64_t word;

	assert_int_equal(parse(&record, &event), 1);
	assert_int_equal(event.kind, EVENT_SAMPLE);
	assert_int_equal(event.pid, 11);
	assert_int_equal(event.tid, 12);
	assert_int_equal(event.time, 13);
	assert_int_equal(event.sample.registers.rbx, 0xb00);
	assert_int_equal(event.sample.registers.bp, 0xb01);
	assert_int_equal(event.sample.registers.sp, 0xb02);
	assert_int_equal(event.sample.registers.ip, 0xb03);
	assert_int_equal(event.sample.stack.address, 0xb02);
	assert_int_equal(event.sample.stack.size, 40);
	memcpy(&word, event.sample.stack.bytes + 32, 8);
	assert_int_equal(word, 4);
	assert_false(event.sample.in_kernel);
	record = sample_record(PERF_RECORD_MISC_KERNEL, 0, 0, 0);
	assert_int_equal(parse(&record, &event), 1);
	assert_true(event.sample.in_kernel);
	assert_int_equal(event.sample.kernel_ip, 0x7777);
	assert_int_equal(event.sample.stack.size, 0);
	record = sample_record(PERF_RECORD_MISC_USER, 2, 64, UINT64_MAX);
	assert_int_equal(parse(&record, &event), 1);
	assert_int_equal(event.sample.stack.size, 64);
}

static void wrong_sizes_are_refused(void **state)
{
	static const uint16_t wrong[] = { 0, 7, 12, 0xfff8 };
	struct record record = record_begin(PERF_RECORD_COMM, 0);

	put_u64(&record, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(record.bytes + 6, &wrong[i], 2);
		assert_int_equal(perfrecord_size(record.bytes, record.size), 0);
	}
	assert_int_equal(perfrecord_size(record.bytes, 7), 0);
}

/* What an event says about its size must hold, whatever the bytes were. */
static void event_check(const struct event *event, const uint8_t *from, size_t size)
{
	const uint8_t *text = NULL;

	if (event->kind == EVENT_MMAP)
		text = (const uint8_t *)event->mmap.path;
	if (event->kind == EVENT_COMM || event->kind == EVENT_EXEC)
		text = (const uint8_t *)event->comm;
	if (text)
		assert_true(text >= from && text + strlen((const char *)text) < from + size);
	if (event->kind == EVENT_SAMPLE && event->sample.stack.size) {
		assert_true(event->sample.stack.bytes >= from);
		assert_true(event->sample.stack.size <= size);
		assert_true(event->sample.stack.bytes + event->sample.stack.size <= from + size);
	}
	if (event->kind == EVENT_MMAP)
		assert_true(event->mmap.start < event->mmap.end);
}

static void fuzz_one(struct record *record)
{
	uint8_t *at = fence - record->size;
	struct event event;

	if (parse(record, &event) == 1)
		event_check(&event, at, record->size);
}

static void garbage_is_harmless(void **state)
{
	enum { ROUNDS = 300000, SEED = 99 };
	uint64_t seed = SEED;

	print_message("seed %d\n", SEED);
	for (int round = 0; round < ROUNDS; round++) {
		struct record record = {};
		uint64_t draw = seed = hash64(seed + 1);
		size_t words = 1 + draw % 24;

		for (size_t i = 0; i < words; i++) {
			seed = hash64(seed + 1);
			put_u64(&record, seed >> 63 ? seed : seed & 0xff);
		}
		record.bytes[0] = (uint8_t)((draw >> 8) % 24);
		memset(record.bytes + 1, 0, 3);
		if (draw >> 63)
			record_end(&record);
		fuzz_one(&record);
	}
}

static void mutations_are_harmless(void **state)
{
	enum { ROUNDS = 100000, SEED = 5 };
	const struct record whole[] = {
		mmap2_record(0, PROT_EXEC),
		mmap2_record(PERF_RECORD_MISC_MMAP_BUILD_ID, PROT_EXEC),
		sample_record(PERF_RECORD_MISC_USER, 2, 64, 40),
	};
	uint64_t seed = SEED;

	print_message("seed %d\n", SEED);
	for (int round = 0; round < ROUNDS; round++) {
		struct record record = whole[round % 3];
		uint64_t draw = seed = hash64(seed + 1);

		record.size -= draw % (record.size / 8) * 8; /* cut */
		for (uint64_t i = 0; i < draw % 4; i++)
			record.bytes[(draw >> (8 * i)) % record.size] = (uint8_t)(draw >> (7 * i));
		if (draw >> 63)
			record_end(&record);
		fuzz_one(&record);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mmap_is_read),
		cmocka_unit_test(mmap_with_build_id_is_read),
		cmocka_unit_test(mmap_beyond_the_address_space_is_refused),
		cmocka_unit_test(unended_path_is_refused),
		cmocka_unit_test(comm_and_exec_are_told_apart),
		cmocka_unit_test(fork_and_exit_are_read),
		cmocka_unit_test(losses_are_counted),
		cmocka_unit_test(sample_is_read),
		cmocka_unit_test(kernel_frames_are_read),
		cmocka_unit_test(wrong_sizes_are_refused),
		cmocka_unit_test(garbage_is_harmless),
		cmocka_unit_test(mutations_are_harmless),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
