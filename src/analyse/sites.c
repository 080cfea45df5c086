// SPDX-License-Identifier: BSD-2-Clause
/*
 * Sites: the rows of a profile's values, decoded when their turn comes and merged where a view
 * wants fewer of them.
 *
 * Rows come sorted by location, item, caller and owner, so that rows to be merged lie side by side
 * and one list is in memory at a time. A list that stands alone is shown as it was recorded. When a
 * second one joins it, both move into a larger list first, so that few entries have to be dropped.
 * Merging is unbiased in any case, and the bounds tell its error.
 *
 *  1. Every list given to a view has a total above 0 and as many words as its item.
 *  2. A row whose list cannot be read, or does not fit its item or its neighbours, is counted in
 *     table->unreadable.
 */
#include "analyse/sites.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/meta.h"
#include "analyse/names.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum { MERGED_SIZE = 64, TOP_SHOWN = 3 };

#define SKEW_INSTRUCTIONS 20.0
#define SKEW_MAX 2.0

static void item_init(struct site_item *item, const struct profile_value_item *row)
{
	*item = (struct site_item){ .text = row->text };
	if (selection_parse(row->text, &item->selection))
		return;
	if (item->selection.count == 1 && item->selection.items[0].term_count == row->words) {
		item->known = true;
		item->class = item->selection.items[0].class;
	} else {
		selection_deinit(&item->selection);
	}
}

/* "arg0" means "arg0@caller" too, but not "log2(arg0)"; '*' and '?' as in other patterns. */
static bool item_match(const char *pattern, const char *text)
{
	size_t length = strlen(pattern);

	if (strpbrk(pattern, "*?"))
		return pattern_match(pattern, text);
	return !strncmp(pattern, text, length) &&
	       (!text[length] || !strcmp(text + length, "@caller"));
}

static bool item_wanted(const struct option_texts *items, const char *text)
{
	for (size_t i = 0; i < items->count; i++)
		if (item_match(items->items[i], text))
			return true;
	return !items->count;
}

int sites_items_check(const struct profile *profile, const struct option_texts *items,
		      const char *option)
{
	for (size_t i = 0; i < items->count; i++) {
		struct strbuf names = {};
		bool found = false;

		for (size_t j = 1; j < profile->value_item_count; j++) {
			const char *text = profile->value_items[j].text;

			found |= item_match(items->items[i], text);
			strbuf_printf(&names, "%s%s", names.length ? ", " : "", text);
		}
		if (!found)
			err_set(-EINVAL, "--%s %s: the profile has no such values; it has %s",
				option, items->items[i], strbuf_text(&names));
		strbuf_deinit(&names);
		if (!found)
			return -EINVAL;
	}
	return 0;
}

/* Instructions interpreted for a run in the mean; 0 not known. */
static double run_mean(const struct profile *profile)
{
	const struct profile_recording *values = profile_recording(profile, RECORDING_VALUES);
	double runs = values ? (double)values->seen : 0;
	double steps = (double)profile_metric(profile, RECORDING_VALUES, METRIC_RUNS_STEPS);

	if (runs > 0 && steps > 0)
		return steps / runs;
	return (double)meta_number(profile, META_RUN_LENGTH) +
	       (double)meta_number(profile, META_RUN_SKIP) / 2;
}

/*
 * A sample by time finds what comes behind slow code more often. The further runs get away from
 * where they began, the less of that is left; how much was measured (docs/design/values.md).
 */
static double skew_find(const struct profile *profile)
{
	const char *event = profile_meta(profile, META_EVENT);
	double mean = run_mean(profile);

	if (mean <= 0 || (event && strcmp(event, "instructions") == 0))
		return 0;
	return fmin(SKEW_MAX, SKEW_INSTRUCTIONS / mean);
}

