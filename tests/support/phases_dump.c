// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints the phases of a recorded stream (recorder/engine/raw.h), one line of JSON for each thread:
 * for bench/phases.
 *
 *	phases_dump [-w] [-k] [-r] [-m MODULE[:FROM-TO]]... < FILE
 *
 *	-w	the threads of a process together, in the order in which they were drained; also
 *		says where each begins and ends
 *	-k	only layers, without phases: to see what these cost
 *	-r	also the intervals: length, conditional branches and block vector of each
 *	-m	says at which instruction code of a file with MODULE in its name was executed
 *		first, last, or first in a range of offsets in the file
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/map.h"
#include "phases/phases.h"
#include "symbols/elf_image.h"
#include "symbols/fde.h"
#include "recorder/engine/raw.h"
#include "recorder/engine/segment_table.h"

enum { MARKS_MAX = 16, PT_LOAD_TYPE = 1, CODE_MAX = STREAM_BLOCK_INSTRUCTIONS_MAX * 15 };

struct mark {
	const char *module;
	uint64_t from, to;
};

static struct {
	struct mark marks[MARKS_MAX];
	unsigned mark_count;
	bool whole, cost, rows;
} options;

struct file {
	char *path;
	int fd;
	struct elf_image image;
	struct fde_table functions;
	bool elf;
};

struct module {
	uint64_t start, end, offset;
	struct file *file; /* NULL: none */
};

struct process {
	uint32_t number, pid;
	struct segment_table *segments;
	struct layer_space *space;
	struct phases_code *code;
	ARRAY(struct module) modules;
	struct map blocks; /* number + 1 by place and size */
	ARRAY(uint32_t) weights; /* instructions by segment */
	ARRAY(uint32_t) segment_marks; /* bits by segment */
	struct phases *phases; /* with -w */
	uint64_t position;
	uint64_t first[MARKS_MAX], last[MARKS_MAX]; /* + 1 */
};

struct thread {
	uint32_t number;
	struct process *process;
	struct layer *layer;
	struct phases *phases;
	uint64_t position;
	uint64_t first[MARKS_MAX], last[MARKS_MAX];
	uint64_t begin, end; /* instructions of the process */
};

static ARRAY(struct process *) processes;
static ARRAY(struct thread *) threads;
static ARRAY(struct file *) files;
static uint64_t spent; /* ns in layers with phases */

