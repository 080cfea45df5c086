// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names and lines of an ELF file. Questions go to a worker process (worker.h), started at the first
 * one. When it dies, the same question goes to a second worker that reads symbol tables only; when
 * that dies too, the rest of the file stays without names. Each step down is said once.
 *
 *	in	the file of a module, and addresses in it
 *	out	names, lines, inlined functions, parameters and bytes of code
 *	owner	the caller that opens it: symbolise.c, one file at a time
 */
#include "symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "symbols/elf_image.h"
#include "symbols/fde.h"
#include "symbols/resolver.h"
#include "symbols/worker.h"

/* Generous: 1000 addresses in a library with 14 MB of .debug_info take 0.15 s and 60 MB. */
static const struct worker_limits limits = {
	.cpu_seconds = 10,
	.wall_seconds = 120,
	.memory = 4ull << 30,
};

enum { LINES_MAX = 16 << 20, NAMES_MAX = 16 << 20 };

enum trust { TRUST_ALL, TRUST_TABLES, TRUST_NOTHING };

struct symbols {
	int fd;
	char *path;
	struct elf_image image;
	enum trust trust;
	struct worker worker;
	struct strtab strings; /* every string ever answered */
	ARRAY(const char *) numbered; /* the worker's numbers to strings */
	ARRAY(struct symbol_frame) frames; /* of the last answers */
	struct elf_window code;
	struct fde_table functions; /* for those without a name */
	uint64_t unnamed_start, unnamed_size; /* the one found last */
};

int symbols_open(int fd, const char *path, struct symbols **ret)
{
	AUTO(symbols_destroy_auto) struct symbols *symbols = mem_zalloc(sizeof(*symbols));
	int err;

	symbols->path = mem_strdup(path);
	symbols->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (symbols->fd < 0)
		return err_set(-errno, "%s: cannot read its symbols: dup: %m", path);
	err = elf_image_init(&symbols->image, symbols->fd, path);
	if (err)
		return err;
	*ret = take_ptr(symbols);
	return 0;
}

void symbols_destroy(struct symbols *symbols)
{
	if (!symbols)
		return;
	worker_stop(&symbols->worker);
	fde_table_deinit(&symbols->functions);
	elf_window_deinit(&symbols->code);
	elf_image_deinit(&symbols->image);
	strtab_deinit(&symbols->strings);
	array_deinit(&symbols->numbered);
	array_deinit(&symbols->frames);
	close_fd(&symbols->fd);
	free(symbols->path);
	free(symbols);
}

/* Takes the next step down, with a message about the file, because the worker has failed on it. */
static void trust_lower(struct symbols *symbols)
{
	int signal_number = worker_stop(&symbols->worker);
	bool slow = signal_number == SIGPROF || signal_number == SIGALRM;

	symbols->trust++;
	log_warn("%s: %s while reading its %s (%s); %s", symbols->path,
		 slow ? "gave up" : "the symbol reader died",
		 symbols->trust == TRUST_TABLES ? "debug information" : "symbol tables",
		 slow ? "it took too long" : strsignal(signal_number),
		 symbols->trust == TRUST_TABLES ? "its functions have no lines"
						: "its functions have no names");
}

static int worker_ready(struct symbols *symbols)
{
	if (symbols->worker.pid)
		return 0;
	symbols->numbered.count = 0;
	*array_push(&symbols->numbered) = "";
	return worker_start(&symbols->worker, symbols->fd, symbols->path,
			    symbols->trust == TRUST_ALL, &limits);
}

/* A worker that cannot be started is said where it is asked. */
void symbols_prepare(struct symbols *symbols)
{
	if (symbols->trust != TRUST_NOTHING && !symbols->worker.pid && !worker_ready(symbols))
		worker_load(&symbols->worker);
}

static const char *string_keep(struct symbols *symbols, const char *text)
{
	return strtab_get(&symbols->strings, strtab_add(&symbols->strings, text));
}

static void strings_learn(struct symbols *symbols, const struct worker_reply *reply)
{
	const char *text = worker_reply_text(reply);

	for (uint32_t i = 0; i < reply->string_count; i++, text += strlen(text) + 1)
		*array_push(&symbols->numbered) = string_keep(symbols, text);
}

static int symbols_ask(struct symbols *symbols, enum worker_question question,
		       const uint64_t *addresses, size_t count, struct worker_reply **ret)
{
	while (symbols->trust != TRUST_NOTHING) {
		int err = worker_ready(symbols);

		if (err)
			return err;
		if (worker_ask(&symbols->worker, question, addresses, count, ret) == 0) {
			strings_learn(symbols, *ret);
			return 0;
		}
		trust_lower(symbols);
	}
	return -ENOENT;
}

