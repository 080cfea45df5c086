// SPDX-License-Identifier: BSD-2-Clause
/*
 * Symbolisation of a whole profile.
 *
 *	in	the locations of a profile, and a function that opens a module
 *	out	rows of symbols, frames, files, parameters and code
 *	owner	nobody: it is a call; the recorder makes it at the end, a reader if the recorder was
 *		killed
 *
 * Locations come sorted by module and address. Each module is opened once, its locations are
 * resolved in ascending order and many at a time, their frames are written in the order of their
 * table, and it is closed again: memory is bounded by the largest modules. While one is worked on,
 * the debug information of the next one is loaded.
 *
 * 1. Every location gets at least one frame; where nothing is known, its symbol is "[unknown]".
 * 2. A function is one symbol row per module and start address; a function seen only inlined is one
 *    row per module and name. So is an object that a location points to.
 * 3. Code and parameters are asked for once per symbol.
 */
#include "recorder/symbolise.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/progress.h"
#include "symbols/symbols.h"
#include "wire/unwind.h"

enum {
	CODE_MAX = 256 * 1024, /* longest function whose code is kept */
	CODE_UNKNOWN_SIZE = 256, /* kept when a function's size is not known */
};

struct work {
	struct store *store;
	const struct symbolise_sources *sources;
	struct store_module module; /* being worked on */
	struct module_id owner; /* the symbol's module: that one, or a part of the kernel */
	struct symbols *symbols;
	struct kallsyms *kallsyms;
	struct jitmap *jitmap;
	struct module_cache ahead; /* the next module, if nobody else keeps modules */
	ARRAY(struct store_frame) frames; /* of the module */
	struct progress progress;
	struct map symbol_ids; /* hash of module and start, or of module and name, to id */
	struct map code_kept; /* symbol ids */
	struct map kernel_modules; /* name in strings to module id */
	struct strtab files; /* id - 1 */
	struct strtab strings;
	uint32_t symbol_count;
	/* Functions of this batch that were not known before: their parameters are asked for. */
	struct symbol_id fresh[SYMBOLS_BATCH_MAX];
	uint64_t fresh_addresses[SYMBOLS_BATCH_MAX];
	size_t fresh_count;
	bool lack_said;
};

static void work_deinit(struct work *work)
{
	symbols_destroy(work->symbols);
	kallsyms_destroy(work->kallsyms);
	jitmap_destroy(work->jitmap);
	module_cache_deinit(&work->ahead);
	array_deinit(&work->frames);
	map_deinit(&work->symbol_ids);
	map_deinit(&work->code_kept);
	map_deinit(&work->kernel_modules);
	strtab_deinit(&work->files);
	strtab_deinit(&work->strings);
}

static const char *mark_text(uint64_t address)
{
	static const char *const texts[] = {
#define X(name, json, text) [STACK_END_##name] = "[stack cut: " text "]",
		STACK_ENDS(X)
#undef X
	};

	return address < STACK_END_COUNT ? texts[address] : "[stack cut]";
}

/* A line for each: "RED=0". The first name of a number counts. */
static int enumerators_put(struct work *work, struct symbol_id symbol,
			   const struct symbol_parameter *parameter)
{
	AUTO(free_ptr) char *copy = mem_strdup(parameter->enumerators);
	AUTO(map_deinit) struct map known = {};
	char *rest = copy, *line;
	int err = 0;

	while (!err && rest && (line = strsep(&rest, "\n"))) {
		char *equals = strchr(line, '=');
		struct store_enumerator row = { .symbol = symbol, .argument = parameter->argument };
		bool fresh;

		if (!equals)
			continue;
		*equals = '\0';
		row.name = line;
		row.value = (uint64_t)strtoll(equals + 1, NULL, 10);
		map_at(&known, row.value, &fresh);
		if (fresh)
			err = store_enumerator_put(work->store, &row);
	}
	return err;
}

static int parameters_put(struct work *work, struct symbol_id symbol,
			  const struct symbol_parameters *found)
{
	int err = 0;

	for (size_t i = 0; i < found->count && !err; i++) {
		const struct symbol_parameter *item = &found->items[i];

		err = store_parameter_put(work->store,
					  &(struct store_parameter){
						  .symbol = symbol,
						  .argument = item->argument,
						  .name = item->name,
						  .type = item->type,
						  .encoding = symbol_encoding_text(item->encoding),
						  .size = item->size,
					  });
	}
	for (size_t i = 0; i < found->count && !err; i++)
		if (found->items[i].enumerators)
			err = enumerators_put(work, symbol, &found->items[i]);
	return err;
}

