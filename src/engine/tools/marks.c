// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts the code that is marked.
 *
 * Marks are ranges of files and kinds of instructions, which the host resolves (wire/marks.h). When
 * a block is translated, the marks of its instructions are looked up and told to the host, block by
 * block. What is counted are executions of segments that hold a marked instruction: one counter for
 * a segment, whatever is marked in it. The host makes visits and executed instructions of that.
 *
 * 1. A segment in which nothing is marked has no code of this tool.
 * 2. A segment that was cut short counts if the one that it was cut from does: the host knows how
 *    many of its instructions were executed.
 */
#include "engine/tools/marks.h"

#include "engine/stream.h"

enum {
	MODULES = 1 << 12, /* pieces of code that are mapped and have marks */
	SPANS = 4096, /* of a fragment, before some are told early */
	EVENTS = 4096, /* places that raise events; beyond, none */
	CALLED_READ = EVENTS, /* the program reads a mark */
	BITS = 64,
};

static struct mark_module modules[MODULES];
static uint32_t module_count;
static uint32_t generation; /* of the marks that code was translated with, as is the next */
static uint32_t instructions;

static uint64_t *marked; /* a bit for each segment */

/* The spans of the present fragment. */
static struct span {
	uint32_t segment;
	struct stream_mark mark;
} spans[SPANS];
static uint32_t span_count, block_spans; /* all; where those of the block in hand begin */
static uint32_t ordinal; /* of the instruction in the block */
static uint64_t block_pc;

const struct marks_area *marks_area(void)
{
	return (const struct marks_area *)(engine_boot.shared + STREAM_MARKS);
}

const struct mark_table *marks_table(uint32_t place)
{
	if (!place || place >= MARKS_BYTES / MARKS_UNIT)
		return NULL;
	return (const struct mark_table *)((const uint8_t *)marks_area() +
					   (uint64_t)place * MARKS_UNIT);
}

const struct mark_data_range *mark_table_data(const struct mark_table *table)
{
	return (const struct mark_data_range *)(table->ranges + table->count);
}

uint32_t marks_generation(void)
{
	return __atomic_load_n(&marks_area()->generation, __ATOMIC_ACQUIRE);
}

bool mark_tool_is_needed(enum engine_tool tool)
{
	return __atomic_load_n(&marks_area()->tools, __ATOMIC_ACQUIRE) & ENGINE_TOOL_BIT(tool);
}

/* --- Which segments ---------------------------------------------------------------------- */

static bool is_marked(uint32_t segment)
{
	return marked && marked[segment / BITS] >> segment % BITS & 1;
}

static void marked_set(uint32_t segment, bool value)
{
	uint64_t bit = 1ull << segment % BITS;

	if (!marked)
		marked = memory_map(STREAM_SEGMENTS_MAX / 8);
	if (!marked)
		fault_memory("no memory");
	if (value)
		marked[segment / BITS] |= bit;
	else
		marked[segment / BITS] &= ~bit;
}

static void segment_end(struct insert *insert, const struct point *point)
{
	if (!is_marked(point->segment))
		return;
	mark_only_counting(insert);
	inline_count(insert, counter_by_segment(ENGINE_TOOL_MARKS, point->segment), 1);
}

static void partial(uint32_t segment, uint32_t of, const struct stream_partial *partial)
{
	marked_set(segment, is_marked(of));
	if (is_marked(of))
		mark_read_partial(partial);
}

/* --- Regions ----------------------------------------------------------------------------- */

/* The tool's only counter: whether the thread counts. */
static uint32_t counting(void)
{
	return (uint32_t)engine_tools_counters_at(engine_boot.tools, ENGINE_TOOL_MARKS,
						  STREAM_SEGMENTS_MAX);
}

void mark_only_counting(struct insert *insert)
{
	if (!marks_area()->regions)
		return;
	inline_load(insert, INLINE_D, counting());
	inline_only_if(insert, INLINE_D, INLINE_DIFFERENT, 0);
}