/* As fde_find(), which reads the FDE: addresses in ascending order do that once per function. */
static int unnamed_find(struct symbols *symbols, uint64_t address)
{
	if (address - symbols->unnamed_start < symbols->unnamed_size)
		return 0;
	return fde_find(&symbols->functions, &symbols->image, address, &symbols->unnamed_start,
			&symbols->unnamed_size);
}

/* A function that no table names still has bounds, so that its samples stay together. */
static void unnamed_answer(struct symbols *symbols, uint64_t address, struct symbol_frame *frame,
			   struct symbol_answer *ret)
{
	char name[32];

	*ret = (struct symbol_answer){};
	if (unnamed_find(symbols, address))
		return;
	snprintf(name, sizeof(name), "sub_%llx", (unsigned long long)symbols->unnamed_start);
	*frame = (struct symbol_frame){ .name = string_keep(symbols, name) };
	frame->linkage = frame->name;
	*ret = (struct symbol_answer){
		.address = symbols->unnamed_start,
		.size = symbols->unnamed_size,
		.frame_count = 1,
		.frames = frame,
	};
}

static void frames_fill(struct symbols *symbols, const struct worker_reply *reply)
{
	const struct worker_row *rows = worker_reply_rows(reply);
	const char **strings = symbols->numbered.items;

	for (uint32_t i = 0; i < reply->row_count; i++)
		symbols->frames.items[i] = (struct symbol_frame){
			.name = strings[rows[i].texts[0]],
			.linkage = strings[rows[i].texts[1]],
			.file = rows[i].texts[2] ? strings[rows[i].texts[2]] : NULL,
			.line = rows[i].numbers[0],
		};
}

void symbols_resolve_many(struct symbols *symbols, const uint64_t *addresses, size_t count,
			  struct symbol_answer *ret)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	bool told = symbols_ask(symbols, WORKER_FRAMES, addresses, count, &reply) == 0;
	const struct worker_answer *answers = told ? worker_reply_answers(reply) : NULL;
	size_t row_count = told ? reply->row_count : 0;

	array_reserve(&symbols->frames, row_count + count);
	if (told)
		frames_fill(symbols, reply);
	for (size_t i = 0; i < count; i++)
		if (told && answers[i].result == 0)
			ret[i] = (struct symbol_answer){
				.address = answers[i].address,
				.size = answers[i].size,
				.frame_count = answers[i].count,
				.frames = symbols->frames.items + answers[i].first,
				.data = answers[i].data,
			};
		else
			unnamed_answer(symbols, addresses[i], &symbols->frames.items[row_count + i],
				       &ret[i]);
}

void symbols_places(struct symbols *symbols, const uint64_t *addresses, size_t count, uint64_t *ret)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	bool told = symbols_ask(symbols, WORKER_PLACES, addresses, count, &reply) == 0;
	const struct worker_answer *answers = told ? worker_reply_answers(reply) : NULL;

	for (size_t i = 0; i < count; i++) {
		if (told && answers[i].result == 0)
			ret[i] = answers[i].address;
		else
			ret[i] = unnamed_find(symbols, addresses[i]) ? 0 : symbols->unnamed_start;
	}
}

int symbols_resolve(struct symbols *symbols, uint64_t address, struct symbol_answer *ret)
{
	struct symbol_answer answer;

	symbols_resolve_many(symbols, &address, 1, &answer);
	if (!answer.frame_count)
		return -ENOENT;
	*ret = answer;
	return 0;
}

static void parameters_fill(const struct symbols *symbols, const struct worker_row *rows,
			    size_t count, struct symbol_parameter *ret)
{
	const char *const *strings = symbols->numbered.items;

	for (size_t i = 0; i < count; i++)
		ret[i] = (struct symbol_parameter){
			.name = strings[rows[i].texts[0]],
			.type = strings[rows[i].texts[1]],
			.enumerators = strings[rows[i].texts[2]],
			.argument = rows[i].numbers[0],
			.encoding = rows[i].numbers[1],
			.size = rows[i].numbers[2],
		};
}

int symbols_parameters(struct symbols *symbols, uint64_t address,
		       struct symbol_parameter ret[static SYMBOL_PARAMETERS_MAX], size_t *ret_count)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	const struct worker_answer *answer;
	int err = symbols_ask(symbols, WORKER_PARAMETERS, &address, 1, &reply);

	if (err)
		return err;
	answer = worker_reply_answers(reply);
	if (answer->result)
		return -ENOENT;
	parameters_fill(symbols, worker_reply_rows(reply) + answer->first, answer->count, ret);
	*ret_count = answer->count;
	return 0;
}

