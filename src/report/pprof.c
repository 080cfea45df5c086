// SPDX-License-Identifier: BSD-2-Clause
/*
 * pprof: a gzip-compressed protobuf message Profile (profile.proto of github.com/google/pprof).
 *
 * Ids are those of the profile where it has them: location ids are location rows, mapping ids
 * module rows. Entries for lost samples get ids above. A function of pprof has one file, so a
 * function of ours is one per file that it has frames in. Only what a selected sample refers to is
 * written. Strings have to be UTF-8 and are interned; entry 0 is "".
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyse/forest.h"
#include "analyse/meta.h"
#include "analyse/names.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "report/export.h"
#include "report/protobuf.h"
#include "base/utf8.h"

enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING_TABLE = 6,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS = 10,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD = 12,
	PROFILE_COMMENT = 13,
};
enum value_type_field { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT = 2 };
enum sample_field { SAMPLE_LOCATION_ID = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum label_field { LABEL_KEY = 1, LABEL_STR = 2, LABEL_NUM = 3, LABEL_NUM_UNIT = 4 };
enum mapping_field {
	MAPPING_ID = 1,
	MAPPING_LIMIT = 3,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILENAMES = 8,
	MAPPING_HAS_LINE_NUMBERS = 9,
	MAPPING_HAS_INLINE_FRAMES = 10,
};
enum location_field {
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4
};
enum line_field { LINE_FUNCTION_ID = 1, LINE_LINE = 2 };
enum function_field {
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILENAME = 4,
};

/* What is known about a module from the locations written. */
struct mapping {
	uint64_t limit; /* above every address; 0: not used */
	bool named;
	bool has_lines;
};

struct pprof {
	const struct profile *profile;
	const struct forest *forest;
	struct functions functions;
	struct strbuf out;
	struct strbuf message, inner; /* scratch */
	struct strtab strings;
	struct map function_ids; /* function << 32 | file, to id */
	uint64_t last_function;
	bool *location_used;
	struct mapping *mappings;
	uint64_t period; /* ns per sample; 0: unknown, no cpu values */
};

static uint64_t string_id(struct pprof *pprof, const char *text)
{
	struct strbuf safe = {};
	uint32_t id;

	utf8_repair(&safe, text);
	id = strtab_add(&pprof->strings, strbuf_text(&safe));
	strbuf_deinit(&safe);
	return id;
}

static void value_type_put(struct pprof *pprof, uint32_t field, const char *type, const char *unit)
{
	protobuf_number(&pprof->message, VALUE_TYPE_TYPE, string_id(pprof, type));
	protobuf_number(&pprof->message, VALUE_TYPE_UNIT, string_id(pprof, unit));
	protobuf_message(&pprof->out, field, &pprof->message);
}

static void values_put(struct pprof *pprof, uint64_t count)
{
	protobuf_varint(&pprof->inner, count);
	if (pprof->period)
		protobuf_varint(&pprof->inner, count * pprof->period);
	protobuf_message(&pprof->message, SAMPLE_VALUE, &pprof->inner);
}

/*
 * pprof takes a number 0 without a unit for no label at all, but 0 is the uid of root: such labels
 * need a unit.
 */
static void label_number_put(struct pprof *pprof, const char *key, int64_t number)
{
	protobuf_number(&pprof->inner, LABEL_KEY, string_id(pprof, key));
	protobuf_number(&pprof->inner, LABEL_NUM, (uint64_t)number);
	if (!number)
		protobuf_number(&pprof->inner, LABEL_NUM_UNIT, string_id(pprof, key));
	protobuf_message(&pprof->message, SAMPLE_LABEL, &pprof->inner);
}

static void label_text_put(struct pprof *pprof, const char *key, const char *text)
{
	protobuf_number(&pprof->inner, LABEL_KEY, string_id(pprof, key));
	protobuf_number(&pprof->inner, LABEL_STR, string_id(pprof, text));
	protobuf_message(&pprof->message, SAMPLE_LABEL, &pprof->inner);
}