/* A segment begins here, so that it is counted as a whole or not at all. */
static void region_insert(struct insert *insert, bool starts)
{
	inline_const(insert, INLINE_A, starts);
	inline_store(insert, counting(), INLINE_A);
}

static void thread_start(struct thread *thread)
{
	thread->counting = !(marks_area()->regions & MARK_REGIONS_OFF);
	*counter_value(thread, counting()) = thread->counting;
}

/* A child goes on as its parent did, with counters of its own. */
static void before_call(struct thread *thread)
{
	thread->counting = *counter_value(thread, counting()) != 0;
}

/* --- Spans of instructions ---------------------------------------------------------------- */

static void spans_tell(void)
{
	struct stream_mark marks[STREAM_MARKED_MAX];

	for (uint32_t at = 0; at < span_count;) {
		uint32_t segment = spans[at].segment, count = 0;

		while (at < span_count && spans[at].segment == segment && count < STREAM_MARKED_MAX)
			marks[count++] = spans[at++].mark;
		for (uint32_t i = 0; i < count; i++)
			mark_read_add(segment, &marks[i]);
		stream_marked(segment, marks, count);
	}
	span_count = block_spans = 0;
}

static void fragment(uint32_t first)
{
	uint32_t next = stream_segments_next();

	spans_tell();
	mark_read_fragment(first, next ? next - 1 : first);
}

static struct span *span_of(uint32_t mark)
{
	for (uint32_t i = block_spans; i < span_count; i++)
		if (spans[i].mark.mark == mark &&
		    spans[i].mark.first + (uint32_t)spans[i].mark.instructions == ordinal)
			return &spans[i];
	return NULL;
}

static void span_add(const struct point *point, uint32_t mark)
{
	struct span *span = span_of(mark);

	marked_set(point->segment, true);
	if (span) {
		span->mark.instructions++;
		span->mark.length += point->insn->length;
		return;
	}
	if (span_count == SPANS)
		spans_tell();
	spans[span_count++] =
		(struct span){ point->segment,
			       { mark, (uint16_t)ordinal, 1, (uint16_t)(point->pc - block_pc),
				 point->insn->length } };
}

/* --- Events ------------------------------------------------------------------------------ */

static struct event {
	uint64_t pc;
	uint32_t mark;
} events[EVENTS];
static uint32_t event_count;
static uint64_t window; /* when it began, in ticks */
static uint32_t raised; /* since then */

/* A place that is translated again keeps its number. */
static void event_insert(struct insert *insert, uint64_t pc, uint32_t mark)
{
	uint32_t i = 0;

	while (i < event_count && (events[i].pc != pc || events[i].mark != mark))
		i++;
	if (i == EVENTS)
		return;
	if (i == event_count)
		events[event_count++] = (struct event){ pc, mark };
	mark_only_counting(insert);
	inline_call(insert, ENGINE_TOOL_MARKS, i, 0);
}

static bool event_may(void)
{
	uint64_t now = __builtin_ia32_rdtsc();

	if (now - window >= MARKS_EVENT_TICKS) {
		window = now;
		raised = 0;
	}
	return raised++ < marks_area()->event_limit;
}

static void event_raise(const struct thread *thread, const struct mark_event *event)
{
	struct engine_shared *shared = (struct engine_shared *)engine_boot.shared;

	if (event_may())
		stream_event(thread, event);
	else
		__atomic_add_fetch(&shared->events_lost, 1, __ATOMIC_RELAXED);
}

void mark_event_raise(const struct thread *thread, const struct mark_event *event)
{
	engine_lock();
	event_raise(thread, event);
	engine_unlock();
}

static void called(struct thread *thread, uint32_t number, const uint64_t *values)
{
	engine_lock();
	if (number == CALLED_READ)
		mark_read(thread, values[0], (struct mark_reading *)values[1]);
	else if (number < event_count)
		event_raise(thread, &(struct mark_event){ .mark = events[number].mark,
							  .pc = events[number].pc });
	engine_unlock();
}