void sites_init(struct sites *sites, const struct profile *profile,
		const struct view_request *request, struct table *table)
{
	size_t count = profile->value_item_count;

	*sites = (struct sites){
		.profile = profile, .request = request, .table = table, .skew = skew_find(profile)
	};
	sites->items = mem_zalloc((count + 1) * sizeof(*sites->items));
	sites->wanted = mem_zalloc((count + 1) * sizeof(*sites->wanted));
	for (size_t i = 1; i < count; i++) {
		item_init(&sites->items[i], &profile->value_items[i]);
		sites->wanted[i] = item_wanted(&request->items, profile->value_items[i].text);
	}
	code_cache_init(&sites->code, profile, &request->code);
	disassembler_init(&sites->disassembler, profile, &request->code, false);
}

void sites_deinit(struct sites *sites)
{
	for (size_t i = 1; i < sites->profile->value_item_count; i++)
		selection_deinit(&sites->items[i].selection);
	free(sites->items);
	free(sites->wanted);
	code_cache_deinit(&sites->code);
	disassembler_deinit(&sites->disassembler);
}

static bool owner_wanted(const struct option_numbers *owners, int64_t owner)
{
	for (size_t i = 0; i < owners->count; i++)
		if (owners->items[i] == owner)
			return true;
	return !owners->count;
}

static bool row_wanted(const struct sites *sites, const struct profile_value *row)
{
	const struct profile *profile = sites->profile;
	const struct filter *filter = &sites->request->filter;

	if (sites->function && location_function(profile, row->location) != sites->function)
		return false;
	return sites->wanted[row->item] && owner_wanted(&filter->uids, row->owner) &&
	       filter_symbol(filter, profile, location_function(profile, row->location)) &&
	       filter_module(filter, profile, profile->locations[row->location].module);
}

static bool site_read(const struct sites *sites, const struct profile_value *row, struct site *ret)
{
	struct hotlist list;

	if (hotlist_decode(row->list, row->list_size, &list))
		return false;
	if (!list.total || list.words != sites->profile->value_items[row->item].words) {
		hotlist_deinit(&list);
		return false;
	}
	*ret = (struct site){
		.location = row->location,
		.caller = row->caller,
		.item = row->item,
		.owner = row->owner,
		.width = row->width,
		.total = list.total,
		.runs = row->runs,
		.skew = sites->skew,
		.list = list,
	};
	if (row->has_moments)
		ret->moments = (struct moments){ row->total, row->minimum, row->maximum, row->mean,
						 row->squares };
	return true;
}

void site_deinit(struct site *site)
{
	hotlist_deinit(&site->list);
}

/* Makes room for what is to be merged in. */
static bool list_enlarge(struct hotlist *list)
{
	struct hotlist larger;

	if (list->size >= MERGED_SIZE)
		return true;
	if (hotlist_init(&larger, &(struct hotlist_config){ .kind = list->kind,
							    .size = MERGED_SIZE,
							    .words = list->words }))
		return false;
	if (hotlist_merge(&larger, list)) {
		hotlist_deinit(&larger);
		return false;
	}
	hotlist_deinit(list);
	*list = larger;
	return true;
}

bool site_merge(struct site *site, const struct site *from)
{
	if (!list_enlarge(&site->list) || hotlist_merge(&site->list, &from->list))
		return false;
	if (site->caller != from->caller)
		site->caller = 0;
	if (from->width > site->width)
		site->width = from->width;
	site->total = site->list.total;
	site->runs += from->runs;
	moments_merge(&site->moments, &from->moments);
	return true;
}

double site_runs_share(const struct sites *sites, const struct site *site)
{
	uint64_t seen = sites->table->runs.seen;

	return share_of(site->runs < seen ? site->runs : seen, seen);
}

/* The next row that can be read. */
static bool row_next(struct sites *sites, struct site *ret)
{
	const struct profile *profile = sites->profile;

	while (sites->next < profile->value_count) {
		const struct profile_value *row = &profile->values[sites->next++];

		if (!row_wanted(sites, row))
			continue;
		if (site_read(sites, row, ret))
			return true;
		sites->table->unreadable++;
	}
	return false;
}