static void sample_put(struct pprof *pprof, const struct profile_sample *sample)
{
	const struct profile *profile = pprof->profile;
	const struct profile_thread *thread = &profile->threads[sample->thread];
	const struct profile_process *process = &profile->processes[thread->process];

	for (uint32_t node = sample->stack; node; node = profile->stacks[node].parent) {
		protobuf_varint(&pprof->inner, profile->stacks[node].location);
		pprof->location_used[profile->stacks[node].location] = true;
	}
	protobuf_message(&pprof->message, SAMPLE_LOCATION_ID, &pprof->inner);
	values_put(pprof, sample->count);
	label_number_put(pprof, "pid", process->pid);
	label_number_put(pprof, "tid", thread->tid);
	if (process->uid >= 0)
		label_number_put(pprof, "uid", process->uid);
	label_text_put(pprof, "comm", thread->comm ? thread->comm : "");
	protobuf_message(&pprof->out, PROFILE_SAMPLE, &pprof->message);
}

static void samples_put(struct pprof *pprof, const struct filter *filter)
{
	const struct profile *profile = pprof->profile;
	AUTO(free_ptr) bool *threads = mem_zalloc(profile->thread_count + 1);

	for (uint32_t i = 0; i < profile->thread_count; i++)
		threads[i] = filter_thread(filter, profile, i);
	for (size_t i = 0; i < profile->sample_count; i++)
		if (threads[profile->samples[i].thread] &&
		    pprof->forest->own[profile->samples[i].stack])
			sample_put(pprof, &profile->samples[i]);
}

static void function_put(struct pprof *pprof, uint64_t id, const char *name, const char *linkage,
			 const char *file)
{
	protobuf_number(&pprof->message, FUNCTION_ID, id);
	protobuf_number(&pprof->message, FUNCTION_NAME, string_id(pprof, name));
	protobuf_number(&pprof->message, FUNCTION_SYSTEM_NAME, string_id(pprof, linkage));
	protobuf_number(&pprof->message, FUNCTION_FILENAME, string_id(pprof, file ? file : ""));
	protobuf_message(&pprof->out, PROFILE_FUNCTION, &pprof->message);
}

static uint64_t slot_function(struct pprof *pprof, uint32_t slot)
{
	const struct profile *profile = pprof->profile;
	uint32_t function = pprof->functions.entity[slot];
	uint32_t file = pprof->forest->slots[slot].file;
	uint64_t *id = map_at(&pprof->function_ids, (uint64_t)function << 32 | file, NULL);

	if (!*id) {
		uint32_t symbol = functions_symbol(&pprof->functions, function);
		const char *name = functions_name(&pprof->functions, function);
		const char *linkage = symbol ? profile->symbols[symbol].linkage : NULL;

		*id = ++pprof->last_function;
		function_put(pprof, *id, name, linkage && *linkage ? linkage : name,
			     name_of_file(profile, file));
	}
	return *id;
}

/*
 * A function is written into out when it is first met, so lines are kept apart from it until it is.
 */
static void location_put(struct pprof *pprof, uint32_t location, struct strbuf *lines)
{
	const struct forest *forest = pprof->forest;
	const struct profile_location *row = &pprof->profile->locations[location];
	bool mark = pprof->profile->modules[row->module].kind == MODULE_MARK && row->module;
	struct mapping *mapping = &pprof->mappings[row->module];

	if (row->address >= mapping->limit)
		mapping->limit = row->address + 1;
	for (uint32_t slot = forest->first[location]; slot < forest->first[location + 1]; slot++) {
		if (!row->frame_count && !mark)
			break;
		mapping->named = true;
		mapping->has_lines |= forest->slots[slot].line != 0;
		protobuf_number(&pprof->inner, LINE_FUNCTION_ID, slot_function(pprof, slot));
		protobuf_number(&pprof->inner, LINE_LINE, forest->slots[slot].line);
		protobuf_message(lines, LOCATION_LINE, &pprof->inner);
	}
	protobuf_number(&pprof->message, LOCATION_ID, location);
	protobuf_number(&pprof->message, LOCATION_MAPPING, mark ? 0 : row->module);
	protobuf_number(&pprof->message, LOCATION_ADDRESS, mark ? 0 : row->address);
	strbuf_add(&pprof->message, lines->text, lines->length);
	lines->length = 0;
	protobuf_message(&pprof->out, PROFILE_LOCATION, &pprof->message);
}