/* --- Looking up -------------------------------------------------------------------------- */

/* Behind the last range that begins there or earlier. */
static uint32_t table_find(const struct mark_table *table, uint32_t number)
{
	uint32_t low = 0, high = table->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (table->ranges[middle].start <= number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The next range before that one which holds the number; NULL: there is none. */
static const struct mark_range *range_before(const struct mark_table *table, uint32_t *at,
					     uint32_t number)
{
	while (*at > 0 && table->ranges[*at - 1].reach > number)
		if (table->ranges[--*at].end > number)
			return &table->ranges[*at];
	return NULL;
}

static void table_look(const struct mark_table *table, uint32_t number, const struct point *point,
		       struct insert *insert)
{
	uint32_t at = table_find(table, number);
	const struct mark_range *range;

	while ((range = range_before(table, &at, number)))
		if (mark_word_use(range->mark) == MARK_USE_START ||
		    mark_word_use(range->mark) == MARK_USE_STOP)
			region_insert(insert, mark_word_use(range->mark) == MARK_USE_START);
		else if (mark_word_use(range->mark) == MARK_USE_EVENT)
			event_insert(insert, point->pc, (range->mark & ~MARK_EVENT) >> 1);
		else if (mark_word_use(range->mark) == MARK_USE_COUNT)
			span_add(point, range->mark);
}

static uint32_t offset_of(const struct mark_module *module, uint64_t pc)
{
	return (uint32_t)(pc - module->start + module->offset);
}

unsigned mark_ranges_at(const struct mark_module *module, uint64_t pc,
			const struct mark_range **ret, unsigned room)
{
	const struct mark_table *table = marks_table(module->table);
	uint32_t offset = offset_of(module, pc), at = table ? table_find(table, offset) : 0;
	const struct mark_range *range;
	unsigned count = 0;

	while (table && count < room && (range = range_before(table, &at, offset)))
		if (mark_word_use(range->mark) != MARK_USE_COUNT &&
		    mark_word_use(range->mark) != MARK_USE_EVENT)
			ret[count++] = range;
	return count;
}

bool mark_is_within(const struct mark_module *module, uint64_t pc, uint32_t word)
{
	const struct mark_table *table = marks_table(module->table);
	uint32_t offset = offset_of(module, pc), at = table ? table_find(table, offset) : 0;
	const struct mark_range *range;

	if (!table || pc - module->start >= module->end - module->start)
		return false;
	while ((range = range_before(table, &at, offset)))
		if ((range->mark & ~1u) == (word & ~1u))
			return true;
	return false;
}

const struct mark_module *mark_module_number(uint32_t number)
{
	return number < module_count ? &modules[number] : NULL;
}

static enum mark_prefix prefix_of(const ZydisDecodedInstruction *insn)
{
	if (insn->attributes & ZYDIS_ATTRIB_HAS_LOCK)
		return MARK_PREFIX_LOCK;
	if (insn->attributes & ZYDIS_ATTRIB_HAS_REP)
		return MARK_PREFIX_REP;
	if (insn->attributes & ZYDIS_ATTRIB_HAS_REPE)
		return MARK_PREFIX_REPE;
	return insn->attributes & ZYDIS_ATTRIB_HAS_REPNE ? MARK_PREFIX_REPNE : MARK_PREFIX_NONE;
}

const struct mark_module *mark_module_of(uint64_t pc)
{
	for (uint32_t i = module_count; i-- > 0;)
		if (pc - modules[i].start < modules[i].end - modules[i].start)
			return &modules[i];
	return NULL;
}

/* Whether it is the no-op instruction by which a program reads marks (include/assay/client.h). */
static bool is_read(const ZydisDecodedInstruction *insn)
{
	return insn->mnemonic == ZYDIS_MNEMONIC_NOP && insn->raw.disp.value == MARK_CLIENT_READ;
}

static bool reads_at(uint64_t pc)
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x80, 0x04, 0x41, 0x53, 0x59 };
	uint8_t code[sizeof(nop)];
	size_t at = 0;

	if (code_read(pc, code, sizeof(code)) != sizeof(code))
		return false;
	while (at < sizeof(nop) && code[at] == nop[at])
		at++;
	return at == sizeof(nop);
}