static bool row_belongs(const struct site *site, const struct profile_value *row,
			enum site_group group)
{
	return group != SITE_ROW && row->location == site->location && row->item == site->item &&
	       (group != SITE_CALLER || row->caller == site->caller);
}

bool sites_next(struct sites *sites, enum site_group group, struct site *ret)
{
	const struct profile *profile = sites->profile;
	struct site other;

	if (!row_next(sites, ret))
		return false;
	for (; sites->next < profile->value_count; sites->next++) {
		const struct profile_value *row = &profile->values[sites->next];

		if (!row_belongs(ret, row, group))
			break;
		if (!row_wanted(sites, row))
			continue;
		if (!site_read(sites, row, &other)) {
			sites->table->unreadable++;
			continue;
		}
		if (!site_merge(ret, &other))
			sites->table->unreadable++;
		site_deinit(&other);
	}
	return true;
}

size_t sites_tell(const struct sites *sites)
{
	return sites->next;
}

void sites_seek(struct sites *sites, size_t place)
{
	sites->next = place;
}

static void site_share(const struct site *site, size_t rank, struct hotlist_range *ret)
{
	struct hotlist_sampling sampling = {
		.group = site->runs ? (double)site->total / (double)site->runs : 1,
		.skew = site->skew,
	};

	hotlist_share(&site->list, rank, &sampling, ret);
}

struct hotlist_range site_top(const struct site *site)
{
	struct hotlist_range range = {};

	for (size_t rank = 0; rank < site->list.count; rank++) {
		struct hotlist_range other;

		site_share(site, rank, &other);
		if (other.best > range.best)
			range = other;
	}
	return range;
}

static const struct selection_item *item_of(const struct sites *sites, uint32_t item)
{
	return sites->items[item].known ? &sites->items[item].selection.items[0] : NULL;
}

static bool item_source(const struct sites *sites, uint32_t number, enum selection_source *ret)
{
	const struct selection_item *item = item_of(sites, number);

	if (!item || item->term_count != 1 || item->terms[0].fn.kind != VALUEFN_SELF)
		return false;
	*ret = item->terms[0].source;
	return true;
}

bool site_source(const struct sites *sites, const struct site *site, enum selection_source *ret)
{
	return item_source(sites, site->item, ret);
}

unsigned site_preference(const struct sites *sites, uint32_t item)
{
	static const enum selection_source order[] = {
		SELECTION_RESULT,   SELECTION_STORED,	SELECTION_LOADED,   SELECTION_TAKEN,
		SELECTION_TARGET,   SELECTION_OPERAND1, SELECTION_OPERAND2, SELECTION_OVERWRITTEN,
		SELECTION_ADDRESS,  SELECTION_RESULT2,	SELECTION_LOADED2,  SELECTION_ADDRESS2,
		SELECTION_OPERAND3, SELECTION_OPERAND4
	};
	unsigned count = sizeof(order) / sizeof(order[0]);
	enum selection_source source;

	if (!item_source(sites, item, &source))
		return count + 1;
	for (unsigned i = 0; i < count; i++)
		if (order[i] == source)
			return i;
	return count + 1;
}

const struct profile_parameter *parameter_find(const struct profile *profile, uint32_t symbol,
					       unsigned argument)
{
	size_t low = 0, high = profile->parameter_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct profile_parameter *row = &profile->parameters[middle];

		if (row->symbol < symbol || (row->symbol == symbol && row->argument < argument))
			low = middle + 1;
		else
			high = middle;
	}
	if (low < profile->parameter_count && profile->parameters[low].symbol == symbol &&
	    profile->parameters[low].argument == argument)
		return &profile->parameters[low];
	return NULL;
}