static void locations_put(struct pprof *pprof)
{
	struct strbuf lines = {};

	for (uint32_t i = 1; i < pprof->profile->location_count; i++)
		if (pprof->location_used[i])
			location_put(pprof, i, &lines);
	strbuf_deinit(&lines);
}

static void mapping_put(struct pprof *pprof, uint32_t id)
{
	const struct profile_module *module = &pprof->profile->modules[id];
	const struct mapping *mapping = &pprof->mappings[id];

	if (!mapping->limit || module->kind == MODULE_MARK)
		return;
	protobuf_number(&pprof->message, MAPPING_ID, id);
	protobuf_number(&pprof->message, MAPPING_LIMIT, mapping->limit);
	protobuf_number(&pprof->message, MAPPING_FILENAME,
			string_id(pprof, module->path ? module->path : ""));
	protobuf_number(&pprof->message, MAPPING_BUILD_ID,
			string_id(pprof, module->build_id ? module->build_id : ""));
	protobuf_number(&pprof->message, MAPPING_HAS_FUNCTIONS, mapping->named);
	protobuf_number(&pprof->message, MAPPING_HAS_FILENAMES, mapping->has_lines);
	protobuf_number(&pprof->message, MAPPING_HAS_LINE_NUMBERS, mapping->has_lines);
	protobuf_number(&pprof->message, MAPPING_HAS_INLINE_FRAMES, mapping->named);
	protobuf_message(&pprof->out, PROFILE_MAPPING, &pprof->message);
}

/* pprof takes the first mapping for the program: the file that most stacks begin in. 0: none. */
static uint32_t main_module(const struct pprof *pprof)
{
	const struct profile *profile = pprof->profile;
	AUTO(free_ptr)
	uint64_t *samples = mem_zalloc((profile->module_count + 1) * sizeof(*samples));
	uint32_t best = 0;

	for (uint32_t node = pprof->forest->child[0]; node; node = pprof->forest->sibling[node]) {
		uint32_t module = profile->locations[profile->stacks[node].location].module;

		samples[module] += pprof->forest->cum[node];
		if (profile->modules[module].kind == MODULE_ELF && samples[module] > samples[best])
			best = module;
	}
	return best;
}

static void mappings_put(struct pprof *pprof)
{
	uint32_t first = main_module(pprof);

	if (first)
		mapping_put(pprof, first);
	for (uint32_t i = 1; i < pprof->profile->module_count; i++)
		if (i != first)
			mapping_put(pprof, i);
}

static void loss_put(struct pprof *pprof, const struct profile_named_count *loss, uint64_t location)
{
	AUTO(free_ptr) char *name = mem_printf("[lost: %s]", loss->name);
	uint64_t function = ++pprof->last_function;

	function_put(pprof, function, name, name, NULL);
	protobuf_number(&pprof->inner, LINE_FUNCTION_ID, function);
	protobuf_number(&pprof->message, LOCATION_ID, location);
	protobuf_message(&pprof->message, LOCATION_LINE, &pprof->inner);
	protobuf_message(&pprof->out, PROFILE_LOCATION, &pprof->message);
	protobuf_varint(&pprof->inner, location);
	protobuf_message(&pprof->message, SAMPLE_LOCATION_ID, &pprof->inner);
	values_put(pprof, loss->count);
	protobuf_message(&pprof->out, PROFILE_SAMPLE, &pprof->message);
}

static void comment_put(struct pprof *pprof, char *text)
{
	protobuf_number(&pprof->out, PROFILE_COMMENT, string_id(pprof, text));
	free(text);
}

static void losses_put(struct pprof *pprof, bool as_samples)
{
	const struct profile *profile = pprof->profile;

	comment_put(pprof, mem_printf("assay: seen %" PRIu64 ", kept %" PRIu64, profile->seen,
				      profile->kept));
	for (size_t i = 0; i < profile->loss_count; i++) {
		const struct profile_named_count *loss = &profile->losses[i];

		comment_put(pprof, mem_printf("lost: %s %" PRIu64 " (%s)", loss->name, loss->count,
					      loss->text ? loss->text : ""));
		if (as_samples)
			loss_put(pprof, loss, profile->location_count + i + 1);
	}
}