/* What was executed before is counted there. */
static bool cuts(uint64_t pc)
{
	const struct mark_module *module = marks_area()->regions ? mark_module_of(pc) : NULL;
	const struct mark_table *table = module ? marks_table(module->table) : NULL;
	uint32_t offset = module ? offset_of(module, pc) : 0;
	uint32_t at = table ? table_find(table, offset) : 0;
	const struct mark_range *range;

	while (table && (range = range_before(table, &at, offset)))
		if (mark_word_use(range->mark) == MARK_USE_START ||
		    mark_word_use(range->mark) == MARK_USE_STOP)
			return true;
	return reads_at(pc);
}

/* A segment is at least what the ones before it in its fragment are. */
static void block(struct insert *insert, const struct point *point)
{
	ordinal = 0;
	block_spans = span_count;
	if (point->segment)
		marked_set(point->segment, point->block && is_marked(point->segment - 1));
}

static void before(struct insert *insert, const struct point *point)
{
	const struct mark_module *module = mark_module_of(point->pc);

	if (!point->segment)
		return;
	if (!ordinal)
		block_pc = point->pc;
	if (module && module->table)
		table_look(marks_table(module->table), offset_of(module, point->pc), point, insert);
	if (instructions)
		table_look(marks_table(instructions),
			   mark_code(prefix_of(point->insn), point->insn->mnemonic), point, insert);
	if (is_read(point->insn)) {
		inline_general(insert, INLINE_A, RDI);
		inline_general(insert, INLINE_B, RSI);
		inline_call(insert, ENGINE_TOOL_MARKS, CALLED_READ, 2);
	}
	ordinal++;
}

/* --- Modules ----------------------------------------------------------------------------- */

/* Forgets modules in a range where something else is mapped now. */
static void modules_forget(uint64_t start, uint64_t end)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < module_count; i++)
		if (modules[i].end <= start || end <= modules[i].start)
			modules[kept++] = modules[i];
	module_count = kept;
}

static uint32_t place_check(uint32_t place)
{
	return place < MARKS_BYTES / MARKS_UNIT ? place : 0;
}

static uint32_t file_table(uint32_t file)
{
	return place_check(__atomic_load_n(&marks_area()->tables[file], __ATOMIC_ACQUIRE));
}

/*
 * The host gives no answer while it makes threads park and lets them go on: such a question is
 * asked again when a thread is about to enter the cache.
 */
enum { UNASKED = 16, PATH_BYTES = 1024, UNANSWERED = -1 };
static struct unasked {
	struct region region;
	char path[PATH_BYTES];
} unasked[UNASKED];
static uint32_t unasked_count;

static size_t path_length(const char *path)
{
	size_t length = 0;

	while (path[length])
		length++;
	return length;
}

static void unasked_add(const struct region *region, const char *path)
{
	struct unasked *to = &unasked[unasked_count++];

	to->region = *region;
	for (size_t i = 0; i <= path_length(path); i++)
		to->path[i] = path[i];
}

static void unasked_forget(uint64_t start, uint64_t end)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < unasked_count; i++)
		if (unasked[i].region.end <= start || end <= unasked[i].region.start)
			unasked[kept++] = unasked[i];
	unasked_count = kept;
}

static void module_add(const struct region *region, int file)
{
	if (file < MARKS_FILES)
		modules[module_count++] = (struct mark_module){ region->start, region->end,
								region->offset, (uint32_t)file,
								file_table((uint32_t)file) };
}