void symbols_parameters_many(struct symbols *symbols, const uint64_t *addresses, size_t count,
			     struct symbol_parameters *ret)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	bool told = symbols_ask(symbols, WORKER_PARAMETERS, addresses, count, &reply) == 0;
	const struct worker_answer *answers = told ? worker_reply_answers(reply) : NULL;

	for (size_t i = 0; i < count; i++) {
		ret[i].count = told && !answers[i].result ? answers[i].count : 0;
		if (ret[i].count)
			parameters_fill(symbols, worker_reply_rows(reply) + answers[i].first,
					ret[i].count, ret[i].items);
	}
}

/* Up to WORKER_LINES_MAX lines of a unit. Returns how many. */
static size_t lines_ask(struct symbols *symbols, uint64_t unit, uint64_t first,
			struct symbol_line *ret, size_t *ret_units)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	const struct worker_row *row;
	size_t count;

	if (symbols_ask(symbols, WORKER_LINES, (uint64_t[]){ unit, first }, 2, &reply))
		return 0;
	row = worker_reply_rows(reply) + worker_reply_answers(reply)[0].first;
	count = worker_reply_answers(reply)[0].count;
	*ret_units = worker_reply_answers(reply)[1].size;
	for (size_t i = 0; i < count; i++, row++)
		ret[i] = (struct symbol_line){
			.address = (uint64_t)row->numbers[2] << 32 | row->numbers[1],
			.file = row->texts[0] ? symbols->numbered.items[row->texts[0]] : NULL,
			.line = row->numbers[0],
		};
	return count;
}

void symbols_lines(struct symbols *symbols, struct symbol_line **ret, size_t *ret_count)
{
	ARRAY(struct symbol_line) lines = {};
	size_t units = 1, count;

	for (size_t unit = 0; unit < units && lines.count < LINES_MAX; unit++)
		for (size_t first = 0; lines.count < LINES_MAX; first += count) {
			array_reserve(&lines, lines.count + WORKER_LINES_MAX);
			count = lines_ask(symbols, unit, first, lines.items + lines.count, &units);
			lines.count += count;
			if (count < WORKER_LINES_MAX)
				break;
		}
	*ret = lines.items;
	*ret_count = lines.count;
}

/* Up to WORKER_NAMES_MAX names. Returns how many. */
static size_t names_ask(struct symbols *symbols, enum symbol_names which, uint64_t first,
			struct symbol_name *ret)
{
	AUTO(free_ptr) struct worker_reply *reply = NULL;
	const struct worker_answer *answer;
	const struct worker_row *row;

	if (symbols_ask(symbols, WORKER_NAMES, (uint64_t[]){ which, first }, 2, &reply))
		return 0;
	answer = worker_reply_answers(reply);
	row = worker_reply_rows(reply) + answer->first;
	for (uint32_t i = 0; i < answer->count; i++, row++)
		ret[i] = (struct symbol_name){
			.name = symbols->numbered.items[row->texts[0]],
			.linkage = symbols->numbered.items[row->texts[1]],
			.address = (uint64_t)row->numbers[2] << 32 | row->numbers[1],
			.size = row->numbers[0],
		};
	return answer->count;
}

void symbols_names(struct symbols *symbols, enum symbol_names which, struct symbol_name **ret,
		   size_t *ret_count)
{
	ARRAY(struct symbol_name) names = {};
	size_t count = WORKER_NAMES_MAX;

	while (count == WORKER_NAMES_MAX && names.count < NAMES_MAX) {
		array_reserve(&names, names.count + WORKER_NAMES_MAX);
		count = names_ask(symbols, which, names.count, names.items + names.count);
		names.count += count;
	}
	*ret = names.items;
	*ret_count = names.count;
}

struct extents {
	ARRAY(struct symbol_extent) items;
};

static bool extent_add(void *ctx, uint64_t start, uint64_t size)
{
	struct extents *extents = ctx;

	*array_push(&extents->items) = (struct symbol_extent){ start, size };
	return extents->items.count < NAMES_MAX;
}

void symbols_extents(struct symbols *symbols, struct symbol_extent **ret, size_t *ret_count)
{
	struct extents extents = {};

	fde_each(&symbols->functions, &symbols->image, extent_add, &extents);
	*ret = extents.items.items;
	*ret_count = extents.items.count;
}

const char *symbol_encoding_text(enum symbol_encoding encoding)
{
	static const char *const texts[] = {
#define X(name, text) [SYMBOL_ENCODING_##name] = text,
		SYMBOL_ENCODINGS(X)
#undef X
	};

	return texts[encoding];
}

int symbols_code(struct symbols *symbols, uint64_t address, void *ret, size_t size)
{
	return elf_window_read(&symbols->code, &symbols->image, address, ret, size);
}
