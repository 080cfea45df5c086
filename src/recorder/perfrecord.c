// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads records of perf rings, whose layouts are those of perf_event_open(2): bytes of one record
 * in, one event out. Every field is copied out of the record only after its size was compared with
 * what is left.
 */
#include "recorder/perfrecord.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "wire/sample.h"

enum {
	ID_SIZE = 16, /* the trailer: pid, tid, time */
	BUILD_ID_KERNEL_MAX = 20,
	BUILD_ID_FIELD =
		24, /* bytes shared by device and inode on one hand, the build-id on the other */
};

/* Reads from a record; once something was missing, everything reads as 0 and bad stays set. */
struct cursor {
	const uint8_t *at;
	size_t left;
	bool bad;
};

static const void *cursor_bytes(struct cursor *cursor, size_t size)
{
	const uint8_t *at = cursor->at;

	if (cursor->bad || size > cursor->left) {
		cursor->bad = true;
		return NULL;
	}
	cursor->at += size;
	cursor->left -= size;
	return at;
}

static uint32_t cursor_u32(struct cursor *cursor)
{
	const void *bytes = cursor_bytes(cursor, sizeof(uint32_t));
	uint32_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return value;
}

static uint64_t cursor_u64(struct cursor *cursor)
{
	const void *bytes = cursor_bytes(cursor, sizeof(uint64_t));
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return value;
}

/* The rest is a string, padded with zeros. */
static const char *cursor_string(struct cursor *cursor)
{
	const char *text = (const char *)cursor->at;

	if (cursor->bad || !memchr(text, '\0', cursor->left)) {
		cursor->bad = true;
		return "";
	}
	return text;
}

static int cursor_end(const struct cursor *cursor)
{
	return cursor->bad ? -EBADMSG : 1;
}

/* Device and inode, or the build-id, in the same bytes. */
static void parse_file(struct cursor *cursor, bool has_build_id, struct event_mmap *ret)
{
	struct cursor field = { .at = cursor_bytes(cursor, BUILD_ID_FIELD),
				.left = BUILD_ID_FIELD };

	if (cursor->bad)
		return;
	if (!has_build_id) {
		ret->major = cursor_u32(&field);
		ret->minor = cursor_u32(&field);
		ret->inode = cursor_u64(&field);
		return;
	}
	if (field.at[0] > BUILD_ID_KERNEL_MAX) {
		cursor->bad = true;
		return;
	}
	ret->build_id.size = field.at[0];
	memcpy(ret->build_id.bytes, field.at + 4, field.at[0]);
}

static int parse_mmap2(struct cursor *cursor, uint16_t misc, struct event *ret)
{
	struct event_mmap *mmap = &ret->mmap;
	uint64_t length;
	uint32_t prot;

	ret->kind = EVENT_MMAP;
	ret->pid = cursor_u32(cursor);
	ret->tid = cursor_u32(cursor);
	mmap->start = cursor_u64(cursor);
	length = cursor_u64(cursor);
	mmap->offset = cursor_u64(cursor);
	parse_file(cursor, misc & PERF_RECORD_MISC_MMAP_BUILD_ID, mmap);
	prot = cursor_u32(cursor);
	cursor_u32(cursor); /* flags */
	mmap->path = cursor_string(cursor);
	if (length == 0 || __builtin_add_overflow(mmap->start, length, &mmap->end))
		return -EBADMSG;
	if (!cursor->bad && !(prot & PROT_EXEC))
		return 0;
	return cursor_end(cursor);
}

static int parse_comm(struct cursor *cursor, uint16_t misc, struct event *ret)
{
	ret->kind = misc & PERF_RECORD_MISC_COMM_EXEC ? EVENT_EXEC : EVENT_COMM;
	ret->pid = cursor_u32(cursor);
	ret->tid = cursor_u32(cursor);
	ret->comm = cursor_string(cursor);
	return cursor_end(cursor);
}

/* FORK and EXIT have one form; of a creator only FORK has use. */
static int parse_task(struct cursor *cursor, enum event_kind kind, struct event *ret)
{
	ret->kind = kind;
	ret->pid = cursor_u32(cursor);
	ret->fork.ppid = cursor_u32(cursor);
	ret->tid = cursor_u32(cursor);
	ret->fork.ptid = cursor_u32(cursor);
	return cursor_end(cursor);
}

static int parse_lost(struct cursor *cursor, bool has_id, struct event *ret)
{
	ret->kind = EVENT_LOST;
	if (has_id)
		cursor_u64(cursor);
	ret->lost = cursor_u64(cursor);
	return cursor_end(cursor);
}