static void module(const struct region *region, const char *path)
{
	int file;

	modules_forget(region->start, region->end);
	unasked_forget(region->start, region->end);
	if (!marks_area()->asks || !region->inode || module_count == MODULES)
		return;
	file = host_ask_module(region, path);
	if (file > 0)
		module_add(region, file);
	else if (file == UNANSWERED && path_length(path) < PATH_BYTES && unasked_count < UNASKED)
		unasked_add(region, path);
}

/* --- Changes ----------------------------------------------------------------------------- */

static bool table_holds(const struct mark_table *table, const struct mark_range *range)
{
	uint32_t low = 0, high = table->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (table->ranges[middle].start < range->start)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < table->count && table->ranges[low].start == range->start; low++)
		if (table->ranges[low].end == range->end && table->ranges[low].mark == range->mark)
			return true;
	return false;
}

/* Code of the module is forgotten that one of the tables marks and the other does not. */
static void difference_forget(const struct mark_module *module, uint32_t from, uint32_t other)
{
	const struct mark_table *table = from ? marks_table(from) : NULL;

	for (uint32_t i = 0; table && i < table->count; i++) {
		const struct mark_range *range = &table->ranges[i];
		uint64_t start, end;

		if (range->end <= module->offset ||
		    (other && table_holds(marks_table(other), range)))
			continue;
		start = range->start > module->offset ? range->start - module->offset : 0;
		start += module->start;
		end = module->start + (range->end - module->offset);
		end = end < module->end ? end : module->end;
		if (start < end)
			cache_forget(start, end);
	}
}

static void module_renew(struct mark_module *module)
{
	uint32_t before = module->table, now = file_table(module->file);

	if (before == now)
		return;
	difference_forget(module, before, now);
	difference_forget(module, now, before);
	module->table = now;
}

/* Tells the host that this engine works with the newest marks. */
static void seen_tell(void)
{
	struct engine_shared *shared = (struct engine_shared *)engine_boot.shared;

	__atomic_store_n(&shared->marks_seen, generation, __ATOMIC_RELEASE);
}

static void thread_end(struct thread *thread)
{
	uint32_t limit = stream_segments_next();

	engine_lock();
	mark_read_thread_end(thread, limit ? limit : STREAM_SEGMENTS_MAX, is_marked);
	engine_unlock();
}

static void forked(struct thread *thread)
{
	*counter_value(thread, counting()) = thread->counting;
	mark_read_forked();
	seen_tell();
}

/*
 * Threads that are in code that is forgotten leave it at its next exit, and find it translated with
 * the marks that there are now.
 */
static void unasked_ask(void)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < unasked_count; i++) {
		const struct region *region = &unasked[i].region;
		int file = module_count < MODULES ? host_ask_module(region, unasked[i].path) : 0;

		if (file == UNANSWERED && host_alive()) {
			unasked[kept++] = unasked[i];
			continue;
		}
		if (file <= 0)
			continue;
		module_add(region, file);
		cache_forget(region->start, region->end);
	}
	unasked_count = kept;
}

static void renew(void)
{
	uint32_t now = marks_generation(), table;

	if (unasked_count)
		unasked_ask();
	if (now == generation)
		return;
	generation = now;
	for (uint32_t i = 0; i < module_count; i++)
		module_renew(&modules[i]);
	table = place_check(__atomic_load_n(&marks_area()->instructions, __ATOMIC_ACQUIRE));
	if (table != instructions) {
		instructions = table;
		cache_forget(0, UINT64_MAX);
	}
	seen_tell();
}

const struct tool tool_marks = {
	.block = block,
	.before = before,
	.segment_end = segment_end,
	.fragment = fragment,
	.partial = partial,
	.cuts = cuts,
	.thread_start = thread_start,
	.thread_end = thread_end,
	.syscall = before_call,
	.module = module,
	.called = called,
	.forked = forked,
	.renew = renew,
};