static uint64_t clock_cpu(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct file *file_get(const char *path)
{
	struct file *file;

	array_each(&files, known)
		if (strcmp((*known)->path, path) == 0)
			return *known;
	file = mem_zalloc(sizeof(*file));
	file->path = mem_strdup(path);
	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	file->elf = file->fd >= 0 && !elf_image_init(&file->image, file->fd, path);
	*array_push(&files) = file;
	return file;
}

static struct process *process_find(uint32_t number)
{
	array_each(&processes, process)
		if ((*process)->number == number)
			return *process;
	fprintf(stderr, "phases_dump: process %u never began\n", number);
	exit(1);
}

static struct thread *thread_find(uint32_t number)
{
	array_each(&threads, thread)
		if ((*thread)->number == number)
			return *thread;
	fprintf(stderr, "phases_dump: thread %u never began\n", number);
	exit(1);
}

static const struct module *module_find(const struct process *process, uint64_t pc)
{
	for (size_t i = process->modules.count; i-- > 0;)
		if (pc >= process->modules.items[i].start && pc < process->modules.items[i].end)
			return &process->modules.items[i];
	return NULL;
}

/* The function's address in its file, from what it is unwound with. */
static uint64_t function_of(struct file *file, uint64_t offset)
{
	uint64_t start, size;

	for (size_t i = 0; file->elf && i < file->image.segment_count; i++) {
		const struct elf_segment *segment = &file->image.segments[i];

		if (segment->type != PT_LOAD_TYPE || offset < segment->offset ||
		    offset >= segment->offset + segment->file_size)
			continue;
		if (!fde_find(&file->functions, &file->image,
			      offset - segment->offset + segment->address, &start, &size))
			return start;
	}
	return 0;
}

/* Code that is in no file has no heat but its instructions. */
static void block_set(struct process *process, uint32_t block, const struct stream_block *wire)
{
	const struct module *module = module_find(process, wire->pc);
	struct heat heat = { .of[HEAT_INSTRUCTIONS] = wire->instructions };
	uint8_t code[CODE_MAX];
	uint64_t offset, name;

	if (!module || !module->file) {
		phases_block_set(process->code, block, wire->pc, module ? module->start : 0, &heat);
		return;
	}
	offset = wire->pc - module->start + module->offset;
	if (pread(module->file->fd, code, wire->length, (off_t)offset) == (ssize_t)wire->length)
		heat_of_block(code, wire->length, wire->instructions, &heat);
	name = hash_bytes(module->file->path, strlen(module->file->path));
	phases_block_set(process->code, block, hash64_pair(name, offset),
			 hash64_pair(name, function_of(module->file, offset)), &heat);
}

static uint32_t block_get(struct process *process, const struct stream_block *wire)
{
	bool new;
	uint64_t *number = map_at(
		&process->blocks,
		hash64_pair(wire->pc, (uint64_t)wire->length << 32 | wire->instructions), &new);

	if (new) {
		*number = process->blocks.count;
		block_set(process, (uint32_t)*number - 1, wire);
	}
	return (uint32_t)*number - 1;
}

static uint32_t block_marks(const struct process *process, const struct stream_block *wire)
{
	const struct module *module = module_find(process, wire->pc);
	uint32_t bits = 0;

	for (unsigned i = 0; module && module->file && i < options.mark_count; i++) {
		const struct mark *mark = &options.marks[i];
		uint64_t offset = wire->pc - module->start + module->offset;

		if (strstr(module->file->path, mark->module) && offset >= mark->from &&
		    offset < mark->to)
			bits |= 1u << i;
	}
	return bits;
}

static void segment_learn(struct process *process, uint32_t number)
{
	const struct segment *segment;
	const struct segment_table *table = segment_table_find(process->segments, number, &segment);
	uint32_t blocks[STREAM_SEGMENT_BLOCKS_MAX + 1], count = 0, weight = 0, marks = 0;

	for (; table && count <= segment->whole; count++) {
		const struct stream_block *wire =
			&table->blocks.items[segment_block(segment, count)];

		blocks[count] = block_get(process, wire);
		weight += wire->instructions;
		marks |= block_marks(process, wire);
	}
	while (process->weights.count <= number) {
		*array_push(&process->weights) = 0;
		*array_push(&process->segment_marks) = 0;
	}
	process->weights.items[number] = weight;
	process->segment_marks.items[number] = marks;
	phases_segment_set(process->code, number, blocks, count);
	layer_weights_set(process->space, process->weights.items, process->weights.count);
}

static void on_clearing(void *context, unsigned level)
{
	struct process *process = context;

	if (level)
		return;
	if (process->phases)
		phases_flush(process->phases);
	array_each(&threads, thread)
		if ((*thread)->process == process && (*thread)->phases)
			phases_flush((*thread)->phases);
	phases_code_forget(process->code);
}

static void process_add(uint32_t number, const uint32_t *words)
{
	struct process *process = mem_zalloc(sizeof(*process));
	struct process *parent = words[1] ? process_find(words[1]) : NULL;

	process->number = number;
	process->pid = words[0];
	process->segments = segment_table_create(parent ? parent->segments : NULL, words[3]);
	if (layer_space_create(&(struct layer_space_options){ .clearing = on_clearing,
							      .context = process },
			       &process->space)) {
		fprintf(stderr, "phases_dump: %s\n", err_text());
		exit(1);
	}
	process->code = phases_code_create(&process->space->levels[0]);
	if (options.whole)
		process->phases = phases_create(process->code, &(struct phases_options){});
	*array_push(&processes) = process;
	for (size_t i = 0; parent && i < parent->modules.count; i++)
		*array_push(&process->modules) = parent->modules.items[i];
	for (uint32_t segment = 1; parent && segment < words[3]; segment++)
		segment_learn(process, segment);
}

static void record_apply(struct process *process, const struct stream_record *record)
{
	const struct stream_segments *segments = (const struct stream_segments *)record;
	const struct stream_partial *partial = (const struct stream_partial *)record;
	const struct stream_module *module = (const struct stream_module *)record;

	switch (record->type) {
	case STREAM_RECORD_SEGMENTS:
		if (segment_table_add(process->segments, segments))
			return;
		for (uint32_t i = 0; i < segments->count; i++)
			segment_learn(process, segments->first + i);
		return;
	case STREAM_RECORD_PARTIAL:
		if (!segment_table_add_partial(process->segments, partial))
			segment_learn(process, partial->segment);
		return;
	case STREAM_RECORD_MODULE:
		*array_push(&process->modules) =
			(struct module){ module->start, module->end, module->offset,
					 module->inode ? file_get(module->path) : NULL };
		return;
	default:
		return;
	}
}

static void thread_add(uint32_t number, const uint32_t *words)
{
	struct thread *thread = mem_zalloc(sizeof(*thread));

	thread->number = number;
	thread->process = process_find(words[0]);
	thread->layer = layer_create(thread->process->space);
	thread->layer->sink = options.cost ? NULL : phases_sink;
	thread->begin = thread->process->position;
	if (!options.whole)
		thread->phases = phases_create(thread->process->code, &(struct phases_options){});
	thread->layer->sink_context = options.whole ? thread->process->phases : thread->phases;
	*array_push(&threads) = thread;
}

static void marks_note(struct thread *thread, uint32_t marks)
{
	struct process *process = thread->process;

	for (; marks; marks &= marks - 1) {
		unsigned i = (unsigned)__builtin_ctz(marks);

		if (!thread->first[i])
			thread->first[i] = thread->position + 1;
		thread->last[i] = thread->position + 1;
		if (!process->first[i])
			process->first[i] = process->position + 1;
		process->last[i] = process->position + 1;
	}
}

static void segments_take(struct thread *thread, const uint32_t *segments, size_t count)
{
	struct process *process = thread->process;
	uint64_t start;

	for (size_t i = 0; (options.mark_count || options.whole) && i < count; i++) {
		if (segments[i] >= process->weights.count)
			continue;
		if (process->segment_marks.items[segments[i]])
			marks_note(thread, process->segment_marks.items[segments[i]]);
		thread->position += process->weights.items[segments[i]];
		process->position += process->weights.items[segments[i]];
	}
	start = clock_cpu();
	layer_push(thread->layer, segments, count);
	spent += clock_cpu() - start;
}

static void detectors_print(unsigned detectors)
{
	const char *between = "";

	printf("[");
	for (unsigned i = 0; i < PHASES_DETECTOR_COUNT; i++)
		if (detectors & 1u << i) {
			printf("%s\"%s\"", between, phases_detector_text(i));
			between = ",";
		}
	printf("]");
}

static void result_print(const struct phases_result *result)
{
	const char *between = "";

	printf("\"boundaries\":[");
	array_each(&result->boundaries, boundary) {
		printf("%s{\"at\":%lu,\"kept\":%d,\"detectors\":", between, boundary->at,
		       boundary->kept);
		detectors_print(boundary->detectors);
		printf("}");
		between = ",";
	}
	printf("],\"phases\":[");
	between = "";
	array_each(&result->phases, phase) {
		printf("%s{\"begin\":%lu,\"end\":%lu,\"label\":%u,\"detectors\":", between,
		       phase->begin, phase->end, phase->label);
		detectors_print(phase->detectors);
		printf(",\"branches\":%lu,\"hot\":%lu,\"hot_path\":%lu}",
		       phase->heat.of[HEAT_BRANCHES], phase->hot[0].instructions,
		       phase->hot[0].path);
		between = ",";
	}
	printf("]");
}

static void rows_print(const struct phases *phases)
{
	size_t count;
	const struct phases_interval *intervals = phases_intervals(phases, &count);

	printf(",\"rows\":[");
	for (size_t i = 0; i < count; i++) {
		printf("%s[%lu,%lu", i ? "," : "", intervals[i].end,
		       intervals[i].heat.of[HEAT_BRANCHES]);
		for (unsigned k = 0; k < PHASES_DIMENSIONS; k++)
			printf(",%g", (double)intervals[i].blocks[k]);
		printf("]");
	}
	printf("]");
}

static void marks_print(const uint64_t *first, const uint64_t *last)
{
	printf(",\"marks\":[");
	for (unsigned i = 0; i < options.mark_count; i++)
		if (first[i])
			printf("%s[%lu,%lu]", i ? "," : "", first[i] - 1, last[i] - 1);
		else
			printf("%snull", i ? "," : "");
	printf("]");
}

static void threads_print(const struct process *process)
{
	const char *between = "";

	printf(",\"threads\":[");
	array_each(&threads, thread)
		if ((*thread)->process == process) {
			printf("%s[%lu,%lu,%lu]", between, (*thread)->begin, (*thread)->end,
			       (*thread)->position);
			between = ",";
		}
	printf("]");
}

static void phases_print(const struct process *process, uint32_t thread, struct phases *phases,
			 const uint64_t *first, const uint64_t *last)
{
	struct phases_result result = {};
	uint64_t start;
	size_t count;

	phases_finish(phases);
	phases_intervals(phases, &count);
	start = clock_cpu();
	phases_detect(phases, &(struct phases_detect_options){}, &result);
	start = clock_cpu() - start;
	printf("{\"process\":%u,\"thread\":%u,\"instructions\":%lu,\"intervals\":%zu,"
	       "\"memory\":%zu,\"collect_ms\":%lu,\"detect_ms\":%lu,",
	       process->number, thread, result.instructions, count, phases_memory(phases),
	       spent / 1000000, start / 1000000);
	result_print(&result);
	if (options.rows)
		rows_print(phases);
	marks_print(first, last);
	if (options.whole)
		threads_print(process);
	printf("}\n");
	phases_result_deinit(&result);
	phases_destroy(phases);
}

static void thread_end(struct thread *thread)
{
	uint64_t start = clock_cpu();

	layer_finish(thread->layer);
	spent += clock_cpu() - start;
	if (thread->phases)
		phases_print(thread->process, thread->number, thread->phases, thread->first,
			     thread->last);
	thread->phases = NULL;
	layer_destroy(thread->layer);
	thread->end = thread->process->position;
}

static void frame_apply(const struct raw_frame *frame, const void *bytes)
{
	switch (frame->kind) {
	case RAW_PROCESS:
		process_add(frame->number, bytes);
		return;
	case RAW_RECORD:
		record_apply(process_find(frame->number), bytes);
		return;
	case RAW_THREAD:
		thread_add(frame->number, bytes);
		return;
	case RAW_SEGMENTS:
		segments_take(thread_find(frame->number), bytes, frame->size / sizeof(uint32_t));
		return;
	case RAW_THREAD_END:
		thread_end(thread_find(frame->number));
		return;
	default:
		return;
	}
}

static bool mark_parse(const char *text)
{
	struct mark *mark = &options.marks[options.mark_count++];
	char *module = mem_strdup(text), *colon = strchr(module, ':'), *end;

	*mark = (struct mark){ .module = module, .to = UINT64_MAX };
	if (!colon)
		return true;
	*colon = 0;
	mark->from = strtoul(colon + 1, &end, 16);
	if (*end != '-')
		return false;
	mark->to = strtoul(end + 1, &end, 16);
	return !*end;
}

static bool options_parse(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "wkrm:")) >= 0) {
		if (option == '?' || options.mark_count == MARKS_MAX ||
		    (option == 'm' && !mark_parse(optarg)))
			return false;
		options.whole |= option == 'w';
		options.cost |= option == 'k';
		options.rows |= option == 'r';
	}
	return optind == argc;
}

int main(int argc, char **argv)
{
	ARRAY(uint8_t) bytes = {};
	struct raw_frame frame;
	char magic[8];

	if (!options_parse(argc, argv)) {
		fprintf(stderr, "phases_dump [-w] [-k] [-r] [-m MODULE[:FROM-TO]]... < FILE\n");
		return 2;
	}
	if (fread(magic, sizeof(magic), 1, stdin) != 1 || memcmp(magic, "assayraw", sizeof(magic)))
		return 1;
	while (fread(&frame, sizeof(frame), 1, stdin) == 1) {
		array_reserve(&bytes, frame.size + 1);
		if (frame.size && fread(bytes.items, frame.size, 1, stdin) != 1)
			return 1;
		frame_apply(&frame, bytes.items);
	}
	array_each(&processes, process)
		if ((*process)->phases)
			phases_print(*process, 0, (*process)->phases, (*process)->first,
				     (*process)->last);
	return 0;
}