const char *parameter_text(struct table *table, const struct profile_parameter *parameter)
{
	size_t length = strlen(parameter->type);
	bool joined = !length || parameter->type[length - 1] == '*';

	return table_own(table,
			 mem_printf("%s%s%s", parameter->type, joined ? "" : " ", parameter->name));
}

/* Of one source as it was captured. */
static struct value_type source_type(const struct profile *profile, const struct site *site,
				     enum selection_source source, unsigned width,
				     const struct instruction *instruction)
{
	const struct profile_parameter *parameter;

	switch (source) {
	case SELECTION_ADDRESS:
	case SELECTION_ADDRESS2:
	case SELECTION_TARGET:
	case SELECTION_CALLER:
	case SELECTION_USERSITE:
	case SELECTION_GOAL1 ... SELECTION_GOAL3:
		return (struct value_type){ VALUE_POINTER, width };
	case SELECTION_PATH:
		return (struct value_type){ VALUE_PATH, width };
	case SELECTION_TAKEN:
		return (struct value_type){ VALUE_TAKEN, width };
	case SELECTION_ARG0 ... SELECTION_ARG5:
		parameter = parameter_find(profile, location_function(profile, site->location),
					   source - SELECTION_ARG0);
		return parameter ? value_type_of_parameter(profile, parameter)
				 : (struct value_type){ VALUE_PLAIN, width };
	default:
		if (instruction && instruction_float_width(instruction, source) == width)
			return (struct value_type){ VALUE_FLOAT, width };
		if (instruction && instruction_is_byte(instruction, source))
			return (struct value_type){ VALUE_PLAIN, 8 };
		return (struct value_type){ VALUE_PLAIN, width };
	}
}

static struct value_type word_type(const struct sites *sites, const struct site *site,
				   unsigned word, const struct instruction *instruction)
{
	const struct selection_item *item = item_of(sites, site->item);
	unsigned width = word ? 64 : site->width;

	if (!item)
		return (struct value_type){ VALUE_PLAIN, width };
	switch (item->terms[word].fn.kind) {
	case VALUEFN_SELF:
		return source_type(sites->profile, site, item->terms[word].source, width,
				   instruction);
	case VALUEFN_SIGN:
	case VALUEFN_DIFFERENCE:
		return (struct value_type){ VALUE_SIGNED, 64 };
	case VALUEFN_LOG2:
		return (struct value_type){ VALUE_BUCKET, 64 };
	default:
		return (struct value_type){ VALUE_UNSIGNED, 64 };
	}
}

struct value_type site_type(const struct sites *sites, const struct site *site,
			    const struct instruction *instruction)
{
	return word_type(sites, site, 0, instruction);
}

/* "4", or "(0x12007c194 numchanges+0x54, 4)". */
static char *words_text(const struct sites *sites, const struct site *site, const uint64_t *words,
			const struct value_type *types)
{
	struct strbuf buf = {};

	for (unsigned i = 0; i < site->list.words; i++) {
		if (i)
			strbuf_puts(&buf, ", ");
		value_text(sites->profile, types[i], words[i], &buf);
	}
	return buf.text ? buf.text : mem_strdup("");
}

static void value_fill(struct sites *sites, const struct site *site, size_t rank,
		       const struct value_type *types, struct common_value *ret)
{
	struct table *table = sites->table;
	size_t size = site->list.words * sizeof(uint64_t);
	uint64_t *words = table_alloc(table, size);
	struct hotlist_value value;
	struct hotlist_range share;

	hotlist_get(&site->list, rank, &value);
	site_share(site, rank, &share);
	memcpy(words, value.words, size);
	*ret = (struct common_value){
		.words = words,
		.text = table_own(table, words_text(sites, site, words, types)),
		.count = (uint64_t)(share.best * (double)site->list.total + 0.5),
		.first = value.first,
		.share = share.best,
		.low = share.low,
		.high = share.high,
	};
}