/* Of the functions that the batch has found: one question for all of them. */
static int parameters_ask(struct work *work)
{
	struct symbol_parameters found[SYMBOLS_BATCH_MAX];
	int err = 0;

	if (work->fresh_count)
		symbols_parameters_many(work->symbols, work->fresh_addresses, work->fresh_count,
					found);
	for (size_t i = 0; i < work->fresh_count && !err; i++)
		err = parameters_put(work, work->fresh[i], &found[i]);
	work->fresh_count = 0;
	return err;
}

/* *ret_fresh: the row was not there yet. */
static int symbol_put(struct work *work, uint64_t key, const struct store_symbol *row,
		      struct symbol_id *ret, bool *ret_fresh)
{
	uint64_t *id = map_at(&work->symbol_ids, key, ret_fresh);
	struct store_symbol symbol = *row;

	if (*ret_fresh)
		*id = ++work->symbol_count;
	ret->v = (uint32_t)*id;
	if (!*ret_fresh)
		return 0;
	symbol.id = *ret;
	return store_symbol_put(work->store, &symbol);
}

static int file_put(struct work *work, const char *path, struct file_id *ret)
{
	size_t before = work->files.count;

	ret->v = 0;
	if (!path)
		return 0;
	ret->v = strtab_add(&work->files, path) + 1;
	return work->files.count > before
		       ? store_file_put(work->store, &(struct store_file){ *ret, path })
		       : 0;
}

/*
 * A section and its first object begin at the same address, so that only the name tells data apart.
 */
static uint64_t symbol_key(const struct work *work, const struct store_symbol *row,
			   const char *linkage, bool data)
{
	uint64_t where = row->address;

	if (data || !where)
		where = hash64_pair(where, hash_bytes(linkage, strlen(linkage)));
	return hash64_pair(hash64_pair(work->owner.v, row->inlined), where);
}

/* The symbol row of frame number depth; the last frame is the function itself. */
static int frame_symbol(struct work *work, const struct symbol_answer *answer, size_t depth,
			struct symbol_id *ret)
{
	const struct symbol_frame *frame = &answer->frames[depth];
	bool inlined = depth + 1 < answer->frame_count;
	const char *linkage = frame->linkage ? frame->linkage : frame->name;
	struct store_symbol row = {
		.module = work->owner,
		.name = frame->name,
		.linkage = strcmp(linkage, frame->name) ? linkage : NULL,
		.address = inlined ? 0 : answer->address,
		.size = inlined ? 0 : answer->size,
		.inlined = inlined,
	};
	bool fresh;
	int err =
		symbol_put(work, symbol_key(work, &row, linkage, answer->data), &row, ret, &fresh);

	if (err || !fresh || inlined || answer->data || !answer->address || !work->symbols)
		return err;
	assert(work->fresh_count < SYMBOLS_BATCH_MAX); /* a location has one function */
	work->fresh[work->fresh_count] = *ret;
	work->fresh_addresses[work->fresh_count++] = answer->address;
	return 0;
}

static size_t code_read(struct work *work, uint64_t address, void *ret, size_t size)
{
	const struct symbolise_sources *sources = work->sources;
	int got = work->symbols ? symbols_code(work->symbols, address, ret, size) : 0;

	if (!got && work->jitmap)
		got = (int)jitmap_code(work->jitmap, address, ret, size);
	if (got > 0)
		return (size_t)got;
	return sources->code ? sources->code(sources->ctx, &work->module, address, ret, size) : 0;
}

static int code_keep(struct work *work, struct symbol_id symbol, const struct symbol_answer *answer)
{
	size_t size = answer->size ? answer->size : CODE_UNKNOWN_SIZE, got;
	AUTO(free_ptr) void *code = NULL;
	bool fresh;

	if (!answer->address || answer->data || size > CODE_MAX)
		return 0;
	map_at(&work->code_kept, symbol.v, &fresh);
	if (!fresh)
		return 0;
	code = mem_alloc(size);
	got = code_read(work, answer->address, code, size);
	return got ? store_symbol_code_put(work->store, symbol, code, got) : 0;
}

static int answer_put(struct work *work, const struct store_unnamed *location,
		      const struct symbol_answer *answer)
{
	struct store_frame row = { .location = location->location };
	int err = 0;

	for (size_t depth = 0; depth < answer->frame_count && !err; depth++) {
		row.depth = (uint32_t)depth;
		row.line = answer->frames[depth].line;
		err = frame_symbol(work, answer, depth, &row.symbol);
		err = err ? err : file_put(work, answer->frames[depth].file, &row.file);
		*array_push(&work->frames) = row;
	}
	if (!err && location->self)
		err = code_keep(work, row.symbol, answer);
	return err;
}