static void strings_put(struct pprof *pprof)
{
	for (uint32_t i = 0; i < pprof->strings.count; i++) {
		const char *text = strtab_get(&pprof->strings, i);

		protobuf_bytes(&pprof->out, PROFILE_STRING_TABLE, text, strlen(text));
	}
}

static void head_put(struct pprof *pprof, bool executed)
{
	const struct profile *profile = pprof->profile;
	enum recording_kind kind = executed ? RECORDING_EXECUTED : RECORDING_SAMPLES;
	const struct profile_recording *samples = profile_recording(profile, kind);
	const char *event = profile_fact(profile, kind, META_EVENT);

	if (!executed && (!event || !strcmp(event, "cpu-clock")))
		pprof->period = meta_period(profile);
	string_id(pprof, "");
	value_type_put(pprof, PROFILE_SAMPLE_TYPE, executed ? "instructions" : "samples", "count");
	if (pprof->period) {
		value_type_put(pprof, PROFILE_SAMPLE_TYPE, "cpu", "nanoseconds");
		value_type_put(pprof, PROFILE_PERIOD_TYPE, "cpu", "nanoseconds");
	} else if (event) {
		value_type_put(pprof, PROFILE_PERIOD_TYPE, event, "count");
	}
	protobuf_number(&pprof->out, PROFILE_PERIOD, executed ? 0 : meta_period(profile));
	protobuf_number(&pprof->out, PROFILE_TIME_NANOS, samples ? samples->started : 0);
	protobuf_number(&pprof->out, PROFILE_DURATION_NANOS, samples ? samples->duration : 0);
}

static int gzip_write(const struct strbuf *data, FILE *file)
{
	enum { GZIP_WINDOW = 15 + 16, CHUNK = 65536 };
	AUTO(free_ptr) unsigned char *chunk = mem_alloc(CHUNK);
	z_stream stream = {};
	size_t left = data->length;
	int status;

	if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(-ENOMEM, "zlib cannot start: out of memory");
	stream.next_in = (unsigned char *)data->text;
	do {
		if (!stream.avail_in) {
			stream.avail_in = left < UINT32_MAX ? (unsigned int)left : UINT32_MAX;
			left -= stream.avail_in;
		}
		stream.next_out = chunk;
		stream.avail_out = CHUNK;
		status = deflate(&stream, left ? Z_NO_FLUSH : Z_FINISH);
		fwrite(chunk, 1, CHUNK - stream.avail_out, file);
	} while (status != Z_STREAM_END && !ferror(file));
	deflateEnd(&stream);
	return 0;
}

static void pprof_deinit(struct pprof *pprof)
{
	functions_deinit(&pprof->functions);
	strbuf_deinit(&pprof->out);
	strbuf_deinit(&pprof->message);
	strbuf_deinit(&pprof->inner);
	strtab_deinit(&pprof->strings);
	map_deinit(&pprof->function_ids);
	free(pprof->location_used);
	free(pprof->mappings);
}

int export_pprof(const struct profile *profile, const struct export_options *options, FILE *file)
{
	AUTO(forest_destroy_auto)
	struct forest *forest = forest_create(profile, &options->filter, FOREST_CODE_SAMPLES);
	struct pprof pprof = { .profile = profile, .forest = forest };
	int err;

	functions_init(&pprof.functions, forest, NULL);
	pprof.location_used = mem_zalloc(profile->location_count + 1);
	pprof.mappings = mem_zalloc((profile->module_count + 1) * sizeof(*pprof.mappings));
	head_put(&pprof, options->executed);
	samples_put(&pprof, &options->filter);
	locations_put(&pprof);
	mappings_put(&pprof);
	losses_put(&pprof, filter_is_empty(&options->filter));
	strings_put(&pprof);
	err = gzip_write(&pprof.out, file);
	pprof_deinit(&pprof);
	return err;
}