/* A list ranks by what it counted, some of it for others. */
static int by_share(const void *a, const void *b)
{
	const struct common_value *left = a, *right = b;

	return (left->share < right->share) - (left->share > right->share);
}

struct cell site_cell(struct sites *sites, const struct site *site,
		      const struct instruction *instruction, const char *label)
{
	size_t count = site->list.count,
	       top = sites->request->top ? sites->request->top : TOP_SHOWN;
	struct value_type types[HOTLIST_WORDS_MAX];
	struct common_values *values =
		table_alloc(sites->table, sizeof(*values) + count * sizeof(struct common_value));

	for (unsigned i = 0; i < site->list.words; i++)
		types[i] = word_type(sites, site, i, instruction);
	values->label = label;
	values->words = site->list.words;
	values->count = count;
	values->shown = count < top ? count : top;
	for (size_t i = 0; i < count; i++)
		value_fill(sites, site, i, types, &values->items[i]);
	qsort(values->items, count, sizeof(values->items[0]), by_share);
	return cell_values(values);
}

const char *site_register(struct sites *sites, const struct site *site,
			  const struct instruction *instruction)
{
	enum selection_source source;

	if (!instruction || !site_source(sites, site, &source))
		return NULL;
	return instruction_register(instruction, source);
}

const char *site_label(struct sites *sites, const struct site *site,
		       const struct instruction *instruction)
{
	const char *name = site_register(sites, site, instruction);
	const char *item = sites->items[site->item].text;
	enum selection_source source;

	if (!site_source(sites, site, &source) || !instruction)
		return item;
	if (!name)
		return source == SELECTION_RESULT && instruction_is_memory(instruction, source)
			       ? "memory"
			       : item;
	if (source == SELECTION_RESULT || source == SELECTION_STORED)
		return name;
	return table_own(sites->table, mem_printf("%s %s", item, name));
}

const char *site_place_text(struct table *table, const struct profile *profile, uint32_t location)
{
	struct strbuf buf = {};

	value_place_text(profile, location, &buf);
	return table_own(table, buf.text);
}

/* The innermost function's line, inlined or not. */
static void line_fill(const struct profile *profile, uint32_t location, struct cell *ret_file,
		      struct cell *ret_line)
{
	const struct profile_location *place = &profile->locations[location];
	const struct profile_frame *frame =
		place->frame_count ? &profile->frames[place->first_frame] : NULL;

	*ret_file = cell_text_or_unset(frame ? name_of_file(profile, frame->file) : NULL);
	if (ret_file->set && frame->line)
		*ret_line = cell_integer(frame->line);
}

void site_place_fill(struct cell *cells, const struct profile *profile, uint32_t location)
{
	const struct profile_location *place = &profile->locations[location];

	cells[PLACE_SYMBOL] =
		cell_text(name_of_symbol(profile, location_function(profile, location)));
	cells[PLACE_MODULE] = cell_text(name_of_module(profile, place->module));
	cells[PLACE_ADDRESS] = cell_number(place->address);
	line_fill(profile, location, &cells[PLACE_FILE], &cells[PLACE_LINE]);
}

void site_caller_fill(struct cell *cells, const struct profile *profile, uint32_t location)
{
	cells[CALLER_ADDRESS] = cell_number(profile->locations[location].address);
	cells[CALLER_SYMBOL] =
		cell_text(name_of_symbol(profile, location_function(profile, location)));
	line_fill(profile, location, &cells[CALLER_FILE], &cells[CALLER_LINE]);
}

struct cell site_line_cell(struct table *table, const struct cell *cells)
{
	const char *file = cells[PLACE_FILE].set ? cells[PLACE_FILE].text : NULL, *slash;
	uint32_t line = cells[PLACE_LINE].set ? (uint32_t)cells[PLACE_LINE].integer : 0;

	if (!file)
		return (struct cell){};
	slash = strrchr(file, '/');
	return cell_text(view_place_text(table, slash ? slash + 1 : file, line));
}