/* Drivers and other loadable modules are modules of their own. */
static int kernel_module_enter(struct work *work, const struct store_unnamed *location,
			       const char *name)
{
	bool fresh;
	uint64_t *id;
	int err;

	if (!strcmp(name, "[kernel]"))
		return 0;
	id = map_at(&work->kernel_modules, strtab_add(&work->strings, name), &fresh);
	if (fresh) {
		struct store_module row = { .kind = MODULE_KERNEL, .path = name };

		err = store_module_next(work->store, &row.id);
		err = err ? err : store_module_put(work->store, &row);
		if (err)
			return err;
		*id = row.id.v;
	}
	work->owner.v = (uint32_t)*id;
	return store_location_put(work->store,
				  &(struct store_location){ .id = location->location,
							    .module = work->owner,
							    .address = location->address });
}

/*
 * Of code that a jitdump file does not have. Programs write it through a buffer of megabytes: it
 * may well be empty yet.
 */
static void lack_say(struct work *work)
{
	const char *suffix = work->jitmap ? strrchr(work->module.path, '.') : NULL;

	if (!suffix || strcmp(suffix, ".dump") != 0 || work->lack_said)
		return;
	work->lack_said = true;
	log_info("%s does not have all code that was sampled: a program may write the rest only "
		 "when it ends; a perf map (node: --perf-basic-prof) has it at once",
		 work->module.path);
}

/* Where there is no ELF file to ask. */
static int location_resolve(struct work *work, const struct store_unnamed *location,
			    struct symbol_answer *ret)
{
	const char *module;
	int err;

	if (work->jitmap)
		return jitmap_resolve(work->jitmap, location->address, ret);
	if (!work->kallsyms)
		return -ENOENT;
	err = kallsyms_resolve(work->kallsyms, location->address, ret, &module);
	return err ? err : kernel_module_enter(work, location, module);
}

/* answer NULL: not asked yet. */
static int location_name(struct work *work, const struct store_unnamed *location,
			 const struct symbol_answer *answer)
{
	struct symbol_frame frame = { .name = "[unknown]" };
	struct symbol_answer unknown = { .frame_count = 1, .frames = &frame }, found;

	work->owner = work->module.id;
	if (work->module.kind == MODULE_MARK)
		frame.name = mark_text(location->address);
	if (!answer && location_resolve(work, location, &found) == 0)
		answer = &found;
	if (!answer || !answer->frame_count) {
		answer = &unknown;
		lack_say(work);
	}
	return answer_put(work, location, answer);
}

/* At most SYMBOLS_BATCH_MAX locations. */
static int batch_name(struct work *work, const struct store_unnamed *locations, size_t count)
{
	struct symbol_answer answers[SYMBOLS_BATCH_MAX];
	uint64_t addresses[SYMBOLS_BATCH_MAX];
	int err = 0;

	for (size_t i = 0; i < count; i++)
		addresses[i] = locations[i].address;
	if (work->symbols)
		symbols_resolve_many(work->symbols, addresses, count, answers);
	for (size_t i = 0; i < count && !err; i++)
		err = location_name(work, &locations[i], work->symbols ? &answers[i] : NULL);
	return err ? err : parameters_ask(work);
}

static struct module_cache *cache_of(struct work *work)
{
	return work->sources->cache ? work->sources->cache : &work->ahead;
}

static bool is_file_with_code(const struct store_module *module)
{
	return module->kind == MODULE_ELF || module->kind == MODULE_VDSO;
}

/* Failing to open is not an error: the module's locations then have no names. */
static int file_open(struct work *work, const struct store_module *module)
{
	int fd = work->sources->open(work->sources->ctx, module);

	if (fd < 0)
		log_debug("%s: cannot be opened: %s", module->path, strerror(-fd));
	return fd;
}

static void symbols_of(struct work *work, const struct store_module *module, struct symbols **ret)
{
	AUTO(close_fd) int fd = -1;

	*ret = module_cache_take(cache_of(work), module->id.v);
	if (*ret)
		return;
	fd = file_open(work, module);
	if (fd >= 0 && symbols_open(fd, module->path, ret))
		log_debug("%s", err_text());
}

static void module_open(struct work *work)
{
	AUTO(close_fd) int fd = -1;

	if (is_file_with_code(&work->module)) {
		symbols_of(work, &work->module, &work->symbols);
	} else if (work->module.kind == MODULE_KERNEL) {
		if (kallsyms_open(NULL, &work->kallsyms))
			log_debug("%s", err_text());
	} else if (work->module.kind == MODULE_JIT) {
		fd = file_open(work, &work->module);
		if (fd >= 0 && jitmap_open(fd, &work->jitmap))
			log_debug("%s", err_text());
	}
}