/*
 * Reads the kernel's frames only, because user frames are not requested. Markers between the parts
 * are no frames.
 */
static void parse_callchain(struct cursor *cursor, struct event_sample *ret)
{
	const uint64_t mark = (uint64_t)PERF_CONTEXT_MAX;
	uint64_t count = cursor_u64(cursor);
	const uint64_t *frames;

	if (count > cursor->left / sizeof(*frames)) {
		cursor->bad = true;
		return;
	}
	frames = cursor_bytes(cursor, count * sizeof(*frames));
	if (!frames || !count || frames[0] != (uint64_t)PERF_CONTEXT_KERNEL)
		return;
	ret->kernel_frames = frames + 1;
	while (ret->kernel_count + 1 < count && ret->kernel_count < SAMPLE_KERNEL_DEPTH_MAX &&
	       ret->kernel_frames[ret->kernel_count] < mark)
		ret->kernel_count++;
}

/* Registers come in the order of their numbers: bx, bp, sp, ip. */
static void parse_registers(struct cursor *cursor, struct unwind_registers *ret)
{
	if (cursor_u64(cursor) == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	ret->rbx = cursor_u64(cursor);
	ret->bp = cursor_u64(cursor);
	ret->sp = cursor_u64(cursor);
	ret->ip = cursor_u64(cursor);
}

static void parse_stack(struct cursor *cursor, struct event_sample *ret)
{
	uint64_t size = cursor_u64(cursor), valid;

	if (size == 0)
		return;
	ret->stack.bytes = cursor_bytes(cursor, size);
	valid = cursor_u64(cursor);
	ret->stack.address = ret->registers.sp;
	ret->stack.size = valid < size ? valid : size;
}

static int parse_sample(struct cursor *cursor, uint16_t misc, struct event *ret)
{
	struct event_sample *sample = &ret->sample;
	uint64_t ip;

	ret->kind = EVENT_SAMPLE;
	ip = cursor_u64(cursor);
	ret->pid = cursor_u32(cursor);
	ret->tid = cursor_u32(cursor);
	ret->time = cursor_u64(cursor);
	parse_callchain(cursor, sample);
	parse_registers(cursor, &sample->registers);
	parse_stack(cursor, sample);
	sample->in_kernel = (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	if (sample->in_kernel)
		sample->kernel_ip = ip;
	return cursor_end(cursor);
}

static int parse_tracking(const struct perf_event_header *header, struct cursor *cursor,
			  struct event *ret)
{
	struct cursor id;

	if (cursor->left < ID_SIZE)
		return -EBADMSG;
	cursor->left -= ID_SIZE;
	id = (struct cursor){ .at = cursor->at + cursor->left, .left = ID_SIZE };
	ret->pid = cursor_u32(&id);
	ret->tid = cursor_u32(&id);
	ret->time = cursor_u64(&id);
	switch (header->type) {
	case PERF_RECORD_MMAP2:
		return parse_mmap2(cursor, header->misc, ret);
	case PERF_RECORD_COMM:
		return parse_comm(cursor, header->misc, ret);
	case PERF_RECORD_FORK:
		return parse_task(cursor, EVENT_FORK, ret);
	case PERF_RECORD_EXIT:
		return parse_task(cursor, EVENT_EXIT, ret);
	case PERF_RECORD_LOST:
		return parse_lost(cursor, true, ret);
	case PERF_RECORD_LOST_SAMPLES:
		return parse_lost(cursor, false, ret);
	case PERF_RECORD_THROTTLE:
		ret->kind = EVENT_THROTTLE;
		return 1;
	default:
		return 0;
	}
}

size_t perfrecord_size(const void *bytes, size_t left)
{
	struct perf_event_header header;

	if (left < sizeof(header))
		return 0;
	memcpy(&header, bytes, sizeof(header));
	if (header.size < sizeof(header) || header.size % 8 || header.size > left)
		return 0;
	return header.size;
}

int perfrecord_parse(const void *record, size_t size, struct event *ret)
{
	struct perf_event_header header;
	struct event event = {};
	struct cursor cursor = { .at = record, .left = size };
	const void *bytes = cursor_bytes(&cursor, sizeof(header));
	int err;

	if (!bytes)
		return -EBADMSG;
	memcpy(&header, bytes, sizeof(header));
	err = header.type == PERF_RECORD_SAMPLE ? parse_sample(&cursor, header.misc, &event)
						: parse_tracking(&header, &cursor, &event);
	if (err == 1)
		*ret = event;
	return err;
}