static void module_close(struct work *work)
{
	if (work->sources->cache)
		module_cache_put(work->sources->cache, work->module.id.v, take_ptr(work->symbols));
	symbols_destroy(take_ptr(work->symbols));
	kallsyms_destroy(take_ptr(work->kallsyms));
	jitmap_destroy(take_ptr(work->jitmap));
}

static int frame_compare(const void *left, const void *right)
{
	const struct store_frame *a = left, *b = right;

	if (a->location.v != b->location.v)
		return a->location.v < b->location.v ? -1 : 1;
	return a->depth < b->depth ? -1 : a->depth > b->depth;
}

static int frames_put(struct work *work)
{
	int err = 0;

	if (work->frames.count)
		qsort(work->frames.items, work->frames.count, sizeof(*work->frames.items),
		      frame_compare);
	for (size_t i = 0; i < work->frames.count && !err; i++)
		err = store_frame_put(work->store, &work->frames.items[i]);
	work->frames.count = 0;
	return err;
}

/* The locations of one module, which lie behind `before` others of `total`. */
static int module_name(struct work *work, const struct store_unnamed *locations, size_t count,
		       size_t before, size_t total)
{
	AUTO(free_ptr) char *texts = NULL;
	int err = store_module_get(work->store, locations[0].module, &work->module, &texts);

	if (err)
		return err;
	module_open(work);
	for (size_t i = 0; i < count && !err; i += SYMBOLS_BATCH_MAX) {
		progress_set(&work->progress, before + i, total);
		err = batch_name(work, &locations[i],
				 count - i < SYMBOLS_BATCH_MAX ? count - i : SYMBOLS_BATCH_MAX);
	}
	module_close(work);
	return err ? err : frames_put(work);
}

static int module_prepare(struct work *work, struct module_id id)
{
	AUTO(free_ptr) char *texts = NULL;
	AUTO(symbols_destroy_auto) struct symbols *symbols = NULL;
	struct store_module module;
	int err = store_module_get(work->store, id, &module, &texts);

	if (err || !is_file_with_code(&module) || cache_of(work)->count >= MODULE_CACHE_MAX)
		return err;
	symbols_of(work, &module, &symbols);
	if (symbols)
		symbols_prepare(symbols);
	module_cache_put(cache_of(work), id.v, take_ptr(symbols));
	return 0;
}

static size_t module_end(const struct store_unnamed *locations, size_t begin, size_t count)
{
	size_t end = begin;

	while (end < count && locations[end].module.v == locations[begin].module.v)
		end++;
	return end;
}

static int locations_name(struct work *work, const struct store_unnamed *unnamed, size_t count)
{
	int err = count ? module_prepare(work, unnamed[0].module) : 0;

	for (size_t begin = 0, end; begin < count && !err; begin = end) {
		end = module_end(unnamed, begin, count);
		err = end < count ? module_prepare(work, unnamed[end].module) : 0;
		err = err ? err : module_name(work, unnamed + begin, end - begin, begin, count);
	}
	return err;
}

int symbolise_from(struct store *store, const struct symbolise_sources *sources)
{
	AUTO(work_deinit) struct work work = { .store = store, .sources = sources };
	AUTO(free_ptr) struct store_unnamed *unnamed = NULL;
	size_t count;
	int err;

	progress_begin(&work.progress, "finding names");
	err = store_unnamed_list(store, &unnamed, &count);
	err = err ? err : locations_name(&work, unnamed, count);
	progress_end(&work.progress);
	return err ? err : store_commit(store);
}

int symbolise_open_path(void *ctx, const struct store_module *module)
{
	AUTO(close_fd) int fd = open(module->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct build_id found = {};
	char hex[BUILD_ID_HEX_MAX];
	struct stat info;

	if (fd < 0 || fstat(fd, &info))
		return -errno;
	if (!S_ISREG(info.st_mode))
		return -EINVAL;
	if (!*module->build_id)
		return take_fd(fd);
	if (elf_build_id(fd, &found))
		return -ESTALE;
	build_id_hex(&found, hex);
	if (strcmp(hex, module->build_id))
		return -ESTALE;
	return take_fd(fd);
}

int symbolise_unfinished(const char *path)
{
	const struct symbolise_sources sources = { .open = symbolise_open_path };
	AUTO(store_destroy_auto) struct store *store = NULL;
	int err = store_reopen(path, &store);

	if (err == -EALREADY)
		return 0;
	err = err ? err : symbolise_from(store, &sources);
	return err ? err : store_finish(store);
}
